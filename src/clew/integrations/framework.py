"""Message objects of a framework through `clew.Projection`: translated once each, and given back as the same objects.

Hooks of frameworks are called with the whole history before every model call, and one hook often serves many
conversations. `FrameworkConversations` finds the conversation that a history belongs to and reads only what is new of
it, so that the work of a call does not grow with the history. How a framework writes messages is a `MessageFormat`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby, takewhile
from operator import is_
from typing import Any

from clew.messages import DialectName, Message, ToolCall, digest, places_among, text_of
from clew.turn import Projection
from clew.usage import CanonicalUsage

MAX_OPEN = 256
"""Open conversations; others are read from the store again."""


@dataclass(frozen=True, slots=True)
class MessageFormat:
    """How a framework writes messages."""

    read: Callable[[Any], Sequence[Message]]
    """The messages that an object of the framework represents, at least one."""
    write: Callable[[Sequence[Message], Any], Any]
    """An object for changed or new messages, made from the original object (None for new ones)."""
    dialect: DialectName | None = "openai_chat"
    """The dialect of the messages that are read; None: detect it."""


@dataclass(frozen=True, slots=True)
class FittedMessages:
    """The messages of one model call."""

    messages: list[Any]
    is_folded: bool
    """Whether anything is not as received."""
    _projection: Projection = field(repr=False)

    def observe(self, usage: CanonicalUsage | None) -> None:
        """Correct the count by the usage that the call reported."""
        if usage is not None and usage.prompt_tokens:
            self._projection.observe(usage)

    async def aobserve(self, usage: CanonicalUsage | None) -> None:
        if usage is not None and usage.prompt_tokens:
            await self._projection.aobserve(usage)


class FrameworkConversations:
    """The conversations that one hook of a framework sees. `options` are those of `clew.Projection`.

    Calls may come from any thread and any event loop.
    """

    def __init__(
        self, format: MessageFormat, define_tools: Callable[[Sequence[Any]], list[Any]] = list, **options: Any
    ) -> None:
        """`define_tools` gives the definitions of tools that are objects of the framework."""
        self._format = format
        self._define_tools = OnceForEqual(define_tools)
        self._options = options
        self._first: Projection | None = None
        self._open: list[FrameworkConversation] = []
        """In the order of their last use."""
        self._lock = threading.Lock()

    def fit(self, items: Iterable[Any], **call: Any) -> FittedMessages:
        """The messages to send for the whole history of a conversation; unchanged ones are the same objects.

        Further arguments are those of `_begin`.
        """
        begun = self._begin(items, **call)
        return begun.finish(begun.projection.fit(begun.history, **begun.beside))

    async def afit(self, items: Iterable[Any], **call: Any) -> FittedMessages:
        """The same as `fit`, for async callers."""
        begun = self._begin(items, **call)
        return begun.finish(await begun.projection.afit(begun.history, **begun.beside))

    def observe(self, items: Iterable[Any], usage: CanonicalUsage | None, name: str | None = None) -> None:
        """Correct the count by the usage of the call with these messages, in hooks that follow the call."""
        if usage is not None and usage.prompt_tokens:
            self._begin(items, name=name).projection.observe(usage)

    async def aobserve(self, items: Iterable[Any], usage: CanonicalUsage | None, name: str | None = None) -> None:
        if usage is not None and usage.prompt_tokens:
            await self._begin(items, name=name).projection.aobserve(usage)

    def compact(self, items: Iterable[Any], name: str | None = None) -> bool:
        """Fold a conversation now, whatever its size is; False where nothing could be folded."""
        begun = self._begin(items, name=name)
        begun.projection.fit(begun.history, **begun.beside)
        return begun.projection.compact()

    @property
    def projections(self) -> list[Projection]:
        """The projections of the open conversations, in the order of their last use."""
        with self._lock:
            return [it.projection for it in self._open]

    def close(self) -> None:
        """Close the store; what it holds stays, unless it is in memory."""
        with self._lock:
            first, self._first, self._open = self._first, None, []
        if first is not None:
            first.close()

    def _begin(
        self,
        items: Iterable[Any],
        *,
        name: str | None = None,
        model: str | None = None,
        system: Any = None,
        tools: Iterable[Any] | None = None,
    ) -> _BegunFit:
        """Find the conversation, and read what is new of it.

        Histories with different names are different conversations. `model` is used if none was given before the first
        call. `system` and `tools` are sent beside the messages, and count for the size.
        """
        listed = list(items)
        lead = list(takewhile(self._is_prompt, listed))
        prompt = [text_of(message) for item in lead for message in self._format.read(item)]
        texts = [*([text_of({"role": "system", "content": system})] if system else []), *prompt]
        with self._lock:
            conversation, history = self._find(listed[len(lead) :], name, model)
        definitions = None if tools is None else self._define_tools(tools)
        beside = {"system": "\n\n".join(texts) or None, "tools": definitions, "dialect": self._format.dialect}
        return _BegunFit(conversation, conversation.projection, history, lead, beside)

    def _is_prompt(self, item: Any) -> bool:
        read = self._format.read(item)
        return all(isinstance(it, dict) and it.get("role") in ("system", "developer") for it in read)

    def _find(
        self, items: list[Any], name: str | None, model: str | None
    ) -> tuple[FrameworkConversation, list[Message]]:
        known = [(*it.count_known(items), at) for at, it in enumerate(self._open) if it.name == name]
        count, is_whole, at = max(known, default=(-1, False, -1))
        if count < 0:
            if self._first is None:
                self._first = Projection(**{"model": model, **self._options})
            found = FrameworkConversation(self._format, self._first.another(name=name), name)
            # Reads the store once for each conversation.
            count = found.resume(items) if name is not None else 0
        else:
            found = self._open.pop(at)
        self._open.append(found)
        del self._open[:-MAX_OPEN]
        return found, found.take(items, count, is_whole)


class FrameworkConversation:
    """One conversation: the objects of its history, and the messages they were read as. It only grows."""

    def __init__(self, format: MessageFormat, projection: Projection, name: str | None = None) -> None:
        self.projection = projection
        self.name = name
        self._format = format
        self._items: list[Any] = []
        """The objects as received last, by their place: all of them, or after a restart those that are in view."""
        self._read: list[Sequence[Message]] = []
        """The messages of each."""
        self._history: list[Message] = []
        self._shown: list[Any] = []
        """The objects returned last, if some of them are folded."""
        self._written: list[tuple[Sequence[Message], Any]] = []
        """Objects that were written, with their messages."""

    def count_known(self, items: list[Any]) -> tuple[int, bool]:
        """How many of these objects are known, if they begin with the known history, else -1; and whether the objects
        are the history itself.

        A framework that keeps the folded list sends that list with more behind it: it represents the same history.
        """
        for known in (self._items, self._shown):
            if len(items) >= len(known) and (known or not self._items) and self._are_same(known, items[: len(known)]):
                return len(known), known is self._items
        return -1, False

    def resume(self, items: list[Any]) -> int:
        """How many of these objects are the view that the store has of a named conversation; 0 if they are not.

        For a framework that keeps the folded list, after a restart: the view represents the whole history.
        """
        # The store has chat messages, so that objects of other wires cannot be compared with them.
        history = self.projection.history if self._format.dialect == "openai_chat" else []
        if not history:
            return 0
        view = self.projection.fit(history, dialect="openai_chat")
        read = [self._format.read(item) for item in items]
        ends = list(accumulate(map(len, read)))
        listed = [message for messages in read for message in messages]
        if len(view) not in ends or list(map(digest, view)) != list(map(digest, listed[: len(view)])):
            # `fit` took the messages of the store for those of the host.
            self.projection = self.projection.another(name=self.name)
            return 0
        self._history, self._shown = history, items[: ends.index(len(view)) + 1]
        for item, end, messages in zip(self._shown, ends, read, strict=False):
            self._add(item, view[end - len(messages) : end])
        return len(self._shown)

    def take(self, items: list[Any], known: int, is_whole: bool) -> list[Message]:
        """Read the objects behind the known ones; returns the whole history as messages."""
        if is_whole:
            # They may be other objects than before, and the newest are given back.
            self._items[:] = items[:known]
        for item in items[known:]:
            messages = self._format.read(item)
            self._add(item, messages)
            self._history.extend(messages)
        return list(self._history)

    def _are_same(self, known: list[Any], items: list[Any]) -> bool:
        """Whether objects are the same, or equal, or, where a framework knows no equality, say the same."""
        if known == items:
            return True
        read = self._format.read
        listed = self._read if known is self._items else map(read, known)
        return all(
            one is other or one == other or messages == read(other)
            for one, other, messages in zip(known, items, listed, strict=True)
        )

    def show(self, fitted: Sequence[Message]) -> tuple[list[Any], bool]:
        """Messages as objects of the framework, and whether any of them is not as received."""
        if len(fitted) == len(self._history) and all(map(is_, fitted, self._history)):
            return list(self._items), False
        used: list[tuple[Sequence[Message], Any]] = []
        objects: list[Any] = []
        for place, group in groupby(self._placed(fitted), key=lambda placed: placed[0]):
            messages = [message for _, message in group]
            if place >= 0 and _is_whole(messages, self._read[place]):
                objects.append(self._items[place])
                continue
            for together in [messages] if place >= 0 else [[message] for message in messages]:
                known = next((it for it in self._written if _is_whole(together, it[0])), None)
                original = self._items[place] if place >= 0 else None
                used.append(known or (together, self._format.write(together, original)))
                objects.append(used[-1][1])
        self._written, self._shown = used, objects
        return list(objects), True

    def _add(self, item: Any, messages: Sequence[Message]) -> None:
        self._items.append(item)
        self._read.append(messages)

    def _placed(self, fitted: Sequence[Message]) -> Iterable[tuple[int, Message]]:
        """Each message with the index of its object; -1 where there is none."""
        places = [place for place, messages in enumerate(self._read) for _ in messages]
        known = [message for messages in self._read for message in messages]
        is_plain = all(isinstance(message, dict) for message in (*fitted, *known))
        for message, at in zip(fitted, (places_among if is_plain else _same_objects)(fitted, known), strict=True):
            yield (places[at] if at >= 0 else -1), message


@dataclass(frozen=True, slots=True)
class _BegunFit:
    """A call whose history is read and not yet fitted."""

    conversation: FrameworkConversation
    projection: Projection
    history: list[Message]
    lead: list[Any]
    beside: dict[str, Any]

    def finish(self, fitted: Sequence[Message]) -> FittedMessages:
        objects, is_folded = self.conversation.show(fitted)
        return FittedMessages([*self.lead, *objects], is_folded, self.projection)


def _same_objects(messages: Sequence[Any], history: Sequence[Any]) -> list[int]:
    """The place of each message in a history; -1 for another object. For messages that are objects of an SDK."""
    places = {id(message): at for at, message in enumerate(history)}
    return [places.get(id(message), -1) for message in messages]


def _is_whole(messages: Sequence[Message], read: Sequence[Message]) -> bool:
    return len(messages) == len(read) and all(map(is_, messages, read))


def text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def picture_part(url: str | None = None, *, data: str | None = None, media_type: str | None = None) -> dict[str, Any]:
    """A picture at an address, or as base64."""
    address = url if url is not None else f"data:{media_type or 'image/png'};base64,{data}"
    return {"type": "image_url", "image_url": {"url": address}}


def tool_call(id: str, name: str, arguments: Any) -> ToolCall:
    """A call; arguments that are no text yet are written as JSON."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": text}}


def as_content(parts: Sequence[dict[str, Any]]) -> str | list[Any]:
    """Parts as the content of a message: a text where that is all there is."""
    if not parts:
        return ""
    return parts[0]["text"] if len(parts) == 1 and parts[0].get("type") == "text" else list(parts)


def assistant_message(
    parts: Sequence[dict[str, Any]], calls: Sequence[ToolCall] = (), reasoning: Sequence[dict[str, Any]] = ()
) -> Message:
    """A message of the model; thinking counts for its size and stays with it."""
    message: Message = {"role": "assistant", "content": as_content(parts) or (None if calls else "")}
    if calls:
        message["tool_calls"] = list(calls)
    if reasoning:
        message["reasoning"] = list(reasoning)
    return message


def tool_message(call_id: str, content: Any, *, is_error: bool = False) -> Message:
    message: Message = {"role": "tool", "tool_call_id": call_id, "content": content}
    if is_error:
        message["is_error"] = True
    return message


def function_tools(named: Iterable[tuple[str, str | None, Any]]) -> list[Any]:
    """Tool definitions, for their size, from name, description and JSON schema."""
    made = [{"name": name, "description": about or "", "parameters": schema or {}} for name, about, schema in named]
    return [{"type": "function", "function": function} for function in made]


def usage_within(
    total: int | None, output: int | None, read: int | None = 0, written: int | None = 0
) -> CanonicalUsage:
    """The usage of a call, where the framework counts cached tokens inside the input."""
    read, written = read or 0, written or 0
    return CanonicalUsage(max(0, (total or 0) - read - written), output or 0, read, written)


class OnceForEqual:
    """A function that is called once as long as its arguments are equal, and then returns the same object."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self._asked: list[Any] | None = None
        self._answer: Any = None

    def __call__(self, items: Iterable[Any] | None) -> Any:
        listed = list(items or ())
        if self._asked != listed:
            self._asked, self._answer = listed, self._function(listed)
        return self._answer
