"""How fast redaction is, that its time grows with the text and not faster, and how often it is right.

    python benchmarks/redaction.py

CPU time. The corpus is that of the tests; real conversations are read where `../shared/data` exists, and only
counts of what was found in them are shown.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import string
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import _repository  # noqa: F401
from _table import report
from clew.redact import CATALOG, redact, redact_messages
from clew.redact.by_context import CONTEXT_KINDS
from tests.support.secret_examples import cases_in, example_secret, text_before

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT / "tests" / "redact"
CONVERSATIONS = ROOT.parent / "shared" / "data" / "conversations"
SIZES = (1_000_000, 10_000_000)
CHANCE = random.Random(8)
WORDS = "the a build of context when model is not very long and we then look at each line to see what it means".split()
PLACES = ("{}", '{{"note": "{}"}}', "tool --flag {} now", "INFO got {} from cache", "a\\n{}\\nb", "?x={}&y=1")


def random_text(alphabet: str, length: int) -> str:
    return "".join(CHANCE.choices(alphabet, k=length))


def prose() -> str:
    return " ".join(CHANCE.choices(WORDS, k=12)) + ".\n"


def code() -> str:
    name = "_".join(CHANCE.choices(WORDS, k=3))
    body = f"        return self.{name}(key)[{CHANCE.randint(0, 99)}]\n"
    return f'    def {name}(self, key: str, token: str = "") -> int:\n{body}'


def log() -> str:
    return (
        f"2031-01-01T12:{CHANCE.randint(10, 59)}:00Z INFO http://localhost:8080/items/{CHANCE.randint(1, 9999)} "
        f"status=200 request_id={random_text('0123456789abcdef', 32)} passed in {CHANCE.randint(1, 900)}ms\n"
    )


def json_line() -> str:
    return (
        json.dumps(
            {"id": random_text(string.ascii_lowercase, 12), "key": prose()[:20], "max_tokens": 4096, "n": [1, 2]}
        )
        + "\n"
    )


ORDINARY = {
    "prose": "".join(prose() for _ in range(2_000)),
    "code": "".join(code() for _ in range(2_000)),
    "logs": "".join(log() for _ in range(2_000)),
    "JSON": "".join(json_line() for _ in range(2_000)),
    "base64": random_text(string.ascii_letters + string.digits + "+/", 200_000),
    "Chinese": "这是一个很长的对话,需要放进窗口里。\n" * 5_000,
    "no trigger at all": "lorem ipsum dolor et " * 10_000,
}
DENSE = {
    "password= short": "".join(f"password=ab{CHANCE.randint(10, 99)}!x\n" for _ in range(5_000)),
    "password= random": "".join(
        f"password={random_text(string.ascii_letters + string.digits + '!#-_', CHANCE.randint(8, 24))}\n"
        for _ in range(5_000)
    ),
    "password in JSON": "".join(
        json.dumps({"user": "joe", "password": random_text(string.ascii_letters + string.digits, 14)}) + "\n"
        for _ in range(5_000)
    ),
    "password = in code": "".join(
        f"password = {random_text(string.ascii_letters + string.digits, 12)}\n" for _ in range(5_000)
    ),
    "password: in YAML": "".join(
        f"  password: {random_text(string.ascii_letters + string.digits, 12)}\n" for _ in range(5_000)
    ),
    "password='' in a call": "".join(
        f"connect('db', password='{random_text(string.ascii_letters + string.digits, 12)}')\n" for _ in range(5_000)
    ),
    "&password= in an address": "".join(
        f"/login?user=joe&password={random_text(string.ascii_letters + string.digits, 12)}&x=1\n" for _ in range(5_000)
    ),
    "Pwd= in a connection": "".join(
        f"Server=db;Pwd={random_text(string.ascii_letters + string.digits, 12)};\n" for _ in range(5_000)
    ),
    "SECRET_KEY=": "".join(
        f"SECRET_KEY={random_text(string.ascii_letters + string.digits, 40)}\n" for _ in range(5_000)
    ),
    "api_token=": "".join(f"api_token={random_text(string.ascii_letters + string.digits, 32)}\n" for _ in range(5_000)),
    "told in prose": "".join(
        f"To get in, use the account deploy; the root password is {random_text(string.ascii_letters + '0123', 9)}7x.\n"
        for _ in range(5_000)
    ),
}
HOSTILE = {
    unit.strip(): unit
    for unit in (
        *(
            "sk-",
            "sk-ant-",
            "ghp_",
            "eyJ",
            "-eyJ-",
            ".eyJaaaaaaaaaaaaaaaaaaaa",
            "AKIA",
            "xoxb-",
            "a=a=",
            "token=",
            "pass",
            "key",
        ),
        *(
            "-----BEGIN ",
            "-----BEGIN PRIVATE KEY-----",
            "-----",
            '"',
            '\\"',
            "\\",
            'token="',
            "://a:b@",
            "://",
            "cookie=",
        ),
        *(
            "authorization: bearer ",
            "curl -u a:b ",
            "sig=",
            "--a",
            "[REDACTED:",
            "password=a1!",
            "aaaaaaaaaaaaaaaaaaaa.",
        ),
    )
}


def measured(name: str, unit: str) -> dict[str, Any]:
    row: dict[str, Any] = {"text": name}
    for size in SIZES:
        text = (unit * (size // len(unit) + 1))[:size]
        started = time.process_time()
        found = len(redact(text).found)
        seconds = time.process_time() - started
        row |= {f"MB/s at {size // 1_000_000} MB": size / 1e6 / seconds, "found": found}
    small, large = (row[f"MB/s at {size // 1_000_000} MB"] for size in SIZES)
    # 1.0 is linear; a quadratic step would show as 10.
    return {**row, "growth": small / large}


def recall() -> list[dict[str, Any]]:
    made = [(kind, start, seed) for kind in CATALOG for start in kind.starts for seed in range(5)]
    texts = [
        (place.format(text_before(k) + (s := example_secret(k, seed, start))), s)
        for k, start, seed in made
        for place in PLACES
    ]
    named = [(case.text, secret) for case in cases_in(CORPUS / "secrets.txt") for secret in case.secrets]
    forms = json.loads((CORPUS / "forms_of_secrets.json").read_text(encoding="utf-8"))
    false = cases_in(CORPUS / "not_secrets.txt")
    unseen = cases_in(CORPUS / "held_out_secrets.txt")
    unseen_false = cases_in(CORPUS / "held_out_not_secrets.txt")
    kinds = {kind.name for kind in CATALOG} | CONTEXT_KINDS
    return [
        {"measure": "kinds of secrets", "of": len(kinds)},
        {
            "measure": "found: lines that no rule was written for",
            "of": len(unseen),
            "are": sum(not any(secret in redact(case.text).text for secret in case.secrets) for case in unseen),
        },
        {
            "measure": "redacted wrongly: lines that no rule was written for",
            "of": len(unseen_false),
            "are": sum(bool(redact(case.text).found) for case in unseen_false),
        },
        {
            "measure": "found: kinds known by their shape",
            "of": len(texts),
            "are": sum(s not in redact(t).text for t, s in texts),
        },
        {
            "measure": "found: known by what is around them",
            "of": len(named),
            "are": sum(s not in redact(t).text for t, s in named),
        },
        {
            "measure": "found: forms in prose, commands, tables and cut keys",
            "of": len(forms),
            "are": sum(not any(s in redact(form["text"]).text for s in form["secrets"]) for form in forms),
        },
        {
            "measure": "wrongly found in the false cases",
            "of": len(false),
            "are": sum(bool(redact(c.text).found) for c in false),
        },
    ]


def conversations() -> Iterator[dict[str, Any]]:
    for path in sorted(CONVERSATIONS.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
            sessions = [json.loads(line)["messages"] for line in lines]
        chars = sum(len(json.dumps(messages, ensure_ascii=False)) for messages in sessions)
        started = time.process_time()
        cleaned = [redact_messages(messages) for messages in sessions]
        seconds = time.process_time() - started
        changed = [
            json.dumps(new)
            for a, b in zip(cleaned, sessions, strict=True)
            for new, old in zip(a, b, strict=True)
            if new is not old
        ]
        kinds = Counter(re.findall(r"\[REDACTED:([a-z0-9-]+)\]", " ".join(changed)))
        yield {
            "conversations": path.name.removesuffix(".jsonl.gz"),
            "messages": sum(map(len, sessions)),
            "MB": chars / 1e6,
            "MB/s": chars / 1e6 / seconds,
            "changed": len(changed),
            "found, by kind": ", ".join(f"{kind} {count}" for kind, count in kinds.most_common()) or "nothing",
        }


def main() -> None:
    redact("warm up " + "a" * 40)
    columns = ["text", *(f"MB/s at {size // 1_000_000} MB" for size in SIZES), "growth", "found"]
    report("redaction_ordinary", [measured(name, unit) for name, unit in ORDINARY.items()], columns)
    report("redaction_dense", [measured(name, unit) for name, unit in DENSE.items()], columns)
    report("redaction_hostile", [measured(name, unit) for name, unit in HOSTILE.items()], columns)
    report("redaction_right", recall(), ["measure", "of", "are"])
    if CONVERSATIONS.is_dir():
        rows = list(conversations())
        report(
            "redaction_conversations", rows, ["conversations", "messages", "MB", "MB/s", "changed", "found, by kind"]
        )


if __name__ == "__main__":
    main()
