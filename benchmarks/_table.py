"""Shows the rows of a benchmark as a table, keeps them as JSON beside it, and has the floors of scores."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"
FLOORS: dict[str, dict[str, float]] = tomllib.loads(Path(__file__).with_name("floors.toml").read_text(encoding="utf-8"))
"""By measure and case: the lowest score in percent; and `goals`."""


def report(name: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Path:
    """Print the columns of the rows under a heading, write all of the rows to results/<name>.json."""
    print(f"\n{name}")
    cells = [[_shown(row.get(column)) for column in columns] for row in rows]
    widths = [max(len(column), *(len(line[i]) for line in cells), 1) for i, column in enumerate(columns)]
    for line in (list(columns), ["-" * width for width in widths], *cells):
        print("  ".join(_aligned(cell, width) for cell, width in zip(line, widths, strict=True)).rstrip())
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps([dict(row) for row in rows], indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.3f}" if abs(value) < 1 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _aligned(cell: str, width: int) -> str:
    is_number = cell[:1].isdigit() or cell[:1] in "+-"
    return cell.rjust(width) if is_number else cell.ljust(width)
