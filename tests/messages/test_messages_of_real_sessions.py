"""Real sessions, where they lie beside the repository: read, repaired, cut, converted and brought back."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from clew.messages import calls_of, convert, read_conversation, repair, safe_cuts, text_of

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
CONVERSATIONS = sorted((SHARED / "conversations").glob("*.jsonl.gz"))
SESSION_FILES = sorted((SHARED / "session_files").glob("claude_code_*.jsonl.gz"))

needs_conversations = pytest.mark.skipif(not CONVERSATIONS, reason="no real conversations beside the repository")
needs_session_files = pytest.mark.skipif(not SESSION_FILES, reason="no real session files beside the repository")


def lines_of(path: Path) -> Iterator[Any]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            # Where words were blacked out before publishing, a line may no longer be JSON.
            with suppress(ValueError):
                yield json.loads(line)


def conversations() -> Iterator[Any]:
    """A few of each kind: all of them would take longer than they teach."""
    for path in CONVERSATIONS:
        for number, conversation in enumerate(lines_of(path)):
            if number < 8:
                yield conversation["messages"]


@needs_conversations
def test_every_real_history_can_be_repaired_at_once_and_cut_safely() -> None:
    for history in conversations():
        valid = repair(history).messages
        assert repair(valid).messages is valid
        for cut in safe_cuts(valid)[::50]:
            assert not repair(valid[cut:]).repairs


@needs_conversations
@pytest.mark.parametrize("way", ["anthropic", "responses"])
def test_every_real_history_goes_through_another_dialect_and_comes_back(way: Any) -> None:
    for history in conversations():
        valid = repair(history).messages
        other = convert(valid, way)
        if any(map(calls_of, valid)):  # plain talk looks the same in several dialects
            assert read_conversation(other).dialect == way
        conversation = read_conversation(other, dialect=way)
        assert json.dumps(conversation.write()) == json.dumps(other)
        back = convert(other, "openai_chat")["messages"]
        assert [call["id"] for message in back for call in calls_of(message)] == [
            call["id"] for message in valid for call in calls_of(message)
        ]
        said = [text_of(message) for message in valid if text_of(message).strip()]
        assert "".join("\n".join(said).split()) == "".join("\n".join(map(text_of, back)).split())


@needs_session_files
def test_messages_as_claude_code_wrote_them_leave_as_they_came() -> None:
    for path in SESSION_FILES:
        wire = [line["message"] for line in lines_of(path) if line.get("type") in ("user", "assistant")]
        conversation = read_conversation(wire, dialect="anthropic")
        assert json.dumps(conversation.write()) == json.dumps(wire)
        valid = repair(conversation.messages).messages
        roles = [item["role"] for item in convert(conversation, "openai_chat", messages=valid)["messages"]]
        assert set(roles) <= {"user", "assistant", "tool"}
