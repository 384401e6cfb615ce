"""Real sessions, as the benchmarks read them: each cut where 70% of its text has passed, with what was needed later.

The definitions (text, cut, atoms) are those of the scorer that lies beside the data. Knows nothing of what is measured.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SHARED = Path(__file__).resolve().parents[2] / "shared"
LEAST_CHARS = 100_000


@dataclass(frozen=True)
class CutSession:
    """A session in two parts, and the atoms that its agent used after the cut and had seen before it."""

    before: list[Any]
    after: list[Any]
    need: list[str]
    source: str = ""
    """The program it was recorded with, where the file names it."""


def conversation_files(data: Path) -> list[Path]:
    return sorted((data / "conversations").glob("*.jsonl.gz"))


def name_of(path: Path) -> str:
    return path.name.removesuffix(".jsonl.gz")


def records_in(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def sessions_in(path: Path) -> Iterator[list[Any]]:
    for record in records_in(path):
        yield record["messages"]


def cut_sessions(path: Path, scorer: Any, least_chars: int = LEAST_CHARS) -> Iterator[CutSession]:
    """The sessions that are long enough, and after whose cut something was needed."""
    for record in records_in(path):
        messages = record["messages"]
        if sum(len(scorer.text(message)) for message in messages) < least_chars:
            continue
        cut = scorer.cut_at(messages)
        need = scorer.needed(messages, cut) if cut >= 4 else []
        if need:
            yield CutSession(messages[:cut], messages[cut:], need, record.get("source", ""))


def load_scorer(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("retention", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
