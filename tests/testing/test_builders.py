"""The builders give messages as providers send them, and the same history for the same seed; the door has its names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import clew.testing
from clew.messages import calls_of, text_of
from clew.testing import assistant, call, system, tool, user
from tests.support.history import synthetic_history


def test_each_builder_gives_one_plain_message() -> None:
    assert system("be brief") == {"role": "system", "content": "be brief"}
    assert user("hello") == {"role": "user", "content": "hello"}
    assert tool("call_7", "ok") == {"role": "tool", "tool_call_id": "call_7", "content": "ok"}
    assert tool("call_7", "no", is_error=True)["is_error"] is True


def test_an_assistant_with_calls_and_no_text_has_no_content() -> None:
    message = assistant(calls=[call("read_file", {"path": "a.py"}, id="c1")])
    assert message["content"] is None
    [made] = calls_of(message)
    assert made["id"] == "c1"
    assert json.loads(made["function"]["arguments"]) == {"path": "a.py"}
    assert "tool_calls" not in assistant("done")


def test_arguments_given_as_text_stay_as_they_are() -> None:
    assert call("terminal", '{"broken')["function"]["arguments"] == '{"broken'


def test_a_synthetic_history_is_rounds_of_three_with_matching_ids() -> None:
    history = synthetic_history(messages=300)
    assert [message["role"] for message in history[:6]] == ["user", "assistant", "tool"] * 2
    for asked, answered in zip(history[1::3], history[2::3], strict=True):
        assert calls_of(asked)[0]["id"] == answered["tool_call_id"]
        assert isinstance(json.loads(calls_of(asked)[0]["function"]["arguments"]), dict)


def test_synthetic_results_have_2_to_8_kilobytes_and_all_differ() -> None:
    results = [text_of(message) for message in synthetic_history(messages=1_500)[2::3]]
    assert all(2_000 <= len(text) <= 8_000 for text in results)
    assert len(set(results)) == len(results)


def test_a_synthetic_history_weighs_about_2350_bytes_a_message() -> None:
    history = synthetic_history(messages=3_000)
    size = len(json.dumps(history, ensure_ascii=False).encode())
    assert 2_150 <= size / len(history) <= 2_550


def test_a_synthetic_history_has_exactly_as_many_messages_as_asked_for() -> None:
    assert [len(synthetic_history(messages=count)) for count in (0, 1, 2, 3, 100)] == [0, 1, 2, 3, 100]


def test_another_seed_gives_another_history_and_the_same_seed_the_same() -> None:
    assert synthetic_history(messages=30, seed=1) == synthetic_history(messages=30, seed=1)
    assert synthetic_history(messages=30, seed=1) != synthetic_history(messages=30, seed=2)


def test_hash_seeds_do_not_change_a_synthetic_history() -> None:
    program = "from tests.support.history import synthetic_history as made; import json; print(json.dumps(made(60)))"
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).resolve().parents[2],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1


def test_everything_that_is_offered_can_be_had() -> None:
    assert all(getattr(clew.testing, name) is not None for name in clew.testing.__all__)


async def test_a_scripted_provider_counts_its_steps() -> None:
    provider = clew.testing.ScriptedProvider(clew.testing.says("done"))
    assert provider.steps_left == 1
