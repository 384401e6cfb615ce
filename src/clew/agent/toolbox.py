"""The tools of an agent, and which of their schemas go with a request.

Schemas stand at the very front of a request: another set of them moves the whole prefix. So a set stays as it is while
the prefix is hot, and is thought over when that has moved or gone cold: after a compaction, or after a long pause.
Then schemas that were not used for long are left out, where the tools take more than a tenth of the window and the
saving is worth it; one small tool tells what is left out, and brings it back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from clew.agent.shown import shown
from clew.agent.tools import AgentTool, Arguments, CallContext, ToolResult, function_schema, wrong
from clew.messages import Tool, ToolCall, arguments_of_call, calls_of, name_of_call
from clew.tokens import count_tokens
from clew.turn import LiveConversation, Runtime

LARGEST_SHARE = 0.10
"""Of the window: below it every schema is sent."""
LONG_UNUSED = 40
"""Rounds without a call of a tool; and about as many are reckoned to come."""
COLD_SECONDS = 3_600.0
"""The longest that a provider keeps a prefix."""
READ, WRITTEN = 0.10, 1.25
"""What a cached token costs, and one that is written to the cache, in the price of one that is neither."""
MORE_TOOLS = "more_tools"
STATE = "tools.left_out"
_ABOUT_CHARS = 80
_HEADLINE_CHARS = 300


@dataclass(slots=True)
class _Offer:
    """What a conversation is offered."""

    schemas: Sequence[Tool]
    left_out: frozenset[str]
    base: int | None
    """The compaction in effect when that was decided."""
    rounds: int = 0
    used: dict[str, int] = field(default_factory=dict)
    """The round in which a tool was last called."""
    at: float = 0.0
    kept: frozenset[str] = frozenset()
    """What the store has for `left_out`."""


class Toolbox:
    """Gives the same sequence of schemas for as long as the prefix shall not move."""

    def __init__(self, tools: Iterable[AgentTool], clock: Callable[[], float] = time.monotonic) -> None:
        self.tools = tuple(tools)
        self._clock = clock
        self._by_name = {tool.name: tool for tool in self.tools}
        self._all: Sequence[Tool] = tuple(tool.schema for tool in self.tools)
        self._offers: dict[str, _Offer] = {}
        """By the first session of a conversation."""
        self._roots: dict[str, str] = {}
        self._sizes: dict[tuple[str, str], int] = {}

    @property
    def names(self) -> list[str]:
        return [*self._by_name]

    def find(self, name: str) -> AgentTool | None:
        return MoreTools(self, ()) if name == MORE_TOOLS else self._by_name.get(name)

    def changes_nothing(self, call: ToolCall) -> bool:
        tool = self.find(name_of_call(call))
        return tool is not None and tool.changes_nothing

    def headline(self, call: ToolCall) -> str:
        """The call in a few words, on one line that any screen can show."""
        tool = self.find(name_of_call(call))
        return shown(tool.headline(arguments_of_call(call)) if tool else name_of_call(call), _HEADLINE_CHARS)

    def note_use(self, session: str, calls: Sequence[ToolCall]) -> None:
        """A reply called these tools."""
        offer = self._offers[self._roots[session]]
        offer.used.update((name_of_call(call), offer.rounds) for call in calls)

    async def schemas_for(self, runtime: Runtime, session: str) -> Sequence[Tool]:
        """The schemas of a conversation's next request."""
        live = await runtime.conversation(session)
        self._roots[session] = live.root
        offer = self._offers.get(live.root) or await self._first_offer(runtime, live)
        now = self._clock()
        is_cold = now - offer.at > COLD_SECONDS
        if is_cold or offer.base != live.view.base:
            left_out = self._left_out(offer, live, is_cold)
            if left_out != offer.left_out:
                self._offer(offer, left_out)
        if offer.left_out != offer.kept:
            # Before the request that has them: after a restart the next one has the same.
            await runtime.store.set_state(live.session, {STATE: sorted(offer.left_out) or None})
            offer.kept = offer.left_out
        offer.base, offer.at, offer.rounds = live.view.base, now, offer.rounds + 1
        return offer.schemas

    async def offered_to(self, runtime: Runtime, session: str) -> Sequence[Tool]:
        """The schemas as they are now, for those who only look."""
        live = await runtime.conversation(session)
        return (self._offers.get(live.root) or await self._first_offer(runtime, live)).schemas

    def bring_back(self, session: str, names: Sequence[str]) -> list[str]:
        """Offer these again from the next request on; the ones that were left out."""
        root = self._roots.get(session)
        if root is None:
            return []
        offer = self._offers[root]
        back = sorted(offer.left_out.intersection(names))
        offer.used.update(dict.fromkeys(back, offer.rounds))
        self._offer(offer, offer.left_out.difference(back))
        return back

    async def _first_offer(self, runtime: Runtime, live: LiveConversation) -> _Offer:
        """What a conversation was offered before a restart, as far as the tools are still the same."""
        kept = (await runtime.store.state(live.session)).get(STATE)
        left_out = frozenset(kept if isinstance(kept, list) else ()) & self._by_name.keys()
        offer = _Offer(self._all, frozenset(), live.view.base, at=self._clock(), kept=left_out)
        self._offer(offer, left_out)
        for message in live.messages:
            if message["role"] == "assistant":
                offer.rounds += 1
                offer.used.update((name_of_call(call), offer.rounds) for call in calls_of(message))
        self._offers[live.root] = offer
        return offer

    def _offer(self, offer: _Offer, left_out: frozenset[str]) -> None:
        offer.left_out = left_out
        sent = [tool.schema for tool in self.tools if tool.name not in left_out]
        away = [self._by_name[name] for name in sorted(left_out)]
        offer.schemas = (*sent, MoreTools(self, away).schema) if away else self._all

    def _left_out(self, offer: _Offer, live: LiveConversation, is_cold: bool) -> frozenset[str]:
        """What to leave out from now on: nothing more, where that would move a hot prefix for less than it saves."""
        model = live.target.model
        sizes = {tool.name: self._size(tool, model) for tool in self.tools}
        if sum(sizes.values()) <= LARGEST_SHARE * live.window.tokens:
            return frozenset()
        unused = {name for name in sizes if offer.rounds - offer.used.get(name, 0) >= LONG_UNUSED}
        fresh = sum(sizes[name] for name in unused - offer.left_out)
        # Where a request went out since the compaction, all of it is cached anew by now; else only what stands before.
        behind = sum(live.size.counts) if live.last_prompt_tokens else 0
        moved = live.size.system + sum(sizes[name] for name in sizes.keys() - unused) + behind
        if is_cold or fresh * READ * LONG_UNUSED > moved * (WRITTEN - READ):
            return frozenset(unused | offer.left_out)
        return offer.left_out

    def _size(self, tool: AgentTool, model: str) -> int:
        key = (model, tool.name)
        if key not in self._sizes:
            self._sizes[key] = count_tokens([], tools=[tool.schema], model=model)
        return self._sizes[key]


class MoreTools(AgentTool):
    """Tells which tools were left out, and brings them back."""

    name = MORE_TOOLS
    changes_nothing = True

    def __init__(self, toolbox: Toolbox, away: Sequence[AgentTool]) -> None:
        self._toolbox = toolbox
        told = "\n".join(f"{tool.name}: {tool.schema['function']['description'][:_ABOUT_CHARS]}" for tool in away)
        self.schema = function_schema(
            MORE_TOOLS,
            f"Bring back tools that were not used for long. They can be called from your next reply on.\n{told}",
            {"names": {"type": "array", "items": {"type": "string"}}},
            "names",
        )

    async def run(self, arguments: Arguments, call: CallContext) -> ToolResult:
        names = arguments.get("names")
        asked = [name for name in names if isinstance(name, str)] if isinstance(names, list) else [str(names)]
        back = self._toolbox.bring_back(call.session, asked)
        if not back:
            return wrong(f"none of these was left out; there are {', '.join(self._toolbox.names)}")
        return ToolResult(f"Back from the next request on: {', '.join(back)}.")
