"""Commands in the background: looked at, waited for, stopped, and gone at the end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from clew.agent.processes import BackgroundCommand, BackgroundCommands
from clew.agent.tools import CallContext
from clew.agent.tools.terminal import ProcessTool, TerminalTool

ENVIRON = {"PATH": os.environ["PATH"], "HOME": "/nowhere"}
CALL = CallContext("s", "c")


@pytest.fixture
async def background() -> AsyncIterator[BackgroundCommands]:
    kept = BackgroundCommands(max_running=3)
    yield kept
    await kept.close()


async def looked(tool: ProcessTool, **arguments: object) -> str:
    return (await tool.run(arguments, CALL)).text


async def started(background: BackgroundCommands, folder: Path, command: str) -> BackgroundCommand:
    return await background.start(command, folder, ENVIRON)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def open_files() -> set[str]:
    return {file.name for file in Path("/proc/self/fd").iterdir()}


async def test_a_call_in_the_background_comes_back_with_an_id(tmp_path: Path, background: BackgroundCommands) -> None:
    terminal = TerminalTool(tmp_path, ENVIRON, background=background)
    result = await terminal.run({"command": "echo ready; exit 4", "background": True}, CALL)
    assert result.text.startswith("ready\np1 ended after ")
    assert "[exit 4]" in result.text


async def test_new_output_is_given_once(tmp_path: Path, background: BackgroundCommands) -> None:
    tool = ProcessTool(background)
    command = await started(background, tmp_path, "echo one; while [ ! -e go ]; do sleep 0.01; done; echo two")
    await command.wait(0.2)
    assert (await looked(tool, action="output", id="p1")).startswith("one\np1 running")
    assert (await looked(tool, action="output", id="p1")).startswith("(nothing new was printed)")
    (tmp_path / "go").touch()
    waited = await looked(tool, action="wait", id="p1", seconds=30)
    assert waited.startswith("two\np1 ended")
    assert (await looked(tool, action="output", id="p1", tail=2)).startswith("one\ntwo\n")


async def test_waiting_ends_at_its_limit(tmp_path: Path, background: BackgroundCommands) -> None:
    tool = ProcessTool(background)
    await started(background, tmp_path, "sleep 30")
    assert "p1 running" in await looked(tool, action="wait", id="p1", seconds=0.05)


async def test_stopping_ends_it_with_all_it_started(tmp_path: Path, background: BackgroundCommands) -> None:
    tool = ProcessTool(background)
    command = await started(background, tmp_path, "sleep 30 & echo $!; wait")
    await command.wait(0.2)
    pid = int((await looked(tool, action="output", id="p1")).split("\n")[0])
    assert "p1 stopped" in await looked(tool, action="stop", id="p1")
    assert not is_running(pid)
    assert "p1 stopped" in await looked(tool, action="stop", id="p1")


async def test_everything_ends_at_close(tmp_path: Path) -> None:
    background = BackgroundCommands()
    commands = [await started(background, tmp_path, "sleep 30") for _ in range(3)]
    await background.close()
    assert all(command.has_ended for command in commands)


async def test_too_many_at_once_are_refused(tmp_path: Path, background: BackgroundCommands) -> None:
    terminal = TerminalTool(tmp_path, ENVIRON, background=background)
    for _ in range(3):
        await started(background, tmp_path, "sleep 30")
    result = await terminal.run({"command": "sleep 30", "background": True}, CALL)
    assert result.is_error
    assert "too many" in result.text
    await background.commands[0].stop()
    assert not background.is_full


async def test_the_end_of_one_is_told_once(tmp_path: Path, background: BackgroundCommands) -> None:
    command = await started(background, tmp_path, "true")
    await command.wait(30)
    assert background.newly_ended() == (command,)
    assert background.newly_ended() == ()


async def test_a_look_at_one_tells_of_the_end_of_another(tmp_path: Path, background: BackgroundCommands) -> None:
    tool = ProcessTool(background)
    await started(background, tmp_path, "sleep 30")
    other = await started(background, tmp_path, "echo gone; false")
    await other.wait(30)
    assert "also p2 ended" in await looked(tool, action="output", id="p1")
    assert "also" not in await looked(tool, action="output", id="p1")


async def test_the_next_command_tells_of_the_end_of_one(tmp_path: Path, background: BackgroundCommands) -> None:
    terminal = TerminalTool(tmp_path, ENVIRON, background=background)
    command = await started(background, tmp_path, "exit 5")
    await command.wait(30)
    told = (await terminal.run({"command": "echo hi"}, CALL)).text.split("\n")
    assert told[0] == "hi" and told[1].startswith("p1 ended") and told[2].startswith("[exit 0]")
    assert "p1" not in (await terminal.run({"command": "echo hi"}, CALL)).text


async def test_the_list_shows_how_each_stands(tmp_path: Path, background: BackgroundCommands) -> None:
    tool = ProcessTool(background)
    assert "no command was started" in await looked(tool, action="list")
    await started(background, tmp_path, "sleep 30")
    ended = await started(background, tmp_path, "exit 2")
    await ended.wait(30)
    lines = (await looked(tool, action="list")).split("\n")
    assert lines[0].startswith("p1  running") and lines[0].endswith("sleep 30")
    assert lines[1].startswith("p2  ended") and "[exit 2]" in lines[1]
    assert background.newly_ended() == ()


async def test_a_flood_keeps_its_end_within_bounds(tmp_path: Path, background: BackgroundCommands) -> None:
    tool = ProcessTool(background, look_chars=100)
    command = await started(background, tmp_path, "yes | head -c 3000000; echo end")
    await command.wait(30)
    text = await looked(tool, action="output", id="p1")
    assert len(text) < 300
    assert "chars left out here]" in text and "end\np1 ended" in text


async def test_a_line_without_an_end_is_seen(tmp_path: Path, background: BackgroundCommands) -> None:
    tool = ProcessTool(background)
    command = await started(background, tmp_path, "printf 'listening...'; sleep 30")
    await command.wait(0.2)
    assert (await looked(tool, action="output", id="p1")).startswith("listening...\np1 running")


async def test_stopping_the_call_that_starts_it_stops_it(tmp_path: Path, background: BackgroundCommands) -> None:
    terminal = TerminalTool(tmp_path, ENVIRON, background=background)
    task = asyncio.create_task(terminal.run({"command": "sleep 30", "background": True}, CALL))
    while not background.commands:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert background.commands[0].has_ended


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"action": "output", "id": "p9"}, "no background command 'p9'; there are: p1"),
        ({"action": "output"}, "no background command None"),
        ({"action": "dance", "id": "p1"}, "one of list, output, wait, stop"),
        ({"action": "wait", "id": "p1", "seconds": -1}, "seconds is -1"),
        ({"action": "wait", "id": "p1", "seconds": "5"}, "seconds is '5'"),
        ({"action": "output", "id": "p1", "tail": 0}, "tail is 0"),
    ],
)
async def test_a_mistake_is_a_result_that_says_so(
    tmp_path: Path, background: BackgroundCommands, arguments: dict[str, object], said: str
) -> None:
    await started(background, tmp_path, "true")
    result = await ProcessTool(background).run(arguments, CALL)
    assert result.is_error
    assert said in result.text


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs the list of open files")
async def test_a_command_that_cannot_start_leaves_no_open_file(tmp_path: Path, background: BackgroundCommands) -> None:
    await (await started(background, tmp_path, "true")).wait(10)
    before = open_files()
    with pytest.raises(OSError):
        await started(background, tmp_path / "gone", "true")
    assert open_files() <= before
