"""All figures of the page "How well", by one command: runs the benchmarks and writes their tables into the page.

    python benchmarks/evidence.py [--only NAME ...] [--hermes FOLDER] [--from-results]

Each part runs one benchmark in a process of its own and reads the rows that it wrote to `results/`. A table between
`<!-- evidence: NAME -->` and `<!-- end -->` of docs/how-well.md is replaced; the text around it stays. A part whose
data or program is absent keeps its old table, and the run says so. `--from-results` writes the tables of earlier runs.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _table import RESULTS

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "how-well.md"
SETS = {
    "claude_code_sessions": "Claude Code",
    "opencode_sessions": "opencode",
    "pi_sessions": "pi",
    "swe_bench_runs": "SWE-bench",
    "other_harnesses": "other harnesses",
}
KEPT = ("exam", "conformance")
COSTS = ("start", "speed")
Rows = Sequence[Mapping[str, Any]]
Table = Callable[[Rows], Iterator[Sequence[str]]]


@dataclass(frozen=True)
class Part:
    """A table of the page: the benchmark that measures it, the name of its results, and how they are shown."""

    command: tuple[str, ...]
    results: str
    table: Table
    takes_hermes: bool = False
    needs: str = ""
    """A program without which it is not measured."""


def facts(rows: Rows) -> Iterator[Sequence[str]]:
    """One line per compactor, one column per set of sessions."""
    sizes = {row["file"]: row["sessions"] for row in rows}
    sets = [name for name in SETS if name in sizes]
    yield ["facts kept, n = sessions", *(f"{SETS[name]} (n={sizes[name]})" for name in sets)]
    for engine in dict.fromkeys(row["engine"] for row in rows):
        by_set = {row["file"]: row for row in rows if row["engine"] == engine}
        yield [engine, *(f"{by_set[name]['facts %']:.1f}% of {by_set[name]['chars']:,} chars" for name in sets)]


def measures(*names: str) -> Table:
    """The rows of those measures of `core.py`; none where it last ran for others."""

    def table(rows: Rows) -> Iterator[Sequence[str]]:
        yield ["measure", "case", "value"]
        for row in rows:
            # The sessions of the exam one by one are left out.
            if row["measure"] in names and not re.search(r", [U-Z]$", row["case"]):
                yield [row["measure"].replace("_", " "), row["case"], f"{row['value']:,.1f} {row['unit']}"]

    return table


def handoff_scores(rows: Rows) -> Iterator[Sequence[str]]:
    """One line per set of sessions, one column per figure of `handoff_score`."""
    scores = {tuple(row["case"].split(", ")): row for row in rows if row["measure"] == "handoff_score"}
    names = list(dict.fromkeys(name for _, name in scores))
    yield ["sessions", *names]
    for file in dict.fromkeys(file for file, _ in scores):
        cells = (scores[file, name] for name in names)
        yield [
            SETS[file],
            *(f"{row['value']:,.{0 if row['case'].endswith(', n') else 1}f}{row['unit']}" for row in cells),
        ]


def beside(rows: Rows) -> Iterator[Sequence[str]]:
    """One line per compactor, one column per measure."""
    values = {tuple(row["case"].split(": ")): row["value"] for row in rows if row["measure"] == "others"}
    measured_by = list(dict.fromkeys(what for _, what in values))
    yield ["compactor", *measured_by]
    for name in dict.fromkeys(name for name, _ in values):
        yield [name, *(f"{values[name, it]:.1f}%" if (name, it) in values else "-" for it in measured_by)]


def certain(rows: Rows) -> Iterator[Sequence[str]]:
    """One line per engine and window; the least that any kind of fact has after each number of compactions."""
    counts = list(dict.fromkeys(row["compactions"] for row in rows))
    yield ["engine", "window", "facts at the end (n)", *(f"kept after {count}" for count in counts), "handoff, tokens"]
    for mode, window in dict.fromkeys((row["mode"], row["window"]) for row in rows):
        of_it = [row for row in rows if (row["mode"], row["window"]) == (mode, window)]
        kept = (min(value for name, value in row.items() if name.endswith("%")) for row in of_it)
        last = of_it[-1]
        yield [mode, f"{window:,}", str(last["facts"]), *(f"{it:.1f}%" for it in kept), f"{last['summary tokens']:,}"]


def money(rows: Rows) -> Iterator[Sequence[str]]:
    ways = list(dict.fromkeys(row["way"] for row in rows if row["way"] != "direct"))
    yield ["sessions, cost of direct calls = 100%", "n", "window", *ways]
    for name, window in dict.fromkeys((row["sessions"], row["window"]) for row in rows):
        of_it = {row["way"]: row for row in rows if (row["sessions"], row["window"]) == (name, window)}
        label = name.replace(name.partition(",")[0], SETS.get(name.partition(",")[0], name))
        costs = (f"{of_it[way]['of direct %']:.1f}%" if way in of_it else "-" for way in ways)
        yield [label, str(of_it["direct"]["count"]), f"{window:,}", *costs]


def idle(rows: Rows) -> Iterator[Sequence[str]]:
    """One line per session file or set of sessions, and window."""
    yield ["sessions", "n", "window", "pauses", "idle folds", "cost without", "with idle folds", "of it"]
    for file, window in dict.fromkeys((row["file"], row["window"]) for row in rows):
        one, other = (row for row in rows if (row["file"], row["window"]) == (file, window))
        costs = f"${one['cost $']:.2f}", f"${other['cost $']:.2f}", f"{other['of as it is %']:.1f}%"
        counts = str(one["ends"]), f"{window:,}", str(one["pauses"]), str(other["idle folds"])
        yield [titled(file).replace("_", " "), *counts, *costs]


def latency(rows: Rows) -> Iterator[Sequence[str]]:
    """CPU time only: waiting depends on what else the machine does."""
    yield ["body of a request", "n", "CPU ms direct", "pass-through", "gateway"]
    for body in dict.fromkeys(row["body"] for row in rows):
        spent = {row["way"]: row["cpu ms"] for row in rows if row["body"] == body}
        count = next(row["requests"] for row in rows if row["body"] == body)
        yield [body, str(count), *(f"{spent[way]:.1f}" for way in ("direct", "pass-through", "gateway"))]


def plain(rows: Rows) -> Iterator[Sequence[str]]:
    """Every column as the benchmark named it, sets of sessions by their titles."""
    columns = list(rows[0])
    yield columns
    for row in rows:
        yield [f"{cell:,.1f}" if isinstance(cell, float) else titled(str(cell)) for cell in map(row.get, columns)]


def titled(cell: str) -> str:
    name, *more = cell.split(", ", 1)
    return ", ".join([SETS.get(name, name), *more])


PARTS = {
    "facts": Part(("quality.py", "--only", "retention"), "retention", facts, takes_hermes=True),
    "core": Part(("core.py", "--only", *KEPT), "core", measures(*KEPT)),
    "handoff": Part(("core.py", "--only", "handoff_score"), "core", handoff_scores),
    "others": Part(("core.py", "--only", "others"), "core", beside, takes_hermes=True),
    "speed": Part(("core.py", "--only", *COSTS), "core", measures(*COSTS)),
    "certain": Part(("quality.py", "--only", "certain"), "kept_for_certain", certain),
    "recall": Part(("recall_exam.py",), "recall_exam", plain),
    "money": Part(("gateway_money.py", "--windows", "64000", "200000"), "gateway_money", money, takes_hermes=True),
    "idle": Part(("idle.py",), "idle", idle),
    "latency": Part(("gateway.py", "--only", "latency"), "gateway_latency", latency),
    "inside": Part(("inside.py",), "inside", plain),
    "programs": Part(("../tests/clients/run.py", "--plugins"), "inside_programs", plain, needs="npm"),
}


def measured(part: Part, hermes: Path | None) -> bool:
    """Run the benchmark of a part. Returns whether it wrote new results."""
    path = RESULTS / f"{part.results}.json"
    if part.needs and shutil.which(part.needs) is None:
        return False
    before = path.stat().st_mtime_ns if path.exists() else 0
    more = ["--hermes", str(hermes)] if hermes and part.takes_hermes else []
    subprocess.run([sys.executable, str(HERE / part.command[0]), *part.command[1:], *more], check=True)
    return path.exists() and path.stat().st_mtime_ns > before


def with_table(page: str, name: str, lines: Sequence[Sequence[str]]) -> str:
    """The page with the table of that name replaced."""
    head, *body = [[cell.replace("|", "/") for cell in line] for line in lines]
    # Numbers to the right, words to the left.
    are_numbers = [all(re.match(r"[\d.-]+ ?%?", line[column]) for line in body) for column in range(1, len(head))]
    rows = [head, ["---", *("--:" if it else "---" for it in are_numbers)], *body]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    place = re.compile(rf"(<!-- evidence: {name} -->\n).*?(<!-- end -->)", re.S)
    if not place.search(page):
        raise SystemExit(f"{PAGE} has no place for the table {name!r}")
    return place.sub(lambda found: f"{found[1]}\n{table}\n\n{found[2]}", page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(PARTS), nargs="+", default=list(PARTS))
    parser.add_argument("--hermes", type=Path, help="the folder that hermes-agent 0.19.0 was installed into")
    parser.add_argument("--from-results", action="store_true", help="measure nothing, write what was measured before")
    options = parser.parse_args()
    for name in options.only:
        part = PARTS[name]
        path = RESULTS / f"{part.results}.json"
        is_there = path.exists() if options.from_results else measured(part, options.hermes)
        lines = list(part.table(json.loads(path.read_text(encoding="utf-8")))) if is_there else []
        if len(lines) < 2:
            print(f"{name}: no results; its table stays as it is")
            continue
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), name, lines), encoding="utf-8")
        print(f"{name}: {len(lines) - 1} rows written to {PAGE.name}")


if __name__ == "__main__":
    main()
