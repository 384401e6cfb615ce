"""What fills a window, weighed with a counter that counts characters."""

from __future__ import annotations

import json

from clew.messages import Message
from clew.testing import assistant, call, system, tool, user
from clew.tokens.window_contents import ContentShare, measure_window

PICTURE = {"type": "image_url", "image_url": {"url": "https://example.test/a.png"}}
THOUGHT = {"type": "thinking", "thinking": "h" * 70, "signature": "s"}


def count(message: Message) -> int:
    """One token of framing, and one per character of what is said."""
    content = message.get("content")
    tokens = 1 + (len(content) if isinstance(content, str) else 0)
    for part in content if isinstance(content, list) else ():
        tokens += 500 if part["type"] == "image_url" else len(part["text"])
    for thought in message.get("reasoning") or ():
        tokens += len(thought["thinking"])
    return tokens + sum(len(json.dumps(each)) for each in message.get("tool_calls") or ())


def weighed(messages: list[Message], top: int = 10, tools: ContentShare | None = None) -> dict[str, tuple[int, int]]:
    use = measure_window(messages, [count(message) for message in messages], count, tools, top)
    return {share.kind: (share.tokens, share.count) for share in use.shares}


def test_every_token_belongs_to_one_kind() -> None:
    messages = [system("s" * 9), user("u" * 19), assistant("a" * 29), tool("call_1", "t" * 39)]
    assert weighed(messages, tools=ContentShare("tools", 50, 2)) == {
        "system": (10, 1),
        "tools": (50, 2),
        "user": (20, 1),
        "assistant": (30, 1),
        "tool results": (40, 1),
    }


def test_reasoning_and_images_are_taken_out_of_their_messages() -> None:
    thinking = assistant("a" * 9)
    thinking["reasoning"] = [THOUGHT]
    looking = user([{"type": "text", "text": "u" * 9}, PICTURE, PICTURE])
    assert weighed([looking, thinking]) == {
        "user": (10, 1),
        "assistant": (10, 1),
        "reasoning": (70, 1),
        "images": (1000, 2),
    }


def test_a_developer_message_counts_as_system_and_an_unknown_role_as_user() -> None:
    strange: Message = {"role": "critic", "content": "x"}  # type: ignore[typeddict-item]
    assert weighed([{"role": "developer", "content": "d"}, strange]) == {"system": (2, 1), "user": (2, 1)}


def test_the_largest_messages_come_first_with_the_tool_and_the_first_words() -> None:
    messages = [
        user("short"),
        assistant(None, [call("read_file", {"path": "a.py"}, id="c1"), call("terminal", {}, id="c2")]),
        tool("c1", "\n\n  def main():\n" + "x" * 500),
        tool("c2", "y" * 90),
        tool("lost", "z" * 10),
    ]
    use = measure_window(messages, [count(message) for message in messages], count, top=4)
    assert [(each.index, each.role, each.tool) for each in use.largest] == [
        (2, "tool", "read_file"),
        (1, "assistant", "read_file, terminal"),
        (3, "tool", "terminal"),
        (4, "tool", None),
    ]
    assert use.largest[0].opening.startswith("def main():")
    assert use.largest[1].opening == '{"path": "a.py"}'


def test_nothing_weighs_nothing() -> None:
    use = measure_window([], [], count)
    assert (use.tokens, use.shares, use.largest) == (0, (), ())


def test_broken_calls_do_not_stop_the_weighing() -> None:
    broken = {"role": "assistant", "content": None, "tool_calls": [{"function": None}, {"id": "x"}, "?", None]}
    (largest,) = measure_window([broken], [5], count).largest  # type: ignore[list-item]
    assert largest.tool == "?"
