"""The benchmarks run on tiny inputs. What they find is theirs to report: no figure is asserted here."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

import _talks
import compress
import fit_weights
import quality
import recoverable
import search
import turn
from _cases import FactMarks, Session
from _sessions import CutSession
from clew.messages import Message, repair, text_of
from clew.testing import assistant, user
from hermes_side import load_hermes
from tests.support.history import synthetic_history

pytestmark = pytest.mark.slow


def test_every_operation_is_measured_without_hermes() -> None:
    rows = list(compress.measured(compress.history_of(60), None, 1))
    assert [row["operation"] for row in rows] == list(compress.LIMITS_MS)
    assert all(row["clew min ms"] >= 0 and row["hermes min ms"] is None for row in rows)


def test_the_record_is_measured_per_kilobyte() -> None:
    kilobytes, microseconds = compress.record_pass(30)
    assert kilobytes > 1_000
    assert microseconds > 0


async def test_a_turn_and_the_wait_at_the_threshold_are_measured() -> None:
    row = await turn.overhead(40, 3, "normal")
    assert row["messages"] == 40
    assert row["median"] > 0
    assert [wait["prepared"] for wait in await turn.waits(0.01)] == ["no", "yes"]


def test_hermes_that_is_missing_is_said_to_be_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert load_hermes(None) is None
    assert load_hermes(tmp_path) is None
    assert "missing" in capsys.readouterr().out


def test_a_growing_conversation_is_sound_and_holds_what_was_planted() -> None:
    conversation = quality.GrowingConversation(32_000)
    conversation.grow()
    assert not repair(conversation.view).repairs
    assert {fact.kind for fact in conversation.facts} == set(quality.KINDS)
    assert all(quality.is_there(fact, conversation.view) for fact in conversation.facts)


def test_a_later_error_of_the_same_command_takes_the_place_of_the_earlier_one() -> None:
    conversation = quality.GrowingConversation(8_000)
    for _ in range(4):
        conversation.grow()
    assert [fact.planted_at for fact in conversation.facts if fact.key == "make integration"] == [4]


def test_every_mode_is_compacted_and_accounted_for() -> None:
    rows, lost = quality.certain([16_000], [1, 2])
    assert [(row["mode"], row["compactions"]) for row in rows] == [
        (mode, number) for mode in quality.COMPACTORS for number in (1, 2)
    ]
    assert {fact["kind"] for fact in lost} <= set(quality.KINDS)


def test_a_gap_in_the_numbers_of_actions_is_seen() -> None:
    assert quality.numbered_without_gap("## Completed actions\n1. a\n2. b\n\n## Blocked\n3. c")
    assert not quality.numbered_without_gap("## Completed actions\n1. a\n3. b")


def _shown(message: Message) -> str:
    calls = "".join(called["function"]["arguments"] for called in message.get("tool_calls") or ())
    return text_of(message) + calls


def test_a_target_in_chars_becomes_one_in_tokens_and_is_not_passed() -> None:
    history = synthetic_history(90)
    target = quality.target_for_chars(history, SimpleNamespace(text=_shown))
    result = quality.compressed_to(target)(history)
    assert 0 < sum(len(_shown(message)) for message in result) <= quality.TARGET_CHARS


def test_a_search_for_an_atom_uses_the_words_around_it_or_its_line() -> None:
    used = 'edit {"path": "src/feed.py", "old": "a\\n\\tretryLimit = 3 or so"}'
    assert recoverable.queries_for("tretryLimit", used) == (
        "edit path src/feed.py old a retryLimit 3 or so",
        "edit path src/feed.py old a 3 or so",
        "3 or so",
    )


def test_what_one_search_brings_back_is_counted(tmp_path: Path) -> None:
    (tmp_path / "conversations").mkdir()
    messages = [user("The port is 48151."), *synthetic_history(60), user("go on")]
    after = assistant("I will use port 48151 now.")
    with gzip.open(tmp_path / "conversations" / "made_up.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write(json.dumps({"messages": [*messages, after]}))
    scorer = SimpleNamespace(text=_shown, cut_at=lambda it: len(it) - 1, needed=lambda *_: ["48151"])
    rows = recoverable.recoverable(tmp_path, scorer)
    assert [row["words"] for row in rows] == [*recoverable.WAYS.values(), recoverable.GREP]
    assert all(row["sessions"] == 1 and row["atoms"] == 1 for row in rows)


async def test_search_is_measured_by_length_and_on_talks() -> None:
    row = await search.speed_of(200)
    assert set(search.SPEED_COLUMNS) <= set(row)
    for topics in map(_talks.read_topics, ("develop", "held_out")):
        for talk in (_talks.talk_of_two(topics, 120, 1), _talks.talk_with_assistant(topics, 120, 1)):
            assert all(question.evidence <= set(range(len(talk.turns))) for question in talk.questions)
            assert {question.kind for question in talk.questions} >= {"said", "next turn", "dated", "many"}
    found = await search.found_in([talk])
    assert found["questions"] == len(talk.questions)


def test_the_same_seed_gives_the_same_talk() -> None:
    topics = _talks.read_topics("held_out")
    assert _talks.talk_of_two(topics, 90, 3) == _talks.talk_of_two(topics, 90, 3)


def test_weights_are_fitted_with_one_harness_left_out() -> None:
    scorer = SimpleNamespace(
        text=_shown,
        companions=lambda atom, _: [atom],
        shown_as_fact=lambda atom, _, text: atom in text,
    )
    history = [user("The port is 48151, the file is src/feed.py."), *synthetic_history(40), user("go on")]
    marks = FactMarks(scorer, CutSession(history, [], ["48151", "src/feed.py"]))
    present = {("term", "name"): 0.6, ("term", "word"): 0.1, ("kind", "said"): 0.4, ("candidate", "focus"): 1.5}
    bonuses = {("bonus", name): 10.0 for name in ("request", "fade", "repeated")}
    sessions = [Session(harness, history, (1_500,), marks) for harness in ("one", "two")]
    found = fit_weights.fitted(fit_weights.Cases(sessions), present | bonuses)
    assert found.weights.keys() >= bonuses.keys()
    assert {"one", "two", "facts", "all"} <= {row["harness"] for row in found.harnesses}
