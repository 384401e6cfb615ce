"""Files that hold several sessions, files of plain messages read line by line, and folders of files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clew.errors import UnreadableTranscript
from clew.importers import open_sessions, read_transcript, session_files
from clew.messages import text_of


def as_jsonl(records: list[Any]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def read_all(raw: bytes) -> list[tuple[str, str, str | None, list[str]]]:
    with open_sessions(raw, name="it") as file:
        found = []
        for session in file.sessions:
            said = [text_of(entry.message) for entry in session.entries()]
            found.append((session.name, session.kind, session.metadata.session, said))
        return found


def user(words: str) -> dict[str, Any]:
    return {"role": "user", "content": words}


def test_each_line_of_an_export_is_a_session() -> None:
    exported = [
        {"id": "h1", "system_prompt": "s", "messages": [user("One.")]},
        {"id": "h2", "system_prompt": "s", "messages": [user("Two."), user("Three.")]},
    ]
    assert read_all(as_jsonl(exported)) == [
        ("it, line 1", "hermes", "h1", ["One."]),
        ("it, line 2", "hermes", "h2", ["Two.", "Three."]),
    ]


def test_each_line_with_messages_is_a_conversation_and_bad_lines_are_told() -> None:
    raw = as_jsonl([{"id": "a", "messages": [user("One.")]}, {"messages": [user("Two.")]}]) + b"{oops\n" + b'{"x": 1}\n'
    with open_sessions(raw, name="it") as file:
        found = [(session.kind, session.metadata.session, len(list(session.entries()))) for session in file.sessions]
        notices = file.notices.sentences()
    assert found == [("jsonl", "a", 1), ("jsonl", None, 1)]
    assert notices == ("broken lines were left out (line 3)", "lines that hold no conversation were left out (line 4)")


def test_one_session_is_one_session() -> None:
    assert read_all(json.dumps([user("One.")]).encode()) == [("it", "json", None, ["One."])]
    assert read_all(as_jsonl([user("One."), user("Two.")])) == [("it", "jsonl", None, ["One.", "Two."])]


def test_chat_messages_read_line_by_line_are_those_read_at_once() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    lines = [
        {"role": "system", "content": "You look."},
        user("Look."),
        {"role": "assistant", "content": None, "tool_calls": [call], "x_own": 1},
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "seen"}]},
    ]
    with open_sessions(as_jsonl(lines)) as file:
        [session] = file.sessions
        assert session.conversation is None
        assert tuple(entry.message for entry in session.entries()) == read_transcript(as_jsonl(lines)).messages


def test_other_dialects_are_read_whole() -> None:
    lines = [
        user("Look."),
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "n", "input": {}}]},
    ]
    with open_sessions(as_jsonl(lines)) as file:
        [session] = file.sessions
        assert [entry.message["role"] for entry in session.entries()] == ["user", "assistant"]
        assert session.conversation is not None


def test_a_bad_line_among_messages_is_refused_when_it_is_reached() -> None:
    raw = as_jsonl([user("One."), user("Two.")]) + b"{oops\n" + as_jsonl([user("Four.")])
    with open_sessions(raw, name="it") as file:
        [session] = file.sessions
        with pytest.raises(UnreadableTranscript, match="it: line 3"):
            list(session.entries())


@pytest.mark.parametrize(
    "first",
    [
        {"parentUuid": None, "type": "user", "uuid": "1", "message": {"role": "user", "content": "x"}},
        {"type": "session_meta", "payload": {}},
        {"type": "session", "cwd": "x"},
        {"role": "session_meta"},
        user("x"),
    ],
)
@pytest.mark.parametrize(
    "odd",
    [
        {"type": []},
        {"type": {}},
        {"type": "user", "uuid": [], "sessionId": [], "parentUuid": [], "attachment": {"type": []}},
        {"type": "assistant", "uuid": "2", "message": {"id": {}, "content": [{"type": []}]}},
        {"type": "response_item", "payload": {"type": [], "role": []}},
        {"type": "message", "message": {"role": [], "content": [{"type": {}}]}},
        {"role": [], "content": {}},
        {"role": "user", "content": [{"type": []}]},
        {"role": "assistant", "tool_calls": [{"type": [], "id": [], "function": []}]},
    ],
)
def test_a_type_that_is_no_text_is_no_trouble(first: dict[str, Any], odd: dict[str, Any]) -> None:
    for records in ([first, odd], [odd, first], [odd], [first, odd, first]):
        try:
            read_all(as_jsonl(records))
        except UnreadableTranscript as error:
            assert "it" in error.source


def test_in_a_folder_sessions_come_before_their_subagents_and_strangers_stay_out(tmp_path: Path) -> None:
    wanted = ["p/a.jsonl", "p/b.jsonl.gz", "q/state.db", "p/a/subagents/x.jsonl", "p/agent-1.jsonl"]
    others = ["p/a.txt", "p/node_modules/x.json", "p/._a.jsonl", "p/a/tool-results/1.json", "p/agent-1.meta.json"]
    for name in (*wanted, *others):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    found = [str(path.relative_to(tmp_path)) for path in session_files(tmp_path)]
    assert found[:3] == wanted[:3]
    assert sorted(found[3:]) == sorted(wanted[3:])


def test_of_an_opencode_storage_only_sessions_are_looked_at(tmp_path: Path) -> None:
    for name in ("session/p/ses_1.json", "message/ses_1/msg_1.json", "part/msg_1/prt_1.json"):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.touch()
    assert [path.name for path in session_files(tmp_path)] == ["ses_1.json"]
