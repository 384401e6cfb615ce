"""The shipped plugins under Node, with stubs in place of their programs: folds, recall, and every way to step aside."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.store import Store, open_store
from tests.integrations.test_plugin_service import FACT, TOKEN, serving, stored_messages, work

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed")
SHIPPED = Path(clew.__file__).parent / "integrations" / "inside"
FILES = {
    "claude-code": "hooks/register.js",
    "opencode": "clew.js",
    "pi": "clew.js",
    "openclaw": "index.js",
}
ROUNDS = 24
Rows = list[dict[str, Any]]


def claude_rows(messages: Rows) -> Rows:
    rows: Rows = []
    for at, message in enumerate(messages):
        row = {"role": message["role"], "text": message["content"] or "", "toolUses": [], "handle": f"h{at}"}
        for call in message.get("tool_calls") or ():
            name, given = call["function"]["name"], json.loads(call["function"]["arguments"])
            row["toolUses"].append({"tool_use_id": call["id"], "tool": name, "input": given})
        if message["role"] == "tool":
            result = {"tool_use_id": message["tool_call_id"], "text": message["content"], "isError": False}
            row |= {"role": "user", "text": "", "toolResults": [result]}
        rows.append(row)
    return rows


def pi_rows(messages: Rows) -> Rows:
    rows: Rows = []
    for at, message in enumerate(messages):
        blocks: Rows = [{"type": "text", "text": message["content"]}] if message["content"] else []
        for call in message.get("tool_calls") or ():
            name, given = call["function"]["name"], json.loads(call["function"]["arguments"])
            blocks.append({"type": "toolCall", "id": call["id"], "name": name, "arguments": given})
        said: dict[str, Any] = {"role": message["role"], "content": blocks}
        if message["role"] == "tool":
            said |= {"role": "toolResult", "toolCallId": message["tool_call_id"]}
        rows.append({"type": "message", "id": f"e{at}", "message": said})
    return rows


def openclaw_rows(messages: Rows) -> Rows:
    return [row["message"] for row in pi_rows(messages)]


def opencode_rows(messages: Rows) -> Rows:
    rows: Rows = []
    results = {message["tool_call_id"]: message["content"] for message in messages if message["role"] == "tool"}
    for at, message in enumerate(messages):
        if message["role"] == "tool":
            continue
        parts: Rows = [{"type": "text", "text": message["content"]}] if message["content"] else []
        for call in message.get("tool_calls") or ():
            state = {"status": "completed", "input": {"n": at // 4}, "output": results[call["id"]]}
            parts.append({"type": "tool", "callID": call["id"], "tool": call["function"]["name"], "state": state})
        rows.append({"info": {"id": f"e{at}", "role": message["role"], "modelID": "mock-model"}, "parts": parts})
    asked = [{"type": "compaction", "tail_start_id": f"e{len(messages) - 4}"}]
    return [*rows, {"info": {"id": "asked", "role": "user"}, "parts": asked}]


FORMS: dict[str, Callable[[Rows], Rows]] = {
    "claude-code": claude_rows,
    "opencode": opencode_rows,
    "pi": pi_rows,
    "openclaw": openclaw_rows,
}


class Machine:
    """A home folder with a note for plugins, and a way to run one."""

    def __init__(self, home: Path) -> None:
        self.started = home / "started"
        self._home = home

    def note(self, url: str, token: str = TOKEN) -> None:
        start = ["touch", str(self.started)]
        (self._home / "inside.json").write_text(json.dumps({"start": start, "url": url, "token": token}))

    async def run(self, program: str, messages: Rows) -> dict[str, Any]:
        """What the plugin of a program does with these messages."""
        assert NODE is not None
        host, file = Path(__file__).with_name("plugin_host.mjs"), SHIPPED / program / FILES[program]
        given = json.dumps({"rows": FORMS[program](messages), "kept": f"e{len(messages) - 4}"})
        process = await asyncio.create_subprocess_exec(
            *(NODE, str(host), program, str(file)),
            env={**os.environ, "CLEW_HOME": str(self._home), "HOME": str(self._home)},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate(given.encode())
        assert process.returncode == 0, err.decode()
        done: dict[str, Any] = json.loads(out)
        return done


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    home = tmp_path / "home"
    home.mkdir()
    return Machine(home)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(str(tmp_path / "state.db")) as opened:
        yield opened


@asynccontextmanager
async def answering(answer: str) -> AsyncIterator[str]:
    """A server that answers everything in one way, or never; its address."""
    writers: list[asyncio.StreamWriter] = []

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        if answer:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(f"HTTP/1.1 {answer}".encode())
            await writer.drain()
            writer.close()

    server = await asyncio.start_server(respond, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in writers:
            writer.close()
        await asyncio.sleep(0)


HANGS = ""
REFUSES = "401 Unauthorized\r\ncontent-length: 2\r\n\r\n{}"
NO_JSON = "200 OK\r\ncontent-length: 7\r\n\r\n<html>{"


@pytest.mark.parametrize("program", FILES)
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(HANGS, marks=pytest.mark.slow, id="hangs"),
        pytest.param(REFUSES, id="401"),
        pytest.param(NO_JSON, id="no JSON"),
    ],
)
async def test_a_plugin_steps_aside(machine: Machine, program: str, answer: str) -> None:
    async with answering(answer) as address:
        machine.note(address)
        done = await machine.run(program, work(0, ROUNDS))
    assert done["compaction"] is None
    assert "go on without it" in done.get("recalled", "go on without it")


@pytest.mark.parametrize("program", FILES)
async def test_a_plugin_starts_a_service_that_is_not_there(machine: Machine, program: str) -> None:
    machine.note("http://127.0.0.1:9")
    done = await machine.run(program, work(0, ROUNDS))
    assert done["compaction"] is None
    assert machine.started.exists() or done["started"][0] == ["touch", str(machine.started)]


@pytest.mark.parametrize("program", FILES)
async def test_a_note_that_is_broken_is_no_trouble(machine: Machine, tmp_path: Path, program: str) -> None:
    (tmp_path / "home" / "inside.json").write_text("{")
    assert (await machine.run(program, work(0, ROUNDS)))["compaction"] is None


async def test_claude_code_gets_its_own_rows_back_and_every_call_with_its_result(
    machine: Machine, store: Store, tmp_path: Path
) -> None:
    messages = work(0, ROUNDS)
    given = {row["handle"]: row for row in claude_rows(messages)}
    async with serving(store, tmp_path) as plugin:
        machine.note(plugin.address)
        done = await machine.run("claude-code", messages)
    rows = done["compaction"]["messages"]
    whole = [row for row in rows if "handle" in row]
    assert whole and all(row == given[row["handle"]] for row in whole)
    assert sum("[Clew handoff]" in row["text"] for row in rows) == 1
    calls = [use["tool_use_id"] for row in rows for use in row["toolUses"]]
    assert calls == [result["tool_use_id"] for row in rows for result in row.get("toolResults") or ()]
    assert done["compaction"]["tokensAfter"] < done["compaction"]["tokensBefore"]
    assert FACT in done["recalled"]
    assert await stored_messages(store) == [len(messages)]


@pytest.mark.parametrize("program", ["pi", "opencode"])
async def test_the_summary_is_a_handoff_and_what_the_program_keeps_is_not_in_it(
    machine: Machine, store: Store, tmp_path: Path, program: str
) -> None:
    messages = work(0, ROUNDS)
    async with serving(store, tmp_path) as plugin:
        machine.note(plugin.address)
        done = await machine.run(program, messages)
    compaction = done["compaction"]
    assert compaction["summary"].startswith("[Clew handoff]")
    assert f"Part {ROUNDS - 1} is in order." not in compaction["summary"].partition("Messages from before")[2]
    assert FACT in done.get("recalled", FACT)
    if program == "pi":
        kept = int(compaction["firstKeptEntryId"][1:])
        assert kept >= len(messages) - 4 and messages[kept]["role"] != "tool"
    else:
        assert compaction["asked"] == 1  # the model reads next to nothing
    assert await stored_messages(store) == [len(messages)]


async def test_openclaw_finds_its_session_in_the_summary(machine: Machine, store: Store, tmp_path: Path) -> None:
    messages = work(0, ROUNDS)
    async with serving(store, tmp_path) as plugin:
        machine.note(plugin.address)
        done = await machine.run("openclaw", messages)
    first, second = done["compaction"]["summary"], done["compaction"]["next"]
    assert "[Clew handoff]" in first
    assert second is None or second.partition("\n")[0] == first.partition("\n")[0]
    assert await stored_messages(store) == [len(messages) + 2]
