"""What a drafted compaction would make of each stretch of the conversation, before and after, in tokens.

Reads a draft of any engine; knows no screen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from clew.engines import Fate
from clew.messages import Message, text_of
from clew.summaries import unwrap
from clew.tokens import counter_for
from clew.turn import Draft, LiveConversation, Pin


@dataclass(frozen=True, slots=True)
class Stretch:
    """Messages in a row that fare alike."""

    place: str
    """`head`, `handoff` (an earlier one), `folded`, `kept`, `tail` or `removed`."""
    numbers: tuple[int | None, ...]
    """What the messages are called (m12); None for one that a compaction wrote."""
    before: int
    after: int
    shortened: int


@dataclass(frozen=True, slots=True)
class Outlook:
    """Every stretch in order, and what the new handoff takes."""

    stretches: tuple[Stretch, ...]
    handoff: int
    pins: int = 0
    """Pinned texts that the result no longer shows, and so would stand behind the system prompt."""
    pinned: int = 0
    """What these take."""

    @property
    def first_folded(self) -> Stretch | None:
        return next((stretch for stretch in self.stretches if stretch.place == "folded"), None)


def outlook_of(drawn: Draft, live: LiveConversation) -> Outlook:
    """The outlook of a draft of a conversation."""
    view, done, count = drawn.view, drawn.compaction, live.count
    before = count(view.messages)
    result, handoff = _without_handoff(drawn, count)
    stays = [index for index, fate in enumerate(done.fates) if fate in (Fate.KEPT, Fate.PRUNED)]
    # A repair may have put stubs in: then nobody knows which is whose, and what stays counts as it was.
    sizes = count(result) if len(result) == len(stays) else [before[index] for index in stays]
    after = dict(zip(stays, sizes, strict=True))
    places = [_place(index, drawn) for index in range(len(done.fates))]
    stretches = []
    for place, group in groupby(range(len(places)), key=places.__getitem__):
        rows = list(group)
        stretches.append(
            Stretch(
                place,
                tuple(view.places[row] for row in rows),
                sum(before[row] for row in rows),
                sum(after.get(row, 0) for row in rows),
                sum(done.fates[row] is Fate.PRUNED for row in rows),
            )
        )
    pins = _folded_pins(drawn, live)
    text = counter_for(live.target.model).text
    return Outlook(tuple(stretches), handoff, len(pins), sum(text(pin.text) for pin in pins))


def _folded_pins(drawn: Draft, live: LiveConversation) -> list[Pin]:
    """Pins that are in view now, and would not be."""
    before, after = ({text_of(message) for message in them} for them in (live.messages, drawn.compaction.messages))
    return [pin for pin in live.pins if pin.text in before and pin.text not in after]


def _without_handoff(drawn: Draft, count: Callable[[Sequence[Message]], list[int]]) -> tuple[list[Message], int]:
    """The messages of the result without the new handoff, and what that takes."""
    result = list(drawn.compaction.messages)
    at = _handoff_in(drawn)
    if at is None:
        return result, 0
    wrapped = unwrap(result[at])
    if wrapped is None or wrapped.message is None:
        taken = result.pop(at)
        return result, sum(count([taken]))
    whole, alone = count([result[at], wrapped.message])
    result[at] = wrapped.message
    return result, whole - alone


def _handoff_in(drawn: Draft) -> int | None:
    """Where the new handoff stands in the result."""
    summary = drawn.compaction.summary
    if not summary:
        return None
    known = {id(message) for message in drawn.view.messages}
    fresh = [index for index, message in enumerate(drawn.compaction.messages) if id(message) not in known]
    wrapped = (index for index in fresh if unwrap(drawn.compaction.messages[index]) is not None)
    holding = (index for index in fresh if summary in text_of(drawn.compaction.messages[index]))
    return next(wrapped, next(holding, None))


def _place(index: int, drawn: Draft) -> str:
    fate = drawn.compaction.fates[index]
    first, stop = drawn.compaction.replaced
    if fate is Fate.SUMMARISED:
        earlier = unwrap(drawn.view.messages[index]) if index in drawn.view.written else None
        return "handoff" if earlier is not None and earlier.message is None else "folded"
    if fate is Fate.REMOVED:
        return "removed"
    if index < first:
        return "head"
    return "kept" if index < stop else "tail"
