"""Clew inside Hermes Agent beside Hermes' own engine: what a fold keeps, and what it costs. Run by Hermes' Python.

    python benchmarks/hermes_engines.py [--data FOLDER] [--scorer retention.py] [--window TOKENS] [--only PART]

Needs hermes-agent 0.19 and Clew in one environment, such as the one that `./check integrations hermes` makes.

1. Folds: real sessions are cut where 70% of their text has passed, and what is before the cut is given to `compress` of
   both engines, as Hermes calls it, with the same window and no model for summaries, and to Clew's once more for a
   result as large as that of Hermes; what the agent used afterwards is looked for in the result by the scorer that
   lies beside the data. Without data this part is skipped.
2. Calls: CPU time of what Hermes calls around one request, in a conversation of 100 and of 5,000 messages.
"""

from __future__ import annotations

import argparse
import logging
import os
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import clew
from _sessions import SHARED, conversation_files, cut_sessions, load_scorer, name_of
from _table import report
from clew.integrations.hermes import HermesContextEngine, SharedStore
from clew.tokens import counter_for

WINDOW = 64_000
PARTS = ("folds", "calls")
FOLD_COLUMNS = ("file", "engine", "sessions", "tokens before", "tokens after", "facts %", "atoms %", "pairs", "cpu ms")
CALL_COLUMNS = ("messages", "keep a turn ms", "decide ms", "note usage ms")
CALLS = 50
HERMES, CLEW, SAME_SIZE = "Hermes' own", "clew", "clew, as large as that"
ENGINES = (HERMES, SAME_SIZE, CLEW)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=SHARED / "data")
    parser.add_argument("--scorer", type=Path, default=SHARED / "retention.py")
    parser.add_argument("--window", type=int, default=WINDOW)
    parser.add_argument("--only", choices=PARTS)
    given = parser.parse_args()
    os.environ["HERMES_HOME"] = tempfile.mkdtemp(prefix="hermes-home-")
    logging.disable(logging.WARNING)
    if given.only != "calls":
        report("folds beside Hermes", folds(given.data, given.scorer, given.window), FOLD_COLUMNS)
    if given.only != "folds":
        report("calls inside Hermes", [calls(100), calls(5_000)], CALL_COLUMNS)


def folds(data: Path, scorer_path: Path, window: int) -> list[dict[str, Any]]:
    files = conversation_files(data)
    if not files:
        print(f"no conversations in {data}: this part is skipped")
        return []
    scorer = load_scorer(scorer_path)
    rows = []
    for path in files:
        totals = {name: Counter[str]() for name in ENGINES}
        for session in cut_sessions(path, scorer):
            own, took = hermes_fold([dict(message) for message in session.before], window)
            score(totals[HERMES], scorer, session, own, took)
            score(totals[SAME_SIZE], scorer, session, *clew_fold_to(session.before, own))
            score(totals[CLEW], scorer, session, *clew_fold([dict(it) for it in session.before], window))
        rows += [fold_row(name_of(path), name, total) for name, total in totals.items()]
    return rows


def clew_fold(messages: list[dict[str, Any]], window: int) -> tuple[list[dict[str, Any]], float]:
    shared = SharedStore({"CLEW_HOME": tempfile.mkdtemp(prefix="clew-home-")})
    engine = HermesContextEngine(shared, None)
    engine.update_model("stub-model", window)
    engine.on_session_start("s1")
    shared.run(_nothing)
    started = time.process_time()
    folded = engine.compress(messages, current_tokens=window, force=True)
    took = time.process_time() - started
    shared.close()
    return folded, took


async def _nothing(_: Any) -> None:
    """Opens the store: an engine folds many times, and its store is opened once."""


def hermes_fold(messages: list[dict[str, Any]], window: int) -> tuple[list[dict[str, Any]], float]:
    from agent import context_compressor as module

    def no_model(**_: Any) -> Any:
        raise RuntimeError("No LLM provider configured")

    module.call_llm = no_model
    engine = module.ContextCompressor("stub-model", config_context_length=window, quiet_mode=True)
    started = time.process_time()
    folded = engine.compress(messages, current_tokens=window, force=True)
    return folded, time.process_time() - started


def clew_fold_to(messages: list[Any], own: list[Any]) -> tuple[list[Any], float]:
    """The same engine with as many tokens as Hermes' result has: what is kept can be compared at equal size only."""
    started = time.process_time()
    size = clew.count_tokens(own, model="stub-model")
    done = clew.compress(messages, target_tokens=size, model="stub-model")
    return done.messages, time.process_time() - started


def score(total: Counter[str], scorer: Any, session: Any, folded: list[Any], took: float) -> None:
    result = "\n".join(scorer.text(message) for message in folded)
    lines = {atom: scorer.companions(atom, session.before) for atom in session.need}
    count = counter_for("stub-model").message
    total["sessions"] += 1
    total["cpu"] += round(took * 1e6)
    total["before"] += sum(map(count, session.before))
    total["after"] += sum(map(count, folded))
    total["atoms"] += len(session.need)
    total["kept"] += sum(atom in result for atom in session.need)
    total["facts"] += sum(bool(lines[atom]) for atom in session.need)
    total["shown"] += sum(scorer.shown_as_fact(atom, lines[atom], result) for atom in session.need if lines[atom])
    total["pairs"] += max(0, scorer.bad_pairs(folded) - scorer.bad_pairs(session.before))


def fold_row(file: str, engine: str, total: Counter[str]) -> dict[str, Any]:
    sessions = max(1, total["sessions"])
    return {
        "file": file,
        "engine": engine,
        "sessions": total["sessions"],
        "tokens before": total["before"] // sessions,
        "tokens after": total["after"] // sessions,
        "facts %": round(100 * total["shown"] / max(1, total["facts"]), 1),
        "atoms %": round(100 * total["kept"] / max(1, total["atoms"]), 1),
        "pairs": total["pairs"],
        "cpu ms": round(total["cpu"] / 1e3 / sessions, 1),
    }


def calls(length: int) -> dict[str, Any]:
    """CPU of one request's calls in a conversation of so many messages, this process with all its threads."""
    shared = SharedStore({"CLEW_HOME": tempfile.mkdtemp(prefix="clew-home-")})
    engine = HermesContextEngine(shared, None)
    engine.update_model("stub-model", 2_000_000)
    engine.on_session_start("s1")
    messages: list[dict[str, Any]] = [exchange for number in range(length // 2) for exchange in turn(number)]
    engine.record(messages)
    spent = Counter[str]()
    usage = {"prompt_tokens": 9_000, "completion_tokens": 40, "input_tokens": 100, "cache_read_tokens": 8_900}
    for number in range(CALLS):
        messages.extend(turn(length + number))
        for name, work in (
            ("decide", lambda: (engine.should_defer_preflight_to_real_usage(9_000), engine.should_compress(9_000))),
            ("usage", lambda: engine.update_from_response(usage)),
            ("turn", lambda: engine.record(messages)),
        ):
            started = time.process_time()
            work()
            spent[name] += round((time.process_time() - started) * 1e6)
    shared.close()
    return {
        "messages": length,
        "keep a turn ms": round(spent["turn"] / CALLS / 1e3, 2),
        "decide ms": round(spent["decide"] / CALLS / 1e3, 3),
        "note usage ms": round(spent["usage"] / CALLS / 1e3, 2),
    }


def turn(number: int) -> list[dict[str, Any]]:
    asked = f"What is the depth of port {number}? The table is in /data/ports/p{number}.csv."
    return [{"role": "user", "content": asked}, {"role": "assistant", "content": f"It is {number * 7919} cm."}]


if __name__ == "__main__":
    main()
