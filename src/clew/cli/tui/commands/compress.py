"""`/compress`: fold now, look at it first, apply exactly what was shown, or take it back.

While it runs the screen shows the phases by itself, from events; here is what is said before and after.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clew.cli.amounts import counted
from clew.cli.tui.commands.compress_page import say_done, say_draft
from clew.cli.tui.commands.here import conversation_of
from clew.cli.tui.commands.page import show, tell
from clew.cli.tui.commands.stretches import outlook_of
from clew.errors import InvalidArgument
from clew.turn import apply_draft, compact_now, preview_compaction, undo_compaction

if TYPE_CHECKING:
    from clew.cli.tui.state import ChatState
    from clew.engines import Compaction

FLAGS = ("--preview", "--full", "--apply", "--undo")
BUSY = "Another process is compacting this conversation just now; it goes on as that one leaves it."


@dataclass(frozen=True, slots=True)
class Order:
    """What was typed behind the command."""

    flags: frozenset[str]
    focus: str | None


async def run(state: ChatState, words: str) -> None:
    order = _order(words)
    await conversation_of(state)
    if "--undo" in order.flags:
        await _undo(state)
    elif "--apply" in order.flags:
        await _apply(state)
    elif "--preview" in order.flags:
        await _preview(state, order.focus, whole="--full" in order.flags)
    else:
        await _compact(state, order.focus)


def _order(words: str) -> Order:
    """Flags stand first; what is behind them is the focus."""
    flags: list[str] = []
    rest = words.strip()
    while rest.startswith("--"):
        flag, _, rest = rest.partition(" ")
        if flag not in FLAGS:
            raise InvalidArgument(f"/compress knows no {flag}; it takes {', '.join(FLAGS)} or words to focus on")
        flags.append(flag)
        rest = rest.strip()
    alone = {"--apply", "--undo"}.intersection(flags)
    if alone and (len(flags) > 1 or rest):
        raise InvalidArgument(f"/compress {min(alone)} takes nothing beside it; it undoes or applies the newest one")
    if flags == ["--full"]:
        flags.append("--preview")
    return Order(frozenset(flags), rest or None)


async def _compact(state: ChatState, focus: str | None) -> None:
    done = await compact_now(state.desk.runtime, state.session, focus)
    state.draft = None
    if done is None:
        tell(state, BUSY)
    elif done.changed:
        show(state, lambda console: say_done(done, focus, console))
    else:
        tell(state, *_nothing(done))


async def _preview(state: ChatState, focus: str | None, *, whole: bool) -> None:
    runtime = state.desk.runtime
    live = await conversation_of(state)
    state.wait_for(f"preview of {live.size.tokens:,} tokens: summarise")
    drawn = await preview_compaction(runtime, state.session, focus)
    if not drawn.compaction.changed:
        state.draft = None
        tell(state, *_nothing(drawn.compaction))
        return
    state.draft = drawn
    live = await conversation_of(state)
    outlook = outlook_of(drawn, live)
    show(state, lambda console: say_draft(drawn, outlook, console, whole=whole))
    if await state.confirm("Apply exactly this?"):
        await _apply(state)
    else:
        tell(state, "Nothing was changed. /compress --apply applies this one later, as long as it still fits.")


async def _apply(state: ChatState) -> None:
    drawn = state.draft
    if drawn is None:
        raise InvalidArgument("no preview is waiting to be applied; /compress --preview makes one")
    state.draft = None
    if not await apply_draft(state.desk.runtime, state.session, drawn):
        raise InvalidArgument(
            "the preview was made for another state of this conversation and was not applied; "
            "/compress --preview makes a new one"
        )
    show(state, lambda console: say_done(drawn.compaction, drawn.focus, console))


async def _undo(state: ChatState) -> None:
    runtime = state.desk.runtime
    live = await conversation_of(state)
    messages, tokens = len(live.messages), live.size.tokens
    if not await undo_compaction(runtime, state.session):
        tell(state, "There is nothing to undo: no compaction is in effect, and the model sees the whole history.")
        return
    state.draft = None
    back = len(live.messages) - messages
    tell(
        state,
        f"The view from before the newest compaction is back, word for word: {counted(len(live.messages), 'message')}"
        f" ({back:,} more) with {live.size.tokens:,} tokens, where there were {tokens:,}.",
        *_soon_again(live.size.tokens, live.engine.get_status().threshold_tokens),
    )


def _soon_again(tokens: int, threshold: int) -> list[str]:
    if tokens < threshold:
        return []
    return [f"That is above the threshold of {threshold:,}: the next question would compact it again."]


def _nothing(done: Compaction) -> list[str]:
    """Why nothing was folded."""
    why = list(done.warnings) or [
        "there is nothing between the first messages and the newest ones that could be folded"
    ]
    first = why[0][0].lower() + why[0][1:] if why[0][:1].isupper() and not why[0][:2].isupper() else why[0]
    return [f"Nothing was changed ({done.tokens_before:,} tokens): {first}", *why[1:]]
