"""`clew chat -p`: one question over a real wire to a mock upstream, for scripts."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from clew.cli import main
from clew.store import NewSession, open_store
from clew.testing import call
from clew.testing.upstream import StreamedAnswer, Upstream, UpstreamAnswer, UpstreamFault

pytestmark = pytest.mark.slow

REASON = "deletes a folder and all that is in it, without a way back"
Run = Callable[..., Awaitable[tuple[int, str, str]]]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `clew chat` in a thread, since the upstream answers in this one."""
    project = tmp_path / "project"
    project.mkdir()

    async def chat(upstream: Upstream | None, *words: str, **environ: str) -> tuple[int, str, str]:
        where = ["--base-url", upstream.base_url, "--model", "mock-1"] if upstream else []
        told = {"CLEW_HOME": str(tmp_path / "home"), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin", **environ}
        always = ["--project", str(project), "--set", "model.context_length=64000", *where]
        code = await asyncio.to_thread(main, ["chat", *always, *words], told)
        out, err = capsys.readouterr()
        return code, out, err

    return chat


async def test_the_answer_alone_goes_to_stdout(run: Run) -> None:
    async with Upstream(UpstreamAnswer("The clock is **late**.")) as upstream:
        assert await run(upstream, "-p", "What is wrong?") == (0, "The clock is **late**.\n", "")
        assert upstream.calls[0].body["messages"][-1] == {"role": "user", "content": "What is wrong?"}


async def test_json_tells_everything_that_is_known(run: Run) -> None:
    async with Upstream(UpstreamAnswer("Late.")) as upstream:
        code, out, _ = await run(upstream, "-p", "What is wrong?", "--json")
    told = json.loads(out)
    assert code == 0
    assert told["answer"] == "Late."
    assert told["session"].startswith("s_")
    assert told["model"] == "mock-model-2026"
    assert told["rounds"] == 1
    assert told["usage"]["prompt_tokens"] == 100
    assert told["usage"]["cache_read_tokens"] == 30
    assert told["usage"]["output_tokens"] == 9
    assert told["cost"] is None
    assert (told["tools"], told["compactions"], told["warnings"]) == ([], [], [])


async def test_calls_of_tools_are_told_with_their_outcome(run: Run, tmp_path: Path) -> None:
    (tmp_path / "project" / "hall.txt").write_text("tick\n")
    steps = [UpstreamAnswer(calls=(call("read_file", {"path": name}, id=name),)) for name in ("hall.txt", "none.txt")]
    async with Upstream(*steps, UpstreamAnswer("It ticks.")) as upstream:
        code, out, _ = await run(upstream, "-p", "Does it tick?", "--json")
    told = json.loads(out)
    assert code == 0
    assert told["rounds"] == 3
    assert [(tool["name"], tool["ok"]) for tool in told["tools"]] == [("read_file", True), ("read_file", False)]
    assert "hall.txt" in told["tools"][0]["headline"]
    assert told["usage"]["prompt_tokens"] == 300


async def test_what_is_dangerous_is_refused_where_nobody_is_there(run: Run, tmp_path: Path) -> None:
    precious = tmp_path / "project" / "assets"
    precious.mkdir()
    danger = UpstreamAnswer(calls=(call("terminal", {"command": "rm -rf assets"}),))
    async with Upstream(danger, UpstreamAnswer("I could not.")) as upstream:
        code, out, _ = await run(upstream, "-p", "Clean up", "--json")
        result = upstream.received[1].body["messages"][-1]
    told = json.loads(out)
    assert code == 3
    assert told["tools"][0]["ok"] is False
    assert told["refused"] == [{"name": "terminal", "headline": "$ rm -rf assets", "reasons": [REASON]}]
    assert "nobody is here to approve" in result["content"]
    assert precious.exists()


async def test_a_refusal_is_told_beside_the_answer_with_the_reason_and_a_code_of_its_own(run: Run) -> None:
    danger = UpstreamAnswer(calls=(call("terminal", {"command": "rm -rf assets"}),))
    async with Upstream(danger, UpstreamAnswer("I could not.")) as upstream:
        code, out, err = await run(upstream, "-p", "Clean up")
    assert (code, out) == (3, "I could not.\n")
    assert err == f"clew: not run: terminal $ rm -rf assets: {REASON}; --yes would allow it\n"


async def test_a_stream_of_json_tells_each_thing_as_it_happens(run: Run, tmp_path: Path) -> None:
    (tmp_path / "project" / "hall.txt").write_text("tick\n")
    steps = (
        UpstreamAnswer(calls=(call("read_file", {"path": "hall.txt"}, id="c1"),)),
        UpstreamAnswer(calls=(call("terminal", {"command": "rm -rf assets"}, id="c2"),)),
        UpstreamAnswer("It ticks."),
    )
    async with Upstream(*steps) as upstream:
        code, out, err = await run(upstream, "-p", "Does it tick?", "--json-stream")
    lines = [json.loads(line) for line in out.splitlines()]
    assert (code, err) == (3, "")
    kinds = [line["event"] for line in lines if line["event"] != "text"]
    assert kinds == "start reply tool_start tool_end reply refused tool_start tool_end reply result".split()
    assert "".join(line["text"] for line in lines if line["event"] == "text") == "It ticks."
    assert "tick" in next(line for line in lines if line["event"] == "tool_end")["output"]
    assert lines[0]["model"] == "mock-1"
    assert lines[-1]["answer"] == "It ticks."
    assert lines[-1]["session"] == lines[0]["session"]


async def test_a_failure_is_the_last_line_of_a_stream(run: Run) -> None:
    async with Upstream(UpstreamFault(401, {"error": {"message": "no such key"}})) as upstream:
        code, out, _ = await run(upstream, "-p", "Hello", "--json-stream")
    assert code == 1
    last = json.loads(out.splitlines()[-1])
    assert (last["event"], last["error"]["kind"]) == ("error", "auth")


async def test_a_file_goes_along_with_a_question_of_a_script(run: Run, tmp_path: Path) -> None:
    (tmp_path / "project" / "hall.txt").write_text("tick\n")
    async with Upstream(UpstreamAnswer("Read.")) as upstream:
        code, out, err = await run(upstream, "-p", "What is in @hall.txt and @none/x.txt?")
        assert "tick" in upstream.calls[0].body["messages"][-1]["content"]
    assert (code, out) == (0, "Read.\n")
    assert err == "clew: there is no file none/x.txt in project; the name alone is sent\n"


async def test_yes_lets_everything_run(run: Run, tmp_path: Path) -> None:
    gone = tmp_path / "project" / "assets"
    gone.mkdir()
    danger = UpstreamAnswer(calls=(call("terminal", {"command": "rm -rf assets"}),))
    async with Upstream(danger, UpstreamAnswer("Done.")) as upstream:
        code, out, _ = await run(upstream, "-p", "Clean up", "--yes")
    assert (code, out) == (0, "Done.\n")
    assert not gone.exists()


async def test_a_refusal_is_one_line_and_exit_1(run: Run) -> None:
    async with Upstream(UpstreamFault(401, {"error": {"message": "no such key"}})) as upstream:
        code, out, err = await run(upstream, "-p", "Hello")
    assert (code, out) == (1, "")
    assert "refused (401, auth): no such key. No key was sent: put it into an environment variable" in err
    assert err.count("\n") == 1


async def test_a_reply_that_was_cut_off_is_told_beside_it(run: Run) -> None:
    async with Upstream(UpstreamAnswer("Half a sen", finish="length"), UpstreamAnswer("")) as upstream:
        code, out, err = await run(upstream, "-p", "Tell me")
        assert (code, out) == (0, "Half a sen\n")
        assert "the reply was cut off" in err
        _, out, err = await run(upstream, "-p", "Tell me")
        assert "the model answered without a word" in err


async def test_exit_codes_are_the_same_for_programs(run: Run) -> None:
    code, out, _ = await run(None, "-p", "", "--model", "mock-1", "--json")
    assert (code, json.loads(out)["error"]["type"]) == (2, "InvalidArgument")
    assert (await run(None, "-p", "", "--model", "mock-1"))[0] == 2


async def test_a_refusal_is_json_where_json_is_asked_for(run: Run) -> None:
    async with Upstream(UpstreamFault(401, {"error": {"message": "no such key"}})) as upstream:
        code, out, err = await run(upstream, "-p", "Hello", "--json")
    told = json.loads(out)["error"]
    assert (code, err) == (1, "")
    assert json.loads(out)["session"].startswith("s_")
    assert told["type"] == "ProviderRefused"
    assert told["kind"] == "auth"
    assert "key" in told["remedy"]


@pytest.mark.parametrize("flags", [["--resume"], ["--continue"]])
async def test_the_last_session_goes_on(run: Run, flags: list[str]) -> None:
    async with Upstream(UpstreamAnswer("Late."), UpstreamAnswer("Oiled.")) as upstream:
        _, first, _ = await run(upstream, "-p", "What is wrong?", "--json")
        _, second, _ = await run(upstream, "-p", "Oil it", *flags, "--json")
        sent = upstream.received[1].body["messages"]
    assert json.loads(first)["session"] == json.loads(second)["session"]
    assert [message["content"] for message in sent[1:]] == ["What is wrong?", "Late.", "Oil it"]


async def test_a_session_in_which_nothing_was_said_is_not_the_last_one(run: Run, tmp_path: Path) -> None:
    async with Upstream(UpstreamAnswer("Late."), UpstreamAnswer("Oiled.")) as upstream:
        _, first, _ = await run(upstream, "-p", "What is wrong?", "--json")
        async with open_store(tmp_path / "home" / "state.db", flush="normal") as store:
            await store.start_session(NewSession(source="terminal", model="mock-1", title=None, system="S"))
        _, second, _ = await run(upstream, "-p", "Oil it", "--continue", "--json")
    assert json.loads(first)["session"] == json.loads(second)["session"]


async def test_a_session_is_named_by_its_first_question_and_goes_on_by_that_name(run: Run) -> None:
    async with Upstream(UpstreamAnswer("Late."), UpstreamAnswer("Other."), UpstreamAnswer("Oiled.")) as upstream:
        _, first, _ = await run(upstream, "-p", "What is wrong with the clock?", "--json")
        await run(upstream, "-p", "Something else")
        _, third, _ = await run(upstream, "-p", "Oil it", "--resume", "What is wrong with the clock?", "--json")
    assert json.loads(first)["session"] == json.loads(third)["session"]


async def test_a_session_goes_on_at_its_own_address(run: Run) -> None:
    async with Upstream(UpstreamAnswer("Late."), UpstreamAnswer("Oiled.")) as upstream:
        _, first, _ = await run(upstream, "-p", "What is wrong?", "--json")
        code, _, err = await run(None, "-p", "Oil it", "--resume", json.loads(first)["session"])
        assert code == 0, err
        assert upstream.calls[1].body["model"] == "mock-1"


async def test_without_tools_none_are_offered(run: Run) -> None:
    async with Upstream(UpstreamAnswer("Hi.")) as upstream:
        await run(upstream, "-p", "Hello", "--no-tools")
        assert not upstream.received[0].body.get("tools")


async def test_a_system_prompt_of_ones_own_takes_the_place_of_ours(run: Run, tmp_path: Path) -> None:
    (tmp_path / "own.txt").write_text("You are a clock.")
    async with Upstream(UpstreamAnswer("Tick.")) as upstream:
        await run(upstream, "-p", "Hello", "--system", str(tmp_path / "own.txt"))
        assert upstream.received[0].body["messages"][0]["content"] == "You are a clock."


async def test_a_picture_that_is_named_goes_along(run: Run, tmp_path: Path) -> None:
    (tmp_path / "project" / "clock.png").write_bytes(b"\x89PNG small")
    async with Upstream(UpstreamAnswer("A clock.")) as upstream:
        await run(upstream, "-p", "What is on @clock.png ?")
        content = upstream.calls[0].body["messages"][-1]["content"]
    assert content[0] == {"type": "text", "text": "What is on @clock.png ?"}
    assert content[1]["image_url"]["url"].startswith("data:image/png;base64,")


async def started(tmp_path: Path, *words: str) -> Process:
    """The program itself."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CLEW_")}
    environ |= {"CLEW_HOME": str(tmp_path / "home"), "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-m", "clew", "chat", *words]
    return await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environ, cwd=tmp_path
    )


async def piped(tmp_path: Path, text: str, *words: str) -> tuple[int, str, str]:
    """The same, with something piped in."""
    running = await started(tmp_path, *words)
    out, err = await running.communicate(text.encode())
    return running.returncode or 0, out.decode(), err.decode()


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["-p"], "late by 3 s"),
        (["-p", "Explain this:"], "Explain this:\n\nlate by 3 s"),
        ([], "late by 3 s"),
    ],
)
async def test_what_is_piped_in_is_asked(tmp_path: Path, words: list[str], asked: str) -> None:
    async with Upstream(UpstreamAnswer("Yes.")) as upstream:
        where = ["--base-url", upstream.base_url, "--model", "mock-1"]
        code, out, err = await piped(tmp_path, "late by 3 s\n", *words, *where)
        assert (code, out) == (0, "Yes.\n"), err
        assert upstream.calls[0].body["messages"][-1]["content"] == asked


async def test_ctrl_c_stops_it_and_the_question_is_kept(tmp_path: Path) -> None:
    half = StreamedAnswer(UpstreamAnswer("Half of this sentence comes and the rest does not."), stall_after=6)
    async with Upstream(half, UpstreamAnswer("On it goes.")) as upstream:
        where = ["--base-url", upstream.base_url, "--model", "mock-1"]
        running = await started(tmp_path, "-p", "Tell me", *where)
        assert running.stdin is not None
        running.stdin.close()
        await asyncio.wait_for(upstream.stalled.wait(), 30)
        running.send_signal(signal.SIGINT)
        _, err = await running.communicate()
        assert (running.returncode, err.decode().splitlines()[-1]) == (130, "clew: stopped")
        await piped(tmp_path, "", "-p", "And?", "--continue", *where)
        assert "Tell me" in [message["content"] for message in upstream.received[1].body["messages"]]


async def test_no_question_at_all_is_wrong_use(tmp_path: Path) -> None:
    code, _, err = await piped(tmp_path, "", "-p", "-")
    assert code == 2
    assert "there is no question" in err


async def test_without_a_model_the_three_ways_to_one_are_told(run: Run) -> None:
    code, out, err = await run(None, "-p", "Hello")
    assert (code, out) == (1, "")
    for way in ("clew models get smollm2", "ANTHROPIC_API_KEY", "--base-url"):
        assert way in err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--project", "/nowhere/at/all"], "there is no such folder"),
        (["--system", "/nowhere/prompt.txt"], "cannot be read"),
    ],
)
async def test_what_cannot_be_meant_is_said_before_anything_is_asked(run: Run, words: list[str], told: str) -> None:
    async with Upstream() as upstream:
        code, _, err = await run(upstream, "-p", "Hello", *words)
        assert upstream.received == []
    assert code == 2
    assert told in err


async def test_an_overflow_is_met_by_a_compaction_which_is_told(run: Run) -> None:
    body: dict[str, Any] = {
        "error": {
            "message": "This model's maximum context length is 8192 tokens. However, your messages resulted in "
            "9000 tokens. Please reduce the length of the messages.",
            "code": "context_length_exceeded",
        }
    }
    long = "The clock in hall 3 runs late. " * 120
    turns = [UpstreamAnswer(f"Noted, part {number}. {long}") for number in range(4)]
    async with Upstream(
        *turns, UpstreamFault(400, body), UpstreamAnswer("Summary of the clock."), *[UpstreamAnswer("Oiled.")] * 3
    ) as upstream:
        flags: list[str] = []
        for number in range(4):
            await run(upstream, "-p", f"Part {number}: {long}", "--no-tools", *flags)
            flags = ["--continue"]
        code, out, _ = await run(upstream, "-p", "Oil it", "--no-tools", "--continue", "--json")
    told = json.loads(out)
    assert code == 0, told
    assert told["compactions"]
    assert told["compactions"][0]["tokens_after"] < told["compactions"][0]["tokens_before"]
