"""`clew models` as a person and as a program meets it. No network but loopback, and no model is run."""

from __future__ import annotations

import asyncio
import json
import struct
from pathlib import Path
from typing import Any

import pytest

from clew.cli import main
from clew.testing.upstream import Upstream

SMOL = "SmolLM2-135M-Instruct.Q4_1.gguf"
KEY = "not-" + "a-real-" + "key"


def run(capsys: pytest.CaptureFixture[str], home: Path, *words: str, **environ: str) -> tuple[int, str, str]:
    code = main(["models", *words], {"CLEW_HOME": str(home), "COLUMNS": "110", **environ})
    out, err = capsys.readouterr()
    return code, out, err


def keep(home: Path, *names: str, window: int = 4_096) -> None:
    key = b"tiny.context_length"
    head = b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, len(key)) + key + struct.pack("<II", 4, window)
    (home / "models").mkdir(parents=True, exist_ok=True)
    for name in names:
        (home / "models" / name).write_bytes(head)


def config(home: Path) -> str:
    return (home / "config.yaml").read_text()


def test_list_with_nothing_there_says_how_to_begin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, tmp_path, "list")
    assert (code, err) == (0, "")
    assert "no model is configured; `clew models use NAME` chooses one" in out
    assert "none yet" in out
    assert "smollm2  98 MB" in out


def test_list_shows_the_model_in_use_with_its_window_where_that_is_from_and_its_price(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(tmp_path, SMOL)
    environ = {"CLEW_MODEL_NAME": "gpt-5", "CLEW_MODEL_CONTEXT_LENGTH": "50000"}
    _, out, _ = run(capsys, tmp_path, "list", **environ)
    assert "gpt-5 through openai: window 50,000 tokens, from the config; $1.25 in, $10 out per million tokens" in out
    assert SMOL in out and "window 4,096 tokens" in out
    assert "To be fetched" not in out
    (tmp_path / "learnt_limits.json").write_text('{"version": 1, "limits": {"gpt-5 @ -": 12345}}')
    _, out, _ = run(capsys, tmp_path, "list", **environ)
    assert "window 50,000 tokens, from the config" in out
    _, out, _ = run(capsys, tmp_path, "list", CLEW_MODEL_NAME="gpt-5")
    assert "window 12,345 tokens, as the provider stated in an error" in out


def test_list_for_programs_has_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(tmp_path, "a.gguf", "b.gguf")
    run(capsys, tmp_path, "use", "b.gguf")
    code, out, _ = run(capsys, tmp_path, "list", "--json")
    told = json.loads(out)
    assert code == 0
    assert told["in_use"] == {
        "name": "b.gguf",
        "provider": "local",
        "window": 4096,
        "window_from": "file",
        "dollars_per_million": {"input": 0.0, "output": 0.0},
    }
    assert [(model["name"], model["chosen"]) for model in told["local"]] == [("a.gguf", False), ("b.gguf", True)]
    assert told["fetchable"][0]["name"] == "smollm2"
    assert "remote" not in told


def test_a_configured_model_that_cannot_be_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, tmp_path, "list", CLEW_MODEL_PROVIDER="local")
    assert code == 0
    assert "there is no local model yet; `clew models get smollm2`" in out
    assert "no provider of" in run(capsys, tmp_path, "list", CLEW_MODEL_NAME="hm")[1]


async def test_a_provider_is_asked_for_its_models_with_windows_and_prices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models: list[dict[str, Any]] = [{"id": "gpt-5"}, {"id": "tiny", "max_model_len": 4096}, {"id": "strange\x1b[2J"}]
    async with Upstream(models=models) as upstream:
        environ = {"CLEW_MODEL_BASE_URL": upstream.base_url, "CLEW_MODEL_NAME": "tiny"}
        _, out, _ = await asyncio.to_thread(run, capsys, tmp_path, "list", "--remote", **environ)
        lines = {line.split()[0]: line for line in out.splitlines() if line.startswith("  ")}
        assert lines["gpt-5"].split()[1:] == ["400,000", "tokens", "$1.25", "in,", "$10", "out"]
        assert "4,096 tokens" in lines["tiny"]
        assert "\x1b" not in out and "window unknown" in lines["strange"]
        _, out, _ = await asyncio.to_thread(run, capsys, tmp_path, "list", "tin", "--json", **environ)
        assert [model["name"] for model in json.loads(out)["remote"]["models"]] == ["tiny"]


def test_a_provider_that_cannot_be_asked_fails_clearly_after_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, tmp_path, "list", "--provider", "anthropic")
    assert code == 1 and "On this machine" in out
    assert "anthropic could not list its models: no key for anthropic; set the environment variable" in err
    code, out, err = run(
        capsys, tmp_path, "list", "--remote", "--json", CLEW_MODEL_BASE_URL="http://127.0.0.1:1/v1", CLEW_MODEL_NAME="x"
    )
    assert code == 1
    assert "no server is running at http://127.0.0.1:1/v1. Start it" in json.loads(out)["remote"]["problem"]
    code, _, err = run(capsys, tmp_path, "list", "--provider", "nobody")
    assert code == 1 and "provider 'nobody' is unknown" in err


def test_get_takes_a_file_over_and_says_how_to_use_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(tmp_path / "elsewhere", "m.gguf")
    code, out, err = run(capsys, tmp_path, "get", str(tmp_path / "elsewhere" / "models" / "m.gguf"))
    assert code == 0
    assert str(tmp_path / "models" / "m.gguf") in out and "window 4,096 tokens" in out
    assert "`clew models use m` makes it the configured model" in err
    assert run(capsys, tmp_path, "get", "nobody")[0] == 2
    assert run(capsys, tmp_path, "get", "http://127.0.0.1:1/m2.gguf")[0] == 1


def test_use_writes_a_local_file_and_local_means_it_from_then_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(tmp_path, SMOL, "other.gguf")
    (tmp_path / "config.yaml").write_text("# mine\nmodel:\n  name: gpt-5\n  context_length: 9000\n")
    code, out, err = run(capsys, tmp_path, "use", "smollm2")
    assert (code, out) == (
        0,
        f"{SMOL} on this machine: window 4,096 tokens, as it is run here; model.context_length changes it; free\n",
    )
    assert "model.context_length = 9000 was removed: it belonged to the former model" in err
    assert config(tmp_path) == f"# mine\nmodel:\n  name: {SMOL}\n  provider: local\n"
    assert (tmp_path / "models" / "chosen").read_text() == f"{SMOL}\n"
    _, out, _ = run(capsys, tmp_path, "list", CLEW_MODEL_NAME="local", CLEW_MODEL_PROVIDER="openai")
    assert f"{SMOL} on this machine" in out


def test_use_of_a_path_keeps_the_whole_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep(tmp_path / "elsewhere", "m.gguf")
    file = tmp_path / "elsewhere" / "models" / "m.gguf"
    assert run(capsys, tmp_path, "use", str(file))[0] == 0
    assert str(file) in config(tmp_path)
    assert "m.gguf on this machine" in run(capsys, tmp_path, "list", CLEW_MODEL_NAME="local")[1]


def test_use_of_a_remote_model_finds_who_serves_it_and_says_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, tmp_path, "use", "claude-sonnet-4-5")
    assert code == 0
    assert "claude-sonnet-4-5 through anthropic: window 200,000 tokens, from the table" in out and "$3 in" in out
    assert "no key for anthropic; set the environment variable ANTHROPIC_API_KEY" in err
    assert run(capsys, tmp_path, "use", "gpt-5", OPENAI_API_KEY=KEY)[2] == ""
    assert config(tmp_path) == "model:\n  provider: openai\n  name: gpt-5\n"


def test_a_name_that_is_in_no_table_is_used_with_a_notice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, tmp_path, "use", "claude-sonet-4-5", ANTHROPIC_API_KEY=KEY)
    assert code == 0 and "not in the tables of Clew; did you mean claude-sonnet-4-5" in err
    assert "200,000 tokens is taken from models of its family" in err
    code, _, err = run(capsys, tmp_path, "use", "home-made-1", "--provider", "groq", GROQ_API_KEY=KEY)
    assert code == 0 and "a window of 128,000 tokens is assumed; `clew config set model.context_length N`" in err
    assert "provider: groq" in config(tmp_path)
    # Who serves it stays, where the name says nothing else.
    code, out, _ = run(capsys, tmp_path, "use", "qwen/qwen3-32b", GROQ_API_KEY=KEY)
    assert code == 0 and "through groq" in out


def test_a_name_that_nobody_serves_is_refused_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(capsys, tmp_path, "use", "hm-hm")
    assert code == 2 and "say its provider with --provider NAME" in err
    assert run(capsys, tmp_path, "use", "x", "--provider", "nobody")[0] == 2
    assert run(capsys, tmp_path, "use", "local")[0] == 2
    assert not (tmp_path / "config.yaml").exists()


def test_a_key_or_an_address_never_goes_over_to_another_provider(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = "model:\n  name: gpt-5\n  provider: openai\n  base_url: https://api.openai.com/v2\n  api_key_env: MINE\n"
    (tmp_path / "config.yaml").write_text(settings)
    code, _, err = run(capsys, tmp_path, "use", "claude-sonnet-4-5", "--provider", "anthropic", MINE=KEY)
    assert code == 0
    assert "model.base_url" in err and "model.api_key_env = MINE was removed" in err
    assert config(tmp_path) == "model:\n  name: claude-sonnet-4-5\n  provider: anthropic\n"
    (tmp_path / "config.yaml").write_text(f"model:\n  name: gpt-5\n  provider: openai\n  api_key: {KEY}\n")
    code, _, err = run(capsys, tmp_path, "use", "claude-sonnet-4-5")
    assert code == 2 and "would be sent to anthropic" in err and KEY not in err
    assert "gpt-5" in config(tmp_path)


def test_an_own_endpoint_stays_when_only_the_model_changes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.yaml").write_text("model:\n  base_url: http://127.0.0.1:8000/v1\n  name: one\n")
    code, out, _ = run(capsys, tmp_path, "use", "gpt-5")
    assert code == 0 and "gpt-5 through 127.0.0.1" in out
    assert config(tmp_path) == "model:\n  base_url: http://127.0.0.1:8000/v1\n  name: gpt-5\n"


def test_what_the_environment_overrules_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, err = run(capsys, tmp_path, "use", "gpt-5", CLEW_MODEL_NAME="o3", OPENAI_API_KEY=KEY)
    assert "CLEW_MODEL_NAME overrules the file" in err
    assert out.startswith("o3 through openai")


def test_a_model_at_an_address_is_chosen_without_a_question(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, tmp_path, "use", "qwen3:8b", "--base-url", "http://127.0.0.1:11434/v1")
    assert code == 0 and "qwen3:8b" in out
    assert config(tmp_path) == 'model:\n  base_url: "http://127.0.0.1:11434/v1"\n  name: "qwen3:8b"\n'
