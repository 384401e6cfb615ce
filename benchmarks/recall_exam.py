"""What one search of the store shows of what somebody must know: questions about real sessions, with graded answers.

    python benchmarks/recall_exam.py [--exam FOLDER] [--losses] [--vectors]

FOLDER has `questions.json` (by session: question, must_have parts of the answer, and the messages where it stands) and
`sessions/NAME.json.gz`. Each question is asked in its own words. "Visible" is the mean mark of the first page: a part
of an answer counts whole from 85% of its key strings on and half from 60%, names and values three times as much as
plain words. "In five" are the questions of which one of the first five hits is a message of the answer; a call and its
result are one hit. The questions name things that only the whole session says; no page shows all of them.

The same is asked behind a fold of 10,000 tokens, where messages in view are no hits. "Folded" are the questions of
whose answer a message is folded, "folded in five" the share of them with a message of the answer among the first five
hits, and "five or view" the share of all questions with such a hit or a message of the answer in view.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import re
import tempfile
import time
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any

import clew
from _sessions import SHARED
from _table import report
from clew.engines import Fate
from clew.store import NewSession, SearchScope, Store, installed_embedder, open_store
from clew.tokens import counter_for
from clew.turn import found_label, found_texts, search_history

SHARES = ("visible", "whole", "in five", "five or view")
COLUMNS = ("session", "questions", *(f"{share} %" for share in SHARES), "folded", "folded in five %", "tokens", "ms")
FIRST = 5
FOLDED_TO = 10_000
WHOLE, HALF = 0.85, 0.6
_word = re.compile(r"[\w./:@#%+~$-]+")
_exact = re.compile(r"[\d_/.@#:]")
_place = re.compile(r"m(\d+)(?:-m?(\d+))?")
_PLAIN = frozenset(
    "the and for with was were are from that this not only all any each which what how still must should has have had "
    "into than then also but one two three four five six first second last before after via per plus etc done".split()
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--exam", type=Path, default=SHARED / "exam")
    parser.add_argument("--losses", action="store_true", help="print each question whose messages are not found")
    parser.add_argument("--vectors", action="store_true", help="with the extra vectors beside the words")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name, questions in json.loads((options.exam / "questions.json").read_text(encoding="utf-8")).items():
        with gzip.open(options.exam / "sessions" / f"{name}.json.gz", "rt", encoding="utf-8") as file:
            messages = json.load(file)["messages"]
        rows += asyncio.run(asked_of(name, messages, questions, with_vectors=options.vectors))
    if options.losses:
        for row in rows:
            if not row["in five"]:
                print(f"{row['id']}: the answer is in {row['where']}, found were {row['found']}")
    names = dict.fromkeys(row["session"] for row in rows)
    parts = [(name, [row for row in rows if row["session"] == name]) for name in names]
    report("recall_exam", [_summed(name, of_it) for name, of_it in [*parts, ("all", rows)]], COLUMNS)


async def asked_of(
    name: str, messages: list[Any], questions: list[dict[str, Any]], *, with_vectors: bool = False
) -> list[dict[str, Any]]:
    fates = clew.compress(messages, target_tokens=FOLDED_TO).fates
    view = {number for number, fate in enumerate(fates) if fate is Fate.KEPT}
    with tempfile.TemporaryDirectory(prefix="clew-bench-") as folder:
        embedder = installed_embedder(wanted=with_vectors)
        async with open_store(Path(folder) / "store.db", embedder=embedder) as store:
            await store.start_session(NewSession(id="s"))
            await store.append("s", messages)
            await store.index_waiting()
            return [{"session": name, **await _asked(store, question, view)} for question in questions]


async def _asked(store: Store, question: dict[str, Any], view: set[int]) -> dict[str, Any]:
    scope = SearchScope(conversation_of="s")
    started = time.process_time()
    page = await search_history(store, question["question"], scope)
    spent = time.process_time() - started
    behind = await search_history(store, question["question"], scope, is_seen=lambda hit: hit.seq in view)
    shown = "\n".join("\n".join((found_label(it), *(text for _, text in found_texts(it)))) for it in page.hits)
    where = set(_numbers(question["where"]))
    in_five, folded_in_five = (
        any(where.intersection(it.numbers) for it in found.hits[:FIRST]) for found in (page, behind)
    )
    marks = [_mark(_share(part, _folded(shown))) for part in question["must_have"]]
    return {
        "id": question["id"],
        "where": question["where"],
        "found": [it.numbers for it in page.hits[:FIRST]],
        "visible": mean(marks),
        "whole": all(mark == 1.0 for mark in marks),
        "in five": in_five,
        "five or view": folded_in_five or bool(where & view),
        "folded in five": folded_in_five if where - view else None,
        "tokens": counter_for(None).text(shown),
        "ms": spent * 1_000,
    }


def _summed(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    shares = {f"{key} %": 100.0 * mean(row[key] for row in rows) for key in SHARES}
    folded = [row["folded in five"] for row in rows if row["folded in five"] is not None]
    shares |= {"folded": len(folded), "folded in five %": 100.0 * mean(folded) if folded else None}
    costs = {key: mean(row[key] for row in rows) for key in ("tokens", "ms")}
    return {"session": name, "questions": len(rows), **shares, **costs}


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).lower().replace("’", "'").split())


def _keys(part: str) -> Iterator[str]:
    for word in _word.findall(_folded(part)):
        key = word.strip(".,:;-/'\"()")
        if len(key) > 1 and key not in _PLAIN:
            yield key


def _share(part: str, shown: str) -> float:
    """How much of the key strings of a part of an answer is shown; plain words also in other forms."""
    weights = {key: 3.0 if _exact.search(key) else 1.0 for key in _keys(part)}
    found = sum(
        weight
        for key, weight in weights.items()
        if key in shown or (weight == 1.0 and len(key) > 5 and key.rstrip("s")[:-1] in shown)
    )
    return found / sum(weights.values()) if weights else 1.0


def _mark(share: float) -> float:
    return 1.0 if share >= WHOLE else 0.5 if share >= HALF else 0.0


def _numbers(where: str) -> Iterator[int]:
    for first, last in _place.findall(where):
        yield from range(int(first), int(last or first) + 1)


if __name__ == "__main__":
    main()
