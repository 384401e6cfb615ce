"""The database of opencode 1.18: messages and parts as rows of JSON."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from clew.importers import SourceEntry, SourceMetadata, open_sessions, read_transcript
from clew.messages import text_of

TABLES = """
CREATE TABLE session (id TEXT PRIMARY KEY, parent_id TEXT, directory TEXT, title TEXT, revert TEXT,
    time_created INTEGER);
CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT);
CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
"""
TOKENS = {"total": 1022, "input": 702, "output": 20, "reasoning": 0, "cache": {"write": 0, "read": 300}}
RAN = {"type": "tool", "tool": "bash", "callID": "c1", "state": {"status": "completed", "input": {}, "output": "noon"}}


def message(role: str, *parts: dict[str, Any], **info: Any) -> dict[str, Any]:
    return {"info": {"role": role, "time": {"created": 1_760_000_000_000}, **info}, "parts": list(parts)}


def said(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def database(path: Path, sessions: dict[str, list[dict[str, Any]]], **columns: str) -> Path:
    connection = sqlite3.connect(path)
    connection.executescript(TABLES)
    for number, (session, messages) in enumerate(sessions.items()):
        row = {"id": session, "directory": "/p", "title": f"About {session}", "time_created": number, **columns}
        marks = ", ".join("?" * len(row))
        connection.execute(f"INSERT INTO session ({', '.join(row)}) VALUES ({marks})", list(row.values()))
        for place, each in enumerate(messages):
            key = f"msg_{session}_{place}"
            connection.execute(
                "INSERT INTO message VALUES (?, ?, ?, ?)", [key, session, place, json.dumps(each["info"])]
            )
            for index, part in enumerate(each["parts"]):
                values = [f"prt_{place}_{index}_{session}", key, session, index, json.dumps(part)]
                connection.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?)", values)
    connection.commit()
    connection.close()
    return path


CONVERSATION = [
    message("user", said("What time is it?")),
    message("assistant", {"type": "step-start"}, said("I look."), RAN, {"type": "step-finish", "tokens": TOKENS}),
    message("assistant", {"type": "step-start"}, said("Noon."), modelID="m1", tokens=TOKENS),
]


def read_all(path: Path) -> list[tuple[list[SourceEntry], SourceMetadata]]:
    with open_sessions(path) as file:
        return [(list(session.entries()), session.metadata) for session in file.sessions]


def test_the_database_gives_what_an_export_gives(tmp_path: Path) -> None:
    made = database(tmp_path / "opencode.db", {"ses_1": CONVERSATION})
    [(entries, metadata)] = read_all(made)
    exported = {"info": {"id": "ses_1", "title": "About ses_1", "directory": "/p"}, "messages": CONVERSATION}
    export = read_transcript(json.dumps(exported, indent=2).encode())
    assert tuple(entry.message for entry in entries) == export.messages
    assert [entry.usage for entry in entries] == [None, TOKENS, None, TOKENS]
    assert (metadata.session, metadata.title, metadata.directory, metadata.model) == (
        "ses_1",
        "About ses_1",
        "/p",
        "m1",
    )
    assert entries[0].timestamp == "1760000000000"


def test_an_export_over_many_lines_is_one_session(tmp_path: Path) -> None:
    exported = {"info": {"id": "ses_1"}, "messages": CONVERSATION}
    with open_sessions(json.dumps(exported, indent=2).encode()) as file:
        [session] = file.sessions
        assert (session.kind, len(list(session.entries()))) == ("opencode", 4)
        assert file.notices.sentences() == ()


def test_children_name_their_parent_and_reverted_messages_are_left_out(tmp_path: Path) -> None:
    revert = json.dumps({"messageID": "msg_ses_1_1"})
    made = database(tmp_path / "opencode.db", {"ses_1": CONVERSATION}, parent_id="ses_0", revert=revert)
    [(entries, metadata)] = read_all(made)
    assert [text_of(entry.message) for entry in entries] == ["What time is it?"]
    assert metadata.parent == "ses_0"
    assert metadata.notices.sentences() == ("2 messages that were reverted are left out",)


def test_rows_that_hold_no_json_cost_only_themselves(tmp_path: Path) -> None:
    made = database(tmp_path / "opencode.db", {"ses_1": CONVERSATION})
    connection = sqlite3.connect(made)
    connection.execute("UPDATE part SET data = '{oops' WHERE id LIKE 'prt_0%'")
    connection.execute("UPDATE message SET data = '[]' WHERE id LIKE '%_1'")
    connection.commit()
    connection.close()
    [(entries, metadata)] = read_all(made)
    assert [text_of(entry.message) for entry in entries][-1] == "Noon."
    assert len(metadata.notices.sentences()) == 1
