"""The HTTP API of hosted conversations: the calls, their arguments and answers, and their errors.

The same types make the OpenAPI description and check requests: an unknown field is named and refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar, get_args, get_type_hints

import msgspec
from aiohttp import web
from msgspec import UNSET, Meta, Struct, UnsetType

from clew import __version__
from clew.errors import (
    ClewError,
    ContextExhausted,
    DatabaseBusy,
    DatabaseFull,
    InUse,
    InvalidArgument,
    InvalidMessage,
    LeaseLost,
    ProviderRefused,
    ReadOnlyStore,
    StaleHistory,
    StaleView,
    StoreError,
    UnknownSession,
)
from clew.gateway.admission import Refusal
from clew.gateway.wires import UnreadableBody, read_json
from clew.providers import ErrorKind, explain_refusal
from clew.turn import PAGE_CHARS

_KINDS = {
    400: "bad_request",
    401: "auth",
    402: "quota",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    413: "payload_too_large",
    415: "unsupported_media_type",
    429: "rate_limit",
}
_STATUS_OF_FAULT = {"rate_limit": 429, "overloaded": 503, "quota": 402, "bad_request": 400}
_REMEDIES = {
    400: "See /clew/openapi.json for what a call takes.",
    401: "Send a key in Authorization: Bearer, x-api-key or x-goog-api-key.",
    402: "Raise the budget of the key, or take another one.",
    403: "Call the gateway by one of its own names.",
    404: "GET /clew/conversations lists those there are.",
    413: "Send less at once.",
    429: "Wait, as Retry-After says, and try again.",
}
_UPSTREAM_REMEDIES: Mapping[ErrorKind, str] = {
    "bad_request": "Check the name of the model: GET /v1/models lists those of the upstream.",
    "network": "The question is kept; send it again.",
}
_ASK_OPERATOR = "Try again; if it stays, tell the operator of the gateway."
Schema: TypeAlias = dict[str, Any]
_Served = TypeVar("_Served", bound=Callable[..., Any])


class Refused(Refusal):
    """A call that is not served: with its kind for programs, and the remedy."""

    def __init__(
        self, status: int, message: str, remedy: str = "", *, kind: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status, message, headers)
        self.remedy = remedy or _REMEDIES.get(status, "Try again.")
        self.kind = kind or _KINDS.get(status, "other")

    def as_plain(self) -> dict[str, Any]:
        return {"error": {"message": str(self), "kind": self.kind, "remedy": self.remedy}}


def no_conversation(id: str) -> Refused:
    """The refusal for an unknown conversation, and for one of another caller."""
    return Refused(404, f"there is no conversation {id[:100]!r}")


# In this order: the first class that fits counts. Without a text, the text of the error is used.
# Texts of the database name its path, and are for the operator alone.
_OF_STORE: tuple[tuple[tuple[type[ClewError], ...], int, str, str, str], ...] = (
    ((InUse,), 409, "in_use", "", "Delete its branches first."),
    (
        (StaleView, StaleHistory, LeaseLost),
        409,
        "",
        "another process has changed the conversation meanwhile",
        "Try again.",
    ),
    ((DatabaseBusy,), 503, "overloaded", "the store is busy", "Try again in a moment."),
    (
        (DatabaseFull, ReadOnlyStore),
        503,
        "store",
        "the store cannot be written",
        "The operator of the gateway has to make room, or give it the right to write.",
    ),
    ((StoreError,), 500, "store", "the store failed", "The operator of the gateway can see more with `clew doctor`."),
    ((InvalidArgument, InvalidMessage), 400, "", "", ""),
    ((ClewError,), 500, "other", "", _ASK_OPERATOR),
)


def refused(error: Refusal | ClewError, *, is_own_credential: bool = False, is_for_operator: bool = False) -> Refused:
    """An error as the answer to a call. `is_own_credential`: the upstream was asked with the caller's own.

    The path of the store and the address of the upstream are logged for the operator, not sent.
    """
    if isinstance(error, Refused):
        return error
    if isinstance(error, Refusal):
        return Refused(error.status, str(error), headers=error.headers)
    if isinstance(error, ProviderRefused):
        return _refused_by_provider(error, is_own_credential=is_own_credential, is_for_operator=is_for_operator)
    if isinstance(error, ContextExhausted):
        what = f"the request does not fit the window; large are {', '.join(error.large)}"
        remedy = "Use a model with a larger window, begin afresh, or make smaller what is large."
        return Refused(413, what, remedy, kind="prompt_too_long")
    if isinstance(error, UnknownSession):
        return no_conversation(error.session)
    _, status, kind, text, remedy = next(row for row in _OF_STORE if isinstance(error, row[0]))
    headers = {"Retry-After": "2"} if isinstance(error, DatabaseBusy) else None
    names_path = is_for_operator and kind == "store"
    return Refused(status, str(error) if names_path or not text else text, remedy, kind=kind, headers=headers)


def _refused_by_provider(error: ProviderRefused, *, is_own_credential: bool, is_for_operator: bool) -> Refused:
    kind, wait = error.fault.kind, error.fault.retry_after
    if kind == "auth" and is_own_credential:
        return Refused(401, "the upstream does not take this credential", "Send one that it takes.")
    if kind == "auth":
        what = "the upstream does not take the credential of this gateway"
        return Refused(502, what, "The operator of the gateway has to set model.api_key_env.", kind="upstream_auth")
    if kind == "network" and error.partial is None and not is_for_operator:
        return Refused(502, "the connection to the upstream failed", _UPSTREAM_REMEDIES[kind], kind=kind)
    told = explain_refusal(error, remedies=_UPSTREAM_REMEDIES)
    status = _STATUS_OF_FAULT.get(kind, 502)
    headers = {"Retry-After": str(max(1, math.ceil(wait)))} if wait is not None and wait < 86_400 * 365 else {}
    return Refused(status, told.text, told.remedy, kind=kind, headers=headers)


def internal_failure() -> Refused:
    return Refused(500, "something failed inside the gateway", _ASK_OPERATOR, kind="internal")


# -- arguments and answers ---------------------------------------------------------------------------------------------

MAX_CONTENT_CHARS = 1_000_000
MAX_NAME_CHARS = 200
MAX_PAGE = 200
MAX_BODY_BYTES = 8 * 1024 * 1024
DEFAULT_PAGE = 50
DEFAULT_HITS = 20


def about(words: str, **schema: Any) -> Meta:
    """The description of a field."""
    return Meta(description=words, extra_json_schema=schema or None)


_Count: TypeAlias = Annotated[int, Meta(ge=0)]
_Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARS)]
_Words: TypeAlias = Annotated[str, Meta(min_length=1, max_length=1_000)]
_Text: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_CONTENT_CHARS)]
_Prompt: TypeAlias = Annotated[str, Meta(max_length=MAX_CONTENT_CHARS)]
_Limit: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_PAGE, description="How many at most.")]
_Seq: TypeAlias = Annotated[int, Meta(ge=0, le=2**53, description="A number of a message.")]
_Id: TypeAlias = Annotated[
    str, about("The id of a conversation. It stays the same, however often the conversation is compacted.")
]
_Time: TypeAlias = Annotated[str, about("A time, with its offset.", format="date-time")]
_Cost: TypeAlias = Annotated[float | None, about("Dollars; null where no price is known.")]
_Other: TypeAlias = Annotated[int | None, about("Of a result: the message with its call.")]
_Results: TypeAlias = Annotated[list[int | None], about("The results of its calls, in the order of the calls.")]
_Stream: TypeAlias = Annotated[
    bool, about("Answer with events (text/event-stream) while the model writes: `delta`, then `done` or `error`.")
]


class Given(Struct, forbid_unknown_fields=True, kw_only=True):
    """What a call is given in its query or its body; of itself nothing."""


class NewConversation(Given):
    model: Annotated[_Name | UnsetType, about("The model that answers, as the upstream names it.")] = UNSET
    system: Annotated[_Prompt | UnsetType, about("The system prompt.")] = UNSET
    title: Annotated[_Name | UnsetType, about("What to call it.")] = UNSET


class ConversationPage(Given):
    limit: _Limit = DEFAULT_PAGE
    before: Annotated[_Name | UnsetType, about("`next` of the page before.")] = UNSET


class ConversationChange(Given):
    title: Annotated[_Name | UnsetType | None, about("What to call it; null takes the name away.")] = UNSET
    model: Annotated[_Name | UnsetType, about("Another model.")] = UNSET
    schema: ClassVar = {"minProperties": 1}

    def __post_init__(self) -> None:
        if self.title is UNSET and self.model is UNSET:
            raise ValueError("the body is empty; it may have title, model")


class MessageRange(Given):
    limit: _Limit = DEFAULT_PAGE
    after: _Seq | UnsetType = UNSET
    before: _Seq | UnsetType = UNSET


class MessagesToOpen(Given):
    messages: Annotated[_Name, about("m12, m12-m20, m12,m40, m12@3000 or -20 (the newest).")]
    around: Annotated[_Words | UnsetType, about("Words to show long messages around.")] = UNSET
    chars: Annotated[
        Annotated[int, Meta(ge=1, le=PAGE_CHARS)] | UnsetType, about("So much of each message (default: up to 6000).")
    ] = UNSET


class Question(Given):
    content: Annotated[_Text, about("What is asked.")]
    stream: _Stream = False


class AnotherTry(Given):
    content: Annotated[_Text | UnsetType, about("What is asked in place of the last question.")] = UNSET
    stream: _Stream = False


class CompactionWish(Given):
    focus: Annotated[_Name | UnsetType, about("What the handoff should be about.")] = UNSET
    preview: Annotated[bool | UnsetType, about("Change nothing, and say what would be done.")] = UNSET
    apply: Annotated[_Name | UnsetType, about("`preview` of an answer before: apply exactly that.")] = UNSET
    schema: ClassVar = {"not": {"anyOf": [{"required": ["apply", "focus"]}, {"required": ["apply", "preview"]}]}}

    def __post_init__(self) -> None:
        for name in ("focus", "preview"):
            if self.apply is not UNSET and getattr(self, name) is not UNSET:
                raise ValueError(f"'apply' and {name!r} exclude each other; send one of them")


class BranchPoint(Given):
    at: Annotated[_Seq | UnsetType, about("How many messages to share.")] = UNSET
    before_last_question: Annotated[bool | UnsetType, about("Take back the last question and what followed.")] = UNSET
    title: Annotated[_Name | UnsetType, about("What to call it.")] = UNSET
    schema: ClassVar = {"not": {"required": ["at", "before_last_question"]}}

    def __post_init__(self) -> None:
        if self.at is not UNSET and self.before_last_question is not UNSET:
            raise ValueError("'at' and 'before_last_question' exclude each other; send one of them")


class NewPin(Given):
    text: Annotated[_Text, about("The text.")]
    label: Annotated[_Name | UnsetType, about("Its name; a pin of the same name is replaced.")] = UNSET


class ExportShape(Given):
    format: Annotated[Literal["chat", "jsonl", "anthropic", "responses"], about("The shape.")] = "chat"
    view: Annotated[Literal["true", "false"], about("Whether what the model sees, not the whole history.")] = "false"


class SearchWords(Given):
    q: Annotated[_Words, about("The words.")]
    conversation: Annotated[_Name | UnsetType, about("Only in this one.")] = UNSET
    role: Annotated[Literal["user", "assistant", "tool"] | UnsetType, about("Only messages of this role.")] = UNSET
    limit: _Limit = DEFAULT_HITS


class UsageFilter(Given):
    by: Annotated[
        Literal["model", "day", "conversation", "source"] | UnsetType, about("Added up by this; all together without.")
    ] = UNSET
    conversation: Annotated[_Name | UnsetType, about("Only of this one.")] = UNSET
    since: Annotated[str | UnsetType, about("Only calls since then.", format="date-time")] = UNSET

    def __post_init__(self) -> None:
        if self.since is not UNSET:
            time_of(self.since)


class Failure(Struct):
    message: Annotated[str, about("What is wrong.")]
    kind: Annotated[str, about("One word for programs: bad_request, not_found, conflict, auth, rate_limit, ...")]
    remedy: Annotated[str, about("What to do about it.")]


class Error(Struct):
    error: Failure


class Usage(Struct):
    input_tokens: _Count
    output_tokens: _Count
    cache_read_tokens: _Count
    cache_write_tokens: _Count
    reasoning_tokens: _Count
    prompt_tokens: Annotated[_Count, about("Input, read from the cache and written to it together.")]
    total_tokens: _Count


class HostedInfo(Struct):
    """A conversation as the calls name it."""

    id: _Id
    title: Annotated[str | None, about("Its name; null where it has none.")]
    model: Annotated[str | None, about("The model that answers.")]
    source: Annotated[
        str, about("`hosted`; `gateway` for one that a client sent through the wires: it can be read, not talked to.")
    ]
    created: _Time
    branch_of: Annotated[str | None, about("The session that it is a branch of.")]
    session: Annotated[
        str, about("Its newest session, as `clew sessions` names it: a compaction goes on in another one.")
    ]


class HostedDetails(HostedInfo):
    system: Annotated[str | None, about("The system prompt.")]
    messages: Annotated[_Count, about("Messages in the history.")]
    in_view: Annotated[_Count, about("Messages that the model is shown.")]
    compactions: Annotated[_Count, about("Compactions that are in effect.")]


class ConversationList(Struct):
    conversations: Annotated[list[HostedInfo], about("Newest first.")]
    next: Annotated[str | None, about("`before` for the next page; null where there is none.")]


class MessageInfo(Struct):
    seq: Annotated[_Count, about("Its number in the conversation, from 0.")]
    at: _Time
    tokens: _Count | None
    message: Annotated[dict[str, Any], about("The message, as OpenAI chat writes it.")]


class MessageList(Struct):
    messages: Annotated[list[MessageInfo], about("In their order.")]
    next: Annotated[int | None, about("`after` for the next page; null where there is none.")]


class OpenedText(Struct):
    start: Annotated[_Count, about("Where it begins.")]
    text: Annotated[str, about("Word for word.")]


class OpenedInfo(Struct):
    seq: Annotated[_Count, about("Its number.")]
    role: Annotated[str, about("Of the message.")]
    at: _Time
    chars: Annotated[_Count, about("Of its whole text.")]
    parts: Annotated[list[OpenedText], about("What is shown of the text.")]
    call: _Other
    results: _Results


class OpenedMessages(Struct):
    messages: Annotated[list[OpenedInfo], about("As they were asked for.")]
    next: Annotated[str | None, about("`messages` to read on; null at the end.")]


class AnswerInfo(Struct):
    conversation: _Id
    seq: Annotated[_Count, about("The number of the answer in the history.")]
    content: Annotated[str, about("What the model answered.")]
    model: Annotated[str, about("As its provider names it.")]
    finish: Annotated[str, about("Why it ended: stop, length, refusal, tool_calls, other.")]
    usage: Annotated[Usage | None, about("Null where the provider reported none.")]
    cost_usd: _Cost
    is_repeated: Annotated[bool, about("The answer to the same Idempotency-Key before; the model was not asked again.")]


class CompactionResult(Struct):
    conversation: _Id
    is_changed: Annotated[bool, about("Whether anything is, or would be, folded.")]
    is_applied: Annotated[bool, about("Whether it is in effect.")]
    preview: Annotated[str | None, about("`apply` for exactly this; null where there is nothing to apply.")]
    tokens_before: _Count
    tokens_after: _Count
    folded: Annotated[_Count, about("Messages that one handoff replaces.")]
    shortened: Annotated[_Count, about("Messages of which a part is shown.")]
    removed: Annotated[_Count, about("Messages that are not shown.")]
    written_by: Annotated[str | None, about("Who wrote the handoff.")]
    focus: Annotated[str | None, about("What it was asked to look at.")]
    handoff: Annotated[str | None, about("The handoff, as the model sees it.")]
    handoff_sections: Annotated[
        dict[str, list[Any]] | None,
        about("The handoff as a value: under each heading its entries, as [text, [message numbers], [lines]]."),
    ]
    unverified: Annotated[list[str], about("Said in the handoff and not found in the originals.")]
    warnings: Annotated[list[str], about("For people.")]


class UndoResult(Struct):
    conversation: _Id
    is_undone: Annotated[bool, about("False where no compaction was in effect.")]
    in_view: Annotated[_Count, about("Messages that the model is shown now.")]
    tokens: _Count


class CompactionInfo(Struct):
    at: _Time
    is_in_effect: Annotated[bool, about("False where it was undone.")]
    tokens_before: _Count
    tokens_after: _Count
    written_by: Annotated[str, about("Who wrote the handoff; empty where there is none.")]
    focus: Annotated[str | None, about("What it was asked to look at.")]
    first: Annotated[_Count, about("The first message that it replaced.")]
    stop: Annotated[_Count, about("The first message behind those that it replaced.")]


class CompactionList(Struct):
    compactions: Annotated[list[CompactionInfo], about("Oldest first.")]


class PartInfo(Struct):
    name: Annotated[str, about("system, memory, pinned, tools, head, summary, middle (what is folded next) or tail.")]
    tokens: Annotated[int, about("They add up to the tokens of the request.")]
    messages: Annotated[_Count, about("How many messages it is of.")]


class ContextInfo(Struct):
    conversation: _Id
    model: Annotated[str, about("The model that answers.")]
    tokens: Annotated[_Count, about("The next request, as it is counted before it is sent.")]
    window: Annotated[_Count, about("What the model takes.")]
    threshold: Annotated[int | None, about("From there on it is compacted; null where that is switched off.")]
    paused: Annotated[str | None, about("Why automatic compaction stopped, where it did.")]
    last_prompt_tokens: Annotated[_Count, about("As the provider counted the newest prompt; 0 where it did not.")]
    parts: list[PartInfo]


class PinInfo(Struct):
    number: Annotated[int, Meta(ge=1, description="For deleting it.")]
    label: Annotated[str, about("Its name.")]
    text: Annotated[str, about("Word for word.")]


class PinList(Struct):
    pins: list[PinInfo]


class FoundHit(Struct):
    conversation: _Id | None
    title: Annotated[str | None, about("Of the conversation.")]
    kind: Annotated[str, about("message, summary or output.")]
    seq: Annotated[int | None, about("Number of the message; in other events, the number of messages before it.")]
    role: Annotated[str | None, about("Of the message.")]
    at: _Time
    score: Annotated[float, about("Higher is better.")]
    snippet: Annotated[str, about("The text around the best matches.")]
    marks: Annotated[list[list[int]], about("The ranges of the snippet that matched: from, and up to.")]
    excerpts: Annotated[list[str], about("All that is shown of the text, in order.")]
    call: _Other
    results: _Results
    same_in: Annotated[list[int], about("Messages with nearly the same text.")]


class SearchResults(Struct):
    query: Annotated[str, about("As it was asked.")]
    hits: Annotated[list[FoundHit], about("The best first.")]
    problem: Annotated[str | None, about("Why hits may be missing: the index is damaged.")] = None


class UsageRow(Struct):
    group: Annotated[dict[str, Any], about("What these calls have in common.")]
    calls: Annotated[_Count, about("Calls.")]
    usage: Usage
    cost_usd: Annotated[float, about("Of the calls whose price is known.")]
    calls_of_unknown_cost: Annotated[_Count, about("Calls without a known price.")]


class UsageRows(Struct):
    groups: list[UsageRow]


class Stopped(Struct):
    conversation: _Id
    is_stopped: Annotated[bool, about("False where no turn was under way here.")]


# -- calls -------------------------------------------------------------------------------------------------------------

ROOT = "/clew"
DESCRIPTION_PATH = f"{ROOT}/openapi.json"
ALL = f"{ROOT}/conversations"
ONE = f"{ALL}/{{id}}"
NDJSON, EVENTS = "application/x-ndjson", "text/event-stream"
IDEMPOTENCY_KEY = "Idempotency-Key"


@dataclass(frozen=True, slots=True)
class ApiOperation:
    """A call: its route, its arguments and its answer."""

    name: str
    """Its `operationId`, and the method of `HostingRoutes` that serves it."""
    method: str
    path: str
    about: str
    given: type[Given]
    """Arguments in the body of a POST or PATCH, else in the query."""
    answer: type[Struct] | None
    """None where the answer is no JSON of a known shape."""
    status: int
    media: tuple[str, ...]
    """Further content types of the answer, beside JSON."""
    takes_key: bool
    """Whether it may have an Idempotency-Key."""
    is_open: bool
    """Whether it needs no credential."""

    @property
    def has_body(self) -> bool:
        return self.method in ("POST", "PATCH")


def serves(
    method: str,
    path: str,
    *,
    status: int = 200,
    media: tuple[str, ...] = (),
    takes_key: bool = False,
    is_open: bool = False,
) -> Callable[[_Served], _Served]:
    """Make a method an operation, described by its docstring and its types."""

    def decorate(served: _Served) -> _Served:
        hints = get_type_hints(served)
        (given,) = get_args(hints["call"])
        answers = (it for it in (hints["return"], *get_args(hints["return"])) if isinstance(it, type))
        answer = next((it for it in answers if issubclass(it, Struct)), None)
        words, name = " ".join((served.__doc__ or "").split()), served.__name__
        operation = ApiOperation(name, method, path, words, given, answer, status, media, takes_key, is_open)
        served.__dict__["operation"] = operation
        return served

    return decorate


def operations_of(routes: type) -> tuple[ApiOperation, ...]:
    """The operations among the methods of a class, in their order."""
    return tuple(it.operation for it in vars(routes).values() if hasattr(it, "operation"))


_MEDIA: dict[str, Schema] = {
    NDJSON: {"type": "string", "description": "One message a line."},
    EVENTS: {
        "type": "object",
        "properties": {"event": {"type": "string"}, "data": {"type": "string", "description": "A JSON object."}},
        "required": ["event", "data"],
        "description": "Each event; lines that begin with a colon are signs of life.",
    },
}


def is_hosting_path(path: str) -> bool:
    """Whether a path is below the root of this API."""
    return path == ROOT or path.startswith(f"{ROOT}/")


# -- the description ---------------------------------------------------------------------------------------------------

_REF = "#/components/schemas/{name}"


def description(operations: Sequence[ApiOperation]) -> Schema:
    """The whole description."""
    kinds: set[type[Struct]] = {Error, *(operation.given for operation in operations)}
    kinds |= {operation.answer for operation in operations if operation.answer is not None}
    ordered = sorted(kinds, key=lambda it: it.__name__)
    _, schemas = msgspec.json.schema_components(ordered, ref_template=_REF)
    for kind in ordered:
        schemas[kind.__name__] |= getattr(kind, "schema", {})
    paths: dict[str, Schema] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Clew: hosted conversations",
            "version": __version__,
            "description": "Conversations that keep their own history and stay inside the window of their model. "
            "A caller sees its own conversations only; those of others are answered as unknown. Where the gateway has "
            "no keys, a caller is identified by its credential for the upstream.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
                "x-goog-api-key": {"type": "apiKey", "in": "header", "name": "x-goog-api-key"},
            },
        },
        "security": [{"bearer": []}, {"x-api-key": []}, {"x-goog-api-key": []}],
    }


def _described(operation: ApiOperation, schemas: Mapping[str, Schema]) -> Schema:
    told: Schema = {"operationId": operation.name, "summary": operation.about}
    if operation.is_open:
        told["security"] = []
    if parameters := list(_parameters(operation, schemas)):
        told["parameters"] = parameters
    if operation.has_body:
        schema = schemas[operation.given.__name__]
        is_needed = bool(schema["required"] or schema.get("minProperties"))
        content = {"application/json": {"schema": _ref(operation.given)}}
        told["requestBody"] = {"required": is_needed, "content": content}
    error = {"description": "Why not.", "content": {"application/json": {"schema": _ref(Error)}}}
    told["responses"] = {str(operation.status): _answer(operation), "4XX": error, "5XX": error}
    return told


def _parameters(operation: ApiOperation, schemas: Mapping[str, Schema]) -> Iterator[Schema]:
    """The parameters of a call, as OpenAPI lists them."""
    if "{id}" in operation.path:
        yield {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
    if "{number}" in operation.path:
        number = {"type": "integer", "minimum": 1, "description": "The number of a pin, from 1."}
        yield {"name": "number", "in": "path", "required": True, "schema": number}
    query = schemas[operation.given.__name__]
    for name, schema in () if operation.has_body else query["properties"].items():
        yield {"name": name, "in": "query", "required": name in query["required"], "schema": schema}
    if operation.takes_key:
        words = "A name for this message: sent again with it, the model is not asked again."
        key = {"type": "string", "description": words, "minLength": 1, "maxLength": MAX_NAME_CHARS}
        yield {"name": IDEMPOTENCY_KEY, "in": "header", "required": False, "schema": key}


def _answer(operation: ApiOperation) -> Schema:
    if operation.status == 204:
        return {"description": "Done."}
    content: Schema = {media: {"schema": _MEDIA[media]} for media in operation.media}
    if operation.answer is not None or EVENTS not in operation.media:
        whole = {"type": "object"} if operation.answer is None else _ref(operation.answer)
        content["application/json"] = {"schema": whole}
    return {"description": operation.about, "content": content}


def _ref(kind: type[Struct]) -> Schema:
    return {"$ref": _REF.format(name=kind.__name__)}


# -- reading a call ----------------------------------------------------------------------------------------------------

_WRONG = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<name>\w*).*`)?", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(?P<name>.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<name>.*)`")
_LONG_NUMBER = re.compile(r"\d{4,}")


async def read_given(request: web.Request, operation: ApiOperation) -> Given:
    """Parse the arguments of a call. Raises `Refused` where its description does not allow them."""
    texts: dict[str, Any] = {}
    for name, value in request.query.items():
        if name in texts:
            raise Refused(400, f"the query has {name!r} twice")
        texts[name] = value
    if not operation.has_body:
        return _as(operation.given, texts, "query")
    _as(Given, texts, "query")
    return _as(operation.given, await _body(request), "body")


async def _body(request: web.Request) -> dict[str, Any]:
    raw = await request.read() if (request.content_length or 0) <= MAX_BODY_BYTES else None
    if raw is None or len(raw) > MAX_BODY_BYTES:
        raise Refused(413, f"the body is larger than {MAX_BODY_BYTES // 1024 // 1024} MB")
    if not raw.strip():
        return {}
    if request.headers.get("Content-Type") and request.content_type != "application/json":
        raise Refused(415, f"the body is {request.content_type[:100]!r}", "Send JSON, as application/json.")
    try:
        value = read_json(raw)
    except UnreadableBody as problem:
        raise Refused(400, f"the body is no JSON: {str(problem)[:200]}") from problem
    if not isinstance(value, dict):
        raise Refused(400, "the body is no JSON object")
    return value


def _as(kind: type[Given], given: dict[str, Any], what: str) -> Given:
    for name, value in given.items():
        if isinstance(value, str):
            _check_text(name, value)
        elif isinstance(value, float) and value.is_integer():
            given[name] = int(value)
    try:
        return msgspec.convert(given, kind, strict=what == "body")
    except msgspec.ValidationError as problem:
        raise Refused(400, _words_of(str(problem), kind, what)) from problem


def _words_of(problem: str, kind: type[Given], what: str) -> str:
    """The error of a validation, with the name of the field."""
    if missing := _MISSING.fullmatch(problem):
        return f"{missing['name']!r} is missing"
    if unknown := _UNKNOWN.fullmatch(problem):
        known = ", ".join(kind.__struct_fields__)
        may = f"it may have {known}" if known else "it has none"
        return f"the {what} has {unknown['name'][:100]!r}, which is not known here; {may}"
    found = _WRONG.fullmatch(problem)
    assert found is not None
    words = _LONG_NUMBER.sub(lambda it: f"{int(it[0]):,}", found["what"].replace("`", ""))[:300]
    return f"{found['name']!r}: {words[:1].lower()}{words[1:]}" if found["name"] else words


def _check_text(name: str, text: str) -> None:
    """Refuse a text that the store cannot hold."""
    if "\0" in text:
        raise Refused(400, f"{name[:100]!r} holds a NUL character; remove it")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Refused(400, f"{name[:100]!r} holds half a character (lone surrogate); clean it first") from error


def time_of(text: str) -> datetime:
    """Parse a time of a caller; raises `ValueError`."""
    try:
        at = datetime.fromisoformat(text)
        return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text[:100]!r} is no time; write it as 2026-01-31T12:00:00Z") from error
