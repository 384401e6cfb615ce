"""Which model a chat talks to: the one that is named, whoever the config names for others."""

from __future__ import annotations

import asyncio
import io
from dataclasses import replace
from pathlib import Path

import pytest

from clew.cli.chat import ChatOptions, _config
from clew.cli.console import console_for
from clew.config import ModelSettings
from clew.errors import ClewError
from clew.store import NewSession, open_store


def chosen(
    home: Path,
    config: str,
    model: str | None,
    *flags: str,
    provider: str | None = None,
    base_url: str | None = None,
    was_with: str | None = None,
) -> tuple[ModelSettings, tuple[str, ...]]:
    """The settings of a chat, and its notices; `was_with`: it goes on with a session of that model."""
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(config)
    console = replace(console_for(io.StringIO(), io.StringIO(), {"CLEW_HOME": str(home)}), flags=flags)

    async def work() -> tuple[ModelSettings, tuple[str, ...]]:
        async with open_store(home / "state.db", flush="normal") as store:
            resume = (await store.start_session(NewSession(model=was_with))).id if was_with else None
            options = ChatOptions(model=model, provider=provider, base_url=base_url, resume=resume)
            loaded, session = await _config(options, console, store)
            assert session == resume
            return loaded.settings.model, tuple(loaded.notices)

    return asyncio.run(work())


CLAUDE = "model:\n  name: claude-sonnet-4-5\n  provider: anthropic\n  api_key_env: WORK_KEY\n"


@pytest.mark.parametrize(
    ("config", "model", "provider", "key"),
    [
        (CLAUDE, "gpt-5", "openai", None),
        (CLAUDE, "claude-haiku-4-5", "anthropic", "WORK_KEY"),
        (CLAUDE, None, "anthropic", "WORK_KEY"),
        ("model:\n  name: a.gguf\n  provider: local\n", "gpt-5", "openai", None),
        ("model:\n  name: llama-x\n  provider: groq\n", "llama-y", "groq", None),
        ("model:\n  name: a/b\n  base_url: http://127.0.0.1:9/v1\n", "c", None, None),
    ],
)
def test_a_model_is_served_by_whom_its_name_says(
    tmp_path: Path, config: str, model: str | None, provider: str | None, key: str | None
) -> None:
    settings, _ = chosen(tmp_path / "home", config, model)
    assert (settings.provider, settings.api_key_env) == (provider, key)
    assert settings.name == (model or "claude-sonnet-4-5")


def test_what_is_set_for_this_run_counts_most(tmp_path: Path) -> None:
    settings, _ = chosen(tmp_path / "home", CLAUDE, "gpt-5", "model.context_length=2048")
    assert (settings.name, settings.context_length) == ("gpt-5", 2_048)


def test_nobody_to_serve_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(ClewError, match="no provider of"):
        chosen(tmp_path / "home", "", "zanzibar-7")


def test_an_address_wins_over_a_configured_local_model(tmp_path: Path) -> None:
    local = "model:\n  name: a.gguf\n  provider: local\n  context_length: 2048\n"
    settings, _ = chosen(tmp_path / "home", local, "big-model", base_url="http://127.0.0.1:9/v1")
    assert (settings.name, settings.provider, settings.context_length) == ("big-model", None, None)
    assert settings.base_url == "http://127.0.0.1:9/v1"


def test_a_session_goes_on_with_its_own_model(tmp_path: Path) -> None:
    settings, notices = chosen(tmp_path / "home", CLAUDE, None, was_with="gpt-5")
    assert (settings.name, settings.provider, settings.api_key_env) == ("gpt-5", "openai", None)
    assert notices == ()
    settings, _ = chosen(tmp_path / "home", "", None, was_with="gpt-5")
    assert settings.name == "gpt-5"


def test_a_model_that_is_named_wins_over_the_sessions(tmp_path: Path) -> None:
    settings, _ = chosen(tmp_path / "home", CLAUDE, "claude-haiku-4-5", was_with="gpt-5")
    assert settings.name == "claude-haiku-4-5"


def test_an_address_serves_the_model_of_the_session(tmp_path: Path) -> None:
    address = "http://127.0.0.1:9/v1"
    settings, _ = chosen(tmp_path / "home", CLAUDE, None, base_url=address, was_with="zanzibar-7")
    assert (settings.name, settings.base_url) == ("zanzibar-7", address)


def test_the_model_of_a_session_that_nobody_serves_is_told(tmp_path: Path) -> None:
    local = "model:\n  name: a.gguf\n  provider: local\n"
    settings, notices = chosen(tmp_path / "home", local, None, was_with="zanzibar-7")
    assert settings.name == "a.gguf"
    assert notices == ("the session used zanzibar-7, of which no provider is known here; --model names another",)
