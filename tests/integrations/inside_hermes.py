"""The engine inside the real Hermes Agent, before a mock upstream."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clew.messages import text_of
from clew.store import SearchScope, open_store
from clew.testing import call
from clew.testing.upstream import Step, UpstreamAnswer, UpstreamFault
from tests.integrations.hermes_agents import (
    HANDOFF,
    SMALL_MODEL,
    SMALL_THRESHOLD,
    THRESHOLD,
    HermesHome,
    is_summary_request,
    moved_prefixes,
    question,
    talk,
)

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HermesHome]:
    made = HermesHome(tmp_path_factory.mktemp("hermes"))
    yield made
    made.close()


@pytest.fixture(autouse=True)
def fresh(home: HermesHome) -> None:
    """What one test told the upstream is no concern of the next."""
    home.answers, home.summaries = home.answer, UpstreamAnswer(HANDOFF)
    home.upstream.received.clear()
    home.said.clear()


def engine_of(agent: Any) -> Any:
    return agent.context_compressor


def folds(home: HermesHome, agent: Any) -> int:
    return int(engine_of(agent).compression_count)


async def stored(home: HermesHome, session: str) -> tuple[list[str], int]:
    """The texts of the whole history, and how many compactions it has."""
    async with open_store(home.folder / "clew" / "state.db") as store:
        view = await store.view(session)
        rows = await store.messages(session, 0, view.next_seq)
        return [text_of(row.message) for row in rows], len(await store.compactions(session))


def test_pip_install_and_two_keys_are_enough(home: HermesHome) -> None:
    agent = home.agent()
    assert engine_of(agent).name == "clew"
    assert engine_of(agent).threshold_tokens == THRESHOLD
    assert [tool["function"]["name"] for tool in agent.tools] == ["clew_recall"]
    assert engine_of(home.agent()) is not engine_of(agent)


def test_a_conversation_passes_the_threshold_twice_and_only_grows_between(home: HermesHome) -> None:
    agent = home.agent(model=SMALL_MODEL)
    history = talk(agent, None, range(26))
    assert folds(home, agent) == 2
    # Each fold moves the prefix once, and nothing else does.
    assert moved_prefixes(home.requests) == 2
    assert max(engine_of(agent).last_prompt_tokens, 1) < SMALL_THRESHOLD
    texts, compactions = asyncio.run(stored(home, engine_of(agent).get_status()["clew_session"]))
    assert compactions == 2
    assert texts[::2] == [question(number, 1_500) for number in range(26)]
    assert len(history) < len(texts)


def test_a_long_history_is_folded_before_the_first_call(home: HermesHome) -> None:
    history: list[dict[str, Any]] = []
    for number in range(30):
        history += [{"role": "user", "content": question(number, 1_500)}, {"role": "assistant", "content": "Noted."}]
    agent = home.agent(model=SMALL_MODEL)
    agent.run_conversation("Which port is next?", conversation_history=history)
    assert folds(home, agent) == 1
    (request,) = home.requests
    assert len(request.body["messages"]) < 30
    assert request.body["messages"][-1]["content"] == "Which port is next?"
    assert any("Preflight compression" in text for text in home.said)


def test_a_person_folds_with_a_focus(home: HermesHome) -> None:
    agent = home.agent()
    history = talk(agent, None, range(8))
    folded, _ = agent._compress_context(history, "", approx_tokens=None, focus_topic="port 3", force=True)
    assert len(folded) < len(history)
    assert "port 3" in str(home.summary_requests[-1].body["messages"])
    assert engine_of(agent)._last_compression_made_progress
    assert not engine_of(agent)._last_summary_fallback_used
    after = talk(agent, folded, [8])
    assert len(after) == len(folded) + 2


def test_nothing_to_fold_leaves_the_list_alone(home: HermesHome) -> None:
    agent = home.agent()
    history = talk(agent, None, [1], words=20)
    session = agent.session_id
    same, _ = agent._compress_context(history, "", approx_tokens=None, force=True)
    assert same == history
    assert agent.session_id == session
    assert not engine_of(agent)._last_compression_made_progress


def test_a_switch_to_a_smaller_window_folds_before_the_next_call(home: HermesHome) -> None:
    agent = home.agent()
    history = talk(agent, None, range(20))
    assert folds(home, agent) == 0
    assert SMALL_THRESHOLD < engine_of(agent).last_prompt_tokens < THRESHOLD
    agent.switch_model(SMALL_MODEL, "custom", api_key=agent.api_key, base_url=home.upstream.base_url)
    assert engine_of(agent).threshold_tokens == SMALL_THRESHOLD
    talk(agent, history, [20], words=20)
    assert folds(home, agent) == 1
    assert engine_of(agent).last_prompt_tokens < SMALL_THRESHOLD


def test_a_failing_summariser_loses_nothing_and_is_told(home: HermesHome) -> None:
    home.summaries = UpstreamFault(400, {"error": {"message": "this model writes no summaries"}})
    agent = home.agent(model=SMALL_MODEL)
    history = talk(agent, None, range(14))
    assert folds(home, agent) == 1
    engine = engine_of(agent)
    assert engine._last_summary_fallback_used
    assert not engine._last_compress_aborted
    assert any("Compression summary failed" in text and "built-in" in text for text in home.said)
    shown = "\n".join(str(message["content"]) for message in history)
    assert "/data/ports/p5.csv" in shown


def test_the_model_recalls_what_a_fold_left_out(home: HermesHome) -> None:
    agent = home.agent(model=SMALL_MODEL)
    history = talk(agent, None, range(14))
    assert folds(home, agent) == 1
    steps: list[Step] = [
        UpstreamAnswer(calls=(call("clew_recall", {"query": "depth 39595", "session": "this"}, id="c1"),)),
        UpstreamAnswer("Port 5."),
    ]
    home.answers = lambda request: home.summaries if is_summary_request(request) else steps.pop(0)
    done = agent.run_conversation("Which port has a depth of 39595 cm?", conversation_history=history)
    assert done["final_response"] == "Port 5."
    (result,) = [message for message in done["messages"] if message["role"] == "tool"][-1:]
    assert "/data/ports/p5.csv" in json.loads(result["content"])["result"]


def test_calls_that_wait_for_results_are_not_folded_apart(home: HermesHome) -> None:
    agent = home.agent(model=SMALL_MODEL)
    history = talk(agent, None, range(11))
    calls = iter(range(1_000))

    def answer(request: Any) -> Step:
        if is_summary_request(request):
            return home.summaries
        number = next(calls)
        if number < 8:
            asked = [call("clew_recall", {"open": f"m{number * 2}"}, id=f"c{number}{part}") for part in ("a", "b")]
            return UpstreamAnswer(calls=tuple(asked))
        return UpstreamAnswer("Done.")

    home.answers = answer
    agent.run_conversation("Open them all.", conversation_history=history)
    assert folds(home, agent) >= 1
    for request in home.requests:
        asked = [it["id"] for message in request.body["messages"] for it in message.get("tool_calls") or ()]
        answered = [it["tool_call_id"] for it in request.body["messages"] if it["role"] == "tool"]
        assert asked == answered


async def test_what_was_said_is_found_by_clew_itself(home: HermesHome) -> None:
    agent = home.agent()
    talk(agent, None, [777], words=20)
    async with open_store(home.folder / "clew" / "state.db") as store:
        found = await store.search("p777.csv", SearchScope(kinds=("message",)))
        session = await store.session(found.hits[0].session or "")
        used = await store.usage()
    assert session.source == "hermes"
    assert session.id == f"hermes-{agent.session_id}"
    assert used[0].usage.prompt_tokens > 0


def run_process(folder: Path, *words: str) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "hermes_agents.py"), str(folder), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")] or [done.stdout + done.stderr]
    result: dict[str, Any] = json.loads(line.removeprefix("RESULT "))
    return result


def test_a_conversation_goes_on_after_a_restart(tmp_path: Path) -> None:
    first = run_process(tmp_path, "14", "0")
    assert (first["engine"], first["status"]["compression_count"], first["moved"]) == ("clew", 1, 1)
    second = run_process(tmp_path, "14", "14", first["session"])
    assert second["resumed"] == first["messages"]
    assert second["status"]["compression_count"] == 2
    assert second["moved"] == 1

    async def whole() -> tuple[list[str], int, int]:
        async with open_store(tmp_path / "clew" / "state.db") as store:
            session = second["status"]["clew_session"]
            view = await store.view(session)
            rows = await store.messages(session, 0, view.next_seq)
            conversations = {it.conversation for it in await store.list_sessions(limit=1_000)}
            return [text_of(row.message) for row in rows], len(await store.compactions(session)), len(conversations)

    texts, compactions, conversations = asyncio.run(whole())
    assert texts[::2] == [question(number, 1_500) for number in range(28)]
    assert (compactions, conversations) == (2, 1)


@pytest.mark.parametrize("keys", ["plugins:\n  enabled: [clew]\n", "context:\n  engine: clew\n"])
def test_one_key_alone_leaves_the_built_in_engine(tmp_path: Path, keys: str) -> None:
    program = (
        "import sys; from pathlib import Path; from tests.integrations.hermes_agents import HermesHome; "
        f"home = HermesHome(Path({str(tmp_path)!r}), keys={keys!r}); "
        "print('ENGINE', home.agent().context_compressor.name); home.close()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert "ENGINE compressor" in done.stdout, done.stderr
