"""`/pin`: texts that come back word for word after every compaction, and what they cost."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from clew.cli.amounts import percent
from clew.cli.output import Align, Console, clipped, printable, table
from clew.cli.tui.commands.here import conversation_of
from clew.cli.tui.commands.page import MARGIN, hint, show, tell
from clew.errors import InvalidArgument
from clew.messages import text_of
from clew.summaries import unwrap
from clew.tokens import counter_for
from clew.turn import Pin, pin, pins_of, unpin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clew.cli.tui.state import ChatState
    from clew.turn import LiveConversation

LARGEST_SHARE = 0.10
"""Of the window, for what a person pins: no compaction makes it smaller."""
_NUMBER = re.compile(r"m?(\d{1,9})")
_REMOVE = re.compile(r"(?:remove|rm)\b\s*(.*)", re.DOTALL)
_NOTE = re.compile(r"note (\d+)")


async def run(state: ChatState, words: str) -> None:
    live = await conversation_of(state)
    if not words:
        await _list(state, live)
    elif removed := _REMOVE.fullmatch(words):
        await _remove(state, removed[1].strip())
    else:
        await _add(state, live, await _meant(state, live, words))


async def _meant(state: ChatState, live: LiveConversation, words: str) -> Pin:
    """The text that is to be pinned, and what it is called."""
    if words == "last":
        return _newest_reply(live)
    if number := _NUMBER.fullmatch(words):
        return await _message(state, live, int(number[1]))
    notes = [int(found[1]) for it in live.pins if (found := _NOTE.fullmatch(it.label))]
    return Pin(f"note {max(notes, default=0) + 1}", words)


def _newest_reply(live: LiveConversation) -> Pin:
    for message, place in zip(reversed(live.messages), reversed(live.places), strict=True):
        if message["role"] == "assistant" and text_of(message).strip() and unwrap(message) is None:
            return Pin("handoff" if place is None else f"m{place}", text_of(message))
    raise InvalidArgument("there is no reply yet that could be pinned; /pin TEXT pins words of your own")


async def _message(state: ChatState, live: LiveConversation, number: int) -> Pin:
    rows = await state.desk.store.messages(live.session, number, number + 1)
    if not rows:
        there = f"they go from m0 to m{live.next_seq - 1}" if live.next_seq else "there are none yet"
        raise InvalidArgument(f"this conversation has no message m{number}; {there}, and /search shows their numbers")
    text = text_of(rows[0].message)
    if not text.strip():
        raise InvalidArgument(f"m{number} holds no text that could be pinned; it only calls tools or shows pictures")
    return Pin(f"m{number}", text)


async def _add(state: ChatState, live: LiveConversation, new: Pin) -> None:
    others = [it for it in live.pins if it.label != new.label and it.text != new.text]
    cost, together = _tokens(live, [new]), _tokens(live, [*others, new])
    most = int(LARGEST_SHARE * live.window.tokens)
    if together > most:
        raise InvalidArgument(
            f"{new.label} has {cost:,} tokens, and all pins together would have {together:,}; they may have {most:,}, "
            f"a tenth of the window, since no compaction makes them smaller. /pin remove N makes room"
        )
    is_in_view = any(text_of(message) == new.text for message in live.messages)
    await pin(state.desk.runtime, state.session, new)
    where = (
        "It is in view now; when a compaction folds it, it comes back word for word"
        if is_in_view
        else "It stands behind the system prompt from the next question on, word for word, whatever is compacted"
    )
    tell(
        state,
        f"Pinned {new.label}: {_shortly(new.text)}",
        f"{where}, and takes {cost:,} tokens of every request ({percent(cost, live.window.tokens)} of the window).",
    )


async def _remove(state: ChatState, words: str) -> None:
    if not words.isascii() or not words.isdigit():
        raise InvalidArgument("/pin remove needs the number of a pin, as /pin lists them: /pin remove 1")
    taken = await unpin(state.desk.runtime, state.session, int(words))
    tell(state, f"No longer pinned: {taken.label}, {_shortly(taken.text)}")


async def _list(state: ChatState, live: LiveConversation) -> None:
    pins = await pins_of(state.desk.runtime, state.session)
    if not pins:
        tell(state, "Nothing is pinned. /pin last, /pin mN or /pin TEXT keeps a text word for word, always.")
        return
    seen = {text_of(message) for message in live.messages}
    rows = [
        (f"{number}", it.label, f"{_tokens(live, [it]):,}", "in view" if it.text in seen else "stands", it.text)
        for number, it in enumerate(pins, 1)
    ]
    total = _tokens(live, pins)

    def draw(console: Console) -> None:
        aligns: tuple[Align, ...] = (">", "<", ">", "<", "<")
        head = ("", "pin", "tokens", "", "text")
        printed = [tuple(" ".join(printable(cell).split()) for cell in row) for row in (head, *rows)]
        printed = [(*row[:1], clipped(row[1], 24), *row[2:]) for row in printed]
        first, *lines = table(printed, aligns, console.width - 4)
        console.say(MARGIN + console.paint(first, "dim"))
        for line in lines:
            console.say(MARGIN + line)
        share = percent(total, live.window.tokens)
        told = f"{total:,} tokens together, {share} of the window. /pin remove N takes one away."
        console.say(hint(told, console))

    show(state, draw)


def _tokens(live: LiveConversation, pins: Sequence[Pin]) -> int:
    count = counter_for(live.target.model).text
    return sum(count(it.text) for it in pins)


def _shortly(text: str) -> str:
    return clipped(" ".join(printable(text[:400]).split()), 100)
