"""The exam with recall: folded sessions, their stores, and a door with two commands a question for readers.

    python benchmarks/recall_readers.py [--exam FOLDER] prepare OUT
    python benchmarks/recall_readers.py ask OUT U1 search|open ...      # a command for question U1; OUT/recall runs it
    python benchmarks/recall_readers.py report OUT                      # commands, and their tokens

FOLDER is as for `recall_exam.py`. `prepare` writes into OUT what is left of each session in a window of 10,000 tokens,
the questions without answers, `READER.md`, the stores, and `recall`, which logs the tokens of each command and refuses
a third one for a question. Readers see nothing but OUT; graders do not know how an answer was made.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import io
import json
import shlex
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import clew
from _sessions import SHARED
from _table import report
from clew.cli import main as run_clew
from clew.store import NewSession, open_store
from clew.tokens import counter_for
from clew.turn import message_text

TARGET = 10_000
MOST_COMMANDS = 2
COLUMNS = ("session", "questions", "commands", "tokens per command", "tokens per question")
READER = f"""Each .txt file is all that is left in the context window of an agent after earlier turns of its
conversation were folded. Take one session at a time: read its file, imagine that you are the agent that must go on, and
answer each of its questions in questions.json. For each you may run {MOST_COMMANDS} commands over the conversation:
  ./recall U1 search WORDS...    messages with these words; U1 is the id of the question
  ./recall U1 open m12           messages by number: m12, m12-m20, m12,m40; --around "WORDS" for a part of a long one
Use nothing else: no other file or command, no knowledge of your own. Do not let one question answer another. If neither
tells, write "not in the context". Short and exact, values verbatim. Write answers.json: {{"U1": "...", ...}}.
"""


def prepare(out: Path, exam: Path) -> int:
    questions: dict[str, list[dict[str, Any]]] = json.loads((exam / "questions.json").read_text(encoding="utf-8"))
    for name in questions:
        with gzip.open(exam / "sessions" / f"{name}.json.gz", "rt", encoding="utf-8") as file:
            messages = json.load(file)["messages"]
        (out / "stores" / name).mkdir(parents=True)
        asyncio.run(_stored(out / "stores" / name / "state.db", name, messages))
        shown = clew.compress(messages, target_tokens=TARGET).messages
        texts = (f"=== {message['role']}\n{message_text(message)}" for message in shown)
        (out / f"{name}.txt").write_text("\n".join(texts), encoding="utf-8")
    bare = {name: [{key: it[key] for key in ("id", "question")} for it in asked] for name, asked in questions.items()}
    (out / "questions.json").write_text(json.dumps(bare, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    (out / "READER.md").write_text(READER, encoding="utf-8")
    command = shlex.join([sys.executable, str(Path(__file__).resolve()), "ask", str(out.resolve())])
    (out / "recall").write_text(f'#!/bin/sh\nexec {command} "$@"\n', encoding="utf-8")
    (out / "recall").chmod(0o755)
    return 0


async def _stored(path: Path, name: str, messages: Sequence[Any]) -> None:
    async with open_store(path) as store:
        await store.start_session(NewSession(id=name))
        await store.append(name, messages)


def ask(out: Path, question: str = "", verb: str = "", *words: str) -> int:
    session = _sessions_by_question(out).get(question)
    if session is None or verb not in ("search", "open"):
        raise SystemExit("give the id of a question, search or open, and what to look for")
    if sum(it["question"] == question for it in _log(out)) >= MOST_COMMANDS:
        raise SystemExit(f"{question} has had its {MOST_COMMANDS} commands")
    command = [verb, *((session,) if verb == "open" else ("--conversation", session, "--")), *words]
    with redirect_stdout(io.StringIO()) as printed:
        code = run_clew(command, {"CLEW_HOME": str(out / "stores" / session)})
    print(printed.getvalue(), end="")
    if code == 0:  # a mistyped command shows nothing, and may be typed again
        tokens = counter_for(None).text(printed.getvalue())
        with (out / "log.jsonl").open("a", encoding="utf-8") as log:
            log.write(json.dumps({"question": question, "session": session, "verb": verb, "tokens": tokens}) + "\n")
    return code


def _sessions_by_question(out: Path) -> dict[str, str]:
    listed = json.loads((out / "questions.json").read_text(encoding="utf-8"))
    return {it["id"]: name for name, asked in listed.items() for it in asked}


def _log(out: Path) -> list[dict[str, Any]]:
    path = out / "log.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--exam", type=Path, default=SHARED / "exam")
    parser.add_argument("action", choices=("prepare", "ask", "report"))
    parser.add_argument("out", type=Path)
    parser.add_argument("command", nargs=argparse.REMAINDER, help="of ask: U1 search WORDS, or U1 open m12")
    options = parser.parse_args()
    if options.action == "ask":
        return ask(options.out, *options.command)
    if options.action == "prepare":
        return prepare(options.out, options.exam)
    names, rows = list(_sessions_by_question(options.out).values()), []
    for name in (*dict.fromkeys(names), "all"):
        sizes = [it["tokens"] for it in _log(options.out) if name in (it["session"], "all")]
        count, per_command = names.count(name) or len(names), sum(sizes) / len(sizes) if sizes else None
        rows.append(dict(zip(COLUMNS, (name, count, len(sizes), per_command, sum(sizes) / count), strict=True)))
    report("recall_readers", rows, COLUMNS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
