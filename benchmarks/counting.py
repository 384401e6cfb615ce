"""How right and how quick counting is.

    python benchmarks/counting.py

1. The size estimate against the prompt tokens that providers reported for real sessions (skipped without the shared
   data). Recorded prompts hold things that the sessions do not show: a host's system prompt, its tools, reminders,
   pictures. So "before" takes the first reply's figure for what is unseen and estimates all growth after it, with no
   correction; where a whole prompt is on record from its first word ("whole"), nothing is taken from the provider at
   all. A prompt of less than half the one before it shows that the host emptied its window: measuring starts again.
   "growth" is the error of all growth together, over the steps whose every call has its result on record. "after" is
   what a running conversation has: the last real figure plus the counted difference.
2. Speed, by kind of text.
3. The size of the next request with one new message, by length of the conversation.
"""

from __future__ import annotations

import gzip
import json
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import _repository  # noqa: F401
from _table import report
from _texts import SHARED_DATA, texts
from clew.tokens import ConversationSize, TokenCounter, counter_for
from tests.support.history import synthetic_history

# Who served the recorded sessions, by file and place in it; the sessions themselves do not say.
MODELS = {
    "swe_bench_runs": ["gemini-3-pro"],
    "pi_sessions": ["claude-opus-4-5", "claude-sonnet-4-5"],
    "claude_code_sessions": ["claude-sonnet-4-5"],
}
WHOLE = {"swe_bench_runs"}
# A vocabulary builds its tables at its first words; that is part of the cold start, not of the speed.
WARMING_UP = "Some words, 12 numbers; and_names = [('of', 'code')]\n\tDas ist, 这是 für den Anfang.\n" * 20


@dataclass(frozen=True)
class Session:
    file: str
    name: str
    model: str
    messages: Sequence[Any]
    prompts: Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Errors:
    """Percent off, for every recorded prompt of a session."""

    whole: list[float]
    before: list[float]
    after: list[float]
    quarter: list[float]
    growth: list[tuple[int, int]]
    """Counted and real, for each complete step."""


def main() -> None:
    accuracy()
    speed()
    next_request()


def accuracy() -> None:
    measured = [(session, _errors(session)) for session in _sessions()]
    if not measured:
        print("no recorded sessions here: accuracy is not measured")
        return
    rows = [_row(session.file, session.name, session.model, [errors]) for session, errors in measured]
    report("counting_by_session", rows, list(rows[0]))
    files = sorted({session.file for session, _ in measured})
    rows = [_row(file, "all", "", [e for s, e in measured if s.file == file]) for file in files]
    rows.append(_row("all", "all", "", [errors for _, errors in measured]))
    report("counting_accuracy", rows, list(rows[0]))


def _row(file: str, session: str, model: str, errors: Sequence[Errors]) -> dict[str, Any]:
    row: dict[str, Any] = {"file": file, "session": session[-24:], "model": model}
    row["prompts"] = sum(len(one.before) for one in errors)
    for name in ("whole", "before", "after", "quarter"):
        found = [value for one in errors for value in getattr(one, name)]
        label = "chars/4" if name == "quarter" else name
        row[f"{label}: median %"] = statistics.median(found) if found else None
        row[f"{label}: p95 %"] = sorted(found)[int(0.95 * (len(found) - 1))] if found else None
    counted, real = (sum(step[i] for one in errors for step in one.growth) for i in (0, 1))
    row["growth %"] = 100 * (counted / real - 1) if real else None
    return row


def _errors(session: Session) -> Errors:
    counter = counter_for(session.model)
    size = ConversationSize(counter)
    quarters = [0.0]
    for message in session.messages:
        quarters.append(quarters[-1] + len(json.dumps(message, ensure_ascii=False)) / 4)
    errors = Errors([], [], [], [], [])
    base = base_in_quarters = 0.0
    before: tuple[int, int, int] | None = None
    for place, real in session.prompts:
        for message in session.messages[len(size) : place]:
            size.append(message)
        if session.file in WHOLE:
            errors.whole.append(_off(size.counted, real))
        if before is None or real < before[1] / 2:
            base, base_in_quarters = real - size.counted, real - quarters[place]
        else:
            errors.before.append(_off(base + size.counted, real))
            errors.after.append(_off(size.tokens, real))
            errors.quarter.append(_off(base_in_quarters + quarters[place], real))
            if _is_complete(session.messages[before[0] : place]):
                errors.growth.append((size.counted - before[2], real - before[1]))
        size.observe(real)
        before = (place, real, size.counted)
    return errors


def _is_complete(step: Sequence[Mapping[str, Any]]) -> bool:
    """A reply, then a result for each of its calls or a person's answer: nothing of this step is missing."""
    calls = [call["id"] for message in step for call in message.get("tool_calls") or ()]
    results = [message.get("tool_call_id") for message in step if message["role"] == "tool"]
    return len(step) > 1 and calls == results and step[0]["role"] == "assistant"


def _off(estimate: float, real: int) -> float:
    return 100 * abs(estimate / real - 1)


def _sessions() -> Iterator[Session]:
    for file, models in MODELS.items():
        path = SHARED_DATA / "conversations" / f"{file}.jsonl.gz"
        if not path.exists():
            continue
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines):
                said = json.loads(line)
                prompts = [(place, _prompt(usage)) for place, usage in said["usage"]]
                known = [(place, real) for place, real in prompts if real > 0]
                if len(known) > 1:
                    model = models[min(number, len(models) - 1)]
                    yield Session(file, said["id"], model, said["messages"], known)


def _prompt(usage: Mapping[str, Any]) -> int:
    """Prompt tokens in the three shapes of these files."""
    if "prompt_tokens" in usage:
        return int(usage["prompt_tokens"])
    keys = (
        "input",
        "cacheRead",
        "cacheWrite",
        "input_tokens",
        "cache_creation_input_tokens",
        "cache_read_input_tokens",
    )
    return sum(int(usage.get(key) or 0) for key in keys)


def speed() -> None:
    rows = []
    for kind, pieces in texts(per_kind=60).items():
        size = sum(len(piece.encode("utf-8", "replace")) for piece in pieces)
        row: dict[str, Any] = {"kind": kind, "MB": size / 1e6}
        for label, counter in (("exact, first pass", counter_for()), ("estimate", counter_for(quick=True))):
            row[f"{label} MB/s"] = size / 1e6 / _cpu_of(counter, pieces)
        row["exact again MB/s"] = size / 1e6 / _cpu_of(counter_for(), pieces)
        rows.append(row)
    report("counting_speed", rows, list(rows[0]))
    history = synthetic_history(20_000)
    row = {"20,000 messages": "CPU s"}
    for name, counter in _counters().items():
        started = time.process_time()
        for message in history:
            counter.message(message)
        row[name] = f"{time.process_time() - started:.2f}"
    report("counting_cold", [row], list(row))


def _counters() -> dict[str, TokenCounter]:
    return {
        "estimate, o200k": counter_for(quick=True),
        "estimate, Claude": counter_for("claude-sonnet-4-5"),
        "estimate, Gemini": counter_for("gemini-3-pro"),
        "exact, o200k": counter_for(),
    }


def _cpu_of(counter: TokenCounter, pieces: Sequence[str]) -> float:
    counter.text(WARMING_UP)
    started = time.process_time()
    for piece in pieces:
        counter.text(piece)
    return max(1e-6, time.process_time() - started)


def next_request() -> None:
    rows = []
    new = synthetic_history(300, seed=1)
    for length in (1_000, 5_000, 20_000, 100_000):
        row: dict[str, Any] = {"messages": length}
        for name, counter in (("exact", counter_for()), ("Claude", counter_for("claude-sonnet-4-5"))):
            size = ConversationSize(counter, system="You are careful.", counts=[500] * length)
            size.observe(length * 510)
            row[f"{name}, CPU ms"] = statistics.median(_one_turn(size, message) for message in new)
        rows.append(row)
    report("counting_next_request", rows, list(rows[0]))


def _one_turn(size: ConversationSize, message: Any) -> float:
    started = time.process_time_ns()
    size.append(message)
    size.tokens  # noqa: B018 (reading it is what is measured)
    return (time.process_time_ns() - started) / 1e6


if __name__ == "__main__":
    main()
