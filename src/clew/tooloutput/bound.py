"""Bounds for tool results: for one that is too long, and for a turn whose results are too long together.

Results are written to a `SpillFolder`. Sizes are in chars, because results are bounded before tokens are counted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from clew.errors import InvalidArgument
from clew.messages import Message, Part, calls_of, name_of_call, text_of
from clew.tooloutput.block import block_chars, cut_text, is_persisted_block, persisted_block
from clew.tooloutput.folder import Spilled, SpillFolder

PER_RESULT_CHARS = 100_000
PER_TURN_CHARS = 200_000
PREVIEW_CHARS = 1_500

SMALLEST_WINDOW = 1_000
"""For smaller windows the limits shrink no further, because a shorter preview is of no use."""

EXEMPT_TOOLS = frozenset({"read_file"})
"""Tools whose result is never persisted for its own length: reading a persisted result must not persist it again."""


@dataclass(frozen=True, slots=True)
class ToolOutputLimits:
    """The longest allowed result, the longest results of one turn together, and the preview of a persisted one."""

    per_result_chars: int = PER_RESULT_CHARS
    per_turn_chars: int = PER_TURN_CHARS
    preview_chars: int = PREVIEW_CHARS

    def __post_init__(self) -> None:
        for name in ("per_result_chars", "per_turn_chars", "preview_chars"):
            if getattr(self, name) < 1:
                raise InvalidArgument(
                    f"{name} = {getattr(self, name)} leaves no room for any output", remedy="pass 1 or more"
                )


def limits_for_window(window_tokens: int | None, limits: ToolOutputLimits | None = None) -> ToolOutputLimits:
    """The limits for a window: half a char per token for one result, one for a turn, up to the configured limits.

    At three to four chars a token, one result then takes at most an eighth to a sixth of the window; at one token a
    char (Chinese, hashes) at most half of it. The default limits are reached at 200,000 tokens. The preview is at most
    a quarter of the limit for a result, so that a block is shorter than a result that may stay. None is an unknown
    window, and gets the configured limits.
    """
    most = limits or ToolOutputLimits()
    if window_tokens is None:
        return most
    if window_tokens < 1:
        raise InvalidArgument(
            f"window_tokens = {window_tokens} is no window", remedy="pass its tokens, or None if unknown"
        )
    window = max(window_tokens, SMALLEST_WINDOW)
    per_result = min(most.per_result_chars, window // 2)
    return ToolOutputLimits(
        per_result_chars=per_result,
        per_turn_chars=min(most.per_turn_chars, window),
        preview_chars=min(most.preview_chars, max(1, per_result // 4)),
    )


@dataclass(frozen=True, slots=True)
class PersistedOutput:
    """A result that was written to a file and replaced by a block. An index has to read the file."""

    call_id: str | None
    tool: str | None
    chars: int
    spilled: Spilled


@dataclass(frozen=True, slots=True)
class CutOutput:
    """A result that could not be written to a file, and was cut."""

    call_id: str | None
    tool: str | None
    chars: int
    kept_chars: int
    reason: str


OutputOutcome: TypeAlias = PersistedOutput | CutOutput


@dataclass(frozen=True, slots=True)
class BoundResult:
    """A result within the limits, and what was done; where that is None, the message is the same object."""

    message: Message
    outcome: OutputOutcome | None = None


@dataclass(frozen=True, slots=True)
class BoundTurn:
    """The messages of a turn in their order, and what was done; unchanged ones are the same objects."""

    messages: list[Message]
    outcomes: tuple[OutputOutcome, ...]

    @property
    def persisted(self) -> list[PersistedOutput]:
        return [outcome for outcome in self.outcomes if isinstance(outcome, PersistedOutput)]


@dataclass(frozen=True, slots=True)
class _Candidate:
    index: int
    chars: int
    tool: str | None


def bound_result(
    message: Message,
    folder: SpillFolder,
    limits: ToolOutputLimits,
    *,
    tool: str | None = None,
    exempt: Collection[str] = EXEMPT_TOOLS,
) -> BoundResult:
    """The result, or a block in its place if its text is longer than the limit for one result.

    `tool` is its tool, where the message does not name it.
    """
    name = tool or message.get("name")
    chars = text_chars(message)
    fits = chars <= max(limits.per_result_chars, _shortest_block_chars(folder))
    if fits or name in exempt or _is_block(message, limits):
        return BoundResult(message)
    return _persist_or_cut(message, name, folder, limits, keep_chars=limits.per_result_chars)


def bound_turn(
    messages: Sequence[Message],
    folder: SpillFolder,
    limits: ToolOutputLimits,
    *,
    exempt: Collection[str] = EXEMPT_TOOLS,
) -> BoundTurn:
    """The messages of one assistant turn; its largest results are persisted if all of them together are too long.

    Largest first, the earlier of two of the same length first, until the rest fits. Results of exempt tools are
    last, and one of them always stays, so that a turn that only reads returns something to read.
    """
    bounded = list(messages)
    total = sum(text_chars(message) for message in messages if message.get("role") == "tool")
    outcomes: list[OutputOutcome] = []
    kept: set[str] = set()
    for candidate in _candidates(messages, folder, limits, exempt):
        if total <= limits.per_turn_chars:
            break
        room = max(limits.preview_chars, candidate.chars - (total - limits.per_turn_chars))
        result = _persist_or_cut(bounded[candidate.index], candidate.tool, folder, limits, keep_chars=room, in_use=kept)
        if result.outcome is None:
            continue
        if isinstance(result.outcome, PersistedOutput):
            kept.add(result.outcome.spilled.id)
        total -= candidate.chars - text_chars(result.message)
        bounded[candidate.index] = result.message
        outcomes.append(result.outcome)
    return BoundTurn(bounded, tuple(outcomes))


def _persist_or_cut(
    message: Message,
    tool: str | None,
    folder: SpillFolder,
    limits: ToolOutputLimits,
    *,
    keep_chars: int,
    in_use: Collection[str] = (),
) -> BoundResult:
    """A block in place of the result, which is written to a file; where that fails, the result cut to `keep_chars`."""
    text = text_of(message)
    written = folder.write(text, keep=in_use)
    if isinstance(written, Spilled):
        most = min(limits.per_result_chars, len(text) - 1)
        block = persisted_block(text, written, limits.preview_chars, most)
        return BoundResult(
            with_text(message, block), PersistedOutput(message.get("tool_call_id"), tool, len(text), written)
        )
    shorter = cut_text(text, keep_chars, written.reason)
    if len(shorter) >= len(text):
        return BoundResult(message)
    cut = CutOutput(message.get("tool_call_id"), tool, len(text), len(shorter), written.reason)
    return BoundResult(with_text(message, shorter), cut)


def _candidates(
    messages: Sequence[Message], folder: SpillFolder, limits: ToolOutputLimits, exempt: Collection[str]
) -> list[_Candidate]:
    """The results that may be persisted, in the order in which they are."""
    names = _tool_names(messages)
    found = [
        _Candidate(index, text_chars(message), message.get("name") or names.get(message.get("tool_call_id")))
        for index, message in enumerate(messages)
        if message.get("role") == "tool" and not _is_block(message, limits)
    ]
    # A block would be longer than a shorter result.
    worth = [candidate for candidate in found if candidate.chars > _shortest_block_chars(folder)]
    worth.sort(key=lambda candidate: (-candidate.chars, candidate.index))
    free = [candidate for candidate in worth if candidate.tool not in exempt]
    read = [candidate for candidate in worth if candidate.tool in exempt]
    return free + read[:-1]


def _tool_names(messages: Sequence[Message]) -> dict[str | None, str | None]:
    return {call.get("id"): name_of_call(call) or None for message in messages for call in calls_of(message)}


def _shortest_block_chars(folder: SpillFolder) -> int:
    return block_chars(folder.path("0" * 32))


def _is_block(message: Message, limits: ToolOutputLimits) -> bool:
    return is_persisted_block(text_of(message), limits.preview_chars)


def text_chars(message: Message) -> int:
    """The length of the result's text."""
    content: Any = message.get("content")
    if isinstance(content, str):
        return len(content)
    return len(text_of(message)) if isinstance(content, list) else 0


def with_text(message: Message, text: str) -> Message:
    """A copy with this text: as its string, or as its first text part, the other text parts left out."""
    content: Any = message.get("content")
    if not isinstance(content, list):
        return {**message, "content": text}
    parts: list[Part] = []
    placed = False
    for part in content:
        if not isinstance(part, dict) or not isinstance(part.get("text"), str):
            parts.append(part)
        elif not placed:
            parts.append({**part, "text": text})
            placed = True
    return {**message, "content": parts}
