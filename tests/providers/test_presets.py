"""From settings to a provider, and where its key comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clew.config import AuxiliaryModelSettings, ModelSettings
from clew.errors import InvalidArgument
from clew.providers import (
    PROVIDER_PRESETS,
    AnthropicProvider,
    OpenAIChatProvider,
    Request,
    ResponsesProvider,
    preset_for,
    provider_for,
)
from clew.providers.wires.http_provider import ApiKey, HttpProvider
from clew.testing.messages import user
from clew.testing.upstream import Upstream, UpstreamAnswer

KEY = "not-" + "a-real-" + "key-9876543210"
ALL_KEYS = {known.key_env: f"{KEY}-{known.key_env}" for known in PROVIDER_PRESETS}


def made(environ: dict[str, str] | None = None, **fields: Any) -> Any:
    return provider_for(ModelSettings(**fields), environ=ALL_KEYS if environ is None else environ)


def key_of(provider: HttpProvider) -> str:
    return provider._key.reveal()


@pytest.mark.parametrize("known", PROVIDER_PRESETS, ids=lambda known: known.name)
def test_every_provider_in_the_table_can_be_made_by_its_names(known: Any) -> None:
    wires: dict[str, type[HttpProvider]] = {
        "openai_chat": OpenAIChatProvider,
        "responses": ResponsesProvider,
        "anthropic": AnthropicProvider,
    }
    for name in (known.name, known.name.upper(), *known.other_names):
        provider = made(provider=name, name="some-model")
        assert isinstance(provider, wires[known.wire])
        assert provider.name == known.name
        assert key_of(provider) == ALL_KEYS[known.key_env]
        assert provider.endpoint().startswith(known.base_url)


def test_names_in_the_table_are_unique() -> None:
    names = [name for known in PROVIDER_PRESETS for name in (known.name, *known.other_names)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("claude-opus-4-5", "anthropic"),
        ("gpt-5.1", "openai"),
        ("o3", "openai"),
        ("a/b", "openrouter"),
        ("kimi-k2", "moonshot"),
    ],
)
def test_the_name_of_the_model_tells_who_serves_it(model: str, provider: str) -> None:
    assert made(name=model).name == provider


def test_an_address_tells_who_serves_and_a_stranger_is_taken_to_speak_chat() -> None:
    assert made(name="x", base_url="https://api.deepseek.com/v1").name == "deepseek"
    stranger = made(name="x", base_url="https://models.example.org/api")
    assert type(stranger) is OpenAIChatProvider
    assert stranger.name == "models.example.org"
    assert stranger.endpoint() == "https://models.example.org/api/chat/completions"


def test_a_path_that_names_anthropic_speaks_its_wire() -> None:
    provider = made(name="x", base_url="https://api.deepseek.com/anthropic")
    assert type(provider) is AnthropicProvider
    assert provider.endpoint() == "https://api.deepseek.com/anthropic/v1/messages"


def test_the_usual_key_is_not_given_to_another_address() -> None:
    provider = made(name="gpt-5.1", provider="openai", base_url="https://proxy.example.org/v1")
    assert key_of(provider) == ""
    assert key_of(made(provider="openai", base_url="https://api.openai.com/v1", name="x")) == ALL_KEYS["OPENAI_API_KEY"]


def test_a_configured_key_comes_before_the_usual_one() -> None:
    assert key_of(made(name="gpt-5.1", api_key=KEY)) == KEY
    assert key_of(made({"MINE": KEY, "OPENAI_API_KEY": "other"}, name="gpt-5.1", api_key_env="MINE")) == KEY


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": "gpt-5.1"}, "OPENAI_API_KEY"),
        ({"name": "x", "provider": "nobody"}, "'nobody' is unknown"),
        ({"name": "unheard-of"}, "its provider"),
        ({"name": None}, "its provider"),
        ({"name": "/nowhere/model.gguf"}, "no model file"),
    ],
)
def test_what_cannot_be_made_says_what_to_do(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        made({}, **fields)


def test_an_auxiliary_endpoint_is_made_the_same_way() -> None:
    endpoint = AuxiliaryModelSettings(provider="groq", model="x")
    assert provider_for(endpoint, environ=ALL_KEYS).name == "groq"


def test_a_server_on_this_machine_needs_no_key() -> None:
    assert key_of(made({}, provider="ollama", name="x")) == ""


async def test_the_made_provider_asks_its_endpoint() -> None:
    async with Upstream(UpstreamAnswer("Hi")) as upstream:
        provider = made({}, name="x", base_url=upstream.base_url, api_key=KEY)
        assert (await provider.send(Request("x", [user("hello")]))).message["content"] == "Hi"
        await provider.close()
        assert upstream.received[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("address", ["ftp://a.example/v1", "a.example", "https://me:" + "pw@a.example/v1"])
def test_an_address_that_cannot_be_used_is_refused_without_its_password(address: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        OpenAIChatProvider(address)
    assert "pw" not in str(refused.value)


def test_a_query_in_the_address_is_kept() -> None:
    provider = OpenAIChatProvider("https://a.example/openai?api-version=1")
    assert provider.endpoint() == "https://a.example/openai/chat/completions?api-version=1"


def test_a_key_with_a_line_end_is_refused_without_being_shown() -> None:
    with pytest.raises(InvalidArgument) as refused:
        ApiKey(f"{KEY}\nx")
    assert KEY not in str(refused.value)
    assert ApiKey(f" {KEY}\n").reveal() == KEY
    assert KEY not in repr(ApiKey(KEY))


def test_preset_for_keeps_the_path_of_a_configured_address() -> None:
    assert preset_for("openai", "https://api.openai.com/v2", "x").base_url == "https://api.openai.com/v2"


def test_a_model_in_a_file_is_local(tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(b"nothing")
    assert made({}, name=str(file)).name == "local"
