"""`/compress`: compact now, preview it, apply exactly what was previewed, or undo the newest compaction.

While it runs the screen shows the phases by itself, from events; here is what is shown before and after.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from clew.cli.compress import region_table
from clew.cli.console import Console
from clew.cli.pages import (
    fact_lines,
    hint_lines,
    page_width,
    percent,
    plural,
    styled_lines,
    warning_lines,
    writer_name,
)
from clew.cli.text import wrap
from clew.cli.tui.commands.page import current_conversation, show_lines, show_text
from clew.engines import Compaction, ContextCompressor, Fate, LosslessEngine
from clew.errors import InvalidArgument
from clew.messages import text_of
from clew.report import compaction_outcomes, group_by_region, summary_tokens
from clew.tokens import counter_for
from clew.turn import share_of

if TYPE_CHECKING:
    from clew.cli.tui.commands import ChatState
    from clew.report import RegionGroup
    from clew.turn import Conversation, Pin, PreparedCompaction

FLAGS = ("--preview", "--full", "--apply", "--undo")
BUSY = "Another process is compacting this conversation now; this chat uses its result."
MAX_HANDOFF_LINES = 24
MAX_UNVERIFIED = 3


@dataclass(frozen=True, slots=True)
class CompressArguments:
    """What was typed behind the command."""

    flags: frozenset[str]
    focus: str | None


async def run_compress(state: ChatState, words: str) -> None:
    arguments = _parse_arguments(words)
    conversation = await current_conversation(state)
    if "--undo" in arguments.flags:
        await _undo(state, conversation)
    elif "--apply" in arguments.flags:
        await _apply(state, conversation)
    elif "--preview" in arguments.flags:
        await _preview(state, conversation, arguments.focus, full="--full" in arguments.flags)
    else:
        await _compact(state, conversation, arguments.focus)


def _parse_arguments(words: str) -> CompressArguments:
    """Flags first; what is behind them is the focus."""
    flags: list[str] = []
    rest = words.strip()
    while rest.startswith("--"):
        flag, _, rest = rest.partition(" ")
        if flag not in FLAGS:
            raise InvalidArgument(
                f"/compress knows no {flag}", remedy=f"it takes {', '.join(FLAGS)} or words to focus on"
            )
        flags.append(flag)
        rest = rest.strip()
    alone = {"--apply", "--undo"}.intersection(flags)
    if alone and (len(flags) > 1 or rest):
        raise InvalidArgument(
            f"/compress {min(alone)} takes nothing beside it", remedy="it undoes or applies the newest one"
        )
    if flags == ["--full"]:
        flags.append("--preview")
    return CompressArguments(frozenset(flags), rest or None)


async def _compact(state: ChatState, conversation: Conversation, focus: str | None) -> None:
    compaction = await conversation.compact_now(focus)
    state.previewed = None
    if compaction is None:
        show_text(state, BUSY)
    elif compaction.changed:
        show_lines(state, lambda console: _applied_lines(compaction, focus, console))
    else:
        show_text(state, *_unchanged_text(compaction))


async def _preview(state: ChatState, conversation: Conversation, focus: str | None, *, full: bool) -> None:
    state.wait_for(f"preview of {conversation.size.tokens:,} tokens: summarise")
    prepared = await conversation.preview_compaction(focus)
    if not prepared.compaction.changed:
        state.previewed = None
        show_text(state, *_unchanged_text(prepared.compaction))
        return
    state.previewed = prepared
    preview = preview_of(prepared, conversation)
    show_lines(state, lambda console: _preview_lines(prepared, preview, console, full=full))
    if await state.confirm("Apply exactly this?"):
        await _apply(state, conversation)
    else:
        show_text(state, "Nothing was changed. /compress --apply applies this one later, as long as it still fits.")


async def _apply(state: ChatState, conversation: Conversation) -> None:
    prepared = state.previewed
    if prepared is None:
        raise InvalidArgument("no preview is waiting to be applied", remedy="/compress --preview makes one")
    state.previewed = None
    applied = await conversation.apply_compaction(prepared)
    if applied is None:
        raise InvalidArgument(
            "the preview was made for another state of this conversation and was not applied",
            remedy="/compress --preview makes a new one",
        )
    show_lines(state, lambda console: _applied_lines(applied, prepared.focus, console))


async def _undo(state: ChatState, conversation: Conversation) -> None:
    messages, tokens = len(conversation.messages), conversation.size.tokens
    if not await conversation.undo_compaction():
        show_text(state, "There is nothing to undo: no compaction is in effect, and the model sees the whole history.")
        return
    state.previewed = None
    now, now_tokens = len(conversation.messages), conversation.size.tokens
    threshold = conversation.engine.get_status().threshold_tokens
    again = f"That is above the threshold of {threshold:,}: the next question would compact it again."
    show_text(
        state,
        f"The view from before the newest compaction is back, word for word: {plural(now, 'message')}"
        f" ({now - messages:,} more) with {now_tokens:,} tokens, where there were {tokens:,}.",
        *([again] if now_tokens >= threshold else []),
    )


def _unchanged_text(compaction: Compaction) -> list[str]:
    """Why nothing was folded."""
    why = list(compaction.warnings) or [
        "there is nothing between the first messages and the newest ones that could be folded"
    ]
    first = why[0][0].lower() + why[0][1:] if why[0][:1].isupper() and not why[0][:2].isupper() else why[0]
    return [f"Nothing was changed ({compaction.tokens_before:,} tokens): {first}", *why[1:]]


@dataclass(frozen=True, slots=True)
class ChatPreview:
    """What a prepared compaction would do to a conversation, in tokens."""

    groups: tuple[RegionGroup, ...]
    handoff: int
    pins: int
    """Pinned texts that the result no longer shows, and that would be put behind the system prompt."""
    pinned: int
    """The tokens of these."""


def preview_of(prepared: PreparedCompaction, conversation: Conversation) -> ChatPreview:
    compaction, size, count = prepared.compaction, conversation.size, conversation.view.count
    counted_after = conversation.view.counted_with(len(prepared.view.messages), compaction.messages)

    def before(counted: int) -> int:
        return share_of(counted, size.counted, compaction.tokens_before)

    def after(counted: int) -> int:
        return share_of(counted, counted_after, compaction.tokens_after)

    pins = _folded_pins(compaction, conversation)
    count_text = counter_for(conversation.target.model).text
    groups = group_by_region(compaction_outcomes(compaction, prepared.view.seqs, count))
    return ChatPreview(
        groups=tuple(
            replace(group, tokens=before(group.tokens), tokens_after=after(group.tokens_after)) for group in groups
        ),
        handoff=after(summary_tokens(compaction, count)),
        pins=len(pins),
        pinned=after(sum(count_text(pin.text) for pin in pins)),
    )


def _folded_pins(compaction: Compaction, conversation: Conversation) -> list[Pin]:
    """Pins that are in view now, and would not be."""
    before = {text_of(message) for message in conversation.messages}
    after = {text_of(message) for message in compaction.messages}
    return [pin for pin in conversation.pins if pin.text in before and pin.text not in after]


def _applied_lines(compaction: Compaction, focus: str | None, console: Console) -> Iterator[str]:
    """What a compaction did that was applied."""
    yield from _heading("compacted", _sizes(compaction, console), console)
    folded = sum(fate is Fate.SUMMARISED for fate in compaction.fates)
    shortened = sum(fate is Fate.PRUNED for fate in compaction.fates)
    facts = [("folded", f"{plural(folded, 'message')} into one handoff")] if folded else []
    if shortened:
        facts.append(("shortened", f"{plural(shortened, 'message')}, the originals are kept"))
    yield from fact_lines([*facts, *_facts(compaction, focus)], console)
    yield from warning_lines(compaction.warnings, console)
    yield from hint_lines("/compress --undo brings every message back; /tree shows the chain", console)


def _preview_lines(
    prepared: PreparedCompaction, preview: ChatPreview, console: Console, *, full: bool
) -> Iterator[str]:
    """What a compaction would do, with the very text of its handoff."""
    compaction = prepared.compaction
    yield from _heading("preview", _sizes(compaction, console), console)
    yield from hint_lines("nothing is changed yet", console)
    yield ""
    is_plugin = prepared.engine not in (ContextCompressor.name, LosslessEngine.name)
    yield from region_table(preview.groups, preview.handoff, console, removes_by_choice=is_plugin)
    yield ""
    facts = _facts(compaction, prepared.focus)
    if preview.pins:
        texts = plural(preview.pins, "pinned text")
        facts.append(("pinned", f"{texts} would be added behind the system prompt, {preview.pinned:,} of these tokens"))
    yield from fact_lines(facts, console)
    yield from warning_lines(compaction.warnings, console)
    if compaction.summary:
        yield ""
        yield from _handoff_lines(compaction.summary, preview.handoff, console, full=full)


def _heading(name: str, text: str, console: Console, *styles: str) -> Iterator[str]:
    """A name in bold and what is said of it, beside it or, on a narrow screen, below."""
    if len(name) + 2 + len(text) <= page_width(console):
        yield f"{console.style(name, 'bold')}  {console.style(text, *styles)}"
        return
    yield console.style(name, "bold")
    yield from styled_lines(text, console, *styles)


def _sizes(compaction: Compaction, console: Console) -> str:
    before, after = compaction.tokens_before, compaction.tokens_after
    return f"{before:,} {console.sign('→', '->')} {after:,} tokens, {percent(before - after, before)} less"


def _facts(compaction: Compaction, focus: str | None) -> list[tuple[str, str]]:
    """Who wrote the handoff, its focus, and what could not be verified."""
    facts = []
    if compaction.written_by:
        facts.append(("written by", writer_name(compaction.written_by)))
    if focus:
        facts.append(("focus", focus))
    if compaction.unverified:
        shown = ", ".join(compaction.unverified[:MAX_UNVERIFIED])
        more = len(compaction.unverified) - MAX_UNVERIFIED
        rest = f" and {more:,} more" if more > 0 else ""
        facts.append(("unverified", f"{len(compaction.unverified):,} not found in the originals: {shown}{rest}"))
    elif compaction.summary:
        facts.append(("unverified", "nothing; its paths, numbers and names are in the originals"))
    return facts


def _handoff_lines(summary: str, tokens: int, console: Console, *, full: bool) -> Iterator[str]:
    """The handoff line by line as it would be sent; its beginning, unless all of it is asked for."""
    lines = [piece for line in summary.splitlines() for piece in wrap(line, page_width(console) - 2) or [""]]
    shown = lines if full else lines[:MAX_HANDOFF_LINES]
    counts = f"{tokens:,} tokens, {plural(len(lines), 'line')}"
    yield from _heading("the handoff", counts, console, "dim")
    edge = console.sign("│", "|")
    for line in shown:
        style = ("cyan",) if line.startswith("#") else ()
        yield f"{console.style(edge, 'dim')} {console.style(line, *style)}"
    if len(shown) < len(lines):
        hidden = f"{plural(len(lines) - len(shown), 'more line')}: /compress --preview --full shows all"
        yield from (console.style(f"{edge} {line}", "dim") for line in wrap(hidden, page_width(console) - 2))
