"""The agent's loop: ask the model, run the tools it calls, append their results and ask again, until it answers.

One exchange with a person is any number of turns (`clew.turn`). When it is stopped, the text and the results so far
stay in the history, and the next question continues from there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from clew.agent.approvals import Approvals, Risk
from clew.agent.files.checkpoints import Checkpoints, RestoredFiles
from clew.agent.toolbox import Toolbox
from clew.agent.tools import AgentTool, CallContext, ToolResult, error_result
from clew.errors import ClewError, InvalidArgument
from clew.events import Notice
from clew.messages import UNREADABLE, Message, ToolCall, arguments_of_call, calls_of, name_of_call
from clew.providers import Delta, ProviderRefused, Reply
from clew.turn import BROKEN_OFF, STOPPED, Pin, Runtime, keep_partial_reply, receive, run_turn, uninterruptible

PLAN_ONLY = (
    "not run: this is plan mode, in which only reading tools run. Answer with the plan; the user approves it before "
    "anything is changed."
)
_CHECKPOINTS = "agent.checkpoints"
"""The state of a conversation that has its checkpoints by the number of the question."""
_CAUSED_BY_ARGUMENTS = (ClewError, OSError, ValueError, TypeError, LookupError)
_NOT_RUN = f"{STOPPED} This call was not finished."


@dataclass(frozen=True, slots=True)
class ToolActivity:
    """A call of a tool, as people see it."""

    call_id: str
    tool: str
    headline: str


class AgentObserver:
    """Is called as the agent works; shows nothing by itself: screens and logs override what they need.

    Every method must return at once. Unlike events (`clew.events`), these values carry text of the conversation.
    """

    def on_delta(self, delta: Delta) -> None:
        """A piece of a reply has arrived."""
        del delta

    def on_reply(self, reply: Reply) -> None:
        """A complete reply is in the history; tool calls may follow."""
        del reply

    def on_tool_start(self, activity: ToolActivity) -> None:
        del activity

    def on_refusal(self, activity: ToolActivity, risk: Risk) -> None:
        """A call will not run, because a person or the mode refused it; its start and end follow."""
        del activity, risk

    def on_tool_output(self, activity: ToolActivity, text: str) -> None:
        """A running tool has printed something."""
        del activity, text

    def on_tool_end(self, activity: ToolActivity, result: ToolResult, seconds: float) -> None:
        del activity, result, seconds


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question."""

    reply: Reply
    rounds: int
    """Calls of the model that it took."""
    hit_round_limit: bool = False
    """The model wanted to continue, but `max_rounds` was reached."""


class Agent:
    """Answers questions with a model and tools."""

    def __init__(
        self,
        runtime: Runtime,
        toolbox: Toolbox,
        approvals: Approvals,
        max_rounds: int = 200,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        self.runtime = runtime
        self.toolbox = toolbox
        self.approvals = approvals
        self.max_rounds = max_rounds
        self.checkpoints = checkpoints
        self._locks: dict[str, asyncio.Lock] = {}
        """By conversation: questions wait for each other, to the end of the whole exchange."""

    async def ask(self, session: str, message: Message | None, observer: AgentObserver | None = None) -> Answer:
        """The answer to a message, or, with None, to the history as it is: to a question that got no answer.

        Cancelling stops it and keeps the text so far; the provider's refusals are raised. A message that is the
        unanswered end of the history already, because the call for it failed, is not put in a second time.
        """
        root = (await self.runtime.conversation(session)).root
        # A question between calls and their results would take the results away from the calls.
        async with self._locks.setdefault(root, asyncio.Lock()):
            return await self._exchange(session, message, observer or AgentObserver())

    async def _exchange(self, session: str, message: Message | None, observer: AgentObserver) -> Answer:
        newest = (await self.runtime.conversation(session)).messages[-1:]
        if message is not None and list(newest) != [message]:
            await uninterruptible(receive(self.runtime, session, [message]))
        question = (await self.runtime.conversation(session)).view.next_seq - 1
        if self.checkpoints is not None:
            self.checkpoints.begin()
        for rounds in range(1, self.max_rounds + 1):
            reply = await self._turn(session, observer)
            calls = calls_of(reply.message)
            if not calls:
                return Answer(reply, rounds)
            try:
                await self._run_calls(session, calls, observer)
            finally:
                await uninterruptible(self._keep_checkpoint(session, question))
        return Answer(reply, self.max_rounds, hit_round_limit=True)

    async def _keep_checkpoint(self, session: str, question: int) -> None:
        """Note with the conversation, and so with its branches, which checkpoint belongs to a question."""
        if self.checkpoints is None or self.checkpoints.id is None:
            return
        known = (await self.runtime.store.state(session)).get(_CHECKPOINTS) or {}
        if known.get(str(question)) != self.checkpoints.id:
            now = {**known, str(question): self.checkpoints.id}
            await self.runtime.store.set_state(session, {_CHECKPOINTS: now})

    async def restore_files(self, session: str, question: int, *, also: Collection[str] = ()) -> RestoredFiles:
        """Put back what files held before a question and those after it.

        Files that others changed since stay as they are, unless `also` names them.
        """
        known: dict[str, str] = (await self.runtime.store.state(session)).get(_CHECKPOINTS) or {}
        newest_first = sorted((int(seq) for seq in known if int(seq) >= question), reverse=True)
        if self.checkpoints is None:
            return RestoredFiles()
        return self.checkpoints.restore(*(known[str(seq)] for seq in newest_first), also=also)

    async def forget_checkpoints(self, session: str, question: int) -> None:
        """Take the checkpoints from a question on out of a branch that begins before it."""
        known: dict[str, str] = (await self.runtime.store.state(session)).get(_CHECKPOINTS) or {}
        kept = {seq: id for seq, id in known.items() if int(seq) < question}
        await self.runtime.store.set_state(session, {_CHECKPOINTS: kept or None})

    async def close(self) -> None:
        """End what runs in the background."""
        for tool in self.toolbox.tools:
            await tool.close()

    # -- the model -----------------------------------------------------------------------------------------------------

    async def _turn(self, session: str, observer: AgentObserver) -> Reply:
        """The model's reply to the history as it is."""
        text: list[str] = []

        def on_delta(delta: Delta) -> None:
            if delta.kind == "text":
                text.append(delta.text)
            observer.on_delta(delta)

        tools = await self.toolbox.schemas_for(self.runtime, session)
        try:
            reply = await run_turn(self.runtime, session, (), tools=tools, on_delta=on_delta)
        except asyncio.CancelledError:
            await uninterruptible(keep_partial_reply(self.runtime, session, "".join(text)))
            raise
        except ProviderRefused as refused:
            if refused.partial is not None:
                await keep_partial_reply(self.runtime, session, "".join(text), BROKEN_OFF)
            raise
        self.toolbox.record_calls(session, calls_of(reply.message))
        observer.on_reply(reply)
        return reply

    # -- tools ---------------------------------------------------------------------------------------------------------

    async def _run_calls(self, session: str, calls: Sequence[ToolCall], observer: AgentObserver) -> None:
        """Run calls and append their results. Neighbouring calls of read-only tools run concurrently."""
        done: dict[str, ToolResult] = {}
        try:
            for is_read_only, group in groupby(calls, self.toolbox.is_read_only):
                together = list(group)
                for batch in [together] if is_read_only else [[call] for call in together]:
                    await asyncio.gather(*(self._run_call(session, call, observer, done) for call in batch))
        finally:
            # Also after a stop or a defect: what ran has run, and no call stays without a result.
            await uninterruptible(self._append_results(session, calls, done))

    async def _append_results(self, session: str, calls: Sequence[ToolCall], done: Mapping[str, ToolResult]) -> None:
        for result in done.values():
            await self._pin(session, result)
        results = [_result_message(call, done.get(call["id"]) or error_result(_NOT_RUN)) for call in calls]
        await receive(self.runtime, session, results)

    async def _pin(self, session: str, result: ToolResult) -> None:
        if result.pinned_as is None:
            return
        try:
            await (await self.runtime.conversation(session)).pin(Pin(result.pinned_as, result.text), is_coming=True)
        except InvalidArgument as problem:
            self.runtime.tell(Notice(f"{result.pinned_as} will not come back word for word: {problem}"))

    async def _run_call(
        self, session: str, call: ToolCall, observer: AgentObserver, done: dict[str, ToolResult]
    ) -> None:
        activity = ToolActivity(call["id"], name_of_call(call), self.toolbox.headline(call))
        refusal = await self._refusal(call, activity, observer)
        # From here on: the time that a person took to answer is not the tool's.
        started = time.monotonic()
        observer.on_tool_start(activity)
        context = CallContext(
            session,
            call["id"],
            lambda text: observer.on_tool_output(activity, text),
            lambda risk: self.approvals.confirm(activity.tool, risk),
        )
        done[call["id"]] = result = refusal or await self._result(call, context)
        observer.on_tool_end(activity, result, time.monotonic() - started)

    async def _refusal(self, call: ToolCall, activity: ToolActivity, observer: AgentObserver) -> ToolResult | None:
        """Why a call may not run; None where it may."""
        name, arguments = name_of_call(call), arguments_of_call(call)
        tool = None if UNREADABLE in arguments else self.toolbox.find(name)
        if tool is None:
            return None
        if self.approvals.edits == "plan" and not tool.is_read_only:
            return error_result(PLAN_ONLY)
        risk = tool.risk(arguments)
        if risk is None and self.approvals.edits == "ask" and (tried := await _tried(tool, arguments)) is not None:
            if tried.display_text is None:  # it changes nothing, so nobody is asked
                return tried
            risk = Risk(activity.headline, ("this chat asks before edits (/mode)",), "edits", tried.display_text)
        if risk is None:
            return None
        decision = await self.approvals.decide(name, risk)
        if decision.allowed:
            return None
        tool.refused(arguments)
        observer.on_refusal(activity, risk)
        return error_result(decision.reason)

    async def _result(self, call: ToolCall, context: CallContext) -> ToolResult:
        name, arguments = name_of_call(call), arguments_of_call(call)
        if UNREADABLE in arguments:
            given = str(arguments[UNREADABLE])[:200]
            return error_result(f"the arguments are no JSON object: {given!r}; send an object")
        tool = self.toolbox.find(name)
        if tool is None:
            return await self._engine_tool_result(name, arguments, context.session)
        try:
            return await tool.run(arguments, context)
        except _CAUSED_BY_ARGUMENTS as problem:
            return _failure(name, problem)

    async def _engine_tool_result(self, name: str, arguments: dict[str, object], session: str) -> ToolResult:
        live = await self.runtime.conversation(session)
        try:
            return ToolResult(await live.engine.handle_tool_call(name, arguments))
        except LookupError:
            return error_result(f"there is no tool {name!r}; there are {', '.join(self.toolbox.names)}")


async def _tried(tool: AgentTool, arguments: dict[str, object]) -> ToolResult | None:
    try:
        return await asyncio.to_thread(tool.try_edit, arguments)
    except _CAUSED_BY_ARGUMENTS as problem:
        return _failure(tool.name, problem)


def _failure(name: str, problem: Exception) -> ToolResult:
    return error_result(f"{name} failed: {type(problem).__name__}: {problem}")


def _result_message(call: ToolCall, result: ToolResult) -> Message:
    # A lone surrogate, which models can write and file names can hold, goes into no store and over no wire.
    text = result.text.encode("utf-8", "backslashreplace").decode()
    message: Message = {"role": "tool", "tool_call_id": call["id"], "content": text}
    if result.is_error:
        message["is_error"] = True
    return message
