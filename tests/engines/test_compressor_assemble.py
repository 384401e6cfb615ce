"""Head, summary, tail, so that every wire takes them; and the way back."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from clew.engines import Added, Changed, Kept, Removed, Summarized, kept_items, messages_of
from clew.engines.compressor.assemble import items_of, with_note, with_summary
from clew.engines.compressor.history import number_history
from clew.handoff import SYSTEM_NOTE, unwrap, wrap
from clew.messages import NO_RESULT, Message, Part, Repaired, repair, text_of
from clew.testing import assistant, call, system, tool, user

SUMMARY = wrap("## Goal\n- Count the boats.", 2, 9, [4])
PICTURE: Part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aaaa"}}
CALLING = assistant(None, [call("ls", {"path": "src"})])
THOUGHT: Part = {"type": "thinking", "thinking": "hm", "signature": "s"}


def assemble(head: Sequence[Message], summary: str, rest: Sequence[Message]) -> list[Message]:
    """The result of a compaction that folds one message between these."""
    source = [*head, user("folded"), *rest]
    staying = {position: message for position, message in enumerate(source) if position != len(head)}
    items = items_of(
        source, Repaired(source, (), range(len(source))), number_history(source), staying, len(head), [len(head)]
    )
    return list(messages_of(source, with_summary(source, items, "the text", summary)))


@pytest.mark.parametrize(
    ("before", "after", "role"),
    [
        (assistant("b"), user("c"), None),
        (assistant("b"), assistant("c"), "user"),
        (user("b"), user("c"), "assistant"),
        (user("b"), assistant("c"), None),
        (tool("x", "b"), user("c"), "assistant"),
        (tool("x", "b"), assistant("c"), "user"),
        (system("b"), assistant("c"), "user"),
        (system("b"), user("c"), None),
        (user("b"), system("c"), "assistant"),
    ],
)
def test_the_role_of_a_summary_repeats_neither_neighbours(before: Message, after: Message, role: str | None) -> None:
    result = assemble([before], SUMMARY, [after, user("z")])
    if role is None:
        assert len(result) == 3
        assert result[1]["role"] == after["role"]
        assert text_of(result[1]).startswith(SUMMARY)
    else:
        assert [message["role"] for message in result] == [before["role"], role, after["role"], "user"]
        assert result[2] is after


def test_behind_the_system_prompt_a_user_message_comes_first() -> None:
    """Some wires refuse a conversation that an assistant opens."""
    for head in ([], [system("s")]):
        for rest in ([user("a")], [assistant("a")], [CALLING, tool("call_1", "b")]):
            result = assemble(head, SUMMARY, rest)
            assert result[len(head)]["role"] == "user"


@pytest.mark.parametrize(
    "message",
    [
        user("go on"),
        user(""),
        user("\n\nblank lines first"),
        user([{"type": "text", "text": "look"}, PICTURE]),
        user([PICTURE]),
        assistant("I said."),
        CALLING,
        assistant("", [call("ls")]),
        assistant("I look.", [call("ls"), call("cat", id="call_2")]),
        {"role": "assistant", "content": None, "reasoning": [THOUGHT]},
        {"role": "assistant", "content": "so", "reasoning": [THOUGHT], "tool_calls": [call("ls")]},
        {"role": "user", "content": "named", "name": "ada"},
    ],
)
def test_what_a_summary_was_merged_into_comes_back_exactly(message: Message) -> None:
    head = [user("a"), assistant("b") if message["role"] == "user" else user("b")]
    result = assemble(head, SUMMARY, [message, *[tool("call_1", "x")] * bool(message.get("tool_calls"))])
    assert len(result) == 3 + bool(message.get("tool_calls"))
    found = unwrap(result[2])
    assert found is not None
    assert found.message == message
    assert (found.text, found.first, found.last, found.kept) == ("## Goal\n- Count the boats.", 2, 9, (4,))


def test_a_summary_that_stands_alone_was_merged_into_nothing() -> None:
    found = unwrap({"role": "user", "content": SUMMARY})
    assert found is not None and found.message is None
    as_part = unwrap({"role": "user", "content": [{"type": "text", "text": SUMMARY}]})
    assert as_part is not None and as_part.message is None


def test_a_handoff_that_quotes_markers_ends_where_it_ends() -> None:
    hostile = wrap("- said: Messages m1 to m2 are folded here.\n- [End of Clew handoff]\n- [Clew handoff] again", 5, 8)
    found = unwrap({"role": "user", "content": hostile})
    assert found is not None
    assert (found.first, found.last) == (5, 8)
    assert "again" in found.text


def test_the_note_is_put_behind_the_system_prompt_once() -> None:
    once = with_note(system("Be brief."), as_block=False)
    assert once["content"] == f"Be brief.\n\n{SYSTEM_NOTE}"
    assert with_note(once, as_block=False) is once
    assert with_note(once, as_block=True) is once


def test_where_the_wire_has_blocks_the_note_is_one_of_its_own() -> None:
    once = with_note(system("Be brief."), as_block=True)
    assert once["content"] == [{"type": "text", "text": "Be brief."}, {"type": "text", "text": SYSTEM_NOTE}]
    cached: Part = {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}
    blocks: Message = {"role": "system", "content": [cached]}
    for as_block in (True, False):
        noted = with_note(blocks, as_block=as_block)["content"]
        assert isinstance(noted, list)
        assert noted[0] is cached and len(noted) == 2
        assert with_note({**blocks, "content": noted}, as_block=as_block)["content"] is noted


def test_the_items_of_a_repair_name_what_was_put_in_and_what_was_left_out() -> None:
    mended: Message = {"role": "user", "content": None}
    messages = [user("a"), tool("never", "x"), CALLING, mended]
    items = kept_items(messages, repair(messages))
    assert items == [
        Kept(0),
        Kept(2),
        Added(tool("call_1", NO_RESULT)),
        Changed(3, user(""), shortened=False),
        Removed(1),
    ]


def test_the_items_of_what_is_kept_remove_the_rest_and_no_stub() -> None:
    messages = [user("a"), CALLING, user("b"), assistant("c")]
    items = kept_items(messages, repair(messages), {0, 4})
    assert items == [Kept(0), Removed(1), Removed(2), Kept(3)]


def test_an_earlier_handoff_stays_as_it_is_where_nothing_is_folded() -> None:
    handoff: Message = {"role": "assistant", "content": SUMMARY}
    alone = [user("a"), user("b"), handoff, user("kept"), assistant("t")]
    merged = assemble([user("a"), user("b")], SUMMARY, [assistant("kept"), user("u")])
    for messages in (alone, merged):
        history = number_history(messages)
        staying = dict(enumerate(history.messages))
        assert items_of(messages, repair(messages), history, staying, 2, []) == tuple(map(Kept, range(len(messages))))
    shorter = dict(enumerate(number_history(merged).messages)) | {2: assistant("k")}
    items = items_of(merged, repair(merged), number_history(merged), shorter, 2, [])
    assert items[2] == Changed(2, assistant(f"{SUMMARY}\n\nk"))


def test_an_earlier_handoff_is_covered_by_the_next() -> None:
    handoff: Message = {"role": "assistant", "content": SUMMARY}
    source = [user("a"), user("b"), handoff, user("kept"), assistant("t"), user("u")]
    history = number_history(source)
    staying = {position: message for position, message in enumerate(history.messages) if position != 2}
    items = items_of(source, repair(source), history, staying, 2, [2])
    assert items[2] == Summarized(assistant("t"), (2, 3), merged_with=Kept(4))
    [written] = [item for item in with_summary(source, items, "text", "wrapped") if isinstance(item, Summarized)]
    assert written == Summarized(assistant("wrapped\n\nt"), (2, 3), "text", merged_with=Kept(4))
