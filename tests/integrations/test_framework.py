"""Message objects of a framework through a projection, with a framework that is no more than what is needed for it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from clew.integrations.blocks import BlockFormat
from clew.integrations.framework import (
    FittedMessages,
    FrameworkConversations,
    MessageFormat,
    OnceForEqual,
    picture_part,
    text_part,
    tool_call,
    tool_message,
)
from clew.messages import Message, ToolCall, arguments_of_call, name_of_call, text_of
from clew.usage import CanonicalUsage

WINDOW = 16_000


@dataclass(eq=False)
class Note:
    """A message of the framework: who says it, and blocks. It knows no equality."""

    by: str
    blocks: list[dict[str, Any]] = field(default_factory=list)


class NoteBlocks(BlockFormat):
    def open(self, item: Note) -> tuple[str, list[dict[str, Any]]]:
        return "assistant" if item.by == "model" else item.by, item.blocks

    def build(self, role: str, blocks: list[Any], came: Note | None) -> Note:
        return Note("model" if role == "assistant" else "person", blocks)

    def read_result(self, block: Any) -> Message | None:
        return tool_message(block["of"], block["result"]) if "result" in block else None

    def read_call(self, block: Any) -> ToolCall | None:
        return tool_call(block["id"], block["call"], block["with"]) if "call" in block else None

    def read_thinking(self, block: Any) -> dict[str, Any] | None:
        return {"type": "thinking", "thinking": block["thought"]} if "thought" in block else None

    def read_part(self, block: Any) -> dict[str, Any] | None:
        if "picture" in block:
            return picture_part(data=block["picture"])
        return text_part(block["text"]) if "text" in block else None

    def write_result(self, message: Message, came: Any) -> Any:
        return {**(came or {}), "of": message.get("tool_call_id"), "result": text_of(message)}

    def write_call(self, call: ToolCall, came: Any) -> Any:
        return {**(came or {}), "id": call["id"], "call": name_of_call(call), "with": arguments_of_call(call)}

    def write_text(self, text: str) -> Any:
        return {"text": text}


FORMAT = NoteBlocks().format()


def rounds(first: int, count: int) -> list[Note]:
    """Two calls at a time with thinking, their results in one message; now and then a question, or nothing at all."""
    notes = [] if first else [Note("person", [{"text": "TASK-1: read all parts."}, {"picture": "aGVsbG8="}])]
    for at in range(first, first + count):
        calls = [{"id": f"c{at}-{n}", "call": "read_part", "with": {"part": at, "n": n}} for n in range(2)]
        notes.append(Note("model", [{"thought": "Hm."}, {"text": "I read on."} if at % 3 == 0 else {}, *calls]))
        results = [{"of": f"c{at}-{n}", "result": f"value_{at}_{n} = {at * 37}\n" + "x = 1\n" * 100} for n in range(2)]
        notes.append(Note("person", [*results, {"text": f"Go on with {at + 1}."}] if at % 4 == 0 else results))
        notes += [Note("model"), Note("person")] if at % 7 == 0 else []
    return notes


def as_json(notes: Sequence[Note]) -> list[str]:
    return [json.dumps([note.by, note.blocks]) for note in notes]


def assert_paired(notes: Sequence[Note]) -> None:
    blocks = [block for note in notes for block in note.blocks]
    assert [block["of"] for block in blocks if "result" in block] == [
        block["id"] for block in blocks if "call" in block
    ]


Opened = Callable[..., FrameworkConversations]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Makes conversations, and closes them."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(closing(FrameworkConversations(FORMAT, **options)))


def test_objects_come_back_as_they_are_until_something_is_folded_and_then_the_prefix_stays(opened: Opened) -> None:
    conversations = opened(context_length=WINDOW)
    history: list[Note] = []
    shown: list[list[str]] = []
    for at in range(60):
        history += rounds(at, 1)
        fitted = conversations.fit(history, system="You read.", tools=[])
        assert fitted.messages[-1] is history[-1]
        if not fitted.is_folded:
            assert all(one is other for one, other in zip(fitted.messages, history, strict=True))
        assert_paired(fitted.messages)
        assert "TASK-1" in str(fitted.messages[0].blocks)
        shown.append(as_json(fitted.messages))
    (view,) = conversations.projections
    moved = sum(later[: len(one)] != one for one, later in pairwise(shown))
    assert moved == len(view.compactions) >= 2
    known = {id(note) for note in history}
    assert sum(id(note) in known for note in fitted.messages) > len(fitted.messages) // 2
    written = [note for note in fitted.messages if id(note) not in known and len(note.blocks) > 2]
    assert all(note.blocks[0] == {"thought": "Hm."} for note in written if note.by == "model")
    assert conversations.fit(history).messages == fitted.messages


def test_copies_of_the_objects_are_the_same_conversation_and_the_newest_copies_come_back(opened: Opened) -> None:
    conversations = opened(context_length=WINDOW)
    history = rounds(0, 40)
    first = conversations.fit(history)
    copied = copy.deepcopy(history)
    again = conversations.fit(copied)
    assert as_json(again.messages) == as_json(first.messages)
    assert {id(note) for note in history}.isdisjoint(map(id, again.messages))
    assert {id(note) for note in copied} & set(map(id, again.messages))
    assert len(conversations.projections) == 1


def test_a_prompt_that_changes_between_calls_is_no_part_of_the_history(opened: Opened) -> None:
    conversations = opened(context_length=WINDOW)
    for day in range(3):
        prompt = Note("system", [{"text": f"It is day {day}."}])
        fitted = conversations.fit([prompt, *rounds(0, 40 + day)])
        assert fitted.messages[0] is prompt
    assert len(conversations.projections) == 1


def test_an_edited_message_is_a_branch_and_the_former_history_is_found_again(opened: Opened) -> None:
    conversations = opened(context_length=WINDOW)
    history = rounds(0, 40)
    first = as_json(conversations.fit(history).messages)
    edited = [*history[:-1], Note("person", [{"text": "Something else."}])]
    assert conversations.fit(edited).messages[-1] is edited[-1]
    assert as_json(conversations.fit(history).messages) == first
    assert len(conversations.projections) == 2


def test_names_keep_conversations_apart_that_begin_alike(opened: Opened) -> None:
    conversations = opened(context_length=WINDOW)
    history = rounds(0, 2)
    for name in ("one", "two"):
        conversations.fit(history, name=name)
    assert [it.session for it in conversations.projections] == ["one", "two"]


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
async def test_a_host_may_keep_what_it_was_given_also_over_a_restart(
    opened: Opened, tmp_path: Path, keeps: bool, restarts: bool
) -> None:
    """`keeps`: the host goes on with what it was given back, and not with the whole history."""
    store = tmp_path / "clew.db"
    conversations = opened(context_length=WINDOW, store=store)
    host: list[Note] = []
    shown: list[list[str]] = []
    for at in range(80):
        host += copy.deepcopy(rounds(at, 1)) if restarts else rounds(at, 1)
        fitted = await conversations.afit(host, name="thread")
        assert_paired(fitted.messages)
        shown.append(as_json(fitted.messages))
        host = list(fitted.messages) if keeps else host
        if restarts and at % 10 == 9:
            conversations.close()
            conversations = opened(context_length=WINDOW, store=store)
            host = copy.deepcopy(host)
    await conversations.afit(host, name="thread")
    (view,) = conversations.projections
    moved = sum(later[: len(one)] != one for one, later in pairwise(shown))
    assert moved == len(view.compactions) >= 3
    assert (len(host) < 80) is keeps
    assert "value_3_0 = 111" in text_of(view.recall("value_3_0")[0].message)
    assert len(view.history) > 200


async def test_usage_is_observed_for_the_call_or_for_the_messages_that_were_sent(opened: Opened) -> None:
    conversations = opened(context_length=64_000)
    history = rounds(0, 12)
    fitted: FittedMessages = conversations.fit(history)
    assert not fitted.is_folded
    fitted.observe(None)
    fitted.observe(CanonicalUsage(input_tokens=60_000))
    after = await conversations.afit([*history, *rounds(12, 1)])
    assert after.is_folded
    await after.aobserve(CanonicalUsage(input_tokens=3_000))
    conversations.observe(after.messages, CanonicalUsage(input_tokens=3_000))
    await conversations.aobserve(after.messages, None)
    assert len(conversations.projections) == 1


def test_it_folds_when_it_is_told_to(opened: Opened) -> None:
    conversations = opened(context_length=64_000)
    history = rounds(0, 20)
    assert conversations.compact(history) is True
    assert conversations.fit(history).is_folded


def test_tools_are_described_once_for_as_long_as_they_are_equal() -> None:
    asked: list[Any] = []

    def count(tools: list[Any]) -> list[int]:
        asked.append(tools)
        return [len(tools)]

    describe = OnceForEqual(count)
    assert describe([1, 2]) is describe([1, 2])
    assert describe(None) == [0]
    assert len(asked) == 2


class SdkContent:
    """A content of Gemini's wire as an object of an SDK: it is read by `to_dict`, and is no dict."""

    def __init__(self, role: str, text: str) -> None:
        self.role, self.text = role, text

    def to_dict(self) -> dict[str, Any]:
        return {"role": self.role, "parts": [{"text": self.text}]}


def test_a_framework_may_have_contents_of_an_sdk_as_its_messages() -> None:
    def write(messages: Sequence[Any], _: Any) -> Any:
        (content,) = messages
        return content if isinstance(content, SdkContent) else SdkContent("user", json.dumps(content))

    format = MessageFormat(lambda item: [item], write, dialect="gemini")
    with closing(FrameworkConversations(format, context_length=WINDOW)) as conversations:
        contents = [
            SdkContent(role, f"{role} {number}: " + "the lamp is on, the oil is low. " * 40)
            for number in range(60)
            for role in ("user", "model")
        ]
        fitted = conversations.fit(contents)
    assert fitted.is_folded and len(fitted.messages) < len(contents)
    assert fitted.messages[-1] is contents[-1]
    assert any(content not in contents for content in fitted.messages)
