"""Rollouts as Codex 0.166 writes them: a line for each call's usage, and an event behind the results of its calls."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clew.importers import Transcript, open_session, read_transcript
from clew.messages import calls_of, text_of


def line(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-03-01T10:00:00.000Z", "ordinal": 0, "type": kind, "payload": payload}


def said(role: str, words: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    passed = {"turn_id": "t", "content_item_kinds": ["user.text"]}
    content = [{"type": kind, "text": words}]
    return line(
        "response_item", type="message", role=role, content=content, internal_chat_message_metadata_passthrough=passed
    )


def called(name: str) -> dict[str, Any]:
    return line("response_item", type="function_call", name="exec_command", arguments='{"cmd": "date"}', call_id=name)


def answered(name: str) -> dict[str, Any]:
    return line("response_item", type="function_call_output", call_id=name, output="noon")


def tokens(count: int) -> dict[str, int]:
    return {"input_tokens": count, "cached_input_tokens": 4, "output_tokens": 2, "total_tokens": count + 2}


def recorded(count: int) -> dict[str, Any]:
    return line("token_usage_record", response_id="r", usage=tokens(count), turn_token_usage=tokens(999))


def counted(count: int) -> dict[str, Any]:
    return line("event_msg", type="token_count", info={"last_token_usage": tokens(count)})


START = [
    line("session_meta", id="th-1", session_id="th-1", cwd="/p", base_instructions={"text": "You code."}),
    line("world_state", full=True, state={"model": "gpt-5.1"}),
    line("turn_context", model="gpt-5.1"),
    said("user", "What time is it?"),
    line("event_msg", type="item_completed", item={"type": "UserMessage"}),
]


def read(*lines: dict[str, Any]) -> Transcript:
    return read_transcript(b"".join(json.dumps(each).encode() + b"\n" for each in lines))


def usage(found: Transcript) -> list[tuple[int, int]]:
    return [(index, report["input_tokens"]) for index, report in found.usage]


def test_every_call_gets_its_own_usage() -> None:
    rest = [called("c1"), recorded(10), answered("c1"), counted(10), said("assistant", "Noon."), recorded(20)]
    found = read(*START, *rest, counted(20))
    assert [message["role"] for message in found.messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert usage(found) == [(2, 10), (4, 20)]


def test_in_older_files_the_count_behind_the_results_belongs_to_the_reply_before_them() -> None:
    rest = [called("c1"), called("c2"), answered("c1"), answered("c2"), counted(10), counted(10)]
    found = read(*START, *rest, said("assistant", "Noon."), counted(20), counted(20))
    assert len(calls_of(found.messages[2])) == 2
    assert usage(found) == [(2, 10), (5, 20)]


def test_two_replies_in_a_row_stay_two() -> None:
    found = read(*START, said("assistant", "Wait."), recorded(10), said("assistant", "Noon."), recorded(20))
    assert [text_of(message) for message in found.messages[2:]] == ["Wait.", "Noon."]
    assert usage(found) == [(2, 10), (3, 20)]


def test_a_count_before_any_reply_belongs_to_nothing() -> None:
    found = read(*START, counted(5), said("assistant", "Noon."), counted(20))
    assert usage(found) == [(2, 20)]


def test_a_spawned_thread_names_its_parent() -> None:
    spawn = {"subagent": {"thread_spawn": {"parent_thread_id": "th-0", "depth": 1}}}
    lines = [line("session_meta", id="th-1", source=spawn), line("session_meta", id="th-0"), said("user", "Go.")]
    with open_session(b"".join(json.dumps(each).encode() + b"\n" for each in lines)) as session:
        assert len(list(session.entries())) == 1
        assert (session.metadata.session, session.metadata.parent) == ("th-1", "th-0")


@pytest.mark.parametrize("wrong", [[], {}, 5, None, True, [{"text": 5}]], ids=repr)
def test_a_text_that_is_no_text_breaks_nothing(wrong: Any) -> None:
    parts = [{"type": "input_text", "text": wrong}, {"type": "odd", "text": wrong}, {"type": wrong, "text": wrong}]
    for content in ([part] for part in parts):
        for role in ("user", "assistant"):
            odd = line("response_item", type="message", role=role, content=content)
            lines = [*START, odd, said("user", "Still there?")]
            found = read_transcript(b"\n".join(json.dumps(each).encode() for each in lines))
            assert text_of(found.messages[-1]) == "Still there?"
