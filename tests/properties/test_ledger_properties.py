"""The ledger reads whatever comes, and what it quotes was said."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from clew.ledger import Ledger, QuoteSelector, atoms_in, files_changed_by, quotable_texts, read_outcome, rules_in
from clew.messages import Message
from clew.testing import assistant, call, tool, user
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


paths = st.sampled_from("a.py /srv/app /srv/app/build /srv/app/build/ /srv/app/build/x.py ~/c.md ./e.sh tests".split())
edits = paths.map(lambda path: ("Write", {"file_path": path, "content": f"open('{path}', 'w')"}))
forms = (
    "rm -rf {0}", "mv {0} {1}", "git checkout -- {0}", "cd {0} && touch {1}", "sed -i s/a/b/ {0}", "cat {0}",
    "cat > {0} <<E\nopen('{1}', 'w')\nE\npython {0}", "python -c \"open('{0}', 'w')\"",
)  # fmt: skip
commands = st.builds(
    lambda form, *both: ("bash", {"command": form.format(*both)}), st.sampled_from(forms), paths, paths
)
results = st.sampled_from(["", "ok", "File created", "Error: no such file\n[exit 1]"])


DELETE = ("bash", {"command": "rm -rf /srv/app/build"})
WRITE = ("Write", {"file_path": "/srv/app/build/x.py", "content": ""})


@settings(deadline=None)
@example([[(DELETE, "")], [(DELETE, ""), (WRITE, "ok")]], False)
@given(st.lists(st.lists(st.tuples(edits | commands, results), min_size=1, max_size=3), max_size=8), st.booleans())
def test_files_may_come_and_go_by_calls_side_by_side(steps: list[list[tuple[Any, str]]], is_backwards: bool) -> None:
    history: list[Message] = [user("Clean up.")]
    for n, step in enumerate(steps):
        history.append(assistant(None, [call(name, given, f"{n}-{at}") for at, ((name, given), _) in enumerate(step)]))
        answers = [tool(f"{n}-{at}", result) for at, (_, result) in enumerate(step)]
        history += reversed(answers) if is_backwards else answers
    for fact in Ledger.of(history).files.values():
        assert all(history[number]["role"] == "assistant" for number in fact.changes)


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
from clew.handoff import parse_handoff, write_handoff
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
