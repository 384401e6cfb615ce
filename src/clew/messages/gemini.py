"""The dialect of Google's Gemini API: contents of parts, calls without ids, results inside contents of the user.

Parts become ours, since they have no type of their own; names in camelCase and in
snake_case are read. A call without an id gets one from its place, which is never written. What is written keeps the
rules of that wire: it begins with the user, calls follow the user or results, and the results of one turn are one
content. Signatures of thoughts stay on their parts, also where a call is changed.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clew.errors import InvalidMessage
from clew.messages.message import (
    Item,
    Message,
    Part,
    Role,
    ToolCall,
    arguments_of_call,
    as_json,
    as_parts,
    calls_of,
    in_original_order,
    in_wire_items,
    name_of_call,
    original_of,
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


def read(items: Sequence[Any], start: int = 0, before: Sequence[Message] = ()) -> list[Item]:
    """The contents of the wire in our form: a message for each result, calls and thoughts separate from the text.

    `start` is the place of the first item in its history, `before` the messages in front of it: the results of their
    calls may be among these.
    """
    found: list[Item] = []
    waiting = _WaitingCalls(before)
    for place, item in enumerate(items, start):
        if not isinstance(item, dict) or ("parts" not in item and "role" not in item):
            raise InvalidMessage(
                place - start, "it is no dict with parts", 'Give it a role, "user" or "model", and parts'
            )
        parts = item["parts"] if isinstance(item.get("parts"), list) else []
        if item.get("role") in ("model", "assistant"):
            message = _read_model(parts, place)
            waiting = _WaitingCalls((message,))
            found.append(Item(message, (item,), place))
            continue
        runs = _split_results(parts)
        role: Role = "system" if item.get("role") == "system" else "user"
        found += [
            Item(_read_run(run, role, waiting), (item,), place, part=part, parts=len(runs), blocks=run)
            for part, run in enumerate(runs)
        ]
    return found


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


def _read_model(parts: list[Any], place: int) -> Message:
    said: list[Any] = []
    calls: list[ToolCall] = []
    reasoning: list[Any] = []
    for at, part in enumerate(parts):
        kind = _kind_of_part(part)
        if kind == "call":
            calls.append(_read_call(part, f"{_UNNAMED}{place}_{at}"))
        else:
            (reasoning if kind == "reasoning" else said).append(part)
    content = _read_content(said)
    message: Message = {"role": "assistant", "content": content or (None if calls or reasoning else "")}
    if calls:
        message["tool_calls"] = calls
    if reasoning:
        message["reasoning"] = reasoning
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


def _read_call(part: Part, fallback_id: str) -> ToolCall:
    wanted = part[_data_of(part) or ""]
    given = wanted.get("id")
    return {
        "id": given if isinstance(given, str) and given else fallback_id,
        "type": "function",
        "function": {"name": wanted.get("name", ""), "arguments": as_json(wanted.get("args") or {})},
    }


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


def _read_run(run: list[Any], role: Role, waiting: _WaitingCalls) -> Message:
    if not run or not _is_result(run[0]):
        return {"role": role, "content": _read_content(run)}
    response = run[0][_data_of(run[0])]
    content, is_error = _read_response(response)
    result: Message = {"role": "tool", "tool_call_id": waiting.take(response), "content": content}
    if is_error:
        result["is_error"] = True
    return result


def _read_response(response: Mapping[str, Any]) -> tuple[Any, bool]:
    """The text of a response, with its pictures where it has some, and whether it is an error."""
    result = response.get("response")
    is_error = isinstance(result, dict) and result.keys() == {"error"}
    if isinstance(result, dict) and len(result) == 1:
        ((name, value),) = result.items()
        result = value if name in _RESULT_FIELDS and isinstance(value, str) else result
    text = result if isinstance(result, str) else "" if result is None else as_json(result)
    parts = response.get("parts")
    if not isinstance(parts, list) or not parts:
        return text, is_error
    return [*as_parts(text), *map(_read_part, parts)], is_error


def _read_content(parts: Sequence[Any]) -> str | list[Part]:
    """One text as it is; otherwise our parts, one for each of these."""
    if len(parts) == 1 and isinstance(parts[0], dict) and parts[0].keys() == {"text"}:
        text = parts[0]["text"]
        if isinstance(text, str):
            return text
    return [*map(_read_part, parts)] or ""


def _read_part(part: Any) -> Part:
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
    return _read_content([{"text": part} if isinstance(part, str) else part for part in listed])


@dataclass(slots=True)
class _Content:
    """A content that may still be merged with the next one."""

    role: str
    parts: list[Any]
    place: int = -1
    """Of the item of the message."""
    is_whole: bool = False
    """Whether it leaves as received."""

    @property
    def is_model(self) -> bool:
        return self.role == "model"

    def has(self, kind: str) -> bool:
        return any((data := _data_of(part)) is not None and _KINDS[data] == kind for part in self.parts)


@dataclass(slots=True)
class _Writer:
    foreign: bool
    names: dict[str, str] = field(default_factory=dict)
    """Of the tool that a call is for, by its id: a result has to name it too."""

    def content_of(self, item: Item, *, is_whole: bool) -> _Content:
        message = item.message
        for call in calls_of(message):
            self.names[str(call.get("id"))] = name_of_call(call)
        if is_whole:
            received = item.raw[0]
            role = "model" if message["role"] == "assistant" else received.get("role") or "user"
            return _Content(
                role, received["parts"] if isinstance(received.get("parts"), list) else [], item.place, True
            )
        if item.is_unchanged and item.blocks is not None:
            return _Content(item.raw[0].get("role") or "user", list(item.blocks), item.place)
        if message["role"] == "assistant":
            return _Content("model", self._model_parts(item))
        if message["role"] == "tool":
            return _Content("user", [self._result(item)], item.place)
        # The wire has no system message in the middle; moving it to the front would change the prefix.
        return _Content("user", self._parts(as_parts(message.get("content")), _pairs(item, item.blocks or ())))

    def _model_parts(self, item: Item) -> list[Any]:
        message = item.message
        thoughts = [part for part in reasoning_of(message) if part.get("thought")]
        if self.foreign and (text := reasoning_text(message)):
            thoughts = [{"text": text, "thought": True}]
        received = item.raw[0].get("parts") if item.raw and isinstance(item.raw[0].get("parts"), list) else []
        said = [part for part in received if _kind_of_part(part) == "content"]
        content = self._parts(as_parts(message.get("content") or _refusal(message)), _pairs(item, said))
        asked = [part for part in received if _kind_of_part(part) == "call"]
        calls = [self._call(call, item, asked) for call in calls_of(message)]
        order = [_kind_of_part(part) for part in received] or None
        return in_original_order(order, {"reasoning": thoughts, "content": content, "call": calls})

    def _parts(self, content: Iterable[Any], received: _Pairs = ((), ())) -> list[Any]:
        """Parts of the wire; an empty text is left out, unless it was received so, perhaps with a signature."""
        written = (self._part(part, received) for part in content)
        return [part for part in written if part != {"text": ""}]

    def _part(self, part: Any, received: _Pairs) -> Any:
        original = original_of(part, *received)
        if original is not None:
            return original
        if isinstance(part, dict):
            if part.get("type") == GEMINI_PART:
                return part.get("part")
            if part.get("type") in ("audio", "video") and "source" in part:
                part = {**part, "type": "document"}  # what it is is in its media type
        return encode_part(part, "gemini", foreign=self.foreign)

    def _call(self, call: ToolCall, item: Item, asked: Sequence[Part]) -> Part:
        known = calls_of(item.before) if item.before else ()
        if (original := original_of(call, known, asked)) is not None:
            return original  # type: ignore[no-any-return]
        wanted = {"name": name_of_call(call), "args": arguments_of_call(call)}
        received = original_of(call.get("id"), [it.get("id") for it in known], asked)
        if received is not None:
            # The signature belongs to the call, whatever was shortened in it, and a call must not lose it.
            data = str(_data_of(received))
            return {**received, data: {**received[data], **wanted}}
        return {"functionCall": {"id": call["id"], **wanted} if has_own_id(call["id"]) else wanted}

    def _result(self, item: Item) -> Part:
        message, before = item.message, item.before
        received = item.blocks[0] if item.blocks else None
        call_id = str(message.get("tool_call_id") or "")
        content, is_error = message.get("content"), bool(message.get("is_error"))
        is_same = before is not None and (before.get("content"), bool(before.get("is_error"))) == (content, is_error)
        if received is not None and is_same:
            return received  # type: ignore[no-any-return]
        pictures = [part for part in as_parts(content) if _is_no_text(part)]
        written: Part = {"response": {"error" if is_error else _OUTPUT: text_of({"role": "tool", "content": content})}}
        if received is not None:
            data = str(_data_of(received))
            if pictures:
                inner = received[data].get("parts") or ()
                written["parts"] = self._parts(pictures, ([_read_part(part) for part in inner], inner))
            kept = {name: value for name, value in received[data].items() if name not in ("response", "parts")}
            return {**received, data: {**kept, **written}}
        if pictures:
            written["parts"] = self._parts(pictures)
        named = {"name": self.names.get(call_id) or message.get("name") or "unknown"}
        own = {"id": call_id} if has_own_id(call_id) else {}
        return {"functionResponse": {**own, **named, **written}}


_Pairs = tuple[Sequence[Any], Sequence[Any]]
"""Our parts, and those of the wire that they were read from."""


def _pairs(item: Item, received: Sequence[Any]) -> _Pairs:
    """The parts of a changed message as it was read, each beside the part of the wire."""
    content = item.before.get("content") if item.before else None
    return (content, received) if isinstance(content, list) else ((), ())


def write(items: Sequence[Item], *, foreign: bool = False) -> list[Any]:
    """The contents of the wire, and the places of those whose messages are all unchanged."""
    writer = _Writer(foreign)
    written: list[_Content] = []
    for is_whole, item in in_wire_items(items):
        content = writer.content_of(item, is_whole=is_whole)
        if not content.is_whole and not content.parts:
            continue
        if written and _must_merge(written[-1], content):
            before = written[-1]
            place = content.place if before.place == content.place else -1
            written[-1] = _Content(before.role, [*before.parts, *content.parts], place)
        else:
            written.append(content)
    if written and written[0].is_model and not (written[0].is_whole and written[0].place == 0):
        written.insert(0, _Content("user", [{"text": _OPENING}]))
    return [it.place if it.is_whole else {"role": it.role, "parts": it.parts} for it in written]


def _must_merge(before: _Content, content: _Content) -> bool:
    """Whether two contents are one: those received as one, the results of a turn, and calls behind words of the model.

    The wire takes several contents of the user in a row, so that what was not changed stays the same object.
    """
    if before.is_model != content.is_model:
        return False
    if content.is_whole and before.is_whole and before.place + 1 == content.place:
        return False
    if content.is_model:
        return content.has("call") or (not content.is_whole and not before.is_whole)
    came_as_one = not content.is_whole and not before.is_whole and before.place == content.place != -1
    return came_as_one or (before.has("result") and content.has("result"))


def _is_no_text(part: Any) -> bool:
    return isinstance(part, dict) and not isinstance(part.get("text"), str)


def _refusal(message: Message) -> str:
    refusal = message.get("refusal")
    return refusal if isinstance(refusal, str) else ""


def write_system(content: str | list[Part] | None, received: Any) -> Any:
    """A system prompt as an instruction: in the received shape, or as a content."""
    if isinstance(received, str) and isinstance(content, str):
        return content
    parts = _Writer(foreign=False)._parts(as_parts(content))
    return {**(received if isinstance(received, dict) and "parts" in received else {}), "parts": parts}
