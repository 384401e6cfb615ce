"""Real clients through `clew wrap`: `python tests/clients/run.py [NAME ...]`, or `./check clients [NAME ...]`.

With `--mcp` they recall an old session over `clew mcp` instead of working through a long one; with `--watch` they work
while `clew import --watch` follows what they keep.

Installs what is not there yet, from npm and PyPI, below a folder of its own (`CLEW_CLIENTS`, else .clients here).
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from clew.integrations.mcp_setups import mcp_setup_named  # noqa: E402
from tests.clients.catalog import CLIENTS, RealClient  # noqa: E402
from tests.clients.mcp_session import run_recall  # noqa: E402
from tests.clients.session import SessionResult, run_session  # noqa: E402
from tests.clients.watch_session import WATCHED, run_watched  # noqa: E402


def tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description="Send real clients through `clew wrap` to a mock upstream.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these")
    parser.add_argument("--keep", action="store_true", help="keep what they wrote, and print where and what they said")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--mcp", action="store_true", help="recall an old session over `clew mcp`")
    how.add_argument("--watch", action="store_true", help="work while `clew import --watch` follows")
    given = parser.parse_args()
    known = {client.name: client for client in CLIENTS if is_tried(client, mcp=given.mcp, watch=given.watch)}
    if unknown := set(given.names) - known.keys():
        parser.error(f"no client {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    attempt = try_recall if given.mcp else try_watched if given.watch else try_client
    failed = [name for name in given.names or known if not attempt(known[name], keep=given.keep)]
    tried = len(given.names or known)
    tell(f"{tried - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


def try_client(client: RealClient, *, keep: bool) -> bool:
    """Run one and print what became of it."""
    program, folder, started = install(client), new_folder(client), time.monotonic()
    result = asyncio.run(run_session(client, program, folder))
    problems = result.problems(client)
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


def install(client: RealClient) -> Path:
    """The program, installed where it is not."""
    folder = Path(os.environ.get("CLEW_CLIENTS") or ROOT / ".clients") / client.package.rpartition("/")[2]
    if client.registry == "npm":
        program = folder / "node_modules" / ".bin" / client.program
        if not program.exists():
            folder.mkdir(parents=True, exist_ok=True)
            command = ["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), client.package]
            subprocess.run(command, check=True, stdout=sys.stderr)
        return program
    program = folder / "bin" / client.program
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(folder / "bin" / "pip"), "install", "-q", client.package], check=True)
    return program


if __name__ == "__main__":
    sys.exit(main())
