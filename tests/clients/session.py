"""One session of a real client through `clew wrap`, before the mock upstream, and what must be true of it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clew.testing import Upstream, UpstreamRules
from clew.testing.upstream import ReceivedRequest
from clew.testing.upstream_rules import UpstreamCache, listed_messages, prompt_tokens
from clew.usage import cost_of
from tests.clients.catalog import PROMPT, RealClient
from tests.support.shell_worker import UNKNOWN_TASK, ShellWorker

LIMIT_SECONDS = 600.0
_PRICED = {"messages": "claude-sonnet-4-5", "gemini": "gemini-2.5-pro"}
_OWN_COMPACTION = re.compile(
    r"CONTEXT CHECKPOINT COMPACTION|compaction_trigger|state_snapshot|create a detailed summary|<conversation>|"
    r"summarize (?:the|our) conversation",
    re.IGNORECASE,
)


@dataclass(slots=True)
class SessionResult:
    """What became of a session."""

    client: str
    code: int | None
    out: str
    err: str
    requests: int = 0
    statuses: Mapping[int, int] = field(default_factory=dict)
    handoffs: int = 0
    """Requests of the gateway's own for a handoff."""
    folds: int = 0
    moved: int = 0
    """Requests whose beginning changed though they did not become shorter."""
    own_compactions: int = 0
    largest: int = 0
    cost: float = 0.0
    """Of all prompts in dollars, at the prices of the wire's usual model."""
    has_changed_config: bool = False
    left: tuple[str, ...] = ()
    """Files of Clew's that should have gone."""

    def problems(self, client: RealClient) -> list[str]:
        """What is wrong; empty where all is well."""
        refused = {status: count for status, count in self.statuses.items() if status != 200}
        told = (
            (self.code != 0, f"exit status {self.code}"),
            ("TASK-7" not in self.out or UNKNOWN_TASK in self.out, "it lost its task"),
            (self.folds < 2, f"{self.folds} folds, where two were due"),
            (client.is_asked != (self.handoffs > 0), f"its model was asked for {self.handoffs} handoffs"),
            (self.moved > 0, f"{self.moved} requests with a moved beginning"),
            (bool(refused), f"the upstream refused: {refused}"),
            (self.own_compactions > 0, f"{self.own_compactions} compactions by the client itself"),
            (self.requests > client.rounds + 8, f"{self.requests} requests for {client.rounds} rounds"),
            (self.has_changed_config, f"{client.own_config[0]} was changed"),
            (bool(self.left), f"left behind: {', '.join(self.left)}"),
        )
        return [what for is_so, what in told if is_so]


async def run_session(
    client: RealClient,
    program: Path,
    folder: Path,
    worker: ShellWorker | None = None,
    *,
    is_direct: bool = False,
) -> SessionResult:
    """Send a client through a session of many rounds; with `is_direct` the gateway changes nothing, and the upstream
    takes prompts of any size.
    """
    home, work = folder / "home", folder / "work"
    await asyncio.to_thread(_prepare, home, work, client)
    rules = UpstreamRules(None if is_direct else client.window, pairs=True, binds_thinking=True)
    worker = worker or ShellWorker(client.rounds, client.lines)
    async with Upstream(answers=worker, rules=rules, caches=True, models=[{"id": client.model}]) as upstream:
        settings = (f"model.name={client.model}", f"model.context_length={client.window}")
        command = (
            *(sys.executable, "-m", "clew", "wrap", "--mode", "observe" if is_direct else "compact", "--upstream"),
            f"{client.wire}={upstream.origin}" if client.wire else upstream.origin,
            *(word for setting in settings for word in ("--set", setting)),
            *("--", *_command(client, program)),
        )
        environ = client_environ(home, program, client.environ)
        code, out, err = await run_program(command, environ, work)
        result = SessionResult(client.name, code, out, err)
        judge_requests(upstream.received, result, client.rebuilt_items)
        result.cost = prompt_dollars(upstream.received, client.model)
    result.has_changed_config = await asyncio.to_thread(_has_changed, home, client)
    result.left = tuple(await asyncio.to_thread(_left_behind, home))
    return result


async def run_program(
    command: Sequence[str], environ: Mapping[str, str], folder: Path, seconds: float = LIMIT_SECONDS
) -> tuple[int | None, str, str]:
    """The exit status of a program, and what it wrote to its two streams; it is ended when it takes too long."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env=dict(environ),
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), seconds)
    except TimeoutError:
        process.terminate()
        out, err = await process.communicate()
    return process.returncode, out.decode(errors="replace"), err.decode(errors="replace")


def _command(client: RealClient, program: Path) -> tuple[str, ...]:
    """What is wrapped: the program, or a shell that runs it for one turn after the other."""
    if client.by_turns is None:
        return (str(program), *client.words)
    first, later = client.by_turns
    notes = f'note() {{ seq -f "value %g of note $1 is settled" 1 {client.lines // 4}; }}'
    turns = f'for n in $(seq 1 {client.rounds}); do set -- "$(note $n)"; {later} || exit 1; done'
    return ("sh", "-c", f"{notes}; {first} || exit 1; {turns}", "sh", PROMPT)


def _prepare(home: Path, work: Path, client: RealClient) -> None:
    home.mkdir(parents=True)
    work.mkdir()
    name, text = client.own_config
    if name:
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text(text, encoding="utf-8")


def _has_changed(home: Path, client: RealClient) -> bool:
    name, text = client.own_config
    return bool(name) and (home / name).read_text(encoding="utf-8") != text


def client_environ(home: Path, program: Path, more: Mapping[str, str]) -> dict[str, str]:
    """What a client is run with: a home of its own, and a Python that finds Clew."""
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    python = os.pathsep.join(filter(None, sys.path))
    return {"HOME": str(home), "PATH": path, "PYTHONPATH": python, "LANG": "C.UTF-8", "TERM": "dumb", **more}


def _left_behind(home: Path) -> Iterable[str]:
    folder = home / ".clew" / "wrap"
    return [path.name for path in folder.iterdir()] if folder.is_dir() else []


def judge_requests(received: Sequence[ReceivedRequest], result: SessionResult, rebuilt: int = 0) -> None:
    """Count folds, moved beginnings and the like in what the upstream got; the last `rebuilt` items may change."""
    newest: dict[str, list[str]] = {}
    statuses: dict[int, int] = {}
    for call in (it for it in received if it.wire):
        if call.asks_for_handoff:
            result.handoffs += 1
            continue
        statuses[call.status] = statuses.get(call.status, 0) + 1
        result.requests += 1
        items = [json.dumps(_plain(item), sort_keys=True) for item in listed_messages(call.body)]
        if items and _OWN_COMPACTION.search(items[-1]):
            result.own_compactions += 1
            continue
        if call.status != 200:
            continue
        result.largest = max(result.largest, prompt_tokens(call.body))
        own = [name for name in tool_names(call.body) if not name.startswith("clew_")]
        kind = hashlib.sha256(json.dumps([call.wire, own]).encode()).hexdigest()
        before = newest.get(kind)
        newest[kind] = items
        settled = len(before) - rebuilt if before else 0
        if before is None or items[:settled] == before[:settled]:
            continue
        if sum(map(len, items)) < sum(map(len, before)):
            result.folds += 1
        else:
            result.moved += 1
    result.statuses = statuses


def prompt_dollars(received: Sequence[ReceivedRequest], model: str) -> float:
    """What the prompts of all answered requests cost, with a cache that forgets nothing.

    A model that has no price is taken as the usual one of the wire.
    """
    cache, total = UpstreamCache(), 0.0
    for call in (it for it in received if it.wire and it.status == 200):
        usage = cache.usage_of(call.wire, call.body, 0)
        cost = cost_of(usage, model) or cost_of(usage, _PRICED.get(call.wire, "gpt-5.1"))
        total += float(cost.total) if cost else 0.0
    return total


def tool_names(body: Mapping[str, Any]) -> Iterator[str]:
    """The names of the tools in a request of any wire; those in a namespace behind its name, as a model calls them."""
    for tool in body.get("tools") or ():
        inside = f"{tool.get('name')}__" if tool.get("type") == "namespace" else ""
        declared = tool.get("functionDeclarations") or tool.get("tools") or [tool.get("function") or tool]
        yield from (f"{inside}{one.get('name', '')}" for one in declared)


def _plain(value: Any) -> Any:
    """A message without cache markers; a text as one block."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    plain = {name: _plain(each) for name, each in value.items() if name != "cache_control"}
    if isinstance(plain.get("content"), str):
        plain["content"] = [{"type": "text", "text": plain["content"]}]
    return plain
