"""The chat in a real terminal: driven in tmux, its screen captured, against a mock upstream over loopback."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from clew.testing import call
from clew.testing.upstream import Step, StreamedAnswer, Upstream, UpstreamAnswer

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")]
DEADLINE_SECONDS = 30.0
COLUMNS, ROWS = 80, 24


@dataclass
class Screen:
    """A terminal of 80 by 24 in a tmux server of its own."""

    socket: Path

    async def tmux(self, *words: str) -> str:
        command = ["tmux", "-S", str(self.socket), "-f", "/dev/null", *words]
        environ = {name: value for name, value in os.environ.items() if name != "TMUX"}
        running = await asyncio.create_subprocess_exec(
            *command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env={**environ, "LC_ALL": "C.UTF-8"}
        )
        out, err = await running.communicate()
        assert running.returncode == 0, err.decode()
        return out.decode()

    async def shown(self) -> str:
        return await self.tmux("capture-pane", "-p")

    async def everything(self) -> str:
        """What scrolled away too."""
        return await self.tmux("capture-pane", "-p", "-S", "-5000")

    async def type(self, text: str, *keys: str) -> None:
        if text:
            await self.tmux("send-keys", "-l", text)
        if keys:
            await self.tmux("send-keys", *keys)

    async def sees(self, *texts: str) -> str:
        """The screen, as soon as all of this is on it."""
        shown = ""
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                while True:
                    shown = await self.shown()
                    if all(text in shown for text in texts):
                        return shown
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"not all of {texts} is on the screen:\n{shown}") from None


@asynccontextmanager
async def chat_at(upstream: Upstream | None, folder: Path) -> AsyncIterator[Screen]:
    """A chat in a terminal; without an upstream, one for which no model is chosen."""
    project = folder / "project"
    project.mkdir()
    screen = Screen(folder / "tmux")
    where = ("--base-url", upstream.base_url, "--model", "mock-1") if upstream else ()
    command = [
        *(
            "env",
            "-i",
            f"CLEW_HOME={folder / 'home'}",
            "LC_ALL=C.UTF-8",
            "PYTHONIOENCODING=utf-8",
            "TERM=screen-256color",
        ),
        *(f"PATH={os.environ['PATH']}", f"PYTHONPATH={os.environ.get('PYTHONPATH', '')}"),
        *(sys.executable, "-m", "clew", "chat", *where),
        *("--set", "model.context_length=64000", "--project", str(project)),
    ]
    await screen.tmux("new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), *command)
    await screen.tmux("set-option", "-w", "remain-on-exit", "on")
    try:
        yield screen
    finally:
        await screen.tmux("kill-server")


def status_of(shown: str) -> str:
    return next(line for line in reversed(shown.splitlines()) if line.strip())


async def test_a_whole_chat_from_greeting_to_farewell(tmp_path: Path) -> None:
    reply = "# Clocks\n\nThe **third** one is late:\n\n- oil it\n- wind it\n\n```python\nlate = 3\n```\nThat is all."
    danger = call("terminal", {"command": "rm -rf assets"})
    steps: list[Step] = [
        UpstreamAnswer(reply),
        UpstreamAnswer("I remove it.", calls=(danger,)),
        UpstreamAnswer("It is gone."),
        StreamedAnswer(UpstreamAnswer("This sentence comes to half of it and no further than that."), stall_after=6),
        UpstreamAnswer("I was stopped before."),
    ]
    async with Upstream(*steps) as upstream, chat_at(upstream, tmp_path) as screen:
        (tmp_path / "project" / "assets").mkdir()

        shown = await screen.sees("clew ", "model", "window 64.0K (as configured)", "caching", "to compaction")
        assert "mock-1 · ▯▯▯▯▯▯▯" in status_of(shown) or "mock-1 · ▮▯▯▯▯▯▯" in status_of(shown)

        await screen.type("Which clock is late?", "Enter")
        shown = await screen.sees("› Which clock is late?", " • oil it", "late = 3", "That is all.", "cache 30%")
        assert "**third**" not in shown
        assert "no price" in status_of(shown)

        await screen.type("Remove the build", "Enter")
        await screen.sees("terminal wants to", "rm -rf assets", "allow? [y/a/n]")
        assert (tmp_path / "project" / "assets").exists()
        await screen.type("y", "Enter")
        await screen.sees("✓ $ rm -rf assets", "It is gone.")
        assert not (tmp_path / "project" / "assets").exists()

        await screen.type("/help", "Enter")
        await screen.sees("/quit", "/help COMMAND says more")

        await screen.type("Tell me more", "Enter")
        await screen.sees("This sentence comes to")
        await screen.type("", "C-c")
        await screen.sees("stopped; the reply so far is kept", "This sentence comes to")
        await screen.type("What happened?", "Enter")
        await screen.sees("I was stopped before.")
        kept = upstream.received[-1].body["messages"][-2]["content"]
        assert kept.startswith("This sentence comes to")

        await screen.type("", "C-d")
        shown = await screen.sees("resume    clew chat --resume s_", "cost      no price")
        # The stopped reply was paid for, too.
        assert "4 questions, 5 calls of the model" in shown


async def test_a_reply_of_2000_lines_is_printed_once_and_in_order(tmp_path: Path) -> None:
    lines = [f"number = {number}" for number in range(2_000)]
    code = "```python\n" + "\n".join(lines) + "\n```\n\nAll of them."
    async with Upstream(UpstreamAnswer(code, piece_chars=400)) as upstream, chat_at(upstream, tmp_path) as screen:
        await screen.sees("to compaction")
        await screen.type("Count", "Enter")
        await screen.sees("All of them.")
        scrolled = (await screen.everything()).splitlines()
        printed = [line.strip() for line in scrolled if line.startswith("number = ")]
        # tmux keeps the last 2,000 lines that scrolled away.
        assert printed == lines[-len(printed) :]
        assert len(printed) > 1_900


async def test_commands_are_completed(tmp_path: Path) -> None:
    async with Upstream() as upstream, chat_at(upstream, tmp_path) as screen:
        await screen.sees("to compaction")
        await screen.type("/comp")
        await screen.sees("fold")
        await screen.type("", "Tab")
        await screen.sees("› /compress")


async def test_a_first_run_without_a_model_is_a_short_choice(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.yaml").write_text("terminal:\n  sandbox: none\n")  # or it would be offered
    async with Upstream(UpstreamAnswer("Good day.")) as upstream, chat_at(None, tmp_path) as screen:
        await screen.sees("No model is chosen yet.", "smollm2", "a server at an address", "Which one?")
        await screen.type("3", "Enter")
        await screen.sees("Address")
        await screen.type(upstream.base_url, "Enter")
        await screen.sees("Name of the model")
        await screen.type("mock-1", "Enter")
        await screen.sees("clew ", "model", "mock-1", "to compaction")
        await screen.type("Hello", "Enter")
        await screen.sees("Good day.")
