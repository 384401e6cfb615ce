"""The corpus: every true case loses its secret and nothing else, no false case loses anything."""

from __future__ import annotations

import re
from pathlib import Path

from clew.redact import CATALOG, SecretKind, redact
from clew.redact.by_context import CONTEXT_KINDS
from clew.redact.by_shape import RUN
from clew.redact.catalog import RULES
from clew.redact.values import Literals, SearchedText
from tests.support.cases import every_case
from tests.support.secret_examples import CorpusCase, cases_in, example_secret, text_before

HERE = Path(__file__).parent
TRUE = cases_in(HERE / "secrets.txt")
FALSE = cases_in(HERE / "not_secrets.txt")
HELD_OUT_TRUE = cases_in(HERE / "held_out_secrets.txt")
HELD_OUT_FALSE = cases_in(HERE / "held_out_not_secrets.txt")
MAX_LEAKS, MAX_ALARMS = 0.20, 0.01
STARTS = [(kind, start) for kind in CATALOG for start in kind.starts]
PLACES = (
    "{}",
    '{{"note": "{}"}}',
    '{{\\"note\\": \\"{}\\"}}',
    "tool --flag {} --verbose",
    "2031-01-01T00:00:00Z INFO got {} from cache",
    "first\\n{}\\nlast",
    "first\n{}\nlast",
    "https://host.example/path?x={}&y=1",
    "a%20{}",
    "\x1b[31m{}\x1b[0m",
    "`{}`, and then",
    "({}).",
    "这是{}。",
)


def short(case: CorpusCase) -> str:
    return re.sub(r"\W+", "-", case.text)[:50]


@every_case("case", TRUE)
def test_a_secret_is_taken_out_and_what_is_around_it_stays(case: CorpusCase) -> None:
    rest = case.text
    for secret in case.secrets:
        rest = rest.replace(secret, "\0", 1)
    assert re.sub(r"\[REDACTED:[a-z0-9-]+\]", "\0", redact(case.text).text) == rest


@every_case("case", FALSE)
def test_what_only_looks_like_a_secret_stays(case: CorpusCase) -> None:
    assert redact(case.text).found == ()


@every_case(("kind", "start"), STARTS)
def test_every_kind_is_found_in_every_place(kind: SecretKind, start: str) -> None:
    for seed, place in enumerate(PLACES):
        secret = example_secret(kind, seed, start)
        text = place.format(text_before(kind) + secret)
        result = redact(text)
        assert [(text[f.start : f.end], f.kind) for f in result.found] == [(secret, kind.name)], place
        assert secret not in result.text


@every_case("kind", CATALOG)
def test_a_secret_that_is_part_of_a_longer_word_is_none(kind: SecretKind) -> None:
    if not kind.preceded_by:
        secret = example_secret(kind, 3)
        assert all(f.start != 1 for f in redact(f"Z{secret}").found)


@every_case("kind", CATALOG)
def test_every_kind_has_the_long_run_by_which_candidates_are_found(kind: SecretKind) -> None:
    for seed in range(10):
        assert re.search(rf"[A-Za-z0-9_~+-]{{{RUN}}}", example_secret(kind, seed))


def test_the_share_of_secrets_found_in_lines_that_no_rule_was_written_for_does_not_fall() -> None:
    """Prints no line: whoever reads one may tune a rule on it."""
    leaks = sum(any(secret in redact(case.text).text for secret in case.secrets) for case in HELD_OUT_TRUE)
    alarms = sum(bool(redact(case.text).found) for case in HELD_OUT_FALSE)
    assert leaks / len(HELD_OUT_TRUE) <= MAX_LEAKS
    assert alarms / len(HELD_OUT_FALSE) <= MAX_ALARMS
    assert len(HELD_OUT_TRUE) >= 100 and len(HELD_OUT_FALSE) >= 120


def test_there_are_the_kinds_that_were_promised() -> None:
    names = {kind.name for kind in CATALOG} | CONTEXT_KINDS
    assert len(names) >= 60
    assert all(re.fullmatch(r"[a-z0-9][a-z0-9-]*", name) for name in names)


def test_the_corpus_is_large_enough_to_mean_something() -> None:
    assert len(FALSE) >= 150
    assert len(TRUE) >= 100


def test_every_literal_of_the_rules_is_found_in_a_text() -> None:
    contexts, labels = (
        (row[1] for row in RULES["contexts"]),
        (*RULES["labels"]["foreign"], *RULES["labels"]["accented"]),
    )
    for literal in map(str.encode, {*contexts, *labels, *RULES["names"]["words"], "cookie"}):
        for text in (literal, b"x " + literal + b" y", b"ss" + literal):
            assert list(Literals([literal]).found_in(SearchedText.of(text.decode()))) == [
                (literal, text.index(literal))
            ]
