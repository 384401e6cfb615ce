"""Which model a chat talks to: the one that is named, whoever the config names for others."""

from __future__ import annotations

import argparse
import io
from pathlib import Path

import pytest

from clew.cli.commands.chat import _config
from clew.cli.console import console_for
from clew.config import ModelSettings
from clew.errors import ClewError


def chosen(home: Path, config: str, model: str | None, *flags: str, provider: str | None = None) -> ModelSettings:
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(config)
    console = console_for(io.StringIO(), io.StringIO(), {"CLEW_HOME": str(home)})
    arguments = argparse.Namespace(model=model, provider=provider, base_url=None, flags=list(flags))
    return _config(arguments, console).settings.model


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
    settings = chosen(tmp_path / "home", config, model)
    assert (settings.provider, settings.api_key_env) == (provider, key)
    assert settings.name == (model or "claude-sonnet-4-5")


def test_what_is_set_for_this_run_counts_most(tmp_path: Path) -> None:
    settings = chosen(tmp_path / "home", CLAUDE, "gpt-5", "model.context_length=2048")
    assert (settings.name, settings.context_length) == ("gpt-5", 2_048)


def test_nobody_to_serve_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(ClewError, match="nobody is known to serve"):
        chosen(tmp_path / "home", "", "zanzibar-7")
