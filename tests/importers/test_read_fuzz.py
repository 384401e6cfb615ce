"""Whatever lies in a file, reading it gives a transcript or one clear error, and never anything else."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clew.errors import UnreadableTranscript
from clew.importers import Transcript, read_transcript
from tests.support.strategies import History, histories

unhurried = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])

# The words that the readers look for, put together in every wrong way.
KEYS = st.sampled_from(
    "role type content message messages input uuid parentUuid sessionId isSidechain payload timestamp conversations "
    "from value info parts state tool callID id parentId summary tool_calls function name arguments tool_call_id "
    "system tools model attachment subtype session_start usage call_id output action request body time cwd".split()
)
WORDS = st.sampled_from(
    "user assistant tool toolResult system session_meta response_item event_msg turn_context compacted message "
    "session function_call function_call_output reasoning text tool_use tool_result image thinking queued_command "
    "bashExecution human gpt compaction token_count thread_rolled_back local_shell_call custom_tool_call ses_1".split()
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=15,
)
RECORDS = st.dictionaries(KEYS, VALUES, max_size=8)


def read_or_refuse(raw: bytes) -> Transcript | None:
    try:
        found = read_transcript(raw, name="it")
    except UnreadableTranscript as error:
        assert str(error).startswith("it: ")
        return None
    json.dumps(found.messages, ensure_ascii=False).encode()
    assert all(0 <= index < len(found.messages) for index, _ in found.usage)
    return found


@unhurried
@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    read_or_refuse(raw)
    read_or_refuse(gzip.compress(raw))


@unhurried
@given(VALUES)
def test_any_json_document_is_read_or_refused(value: Any) -> None:
    read_or_refuse(json.dumps(value).encode())
    read_or_refuse(json.dumps({"messages": value}, indent=1).encode())


@unhurried
@given(st.lists(RECORDS, min_size=1, max_size=6))
def test_any_lines_are_read_or_refused(records: list[Any]) -> None:
    read_or_refuse("\n".join(map(json.dumps, records)).encode())


@pytest.mark.parametrize(
    "wrap",
    [
        lambda value: {"type": "response_item", "payload": value},
        lambda value: {"type": "event_msg", "payload": value},
        lambda value: {"type": "user", "uuid": "u", "parentUuid": None, "message": value},
        lambda value: {"type": "assistant", "uuid": "v", "parentUuid": "u", "message": value},
        lambda value: {"type": "message", "message": value},
        lambda value: {"role": "session_meta", "tools": value, "model": value},
        lambda value: {"conversations": [value, {"from": "gpt", "value": value}]},
        lambda value: {"info": value, "messages": [{"info": {"role": "assistant"}, "parts": [value]}]},
        lambda value: {
            "info": {},
            "messages": [{"info": {"role": "assistant"}, "parts": [{"type": "tool", "state": value}]}],
        },
    ],
)
@settings(unhurried, max_examples=15)
@given(value=VALUES)
def test_any_value_inside_a_known_line_is_read_or_refused(wrap: Any, value: Any) -> None:
    read_or_refuse(json.dumps(wrap(value)).encode())
    read_or_refuse("\n".join(json.dumps(wrap(value)) for _ in range(2)).encode())


@unhurried
@given(histories())
def test_a_history_written_as_lines_comes_back_as_it_was(history: History) -> None:
    if history:
        found = read_transcript("\n".join(json.dumps(message) for message in history).encode())
        assert list(found.messages) == history


@unhurried
@given(histories(), st.integers(0, 400))
def test_a_file_cut_anywhere_keeps_every_whole_line(history: History, cut: int) -> None:
    raw = "".join(json.dumps(message) + "\n" for message in history).encode()
    kept = raw[: max(0, len(raw) - cut)]
    found = read_or_refuse(kept)
    whole = [json.loads(line) for line in kept.split(b"\n")[:-1]]
    if found is not None and whole:
        assert list(found.messages)[: len(whole)] == whole
