"""The runtime of turns: a store, a model, an engine for each conversation, and the open conversations."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable
from pathlib import Path

from clew.config import Settings
from clew.engines import ContextEngine, EngineSetup, SessionStart
from clew.errors import StoreError
from clew.events import Events, Notice
from clew.handoff import ModelSummarizer, Summary, SummaryInput, summarize_builtin
from clew.store import Store
from clew.tokens import Calibration, counter_for
from clew.tooloutput import SpillFolder
from clew.turn.automatic_recall import AutomaticRecall
from clew.turn.compaction import CompactionPreparer
from clew.turn.conversation import CALIBRATION_STATE, ENGINE_STATE, PINS_STATE, Conversation
from clew.turn.engine_host import StoreEngineHost
from clew.turn.request import MANY_MESSAGES, ModelTarget, RuntimeOptions, ServingModel, TurnServices
from clew.turn.summary_models import question_model, summary_models
from clew.turn.view import ConversationView, pins_from_plain, prompt_message


class Runtime(TurnServices):
    """Opens conversations and keeps them open. Built by a host of turns: library, agent, gateway."""

    def __init__(
        self, store: Store, target: ModelTarget, options: RuntimeOptions, events: Events | None = None
    ) -> None:
        super().__init__(store, options, events)
        self.target = target
        """The model of conversations that are opened from now on."""
        self._open: dict[str, Conversation] = {}
        """By every session of theirs that was requested."""
        self._opening = asyncio.Lock()

    async def conversation(self, session: str) -> Conversation:
        """The conversation of a session, at its newest continuation; the same object while it is open."""
        found = self._open.get(session)
        if found is not None:
            return found
        async with self._opening:
            tip = (await self.store.resume(session)).id
            conversation = self._find(tip) or await self._load(tip)
            self._open[session] = self._open[tip] = conversation
            await self._close_idle(conversation)
        return conversation

    @property
    def targets(self) -> tuple[ModelTarget, ...]:
        """The models of open conversations, and the one for new ones."""
        return (self.target, *(conversation.target for conversation in self._open.values()))

    @property
    def is_at_work(self) -> bool:
        """Whether a turn, a compaction or a preparation is running in any conversation."""
        return any(it.is_in_use or it.preparer.task is not None for it in self._open.values())

    async def end(self, session: str, reason: str = "done") -> None:
        """End a session for good, and close its conversation."""
        conversation = await self.conversation(session)
        conversation.engine.on_session_end(conversation.session)
        await self.forget(session)
        await self.store.end_session(conversation.session, reason)

    async def forget(self, session: str) -> None:
        """Close a conversation, which stays in the store. Its preparations are cancelled, and their cost is stored.

        If that cannot be stored, the conversation stays open.
        """
        conversation = self._find(session)
        if conversation is None:
            return
        names = [name for name, other in self._open.items() if other is conversation]
        for name in names:
            del self._open[name]
        try:
            await conversation.close()
        except StoreError:
            for name in names:
                self._open.setdefault(name, conversation)
            raise

    async def close(self) -> None:
        """Close every conversation."""
        for session in list(self._open):
            await self.forget(session)
        self._threads.shutdown(wait=False)

    def _find(self, session: str) -> Conversation | None:
        """The open conversation of a session, also of one in which a compaction continued it."""
        return self._open.get(session) or next((it for it in self._open.values() if it.session == session), None)

    async def _close_idle(self, used: Conversation) -> None:
        while len(self._open) > self.options.max_open:
            idle = (name for name, it in self._open.items() if it is not used and not it.is_in_use)
            oldest = next(idle, None)
            if oldest is None:
                return
            try:
                await self.forget(oldest)
            except StoreError as problem:
                # It is closed later: opening the other one succeeds.
                self.tell(Notice(f"A conversation could not be closed: {problem}"))
                return

    # -- opening -------------------------------------------------------------------------------------------------------

    async def _load(self, session: str) -> Conversation:
        stored, state = await self.store.view(session), await self.store.state(session)
        model = await self.serving(self.target)
        chain = await self.store.sessions_of(stored.conversation)
        prompt = prompt_message(await self.store.system_prompt(session))
        pins, is_large = pins_from_plain(state.get(PINS_STATE)), len(stored.messages) > MANY_MESSAGES
        view = await self.in_thread(ConversationView, stored, self.target.model, prompt, pins, when=is_large)
        view.size.calibration = Calibration.from_plain(state.get(CALIBRATION_STATE + self.target.model))

        def opened() -> Conversation:
            found = reference()
            assert found is not None  # an engine is used only while its conversation is open
            return found

        # The summariser reads model and window of the conversation, which is constructed with the engine. The reference
        # is weak, so that the memory of a closed conversation is free at once.
        engine = self._engine(model, opened)
        conversation = Conversation(
            services=self,
            root=chain[0].id,
            model=model,
            view=view,
            engine=engine,
            preparer=CompactionPreparer(self, engine, view),
            engine_sees_all=stored.next_seq == 0,
            stored_state=state.get(ENGINE_STATE + engine.name),
            recall=self._recall(view, chain[0].owner),
        )
        reference = weakref.ref(conversation)
        host = StoreEngineHost(self.store, view, engine.name, offers_tools=self.options.offers_engine_tools)
        engine.on_session_start(SessionStart(session, state=conversation.stored_state or {}, host=host))
        return conversation

    def _recall(self, view: ConversationView, owner: str) -> AutomaticRecall | None:
        """Automatic recall, if configured; never in sessions of other owners."""
        is_on = self.options.settings.recall.automatic != "off"
        return AutomaticRecall(self, view) if is_on and owner == "" else None

    def _engine(self, model: ServingModel, conversation: Callable[[], Conversation]) -> ContextEngine:
        async def summarize(source: SummaryInput, budget: int) -> Summary:
            # Chosen again for each summary: windows are learnt, and caches expire.
            models = summary_models(conversation(), source, budget)
            count = counter_for(models[0].name if models else conversation().target.model).text
            is_by_model = self.options.models_ahead_only and conversation().preparer.asks_model
            if not models and not is_by_model:
                return await self.in_thread(summarize_builtin, source, budget, count)
            write = ModelSummarizer(
                models, count, sleep=self.options.sleep, falls_back=not is_by_model, compute=self.in_thread
            )
            return await write(source, budget)

        async def ask(prompt: str, max_tokens: int) -> str:
            return await question_model(conversation()).complete(prompt, max_tokens)

        has_model = self.options.summarizes
        setup = EngineSetup(
            model.window.tokens,
            model.target.model,
            model.max_output,
            self.options.settings.compression,
            summarize if has_model else None,
            self.options.settings.lossless,
            ask if has_model else None,
            compute=self.in_thread,
        )
        return self.options.new_engine(setup)


def spill_folder(home: Path, settings: Settings) -> SpillFolder:
    """The folder of spilled results under the Clew home, with the configured quota and age."""
    limits = settings.tool_output
    return SpillFolder(home / "outputs", limits.quota_mb * 1024 * 1024, limits.max_age_days * 86_400.0)
