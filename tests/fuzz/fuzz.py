# ruff: noqa: T201 (a program of its own)
"""Mutated input for every door that reads what strangers wrote: importers, dialects, streams, usage, errors, config.

For the store: database files with damaged pages. For folds: texts in which something short comes again and again.

    ./check fuzz [SECONDS]                    60 seconds without a number
    python tests/fuzz/fuzz.py --seed 7 --only streams --case 1234

Each case is drawn from its seed, target and number alone, so that a finding can be run again. An exception that is not
documented for the door is a finding, as is a case that takes seconds; the input is written to `fuzz-findings`.
"""

from __future__ import annotations

import argparse
import asyncio
import atexit
import gzip
import json
import random
import shlex
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from clew import Projection, apply_cache_control, compress, count_tokens  # noqa: E402
from clew.agent.command_risk import risk_of_command  # noqa: E402
from clew.agent.files.diffs import missed_passage_report  # noqa: E402
from clew.agent.files.file_types import is_public_file, lasting_effect, secret_kind  # noqa: E402
from clew.agent.files.patching import NormalizedText, PassageMatch, find_passage  # noqa: E402
from clew.config import read_config, set_in_file, setting_named  # noqa: E402
from clew.config.home import MAX_BYTES  # noqa: E402
from clew.config.yaml_file import with_moved_settings  # noqa: E402
from clew.errors import ClewError  # noqa: E402
from clew.importers import open_sessions, read_transcript  # noqa: E402
from clew.messages import DialectName, convert, read_conversation, repair  # noqa: E402
from clew.providers import Request, classify_error  # noqa: E402
from clew.providers.http.connection import ConnectionFailed, EventTooLong, SseReader  # noqa: E402
from clew.providers.wires.anthropic import AnthropicReplyAccumulator  # noqa: E402
from clew.providers.wires.chat import ChatReplyAccumulator  # noqa: E402
from clew.providers.wires.http_provider import ErrorInReply  # noqa: E402
from clew.providers.wires.responses import ResponsesReplyAccumulator  # noqa: E402
from clew.redact import redact_text  # noqa: E402
from clew.shell import read_command_line  # noqa: E402
from clew.store import NewSession, open_store  # noqa: E402
from clew.testing import assistant, call, system, tool, user  # noqa: E402
from clew.testing.upstream_wires import (  # noqa: E402
    UpstreamAnswer,
    anthropic_events,
    chat_events,
    responses_events,
)
from clew.tokens import window_of  # noqa: E402
from clew.tooloutput import SpillFolder, ToolOutputLimits, bound_result  # noqa: E402
from clew.usage import normalize_usage, price_of  # noqa: E402
from tests.importers.test_codex_rollouts import START, answered, called, counted, recorded, said  # noqa: E402
from tests.importers.test_session_files import CODEX, HERMES_ROWS, OPENCODE, PI, ClaudeCode, text, use  # noqa: E402
from tests.store.test_damaged_pages import DOORS, PAGE_BYTES, damaged, sound_database  # noqa: E402

SLOW_SECONDS = 5.0
SLOW_TEXT_SECONDS = 2.0
"""For a text of a megabyte through one door."""
FINDINGS = ROOT / "fuzz-findings"
_HOME = Path(tempfile.mkdtemp(prefix="clew-fuzz-"))
TALK = [
    system("Be brief."),
    user("Look at a.log, please."),
    assistant("I look.", [call("read_file", {"path": "a.log"}, "c1"), call("search", {"words": ["x"]}, "c2")]),
    tool("c1", "line 1\nline 2"),
    tool("c2", "nothing"),
    assistant("It is empty."),
    user(
        [{"type": "text", "text": "And this?"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]
    ),
]
CONFIG = """\
model:
  provider: openai
  name: some-model   # a comment
  context_length: 200000
compression: {threshold: 0.8, protect_last_n: 4}
agent:
  max_tokens: 4096
terminal:
  timeout: 30
store:
  url: state.db
mcp_servers:
  files: {command: server, args: ["--root", "/tmp"], env: {TOKEN: "${TOKEN}"}}
"""
ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**400, 1e30, -0.0, 1e-320, "", " ", "\x00", "\ud800",
    "é" * 40,
    "null", "{", "[]", "NaN", [], {}, [[]], [None], {"": None}, {"type": "text"}, {"type": []}, {"text": 5}, "user",
    "assistant", "tool", [{"type": "text", "text": None}], "x" * 3_000, {"role": {}}, {"id": [1]}, [1, "a", {}],
)  # fmt: skip


def claude_code() -> list[Any]:
    log = ClaudeCode()
    log.user("Look at both.")
    first = log.assistant("m1", use("t1", path="a"))
    log.result("t1", "A", parent=first)
    log.line("system", parent=None, subtype="compact_boundary", logicalParentUuid=first)
    log.user("Summary so far.", isCompactSummary=True)
    log.assistant("m2", text("They agree."))
    return log.lines


DIALECTS: dict[DialectName, dict[str, Any]] = {
    "openai_chat": {"messages": TALK},
    "anthropic": convert(TALK, "anthropic", dialect="openai_chat"),
    "responses": convert(TALK, "responses", dialect="openai_chat"),
    "gemini": convert(TALK, "gemini", dialect="openai_chat"),
}
RECORDS: list[list[Any]] = [
    claude_code(),
    CODEX,
    [*START, called("c1"), recorded(10), answered("c1"), counted(10), said("assistant", "Noon.")],
    PI,
    HERMES_ROWS,
    TALK,
    [{"session_id": "s", "messages": TALK}, {"session_id": "t", "messages": HERMES_ROWS}],
]
DOCUMENTS: list[Any] = [OPENCODE, TALK, *DIALECTS.values(), {"conversations": [{"from": "human", "value": "hi"}]}]
STREAMS: list[tuple[Callable[[str], Any], Any]] = [
    (ChatReplyAccumulator, chat_events),
    (ResponsesReplyAccumulator, responses_events),
    (AnthropicReplyAccumulator, anthropic_events),
]
# What a text may begin with, and what may come in it again and again: an expression that goes back takes long for it.
OPENINGS = (
    "", "cat <<EOF > a.py\n", "ssh host 'cat > a <<E\n", "python - <<'E'\n", "git commit -m \"", '{"a": "', "```\n",
    "1. a\n", "- [ ", "<task>", "Error: ", "password = ", "| a | b |\n|", "# Heading\n", "@@ -1 +1 @@\n", "export A=",
    "sed -i '", 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n', "The options are:\n1. ",
    "-----BEGIN PRIVATE KEY-----",
)  # fmt: skip
PIECES = (
    *" \n\t\r\0a1A<>[](){}`'\"-=|#\\*_/.,:;@&$%?+~^é。？密…→│",
    "aA", "1.", "- ", "1. ", "a=", "a: ", "a_", "a/", "://", "&&", "**", "```", "<a>",
    "</a>", "](", "let me ", "if ", "password ", "Error: ", "-----", "PASSED", "def a():", "import a", "a.py:1: ",
    "<file>", "<a-b>\n", "<think>", "<<<<<<< SEARCH\n", "=======\n", "<title>", "<!--",
    "<<E", "\x1b[", "service-account", "\u200b", "yes", "1) a", "File \"a\", line 1", "-rw-r--r-- 1 a b 1 Jan 1 1:1 a",
)  # fmt: skip
_REPEATED_CHARS = 100_000
ANSWER = UpstreamAnswer("some text", (call("t", {"a": 1}, "c1"), call("u", {}, "c2")), "thought", piece_chars=6)


def paths_in(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inner:
        yield from paths_in(one, (*at, name))


def mutated_json(chance: random.Random, value: Any) -> Any:
    """The value with a few places replaced, removed, repeated, renamed or wrapped."""
    value = json.loads(json.dumps(value))
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        paths = list(paths_in(value))
        path = chance.choice(paths)
        if not path:
            continue
        holder = value
        for step in path[:-1]:
            holder = holder[step]
        last = path[-1]
        match chance.randrange(6):
            case 0 | 1:
                holder[last] = deepcopy(chance.choice(ODD))
            case 2:
                del holder[last]
            case 3 if isinstance(holder, list):
                holder.insert(last, holder[last])
            case 3:
                holder[chance.choice(("type", "role", "content", "id", "text", "x"))] = holder.pop(last)
            case 4:
                holder[last] = chance.choice(([holder[last]], {"text": holder[last]}, str(holder[last])))
            case _:
                other = chance.choice(paths)
                found = value
                with suppress(KeyError, IndexError, TypeError):
                    for step in other:
                        found = found[step]
                holder[last] = json.loads(json.dumps(found)) if len(json.dumps(found)) < 20_000 else None
    return value


def mutated_bytes(chance: random.Random, raw: bytes) -> bytes:
    """The bytes with a few flipped, cut out, repeated or put in."""
    data = bytearray(raw)
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        at = chance.randrange(len(data) + 1)
        stop = min(len(data), at + chance.choice((1, 2, 9, 80)))
        match chance.randrange(6):
            case 0 if at < len(data):
                data[at] ^= 1 << chance.randrange(8)
            case 1:
                del data[at:stop]
            case 2:
                data[at:at] = data[at:stop] * chance.choice((1, 2, 30))
            case 3:
                data[at:at] = bytes(chance.randrange(256) for _ in range(chance.choice((1, 4))))
            case 4:
                data[at:at] = chance.choice(
                    (b"\n", b"\r\n", b"\x00", b'"', b"{", b"[" * 300, b"\xef\xbb\xbf", b"\xff\xfe")
                )
            case _:
                del data[at + len(data) // 2 :]
    return bytes(data)


def dumped(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=True).encode()


def importers(chance: random.Random) -> tuple[bytes, Callable[[], None]]:
    if chance.random() < 0.7:
        records = mutated_json(chance, chance.choice(RECORDS))
        raw = b"\n".join(dumped(record) for record in (records if isinstance(records, list) else [records]))
    else:
        raw = dumped(mutated_json(chance, chance.choice(DOCUMENTS)))
    if chance.random() < 0.5:
        raw = mutated_bytes(chance, raw)
    if chance.random() < 0.1:
        raw = gzip.compress(raw)
        raw = mutated_bytes(chance, raw) if chance.random() < 0.5 else raw

    def run() -> None:
        with suppress(ClewError):
            found = read_transcript(raw, name="it")
            json.dumps(found.messages, ensure_ascii=False).encode()
            with suppress(ClewError):
                repair(found.messages)
            for report in found.usage:
                normalize_usage(report[1])
        with suppress(ClewError), open_sessions(raw, name="it") as file:
            for session in file.sessions:
                with suppress(ClewError):
                    for entry in session.entries():
                        json.dumps(entry.message, ensure_ascii=False).encode()

    return raw, run


def dialects(chance: random.Random) -> tuple[bytes, Callable[[], None]]:
    name = chance.choice(list(DIALECTS))
    wire = mutated_json(chance, DIALECTS[name])
    given: Any = chance.choice((name, None))

    def run() -> None:
        listed = [wire.get(field) for field in ("messages", "contents")] if isinstance(wire, dict) else []
        for value in (wire, *listed):
            with suppress(ClewError):
                read = read_conversation(value, dialect=given)
                for other in DIALECTS:
                    with suppress(ClewError):
                        convert(read, other)
                with suppress(ClewError):
                    json.dumps(repair(read.messages).messages)

    return dumped([given, wire]), run


def streams(chance: random.Random) -> tuple[bytes, Callable[[], None]]:
    kind, events = chance.choice(STREAMS)
    told = [[name, value] for name, value in events(ANSWER, {"stream_options": {"include_usage": True}})]
    if chance.random() < 0.8:
        told = mutated_json(chance, told)
    lines = []
    for event in told if isinstance(told, list) else [told]:
        name, value = event if isinstance(event, list) and len(event) == 2 else ("", event)
        lines.append(f"event: {name}\n" if name and chance.random() < 0.9 else "")
        lines.append(f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n")
    raw = "".join(lines).encode(errors="replace")
    if chance.random() < 0.5:
        raw = mutated_bytes(chance, raw)
    size = chance.choice((1, 7, 64, 10_000))

    def run() -> None:
        accumulator, reader = kind("mock"), SseReader()
        with suppress(ErrorInReply, ConnectionFailed, EventTooLong):
            for at in range(0, len(raw), size):
                for event in reader.feed(raw[at : at + size]):
                    for delta in accumulator.add_event(event):
                        assert isinstance(delta.text, str)
            for event in reader.end():
                for _ in accumulator.add_event(event):
                    pass
        json.dumps(accumulator.message())
        reply = accumulator.reply(Request("m", TALK))
        repair([reply.message], open_end=True)
        assert isinstance(accumulator.is_complete, bool)

    return raw, run


def reports(chance: random.Random) -> tuple[bytes, Callable[[], None]]:
    path = ROOT / "tests" / chance.choice(("usage/payloads.jsonl", "providers/errors/bodies.jsonl"))
    line = json.loads(chance.choice(_lines(path)))
    value = mutated_json(chance, line)
    body = (
        dumped(value).decode()
        if chance.random() < 0.7
        else mutated_bytes(chance, dumped(value)).decode(errors="replace")
    )
    status = chance.choice((None, 200, 400, 413, 429, 500, 529, -1, 10**9))

    def run() -> None:
        normalize_usage(value)
        normalize_usage(body)
        classify_error(status, body, "mock", headers={"retry-after": body[:40]})

    return body.encode(errors="replace"), run


def config(chance: random.Random) -> tuple[bytes, Callable[[], None]]:
    raw = mutated_bytes(chance, CONFIG.encode())
    flag = mutated_bytes(chance, b"compression.threshold=0.5").decode(errors="replace")

    def run() -> None:
        path = _HOME / "config.yaml"
        path.write_bytes(raw)
        with suppress(ClewError):
            read_config({"CLEW_HOME": str(_HOME), "CLEW_MODEL_NAME": flag}, [flag])
        with suppress(ClewError):
            with_moved_settings(raw.decode(errors="replace"), path)

    return raw, run


def conversation_with(long: str, place: int) -> list[Any]:
    """A conversation in which a text stands: in a request, in a reply, in a call or in its result."""
    texts = ["Fix src/app_main.py, please.", "I run the tests.", "python run_tests.py", "2 passed in 0.5s"]
    texts[place] = long
    lines = "\n".join(f"step {row} wrote {row * 37 % 991} rows into table_{row % 7}" for row in range(400))
    return [
        user(texts[0]), assistant(texts[1], [call("bash", {"command": texts[2]}, "c1")]), tool("c1", texts[3]),
        assistant("Fixed: both pass."), user("And the log?"),
        assistant(None, [call("read_file", {"path": "a.log"}, "c2")]), tool("c2", lines),
        assistant("400 steps."), *(user(f"And part {part}?") for part in range(9)),
    ]  # fmt: skip


def folding(messages: list[Any]) -> Callable[[], None]:
    def run() -> None:
        assert compress(messages, target_tokens=3_000).summary

    return run


def folds(chance: random.Random) -> tuple[bytes, Callable[[], None]]:
    again = "".join(chance.choices(PIECES, k=chance.choice((1, 1, 2, 3))))
    long = chance.choice(OPENINGS) + again * (_REPEATED_CHARS // len(again)) + chance.choice(("", "end"))
    messages = conversation_with(chance.choice(("", "Look:\n")) + long, chance.randrange(4))
    return dumped(messages), folding(messages)


async def _searched(query: str) -> None:
    async with open_store(":memory:") as store:
        await store.start_session(NewSession(id="s"))
        await store.append("s", [user("walrus"), user(query)])
        await store.search(query)


def _projected(text: str) -> None:
    with Projection(context_length=20_000, engine=random.Random(text[:50]).choice(("compressor", "lcm"))) as view:
        view.fit(conversation_with(text, 0))


def _configured(text: str) -> None:
    path = _HOME / "config.yaml"
    path.write_text(text[:MAX_BYTES], "utf-8", "replace", newline="")
    for flags in ((), (f"model.name={text}",), (text,)):
        with suppress(ClewError):
            read_config({"CLEW_HOME": str(_HOME)}, flags)
    with suppress(ClewError):
        set_in_file(path, setting_named("model.name", "fuzz"), "x")
    with suppress(ClewError):
        with_moved_settings(text[:MAX_BYTES], path)


def _patched(text: str) -> None:
    normalized, chance = NormalizedText.of(text), random.Random(text[:50])
    old = chance.choice((text[: len(text) // 2], text[-300:] + "x", f" {text[:300]}\n x", text[:900], text[:2]))
    found = find_passage(normalized, old, "y", everywhere=chance.random() < 0.5)
    if isinstance(found, PassageMatch):
        normalized.with_replacements(found.replacements)
    elif found is None:
        missed_passage_report(text, old, "y")


def _read_back(text: str) -> None:
    """A wire body around the text, in every dialect."""
    read = read_conversation(conversation_with(text, random.Random(text[:50]).randrange(4)))
    for name in DIALECTS:
        convert(read, name)


TEXT_DOORS: dict[str, Callable[[str], object]] = {
    "redact": redact_text,
    "shell": read_command_line,
    "risk": lambda text: risk_of_command(text, ROOT, None, {"HOME": "/home/someone"}),
    "risk of code": lambda text: risk_of_command(f"python3 -c {shlex.quote(text)}", ROOT, None, {"HOME": "/home/me"}),
    "count": lambda text: count_tokens([user(text)]),
    "model": lambda text: (window_of(text), price_of(text)),
    "search": lambda text: asyncio.run(_searched(text)),
    "importer": lambda text: read_transcript(text.encode("utf-8", "replace")),
    "usage": lambda text: (normalize_usage(text), normalize_usage({"usage": text}), normalize_usage({text: {text: 1}})),
    "error": lambda text: [classify_error(status, text, "openai") for status in (None, 400, 413, 429, 500)],
    "error in JSON": lambda text: classify_error(400, json.dumps({"error": {"message": text, "code": text}}), "x"),
    "compress a request": lambda text: compress(conversation_with(text, 0), target_tokens=3_000),
    "compress a reply": lambda text: compress(conversation_with(text, 1), target_tokens=3_000),
    "compress a call": lambda text: compress(conversation_with(text, 2), target_tokens=3_000),
    "compress a result": lambda text: compress(conversation_with(text, 3), target_tokens=3_000),
    "compress a prompt": lambda text: compress([system(text), *conversation_with("go", 0)], target_tokens=3_000),
    "projection": _projected,
    "config": _configured,
    "patch": _patched,
    "dialects": _read_back,
    "cache": lambda text: apply_cache_control(conversation_with(text, 0)),
    "spill": lambda text: bound_result(tool("c1", text), SpillFolder(_HOME / "spilled"), ToolOutputLimits()),
    "files": lambda text: (secret_kind(text), lasting_effect(text, text), is_public_file(text)),
}
"""Doors that take a text of any length."""
PATTERNS = tuple(dict.fromkeys((*PIECES, *(first + second for first in PIECES[:24] for second in PIECES[:24]))))


def texts(chance: random.Random) -> tuple[bytes, Callable[[], None]]:
    """Something short, again and again, up to a megabyte, through one door."""
    again = chance.choice((chance.choice(PATTERNS), "".join(chance.choices(PIECES, k=3))))
    opening, length = chance.choice(("", chance.choice(OPENINGS))), chance.choice((3_000, 100_000, 1_000_000))
    long = opening + again * (length // len(again)) + chance.choice(("", "end"))
    door = chance.choice(list(TEXT_DOORS))

    def run() -> None:
        with suppress(ClewError):
            TEXT_DOORS[door](long)

    return f"{door}: {opening!r} {again!r} {length}".encode(errors="replace"), run


def database(chance: random.Random) -> tuple[bytes, Callable[[], None]]:
    path = _HOME / "fuzz.db"
    if not _sound:
        _sound.append(sound_database(_HOME / "sound.db"))
    raw = _sound[0]
    for _ in range(chance.choice((1, 1, 2, 5))):
        raw = damaged(raw, chance.randrange(len(raw) // PAGE_BYTES), chance.randrange(4), chance)

    async def use_every_door() -> None:
        with suppress(ClewError):
            async with open_store(path) as store:
                for use in DOORS.values():
                    with suppress(ClewError):
                        await use(store)

    def run() -> None:
        for left in _HOME.glob("fuzz.db*"):
            left.unlink()
        path.write_bytes(raw)
        asyncio.run(use_every_door())

    return raw, run


Draw = Callable[[random.Random], tuple[bytes, Callable[[], None]]]
TARGETS: dict[str, Draw] = {
    "importers": importers,
    "dialects": dialects,
    "streams": streams,
    "reports": reports,
    "config": config,
    "database": database,
    "folds": folds,
    "texts": texts,
}
_CASES_AT_ONCE = {"importers": 40, "dialects": 40, "streams": 16, "reports": 12, "config": 4, "database": 1, "folds": 2}
_CASES_AT_ONCE["texts"] = 4
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)
_read: dict[Path, list[str]] = {}
_sound: list[bytes] = []


def _lines(path: Path) -> list[str]:
    if path not in _read:
        _read[path] = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    return _read[path]


def run_case(draw: Draw, name: str) -> tuple[str, bytes] | None:
    """Run one case; where it is a finding, where it went wrong and the input."""
    raw, run = draw(random.Random(name))
    started = time.process_time()
    try:
        run()
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error!s:.120} at {Path(frame.filename).name}:{frame.lineno}", raw
    took = time.process_time() - started
    most = SLOW_TEXT_SECONDS if draw is texts else SLOW_SECONDS
    return (f"took {took:.1f} s", raw) if took > most else None


def _tell(found: dict[str, str], folder: Path, name: str, case: str, finding: tuple[str, bytes]) -> None:
    """Print and keep a finding, once for each place in the code."""
    where, raw = finding
    key = f"{name} {where.rpartition(' at ')[2]}"
    if key not in found:
        found[key] = where
        folder.mkdir(exist_ok=True)
        (folder / f"{name}-{len(found)}").write_bytes(raw)
        print(f"FOUND {case}: {where}", flush=True)


def main(words: Sequence[str] | None = None, targets: Mapping[str, Draw] = TARGETS, folder: Path = FINDINGS) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seconds", nargs="?", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=None, help="another seed gives other cases")
    parser.add_argument("--only", choices=targets, help="one target alone")
    parser.add_argument("--case", type=int, help="one case alone, as a finding names it")
    parser.add_argument("--cases", type=int, help="so many of each target, however long that takes")
    arguments = parser.parse_args(words)
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(10**6)
    names = [arguments.only] if arguments.only else list(targets)
    print(f"seed {seed}, targets {', '.join(names)}", flush=True)
    if arguments.case is not None:
        raw, run = targets[names[0]](random.Random(f"{seed}:{names[0]}:{arguments.case}"))
        print(raw.decode(errors="replace"))
        run()
        return 0
    counts = dict.fromkeys(names, 0)
    found: dict[str, str] = {}
    started = time.monotonic()

    def goes_on() -> bool:
        if arguments.cases:
            return bool(min(counts.values()) < arguments.cases)
        return bool(time.monotonic() - started < arguments.seconds)

    with suppress(KeyboardInterrupt):
        while goes_on():
            # As much time for each target, about: reading a config takes ten times as long as reading messages.
            for name in (each for each in names for _ in range(_CASES_AT_ONCE[each])):
                case = counts[name]
                if case == arguments.cases:
                    continue
                counts[name] += 1
                if (finding := run_case(targets[name], f"{seed}:{name}:{case}")) is not None:
                    _tell(found, folder, name, f"--seed {seed} --only {name} --case {case}", finding)
    told = ", ".join(f"{name} {count:,}" for name, count in counts.items())
    print(f"{sum(counts.values()):,} cases in {time.monotonic() - started:.0f} s ({told}): {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
