"""The routes of hosted conversations: parse a call, run it, answer. `hosted_api` describes the calls."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
from aiohttp import web
from msgspec import UNSET, Struct
from multidict import CIMultiDict

from clew.engines import Fate
from clew.errors import ClewError, InvalidArgument, ProviderRefused
from clew.gateway import hosted_api as api
from clew.gateway.admission import Caller, Callers, Refusal, where_it_failed
from clew.gateway.hosted import FoundConversation, HostedAnswer, HostedCaller, HostedCompaction, HostedConversations
from clew.gateway.hosted_api import Given, Refused, refused, serves
from clew.gateway.observe import EventFeed
from clew.gateway.upstream import PING_SECONDS, ClientResponse
from clew.gateway.wires import CHAT, write_json
from clew.providers import Delta, OnDelta, explain_refusal
from clew.store import (
    CallFilter,
    CommittedCompaction,
    Grouping,
    SearchScope,
    UsageTotal,
    export_in_shape,
    history_rows,
    system_message,
)
from clew.turn import Conversation, FoundMessage, OpenedPage, Pin, context_parts, open_messages, search_history
from clew.usage import CanonicalUsage

MICROS_PER_DOLLAR = 1_000_000
_EVENT_STREAM = {"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_Value = TypeVar("_Value")


def json_answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    body = write_json(msgspec.to_builtins(value))
    return web.Response(body=body, status=status, content_type="application/json", headers=headers)


def refusal_answer(refusal: Refused) -> web.Response:
    return json_answer(refusal.as_plain(), refusal.status, refusal.headers)


# -- values ------------------------------------------------------------------------------------------------------------


def _info(found: FoundConversation) -> api.HostedInfo:
    first, newest = found.first, found.newest
    branch_of = first.parent_session_id if first.kind == "branch" else None
    created = first.created.isoformat()
    return api.HostedInfo(found.id, newest.title, newest.model, first.source, created, branch_of, newest.id)


def _usage(usage: CanonicalUsage) -> api.Usage:
    return msgspec.convert(usage, api.Usage, from_attributes=True)


def _answer(answer: HostedAnswer) -> api.AnswerInfo:
    return msgspec.convert(answer, api.AnswerInfo, from_attributes=True)


def _result(done: HostedCompaction) -> api.CompactionResult:
    compaction, handoff = done.compaction, done.compaction.read_handoff()
    fates = compaction.fates
    return api.CompactionResult(
        conversation=done.conversation,
        is_changed=compaction.changed,
        is_applied=done.is_applied,
        preview=done.preview,
        tokens_before=compaction.tokens_before,
        tokens_after=compaction.tokens_after,
        folded=fates.count(Fate.SUMMARISED),
        shortened=fates.count(Fate.PRUNED),
        removed=fates.count(Fate.REMOVED),
        written_by=compaction.written_by,
        focus=done.focus,
        handoff=compaction.summary,
        handoff_sections=None if handoff is None else handoff.as_json(),
        unverified=list(compaction.unverified),
        warnings=list(compaction.warnings),
    )


def _compaction(made: CommittedCompaction) -> api.CompactionInfo:
    entry, replaced = made.entry, made.entry.replaced
    return api.CompactionInfo(
        made.at.isoformat(),
        made.is_in_effect,
        entry.tokens_before,
        entry.tokens_after,
        entry.written_by,
        entry.focus_topic,
        replaced[0].start if replaced else 0,
        replaced[-1].stop if replaced else 0,
    )


def _context(id: str, conversation: Conversation) -> api.ContextInfo:
    """The parts of the window; the tools are those of the context engine alone."""
    conversation.tools_with(())
    status = conversation.engine.get_status()
    is_on = conversation.services.options.settings.compression.enabled
    return api.ContextInfo(
        conversation=id,
        model=conversation.target.model,
        tokens=conversation.size.tokens,
        window=conversation.window.tokens,
        threshold=status.threshold_tokens if is_on else None,
        paused=status.paused,
        last_prompt_tokens=conversation.view.last_prompt_tokens,
        parts=[api.PartInfo(part.name, part.tokens, part.messages) for part in context_parts(conversation)],
    )


def _pins(pins: Sequence[Pin]) -> api.PinList:
    return api.PinList([api.PinInfo(number, pin.label, pin.text) for number, pin in enumerate(pins, 1)])


def _hit(found: FoundMessage, conversation: str | None) -> api.FoundHit:
    hit = found.hit
    return api.FoundHit(
        conversation=conversation,
        title=hit.title,
        kind=hit.kind,
        seq=hit.seq,
        role=hit.role,
        at=hit.at.isoformat(),
        score=hit.score,
        snippet=hit.snippet.text,
        marks=[list(it) for it in hit.snippet.marks],
        excerpts=[it.text for it in hit.excerpts or (hit.snippet,)],
        call=found.call.number if found.call else None,
        results=[link.number for link in found.results],
        same_in=sorted(hit.copies),
    )


def _opened(page: OpenedPage) -> api.OpenedMessages:
    messages = [
        api.OpenedInfo(
            it.number,
            it.role,
            it.at.isoformat(),
            len(it.text),
            [api.OpenedText(part.start, it.text[part.start : part.stop]) for part in it.parts],
            it.call.number if it.call else None,
            [link.number for link in it.results],
        )
        for it in page.messages
    ]
    return api.OpenedMessages(messages, page.next or None)


def _row(total: UsageTotal, group: dict[str, Any]) -> api.UsageRow:
    dollars = total.cost_micros / MICROS_PER_DOLLAR
    return api.UsageRow(group, total.calls, _usage(total.usage), dollars, total.calls_of_unknown_cost)


def date_of_day(number: int) -> str:
    """A day by its number since 1970."""
    return (_EPOCH + timedelta(days=number)).date().isoformat()


# -- streams -----------------------------------------------------------------------------------------------------------


def event_of(name: str, value: Any) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + write_json(value) + b"\n\n"


async def send_lines(
    request: web.Request, headers: Mapping[str, str], lines: AsyncIterator[bytes]
) -> web.StreamResponse:
    """Send lines of JSON one by one."""
    response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson", **headers})
    await response.prepare(request)
    async for line in lines:
        await response.write(line)
    await response.write_eof()
    return response


NO_END = 2**62
_NOBODY = Caller("")

_log = logging.getLogger("clew.gateway")
FindAsker: TypeAlias = Callable[[web.Request], Awaitable[HostedCaller]]
_Given = TypeVar("_Given", bound=Given)


@dataclass(frozen=True, slots=True)
class ApiCall(Generic[_Given]):
    """A parsed call: its caller and its arguments."""

    http: web.Request
    asker: HostedCaller
    given: _Given

    @property
    def owner(self) -> str | None:
        return self.asker.owner

    @property
    def id(self) -> str:
        """The id of the conversation in its path."""
        return self.http.match_info["id"]


def add_hosting(
    application: web.Application, hosting: HostingRoutes, below: str = "", only: Container[str] | None = None
) -> None:
    """Serve hosted conversations below `/clew`; `below` precedes that, `only` limits the calls."""
    operations = [operation for operation in OPERATIONS if only is None or operation.name in only]
    for path in dict.fromkeys(operation.path for operation in operations):
        resource = application.router.add_resource(below + path)
        served = [operation for operation in operations if operation.path == path]
        for operation in served:
            resource.add_route(operation.method, hosting.call_of(operation))
        resource.add_route("*", hosting.refusal_of([operation.method for operation in served]))
    application.router.add_route("*", f"{below}/clew/{{path:.*}}", hosting.nothing_here)
    application.on_shutdown.append(hosting.end_streams)


class HostingRoutes:
    """The calls: each method with `serves` is one."""

    def __init__(
        self, hosted: HostedConversations, callers: Callers, feed: EventFeed, find_asker: FindAsker | None = None
    ) -> None:
        """`find_asker` identifies the caller of a request without a credential."""
        self._hosted = hosted
        self._find_asker = find_asker or self._asker_of_credential
        self._store = hosted.store
        self._callers = callers
        self._feed = feed
        self._is_ending = asyncio.Event()

    # -- around every call ---------------------------------------------------------------------------------------------

    def call_of(self, operation: api.ApiOperation) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """The handler of an operation, which answers every failure."""
        run: Callable[[ApiCall[Any]], Awaitable[Struct | web.StreamResponse]] = getattr(self, operation.name)

        async def serve(request: web.Request) -> web.StreamResponse:
            asker = HostedCaller(_NOBODY)
            try:
                if not operation.is_open:
                    asker = await self._find_asker(request)
                answer = await run(ApiCall(request, asker, await api.read_given(request, operation)))
                return json_answer(answer, operation.status) if isinstance(answer, Struct) else answer
            except (Refusal, ClewError) as problem:
                return refusal_answer(_refused(problem, asker))

        return serve

    def refusal_of(self, methods: Sequence[str]) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def serve(request: web.Request) -> web.StreamResponse:
            allowed = ", ".join(methods)
            problem = Refused(
                405, f"{request.method} is not served here", f"Use {allowed}.", headers={"Allow": allowed}
            )
            return refusal_answer(problem)

        return serve

    async def nothing_here(self, request: web.Request) -> web.StreamResponse:
        what = f"the gateway does not serve {request.method} {request.path[:200]}"
        return refusal_answer(Refused(404, what, "GET /clew/openapi.json says what there is."))

    async def end_streams(self, _application: web.Application) -> None:
        """End the streams of events: their followers would keep the server from stopping."""
        self._is_ending.set()

    async def _asker_of_credential(self, request: web.Request) -> HostedCaller:
        caller = await self._callers.of(request)
        return HostedCaller(caller, self._callers.upstream_credential(request, caller))

    # -- conversations -------------------------------------------------------------------------------------------------

    @serves("GET", api.DESCRIPTION_PATH, is_open=True)
    async def describe(self, call: ApiCall[Given]) -> web.StreamResponse:  # noqa: ARG002
        """This description."""
        return json_answer(api.description(OPERATIONS))

    @serves("POST", api.ALL, status=201)
    async def create_conversation(self, call: ApiCall[api.NewConversation]) -> api.HostedInfo:
        """Begin a conversation. Without a model, the one that the config names answers."""
        made = await self._hosted.create(
            call.owner, call.given.model or None, call.given.system or None, call.given.title or None
        )
        return _info(made)

    @serves("GET", api.ALL)
    async def list_conversations(self, call: ApiCall[api.ConversationPage]) -> api.ConversationList:
        """The caller's conversations, newest first; those that clients sent through the wires too."""
        page, after = await self._hosted.list(call.owner, call.given.limit, call.given.before or None)
        return api.ConversationList([_info(each) for each in page], after)

    @serves("GET", api.ONE)
    async def show_conversation(self, call: ApiCall[Given]) -> api.HostedDetails:
        """A conversation."""
        found = await self._hosted.find(call.owner, call.id)
        view = await self._store.view(found.newest.id, keep_damaged=True)
        made = await self._store.compactions(found.newest.id, keep_damaged=True)
        system = await self._store.system_prompt(found.newest.id, keep_damaged=True)
        in_effect = sum(each.is_in_effect for each in made)
        more = {"system": system, "messages": view.next_seq, "in_view": len(view.messages), "compactions": in_effect}
        return msgspec.convert({**msgspec.structs.asdict(_info(found)), **more}, api.HostedDetails)

    @serves("PATCH", api.ONE)
    async def change_conversation(self, call: ApiCall[api.ConversationChange]) -> api.HostedInfo:
        """Call it otherwise, or let another model answer from the next message on."""
        found = await self._hosted.find(call.owner, call.id)
        if call.given.model is not UNSET:
            found = await self._hosted.use_model(call.owner, found.id, call.given.model)
        if call.given.title is not UNSET:
            found = await self._hosted.rename(call.owner, found.id, call.given.title)
        return _info(found)

    @serves("DELETE", api.ONE, status=204)
    async def delete_conversation(self, call: ApiCall[Given]) -> web.StreamResponse:
        """Delete a conversation with its whole history, for good. One that has branches is kept until they are
        deleted.
        """
        await self._hosted.delete(call.owner, call.id)
        return web.Response(status=204)

    @serves("POST", f"{api.ONE}/branch", status=201)
    async def branch_conversation(self, call: ApiCall[api.BranchPoint]) -> api.HostedInfo:
        """A new conversation that shares the first messages of this one: all, or those below `at`, or those before the
        last question.
        """
        made = await self._hosted.branch(
            call.owner,
            call.id,
            None if call.given.at is UNSET else call.given.at,
            call.given.title or None,
            before_last_question=bool(call.given.before_last_question),
        )
        return _info(made)

    # -- messages ------------------------------------------------------------------------------------------------------

    @serves("GET", f"{api.ONE}/messages")
    async def list_messages(self, call: ApiCall[api.MessageRange]) -> api.MessageList:
        """The history, compacted messages included: from the first on, behind `after`, or the last before `before`."""
        found = await self._hosted.find(call.owner, call.id)
        limit, before, after = call.given.limit, call.given.before, call.given.after
        stop = NO_END if before is UNSET else before
        start = after + 1 if after is not UNSET else 0 if before is UNSET else max(0, before - limit)
        until = min(stop, start + limit + 1)
        rows = await self._store.messages(found.newest.id, start, until, owner=call.owner, keep_damaged=True)
        shown = rows[:limit]
        messages = [api.MessageInfo(row.seq, row.at.isoformat(), row.tokens, dict(row.message)) for row in shown]
        return api.MessageList(messages, shown[-1].seq if len(rows) > limit else None)

    @serves("GET", f"{api.ONE}/open")
    async def open_messages(self, call: ApiCall[api.MessagesToOpen]) -> api.OpenedMessages:
        """Messages by number, word for word, with the other side of each tool call; of long ones the part around
        words.
        """
        found = await self._hosted.find(call.owner, call.id)
        given, id = call.given, found.newest.id
        words, chars = given.around or "", given.chars or None
        try:
            page = await open_messages(self._store, id, given.messages, words=words, chars=chars, owner=call.owner)
        except InvalidArgument as problem:
            raise Refused(404, str(problem), "GET .../messages lists those there are.") from problem
        return _opened(page)

    @serves("POST", f"{api.ONE}/messages", media=(api.EVENTS,), takes_key=True)
    async def send_message(self, call: ApiCall[api.Question]) -> api.AnswerInfo | web.StreamResponse:
        """Ask, and get the model's answer. Both are kept. A question that got no answer may be sent again: it is kept
        once. A caller that hangs up stops nothing: the answer is kept, and found in the history.
        """
        name = _idempotency_key(call.http)
        id = (await self._hosted.find_hosted(call.owner, call.id)).id

        def send(on_delta: OnDelta | None) -> Awaitable[HostedAnswer]:
            return self._hosted.send(call.asker, id, call.given.content, on_delta, name)

        return await self._answer(call.http, call.asker, send, is_stream=call.given.stream)

    @serves("POST", f"{api.ONE}/retry", media=(api.EVENTS,))
    async def retry_message(self, call: ApiCall[api.AnotherTry]) -> api.AnswerInfo | web.StreamResponse:
        """Ask the last question again, or another one in its place, in a branch that ends before it. The conversation
        stays as it is; the answer names the branch.
        """
        id = (await self._hosted.find_hosted(call.owner, call.id)).id

        def retry(on_delta: OnDelta | None) -> Awaitable[HostedAnswer]:
            return self._hosted.retry(call.asker, id, call.given.content or None, on_delta)

        return await self._answer(call.http, call.asker, retry, is_stream=call.given.stream)

    @serves("POST", f"{api.ONE}/stop")
    async def stop_turn(self, call: ApiCall[Given]) -> api.Stopped:
        """Stop the answer that is being written; what was written is kept."""
        found = await self._hosted.find_hosted(call.owner, call.id)
        return api.Stopped(found.id, await self._hosted.stop(call.owner, found.id))

    async def _answer(
        self,
        request: web.Request,
        asker: HostedCaller,
        ask: Callable[[OnDelta | None], Awaitable[HostedAnswer]],
        *,
        is_stream: bool,
    ) -> api.AnswerInfo | web.StreamResponse:
        if not is_stream:
            return _answer(await ask(None))
        pieces = asyncio.Queue[Delta | None]()

        async def run() -> HostedAnswer:
            try:
                return await ask(pieces.put_nowait)
            finally:
                pieces.put_nowait(None)

        response = ClientResponse(request, CHAT, is_stream=True, ping_seconds=PING_SECONDS)
        await response.begin(200, CIMultiDict(_EVENT_STREAM))
        task = asyncio.create_task(run())
        try:
            while (piece := await response.waiting_for(pieces.get())) is not None:
                await response.write(event_of("delta", {"kind": piece.kind, "text": piece.text}))
            name, value = await self._outcome(task, asker)
            await response.write(event_of(name, value))
            return await response.end()
        finally:
            # A caller that hangs up stops waiting only: the turn continues, and its answer is stored.
            task.cancel()

    async def _outcome(self, task: asyncio.Task[HostedAnswer], asker: HostedCaller) -> tuple[str, Any]:
        """The last event of a streamed answer."""
        try:
            return "done", msgspec.to_builtins(_answer(await task))
        except (Refusal, ClewError) as problem:
            return "error", _refused(problem, asker).as_plain()
        except Exception as problem:
            # The outermost door of a stream that has begun.
            _log.error("a streamed answer failed: %s", where_it_failed(problem))
            return "error", api.internal_failure().as_plain()

    # -- compactions ---------------------------------------------------------------------------------------------------

    @serves("POST", f"{api.ONE}/compress")
    async def compress(self, call: ApiCall[api.CompactionWish]) -> api.CompactionResult:
        """Fold older messages into a handoff now; or say what that would do, and apply exactly this later."""
        id, focus = call.id, call.given.focus or None
        if call.given.apply:
            done = await self._hosted.apply(call.owner, id, call.given.apply)
        elif call.given.preview:
            done = await self._hosted.preview(call.asker, id, focus)
        else:
            done = await self._hosted.compress(call.asker, id, focus)
        return _result(done)

    @serves("POST", f"{api.ONE}/undo")
    async def undo_compaction(self, call: ApiCall[Given]) -> api.UndoResult:
        """Bring back the view from before the newest compaction, word for word."""
        found, conversation, is_undone = await self._hosted.undo(call.owner, call.id)
        return api.UndoResult(found.id, is_undone, len(conversation.messages), conversation.size.tokens)

    @serves("GET", f"{api.ONE}/compactions")
    async def list_compactions(self, call: ApiCall[Given]) -> api.CompactionList:
        """What was folded, undone ones included."""
        found = await self._hosted.find(call.owner, call.id)
        made = await self._store.compactions(found.newest.id, keep_damaged=True)
        return api.CompactionList([_compaction(each) for each in made])

    @serves("GET", f"{api.ONE}/context")
    async def show_context(self, call: ApiCall[Given]) -> api.ContextInfo:
        """What fills the window now."""
        found = await self._hosted.find_hosted(call.owner, call.id)
        return _context(found.id, await self._hosted.open_newest(found))

    # -- pins ----------------------------------------------------------------------------------------------------------

    @serves("GET", f"{api.ONE}/pins")
    async def list_pins(self, call: ApiCall[Given]) -> api.PinList:
        """What is pinned."""
        found = await self._hosted.find_hosted(call.owner, call.id)
        return _pins((await self._hosted.open_newest(found)).pins)

    @serves("POST", f"{api.ONE}/pins", status=201)
    async def add_pin(self, call: ApiCall[api.NewPin]) -> api.PinList:
        """Keep a text word for word, whatever is compacted."""
        found = await self._hosted.find_hosted(call.owner, call.id)
        conversation = await self._hosted.open_newest(found)
        await conversation.pin(Pin(call.given.label or f"pin {len(conversation.pins) + 1}", call.given.text))
        return _pins(conversation.pins)

    @serves("DELETE", f"{api.ONE}/pins/{{number}}")
    async def delete_pin(self, call: ApiCall[Given]) -> api.PinList:
        """Take a pin away."""
        found = await self._hosted.find_hosted(call.owner, call.id)
        conversation, number = await self._hosted.open_newest(found), call.http.match_info["number"]
        if not (number.isascii() and number.isdigit() and 1 <= int(number[:9]) <= len(conversation.pins)):
            raise Refused(404, f"there is no pin {number[:100]!r}", "GET .../pins lists those there are.")
        await conversation.unpin(int(number))
        return _pins(conversation.pins)

    # -- everything that was said --------------------------------------------------------------------------------------

    @serves("GET", f"{api.ONE}/export", media=(api.NDJSON,))
    async def export_conversation(self, call: ApiCall[api.ExportShape]) -> web.StreamResponse:
        """The conversation as a file: the whole history, or what the model sees."""
        found = await self._hosted.find(call.owner, call.id)
        shape, id = call.given.format, found.newest.id
        system = await self._store.system_prompt(id, keep_damaged=True)
        suffix = "jsonl" if shape == "jsonl" else "json"
        headers = {"Content-Disposition": f'attachment; filename="{found.id}.{suffix}"'}
        if call.given.view == "true":
            messages = (await self._store.view(id, keep_damaged=True)).messages
            exported = export_in_shape(shape, found.newest.model, system, messages)
        elif shape == "jsonl":
            return await send_lines(call.http, headers, self._lines(id, system))
        else:
            rows = [row async for row in history_rows(self._store, id)]
            exported = export_in_shape(shape, found.newest.model, system, [row.message for row in rows], rows)
        if shape == "jsonl":
            lines = b"".join(write_json(message) + b"\n" for message in exported)
            return web.Response(body=lines, content_type="application/x-ndjson", headers=headers)
        return json_answer(exported, headers=headers)

    async def _lines(self, id: str, system: str | None) -> AsyncIterator[bytes]:
        """One message per line, read page by page, so that a long history is never in memory whole."""
        is_first = True
        async for row in history_rows(self._store, id):
            for message in [*(system_message(system, [row.message]) if is_first else ()), row.message]:
                yield write_json(message) + b"\n"
            is_first = False

    @serves("GET", f"{api.ROOT}/search")
    async def search(self, call: ApiCall[api.SearchWords]) -> api.SearchResults:
        """Find words in all that was said, handoffs and outputs included."""
        inside = call.given.conversation
        within = (await self._hosted.find(call.owner, inside)).newest.id if inside else None
        roles = (call.given.role,) if call.given.role else ()
        scope = SearchScope(owner=call.owner, conversation_of=within, roles=roles)
        page = await search_history(self._store, call.given.q, scope, limit=call.given.limit)
        ids: dict[str, str] = {}
        for session in dict.fromkeys(found.hit.session for found in page.hits if found.hit.session):
            ids[session] = (await self._hosted.find(call.owner, session)).id
        hits = [_hit(found, ids.get(found.hit.session or "")) for found in page.hits]
        return api.SearchResults(call.given.q, hits, page.problem)

    @serves("GET", f"{api.ROOT}/usage")
    async def show_usage(self, call: ApiCall[api.UsageFilter]) -> api.UsageRows:
        """Tokens and cost of the caller's calls."""
        by: list[Grouping] = [call.given.by] if call.given.by else []
        inside = call.given.conversation
        within = (await self._hosted.find(call.owner, inside)).first.conversation if inside else None
        since = api.time_of(call.given.since) if call.given.since else None
        which = CallFilter(owner=call.owner, since=since, conversation=within)
        totals = await self._store.usage(by, which)
        return api.UsageRows([_row(each, await self._group(call.asker, each.group)) for each in totals])

    async def _group(self, asker: HostedCaller, group: dict[str, Any]) -> dict[str, Any]:
        """A group with the names of the API: a conversation by its id, a day by its date."""
        if "conversation" in group:
            family = await self._store.sessions_of(group["conversation"], owner=asker.owner)
            return {"conversation": family[0].id if family else None}
        return {"day": date_of_day(group["day"])} if "day" in group else group

    # -- events --------------------------------------------------------------------------------------------------------

    @serves("GET", f"{api.ROOT}/events", media=(api.EVENTS,))
    async def follow_events(self, call: ApiCall[Given]) -> web.StreamResponse:
        """What happens to the caller's conversations in this process, as events, until the caller hangs up."""
        with self._feed.follower() as follower:
            response = web.StreamResponse(headers=_EVENT_STREAM)
            await response.prepare(call.http)
            ending = asyncio.create_task(self._is_ending.wait())
            try:
                while not ending.done():
                    if not await self._may_go_on(call.http, call.asker):
                        break
                    async for event in self._feed.events_for(call.owner, follower):
                        await response.write(event_of(event.name, event.fields))
                    more = asyncio.create_task(follower.has_more.wait())
                    done, _pending = await asyncio.wait(
                        {more, ending}, timeout=PING_SECONDS, return_when=asyncio.FIRST_COMPLETED
                    )
                    more.cancel()
                    if not done:
                        await response.write(CHAT.ping)
            finally:
                ending.cancel()
        await response.write_eof()
        return response

    async def _may_go_on(self, request: web.Request, asker: HostedCaller) -> bool:
        """Whether a caller may still listen: its key may have been revoked."""
        if asker.caller.key is None:
            return True
        try:
            return (await self._callers.of(request)).owner == asker.caller.owner
        except Refusal:
            return False


OPERATIONS = api.operations_of(HostingRoutes)


def _refused(problem: Refusal | ClewError, asker: HostedCaller) -> Refused:
    """A failure as the answer to its caller; details for the operator go to the log only."""
    answer = refused(problem, is_own_credential=asker.caller.key is None, is_for_operator=asker.sees_everything)
    if answer.kind == "store":
        _log.error("a call of a hosted conversation failed: %s", problem)
    elif isinstance(problem, ProviderRefused) and answer.kind == "network":
        _log.warning("the upstream of a hosted conversation cannot be reached: %s", explain_refusal(problem).text)
    return answer


def _idempotency_key(request: web.Request) -> str | None:
    given = request.headers.getall(api.IDEMPOTENCY_KEY, [])
    if len(given) > 1 or any(not 1 <= len(name) <= api.MAX_NAME_CHARS for name in given):
        raise Refused(400, f"{api.IDEMPOTENCY_KEY} is one name of 1 to {api.MAX_NAME_CHARS} characters")
    return given[0] if given else None
