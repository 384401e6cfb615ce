"""Which file a local model's name means, and what is said when it means none or several."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from clew.config import ModelSettings
from clew.errors import InvalidArgument
from clew.providers import (
    LocalProvider,
    choose_local_model,
    chosen_local_model,
    is_local_model,
    local_model_file,
    local_models,
    provider_for,
    trained_window,
)

SMOL = "SmolLM2-135M-Instruct.Q4_1.gguf"


def text(words: str) -> bytes:
    return struct.pack("<Q", len(words)) + words.encode()


def gguf(window: int | None = 4_096) -> bytes:
    """The head of a model file: a name, a list of words, and the window where there is one."""
    pairs = [
        text("general.architecture") + struct.pack("<I", 8) + text("tiny"),
        text("general.tags") + struct.pack("<IIQ", 9, 8, 2) + text("one") + text("two"),
        text("tiny.flags") + struct.pack("<IIQ", 9, 7, 3) + b"\0\1\0",
        text("tiny.scale") + struct.pack("<If", 6, 0.5),
    ]
    if window is not None:
        pairs.append(text("tiny.context_length") + struct.pack("<II", 4, window))
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(pairs)) + b"".join(pairs)


def kept(home: Path, *names: str) -> None:
    (home / "models").mkdir(exist_ok=True)
    for name in names:
        (home / "models" / name).write_bytes(gguf())


def test_local_is_the_only_file_there_is(tmp_path: Path) -> None:
    kept(tmp_path, SMOL)
    for name in (None, "local", "LOCAL", "local:", f"local:{SMOL}", SMOL, "smollm2", "local:smollm2", "SmolLM2-135M"):
        assert local_model_file(name, tmp_path) == tmp_path / "models" / SMOL


def test_of_several_the_chosen_one_is_local_and_the_others_have_names(tmp_path: Path) -> None:
    kept(tmp_path, SMOL, "qwen-4b.gguf", "qwen-8b.gguf")
    with pytest.raises(InvalidArgument, match=r"qwen-4b\.gguf, qwen-8b\.gguf, .*clew models use"):
        local_model_file("local", tmp_path)
    choose_local_model("qwen-8b.gguf", tmp_path)
    assert chosen_local_model(tmp_path) == "qwen-8b.gguf"
    assert local_model_file("local", tmp_path).name == "qwen-8b.gguf"
    assert local_model_file("qwen-4b", tmp_path).name == "qwen-4b.gguf"
    with pytest.raises(InvalidArgument, match="give more of it"):
        local_model_file("qwen", tmp_path)


def test_a_chosen_file_that_is_gone_is_not_local_any_more(tmp_path: Path) -> None:
    kept(tmp_path, SMOL)
    choose_local_model("gone.gguf", tmp_path)
    assert local_model_file(None, tmp_path).name == SMOL


def test_a_path_is_a_path(tmp_path: Path) -> None:
    file = tmp_path / "elsewhere.gguf"
    file.write_bytes(gguf())
    assert local_model_file(str(file), tmp_path / "home") == file
    choose_local_model(str(file), tmp_path / "home")
    assert local_model_file("local", tmp_path / "home") == file


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (None, "clew models get smollm2"),
        ("smollm2", "clew models get smollm2. fetches it"),
        ("x", "there is none yet"),
        ("/nowhere/model.gguf", "no model file at /nowhere"),
    ],
)
def test_what_is_not_there_says_how_to_get_it(tmp_path: Path, name: str | None, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        local_model_file(name, tmp_path)


def test_parts_of_downloads_and_other_files_are_no_models(tmp_path: Path) -> None:
    kept(tmp_path, SMOL, ".half.gguf", ".half.gguf.part", "readme.txt")
    assert [model.name for model in local_models(tmp_path)] == [SMOL]
    assert local_models(tmp_path / "nowhere") == []


@pytest.mark.parametrize(
    ("settings", "is_local"),
    [
        ({"name": "local"}, True),
        ({"name": "local:smollm2"}, True),
        ({"name": "some.gguf"}, True),
        ({"provider": "local"}, True),
        ({"provider": "anthropic", "name": "local"}, True),  # `--model local` over a config for another model
        ({"provider": "ollama", "name": "local"}, False),  # a server on this machine may call a model so
        ({"base_url": "http://127.0.0.1:8080/v1", "name": "local"}, False),
        ({"name": "gpt-5"}, False),
        ({"name": "localize-1"}, False),
    ],
)
def test_local_means_a_file_unless_somebody_else_is_meant(settings: dict[str, Any], is_local: bool) -> None:
    model = ModelSettings(**settings)
    assert is_local_model(model.provider, model.base_url, model.name) is is_local


def test_settings_lead_to_the_file_under_the_home(tmp_path: Path) -> None:
    kept(tmp_path, SMOL)
    environ = {"CLEW_HOME": str(tmp_path), "CLEW_LOCAL_LOG": str(tmp_path / "log")}
    provider = provider_for(ModelSettings(name="local", provider="openai"), environ=environ)
    assert isinstance(provider, LocalProvider)
    assert (provider.file.name, provider.model) == (SMOL, SMOL.removesuffix(".gguf"))
    assert provider._options.log == tmp_path / "log"
    with pytest.raises(InvalidArgument, match="no local model is called 'x'; there are SmolLM2"):
        provider_for(ModelSettings(provider="local", name="x"), environ=environ)


def test_the_window_is_what_was_asked_for_but_no_more_than_the_model_has(tmp_path: Path) -> None:
    kept(tmp_path, SMOL)
    file = tmp_path / "models" / SMOL
    assert trained_window(file) == 4_096
    assert LocalProvider(file).context_length == 4_096
    assert LocalProvider(file, context_length=2_000).context_length == 2_000
    assert LocalProvider(file, context_length=9_000).context_length == 4_096
    # Limits that a server states are remembered by this: another window is another place.
    assert LocalProvider(file, context_length=2_000).base_url != LocalProvider(file).base_url


@pytest.mark.parametrize("cut", [0, 3, 4, 20, 40, 90, 140])
def test_a_file_that_is_cut_or_odd_says_nothing_of_its_window(tmp_path: Path, cut: int) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(gguf()[:cut])
    assert trained_window(file) is None
    file.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 2**63) + b"\xff" * 200)
    assert trained_window(file) is None
    file.write_bytes(gguf(window=None))
    assert trained_window(file) is None
