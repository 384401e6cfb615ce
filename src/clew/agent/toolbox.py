"""The tools of an agent, and which of their schemas go with a request.

Schemas are the first bytes of a request: another set of them invalidates the whole cached prefix. So a set stays while
the prefix is cached, and is decided again after a compaction or a long pause. Then schemas that were not used for long
are omitted, where the tools take more than a tenth of the window and the saving is larger than the loss. The tool
`more_tools` lists what is omitted and brings it back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from clew.agent.safe_text import printable_line
from clew.agent.tools import AgentTool, Arguments, CallContext, ToolResult, error_result, function_schema
from clew.messages import Tool, ToolCall, arguments_of_call, calls_of, name_of_call
from clew.tokens import count_tokens
from clew.turn import Conversation, Runtime

MAX_WINDOW_SHARE = 0.10
"""Of the window: up to it every schema is sent."""
UNUSED_ROUNDS = 40
"""A tool is unused after so many rounds without a call of it; about as many are expected to follow."""
CACHE_SECONDS = 3_600.0
"""The longest that a provider caches a prefix."""
CACHE_READ_PRICE, CACHE_WRITE_PRICE = 0.10, 1.25
"""In the price of an uncached input token."""
MORE_TOOLS = "more_tools"
STATE_KEY = "tools.left_out"
_DESCRIPTION_CHARS = 80
_HEADLINE_CHARS = 300


@dataclass(slots=True)
class _OfferedTools:
    """The schemas that a conversation is sent, and since when."""

    schemas: Sequence[Tool]
    omitted: frozenset[str]
    base: int | None
    """The compaction in effect when that was decided."""
    rounds: int = 0
    last_used: dict[str, int] = field(default_factory=dict)
    """The round in which a tool was last called."""
    last_request_at: float = 0.0
    stored: frozenset[str] = frozenset()
    """What the store has for `omitted`."""


class Toolbox:
    """The tools of an agent; gives the same sequence of schemas for as long as the prefix is cached."""

    def __init__(self, tools: Iterable[AgentTool], clock: Callable[[], float] = time.monotonic) -> None:
        self.tools = tuple(tools)
        self._clock = clock
        self._by_name = {tool.name: tool for tool in self.tools}
        self._all: Sequence[Tool] = tuple(tool.schema for tool in self.tools)
        self._offers: dict[str, _OfferedTools] = {}
        """By the first session of a conversation."""
        self._roots: dict[str, str] = {}
        self._sizes: dict[tuple[str, str], int] = {}

    @property
    def names(self) -> list[str]:
        return [*self._by_name]

    def find(self, name: str) -> AgentTool | None:
        return MoreTools(self, ()) if name == MORE_TOOLS else self._by_name.get(name)

    def is_read_only(self, call: ToolCall) -> bool:
        tool = self.find(name_of_call(call))
        return tool is not None and tool.is_read_only

    def headline(self, call: ToolCall) -> str:
        """A call in a few words, on one printable line."""
        tool = self.find(name_of_call(call))
        return printable_line(tool.headline(arguments_of_call(call)) if tool else name_of_call(call), _HEADLINE_CHARS)

    def record_calls(self, session: str, calls: Sequence[ToolCall]) -> None:
        """Note that a reply called these tools."""
        offer = self._offers[self._roots[session]]
        offer.last_used.update((name_of_call(call), offer.rounds) for call in calls)

    async def schemas_for(self, runtime: Runtime, session: str) -> Sequence[Tool]:
        """The schemas of a conversation's next request."""
        live = await runtime.conversation(session)
        self._roots[session] = live.root
        offer = self._offers.get(live.root) or await self._load_offer(runtime, live)
        now = self._clock()
        is_cold = now - offer.last_request_at > CACHE_SECONDS
        if is_cold or offer.base != live.view.base:
            omitted = self._choose_omitted(offer, live, is_cold)
            if omitted != offer.omitted:
                self._set_omitted(offer, omitted)
        if offer.omitted != offer.stored:
            # Before the request that has them: after a restart the next one has the same.
            await runtime.store.set_state(live.session, {STATE_KEY: sorted(offer.omitted) or None})
            offer.stored = offer.omitted
        offer.base, offer.last_request_at, offer.rounds = live.view.base, now, offer.rounds + 1
        return offer.schemas

    async def current_schemas(self, runtime: Runtime, session: str) -> Sequence[Tool]:
        """The schemas as they are now, without deciding anew."""
        live = await runtime.conversation(session)
        return (self._offers.get(live.root) or await self._load_offer(runtime, live)).schemas

    def restore(self, session: str, names: Sequence[str]) -> list[str]:
        """Send these again from the next request on; returns those that were omitted."""
        root = self._roots.get(session)
        if root is None:
            return []
        offer = self._offers[root]
        back = sorted(offer.omitted.intersection(names))
        offer.last_used.update(dict.fromkeys(back, offer.rounds))
        self._set_omitted(offer, offer.omitted.difference(back))
        return back

    async def _load_offer(self, runtime: Runtime, live: Conversation) -> _OfferedTools:
        """What a conversation was sent before a restart, as far as the tools are still the same."""
        kept = (await runtime.store.state(live.session)).get(STATE_KEY)
        omitted = frozenset(kept if isinstance(kept, list) else ()) & self._by_name.keys()
        offer = _OfferedTools(self._all, frozenset(), live.view.base, last_request_at=self._clock(), stored=omitted)
        self._set_omitted(offer, omitted)
        for message in live.messages:
            if message["role"] == "assistant":
                offer.rounds += 1
                offer.last_used.update((name_of_call(call), offer.rounds) for call in calls_of(message))
        self._offers[live.root] = offer
        return offer

    def _set_omitted(self, offer: _OfferedTools, omitted: frozenset[str]) -> None:
        offer.omitted = omitted
        sent = [tool.schema for tool in self.tools if tool.name not in omitted]
        away = [self._by_name[name] for name in sorted(omitted)]
        offer.schemas = (*sent, MoreTools(self, away).schema) if away else self._all

    def _choose_omitted(self, offer: _OfferedTools, live: Conversation, is_cold: bool) -> frozenset[str]:
        """What to omit from now on: nothing more, where the saving is smaller than the loss of a cached prefix."""
        model = live.target.model
        sizes = {tool.name: self._size(tool, model) for tool in self.tools}
        if sum(sizes.values()) <= MAX_WINDOW_SHARE * live.window.tokens:
            return frozenset()
        unused = {name for name in sizes if offer.rounds - offer.last_used.get(name, 0) >= UNUSED_ROUNDS}
        fresh = sum(sizes[name] for name in unused - offer.omitted)
        # Where a request went out since the compaction, all of it is cached again; else only what precedes it.
        behind = sum(live.size.counts) if live.view.last_prompt_tokens else 0
        moved = live.size.system + sum(sizes[name] for name in sizes.keys() - unused) + behind
        if is_cold or fresh * CACHE_READ_PRICE * UNUSED_ROUNDS > moved * (CACHE_WRITE_PRICE - CACHE_READ_PRICE):
            return frozenset(unused | offer.omitted)
        return offer.omitted

    def _size(self, tool: AgentTool, model: str) -> int:
        key = (model, tool.name)
        if key not in self._sizes:
            self._sizes[key] = count_tokens([], tools=[tool.schema], model=model)
        return self._sizes[key]


class MoreTools(AgentTool):
    """Lists the tools that are omitted, and brings them back."""

    name = MORE_TOOLS
    is_read_only = True

    def __init__(self, toolbox: Toolbox, away: Sequence[AgentTool]) -> None:
        self._toolbox = toolbox
        listed = "\n".join(
            f"{tool.name}: {tool.schema['function']['description'][:_DESCRIPTION_CHARS]}" for tool in away
        )
        self.schema = function_schema(
            MORE_TOOLS,
            f"Bring back tools that were not used for long. They can be called from your next reply on.\n{listed}",
            {"names": {"type": "array", "items": {"type": "string"}}},
            "names",
        )

    async def run(self, arguments: Arguments, call: CallContext) -> ToolResult:
        names = arguments.get("names")
        asked = [name for name in names if isinstance(name, str)] if isinstance(names, list) else [str(names)]
        back = self._toolbox.restore(call.session, asked)
        if not back:
            return error_result(f"none of these was left out; there are {', '.join(self._toolbox.names)}")
        return ToolResult(f"Back from the next request on: {', '.join(back)}.")
