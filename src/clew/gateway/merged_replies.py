"""Merge several replies into the one that the client receives, where the gateway answered calls of its own tools.

The calls of our tools are left out, and blocks, items, calls and events are numbered again. The end of a reply, with
its finish reason and usage, is held until it is known that no further reply follows; its usage is then the sum. An
event that needs no change passes as the received bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from clew.gateway.upstream import ReplyReader, StreamEvents, stream_events
from clew.gateway.wires import GatewayWire, UnreadableBody, read_json, write_json
from clew.usage import CanonicalUsage

_DONE = "[DONE]"
_BETWEEN = "\n\n"
"""Between the texts of two replies, on wires whose replies have one text."""
_TEXTS = ("content", "reasoning_content", "reasoning")
_BEGINNINGS = ("response.created", "response.in_progress", "response.queued")
_ENDS = ("response.completed", "response.incomplete")


def summed_usage(one: Any, other: Any) -> Any:
    """The sum of two usages of one wire: numbers are added, other fields are those of the second."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {**one, **{name: summed_usage(one.get(name), value) for name, value in other.items()}}
    is_number = isinstance(one, int) and isinstance(other, int) and not isinstance(other, bool)
    return one + other if is_number else one if other is None else other


class ReplyMerger(ABC):
    """Merges the replies of one request, on one wire: events of streams, or whole bodies."""

    usage_field: ClassVar[str] = "usage"
    head_fields: ClassVar[tuple[str, ...]] = ("id", "created", "created_at", "model")
    """The fields that identify a reply: the client gets those of the first one."""
    names_events: ClassVar[bool] = False
    """Whether events of a stream have a name, which is their type."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names
        self._is_later = False
        """Whether a reply preceded the current one."""
        self._earlier: Any = None
        """The summed usage of the replies before."""
        self._usage: Any = None
        self._held: list[Any] = []
        self._places: dict[Any, int | None] = {}
        """Numbered parts of this reply (calls, blocks, items), with the client's number; None for our calls."""
        self._next = 0
        self._has_client_call = False
        self._head: dict[str, Any] = {}
        self._has_text = False
        """Whether a text was forwarded, so that the text of the next reply begins with a gap."""
        self._needs_gap = False
        self._before: Any = None
        """The content of the earlier bodies, and with that of the newest one, as the wire writes it."""
        self._now: Any = None

    @abstractmethod
    def add(self, value: dict[str, Any]) -> list[Any]:
        """The events for the client in place of a received one: the same object where nothing is changed."""

    @abstractmethod
    def merged_body(self, body: dict[str, Any]) -> dict[str, Any]:
        """A whole reply for the client, with the content of the earlier ones."""

    @abstractmethod
    def _ended(self, event: Any) -> Any:
        """An event of the end, for the client."""

    def hold(self, event: Any) -> None:
        """Hold an event until the end."""
        self._held.append(event)

    def next_reply(self) -> list[Any]:
        """Begin the next reply; events of the last one that are still for the client."""
        left = self._left_over()
        self._is_later, self._held, self._places, self._has_client_call = True, [], {}, False
        self._needs_gap, self._before = self._has_text, self._now
        self._earlier, self._usage = summed_usage(self._earlier, self._usage), None
        return left

    def end(self) -> list[Any]:
        """The end of the last reply, with the usage of all."""
        return [self._ended(event) for event in self._held]

    def _left_over(self) -> list[Any]:
        return []

    def _with_head(self, body: dict[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
        """A body with changed fields, the head of the first one, and the usage of all."""
        self._usage = body.get(self.usage_field)
        if not self._is_later:
            self._head = {name: body[name] for name in self.head_fields if name in body}
        whole = {**body, **self._head, **changed}
        return {**whole, self.usage_field: self._total(self._usage)} if self._usage else whole

    def _total(self, usage: Any) -> Any:
        return summed_usage(self._earlier, usage) if self._is_later else usage

    def _place_of(self, key: Any, *, is_own: bool) -> int | None:
        """The client's number for a part of this reply; None for one of our calls."""
        if key not in self._places:
            self._places[key] = None if is_own else self._next
            self._next += not is_own
        return self._places[key]

    def _is_own(self, name: Any) -> bool:
        return isinstance(name, str) and name in self._names

    def _spaced(self, text: Any) -> Any:
        """A text to forward, after a gap where it is the first of a later reply."""
        if not isinstance(text, str) or not text:
            return text
        gap, self._needs_gap, self._has_text = _BETWEEN if self._needs_gap else "", False, True
        return gap + text if gap else text


class ChatMerger(ReplyMerger):
    """OpenAI chat completions."""

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__(names)
        self._last: Any = None
        """The index or id of the newest call."""
        self._details = self._earlier_details = 0

    def add(self, value: dict[str, Any]) -> list[Any]:
        usage, choices = value.get("usage"), value.get("choices")
        if isinstance(usage, dict):
            self._usage = usage
        if not self._is_later and not self._head:
            self._head = {name: value[name] for name in self.head_fields if name in value}
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            if isinstance(usage, dict):
                self.hold(value)
                return []
            return [] if self._is_later and "error" not in value else [value]
        choice = choices[0]
        received = choice.get("delta") if isinstance(choice.get("delta"), dict) else {}
        assert isinstance(received, dict)
        delta = self._delta(received)
        if choice.get("finish_reason"):
            self.hold({**value, "choices": [{**choice, "delta": {}}]} if _has_content(received) else value)
            rest = {name: it for name, it in value.items() if name != "usage"}
            return (
                [self._headed(rest, {**choice, "delta": delta, "finish_reason": None})] if _has_content(delta) else []
            )
        if delta is received and not self._is_later:
            return [value]
        if not _has_content(delta) and (_has_content(received) or self._is_later):
            return []
        return [self._headed(value, {**choice, "delta": delta})]

    def _headed(self, value: Mapping[str, Any], choice: dict[str, Any]) -> dict[str, Any]:
        whole = {**value, **self._head, "choices": [choice]}
        return {**whole, "usage": self._total(whole["usage"])} if isinstance(whole.get("usage"), dict) else whole

    def _delta(self, received: dict[str, Any]) -> dict[str, Any]:
        delta = received
        if isinstance(received.get("tool_calls"), list):
            calls = [self._call(call, at) for at, call in enumerate(received["tool_calls"])]
            kept = [call for call in calls if call is not None]
            if len(kept) < len(calls) or any(a is not b for a, b in zip(kept, received["tool_calls"], strict=False)):
                delta = {**received, "tool_calls": kept}
        if (text := self._spaced(received.get("content"))) != received.get("content"):
            delta = {**delta, "content": text}
        details = received.get("reasoning_details")
        if isinstance(details, list):
            self._details += len(details)
            if self._earlier_details:
                delta = {**delta, "reasoning_details": [_moved(it, self._earlier_details) for it in details]}
        return delta

    def _call(self, call: Any, at: int) -> Any:
        """A piece of a call with the client's index; None where the call is ours."""
        if not isinstance(call, dict):
            return call
        index, id = call.get("index"), call.get("id")
        key = index if isinstance(index, int) else id or (self._last if self._last is not None else at)
        self._last = key
        function = call.get("function")
        place = self._place_of(key, is_own=isinstance(function, dict) and self._is_own(function.get("name")))
        if place is None:
            return None
        self._has_client_call = True
        return {**call, "index": place} if isinstance(index, int) and index != place else call

    def next_reply(self) -> list[Any]:
        self._last, self._earlier_details = None, self._details
        return super().next_reply()

    def _ended(self, event: Any) -> Any:
        if not isinstance(event, dict):
            return event
        whole = {**event, **self._head} if self._is_later else event
        if self._is_later and isinstance(whole.get("usage"), dict):
            whole = {**whole, "usage": self._total(whole["usage"])}
        choices = whole.get("choices")
        if choices and choices[0].get("finish_reason") == "tool_calls" and not self._has_client_call:
            whole = {**whole, "choices": [{**choices[0], "finish_reason": "stop"}]}
        return whole

    def merged_body(self, body: dict[str, Any]) -> dict[str, Any]:
        choices = body.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else {}
        message: dict[str, Any] = choice["message"] if isinstance(choice.get("message"), dict) else {}
        calls = [call for call in message.get("tool_calls") or () if isinstance(call, dict)]
        kept = [call for call in calls if not self._is_own((call.get("function") or {}).get("name"))]
        merged = {name: value for name, value in message.items() if name != "tool_calls" or kept}
        merged |= {"tool_calls": kept} if kept else {}
        for name, text in (self._before or {}).items():
            said = merged.get(name)
            merged[name] = f"{text}{_BETWEEN}{said}" if isinstance(said, str) and said else text
        texts = {name: merged.get(name) for name in _TEXTS}
        self._now = {name: text for name, text in texts.items() if isinstance(text, str) and text}
        finish = "stop" if choice.get("finish_reason") == "tool_calls" and not kept else choice.get("finish_reason")
        return self._with_head(body, {"choices": [{**choice, "message": merged, "finish_reason": finish}]})


def _has_content(delta: Mapping[str, Any]) -> bool:
    """Whether a delta has more than its role and empty fields."""
    return any(value not in (None, "", []) for name, value in delta.items() if name != "role")


def _moved(detail: Any, by: int) -> Any:
    is_numbered = isinstance(detail, dict) and isinstance(detail.get("index"), int)
    return {**detail, "index": detail["index"] + by} if is_numbered else detail


class MessagesMerger(ReplyMerger):
    """Anthropic's Messages, wherever they are served."""

    names_events = True

    def add(self, value: dict[str, Any]) -> list[Any]:
        match value.get("type"):
            case "message_start":
                message = value.get("message")
                self._usage = message.get("usage") if isinstance(message, dict) else None
                return [] if self._is_later else [value]
            case "content_block_start":
                return self._begun(value)
            case "content_block_delta" | "content_block_stop":
                place = self._places.get(value.get("index"))
                return [] if place is None else [_at(value, "index", place)]
            case "message_delta":
                usage = value.get("usage")
                self._usage = {**(self._usage or {}), **{k: it for k, it in (usage or {}).items() if it is not None}}
                self.hold(value)
                return []
            case "message_stop":
                self.hold(value)
                return []
        return [value]

    def _begun(self, value: dict[str, Any]) -> list[Any]:
        block = value.get("content_block")
        is_call = isinstance(block, dict) and block.get("type") == "tool_use"
        is_own = is_call and self._is_own(block["name"] if isinstance(block, dict) else None)
        place = self._place_of(value.get("index"), is_own=is_own)
        self._has_client_call = self._has_client_call or (is_call and not is_own)
        return [] if place is None else [_at(value, "index", place)]

    def _ended(self, event: Any) -> Any:
        if event.get("type") != "message_delta":
            return event
        delta = event.get("delta")
        if isinstance(delta, dict) and delta.get("stop_reason") == "tool_use" and not self._has_client_call:
            event = {**event, "delta": {**delta, "stop_reason": "end_turn"}}
        return {**event, "usage": self._total(self._usage)} if self._is_later else event

    def merged_body(self, body: dict[str, Any]) -> dict[str, Any]:
        blocks = [it for it in body.get("content") or () if isinstance(it, dict)]
        kept = [it for it in blocks if not (it.get("type") == "tool_use" and self._is_own(it.get("name")))]
        has_call = any(it.get("type") == "tool_use" for it in kept)
        stop = body.get("stop_reason")
        stop = "end_turn" if stop == "tool_use" and not has_call else stop
        self._now = [*(self._before or ()), *kept]
        return self._with_head(body, {"content": self._now, "stop_reason": stop})


class ResponsesMerger(ReplyMerger):
    """OpenAI's Responses."""

    names_events = True

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__(names)
        self._done: list[Any] = []
        """Items that were forwarded."""
        self._earlier_done: list[Any] = []
        self._sequence: int | None = None

    def add(self, value: dict[str, Any]) -> list[Any]:
        kind = value.get("type")
        if kind in _ENDS:
            self.hold(value)
            response = value.get("response")
            self._usage = response.get("usage") if isinstance(response, dict) else None
            return []
        if kind in _BEGINNINGS:
            return [] if self._is_later else [self._numbered(self._without_tools(value))]
        if "output_index" not in value:
            is_response = isinstance(value.get("response"), dict)
            return [self._numbered(self._without_tools(value) if is_response else value)]
        index, item = value["output_index"], value.get("item")
        is_own = isinstance(item, dict) and item.get("type") == "function_call" and self._is_own(item.get("name"))
        place = self._place_of(index, is_own=is_own)
        if place is None:
            return []
        if kind == "response.output_item.done":
            self._done.append(item)
        return [self._numbered(_at(value, "output_index", place))]

    def next_reply(self) -> list[Any]:
        self._earlier_done = list(self._done)
        return super().next_reply()

    def _ended(self, event: Any) -> Any:
        response = event.get("response")
        if not isinstance(response, dict):
            return self._numbered(event)
        merged = self.merged_body(response) if self._is_later or response.get("output") else response
        whole = event if merged == response else {**event, "response": merged}
        return self._numbered(self._without_tools(whole))

    def _numbered(self, value: dict[str, Any]) -> dict[str, Any]:
        """The event with the number after that of the last one."""
        number = value.get("sequence_number")
        if not isinstance(number, int):
            return value
        self._sequence = number if self._sequence is None else self._sequence + 1
        return _at(value, "sequence_number", self._sequence)

    def _without_tools(self, value: dict[str, Any]) -> dict[str, Any]:
        """An event without our tools in the list that a response repeats, and with the id of the first response."""
        response = value["response"]
        if not self._head and "id" in response:
            self._head = {"id": response["id"]}
        clean = {**response, **self._head} if self._is_later else response
        clean = self._without_own_tools(clean)
        return value if clean is response else {**value, "response": clean}

    def _without_own_tools(self, response: dict[str, Any]) -> dict[str, Any]:
        tools = response.get("tools")
        kept = [it for it in tools if not self._is_own(it.get("name"))] if isinstance(tools, list) else tools
        return response if kept == tools else {**response, "tools": kept}

    def merged_body(self, body: dict[str, Any]) -> dict[str, Any]:
        items = [it for it in body.get("output") or () if isinstance(it, dict)]
        kept = [it for it in items if not (it.get("type") == "function_call" and self._is_own(it.get("name")))]
        if not self._is_later and len(kept) == len(items):
            self._now = items
            return self._with_head(self._without_own_tools(body), {})
        # A stream may leave its items out of its last event.
        before = [*(self._before or ()), *self._earlier_done]
        self._now = [*before, *kept]
        return self._with_head(self._without_own_tools(body), {"output": self._now if items else []})


class GeminiMerger(ReplyMerger):
    """Google's generateContent."""

    usage_field = "usageMetadata"
    head_fields = ("responseId",)

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__(names)
        self._signature: Any = None
        """Of our call at the beginning of a reply: the client's own first call has to be signed."""

    def add(self, value: dict[str, Any]) -> list[Any]:
        if isinstance(value.get("usageMetadata"), dict):
            self._usage = value["usageMetadata"]
        candidate, parts = _candidate_of(value)
        if not self._head and "responseId" in value:
            self._head = {"responseId": value["responseId"]}
        kept = self._kept(parts)
        is_same = len(kept) == len(parts) and all(map(lambda a, b: a is b, kept, parts)) and not self._is_later
        whole = value if is_same else self._with_parts(value, kept)
        if candidate.get("finishReason"):
            self.hold(whole)
            return []
        return [] if parts and not kept else [whole]

    def _kept(self, parts: Sequence[Any]) -> list[Any]:
        kept = []
        for part in parts:
            call = part.get("functionCall")
            if isinstance(call, dict) and self._is_own(call.get("name")):
                if not self._has_client_call:
                    self._signature = self._signature or part.get("thoughtSignature")
                continue
            if isinstance(call, dict):
                if self._signature and not self._has_client_call and not part.get("thoughtSignature"):
                    part = {**part, "thoughtSignature": self._signature}
                self._has_client_call = True
            elif not part.get("thought") and (text := self._spaced(part.get("text"))) != part.get("text"):
                part = {**part, "text": text}
            kept.append(part)
        return kept

    def _with_parts(self, value: dict[str, Any], parts: Sequence[Any]) -> dict[str, Any]:
        candidate, received = _candidate_of(value)
        whole = {**value, **self._head}
        if received:
            content = {**candidate["content"], "parts": list(parts)}
            whole["candidates"] = [{**candidate, "content": content}, *value["candidates"][1:]]
        if isinstance(whole.get("usageMetadata"), dict):
            whole["usageMetadata"] = self._total(whole["usageMetadata"])
        return whole

    def _left_over(self) -> list[Any]:
        """The content of the last event of a reply."""
        left = []
        for event in self._held:
            candidate, parts = _candidate_of(event)
            if parts:
                rest = {name: it for name, it in candidate.items() if name not in ("finishReason", "finishMessage")}
                left.append({**event, "candidates": [rest]})
        return left

    def next_reply(self) -> list[Any]:
        self._signature = None
        return super().next_reply()

    def _ended(self, event: Any) -> Any:
        return event

    def merged_body(self, body: dict[str, Any]) -> dict[str, Any]:
        candidate, parts = _candidate_of(body)
        self._now = [*(self._before or ()), *self._kept(parts)]
        content = {"role": "model", **(candidate.get("content") or {}), "parts": self._now}
        return self._with_head(body, {"candidates": [{**candidate, "content": content}]} if candidate else {})


def _candidate_of(value: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """The first candidate of a reply, and its parts."""
    candidates = value.get("candidates")
    candidate = candidates[0] if isinstance(candidates, list) and candidates else {}
    candidate = candidate if isinstance(candidate, dict) else {}
    content = candidate.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    return candidate, [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def _at(value: dict[str, Any], name: str, place: int) -> dict[str, Any]:
    return value if value.get(name) == place else {**value, name: place}


_MERGERS: dict[str, type[ReplyMerger]] = {
    "openai_chat": ChatMerger,
    "anthropic": MessagesMerger,
    "responses": ResponsesMerger,
    "gemini": GeminiMerger,
}


class MergedReply:
    """The bytes of several replies as one: `feed` and `next_reply` for each, then `end`."""

    def __init__(self, dialect: str, names: frozenset[str]) -> None:
        self._merger = _MERGERS[dialect](names)
        self._events: StreamEvents | None = None
        self._body = b""
        self._received: dict[int, tuple[Any, bytes]] = {}
        """Held events by their identity, with their bytes."""

    def begin_reply(self, content_type: str) -> None:
        self._events, self._body, self._received = stream_events(content_type), b"", {}

    def feed(self, chunk: bytes) -> bytes:
        """The bytes to pass on now: whole events of a stream; nothing of a body before its end."""
        if self._events is None:
            self._body += chunk
            return b""
        return b"".join(self._passed(data, raw) for data, raw in self._events.feed(chunk))

    def next_reply(self) -> bytes:
        """End a reply that another one follows; the bytes that are left of it."""
        if self._events is None:
            self._merged_body()
        return b"".join(map(self._encode, self._merger.next_reply()))

    def end(self) -> bytes:
        """The end of the last reply."""
        if self._events is None:
            return self._merged_body()
        # An incomplete event passes as received: the client sees what the upstream did.
        return b"".join(map(self._encode, self._merger.end())) + self._events.take_rest()

    def _merged_body(self) -> bytes:
        try:
            value = read_json(self._body)
        except UnreadableBody:
            return self._body
        return write_json(self._merger.merged_body(value)) if isinstance(value, dict) else self._body

    def _passed(self, data: bytes, raw: bytes) -> bytes:
        if data == _DONE.encode():
            self._merger.hold(_DONE)
            return b""
        try:
            value = read_json(data) if data else None
        except UnreadableBody:
            return raw
        if not isinstance(value, dict):
            return raw
        events = self._merger.add(value)
        if not events:
            self._received[id(value)] = (value, raw)
        return raw if len(events) == 1 and events[0] is value else b"".join(map(self._encode, events))

    def _encode(self, event: Any) -> bytes:
        if id(event) in self._received:
            return self._received[id(event)][1]
        assert self._events is not None  # only streams have events
        if event == _DONE:
            return self._events.encode(_DONE.encode())
        return self._events.encode(write_json(event), str(event.get("type", "")) if self._merger.names_events else "")


class MergedReader(ReplyReader):
    """Reads the merged reply as the client receives it; its usage is that of the newest reply from the upstream."""

    newest: ReplyReader | None = None

    @property
    def has_content(self) -> bool:
        return super().has_content or (self.newest is not None and self.newest.has_content)

    @property
    def output_tokens(self) -> int:
        return self.newest.output_tokens if self.newest else 0

    def usage(self) -> CanonicalUsage | None:
        return self.newest.usage() if self.newest else None


class RecallTurn:
    """A request whose model may recall: the items added to it, and the merged reply for the client."""

    def __init__(self, wire: GatewayWire, names: frozenset[str], tools: bytes) -> None:
        self.wire = wire
        self._reader = MergedReader(wire, "")
        self._is_read = False
        self._given: list[bytes] = []
        """Bytes that the client received and that are not parsed yet."""
        self.rounds = 0
        """Replies that only recalled."""
        self.may_call = True
        """False for the last request: its model has to reply."""
        self.added: list[Any] = []
        """Those replies and their results, as items after the request."""
        self.results: tuple[tuple[int, Any], ...] = ()
        """Results for calls in the reply that ends the turn, which has calls of the client too: each with the index of
        its call."""
        self.asked: list[str] = []
        """The lines of its calls of our tools."""
        self.unanswered: tuple[Any, ...] = ()
        """Results that state that calls at the end of the turn were not answered."""
        self.spent = CanonicalUsage()
        """The usage of the replies that the client does not see."""
        self.cost_micros = 0
        self.first_usage: CanonicalUsage | None = None
        self.asks_again = False
        """Whether the newest reply was answered, so that the model is asked again."""
        self._tools = tools
        self._merged = MergedReply(wire.dialect, names)

    def fields(self) -> dict[str, bytes]:
        """The changed fields of the request: its tools, and after too many rounds that none may be called."""
        return {"tools": self._tools, **({} if self.may_call else self.wire.no_calls)}

    def items(self, shown: Sequence[bytes]) -> Sequence[bytes]:
        """The items of the request with the added ones."""
        return [*shown, *map(write_json, self.added)] if self.added else shown

    def begin_reply(self, reader: ReplyReader, content_type: str) -> None:
        if not self.rounds:
            self._reader = MergedReader(self.wire, content_type)
        self._reader.newest, self.asks_again = reader, False
        self._merged.begin_reply(content_type)

    def feed(self, chunk: bytes) -> bytes:
        """The bytes of a reply to pass on now."""
        return self._noted(self._merged.feed(chunk))

    def next_reply(self) -> bytes:
        self.asks_again = True
        return self._noted(self._merged.next_reply())

    def end(self) -> bytes:
        return self._noted(self._merged.end())

    def reader(self) -> MergedReader:
        """Parses the reply as the client has it so far. Only a reply that is recorded is parsed a second time."""
        for chunk in self._given:
            self._reader.feed(chunk)
        self._given.clear()
        return self._reader

    def recorded(self, reader: ReplyReader) -> ReplyReader:
        """The reader of the reply to record at the end of a turn; `reader` is that of its last reply."""
        if not self.asked:
            return reader
        whole = self.reader()
        if not self._is_read:
            whole.end()
            self._is_read = True
        return whole

    def _noted(self, passed: bytes) -> bytes:
        if passed:
            self._given.append(passed)
        return passed
