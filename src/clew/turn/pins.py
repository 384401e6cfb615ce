"""Pinned texts: a message or an opened skill that comes back word for word after a compaction, never paraphrased.

While a pinned text is in view nothing is done. When a compaction has folded it, it stands behind the system prompt:
there the prefix moves with the compaction anyway, whichever engine made it. Kept by the store with the conversation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clew.errors import InvalidArgument
from clew.tokens import counter_for

if TYPE_CHECKING:
    from clew.turn.live import LiveConversation
    from clew.turn.runtime import Runtime

PINS_STATE = "pins"
LARGEST_SHARE = 0.25
"""Of the window, for all pins together: what is pinned cannot be made smaller by any compaction."""
_ABOUT = "[Pinned: each of these stands word for word as it was first said, and holds for the whole conversation.]"


@dataclass(frozen=True, slots=True)
class Pin:
    """A text that stays, and what it is called."""

    label: str
    text: str


async def pin(runtime: Runtime, session: str, new: Pin, *, is_coming: bool = False) -> None:
    """Pin a text; one of the same label takes the place of the former. `is_coming`: the next messages hold it."""
    live = await runtime.conversation(session)
    kept = [old for old in live.pins if old.label != new.label and old.text != new.text]
    await _keep(runtime, live, [*kept, new], is_coming)


async def unpin(runtime: Runtime, session: str, number: int) -> Pin:
    """Take a pin away, by its number in `pins_of` from 1; the one that was taken."""
    live = await runtime.conversation(session)
    if not 1 <= number <= len(live.pins):
        raise InvalidArgument(f"there is no pin {number}; there are {len(live.pins)}")
    taken = live.pins[number - 1]
    await _keep(runtime, live, [old for old in live.pins if old is not taken])
    return taken


async def pins_of(runtime: Runtime, session: str) -> Sequence[Pin]:
    """What is pinned in a conversation, oldest first."""
    return (await runtime.conversation(session)).pins


def pinned_text(pins: Iterable[Pin]) -> str:
    """The pins as they stand behind a system prompt; nothing where there are none."""
    fenced = [_fenced(pin) for pin in pins]
    return "\n\n".join([_ABOUT, *fenced]) if fenced else ""


def _fenced(pin: Pin) -> str:
    """The text between marks that it cannot close itself: a skill may come with a stranger's repository."""
    mark = "pinned"
    while f"</{mark}" in pin.text or f"<{mark}" in pin.text:
        mark += "-"
    return f"<{mark} label={pin.label!r}>\n{pin.text}\n</{mark}>"


def pins_from_plain(value: Any) -> tuple[Pin, ...]:
    """As the store remembers them."""
    rows = value if isinstance(value, list) else []
    return tuple(Pin(str(row["label"]), str(row["text"])) for row in rows if isinstance(row, dict))


async def _keep(runtime: Runtime, live: LiveConversation, pins: Sequence[Pin], is_coming: bool = False) -> None:
    tokens = counter_for(live.target.model).text(pinned_text(pins))
    most = int(LARGEST_SHARE * live.window.tokens)
    if tokens > most and len(pins) >= len(live.pins):
        raise InvalidArgument(
            f"pins may take {most:,} tokens of a window of {live.window.tokens:,} together, and these would take "
            f"{tokens:,}; take another one away first"
        )
    plain = [{"label": it.label, "text": it.text} for it in pins]
    await runtime.store.set_state(live.session, {PINS_STATE: plain or None})
    live.use_pins(tuple(pins), stand=not is_coming)
