from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from clew.errors import ClewError
from clew.tokens import DEFAULT_WINDOW, LADDER, LearntLimits, Window, known_model, next_guess, window_of
from clew.tokens.families import normalize_model_name
from clew.tokens.windows import KNOWN_MODELS

ENDPOINT = {"data": [{"id": "gpt-4o", "context_length": 96_000}]}


def test_the_config_comes_first() -> None:
    assert window_of("gpt-4o", configured=50_000, stated=90_000, endpoint=ENDPOINT).tokens == 50_000
    assert window_of("gpt-4o", configured=50_000).source == "config"


def test_a_stated_limit_wins_over_a_larger_configured_one_with_a_notice() -> None:
    window = window_of("gpt-4o", configured=200_000, stated=90_000, endpoint=ENDPOINT)
    assert (window.tokens, window.source) == (90_000, "stated")
    assert window.notice is not None
    assert "90,000" in window.notice
    assert "200,000" in window.notice
    assert "gpt-4o" in window.notice


def test_then_what_a_provider_stated_then_the_endpoint_then_the_table_then_a_default() -> None:
    assert window_of("gpt-4o", stated=90_000, endpoint=ENDPOINT) == Window(90_000, "stated", 16_384)
    assert window_of("gpt-4o", endpoint=ENDPOINT) == Window(96_000, "endpoint", 16_384)
    assert window_of("gpt-4o") == Window(128_000, "table", 16_384)
    unknown = window_of("nobody-knows-me")
    assert (unknown.tokens, unknown.source) == (DEFAULT_WINDOW, "default")
    assert "nobody-knows-me" in (unknown.notice or "")


@pytest.mark.parametrize("configured", [0, -1])
def test_a_configured_window_of_nothing_is_none(configured: int) -> None:
    assert window_of("gpt-4o", configured=configured).source == "table"


@pytest.mark.parametrize("model", [None, "", "   "])
def test_no_model_has_the_default_window(model: str | None) -> None:
    assert window_of(model).tokens == DEFAULT_WINDOW


def test_remembered_limits_are_asked_for_the_model_and_the_address(tmp_path: Path) -> None:
    learnt = LearntLimits(tmp_path / "limits.json")
    learnt.remember("local-model", "http://localhost:8080/v1", 16_384)
    here = window_of("local-model", base_url="http://localhost:8080/v1/", learnt=learnt)
    assert (here.tokens, here.source) == (16_384, "stated")
    assert window_of("local-model", base_url="http://elsewhere/v1", learnt=learnt).source == "default"
    assert window_of("local-model", base_url="http://localhost:8080/v1", learnt=learnt, stated=8_192).tokens == 8_192


def test_a_configured_window_wins_over_what_an_earlier_run_learnt_with_a_notice(tmp_path: Path) -> None:
    learnt = LearntLimits(tmp_path / "limits.json")
    learnt.remember("gpt-4o", None, 16_000)
    window = window_of("gpt-4o", configured=200_000, learnt=learnt)
    assert (window.tokens, window.source) == (200_000, "config")
    assert window.notice == (
        "The provider of gpt-4o once stated a limit of 16,000 tokens; the configured 200,000 are used. "
        "`clew models forget gpt-4o` ends this notice."
    )
    assert window_of("gpt-4o", configured=10_000, learnt=learnt).notice is None
    # What is stated in this very run is no memory, and wins.
    assert window_of("gpt-4o", configured=200_000, learnt=learnt, stated=16_000).tokens == 16_000


def test_a_learnt_limit_is_forgotten_at_every_address_and_stays_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "limits.json"
    running = LearntLimits(path)
    running.remember("Some-Model", None, 16_000)
    running.remember("some-model", "http://localhost:8000/v1", 8_000)
    running.remember("other", None, 9_000)
    assert [(it.address, it.tokens) for it in LearntLimits(path).of_model("some-model")] == [
        ("-", 16_000),
        ("localhost:8000/v1", 8_000),
    ]
    assert [it.tokens for it in LearntLimits(path).forget("SOME-model")] == [16_000, 8_000]
    running.remember("third", None, 7_000)
    assert sorted(json.loads(path.read_text())["limits"]) == ["other @ -", "third @ -"]
    assert LearntLimits(path).forget("some-model") == []


def test_a_limit_that_cannot_be_forgotten_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    learnt = LearntLimits(tmp_path / "file" / "limits.json")
    learnt.remember("a", None, 10_000)
    with pytest.raises(ClewError, match="could not be written"):
        learnt.forget("a")
    assert learnt.limit("a") == 10_000


@pytest.mark.parametrize(
    ("model", "window", "max_output"),
    [
        ("claude-sonnet-4-5-20250929", 200_000, 64_000),
        ("anthropic/claude-opus-4.6", 1_000_000, 128_000),
        ("us.anthropic.claude-3-5-sonnet-20241022-v2:0", 200_000, 8_192),
        ("claude-sonnet-4-5[1m]", 1_000_000, 64_000),
        ("claude-something-new", 200_000, 64_000),
        ("gpt-4", 8_192, 8_192),
        ("gpt-4-0613", 8_192, 8_192),
        ("gpt-4-turbo-2024-04-09", 128_000, 4_096),
        ("gpt-4.1-nano", 1_047_576, 32_768),
        ("openai/gpt-5", 400_000, 128_000),
        ("gpt-5.4-mini", 400_000, 128_000),
        ("gemini-2.5-flash-preview-09-2025", 1_048_576, 65_536),
        ("deepseek-chat", 131_072, 8_192),
        ("llama3.1:8b", 131_072, None),
        ("meta-llama/Llama-3-8B", 8_192, None),
    ],
)
def test_the_table_knows_models_however_they_are_written(model: str, window: int, max_output: int | None) -> None:
    found = window_of(model)
    assert (found.tokens, found.source, found.max_output) == (window, "table", max_output)


def test_a_name_that_only_starts_alike_is_another_model() -> None:
    assert known_model("gpt-4ever") is None
    assert known_model("o30-mini") is None


def test_every_row_is_sensible_and_carries_its_source() -> None:
    assert len({row.name for row in KNOWN_MODELS}) == len(KNOWN_MODELS)
    for row in KNOWN_MODELS:
        assert row.name == normalize_model_name(row.name), row
        assert 1_000 < row.window <= 10_000_000, row
        assert row.max_output is None or 0 < row.max_output <= row.window, row
        assert row.source.endswith("2026-11"), row


def test_guesses_go_down_the_ladder_and_end() -> None:
    guesses, window = [], 1_000_000
    while (guess := next_guess(window)) is not None:
        guesses.append(guess)
        window = guess
    assert tuple(guesses) == LADDER
    assert next_guess(200_000) == 128_000
    assert next_guess(8_000) is None


@pytest.mark.parametrize(
    ("answer", "window", "max_output"),
    [
        ({"data": [{"id": "m", "max_model_len": 32_768}]}, 32_768, None),
        (
            {"data": [{"id": "x/m", "context_length": 131_072, "top_provider": {"max_completion_tokens": 16_384}}]},
            131_072,
            16_384,
        ),
        ({"data": [{"id": "m", "meta": {"n_ctx": 8_192, "n_ctx_train": 131_072}}]}, 8_192, None),
        ({"data": [{"id": "/models/some-file.gguf", "meta": {"n_ctx_train": 32_768}}]}, 32_768, None),
        ({"default_generation_settings": {"n_ctx": 4_096}}, 4_096, None),
        ({"data": [{"id": "m", "max_context_length": 65_536, "loaded_context_length": 12_288}]}, 12_288, None),
        (
            {
                "models": [
                    {
                        "key": "m",
                        "max_context_length": 65_536,
                        "loaded_instances": [{"id": "m", "config": {"context_length": 9_000}}],
                    }
                ]
            },
            9_000,
            None,
        ),
        ({"model_info": {"llama.context_length": 131_072}, "parameters": "stop x\nnum_ctx    16384"}, 16_384, None),
        ({"model_info": {"general.architecture": "llama", "llama.context_length": 131_072}}, 131_072, None),
        ({"id": "m", "max_input_tokens": 1_000_000, "max_tokens": 128_000}, 1_000_000, 128_000),
        (
            {"models": [{"name": "models/m", "inputTokenLimit": 1_048_576, "outputTokenLimit": 65_536}]},
            1_048_576,
            65_536,
        ),
        ({"data": [{"id": "m", "context_window": "131072", "max_completion_tokens": 8_192}]}, 131_072, 8_192),
        ({"data": [{"model_name": "m", "model_info": {"max_input_tokens": 200_000}}]}, 200_000, None),
        ({"data": [{"id": "m", "capabilities": {"limits": {"max_context_window_tokens": 64_000}}}]}, 64_000, None),
        ([{"id": "other", "context_length": 1_024}, {"id": "m", "context_length": 2_048}], 2_048, None),
    ],
)
def test_the_answers_of_real_servers_are_understood(answer: object, window: int, max_output: int | None) -> None:
    assert window_of("m", endpoint=answer) == Window(window, "endpoint", max_output)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "text",
        7,
        [],
        {},
        {"data": None},
        {"data": [None, 3]},
        {"data": [{"id": "a", "context_length": 5_000}, {"id": "b", "context_length": 6_000}]},
        {"data": [{"id": "m", "context_length": 0}]},
        {"data": [{"id": "m", "context_length": True}]},
        {"data": [{"id": "m", "context_length": "much"}]},
        {"data": [{"id": "m", "context_length": None, "meta": [1]}]},
    ],
)
def test_an_answer_that_says_nothing_is_passed_over(answer: object) -> None:
    assert window_of("m", endpoint=answer).source == "default"


def test_a_learnt_limit_is_on_disk_for_the_next_process_and_for_nobody_else(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "limits.json"
    assert LearntLimits(path).remember("Some-Model", "https://user:word@Example.org/v1/?key=1", 131_072)
    assert LearntLimits(path).limit("some-model", "https://example.org/v1") == 131_072
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "word" not in path.read_text()
    assert "key=1" not in path.read_text()
    assert [found.name for found in path.parent.iterdir()] == ["limits.json"]


def test_two_processes_do_not_forget_each_others_limits(tmp_path: Path) -> None:
    path = tmp_path / "limits.json"
    first, second = LearntLimits(path), LearntLimits(path)
    assert first.limit("a") is second.limit("b") is None
    first.remember("a", None, 10_000)
    second.remember("b", None, 20_000)
    assert [LearntLimits(path).limit(model) for model in "ab"] == [10_000, 20_000]


def test_a_new_limit_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    learnt = LearntLimits(tmp_path / "limits.json")
    learnt.remember("a", None, 10_000)
    learnt.remember("a", None, 12_000)
    assert LearntLimits(tmp_path / "limits.json").limit("a") == 12_000


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", '{"limits": 3}', '{"limits": {"a @ -": "many"}}', "\ud800", "[" * 9_000]
)
def test_a_broken_file_is_an_empty_one_and_is_replaced(tmp_path: Path, text: str) -> None:
    path = tmp_path / "limits.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    learnt = LearntLimits(path)
    assert learnt.limit("a") is None
    assert learnt.remember("a", None, 10_000)
    assert json.loads(path.read_text())["limits"] == {"a @ -": 10_000}


@pytest.mark.parametrize("limit", [0, -1, 12, True, 10**12])
def test_what_is_no_window_is_not_kept(tmp_path: Path, limit: int) -> None:
    learnt = LearntLimits(tmp_path / "limits.json")
    assert not learnt.remember("a", None, limit)
    assert learnt.limit("a") is None


def test_a_disk_that_refuses_costs_only_the_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    learnt = LearntLimits(tmp_path / "file" / "limits.json")
    assert not learnt.remember("a", None, 10_000)
    assert learnt.limit("a") == 10_000


@pytest.mark.parametrize("address", ["http://[broken", "host:notaport", "", None])
def test_an_address_that_is_none_does_no_harm(tmp_path: Path, address: str | None) -> None:
    learnt = LearntLimits(tmp_path / "limits.json")
    learnt.remember("a", address, 10_000)
    assert learnt.limit("a", address) == 10_000
