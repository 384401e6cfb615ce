"""The forms in which secrets come: prose in many languages, commands, tables, cut keys, text with hidden characters.

`forms_of_secrets.json` has made-up secrets that say so themselves; none of them, nor any part of one, may stay.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from clew import compress
from clew.facts import StateRecord
from clew.redact import redact, redact_messages, redact_text
from clew.testing import assistant, call, tool, user
from tests.support.cases import every_case

FORMS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "forms_of_secrets.json").read_text(encoding="utf-8"))


@every_case("form", FORMS)
def test_a_secret_is_gone_in_this_form(form: dict[str, Any]) -> None:
    clean = redact_text(form["text"])
    assert not [secret for secret in form["secrets"] if secret in clean]
    assert redact_text(clean) == clean


def test_the_forms_are_many() -> None:
    assert len(FORMS) >= 150


def test_findings_in_text_with_hidden_characters_are_places_of_the_original() -> None:
    text = "\x1b[1mpassword\x1b[0m: \x1b[32mFake\u200bAnsi77\x1b[0m done, \\u5bc6\\u7801\\uff1aFakeJs55."
    first, second = redact(text).found
    assert text[first.start : first.end] == "Fake\u200bAnsi77"
    assert text[second.start : second.end] == "FakeJs55"
    assert redact_text(text).endswith("[REDACTED:password]\x1b[0m done, \\u5bc6\\u7801\\uff1a[REDACTED:password].")


def test_many_messages_are_redacted_as_each_alone() -> None:
    messages = [user(form["text"]) for form in FORMS]
    assert redact_messages(messages) == [redact_messages([message])[0] for message in messages]


def test_a_record_of_redacted_messages_knows_no_part_of_a_secret() -> None:
    record = StateRecord.of(redact_messages([user("the root password is Tr0ub4dor_fake_77, keep it")]))
    known = repr((record.exchanges, record.rules, record.facts))
    assert "Tr0ub4dor" not in known and "fake" not in known


@every_case("target", [1_500, 4_000, 9_000])
def test_no_secret_nor_a_piece_of_one_is_in_a_handoff(target: int) -> None:
    messages = [user("Set the servers up as I say.")]
    for number, form in enumerate(FORMS):
        text = form["text"]
        messages += [
            user(f"Request {number}: take down\n{text}"),
            assistant(
                f"I note:\n{text}", [call("terminal", {"command": f"echo step_{number}\n{text}"}, id=f"c{number}")]
            ),
            tool(f"c{number}", f"step_{number} says\n{text}\nexit 0"),
        ]
    result = compress([*messages, assistant("Done."), user("What is left?")], target_tokens=target)
    assert result.summary
    pieces = {secret[:8] for form in FORMS for secret in form["secrets"] if len(secret) >= 8}
    assert not [piece for piece in pieces if piece in result.summary]
