"""A long made-up history: the input of every speed figure that we report.

The history is rounds of user, assistant with one call, and a result of 2 to 8 KB; 20,000 messages are about 47 MB. Its
text is of the kinds that agents hold (source files, logs, test output, search hits), and no two results are the same.
The same seed gives the same bytes on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from clew.messages import Message
from clew.testing.messages import assistant, call, tool, user

_SUBJECTS = "session invoice ledger cursor batch shard packet tenant quota replica index".split()
_ACTIONS = "load merge drain verify rotate flush rank parse encode retry reserve close".split()
_AREAS = "billing gateway storage search auth metrics queue export sync reports".split()
_PROBLEMS = (
    "connection reset by peer",
    "deadline exceeded after 30s",
    "checksum mismatch",
    "no space left on device",
    "lock held by another worker",
    "unexpected end of stream",
)
_ASKS = (
    "The {area} job was red again last night. Find out why the {action} step sees each {subject} twice, and keep "
    "the public function names as they are.",
    "Can you make {action}_{subject} in the {area} part stop after {number} attempts? Never touch the migration files.",
    "Ich sehe im Log von {area} immer noch «{problem}». Bitte prüfe zuerst {action}_{subject}, danach den Rest.",
    "请检查 {area} 模块里的 {action}_{subject}，第 {number} 次重试之后它为什么还在报错：{problem}？不要改数据库结构。",
)
_THOUGHTS = (
    "I will look at `{action}_{subject}` first, because the failure names it.",
    "The last result shows {number} rows where {subject} was expected once, so the guard in {area} does not hold.",
    "I decided to keep the retry in {area} and to bound it at {number}: a second queue would hide the {problem}.",
    "Nothing in {area} calls the old path any more; what remains is the caller of {action}_{subject}.",
    "That confirms it: {problem} comes from {area}, not from the {subject} itself.",
)
_BLOCKS_PER_KIND = 2_000
_RESULT_CHARS = (2_000, 8_000)

_Block = Callable[[Random], str]


def synthetic_history(messages: int = 20_000, seed: int = 0) -> list[Message]:
    """`messages` messages in rounds of three; the last round may be cut short."""
    rng = Random(seed)
    pools = {name: [write(rng) for _ in range(_BLOCKS_PER_KIND)] for name, write in _KINDS.items()}
    history: list[Message] = []
    for number in range((messages + 2) // 3):
        history.extend(_round(number, rng, pools))
    return history[:messages]


def _round(number: int, rng: Random, pools: dict[str, list[str]]) -> tuple[Message, Message, Message]:
    kind = rng.choice(_KIND_NAMES)
    area, subject, action = rng.choice(_AREAS), rng.choice(_SUBJECTS), rng.choice(_ACTIONS)
    path = f"src/{area}/{action}_{subject}_{number}.py"
    call_id = f"call_{number:06d}"
    name, args = _call_for(kind, path, rng, pools)
    head = f"{path} ({kind}, part {number}):\n"
    result = head + _text(rng.randint(*_RESULT_CHARS) - len(head), rng, pools[kind])
    return (
        user(_sentences(_ASKS, 2, rng) + f" The ticket is T-{number}."),
        assistant(_sentences(_THOUGHTS, 5, rng), [call(name, args, id=call_id)]),
        tool(call_id, result),
    )


def _call_for(kind: str, path: str, rng: Random, pools: dict[str, list[str]]) -> tuple[str, dict[str, object]]:
    if kind == "source":
        return "patch", {"path": path, "old": rng.choice(pools["source"]), "new": _text(2_950, rng, pools["source"])}
    if kind == "hits":
        return "search_files", {"pattern": rng.choice(_ACTIONS) + "_", "path": "src", "limit": rng.randint(20, 200)}
    return "terminal", {"command": f"python -m {kind}.run {path} --seed {rng.randint(1, 9999)}", "timeout": 120}


def _text(size: int, rng: Random, pool: Sequence[str]) -> str:
    """About `size` characters of blocks, cut at the end as bounded tool output is."""
    blocks: list[str] = []
    length = 0
    while length < size:
        block = rng.choice(pool)
        blocks.append(block)
        length += len(block)
    return "".join(blocks)[:size]


def _sentences(forms: Sequence[str], count: int, rng: Random) -> str:
    return " ".join(_filled(rng.choice(forms), rng) for _ in range(count))


def _filled(form: str, rng: Random) -> str:
    return form.format(
        area=rng.choice(_AREAS),
        subject=rng.choice(_SUBJECTS),
        action=rng.choice(_ACTIONS),
        problem=rng.choice(_PROBLEMS),
        number=rng.randint(2, 9_999),
    )


def _source(rng: Random) -> str:
    form = (
        "def {action}_{subject}(rows: list[Row], limit: int = {number}) -> int:\n"
        '    """How many rows the {area} part still has to {action}."""\n'
        "    pending = [row for row in rows if row.{subject}_id > limit]\n"
        "    for row in pending:\n"
        "        if not row.{area}.ready:\n"
        '            raise {area}Error("{problem}", row.id)\n'
        "        row.{action}(retries={number})\n"
        "    return len(pending)\n\n\n"
    )
    return _filled(form, rng)


def _log(rng: Random) -> str:
    day, clock = f"2024-0{rng.randint(1, 9)}-{rng.randint(10, 28)}", f"{rng.randint(10, 23)}:{rng.randint(10, 59)}"
    level = rng.choice(("INFO ", "INFO ", "DEBUG", "WARN ", "ERROR"))
    head = f"{day}T{clock}:{rng.random() * 60:06.3f}Z {level}"
    form = f"{head} {{area}}.worker[{{number}}] {{action}} {{subject}}={rng.getrandbits(48):012x}: {{problem}}\n"
    return _filled(form, rng)


def _tests(rng: Random) -> str:
    form = (
        "tests/{area}/test_{subject}.py::test_{action}_{subject}_keeps_order PASSED\n"
        "tests/{area}/test_{subject}.py::test_{action}_{subject}_twice FAILED\n"
        ">       assert {action}_{subject}(rows) == {number}\n"
        "E       AssertionError: assert {number} == 0\n"
        "tests/{area}/test_{subject}.py:{number}: AssertionError\n"
    )
    return _filled(form, rng)


def _hits(rng: Random) -> str:
    return _filled("src/{area}/{subject}.py:{number}:    return {action}_{subject}(rows, limit={number})\n", rng)


_KINDS: dict[str, _Block] = {"source": _source, "log": _log, "tests": _tests, "hits": _hits}
_KIND_NAMES = tuple(_KINDS)
