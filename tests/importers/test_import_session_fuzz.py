"""Whatever lies in a file, importing it twice gives the store nothing new the second time, or one clear error."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clew.errors import InvalidMessage, UnreadableTranscript
from clew.importers import open_sessions
from clew.importers.import_session import ImportedSession, import_session
from clew.store import Store, open_store
from tests.support.strategies import History, histories

pytestmark = pytest.mark.slow

unhurried = settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])

WORDS = st.sampled_from(
    "user assistant tool text tool_use tool_result s1 gpt-5.1 2026-03-01T10:00:00Z \x00 /x".split(" ")
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)
USAGE = st.dictionaries(st.sampled_from(["input_tokens", "output_tokens", "total_tokens"]), VALUES, max_size=3)


@st.composite
def claude_lines(draw: st.DrawFn) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(["user", "assistant"]))
        message = {"role": kind, "content": draw(VALUES), "id": draw(VALUES), "model": draw(VALUES)}
        fields = {"timestamp": draw(VALUES), "sessionId": draw(VALUES), "isSidechain": draw(st.booleans())}
        parent = draw(st.sampled_from([f"u{number - 1}", "lost", None]))
        key = {"type": kind, "uuid": f"u{number}", "parentUuid": parent, "agentId": draw(VALUES)}
        lines.append({**key, **fields, "message": {**message, "usage": draw(USAGE)}})
    return lines


async def taken(store: Store, raw: bytes) -> list[ImportedSession]:
    try:
        with open_sessions(raw, name="it") as file:
            return [await import_session(store, session) for session in file.sessions]
    except (UnreadableTranscript, InvalidMessage):
        return []


def once(raw: bytes) -> list[ImportedSession]:
    """What the first import gave, after the second has given nothing."""

    async def run() -> list[ImportedSession]:
        async with open_store(":memory:") as store:
            first = await taken(store, raw)
            calls = await store.usage()
            assert sum(each.added for each in await taken(store, raw)) == 0
            assert await store.usage() == calls
            return first

    return asyncio.run(run())


@unhurried
@given(claude_lines())
def test_any_lines_of_a_session_file_are_taken_in_once(lines: list[dict[str, Any]]) -> None:
    once("\n".join(map(json.dumps, lines)).encode())


@unhurried
@given(histories())
def test_any_history_is_taken_in_once_and_whole(history: History) -> None:
    done = once("\n".join(map(json.dumps, history)).encode())
    spoken = [message for message in history if message["role"] != "system"]
    if done and spoken:
        assert done[0].added >= len(spoken)


@unhurried
@given(st.lists(VALUES, max_size=3))
def test_any_line_of_another_program_is_taken_in_once(values: list[Any]) -> None:
    items = [{"type": "response_item", "payload": value, "timestamp": value} for value in values]
    once("\n".join(map(json.dumps, [{"type": "session_meta", "payload": {"id": "x"}}, *items])).encode())
    once(json.dumps({"session_start": 1, "model": values, "title": values, "messages": values}).encode())
