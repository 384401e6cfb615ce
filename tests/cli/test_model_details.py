"""`clew models show` and `clew models forget` as a person and as a program meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clew.cli import main
from clew.tokens import LearntLimits

KEY = "not-" + "a-real-" + "key"


def run(capsys: pytest.CaptureFixture[str], home: Path, *words: str, **environ: str) -> tuple[int, str, str]:
    code = main(["models", *words], {"CLEW_HOME": str(home), "COLUMNS": "110", **environ})
    out, err = capsys.readouterr()
    return code, out, err


def learn(home: Path, model: str, base_url: str | None, tokens: int) -> None:
    LearntLimits(home / "learnt_limits.json").remember(model, base_url, tokens)


def test_show_has_the_window_where_it_is_from_the_price_and_the_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, tmp_path, "show", "gpt-5", OPENAI_API_KEY=KEY)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "gpt-5 through openai, https://api.openai.com/v1",
        "  window  400,000 tokens, from the table that ships with Clew",
        "  output  128,000 tokens at most",
        "  price   $1.25 in, $10 out per million tokens",
        "  key     OPENAI_API_KEY, set",
    ]
    assert KEY not in out


def test_show_without_a_name_is_about_the_model_in_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, tmp_path, "show", CLEW_MODEL_NAME="claude-sonnet-4-5")
    assert code == 0
    assert out.startswith("claude-sonnet-4-5 through anthropic")
    assert "  key     ANTHROPIC_API_KEY, not set" in out
    code, _, err = run(capsys, tmp_path, "show")
    assert code == 2
    assert "no model is configured; `clew models use NAME` chooses one" in err


def test_show_tells_what_was_learnt_and_what_the_config_overrules(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    learn(tmp_path, "gpt-5", None, 16_000)
    _, out, _ = run(capsys, tmp_path, "show", "gpt-5")
    assert "  window  16,000 tokens, as the provider stated in an error" in out
    assert "  learnt  16,000 tokens; `clew models forget gpt-5` forgets it" in out
    environ = {"CLEW_MODEL_NAME": "gpt-5", "CLEW_MODEL_CONTEXT_LENGTH": "200000"}
    _, out, _ = run(capsys, tmp_path, "show", "gpt-5", **environ)
    assert "  window  200,000 tokens, from the config" in out
    assert "  learnt  16,000 tokens, overruled by the config; `clew models forget gpt-5` forgets it" in out


def test_show_for_programs_never_has_the_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learn(tmp_path, "gpt-5", "http://localhost:8000/v1", 9_000)
    code, out, _ = run(capsys, tmp_path, "show", "gpt-5", "--json", OPENAI_API_KEY=KEY)
    assert code == 0
    assert KEY not in out
    assert json.loads(out) == {
        "name": "gpt-5",
        "provider": "openai",
        "window": 400_000,
        "window_from": "table",
        "dollars_per_million": {"input": 1.25, "output": 10.0},
        "max_output": 128_000,
        "base_url": "https://api.openai.com/v1",
        "keys": [{"variable": "OPENAI_API_KEY", "set": True}],
        "key_in_config": False,
        "learnt": [{"address": "localhost:8000/v1", "tokens": 9_000}],
    }


def test_a_key_in_the_config_is_said_and_not_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.yaml").write_text(f"model:\n  name: gpt-5\n  api_key: {KEY}\n")
    (tmp_path / "config.yaml").chmod(0o600)
    _, out, _ = run(capsys, tmp_path, "show")
    assert "  key     model.api_key in the config; OPENAI_API_KEY, not set" in out
    assert KEY not in out


def test_an_address_is_shown_without_what_may_be_a_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    address = f"https://user:{KEY}@example.invalid/v1?key={KEY}"
    environ = {"CLEW_MODEL_NAME": "gpt-5", "CLEW_MODEL_BASE_URL": address}
    for flags in ((), ("--json",)):
        _, out, _ = run(capsys, tmp_path, "show", *flags, **environ)
        assert "https://example.invalid/v1" in out
        assert KEY not in out


def test_a_model_that_nobody_is_known_to_serve_is_shown_as_far_as_it_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, tmp_path, "show", "clod-sonnet-9")
    assert code == 0
    assert out.startswith("clod-sonnet-9, no known provider")
    assert "assumed, since no source states it" in out
    assert "--provider NAME" in err
    code, out, _ = run(capsys, tmp_path, "show", "clod-sonnet-9", "--provider", "groq")
    assert out.startswith("clod-sonnet-9 through groq")
    assert "GROQ_API_KEY, not set" in out


def test_forget_takes_out_what_was_learnt_at_every_address(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learn(tmp_path, "gpt-5", None, 16_000)
    learn(tmp_path, "gpt-5", "http://localhost:8000/v1", 9_000)
    learn(tmp_path, "other", None, 8_000)
    code, out, err = run(capsys, tmp_path, "forget", "GPT-5")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "forgotten: 16,000 tokens",
        "forgotten: 9,000 tokens at localhost:8000/v1",
        "gpt-5 through openai: window 400,000 tokens, from the table that ships with Clew; "
        "$1.25 in, $10 out per million tokens",
    ]
    assert LearntLimits(tmp_path / "learnt_limits.json").limit("other") == 8_000
    code, _, err = run(capsys, tmp_path, "forget", "gpt-5")
    assert code == 2
    assert "no learnt limit of 'gpt-5'; limits are known of: other" in err


def test_forget_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learn(tmp_path, "local-model", "http://localhost:8000/v1", 9_000)
    code, out, _ = run(capsys, tmp_path, "forget", "local-model", "--json")
    assert code == 0
    assert json.loads(out) == {
        "name": "local-model",
        "forgotten": [{"address": "localhost:8000/v1", "tokens": 9_000}],
        "window": 128_000,
        "window_from": "default",
    }


@pytest.mark.parametrize("verb", ["show", "forget"])
def test_help_says_what_it_does(tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    code, out, _ = run(capsys, tmp_path, verb, "--help")
    assert code == 0
    assert "--json" in out and "NAME" in out
