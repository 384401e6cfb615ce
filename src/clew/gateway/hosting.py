"""Hosted conversations over HTTP: a call is read, run, and answered. What may be called is in `openapi`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Sequence
from typing import Any, TypeAlias

from aiohttp import web

from clew.errors import ClewError
from clew.gateway.api_answers import (
    KEEP_ALIVE,
    begin_stream,
    date_of_day,
    json_answer,
    next_of,
    plain_answer,
    plain_compaction,
    plain_context,
    plain_conversation,
    plain_found,
    plain_message,
    plain_opened,
    plain_pins,
    plain_result,
    plain_total,
    refusal_answer,
    send_lines,
    tell,
)
from clew.gateway.api_fields import read_fields
from clew.gateway.api_schemas import MAX_NAME_CHARS
from clew.gateway.bodies import write_json
from clew.gateway.callers import Caller, Callers, Refusal
from clew.gateway.connections import where_it_failed
from clew.gateway.event_feed import EventFeed
from clew.gateway.hosted import HostedAnswer, HostedCaller, HostedConversations
from clew.gateway.openapi import OPERATIONS, ApiOperation, description
from clew.gateway.problems import INTERNAL, Refused, problem_of
from clew.gateway.relay import PING_SECONDS
from clew.providers import Delta, OnDelta
from clew.store import CallFilter, Grouping, SearchScope, export_in_shape, history_rows, system_message
from clew.turn import SHORT_CHARS, Pin, open_messages, search_history

DEFAULT_PAGE = 50
DEFAULT_HITS = 20
NO_END = 2**62
_NOBODY = Caller("")
_IDEMPOTENCY_KEY = "Idempotency-Key"

_log = logging.getLogger("clew.gateway")
Fields: TypeAlias = dict[str, Any]
FindAsker: TypeAlias = Callable[[web.Request], Awaitable[HostedCaller]]
Call: TypeAlias = Callable[[web.Request, HostedCaller, Fields], Awaitable[web.StreamResponse]]


def add_hosting(
    application: web.Application, hosting: HostingRoutes, below: str = "", only: Container[str] | None = None
) -> None:
    """Serve hosted conversations below `/clew`; `below` stands before that, `only` names the calls that are served."""
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
    """The calls of `OPERATIONS`, each a method of its name."""

    def __init__(
        self, hosted: HostedConversations, callers: Callers, feed: EventFeed, find_asker: FindAsker | None = None
    ) -> None:
        """`find_asker` tells who asks, where that is not told by a credential."""
        self._hosted = hosted
        self._find_asker = find_asker or self._asker_of_credential
        self._store = hosted.store
        self._callers = callers
        self._feed = feed
        self._is_ending = asyncio.Event()

    # -- around every call ---------------------------------------------------------------------------------------------

    def call_of(self, operation: ApiOperation) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """What serves an operation: checks first, and every failure as an answer."""
        call: Call = getattr(self, operation.name)

        async def serve(request: web.Request) -> web.StreamResponse:
            is_own = False
            try:
                asker = HostedCaller(_NOBODY) if operation.is_open else await self._find_asker(request)
                is_own = asker.caller.key is None
                return await call(request, asker, await read_fields(request, operation))
            except (Refusal, ClewError) as problem:
                return refusal_answer(problem_of(problem, is_own_credential=is_own))

        return serve

    def refusal_of(self, methods: Sequence[str]) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def serve(request: web.Request) -> web.StreamResponse:
            allowed = ", ".join(methods)
            problem = Refused(
                405, f"{request.method} is not served here", f"Use {allowed}.", headers={"Allow": allowed}
            )
            return refusal_answer(problem_of(problem))

        return serve

    async def nothing_here(self, request: web.Request) -> web.StreamResponse:
        what = f"the gateway does not serve {request.method} {request.path[:200]}"
        return refusal_answer(problem_of(Refused(404, what, "GET /clew/openapi.json says what there is.")))

    async def end_streams(self, _application: web.Application) -> None:
        """End the streams of events: whoever follows them would keep the server from stopping."""
        self._is_ending.set()

    async def _asker_of_credential(self, request: web.Request) -> HostedCaller:
        caller = await self._callers.of(request)
        return HostedCaller(caller, self._callers.upstream_credential(request, caller))

    # -- conversations -------------------------------------------------------------------------------------------------

    async def describe(self, _request: web.Request, _asker: HostedCaller, _given: Fields) -> web.StreamResponse:
        return json_answer(description())

    async def create_conversation(self, _: web.Request, asker: HostedCaller, given: Fields) -> web.StreamResponse:
        made = await self._hosted.create(asker.owner, given.get("model"), given.get("system"), given.get("title"))
        return json_answer(plain_conversation(made), 201)

    async def list_conversations(self, _: web.Request, asker: HostedCaller, given: Fields) -> web.StreamResponse:
        page, after = await self._hosted.list(asker.owner, given.get("limit", DEFAULT_PAGE), given.get("before"))
        return json_answer({"conversations": [plain_conversation(each) for each in page], "next": after})

    async def show_conversation(self, request: web.Request, asker: HostedCaller, _: Fields) -> web.StreamResponse:
        found = await self._hosted.find(asker.owner, _id(request))
        view = await self._store.view(found.newest.id, keep_damaged=True)
        made = await self._store.compactions(found.newest.id, keep_damaged=True)
        more = {
            "system": await self._store.system_prompt(found.newest.id, keep_damaged=True),
            "messages": view.next_seq,
            "in_view": len(view.messages),
            "compactions": sum(each.is_in_effect for each in made),
        }
        return json_answer({**plain_conversation(found), **more})

    async def change_conversation(self, request: web.Request, asker: HostedCaller, given: Fields) -> web.StreamResponse:
        found = await self._hosted.find(asker.owner, _id(request))
        if "model" in given:
            found = await self._hosted.use_model(asker.owner, found.id, given["model"])
        if "title" in given:
            found = await self._hosted.rename(asker.owner, found.id, given["title"])
        return json_answer(plain_conversation(found))

    async def delete_conversation(self, request: web.Request, asker: HostedCaller, _: Fields) -> web.StreamResponse:
        await self._hosted.delete(asker.owner, _id(request))
        return web.Response(status=204)

    async def branch_conversation(self, request: web.Request, asker: HostedCaller, given: Fields) -> web.StreamResponse:
        made = await self._hosted.branch(
            asker.owner,
            _id(request),
            given.get("at"),
            given.get("title"),
            before_last_question=given.get("before_last_question", False),
        )
        return json_answer(plain_conversation(made), 201)

    # -- messages ------------------------------------------------------------------------------------------------------

    async def list_messages(self, request: web.Request, asker: HostedCaller, given: Fields) -> web.StreamResponse:
        found = await self._hosted.find(asker.owner, _id(request))
        limit = given.get("limit", DEFAULT_PAGE)
        stop = given.get("before", NO_END)
        start = given["after"] + 1 if "after" in given else max(0, stop - limit) if "before" in given else 0
        until = min(stop, start + limit + 1)
        rows = await self._store.messages(found.newest.id, start, until, owner=asker.owner, keep_damaged=True)
        shown = rows[:limit]
        more = len(rows) > limit
        return json_answer({"messages": [plain_message(row) for row in shown], "next": shown[-1].seq if more else None})

    async def open_messages(self, request: web.Request, asker: HostedCaller, given: Fields) -> web.StreamResponse:
        found = await self._hosted.find(asker.owner, _id(request))
        page = await open_messages(
            self._store,
            found.newest.id,
            given["messages"],
            words=given.get("around", ""),
            chars=given.get("chars", SHORT_CHARS),
            owner=asker.owner,
        )
        return json_answer(plain_opened(page))

    async def send_message(self, request: web.Request, asker: HostedCaller, given: Fields) -> web.StreamResponse:
        name = _idempotency_key(request)
        id = (await self._hosted.find_hosted(asker.owner, _id(request))).id

        def send(on_delta: OnDelta | None) -> Awaitable[HostedAnswer]:
            return self._hosted.send(asker, id, given["content"], on_delta, name)

        return await self._answer(request, asker, send, is_stream=given.get("stream", False))

    async def retry_message(self, request: web.Request, asker: HostedCaller, given: Fields) -> web.StreamResponse:
        id = (await self._hosted.find_hosted(asker.owner, _id(request))).id

        def retry(on_delta: OnDelta | None) -> Awaitable[HostedAnswer]:
            return self._hosted.retry(asker, id, given.get("content"), on_delta)

        return await self._answer(request, asker, retry, is_stream=given.get("stream", False))

    async def stop_turn(self, request: web.Request, asker: HostedCaller, _: Fields) -> web.StreamResponse:
        found = await self._hosted.find_hosted(asker.owner, _id(request))
        return json_answer({"conversation": found.id, "is_stopped": await self._hosted.stop(asker.owner, found.id)})

    async def _answer(
        self,
        request: web.Request,
        asker: HostedCaller,
        ask: Callable[[OnDelta | None], Awaitable[HostedAnswer]],
        *,
        is_stream: bool,
    ) -> web.StreamResponse:
        if not is_stream:
            return json_answer(plain_answer(await ask(None)))
        pieces = asyncio.Queue[Delta | None]()

        async def run() -> HostedAnswer:
            try:
                return await ask(pieces.put_nowait)
            finally:
                pieces.put_nowait(None)

        response = await begin_stream(request)
        task = asyncio.create_task(run())
        try:
            while (piece := await next_of(pieces, response)) is not None:
                await tell(response, "delta", {"kind": piece.kind, "text": piece.text})
            name, value = await self._outcome(task, asker)
            await tell(response, name, value)
            await response.write_eof()
        finally:
            # Whoever hangs up stops waiting; the turn itself goes on, and its answer is kept.
            task.cancel()
        return response

    async def _outcome(self, task: asyncio.Task[HostedAnswer], asker: HostedCaller) -> tuple[str, Any]:
        """How a streamed answer ends, as an event."""
        try:
            return "done", plain_answer(await task)
        except (Refusal, ClewError) as problem:
            return "error", problem_of(problem, is_own_credential=asker.caller.key is None).as_plain()
        except Exception as problem:
            # The outermost door of a stream that has begun.
            _log.error("a streamed answer failed: %s", where_it_failed(problem))
            return "error", INTERNAL.as_plain()

    # -- compactions ---------------------------------------------------------------------------------------------------

    async def compress(self, request: web.Request, asker: HostedCaller, given: Fields) -> web.StreamResponse:
        id, focus = _id(request), given.get("focus")
        if "apply" in given:
            done = await self._hosted.apply(asker.owner, id, given["apply"])
        elif given.get("preview"):
            done = await self._hosted.preview(asker, id, focus)
        else:
            done = await self._hosted.compress(asker, id, focus)
        return json_answer(plain_result(done))

    async def undo_compaction(self, request: web.Request, asker: HostedCaller, _: Fields) -> web.StreamResponse:
        found, conversation, is_undone = await self._hosted.undo(asker.owner, _id(request))
        shown = {"in_view": len(conversation.messages), "tokens": conversation.size.tokens}
        return json_answer({"conversation": found.id, "is_undone": is_undone, **shown})

    async def list_compactions(self, request: web.Request, asker: HostedCaller, _: Fields) -> web.StreamResponse:
        found = await self._hosted.find(asker.owner, _id(request))
        made = await self._store.compactions(found.newest.id, keep_damaged=True)
        return json_answer({"compactions": [plain_compaction(each) for each in made]})

    async def show_context(self, request: web.Request, asker: HostedCaller, _: Fields) -> web.StreamResponse:
        found = await self._hosted.find_hosted(asker.owner, _id(request))
        return json_answer(plain_context(found.id, await self._hosted.open_newest(found)))

    # -- pins ----------------------------------------------------------------------------------------------------------

    async def list_pins(self, request: web.Request, asker: HostedCaller, _: Fields) -> web.StreamResponse:
        found = await self._hosted.find_hosted(asker.owner, _id(request))
        return json_answer(plain_pins((await self._hosted.open_newest(found)).pins))

    async def add_pin(self, request: web.Request, asker: HostedCaller, given: Fields) -> web.StreamResponse:
        found = await self._hosted.find_hosted(asker.owner, _id(request))
        conversation = await self._hosted.open_newest(found)
        await conversation.pin(Pin(given.get("label") or f"pin {len(conversation.pins) + 1}", given["text"]))
        return json_answer(plain_pins(conversation.pins), 201)

    async def delete_pin(self, request: web.Request, asker: HostedCaller, _: Fields) -> web.StreamResponse:
        found = await self._hosted.find_hosted(asker.owner, _id(request))
        conversation, number = await self._hosted.open_newest(found), request.match_info["number"]
        if not (number.isascii() and number.isdigit() and 1 <= int(number[:9]) <= len(conversation.pins)):
            raise Refused(404, f"there is no pin {number[:100]!r}", "GET .../pins lists those there are.")
        await conversation.unpin(int(number))
        return json_answer(plain_pins(conversation.pins))

    # -- everything that was said --------------------------------------------------------------------------------------

    async def export_conversation(self, request: web.Request, asker: HostedCaller, given: Fields) -> web.StreamResponse:
        found = await self._hosted.find(asker.owner, _id(request))
        shape, id = given.get("format", "chat"), found.newest.id
        system = await self._store.system_prompt(id, keep_damaged=True)
        suffix = "jsonl" if shape == "jsonl" else "json"
        headers = {"Content-Disposition": f'attachment; filename="{found.id}.{suffix}"'}
        if given.get("view"):
            messages = (await self._store.view(id, keep_damaged=True)).messages
            exported = export_in_shape(shape, found.newest.model, system, messages)
        elif shape == "jsonl":
            return await send_lines(request, headers, self._lines(id, system))
        else:
            rows = [row async for row in history_rows(self._store, id)]
            exported = export_in_shape(shape, found.newest.model, system, [row.message for row in rows], rows)
        if shape == "jsonl":
            lines = b"".join(write_json(message) + b"\n" for message in exported)
            return web.Response(body=lines, content_type="application/x-ndjson", headers=headers)
        return json_answer(exported, headers=headers)

    async def _lines(self, id: str, system: str | None) -> AsyncIterator[bytes]:
        """One message a line as it is read, so that a long history is never held whole."""
        is_first = True
        async for row in history_rows(self._store, id):
            for message in [*(system_message(system, [row.message]) if is_first else ()), row.message]:
                yield write_json(message) + b"\n"
            is_first = False

    async def search(self, _: web.Request, asker: HostedCaller, given: Fields) -> web.StreamResponse:
        inside = given.get("conversation")
        within = (await self._hosted.find(asker.owner, inside)).newest.id if inside is not None else None
        roles = (given["role"],) if "role" in given else ()
        scope = SearchScope(owner=asker.owner, conversation_of=within, roles=roles)
        page = await search_history(self._store, given["q"], scope, limit=given.get("limit", DEFAULT_HITS))
        ids: dict[str, str] = {}
        for session in dict.fromkeys(found.hit.session for found in page.hits if found.hit.session):
            ids[session] = (await self._hosted.find(asker.owner, session)).id
        hits = [plain_found(found, ids.get(found.hit.session or "")) for found in page.hits]
        return json_answer({"query": given["q"], "hits": hits})

    async def show_usage(self, _: web.Request, asker: HostedCaller, given: Fields) -> web.StreamResponse:
        by: list[Grouping] = [given["by"]] if "by" in given else []
        inside = given.get("conversation")
        within = (await self._hosted.find(asker.owner, inside)).first.conversation if inside is not None else None
        which = CallFilter(owner=asker.owner, since=given.get("since"), conversation=within)
        totals = await self._store.usage(by, which)
        groups = [plain_total(each, await self._group(asker, each.group)) for each in totals]
        return json_answer({"groups": groups})

    async def _group(self, asker: HostedCaller, group: dict[str, Any]) -> dict[str, Any]:
        """A group with the names that callers know: a conversation by its id, a day by its date."""
        if "conversation" in group:
            family = await self._store.sessions_of(group["conversation"], owner=asker.owner)
            return {"conversation": family[0].id if family else None}
        return {"day": date_of_day(group["day"])} if "day" in group else group

    # -- events --------------------------------------------------------------------------------------------------------

    async def follow_events(self, request: web.Request, asker: HostedCaller, _: Fields) -> web.StreamResponse:
        with self._feed.follower() as follower:
            response = await begin_stream(request)
            ending = asyncio.create_task(self._is_ending.wait())
            try:
                while not ending.done():
                    if not await self._may_go_on(request, asker):
                        break
                    async for event in self._feed.events_for(asker.owner, follower):
                        await tell(response, event.name, event.fields)
                    more = asyncio.create_task(follower.has_more.wait())
                    done, _pending = await asyncio.wait(
                        {more, ending}, timeout=PING_SECONDS, return_when=asyncio.FIRST_COMPLETED
                    )
                    more.cancel()
                    if not done:
                        await response.write(KEEP_ALIVE)
            finally:
                ending.cancel()
        await response.write_eof()
        return response

    async def _may_go_on(self, request: web.Request, asker: HostedCaller) -> bool:
        """Whether a caller may still listen: its key may have been revoked meanwhile."""
        if asker.caller.key is None:
            return True
        try:
            return (await self._callers.of(request)).owner == asker.caller.owner
        except Refusal:
            return False


def error_body(refusal: Refusal) -> dict[str, Any]:
    """A refusal that was made before a call, as its answer."""
    return problem_of(refusal).as_plain()


def _id(request: web.Request) -> str:
    return request.match_info["id"]


def _idempotency_key(request: web.Request) -> str | None:
    given = request.headers.getall(_IDEMPOTENCY_KEY, [])
    if len(given) > 1 or any(not 1 <= len(name) <= MAX_NAME_CHARS for name in given):
        raise Refused(400, f"{_IDEMPOTENCY_KEY} is one name of 1 to {MAX_NAME_CHARS} characters")
    return given[0] if given else None
