"""What an engine has that only says how it compacts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from clew.config import CompressionSettings
from clew.engines import (
    Compaction,
    CompactionItem,
    ContextEngine,
    EngineSetup,
    Kept,
    Removed,
    SessionStart,
    Summarized,
    threshold_for,
)
from clew.errors import InvalidArgument
from clew.messages import Message
from clew.testing import assistant, system, user
from clew.tokens import count_tokens
from clew.usage import CanonicalUsage
from tests.support.engines import MemoryEngineHost

MESSAGES = [system("Be brief."), user("Count the boats. " * 50), assistant("Nine. " * 50), user("And the nets?")]


class Minimal(ContextEngine):
    """Removes everything but the system prompt and the newest message."""

    name = "minimal"

    async def compress(
        self,
        messages: Sequence[Message],
        current_tokens: int | None = None,
        focus_topic: str | None = None,
        force: bool = False,
    ) -> Compaction:
        last = len(messages) - 1
        items: list[CompactionItem] = [Kept(0), *(Removed(index) for index in range(1, last)), Kept(last)]
        return self.compaction(messages, items, current_tokens, state={"seen": len(messages)}, written_by="hand")


def test_only_compress_must_be_written() -> None:
    assert ContextEngine.__abstractmethods__ == {"compress"}
    assert Minimal().get_status().context_length == EngineSetup().context_length


def test_the_threshold_is_a_share_of_the_window_with_room_for_the_reply() -> None:
    assert Minimal(EngineSetup(200_000)).get_status().threshold_tokens == 100_000
    late = CompressionSettings(threshold=0.95)
    assert Minimal(EngineSetup(200_000, compression=late)).threshold_tokens == 184_000
    assert Minimal(EngineSetup(200_000, max_output=40_000, compression=late)).threshold_tokens == 158_000
    assert Minimal(EngineSetup(128_000, max_output=65_536)).threshold_tokens == 128_000 - 65_536 - 1_280
    assert threshold_for(2_000, 0.95, 40_000) == 500
    with pytest.raises(InvalidArgument, match="context_length=0 is no window"):
        threshold_for(0, 0.5)


def test_it_fires_by_the_last_real_prompt_and_not_where_compression_is_off() -> None:
    engine = Minimal(EngineSetup(1_000))
    assert engine.should_compress(500) and not engine.should_compress(499) and not engine.should_compress()
    engine.update_from_response(CanonicalUsage(input_tokens=100, cache_read_tokens=400, output_tokens=900))
    assert engine.should_compress() and engine.get_status().percent == 50
    engine.update_model("another", 10_000, 100)
    assert not engine.should_compress() and (engine.model, engine.max_output) == ("another", 100)
    off = EngineSetup(1_000, compression=CompressionSettings(enabled=False))
    assert not Minimal(off).should_compress(5_000)


def test_one_exchange_is_nothing_to_fold() -> None:
    engine = Minimal()
    assert not engine.has_content_to_compress(MESSAGES[:3])
    assert engine.has_content_to_compress(MESSAGES)


def test_a_compaction_is_counted_measured_and_given_the_next_state() -> None:
    engine = Minimal()
    engine.restore({"compactions": 3, "other": "kept"})
    done = asyncio.run(engine.compress(MESSAGES, 5_000))
    freed = count_tokens(MESSAGES) - count_tokens(done.messages)
    assert (done.tokens_before, done.tokens_after, done.written_by) == (5_000, 5_000 - freed, "hand")
    assert done.state == {"compactions": 4, "other": "kept", "seen": 4}
    assert engine.state == {"compactions": 3, "other": "kept"}
    engine.restore(done.state)
    assert engine.get_status().compactions == 4


def test_what_is_not_smaller_changes_nothing() -> None:
    engine = Minimal()
    larger: list[CompactionItem] = [Kept(0), Summarized(user("word " * 500), (1, 2), "word"), Kept(3)]
    done = engine.compaction(MESSAGES, larger, 900)
    assert not done.changed and done.state is None and (done.tokens_before, done.tokens_after) == (900, 900)
    told = engine.unchanged(MESSAGES, None, "why")
    assert told.warnings == ("why",) and told.messages is MESSAGES and told.tokens_before > 0


def test_a_session_brings_state_and_host_and_another_conversation_forgets_them() -> None:
    engine, host = Minimal(), MemoryEngineHost(MESSAGES)
    engine.on_session_start(SessionStart("a", state={"compactions": 2}, host=host))
    engine.on_session_start(SessionStart("b", continues="a"))
    assert engine.state == {"compactions": 2} and engine.host is host and engine.session_id == "b"
    engine.update_from_response(CanonicalUsage(input_tokens=100))
    engine.on_session_start(SessionStart("c"))
    assert engine.state == {} and engine.last_prompt_tokens == 0 and engine.get_status().compactions == 0
    assert engine.host is None


def test_a_count_that_makes_no_sense_is_none() -> None:
    engine = Minimal()
    engine.restore({"compactions": "many"})
    assert engine.get_status().compactions == 0


async def test_a_host_in_memory_gives_rows_and_records() -> None:
    host = MemoryEngineHost(MESSAGES)
    assert await host.rows(1, 3) == MESSAGES[1:3]
    await host.put_records({"a": {"text": "x"}, "b": 2})
    assert await host.records() == {"a": {"text": "x"}, "b": 2}
    assert await host.records(["b", "unknown"]) == {"b": 2}
