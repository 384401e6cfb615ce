"""`/memory`, `/skills` and `/pin`: text that the model gets in addition to the conversation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches

from clew.agent.memory import Memory, MemoryChangeResult, MemoryName
from clew.cli.console import Console
from clew.cli.pages import MARGIN, percent
from clew.cli.text import clip, printable, printable_line, wrap
from clew.cli.tui.state import ChatState
from clew.errors import InvalidArgument
from clew.handoff import unwrap
from clew.messages import text_of
from clew.tokens import counter_for
from clew.turn import Conversation, Pin

MEMORY_FILES: tuple[MemoryName, ...] = ("memory", "user")
MEMORY_VERBS = "add TEXT, user TEXT, remove PART or edit"
WHEN_SEEN = "The model sees it in new conversations, and here after the next compaction."
MAX_PINNED_SHARE = 0.10
"""The share of the window for pins, which no compaction shortens."""
_MESSAGE_NUMBER = re.compile(r"m?(\d{1,9})")
_REMOVE_WORDS = re.compile(r"(?:remove|rm)\b\s*(.*)", re.DOTALL)
_NOTE_LABEL = re.compile(r"note (\d+)")


async def run_memory(state: ChatState, words: str) -> None:
    verb, _, text = words.partition(" ")
    text = text.strip()
    if not verb:
        state.show_lines(lambda console: _memory_lines(state, console))
    elif verb == "edit":
        paths = " and ".join(str(state.app.memory.path(which)) for which in MEMORY_FILES)
        state.show_text(f"Edit {paths} with any editor. {WHEN_SEEN}")
    elif verb not in ("add", "user", "remove"):
        raise InvalidArgument(f"/memory {verb} is not known", remedy=f"it takes {MEMORY_VERBS}")
    elif not text:
        raise InvalidArgument(f"/memory {verb} needs a text: /memory {verb} short answers")
    elif verb == "remove":
        _show_change(state, await _remove_entry(state, text))
    else:
        _show_change(state, await state.app.memory.add("user" if verb == "user" else "memory", text, state.session))


async def _remove_entry(state: ChatState, part: str) -> MemoryChangeResult:
    """Remove the entry that contains the text, from either file."""
    memory = state.app.memory
    holding = [which for which in MEMORY_FILES if any(part.casefold() in it.casefold() for it in memory.entries(which))]
    if len(holding) > 1:
        raise InvalidArgument(
            f"entries of both MEMORY.md and USER.md hold {part!r}", remedy="give more of the one that is meant"
        )
    return await memory.remove(holding[0] if holding else "memory", part, state.session)


def _show_change(state: ChatState, change: MemoryChangeResult) -> None:
    if not change.is_done:
        raise InvalidArgument(change.message)
    state.show_text(change.message, WHEN_SEEN)


def _memory_lines(state: ChatState, console: Console) -> Iterator[str]:
    for which in MEMORY_FILES:
        yield from _memory_file_lines(state.app.memory, which, console)
        yield ""
    if not state.app.settings.memory.enabled:
        yield from console.styled_lines("The model does not see it: memory.enabled is off in the config.", "yellow")
    for line in wrap(f"/memory {MEMORY_VERBS}. {WHEN_SEEN}", console.page_width):
        yield console.style(line, "dim")


def _memory_file_lines(memory: Memory, which: MemoryName, console: Console) -> Iterator[str]:
    yield from console.styled_lines(memory.fullness(which), "bold")
    entries = memory.entries(which)
    for entry in entries:
        for number, line in enumerate(wrap(entry, console.page_width - 4)):
            yield f"{'  ' if number else '- '}{line}"
    if not entries:
        yield from console.styled_lines("nothing is remembered there", "dim")


async def run_skills(state: ChatState, words: str) -> None:
    skills = state.app.skills
    if words:
        found = [skill for skill in skills if skill.name.casefold() == words.casefold()]
        if not found:
            near = get_close_matches(words, [skill.name for skill in skills], 1)
            remedy = f"did you mean {near[0]}?" if near else "/skills lists those there are"
            raise InvalidArgument(f"there is no skill {words!r}", remedy=remedy)
        state.questions.append(f"Open the skill {found[0].name} and follow it.")
        return
    if not skills:
        folders = f"{state.app.project / '.clew' / 'skills'}, its .claude/skills, or {state.app.home / 'skills'}"
        state.show_text(f"There are no skills. One is a folder with a SKILL.md in {folders}.")
        return

    def lines(console: Console) -> Iterator[str]:
        room = console.page_width - 2
        for skill in skills:
            yield console.style(printable(skill.name), "cyan", "bold")
            yield from (MARGIN + line for line in wrap(skill.description, room))
            yield MARGIN + console.style(clip(printable(str(skill.path)), room), "dim")
        yield from console.hint_lines("/skills NAME opens one; its text stays through compactions")

    state.show_lines(lines)


async def run_pin(state: ChatState, words: str) -> None:
    conversation = await state.conversation()
    if not words:
        _list_pins(state, conversation)
    elif removed := _REMOVE_WORDS.fullmatch(words):
        await _remove_pin(state, conversation, removed[1].strip())
    else:
        await _add_pin(state, conversation, await _pin_from_words(state, conversation, words))


async def _pin_from_words(state: ChatState, conversation: Conversation, words: str) -> Pin:
    """The text to pin, with a label."""
    if words == "last":
        return _pin_of_last_reply(conversation)
    if number := _MESSAGE_NUMBER.fullmatch(words):
        return await _pin_of_message(state, conversation, int(number[1]))
    notes = [int(found[1]) for pin in conversation.pins if (found := _NOTE_LABEL.fullmatch(pin.label))]
    return Pin(f"note {max(notes, default=0) + 1}", words)


def _pin_of_last_reply(conversation: Conversation) -> Pin:
    for message, number in zip(reversed(conversation.messages), reversed(conversation.view.seqs), strict=True):
        if message["role"] == "assistant" and text_of(message).strip() and unwrap(message) is None:
            return Pin("handoff" if number is None else f"m{number}", text_of(message))
    raise InvalidArgument("there is no reply to pin yet", remedy="/pin TEXT pins words of your own")


async def _pin_of_message(state: ChatState, conversation: Conversation, number: int) -> Pin:
    rows = await state.app.store.messages(conversation.session, number, number + 1, keep_damaged=True)
    if not rows:
        last = conversation.view.next_seq - 1
        there = f"they go from m0 to m{last}" if last >= 0 else "there are none yet"
        raise InvalidArgument(
            f"this conversation has no message m{number}", remedy=f"{there}, and /search shows their numbers"
        )
    text = text_of(rows[0].message)
    if not text.strip():
        raise InvalidArgument(f"m{number} has no text to pin", remedy="it only calls tools or shows pictures")
    return Pin(f"m{number}", text)


async def _add_pin(state: ChatState, conversation: Conversation, new: Pin) -> None:
    window = conversation.window.tokens
    others = [pin for pin in conversation.pins if pin.label != new.label and pin.text != new.text]
    cost, together = _pin_tokens(conversation, [new]), _pin_tokens(conversation, [*others, new])
    most = int(MAX_PINNED_SHARE * window)
    if together > most:
        raise InvalidArgument(
            f"{new.label} has {cost:,} tokens, and all pins together would have {together:,}",
            remedy=(
                f"they may have {most:,}, "
                f"a tenth of the window, since no compaction makes them smaller. /pin remove N makes room"
            ),
        )
    is_in_view = any(text_of(message) == new.text for message in conversation.messages)
    await conversation.pin(new)
    where = (
        "It is in view now; when a compaction folds it, it is shown again word for word"
        if is_in_view
        else "It follows the system prompt from the next question on, word for word, whatever is compacted"
    )
    state.show_text(
        f"Pinned {new.label}: {_short_text(new.text)}",
        f"{where}, and takes {cost:,} tokens of every request ({percent(cost, window)} of the window).",
    )


async def _remove_pin(state: ChatState, conversation: Conversation, words: str) -> None:
    if not words.isascii() or not words.isdigit():
        raise InvalidArgument("/pin remove needs the number of a pin, as /pin lists them: /pin remove 1")
    removed = await conversation.unpin(int(words))
    state.show_text(f"No longer pinned: {removed.label}, {_short_text(removed.text)}")


def _list_pins(state: ChatState, conversation: Conversation) -> None:
    pins = conversation.pins
    if not pins:
        state.show_text("Nothing is pinned. /pin last, /pin mN or /pin TEXT keeps a text verbatim.")
        return
    in_view = {text_of(message) for message in conversation.messages}
    rows = [("", "pin", "tokens", "", "text")] + [
        (
            f"{number}",
            clip(printable_line(pin.label), 24),
            f"{_pin_tokens(conversation, [pin]):,}",
            "in view" if pin.text in in_view else "pinned",
            printable_line(pin.text),
        )
        for number, pin in enumerate(pins, 1)
    ]
    total = _pin_tokens(conversation, pins)
    share = percent(total, conversation.window.tokens)

    def lines(console: Console) -> Iterator[str]:
        yield from console.headed_table(rows, "><><<")
        together = f"{total:,} tokens together, {share} of the window."
        yield from console.hint_lines(f"{together} /pin remove N removes one.")

    state.show_lines(lines)


def _pin_tokens(conversation: Conversation, pins: Sequence[Pin]) -> int:
    count = counter_for(conversation.target.model).text
    return sum(count(pin.text) for pin in pins)


def _short_text(text: str) -> str:
    return clip(printable_line(text[:400]), 100)
