"""The example that ships with Clew is what the README promises: long, whole, and with everything in it."""

from __future__ import annotations

import json
from pathlib import Path

from clew.importers import read_transcript
from clew.messages import calls_of, repair, text_of

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "session.json"


def test_the_example_session_is_a_valid_conversation_of_a_few_hundred_messages() -> None:
    found = read_transcript(EXAMPLE)
    assert (found.kind, found.dialect, found.model) == ("json", "openai_chat", "gpt-5.1")
    assert 300 <= len(found.messages) <= 400
    assert {tool["function"]["name"] for tool in found.tools} == {
        called["function"]["name"] for message in found.messages for called in calls_of(message)
    }
    assert repair(found.messages, open_end=True).repairs == ()
    assert found.notices == ()


def test_the_example_session_has_failures_rules_and_an_unfinished_request() -> None:
    messages = read_transcript(EXAMPLE).messages
    results = [text_of(message) for message in messages if message["role"] == "tool"]
    asked = [text_of(message) for message in messages if message["role"] == "user"]
    for sign in (
        "[exit 1]",
        "timed out after 5 s",
        "CONFLICT (content)",
        "does not exist",
        "occurs 0 times",
        "omitted",
    ):
        assert any(sign in result for result in results), sign
    for rule in ("never touch anything under fixtures/golden/", "Forget the 5 tries", "Dezimalkomma", "never rewrite"):
        assert any(rule in words for words in asked), rule
    assert "tidepost replay" in asked[-1]
    assert messages[-1]["role"] == "tool"
    assert any(len(calls_of(message)) > 2 for message in messages)


def test_the_example_session_names_no_machine() -> None:
    text = EXAMPLE.read_text(encoding="utf-8")
    json.loads(text)
    for trace in ("/root", "/work", "/tmp/tmp", "site-packages", "venv"):
        assert trace not in text
