"""What is dangerous about code that stands on a command line: for interpreters, awk, sed, and databases.

Finds what the table knows; runs and understands nothing. Code in files is not opened.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from clew.agent.dangers.seen import Danger, Seen
from clew.agent.dangers.table import CODE_FACTS, SQL_CLIENTS, SQL_FACTS, CodeFact, Kind
from clew.agent.dangers.writing import written_to
from clew.agent.shell import Simple, Word

_AWK_RUNS = re.compile(
    r'\bsystem\s*\(|\|&?\s*"(?:\S{0,80}/)?(?:sudo|rm|(?:ba|z|da|k)?sh)\b|"[^"]{0,200}"\s*\|\s*getline'
)
AWKS = frozenset({"awk", "gawk", "mawk", "nawk"})
_AWK_WRITES = re.compile(r'>\s*"([/~][^"]*)"')
_AWK_SHOWS = re.compile(r"\bin\s+ENVIRON\b")
_SED_ADDRESS = r"(?:^|[;{}\n])\s*(?:\d+|\$|/(?:\\.|[^/\\])*/)?(?:,(?:\d+|\$|/(?:\\.|[^/\\])*/))?\s*"
_SED_CHANGE = r"s([^\w\s\\])(?:\\.|(?!\1)[^\\])*\1(?:\\.|(?!\1)[^\\])*\1"
_SED_RUNS = re.compile(rf"{_SED_ADDRESS}(?:e(?:\s+\S|\s*$)|{_SED_CHANGE}[gpiIMm\d]*e)")
_SED_WRITES = re.compile(rf"{_SED_ADDRESS}[wW]\s*([/~]\S*)")


def database_loss(seen: Seen) -> Iterator[Danger]:
    if seen.name in SQL_CLIENTS:
        told = [*seen.texts, seen.simple.text_in or "", text_from(seen.simple.left) or ""]
        yield from _facts_in(seen, told, SQL_FACTS)


def awk_code(seen: Seen) -> Iterator[Danger]:
    if seen.name in AWKS and any(_AWK_RUNS.search(text) for text in seen.texts):
        yield seen.danger(Kind.HIDDEN_CODE, "the code runs other commands")
    if seen.name in AWKS and any(_AWK_SHOWS.search(text) for text in seen.texts):
        yield seen.danger(Kind.SECRETS, "shows every variable, with the keys among them", "every variable")
    for path in (found[1] for text in seen.texts for found in _AWK_WRITES.finditer(text) if seen.name in AWKS):
        yield from written_to(seen, Word(path))


def sed_code(seen: Seen) -> Iterator[Danger]:
    """Scripts of sed can run commands (`e`) and write files (`w`)."""
    if seen.name not in {"sed", "gsed"}:
        return
    if any(_SED_RUNS.search(text) for text in seen.texts):
        yield seen.danger(Kind.HIDDEN_CODE, "the script runs other commands")
    for path in (found[1] for text in seen.texts for found in _SED_WRITES.finditer(text)):
        yield from written_to(seen, Word(path))


def dangerous_code(seen: Seen, code: str) -> Iterator[Danger]:
    """What is dangerous about code for an interpreter."""
    yield from _facts_in(seen, [code], CODE_FACTS)
    yield from _facts_in(seen, [code] if re.search(r"execute|query|cursor", code) else [], SQL_FACTS[:3])
    if seen.name in {"perl", "ruby", "php"} and re.search(r"`[^`]+`|\bqx\b|%x", code):
        yield seen.danger(Kind.HIDDEN_CODE, "the code runs other commands")


def _facts_in(seen: Seen, told: list[str], facts: tuple[CodeFact, ...]) -> Iterator[Danger]:
    for fact in facts:
        if any(fact.pattern.search(text) for text in told):
            yield seen.danger(fact.kind, fact.why, always_ask=fact.always_ask)


def text_from(left: Simple | None) -> str | None:
    """What a command prints into a pipe, where that stands on the line."""
    while left is not None and left.words:
        name, *rest = (word.text for word in left.words)
        if name in {"echo", "printf"}:
            texts = (text for text in rest if not re.fullmatch(r"-[neE]+|%s(?:\\n)?", text))
            return " ".join(texts).replace("\\n", "\n")
        if name != "cat" or rest not in ([], ["-"]):
            return None
        if left.text_in is not None:
            return left.text_in
        left = left.left
    return None
