"""CPU time and size of the session store, beside Hermes' SessionDB in the same run, and by length of the conversation.

    python benchmarks/store.py [--hermes FOLDER] [--messages N] [--growth N ...] [--flush normal] [--postgres]

Every figure is CPU time of the whole process, threads included, in milliseconds: the median of several runs, and for
appends the mean, so that indexing and checkpoints are in it. Appends are one message per transaction, flushed to the
disk unless `--flush normal` says otherwise. Hermes is `hermes-agent==0.19.0`, installed with
`pip install --no-deps --target FOLDER`; without it, its columns stay empty.

`--postgres` measures nothing but SQLite beside a PostgreSQL server on this machine, each with its commits on the disk:
CPU time of this process, and the time that passes, in which the server's own work is.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import _repository  # noqa: F401
from _table import report
from clew.messages import Message
from clew.store import CompactionEntry, NewSession, Store, open_store
from clew.testing import user
from tests.support.history import synthetic_history

COMMON_WORD = "session"
QUESTION = "why does the verify step see each invoice twice"
HEAD, TAIL = 3, 60
APPENDED = 600
GROWTH = (1_000, 5_000, 20_000, 100_000, 200_000)
_SUMMARY = user("A summary of the work so far, with its files and decisions. " * 100)

Flush = Literal["full", "normal"]
Figures = dict[str, float]


def main() -> None:
    options = _options()
    if options.postgres:
        beside_postgres(synthetic_history(options.messages), options.flush)
        return
    db_class = load_session_db(options.hermes)
    with tempfile.TemporaryDirectory(prefix="clew-bench-") as folder:
        history = synthetic_history(options.messages)
        ours = asyncio.run(measured(history, Path(folder) / "ours.db", options.flush, append_all=True))
        theirs = hermes_measured(db_class, history, Path(folder) / "hermes.db") if db_class else {}
    rows = [
        {"operation": name, "messages": options.messages, "hermes": theirs.get(name), "clew": ours[name]}
        for name in ours
    ]
    report("store", rows, ("operation", "messages", "hermes", "clew"))
    report("store_growth", list(growth(options.growth, options.flush)), ("messages", *ours))


def growth(lengths: Sequence[int], flush: Flush) -> Iterator[dict[str, Any]]:
    for length in lengths:
        with tempfile.TemporaryDirectory(prefix="clew-bench-") as folder:
            history = synthetic_history(length)
            figures = asyncio.run(measured(history, Path(folder) / "ours.db", flush, append_all=False))
        yield {"messages": length, **figures}


def beside_postgres(history: Sequence[Message], flush: Flush) -> None:
    """SQLite and PostgreSQL, by CPU time of this process and by the time that passes."""
    from tests.support.postgres import empty_schema, postgres_server

    columns: dict[str, Figures] = {}
    with (
        tempfile.TemporaryDirectory(prefix="clew-bench-", ignore_cleanup_errors=True) as folder,
        postgres_server(Path(folder) / "server", durable=True) as server,
    ):
        for kind, clock in (("cpu", time.process_time), ("passed", time.perf_counter)):
            where = Path(folder) / f"{kind}.db"
            sqlite = asyncio.run(measured(history, where, flush, append_all=False, clock=clock))
            columns[f"SQLite, {kind} ms"] = sqlite
            with empty_schema(server) as url:
                other = asyncio.run(measured(history, url, flush, append_all=False, clock=clock))
            columns[f"PostgreSQL, {kind} ms"] = other
    operations = columns["PostgreSQL, cpu ms"]
    rows = [
        {"operation": name, "messages": len(history), **{column: it[name] for column, it in columns.items()}}
        for name in operations
    ]
    report("store_postgres", rows, ("operation", "messages", *columns))


async def measured(
    history: Sequence[Message],
    where: Path | str,
    flush: Flush,
    *,
    append_all: bool,
    clock: Callable[[], float] = time.process_time,
) -> Figures:
    """All figures of one store. Unless every message is to be appended alone, only the last few are."""
    figures: Figures = {}
    alone = len(history) if append_all else min(APPENDED, len(history) // 2)
    async with open_store(where, flush=flush) as store:
        await store.start_session(NewSession(id="s"))
        for start in range(0, len(history) - alone, 500):
            await store.append("s", history[start : min(start + 500, len(history) - alone)])
        await store.index_waiting()
        figures["append a message, durable"] = await _append(store, history[len(history) - alone :], clock)
        figures |= await _search(store, clock)
        figures |= await _compact(store, clock)
    if isinstance(where, Path):
        figures["database size / text"] = _share(where, history)
    return figures


async def _append(store: Store, messages: Sequence[Message], clock: Callable[[], float]) -> float:
    """Mean CPU of an append, with the indexing that it causes."""
    started = clock()
    for message in messages:
        await store.append("s", [message])
    await store.index_waiting()
    return (clock() - started) * 1_000 / len(messages)


async def _search(store: Store, clock: Callable[[], float]) -> Figures:
    return {
        "search, common word": await _median(lambda: store.search(COMMON_WORD), 15, clock),
        "search, plain question": await _median(lambda: store.search(QUESTION), 9, clock),
    }


async def _compact(store: Store, clock: Callable[[], float]) -> Figures:
    """Commit compactions and load the view after each; the first starts from the whole history."""
    commits, views, tip = list[float](), list[float](), "s"
    for _ in range(7):
        view = await store.view(tip)
        kept = [*view.messages[:HEAD], _SUMMARY, *view.messages[-TAIL:]]
        entry = CompactionEntry.of(view, kept, _SUMMARY)
        del view
        started = clock()
        tip = (await store.commit_compaction(tip, entry)).id
        commits.append((clock() - started) * 1_000)
        views.append(await _median(lambda tip=tip: store.view(tip), 3, clock))  # type: ignore[misc]
    return {"commit a compaction": statistics.median(commits), "load the view": statistics.median(views)}


async def _median(run: Callable[[], Awaitable[Any]], times: int, clock: Callable[[], float]) -> float:
    await run()
    figures: list[float] = []
    for _ in range(times):
        started = clock()
        await run()
        figures.append((clock() - started) * 1_000)
    return statistics.median(figures)


def load_session_db(folder: Path | None) -> Any:
    """Hermes' SessionDB out of a folder; None, and a line that says so, when it is not there."""
    if folder is None or not (folder / "hermes_state.py").is_file():
        print("Hermes is missing: its column stays empty. Pass --hermes FOLDER.")
        return None
    os.environ["HERMES_HOME"] = tempfile.mkdtemp(prefix="hermes-home-")
    logging.disable(logging.WARNING)
    sys.path.append(str(folder))
    return importlib.import_module("hermes_state").SessionDB


def hermes_measured(db_class: Any, history: Sequence[Message], where: Path) -> Figures:
    """The same operations of SessionDB; its way to compact keeps the old rows and writes the kept ones anew."""
    database = db_class(where)
    database.create_session("s", "cli")
    figures: Figures = {}
    with _cpu(figures, "append a message, durable", len(history)):
        for message in history:
            database.append_message(
                "s",
                message["role"],
                message.get("content"),
                tool_calls=message.get("tool_calls"),
                tool_call_id=message.get("tool_call_id"),
            )
    for name, query in (("search, common word", COMMON_WORD), ("search, plain question", QUESTION)):
        with _cpu(figures, name):
            database.search_messages(query)
    shown = database.get_messages_as_conversation("s")
    kept = [*shown[:HEAD], dict(_SUMMARY), *shown[-TAIL:]]
    with _cpu(figures, "commit a compaction"):
        database.archive_and_compact("s", kept)
    with _cpu(figures, "load the view"):
        database.get_messages_as_conversation("s")
    database.close()
    figures["database size / text"] = _share(where, history)
    return figures


@contextmanager
def _cpu(figures: Figures, name: str, parts: int = 1) -> Iterator[None]:
    started = time.process_time()
    yield
    figures[name] = (time.process_time() - started) * 1_000 / parts


def _share(where: Path, history: Sequence[Message]) -> float:
    return where.stat().st_size / sum(len(json.dumps(message, ensure_ascii=False).encode()) for message in history)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hermes", type=Path, help="the folder that hermes-agent 0.19.0 was installed into")
    parser.add_argument("--messages", type=int, default=20_000)
    parser.add_argument("--growth", type=int, nargs="*", default=list(GROWTH))
    parser.add_argument("--postgres", action="store_true", help="SQLite beside PostgreSQL, and nothing else")
    parser.add_argument("--flush", choices=("full", "normal"), default="full")
    return parser.parse_args()


if __name__ == "__main__":
    main()
