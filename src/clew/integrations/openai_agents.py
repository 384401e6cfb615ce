"""OpenAI Agents SDK: a filter for the input of each model call, and a session that keeps every item in the store.

    clew = ClewInputFilter(store="~/.clew/state.db")
    await Runner.run(agent, "...", hooks=clew, run_config=RunConfig(call_model_input_filter=clew))

    session = ClewSession("customer-17", store="~/.clew/state.db")
    await Runner.run(agent, "...", session=session, run_config=RunConfig(call_model_input_filter=session.input_filter))

As `hooks`, which may be left out, a filter learns what a call really used. Options are those of `clew.Projection`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

from agents import FunctionTool, RunHooks
from agents.memory import SessionABC
from agents.run import ModelInputData

from clew.errors import InUse, StaleHistory
from clew.integrations.framework import (
    FittedMessages,
    FrameworkConversations,
    MessageFormat,
    OnceForEqual,
    function_tools,
    usage_within,
)
from clew.messages import History, read_conversation, written
from clew.store import NewMessage, NewSession, Store, StoredMessage
from clew.turn import Projection, Runtime
from clew.usage import CanonicalUsage

_SUCCESSORS = "openai_agents.successors"
"""Of a session that was rewound: the sessions that continued for it, oldest first."""
_call: ContextVar[FittedMessages | None] = ContextVar("clew_openai_agents_call", default=None)
"""What the call of this run was given."""


def write_item(messages: Sequence[Any], original: Any = None) -> Any:
    """A written item: the SDK takes texts of the model that have no id as one text only, for chat models."""
    del original
    (item,) = messages
    content = item.get("content")
    if item.get("role") != "assistant" or "id" in item or not isinstance(content, list):
        return item
    texts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "output_text"]
    return {**item, "content": "\n".join(map(str, texts))} if len(texts) == len(content) else item


FORMAT = MessageFormat(lambda item: [item], write_item, dialect="responses")


class ClewInputFilter(RunHooks[Any]):
    """Shows the model a view of a run's items, folded once; the run keeps every item. One serves any number of runs."""

    def __init__(self, **options: Any) -> None:
        self.conversations = FrameworkConversations(FORMAT, _tool_definitions, **options)

    async def __call__(self, call: Any) -> ModelInputData:
        asked, agent = call.model_data, call.agent
        fitted = await self.conversations.afit(
            asked.input, model=_model_name(agent), system=asked.instructions, tools=agent.tools
        )
        _call.set(fitted)
        return ModelInputData(fitted.messages, asked.instructions)

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        del context, agent
        if (fitted := _call.get()) is not None:
            await fitted.aobserve(_usage_of(response.usage))


class ClewSession(SessionABC):
    """The items of a conversation in Clew's store, as received, by the name of the session.

    `input_filter` shows the model a view of them in runs of this session; both are one conversation in the store.
    """

    def __init__(self, session_id: str, *, session_settings: Any = None, **options: Any) -> None:
        self.session_id = session_id
        self.session_settings = session_settings
        self.projection = Projection(name=session_id, **options)
        self._items: list[Any] | None = None
        """All items; None until they are read from the store."""
        self._history = History("responses")
        self._successors: list[str] = []
        self._lock = asyncio.Lock()
        self._tools = OnceForEqual(_tool_definitions)

    async def get_items(self, limit: int | None = None) -> list[Any]:
        items = await self._in_store(self._load)
        return items[len(items) - min(limit, len(items)) :] if limit is not None else list(items)

    async def add_items(self, items: list[Any]) -> None:
        if items:
            await self._in_store(self._add, list(items))

    async def pop_item(self) -> Any:
        return await self._in_store(self._pop)

    async def clear_session(self) -> None:
        """Delete the conversation from the store, and those it continued from."""
        await self._in_store(self._clear)

    async def input_filter(self, call: Any) -> ModelInputData:
        """The `call_model_input_filter` for runs of this session."""
        await self._in_store(self._load)
        asked, tools = call.model_data, self._tools(call.agent.tools)
        fitted = await self.projection.afit(asked.input, system=asked.instructions, tools=tools, dialect="responses")
        return ModelInputData([write_item([item]) for item in fitted], asked.instructions)

    def close(self) -> None:
        """Close the store; what it holds stays, unless it is in memory."""
        self.projection.close()

    async def _in_store(self, work: Any, *arguments: Any) -> Any:
        async def alone(runtime: Runtime) -> Any:
            async with self._lock:
                return await work(runtime, *arguments)

        return await self.projection.awith_runtime(alone)

    @property
    def _current(self) -> str:
        return self._successors[-1] if self._successors else self.session_id

    async def _load(self, runtime: Runtime) -> list[Any]:
        if self._items is None:
            store = runtime.store
            await store.start_session(self._new())  # gives back the one that is there
            self._successors = (await store.state(self.session_id)).get(_SUCCESSORS) or []
            tip = await store.resume(self._current)
            self._items = [item for row in await store.messages(tip.id) for item in _items_of(row)]
            self._history.extend(self._items)
            self._follow()
        return self._items

    async def _add(self, runtime: Runtime, added: list[Any]) -> None:
        items = [*await self._load(runtime), *added]
        known = self._history.follow(items)
        self._items = items
        if known is None:  # what was added belongs to the last message, which is another one now
            await self._rewrite(runtime)
            return
        new = _new_messages(items[self._history.place_of(known) :])
        try:
            # The filter may have written these already.
            await runtime.store.append(self._current, new, after=known)
        except StaleHistory:
            await self._rewrite(runtime)

    async def _pop(self, runtime: Runtime) -> Any:
        items = await self._load(runtime)
        if not items:
            return None
        self._items = items[:-1]
        await self._rewrite(runtime)
        return items[-1]

    async def _rewrite(self, runtime: Runtime) -> None:
        """Become the history that the items are now: a branch, where more or something else is stored."""
        items, store = self._items or [], runtime.store
        self._history = History("responses")
        self._history.extend(items)
        if not items:
            await self._continue_as(store, (await store.branch(self._current, 0)).id)
            return
        synced = await store.sync(_new_messages(items), session=self._current, new=self._new(), is_exact=True)
        was, now = await store.session(self._current), await store.session(synced.session)
        if now.conversation != was.conversation:
            await self._continue_as(store, now.id)

    async def _continue_as(self, store: Store, session: str) -> None:
        self._successors = [*self._successors, session]
        await store.set_state(self.session_id, {_SUCCESSORS: self._successors})
        self._follow()

    async def _clear(self, runtime: Runtime) -> None:
        await self._load(runtime)
        store = runtime.store
        for session in (*reversed(self._successors), self.session_id):
            for each in await store.sessions_of((await store.session(session)).conversation):
                await runtime.forget(each.id)
            with suppress(InUse):  # a session with a branch stays
                await store.delete(session)
        started = await store.start_session(self._new())
        self._items, self._history, self._successors = [], History("responses"), []
        if await store.messages(started.id):
            await self._continue_as(store, (await store.branch(started.id, 0)).id)
        self._follow()

    def _follow(self) -> None:
        """Let the filter continue in the session that is the current one."""
        self.projection = self.projection.another(session=self._current)

    def _new(self) -> NewSession:
        return NewSession(id=self.session_id, source="library", lineage=self.session_id)


def _new_messages(items: Sequence[Any]) -> list[NewMessage]:
    """Items as messages to store, with the items themselves."""
    read = read_conversation(list(items), dialect="responses").items
    return [NewMessage(it.message, dialect="responses", items=it.raw, part=it.part) for it in read]


def _items_of(row: StoredMessage) -> Sequence[Any]:
    """The items of a stored message; encoded where it was stored without them."""
    return row.items if row.dialect == "responses" else written([row.message], "responses")


def _model_name(agent: Any) -> str | None:
    named = getattr(agent.model, "model", agent.model)
    return named if isinstance(named, str) else None


def _tool_definitions(tools: Sequence[Any]) -> list[Any]:
    functions = [tool for tool in tools if isinstance(tool, FunctionTool)]
    return function_tools((tool.name, tool.description, tool.params_json_schema) for tool in functions)


def _usage_of(usage: Any) -> CanonicalUsage:
    return usage_within(usage.input_tokens, usage.output_tokens, usage.input_tokens_details.cached_tokens)
