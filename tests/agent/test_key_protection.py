"""The keys of providers are not to be had from a command, with the real /proc of this machine."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from typing import Any

import pytest

from clew.testing import call
from clew.testing.upstream import Upstream, UpstreamAnswer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs Linux's /proc"),
]

KEY = "plainly-" + "fake-key"
NOBODY = 65534

# An agent of its own process, with a key in its environment: it runs commands and prints what came back.
AGENT = """
import asyncio, ctypes, json, os, sys
from pathlib import Path
from clew.agent.process_privacy import hide_keys_of_process
from clew.agent.tools import CallContext
from clew.agent.tools.terminal import TerminalTool

plan = json.loads(sys.argv[1])
if plan["user"]:
    os.setuid(plan["user"])
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # as any program of that user's: its memory may be read
if plan["hides"]:
    hide_keys_of_process(os.environ)

async def run():
    terminal = TerminalTool(Path("/"), os.environ)
    for command in plan["commands"]:
        result = await terminal.run({"command": command.replace("AGENT", str(os.getpid()))}, CallContext("s", "c"))
        print(json.dumps(result.text))
    print(json.dumps(os.environ["OPENAI_API_KEY"]))
    print(json.dumps(ctypes.CDLL(None).getenv(b"OPENAI_API_KEY") != 0))

asyncio.run(run())
"""


def printed_by_agent(*commands: str, hides: bool = True, user: int = 0) -> list[Any]:
    plan = json.dumps({"commands": commands, "hides": hides, "user": user})
    environ = {**os.environ, "OPENAI_API_KEY": KEY, "OTHER": "seen"}
    ran = subprocess.run([sys.executable, "-c", AGENT, plan], env=environ, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_the_process_that_runs_commands_never_had_the_keys() -> None:
    own, parents, *_ = printed_by_agent(
        "cat /proc/self/environ | tr '\\0' '\\n'", "tr '\\0' '\\n' < /proc/$PPID/environ", hides=False
    )
    assert "OTHER=seen" in own and "OTHER=seen" in parents
    assert KEY not in own and KEY not in parents


def test_the_agent_itself_is_not_the_parent_of_a_command() -> None:
    parents, *_ = printed_by_agent("[ $PPID = AGENT ] && echo the agent || echo another")
    assert parents.startswith("another\n")


def test_the_keys_are_erased_from_the_environment_that_the_kernel_shows() -> None:
    """Holds for root, too, who may read any process."""
    shown, value, is_set = printed_by_agent("tr '\\0' '\\n' < /proc/AGENT/environ")
    assert KEY not in shown
    assert (value, is_set) == (KEY, True), "the agent itself and the libraries in it still have the key"


def test_every_process_above_a_command_is_without_the_keys() -> None:
    climb = "p=$$; while [ $p -gt 1 ]; do cat /proc/$p/environ 2>&1; p=$(awk '/^PPid/{print $2}' /proc/$p/status); done"
    shown, *_ = printed_by_agent(climb)
    assert "OTHER=seen" in shown
    assert KEY not in shown


def test_the_agents_memory_cannot_be_read_by_its_user() -> None:
    user = NOBODY if os.getuid() == 0 else 0
    look = "head -c 1 /proc/AGENT/environ > /dev/null && echo readable || echo closed"
    before, *_ = printed_by_agent(look, hides=False, user=user)
    assert "readable\n" in before, "the test itself: without protection it can be"
    environ, memory, *_ = printed_by_agent(look, look.replace("environ", "mem"), user=user)
    assert "closed\n" in environ and "closed\n" in memory


def test_a_command_that_a_signal_ended_says_so_by_its_exit_code() -> None:
    killed, *_ = printed_by_agent("kill -9 $$")
    assert killed.startswith("(nothing was printed)\n[exit 137]")


async def test_a_command_cannot_read_the_key_of_the_chat_that_runs_it(tmp_path: Path) -> None:
    climb = "p=$$; while [ $p -gt 1 ]; do cat /proc/$p/environ; p=$(awk '/^PPid/{print $2}' /proc/$p/status); done"
    steps = (UpstreamAnswer(calls=(call("terminal", {"command": climb}, id="c1"),)), UpstreamAnswer("Done."))
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CLEW_")}
    environ |= {"CLEW_HOME": str(tmp_path / "home"), "MODEL_KEY": KEY, "OTHER": "seen"}
    async with Upstream(*steps) as upstream:
        where = ["--base-url", upstream.base_url, "--model", "mock-1", "--set", "model.api_key_env=MODEL_KEY"]
        words = ["-m", "clew", "chat", "-p", "Climb.", "--yes", *where]
        process = await asyncio.create_subprocess_exec(
            sys.executable, *words, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=environ, cwd=tmp_path
        )
        _, err = await process.communicate()
        assert process.returncode == 0, err.decode()
        asked, answered = upstream.calls
    assert KEY in str(asked.headers), "the chat itself has the key"
    result = answered.body["messages"][-1]["content"]
    assert "OTHER=seen" in result
    assert KEY not in result
