"""The record reads any history; what it says of a text stands in that text; handoffs do not depend on hash seeds."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from clew.facts import Record, StateRecord, output_parts, person_text, prose_parts, read_outcome, rules_in
from clew.facts.data import load_table
from clew.messages import Message
from clew.testing import assistant, call, tool, user
from tests.support.strategies import History, broken_histories, histories, texts

words = st.sampled_from(
    "Error: FAILED exit code 1 src/a.py load_day() 9f3c2ab never don't ``` <file> </file> \n \t > >> 'q \" | rm <<EOF "
    "-i sed "
    '8443 不要 。 . ? m12 [exit 2] {"output": \\n \\\\ 5 passed -- PASS Tests: *** Begin Patch'.split(" ")
)
odd_texts = st.lists(words | texts(30), max_size=30).map(" ".join)


def flat(text: str) -> str:
    return " ".join(text.split())


@settings(deadline=None)
@given(histories() | broken_histories())
def test_nothing_that_a_client_sends_breaks_the_record(history: History) -> None:
    record = Record.of(history)
    assert record.next_number == len(history)
    numbers = [action.number for action in record.actions()] + [rule.number for rule in record.rules]
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


@settings(deadline=None)
@given(st.lists(st.lists(st.tuples(edits | commands, results), min_size=1, max_size=3), max_size=8), st.booleans())
def test_files_may_come_and_go_by_parallel_calls(steps: list[list[tuple[Any, str]]], is_backwards: bool) -> None:
    history: list[Message] = [user("Clean up.")]
    for n, step in enumerate(steps):
        history.append(assistant(None, [call(name, given, f"{n}-{at}") for at, ((name, given), _) in enumerate(step)]))
        answers = [tool(f"{n}-{at}", result) for at, (_, result) in enumerate(step)]
        history += reversed(answers) if is_backwards else answers
    for file in Record.of(history).files.values():
        assert all(history[number]["role"] == "assistant" for number in (file.first, file.last))


@settings(deadline=None)
@example("never ``` ``` Error:")
@example("exit FAILED FAILED FAILED FAILED FAILED FAILED FAILED [exit 5")
@given(odd_texts)
def test_rules_errors_and_pieces_stand_in_the_text_they_are_from(text: str) -> None:
    assert all(flat(rule) in flat(text) for rule in rules_in(text))
    outcome = read_outcome(text)
    # The exit code is written before a line that does not name the error.
    error = outcome.error.removeprefix(f"exit {outcome.exit_code}: ")
    assert flat(error) in flat(text) or text.lstrip().startswith("{")
    for part in (*prose_parts(text), *(() if text.lstrip()[:1] in ("{", "[") else output_parts(text))):
        assert all(flat(piece).removesuffix("…") in flat(text) for piece in part.pieces)


HARNESS = load_table("harness.toml")
plain = st.text(st.characters(categories=["Ll", "Lu", "Zs"]), min_size=1, max_size=60).map(flat).filter(bool)


@settings(deadline=None)
@given(st.sampled_from(HARNESS["tags"]), plain, plain)
def test_what_a_harness_puts_between_its_tags_is_not_said_by_the_person(tag: str, inside: str, said: str) -> None:
    block = f"<{tag}>\n{inside}\n</{tag}>"
    assert person_text(block) == ""
    assert person_text(f"{block}\n{said}") == person_text(f"{said}\n{block}") == person_text(said)


@settings(deadline=None)
@given(st.sampled_from(HARNESS["openings"]), plain)
def test_a_message_that_begins_as_programs_write_is_no_request(opening: str, rest: str) -> None:
    assert [one.request for one in Record.of([user("Go."), user(f"{opening} {rest}")]).exchanges] == ["Go."]


marks = st.sampled_from(["", "**", "(", '"', "_", "1. ", "- ", "Yes: ", "“"])


@settings(deadline=None)
@given(st.sampled_from(load_table("speech.toml")["decision"]["phrases"]), marks, st.booleans())
def test_a_sentence_with_a_phrase_of_decisions_is_found_behind_any_mark(phrase: str, mark: str, is_bold: bool) -> None:
    said = f"{mark}{phrase}{'**' if is_bold else ''} the pool was closed before the last reader."
    facts = StateRecord.of([user("Find the leak, please."), assistant(said)]).facts
    assert [fact for fact in facts if fact.kind == "decision"]


_WRITE = """
import hashlib
from clew.handoff import write_handoff
from tests.support.summaries import summary_input_of
from tests.support.history import synthetic_history

count = lambda text: len(text) // 4
history = synthetic_history(900)
first = write_handoff(summary_input_of(history, last=800, task="go", task_number=800), 3_000, count)
again = summary_input_of(history, first=800, previous=first, task="on", task_number=899)
print(hashlib.sha256((first.render() + write_handoff(again, 900, count).render()).encode()).hexdigest())
"""


def test_the_same_history_gives_the_same_bytes_under_every_hash_seed() -> None:
    digests = set()
    for seed in ("0", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", _WRITE], env=environment, capture_output=True, text=True, check=True
        )
        digests.add(done.stdout)
    assert len(digests) == 1
