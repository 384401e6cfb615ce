"""The measures of the handoff core in one run: what a fold keeps, what it costs, how much code it is.

    python benchmarks/core.py [--only NAME ...] [--json]
    PYTHONPATH=/other/checkout/src python benchmarks/core.py      the same for another checkout

Scores that floors.toml names have their floor beside them; one that is lower ends the run with status 1.
Measures the `clew` that is importable, by its public functions. Sessions, exam and scorers are in the shared folder
beside the project; a part whose data or package is absent is skipped with a message. Times are CPU times.
"""

from __future__ import annotations

import argparse
import ast
import gzip
import importlib
import json
import random
import re
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import mean, median
from types import SimpleNamespace
from typing import Any

import _repository  # noqa: F401
import clew
from _folds import SOURCE, cpu_ms, folded, outputs_of, target_for_size
from _sessions import LEAST_CHARS, SHARED, conversation_files, cut_sessions, load_scorer, name_of, sessions_in
from _table import FLOORS, report
from hermes_side import load_hermes
from quality import TARGET_CHARS, rivals, target_for_chars

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "session.json"
PACKAGES = ("facts", "handoff")
TARGET, EXAM_TARGETS, RETENTION_CHARS = 10_000, (10_000, 5_000, 2_500, 1_500), (40_000, 10_400)
FRESH_RUNS = 5
# Races show while caches are cold, so the concurrent folds are those of several fresh processes.
THREADS, FOLDS, PROCESSES = 6, 30, 10
BUDGETS, SEEDS, ROUNDS, CHARS_PER_TOKEN = (0.2, 0.3), (1, 2, 3, 4), 5, 3.2
COLUMNS = ("measure", "case", "value", "unit")
SURVIVED = "% survived"
FLOOR = "floor"
FIRST_FOLD = """
import json, sys, time
messages = json.load(open(sys.argv[1], encoding="utf-8"))["messages"]
start = time.process_time_ns()
import clew
clew.compress(messages, target_tokens=10_000)
print((time.process_time_ns() - start) / 1e6)
"""
CONCURRENT_FOLDS = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
import clew
sessions, (threads, folds, target) = json.load(open(sys.argv[1], encoding="utf-8")), map(int, sys.argv[2:])
def fold(number): return clew.compress(sessions[number % len(sessions)], target_tokens=target).messages
sys.setswitchinterval(1e-5)
with ThreadPoolExecutor(threads) as pool: json.dump(list(pool.map(fold, range(folds))), sys.stdout)
"""
Row = tuple[str, float, str]


class MissingError(Exception):
    """Something that a measure needs is absent."""


def shared(*parts: str) -> Path:
    path = SHARED.joinpath(*parts)
    if not path.exists():
        raise MissingError(f"no {path}")
    return path


def exam() -> Iterator[Row]:
    """Key strings of the answers that the result holds, over all questions and by session."""
    scorer = load_scorer(shared("exam", "exam.py"))
    questions = json.loads(shared("exam", "questions.json").read_text(encoding="utf-8"))
    sessions = dict(scorer.sessions(shared("exam", "sessions")))
    for target in EXAM_TARGETS:
        texts = {name: scorer.as_text(folded(messages, target)) for name, messages in sessions.items()}
        marks = {name: list(scorer.lamp(questions[name], text).values()) for name, text in texts.items()}
        every = [mark for each in marks.values() for mark in each]
        yield f"{target:,} tokens, mean, n={len(every)} questions", 100 * mean(every), "%"
        for name, each in marks.items():
            yield f"{target:,} tokens, {name}", 100 * mean(each), "%"


def inventions() -> Iterator[Row]:
    """What is reported in truthful handoffs by a model, and which inventions planted in each are.

    The hard ones differ a little from what the session shows.
    """
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(shared("exam", "reference").glob("*.md"))}
    sessions = dict(load_scorer(shared("exam", "exam.py")).sessions(shared("exam", "sessions")))
    planted, found = Counter[str](), Counter[str]()
    for name, text in texts.items():

        def reported(written: str) -> set[str]:
            done = clew.compress(sessions[name], target_tokens=TARGET, summarizer=lambda _: written)  # noqa: B023
            return set(done.compaction.unverified)

        truthful = reported(text)
        yield f"reported in the truthful handoff {name}", len(truthful), ""
        shown = json.dumps(sessions[name], ensure_ascii=False)
        kinds = {"": invented_strings(random.Random(name)), "hard ": near_strings(random.Random(name), text, shown)}
        for kind, strings in kinds.items():
            invented = list(strings)
            lines = "\n".join(f"- {line}" for line, _ in invented)
            claims = reported(f"{text}\n{lines}\n") - truthful
            planted[kind] += len(invented)
            found[kind] += sum(any(claim in told or told in claim for told in claims) for _, claim in invented)
    for kind, count in planted.items():
        yield f"{count} planted {kind}inventions, reported", found[kind], ""


def invented_strings(chance: random.Random) -> Iterator[tuple[str, str]]:
    """Lines with an exact thing that no session has, and this thing: hashes, paths, counts, values, quotes."""
    words = ["lantern", "otter", "marble", "violin", "saffron", "glacier", "pewter", "walnut", "cobalt", "heron"]
    for length in (7, 40):
        digest = f"{chance.getrandbits(160):040x}"[: length - 2] + "a7"
        yield f"Committed as {digest}.", digest
    for folder in ("src", "tests/unit", "/srv/app"):
        path = f"{folder}/{chance.choice(words)}_{chance.choice(words)}/{chance.choice(words)}.py"
        yield f"Changed {path}.", path
    tests = f"{chance.randrange(611, 989)} passed"
    yield f"The suite ends with {tests}.", tests
    value = str(chance.randrange(10_000_000, 99_999_999))
    yield f"The job has the number {value}.", value
    for opening in ("We never agreed to", "Please replace"):
        quote = f"{opening} the {chance.choice(words)} behind every {chance.choice(words)} before winter"
        yield f'The user: "{quote}".', quote
    identifier = str(uuid.UUID(int=chance.getrandbits(128)))
    yield f"The run is {identifier}.", identifier


def near_strings(chance: random.Random, handoff: str, shown: str) -> Iterator[tuple[str, str]]:
    """Lines with a thing that is nearly one of the session: another last character of a hash, a folder with the name of
    a file elsewhere, the outcome of tests in other words.
    """
    for digest in sorted(set(re.findall(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b", handoff)))[:3]:
        other = digest[:-1] + chance.choice([each for each in "0123456789abcdef" if each != digest[-1]])
        if other not in shown:
            yield f"The branch is at {other} now.", other
    paths = sorted(set(re.findall(r"(?<![\w./$\\-])[\w.-]+(?:/[\w.-]+)+\.[a-z]{1,4}\b", handoff)))
    mixed = [f"{one.rpartition('/')[0]}/{other.rpartition('/')[2]}" for one in paths for other in paths]
    absent = [path for path in mixed if path not in handoff and path not in shown]
    for path in chance.sample(absent, min(5, len(absent))):
        yield f"Changed {path}.", path
    tests, more = chance.randrange(611, 989), chance.randrange(1_011, 1_989)
    for outcome in (f"All {tests} tests pass", f"{tests}/{more} pass", f"{tests} of {more} tests are green"):
        yield f"{outcome}.", outcome.removeprefix("All ")


def retention() -> Iterator[Row]:
    """Facts that the agent needed after the cut, at an equal number of chars."""
    scorer = load_scorer(shared("retention.py"))

    def text(messages: Sequence[Any]) -> str:
        return "\n".join(scorer.text(message) for message in messages)

    for chars in RETENTION_CHARS:
        for path in conversation_files(shared("data")):
            total, taken = Counter[str](), []
            for session in cut_sessions(path, scorer):
                before = session.before
                first = round(chars * clew.count_tokens(before) / len(text(before)))
                target = target_for_size(lambda tried: len(text(folded(before, tried))), chars, first)  # noqa: B023
                taken.append(cpu_ms(lambda: folded(before, target)))  # noqa: B023
                result = text(folded(before, target))
                lines = {atom: near for atom in session.need if (near := scorer.companions(atom, before))}
                total["facts"] += len(lines)
                total["shown"] += sum(scorer.shown_as_fact(atom, near, result) for atom, near in lines.items())
                total["chars"] += len(result)
            case = f"{chars:,} chars, {name_of(path)}"
            yield case, 100 * total["shown"] / max(1, total["facts"]), "% facts"
            yield case, total["chars"] // len(taken), "chars"
            yield case, mean(taken), "ms a session"


def handoff_score() -> Iterator[Row]:
    """By the scorer beside the data. It counts a system message as m0, Clew gives it no number: it is left out."""
    scorer = load_scorer(shared("retention.py"))
    with tempfile.TemporaryDirectory() as folder:
        counts = {}
        for path in conversation_files(shared("data")):
            kept = [each for each in sessions_in(path) if sum(len(scorer.text(it)) for it in each) >= LEAST_CHARS]
            counts[name_of(path)] = len(kept)
            with gzip.open(Path(folder, path.name), "wt", encoding="utf-8") as file:
                for messages in kept:
                    row = {"messages": [message for message in messages if message["role"] != "system"]}
                    file.write(json.dumps(row) + "\n")
        files = [str(path) for path in sorted(Path(folder).iterdir())]
        [printed] = outputs_of(str(shared("handoff_score.py")), "--tokens", str(TARGET), "--json", *files)
    for file, figures in json.loads(printed).items():
        yield f"{file}, n", counts[file], ""
        for name, value in figures.items():
            yield f"{file}, {name}", value, "" if name in ("shards", "noise", "fill") else "%"


def others(hermes: Path | None = None) -> Iterator[Row]:
    """Other compactors without a model, where they are installed, and Clew, all at the same chars.

    Hermes chooses its own size, so that the conformance kit, which gives a budget, is not run with it.
    """
    exam_of, handoff = load_scorer(shared("exam", "exam.py")), load_scorer(shared("handoff_score.py"))
    scorer, kit = load_scorer(shared("retention.py")), conformance_kit()
    questions = json.loads(shared("exam", "questions.json").read_text(encoding="utf-8"))
    examined = dict(exam_of.sessions(shared("exam", "sessions")))
    cut = [each.before for path in conversation_files(shared("data")) for each in cut_sessions(path, scorer)]

    def clew_at(messages: list[Any]) -> list[Any]:
        return folded(messages, target_for_chars(messages, scorer))

    for name, engine in {f"clew, {TARGET_CHARS:,} chars": clew_at, **rivals(load_hermes(hermes))}.items():
        lamps = [
            exam_of.lamp(questions[session], exam_of.as_text(engine(messages)))
            for session, messages in examined.items()
        ]
        marks = [mark for lamp in lamps for mark in lamp.values()]
        yield f"{name}: exam (n={len(marks)})", 100 * mean(marks), "%"
        found, total = Counter[str](), Counter[str]()
        for messages in cut:
            text = handoff.flat("\n".join(handoff.decoded(message) for message in engine(messages)))
            pairs = (("requests", handoff.asks(messages, text, TARGET)), ("replies", handoff.replies(messages, text)))
            for what, (kept, of) in pairs:
                found[what] += kept
                total[what] += of
        for what, count in total.items():
            yield f"{name}: {what} (n={count})", 100 * found[what] / max(1, count), "%"
        if name.startswith("Hermes"):
            continue
        for case, value, unit in conformance_rows(kit, partial(budgeted, kit, name)):
            if unit == SURVIVED:
                yield f"{name}: conformance, {case}", value, "%"


def budgeted(kit: Any, name: str) -> SimpleNamespace:
    """A compactor for the conformance kit, by its name in `others`."""
    if name.startswith("clew"):
        return clew_compactor(kit, within=True)

    def compact(turns: Sequence[Any], round_num: int = 1, budget_chars: int = 0) -> Any:
        engines = rivals(None, budget_chars)
        engine = next(engines[other] for other in engines if other.partition(",")[0] == name.partition(",")[0])
        left = engine([{"role": turn.role, "content": turn.text} for turn in turns])
        return kit.CompactedContext(conversation_text(left), name, round_num)

    return SimpleNamespace(name=name, compact=compact)


def code() -> Iterator[Row]:
    """The size of the packages that write handoffs; data files do not count."""
    total = Counter[str]()
    for path in (path for package in PACKAGES for path in (SOURCE / package).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        calls = [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]
        total["files"] += 1
        total["lines"] += text.count("\n")
        total["re.compile"] += calls.count("re.compile")
        total["other re.*"] += sum(name.startswith("re.") for name in calls) - calls.count("re.compile")
        total["module-level numbers"] += sum(is_number(node) for node in tree.body)
    return ((name, count, "") for name, count in total.items())


def is_number(node: ast.stmt) -> bool:
    """Whether this assigns a number, arithmetic on numbers, or a tuple of them."""
    if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
        return False
    allowed = (ast.Constant, ast.Tuple, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.expr_context)
    parts = list(ast.walk(node.value))
    kinds = {type(part.value) for part in parts if isinstance(part, ast.Constant)}
    return bool(kinds) and kinds <= {int, float} and all(isinstance(part, allowed) for part in parts)


def files() -> Iterator[Row]:
    try:
        walks = importlib.import_module("walks")
    except ImportError as error:
        raise MissingError(f"walks.py does not work with this clew: {error}") from error
    messages = json.loads(EXAMPLE.read_text(encoding="utf-8"))["messages"]

    async def compress(walk: Any, folder: Path) -> None:
        del folder
        with walk.watched():
            folded(messages, TARGET)

    yield "clew.compress(examples/session.json)", len(walks.walk_of(compress).files), "files"


def start() -> Iterator[Row]:
    taken = map(float, outputs_of("-c", FIRST_FOLD, str(EXAMPLE), runs=FRESH_RUNS + 1))  # the first run compiles
    yield f"import and first fold, best of {FRESH_RUNS}", min(taken), "ms"


def speed() -> Iterator[Row]:
    """Folds of histories that were never seen; the long one is that of compress.py."""
    prompt = {"role": "system", "content": "You are a careful engineer."}
    history = [prompt, *importlib.import_module("tests.support.history").synthetic_history(19_999)]
    yield "20,000 messages, best of 3", cpu_ms(lambda: clew.compress(history, context_length=200_000)) / 1e3, "s"
    scorer = load_scorer(shared("retention.py"))
    sessions = [messages for path in conversation_files(shared("data")) for messages in sessions_in(path)]
    real = [each for each in sessions if 100_000 <= sum(len(scorer.text(message)) for message in each) <= 400_000]
    taken = [cpu_ms(lambda: folded(messages, TARGET)) for messages in real]  # noqa: B023
    yield f"{len(real)} real sessions of 100-400 KB, median", median(taken), "ms"
    yield f"{len(real)} real sessions of 100-400 KB, most", max(taken), "ms"


def threads() -> Iterator[Row]:
    """Results of concurrent folds in fresh processes that differ from those of one thread."""
    scorer = load_scorer(shared("retention.py"))
    sessions = [next(cut_sessions(path, scorer)).before for path in conversation_files(shared("data"))[:3]]
    expected = [json.loads(json.dumps(folded(messages, TARGET))) for messages in sessions]
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
        json.dump(sessions, file)
        file.flush()
        arguments = ("-c", CONCURRENT_FOLDS, file.name, str(THREADS), str(FOLDS), str(TARGET))
        results = [each for out in outputs_of(*arguments, runs=PROCESSES) for each in enumerate(json.loads(out))]
    differ = sum(result != expected[number % len(expected)] for number, result in results)
    yield f"{THREADS} threads, {len(results)} folds: results that differ", differ, ""


def conformance() -> Iterator[Row]:
    """Facts of the random sessions of compaction-conformance-kit that are left after its number of rounds."""
    kit = conformance_kit()
    for within in (True, False):
        how = "within the chars" if within else f"target is chars / {CHARS_PER_TOKEN}"
        for case, value, unit in conformance_rows(kit, partial(clew_compactor, kit, within=within)):
            yield f"{how}, {case}", value, unit


def conformance_kit() -> Any:
    try:
        return importlib.import_module("compaction_kit")
    except ImportError:
        raise MissingError("compaction-conformance-kit is not installed") from None


def conformance_rows(kit: Any, compactor: Callable[[], SimpleNamespace]) -> Iterator[Row]:
    """What survives, and what is used of the budget, for each budget; every session has a compactor of its own."""
    for budget in BUDGETS:
        runs = [
            kit.run_conformance(session, compactor(), ROUNDS, planted, budget_fraction=budget).rounds[-1]
            for session, planted in map(kit.build_random_session, SEEDS)
        ]
        survived = [held for run in runs for held in run.survived.values()]
        case = f"{budget:.0%} budget (n={len(survived)})"
        yield case, 100 * mean(survived), SURVIVED
        yield case, 100 * mean(run.output_chars / run.budget_chars for run in runs), "% of the budget used"


def clew_compactor(kit: Any, *, within: bool) -> SimpleNamespace:
    last: list[Any] = []  # a later round folds the messages of the last one

    def compact(turns: Sequence[Any], round_num: int = 1, budget_chars: int = 0) -> Any:
        messages = list(last) or [{"role": turn.role, "content": turn.text} for turn in turns]
        target = int(budget_chars / CHARS_PER_TOKEN)
        if within:
            target = target_for_size(
                lambda tried: len(conversation_text(folded(messages, tried))), budget_chars, target
            )
        last[:] = folded(messages, target)
        return kit.CompactedContext(conversation_text(last), "clew", round_num)

    return SimpleNamespace(name="clew", compact=compact)


def conversation_text(messages: Sequence[Any]) -> str:
    return "\n".join(f"[{message['role']}] {message['content']}" for message in messages)


def with_floor(row: dict[str, Any]) -> dict[str, Any]:
    """The row, with its floor where it is a score that has one."""
    floor = FLOORS.get(row["measure"], {}).get(row["case"]) if row["unit"].startswith("%") else None
    return row if floor is None else {**row, FLOOR: floor}


def below_floors(rows: Sequence[dict[str, Any]]) -> list[str]:
    below = [row for row in rows if FLOOR in row and row["value"] < row[FLOOR]]
    return [f"{row['measure']}, {row['case']}: {row['value']:.1f} of {row[FLOOR]}" for row in below]


MEASURES: tuple[Callable[[], Iterator[Row]], ...]
MEASURES = (exam, inventions, retention, handoff_score, others, conformance, code, files, start, speed, threads)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    measures = {measure.__name__: measure for measure in MEASURES}
    parser.add_argument("--only", choices=list(measures), nargs="+", default=list(measures))
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--hermes", type=Path, help="the folder that hermes-agent 0.19.0 was installed into")
    options = parser.parse_args()
    measures["others"] = partial(others, options.hermes)
    print(f"measuring {SOURCE}", file=sys.stderr)
    rows: list[dict[str, Any]] = []
    for name in options.only:
        try:
            for row in measures[name]():
                rows.append(with_floor(dict(zip(COLUMNS, (name, *row), strict=True))))
        except MissingError as missing:
            print(f"{name} is skipped: {missing}", file=sys.stderr)
    if options.json:
        print(json.dumps({"clew": str(SOURCE), "rows": rows}, indent=1))
    else:
        report("core", rows, (*COLUMNS, FLOOR))
    if below := below_floors(rows):
        raise SystemExit("below the floor: " + "; ".join(below))


if __name__ == "__main__":
    main()
