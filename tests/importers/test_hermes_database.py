"""The database of Hermes: its sessions row by row, once each, whatever was compacted or taken back."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from clew.errors import UnreadableTranscript
from clew.importers import SourceEntry, SourceMetadata, open_sessions, read_transcript
from clew.messages import text_of

TABLES = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT, model TEXT, system_prompt TEXT, parent_session_id TEXT,
    started_at REAL, ended_at REAL, end_reason TEXT, input_tokens INTEGER, output_tokens INTEGER,
    cache_read_tokens INTEGER, cache_write_tokens INTEGER, reasoning_tokens INTEGER, cwd TEXT, title TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT, role TEXT, content TEXT,
    tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, timestamp REAL, reasoning TEXT, reasoning_content TEXT,
    reasoning_details TEXT, codex_reasoning_items TEXT, active INTEGER DEFAULT 1, compacted INTEGER DEFAULT 0);
"""
PER_MODEL = """
CREATE TABLE session_model_usage (session_id TEXT, model TEXT, input_tokens INTEGER, output_tokens INTEGER,
    cache_read_tokens INTEGER, cache_write_tokens INTEGER, reasoning_tokens INTEGER, last_seen REAL);
"""


class Database:
    """Writes rows as Hermes does."""

    def __init__(self, path: Path, *, per_model: bool = True) -> None:
        self.path = path
        self.connection = sqlite3.connect(path)
        self.connection.executescript(TABLES + (PER_MODEL if per_model else ""))

    def session(self, name: str, **columns: Any) -> None:
        self._insert("sessions", {"id": name, "source": "cli", "started_at": 1_760_000_000.0, **columns})

    def say(self, session: str, role: str, content: Any, at: float, **columns: Any) -> None:
        stored = content if isinstance(content, str | None) else "\x00json:" + json.dumps(content)
        row = {"session_id": session, "role": role, "content": stored, "timestamp": at, **columns}
        self._insert("messages", row)

    def used(self, session: str, model: str, *counts: int) -> None:
        names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
        row = {"session_id": session, "model": model, **dict(zip(names, counts, strict=True))}
        self._insert("session_model_usage", row)

    def close(self) -> Path:
        self.connection.commit()
        self.connection.close()
        return self.path

    def _insert(self, table: str, row: dict[str, Any]) -> None:
        marks = ", ".join("?" * len(row))
        self.connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", list(row.values()))


CALL = [{"id": "c1", "type": "function", "function": {"name": "terminal", "arguments": '{"command": "ls"}'}}]


def read_all(path: Path) -> list[tuple[list[SourceEntry], SourceMetadata]]:
    with open_sessions(path) as file:
        return [(list(session.entries()), session.metadata) for session in file.sessions]


def texts(entries: list[SourceEntry]) -> list[str]:
    return [text_of(entry.message) for entry in entries]


def test_every_session_is_read_with_what_the_database_tells_of_it(tmp_path: Path) -> None:
    made = Database(tmp_path / "state.db")
    made.session("a", model="m-1", system_prompt="You mend clocks.", title="Clocks", cwd="/shop")
    made.say("a", "user", "Mend it.", 1_760_000_001.5)
    made.say("a", "assistant", "Looking.", 1_760_000_002.5, tool_calls=json.dumps(CALL), reasoning="First look.")
    made.say("a", "tool", "a.txt", 1_760_000_003.5, tool_call_id="c1", tool_name="terminal")
    made.say("a", "user", [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": "u"}}], 4.0)
    made.used("a", "m-1", 100, 20, 300, 0, 5)
    made.session("b", started_at=1_760_000_100.0)
    made.say("b", "user", "Another.", 1_760_000_101.0)
    (first, metadata), (second, _) = read_all(made.close())
    assert texts(first) == ["Mend it.", "Looking.", "a.txt", "See"]
    assert first[1].message["tool_calls"] == CALL
    assert first[2].message == {"role": "tool", "content": "a.txt", "tool_call_id": "c1", "name": "terminal"}
    assert first[0].timestamp == "1760000001.5"
    assert (metadata.session, metadata.model, metadata.system) == ("a", "m-1", "You mend clocks.")
    assert (metadata.title, metadata.directory) == ("Clocks", "/shop")
    assert [(total.model, total.usage["cache_read_tokens"]) for total in metadata.usage] == [("m-1", 300)]
    assert texts(second) == ["Another."]


def test_a_compaction_in_place_gives_every_message_once_and_its_summary(tmp_path: Path) -> None:
    made = Database(tmp_path / "state.db")
    made.session("a")
    archived: dict[str, Any] = {"active": 0, "compacted": 1}
    made.say("a", "user", "Mend it.", 1.25, **archived)
    made.say("a", "assistant", None, 2.25, tool_calls=json.dumps(CALL), **archived)
    made.say("a", "tool", "a long listing", 3.25, tool_call_id="c1", **archived)
    made.say("a", "assistant", "Mended.", 4.25, **archived)
    # The copies keep their times; the result was cut.
    made.say("a", "user", "Mend it.", 1.25)
    made.say("a", "user", "What was done so far.", 5.25)
    made.say("a", "assistant", None, 2.25, tool_calls=json.dumps(CALL))
    made.say("a", "tool", "[cut]", 3.25, tool_call_id="c1")
    made.say("a", "user", "Mend it.", 6.25)
    [(entries, metadata)] = read_all(made.close())
    assert texts(entries) == ["Mend it.", "", "a long listing", "Mended.", "What was done so far.", "Mend it."]
    assert len(metadata.notices.sentences()) == 1


def test_each_summary_in_place_names_what_its_compaction_kept(tmp_path: Path) -> None:
    made = Database(tmp_path / "state.db")
    made.session("a")
    archived: dict[str, Any] = {"active": 0, "compacted": 1}
    opening = "[CONTEXT COMPACTION — REFERENCE ONLY]"
    merged = f"[PRIOR CONTEXT]\nCalling.\n\n[END OF PRIOR CONTEXT — COMPACTION SUMMARY BELOW]\n\n{opening} Second."
    for at, text in enumerate(("One.", "Two.", "Three.")):
        made.say("a", "user", text, float(at), **archived)
    # The first compaction keeps the first and the last message.
    made.say("a", "user", "One.", 0.0, **archived)
    made.say("a", "assistant", f"{opening} First.", 3.0, **archived)
    made.say("a", "user", "Three.", 2.0, **archived)
    made.say("a", "assistant", "Calling.", 4.0, tool_calls=json.dumps(CALL), **archived)
    made.say("a", "tool", "a.txt", 5.0, tool_call_id="c1", **archived)
    # The second one merges its summary into a call that it keeps.
    made.say("a", "user", "One.", 0.0)
    made.say("a", "assistant", merged, 4.0, tool_calls=json.dumps(CALL))
    made.say("a", "tool", "a.txt", 5.0, tool_call_id="c1")
    made.say("a", "user", "Four.", 6.0)
    [(entries, _)] = read_all(made.close())
    kept = [[text_of(message) for message in entry.kept] for entry in entries if entry.is_summary]
    assert kept == [["One.", "Three."], ["One.", "a.txt"]]
    said = [text for text in texts(entries) if "COMPACTION" not in text]
    assert said == ["One.", "Two.", "Three.", "Calling.", "a.txt", "Four."]
    assert sum(len(entry.message.get("tool_calls") or ()) for entry in entries) == 1


def test_what_the_user_took_back_is_left_out(tmp_path: Path) -> None:
    made = Database(tmp_path / "state.db")
    made.session("a")
    made.say("a", "user", "Break it.", 1.0, active=0)
    made.say("a", "user", "Mend it.", 2.0)
    [(entries, _)] = read_all(made.close())
    assert texts(entries) == ["Mend it."]


def test_children_are_continuations_or_subagents_of_their_parent(tmp_path: Path) -> None:
    made = Database(tmp_path / "state.db")
    made.session("a", ended_at=1_760_000_050.0, end_reason="compression")
    made.session("helper", parent_session_id="a", started_at=1_760_000_020.0)
    made.session("next", parent_session_id="a", started_at=1_760_000_051.0)
    for name in ("a", "helper", "next"):
        made.say(name, "user", name, 1.0)
    margins = [metadata for _, metadata in read_all(made.close())]
    assert [(metadata.parent, metadata.parent_relation) for metadata in margins[1:]] == [
        ("a", "subagent"),
        ("a", "branch"),
    ]


def test_an_older_schema_and_broken_fields_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    made = Database(tmp_path / "state.db", per_model=False)
    made.session("a", model="m-2", input_tokens=7, output_tokens=3)
    made.say("a", "assistant", "Looking.", 1.0, tool_calls="[{", reasoning_details="nonsense")
    made.connection.execute("UPDATE messages SET content = CAST(X'6869FF' AS TEXT)")
    [(entries, metadata)] = read_all(made.close())
    assert texts(entries) == ["hi\ufffd"]
    assert "tool_calls" not in entries[0].message
    assert [(total.model, total.usage["output_tokens"]) for total in metadata.usage] == [("m-2", 3)]
    assert any("no JSON" in notice for notice in metadata.notices.sentences())


def test_read_transcript_gives_the_newest_session(tmp_path: Path) -> None:
    made = Database(tmp_path / "state.db")
    made.session("a")
    made.say("a", "user", "Old.", 1.0)
    made.session("b", started_at=1_760_000_100.0)
    made.say("b", "user", "New.", 1.0)
    found = read_transcript(made.close())
    assert (found.kind, [text_of(message) for message in found.messages]) == ("hermes", ["New."])
    assert found.notices == ("the database holds 2 sessions; this is the newest",)


def test_another_database_and_a_damaged_one_are_refused_by_name(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "other.db")
    other.execute("CREATE TABLE messages (id INTEGER)")
    other.close()
    with pytest.raises(UnreadableTranscript, match="not one of Hermes"):
        read_all(tmp_path / "other.db")
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes((tmp_path / "other.db").read_bytes()[:1000].ljust(9000, b"x"))
    with pytest.raises(UnreadableTranscript, match=r"damaged\.db: "):
        read_all(damaged)
    empty = Database(tmp_path / "empty.db")
    with pytest.raises(UnreadableTranscript, match="without sessions"):
        read_transcript(empty.close())


def test_a_database_that_is_being_written_is_read(tmp_path: Path) -> None:
    made = Database(tmp_path / "state.db")
    made.connection.execute("PRAGMA journal_mode = WAL")
    made.session("a")
    made.say("a", "user", "Committed.", 1.0)
    made.connection.commit()
    made.say("a", "user", "Not yet.", 2.0)
    [(entries, _)] = read_all(made.path)
    assert texts(entries) == ["Committed."]
    made.close()
