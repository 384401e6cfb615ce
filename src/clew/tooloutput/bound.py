"""Tool results made to fit: one that is too long on its own, and a turn whose results are too long together.

Writes through a `SpillFolder` and gives back messages and an account; knows no window and no store.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from clew.messages import Message, calls_of, name_of_call, text_of
from clew.tooloutput.block import bare_block_chars, cut_text, is_persisted_block, persisted_block
from clew.tooloutput.content import text_chars, with_text
from clew.tooloutput.folder import Spilled, SpillFolder
from clew.tooloutput.limits import OutputLimits

EXEMPT = frozenset({"read_file"})
"""Tools whose result is never spilled for its own length: reading a persisted result must not persist it again."""


@dataclass(frozen=True, slots=True)
class Persisted:
    """A result that is on disk now, with a block in its place. The file is what an index has to read."""

    call_id: str | None
    tool: str | None
    chars: int
    spilled: Spilled


@dataclass(frozen=True, slots=True)
class Cut:
    """A result that could not be put on disk, and was shortened where it stands."""

    call_id: str | None
    tool: str | None
    chars: int
    kept_chars: int
    reason: str


Outcome: TypeAlias = Persisted | Cut


@dataclass(frozen=True, slots=True)
class BoundResult:
    """A result that fits, and what was done for it; None where nothing was, and the message is the same object."""

    message: Message
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True)
class BoundTurn:
    """The messages of a turn in their order, those that nothing was done to being the same objects."""

    messages: list[Message]
    outcomes: tuple[Outcome, ...]

    @property
    def persisted(self) -> list[Persisted]:
        return [outcome for outcome in self.outcomes if isinstance(outcome, Persisted)]


@dataclass(frozen=True, slots=True)
class _Candidate:
    index: int
    chars: int
    tool: str | None


def bound_result(
    message: Message,
    folder: SpillFolder,
    limits: OutputLimits,
    *,
    tool: str | None = None,
    exempt: Collection[str] = EXEMPT,
) -> BoundResult:
    """The result, or the block that stands for it if its text is over the limit for one result.

    `tool` is who gave it, where the message does not say so itself.
    """
    name = tool or message.get("name")
    chars = text_chars(message)
    fits = chars <= max(limits.per_result_chars, _bare_chars(folder))
    if fits or name in exempt or _is_block(message, limits):
        return BoundResult(message)
    return _out_of_the_way(message, name, folder, limits, keep_chars=limits.per_result_chars)


def bound_turn(
    messages: Sequence[Message], folder: SpillFolder, limits: OutputLimits, *, exempt: Collection[str] = EXEMPT
) -> BoundTurn:
    """The messages of one assistant turn, with its largest results on disk if all of them together are too long.

    Largest first, the earlier of two of the same length first, until the rest fits. Results of exempt tools come
    last, and one of them always stays: a turn that only reads must bring back something to read.
    """
    bounded = list(messages)
    total = sum(text_chars(message) for message in messages if message.get("role") == "tool")
    outcomes: list[Outcome] = []
    kept: set[str] = set()
    for candidate in _candidates(messages, folder, limits, exempt):
        if total <= limits.per_turn_chars:
            break
        room = max(limits.preview_chars, candidate.chars - (total - limits.per_turn_chars))
        result = _out_of_the_way(bounded[candidate.index], candidate.tool, folder, limits, keep_chars=room, in_use=kept)
        if result.outcome is None:
            continue
        if isinstance(result.outcome, Persisted):
            kept.add(result.outcome.spilled.id)
        total -= candidate.chars - text_chars(result.message)
        bounded[candidate.index] = result.message
        outcomes.append(result.outcome)
    return BoundTurn(bounded, tuple(outcomes))


def _out_of_the_way(
    message: Message,
    tool: str | None,
    folder: SpillFolder,
    limits: OutputLimits,
    *,
    keep_chars: int,
    in_use: Collection[str] = (),
) -> BoundResult:
    """The result on disk and a block in its place, or, where that fails, what `keep_chars` leave of it."""
    text = text_of(message)
    written = folder.write(text, keep=in_use)
    if isinstance(written, Spilled):
        most = min(limits.per_result_chars, len(text) - 1)
        block = persisted_block(text, written, limits.preview_chars, most)
        return BoundResult(with_text(message, block), Persisted(message.get("tool_call_id"), tool, len(text), written))
    shorter = cut_text(text, keep_chars, written.reason)
    if len(shorter) >= len(text):
        return BoundResult(message)
    cut = Cut(message.get("tool_call_id"), tool, len(text), len(shorter), written.reason)
    return BoundResult(with_text(message, shorter), cut)


def _candidates(
    messages: Sequence[Message], folder: SpillFolder, limits: OutputLimits, exempt: Collection[str]
) -> list[_Candidate]:
    """The results that may go, in the order in which they go."""
    names = _tool_names(messages)
    found = [
        _Candidate(index, text_chars(message), message.get("name") or names.get(message.get("tool_call_id")))
        for index, message in enumerate(messages)
        if message.get("role") == "tool" and not _is_block(message, limits)
    ]
    # Anything shorter would only grow.
    worth = [candidate for candidate in found if candidate.chars > _bare_chars(folder)]
    worth.sort(key=lambda candidate: (-candidate.chars, candidate.index))
    free = [candidate for candidate in worth if candidate.tool not in exempt]
    read = [candidate for candidate in worth if candidate.tool in exempt]
    return free + read[:-1]


def _tool_names(messages: Sequence[Message]) -> dict[str | None, str | None]:
    return {call.get("id"): name_of_call(call) or None for message in messages for call in calls_of(message)}


def _bare_chars(folder: SpillFolder) -> int:
    return bare_block_chars(folder.path("0" * 32))


def _is_block(message: Message, limits: OutputLimits) -> bool:
    return is_persisted_block(text_of(message), limits.preview_chars)
