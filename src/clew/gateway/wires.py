"""Requests as received, and the wires they are written in.

A body is split into fields and items without parsing them, and they leave byte for byte: only what is looked at is
parsed, and only what is changed is written again. Numbers keep their spelling, and unknown fields pass untouched.

A wire says where its requests have their history, their prompt and their output cap, and how its errors and its usage
are written. Replies are parsed by the accumulators of `clew.providers`.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import msgspec

from clew.gateway.aws import STREAM_TYPE, error_frame, event_frame
from clew.messages import DialectName, Message, Tool, plain_system, text_of
from clew.providers import (
    AnthropicReplyAccumulator,
    ChatReplyAccumulator,
    GeminiReplyAccumulator,
    ReplyAccumulator,
    ResponsesReplyAccumulator,
)

_Value = TypeVar("_Value")
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
# A pair, half of a pair (group 1), or any other escape, so that none is found inside another one.
_ESCAPE = re.compile(rb"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\(u[dD][89a-fA-F]..)|\\.", re.DOTALL)


class UnreadableBody(ValueError):  # noqa: N818 (reads as what it says)
    """A body that is no JSON object. It passes: the upstream decides whether that is an error."""


class NestedTooDeep(UnreadableBody):
    """A body with values that are nested deeper than about 1,000 levels."""


class RequestBody:
    """A JSON object with its fields in the received order."""

    __slots__ = ("_fields", "_values", "raw")

    def __init__(self, raw: bytes) -> None:
        self.raw = raw
        try:
            self._fields = _fields_of(raw)
        except UnreadableBody:
            # A client that cuts a text inside an emoji writes half of it: valid JSON, which msgspec refuses.
            whole = without_lone_surrogates(raw)
            if whole == raw:
                raise
            self._fields = _fields_of(whole)
        self._values: dict[str, Any] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def field(self, name: str) -> bytes:
        """A field as received; empty where there is none."""
        return bytes(self._fields.get(name, b""))

    def first_byte(self, name: str) -> bytes:
        """The first byte of a field, which shows its type; empty where there is none."""
        return bytes(memoryview(self._fields.get(name, b""))[:1])

    def value(self, name: str) -> Any:
        """A parsed field; None where there is none."""
        if name not in self._fields:
            return None
        if name not in self._values:
            self._values[name] = read_json(self.field(name))
        return self._values[name]

    def text(self, name: str) -> str:
        """A field that is a text; empty where it is something else."""
        value = self.value(name) if self.first_byte(name) == b'"' else None
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> int | None:
        value = self.value(name) if self.first_byte(name).isdigit() else None
        return value if isinstance(value, int) else None

    def items(self, name: str) -> list[bytes] | None:
        """The items of a field that is a list, each as received; None where it is something else."""
        try:
            return [bytes(item) for item in _ITEMS.decode(self._fields[name])]
        except (KeyError, msgspec.DecodeError, RecursionError):
            return None

    def with_fields(self, fields: Mapping[str, bytes]) -> bytes:
        """The body with other values for some fields; new ones are at the end."""
        whole: dict[str, Any] = {**self._fields, **fields}
        return b"{" + b",".join(write_json(name) + b":" + value for name, value in whole.items()) + b"}"


def _fields_of(raw: bytes) -> dict[str, msgspec.Raw]:
    """The fields, which are parts of `raw` and no copies."""
    try:
        return _FIELDS.decode(raw)
    except RecursionError as error:
        raise NestedTooDeep(str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableBody(str(error)) from error


def without_lone_surrogates(raw: bytes) -> bytes:
    """JSON in which U+FFFD represents each escaped half of a surrogate pair."""
    return _ESCAPE.sub(lambda found: b"\\ufffd" if found[1] else found[0], raw)


def read_json(raw: bytes) -> Any:
    """A JSON value; raises `UnreadableBody`."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise UnreadableBody(str(error)) from error


def read_object(raw: bytes) -> dict[str, Any]:
    """The fields of a JSON object, none of another value; raises `UnreadableBody`."""
    value = read_json(raw)
    return value if isinstance(value, dict) else {}


def write_json(value: Any) -> bytes:
    """A JSON value without blanks; in ASCII only where a lone surrogate leaves no other way."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def bounded_cache(max_bytes: int) -> Callable[[Callable[..., _Value]], Callable[..., _Value]]:
    """Keep the newest results of a function of bytes, while their arguments have no more bytes together."""

    def decorate(read: Callable[..., _Value]) -> Callable[..., _Value]:
        known: OrderedDict[tuple[bytes, ...], _Value] = OrderedDict()
        kept_bytes = 0

        def cached(*given: bytes) -> _Value:
            nonlocal kept_bytes
            if given in known:
                known.move_to_end(given)
                return known[given]
            value = known[given] = read(*given)
            kept_bytes += sum(map(len, given))
            while kept_bytes > max_bytes:
                kept_bytes -= sum(map(len, known.popitem(last=False)[0]))
            return value

        return cached

    return decorate


def join_items(items: Iterable[bytes]) -> bytes:
    """Items as a JSON list."""
    return b"[" + b",".join(items) + b"]"


def hashes_of(items: Sequence[bytes]) -> list[int]:
    """A number for each item: the same for the same bytes, within this process."""
    return list(map(hash, items))


# -- wires -------------------------------------------------------------------------------------------------------------

MAX_MODEL_CHARS = 200
"""A longer name is no model's, and is not looked up."""
MAX_ITEMS = 50_000
"""A longer history is not parsed: the largest real ones have some thousands."""
_PROMPT_ROLES = ("system", "developer")
_ROLE = re.compile(rb'"role"\s*:\s*"(\w+)"')
# As keys: inside a string the second quotation mark is escaped.
_MARKER = re.compile(rb'"cache_control"\s*:\s*\{[^{}]*\}')
_TTL = re.compile(rb'"ttl"\s*:\s*"(30m|1h)"')
_GOOGLE_STATUS = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    408: "DEADLINE_EXCEEDED",
    429: "RESOURCE_EXHAUSTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
}
_CACHED_BYTES = 4 * 1024 * 1024
"""Of parsed prompts, and of tool lists, in the cache: parsed, they take about eleven times as much."""
Change = Callable[[int], int]
"""From the prompt tokens that the upstream states to those that the client is shown."""


@dataclass(frozen=True, slots=True)
class WireRequest:
    """A request, parsed as far as the gateway needs."""

    wire: GatewayWire
    body: RequestBody
    model: str
    lead: Sequence[bytes]
    """System messages at the beginning of the list, as received."""
    items: Sequence[bytes]
    """The rest of the list: the history."""
    is_streamed: bool
    max_output: int | None

    @property
    def prompt(self) -> Message | None:
        """The system prompt and the leading system messages as one message."""
        return _prompt_of(self.body.field(self.wire.system_field), *self.lead)

    @property
    def tools(self) -> Sequence[Tool]:
        return _tools_of(self.body.field("tools"))

    @property
    def has_tools(self) -> bool:
        return len(self.body.field("tools")) > len(b"[]")

    def with_items(
        self, items: Sequence[bytes], max_output: int | None = None, fields: Mapping[str, bytes] | None = None
    ) -> bytes:
        """The body with another history and other fields, and with another output cap where one is given."""
        changed = {**(fields or {}), self.wire.list_field: join_items([*self.lead, *items])}
        if max_output is not None and max_output != self.max_output:
            changed |= self.wire.capped(self.body, max_output)
        return self.body.with_fields(changed)


# Further fields by which servers of open models constrain a reply.
_FORMATS = frozenset("structured_outputs structural_tag grammar json_schema regex ebnf format".split())


class TooManyItems(ValueError):  # noqa: N818 (reads as what it says)
    """A request with more than `MAX_ITEMS` messages: it passes unchanged, and is counted as a fallback."""


class GatewayWire(ABC):
    """One wire."""

    name: ClassVar[str]
    dialect: ClassVar[DialectName]
    list_field: ClassVar[str] = "messages"
    system_field: ClassVar[str] = "system"
    cap_fields: ClassVar[tuple[str, ...]] = ("max_tokens",)
    stream_type: ClassVar[str] = "text/event-stream"
    ping: ClassVar[bytes] = b": keep-alive\n\n"
    no_calls: ClassVar[dict[str, bytes]] = {"tool_choice": b'"none"'}
    """The field that forbids calls; the list of tools stays, and with it the prefix."""
    has_handles: ClassVar[bool] = False
    """Whether clients ask their provider to compact, and get a handle for the history."""
    compacts_natively: ClassVar[bool] = False
    """Whether a provider can be asked to compact by itself."""
    keeps_errors_for_later: ClassVar[bool] = False
    """Whether a refusal may be inside a stream that has begun, so that its first events are held."""

    @abstractmethod
    def accumulator(self) -> ReplyAccumulator:
        """For the reply to one request."""

    def error(self, status: int, message: str) -> dict[str, Any]:
        """An error of the gateway in the format of this wire; never one that looks like an overflow."""
        return {"error": {"message": message, "type": _error_type(status), "param": None, "code": None}}

    @abstractmethod
    def tell_prompt_tokens(self, value: dict[str, Any], change: Change) -> bool:
        """Change the prompt tokens in an event or a body of a reply; whether it had any."""

    def read(self, body: RequestBody, path: WirePath) -> WireRequest | None:
        """The request; None where it has no history, or one that cannot be parsed. Raises `TooManyItems`."""
        model = path.model or body.text("model")
        listed = body.items(self.list_field)
        if listed is None or len(model) > MAX_MODEL_CHARS:
            return None
        if len(listed) > MAX_ITEMS:
            raise TooManyItems(f"{len(listed):,} messages; at most {MAX_ITEMS:,} are read")
        count = next((at for at, item in enumerate(listed) if not _is_prompt(item)), len(listed))
        lead, items = listed[:count], listed[count:]
        return WireRequest(self, body, model, lead, items, self.is_streamed(body, path), self._cap(body))

    def error_event(self, status: int, message: str) -> bytes:
        """An error of the gateway inside a stream that has begun."""
        return b"data: " + write_json(self.error(status, message)) + b"\n\n"

    def capped(self, body: RequestBody, max_output: int) -> dict[str, bytes]:
        """The fields for another output cap."""
        name = next((field for field in self.cap_fields if field in body), self.cap_fields[0])
        return {name: b"%d" % max_output}

    def text_fields(self, body: RequestBody) -> dict[str, bytes] | None:
        """The fields to change so that a model may answer with a text where the request forces a call.

        None where the reply has a schema or a grammar, or where the change would invalidate the provider's cache.
        """
        if _has_format(body) or not _is_text(body.value("response_format")):
            return None
        choice = body.value("tool_choice")
        legacy = {"function_call": b'"auto"'} if isinstance(body.value("function_call"), dict) else {}
        if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
            return (
                {"tool_choice": write_json({**choice, "mode": "auto"})} if choice.get("mode") == "required" else legacy
            )
        is_forced = choice in ("required", "any") or isinstance(choice, dict)
        return {"tool_choice": b'"auto"'} if is_forced else legacy

    @abstractmethod
    def takes_more_tools(self, body: RequestBody, query: Mapping[str, str]) -> bool:
        """Whether tools can be added and the reply be changed: no call is forced or forbidden, and one choice asked."""

    def thinking_tokens(self, body: RequestBody) -> int:  # noqa: ARG002
        """The thinking budget of the request, where the output cap includes it; else 0."""
        return 0

    def cache_ttl(self, raw: bytes) -> str | None:
        """How long the provider caches a request, by its body; None where it caches nothing.

        Providers that cache without markers keep it for five minutes or more; markers and options may ask for more.
        """
        found = _TTL.search(raw)
        return "5m" if found is None else found[1].decode()

    def is_streamed(self, body: RequestBody, path: WirePath) -> bool:
        """Whether the reply to a request is a stream."""
        return body.field("stream") == b"true" if path.is_streamed is None else path.is_streamed

    def _cap(self, body: RequestBody) -> int | None:
        return next((cap for field in self.cap_fields if (cap := body.number(field)) is not None), None)


class ChatWire(GatewayWire):
    """OpenAI chat completions, also of other servers."""

    name = "chat"
    dialect = "openai_chat"
    system_field = ""
    cap_fields = ("max_completion_tokens", "max_tokens")

    def accumulator(self) -> ReplyAccumulator:
        return ChatReplyAccumulator("")

    def takes_more_tools(self, body: RequestBody, query: Mapping[str, str]) -> bool:  # noqa: ARG002
        is_free = all(body.value(name) in (None, "auto") for name in ("tool_choice", "function_call"))
        return is_free and body.value("functions") is None and body.value("n") in (None, 1)

    def tell_prompt_tokens(self, value: dict[str, Any], change: Change) -> bool:
        return _tell(value.get("usage"), "prompt_tokens", change, ("prompt_tokens_details", "cached_tokens"))


class ResponsesWire(GatewayWire):
    """OpenAI's Responses."""

    name = "responses"
    dialect = "responses"
    list_field = "input"
    system_field = "instructions"
    cap_fields = ("max_output_tokens",)
    has_handles = compacts_natively = keeps_errors_for_later = True

    def accumulator(self) -> ReplyAccumulator:
        return ResponsesReplyAccumulator("")

    def takes_more_tools(self, body: RequestBody, query: Mapping[str, str]) -> bool:  # noqa: ARG002
        return body.value("tool_choice") in (None, "auto") and body.value("background") in (None, False)

    def read(self, body: RequestBody, path: WirePath) -> WireRequest | None:
        if body.first_byte("previous_response_id") == b'"' or body.first_byte("conversation") in (b'"', b"{"):
            return None  # the provider has the history
        if body.first_byte("input") == b'"':
            item = write_json({"role": "user", "content": body.text("input")})
            model = (path.model or body.text("model"))[:MAX_MODEL_CHARS]
            return WireRequest(self, body, model, (), (item,), self.is_streamed(body, path), None)
        return super().read(body, path)

    def error_event(self, status: int, message: str) -> bytes:
        error = self.error(status, message)["error"]
        failed = {"type": "error", "code": error["type"], "message": message, "param": None}
        return b"event: error\ndata: " + write_json(failed) + b"\n\n"

    def text_fields(self, body: RequestBody) -> dict[str, bytes] | None:
        text = body.value("text")
        return super().text_fields(body) if not isinstance(text, dict) or _is_text(text.get("format")) else None

    def tell_prompt_tokens(self, value: dict[str, Any], change: Change) -> bool:
        response = value.get("response") if isinstance(value.get("response"), dict) else value
        assert isinstance(response, dict)
        return _tell(response.get("usage"), "input_tokens", change, ("input_tokens_details", "cached_tokens"))


class MessagesWire(GatewayWire):
    """Anthropic's Messages."""

    name = "messages"
    dialect = "anthropic"
    compacts_natively = True
    ping = b'event: ping\ndata: {"type":"ping"}\n\n'
    no_calls: ClassVar[dict[str, bytes]] = {"tool_choice": b'{"type":"none"}'}

    def takes_more_tools(self, body: RequestBody, query: Mapping[str, str]) -> bool:  # noqa: ARG002
        choice = body.value("tool_choice")
        return choice is None or (isinstance(choice, dict) and choice.get("type") == "auto")

    def accumulator(self) -> ReplyAccumulator:
        return AnthropicReplyAccumulator("")

    def error(self, status: int, message: str) -> dict[str, Any]:
        name = "request_too_large" if status == 413 else _error_type(status)
        return {"type": "error", "error": {"type": name, "message": message}}

    def error_event(self, status: int, message: str) -> bytes:
        return b"event: error\n" + super().error_event(status, message)

    def text_fields(self, body: RequestBody) -> dict[str, bytes] | None:
        choice, output = body.value("tool_choice"), body.value("output_config")
        formats = (body.value("output_format"), output.get("format") if isinstance(output, dict) else None)
        is_forced = isinstance(choice, dict) and choice.get("type") in ("any", "tool")
        return None if is_forced or _has_format(body) or not all(map(_is_text, formats)) else {}

    def thinking_tokens(self, body: RequestBody) -> int:
        return _number_in(body.value("thinking"), "budget_tokens")

    def cache_ttl(self, raw: bytes) -> str | None:
        """Anthropic caches nothing without markers; of several lifetimes the shortest counts."""
        lifetimes = {found[1].decode() if (found := _TTL.search(it)) else "5m" for it in _MARKER.findall(raw)}
        return min(lifetimes, key=("5m", "30m", "1h").index, default=None)

    def tell_prompt_tokens(self, value: dict[str, Any], change: Change) -> bool:
        """Anthropic states the prompt in three parts, which are changed in proportion."""
        head = value.get("message")
        usage = head.get("usage") if isinstance(head, dict) else value.get("usage")
        names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
        parts = {name: usage[name] for name in names if isinstance(usage, dict) and isinstance(usage.get(name), int)}
        whole = sum(parts.values())
        if not isinstance(usage, dict) or not whole:
            return False
        told = change(whole)
        for name, tokens in parts.items():
            usage[name] = tokens * told // whole
        return True


class BedrockWire(MessagesWire):
    """Anthropic's Messages at Amazon Bedrock: the model and the stream are in the path, events in binary frames."""

    name = "bedrock"
    stream_type = STREAM_TYPE
    ping = event_frame(b'{"type":"ping"}').encode()

    def error(self, status: int, message: str) -> dict[str, Any]:  # noqa: ARG002 (Amazon's have no more than this)
        return {"message": message}

    def error_event(self, status: int, message: str) -> bytes:
        return error_frame("validationException" if status < 500 else "internalServerException", message).encode()


class GeminiWire(GatewayWire):
    """Google's generateContent."""

    name = "gemini"
    dialect = "gemini"
    list_field = "contents"
    system_field = "systemInstruction"
    no_calls: ClassVar[dict[str, bytes]] = {"toolConfig": b'{"functionCallingConfig":{"mode":"NONE"}}'}

    def accumulator(self) -> ReplyAccumulator:
        return GeminiReplyAccumulator("")

    def takes_more_tools(self, body: RequestBody, query: Mapping[str, str]) -> bool:
        """Google refuses functions together with other kinds of tools; a stream that is a JSON list is not parsed here.

        Google accepts names with underscores too, which are not read here.
        """
        if "tool_config" in body or "generation_config" in body:
            return False
        config, generation, tools = (body.value(name) for name in ("toolConfig", "generationConfig", "tools"))
        calling = config.get("functionCallingConfig") if isinstance(config, dict) else None
        if isinstance(calling, dict) and (
            str(calling.get("mode", "AUTO")).upper() not in ("AUTO", "MODE_UNSPECIFIED")
            or calling.get("allowedFunctionNames")
        ):
            return False
        if isinstance(generation, dict) and generation.get("candidateCount") not in (None, 1):
            return False
        are_functions = isinstance(tools, list) and all(
            isinstance(it, dict) and "functionDeclarations" in it for it in tools
        )
        return are_functions and query.get("alt", "sse") == "sse"

    def error(self, status: int, message: str) -> dict[str, Any]:
        other = "INVALID_ARGUMENT" if status < 500 else "INTERNAL"
        return {"error": {"code": status, "message": message, "status": _GOOGLE_STATUS.get(status, other)}}

    def tell_prompt_tokens(self, value: dict[str, Any], change: Change) -> bool:
        usage = value.get("usageMetadata")
        if not isinstance(usage, dict) or not isinstance(usage.get("promptTokenCount"), int):
            return False
        before = usage["promptTokenCount"]
        usage["promptTokenCount"] = told = change(before)
        for name in ("totalTokenCount", "cachedContentTokenCount"):
            if isinstance(usage.get(name), int):
                usage[name] = max(0, usage[name] - before + told) if name[0] == "t" else min(usage[name], told)
        return True

    def text_fields(self, body: RequestBody) -> dict[str, bytes] | None:
        config, tools = body.value("generationConfig"), body.value("toolConfig")
        if isinstance(config, dict) and (
            config.get("responseMimeType") not in (None, "", "text/plain")
            or any(config.get(name) is not None for name in ("responseSchema", "responseJsonSchema"))
        ):
            return None
        calling = tools.get("functionCallingConfig") if isinstance(tools, dict) else None
        if not isinstance(calling, dict) or str(calling.get("mode")).upper() != "ANY":
            return {}
        return {"toolConfig": write_json({**tools, "functionCallingConfig": {"mode": "AUTO"}})}

    def thinking_tokens(self, body: RequestBody) -> int:
        config = body.value("generationConfig")
        return _number_in(config.get("thinkingConfig") if isinstance(config, dict) else None, "thinkingBudget")

    def capped(self, body: RequestBody, max_output: int) -> dict[str, bytes]:
        config = body.value("generationConfig")
        return {"generationConfig": write_json({**(config or {}), "maxOutputTokens": max_output})}

    def _cap(self, body: RequestBody) -> int | None:
        config = body.value("generationConfig")
        cap = config.get("maxOutputTokens") if isinstance(config, dict) else None
        return cap if isinstance(cap, int) else None


# -- paths -------------------------------------------------------------------------------------------------------------

CHAT, RESPONSES, MESSAGES, GEMINI, BEDROCK = ChatWire(), ResponsesWire(), MessagesWire(), GeminiWire(), BedrockWire()


@dataclass(frozen=True, slots=True)
class WirePath:
    """What a path asks for."""

    wire: GatewayWire
    action: str = "answer"
    """`answer`, `count`, `compact`, or the name of a method of Gemini's."""
    model: str = ""
    """The model, where the path names it."""
    is_streamed: bool | None = None
    """Whether the reply is a stream, by the path; None where the body says it."""
    kind: str = ""
    """The kind of upstream that has such a path: the name of the wire, or of a cloud."""


_NAME = r"(?!\.+[:/])[A-Za-z0-9_.\-@]+"
_BEDROCK_MODEL = r"(?:[a-z\-]+\.)?anthropic\.[\w.:\-]+|arn:aws[a-z\-]*:bedrock:[a-z0-9\-]*:\d*:[a-z\-]+/[\w.:\-]+"
_AZURE = rf"/openai(?:/v1|/deployments/(?P<model>{_NAME}))?"
_VERTEX = rf"/v1(?:beta1)?(?:/projects/{_NAME}/locations/{_NAME})?"
_METHOD = r":(?P<method>generateContent|streamGenerateContent|countTokens)"
_STREAMING = frozenset(("streamGenerateContent", "streamRawPredict", "invoke-with-response-stream"))
_PATHS: tuple[tuple[re.Pattern[str], GatewayWire, str, str], ...] = tuple(
    (re.compile(pattern), wire, action, kind)
    for pattern, wire, action, kind in (
        (r"(?:/v1)?/chat/completions", CHAT, "answer", ""),
        (r"(?:/v1|/backend-api/codex)?/responses", RESPONSES, "answer", ""),
        (r"(?:/v1|/backend-api/codex)?/responses/compact", RESPONSES, "compact", ""),
        (r"(?:/anthropic)?(?:/v1)?/messages", MESSAGES, "answer", ""),
        (r"(?:/anthropic)?(?:/v1)?/messages/count_tokens", MESSAGES, "count", ""),
        (rf"/v1(?:beta|alpha)?\d?/models/(?P<model>{_NAME}){_METHOD}", GEMINI, "", ""),
        (rf"{_AZURE}/chat/completions", CHAT, "answer", "azure"),
        (rf"{_AZURE}/responses", RESPONSES, "answer", "azure"),
        (rf"{_AZURE}/responses/compact", RESPONSES, "compact", "azure"),
        (rf"/model/(?P<model>{_BEDROCK_MODEL})/(?P<method>invoke(?:-with-response-stream)?)", BEDROCK, "answer", ""),
        (rf"{_VERTEX}/publishers/anthropic/models/count-tokens:rawPredict", MESSAGES, "count", "vertex"),
        (
            rf"{_VERTEX}/publishers/anthropic/models/(?P<model>{_NAME}):(?P<method>rawPredict|streamRawPredict)",
            MESSAGES,
            "answer",
            "vertex",
        ),
        (rf"{_VERTEX}/publishers/google/models/(?P<model>{_NAME}){_METHOD}", GEMINI, "", "vertex"),
        (rf"{_VERTEX}/endpoints/openapi/chat/completions", CHAT, "answer", "vertex"),
    )
)
"""The paths of answers and counts. Without an action the method is it; without a kind the name of the wire is it."""
_MODELS = re.compile(
    r"(?:/v1(?:beta|alpha)?\d?|/openai(?:/v1)?|/anthropic/v1|/backend-api/codex)?"
    r"/models(?:/(?!\.+(?:/|$))[A-Za-z0-9_.\-@:]+){0,3}"
)
KINDS = frozenset(kind or wire.name for _, wire, _, kind in _PATHS)


def wire_path(path: str) -> WirePath | None:
    """The wire that a path belongs to; None where the gateway does not serve it."""
    for pattern, wire, action, kind in _PATHS:
        if found := pattern.fullmatch(path):
            named = found.groupdict()
            method = named.get("method")
            is_streamed = None if method is None else method in _STREAMING
            action = action or ("count" if method == "countTokens" else method or "")
            return WirePath(wire, action, named.get("model") or "", is_streamed, kind or wire.name)
    return None


def is_models_path(path: str) -> bool:
    """Whether a path asks for the list of models, or for one of them."""
    return _MODELS.fullmatch(path) is not None


# -- reading -----------------------------------------------------------------------------------------------------------


def _is_prompt(item: bytes) -> bool:
    """Whether an item is a system message. It is parsed only where the word occurs."""
    found = _ROLE.search(item)
    if found is None or found[1].decode() not in _PROMPT_ROLES:
        return False
    return read_object(item).get("role") in _PROMPT_ROLES


@bounded_cache(_CACHED_BYTES)
def _prompt_of(system: bytes, *lead: bytes) -> Message | None:
    values = [read_json(item).get("content") for item in lead]
    if system:
        values.insert(0, _system_text(read_json(system)))
    texts = [text_of({"role": "system", "content": plain_system(value)}) for value in values if value]
    return {"role": "system", "content": "\n\n".join(texts)} if texts else None


def _system_text(value: Any) -> Any:
    return value.get("parts") if isinstance(value, Mapping) else value  # Gemini's is a content


@bounded_cache(_CACHED_BYTES)
def _tools_of(tools: bytes) -> Sequence[Tool]:
    value = read_json(tools) if tools else []
    return tuple(tool for tool in value if isinstance(tool, dict)) if isinstance(value, list) else ()


def _is_text(format: Any) -> bool:
    """Whether a reply in this format is any text: not JSON, and by no grammar."""
    return format is None or (isinstance(format, dict) and format.get("type") == "text")


def _has_format(body: RequestBody) -> bool:
    """Whether a field of vLLM, SGLang, llama.cpp or Ollama gives the reply a schema or a grammar."""
    return any((name in _FORMATS or name.startswith("guided_")) and body.value(name) is not None for name in body)


def _number_in(value: Any, name: str) -> int:
    number = value.get(name) if isinstance(value, dict) else None
    return max(0, number) if isinstance(number, int) else 0


def _error_type(status: int) -> str:
    names = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
    return names.get(status, "invalid_request_error" if status < 500 else "api_error")


def _tell(usage: Any, name: str, change: Change, cached: tuple[str, str]) -> bool:
    """Change the prompt tokens of a wire that includes the cached ones, and states a total."""
    if not isinstance(usage, dict) or not isinstance(usage.get(name), int):
        return False
    before = usage[name]
    usage[name] = told = change(before)
    if isinstance(usage.get("total_tokens"), int):
        usage["total_tokens"] += told - before
    details = usage.get(cached[0])
    if isinstance(details, dict) and isinstance(details.get(cached[1]), int):
        details[cached[1]] = min(details[cached[1]], told)
    return True
