"""Sessions of real agents with a plugin of Clew inside, connected to the mock upstream: who compacted, and how."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeAlias

from clew.app.inside_app import read_note, stop_service
from clew.messages import ToolCall
from clew.store import open_store
from clew.testing import Upstream, UpstreamRules
from clew.testing.upstream import ReceivedRequest, UpstreamAnswer
from tests.clients.catalog import PROMPT
from tests.clients.session import run_program, tool_names
from tests.support.shell_worker import UNKNOWN_TASK, ShellWorker, shell_tool_of

ROOT = Path(__file__).parents[2]
HANDOFF = b"are folded here"
"""In every handoff, and in no description of a tool."""
LIMIT_SECONDS = 300.0
Service: TypeAlias = Literal["running", "stopped", "stopped after a fold"]
"""The state of Clew's service during a session."""
SERVICES: tuple[Service, ...] = ("running", "stopped", "stopped after a fold")
_FOLDED = "value 17 of round 1 is settled"
"""A line of the first output, which every fold leaves out."""
_FIRST_LINES = "value 16 of round 1"


@dataclass(frozen=True, slots=True)
class InsideClient:
    """A program that runs with a plugin of Clew."""

    name: str
    """As `clew setup` takes it."""
    package: str
    program: str
    words: tuple[str, ...]
    prepare: Callable[[Path, str], Mapping[str, str]]
    """Writes its config into a home folder, for an upstream, and returns its environment."""
    node: str = ""
    """The version of Node that it needs, from npm; empty for the one that is here."""
    rounds: int = 16
    lines: int = 600
    window: int = 200_000
    statuses: frozenset[int] = frozenset({200})
    """What the upstream may answer; an overflow is what makes some programs compact."""
    own_marks: tuple[bytes, ...] = ()
    """What is in a request for its own summary."""
    recall: str = "recall"
    """How the name of its recall tool ends; empty where it has none."""
    stores_turns: bool = True
    """Whether its plugin stores the messages of each turn, and not only with a compaction."""
    checks: tuple[tuple[str, ...], ...] = ()
    """Commands of the program that must accept the plugin as it is shipped."""


@dataclass(slots=True)
class InsideWorker:
    """A model that works as `ShellWorker` does; at the end it recalls a line that was folded."""

    work: ShellWorker
    recall: str
    on_fold: Callable[[], None] | None = None
    """Called at the first request with a handoff."""
    asked: int = 0
    recalled: str = ""
    arrivals: list[tuple[float, bool]] = field(default_factory=list)
    """When each request of the work came, and whether it had a handoff."""

    def __call__(self, received: ReceivedRequest) -> UpstreamAnswer:
        has_handoff = HANDOFF in received.raw
        if shell_tool_of(received.body):
            self.arrivals.append((time.monotonic(), has_handoff))
        if has_handoff and self.on_fold:
            self.on_fold()
            self.on_fold = None
        names = list(tool_names(received.body))
        tool = next((name for name in names if self.recall and name.endswith(self.recall)), None)
        answer = self.work(received)
        if not answer.text.startswith("Done with") or tool is None or self.asked:
            if self.asked and not self.recalled and _FOLDED.encode() in received.raw:
                self.recalled = _FOLDED
            return answer
        self.asked += 1
        arguments = json.dumps({"query": _FIRST_LINES})
        call: ToolCall = {"id": "call_recall", "type": "function", "function": {"name": tool, "arguments": arguments}}
        return replace(answer, text="", calls=(call,))

    def fold_seconds(self) -> float | None:
        """How much longer the round of the first fold took than the median of the rounds before it."""
        folded = next((at for at, (_, has_handoff) in enumerate(self.arrivals) if has_handoff), 0)
        rounds = [after - before for (before, _), (after, _) in pairwise(self.arrivals[: folded + 1])]
        return rounds[-1] - statistics.median(rounds[:-1]) if len(rounds) > 1 else None


@dataclass(slots=True)
class InsideResult:
    """The outcome of a session."""

    code: int | None
    out: str
    err: str
    requests: int = 0
    with_handoff: int = 0
    own: int = 0
    """Requests for a summary of the program's own."""
    statuses: set[int] = field(default_factory=set)
    tools: list[str] = field(default_factory=list)
    recalled: str = ""
    stored: int = 0
    """Messages in the store."""
    sessions: int = 0
    compactions: int = 0
    fold_seconds: float | None = None
    refused: list[str] = field(default_factory=list)
    """Commands of the program that did not accept the plugin, with what they said."""
    undone: list[str] = field(default_factory=list)
    """Files that differ from those before the setup, after it was undone."""

    def problems(self, client: InsideClient, service: Service) -> list[str]:
        expected: tuple[tuple[bool, str], ...] = (
            (self.code != 0, f"exit status {self.code}"),
            ("TASK-7" not in self.out or UNKNOWN_TASK in self.out, "it lost its task"),
            (not self.statuses <= client.statuses, f"the upstream answered {sorted(self.statuses)}"),
            (bool(self.undone), f"not as before the setup: {self.undone}"),
            (bool(self.refused), f"the plugin was refused: {self.refused}"),
        )
        if service != "stopped":
            expected += (
                (self.with_handoff == 0, "no request had a handoff of Clew"),
                (self.compactions < 1, "no compaction is in the store"),
                (self.sessions != 1, f"{self.sessions} sessions in the store"),
            )
        if service == "running":
            expected += (
                (self.own > 0, f"{self.own} compactions of its own"),
                (
                    client.stores_turns and self.stored < 2 * client.rounds + 2,
                    f"{self.stored} messages in the store, of a session with {2 * client.rounds + 2}",
                ),
                (bool(client.recall) and not self.recalled, f"recall brought nothing back; tools: {self.tools}"),
            )
        else:
            expected += (
                (service == "stopped" and self.with_handoff > 0, "a handoff of Clew came though Clew was stopped"),
                (self.own == 0, "it did not compact by itself"),
            )
        return [what for is_so, what in expected if is_so]


async def run_inside(client: InsideClient, program: Path, folder: Path, service: Service) -> InsideResult:
    """Set the plugin up, let the program work until it has compacted, and undo the setup.

    A stopped service cannot be started again: the program has to compact by itself. Where it is stopped after a fold,
    the session is twice as long, so that another compaction follows.
    """
    home, work = folder / "home", folder / "work"
    home.mkdir(parents=True)
    work.mkdir()
    is_longer = service == "stopped after a fold"
    worker = InsideWorker(ShellWorker(client.rounds * (2 if is_longer else 1), client.lines), client.recall)
    rules = UpstreamRules(client.window, pairs=True)
    async with Upstream(answers=worker, rules=rules, caches=True, models=[{"id": "mock-model"}]) as upstream:
        more = await asyncio.to_thread(client.prepare, home, upstream.origin)
        environ = inside_environ(home, program, more)
        before = await asyncio.to_thread(_files, home)
        await asyncio.to_thread(_setup, client, environ)
        await asyncio.to_thread(_serve if service != "stopped" else _break_start, home, environ)
        if is_longer:
            worker.on_fold = lambda: _stop(home, environ)
        words = [PROMPT if word == "PROMPT" else word for word in client.words]
        try:
            code, out, err = await run_program((str(program), *words), environ, work, LIMIT_SECONDS)
        finally:
            await asyncio.to_thread(stop_service, environ)
        result = InsideResult(code, out, err, recalled=worker.recalled, fold_seconds=worker.fold_seconds())
        _judge(upstream.received, client, result)
    if service != "stopped":
        await _read_store(home, result)
    await asyncio.to_thread(_setup, client, environ, "--undo")
    after = await asyncio.to_thread(_files, home)
    if service == "running":
        result.refused = await asyncio.to_thread(_refused, client, program, {**environ, "HOME": str(folder / "check")})
    result.undone = [name for name, content in before.items() if after.get(name, content) != content]
    result.undone += [name for name in after if name not in before and _is_of_clew(name)]
    return result


def inside_environ(home: Path, program: Path, more: Mapping[str, str]) -> dict[str, str]:
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    python = os.pathsep.join(filter(None, sys.path))
    base = {"HOME": str(home), "PATH": path, "PYTHONPATH": python, "LANG": "C.UTF-8", "TERM": "dumb"}
    given = {**base, **more}
    return {**given, "PATH": f"{given.pop('NODE_BIN')}{os.pathsep}{path}"} if "NODE_BIN" in given else given


def _setup(client: InsideClient, environ: Mapping[str, str], *flags: str) -> None:
    command = [sys.executable, "-m", "clew", "setup", client.name, *flags]
    subprocess.run(command, env=dict(environ), check=True, capture_output=True)


def _refused(client: InsideClient, program: Path, environ: Mapping[str, str]) -> list[str]:
    runs = (
        (words, subprocess.run([str(program), *words], env=dict(environ), capture_output=True, text=True, timeout=60))
        for words in client.checks
    )
    return [f"{' '.join(words)}: {run.stdout}{run.stderr}" for words, run in runs if run.returncode != 0]


def _serve(home: Path, environ: Mapping[str, str]) -> None:
    subprocess.run(
        [sys.executable, "-m", "clew", "setup", "service"], env=dict(environ), check=True, capture_output=True
    )


def _stop(home: Path, environ: Mapping[str, str]) -> None:
    stop_service(environ)
    _break_start(home, environ)


def _break_start(home: Path, environ: Mapping[str, str]) -> None:
    """Let the note lead to a port that nobody listens on, and to a command that does nothing."""
    note = {"start": ["true"], "url": "http://127.0.0.1:9", "token": "fake", "pid": 0}
    (home / ".clew" / "inside.json").write_text(json.dumps(note))
    assert read_note(environ).url


def _judge(received: Sequence[ReceivedRequest], client: InsideClient, result: InsideResult) -> None:
    for call in (it for it in received if it.wire):
        result.requests += 1
        result.statuses.add(call.status)
        result.with_handoff += HANDOFF in call.raw
        result.own += any(mark in call.raw for mark in client.own_marks)
        result.tools = [name for name in tool_names(call.body) if "clew" in name] or result.tools


async def _read_store(home: Path, result: InsideResult) -> None:
    async with open_store(str(home / ".clew" / "state.db")) as store:
        tips = await store.list_sessions(limit=100, only_tips=True)
        result.sessions = len(tips)
        for tip in tips:
            result.stored += (await store.view(tip.id)).next_seq
            result.compactions += len(await store.compactions(tip.id))


def _files(home: Path) -> dict[str, bytes]:
    return {str(path.relative_to(home)): path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file()}


def _is_of_clew(name: str) -> bool:
    # Claude Code logs the calls of every tool.
    return "clew" in name and not name.startswith((".clew/", ".cache/"))


def with_node(
    prepare: Callable[[Path, str], Mapping[str, str]], folder: Path
) -> Callable[[Path, str], Mapping[str, str]]:
    """The same with a Node of its own first on the path."""
    return lambda home, upstream: {**prepare(home, upstream), "NODE_BIN": str(folder)}


# -- the programs ------------------------------------------------------------------------------------------------------


def _claude_code(home: Path, upstream: str) -> Mapping[str, str]:
    (home / ".claude").mkdir()
    (home / ".claude" / "settings.json").write_text('{"theme": "dark"}')
    return {
        "ANTHROPIC_API_KEY": "fake",
        "ANTHROPIC_BASE_URL": upstream,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_AUTO_COMPACT_WINDOW": "100000",
    }


def _opencode(home: Path, upstream: str) -> Mapping[str, str]:
    folder = home / ".config" / "opencode"
    folder.mkdir(parents=True)
    options = {"baseURL": f"{upstream}/v1", "apiKey": "fake"}
    models = {"mock-model": {"limit": {"context": 60_000, "output": 8_000}}}
    provider = {"npm": "@ai-sdk/openai-compatible", "options": options, "models": models}
    config: dict[str, Any] = {
        "$schema": "https://opencode.ai/config.json",
        "model": "mock/mock-model",
        "provider": {"mock": provider},
    }
    (folder / "opencode.json").write_text(json.dumps(config, indent=1))
    return {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"}


def _pi(home: Path, upstream: str) -> Mapping[str, str]:
    folder = home / ".pi" / "agent"
    folder.mkdir(parents=True)
    models = [{"id": "mock-model", "contextWindow": 90_000, "maxTokens": 8_000}]
    provider = {"baseUrl": f"{upstream}/v1", "api": "openai-completions", "apiKey": "fake", "models": models}
    (folder / "models.json").write_text(json.dumps({"providers": {"mock": provider}}))
    return {"PI_OFFLINE": "1"}


def _openclaw(home: Path, upstream: str) -> Mapping[str, str]:
    folder = home / ".openclaw"
    folder.mkdir()
    model = {"id": "mock-model", "name": "mock-model", "contextWindow": 60_000, "maxTokens": 8_000}
    provider = {"baseUrl": f"{upstream}/v1", "apiKey": "fake", "api": "openai-completions", "models": [model]}
    config: dict[str, Any] = {
        "models": {"mode": "merge", "providers": {"mock": provider}},
        # Its quality guard refuses the mock's one-line summaries, where it compacts by itself.
        "agents": {
            "defaults": {
                "model": {"primary": "mock/mock-model"},
                "compaction": {"qualityGuard": {"enabled": False}},
            }
        },
    }
    (folder / "openclaw.json").write_text(json.dumps(config, indent=1))
    return {"OPENCLAW_SKIP_UPDATE_CHECK": "1"}


INSIDE_CLIENTS = (
    InsideClient(
        "claude-code",
        "@anthropic-ai/claude-code@2.1.327",
        "claude",
        ("-p", "PROMPT", "--model", "mock-model", "--allowedTools", "Bash", "mcp__clew__recall"),
        _claude_code,
        node="22",
        own_marks=(b"create a detailed summary",),
        checks=(
            ("plugin", "validate", str(ROOT / "src" / "clew" / "integrations" / "inside" / "claude-code")),
            ("plugin", "validate", str(ROOT)),
            ("plugin", "marketplace", "add", str(ROOT)),
            ("plugin", "install", "clew@clew"),
        ),
    ),
    InsideClient(
        "opencode",
        "opencode-ai@1.18.33",
        "opencode",
        ("run", "PROMPT"),
        _opencode,
        own_marks=(b"Do not mention the summary process",),
        recall="",
    ),
    InsideClient(
        "pi",
        "@earendil-works/pi-coding-agent@0.87.1",
        "pi",
        ("-p", "PROMPT", "--provider", "mock", "--model", "mock-model"),
        _pi,
        node="22",
        own_marks=(b"# Conversation\\n[User]", b"<conversation>"),
    ),
    InsideClient(
        "openclaw",
        "openclaw@2026.9.6",
        "openclaw",
        ("agent", "--local", "--session-id", "s1", "--message", "PROMPT"),
        _openclaw,
        node="24",
        window=60_000,
        statuses=frozenset({200, 400}),
        own_marks=(b"# Conversation\\n[User]", b"<conversation>"),
        recall="",
        stores_turns=False,
    ),
)
