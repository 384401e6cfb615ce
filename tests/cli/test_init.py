"""`clew init` and `clew models key`: a model for who has none yet, and keys that need no environment."""

from __future__ import annotations

import asyncio
import io
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from clew.cli import main
from clew.cli.console import Console, console_for
from clew.cli.init import SetupPrompts, choose_model, found_keys, option_lines, setup_options
from clew.config import StoredKeys, clew_home
from clew.testing.upstream import Upstream

FAKE = "sk-fake-not-a-key"
Choose = Callable[..., tuple[bool, str, str]]


def console(home: Path, width: int = 80, **environ: str) -> tuple[Console, io.StringIO, io.StringIO]:
    out, err = io.StringIO(), io.StringIO()
    told = {"CLEW_HOME": str(home), "COLUMNS": str(width), "PATH": str(home), **environ}
    return console_for(out, err, told), out, err


@pytest.fixture
def choose(tmp_path: Path) -> Choose:
    """Answers the questions of the choice one after the other; an end of them is the person leaving."""

    def run(*answers: str, **environ: str) -> tuple[bool, str, str]:
        typed = list(answers)
        asked: list[str] = []

        def ask(question: str) -> str:
            asked.append(question)
            if not typed:
                raise EOFError
            return typed.pop(0)

        to, out, err = console(tmp_path, 80, **environ)
        done = choose_model(to, SetupPrompts(ask, ask))
        assert not typed, asked
        return done, out.getvalue(), err.getvalue()

    return run


def config(home: Path) -> str:
    path = home / "config.yaml"
    return path.read_text() if path.exists() else ""


def test_a_key_in_the_environment_is_the_first_choice(choose: Choose, tmp_path: Path) -> None:
    done, out, _ = choose("1", ANTHROPIC_API_KEY=FAKE)
    assert done
    assert "1  claude-sonnet-4-5 through anthropic" in out
    assert "key in ANTHROPIC_API_KEY" in out
    assert FAKE not in out
    assert config(tmp_path) == "model:\n  provider: anthropic\n  name: claude-sonnet-4-5\n"


def test_a_wrong_number_is_asked_again_and_enter_leaves(choose: Choose, tmp_path: Path) -> None:
    done, _, err = choose("9", "nine", "")
    assert not done
    assert "'9' is not a number from 1 to 3" in err
    assert config(tmp_path) == ""
    assert choose()[0] is False


def test_a_key_that_is_typed_is_stored_and_the_usual_model_taken(choose: Choose, tmp_path: Path) -> None:
    done, out, err = choose("2", "nobody", "openai", FAKE, "")
    assert done
    assert "provider 'nobody' is unknown" in err
    assert "the key for openai is stored" in err
    assert FAKE not in out + err
    assert StoredKeys(tmp_path).get("OPENAI_API_KEY") == FAKE
    assert "gpt-5 through openai" in out
    assert "1  gpt-5 through openai" in choose("")[1]


def test_a_server_at_an_address(choose: Choose, tmp_path: Path) -> None:
    assert choose("3", "http://127.0.0.1:8080/v1", "qwen3:8b")[0]
    assert "http://127.0.0.1:8080/v1" in config(tmp_path)
    assert "qwen3:8b" in config(tmp_path)


async def test_the_models_of_a_server_are_listed(choose: Choose, tmp_path: Path) -> None:
    async with Upstream(models=[{"id": "bell-1"}, {"id": "bell-2"}]) as upstream:
        _, out, _ = await asyncio.to_thread(choose, "3", upstream.base_url, "2")
    assert "2  bell-2" in out
    assert "name: bell-2" in config(tmp_path)


def test_a_model_file_on_this_machine_is_a_choice(choose: Choose, tmp_path: Path, gguf_file: Path) -> None:
    (tmp_path / "models").mkdir()
    shutil.copy(gguf_file, tmp_path / "models" / "small.gguf")
    done, out, _ = choose("1")
    assert done
    assert "small.gguf on this machine" in out
    assert config(tmp_path) == "model:\n  provider: local\n  name: small.gguf\n"


@pytest.fixture
def gguf_file(tmp_path: Path) -> Path:
    """The beginning of a model file: enough to be told as one."""
    file = tmp_path / "given.gguf"
    file.write_bytes(b"GGUF" + b"\3\0\0\0" + bytes(16))
    return file


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
@pytest.mark.parametrize(("answer", "chosen"), [("", "bubblewrap"), ("y", "bubblewrap"), ("n", "none")])
def test_the_sandbox_is_offered_once_where_it_runs(answer: str, chosen: str, choose: Choose, tmp_path: Path) -> None:
    there = {"PATH": os.environ["PATH"], "ANTHROPIC_API_KEY": FAKE}
    done, out, _ = choose("1", answer, **there)
    assert done and "sandbox" in out
    assert f"sandbox: {chosen}" in config(tmp_path)
    done, out, _ = choose("1", **there)
    assert done and "sandbox" not in out


@pytest.mark.parametrize("width", [30, 60, 100])
def test_the_choice_fits_the_screen(tmp_path: Path, width: int) -> None:
    to, _, _ = console(tmp_path, width, OPENROUTER_API_KEY=FAKE)
    lines = option_lines(setup_options(clew_home(to.environ), found_keys(to)), to)
    assert all(len(line) <= width for line in lines), lines


def test_init_with_a_model_asks_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environ = {"CLEW_HOME": str(tmp_path), "OPENAI_API_KEY": FAKE}
    assert main(["init", "--model", "gpt-5"], environ) == 0
    assert "gpt-5 through openai" in capsys.readouterr().out
    assert main(["init", "--model", "m", "--base-url", "http://127.0.0.1:9/v1"], environ) == 0
    assert "http://127.0.0.1:9/v1" in config(tmp_path)
    assert main(["init", "--provider", "openai"], environ) == 2


def test_init_without_anybody_there_tells_the_choice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environ = {"CLEW_HOME": str(tmp_path)}
    assert main(["init"], environ) == 1
    out, err = capsys.readouterr()
    assert "smollm2" in out and "clew init --model NAME" in err
    assert main(["init", "--json"], environ) == 0
    told = json.loads(capsys.readouterr().out)
    assert [option["kind"] for option in told["options"]] == ["fetch", "key", "address"]


def test_a_key_is_piped_in_shown_as_there_and_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environ = {"CLEW_HOME": str(tmp_path)}
    assert main(["models", "key", "openai", "--in", "file"], environ, io.StringIO(f"{FAKE}\n")) == 0
    assert StoredKeys(tmp_path).get("OPENAI_API_KEY") == FAKE
    assert main(["models", "show", "gpt-5"], environ) == 0
    out, err = capsys.readouterr()
    assert FAKE not in out + err
    assert main(["models", "key", "openai", "--remove"], environ) == 0
    assert main(["models", "key", "openai", "--remove"], environ) == 1
    assert main(["models", "key", "nobody"], environ) == 2
    assert main(["models", "key", "openai", "--in", "file"], environ, io.StringIO("\n")) == 2
