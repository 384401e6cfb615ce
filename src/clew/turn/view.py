"""The view of a conversation: the messages of the next request with their numbers and sizes, and the pinned texts.

Appending and the size cost the same at 100 messages and at 100,000; only a compaction, a switch of model and a reload
read all messages in view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress, count
from typing import Any

from clew.errors import InvalidArgument
from clew.handoff import SYSTEM_NOTE
from clew.messages import Message, Tool, calls_of, text_of, with_text_after_system
from clew.store import AppendResult, NewMessage, View
from clew.tokens import ConversationSize, count_each, counter_for

MAX_PINNED_SHARE = 0.25
"""Of the window, for all pins together: no compaction makes pins smaller."""
_PINS_HEADING = (
    "[Pinned: each of these stands word for word as it was first said, and holds for the whole conversation.]"
)


@dataclass(frozen=True, slots=True)
class Pin:
    """A text that is shown word for word also after a compaction: a message, or a skill that was opened.

    When a compaction has folded its message, it follows the system prompt: the prefix moves with the compaction anyway.
    """

    label: str
    text: str


def pinned_text(pins: Iterable[Pin]) -> str:
    """The text of the pins behind a system prompt; empty without pins."""
    fenced = [_fenced(pin) for pin in pins]
    return "\n\n".join([_PINS_HEADING, *fenced]) if fenced else ""


def _fenced(pin: Pin) -> str:
    """The text between marks that it cannot close: a skill may be from an untrusted repository."""
    mark = "pinned"
    while f"</{mark}" in pin.text or f"<{mark}" in pin.text:
        mark += "-"
    return f"<{mark} label={pin.label!r}>\n{pin.text}\n</{mark}>"


def pins_from_plain(value: Any) -> tuple[Pin, ...]:
    """The pins of the JSON in the store; invalid rows are left out."""
    rows = value if isinstance(value, list) else []
    return tuple(Pin(str(row["label"]), str(row["text"])) for row in rows if isinstance(row, dict))


def pins_to_plain(pins: Iterable[Pin]) -> list[dict[str, str]]:
    return [{"label": pin.label, "text": pin.text} for pin in pins]


def with_pin(pins: Sequence[Pin], new: Pin) -> tuple[Pin, ...]:
    """The pins with a new one at the end, in place of one with the same label or text."""
    return (*(old for old in pins if old.label != new.label and old.text != new.text), new)


def check_pins_fit(pins: Sequence[Pin], model: str, window: int) -> None:
    """Refuse pins that take more than their share of the window."""
    tokens, most = counter_for(model).text(pinned_text(pins)), int(MAX_PINNED_SHARE * window)
    if tokens > most:
        raise InvalidArgument(
            f"pins may take {most:,} tokens of a window of {window:,} together, and these would take {tokens:,}",
            remedy="take another one away first",
        )


_LOOK_BACK = 64


def prompt_message(prompt: str | None) -> Message | None:
    """A system prompt of the store as a message."""
    return None if prompt is None else {"role": "system", "content": prompt}


class ConversationView:
    """The parts of the next request: system prompt, pins, messages and tools, with their sizes.

    A cache of the store, which is not read again at every turn.
    """

    def __init__(self, stored: View, model: str, prompt: Message | None = None, pins: Sequence[Pin] = ()) -> None:
        self.stored = stored
        """As loaded or last compacted; later messages are in `messages` alone."""
        self.session, self.next_seq = stored.session, stored.next_seq
        self.messages: list[Message] = []
        self.seqs: list[int | None] = []
        """For each message its number in the history; None where a compaction wrote it for no single row."""
        self.prompt = prompt
        """The system prompt without the note and the pins."""
        self.pins = tuple(pins)
        self.pinned_text = ""
        """The pins that are not among the messages, as text behind the system prompt."""
        self.size = ConversationSize(counter_for(model))
        self.last_prompt_tokens = 0
        """As the provider reported for the newest reply; 0 without a report, or if the view has changed since."""
        self.unsettled = 0
        """Messages at the end that the host is expected to change in its next request."""
        self.sent_at: float | None = None
        """When the provider last read this view, by the clock of the runtime; None if it has not."""
        self._model = model
        self._tools: tuple[Sequence[Tool] | None, Sequence[Tool]] = (None, ())
        """As the caller of a turn gave them, and with the engine's tools."""
        self.show(stored)

    @property
    def base(self) -> int | None:
        """The compaction in effect; None without one."""
        return self.stored.base

    @property
    def appended(self) -> int:
        """How many messages were appended since the view was loaded or last compacted."""
        return len(self.messages) - len(self.stored.messages)

    def show(self, stored: View, messages: Sequence[Message] | None = None) -> None:
        """Show a stored view; `messages` are its messages as objects whose sizes are known."""
        shown = list(stored.messages if messages is None else messages)
        known = self._counts_of(shown)
        self.stored, self.session, self.next_seq = stored, stored.session, stored.next_seq
        self.messages = shown
        self.seqs = list(stored.seqs)
        self.last_prompt_tokens, self.sent_at = 0, None
        self._count(known)
        self._place_pins()

    def adopt(self, messages: Sequence[Message]) -> None:
        """Show other objects for the same messages: the caller's, in place of those read from the store."""
        known = {id(message): count for message, count in zip(messages, self.size.counts, strict=True)}
        self.messages = list(messages)
        self._count(known)

    def counted(self, messages: Sequence[Message | NewMessage]) -> list[NewMessage]:
        """Messages to append, with their sizes. No two are the same object: sizes are looked up by identity."""
        # Only newest messages can be the same object again: a caller keeps one and sends it twice.
        seen = {id(message) for message in self.messages[-_LOOK_BACK:]}
        counter = counter_for(self._model)
        rows: list[NewMessage] = []
        for given in messages:
            new = given if isinstance(given, NewMessage) else NewMessage(given)
            message: Message = new.message if id(new.message) not in seen else {**new.message}
            seen.add(id(message))
            rows.append(replace(new, message=message, tokens=counter.message(message)))
        return rows

    def append(self, appended: AppendResult, rows: Sequence[NewMessage]) -> None:
        """Show messages that were stored as the newest ones."""
        for seq, row in enumerate(rows, appended.first_seq):
            self.messages.append(row.message)
            self.seqs.append(seq)
            self.size.append(row.message, row.tokens)
        self.session, self.next_seq = appended.session, appended.next_seq

    def take_back(self, count: int) -> None:
        """Remove the newest messages, which could not be stored."""
        stop = len(self.messages) - count
        self.size.replace(stop, len(self.messages), [])
        del self.messages[stop:], self.seqs[stop:]
        self.next_seq -= count

    def is_next(self, appended: AppendResult) -> bool:
        """Whether appended messages directly follow the view; otherwise another process has written, too."""
        return appended.session == self.session and appended.first_seq == self.next_seq

    def open_group(self) -> int:
        """The index of the newest calls that wait for results; the end if none do."""
        start = len(self.messages)
        while start > 0 and self.messages[start - 1]["role"] == "tool":
            start -= 1
        if start == 0:
            return len(self.messages)
        waiting = {str(call.get("id")) for call in calls_of(self.messages[start - 1])}
        answered = {str(message.get("tool_call_id")) for message in self.messages[start:]}
        return start - 1 if waiting - answered else len(self.messages)

    def compactable(self, *, is_settled: bool = False) -> View:
        """The view that a compaction may choose from: all messages but calls that wait for results.

        `is_settled`: also without the messages that the host is expected to change, so that the changed history still
        begins with all that the compaction was made from.
        """
        stop = self.open_group()
        if is_settled and self.unsettled:
            stop = min(stop, self._settled())
        until = self.next_seq if stop == len(self.messages) else self.seqs[stop]
        assert until is not None  # messages behind the last compaction are rows
        return self.beginning(stop, until)

    def beginning(self, stop: int, until: int) -> View:
        """The first `stop` messages, when the history had `until`."""
        written = frozenset(index for index in self.stored.written if index < stop)
        messages, seqs = tuple(self.messages[:stop]), tuple(self.seqs[:stop])
        return View(self.session, self.stored.conversation, self.base, until, messages, seqs, written)

    def _settled(self) -> int:
        """The index of the first unsettled message; results stay with their calls; none where a compaction wrote."""
        stop = max(0, len(self.messages) - self.unsettled)
        while 0 < stop < len(self.messages) and self.messages[stop]["role"] == "tool":
            stop -= 1
        end, written = len(self.messages), self.stored.written
        is_plain = all(self.seqs[at] == self.next_seq - (end - at) and at not in written for at in range(stop, end))
        return stop if is_plain else end

    def starts_with(self, view: View) -> bool:
        """Whether an earlier view of this conversation is still the beginning of this one."""
        if view.base != self.base or len(view.messages) > len(self.messages):
            return False
        return all(old is new for old, new in zip(view.messages, self.messages, strict=False))

    def system_message(self, *, as_block: bool) -> Message | None:
        """The system prompt; after a compaction followed by a note and pins, so that it stays cached."""
        return self._prompt_with(self.pinned_text, as_block=as_block, has_note=self.base is not None)

    def _prompt_with(self, pinned: str, *, as_block: bool, has_note: bool) -> Message | None:
        if self.prompt is None:
            return {"role": "system", "content": pinned} if pinned else None
        behind = "\n\n".join(text for text in (SYSTEM_NOTE if has_note else "", pinned) if text)
        return with_text_after_system(self.prompt, behind, as_block=as_block) if behind else self.prompt

    def set_prompt(self, prompt: Message | None) -> None:
        if prompt != self.prompt:
            self.prompt = prompt
            self._count_prompt()

    def set_pins(self, pins: Sequence[Pin], *, is_coming: bool = False) -> None:
        """Replace the pins. `is_coming`: the next messages hold the text that is not in view yet."""
        self.pins = tuple(pins)
        if not is_coming:
            self._place_pins()

    def tools_with(self, given: Sequence[Tool], own: Callable[[], Sequence[Tool]]) -> Sequence[Tool]:
        """The caller's tools and the engine's own; the same object for as long as the caller gives the same."""
        if self._tools[0] is not given:
            engines = own()
            self._tools = (given, (*given, *engines) if engines else given)
            self.size.set_tools(list(self._tools[1]))
        return self._tools[1]

    @property
    def tools(self) -> Sequence[Tool] | None:
        """The tools of the newest request; None before the first one."""
        return None if self._tools[0] is None else self._tools[1]

    def fixed_parts(self) -> Sequence[str]:
        """The parts that no compaction makes smaller, in words."""
        return (f"the system prompt ({self.size.system:,} tokens)", f"the tools ({self.size.tools:,} tokens)")

    def _place_pins(self) -> None:
        self.pinned_text = self._pins_beside(self.messages)
        self._count_prompt()

    def _pins_beside(self, messages: Sequence[Message]) -> str:
        """The pins that are not among these messages, as text."""
        shown = {text_of(message) for message in messages} if self.pins else set()
        return pinned_text(pin for pin in self.pins if pin.text not in shown)

    def counted_with(self, replaced: int, messages: Sequence[Message]) -> int:
        """Our count of the next request if a compaction puts `messages` in place of the first `replaced` ones."""
        known = self._counts_of(messages)
        unknown = [message for message in messages if id(message) not in known]
        shown = sum(known.get(id(message), 0) for message in messages) + sum(count_each(unknown, self._model))
        pinned = self._pins_beside([*messages, *self.messages[replaced:]] if self.pins else ())
        prompt = self._prompt_with(pinned, as_block=False, has_note=True)
        system = counter_for(self._model).system(prompt.get("content") if prompt else None)
        return self.size.counted - self.size.between(0, replaced) + shown + system - self.size.system

    def _counts_of(self, messages: Sequence[Message]) -> dict[int, int]:
        """The counts of those of these messages that are in view, by their ids."""
        # Without a Python loop: a view can have many thousand messages before it is folded.
        is_asked_for = set(map(id, messages)).__contains__
        positions = compress(count(), map(is_asked_for, map(id, self.messages)))
        return {id(self.messages[at]): self.size.between(at, at + 1) for at in positions}

    def count(self, messages: Sequence[Message]) -> list[int]:
        counter = counter_for(self._model)
        return [counter.message(message) for message in messages]

    def use_model(self, model: str) -> None:
        """Use another model, or another window of the same one: the last real figure does not apply any more."""
        self.last_prompt_tokens = 0
        if model != self._model:
            self.sent_at = None
            self._model = model
            self.size = ConversationSize(counter_for(model), tools=list(self._tools[1]))
            self._count({})
            self._count_prompt()

    def _count(self, known: dict[int, int]) -> None:
        """Count the messages whose count is not known."""
        unknown = [message for message in self.messages if id(message) not in known]
        fresh = dict(zip(map(id, unknown), count_each(unknown, self._model), strict=True))
        counts = [known.get(id(message), fresh.get(id(message), 0)) for message in self.messages]
        self.size.replace(0, len(self.size), counts)

    def _count_prompt(self) -> None:
        prompt = self.system_message(as_block=False)
        self.size.set_system(prompt.get("content") if prompt else None)
