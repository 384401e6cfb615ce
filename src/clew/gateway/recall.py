"""Recall in the gateway: the model of a folded conversation may search it and open its messages.

Two tools are added after the client's own in each request of a folded conversation. The gateway answers their calls
from the store and asks the model again; the client receives one reply without them. These calls and results are stored
with the conversation and put back at their place in later requests, until the next fold. A request without them is
valid too: the client's own items are a complete conversation.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from msgspec import convert, to_builtins

from clew.errors import ClewError, InvalidArgument, StoreError
from clew.events import HistoryRecalled
from clew.gateway.admission import Callers, where_it_failed
from clew.gateway.conversations import OpenConversation
from clew.gateway.items import without_thinking
from clew.gateway.merged_replies import RecallTurn
from clew.gateway.upstream import ReplyReader
from clew.gateway.wires import (
    RequestBody,
    UnreadableBody,
    WireRequest,
    bounded_cache,
    join_items,
    read_object,
    write_json,
)
from clew.messages import DialectName, History, Item, ToolCall, arguments_of_call, calls_of, name_of_call, text_of
from clew.store import AUXILIARY, RECALLS, EngineRecord, SearchHit, SearchScope
from clew.tokens import counter_for
from clew.turn import (
    PAGE_CHARS,
    Conversation,
    OpenedPage,
    Runtime,
    call_of,
    found_label,
    found_texts,
    open_messages,
    opened_label,
    position_of,
    reading_on,
    search_history,
)
from clew.usage import CanonicalUsage

if TYPE_CHECKING:
    from clew.gateway.exchange import GatewayExchange

SEARCH, OPEN = "clew_search", "clew_open"
RECALL_TOOLS = frozenset((SEARCH, OPEN))
_TEXT = {"type": "string"}
_DESCRIBED: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    (SEARCH, "Search the folded messages of this conversation by any words.", {"query": _TEXT}, "query"),
    (
        OPEN,
        "Read folded messages of this conversation word for word by number: m12, m12-m20, m12@3000 (from a character).",
        {"messages": _TEXT, "around": {**_TEXT, "description": "words to show long messages around"}},
        "messages",
    ),
)
# Clew's own tools in a client's list, with any prefix that the client gives to an MCP server.
_OWN_TOOL = re.compile(rb'"name"\s*:\s*"(?:[^"]*[_.:/-])?clew[_.:/-]')
_LINE_CHARS = 200
_CACHED_BYTES = 1024 * 1024


def _declared(dialect: DialectName) -> list[Any]:
    """The definitions of the two tools on a wire."""
    tools = []
    for name, about, properties, required in _DESCRIBED:
        schema = {"type": "object", "properties": properties, "required": [required]}
        tools.append({"name": name, "description": about, "parameters": schema})
    match dialect:
        case "anthropic":
            return [
                {"name": it["name"], "description": it["description"], "input_schema": it["parameters"]} for it in tools
            ]
        case "responses":
            return [{"type": "function", **it, "strict": False} for it in tools]
        case "gemini":
            return [{"functionDeclarations": tools}]
    return [{"type": "function", "function": it} for it in tools]


_TOOLS: dict[str, bytes] = {
    dialect: join_items(map(write_json, _declared(dialect)))[1:-1]
    for dialect in ("openai_chat", "anthropic", "responses", "gemini")
}


def tools_behind(request: WireRequest) -> bytes:
    """The client's list of tools as received, with ours at its end."""
    return request.body.field("tools").rstrip()[:-1] + b"," + _TOOLS[request.wire.dialect] + b"]"


def turn_for(request: WireRequest) -> RecallTurn:
    """A turn whose model may recall."""
    return RecallTurn(request.wire, RECALL_TOOLS, tools_behind(request))


def tool_tokens(dialect: DialectName, count: Any) -> int:
    """The tokens of the two tools on a wire, by a counter of texts."""
    tokens: int = count(_TOOLS[dialect].decode())
    return tokens


def may_offer(request: WireRequest, query: Mapping[str, str]) -> bool:
    """Whether tools can be added to a request, and its reply be changed, without the client noticing.

    False where the client has no tools, forces or forbids a call, gives the reply a schema or a grammar, asks for
    several choices, or has Clew's own tools over MCP.
    """
    body, wire = request.body, request.wire
    tools = body.field("tools").strip()
    if not request.has_tools or not tools.startswith(b"[") or _has_own_tools(tools):
        return False
    try:
        return wire.text_fields(body) == {} and wire.takes_more_tools(body, query)
    except UnreadableBody:
        return False


@bounded_cache(_CACHED_BYTES)
def _has_own_tools(tools: bytes) -> bool:
    return _OWN_TOOL.search(tools) is not None


# -- calls and results that the client did not see ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RecalledReply:
    """A reply that is sent with the calls of our tools and their results, which the client does not have.

    Where the last reply called the client's tools too, `results` are sent together with the client's own.
    """

    session: str
    """The session that was shown: a fold ends it, and opens another one."""
    number: int
    """Of the first message of the reply as the client has it."""
    messages: int
    said: str
    """The hash of its text and calls."""
    items: tuple[Any, ...]
    results: tuple[tuple[int, Any], ...] = ()
    """Each with the index of its call."""
    asked: tuple[str, ...] = ()
    """The lines of its calls of our tools."""


def _line_of(call: ToolCall) -> str:
    """The name of the tool and the arguments of a call, as one line."""
    return " ".join([name_of_call(call), *map(str, arguments_of_call(call).values())])[:_LINE_CHARS]


def _results_of(calls: Sequence[ToolCall], texts: Sequence[str], reply: History) -> list[Any]:
    """The items for the results of a reply's calls."""
    results = [
        Item({"role": "tool", "tool_call_id": call.get("id") or "", "content": text})
        for call, text in zip(calls, texts, strict=True)
    ]
    return [it for it in reply.places([*reply.items, *results]) if not isinstance(it, int)]


def _parts_of(results: Sequence[Any], dialect: DialectName) -> list[Any]:
    """Each result alone: a part of an item for Anthropic and Gemini."""
    field = {"anthropic": "content", "gemini": "parts"}.get(dialect)
    return list(results) if field is None else [part for item in results for part in item[field]]


def said_by(messages: Sequence[Any]) -> str:
    """A hash of the texts and the names of calls in messages, without the client's spelling of them."""
    texts = "".join("".join(text_of(message).split()) for message in messages)
    calls = [name_of_call(call) for message in messages for call in calls_of(message)]
    return blake2b(repr((texts, calls)).encode("utf-8", "replace"), digest_size=12).hexdigest()


def messages_of_reply(items: Sequence[Any], dialect: DialectName) -> Sequence[Any]:
    """The items of a reply as messages."""
    return [item.message for item in History(dialect).extend(items)]


def put_back(
    shown: list[bytes | int], at: int, count: int, recalled: RecalledReply, raw: Sequence[bytes], dialect: DialectName
) -> bool:
    """Replace `count` shown items from `at` on by those of a recalled reply; False where they do not fit there.

    `shown` has the client's items by their place in `raw`.
    """
    items: list[bytes | int] = [*map(write_json, recalled.items)]
    if recalled.results:
        behind = shown[at + count :]
        merged = _with_results([raw[it] if isinstance(it, int) else it for it in behind], recalled.results, dialect)
        if merged is None:
            return False
        replaced, results = merged
        items += [it if isinstance(it, bytes) else behind[it] for it in results]
        count += replaced
    shown[at : at + count] = items
    return True


def _with_results(
    behind: Sequence[bytes], results: Sequence[tuple[int, Any]], dialect: DialectName
) -> tuple[int, list[bytes | int]] | None:
    """How many of the items after a reply are the client's results, and all results in the order of their calls. None
    where there are none.
    """
    own = [(place, write_json(result)) for place, result in results]
    if dialect in ("openai_chat", "responses"):
        whole: list[bytes | int] = [*takewhile(lambda at: _is_result(behind[at]), range(len(behind)))]
        count = len(whole)
        for place, result in own:
            whole.insert(place, result)
        return (count, whole) if count else None
    name, mark = ("content", b'"tool_result"') if dialect == "anthropic" else ("parts", b'"functionResponse"')
    body = RequestBody(behind[0]) if behind else None
    parts = body.items(name) if body is not None else None
    if body is None or parts is None or not any(mark in part for part in parts):
        return None
    for place, result in own:
        parts.insert(place, result)
    return 1, [body.with_fields({name: join_items(parts)})]


def _is_result(item: bytes) -> bool:
    if b'"tool"' not in item and b"_call_output" not in item:
        return False
    value = read_object(item)
    return value.get("role") == "tool" or str(value.get("type", "")).endswith("_call_output")


MAX_ROUNDS = 4
"""Replies that only recall and are answered, for one request."""
ROUND_TOKENS = 4_000
"""Of the results of one reply, at most."""
_LEAST_TOKENS = 100
_SHARE_WITHOUT_USAGE = 0.1
"""Of the window, for the results of a reply whose usage is not stated."""
RECALL_HINT = f"{OPEN} opens them by number, and {SEARCH} finds them by words."
"""For the handoff of a conversation whose model has the tools."""
_MAX_RECALLS = 500
_MOST_KNOWN = 2_000
_MAX_QUERY_CHARS = 2_000
_SMALLER_PAGES = 3
"""Attempts to open a page with fewer characters, where its text has more tokens than usual."""
_LIMIT = "Not answered: recall was used as often as it may be in one turn. Reply with what you know."

_log = logging.getLogger("clew.gateway")


@dataclass(slots=True)
class _KnownRecalls:
    """The recalled replies of a session, as far as known in this process."""

    last_reply: int | None
    """The newest known reply: where the newest one is another, the store is read again."""
    replies: list[RecalledReply] = field(default_factory=list)


def _round_tokens(window: int, usage: CanonicalUsage | None, rounds: int) -> int:
    """The tokens for the results of a reply: the free window is divided among the rounds left and the final reply."""
    if usage is None:
        return min(ROUND_TOKENS, int(_SHARE_WITHOUT_USAGE * window))
    free = window - usage.prompt_tokens - usage.output_tokens
    return max(0, min(ROUND_TOKENS, free // (MAX_ROUNDS - min(rounds, MAX_ROUNDS) + 1)))


class GatewayRecall:
    """Offers the tools and answers their calls. One for each gateway process."""

    def __init__(self, runtime: Runtime, callers: Callers) -> None:
        self._runtime = runtime
        self._callers = callers
        self._known: dict[str, _KnownRecalls] = {}
        self._refused: set[tuple[str, str]] = set()
        """Owners and models whose upstream has refused the tools."""

    def may_offer(self, exchange: GatewayExchange) -> bool:
        """Whether the tools may be in a request, once its conversation is folded."""
        request, is_summary = exchange.request, exchange.own_compaction == "asked"
        if request is None or exchange.mode != "compact" or not exchange.is_recall_on or is_summary:
            return False
        if (exchange.caller.owner, request.model) in self._refused:
            return False
        return may_offer(request, exchange.http.query)

    def refuse(self, exchange: GatewayExchange, status: int, words: str) -> bool:
        """Whether a refusal may be about the tools, which are then left out of this caller's requests for a model."""
        turn, request = exchange.recall, exchange.request
        if turn is None or request is None or turn.rounds or status not in (400, 404, 422, 500, 501):
            return False
        if not any(word in words.lower() for word in ("tool", "function", "clew_")):
            return False
        _log.warning("an upstream refuses more tools: recall is not offered to %s any more", request.model)
        self._refused.add((exchange.caller.owner, request.model))
        exchange.recall = None
        return True

    # -- before the upstream is asked ----------------------------------------------------------------------------------

    async def offer(
        self, exchange: GatewayExchange, turn: RecallTurn | None, items: Sequence[bytes]
    ) -> Sequence[bytes]:
        """Offer the tools for a folded conversation, in `turn` where one has begun; the items to send, with those that
        its model saw and the client did not.
        """
        request, opened, conversation = exchange.request, exchange.opened, exchange.conversation
        if request is None or opened is None or conversation is None or opened.shown is None:
            return items
        if not exchange.may_recall:
            return items
        exchange.recall = turn or turn_for(request)
        known = await self._recalled(conversation)
        shown = list(opened.shown)
        # Some of them may have been changed on their way.
        own = {place: item for place, item in zip(shown, items, strict=True) if isinstance(place, int)}
        for recalled in reversed(known.replies):  # keeps the places before it
            self._put_back(exchange, opened, shown, recalled, request)
        opened.shown = shown
        return [it if isinstance(it, bytes) else own[it] for it in shown]

    def _put_back(
        self,
        exchange: GatewayExchange,
        opened: OpenConversation,
        shown: list[bytes | int],
        recalled: RecalledReply,
        request: WireRequest,
    ) -> None:
        view, dialect, raw = opened.view, request.wire.dialect, request.items
        first, stop = view.place_of(recalled.number), view.place_of(recalled.number + recalled.messages)
        if first not in shown or first >= stop:
            return
        at, count = shown.index(first), stop - first
        if shown[at : at + count] != list(range(first, stop)):
            return
        came = messages_of_reply([view.items[place] for place in range(first, stop)], dialect)
        if said_by(came) != recalled.said:
            return  # the client continued with another reply
        before = len(shown)
        try:
            put_back(shown, at, count, recalled, raw, dialect)
        except (UnreadableBody, AttributeError):
            return
        if exchange.drops_all_thinking:
            added = len(shown) - before + count
            shown[at : at + added] = [
                without_thinking(it) if isinstance(it, bytes) else it for it in shown[at : at + added]
            ]

    async def _recalled(self, conversation: Conversation) -> _KnownRecalls:
        """The recalled replies since the newest fold; read from the store where another process may have replied."""
        session, last = conversation.session, _last_reply(conversation)
        known = self._known.get(session)
        if known is None or known.last_reply != last:
            records = await self._runtime.store.engine_records(session, RECALLS, limit=_MAX_RECALLS)
            replies = [convert(it.value, RecalledReply) for it in records if it.value["session"] == session]
            known = _KnownRecalls(last, sorted(replies, key=lambda it: it.number))
            self._keep(session, known)
        return known

    def _keep(self, session: str, known: _KnownRecalls) -> None:
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[session] = known

    # -- after a reply -------------------------------------------------------------------------------------------------

    async def goes_on(self, exchange: GatewayExchange, turn: RecallTurn, reader: ReplyReader) -> bool:
        """Whether a reply only recalls: then its calls are answered here, and the model is to be asked again."""
        conversation, reply = exchange.conversation, reader.reply(exchange.model)
        if conversation is None or reply is None:
            return False
        dialect, items = turn.wire.dialect, reader.items()
        history = History(dialect)
        calls = [call for item in history.extend(items) for call in calls_of(item.message)]
        own = [(at, call) for at, call in enumerate(calls) if name_of_call(call) in RECALL_TOOLS]
        if not own:
            return False
        turn.asked += [_line_of(call) for _, call in own]
        is_whole = reply.finish == "tool_calls"
        tokens = _round_tokens(conversation.window.tokens, reader.usage(), turn.rounds)
        is_answered = is_whole and turn.rounds < MAX_ROUNDS and tokens >= _LEAST_TOKENS
        share = tokens // len(own)
        texts = [await self._answer(conversation, call, share) if is_answered else _LIMIT for _, call in own]
        results = _results_of([call for _, call in own], texts, history)
        if len(own) < len(calls):
            turn.results = tuple(zip((at for at, _ in own), _parts_of(results, dialect), strict=True))
            return False
        if not is_whole or turn.rounds > MAX_ROUNDS:
            turn.unanswered = tuple(results)
            return False
        turn.rounds += 1
        turn.may_call = turn.rounds <= MAX_ROUNDS
        turn.added += [*items, *results]
        await self._charge(exchange, turn, conversation, reader)
        return True

    async def _charge(
        self, exchange: GatewayExchange, turn: RecallTurn, conversation: Conversation, reader: ReplyReader
    ) -> None:
        """Record a reply that the client does not see as a separate call, and charge it to the caller."""
        usage = reader.usage()
        if usage is None:
            return
        call = call_of(usage, conversation.target, AUXILIARY)
        turn.first_usage = turn.first_usage or usage
        turn.spent += usage
        turn.cost_micros += call.cost_micros or 0
        try:
            await self._runtime.store.record_call(conversation.session, call)
            await self._callers.add_spending(exchange.caller, call.cost_micros or 0)
        except ClewError as problem:
            _log.error("a recall could not be charged: %s", where_it_failed(problem))

    async def keep(self, exchange: GatewayExchange, turn: RecallTurn, reader: ReplyReader) -> None:
        """Store what the model saw and the client does not, before the client has the end of its reply."""
        conversation, taken = exchange.conversation, exchange.taken
        if conversation is None or taken is None or not reader.is_complete:
            return
        dialect = turn.wire.dialect
        given = turn.recorded(reader).items()
        messages = messages_of_reply(given, dialect)
        if not messages:
            return
        session, number = conversation.session, taken.messages
        known = self._known.setdefault(session, _KnownRecalls(None))
        known.last_reply = number + len(messages) - 1
        if not turn.rounds and not turn.results:
            return
        items = (*turn.added, *reader.items(), *turn.unanswered)
        said = said_by(messages)
        recalled = RecalledReply(session, number, len(messages), said, items, turn.results, tuple(turn.asked))
        try:
            record = EngineRecord(f"{number}.{said}", to_builtins(recalled), number + len(messages))
            await self._runtime.store.put_engine_records(session, RECALLS, [record])
        except StoreError as problem:
            _log.error("a recall could not be kept: %s", where_it_failed(problem))
            return
        known.replies = [it for it in known.replies if it.number < number] + [recalled]
        opened, request = exchange.opened, exchange.request
        if opened is None or opened.shown is None or request is None or turn.results:
            return
        if opened.shown_of == len(request.items):  # no other request was received: the next count includes these items
            opened.shown = [*opened.shown, *map(write_json, items)]
            opened.shown_of += len(given)

    # -- answering -----------------------------------------------------------------------------------------------------

    async def _answer(self, conversation: Conversation, call: ToolCall, tokens: int) -> str:
        """The text for a call of our tools, within so many tokens."""
        name, given = name_of_call(call), arguments_of_call(call)
        try:
            if name == SEARCH:
                text, numbers = await self._search(conversation, _text(given, "query"), tokens)
            else:
                text, numbers = await self._open(conversation, _text(given, "messages"), _text(given, "around"), tokens)
        except InvalidArgument as problem:
            text, numbers = str(problem), ()
        except StoreError as problem:
            _log.error("a recall failed: %s", where_it_failed(problem))
            text, numbers = "The history cannot be read now.", ()
        text = _within(text, tokens, conversation.target.model)
        used = counter_for(conversation.target.model).text(text)
        self._runtime.events.emit(HistoryRecalled(conversation.session, name, numbers, used))
        return text

    async def _search(self, conversation: Conversation, query: str, tokens: int) -> tuple[str, tuple[str, ...]]:
        if not query.strip():
            raise InvalidArgument("query is empty; give the words to look for")
        view = conversation.view.stored
        seen = {seq for at, seq in enumerate(view.seqs) if seq is not None and at not in view.written}

        def is_seen(hit: SearchHit) -> bool:
            return hit.kind == "message" and hit.seq in seen

        scope = SearchScope(conversation_of=conversation.session, kinds=("message", "output"))
        limit = max(1, 10 * tokens // ROUND_TOKENS)
        page = await search_history(self._runtime.store, query, scope, limit=limit, is_seen=is_seen)
        if not page.hits:
            rest = " beyond what you see already" if page.hidden else ""
            nothing = f"Nothing found{rest}. Try other or fewer words."
            return "\n".join(filter(None, (nothing, page.problem))), ()
        hits = [f"({page.problem})"] if page.problem else []
        for found in page.hits:
            texts = (f"{name}: {text}" if name else text for name, text in found_texts(found))
            hits.append("\n".join([f"[{found_label(found)}]", *texts]))
        return "\n\n".join(hits), tuple(f"m{number}" for found in page.hits for number in found.numbers[:1])

    async def _open(
        self, conversation: Conversation, wanted: str, words: str, tokens: int
    ) -> tuple[str, tuple[str, ...]]:
        chars = PAGE_CHARS * tokens // ROUND_TOKENS
        is_one = "-" not in wanted and "," not in wanted
        counter = counter_for(conversation.target.model)
        for _ in range(_SMALLER_PAGES):
            page = await open_messages(
                self._runtime.store,
                conversation.session,
                wanted,
                words=words,
                chars=chars if is_one else None,
                page_chars=chars,
            )
            text = _opened_text(page)
            if (used := counter.text(text)) <= tokens:
                break
            chars = max(1, chars * tokens * 9 // (used * 10))
        return text, tuple(f"m{message.number}" for message in page.messages)


def _opened_text(page: OpenedPage) -> str:
    lines = []
    for above, message in zip((None, *page.messages), page.messages, strict=False):
        for part in message.parts:
            label = ", ".join(filter(None, (opened_label(message, above), position_of(part, len(message.text)))))
            lines.append(f"[{label}]\n{message.text[part.start : part.stop]}")
    if page.missing:
        lines.append(f"(none of these words is there: {page.missing})")
    if page.next:
        lines.append(f"({reading_on(page)})")
    return "\n\n".join(lines)


def _last_reply(conversation: Conversation) -> int | None:
    """The number of the newest reply in a conversation."""
    view = conversation.view
    places = (at for at in range(len(view.messages) - 1, -1, -1) if view.messages[at]["role"] == "assistant")
    return next((seq for at in places if (seq := view.seqs[at]) is not None), None)


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    text = f"m{value}" if isinstance(value, int) and name == "messages" else value if isinstance(value, str) else ""
    return text[:_MAX_QUERY_CHARS].encode("utf-8", "replace").decode()


def _within(text: str, tokens: int, model: str) -> str:
    """The text, or its beginning where it has more tokens."""
    while (used := counter_for(model).text(text)) > tokens:
        text = text[: max(200, len(text) * (tokens - 20) // used - 200)] + "\n(cut)"
        if len(text) < 300:
            break
    return text
