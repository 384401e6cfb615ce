"""The ledger reads whatever comes, and what it quotes was said."""

from __future__ import annotations

import os
import subprocess
import sys

from hypothesis import example, given, settings
from hypothesis import strategies as st

from clew.ledger import Ledger, QuoteSelector, atoms_in, files_changed_by, quotable_texts, read_outcome, rules_in
from clew.testing.strategies import History, broken_histories, histories, texts

words = st.sampled_from(
    "Error: FAILED exit code 1 src/a.py load_day() 9f3c2ab never don't ``` <file> </file> \n \t > >> 'q \" | rm <<EOF "
    "-i sed "
    '8443 不要 。 . ? m12 [exit 2] {"output": \\n \\\\ 5 passed -- PASS Tests: *** Begin Patch'.split(" ")
)
odd_texts = st.lists(words | texts(30), max_size=30).map(" ".join)


def folded(text: str) -> str:
    return " ".join(text.split())


@settings(deadline=None)
@given(histories() | broken_histories())
def test_nothing_that_a_client_sends_breaks_the_ledger(history: History) -> None:
    ledger = Ledger.of(history)
    assert ledger.next_number == len(history)
    numbers = [one.number for one in ledger.actions] + [one.number for one in ledger.requests]
    numbers += [said.number for said in (*ledger.rules, *ledger.decisions)]
    assert all(0 <= number < len(history) for number in numbers)


@settings(deadline=None)
@example("never ``` ``` Error:")  # a sentence ends where code was left out
@given(odd_texts)
def test_any_text_is_read_as_rules_as_a_result_and_as_a_command(text: str) -> None:
    for rule in rules_in(text, 3):
        assert folded(rule.text) in folded(text)
    outcome = read_outcome(text)
    assert folded(outcome.error) in folded(text) or text.startswith("{")
    assert all(name in text for name in files_changed_by(text))
    assert all(atom in text for atom in atoms_in(text))


@settings(deadline=None)
@given(histories(), st.integers(0, 3_000))
def test_quotes_are_verbatim_and_fit_the_room(history: History, room: int) -> None:
    ledger = Ledger.of(history)
    selector = QuoteSelector(
        ledger.index, lambda number: history[number], 0, lambda _: True, lambda number, part: ((number, part), 8)
    )
    quotes, spent = selector.select(room, room, set())
    assert spent <= room
    for line, told in quotes.items():
        assert isinstance(line, tuple)
        number, part = line
        source = folded(quotable_texts(history[number])[part])
        assert all(quote in source for quote in told)


_WRITE = """
import hashlib, sys
from clew.ledger import Ledger
from clew.summaries import parse_handoff, write_handoff
from clew.testing.scripted import summary_input_of
from clew.testing.messages import synthetic_history

count = lambda text: len(text) // 4
history = synthetic_history(900)
seen = len(Ledger.of(history).index.atoms)
first = write_handoff(summary_input_of(history, last=800, task="go", task_number=800), 3_000, count)
again = summary_input_of(history, first=800, previous=parse_handoff(first.render()), task="on", task_number=899)
text = first.render() + write_handoff(again, 900, count).render()
print(seen, hashlib.sha256(text.encode()).hexdigest())
"""


def test_the_same_history_gives_the_same_bytes_under_every_hash_seed() -> None:
    told = set()
    for seed in ("0", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", _WRITE], env=environment, capture_output=True, text=True, check=True
        )
        told.add(done.stdout)
    assert len(told) == 1
    # More atoms than are weighed at once, or the choice among them would not be tried.
    assert int(told.pop().split()[0]) > 6_000
