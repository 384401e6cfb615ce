"""The child process of a local model: started, restarted, and never left behind. No model is needed here.

A module that is found before the real library stands in for it: a server of a few lines.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clew.errors import InvalidArgument
from clew.providers import LocalProvider, ProviderRefused, Request
from clew.providers.local.provider import LocalServerOptions, LocalServerProcess, default_threads
from clew.testing.messages import user

STAND_IN = """
import json, os, signal, threading, types
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class CommonParams:
    def __init__(self):
        self.model, self.cpuparams, self.cpuparams_batch = (types.SimpleNamespace() for _ in range(3))

class Answers(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if asked["messages"][-1]["content"] == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        told = {"key": self.headers["authorization"], "most": asked.get("max_tokens"), "pid": os.getpid()}
        told["argv"] = open("/proc/self/cmdline").read()
        message = {"role": "assistant", "content": json.dumps(told)}
        body = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}], "model": "m"}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

class Server:
    def __init__(self, asked):
        print("chatter that must not be taken for an answer", flush=True)
        text = open(asked.model.path).read()
        if "refuse" in text:
            raise RuntimeError("it does not please me.")
        if "die" in text:
            os.kill(os.getpid(), signal.SIGKILL)
        if "hang" in text:
            threading.Event().wait()
        server = ThreadingHTTPServer((asked.hostnames[0], asked.port), Answers)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.listening_address = f"http://127.0.0.1:{server.server_port}"

    def __del__(self):
        threading.Event().wait()
"""
PARENT = """
import sys
from pathlib import Path
from clew.providers.local.provider import LocalServerOptions, LocalServerProcess
child = LocalServerProcess(LocalServerOptions(Path(sys.argv[1]), 1024))
print(child.address.result(), child._process.pid, flush=True)
sys.stdin.read()
"""
pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="processes are watched by their descriptors")


@pytest.fixture(autouse=True)
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "xllamacpp.py").write_text(STAND_IN)
    monkeypatch.setenv("PYTHONPATH", str(folder))


def model(folder: Path, text: str = "") -> Path:
    file = folder / "m.gguf"
    file.write_text("GGUF" + text)
    return file


def is_gone(pid: int) -> bool:
    """Whether a process ends soon; not by asking again and again."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watched], [], [], 30)[0])
    finally:
        os.close(watched)


async def told_by(provider: LocalProvider) -> dict[str, Any]:
    reply = await provider.send(Request("m", [user("hello")]))
    told: dict[str, Any] = json.loads(str(reply.message["content"]))
    return told


async def test_it_serves_with_a_key_that_no_command_line_shows_and_is_gone_when_closed(tmp_path: Path) -> None:
    provider = LocalProvider(model(tmp_path))
    told = await told_by(provider)
    key = told["key"].removeprefix("Bearer ")
    assert len(key) > 20 and key not in told["argv"]
    assert (await told_by(provider))["pid"] == told["pid"]
    await provider.close()
    assert is_gone(int(told["pid"]))
    await provider.close()


async def test_a_reply_has_an_end_also_where_nobody_asks_for_one(tmp_path: Path) -> None:
    provider = LocalProvider(model(tmp_path), context_length=4_000)
    assert (await told_by(provider))["most"] == 1_000
    reply = await provider.send(Request("m", [user("hello")], max_tokens=7))
    assert json.loads(str(reply.message["content"]))["most"] == 7
    await provider.close()


async def test_a_closed_provider_starts_again_when_asked(tmp_path: Path) -> None:
    provider = LocalProvider(model(tmp_path))
    first = await told_by(provider)
    await provider.close()
    second = await told_by(provider)
    assert first["pid"] != second["pid"] and first["key"] != second["key"]
    await provider.close()


async def test_a_server_that_dies_says_so_and_the_next_request_starts_it_again(tmp_path: Path) -> None:
    provider = LocalProvider(model(tmp_path))
    first = await told_by(provider)
    with pytest.raises(
        ProviderRefused, match=r"m\.gguf ended during the request \(signal 9\).*starts it again"
    ) as died:
        await provider.send(Request("m", [user("die")]))
    assert died.value.fault.kind == "network"
    assert (await told_by(provider))["pid"] != first["pid"]
    await provider.close()


async def test_one_that_died_between_two_requests_is_not_noticed(tmp_path: Path) -> None:
    provider = LocalProvider(model(tmp_path))
    first = int((await told_by(provider))["pid"])
    os.kill(first, signal.SIGKILL)
    assert is_gone(first)
    assert int((await told_by(provider))["pid"]) != first
    await provider.close()


async def test_many_first_requests_start_one_server(tmp_path: Path) -> None:
    provider = LocalProvider(model(tmp_path))
    told = await asyncio.gather(*(told_by(provider) for _ in range(5)))
    assert len({each["pid"] for each in told}) == 1
    await provider.close()


def test_a_provider_outlives_an_event_loop(tmp_path: Path) -> None:
    provider = LocalProvider(model(tmp_path))
    first, second = asyncio.run(told_by(provider)), asyncio.run(told_by(provider))
    assert first["pid"] == second["pid"]
    asyncio.run(provider.close())


async def test_who_stops_waiting_for_a_model_leaves_nothing_behind(tmp_path: Path) -> None:
    provider = LocalProvider(model(tmp_path, "hang"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await told_by(provider)
    assert provider._child is not None
    pid = provider._child._process.pid
    await provider.close()
    assert is_gone(pid)


def test_a_provider_that_nobody_holds_lets_its_server_go(tmp_path: Path) -> None:
    provider = LocalProvider(model(tmp_path))
    pid = int(asyncio.run(told_by(provider))["pid"])
    asyncio.run(provider._running.chat.close())  # type: ignore[union-attr]
    del provider
    assert is_gone(pid)


@pytest.mark.parametrize(
    ("text", "words"),
    [("refuse", "it does not please me.*CLEW_LOCAL_LOG"), ("die", r"while it was loading \(signal 9\).*memory")],
)
async def test_a_model_that_cannot_be_run_says_why_and_what_to_do(tmp_path: Path, text: str, words: str) -> None:
    provider = LocalProvider(model(tmp_path, text))
    for _ in range(2):
        with pytest.raises(InvalidArgument, match=words):
            await told_by(provider)
    await provider.close()


async def test_a_file_that_is_no_model_is_named_as_such(tmp_path: Path) -> None:
    file = model(tmp_path)
    file.write_text("refuse: this is a text")
    with pytest.raises(InvalidArgument, match="no GGUF file"):
        await LocalProvider(file).send(Request("m", [user("hi")]))


async def test_a_library_that_is_missing_names_the_extra(tmp_path: Path) -> None:
    (tmp_path / "modules" / "xllamacpp.py").write_text("raise ImportError('No module named xllamacpp')")
    with pytest.raises(InvalidArgument, match=r"pip install .*\[local\]'"):
        await LocalProvider(model(tmp_path)).send(Request("m", [user("hi")]))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_parent_that_is_killed_takes_its_server_with_it(tmp_path: Path, how: signal.Signals) -> None:
    command = [sys.executable, "-c", PARENT, str(model(tmp_path))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline().split()[1])
        parent.send_signal(how)
        parent.wait()
        assert is_gone(child)


def test_ctrl_c_in_the_terminal_does_not_reach_the_server(tmp_path: Path) -> None:
    child = LocalServerProcess(LocalServerOptions(model(tmp_path), 1024))
    child.address.result(timeout=60)
    assert os.getpgid(child._process.pid) != os.getpgid(0)
    os.kill(child._process.pid, signal.SIGINT)
    assert child.is_running
    child.stop()
    assert child.exit_description == "exit status 0"


def test_the_usual_number_of_threads_is_at_least_one() -> None:
    assert default_threads() >= 1
