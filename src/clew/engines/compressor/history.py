"""A history as the compressor reads it: repaired, its messages numbered and counted, the facts in it on record.

Numbers continue counting over compactions: m12 is the same message for as long as the conversation lasts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, compress, count, islice, takewhile
from operator import itemgetter
from typing import Any

from clew.facts import Record, person_text
from clew.handoff import WrappedSummary, unwrap
from clew.messages import (
    Message,
    Repaired,
    as_sequence,
    calls_of,
    images_of,
    is_plain,
    is_valid_message,
    plain_message,
    repair,
    text_of,
)
from clew.redact import redact_messages
from clew.tokens import count_each, counter_for

_PROMPT_ROLES = frozenset({"system", "developer"})
_WRITTEN_ROLES = frozenset({"user", "assistant"})
_SUMMARY_WITHIN = 200
_COMPARED_CHARS = 40
_READ_TOGETHER = 32
UNNUMBERED = -1
"""In place of a number: a leading system message, which is no part of the history."""
_LEFT_OUT: Message = {"role": "user", "content": ""}


@dataclass(frozen=True, slots=True)
class NumberedHistory:
    """The messages of a repaired history, without an earlier summary among them, and their numbers."""

    messages: Sequence[Message]
    numbers: Sequence[int]
    next_number: int
    """Of the message that follows them."""
    earlier: WrappedSummary | None = None
    """The summary of the last compaction, where there was one."""
    position: int = 0
    """Where the earlier summary was."""
    has_store: bool = True
    """Whether the originals can be opened by their numbers."""

    @property
    def references(self) -> Sequence[int | None]:
        """For each message the number that its original can be opened by; None where it cannot."""
        return self.numbers if self.has_store else [None] * len(self.numbers)

    @property
    def first_unread(self) -> int:
        """The first number that no summary covers yet, apart from the head."""
        return self.earlier.last if self.earlier else 0

    @property
    def has_handoff(self) -> bool:
        """Whether the earlier summary was a separate message."""
        return self.earlier is not None and self.earlier.message is None

    def following(self, position: int) -> tuple[int, ...]:
        """The numbers from a position on, and the next one; empty where they count on without a gap."""
        numbers = (*self.numbers[position:], self.next_number)
        return () if numbers == tuple(range(numbers[0], numbers[0] + len(numbers))) else numbers

    def leading(self, position: int) -> tuple[int, ...]:
        """The numbers up to a position; empty where they count from 0 without a gap."""
        numbers = tuple(number for number in self.numbers[:position] if number != UNNUMBERED)
        return () if numbers == tuple(range(len(numbers))) else numbers

    def repaired_position(self, position: int) -> int:
        """The position of a message in the repaired history that this was made from."""
        return position + 1 if self.has_handoff and position >= self.position else position


@dataclass(frozen=True, slots=True)
class CountedHistory:
    """The messages that a compaction is asked for, repaired, numbered and counted: once for all plans of them."""

    source: Sequence[Message]
    repaired: Repaired
    numbered: NumberedHistory
    sizes: Sequence[int]
    """Of the messages of `numbered`."""
    tokens: int
    """Of `source`."""
    prompts: Sequence[int]
    """Where system messages are among those of `numbered`."""


def read_history(source: Sequence[Message], sizes: MessageSizes, *, has_store: bool = True) -> CountedHistory:
    """The history of messages that are plain dicts; without a store, leading system messages have no number."""
    # Calls at the end still wait for their results: the history comes back open there.
    repaired = repair(source, open_end=True, checked=sizes.checked)
    prompts = 0 if has_store else sum(1 for _ in takewhile(is_prompt, source))
    numbered = number_history(repaired.messages, repaired.indexes, len(source), prompts)
    each = sizes.each(numbered.messages)
    tokens = sum(each) if numbered.messages is source else sizes.total(source)
    numbered = numbered if has_store else replace(numbered, has_store=False)
    return CountedHistory(source, repaired, numbered, each, tokens, prompts_in(numbered.messages))


def is_prompt(message: Message) -> bool:
    return message["role"] in _PROMPT_ROLES


def prompts_in(messages: Sequence[Message]) -> list[int]:
    """The positions of system messages."""
    return list(compress(count(), map(_PROMPT_ROLES.__contains__, map(itemgetter("role"), messages))))


def newest_visible(messages: Sequence[Message]) -> list[int]:
    """The newest message of a person, and the newest reply that a person saw.

    Where programs wrote all messages in the user role, the newest of those.
    """
    positions = range(len(messages) - 1, -1, -1)
    users = [position for position in positions if messages[position]["role"] == "user"]
    user = next((at for at in users if _is_of_person(messages[at])), users[0] if users else None)
    reply = next((position for position in positions if _is_visible(messages[position])), None)
    # A reply with calls cannot stand without their results; it lies before the tail only when those are huge.
    alone = reply is not None and not calls_of(messages[reply])
    return sorted({position for position in (user, reply if alone else None) if position is not None})


def _is_of_person(message: Message) -> bool:
    return bool(images_of(message)) or bool(person_text(text_of(message), message.get("name", "")))


def _is_visible(message: Message) -> bool:
    return message["role"] == "assistant" and bool(text_of(message).strip())


def number_history(
    messages: Sequence[Message], indexes: Sequence[int] | None = None, end: int | None = None, prompts: int = 0
) -> NumberedHistory:
    """Find the earlier summary, if there is one, and number the messages.

    `indexes` are the positions of the messages before the repair, and `end` is how many there were: a number is that
    of the message as received, whatever was removed or put in before it. The first `prompts` messages are system
    messages that are no part of the history: m0 is the one behind them.
    """
    came = range(len(messages)) if indexes is None else indexes
    end = len(messages) if end is None else end
    if prompts:
        came, end = [max(index - prompts, UNNUMBERED) for index in came], end - prompts
    # A summary is near the start: behind the system prompt and the head.
    for position, message in enumerate(islice(messages, _SUMMARY_WITHIN)):
        wrapped = unwrap(message) if message["role"] in ("user", "assistant") else None
        if wrapped:
            merged = [wrapped.message] if wrapped.message else []
            rest = [*messages[:position], *merged, *messages[position + 1 :]]
            first = came[position] + 1 - len(merged)
            behind = _numbers_behind(wrapped, end - first + 1)
            numbers = [behind[index - first] for index in came[position + 1 - len(merged) :]]
            before = dict(enumerate(wrapped.leading))
            leading = [before.get(index, index) for index in came[:position]]
            return NumberedHistory(rest, [*leading, *numbers], behind[-1], wrapped, position)
    return NumberedHistory(messages, came, end)


def _numbers_behind(earlier: WrappedSummary, many: int) -> list[int]:
    """The numbers of so many messages behind an earlier summary: those it kept, those it named, then later ones."""
    *named, following = earlier.following or (earlier.last,)
    return list(islice(chain(earlier.kept, named, count(following)), many))


class MessageSizes:
    """The sizes of messages for one model, each counted once. A cache: it can be thrown away at any time."""

    def __init__(self, model: str | None) -> None:
        self.model = model
        self.checked: set[int] = set()
        """The ids of messages that were found valid, each alone."""
        self._counter = counter_for(model)
        self._sizes: dict[int, int] = {}
        """By the ids of the messages that were counted."""
        self._counted: list[Message] = []
        """Kept for as long as their sizes: the id of one must not become another's."""

    def read(self, messages: Sequence[Any]) -> Sequence[Message]:
        """The messages as plain dicts; the very sequence where they are. Those that were counted before are."""
        listed = messages if isinstance(messages, list | tuple) else as_sequence(messages)
        is_known = self._sizes.__contains__
        if all(map(is_known, map(id, listed))) or all(is_known(id(it)) or is_plain(it) for it in listed):
            return listed
        return [plain_message(message, index) for index, message in enumerate(listed)]

    def each(self, messages: Sequence[Message]) -> list[int]:
        """The size of every message, in order."""
        sizes = self._sizes
        try:
            # A long history is asked for several times in a compaction, and all of it is nearly always known.
            return list(map(sizes.__getitem__, map(id, messages)))
        except KeyError:
            unknown = [message for message in messages if id(message) not in sizes]
        self._counted += unknown
        sizes.update(zip(map(id, unknown), count_each(unknown, self.model), strict=True))
        return list(map(sizes.__getitem__, map(id, messages)))

    def count_and_check(self, messages: Sequence[Message]) -> None:
        """What a compaction would do for each of these messages, done as they arrive."""
        self.each(messages)
        self.checked.update(id(message) for message in messages if is_valid_message(message))

    def total(self, messages: Sequence[Message]) -> int:
        return sum(self.each(messages))

    def message(self, message: Message) -> int:
        """The size of a message; one that was not counted before may never be seen again, and is not remembered."""
        known = self._sizes.get(id(message))
        return self._counter.message(message) if known is None else known

    def text(self, text: str) -> int:
        return self._counter.text(text)


def read_from(log: Mapping[int, Message], number: int) -> Message:
    """The message of a number; an empty one where a repair left it out, so that numbers can be read without a gap."""
    return log.get(number, _LEFT_OUT)


class HistoryRecord:
    """The original messages by number and their record, kept up as messages arrive.

    Whatever is quoted is redacted first, and whole: requests, replies and calls before the record reads them, tool
    results before the record takes a text from them or `read` returns them. Most results are neither quoted nor read,
    and are not searched. A cache: without it the record is made anew, of the messages that are still there.
    """

    def __init__(self) -> None:
        self.record = Record(self._redacted_result)
        self.log: dict[int, Message] = {}
        self._redacted: dict[int, Message] = {}
        """The messages that were searched, without their secrets."""

    @classmethod
    def of(cls, messages: Sequence[Message], numbers: Sequence[int] | None = None) -> HistoryRecord:
        """The record of a history that is read at once, from its first message on."""
        record = cls()
        if numbers is not None:
            messages, numbers = _numbered(messages, numbers)
        record._add(messages, range(len(messages)) if numbers is None else numbers)
        return record

    def append(self, messages: Sequence[Message]) -> None:
        first = self.record.next_number
        self._add(messages, range(first, first + len(messages)))

    def _add(self, messages: Sequence[Message], numbers: Sequence[int]) -> None:
        # A stub has the number of the message that called, which precedes it and is the one to read.
        self.log.update(zip(reversed(numbers), reversed(messages), strict=True))
        written = [at for at, message in enumerate(messages) if message["role"] in _WRITTEN_ROLES]
        clean = list(messages)
        for at, message in zip(written, redact_messages([messages[at] for at in written]), strict=True):
            clean[at] = message
        self._redacted.update((numbers[at], clean[at]) for at in reversed(written))
        for message, number in zip(clean, numbers, strict=True):
            self.record.add(message, number)

    def catch_up(self, messages: Sequence[Message], numbers: Sequence[int]) -> bool:
        """Append what is new; False when these messages do not continue the ones on record."""
        messages, numbers = _numbered(messages, numbers)
        known = self.record.next_number
        # A stub has the number of the message that called, which precedes it.
        newest = list(accumulate(numbers, max))
        stubs = [
            at for at, (before, number) in enumerate(zip(newest, numbers[1:], strict=False), 1) if number <= before
        ]
        if stubs:
            own = sorted(set(range(len(numbers))).difference(stubs))
            messages, numbers = [messages[at] for at in own], [numbers[at] for at in own]
        new = [message for message, number in zip(messages, numbers, strict=True) if number >= known]
        if not known or not self._knows(messages, numbers) or numbers[-1] + 1 - known != len(new):
            return False
        self.append(new)
        return True

    def read(self, number: int) -> Message:
        """The message of a number, without secrets. It is searched when it is first read, with others beside it."""
        if number not in self._redacted:
            block = number - number % _READ_TOGETHER
            new = [
                near for near in range(block, block + _READ_TOGETHER) if near in self.log and near not in self._redacted
            ]
            self._redacted.update(zip(new, redact_messages([self.log[near] for near in new]), strict=True))
        return self._redacted.get(number, _LEFT_OUT)

    def _redacted_result(self, message: Message, number: int) -> Message:
        """The message without secrets; a stub is not the message of its number in the log."""
        (clean,) = redact_messages([message])
        if self.log.get(number) is message:
            self._redacted[number] = clean
        return clean

    def _knows(self, messages: Sequence[Message], numbers: Sequence[int]) -> bool:
        """Whether each message is the one on record under its number, or may be a shorter copy of it."""
        known = self.record.next_number
        numbered = (
            (self.log.get(number), message) for message, number in zip(messages, numbers, strict=True) if number < known
        )
        return all(
            original is message or (original is not None and _may_be_copy(original, message))
            for original, message in numbered
        )


def _numbered(messages: Sequence[Message], numbers: Sequence[int]) -> tuple[Sequence[Message], Sequence[int]]:
    """The messages that have a number, and their numbers."""
    first = next((at for at, number in enumerate(numbers) if number != UNNUMBERED), len(numbers))
    return (messages[first:], numbers[first:]) if first else (messages, numbers)


def _may_be_copy(original: Message, message: Message) -> bool:
    """Whether a message may be the original with a note, cut short, pruned or without its pictures."""
    if any(original.get(key) != message.get(key) for key in ("role", "tool_call_id")):
        return False
    if [call.get("id") for call in calls_of(original)] != [call.get("id") for call in calls_of(message)]:
        return False
    if message["role"] == "tool" or images_of(original):
        return True
    return text_of(message).startswith(text_of(original)[:_COMPARED_CHARS])
