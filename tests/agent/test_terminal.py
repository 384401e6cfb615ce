"""Commands that really run: output, limits, and the end of everything they started."""

# ruff: noqa: ASYNC240 (small files of the test itself)
from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from clew.agent.tools import CallContext, ToolResult
from clew.agent.tools.terminal import TerminalTool
from clew.providers import PROVIDER_PRESETS

ENVIRON = {"PATH": os.environ["PATH"], "HOME": "/nowhere"}


def call_of(pieces: list[str] | None = None) -> CallContext:
    return CallContext("s", "c", (pieces if pieces is not None else []).append)


async def ran(project: Path, command: str, **more: object) -> ToolResult:
    return await TerminalTool(project, ENVIRON).run({"command": command, **more}, call_of())


async def wait_for(path: Path) -> str:
    """The text of a file that a command writes, once it is there."""
    while not (path.exists() and path.read_text().endswith("\n")):  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return path.read_text().strip()


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def command_line(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


async def test_both_streams_come_back_in_order_with_the_exit_code(tmp_path: Path) -> None:
    result = await ran(tmp_path, "echo one; echo two >&2; echo three; exit 3")
    assert result.text.startswith("one\ntwo\nthree\n[exit 3] after ")
    assert not result.is_error


async def test_a_silent_command_says_so(tmp_path: Path) -> None:
    assert (await ran(tmp_path, "true")).text.startswith("(nothing was printed)\n[exit 0]")


async def test_output_is_shown_as_it_comes_and_chars_are_never_torn(tmp_path: Path) -> None:
    pieces: list[str] = []
    command = "printf '\\xc3'; sleep 0.05; printf '\\xa9 \\xff end'"
    result = await TerminalTool(tmp_path, ENVIRON).run({"command": command}, call_of(pieces))
    assert "".join(pieces) == "é \ufffd end"
    assert result.text.startswith("é \ufffd end\n")


async def test_colours_go_and_a_progress_bar_leaves_its_last_state(tmp_path: Path) -> None:
    result = await ran(tmp_path, "printf '\\033[31mred\\033[0m\\n10%%\\r50%%\\r100%%\\ndone\\r\\n'")
    assert result.text.startswith("red\n100%\ndone\n[exit 0]")


async def test_a_flood_keeps_its_beginning_and_its_end(tmp_path: Path) -> None:
    terminal = TerminalTool(tmp_path, ENVIRON, keep_chars=1_000)
    result = await terminal.run({"command": "echo first; yes | head -c 3000000; echo; echo last"}, call_of())
    assert len(result.text) < 1_200
    assert result.text.startswith("first\n")
    assert "last\n[exit 0]" in result.text
    assert "2,999,0" in result.text and "chars left out here]" in result.text


async def test_an_endless_flood_ends_at_the_limit(tmp_path: Path) -> None:
    result = await ran(tmp_path, "yes", timeout=0.2)
    assert result.is_error
    assert "timed out after 0.2 s and was ended" in result.text
    assert len(result.text) < 40_000


async def test_what_came_before_the_limit_is_kept(tmp_path: Path) -> None:
    result = await ran(tmp_path, "echo before; sleep 30", timeout=0.2)
    assert result.text.startswith("before\ntimed out after 0.2 s")


async def test_the_limit_ends_grandchildren_too(tmp_path: Path) -> None:
    await ran(tmp_path, "bash -c 'sleep 30 & echo $! > pid; wait'", timeout=0.5)
    assert not is_running(int(await wait_for(tmp_path / "pid")))


async def test_who_ignores_the_request_to_end_is_ended_all_the_same(tmp_path: Path) -> None:
    result = await ran(tmp_path, "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done", timeout=0.3)
    assert "timed out" in result.text
    assert not is_running(int(await wait_for(tmp_path / "pid")))


async def test_a_grandchild_that_holds_the_output_does_not_hold_the_call(tmp_path: Path) -> None:
    result = await ran(tmp_path, "sleep 30 & echo $! > pid; echo started")
    assert result.text.startswith("started\n[exit 0]")
    assert "what it left running was ended" in result.text
    assert not is_running(int(await wait_for(tmp_path / "pid")))


async def test_output_of_a_process_that_outlives_the_shell_by_a_moment_is_kept(tmp_path: Path) -> None:
    result = await ran(tmp_path, "echo seen > >(sleep 0.05; cat)")
    assert "seen" in result.text


async def test_stopping_a_call_ends_the_whole_group(tmp_path: Path) -> None:
    task = asyncio.create_task(ran(tmp_path, "sleep 30 & echo $! > pid; wait"))
    pid = int(await wait_for(tmp_path / "pid"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_running(pid)


async def test_stopping_twice_still_ends_it(tmp_path: Path) -> None:
    task = asyncio.create_task(ran(tmp_path, "trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done"))
    pid = int(await wait_for(tmp_path / "pid"))
    task.cancel()
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_running(pid)


async def test_stopping_at_any_moment_of_the_start_leaves_nothing(tmp_path: Path) -> None:
    token = f"token{tmp_path.name}"
    for moment in range(12):
        task = asyncio.create_task(ran(tmp_path, f"sleep 30; echo {token}"))
        for _ in range(moment):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    found = [path.parent.name for path in Path("/proc").glob("[0-9]*/cmdline") if token in command_line(path)]
    assert not [pid for pid in found if is_running(int(pid))]


async def test_standard_input_is_empty_and_there_is_no_terminal(tmp_path: Path) -> None:
    result = await ran(tmp_path, "cat; tty; echo $TERM $PAGER $GIT_TERMINAL_PROMPT")
    assert "not a tty\ndumb cat 0\n" in result.text


async def test_a_change_of_folder_does_not_carry_over(tmp_path: Path) -> None:
    terminal = TerminalTool(tmp_path, ENVIRON)
    await terminal.run({"command": "cd /"}, call_of())
    assert (await terminal.run({"command": "pwd"}, call_of())).text.startswith(str(tmp_path.resolve()))


async def test_workdir_is_taken_from_the_project(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    assert (await ran(tmp_path, "pwd", workdir="sub")).text.startswith(str(tmp_path.resolve() / "sub"))


async def test_keys_of_providers_do_not_go_along(tmp_path: Path) -> None:
    secret = "plainly-" + "fake"
    names = [known.key_env for known in PROVIDER_PRESETS] + ["CLEW_MODEL_API_KEY"]
    environ = {**ENVIRON, **dict.fromkeys(names, secret), "CLEW_HOME": "/x", "OTHER": "y"}
    result = await TerminalTool(tmp_path, environ).run({"command": "env"}, call_of())
    assert secret not in result.text
    assert "CLEW_HOME=/x" in result.text and "OTHER=y" in result.text


async def test_a_key_that_a_project_needs_is_kept_by_name(tmp_path: Path) -> None:
    terminal = TerminalTool(tmp_path, {**ENVIRON, "HF_TOKEN": "fake"}, keep_secrets=["HF_TOKEN"])
    assert (await terminal.run({"command": "echo $HF_TOKEN"}, call_of())).text.startswith("fake\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "command is None"),
        ({"command": "  "}, "command is"),
        ({"command": 3}, "command is 3"),
        ({"command": "a\0b"}, "NUL"),
        ({"command": "echo \ud800"}, "surrogate"),
        ({"command": "ls", "workdir": "\ud800"}, "workdir is"),
        ({"command": "ls", "workdir": 3}, "workdir is 3"),
        ({"command": "ls", "workdir": "not-there"}, "is no folder"),
        ({"command": "ls", "timeout": -1}, "timeout is -1"),
        ({"command": "ls", "timeout": "soon"}, "timeout is 'soon'"),
        ({"command": "ls", "timeout": True}, "timeout is True"),
        ({"command": "ls", "timeout": float("nan")}, "timeout is nan"),
    ],
)
async def test_a_mistake_in_the_arguments_is_a_result_that_says_so(
    tmp_path: Path, arguments: dict[str, object], said: str
) -> None:
    terminal = TerminalTool(tmp_path, ENVIRON)
    assert terminal.risk(arguments) is None
    result = await terminal.run(arguments, call_of())
    assert result.is_error
    assert said in result.text


def test_a_folder_outside_the_project_is_a_risk(tmp_path: Path) -> None:
    terminal = TerminalTool(tmp_path / "project", ENVIRON)
    risk = terminal.risk({"command": "ls", "workdir": ".."})
    assert risk is not None
    assert "runs outside the project" in risk.reasons[0]


def test_a_link_that_leads_out_of_the_project_is_a_risk(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "out").symlink_to(tmp_path)
    assert TerminalTool(project, ENVIRON).risk({"command": "ls", "workdir": "out"}) is not None


def test_links_in_a_circle_are_no_folder_and_no_exception(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert TerminalTool(tmp_path, ENVIRON).risk({"command": "ls > a", "workdir": "a"}) is None


def test_both_risks_are_named_where_a_dangerous_command_runs_outside(tmp_path: Path) -> None:
    risk = TerminalTool(tmp_path / "project", ENVIRON).risk({"command": "git push", "workdir": ".."})
    assert risk is not None
    assert len(risk.reasons) == 2
    inside = TerminalTool(tmp_path / "project", ENVIRON).risk({"command": "git push"})
    assert inside is not None and inside.scope != risk.scope


def test_the_headline_is_the_command(tmp_path: Path) -> None:
    terminal = TerminalTool(tmp_path, ENVIRON)
    assert terminal.headline({"command": "ls -l\npwd"}) == "$ ls -l …"
    assert terminal.headline({}) == "$"


async def test_a_long_limit_is_cut_to_the_longest(tmp_path: Path) -> None:
    terminal = TerminalTool(tmp_path, ENVIRON, max_seconds=0.2)
    result = await terminal.run({"command": "sleep 30", "timeout": 1e9}, call_of())
    assert "timed out after 0.2 s" in result.text
