"""The example session in every dialect has the same bytes as before, and is the same after a round trip.

After an intended change: CLEW_WRITE_GOLDENS=1 python -m pytest tests/messages/test_dialect_goldens.py
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from clew.importers import read_transcript
from clew.messages import DialectName, convert

GOLDEN = Path(__file__).parent / "golden" / "dialects.json"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "session.json"
DIALECTS: tuple[DialectName, ...] = ("openai_chat", "responses", "anthropic", "gemini")


def digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, ensure_ascii=False).encode()).hexdigest()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_example_has_the_stored_bytes_in_every_dialect_and_after_a_round_trip(dialect: DialectName) -> None:
    messages = read_transcript(EXAMPLE).messages
    written = convert(messages, dialect)
    found = {"written": digest(written), "read_again": digest(convert(written, "openai_chat"))}
    stored = json.loads(GOLDEN.read_text(encoding="utf-8")) if GOLDEN.exists() else {}
    if os.environ.get("CLEW_WRITE_GOLDENS"):
        stored[dialect] = found
        GOLDEN.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    assert found == stored[dialect]
