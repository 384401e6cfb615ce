"""Plain files: lists, requests and JSONL in any dialect, and everything a crash or an editor does to them."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

from clew.errors import UnreadableTranscript
from clew.importers import ReadLimits, open_session, open_sessions, read_transcript
from clew.messages import text_of
from clew.testing import assistant, call, system, tool, user

HISTORY = [
    system("Be brief."),
    user("Which port does the daemon use?"),
    assistant(calls=[call("read_file", {"path": "daemon.toml"}, id="c1")]),
    tool("c1", "port = 7070"),
    assistant("Port 7070."),
]


def as_jsonl(records: list[Any]) -> bytes:
    return b"".join(json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records)


def unreadable(source: Any, **options: Any) -> str:
    with pytest.raises(UnreadableTranscript) as caught:
        read_transcript(source, **options)
    return str(caught.value)


def test_a_list_an_object_and_lines_give_the_same_messages() -> None:
    listed = read_transcript(json.dumps(HISTORY).encode())
    wrapped = read_transcript(json.dumps({"model": "gpt-5", "messages": HISTORY}, indent=2).encode())
    lined = read_transcript(as_jsonl(HISTORY))
    assert list(listed.messages) == list(wrapped.messages) == list(lined.messages) == HISTORY
    assert (listed.kind, wrapped.kind, lined.kind) == ("json", "json", "jsonl")
    assert (listed.model, wrapped.model) == (None, "gpt-5")


def test_tools_beside_the_messages_are_kept() -> None:
    tools = [{"type": "function", "function": {"name": "read_file", "parameters": {}}}]
    assert list(read_transcript(json.dumps({"messages": HISTORY, "tools": tools}).encode()).tools) == tools


def test_an_anthropic_request_is_read_in_its_own_dialect() -> None:
    request = {
        "model": "claude-x",
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": "Which port?"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "read_file", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "7070"}]},
        ],
    }
    found = read_transcript(json.dumps(request).encode())
    assert (found.dialect, found.model) == ("anthropic", "claude-x")
    assert [message["role"] for message in found.messages] == ["system", "user", "assistant", "tool"]
    assert found.conversation.write() == request


def test_gemini_contents_are_read_from_a_request_a_list_and_lines() -> None:
    contents = [
        {"role": "user", "parts": [{"text": "Which port?"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "read_file", "args": {}}}]},
        {"parts": [{"functionResponse": {"name": "read_file", "response": {"output": "7070"}}}]},
    ]
    system = {"parts": [{"text": "Be brief."}]}
    wrapped = {"model": "gemini-x", "request": {"contents": contents, "systemInstruction": system}}
    found = read_transcript(json.dumps(wrapped).encode())
    assert found.dialect == "gemini" and found.conversation.write() == wrapped["request"]
    assert [message["role"] for message in found.messages] == ["system", "user", "assistant", "tool"]
    for raw in (json.dumps(contents).encode(), as_jsonl(contents)):
        assert list(read_transcript(raw).messages) == list(found.messages[1:])
    with pytest.raises(UnreadableTranscript, match="system is of type int"):
        read_transcript(json.dumps({"contents": contents, "systemInstruction": 7}).encode())


def test_responses_items_are_read_from_a_request_and_from_lines() -> None:
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "Which port?"}]},
        {"type": "function_call", "call_id": "c1", "name": "read_file", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "7070"},
    ]
    found = read_transcript(json.dumps({"model": "gpt-5", "instructions": "Be brief.", "input": items}).encode())
    assert found.dialect == "responses"
    assert [message["role"] for message in found.messages] == ["system", "user", "assistant", "tool"]
    assert [message["role"] for message in read_transcript(as_jsonl(items)).messages] == ["user", "assistant", "tool"]
    assert text_of(read_transcript(b'{"model": "gpt-5", "input": "hi"}').messages[0]) == "hi"


def test_a_request_inside_a_request_log_is_found() -> None:
    logged = {"reason": "http 400", "request": {"url": "x", "body": {"model": "m", "messages": HISTORY}}}
    assert read_transcript(json.dumps(logged).encode()).model == "m"


def test_one_message_alone_is_a_file_of_one_line() -> None:
    assert [text_of(message) for message in read_transcript(b'{"role": "user", "content": "hi"}').messages] == ["hi"]


def test_an_empty_list_is_a_conversation_with_nothing_in_it() -> None:
    assert read_transcript(b"[]").messages == ()


def test_paths_streams_and_gzip_all_do(tmp_path: Path) -> None:
    raw = as_jsonl(HISTORY)
    path = tmp_path / "any.name"
    path.write_bytes(gzip.compress(raw))
    stream = io.BytesIO(raw)
    for source in (path, str(path), gzip.compress(raw[:40]) + gzip.compress(raw[40:]), stream):
        assert list(read_transcript(source).messages) == HISTORY
    assert not stream.closed


def test_a_pipe_is_read_though_it_cannot_be_rewound() -> None:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def seek(self, *_: int) -> int:
            raise OSError("a pipe")

    assert list(read_transcript(Pipe(as_jsonl(HISTORY))).messages) == HISTORY


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le"])
def test_byte_order_marks_of_windows_editors_are_understood(encoding: str) -> None:
    text = as_jsonl(HISTORY).decode().replace("\n", "\r\n")
    marked = ("\ufeff" if encoding == "utf-16-le" else "") + text
    assert list(read_transcript(marked.encode(encoding)).messages) == HISTORY


def test_blank_lines_and_carriage_returns_do_not_count() -> None:
    spaced = b"\r\n \r\n".join(as_jsonl(HISTORY).splitlines())
    assert list(read_transcript(spaced).messages) == HISTORY


def test_a_last_line_cut_by_a_crash_is_noticed_and_left_out() -> None:
    found = read_transcript(as_jsonl(HISTORY)[:-12])
    assert list(found.messages) == HISTORY[:-1]
    assert found.notices == ("the last line is cut off, as a crash leaves it, and was left out (line 5)",)


def test_a_cut_gzip_file_gives_what_it_holds_and_says_so() -> None:
    found = read_transcript(gzip.compress(as_jsonl(HISTORY * 500))[:-200])
    assert len(found.messages) > 1
    assert "the gzip file is cut off; its content up to there was read" in found.notices


def test_a_broken_line_in_the_middle_is_named_by_number() -> None:
    lines = as_jsonl(HISTORY).splitlines()
    lines[2] = b'{"role": "assistant", "content": '
    said = unreadable(b"\n".join(lines), name="talk.jsonl")
    assert said.startswith("talk.jsonl: line 3: expecting value at column ")
    assert "Correct or remove that line" in said


def test_nul_bytes_and_bytes_that_are_not_utf8_are_mended_and_noticed() -> None:
    raw = b'{"role": "user", "content": "caf\xe9"}\n\0\0\0\n{"role": "user", "content": "a\0b"}\n'
    found = read_transcript(raw)
    assert [text_of(message) for message in found.messages] == ["caf\ufffd", "ab"]
    assert len(found.notices) == 3


def test_half_a_surrogate_pair_becomes_a_replacement_character_and_a_whole_pair_stays() -> None:
    raw = rb'[{"role": "user", "content": "cut \ud83d, whole \ud83d\ude00", "\udc00": 1}]'
    found = read_transcript(raw)
    assert text_of(found.messages[0]) == "cut \ufffd, whole \U0001f600"
    json.dumps(found.messages, ensure_ascii=False).encode()
    assert found.notices == ("half a surrogate pair was replaced by U+FFFD (2 times)",)


def test_numbers_that_no_machine_holds_do_not_stop_the_reading() -> None:
    raw = b'[{"role": "user", "content": "x", "a": ' + b"9" * 5_000 + b', "b": 1e999, "c": NaN, "d": 12}]'
    message: dict[str, Any] = dict(read_transcript(raw).messages[0])
    assert message["a"] == "9" * 5_000
    assert (message["b"], message["c"], message["d"]) == ("1e999", None, 12)


@pytest.mark.parametrize("depth", [300, 100_000])
def test_deep_nesting_is_refused_by_name(depth: int) -> None:
    raw = b'[{"role": "user", "content": ' + b"[" * depth + b"]" * depth + b"}]"
    assert "JSON nested more than 200 levels deep" in unreadable(raw)


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"", "is empty"),
        (b" \n\0\n", "is empty"),
        (b"# Notes\n", "holds no JSON object or list: it starts with '# Notes"),
        (b"SQLite format 3\0rest", "is a database, not a transcript"),
        (b"<html>", "is HTML or XML, not a transcript"),
        (b'{"name": "clew"}', "is a JSON object without `messages` (it has 'name')"),
        (b'{"messages": [], "tools": true}', "tools is of type bool"),
        (b'{"messages": [], "system": 7}', "system is of type int"),
        (b'{"messages": "hi"}', "messages is of type str, not a list"),
        (b'{"messages": {}}', "messages is of type dict, not a list"),
        (b'[{"role": "user"}, 7]', "message 1: it is of type int"),
        (b'[{"text": "hi"}]', "message 0: it has no role"),
        (b'[{"role": "user"', "is no JSON: expecting ',' delimiter at column 17"),
        (b'{"role": "user", "content": "a"}\n7\n', "line 2: a JSON object was expected, not a number"),
        (b'{"messages": []}\n{"messages": []}\n', "line 1 is a whole conversation"),
        (b"\x1f\x8b\x08\x00garbage-garbage-garbage", "is damaged as a gzip file"),
    ],
)
def test_what_is_no_transcript_is_refused_with_the_reason(raw: bytes, problem: str) -> None:
    said = unreadable(raw, name="it")
    assert said.startswith(f"it: {problem}")
    assert len(said) > len(problem) + 20  # a remedy follows


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    assert "there is no such file" in unreadable(tmp_path / "gone.json")
    assert "is a folder" in unreadable(tmp_path)


def test_what_unpacks_to_too_much_is_stopped() -> None:
    bomb = gzip.compress(b"[" + b" " * 3_000_000 + b"]")
    assert "more than 1000000 bytes" in unreadable(bomb, limits=ReadLimits(value_bytes=1_000_000))
    lines = gzip.compress(as_jsonl(HISTORY) * 5_000)
    assert "more than 1,000 lines once unpacked" in unreadable(lines, limits=ReadLimits(lines=1_000))
    one_line = gzip.compress(json.dumps(HISTORY * 2_000).encode())
    found = unreadable(one_line, limits=ReadLimits(objects=1_000))
    assert "one JSON value with more than 1,000 objects" in found
    assert "more than 1000000 bytes once unpacked" in unreadable(lines, limits=ReadLimits(total_bytes=1_000_000))


def test_a_plain_file_can_be_read_message_by_message_too() -> None:
    with open_session(as_jsonl(HISTORY)) as session:
        assert [(entry.line, entry.message["role"]) for entry in session.entries()][-1] == (5, "assistant")


def test_ten_million_short_messages_in_a_small_file_are_refused_by_count_alone() -> None:
    """What is refused is never parsed: ten million would take minutes and gigabytes."""
    short = b'{"role":"user","content":"a"}'
    bomb = gzip.compress((short + b"\n") * 100_000) * 100
    assert len(bomb) < 2_000_000
    assert "more than 2,000,000 lines" in unreadable(bomb)
    with pytest.raises(UnreadableTranscript, match="more than 2,000,000 lines"), open_sessions(bomb) as file:
        next(file.sessions)
    array = gzip.compress(b"[") + gzip.compress((short + b",") * 100_000) * 100
    assert "more than 4,000,000 objects" in unreadable(array)


def test_a_message_with_parts_of_the_wrong_shape_is_read_without_them() -> None:
    """Found by `./check fuzz`."""
    odd: list[Any] = [1e30, 5, "x", {}, [{"type": "text", "text": "y"}]]
    messages = [{"info": {"role": "user"}, "parts": parts} for parts in odd]
    found = read_transcript(json.dumps({"info": {"id": "ses_1"}, "messages": messages}).encode())
    assert [text_of(message) for message in found.messages] == ["y"]
