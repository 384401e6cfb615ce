"""What is known of pointing programs at a gateway."""

from __future__ import annotations

import json
import tomllib

import pytest

from clew.config import ModelSettings
from clew.gateway import CLIENT_SETUPS, ServedModel, fill_in, find_program, served_model, setup_named, setups_for

ADDRESS = "http://127.0.0.1:8787"


@pytest.mark.parametrize(
    ("command", "name", "at"),
    [
        ("codex exec hello", "codex", 1),
        ("/opt/tools/claude -p hello", "claude", 1),
        ("npx -y @openai/codex@0.166.0 exec hello", "codex", 3),
        ("npx opencode-ai@latest run hello", "opencode", 2),
        ("uvx --from aider-chat aider", "aider", 3),
        ("GEMINI.exe -p hello", "gemini", 1),
        ("python agent.py", None, 1),
        ("npx", None, 1),
    ],
)
def test_a_program_is_known_by_its_name(command: str, name: str | None, at: int) -> None:
    setup, before = find_program(tuple(command.split()))
    assert (setup.name if setup else None, before) == (name, at)


def test_the_lines_for_each_program_name_the_address_once_filled_in() -> None:
    for setup in CLIENT_SETUPS:
        lines = fill_in(setup.lines, ADDRESS, ServedModel("qwen", 32_768))
        assert ADDRESS in lines and "$" not in lines
        if setup.where.endswith(".json"):
            assert "clew" in (json.loads(lines).get("provider") or json.loads(lines)["providers"])
        if setup.where.endswith(".toml"):
            assert tomllib.loads(lines)["model_providers"]["clew"]["base_url"] == f"{ADDRESS}/v1"


def test_the_lines_say_the_window_of_the_configured_model() -> None:
    opencode = setup_named("opencode")
    assert opencode is not None
    assert served_model(ModelSettings(context_length=32_768)).window == 32_768
    model = served_model(ModelSettings(name="qwen", context_length=32_768))
    limit = json.loads(fill_in(opencode.lines, ADDRESS, model))["provider"]["clew"]["models"]["qwen"]["limit"]
    assert limit == {"context": 32_768, "output": 4_096}


def test_a_program_that_keeps_a_fixed_part_of_its_window_free_is_told_a_large_one() -> None:
    pi = setup_named("pi")
    assert pi is not None
    models = json.loads(fill_in(pi.lines, ADDRESS, ServedModel("qwen", 16_384)))["providers"]["clew"]["models"]
    assert models[0]["contextWindow"] == 128_000


@pytest.mark.parametrize(
    ("upstream", "names"),
    [
        ("https://api.openai.com/v1", ["codex", "openai"]),
        ("https://api.anthropic.com", ["claude", "anthropic"]),
        ("https://generativelanguage.googleapis.com", ["gemini", "google-genai"]),
        ("http://127.0.0.1:8080/v1", ["opencode", "openai"]),
    ],
)
def test_the_first_lines_are_for_those_that_call_this_upstream(upstream: str, names: list[str]) -> None:
    assert [setup.name for setup in setups_for([upstream])] == names
