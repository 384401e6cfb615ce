"""The engine of Hermes without Hermes: what its host calls, in the order of its host."""

from __future__ import annotations

import asyncio
import copy
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from clew.integrations.held_conversation import compression_root
from clew.integrations.hermes import HermesContextEngine, SharedStore
from clew.messages import text_of
from clew.store import Session, Store, open_store

HANDOFF = "## Active task\nAnswer.\n\n## Goal\nTides.\n\n## Completed actions\n1. Read the tables.\n"
WINDOW, THRESHOLD = 64_000, 32_000
Summarizer = Callable[[str, Mapping[str, Any]], str]


def written(prompt: str, runtime: Mapping[str, Any]) -> str:
    assert runtime["model"] == "mock-model"
    return HANDOFF


def refuses(prompt: str, runtime: Mapping[str, Any]) -> str:
    raise PermissionError("401 no such key")


def exchange(number: int) -> list[dict[str, Any]]:
    asked = f"Question {number}: " + f"the table of port {number} is /data/ports/p{number}.csv; " * 150
    return [
        {"role": "user", "content": asked},
        {"role": "assistant", "content": f"Reply {number}.", "finish_reason": "stop"},
    ]


def exchanges(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [message for number in range(first, first + count) for message in exchange(number)]


def reread(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A list as Hermes' database gives it back."""
    return [{"role": it["role"], "content": it["content"].strip(), "timestamp": 1.0} for it in messages]


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[SharedStore]:
    made = SharedStore({"CLEW_HOME": str(tmp_path)})
    yield made
    made.close()


def started(shared: SharedStore, session: str = "h1", summarizer: Summarizer | None = written) -> HermesContextEngine:
    """An engine as Hermes has it when a conversation begins."""
    engine = copy.deepcopy(HermesContextEngine(shared, summarizer))
    engine.update_model("mock-model", WINDOW, base_url="http://127.0.0.1:1", api_key="", provider="custom")
    engine.on_session_start(session, hermes_home="/h", platform="cli", model="mock-model", context_length=WINDOW)
    return engine


def folded(engine: HermesContextEngine, messages: list[dict[str, Any]], **more: Any) -> list[dict[str, Any]]:
    """Fold, and tell the engine of it as Hermes does."""
    done = engine.compress(messages, current_tokens=40_000, **more)
    engine.on_session_end("h1", messages)
    engine.on_session_start("h2", boundary_reason="compression", old_session_id="h1")
    return done


def in_store(shared: SharedStore, work: Callable[[Store], Any]) -> Any:
    async def run() -> Any:
        async with open_store(Path(shared.environ["CLEW_HOME"]) / "state.db") as store:
            return await work(store)

    return asyncio.run(run())


async def sessions(store: Store) -> list[Session]:
    return await store.list_sessions(limit=100)


def texts_of(engine: HermesContextEngine, shared: SharedStore) -> list[str]:
    session = engine.get_status()["clew_session"]

    async def texts(store: Store) -> list[str]:
        return [text_of(row.message) for row in await store.messages(session, 0, 10_000)]

    found: list[str] = in_store(shared, texts)
    return found


def test_a_fold_gives_back_what_it_kept_without_the_marks_of_the_host(shared: SharedStore) -> None:
    engine, messages = started(shared), exchanges(14)
    for message in messages:
        message["_db_persisted"] = True
    done = folded(engine, messages)
    assert len(done) < len(messages)
    assert done[0] == {key: value for key, value in messages[0].items() if key != "_db_persisted"}
    assert done[-1]["finish_reason"] == "stop"
    assert not any("_db_persisted" in message for message in done)
    assert [bool(message.get("_compressed_summary")) for message in done].count(True) == 1
    assert engine._last_compression_made_progress
    assert (engine.compression_count, engine._last_summary_error) == (1, None)


def test_the_session_end_of_a_compaction_forgets_nothing(shared: SharedStore) -> None:
    engine, messages = started(shared), exchanges(14)
    held = folded(engine, messages)
    held += exchanges(14, first=14)
    folded(engine, held)
    assert engine.compression_count == 2
    assert texts_of(engine, shared) == [message["content"] for message in exchanges(28)]
    assert len({session.conversation for session in in_store(shared, sessions)}) == 1


def test_a_real_end_keeps_what_came_since(shared: SharedStore) -> None:
    engine, messages = started(shared), exchanges(3)
    engine.record(messages)
    messages += exchanges(2, first=3)
    engine.on_session_end("h1", messages)
    assert len(texts_of(engine, shared)) == 10


def test_a_restart_finds_the_conversation_again(tmp_path: Path) -> None:
    first = SharedStore({"CLEW_HOME": str(tmp_path)})
    engine = started(first)
    held = folded(engine, exchanges(14))
    first.close()
    rows: dict[str, Mapping[str, Any]] = {
        "h2": {"id": "h2", "parent_session_id": "h1"},
        "h1": {"id": "h1", "parent_session_id": None, "end_reason": "compression"},
    }

    class HostSessions:
        def get_session(self, session: str) -> Mapping[str, Any] | None:
            return rows.get(session)

    second = SharedStore({"CLEW_HOME": str(tmp_path)})
    again = HermesContextEngine(second, written)
    again.bind_session_state(session_db=HostSessions(), session_id="h2")
    again.update_model("mock-model", WINDOW)
    again.on_session_start("h2")
    again.record([*reread(held), *exchanges(1, first=14)])
    assert again.compression_count == 1
    assert texts_of(again, second) == [message["content"] for message in exchanges(15)]
    second.close()


def test_a_message_that_was_taken_back_is_a_branch(shared: SharedStore) -> None:
    engine = started(shared)
    held = folded(engine, exchanges(14))
    engine.record([*held, *exchanges(2, first=14)])
    engine.record([*held, *exchanges(1, first=20)])
    assert texts_of(engine, shared)[-2:] == [message["content"] for message in exchanges(1, first=20)]
    assert len(texts_of(engine, shared)) == 30
    assert sorted(session.kind for session in in_store(shared, sessions)) == ["branch", "continuation", "root"]


def test_another_list_altogether_is_kept_too(shared: SharedStore) -> None:
    engine = started(shared)
    folded(engine, exchanges(14))
    engine.record(exchanges(3, first=50))
    assert texts_of(engine, shared) == [message["content"] for message in exchanges(3, first=50)]


def test_nothing_to_fold_gives_the_very_list_back(shared: SharedStore) -> None:
    engine, messages = started(shared), exchanges(1)
    assert engine.compress(messages, force=True) is messages
    assert not engine._last_compression_made_progress
    assert not engine._last_compress_aborted


def test_a_model_that_fails_is_told_and_the_built_in_summariser_writes(shared: SharedStore) -> None:
    engine = started(shared, summarizer=refuses)
    done = folded(engine, exchanges(14))
    assert len(done) < 28
    assert engine._last_summary_fallback_used
    assert engine._last_summary_error is not None
    assert "401 no such key" in engine._last_summary_error
    assert "/data/ports/p5.csv" in "".join(message["content"] for message in done)


def test_without_a_model_nothing_has_failed(shared: SharedStore) -> None:
    engine = started(shared, summarizer=None)
    assert len(folded(engine, exchanges(14))) < 28
    assert (engine._last_summary_fallback_used, engine._last_summary_error) == (False, None)


def test_what_the_memory_of_the_host_says_stands_in_the_handoff(shared: SharedStore) -> None:
    done = folded(started(shared), exchanges(14), memory_context="The person sails a ketch.")
    (summary,) = [message["content"] for message in done if message.get("_compressed_summary")]
    assert "The person sails a ketch." in summary


def test_a_store_that_fails_drops_nothing_and_is_told(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"this is no database, but a text of some length" * 100)
    shared = SharedStore({"CLEW_HOME": str(tmp_path)})
    engine, messages = started(shared), exchanges(14)
    assert engine.compress(messages, current_tokens=40_000) is messages
    assert engine._last_compress_aborted
    assert engine._last_summary_error
    engine.record(messages)
    engine.update_from_response({"prompt_tokens": 10, "completion_tokens": 1})
    shared.close()


def test_usage_is_kept_with_the_session_also_where_it_came_first(shared: SharedStore) -> None:
    engine = started(shared)
    usage = {"prompt_tokens": 900, "completion_tokens": 20, "total_tokens": 920, "input_tokens": 100}
    engine.update_from_response({**usage, "output_tokens": 20, "cache_read_tokens": 800, "cache_write_tokens": 0})
    engine.record(exchanges(1))
    engine.update_from_response({**usage, "output_tokens": 20, "cache_read_tokens": 800, "cache_write_tokens": 0})
    (total,) = in_store(shared, lambda store: store.usage())
    assert (total.calls, total.usage.prompt_tokens, total.usage.cache_read_tokens) == (2, 1_800, 1_600)
    assert engine.last_prompt_tokens == 900


def test_the_real_size_of_a_request_beats_an_estimate(shared: SharedStore) -> None:
    engine = started(shared)
    assert engine.threshold_tokens == THRESHOLD
    assert not engine.should_defer_preflight_to_real_usage(20_000)
    engine.update_from_response({"prompt_tokens": 15_000, "completion_tokens": 1})
    # The estimate was 20,000 for what were 15,000: at 33,000 the request has about 28,000.
    assert engine.should_defer_preflight_to_real_usage(33_000)
    assert not engine.should_defer_preflight_to_real_usage(38_000)
    assert engine.should_compress(32_000)
    assert not engine.should_compress(31_999)


def test_right_after_a_fold_an_estimate_says_nothing_until_it_has_grown(shared: SharedStore) -> None:
    engine = started(shared)
    folded(engine, exchanges(14))
    # What Hermes sets itself once it has told of a fold.
    engine.last_compression_rough_tokens, engine.last_prompt_tokens = 33_000, -1
    engine.awaiting_real_usage_after_compression = True
    assert engine.should_defer_preflight_to_real_usage(34_000)
    assert not engine.should_defer_preflight_to_real_usage(60_000)
    assert engine.get_status()["last_prompt_tokens"] == 0
    engine.update_from_response({})
    assert not engine.awaiting_real_usage_after_compression


def test_another_model_has_another_threshold(shared: SharedStore) -> None:
    engine = started(shared)
    engine.update_model("mock-model", 200_000)
    assert (engine.context_length, engine.threshold_tokens) == (200_000, 100_000)


def test_new_begins_another_conversation(shared: SharedStore) -> None:
    engine = started(shared)
    engine.record(exchanges(2))
    engine.on_session_end("h1", exchanges(2))
    engine.on_session_reset()
    engine.on_session_start("h9", old_session_id="h1", platform="cli")
    engine.record(exchanges(1, first=5))
    assert engine.get_status()["clew_session"] == "hermes-h9"
    assert len(texts_of(engine, shared)) == 2


def test_the_tool_recalls_as_json_what_was_folded(shared: SharedStore) -> None:
    engine = started(shared)
    (schema,) = engine.get_tool_schemas()
    assert (schema["name"], schema["parameters"]["type"]) == ("clew_recall", "object")
    early = json.loads(engine.handle_tool_call("clew_recall", {"query": "port"}))
    assert "Nothing of this conversation" in early["error"]
    folded(engine, exchanges(14))
    found = json.loads(engine.handle_tool_call("clew_recall", {"query": "p5.csv"}, messages=[]))
    assert "/data/ports/p5.csv" in found["result"]
    assert "clew_recall(open=m12, session=ID)" in found["result"]
    opened = json.loads(engine.handle_tool_call("clew_recall", {"open": "m10"}))
    assert "Question 5" in opened["result"]
    assert "no tool" in json.loads(engine.handle_tool_call("other", {}))["error"]
    assert "names no message" in json.loads(engine.handle_tool_call("clew_recall", {"open": "x"}))["error"]


def test_engines_of_many_agents_share_one_store_from_their_threads(shared: SharedStore) -> None:
    engines = [started(shared, f"agent{number}") for number in range(6)]

    def work(engine: HermesContextEngine, first: int) -> None:
        held = engine.compress(exchanges(14, first), current_tokens=40_000)
        engine.record([*held, *exchanges(1, first + 14)])

    threads = [threading.Thread(target=work, args=(engine, 100 * at)) for at, engine in enumerate(engines)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for at, engine in enumerate(engines):
        assert texts_of(engine, shared) == [message["content"] for message in exchanges(15, 100 * at)]


def test_a_broken_config_leaves_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("compression:\n  threshold: lots\n")
    shared = SharedStore({"CLEW_HOME": str(tmp_path)})
    assert started(shared).threshold_tokens == THRESHOLD
    shared.close()


def test_the_first_session_of_a_chain_is_found_and_a_circle_ends() -> None:
    rows: dict[str, Mapping[str, Any]] = {
        "c": {"parent_session_id": "b"},
        "b": {"parent_session_id": "a", "end_reason": "compression"},
        "a": {"parent_session_id": "z", "end_reason": "compression"},
        "z": {"parent_session_id": None, "end_reason": "branched"},
        "x": {"parent_session_id": "y", "end_reason": "compression"},
        "y": {"parent_session_id": "x", "end_reason": "compression"},
    }
    assert compression_root(rows.get, "c") == "a"
    assert compression_root(rows.get, "x") in ("x", "y")
    assert compression_root(rows.get, "unknown") == "unknown"
