"""A conversation while it is being talked in: its view, sizes and engine, kept up by what is appended.

The store is the truth; this spares reading it at every turn. Appending and asking for the size cost the same at 100
messages and at 100,000; only a compaction, a switch of model and a reload look at everything in view.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clew.engines import ContextEngine
from clew.messages import Message, Part, Tool, calls_of, text_of
from clew.store import Appended, ModelCall, View
from clew.summaries import SYSTEM_NOTE
from clew.tokens import Calibration, ConversationSize, Window, count_each, counter_for
from clew.turn.pins import Pin, pinned_text
from clew.turn.target import Target

if TYPE_CHECKING:
    from clew.turn.prepare import Preparation


@dataclass(slots=True)
class LiveConversation:
    """What the next request is made from."""

    root: str
    """The first session of the conversation: what a cache key is made of."""
    prompt: Message | None
    """The system prompt, as it stands before the first compaction."""
    target: Target
    window: Window
    view: View
    """As it was loaded or last compacted; what came since stands in `messages` alone."""
    observes: bool
    """Whether the engine has been told of every message from the first on."""
    session: str = ""
    next_seq: int = 0
    messages: list[Message] = field(default_factory=list)
    places: list[int | None] = field(default_factory=list)
    last_prompt_tokens: int = 0
    """As the provider told for the newest reply; 0 when it has not, or when the view has changed since."""
    calls: list[ModelCall] = field(default_factory=list)
    """Calls of the summariser that are not stored yet."""
    saved_memory: Any = None
    pins: tuple[Pin, ...] = ()
    standing: str = ""
    """Pinned texts that the view no longer shows, as they stand behind the system prompt."""
    preparation: Preparation | None = None
    busy: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by a turn: those that come meanwhile wait in their order."""
    compacting: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by a compaction: messages may be appended meanwhile, and requests wait."""
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the store and this are brought to the same state."""
    engine: ContextEngine = field(init=False)
    """Given by the runtime, since what it writes summaries with follows this conversation's model and window."""
    size: ConversationSize = field(init=False)
    _tools: tuple[object, Sequence[Tool]] = field(default=(None, ()))
    _counted_as: str | None = None

    def __post_init__(self) -> None:
        self.size = ConversationSize(counter_for(self.target.model))
        self.show(self.view)

    # -- what is seen --------------------------------------------------------------------------------------------------

    def show(self, view: View, messages: Sequence[Message] | None = None) -> None:
        """Take over a view; `messages` are the same ones as objects that are known already."""
        known = self._counts_by_message()
        self.view, self.session, self.next_seq = view, view.session, view.next_seq
        self.messages = list(view.messages if messages is None else messages)
        self.places = list(view.places)
        self.last_prompt_tokens = 0
        self._stand()
        self._count(known)

    def use(self, target: Target, window: Window) -> None:
        """Another model, or another window of the same one."""
        self.target, self.window = target, window
        self.last_prompt_tokens = 0
        if target.model != self._counted_as:
            self._count({})
        self.engine.update_model(target.model, window.tokens, target.max_tokens or window.max_output)

    def append(self, appended: Appended, messages: Sequence[Message], counts: Sequence[int]) -> None:
        """What the store has taken in as the newest messages."""
        for place, (message, count) in enumerate(zip(messages, counts, strict=True), appended.first_seq):
            self.messages.append(message)
            self.places.append(place)
            self.size.append(message, count)
        self.session, self.next_seq = appended.session, appended.next_seq
        if self.observes:
            self.engine.observe(messages)

    @property
    def is_in_use(self) -> bool:
        return self.busy.locked() or self.compacting.locked()

    def is_next(self, appended: Appended) -> bool:
        """Whether what was appended stands right behind what is seen here; otherwise others have written too."""
        return appended.session == self.session and appended.first_seq == self.next_seq

    # -- beside the messages -------------------------------------------------------------------------------------------

    @property
    def is_compacted(self) -> bool:
        return self.view.base is not None

    def use_prompt(self, prompt: Message | None) -> None:
        """Another system prompt: for hosts whose clients bring their own with each request."""
        if prompt != self.prompt:
            self.prompt = prompt
            self._weigh_prompt()

    def use_pins(self, pins: tuple[Pin, ...], *, stand: bool = True) -> None:
        """Other pins. Those in view change nothing now; without `stand`, what is not in view yet is on its way."""
        self.pins = pins
        if stand:
            self._stand()
            self._weigh_prompt()

    def _stand(self) -> None:
        shown = {text_of(message) for message in self.messages} if self.pins else set()
        self.standing = pinned_text(pin for pin in self.pins if pin.text not in shown)

    def system_message(self, *, as_blocks: bool) -> Message | None:
        """The system prompt; after a compaction with a note and pins behind it, which leaves what is cached cached."""
        if self.prompt is None:
            return {"role": "system", "content": self.standing} if self.standing else None
        behind = "\n\n".join(text for text in (SYSTEM_NOTE if self.is_compacted else "", self.standing) if text)
        if not behind:
            return self.prompt
        content = self.prompt.get("content")
        note: Part = {"type": "text", "text": behind}
        if isinstance(content, list):
            return {**self.prompt, "content": [*content, note]}
        if as_blocks:
            return {**self.prompt, "content": [{"type": "text", "text": content or ""}, note]}
        return {**self.prompt, "content": f"{content or ''}\n\n{behind}"}

    def tools_with(self, given: Sequence[Tool]) -> Sequence[Tool]:
        """The caller's tools and the engine's own; the same object for as long as the caller gives the same."""
        if self._tools[0] is not given or self._tools[0] is None:
            own = self.engine.get_tool_schemas()
            self._tools = (given, (*given, *own) if own else given)
            self.size.set_tools(list(self._tools[1]))
        return self._tools[1]

    # -- where it may be cut -------------------------------------------------------------------------------------------

    def open_group(self) -> int:
        """Where the newest calls begin that still wait for results; the end where none do."""
        start = len(self.messages)
        while start > 0 and self.messages[start - 1]["role"] == "tool":
            start -= 1
        if start == 0:
            return len(self.messages)
        waiting = {call["id"] for call in calls_of(self.messages[start - 1])}
        answered = {message.get("tool_call_id") for message in self.messages[start:]}
        return start - 1 if waiting - answered else len(self.messages)

    def considered(self) -> View:
        """The view that a compaction may choose from: all there is, but not calls that are still running."""
        stop = self.open_group()
        until = self.next_seq if stop == len(self.messages) else self.places[stop]
        assert until is not None  # what came after the last compaction are rows
        written = frozenset(index for index in self.view.written if index < stop)
        messages, places = tuple(self.messages[:stop]), tuple(self.places[:stop])
        return View(self.session, self.view.conversation, self.view.base, until, messages, places, written)

    def starts_with(self, view: View) -> bool:
        """Whether an earlier view of this conversation is still the beginning of what is seen."""
        if view.base != self.view.base or len(view.messages) > len(self.messages):
            return False
        return all(old is new for old, new in zip(view.messages, self.messages, strict=False))

    # -- sizes ---------------------------------------------------------------------------------------------------------

    def count(self, messages: Sequence[Message]) -> list[int]:
        counter = counter_for(self.target.model)
        return [counter.message(message) for message in messages]

    def _counts_by_message(self) -> dict[int, int]:
        counts = self.size.counts if len(self.size) == len(self.messages) else []
        return {id(message): count for message, count in zip(self.messages, counts, strict=False)}

    def _count(self, known: dict[int, int]) -> None:
        """Count what is in view, but nothing twice."""
        model = self.target.model
        if model != self._counted_as:
            calibration = Calibration()
            self.size = ConversationSize(counter_for(model), tools=list(self._tools[1]), calibration=calibration)
            self._counted_as, known = model, {}
        unknown = [message for message in self.messages if id(message) not in known]
        fresh = dict(zip(map(id, unknown), count_each(unknown, model), strict=True))
        counts = [known.get(id(message), fresh.get(id(message), 0)) for message in self.messages]
        self.size.replace(0, len(self.size), counts)
        self._weigh_prompt()

    def _weigh_prompt(self) -> None:
        prompt = self.system_message(as_blocks=False)
        self.size.set_system(prompt.get("content") if prompt else None)
