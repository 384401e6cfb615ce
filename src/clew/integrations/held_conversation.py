"""A conversation of another program in Clew's store: new messages are added, folds are made and recognised.

After a fold the program holds the folded list and continues behind it, so what it gives is no history. `HeldMessages`
knows which message of the history each of them is; with it the history is put together again, and a list that the
program read from its own files after a restart is recognised. A program that gives its whole history each time is
recognised by the beginning of it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from clew.agent.safe_text import fenced
from clew.agent.tools import CallContext, ToolResult
from clew.agent.tools.recall import RecallTool
from clew.engines import Compaction, ContextEngine, EngineFactory, EngineStatus
from clew.errors import UnknownSession
from clew.handoff import Summarize, Summary, SummaryInput, unwrap
from clew.messages import Message, calls_of, text_of
from clew.store import CompactionEntry, NewSession, Rows, Store
from clew.turn import Conversation, ModelTarget, ProjectedConversation, Runtime, RuntimeOptions, call_of
from clew.usage import CanonicalUsage

_PERSISTED = "_db_persisted"
"""Hermes marks what it has written to its session; a copy that keeps the mark would be missing in the next one."""
_SUMMARY_FLAG = "_compressed_summary"
"""Hermes' screens show messages with this flag as summaries."""


@dataclass(frozen=True, slots=True)
class FoldRequest:
    """A compaction that Hermes asks for."""

    tokens: int | None = None
    """The size of the whole request as far as Hermes knows it, system prompt and tools included."""
    focus: str | None = None
    force: bool = False
    memory: str = ""
    """Text of Hermes' memory providers for the handoff."""


@dataclass(frozen=True, slots=True)
class FoldResult:
    """The result of a fold of a list of messages."""

    messages: list[dict[str, Any]]
    compaction: Compaction | None
    status: EngineStatus
    numbers: Sequence[int | None] = ()
    """The number of each message in the history; None for a summary."""
    places: Sequence[int | None] = ()
    """The place of each message in the given list; None for a changed or new one."""

    @property
    def changed(self) -> bool:
        return self.compaction is not None and self.compaction.changed


class HeldMessages:
    """The messages that a program holds, the history they represent, and the number of each in it."""

    def __init__(
        self,
        held: Sequence[Mapping[str, Any]] = (),
        numbers: Sequence[int | None] = (),
        history: Sequence[Message] = (),
    ) -> None:
        self.history: list[Message] = list(history)
        self.numbers: list[int | None] = list(numbers)
        """The number of each held message in the history; None for a summary."""
        self.held: list[Mapping[str, Any]] = list(held)
        self.places: list[int | None] = []
        """The place of each message of a fold in the list before it; None for one that the fold wrote."""

    def follow(self, messages: Sequence[Mapping[str, Any]]) -> bool:
        """Take over the current list of the program; False if it differs from the known list up to its last summary.

        Messages that were removed or edited are cut off and replaced: the store makes a branch.
        """
        same = self.count_same(messages)
        if same < len(self.held):
            place = self.numbers[same]
            if same == 0 or place is None or _holds_summary(self.held[same]):
                return False
            del self.held[same:], self.numbers[same:], self.history[place:]
        self.held[:same] = messages[:same]
        for message in messages[same:]:
            self.numbers.append(len(self.history))
            self.held.append(message)
            self.history.append(without_private_keys(message))
        return True

    @classmethod
    def after(cls, fold: CompactionEntry, history: Sequence[Message]) -> HeldMessages:
        """The list of a program that took this fold and then the rest of the history."""
        held: list[Message] = []
        numbers: list[int | None] = []
        for item in (*fold.view, Rows(fold.until, len(history))):
            if isinstance(item, Rows):
                held += history[item.start : item.stop]
                numbers += range(item.start, item.stop)
            else:
                held.append(item.message)
                numbers.append(item.seq)
        return cls(held, numbers, history)

    @classmethod
    def whole(cls, history: Sequence[Message]) -> HeldMessages:
        """The list of a program that took no fold."""
        return cls(history, range(len(history)), history)

    def replace(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Take over a list that the program compacted: the messages it kept are found by the end of the history.

        Unknown messages before and behind those, such as its summary, are appended to the history.
        """
        start, count = self._overlap(messages)
        known = len(self.history)
        places = {_identity(message): at for at, message in enumerate(self.history[: known - count])} if count else {}
        self.held, self.numbers = list(messages), []
        for at, message in enumerate(messages):
            if start <= at < start + count:
                self.numbers.append(known - count + at - start)
            elif at < start and (place := places.get(_identity(message))) is not None:
                self.numbers.append(place)
            else:
                self.numbers.append(len(self.history))
                self.history.append(without_private_keys(message))

    def _overlap(self, messages: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
        """The start and the length of the longest end of the history in a list."""
        longest = (0, 0)
        known = [_identity(message) for message in self.history[-len(messages) :]]
        given = [_identity(message) for message in messages]
        for end in range(len(given), 0, -1):
            pairs = zip(reversed(known), reversed(given[:end]), strict=False)
            count = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            longest = max(longest, (end - count, count), key=lambda found: found[1])
        return longest

    def starts(self, messages: Sequence[Mapping[str, Any]]) -> bool:
        """Whether a list begins with everything up to the last summary that is held; with anything, without one."""
        written = (number is None or _holds_summary(held) for number, held in zip(self.numbers, self.held, strict=True))
        last = max((at for at, is_ours in enumerate(written) if is_ours), default=0)
        return self.count_same(messages) > last

    def show(self, shown: Sequence[Message], numbers: Sequence[int | None]) -> list[dict[str, Any]]:
        """The messages of a fold as the program gets them: its own objects where they are unchanged."""
        own = {number: held for number, held in zip(self.numbers, self.held, strict=True) if number is not None}
        was = {number: place for place, number in enumerate(self.numbers) if number is not None}
        folded: list[dict[str, Any]] = []
        self.places = []
        for message, number in zip(shown, numbers, strict=True):
            is_whole = number is not None and number in own and message is self.history[number]
            original: Mapping[str, Any] = own[number] if is_whole and number is not None else message
            copy = {key: value for key, value in original.items() if key != _PERSISTED}
            self.places.append(was[number] if is_whole and number is not None else None)
            is_ours = number is None or (not is_whole and _holds_summary(message))
            folded.append({**copy, _SUMMARY_FLAG: True} if is_ours else copy)
        self.held, self.numbers = list(folded), list(numbers)
        return folded

    def count_same(self, messages: Sequence[Mapping[str, Any]]) -> int:
        """How many messages of a list are those that are held, from the first on."""
        known = self.held
        if len(messages) >= len(known) and list(messages[: len(known)]) == known:
            return len(known)
        pairs = enumerate(zip(known, messages, strict=False))
        differs = (at for at, (old, new) in pairs if not _is_same(old, new))
        return next(differs, min(len(known), len(messages)))


class HeldConversation:
    """One conversation of another program. Calls may come from any task: each waits for the one before it."""

    def __init__(
        self,
        store: Store,
        options: RuntimeOptions,
        target: ModelTarget,
        name: str,
        source: str = "hermes",
        *,
        imported: str | None = None,
        compacts_own_list: bool = False,
    ) -> None:
        self._source = source
        self._imported = imported
        """The session that an import made of the same conversation, if there was one."""
        self._compacts_own_list = compacts_own_list
        """Whether a list with an unknown beginning is one that the program compacted, and no other conversation."""
        self.name = name
        """The session in the store that it began in."""
        self.engine: ContextEngine | None = None
        """The engine of the open conversation; None before its first message."""
        self._store = store
        self._memory = ""
        self._target = target
        options = replace(options, new_engine=self._with_memory(options.new_engine))
        self._runtime = Runtime(store, target, options)
        self._projected = ProjectedConversation(self._runtime, self._new(name))
        self._held: HeldMessages | None = None
        self._calls: list[tuple[CanonicalUsage, ModelTarget]] = []
        """Usage of calls from before the session existed."""
        self._recall = RecallTool(store, "clew_recall")
        self._lock = asyncio.Lock()

    @property
    def session(self) -> str | None:
        return self._projected.session

    async def record(self, messages: Sequence[Mapping[str, Any]], target: ModelTarget) -> EngineStatus:
        """Bring what is new into the store."""
        async with self._lock:
            return (await self._take(messages, target)).engine.get_status()

    async def fold(self, messages: list[dict[str, Any]], request: FoldRequest, target: ModelTarget) -> FoldResult:
        """Compact now; returns the same list object if nothing was changed."""
        async with self._lock:
            conversation = await self._take(messages, target)
            self._memory = request.memory
            try:
                done = await conversation.compact_now(request.focus, tokens=request.tokens, force=request.force)
            finally:
                self._memory = ""
            if done is None or not done.changed:
                return FoldResult(messages, done, conversation.engine.get_status())
            assert self._held is not None
            shown = self._projected.show(conversation)
            folded = self._held.show(shown, conversation.view.seqs)
            numbers, places = tuple(self._held.numbers), tuple(self._held.places)
            return FoldResult(folded, done, conversation.engine.get_status(), numbers, places)

    async def stored(self) -> list[Message]:
        """The history as the store has it; empty where nothing is known of it."""
        try:
            tip = (await self._store.resume(self.name)).id
        except UnknownSession:
            return []
        return [row.message for row in await self._store.messages(tip)]

    async def add_usage(self, usage: CanonicalUsage, target: ModelTarget) -> None:
        """The usage of a call of the model, for the account of the session."""
        async with self._lock:
            self._calls.append((usage, target))
            if self.engine is not None:
                self.engine.update_from_response(usage)
                await self._store_calls()

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """A recall, or a tool of the engine; LookupError for any other."""
        async with self._lock:
            if name == self._recall.name:
                return await self.recall(arguments)
            if self.engine is None:
                raise LookupError(name)
            return ToolResult(await self.engine.handle_tool_call(name, arguments))

    async def recall(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Search the conversation, or open messages of it; those of an earlier process too."""
        session = self.session
        if session is None:
            try:
                session = (await self._store.resume(self.name)).id
            except UnknownSession:
                return ToolResult("Nothing of this conversation is kept yet.", is_error=True)
        return await self._recall.run(arguments, CallContext(session, ""))

    async def close(self) -> None:
        await self._runtime.close()

    async def _take(self, messages: Sequence[Mapping[str, Any]], target: ModelTarget) -> Conversation:
        if self._held is None or not self._held.follow(messages):
            self._held = await self._restored(messages)
        conversation = await self._projected.take(self._held.history, "openai_chat", target)
        if self.engine is not conversation.engine:
            self.engine = conversation.engine
        await self._store_calls()
        return conversation

    async def _restored(self, messages: Sequence[Mapping[str, Any]]) -> HeldMessages:
        """The conversation as the store has it, with this list as the one that the program holds."""
        tip = await self._tip(messages)
        if tip is None:
            self._projected = ProjectedConversation(self._runtime, self._new(self.name))
            held = HeldMessages()
            held.follow(messages)
            return held
        history = [row.message for row in await self._store.messages(tip)]
        # A program may hold an earlier fold: the newest was undone, or its answer arrived too late.
        folds = [HeldMessages.after(fold.entry, history) for fold in reversed(await self._store.compactions(tip))]
        for held in (*folds, HeldMessages.whole(history)):
            if held.starts(messages) and held.follow(messages):
                self._projected = ProjectedConversation(self._runtime, self._new(None), session=tip)
                return held
        if self._compacts_own_list:
            self._projected = ProjectedConversation(self._runtime, self._new(None), session=tip)
            held = HeldMessages.whole(history)
            held.replace(messages)
            return held
        # An unrelated list: it becomes a new session, or a branch behind the longest known beginning.
        self._projected = ProjectedConversation(self._runtime, self._new(None))
        held = HeldMessages()
        held.follow(messages)
        return held

    async def _tip(self, messages: Sequence[Mapping[str, Any]]) -> str | None:
        """The newest session of the conversation; where it was imported, a branch behind what both have."""
        with contextlib.suppress(UnknownSession):
            return (await self._store.resume(self.name)).id
        if self._imported is not None:
            with contextlib.suppress(UnknownSession):
                rows = await self._store.messages(self._imported)
                same = HeldMessages.whole([row.message for row in rows]).count_same(messages)
                if same:
                    return (await self._store.branch(self._imported, same, new_id=self.name)).id
        return None

    def _new(self, name: str | None) -> NewSession:
        return NewSession(id=name, source=self._source, model=self._target.model, lineage=self.name)

    async def _store_calls(self) -> None:
        session = self._projected.session
        while self._calls and session is not None:
            usage, target = self._calls[0]
            await self._store.record_call(session, call_of(usage, target, self._runtime.options.source))
            del self._calls[0]

    def _with_memory(self, make: EngineFactory) -> EngineFactory:
        """Engines whose summaries contain the text of Hermes' memory providers."""

        def make_engine(setup: Any) -> ContextEngine:
            engine = make(setup)
            write = engine.summarize
            if write is not None:
                engine.summarize = self._remembering(write)
            return engine

        return make_engine

    def _remembering(self, write: Summarize) -> Summarize:
        async def summarize(source: SummaryInput, budget: int) -> Summary:
            summary = await write(source, budget)
            if not self._memory:
                return summary
            return replace(summary, text=f"{summary.text}\n\n{_memory_part(self._memory)}")

        return summarize


def without_private_keys(message: Mapping[str, Any]) -> Message:
    """A message without the private keys of Hermes."""
    return {key: value for key, value in message.items() if not key.startswith("_")}  # type: ignore[return-value]


def compression_root(get_session: Callable[[str], Mapping[str, Any] | None], session: str) -> str:
    """The session of Hermes that a chain of compactions began with."""
    seen = {session}
    while True:
        parent = (get_session(session) or {}).get("parent_session_id")
        above = get_session(parent) if parent else None
        if not parent or parent in seen or not above or above.get("end_reason") != "compression":
            return session
        seen.add(parent)
        session = parent


def _memory_part(text: str) -> str:
    return f"## From the memory of the host\n{fenced('memory', text)}"


def _holds_summary(message: Mapping[str, Any]) -> bool:
    # Where neither role fits between head and tail, a handoff is merged into the first message behind it.
    return unwrap(message) is not None  # type: ignore[arg-type]


def _is_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return one is other or _identity(one) == _identity(other)


def _identity(message: Mapping[str, Any]) -> tuple[Any, ...]:
    # Hermes' own database gives texts back without the spaces around them, and keys that were not there before.
    plain: Message = message  # type: ignore[assignment]
    called = tuple(call.get("id") for call in calls_of(plain))
    return (message.get("role"), text_of(plain).strip(), called, message.get("tool_call_id"))
