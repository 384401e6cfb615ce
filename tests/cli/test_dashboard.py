"""`clew dashboard` as a person runs it: a process of its own, signed in to with the link that it prints."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from clew.store import open_store
from tests.support.dashboard import DashboardVisitor, add_chat

PATIENCE = 60.0


@asynccontextmanager
async def command(home: Path, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    environ = {**os.environ, "CLEW_HOME": str(home)}
    arguments = [sys.executable, "-m", "clew", "dashboard", *words]
    pipe = asyncio.subprocess.PIPE
    running = await asyncio.create_subprocess_exec(*arguments, stdout=pipe, stderr=pipe, env=environ)
    try:
        async with asyncio.timeout(PATIENCE):
            yield running
    finally:
        if running.returncode is None:
            running.kill()
            await running.communicate()


async def lines_until(running: asyncio.subprocess.Process, part: str) -> str:
    assert running.stdout is not None
    text = ""
    while part not in text:
        line = (await running.stdout.readline()).decode()
        assert line, text
        text += line
    return text


async def test_the_printed_link_signs_in_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    async with open_store(tmp_path / "state.db") as store:
        chat = await add_chat(store, 2)
    async with command(tmp_path, "--port", "0", "--json") as running:
        told = json.loads(await lines_until(running, "}"))
        assert told["store"] == str(tmp_path / "state.db")
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
            visitor = DashboardVisitor(http, told["address"].removesuffix("/dashboard/"))
            await visitor.sign_in(launch=told["link"].partition("#launch=")[2])
            assert [row["id"] for row in (await visitor.get("sessions"))["sessions"]] == [chat.id]
        running.send_signal(signal.SIGINT)
        assert await running.wait() == 0


async def test_a_person_reads_where_it_is_and_gets_a_new_link_when_one_was_used(tmp_path: Path) -> None:
    async with open_store(tmp_path / "state.db") as store:
        await add_chat(store, 1)
    async with command(tmp_path, "--port", "0") as running:
        text = await lines_until(running, "Ctrl-C stops")
        link = next(line.strip() for line in text.splitlines() if "#launch=" in line)
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
            visitor = DashboardVisitor(http, link.partition("/dashboard/")[0])
            await visitor.sign_in(launch=link.partition("#launch=")[2])
        next_link = await lines_until(running, "For another one")
        assert "#launch=" in next_link and link not in next_link
        running.send_signal(signal.SIGTERM)
        _, err = await running.communicate()
        assert (running.returncode, err) == (0, b"")


async def test_looking_makes_no_database(tmp_path: Path) -> None:
    async with command(tmp_path) as running:
        out, _ = await running.communicate()
    assert running.returncode == 0 and b"Nothing is stored yet" in out
    assert not (tmp_path / "state.db").exists()


async def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    async with open_store(tmp_path / "state.db"):
        pass
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        async with command(tmp_path, "--port", str(taken.getsockname()[1])) as running:
            _, err = await running.communicate()
    assert running.returncode == 2
    assert b"cannot be listened on" in err and b"--port 0" in err
