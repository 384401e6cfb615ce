"""A history that its host sends whole with each call: folded once, with the same items from then on.

For hosts that have a runtime, in one event loop; `clew.Projection` is for all others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clew.errors import ClewError, StaleHistory, UnknownSession
from clew.messages import DialectName, History, Item, Message, Tool, detect_dialect
from clew.store import CommittedCompaction, ModelCall, NewMessage, NewSession, SearchScope, View
from clew.turn.conversation import Conversation
from clew.turn.recall import OpenedMessage, found_texts, is_message_name, open_messages, search_history
from clew.turn.request import MANY_MESSAGES, ModelTarget, TurnOptions, call_of
from clew.turn.runtime import Runtime
from clew.usage import CanonicalUsage


@dataclass(frozen=True, slots=True)
class RecalledMessage:
    """A message of the history, word for word."""

    number: int
    """As a handoff names it: m12 is 12."""
    message: Message
    snippet: str = ""
    """The part that was found or opened: the whole of a short message, parts of a long one."""


def _shown(message: OpenedMessage) -> str:
    return "\n…\n".join(message.text[part.start : part.stop] for part in message.parts)


@dataclass(frozen=True, slots=True)
class TakenHistory:
    """The history of a request: a reply is recorded only behind the same one."""

    sync: int
    """The number of lookups of the whole history so far: another one may have led to a branch."""
    messages: int
    last: bytes
    """The digest of its last message."""


class ProjectedConversation:
    """One conversation. Its calls must not overlap; callers that share it need a lock."""

    def __init__(self, runtime: Runtime, new: NewSession | None = None, session: str | None = None) -> None:
        self.session = session
        """The session of the conversation; None before the first call, unless one was given."""
        self.is_branch = False
        """Whether the last call continued in a branch, because an earlier message had been edited."""
        self._runtime = runtime
        self._new = new or NewSession(source="library", model=runtime.target.model)
        self._history: History | None = None
        self._shown: View | None = None
        """The stored view whose messages were replaced by the caller's objects."""
        self._syncs = 0
        self._writing: asyncio.Task[None] | None = None
        """Stores the newest messages."""
        self._branch: str | None = None
        """The session with the newest messages, if another process wrote to the conversation meanwhile."""
        self._sent = 0
        """Messages in view at the last call, whose usage is reported next."""

    @property
    def items(self) -> Sequence[Any]:
        """The known wire items; a caller gives the same object for an item that is unchanged."""
        return self._history.raw if self._history else ()

    def is_followed_by(self, items: Sequence[Any], dialect: DialectName) -> bool:
        """Whether a history begins with the known one."""
        history = self._history
        return history is not None and history.dialect == dialect and history.is_followed_by(items)

    async def fit(
        self,
        items: Sequence[Any],
        *,
        prompt: Message | None = None,
        tools: Sequence[Tool] = (),
        dialect: DialectName | None = None,
        target: ModelTarget | None = None,
    ) -> list[Any]:
        """The items to send for a history: the same as before for what was folded, the others unchanged.

        It is folded again only if the request would pass the threshold. Unchanged items are the objects that were
        given. `target` is the model, if it may change with each call.
        """
        conversation = await self.take(items, dialect, target)
        await conversation.fit(TurnOptions(tools=tools, prompt=prompt))
        own = await self.own(conversation)
        if own is not conversation:
            await own.fit(TurnOptions(tools=tools, prompt=prompt))
        return self.show(own)

    async def take(
        self,
        items: Sequence[Any],
        dialect: DialectName | None = None,
        target: ModelTarget | None = None,
        *,
        is_beside: bool = False,
    ) -> Conversation:
        """Store what is new in a history, and return its conversation.

        With `is_beside` it may be stored in a task (`Conversation.append_beside`) if no other process can have
        continued the conversation, since every reply of the history is known here.
        """
        name = dialect or (self._history.dialect if self._history else detect_dialect(list(items)))
        conversation = await self._take(items, name, is_beside=is_beside)
        if target is not None and target != conversation.target:
            await conversation.use_model(target)
        return conversation

    async def own(self, conversation: Conversation) -> Conversation:
        """The conversation, or a branch of it if another process has continued it with other messages.

        A fold shows the messages of the store, which may be more or other ones than those of the history. Without a
        fold the history is shown as received, also if the same question was answered meanwhile.
        """
        history = self._history
        if history is None or conversation.view.next_seq == len(history) or self._is_answered(conversation):
            return conversation
        await self._settled()
        own = await self._runtime.conversation(self.session or conversation.session)
        if own.view.next_seq != len(history):
            own = await self._sync(history.raw, history.dialect)
        if own.target != conversation.target:
            await own.use_model(conversation.target)
        return own

    async def peek(self, items: Sequence[Any], dialect: DialectName) -> list[Any] | None:
        """How a history would be shown by its fold in the store: written items, and the places of the others.

        None if nothing of it is folded. Nothing is stored: for a request that is only counted.
        """
        history, store = History(dialect), self._runtime.store
        messages, own = await self._read(history, items), history.items
        found = await store.find_history(messages, self._new)
        if found is None or found.count < (await store.session(found.session)).first_seq:
            return None
        view = await store.view(found.session)
        if view.base is None:
            return None
        rows = [at for at, seq in enumerate(view.seqs) if seq is None or at in view.written or seq < found.count]
        shown = [_shown_item(history, view.messages[at], view.seqs[at], at in view.written) for at in rows]
        return history.places([*shown, *own[found.count :]])

    def show(self, conversation: Conversation) -> list[Any]:
        """The view of a conversation that was taken, as items to send now."""
        changed = self.show_if_changed(conversation)
        return (
            list(self.items) if changed is None else [self.items[it] if isinstance(it, int) else it for it in changed]
        )

    def show_if_changed(self, conversation: Conversation) -> list[Any] | None:
        """The same as written items, and the places of unchanged ones; None if all are unchanged.

        `StaleHistory` if the view has other messages than the history: `own` gives one that has not.
        """
        self._share_messages(conversation)
        view, history = conversation.view, self._history
        self._sent = len(conversation.messages)
        assert history is not None
        rows = list(zip(view.messages, view.seqs, strict=True))
        if self._is_answered(conversation):
            rows = rows[: len(history)]
            self._sent = len(rows)
        elif view.next_seq != len(history):
            raise StaleHistory(conversation.session, len(history), view.next_seq)
        if view.base is None and self._sent == len(history):
            return None
        written = view.stored.written
        return history.places(
            _shown_item(history, message, seq, at in written) for at, (message, seq) in enumerate(rows)
        )

    def _is_answered(self, conversation: Conversation) -> bool:
        """Whether an unfolded conversation has more messages behind the history."""
        return (
            self._history is not None
            and conversation.view.base is None
            and conversation.view.next_seq > len(self._history)
        )

    async def observe(self, usage: CanonicalUsage, *, direct: CanonicalUsage | None = None) -> None:
        """Take in the real usage of the request of the last `fit`: it corrects the count, and is recorded.

        `direct` is the usage that the history as received would have had; with it, the savings are recorded, too.
        """
        conversation = await self._conversation()
        if conversation is not None:
            conversation.observe_usage(usage, self._sent, ())
            call = call_of(usage, conversation.target, self._runtime.options.source, direct=direct)
            await self._runtime.store.record_call(conversation.session, call)

    def place_of(self, number: int) -> int:
        """The wire item that a message begins at; the end for one that is not known yet."""
        return self._history.place_of(number) if self._history else 0

    def count_from(self, place: int) -> int:
        """How many messages of the history begin at or behind this wire item."""
        total = len(self._history) if self._history else 0
        return next((count for count in range(total) if self.place_of(total - count - 1) < place), total)

    @property
    def taken(self) -> TakenHistory | None:
        """The known history; None without one."""
        if self._history is None or self.session is None or not self._history.items:
            return None
        items = self._history.items
        return TakenHistory(self._syncs, len(items), items[-1].digest)

    async def record(
        self,
        items: Sequence[Any],
        usage: CanonicalUsage | None,
        call: ModelCall | None,
        taken: TakenHistory | None = None,
    ) -> bool:
        """Record the reply to the request for the history `taken`, by default the known one, as items of the wire.

        False if the history has continued without it. If it cannot be stored, it may be recorded again.
        """
        history, session = self._history, self.session
        if history is None or session is None or not items or (taken or self.taken) != self.taken:
            return False
        await self._settled()
        conversation = await self._runtime.conversation(self.session or session)
        if conversation.view.next_seq != len(history) or len(conversation.messages) != self._sent:
            return False
        if usage is not None:
            conversation.observe_usage(usage, self._sent, ())
        known, shown = len(history), len(history.raw)
        try:
            await conversation.append(_to_store(history, history.extend(items)), call, after=known)
        except ClewError:
            history.cut(shown)
            raise
        return True

    async def compact(self, focus: str | None = None) -> bool:
        """Fold now, at any size; False if nothing could be folded."""
        conversation = await self._conversation()
        done = None if conversation is None else await conversation.compact_now(focus)
        return done is not None and done.changed

    async def undo(self) -> bool:
        """Undo the newest compaction; False if none is in effect."""
        conversation = await self._conversation()
        return conversation is not None and await conversation.undo_compaction()

    async def _conversation(self) -> Conversation | None:
        """None before the first call, if no session was given."""
        return None if self.session is None else await self._runtime.conversation(self.session)

    async def stored(self) -> list[Message]:
        """The whole history of the store."""
        store = self._runtime.store
        if self.session is None:
            return []
        return [row.message for row in await store.messages((await store.resume(self.session)).id)]

    async def compactions(self) -> list[CommittedCompaction]:
        """The compactions of the whole conversation, oldest first; undone ones are not `is_in_effect`."""
        return [] if self.session is None else await self._runtime.store.compactions(self.session)

    async def recall(self, query: str, around: str = "", chars: int | None = None) -> list[RecalledMessage]:
        """Messages of the history, in view or not: named by a text (m12, m12-m20), or found by its words."""
        store = self._runtime.store
        if self.session is None:
            return []
        if is_message_name(query):
            page = await open_messages(store, self.session, query, words=around, chars=chars)
            return [RecalledMessage(it.number, it.message, _shown(it)) for it in page.messages]
        scope = SearchScope(conversation_of=self.session, kinds=("message",))
        recalled = []
        for found in (await search_history(store, query, scope)).hits:
            if found.hit.seq is not None:
                (row,) = await store.messages(self.session, found.hit.seq, found.hit.seq + 1)
                text = "\n".join(f"{name}: {text}" if name else text for name, text in found_texts(found))
                recalled.append(RecalledMessage(found.hit.seq, row.message, text))
        return recalled

    # -- the history ---------------------------------------------------------------------------------------------------

    async def _take(self, items: Sequence[Any], dialect: DialectName, *, is_beside: bool) -> Conversation:
        """Store what is new in a history, and return its conversation."""
        await self._settled()
        history = self._history
        self.is_branch = False
        known = history.follow(items) if history is not None and history.dialect == dialect else None
        if known is None or self.session is None or history is None:
            return await self._sync(items, dialect)
        try:
            conversation = await self._runtime.conversation(self.session)
            await conversation.settled()
            await conversation.follow_store()
        except UnknownSession:
            return await self._sync(items, dialect)
        if conversation.view.next_seq != known:
            return await self._sync(items, dialect)
        new = _to_store(history, history.items[known:])
        if is_beside and new and not any(it.message["role"] == "assistant" for it in new):
            writing = conversation.append_beside(new)
            conversation.writing = asyncio.create_task(self._keep(writing, self.session, history))
            self._writing = conversation.writing
            return conversation
        try:
            await conversation.append(new, after=known)
        except (StaleHistory, UnknownSession):  # another process has written to it, or it was deleted
            return await self._sync(items, dialect)
        if conversation.session != self.session:
            self.session, self._shown = conversation.session, None
        return conversation

    async def _keep(self, writing: asyncio.Task[None], session: str, history: History) -> None:
        """Store the new messages, as a branch if another process has written to the conversation meanwhile."""
        store = self._runtime.store
        try:
            await writing
        except (StaleHistory, UnknownSession) as problem:
            is_deleted = isinstance(problem, UnknownSession)
            messages, known = _to_store(history, history.items), None if is_deleted else session
            self._branch = (await store.sync(messages, session=known, new=self._new, is_exact=True)).session

    @property
    def is_writing(self) -> bool:
        """Whether messages wait to be stored."""
        return self._writing is not None and not self._writing.done()

    async def written(self) -> None:
        """Wait until the new messages are stored, or that failed. Needs no lock."""
        if self._writing is not None:
            await asyncio.wait({self._writing})

    async def _settled(self) -> None:
        """The same, and continue in the session in which they are stored."""
        await self.written()
        if self._branch is not None:
            self.session, self._branch, self._shown = self._branch, None, None
            conversation = await self._runtime.conversation(self.session)
            self._share_messages(conversation)
            self._sent = len(conversation.messages)

    async def _sync(self, items: Sequence[Any], dialect: DialectName) -> Conversation:
        """Look the whole history up: at the first call, and if it does not begin with the known one."""
        history = History(dialect)
        messages = await self._read(history, items)
        try:
            synced = await self._runtime.store.sync(messages, session=self.session, new=self._new, is_exact=True)
        except UnknownSession:
            # The conversation was deleted: its history begins a new one.
            if self.session is None:
                raise
            await self._runtime.forget(self.session)
            self.session = None
            synced = await self._runtime.store.sync(messages, new=self._new, is_exact=True)
        self.is_branch = synced.is_branch
        self._syncs += 1
        if self.session is not None and synced.session != self.session:
            await self._runtime.forget(self.session)
        self.session, self._history, self._shown = synced.session, history, None
        conversation = await self._runtime.conversation(self.session)
        await conversation.follow_sync(synced, messages)
        self._share_messages(conversation)
        return conversation

    async def _read(self, history: History, items: Sequence[Any]) -> list[NewMessage]:
        """Read the first wire items of a history; its messages as the store takes them."""
        is_large = len(items) > MANY_MESSAGES
        return await self._runtime.in_thread(lambda: _to_store(history, history.extend(items)), when=is_large)

    def _share_messages(self, conversation: Conversation) -> None:
        """Put the messages of the history in place of those that the view has read from the store."""
        view, history = conversation.view, self._history
        self.session = conversation.session
        if history is None or view.stored is self._shown:
            return
        messages = [
            history.items[seq].message
            if seq is not None and seq < len(history) and at not in view.stored.written
            else it
            for at, (it, seq) in enumerate(zip(view.messages, view.seqs, strict=True))
        ]
        view.adopt(messages)
        self._shown = view.stored


def _shown_item(history: History, message: Message, seq: int | None, is_written: bool) -> Item:
    """A message in view as an item: as received, in a shorter form, or a new one."""
    if seq is None or seq >= len(history):
        return Item(message)
    return history.items[seq].changed_to(message) if is_written else history.items[seq]


def _to_store(history: History, items: Sequence[Item]) -> list[NewMessage]:
    """Items of a history as new messages, with the wire items that they were read from."""
    return [
        NewMessage(it.message, digest=it.digest)
        if it.is_its_wire_item
        else NewMessage(it.message, dialect=history.dialect, items=it.raw, part=it.part, digest=it.digest)
        for it in items
    ]
