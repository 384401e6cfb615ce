"""Real clients through `clew wrap`: `python tests/clients/run.py [NAME ...]`, or `./check clients [NAME ...]`.

With `--mcp` they recall an old session over `clew mcp` instead of working through a long one; with `--recall` their
models recall what the gateway folded; with `--watch` they work while `clew import --watch` follows what they keep; with
`--plugins` they compact with a plugin of `clew setup` inside: with Clew, with Clew stopped, and stopped after a fold.

Installs what is not there yet, from npm and PyPI, below a folder of its own (`CLEW_CLIENTS`, else .clients here).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
"""Where `benchmarks/evidence.py` reads what the page "How well" shows."""
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from clew.integrations.mcp_setups import mcp_setup_named  # noqa: E402
from tests.clients.catalog import CLIENTS, RealClient  # noqa: E402
from tests.clients.mcp_session import run_recall  # noqa: E402
from tests.clients.plugin_session import INSIDE_CLIENTS, SERVICES, InsideClient, Service, run_inside, with_node  # noqa: E402
from tests.clients.session import SessionResult, run_session  # noqa: E402
from tests.clients.watch_session import WATCHED, run_watched  # noqa: E402
from tests.support.shell_worker import RECALLED, RecallingWorker  # noqa: E402


def tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description="Send real clients through `clew wrap` to a mock upstream.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these")
    parser.add_argument("--keep", action="store_true", help="keep what they wrote, and print where and what they said")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--mcp", action="store_true", help="recall an old session over `clew mcp`")
    how.add_argument("--recall", action="store_true", help="let their models recall what the gateway folded")
    how.add_argument("--watch", action="store_true", help="work while `clew import --watch` follows")
    how.add_argument("--plugins", action="store_true", help="compact with a plugin of Clew inside")
    given = parser.parse_args()
    if given.plugins:
        return run_plugins(given.names, keep=given.keep, parser=parser)
    known = {client.name: client for client in CLIENTS if is_tried(client, mcp=given.mcp, watch=given.watch)}
    if unknown := set(given.names) - known.keys():
        parser.error(f"no client {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    attempt = try_recall if given.mcp else try_watched if given.watch else try_client
    attempt = try_gateway_recall if given.recall else attempt
    failed = [name for name in given.names or known if not attempt(known[name], keep=given.keep)]
    tried = len(given.names or known)
    tell(f"{tried - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


def run_plugins(names: list[str], *, keep: bool, parser: argparse.ArgumentParser) -> int:
    """Run programs with a plugin inside, for each state of Clew's service."""
    known = {client.name: client for client in INSIDE_CLIENTS}
    if unknown := set(names) - known.keys():
        parser.error(f"no program {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    chosen = [known[name] for name in names or known]
    times: dict[str, list[float]] = {}
    failed = [client for client in chosen for service in SERVICES if not try_inside(client, service, keep, times)]
    tell(f"{len(SERVICES) * len(chosen) - len(failed)} passed, {len(failed)} failed")
    if not names:
        RESULTS.mkdir(exist_ok=True)
        rows = [
            {"program": name, "first fold, ms (n=2)": " and ".join(f"{1000 * seconds:.0f}" for seconds in found)}
            for name, found in times.items()
        ]
        (RESULTS / "inside_programs.json").write_text(json.dumps(rows), encoding="utf-8")
    return 1 if failed else 0


def try_inside(client: InsideClient, service: Service, keep: bool, times: dict[str, list[float]]) -> bool:
    """Run one, print the outcome, and add the time of its first fold."""
    program = install_package(client.package, client.program, client.node)
    folder, started = Path(tempfile.mkdtemp(prefix=f"inside-{client.name}-")), time.monotonic()
    if client.node:
        client = replace(client, prepare=with_node(client.prepare, node_folder(client.node)))
    result = asyncio.run(run_inside(client, program, folder, service))
    problems = result.problems(client, service)
    if result.fold_seconds is not None and service != "stopped":
        times.setdefault(client.package.rpartition("/")[2].replace("@", " "), []).append(result.fold_seconds)
    took = "" if result.fold_seconds is None else f" (the first took {result.fold_seconds * 1000:.0f} ms)"
    tell(
        f"{'FAIL' if problems else 'ok  '} {client.name:12} Clew {service}: "
        f"{result.requests} requests, {result.with_handoff} with a handoff, {result.compactions} folds{took}, "
        f"{result.own} compactions of its own, {time.monotonic() - started:.0f} s"
    )
    for problem in problems:
        tell(f"     {problem}")
    if problems or keep:
        tell(f"     in {folder}\n--- out\n{result.out[-2000:]}\n--- err\n{result.err[-2000:]}")
    return not problems


def try_client(client: RealClient, *, keep: bool) -> bool:
    """Run one, with the gateway and as if there were none, and print what became of it."""
    program, folder, started = install(client), new_folder(client), time.monotonic()
    client = with_own_node(client, program)
    result = asyncio.run(run_session(client, program, folder))
    direct = asyncio.run(run_session(client, program, new_folder(client), is_direct=True))
    problems = result.problems(client)
    cost = f"prompts ${result.cost:.3f} (direct ${direct.cost:.3f}, {direct.own_compactions} compactions of its own)"
    tell_outcome(client, f"{figures(result)}, {cost}, {time.monotonic() - started:.0f} s", problems)
    if problems or keep:
        tell(f"     in {folder}\n--- out\n{result.out[-2000:]}\n--- err\n{result.err[-2000:]}")
    return not problems


def try_gateway_recall(client: RealClient, *, keep: bool) -> bool:
    """Let the model of one ask for what was folded, alone and beside a command, and print what became of it."""
    program, folder, started = install(client), new_folder(client), time.monotonic()
    client, worker = with_own_node(client, program), RecallingWorker(client.rounds, client.lines)
    result = asyncio.run(run_session(client, program, folder, worker))
    told = (
        (not worker.alone, "a recall was not answered"),
        (not worker.beside, "a recall beside a command was not answered"),
        (RECALLED not in result.out, "what was recalled is not in its answer"),
        ("clew_" in result.out, "it saw the tools"),
    )
    problems = [*result.problems(client), *(what for is_so, what in told if is_so)]
    tell_outcome(client, f"{figures(result)}, {time.monotonic() - started:.0f} s", problems)
    if problems or keep:
        tell(f"     in {folder}\n--- out\n{result.out[-2000:]}\n--- err\n{result.err[-2000:]}")
    return not problems


def is_tried(client: RealClient, *, mcp: bool, watch: bool) -> bool:
    return client.name in WATCHED if watch else mcp_setup_named(client.name) is not None if mcp else True


def try_recall(client: RealClient, *, keep: bool) -> bool:
    """Let one recall an old session, and print what became of it."""
    program, folder, started = install(client), new_folder(client), time.monotonic()
    result = asyncio.run(run_recall(client, program, folder))
    problems = result.problems()
    tools = f"{len(result.tools)} tools ({', '.join(result.tools[-1:])}, ...)"
    tell_outcome(client, f"{tools}, {result.calls} calls, {time.monotonic() - started:.0f} s", problems)
    if problems or keep:
        tell(f"     in {folder}\n--- out\n{result.out[-2000:]}\n--- err\n{result.err[-2000:]}")
    return not problems


def try_watched(client: RealClient, *, keep: bool) -> bool:
    """Follow one at work, and print what became of it."""
    program, folder, started = install(client), new_folder(client), time.monotonic()
    result = asyncio.run(run_watched(client, program, folder))
    problems = result.problems(client)
    seen = f"{result.messages} messages in {len(result.changes)} pieces"
    tell_outcome(client, f"{seen}, {time.monotonic() - started:.0f} s", problems)
    if problems or keep:
        tell(f"     in {folder}\n--- err\n{result.err[-2000:]}")
    return not problems


def new_folder(client: RealClient) -> Path:
    return Path(tempfile.mkdtemp(prefix=f"clew-{client.name}-"))


def tell_outcome(client: RealClient, figures: str, problems: list[str]) -> None:
    tell(f"{'FAIL' if problems else 'ok  '} {client.name:10} {figures}")
    for problem in problems:
        tell(f"     {problem}")


def figures(result: SessionResult) -> str:
    return (
        f"{result.requests} requests, {result.handoffs} for handoffs, {result.folds} folds, {result.moved} moved, "
        f"{result.own_compactions} compactions of its own, at most {result.largest:,} tokens"
    )


def with_own_node(client: RealClient, program: Path) -> RealClient:
    """The client with the version of Node that it needs first in its path."""
    if not client.node:
        return client
    path = os.pathsep.join((str(node_folder(client.node)), str(program.parent), os.environ["PATH"]))
    return replace(client, environ={**client.environ, "PATH": path})


def install(client: RealClient) -> Path:
    """The program, installed where it is not."""
    folder = _clients_folder() / client.package.rpartition("/")[2]
    if client.registry == "npm":
        return install_package(client.package, client.program, client.node)
    program = folder / "bin" / client.program
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(folder / "bin" / "pip"), "install", "-q", client.package], check=True)
    return program


def install_package(package: str, program: str, node: str = "") -> Path:
    """A program from npm, installed where it is not; by the version of Node that it needs."""
    folder = _clients_folder() / package.rpartition("/")[2]
    path = folder / "node_modules" / ".bin" / program
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), package]
        environ = dict(os.environ)
        if node:
            environ["PATH"] = f"{node_folder(node)}{os.pathsep}{environ['PATH']}"
        subprocess.run(command, check=True, stdout=sys.stderr, env=environ)
    return path


def node_folder(version: str) -> Path:
    """The folder of a Node of this version, from npm."""
    install_package(f"node@{version}", "node")
    package = _clients_folder() / f"node@{version}" / "node_modules" / "node"
    return next(path.parent for path in sorted(package.glob("**/bin/node")) if "node_modules" in path.parts[-5:])


def _clients_folder() -> Path:
    return Path(os.environ.get("CLEW_CLIENTS") or ROOT / ".clients")


if __name__ == "__main__":
    sys.exit(main())
