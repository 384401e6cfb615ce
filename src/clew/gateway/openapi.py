"""What the hosted conversations offer over HTTP, as OpenAPI 3.1: the description that clients read, and the one that
requests are checked by.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from clew import __version__
from clew.gateway.api_schemas import (
    CONTENT,
    ID,
    MAX_CONTENT_CHARS,
    MAX_NAME_CHARS,
    SCHEMAS,
    STREAM,
    Schema,
    body_schema,
    flag_schema,
    name_schema,
    number_schema,
    object_schema,
    or_null,
    ref,
    text_schema,
)
from clew.turn import PAGE_CHARS

MAX_PAGE = 200
_ROOT = "/clew"
DESCRIPTION_PATH = f"{_ROOT}/openapi.json"
_CONVERSATION = f"{_ROOT}/conversations/{{id}}"


@dataclass(frozen=True, slots=True)
class ApiOperation:
    """One call: how it is made and what it answers with."""

    name: str
    """Its `operationId`, and the method of `HostingRoutes` that serves it."""
    method: str
    path: str
    about: str
    answer: str = ""
    """The schema of its answer; empty where it is something else than JSON."""
    status: int = 200
    query: Mapping[str, Schema] | None = None
    needs: tuple[str, ...] = ()
    """Fields of the query or the body that have to be there."""
    body: Schema | None = None
    media: tuple[str, ...] = ()
    """Types that it may answer with beside JSON."""
    headers: Mapping[str, Schema] | None = None
    is_open: bool = False
    """Whether it is for everybody, also without a key."""


_MEDIA: dict[str, Schema] = {
    "application/x-ndjson": text_schema("One message a line."),
    "text/event-stream": {
        **object_schema(event=text_schema("Its name."), data=text_schema("A JSON object.")),
        "description": "Each event; lines that begin with a colon are signs of life.",
    },
}
_LIMIT = number_schema("How many at most.", minimum=1, maximum=MAX_PAGE)
_SEQ = number_schema("A number of a message.", minimum=0, maximum=2**53)

OPERATIONS: tuple[ApiOperation, ...] = (
    ApiOperation("describe", "GET", DESCRIPTION_PATH, "This description.", is_open=True),
    ApiOperation(
        "create_conversation",
        "POST",
        f"{_ROOT}/conversations",
        "Begin a conversation. Without a model, the one that the config names answers.",
        "Conversation",
        201,
        body=body_schema(
            model=name_schema("The model that answers, as the upstream names it."),
            system=text_schema("The system prompt.", maxLength=MAX_CONTENT_CHARS),
            title=name_schema("What to call it."),
        ),
    ),
    ApiOperation(
        "list_conversations",
        "GET",
        f"{_ROOT}/conversations",
        "The caller's conversations, newest first; those that clients sent through the wires too.",
        "ConversationList",
        query={
            "limit": _LIMIT,
            "before": text_schema("`next` of the page before.", minLength=1, maxLength=MAX_NAME_CHARS),
        },
    ),
    ApiOperation("show_conversation", "GET", _CONVERSATION, "A conversation.", "ConversationDetails"),
    ApiOperation(
        "change_conversation",
        "PATCH",
        _CONVERSATION,
        "Call it otherwise, or let another model answer from the next message on.",
        "Conversation",
        body={
            **body_schema(
                title=or_null(name_schema("What to call it; null takes the name away.")),
                model=name_schema("Another model."),
            ),
            "minProperties": 1,
        },
    ),
    ApiOperation(
        "delete_conversation",
        "DELETE",
        _CONVERSATION,
        "Delete a conversation with its whole history, for good. One that has branches is kept until they are deleted.",
        status=204,
    ),
    ApiOperation(
        "list_messages",
        "GET",
        f"{_CONVERSATION}/messages",
        "The history, compacted messages included: from the first on, or behind `after`, or the last before `before`.",
        "MessageList",
        query={"limit": _LIMIT, "after": _SEQ, "before": _SEQ},
    ),
    ApiOperation(
        "open_messages",
        "GET",
        f"{_CONVERSATION}/open",
        "Messages by number, word for word, with the other side of each tool call; of long ones the part around words.",
        "OpenedMessages",
        needs=("messages",),
        query={
            "messages": text_schema("m12, m12-m20, m12,m40, m12@3000 or -20 (the newest).", minLength=1, maxLength=200),
            "around": text_schema("Words to show long messages around.", minLength=1, maxLength=1_000),
            "chars": number_schema("At most so much of each message (1500).", minimum=1, maximum=PAGE_CHARS),
        },
    ),
    ApiOperation(
        "send_message",
        "POST",
        f"{_CONVERSATION}/messages",
        "Ask, and get the model's answer. Both are kept. A question that got no answer may be sent again: it is kept "
        "once. A caller that hangs up stops nothing: the answer is kept, and found in the history.",
        "Answer",
        needs=("content",),
        body=body_schema(content=CONTENT, stream=STREAM),
        media=("text/event-stream",),
        headers={
            "Idempotency-Key": text_schema(
                "A name for this message: sent again with it, the model is not asked again.",
                minLength=1,
                maxLength=MAX_NAME_CHARS,
            )
        },
    ),
    ApiOperation(
        "retry_message",
        "POST",
        f"{_CONVERSATION}/retry",
        "Ask the last question again, or another one in its place, in a branch that ends before it. The conversation "
        "stays as it is; the answer names the branch.",
        "Answer",
        body=body_schema(content=CONTENT, stream=STREAM),
        media=("text/event-stream",),
    ),
    ApiOperation(
        "stop_turn",
        "POST",
        f"{_CONVERSATION}/stop",
        "Stop the answer that is being written; what was written is kept.",
        "Stopped",
        body=body_schema(),
    ),
    ApiOperation(
        "compress",
        "POST",
        f"{_CONVERSATION}/compress",
        "Fold older messages into a handoff now; or say what that would do, and apply exactly this later.",
        "CompactionResult",
        body=body_schema(
            focus=name_schema("What the handoff should be about."),
            preview=flag_schema("Change nothing, and say what would be done."),
            apply=name_schema("`preview` of an answer before: apply exactly that."),
            exclude=(("apply", "focus"), ("apply", "preview")),
        ),
    ),
    ApiOperation(
        "undo_compaction",
        "POST",
        f"{_CONVERSATION}/undo",
        "Bring back the view from before the newest compaction, word for word.",
        "UndoResult",
        body=body_schema(),
    ),
    ApiOperation(
        "branch_conversation",
        "POST",
        f"{_CONVERSATION}/branch",
        "A new conversation that shares the first messages of this one: all, or those below `at`, or those before the "
        "last question.",
        "Conversation",
        201,
        body=body_schema(
            at=number_schema("How many messages to share.", minimum=0, maximum=2**53),
            before_last_question=flag_schema("Take back the last question and what followed."),
            title=name_schema("What to call it."),
            exclude=(("at", "before_last_question"),),
        ),
    ),
    ApiOperation(
        "list_compactions",
        "GET",
        f"{_CONVERSATION}/compactions",
        "What was folded, undone ones included.",
        "CompactionList",
    ),
    ApiOperation("show_context", "GET", f"{_CONVERSATION}/context", "What fills the window now.", "Context"),
    ApiOperation("list_pins", "GET", f"{_CONVERSATION}/pins", "What is pinned.", "PinList"),
    ApiOperation(
        "add_pin",
        "POST",
        f"{_CONVERSATION}/pins",
        "Keep a text word for word, whatever is compacted.",
        "PinList",
        201,
        needs=("text",),
        body=body_schema(
            text=text_schema("The text.", minLength=1, maxLength=MAX_CONTENT_CHARS),
            label=name_schema("Its name; a pin of the same name is replaced."),
        ),
    ),
    ApiOperation("delete_pin", "DELETE", f"{_CONVERSATION}/pins/{{number}}", "Take a pin away.", "PinList"),
    ApiOperation(
        "export_conversation",
        "GET",
        f"{_CONVERSATION}/export",
        "The conversation as a file: the whole history, or what the model sees.",
        query={
            "format": text_schema("The shape (chat).", enum=["chat", "jsonl", "anthropic", "responses"]),
            "view": flag_schema("What the model sees, not the whole history."),
        },
        media=("application/x-ndjson",),
    ),
    ApiOperation(
        "search",
        "GET",
        f"{_ROOT}/search",
        "Find words in all that was said, handoffs and outputs included.",
        "SearchResults",
        needs=("q",),
        query={
            "q": text_schema("The words.", minLength=1, maxLength=1_000),
            "conversation": text_schema("Only in this one.", minLength=1, maxLength=MAX_NAME_CHARS),
            "role": text_schema("Only messages of this role.", enum=["user", "assistant", "tool"]),
            "limit": _LIMIT,
        },
    ),
    ApiOperation(
        "show_usage",
        "GET",
        f"{_ROOT}/usage",
        "Tokens and cost of the caller's calls.",
        "UsageReport",
        query={
            "by": text_schema(
                "Added up by this; all together without.", enum=["model", "day", "conversation", "source"]
            ),
            "conversation": text_schema("Only of this one.", minLength=1, maxLength=MAX_NAME_CHARS),
            "since": text_schema("Only calls since then.", format="date-time"),
        },
    ),
    ApiOperation(
        "follow_events",
        "GET",
        f"{_ROOT}/events",
        "What happens to the caller's conversations in this process, as events, until the caller hangs up.",
        media=("text/event-stream",),
    ),
)


def is_hosting_path(path: str) -> bool:
    """Whether a path is one of these, or would be."""
    return path == _ROOT or path.startswith(f"{_ROOT}/")


def parameters_of(operation: ApiOperation) -> Iterator[Schema]:
    """The parameters of a call, as OpenAPI lists them."""
    if "{id}" in operation.path:
        yield {"name": "id", "in": "path", "required": True, "schema": ID}
    if "{number}" in operation.path:
        number = number_schema("The number of a pin, from 1.", minimum=1)
        yield {"name": "number", "in": "path", "required": True, "schema": number}
    for name, schema in (operation.query or {}).items():
        yield {"name": name, "in": "query", "required": name in operation.needs, "schema": schema}
    for name, schema in (operation.headers or {}).items():
        yield {"name": name, "in": "header", "required": False, "schema": schema}


def description() -> Schema:
    """The whole description."""
    paths: dict[str, Schema] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Clew: hosted conversations",
            "version": __version__,
            "description": "Conversations that keep their own history and stay inside the window of their model. "
            "Everything is within the caller: another's conversation is as unknown as one that never was. Where the "
            "gateway has no keys, a caller is told by the credential for the upstream that it sends.",
        },
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "x-api-key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
                "x-goog-api-key": {"type": "apiKey", "in": "header", "name": "x-goog-api-key"},
            },
        },
        "security": [{"bearer": []}, {"x-api-key": []}, {"x-goog-api-key": []}],
    }


def _described(operation: ApiOperation) -> Schema:
    told: Schema = {"operationId": operation.name, "summary": operation.about}
    if operation.is_open:
        told["security"] = []
    parameters = list(parameters_of(operation))
    if parameters:
        told["parameters"] = parameters
    if operation.body is not None:
        body = {**operation.body, **({"required": list(operation.needs)} if operation.needs else {})}
        is_needed = bool(operation.needs or operation.body.get("minProperties"))
        told["requestBody"] = {"required": is_needed, "content": {"application/json": {"schema": body}}}
    error = {"description": "Why not.", "content": {"application/json": {"schema": ref("Error")}}}
    told["responses"] = {str(operation.status): _answer(operation), "4XX": error, "5XX": error}
    return told


def _answer(operation: ApiOperation) -> Schema:
    if operation.status == 204:
        return {"description": "Done."}
    content: Schema = {media: {"schema": _MEDIA[media]} for media in operation.media}
    if operation.answer:
        content["application/json"] = {"schema": ref(operation.answer)}
    elif operation.media != ("text/event-stream",):
        content["application/json"] = {"schema": {"type": "object"}}
    return {"description": operation.about, "content": content}
