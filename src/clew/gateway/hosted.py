"""Hosted conversations: a caller sends the question alone, and the history is in the store.

Every operation is limited to an owner. Turns run as everywhere else, with the credential of their caller, which is not
stored.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from itertools import takewhile
from typing import Any
from weakref import WeakValueDictionary

from clew.engines import Compaction
from clew.errors import ClewError, InvalidArgument, ProviderRefused, StoreError, UnknownSession
from clew.gateway.admission import RESERVED_OUTPUT, Caller, Callers, where_it_failed
from clew.gateway.hosted_api import Refused, no_conversation
from clew.messages import Message, arguments_of_call, calls_of, name_of_call, text_of
from clew.providers import Delta, HttpProvider, OnDelta, Provider, Reply, Request
from clew.store import CallFilter, NewSession, Session, StoredMessage
from clew.turn import (
    BROKEN_OFF,
    STOPPED,
    Conversation,
    ModelTarget,
    PreparedCompaction,
    Runtime,
    call_of,
    keep_partial_reply,
    prepared_from_plain,
    prepared_to_plain,
    run_turn,
    uninterruptible,
)
from clew.usage import CanonicalUsage

HOSTED = "hosted"
"""The source of sessions that are hosted here."""
GATEWAY = "gateway"
"""The source of sessions whose client keeps its own history."""
NOT_HOSTED = "this conversation belongs to a client that keeps its own history"
IDLE_SECONDS = 120.0
"""How long an unused conversation stays open."""
MAX_TOOL_ROUNDS = 20
"""Rounds of calls of the context engine's tools within one answer."""
_SENT_STATE = "hosting.sent"
"""The state with the answers of Idempotency-Keys."""
_MAX_SENT = 32
PREVIEW_SECONDS = 900.0
"""How long a preview can be applied."""
_PREVIEW_STATE = "preview"
"""The state with the newest preview of a conversation."""
_CLAIM_SECONDS = 30.0
"""After so long without a renewal a question counts as abandoned: its process may have ended."""
_CLAIM_CHECK_SECONDS = 0.2
_PAGE = 200

_log = logging.getLogger("clew.gateway")


@dataclass(frozen=True, slots=True)
class HostedCaller:
    """A caller with its credential for the upstream."""

    caller: Caller
    credential: str | None = field(default=None, repr=False)
    sees_everything: bool = False
    """Whether it is the owner of the store, who sees every conversation."""

    @property
    def owner(self) -> str | None:
        return None if self.sees_everything else self.caller.owner

    def ask_upstream(self) -> None:
        """Use its credential for the upstream from now on, in this task and those that it starts."""
        _caller.set(self)


_caller: ContextVar[HostedCaller | None] = ContextVar("caller", default=None)
"""The caller of the turn that runs in this task."""


def asks_with_own_credential() -> bool:
    """Whether the gateway's own credential is in use: a caller's own one is for its questions alone."""
    caller = _caller.get()
    return caller is not None and caller.caller.key is not None


class CallerProvider(Provider):
    """The upstream on one wire; each call has the credential of the caller of its turn."""

    def __init__(self, wire: HttpProvider, ours: str | None = None) -> None:
        """`ours` is the gateway's credential, for callers with a key of Clew."""
        self.name = wire.name
        self._wire = wire
        self._ours = ours

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        caller = _caller.get()
        key = self._ours if asks_with_own_credential() else caller.credential if caller else None
        return await self._wire.with_key(key).send(request, on_delta)

    async def close(self) -> None:
        await self._wire.close()


@dataclass(frozen=True, slots=True)
class FoundConversation:
    """A conversation by its first session, whose id it has, and its newest."""

    first: Session
    newest: Session

    @property
    def id(self) -> str:
        return self.first.id


@dataclass(frozen=True, slots=True)
class HostedAnswer:
    """The answer of the model."""

    conversation: str
    seq: int
    content: str
    model: str
    finish: str
    usage: CanonicalUsage | None
    cost_micros: int | None
    is_repeated: bool = False

    @property
    def cost_usd(self) -> float | None:
        return None if self.cost_micros is None else self.cost_micros / 1_000_000


@dataclass(frozen=True, slots=True)
class HostedCompaction:
    """A compaction that was made or previewed."""

    conversation: str
    compaction: Compaction
    focus: str | None
    is_applied: bool
    preview: str | None = None


class HostedConversations:
    """The hosted conversations of one gateway process."""

    def __init__(
        self,
        runtime: Runtime,
        callers: Callers,
        target: Callable[[str], ModelTarget],
        default_model: str | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        changes_every_source: bool = False,
    ) -> None:
        """`changes_every_source`: also conversations of other sources may be changed, except those of clients."""
        self.store = runtime.store
        self._runtime = runtime
        self._callers = callers
        self._target = target
        self._default_model = default_model
        self._clock = clock
        self._changes_every_source = changes_every_source
        self._locks = WeakValueDictionary[str, asyncio.Lock]()
        self._turns: dict[str, set[asyncio.Task[HostedAnswer]]] = {}
        self._used: dict[str, float] = {}
        """When each open conversation was last used."""

    # -- conversations -------------------------------------------------------------------------------------------------

    async def create(
        self, owner: str | None, model: str | None, system: str | None, title: str | None
    ) -> FoundConversation:
        chosen = model or self._default_model
        if chosen is None:
            raise Refused(400, "no model is named, and the config names none", 'Name one: {"model": ...}.')
        new = NewSession(source=HOSTED, model=chosen, title=title, system=system or None, owner=owner or "")
        started = await self.store.start_session(new)
        return FoundConversation(started, started)

    async def find(self, owner: str | None, id: str) -> FoundConversation:
        """A conversation of an owner, by the id of any of its sessions."""
        try:
            found = await self.store.session(id, owner=owner)
        except UnknownSession:
            raise no_conversation(id) from None
        return await self._family(found, owner)

    async def find_hosted(self, owner: str | None, id: str) -> FoundConversation:
        """A conversation that may be changed here; those whose client keeps its own history may not."""
        found = await self.find(owner, id)
        if not self.may_change(found.first.source):
            raise Refused(409, NOT_HOSTED, "Go on with it there, or begin one here.", kind="not_hosted")
        return found

    def may_change(self, source: str) -> bool:
        """Whether conversations of a source may be compacted and branched here."""
        return source == HOSTED or (self._changes_every_source and source != GATEWAY)

    async def _family(self, session: Session, owner: str | None) -> FoundConversation:
        family = await self.store.sessions_of(session.conversation, owner=owner)
        return FoundConversation(family[0], family[-1])

    async def list(
        self, owner: str | None, limit: int, before: str | None
    ) -> tuple[Sequence[FoundConversation], str | None]:
        """A page of conversations, newest first, and `before` for the next one."""
        try:
            page = await self.store.list_sessions(owner=owner, limit=limit + 1, before=before, only_tips=True)
        except UnknownSession:
            raise Refused(404, f"there is no page before {str(before)[:100]!r}", "Begin without `before`.") from None
        shown = page[:limit]
        return [await self._family(each, owner) for each in shown], shown[-1].id if len(page) > limit else None

    async def rename(self, owner: str | None, id: str, title: str | None) -> FoundConversation:
        found = await self.find(owner, id)
        return FoundConversation(found.first, await self.store.rename(found.newest.id, title, owner=owner))

    async def use_model(self, owner: str | None, id: str, model: str) -> FoundConversation:
        """Use another model from the next message on."""
        found = await self.find_hosted(owner, id)
        await (await self.open(found)).use_model(self._target(model))
        return await self.find(owner, id)

    async def delete(self, owner: str | None, id: str) -> None:
        """Delete a conversation, once its turns have ended."""
        found = await self.find(owner, id)
        async with self._lock(found.id):
            await self.store.delete(found.newest.id, owner=owner)
            await self._runtime.forget(found.id)
            self._used.pop(found.id, None)

    async def branch(
        self, owner: str | None, id: str, at: int | None, title: str | None, *, before_last_question: bool = False
    ) -> FoundConversation:
        """A new conversation that shares the first messages."""
        found = await self.find_hosted(owner, id)
        if before_last_question:
            at = (await self._last_question(found)).seq
        try:
            made = await self.store.branch(found.newest.id, at, owner=owner)
        except InvalidArgument as problem:
            raise Refused(409, str(problem), "Branch at a smaller number.") from problem
        if title is not None:
            made = await self.store.rename(made.id, title, owner=owner)
        return FoundConversation(made, made)

    async def open(self, found: FoundConversation) -> Conversation:
        """Open a conversation with its model."""
        await self._close_idle()
        self._used[found.id] = self._clock()
        conversation = await self._runtime.conversation(found.id)
        model = (await self.store.session(conversation.session)).model or self._default_model or ""
        if conversation.target.model != model:
            conversation.set_model(await self._runtime.serving(self._target(model)))
        return conversation

    async def open_newest(self, found: FoundConversation) -> Conversation:
        """Open a conversation with what other processes have written; a turn checks that by itself."""
        conversation = await self.open(found)
        stored = await self.store.view(await self.store.get_compression_tip(found.id), keep_damaged=True)
        view = conversation.view
        if (stored.session, stored.base, stored.next_seq) != (view.session, view.base, view.next_seq):
            async with conversation.locks.write:
                await conversation.reload()
        return conversation

    async def _close_idle(self) -> None:
        """Close idle conversations."""
        until = self._clock() - IDLE_SECONDS
        kept = {id for id, lock in self._locks.items() if lock.locked()}
        for id in [id for id, used in self._used.items() if used < until and id not in kept]:
            del self._used[id]
            await self._runtime.forget(id)

    def _lock(self, id: str) -> asyncio.Lock:
        lock = self._locks.get(id)
        if lock is None:
            self._locks[id] = lock = asyncio.Lock()
        return lock

    # -- turns ---------------------------------------------------------------------------------------------------------

    async def send(
        self, asker: HostedCaller, id: str, content: str, on_delta: OnDelta | None = None, name: str | None = None
    ) -> HostedAnswer:
        """The answer to a question. A caller that stops waiting does not cancel it: the answer is still stored.

        A question with the `name` of an earlier one gets the earlier answer.
        """
        found = await self.find_hosted(asker.owner, id)
        return await self._run(found.id, self._answer(asker, found, content, on_delta, name))

    async def retry(
        self, asker: HostedCaller, id: str, content: str | None, on_delta: OnDelta | None = None
    ) -> HostedAnswer:
        """The answer to the last question, or to another in its place, in a branch that ends before it."""
        found = await self.find_hosted(asker.owner, id)
        question = await self._last_question(found)
        branch = await self.branch(asker.owner, id, question.seq, None)
        asked = content if content is not None else question.message
        try:
            # `stop` finds it by the id that the caller knows.
            return await self._run(found.id, self._answer(asker, branch, asked, on_delta, None), branch.id)
        except ClewError:
            # No caller knows the branch yet.
            await self.delete(asker.owner, branch.id)
            raise

    async def stop(self, owner: str | None, id: str) -> bool:
        """Stop the turns of a conversation that run here; what was written is kept. Whether there were any."""
        found = await self.find_hosted(owner, id)
        running = list(self._turns.get(found.id, ()))
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        return bool(running)

    async def close(self) -> None:
        """Stop every turn; what was written is kept."""
        running = [task for tasks in self._turns.values() for task in tasks]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _run(self, id: str, turn: Coroutine[Any, Any, HostedAnswer], kept_in: str = "") -> HostedAnswer:
        task: asyncio.Task[HostedAnswer] = asyncio.create_task(turn)
        self._turns.setdefault(id, set()).add(task)
        task.add_done_callback(lambda done: self._ended(id, done))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.cancelled():
                raise  # the caller hung up, and the turn continues
            kept = f"What was written is kept in {kept_in or id}."
            raise Refused(409, "the answer was stopped", kept, kind="stopped") from None

    def _ended(self, id: str, task: asyncio.Task[HostedAnswer]) -> None:
        self._turns[id].discard(task)
        if not self._turns[id]:
            del self._turns[id]
        if not task.cancelled() and (problem := task.exception()) is not None:
            # Read here, since no caller may be waiting any more.
            _log.info("a hosted turn failed: %s", type(problem).__name__)

    async def _answer(
        self,
        asker: HostedCaller,
        found: FoundConversation,
        content: str | Message,
        on_delta: OnDelta | None,
        name: str | None,
    ) -> HostedAnswer:
        question: Message = {"role": "user", "content": content} if isinstance(content, str) else content
        async with self._lock(found.id):
            before = None if name is None else await self._answered_or_claimed(found, name, question)
            if before is not None:
                return before
            conversation = await self.open_newest(found)
            async with self._charging(asker, found, conversation), self._claiming(found, name) as keep:
                asker.ask_upstream()
                # A question without an answer that is sent again is in the history already.
                incoming = () if _is_newest(question, conversation) else (question,)
                answer = self._told(found, conversation, await self._ask(found.id, incoming, on_delta))
                keep(answer)
                return answer

    @asynccontextmanager
    async def _charging(
        self, asker: HostedCaller, found: FoundConversation, conversation: Conversation
    ) -> AsyncIterator[None]:
        """Charge the cost of all calls in the block, by the store; a failure to charge does not fail the block.

        Raises `Refusal` where the budget of the caller is too small for a call of that size.
        """
        usage = CanonicalUsage(conversation.size.tokens, RESERVED_OUTPUT)
        cost = call_of(usage, conversation.target, "gateway").cost_micros
        reservation = await self._callers.reserve(asker.caller, cost or 0)
        before = await self._cost(found)
        try:
            yield
        finally:
            await uninterruptible(self._charge(asker, found, before, reservation))

    async def _charge(
        self, asker: HostedCaller, found: FoundConversation, before: int, reservation: str | None
    ) -> None:
        try:
            cost = max(0, await self._cost(found) - before)
            await self._callers.add_spending(asker.caller, cost, reservation)
        except StoreError as problem:
            _log.error("a hosted turn could not be charged: %s", where_it_failed(problem))

    async def _cost(self, found: FoundConversation) -> int:
        """The cost of all calls of a conversation, in millionths of a dollar."""
        which = CallFilter(conversation=found.first.conversation)
        return sum(total.cost_micros for total in await self.store.usage(which=which))

    async def _ask(self, id: str, incoming: Sequence[Message], on_delta: OnDelta | None) -> Reply:
        """The reply; calls of the context engine's own tools are answered on the way."""
        written: list[str] = []

        def take(delta: Delta) -> None:
            if delta.kind == "text":
                written.append(delta.text)
            if on_delta is not None:
                on_delta(delta)

        try:
            for _ in range(MAX_TOOL_ROUNDS):
                reply = await run_turn(self._runtime, id, incoming, on_delta=take)
                calls = calls_of(reply.message)
                if not calls:
                    break
                written.clear()
                engine = (await self._runtime.conversation(id)).engine
                incoming = [await _tool_result(engine.handle_tool_call, call) for call in calls]
        except asyncio.CancelledError:
            await uninterruptible(keep_partial_reply(self._runtime, id, "".join(written)))
            raise
        except ProviderRefused as refused:
            if refused.partial is not None:
                await keep_partial_reply(self._runtime, id, "".join(written), BROKEN_OFF)
            raise
        return reply

    def _told(self, found: FoundConversation, conversation: Conversation, reply: Reply) -> HostedAnswer:
        cost = None
        if reply.usage is not None:
            ttl = self._runtime.cache_policy(conversation.target).ttl
            cost = call_of(reply.usage, conversation.target, self._runtime.options.source, ttl).cost_micros
        seq = conversation.view.next_seq - 1
        return HostedAnswer(found.id, seq, text_of(reply.message), reply.model, reply.finish, reply.usage, cost)

    async def _last_question(self, found: FoundConversation) -> StoredMessage:
        stop = (await self.store.view(found.newest.id, keep_damaged=True)).next_seq
        while stop > 0:
            start = max(0, stop - _PAGE)
            for row in reversed(await self.store.messages(found.newest.id, start, stop, keep_damaged=True)):
                if row.message["role"] == "user":
                    return row
            stop = start
        raise Refused(409, "nothing has been asked in this conversation yet", "Ask something first.")

    # -- idempotency keys ----------------------------------------------------------------------------------------------

    async def _answered_or_claimed(self, found: FoundConversation, name: str, question: Message) -> HostedAnswer | None:
        """The earlier answer of a key; None where this process has claimed the question and is to ask it."""
        asked = _digest(str(question.get("content")))
        while True:
            sent = (await self.store.state(found.id)).get(_SENT_STATE)
            known = _entry_of(sent, found.id, name)
            if known is not None and known["content"] != asked:
                raise Refused(409, f"the Idempotency-Key {name!r} was used for another message", "Use a key only once.")
            if known is not None and (answer := await self._answer_of(found, known)) is not None:
                return answer
            if known is not None and known["until"] > time.time():
                await asyncio.sleep(_CLAIM_CHECK_SECONDS)  # another process asks
                continue
            conversation = await self.open_newest(found)
            seq = conversation.view.next_seq - _is_newest(question, conversation)
            entry = {"name": name, "content": asked, "conversation": found.id, "question": seq, "answer": None}
            entry["until"] = time.time() + _CLAIM_SECONDS
            others = [it for it in sent or () if it is not known]
            if await self.store.swap_state(found.id, _SENT_STATE, sent, [*others, entry][-_MAX_SENT:]):
                return None

    async def _answer_of(self, found: FoundConversation, known: Mapping[str, Any]) -> HostedAnswer | None:
        """The answer of a key: stored with it, or found in the history where its process ended too early."""
        if known["answer"] is not None:
            kept: dict[str, Any] = known["answer"]
            rows = await self.store.messages(found.id, kept["seq"], kept["seq"] + 1, keep_damaged=True)
            usage = None if kept["usage"] is None else CanonicalUsage(**kept["usage"])
            text = text_of(rows[0].message) if rows else ""
            return HostedAnswer(**{**kept, "content": text, "usage": usage, "is_repeated": True})
        rows = await self.store.messages(found.id, known["question"], keep_damaged=True)
        if not rows or _digest(str(rows[0].message.get("content"))) != known["content"]:
            return None
        said = takewhile(lambda row: row.message["role"] != "user", rows[1:])
        last = next((row for row in reversed(list(said)) if not calls_of(row.message)), None)
        if last is None or last.message["role"] != "assistant":
            return None
        if text_of(last.message).endswith((STOPPED, BROKEN_OFF)):
            return None
        model = (await self.store.session(last.session)).model or ""
        return HostedAnswer(found.id, last.seq, text_of(last.message), model, "stop", None, None, is_repeated=True)

    @asynccontextmanager
    async def _claiming(
        self, found: FoundConversation, name: str | None
    ) -> AsyncIterator[Callable[[HostedAnswer], None]]:
        """Renew the claim of a key during the block, and store the answer with it. A failure to store does not fail the
        block: a repeated request finds the answer in the history."""
        answers: list[HostedAnswer] = []
        if name is None:
            yield answers.append
            return
        claim = asyncio.create_task(self._keep_claim(found, name))
        try:
            yield answers.append
        finally:
            claim.cancel()
            await uninterruptible(self._end_claim(found, name, answers))

    async def _keep_claim(self, found: FoundConversation, name: str) -> None:
        while True:
            await asyncio.sleep(_CLAIM_SECONDS / 3)
            with suppress(StoreError):
                await self._change_entry(found, name, lambda entry: {**entry, "until": time.time() + _CLAIM_SECONDS})

    async def _end_claim(self, found: FoundConversation, name: str, answers: Sequence[HostedAnswer]) -> None:
        kept = {**asdict(answers[0]), "content": ""} if answers else None
        try:
            await self._change_entry(found, name, lambda entry: {**entry, "until": 0, "answer": kept})
        except StoreError as problem:
            _log.error("the answer to a key could not be kept with it: %s", where_it_failed(problem))

    async def _change_entry(
        self, found: FoundConversation, name: str, change: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> None:
        while True:
            sent = (await self.store.state(found.id)).get(_SENT_STATE) or []
            known = _entry_of(sent, found.id, name)
            if known is None:
                return
            changed = [change(it) if it is known else it for it in sent]
            if await self.store.swap_state(found.id, _SENT_STATE, sent, changed):
                return

    # -- compactions ---------------------------------------------------------------------------------------------------

    async def compress(self, asker: HostedCaller, id: str, focus: str | None) -> HostedCompaction:
        """Compact now."""
        found = await self.find_hosted(asker.owner, id)
        asker.ask_upstream()
        conversation = await self.open_newest(found)
        async with self._charging(asker, found, conversation):
            done = await conversation.compact_now(focus)
        if done is None:
            what = "another process is compacting this conversation"
            raise Refused(409, what, "It goes on as that one leaves it.", kind="busy")
        return HostedCompaction(found.id, done, focus, is_applied=done.changed)

    async def preview(self, asker: HostedCaller, id: str, focus: str | None) -> HostedCompaction:
        """Prepare a compaction, which `apply` makes exactly so, in any process."""
        found = await self.find_hosted(asker.owner, id)
        asker.ask_upstream()
        conversation = await self.open_newest(found)
        async with self._charging(asker, found, conversation):
            prepared: PreparedCompaction = await conversation.preview_compaction(focus)
        if not prepared.compaction.changed:
            return HostedCompaction(found.id, prepared.compaction, focus, False)
        name = f"p_{secrets.token_hex(10)}"
        # By the time of day, which several machines compare.
        kept = {"id": name, "at": time.time(), "prepared": prepared_to_plain(prepared)}
        await self.store.set_state(found.id, {_PREVIEW_STATE: kept})
        return HostedCompaction(found.id, prepared.compaction, focus, False, name)

    async def apply(self, owner: str | None, id: str, preview: str) -> HostedCompaction:
        """Apply a preview, if the conversation still begins as it did then."""
        found = await self.find_hosted(owner, id)
        kept = (await self.store.state(found.id)).get(_PREVIEW_STATE)
        if not isinstance(kept, dict) or kept["id"] != preview or time.time() - kept["at"] > PREVIEW_SECONDS:
            raise Refused(404, f"there is no preview {preview[:100]!r}", "Preview again.")
        await self.store.set_state(found.id, {_PREVIEW_STATE: None})
        conversation = await self.open_newest(found)
        prepared = prepared_from_plain(kept["prepared"], conversation.view)
        applied = None if prepared is None else await conversation.apply_compaction(prepared)
        if prepared is None or applied is None:
            what = "the preview was made for another state of this conversation, and was not applied"
            raise Refused(409, what, "Preview again.", kind="stale_preview")
        return HostedCompaction(found.id, applied, prepared.focus, is_applied=True)

    async def undo(self, owner: str | None, id: str) -> tuple[FoundConversation, Conversation, bool]:
        """Bring back the view from before the newest compaction; whether there was one."""
        found = await self.find(owner, id)
        if found.first.source != GATEWAY:  # whose conversations continue from the view in the store
            found = await self.find_hosted(owner, id)
        conversation = await self.open_newest(found)
        return found, conversation, await conversation.undo_compaction()


def _entry_of(sent: Any, conversation: str, name: str) -> dict[str, Any] | None:
    """The entry of a key. A branch has the states of its origin, and its own messages."""
    for entry in sent or ():
        # Entries of older versions were written with their answer.
        own = entry.get("conversation") or entry["answer"]["conversation"]
        if entry["name"] == name and own == conversation:
            return {"until": 0, **entry} if "until" not in entry else entry
    return None


def _is_newest(question: Message, conversation: Conversation) -> bool:
    """Whether a question is the last message, word for word."""
    newest = conversation.messages[-1:]
    return bool(newest) and newest[0]["role"] == "user" and newest[0].get("content") == question.get("content")


async def _tool_result(answer: Callable[[str, Mapping[str, Any]], Any], call: Any) -> Message:
    """The result of a context engine's tool; no other tool is offered."""
    name = name_of_call(call)
    try:
        text = await answer(name, arguments_of_call(call))
    except LookupError:
        text = f"there is no tool {name!r}"
    return {"role": "tool", "tool_call_id": call["id"], "content": text.encode("utf-8", "backslashreplace").decode()}


def _digest(content: str) -> str:
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
