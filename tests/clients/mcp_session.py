"""A real client that recalls an old session of another program, over `clew mcp` as its config names it."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clew.integrations.mcp_setups import filled_in, mcp_setup_named
from clew.messages import ToolCall
from clew.testing import Upstream
from clew.testing.upstream import ReceivedRequest, UpstreamAnswer
from tests.clients.catalog import RealClient
from tests.clients.session import client_environ, run_program, tool_names

PROMPT = "How long does the depot wait before it tries again? It was settled in an old session."
FACT = "The depot waits 4177 seconds before it tries again"
TOOL = "clew_search"
WAITING = "WaitForMcpServers"
"""By which Claude Code lets its model wait for a server that has not started yet."""
LIMIT_SECONDS = 300.0
_MAX_CALLS = 20
_FOUND = re.compile(r"waits (\d+) seconds")
_SERVER = (sys.executable, "-m", "clew", "mcp")
_ALLOWED = {"claude": ("-p", PROMPT, "--model", "mock-model", "--allowedTools", "mcp__clew")}
"""Words of clients that ask a person for tools of servers, though not for their own."""


@dataclass(slots=True)
class RecallWorker:
    """A model that searches the old sessions until it has found something, and then tells it."""

    calls: int = 0
    results: list[str] = field(default_factory=list)
    """Requests that brought what was found."""

    def __call__(self, received: ReceivedRequest) -> UpstreamAnswer:
        model = str(received.body.get("model") or "mock-model-2026")
        raw = received.raw.decode(errors="replace")
        if found := _FOUND.search(raw):
            self.results.append(raw)
            return UpstreamAnswer(f"It waits {found[1]} s.", model=model)
        offered = list(tool_names(received.body))
        name = next((name for name in offered if name.endswith(TOOL)), WAITING if WAITING in offered else None)
        if name is None or self.calls >= _MAX_CALLS:
            return UpstreamAnswer(f"There is no {TOOL}, or it finds nothing.", model=model)
        self.calls += 1
        query = {} if name == WAITING else {"query": "depot seconds tries again", "program": "pi"}
        call: ToolCall = {
            "id": f"call_{self.calls}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(query)},
        }
        return UpstreamAnswer(calls=(call,), model=model)


@dataclass(slots=True)
class RecallResult:
    """What became of it."""

    code: int | None
    out: str
    err: str
    calls: int
    tools: list[str]
    """Of the server, as the model was offered them."""
    has_result: bool

    def problems(self) -> list[str]:
        told = (
            (self.code != 0, f"exit status {self.code}"),
            (len(self.tools) != 5, f"the model was offered {self.tools}"),
            (not self.has_result, f"no result of {TOOL} came back to the model in {self.calls} calls"),
            ("4177" not in self.out, "what was found is not in its answer"),
        )
        return [what for is_so, what in told if is_so]


async def run_recall(client: RealClient, program: Path, folder: Path) -> RecallResult:
    """Put the lines of `clew mcp --show` where they belong, an old session of pi beside them, and ask the client."""
    home, work = folder / "home", folder / "work"
    await asyncio.to_thread(_prepare, home, work)
    environ = client_environ(home, program, client.environ)
    await _tell_client(client, program, home, environ)
    worker = RecallWorker()
    async with Upstream(answers=worker, models=[{"id": client.model}]) as upstream:
        words = _ALLOWED.get(client.name) or tuple(PROMPT if "TASK-7" in word else word for word in client.words)
        wrap = (sys.executable, "-m", "clew", "wrap", "--upstream", upstream.origin)
        command = (*wrap, "--set", f"model.name={client.model}", "--", str(program), *words)
        code, out, err = await run_program(command, environ, work, LIMIT_SECONDS)
        offered = {name for call in upstream.received for name in tool_names(call.body) if "clew" in name}
    return RecallResult(code, out, err, worker.calls, sorted(offered), bool(worker.results))


def _prepare(home: Path, work: Path) -> None:
    work.mkdir(parents=True)
    sessions = home / ".pi" / "agent" / "sessions"
    sessions.mkdir(parents=True)
    lines: list[dict[str, Any]] = [{"type": "session", "id": "old", "cwd": "/work", "version": 1}]
    for role, words in (("user", "Settle how long the depot waits."), ("assistant", f"{FACT}."), ("user", "Good.")):
        lines.append({"type": "message", "message": {"role": role, "content": words}})
    stamp = {"timestamp": "2026-03-01T10:00:00Z"}
    (sessions / "old.jsonl").write_text("".join(json.dumps({**line, **stamp}) + "\n" for line in lines))


async def _tell_client(client: RealClient, program: Path, home: Path, environ: Mapping[str, str]) -> None:
    setup = mcp_setup_named(client.name)
    assert setup is not None, f"clew mcp --show has nothing for {client.name}"
    lines = filled_in(setup, _SERVER)
    if setup.where.startswith("the shell"):
        code, out, err = await run_program(("sh", "-c", lines), environ, home, LIMIT_SECONDS)
        assert code == 0, f"{lines}: {out}{err}"
        return
    path = home / setup.config
    path.parent.mkdir(parents=True, exist_ok=True)
    await asyncio.to_thread(path.write_text, _with_python_path(lines, environ), encoding="utf-8")


def _with_python_path(lines: str, environ: Mapping[str, str]) -> str:
    """The lines with an environment in which this Python finds Clew, which is not installed for every test run."""
    path = json.dumps(environ["PYTHONPATH"])
    if lines.startswith("["):
        return f"{lines}\nenv = {{ PYTHONPATH = {path} }}\n".replace("# required", "required")
    name = "environment" if '"mcp"' in lines.partition(":")[0] else "env"
    return lines.replace('"clew": {', f'"clew": {{"{name}": {{"PYTHONPATH": {path}}}, ', 1)
