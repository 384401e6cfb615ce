"""Clew inside other agents: what a fold of the plugins' service takes, and what programs' own compactions kept.

    python benchmarks/inside.py

A fold: one request to the service that plugins ask, with a history that it has never seen, of at least 60,000 tokens
and cut to the 167,000 at which Claude Code compacts. CPU time of the whole process, reading and storing included. The
facts are those of `clew audit` on the recorded session files that hold a compaction of their program.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import aiohttp

import clew
from _sessions import SHARED, conversation_files, name_of, sessions_in
from _table import report
from clew.app.inside_app import warm_up
from clew.audit import audit_sources
from clew.config import Settings
from clew.engines import ContextCompressor
from clew.gateway import PageServer, RequestBounds
from clew.importers.import_files import import_sources
from clew.integrations.plugin_service import PluginService
from clew.store import open_store
from clew.tooloutput import SpillFolder
from clew.turn import RuntimeOptions

LEAST_TOKENS, MOST_TOKENS, WINDOW = 60_000, 167_000, 200_000
MOST_OF_A_SET = 8
COLUMNS = ("measure", "case", "value", "unit")


def full_sessions(path: Path) -> Iterator[list[Any]]:
    """The sessions of a file that are long enough, none longer than a full window."""
    for messages in sessions_in(path):
        kept, tokens = 0, 0
        for message in messages:
            tokens += clew.count_tokens([message])
            if tokens > MOST_TOKENS:
                break
            kept += 1
        if tokens >= LEAST_TOKENS:
            yield [message for message in messages[:kept] if message["role"] != "system"]


async def fold_ms(messages: list[Any]) -> tuple[float, dict[str, Any]]:
    """The CPU time of one fold in a new store, and the answer."""
    with tempfile.TemporaryDirectory() as folder:
        async with open_store(f"{folder}/state.db") as store:
            options = RuntimeOptions(ContextCompressor.of, SpillFolder(Path(folder)), Settings(), summarizes=False)
            service = PluginService(store, options, "fake-token")
            fields = {"program": "claude-code", "session": "s1", "model": "claude-sonnet-4-5", "window": WINDOW}
            async with (
                PageServer(service, "127.0.0.1", 0, bounds=RequestBounds()) as server,
                aiohttp.ClientSession(headers={"x-clew-token": "fake-token"}) as http,
            ):
                start = time.process_time_ns()
                url = f"{server.address}/inside/v1/fold"
                async with http.post(url, json={**fields, "messages": messages}) as answer:
                    folded = await answer.json()
                took = (time.process_time_ns() - start) / 1e6
            await service.close()
    return took, folded


def folds() -> Iterator[dict[str, Any]]:
    warm_up()
    for path in conversation_files(SHARED / "data"):
        sessions = [session for _, session in zip(range(MOST_OF_A_SET), full_sessions(path), strict=False)]
        done = [asyncio.run(fold_ms(session)) for session in sessions]
        if done:
            times = [took for took, _ in done]
            case = f"{name_of(path)}, n={len(done)}"
            yield row("fold, median", case, median(times), "ms CPU")
            yield row("fold, slowest", case, max(times), "ms CPU")


def facts() -> Iterator[dict[str, Any]]:
    """Of the facts that agents used after their own compaction: what the summary kept, and what Clew keeps."""
    audit = audit_sources(import_sources([str(SHARED / "data" / "session_files")]))
    compared = audit.comparable
    used = sum(each.facts for each in compared)
    case = f"compactions: {len(compared)}, session files: {len(audit.sessions)}, facts: {used}"
    if used:
        yield row("kept by the program's summary", case, 100 * sum(it.program.facts for it in compared) / used, "%")
        ours = sum(it.clew.facts for it in compared if it.clew)
        yield row("kept by Clew, no more characters", case, 100 * ours / used, "%")


def row(measure: str, case: str, value: float, unit: str) -> dict[str, Any]:
    return dict(zip(COLUMNS, (measure, case, round(value, 1), unit), strict=True))


if __name__ == "__main__":
    report("inside", [*folds(), *facts()], COLUMNS)
