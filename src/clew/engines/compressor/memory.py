"""What the compressor remembers of a conversation: strikes against loops, over restarts; and the record so far.

Knows no budgets: it is told what a compaction freed and whether the request fits now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from clew.ledger import Ledger
from clew.messages import Message, calls_of, images_of, text_of

MOST_STRIKES = 2
_LEAST_FREED = 0.10
_GROWTH_THAT_FORGIVES = 0.10
_OPENING_CHARS = 40


@dataclass(frozen=True, slots=True)
class Strikes:
    """Compactions in a row that did not help, and how large the request was left by the last one."""

    count: int = 0
    left_at: int = 0
    compactions: int = 0

    def after(self, before: int, after: int, threshold: int) -> Strikes:
        """One more compaction: a strike when it freed too little, or left the request over the threshold."""
        helped = before - after >= _LEAST_FREED * before and after < threshold
        return Strikes(0 if helped else self.count + 1, after, self.compactions + 1)

    def in_vain(self, tokens: int, threshold: int) -> Strikes:
        """Nothing could be changed: a strike where something should have been."""
        return replace(self, count=self.count + 1, left_at=tokens) if tokens >= threshold else self

    def forgiven(self, tokens: int, threshold: int) -> Strikes:
        """The history has grown since, so there may be something to gain again."""
        if self.count and tokens - self.left_at >= _GROWTH_THAT_FORGIVES * threshold:
            return replace(self, count=0)
        return self

    @property
    def out(self) -> bool:
        return self.count >= MOST_STRIKES

    def as_json(self) -> dict[str, int]:
        return {"strikes": self.count, "left_at": self.left_at, "compactions": self.compactions}

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> Strikes:
        figures = [values.get(key, 0) for key in ("strikes", "left_at", "compactions")]
        return cls(*(figure if type(figure) is int and figure > 0 else 0 for figure in figures))


class Record:
    """The original messages by number and their ledger, kept up as messages arrive."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.log: list[Message] = []

    @classmethod
    def of(cls, messages: Sequence[Message]) -> Record:
        """The record of a history that is read at once, from its first message on."""
        record = cls()
        record.ledger = Ledger.of(messages)
        record.log = list(messages)
        return record

    def follow(self, messages: Sequence[Message]) -> None:
        self.log.extend(messages)
        self.ledger.extend(messages)

    def catch_up(self, messages: Sequence[Message], numbers: Sequence[int]) -> bool:
        """Take in what is new; False when these messages are no continuation of what was followed."""
        known = len(self.log)
        new = [message for message, number in zip(messages, numbers, strict=True) if number >= known]
        if not known or not self._knows(messages, numbers) or numbers[-1] + 1 - known != len(new):
            return False
        self.follow(new)
        return True

    def read(self, number: int) -> Message:
        return self.log[number]

    def _knows(self, messages: Sequence[Message], numbers: Sequence[int]) -> bool:
        """Whether each message is the one that was followed under its number, or may be a shorter copy of it."""
        log, known = self.log, len(self.log)
        pairs = zip(messages, numbers, strict=True)
        return all(
            number >= known or log[number] is message or _like(log[number], message) for message, number in pairs
        )


def _like(original: Message, message: Message) -> bool:
    """Whether a message may be the original with a note, cut short, pruned or without its pictures."""
    if any(original.get(key) != message.get(key) for key in ("role", "tool_call_id")):
        return False
    if [call.get("id") for call in calls_of(original)] != [call.get("id") for call in calls_of(message)]:
        return False
    if message["role"] == "tool" or images_of(original):
        return True
    return text_of(message).startswith(text_of(original)[:_OPENING_CHARS])
