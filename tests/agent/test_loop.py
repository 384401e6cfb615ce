"""The loop of an agent: calls are run and answered until the model answers, and a stop keeps what came."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from clew.agent import Agent, AgentObserver, AgentTool, Approvals, CallContext, Risk, ToolActivity, Toolbox, ToolResult
from clew.agent.approvals import ApprovalAnswer, AskPerson
from clew.agent.files import Workspace
from clew.agent.files.disk import FileTracker
from clew.agent.tools import Arguments, error_result, function_schema
from clew.agent.tools.patch import PatchTool
from clew.agent.tools.read_write import WriteFileTool
from clew.messages import Message, text_of
from clew.providers import Delta, OnDelta, ProviderRefused, Reply, Request
from clew.testing import call, user
from clew.testing.scripted import ScriptedProvider, breaks_off, calls
from clew.turn import BROKEN_OFF
from tests.support.flow import SESSION, Flow, answers, flow_with
from tests.support.groups import calls_have_results


class Echo(AgentTool):
    """Says what it is told; `risky` and `quiet` as the test wants."""

    def __init__(self, name: str = "echo", *, quiet: bool = False, risky: bool = False, pinned: str | None = None):
        self.name, self.is_read_only, self.risky, self.pinned = name, quiet, risky, pinned
        self.schema = function_schema(name, "Says what it is told.", {"text": {"type": "string"}}, "text")
        self.ran: list[str] = []
        self.side_by_side = 0
        self._running = 0

    def risk(self, arguments: Arguments) -> Risk | None:
        return Risk(f"say {arguments.get('text')}", ("it is loud",), "speech") if self.risky else None

    async def run(self, arguments: Arguments, call: CallContext) -> ToolResult:
        self._running += 1
        self.side_by_side = max(self.side_by_side, self._running)
        await asyncio.sleep(0)
        text = str(arguments["text"])
        call.on_output(text)
        self.ran.append(text)
        self._running -= 1
        return ToolResult(f"heard {text}", pinned_as=self.pinned)


class Stuck(AgentTool):
    """Never comes back."""

    name = "stuck"
    schema = function_schema("stuck", "Waits for ever.", {})

    def __init__(self) -> None:
        self.began = asyncio.Event()

    async def run(self, arguments: Arguments, call: CallContext) -> ToolResult:
        self.began.set()
        await asyncio.Event().wait()
        return error_result("unreachable")


class RecordingObserver(AgentObserver):
    """Writes down all that it sees."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def on_delta(self, delta: Delta) -> None:
        self.lines.append(f"{delta.kind}:{delta.text}")

    def on_tool_start(self, activity: ToolActivity) -> None:
        self.lines.append(f"began {activity.headline}")

    def on_tool_output(self, activity: ToolActivity, text: str) -> None:
        self.lines.append(f"out {text}")

    def on_tool_end(self, activity: ToolActivity, result: ToolResult, seconds: float) -> None:
        self.lines.append(f"ended {activity.tool} {'badly' if result.is_error else 'well'}")


class Hanging(ScriptedProvider):
    """Says a few words and then nothing more."""

    def __init__(self) -> None:
        super().__init__()
        self.is_hanging = asyncio.Event()

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        self.requests.append(request)
        if on_delta is not None:
            on_delta(Delta("text", "First I would "))
            on_delta(Delta("text", "look at"))
        self.is_hanging.set()
        await asyncio.Event().wait()
        raise AssertionError("unreachable")


def agent_with(flow: Flow, *tools: AgentTool, ask: AskPerson | None = None, rounds: int = 20) -> Agent:
    return Agent(flow.runtime, Toolbox(tools), Approvals("ask", ask), rounds)


def results(request: Request) -> list[str]:
    return [text_of(message) for message in request.messages if message["role"] == "tool"]


async def test_calls_are_run_and_answered_until_the_model_answers(tmp_path: Path) -> None:
    provider = ScriptedProvider(
        calls(call("echo", {"text": "one"}, id="c1"), call("echo", {"text": "two"}, id="c2")), answers("Both said.")
    )
    observer = RecordingObserver()
    async with flow_with(provider, tmp_path) as flow:
        done = await agent_with(flow, Echo()).ask(SESSION, user("Say one and two."), observer)
        assert (text_of(done.reply.message), done.rounds, done.hit_round_limit) == ("Both said.", 2, False)
        assert results(provider.requests[1]) == ["heard one", "heard two"]
        assert [line for line in observer.lines if not line.startswith("text:")] == [
            "call:echo", "call:echo", "began echo one", "out one", "ended echo well", "began echo two", "out two",
            "ended echo well",
        ]  # fmt: skip
        assert calls_have_results(await flow.view())


async def test_calls_that_only_look_run_side_by_side_and_the_others_one_by_one(tmp_path: Path) -> None:
    many = [call(name, {"text": f"{name}{n}"}, id=f"{name}{n}") for name in ("look", "act") for n in range(3)]
    look, act = Echo("look", quiet=True), Echo("act")
    async with flow_with(ScriptedProvider(calls(*many), answers("Done.")), tmp_path) as flow:
        await agent_with(flow, look, act).ask(SESSION, user("Go."))
        assert (look.side_by_side, act.side_by_side) == (3, 1)


async def test_what_the_model_gets_wrong_is_a_result_that_says_so(tmp_path: Path) -> None:
    provider = ScriptedProvider(
        calls(call("ecko", {"text": "x"}, id="c1"), call("echo", '{"text": "x', id="c2"), call("echo", {}, id="c3")),
        answers("Sorry."),
    )
    async with flow_with(provider, tmp_path) as flow:
        await agent_with(flow, Echo()).ask(SESSION, user("Go."))
        unknown, broken, missing = results(provider.requests[1])
        assert "no tool 'ecko'; there are echo" in unknown
        assert "no JSON object" in broken
        assert "echo failed" in missing
        wrongs = [m for m in provider.requests[1].messages if m["role"] == "tool"]
        assert all(message.get("is_error") for message in wrongs)


@pytest.mark.parametrize(
    ("answer", "ran"), [(("once", ""), ["a"]), (("session", ""), ["a", "b"]), (("no", "use whisper"), [])]
)
async def test_a_dangerous_call_waits_for_a_person(
    tmp_path: Path, answer: tuple[ApprovalAnswer, str], ran: list[str]
) -> None:
    asked: list[Risk] = []
    replies: Sequence[tuple[ApprovalAnswer, str]] = [answer, ("no", "")]

    async def ask(tool: str, risk: Risk) -> tuple[ApprovalAnswer, str]:
        asked.append(risk)
        return replies[len(asked) - 1]

    provider = ScriptedProvider(
        calls(call("echo", {"text": "a"}, id="c1"), call("echo", {"text": "b"}, id="c2")), answers("Well.")
    )
    loud = Echo(risky=True)
    async with flow_with(provider, tmp_path) as flow:
        await agent_with(flow, loud, ask=ask).ask(SESSION, user("Go."))
        assert loud.ran == ran
        told = results(provider.requests[1])
        assert ("They said: use whisper" in told[0]) == (answer[0] == "no")


async def test_without_anybody_to_ask_what_is_dangerous_is_refused(tmp_path: Path) -> None:
    provider = ScriptedProvider(calls(call("echo", {"text": "a"}, id="c1")), answers("Well."))
    loud = Echo(risky=True)
    async with flow_with(provider, tmp_path) as flow:
        await agent_with(flow, loud).ask(SESSION, user("Go."))
        assert not loud.ran
        assert "nobody is here to approve it: it is loud" in results(provider.requests[1])[0]


async def test_a_stop_while_the_model_writes_keeps_the_text_so_far(tmp_path: Path) -> None:
    provider = Hanging()
    async with flow_with(provider, tmp_path) as flow:
        asking = asyncio.create_task(agent_with(flow).ask(SESSION, user("What would you do?")))
        await provider.is_hanging.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        kept = [text_of(message) for message in await flow.view()]
        assert kept == ["What would you do?", "First I would look at\n\n[stopped by the user]"]
        # It is a call that is paid for, by our own count.
        (total,) = await flow.store.usage()
        assert total.calls == 1 and total.usage.prompt_tokens > 3 and 3 <= total.usage.output_tokens <= 8


async def test_a_stop_while_tools_run_keeps_the_results_so_far_and_whole_groups(tmp_path: Path) -> None:
    stuck = Stuck()
    provider = ScriptedProvider(calls(call("echo", {"text": "a"}, id="c1"), call("stuck", {}, id="c2")))
    async with flow_with(provider, tmp_path) as flow:
        agent = agent_with(flow, Echo(), stuck)
        asking = asyncio.create_task(agent.ask(SESSION, user("Go.")))
        await stuck.began.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert [text_of(message) for message in (await flow.view())[2:]] == [
            "heard a", "[stopped by the user] This call was not finished."
        ]  # fmt: skip
        provider.then(answers("I stopped."))
        await agent.ask(SESSION, user("Why did you stop?"))
        assert calls_have_results(provider.requests[-1].messages)


async def test_a_line_that_breaks_keeps_what_had_come(tmp_path: Path) -> None:
    async with flow_with(ScriptedProvider(breaks_off("Half a ")), tmp_path) as flow:
        with pytest.raises(ProviderRefused):
            await agent_with(flow).ask(SESSION, user("Tell me."))
        assert text_of((await flow.view())[-1]) == f"Half a\n\n{BROKEN_OFF}"
        assert [total.calls for total in await flow.store.usage()] == [1]


async def test_a_model_that_never_stops_calling_is_stopped(tmp_path: Path) -> None:
    provider = ScriptedProvider(*(calls(call("echo", {"text": "x"}, id=f"c{n}")) for n in range(3)))
    async with flow_with(provider, tmp_path) as flow:
        done = await agent_with(flow, Echo(), rounds=3).ask(SESSION, user("Go."))
        assert done.hit_round_limit
        assert calls_have_results(await flow.view())


async def test_an_opened_skill_is_pinned_and_comes_back_after_a_compaction(tmp_path: Path) -> None:
    opens = calls(call("skill", {"text": "how to review"}, id="c1"))
    provider = ScriptedProvider(answers("Hello."), answers("Well."), opens, answers("Read."))
    async with flow_with(provider, tmp_path) as flow:
        agent = agent_with(flow, Echo("skill", pinned="skill review"))
        for text in ("Hello.", "How are you?", "Open the skill."):
            await agent.ask(SESSION, user(text))
        for number in range(8):
            provider.then(answers(f"{number}: " + "a long answer about it " * 100))
            await agent.ask(SESSION, user(f"{number}: " + "a long question about it " * 100))
        await flow.compact()
        provider.then(answers("Still known."))
        await agent.ask(SESSION, user("Go on."))
        first: Message = provider.requests[-1].messages[0]
        assert "<pinned label='skill review'>\nheard how to review\n</pinned>" in text_of(first)


async def test_a_call_begins_when_a_person_has_allowed_it(tmp_path: Path) -> None:
    observer = RecordingObserver()

    async def ask(tool: str, risk: Risk) -> tuple[ApprovalAnswer, str]:
        observer.lines.append("asked")
        return "once", ""

    provider = ScriptedProvider(calls(call("echo", {"text": "one"}, id="c1")), answers("Said."))
    async with flow_with(provider, tmp_path) as flow:
        await agent_with(flow, Echo(risky=True), ask=ask).ask(SESSION, user("go"), observer)
    assert observer.lines[1:4] == ["asked", "began echo one", "out one"]


async def test_a_question_during_an_exchange_waits_for_its_end(tmp_path: Path) -> None:
    provider = ScriptedProvider(
        calls(call("echo", {"text": "one"}, id="c1")), answers("First."), calls(call("echo", {"text": "two"}, id="c2")),
        answers("Second."),
    )  # fmt: skip
    async with flow_with(provider, tmp_path) as flow:
        agent = agent_with(flow, Echo())
        first, second = await asyncio.gather(agent.ask(SESSION, user("One?")), agent.ask(SESSION, user("Two?")))
        assert (text_of(first.reply.message), text_of(second.reply.message)) == ("First.", "Second.")
        assert [text_of(message) for message in await flow.view()] == [
            "One?", "", "heard one", "First.", "Two?", "", "heard two", "Second."
        ]  # fmt: skip


async def test_calls_that_came_with_one_id_are_all_run(tmp_path: Path) -> None:
    one, two = call("echo", {"text": "one"}, id="same"), call("echo", {"text": "two"}, id="same")
    provider = ScriptedProvider(calls(one, two), answers("Both said."))
    async with flow_with(provider, tmp_path) as flow:
        echo = Echo()
        await agent_with(flow, echo).ask(SESSION, user("go"))
    assert echo.ran == ["one", "two"]
    assert results(provider.requests[1]) == ["heard one", "heard two"]
    assert calls_have_results(provider.requests[1].messages)


async def test_asking_before_edits_asks_about_edits_that_can_be_made_and_shows_what_changes(tmp_path: Path) -> None:
    (tmp_path / "known.txt").write_text("one\ntwo\n")
    (tmp_path / "unread.txt").write_text("mine\n")
    workspace, tracker = Workspace(tmp_path), FileTracker()
    edits: list[tuple[str, dict[str, Any]]] = [
        ("write_file", {"path": "unread.txt", "content": "gone\n"}),
        ("patch", {"edits": [{"path": "known.txt", "old": "three", "new": "3"}]}),
        ("write_file", {"path": "nul\0.txt", "content": "x"}),
        ("patch", {"edits": [{"path": "known.txt", "old": "  two", "new": "2"}]}),
        ("write_file", {"path": "empty.txt", "content": ""}),
    ]
    asked: list[str] = []

    async def ask(tool: str, risk: Risk) -> tuple[ApprovalAnswer, str]:
        asked.append(f"{tool}: {risk.text}")
        return "once", ""

    steps = [calls(call(name, arguments, id=str(number))) for number, (name, arguments) in enumerate(edits)]
    async with flow_with(ScriptedProvider(*steps, answers("done")), tmp_path / "home") as flow:
        toolbox = Toolbox([WriteFileTool(workspace, tracker), PatchTool(workspace, tracker)])
        await Agent(flow.runtime, toolbox, Approvals("ask", ask, edits="ask"), 9).ask(SESSION, user("Edit."))
    assert [line.split()[0] for line in asked] == ["patch:", "write_file:"]
    assert "-two\n+2" in asked[0]
    assert (tmp_path / "unread.txt").read_text() == "mine\n"
    assert ((tmp_path / "known.txt").read_text(), (tmp_path / "empty.txt").read_text()) == ("one\n2\n", "")
