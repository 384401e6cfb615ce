"""What a summariser takes and returns: `SummaryInput`, `Summary`, and the cooldowns of models that failed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from clew.facts import Record
from clew.handoff.candidates import ReadMessage
from clew.handoff.value import Handoff
from clew.messages import Message
from clew.redact import redact_messages, redact_text

CountTokens = Callable[[str], int]
Compute = Callable[..., Awaitable[Any]]
"""Calls a function with arguments and gives its result: at once, or in a thread where the host has others to serve."""
_LONGEST_COOLDOWN_SECONDS = 3_600.0


async def compute_now(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call the function at once. Never waits."""
    return function(*arguments)


@dataclass(frozen=True, slots=True)
class Cooldown:
    """A model is not asked before `until` (seconds since 1970), because of `reason`."""

    until: float
    reason: str


@dataclass(frozen=True, slots=True)
class Cooldowns:
    """The cooldowns of models, by name. A value: it comes with a `SummaryInput` and leaves with the `Summary`."""

    by_model: Mapping[str, Cooldown] = field(default_factory=dict)

    @classmethod
    def of_json(cls, stored: object) -> Cooldowns:
        """The cooldowns that `as_json` gave; entries that cannot be read are dropped."""
        entries = stored.items() if isinstance(stored, Mapping) else ()
        return cls({str(name): found for name, value in entries if (found := _read_cooldown(value)) is not None})

    def as_json(self) -> dict[str, Any]:
        return {name: {"until": one.until, "reason": one.reason} for name, one in sorted(self.by_model.items())}

    def start(self, name: str, seconds: float, reason: str, now: float) -> Cooldowns:
        """With a cooldown for a model; unchanged for 0 seconds."""
        if seconds <= 0:
            return self
        return Cooldowns({**self.by_model, name: Cooldown(now + min(seconds, _LONGEST_COOLDOWN_SECONDS), reason)})

    def active(self, name: str, now: float) -> Cooldown | None:
        """The cooldown of a model, if it is not over."""
        found = self.by_model.get(name)
        # If the clock was set back, a cooldown could last for days: one longer than the longest is ignored.
        return found if found is not None and now < found.until <= now + _LONGEST_COOLDOWN_SECONDS else None

    def end(self, name: str) -> Cooldowns:
        """Without a cooldown of the model."""
        return Cooldowns({other: one for other, one in self.by_model.items() if other != name})


def _read_cooldown(value: object) -> Cooldown | None:
    if not isinstance(value, Mapping):
        return None
    until, reason = value.get("until"), value.get("reason")
    if isinstance(until, bool) or not isinstance(until, int | float):
        return None
    return Cooldown(float(until), str(reason or ""))


@dataclass(frozen=True, slots=True)
class SummaryInput:
    """What a summary is written from: the messages `first` to `last` (not included) of a history, and their record."""

    record: Record
    """Of the whole history, the newest messages included."""
    read: ReadMessage
    """Returns the original message of a number, not pruned and without secrets; an empty one where a repair left the
    message out. The record was made of the same messages."""
    first: int
    last: int
    previous: Handoff | None = None
    """The handoff of everything before `first`, to be brought up to date."""
    readable_from: int | None = None
    """The first folded message whose original can still be read, where that is before `first`: what the previous
    handoff covers can then be summarised again from the originals."""
    task: str = ""
    """The newest request of a user, word for word. It stays in the conversation."""
    task_number: int | None = None
    shortened: Mapping[int, Message] = field(default_factory=dict)
    """Messages that stay but are shortened, as they stay: what they no longer show may be quoted too."""
    kept: frozenset[int] = frozenset()
    """Messages before `last` that stay word for word behind the summary."""
    above: frozenset[int] = frozenset()
    """Messages that stay word for word before the summary."""
    focus: str | None = None
    cooldowns: Cooldowns = field(default_factory=Cooldowns)
    """The models that are not asked now, after a failure."""
    is_redacted: bool = False
    """Whether the record and what `read` returns were made of messages without their secrets."""
    is_part: bool = False
    """Whether it is a part of a conversation whose rest is summarised elsewhere: a model is then not asked in the
    conversation itself, which would summarise all of it."""

    def clean(self, text: str) -> str:
        """A text of the record or of a message without secrets, searched only where that was not done before."""
        return text if self.is_redacted else redact_text(text)

    def is_folded(self, number: int | None) -> bool:
        """Whether the message is no longer in the window, or is there only in part."""
        if number is None or number in self.shortened:
            return number is not None
        return number < self.last and number not in self.kept and number not in self.above

    def may_quote(self, number: int) -> bool:
        return self.first <= number < self.last or number in self.shortened


def redacted_input(source: SummaryInput) -> SummaryInput:
    """The same input with its secrets removed: record and messages are read from redacted copies."""
    if source.is_redacted:
        return source
    first = min(source.first, source.record.first_number)
    numbers = range(first, max(source.last, source.record.next_number))
    clean = redact_messages([source.read(number) for number in numbers])
    return replace(
        source, record=Record.of(clean, numbers), read=lambda number: clean[number - first], is_redacted=True
    )


@dataclass(frozen=True, slots=True)
class Summary:
    """A handoff as text and as a value, and who wrote it with which template."""

    text: str
    written_by: str
    template: str
    """Name and version of the template."""
    warnings: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()
    """Paths, numbers, hashes and names in the text that the source does not show."""
    cooldowns: Cooldowns | None = None
    """The cooldowns after this summary; None from a summariser that knows none."""
    handoff: Handoff | None = None
    """The text as a value; None from a summariser that gives only text."""


# The only thing that an engine knows of a summariser: an input and a budget in tokens go in, a summary comes out.
Summarize = Callable[[SummaryInput, int], Awaitable[Summary]]
