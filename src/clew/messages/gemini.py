"""The dialect of Google's Gemini API: contents of parts, calls without ids, results inside contents of the user.

Parts become ours, since they have no type of their own, and are remembered by identity; names in camelCase and in
snake_case are read. A call without an id gets one from its place, which is never written. What is written keeps the
rules of that wire: it begins with the user, calls follow the user or results, and the results of one turn are one
content. Signatures of thoughts stay on the parts they came on, also where a call is changed.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clew.errors import InvalidMessage
from clew.messages.message import (
    Message,
    ParsedMessages,
    Part,
    Role,
    ToolCall,
    WireSource,
    arguments_of_call,
    as_json,
    as_parts,
    calls_of,
    group_by_source,
    in_original_order,
    name_of_call,
    reasoning_of,
    text_of,
)
from clew.messages.openai_chat import reasoning_text
from clew.messages.parts import GEMINI_PART, encode_part

_UNNAMED = "call_without_id_"
_OPENING = "[the conversation goes on]"
"""The user's content before a model's that would be the first one."""
_OUTPUT = "output"
_RESULT_FIELDS = (_OUTPUT, "result", "content", "error")
"""Under which clients put a result that is a text."""

_KINDS = {
    "functionCall": "call",
    "functionResponse": "result",
    "inlineData": "media",
    "fileData": "media",
    "executableCode": "code",
    "codeExecutionResult": "code",
}
_SNAKE = {
    **{name: "".join(f"_{char.lower()}" if char.isupper() else char for char in name) for name in _KINDS},
    "mimeType": "mime_type",
    "fileUri": "file_uri",
}
_KINDS |= {_SNAKE[name]: kind for name, kind in _KINDS.items()}


def has_own_id(call_id: object) -> bool:
    """Whether a call brought its id; False for one that was made here, which means nothing on the wire."""
    return isinstance(call_id, str) and call_id != "" and not call_id.startswith(_UNNAMED)


# -- reading -----------------------------------------------------------------------------------------------------------


def read(items: Sequence[Any], start: int = 0, before: Sequence[Message] = ()) -> ParsedMessages:
    """The contents of the wire in our form: a message for each result, calls and thoughts separate from the text.

    `start` is the place of the first item in its history, `before` the messages in front of it: the results of their
    calls may be among these.
    """
    parsed = ParsedMessages()
    waiting = _WaitingCalls(before)
    for index, item in enumerate(items):
        if not isinstance(item, dict) or ("parts" not in item and "role" not in item):
            raise InvalidMessage(index, "it is no dict with parts", 'Give it a role, "user" or "model", and parts')
        parts = item["parts"] if isinstance(item.get("parts"), list) else []
        if item.get("role") in ("model", "assistant"):
            message = _read_model(item, parts, start + index, parsed)
            waiting = _WaitingCalls((message,))
            parsed.add(WireSource((item,), (message,), start + index))
            continue
        runs = _split_results(parts)
        role: Role = "system" if item.get("role") == "system" else "user"
        messages = tuple([_read_run(run, role, waiting, parsed, start + index) for run in runs])
        parsed.add(WireSource((item,), messages, start + index, runs if len(runs) > 1 else ()))
    return parsed


class _WaitingCalls:
    """The calls of the model's last turn that have no result yet, in order."""

    def __init__(self, before: Sequence[Message]) -> None:
        answered: set[Any] = set()
        self._calls: list[tuple[str, str]] = []
        for message in reversed(before):
            if message["role"] == "tool":
                answered.add(message.get("tool_call_id"))
            elif message["role"] == "assistant":
                named = ((call["id"], name_of_call(call)) for call in calls_of(message))
                self._calls = [call for call in named if call[0] not in answered]
                break

    def take(self, response: Mapping[str, Any]) -> str:
        """The id of the call that a response is for: the one it names, else the first of its name that named none.

        Some clients give a response an id that its call never had.
        """
        given, name = response.get("id"), response.get("name")
        given = given if isinstance(given, str) else ""
        named = [at for at, (call_id, _) in enumerate(self._calls) if call_id == given]
        likely = [
            at
            for at, (call_id, called) in enumerate(self._calls)
            if called == name and not (given and has_own_id(call_id))
        ]
        found = next(iter([*named, *likely]), None)
        return given if found is None else self._calls.pop(found)[0]


def _read_model(item: dict[str, Any], parts: list[Any], position: int, parsed: ParsedMessages) -> Message:
    said: list[Any] = []
    calls: list[ToolCall] = []
    reasoning: list[Any] = []
    for at, part in enumerate(parts):
        kind = _kind_of_part(part)
        if kind == "call":
            calls.append(_read_call(part, f"{_UNNAMED}{position}_{at}", parsed))
        else:
            (reasoning if kind == "reasoning" else said).append(part)
    content = _read_content(said, parsed)
    message: Message = {"role": "assistant", "content": content or (None if calls or reasoning else "")}
    if calls:
        message["tool_calls"] = calls
    if reasoning:
        message["reasoning"] = reasoning
    for listed in (content, calls, reasoning):
        if listed and isinstance(listed, list):
            parsed.pieces[id(listed)] = item
    return message


def _kind_of_part(part: Any) -> str:
    """Of a part of the model: call, reasoning or content."""
    data = _data_of(part)
    if data is not None and _KINDS[data] == "call" and isinstance(part[data], dict):
        return "call"
    is_thought = data is None and isinstance(part, dict) and part.get("thought") and isinstance(part.get("text"), str)
    return "reasoning" if is_thought else "content"


def _data_of(part: Any) -> str | None:
    """The field of a part that says what it is; None for a text, and for a part that is not known."""
    if isinstance(part, dict):
        for name in part:
            if name in _KINDS:
                return name  # type: ignore[no-any-return]
    return None


def _read_call(part: Part, fallback_id: str, parsed: ParsedMessages) -> ToolCall:
    wanted = part[_data_of(part) or ""]
    given = wanted.get("id")
    call: ToolCall = {
        "id": given if isinstance(given, str) and given else fallback_id,
        "type": "function",
        "function": {"name": wanted.get("name", ""), "arguments": as_json(wanted.get("args") or {})},
    }
    parsed.pieces[id(call)] = part
    parsed.calls[call["id"]] = part
    return call


def _split_results(parts: list[Any]) -> list[list[Any]]:
    """The parts of a user's content in runs, one for each message: a result alone, or what is between two of them."""
    runs: list[list[Any]] = []
    is_open = False
    for part in parts:
        if _is_result(part):
            runs.append([part])
            is_open = False
        elif is_open:
            runs[-1].append(part)
        else:
            runs.append([part])
            is_open = True
    return runs or [[]]


def _is_result(part: Any) -> bool:
    data = _data_of(part)
    return data is not None and _KINDS[data] == "result" and isinstance(part[data], dict)


def _read_run(run: list[Any], role: Role, waiting: _WaitingCalls, parsed: ParsedMessages, position: int) -> Message:
    if not run or not _is_result(run[0]):
        return {"role": role, "content": _read_content(run, parsed)}
    response = run[0][_data_of(run[0])]
    content, is_error = _read_response(response, parsed)
    result: Message = {"role": "tool", "tool_call_id": waiting.take(response), "content": content}
    if is_error:
        result["is_error"] = True
    parsed.results[result["tool_call_id"]] = _ReadResult(run[0], content, is_error, position)
    return result


@dataclass(frozen=True, slots=True)
class _ReadResult:
    """A part with a response, and what was read from it."""

    part: Part
    content: Any
    is_error: bool
    position: int
    """Of its item."""


def _read_response(response: Mapping[str, Any], parsed: ParsedMessages) -> tuple[Any, bool]:
    """The text of a response, with its pictures where it has some, and whether it is an error."""
    told = response.get("response")
    is_error = isinstance(told, dict) and told.keys() == {"error"}
    if isinstance(told, dict) and len(told) == 1:
        ((name, value),) = told.items()
        told = value if name in _RESULT_FIELDS and isinstance(value, str) else told
    text = told if isinstance(told, str) else "" if told is None else as_json(told)
    parts = response.get("parts")
    if not isinstance(parts, list) or not parts:
        return text, is_error
    return [*as_parts(text), *(_read_part(part, parsed) for part in parts)], is_error


def _read_content(parts: Sequence[Any], parsed: ParsedMessages) -> str | list[Part]:
    """One text as it is; otherwise our parts, each remembered with the one it was read from."""
    if len(parts) == 1 and isinstance(parts[0], dict) and parts[0].keys() == {"text"}:
        text = parts[0]["text"]
        if isinstance(text, str):
            return text
    return [_read_part(part, parsed) for part in parts] or ""


def _read_part(part: Any, parsed: ParsedMessages) -> Part:
    data = _data_of(part)
    inner = part[data] if data is not None else None
    result: Part = {"type": GEMINI_PART, "part": part}
    if data is None and isinstance(part, dict) and isinstance(part.get("text"), str):
        result = {"type": "text", "text": part["text"]}
    elif isinstance(inner, dict) and data is not None and _KINDS[data] == "media":
        result = _read_media(inner) or result
    elif isinstance(inner, dict) and data is not None and _KINDS[data] == "code":
        text = inner.get("code", inner.get("output"))
        result = {**result, "text": text} if isinstance(text, str) else result
    parsed.pieces[id(result)] = part
    return result


def _read_media(inner: Mapping[str, Any]) -> Part | None:
    """An image, sound, film or document in our form; the base64 is not copied."""
    kind = _field(inner, "mimeType")
    kind = kind if isinstance(kind, str) else ""
    data, uri = inner.get("data"), _field(inner, "fileUri")
    if isinstance(data, bytes):
        data = b64encode(data).decode()
    if isinstance(data, str):
        source = {"type": "base64", "media_type": kind, "data": data}
    elif isinstance(uri, str):
        source = {"type": "url", "url": uri}
    else:
        return None
    family = kind.partition("/")[0]
    return {"type": family if family in ("image", "audio", "video") else "document", "source": source}


def _field(inner: Mapping[str, Any], name: str) -> Any:
    return inner[name] if name in inner else inner.get(_SNAKE[name])


def read_system(system: Any) -> str | list[Part] | None:
    """A system instruction (a content, a list of parts, one part or a text) as the content of a message."""
    if system is None or isinstance(system, str):
        return system
    parts = system.get("parts", [system]) if isinstance(system, dict) else system
    listed = parts if isinstance(parts, list) else [parts]
    return _read_content([{"text": part} if isinstance(part, str) else part for part in listed], ParsedMessages())


# -- writing -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Content:
    """A content that may still be merged with the next one."""

    role: str
    parts: list[Any]
    item: Any = None
    """The content as it was read; None when it is new, changed or merged."""
    position: int = -1
    """Of the item that all of it came from."""

    @property
    def is_model(self) -> bool:
        return self.role == "model"

    def has(self, kind: str) -> bool:
        return any((data := _data_of(part)) is not None and _KINDS[data] == kind for part in self.parts)


@dataclass(slots=True)
class _Writer:
    parsed: ParsedMessages
    foreign: bool
    names: dict[str, str] = field(default_factory=dict)
    """Of the tool that a call is for, by its id: a result has to name it too."""

    def content_of(self, source: WireSource | None, message: Message) -> _Content:
        for call in calls_of(message):
            self.names[str(call.get("id"))] = name_of_call(call)
        if source is not None:
            item = source.items[0]
            role = "model" if message["role"] == "assistant" else item.get("role") or "user"
            parts = item["parts"] if isinstance(item.get("parts"), list) else []
            return _Content(role, parts, item, source.position)
        known = self.parsed.sources.get(id(message))
        if known is not None and known.blocks:
            blocks = known.origin_of(message).blocks
            return _Content(known.items[0].get("role") or "user", list(blocks), None, known.position)
        if message["role"] == "assistant":
            return _Content("model", self._model_parts(message))
        if message["role"] == "tool":
            came = self.parsed.results.get(str(message.get("tool_call_id")))
            return _Content("user", [self._result(message, came)], None, came.position if came is not None else -1)
        # The wire has no system message in the middle; moving it to the front would change the prefix.
        return _Content("user", self._parts(as_parts(message.get("content"))))

    def _model_parts(self, message: Message) -> list[Any]:
        thoughts = [part for part in reasoning_of(message) if part.get("thought")]
        if self.foreign and (text := reasoning_text(message)):
            thoughts = [{"text": text, "thought": True}]
        content = self._parts(as_parts(message.get("content") or _refusal(message)))
        calls = [self.parsed.pieces.get(id(call)) or self._call(call) for call in calls_of(message)]
        pieces = {"reasoning": thoughts, "content": content, "call": calls}
        return in_original_order(self._original_order(message), pieces)

    def _original_order(self, message: Message) -> list[str] | None:
        for name in ("tool_calls", "reasoning", "content"):
            item = self.parsed.pieces.get(id(message.get(name)))
            if item is not None:
                return [_kind_of_part(part) for part in item["parts"]]
        return None

    def _parts(self, content: Iterable[Any]) -> list[Any]:
        """Parts of the wire; an empty text is left out, unless it came so, perhaps with a signature."""
        written = (self._part(part) for part in content)
        return [part for part in written if part != {"text": ""}]

    def _part(self, part: Any) -> Any:
        came = self.parsed.pieces.get(id(part))
        if came is not None:
            return came
        if isinstance(part, dict):
            if part.get("type") == GEMINI_PART:
                return part.get("part")
            if part.get("type") in ("audio", "video") and "source" in part:
                part = {**part, "type": "document"}  # what it is stands in its media type
        return encode_part(part, "gemini", foreign=self.foreign)

    def _call(self, call: ToolCall) -> Part:
        wanted = {"name": name_of_call(call), "args": arguments_of_call(call)}
        came = self.parsed.calls.get(str(call.get("id")))
        if came is not None:
            # The signature belongs to the call, whatever was shortened in it, and a call must not lose it.
            data = str(_data_of(came))
            return {**came, data: {**came[data], **wanted}}
        return {"functionCall": {"id": call["id"], **wanted} if has_own_id(call["id"]) else wanted}

    def _result(self, message: Message, came: _ReadResult | None) -> Part:
        call_id = str(message.get("tool_call_id") or "")
        content, is_error = message.get("content"), bool(message.get("is_error"))
        if came is not None and came.content is content and came.is_error == is_error:
            return came.part
        pictures = [part for part in as_parts(content) if _is_no_text(part)]
        told: Part = {"response": {"error" if is_error else _OUTPUT: text_of({"role": "tool", "content": content})}}
        if pictures:
            told["parts"] = self._parts(pictures)
        if came is not None:
            data = str(_data_of(came.part))
            kept = {name: value for name, value in came.part[data].items() if name not in ("response", "parts")}
            return {**came.part, data: {**kept, **told}}
        named = {"name": self.names.get(call_id) or message.get("name") or "unknown"}
        own = {"id": call_id} if has_own_id(call_id) else {}
        return {"functionResponse": {**own, **named, **told}}


def write(messages: Sequence[Message], parsed: ParsedMessages, *, foreign: bool = False) -> list[Any]:
    """The contents of the wire; one whose messages are all unchanged is written as it was read."""
    writer = _Writer(parsed, foreign)
    written: list[_Content] = []
    for source, run in group_by_source(messages, parsed.sources):
        content = writer.content_of(source, run[0])
        if content.item is None and not content.parts:
            continue
        if written and _must_merge(written[-1], content):
            before = written[-1]
            position = content.position if before.position == content.position else -1
            written[-1] = _Content(before.role, [*before.parts, *content.parts], None, position)
        else:
            written.append(content)
    if written and written[0].is_model and (written[0].item is None or written[0].position != 0):
        written.insert(0, _Content("user", [{"text": _OPENING}]))
    return [it.item if it.item is not None else {"role": it.role, "parts": it.parts} for it in written]


def _must_merge(before: _Content, content: _Content) -> bool:
    """Whether two contents are one: what came as one, the results of a turn, and calls behind words of the model.

    The wire takes several contents of the user in a row, so that what was not changed stays the very object.
    """
    if before.is_model != content.is_model:
        return False
    is_item, was_item = content.item is not None, before.item is not None
    if is_item and was_item and before.position + 1 == content.position:
        return False
    if content.is_model:
        return content.has("call") or (not is_item and not was_item)
    came_as_one = not is_item and not was_item and before.position == content.position != -1
    return came_as_one or (before.has("result") and content.has("result"))


def _is_no_text(part: Any) -> bool:
    return isinstance(part, dict) and not isinstance(part.get("text"), str)


def _refusal(message: Message) -> str:
    refusal = message.get("refusal")
    return refusal if isinstance(refusal, str) else ""


def write_system(content: str | list[Part] | None, came: Any) -> Any:
    """A system prompt as an instruction: in the shape it came in, or as a content."""
    if isinstance(came, str) and isinstance(content, str):
        return content
    parts = _Writer(ParsedMessages(), foreign=False)._parts(as_parts(content))
    return {**(came if isinstance(came, dict) and "parts" in came else {}), "parts": parts}
