"""What turns run on: a store, a model, an engine for each conversation, and the conversations that are live.

Built by whoever hosts turns (library, agent, gateway). Knows how a conversation comes to life and how it is let go.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from clew.config import Settings
from clew.engines import ContextEngine, EngineFactory, EngineSetup, SessionStart
from clew.events import Event, Events, Notice
from clew.messages import Message
from clew.store import CallSource, Store, View
from clew.summaries import Cooldowns
from clew.tokens import Calibration, LearntLimits, Window, window_of
from clew.tooloutput import OutputLimits, SpillFolder
from clew.turn.live import LiveConversation
from clew.turn.pins import PINS_STATE, pins_from_plain
from clew.turn.summarizer import summarizer_for
from clew.turn.target import Target, window_for

ENGINE_STATE = "engine."
"""Before the name of an engine: where the store keeps what it must remember."""
CALIBRATION_STATE = "calibration."
"""Before the name of a model: what its real usage taught about our count."""


@dataclass(frozen=True, slots=True)
class Host:
    """What whoever hosts turns decides once."""

    new_engine: EngineFactory
    spill: SpillFolder
    settings: Settings = field(default_factory=Settings)
    source: CallSource = "library"
    auxiliary: Target | None = None
    """Writes summaries; None: the main model does."""
    summarizes: bool = True
    """False: no model writes summaries, the built-in summariser does."""
    learnt: LearntLimits | None = None
    lease_seconds: float = 120.0
    most_live: int = 512
    """So many conversations are kept live; the longest unused are let go, and loaded again when asked for."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    before_switch: Callable[[str], Awaitable[str | None]] | None = None
    """Called with the old session before a compaction ends it: memory is committed there.

    Gives the system prompt of the continuation, where it shall be another one: the prefix moves in any case.
    """
    after_switch: Callable[[str, str], Awaitable[None]] | None = None
    """Called with the old session and the one that continues it: a compaction, not a new conversation."""

    @property
    def output_limits(self) -> OutputLimits:
        limits = self.settings.tool_output
        return OutputLimits(limits.max_result_chars, limits.max_turn_chars, limits.preview_chars)


class Runtime:
    """Runs the turns of any number of conversations."""

    def __init__(self, store: Store, target: Target, host: Host, events: Events | None = None) -> None:
        self.store = store
        self.target = target
        self.host = host
        self.events = events or Events()
        self.holder = f"clew-{secrets.token_hex(8)}"
        """Who takes leases."""
        self._live: dict[str, LiveConversation] = {}
        self._loading = asyncio.Lock()

    def tell(self, event: Event) -> None:
        self.events.tell(event)

    async def conversation(self, session: str) -> LiveConversation:
        """The conversation of a session, at its newest continuation; the same object for as long as it is live."""
        live = self._live.get(session)
        if live is not None:
            return live
        async with self._loading:
            tip = await self.store.resume(session)
            live = self._live.get(tip.id) or await self._load(tip.id)
            self._remember(session, live)
            await self._let_idle_go(live)
        return live

    @property
    def targets(self) -> tuple[Target, ...]:
        """The models that conversations talk to, and the one for new ones."""
        return (self.target, *(live.target for live in self._live.values()))

    @property
    def is_at_work(self) -> bool:
        """Whether a turn, a compaction or a preparation is under way anywhere."""
        return any(live.is_in_use or live.preparation is not None for live in self._live.values())

    async def use_model(self, session: str, target: Target) -> None:
        """Another model from the next turn on; a smaller window is met there by a compaction."""
        live = await self.conversation(session)
        live.use(target, await self._window(target))
        await self.store.set_model(live.session, target.model)

    async def reload(self, live: LiveConversation) -> None:
        """Read the view again: others have written to the conversation."""
        tip = await self.store.resume(live.session)
        live.observes = False
        live.prompt = _as_message(await self.store.system_prompt(tip.id))
        live.pins = pins_from_plain((await self.store.state(tip.id)).get(PINS_STATE))
        live.show(await self.store.view(tip.id))
        self._remember(tip.id, live)

    def follow(self, live: LiveConversation) -> None:
        """A conversation went on in a continuation: its old sessions lead to it too."""
        self._remember(live.session, live)

    async def save_memory(self, live: LiveConversation) -> None:
        """Let the store keep what the engine must not forget, where that is new."""
        memory = dict(live.engine.memory)
        if memory != live.saved_memory:
            learnt = {CALIBRATION_STATE + live.target.model: live.size.calibration.as_plain()}
            await self.store.set_state(live.session, {ENGINE_STATE + live.engine.name: memory, **learnt})
            live.saved_memory = memory

    async def end(self, session: str, reason: str = "done") -> None:
        """End a session for good, and let it go."""
        live = await self.conversation(session)
        live.engine.on_session_end(live.session)
        await self.forget(session)
        await self.store.end_session(live.session, reason)

    async def forget(self, session: str) -> None:
        """Let a conversation go; the store has all of it."""
        live = self._live.get(session)
        if live is None:
            return
        for name in [name for name, other in self._live.items() if other is live]:
            del self._live[name]
        await self._rest(live)

    async def close(self) -> None:
        """Let every conversation go."""
        for session in list(self._live):
            await self.forget(session)

    # -- coming to life ------------------------------------------------------------------------------------------------

    async def _load(self, session: str) -> LiveConversation:
        view = await self.store.view(session)
        window = await self._window(self.target)
        chain = await self.store.sessions_of(view.conversation)
        live = LiveConversation(
            root=chain[0].id,
            prompt=_as_message(await self.store.system_prompt(session)),
            target=self.target,
            window=window,
            view=view,
            observes=view.next_seq == 0,
        )
        live.engine = self._engine(live)
        await self._remind(live, view)
        self._remember(session, live)
        return live

    def _engine(self, live: LiveConversation) -> ContextEngine:
        cooldowns = Cooldowns()

        def targets() -> Sequence[tuple[Target, Window]]:
            main = (live.target, live.window)
            own = self.host.auxiliary
            return [main] if own is None else [(own, self._auxiliary_window(own)), main]

        write = None
        if self.host.summarizes:
            write = summarizer_for(targets, cooldowns, live.calls.append, self.host.sleep)
        setup = EngineSetup(
            live.window.tokens,
            live.target.model,
            live.target.max_tokens or live.window.max_output,
            self.host.settings.compression,
            write,
            cooldowns,
        )
        return self.host.new_engine(setup)

    def _auxiliary_window(self, target: Target) -> Window:
        return window_of(
            target.model,
            base_url=target.base_url,
            configured=target.context_length,
            learnt=self.host.learnt,
            endpoint=target.endpoint,
        )

    async def _remind(self, live: LiveConversation, view: View) -> None:
        state = await self.store.state(view.session)
        memory = state.get(ENGINE_STATE + live.engine.name) or {}
        live.saved_memory = memory or None
        live.size.calibration = Calibration.from_plain(state.get(CALIBRATION_STATE + live.target.model))
        live.use_pins(pins_from_plain(state.get(PINS_STATE)))
        live.engine.on_session_start(SessionStart(view.session, memory=memory))

    async def _window(self, target: Target) -> Window:
        window = await window_for(target, self.store, self.host.learnt)
        if window.notice:
            self.tell(Notice(window.notice))
        return window

    def _remember(self, session: str, live: LiveConversation) -> None:
        for name in (session, live.session):
            self._live.pop(name, None)
            self._live[name] = live

    async def _let_idle_go(self, used: LiveConversation) -> None:
        while len(self._live) > self.host.most_live:
            idle = (name for name, live in self._live.items() if live is not used and not live.is_in_use)
            oldest = next(idle, None)
            if oldest is None:
                return
            await self.forget(oldest)

    async def _rest(self, live: LiveConversation) -> None:
        """What runs ahead for a conversation that is let go is dropped, but not what it cost."""
        if live.preparation is not None:
            live.preparation.task.cancel()
            await asyncio.gather(live.preparation.task, return_exceptions=True)
            live.preparation = None
        await self.keep_calls(live)

    async def keep_calls(self, live: LiveConversation) -> None:
        """Store calls of the summariser that brought no compaction: they were paid for all the same."""
        while live.calls:
            await self.store.record_call(live.session, live.calls[0])
            del live.calls[0]


def _as_message(prompt: str | None) -> Message | None:
    return None if prompt is None else {"role": "system", "content": prompt}


def spill_folder(home: Path, settings: Settings) -> SpillFolder:
    """The folder of spilled results under the Clew home, with the configured quota and age."""
    limits = settings.tool_output
    return SpillFolder(home / "outputs", limits.quota_mb * 1024 * 1024, limits.max_age_days * 86_400.0)
