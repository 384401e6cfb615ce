"""Session files of Gemini CLI, in the shapes that its versions write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from clew.importers import Transcript, read_transcript
from clew.importers.import_session import import_session
from clew.importers.read import open_sessions
from clew.messages import calls_of, repair, text_of
from clew.store import open_store

HEADER = {"sessionId": "g1", "projectHash": "abc", "startTime": "2026-11-16T20:15:33.270Z", "kind": "main"}
CONTEXT = {"id": "c", "timestamp": "2026-11-16T20:15:33Z", "type": "user", "content": [{"text": "<session_context>"}]}


def user(name: str, text: str) -> dict[str, Any]:
    return {"id": name, "timestamp": "2026-11-16T20:16:00Z", "type": "user", "content": [{"text": text}]}


def reply(name: str, text: str, **more: Any) -> dict[str, Any]:
    tokens = {"input": 100, "output": 7, "cached": 30, "thoughts": 2, "tool": 0, "total": 109}
    about = {"id": name, "timestamp": "2026-11-16T20:17:00Z", "type": "gemini", "model": "gemini-2.5-pro"}
    return {**about, "content": text, "thoughts": [], "tokens": tokens, **more}


def call(name: str, output: str, **more: Any) -> dict[str, Any]:
    response = {"functionResponse": {"id": name, "name": "read_file", "response": {"output": output}}}
    return {
        "id": name,
        "name": "read_file",
        "args": {"path": "a.txt"},
        "result": [response],
        "status": "success",
        **more,
    }


def transcript(*records: dict[str, Any]) -> Transcript:
    return read_transcript(b"".join(json.dumps(record).encode() + b"\n" for record in records))


def texts(found: Transcript) -> list[tuple[str, str]]:
    return [(message["role"], text_of(message)) for message in found.messages]


def test_calls_results_thoughts_and_usage_find_their_places() -> None:
    thoughts = [{"subject": "Reading", "description": "the file", "timestamp": "t"}]
    failed = call("t2", "", result=[{"functionResponse": {"response": {"error": "no such file"}}}], status="error")
    answer = reply("m2", "", thoughts=thoughts, toolCalls=[call("t1", "data"), failed])
    found = transcript(
        HEADER,
        {"$set": {"messages": [CONTEXT], "lastUpdated": "t"}},
        user("m1", "read it"),
        {"id": "n1", "type": "info", "content": "a note to the person"},
        answer,
        reply("m3", "It says data."),
    )
    assert (found.kind, found.model) == ("gemini_cli", "gemini-2.5-pro")
    assert texts(found) == [
        ("user", "<session_context>"),
        ("user", "read it"),
        ("assistant", ""),
        ("tool", "data"),
        ("tool", "no such file"),
        ("assistant", "It says data."),
    ]
    assert [each["id"] for each in calls_of(found.messages[2])] == ["t1", "t2"]
    assert found.messages[2]["reasoning"] == [{"type": "thinking", "thinking": "Reading the file"}]
    assert found.messages[4]["is_error"] is True
    assert found.usage[0][1]["promptTokenCount"] == 100
    assert repair(list(found.messages)).repairs == ()


def test_a_message_that_is_written_again_stands_once_and_in_its_place() -> None:
    grown = reply("m2", "Reading.", toolCalls=[call("t1", "data")])
    found = transcript(
        HEADER, user("m1", "go"), reply("m2", "Reading."), user("m3", "and?"), grown, reply("m4", "Done.")
    )
    assert [role for role, _ in texts(found)] == ["user", "assistant", "tool", "user", "assistant"]


def test_what_was_taken_back_is_left_out_and_counted() -> None:
    found = transcript(
        HEADER, user("m1", "one"), reply("m2", "first"), user("m3", "two"), {"$rewindTo": "m2"}, reply("m5", "second")
    )
    assert texts(found) == [("user", "one"), ("assistant", "second")]
    assert found.notices == ("2 messages that were taken back are left out",)
    assert texts(transcript(HEADER, user("m1", "one"), {"$rewindTo": "unknown"}, user("m2", "two"))) == [
        ("user", "two")
    ]


def test_an_older_document_is_read_too() -> None:
    document = {**HEADER, "messages": [user("m1", "one"), reply("m2", "first")], "summary": "Counting"}
    found = read_transcript(json.dumps(document, indent=2).encode())
    assert (found.kind, texts(found)) == ("gemini_cli", [("user", "one"), ("assistant", "first")])


def test_odd_values_break_nothing() -> None:
    found = transcript(
        HEADER,
        {"$set": 5},
        {"$set": {"messages": [7, {"id": 3}, {"id": "x", "type": "user", "content": None}]}},
        {"id": "m1", "type": "user", "content": "plain"},
        {"id": "m2", "type": "gemini", "content": None, "thoughts": 0, "toolCalls": ["no", {"id": 4, "result": 9}]},
        {"id": "m3", "type": "gemini", "content": ["a", {"text": "b"}], "tokens": []},
    )
    assert ("user", "plain") in texts(found)
    assert texts(found)[-1] == ("assistant", "a\nb")


async def test_a_session_that_grows_is_taken_in_once(tmp_path: Path) -> None:
    path = tmp_path / "session-1.jsonl"
    lines = [HEADER, user("m1", "one"), reply("m2", "first")]
    async with open_store(tmp_path / "state.db") as store:
        for more in ([], [user("m3", "two"), reply("m4", "second")]):
            lines += more
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
            with open_sessions(str(path)) as file:
                (session,) = file.sessions
                done = await import_session(store, session)
        assert (done.session, done.added, done.known, done.calls) == ("gemini-cli-g1", 2, 2, 1)
