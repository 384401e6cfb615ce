"""What survives a compaction, counted; no model judges it.

    python benchmarks/quality.py [--data FOLDER] [--scorer retention.py] [--only PART] [--losses] [--hermes FOLDER]

1. Retention: real sessions are cut where 70% of their text has passed, what is before the cut is compressed through
   the default code path, and what the agent used afterwards is looked for in the result. The definitions are those of
   the scorer that lies beside the data; without data this part is skipped. "10,000 tokens" is that target; for "40,000
   chars" the target in tokens is found by a few tries, the same for every session, so that the result comes close to so
   many chars and never has more.
2. Recoverable: of what is not in that result, how much one search of the stored history brings back.
3. Kept for certain: made-up conversations that grow, with rules, changed files, failing commands and a first task
   planted in them, compacted up to 20 times: by one engine that lives on, and by a new call each time that sees
   nothing but its own last result. A score below floors.toml ends it with status 1.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from itertools import cycle, product
from pathlib import Path
from typing import Any

import _repository  # noqa: F401
import clew
import recoverable
from _sessions import SHARED, conversation_files, cut_sessions, load_scorer, name_of
from _table import FLOORS, report
from clew.engines import ContextCompressor
from clew.handoff import unwrap
from clew.messages import Message, text_of
from clew.testing import assistant, call, system, tool, user
from clew.tokens import counter_for
from hermes_side import HermesSide, load_hermes
from tests.support.history import synthetic_history

TARGET_TOKENS = 10_000
TARGET_CHARS = 40_000
NEAR_CHARS = 38_500
TRIES = 8
PARTS = ("retention", "recoverable", "certain")
RETENTION_COLUMNS = (
    "file", "engine", "sessions", "chars", "most chars", "tokens", "atoms %", "facts %", "goal %", "pairs", "cpu ms",
)  # fmt: skip
KINDS = ("first task", "newest request", "rules", "changed files", "last errors")
CERTAIN_COLUMNS = (
    "mode", "window", "compactions", "facts", *(f"{kind} %" for kind in KINDS), "numbering", "summaries",
    "summary tokens",
)  # fmt: skip
Engine = Callable[[list[Any]], Sequence[Any]]


# -- retention ---------------------------------------------------------------------------------------------------------


def retention(data: Path, scorer: Any, hermes: HermesSide | None = None) -> list[dict[str, Any]]:
    # An engine gets ready first, then its work is timed.
    engines: dict[str, Callable[[list[Any]], Engine]] = {
        "keep last": lambda _: lambda messages: _list(scorer.keep_last(messages, TARGET_CHARS)),
        "clip tool results": lambda _: lambda messages: _list(scorer.clip_tools(messages, TARGET_CHARS)),
        "clew, 10,000 tokens": lambda _: compressed_to(TARGET_TOKENS),
        "clew, 40,000 chars": lambda messages: compressed_to(target_for_chars(messages, scorer)),
    }
    engines |= {name: lambda _, engine=engine: engine for name, engine in rivals(hermes).items()}  # type: ignore[misc]
    rows = []
    for path in conversation_files(data):
        totals = {name: Counter[str]() for name in engines}
        for session in cut_sessions(path, scorer):
            lines = {atom: scorer.companions(atom, session.before) for atom in session.need}
            for name, ready in engines.items():
                add_scores(totals[name], ready(session.before), session.before, lines, scorer)
        rows += [_retention_row(path, name, total) for name, total in totals.items() if total["sessions"]]
    return rows


def rivals(hermes: HermesSide | None, chars: int = TARGET_CHARS) -> dict[str, Engine]:
    """Other compactors that need no model, each where it is installed, for results of that many chars."""
    found: dict[str, Engine] = {}
    if hermes is not None:
        found[f"Hermes {hermes.version}, its own size"] = lambda messages: _list(
            hermes.compress_without_model(messages)
        )
    if find_spec("cliffcompaction"):
        found[f"CliffCompaction, {chars:,} chars"] = lambda messages: cliff_compacted(messages, chars)
    if find_spec("llmslim"):
        found[f"LLMSlim, {chars:,} chars"] = lambda messages: slimmed(messages, chars)
    return found


def cliff_compacted(messages: list[Any], chars: int) -> list[Any]:
    """The request as CliffCompaction sends it under a strict budget of that size (it counts four chars a token)."""
    from cliffcompaction.config import Config
    from cliffcompaction.dialects.openai_chat import DIALECT
    from cliffcompaction.engine import Engine as Compactor

    engine = Compactor(Config(threshold_tokens=chars // 4, strict=True))
    return _list(engine.prepare({"messages": messages}, DIALECT).outgoing_body()["messages"])


def slimmed(messages: list[Any], chars: int) -> list[Any]:
    """The conversation as one text, shortened by LLMSlim to that size."""
    from llmslim import compress

    text = "\n".join(f"{message.get('role')}: {_all_text(message)}" for message in messages)
    result = compress(text, target_ratio=min(1.0, chars / max(1, len(text))))
    return [{"role": "user", "content": result.compressed_text[:chars]}]


def compressed_to(tokens: int) -> Engine:
    return lambda messages: _list(clew.compress(messages, target_tokens=tokens).messages)


def target_for_chars(messages: list[Any], scorer: Any) -> int:
    """The target in tokens whose result has nearly, and never more than, the wanted number of chars."""
    chars = _chars(messages, scorer)
    tried = round(TARGET_CHARS * clew.count_tokens(messages) / max(1, chars))
    low, high, fitting, most = 0, 4 * TARGET_CHARS, 0, -1
    for _ in range(TRIES):
        got = _chars(compressed_to(tried)(messages), scorer)
        if got <= TARGET_CHARS:
            low = max(low, tried)
            if got > most:
                fitting, most = tried, got
            if got >= min(NEAR_CHARS, chars):
                break
        else:
            high = min(high, tried)
        # In proportion, but between what was too little and what was too much.
        aim = round(tried * (NEAR_CHARS + TARGET_CHARS) / 2 / max(1, got))
        tried = aim if low < aim < high else (low + high) // 2
    return fitting or tried


def _chars(messages: Sequence[Any], scorer: Any) -> int:
    """As the scorer counts a result: with a line end between messages."""
    return sum(len(scorer.text(message)) for message in messages) + max(0, len(messages) - 1)


def add_scores(total: Counter[str], engine: Engine, before: list[Any], lines: Mapping[str, Any], scorer: Any) -> None:
    start = time.process_time_ns()
    after = engine(before)
    total["cpu us"] += (time.process_time_ns() - start) // 1_000
    result = "\n".join(scorer.text(message) for message in after)
    total["sessions"] += 1
    total["chars"] += len(result)
    total["most chars"] = max(total["most chars"], len(result))
    total["tokens"] += clew.count_tokens(after)
    total["atoms"] += len(lines)
    total["kept"] += sum(atom in result for atom in lines)
    total["facts"] += sum(bool(near) for near in lines.values())
    total["shown"] += sum(scorer.shown_as_fact(atom, near, result) for atom, near in lines.items() if near)
    total["pairs"] += max(0, scorer.bad_pairs(after) - scorer.bad_pairs(before))


def _retention_row(path: Path, name: str, total: Counter[str]) -> dict[str, Any]:
    file, sessions = name_of(path), total["sessions"]
    return {
        "file": file,
        "engine": name,
        "sessions": sessions,
        "chars": total["chars"] // sessions,
        "most chars": total["most chars"],
        "tokens": total["tokens"] // sessions,
        "atoms %": 100 * total["kept"] / total["atoms"],
        "facts %": 100 * total["shown"] / max(1, total["facts"]),
        "goal %": FLOORS["goals"].get(file) if name.startswith("clew") else None,
        "pairs": total["pairs"],
        "cpu ms": total["cpu us"] / 1_000 / sessions,
    }


def _list(messages: Any) -> list[Any]:
    return list(messages)


# -- kept for certain --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Planted:
    """Something that must stay in the conversation word for word. A later one of the same `key` takes its place."""

    kind: str
    text: str
    planted_at: int
    """The compaction that came next."""
    key: str


class GrowingConversation:
    """A view that grows to the threshold of its window, is compacted, and grows again."""

    def __init__(self, window: int, seed: int = 0) -> None:
        self._window = window
        self._results = cycle([text_of(m) for m in synthetic_history(900, seed) if m["role"] == "tool"])
        # A summary is a twentieth of the window: what must be in it for certain has to fit.
        self._per_growth = 1 if window < 100_000 else 3
        self._steps = 0
        self._growths = 0
        self._facts: dict[str, Planted] = {}
        self.view: list[Message] = [system("You are a careful engineer.")]

    @property
    def facts(self) -> list[Planted]:
        return list(self._facts.values())

    def grow(self) -> list[Message]:
        """Take in new messages until the threshold is reached; gives back the new ones."""
        self._growths += 1
        new = list(self._opening())
        for place in range(self._per_growth):
            new += [*self._change(place), *self._work(2)]
        if self._growths % 3 == 1:
            new += self._failures()
        size = clew.count_tokens([*self.view, *new])
        while size < self._window // 2:
            more = self._work(1)
            size += clew.count_tokens(more)
            new += more
        self.view += new
        return new

    def _plant(self, kind: str, text: str, key: str = "") -> str:
        fact = Planted(kind, text, self._growths, key or text)
        self._facts.pop(fact.key, None)
        self._facts[fact.key] = fact
        return text

    def _opening(self) -> Iterator[Message]:
        number = self._growths
        if number == 1:
            task = self._plant("first task", "Move the orders importer to the new feed, as ticket ORD-4711 describes.")
            yield user(task)
        asked = f"Go on with step {number} of the importer and tell me what batch {number * 37} needs."
        if number <= 3 or number % 4 == 0:
            asked += " " + self._plant("rules", RULES[number % len(RULES)].format(number=number))
        yield user(self._plant("newest request", asked, "newest request"))

    def _change(self, place: int) -> Iterator[Message]:
        path = self._plant("changed files", f"importer/step_{self._growths}_{place}.py")
        if place % 2:
            yield from self._called("terminal", {"command": f"sed -i 's/old/new/' {path}"}, "exit code 0")
        else:
            yield from self._called("write_file", {"path": path, "content": "rows = []\n" * 40}, f"wrote {path}")

    def _failures(self) -> Iterator[Message]:
        """A command that fails once, and one that goes on failing, each time otherwise."""
        number = self._growths
        once = self._plant("last errors", f"ImportError: no module named feed_{number}")
        yield from self._called("terminal", {"command": f"pytest tests/test_feed_{number}.py"}, _failed(once))
        again = self._plant("last errors", f"ValueError: {number * 41} rows are missing", "make integration")
        yield from self._called("terminal", {"command": "make integration"}, _failed(again))

    def _work(self, rounds: int) -> list[Message]:
        read: list[Message] = []
        for _ in range(rounds):
            path = f"library/part_{self._steps}.txt"
            read += self._called("read_file", {"path": path}, next(self._results))
        return read

    def _called(self, name: str, arguments: dict[str, object], result: str) -> tuple[Message, Message]:
        self._steps += 1
        called = call(name, arguments, id=f"call_{self._steps}")
        return assistant(f"Step {self._steps} of the work.", [called]), tool(called["id"], result)


RULES = (
    "Never touch prod_{number}.db.",
    "Always run the linter before commit {number}.",
    "Do not add dependency number {number}.",
    "不要修改第{number}号配置文件。",
)


def _failed(error: str) -> str:
    checks = "running the next of many checks\n" * 60
    return f"collecting ...\n{checks}{error}\nexit code 1"


Compactor = Callable[[Sequence[Message], Sequence[Message]], Sequence[Message]]


def one_engine(window: int, *, observing: bool = False) -> Compactor:
    """An engine that lives as long as the conversation; told of messages as they arrive, or only when it compacts."""
    engine = ContextCompressor(window)

    def compact(view: Sequence[Message], new: Sequence[Message]) -> Sequence[Message]:
        if observing:
            engine.observe(new)
        done = asyncio.run(engine.compress(view, force=True))
        engine.restore(done.state)
        return done.messages

    return compact


def new_call_each_time(window: int) -> Compactor:
    """`clew.compress` on its own last result, and nothing remembered."""

    def compact(view: Sequence[Message], new: Sequence[Message]) -> Sequence[Message]:
        del new
        return _list(clew.compress(view, context_length=window).messages)

    return compact


COMPACTORS: dict[str, Callable[[int], Compactor]] = {
    "engine": one_engine,
    "engine, observing": partial(one_engine, observing=True),
    "stateless": new_call_each_time,
}


def certain(
    windows: Sequence[int], rounds: Sequence[int], seed: int = 0
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """One row for each mode, window and number of compactions; and one for each thing that was lost, when first."""
    rows, lost = [], []
    for (mode, make), window in product(COMPACTORS.items(), windows):
        conversation, compact = GrowingConversation(window, seed), make(window)
        already: set[Planted] = set()
        for number in range(1, max(rounds) + 1):
            new = conversation.grow()
            if number == 1:
                new = conversation.view
            conversation.view = list(compact(conversation.view, new))
            gone = {fact for fact in conversation.facts if not is_there(fact, conversation.view)}
            lost += [{"mode": mode, "window": window, "lost at": number, **asdict(fact)} for fact in gone - already]
            already |= gone
            if number in rounds:
                rows.append(_certain_row((mode, window, number), conversation, gone))
    return rows, lost


def below_floors(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The kinds of facts of which fewer are left than their floor says, each with where."""
    return [
        f"{kind}, {row['mode']}, {row['window']:,}, {row['compactions']} compactions: {row[f'{kind} %']:.1f} %"
        for row, (kind, floor) in product(rows, FLOORS["certain"].items())
        if row[f"{kind} %"] is not None and row[f"{kind} %"] < floor
    ]


def is_there(fact: Planted, view: Sequence[Message]) -> bool:
    """Whether the view still says it; the newest request must stand as what a person said."""
    if fact.kind == "newest request":
        return any(message["role"] == "user" and text_of(message).endswith(fact.text) for message in view)
    return any(fact.text in _all_text(message) for message in view)


def _all_text(message: Message) -> str:
    calls = (called["function"]["arguments"] for called in message.get("tool_calls") or ())
    return "\n".join((text_of(message), *calls))


def _certain_row(where: tuple[str, int, int], conversation: GrowingConversation, gone: set[Planted]) -> dict[str, Any]:
    row: dict[str, Any] = dict(zip(("mode", "window", "compactions"), where, strict=True))
    row["facts"] = len(conversation.facts)
    for kind in KINDS:
        facts = [fact for fact in conversation.facts if fact.kind == kind]
        row[f"{kind} %"] = 100 * sum(fact not in gone for fact in facts) / len(facts) if facts else None
    summary = next((found.text for message in conversation.view if (found := unwrap(message))), "")
    row["numbering"] = "whole" if numbered_without_gap(summary) else "broken"
    row["summaries"] = sum(unwrap(message) is not None for message in conversation.view)
    row["summary tokens"] = counter_for(None).text(summary)
    return row


def numbered_without_gap(summary: str) -> bool:
    """Whether the completed actions are numbered from 1 on."""
    section = summary.partition("## Completed actions\n")[2].partition("\n## ")[0]
    numbers = [int(found) for found in re.findall(r"^(\d+)\. ", section, re.MULTILINE)]
    return numbers == list(range(1, len(numbers) + 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=SHARED / "data")
    parser.add_argument("--scorer", type=Path, default=SHARED / "retention.py")
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--windows", type=int, nargs="+", default=[32_000, 200_000])
    parser.add_argument("--rounds", type=int, nargs="+", default=[1, 5, 20])
    parser.add_argument("--hermes", type=Path, help="the folder that hermes-agent 0.19.0 was installed into")
    parser.add_argument("--losses", action="store_true", help="list each thing that was lost, and when")
    options = parser.parse_args()
    for part in PARTS if options.only is None else (options.only,):
        if part == "certain":
            _report_certain(options)
        elif options.scorer.is_file() and options.data.is_dir():
            _report_real(part, options)
        else:
            print(f"no data at {options.data}: {part} is not measured")


def _report_real(part: str, options: argparse.Namespace) -> None:
    scorer = load_scorer(options.scorer)
    if part == "retention":
        rows = retention(options.data, scorer, load_hermes(options.hermes) if options.hermes else None)
        report("retention", rows, RETENTION_COLUMNS)
        return
    lost: list[dict[str, Any]] = []
    report("recoverable", recoverable.recoverable(options.data, scorer, lost), recoverable.COLUMNS)
    if lost and options.losses:
        for row in lost:
            print(f"not found {row['words']} the atom: {row['atom']!r} by {row['query']!r}")


def _report_certain(options: argparse.Namespace) -> None:
    rows, lost = certain(options.windows, options.rounds)
    report("kept_for_certain", rows, CERTAIN_COLUMNS)
    if lost and options.losses:
        report("lost", lost, list(lost[0]))
    if below := below_floors(rows):
        raise SystemExit("below the floor: " + "; ".join(below))


if __name__ == "__main__":
    main()
