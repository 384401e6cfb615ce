"""The agent's loop: ask the model, run the tools it calls, come back with their results, until it answers.

One exchange with a person is any number of turns (`clew.turn`). A stop keeps what came: the text so far and the results
so far are in the history, and the next question goes on from there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from clew.agent.approvals import Approvals
from clew.agent.onlooker import Doing, Onlooker
from clew.agent.toolbox import Toolbox
from clew.agent.tools import CallContext, ToolResult, wrong
from clew.errors import ClewError, InvalidArgument
from clew.events import Notice
from clew.messages import UNREADABLE, Message, ToolCall, arguments_of_call, calls_of, name_of_call
from clew.providers import Delta, ProviderRefused, Reply
from clew.turn import Pin, Runtime, pin, receive, run_turn, unbroken

STOPPED = "[stopped by the user]"
_NOT_RUN = f"{STOPPED} This call was not finished."


@dataclass(frozen=True, slots=True)
class Exchange:
    """What became of a question."""

    reply: Reply
    rounds: int
    """Calls of the model it took."""
    is_cut: bool = False
    """The model wanted to go on, but the most rounds were reached."""


@dataclass(slots=True)
class _Heard:
    """The reply so far, and whoever else listens to it."""

    onlooker: Onlooker
    text: list[str] = field(default_factory=list)

    def __call__(self, delta: Delta) -> None:
        if delta.kind == "text":
            self.text.append(delta.text)
        self.onlooker.piece(delta)


class Agent:
    """Answers questions with a model and tools."""

    def __init__(self, runtime: Runtime, toolbox: Toolbox, approvals: Approvals, max_rounds: int = 200) -> None:
        self.runtime = runtime
        self.toolbox = toolbox
        self.approvals = approvals
        self.max_rounds = max_rounds
        self._asked: dict[str, asyncio.Lock] = {}
        """By conversation: questions wait for each other, to the end of the whole exchange."""

    async def ask(self, session: str, message: Message, onlooker: Onlooker | None = None) -> Exchange:
        """The answer to a message. Cancelling stops it and keeps what came; refusals of the provider pass."""
        root = (await self.runtime.conversation(session)).root
        # A question between calls and their results would take the results away from the calls.
        async with self._asked.setdefault(root, asyncio.Lock()):
            return await self._exchange(session, message, onlooker or Onlooker())

    async def _exchange(self, session: str, message: Message, watch: Onlooker) -> Exchange:
        await unbroken(receive(self.runtime, session, [message]))
        for rounds in range(1, self.max_rounds + 1):
            reply = await self._turn(session, watch)
            calls = calls_of(reply.message)
            if not calls:
                return Exchange(reply, rounds)
            await self._work(session, calls, watch)
        return Exchange(reply, self.max_rounds, is_cut=True)

    async def close(self) -> None:
        """End what runs in the background."""
        for tool in self.toolbox.tools:
            await tool.close()

    # -- the model -----------------------------------------------------------------------------------------------------

    async def _turn(self, session: str, watch: Onlooker) -> Reply:
        """The reply to the history as it is."""
        heard = _Heard(watch)
        tools = await self.toolbox.schemas_for(self.runtime, session)
        try:
            reply = await run_turn(self.runtime, session, (), tools=tools, on_delta=heard)
        except asyncio.CancelledError:
            await unbroken(self._keep(session, "".join(heard.text)))
            raise
        except ProviderRefused as refused:
            if refused.partial is not None:
                await self._keep(session, "".join(heard.text))
            raise
        self.toolbox.note_use(session, calls_of(reply.message))
        watch.replied(reply)
        return reply

    async def _keep(self, session: str, text: str) -> None:
        """A reply that was broken off, as far as it came."""
        newest = (await self.runtime.conversation(session)).messages[-1:]
        # Where the stop came after the reply, while the conversation was being compacted, it is there already.
        is_kept = any(message["role"] == "assistant" for message in newest)
        if text.strip() and not is_kept:
            kept: Message = {"role": "assistant", "content": f"{text.rstrip()}\n\n{STOPPED}"}
            await receive(self.runtime, session, [kept])

    # -- tools ---------------------------------------------------------------------------------------------------------

    async def _work(self, session: str, calls: Sequence[ToolCall], watch: Onlooker) -> None:
        """Run calls, and put their results into the history. Neighbours that change nothing run side by side."""
        done: dict[str, ToolResult] = {}
        try:
            for is_quiet, group in groupby(calls, self.toolbox.changes_nothing):
                together = list(group)
                for batch in [together] if is_quiet else [[call] for call in together]:
                    await asyncio.gather(*(self._run(session, call, watch, done) for call in batch))
        finally:
            # Also after a stop or a defect: what ran has run, and no call stays without a result.
            await unbroken(self._take_in(session, calls, done))

    async def _take_in(self, session: str, calls: Sequence[ToolCall], done: Mapping[str, ToolResult]) -> None:
        for result in done.values():
            await self._pin(session, result)
        results = [_result(call, done.get(call["id"]) or wrong(_NOT_RUN)) for call in calls]
        await receive(self.runtime, session, results)

    async def _pin(self, session: str, result: ToolResult) -> None:
        if result.pinned_as is None:
            return
        try:
            await pin(self.runtime, session, Pin(result.pinned_as, result.text), is_coming=True)
        except InvalidArgument as problem:
            self.runtime.tell(Notice(f"{result.pinned_as} will not come back word for word: {problem}"))

    async def _run(self, session: str, call: ToolCall, watch: Onlooker, done: dict[str, ToolResult]) -> None:
        doing = Doing(call["id"], name_of_call(call), self.toolbox.headline(call))
        refusal = await self._refusal_of(call)
        # From here on: the time that a person took to answer is not the tool's.
        started = time.monotonic()
        watch.began(doing)
        context = CallContext(session, call["id"], lambda text: watch.output(doing, text))
        done[call["id"]] = result = refusal or await self._result_of(call, context)
        watch.ended(doing, result, time.monotonic() - started)

    async def _refusal_of(self, call: ToolCall) -> ToolResult | None:
        """Why a call may not run; None where it may."""
        name, arguments = name_of_call(call), arguments_of_call(call)
        tool = None if UNREADABLE in arguments else self.toolbox.find(name)
        risk = None if tool is None else tool.risk(arguments)
        if risk is None:
            return None
        decision = await self.approvals.decide(name, risk)
        if decision.allowed or tool is None:
            return None
        tool.refused(arguments)
        return wrong(decision.reason)

    async def _result_of(self, call: ToolCall, context: CallContext) -> ToolResult:
        name, arguments = name_of_call(call), arguments_of_call(call)
        if UNREADABLE in arguments:
            return wrong(f"the arguments are no JSON object: {str(arguments[UNREADABLE])[:200]!r}; send an object")
        tool = self.toolbox.find(name)
        if tool is None:
            return await self._engines_own(name, arguments, context.session)
        try:
            return await tool.run(arguments, context)
        except (ClewError, OSError, ValueError, TypeError, LookupError) as problem:  # whatever arguments led to
            return wrong(f"{name} failed: {type(problem).__name__}: {problem}")

    async def _engines_own(self, name: str, arguments: dict[str, object], session: str) -> ToolResult:
        live = await self.runtime.conversation(session)
        try:
            return ToolResult(await live.engine.handle_tool_call(name, arguments))
        except LookupError:
            return wrong(f"there is no tool {name!r}; there are {', '.join(self.toolbox.names)}")


def _result(call: ToolCall, result: ToolResult) -> Message:
    # Half a character, which models can spell and file names can hold, goes into no store and over no wire.
    text = result.text.encode("utf-8", "backslashreplace").decode()
    message: Message = {"role": "tool", "tool_call_id": call["id"], "content": text}
    if result.is_error:
        message["is_error"] = True
    return message
