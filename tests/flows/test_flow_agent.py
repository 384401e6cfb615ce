"""Whole exchanges of an agent: real tools in a real folder, and a scripted model.

Every request is held against the one before it, tools and all (`PrefixChecker`).
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from clew.agent import Answer
from clew.app import AgentApp, AgentAppOptions, open_agent_app
from clew.config import load_config
from clew.events import CompactionFinished, CompactionStarted, Event, Events, OutputSpilled
from clew.handoff import is_instruction
from clew.messages import ToolCall, text_of
from clew.providers import AnthropicProvider, OnDelta, OpenAIChatProvider, Provider, Reply, Request, ResponsesProvider
from clew.store import open_store
from clew.testing import call, user
from clew.testing.runtime import PrefixChecker
from clew.testing.scripted import ScriptedProvider, refuses
from clew.testing.upstream import Upstream, UpstreamAnswer
from clew.usage import CanonicalUsage
from tests.support.flow import answers, request_tokens
from tests.support.groups import calls_have_results

KEY = "not-" + "a-real-" + "key-0123456789"
LONG = "The importer reads one file after the other and writes down what it found in each of them. " * 40
RULE = "Indexes are called ix_<table>_<columns>, or the nightly job fails."
BROKEN = "def total(prices):\n    return sum(prices) + 1\n"
CHECK = "from shop import total\nassert total([1, 2]) == 3, total([1, 2])\nprint('1 passed')\n"

Step = Callable[[Request], Reply]


class Worker(ScriptedProvider):
    """Plays its steps for the conversation; whoever asks for a summary gets `summary`, or a refusal without one."""

    def __init__(self, *steps: Step | Reply, summary: str = "") -> None:
        super().__init__(*steps)
        self.summary = summary
        self.summaries: list[Request] = []

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        if request.tools and not is_instruction(request.messages[-1]):
            return await super().send(request, on_delta)
        self.summaries.append(request)
        if not self.summary:
            raise refuses("auth", "this model writes no summaries")
        return answers(self.summary)(request)


def does(*tool_calls: ToolCall) -> Step:
    """Calls, with the real size of the request."""

    def reply(request: Request) -> Reply:
        usage = CanonicalUsage(input_tokens=request_tokens(request), output_tokens=20)
        message: Any = {"role": "assistant", "content": None, "tool_calls": list(tool_calls)}
        return Reply(message, usage, "tool_calls", request.model)

    return reply


@dataclass
class Talk:
    """An agent app with one session, and everything that was told."""

    app: AgentApp
    checker: PrefixChecker
    worker: Worker
    session: str = ""
    events: list[Event] = field(default_factory=list)

    async def ask(self, text: str, *steps: Step) -> Answer:
        self.worker.then(*steps)
        done = await self.app.agent.ask(self.session, user(text))
        assert self.worker.steps_left == 0
        return done

    def compactions(self) -> list[CompactionFinished]:
        return [event for event in self.events if isinstance(event, CompactionFinished) and event.continued_as]

    def results(self, last: int) -> list[str]:
        """The newest results, as the model last saw them."""
        messages = self.worker.requests[-1].messages
        return [text_of(message) for message in messages if message["role"] == "tool"][-last:]

    @property
    def prompt(self) -> str:
        return text_of(self.worker.requests[-1].messages[0])


def environ_in(folder: Path) -> dict[str, str]:
    return {"CLEW_HOME": str(folder / "home"), "PATH": os.environ["PATH"], "HOME": str(folder)}


@asynccontextmanager
async def agent_in(
    folder: Path, worker: Worker, session: str = "", *, window: int = 40_000, provider: Provider | None = None
) -> AsyncIterator[Talk]:
    """An agent app in a folder; the same folder again is the same app after a restart."""
    (folder / "project").mkdir(exist_ok=True)
    checker, events = PrefixChecker(provider or worker), list[Event]()
    config = load_config(environ_in(folder), ["model.name=gpt-5", f"model.context_length={window}"])
    options = AgentAppOptions(
        folder / "project", approvals="allow", events=Events(checker.on_event, events.append), provider=checker
    )
    async with (
        open_store(folder / "state.db", flush="normal") as store,
        open_agent_app(config, environ_in(folder), store, options) as app,
    ):
        talk = Talk(app, checker, worker, session or await app.new_session(), events)
        yield talk
        assert all(calls_have_results(request.messages) for request in worker.requests)
        assert checker.checked + len(talk.compactions()) + 1 >= len(worker.requests)


def talked(turns: int) -> list[tuple[str, Step]]:
    return [(f"Question {number}. {LONG}", answers(f"Answer {number}. {LONG}")) for number in range(turns)]


def shop_in(folder: Path) -> Path:
    project = folder / "project"
    project.mkdir()
    (project / "shop.py").write_text(BROKEN)
    (project / "check.py").write_text(CHECK)
    return project


MEND = (
    (call("read_file", {"path": "shop.py"}, id="c1"), call("search_files", {"pattern": "total"}, id="c2")),
    (call("patch", {"edits": [{"path": "shop.py", "old": "sum(prices) + 1", "new": "sum(prices)"}]}, id="c3"),),
    (call("terminal", {"command": "python check.py"}, id="c4"),),
)


async def test_a_file_is_read_mended_and_its_tests_run(tmp_path: Path) -> None:
    project = shop_in(tmp_path)
    async with agent_in(tmp_path, Worker()) as talk:
        done = await talk.ask("Mend the shop.", *(does(*calls) for calls in MEND), answers("Mended."))
        assert (text_of(done.reply.message), done.rounds) == ("Mended.", 4)
        read, found, patched, ran = talk.results(4)
        assert "2\t    return sum(prices) + 1" in read
        assert "check.py" in found
        assert "edit 1: applied, exact, now line 2" in patched
        assert ran.startswith("1 passed\n[exit 0]")
        assert talk.checker.checked == 3
    assert (project / "shop.py").read_text() == BROKEN.replace(" + 1", "")


@pytest.mark.parametrize("wire", [OpenAIChatProvider, ResponsesProvider, AnthropicProvider])
async def test_the_same_over_every_real_wire(wire: Callable[..., Provider], tmp_path: Path) -> None:
    project = shop_in(tmp_path)
    async with Upstream() as upstream:
        provider = wire(upstream.base_url, api_key=KEY, name="mock")
        async with agent_in(tmp_path, Worker(), provider=provider) as talk:
            upstream.then(*(UpstreamAnswer(calls=calls) for calls in MEND), UpstreamAnswer("Mended."))
            done = await talk.app.agent.ask(talk.session, user("Mend the shop."))
            assert (text_of(done.reply.message), done.rounds) == ("Mended.", 4)
            assert talk.checker.checked == 3
        bodies = [received.body for received in upstream.received]
        assert len({json.dumps(body["tools"]) for body in bodies}) == 1
        assert "1 passed" in json.dumps(bodies[-1])
        assert all(json.dumps(bodies[-1]).count(f'"c{number}"') >= 2 for number in range(1, 5))
        assert KEY not in json.dumps(bodies)
    assert " + 1" not in (project / "shop.py").read_text()


def reads_on(pages: list[str], then: str) -> Step:
    """Reads what was spilled, page by page, as the block and each page say; then answers."""

    def reply(request: Request) -> Reply:
        block = next(text_of(it) for it in request.messages if "<persisted-output" in text_of(it))
        path = re.search(r"(/\S+/outputs/[\w.-]+)", block)
        assert path is not None
        last = text_of(request.messages[-1])
        more = re.search(r"go on with offset=(\d+)", last)
        if "<persisted-output" not in last:
            pages.append(last)
            if more is None:
                return answers(then)(request)
        offset = int(more[1]) if more else 1
        return does(call("read_file", {"path": path[1], "offset": offset}, id=f"page{offset}"))(request)

    return reply


async def test_a_large_result_is_spilled_and_read_back_page_by_page(tmp_path: Path) -> None:
    pages: list[str] = []
    async with agent_in(tmp_path, Worker()) as talk:
        count = "for n in $(seq 1 2600); do echo line $n; done"
        steps = [does(call("terminal", {"command": count}, id="c1"))] + [reads_on(pages, "All read.")] * 4
        await talk.ask("Count.", *steps)
        assert [event.tool for event in talk.events if isinstance(event, OutputSpilled)] == ["terminal"]
    read = [line.partition("\t")[2] for page in pages for line in page.splitlines() if "\t" in line]
    assert [line for line in read if line.startswith("line ")] == [f"line {number}" for number in range(1, 2601)]


async def test_of_three_medium_results_the_largest_goes_to_disk(tmp_path: Path) -> None:
    async with agent_in(tmp_path, Worker()) as talk:
        asked = [
            call("terminal", {"command": f"head -c {size} /dev/zero | tr '\\0' x | fold -w 100"}, id=f"c{size}")
            for size in (12_000, 14_000, 16_000)
        ]
        await talk.ask("Print.", does(*asked), answers("Printed."))
        small, medium, large = talk.results(3)
        assert "<persisted-output" in large
        assert "<persisted-output" not in small + medium
        assert len(small) + len(medium) + len(large) <= 40_000


async def test_recall_brings_back_the_exact_words_of_what_was_folded(tmp_path: Path) -> None:
    exact = "The password of the staging printer is written under its third drawer, in green ink."
    async with agent_in(tmp_path, Worker()) as talk:
        for question, reply in talked(3):
            await talk.ask(question, reply)
        await talk.ask(f"Remember: {exact}", answers("Noted."))
        for question, reply in talked(8):
            await talk.ask(question, reply)
        await (await talk.app.runtime.conversation(talk.session)).compact_now()
        conversation = await talk.app.runtime.conversation(talk.session)
        folded = [text_of(message) for message in conversation.messages if text_of(message) == f"Remember: {exact}"]
        assert not folded
        await talk.ask(
            "Where is it?",
            does(call("recall", {"query": "staging printer drawer"}, id="r1")),
            does(call("recall", {"around": 6}, id="r2")),
            answers("Under the drawer."),
        )
        found, read = talk.results(2)
        assert 'from="m6 user"' in found
        assert exact in read


async def test_what_is_remembered_is_on_disk_before_a_compaction_and_shown_behind_it(tmp_path: Path) -> None:
    async with agent_in(tmp_path, Worker()) as talk:
        before = text_of({"role": "system", "content": talk.app.prompt()})
        remember = call("memory", {"action": "add", "which": "memory", "text": "The build needs make 4"}, id="m1")
        await talk.ask("Remember the build.", does(remember), answers("Noted."))
        assert talk.prompt == before  # while the prefix is hot it stays, byte for byte
        at_switch: list[bool] = []
        file = tmp_path / "home" / "MEMORY.md"
        talk.app.runtime.events.listen(
            lambda event: at_switch.append(file.exists()) if isinstance(event, CompactionFinished) else None
        )
        for question, reply in talked(14):
            await talk.ask(question, reply)
        assert at_switch
        assert all(at_switch)
        assert len(talk.compactions()) >= 1
        assert "The build needs make 4" in talk.prompt


async def test_an_opened_skill_stands_word_for_word_behind_two_compactions_and_a_restart(tmp_path: Path) -> None:
    skill = tmp_path / "project" / ".clew" / "skills" / "indexes"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(f"---\nname: indexes\ndescription: How we name indexes\n---\n{RULE}\n")
    async with agent_in(tmp_path, Worker()) as talk:
        await talk.ask("How?", does(call("skill", {"name": "indexes"}, id="s1")), answers("So."))
        session = talk.session
        for _ in range(2):
            for question, reply in talked(8):
                await talk.ask(question, reply)
            await (await talk.app.runtime.conversation(session)).compact_now()
        await talk.ask("Go on.", answers("Gone on."))
        assert len(talk.compactions()) >= 2
        assert talk.prompt.count(RULE) == 1
        last, tools = talk.worker.requests[-1].messages[0], talk.worker.requests[-1].tools
    async with agent_in(tmp_path, Worker(), session) as talk:
        await talk.ask("Still there?", answers("Yes."))
        assert talk.worker.requests[0].messages[0] == last
        assert talk.worker.requests[0].tools == tools


def looks(number: int) -> Step:
    """Prints about 10,000 chars."""
    command = f"for n in $(seq 1 200); do echo {number} is a line of the long report of the importer $n; done"
    return does(call("terminal", {"command": command}, id=f"t{number}"))


async def test_a_tool_loop_goes_on_through_compactions_in_its_middle(tmp_path: Path) -> None:
    async with agent_in(tmp_path, Worker(summary=f"The reports were read one by one. {LONG}")) as talk:
        await talk.ask("Hello.", answers("Hello."))
        done = await talk.ask("Read every report.", *map(looks, range(14)), answers("All read."))
        assert (done.rounds, done.hit_round_limit) == (15, False)
        in_the_middle = [event for event in talk.compactions() if event.tokens_after < event.tokens_before]
        assert len(in_the_middle) >= 2
        started = {event.reason for event in talk.events if isinstance(event, CompactionStarted)}
        assert started <= {"preflight", "usage"}
        assert max(map(request_tokens, talk.worker.requests)) < 40_000
        assert any("Read every report." in text_of(it) for it in talk.worker.requests[-1].messages)
        assert talk.worker.summaries


async def test_a_summary_that_fails_in_the_middle_of_a_loop_is_written_by_the_built_in(tmp_path: Path) -> None:
    async with agent_in(tmp_path, Worker()) as talk:
        await talk.ask("Hello.", answers("Hello."))
        done = await talk.ask("Read every report.", *map(looks, range(9)), answers("All read."))
        assert text_of(done.reply.message) == "All read."
        assert talk.compactions()
        assert any("built-in" in warning for event in talk.compactions() for warning in event.warnings)
        history = await talk.app.store.messages(await talk.app.store.get_compression_tip(talk.session), 0, 100)
        assert sum("is a line of the long report" in text_of(row.message) for row in history) == 9


RESUME = """
import asyncio, json, sys
from pathlib import Path
from clew.app import AgentAppOptions, open_agent_app
from clew.config import load_config
from clew.store import open_store
from clew.testing import user
from tests.support.flow import answers
from clew.testing.scripted import ScriptedProvider

async def main(folder, session, environ):
    provider = ScriptedProvider(answers("Back again."))
    config = load_config(environ, ["model.name=gpt-5", "model.context_length=40000"])
    options = AgentAppOptions(Path(folder, "project"), approvals="allow", provider=provider)
    async with open_store(Path(folder, "state.db")) as store, open_agent_app(config, environ, store, options) as app:
        await app.agent.ask(session, user("Are you there?"))
    sent = provider.requests[0]
    print(json.dumps({"messages": sent.messages, "tools": sent.tools}))

asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3])))
"""


async def test_another_process_goes_on_with_the_very_same_bytes(tmp_path: Path) -> None:
    async with agent_in(tmp_path, Worker()) as talk:
        for question, reply in talked(8):
            await talk.ask(question, reply)
        await (await talk.app.runtime.conversation(talk.session)).compact_now()
        await talk.ask("Look.", does(call("terminal", {"command": "echo seen"}, id="c1")), answers("Seen."))
        session, last = talk.session, talk.worker.requests[-1]
    words = [sys.executable, "-c", RESUME, str(tmp_path), session, json.dumps(environ_in(tmp_path))]
    done = await asyncio.to_thread(subprocess.run, words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    sent = json.loads(done.stdout)
    assert json.dumps(sent["messages"][: len(last.messages)]) == json.dumps(last.messages)
    assert json.dumps(sent["tools"]) == json.dumps(last.tools)
    assert [text_of(it) for it in sent["messages"][len(last.messages) :]] == ["Seen.", "Are you there?"]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")
async def test_a_process_in_the_background_lives_over_rounds_and_ends_with_the_app(tmp_path: Path) -> None:
    waits = "echo began; echo $$ > pid; while [ ! -e go ]; do sleep 0.05; done; echo went; exec sleep 600"
    pids: list[int] = []
    async with agent_in(tmp_path, Worker()) as talk:
        project = talk.app.project
        await talk.ask(
            "Serve.",
            does(call("terminal", {"command": waits, "background": True}, id="b1")),
            does(call("process", {"action": "list"}, id="b2")),
            answers("It runs."),
        )
        begun, listed = talk.results(2)
        assert "p1 running" in begun + listed
        await (await talk.app.runtime.conversation(talk.session)).compact_now()
        (project / "go").touch()
        seen = does(call("process", {"action": "wait", "id": "p1", "seconds": 0.5}, id="b3"))
        await talk.ask("And now?", seen, answers("It went."))
        assert "went" in talk.results(1)[0]
        pids = [int((project / "pid").read_text())]
        assert all(map(is_running, pids))
    assert not any(map(is_running, pids))
