"""A provider that says "prompt too long": one notice, one compaction and one more request, on every wire."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from clew.cli.tui.exchange import ExchangeRecorder
from clew.events import Overflowed
from clew.providers import AnthropicProvider, OpenAIChatProvider, Provider, ResponsesProvider, RetryPolicy
from clew.testing.upstream import Upstream, UpstreamAnswer, UpstreamFault
from tests.support.summaries import RecordedSleep, handoff_text
from tests.tui.test_chat_by_keys import ENTER, chat_with

KEY = "not-" + "a-real-" + "key-0123456789"
LONG = "The importer reads one file after the other and writes what it found. " * 70
LIMIT = 8_000


def openai_fault(limit: int | None) -> UpstreamFault:
    stated = f" This model's maximum context length is {limit} tokens." if limit else ""
    told = f"Your input exceeds the context window of this model.{stated}"
    return UpstreamFault(
        400, {"error": {"message": told, "type": "invalid_request_error", "code": "context_length_exceeded"}}
    )


def anthropic_fault(limit: int | None) -> UpstreamFault:
    told = f"prompt is too long: 8400 tokens > {limit} maximum" if limit else "prompt is too long"
    return UpstreamFault(400, {"type": "error", "error": {"type": "invalid_request_error", "message": told}})


WIRES = [
    pytest.param(OpenAIChatProvider, openai_fault, id="chat"),
    pytest.param(ResponsesProvider, openai_fault, id="responses"),
    pytest.param(AnthropicProvider, anthropic_fault, id="anthropic"),
]


@pytest.mark.parametrize("limit", [LIMIT, None])
@pytest.mark.parametrize(("wire", "fault"), WIRES)
async def test_one_overflow_is_one_notice_one_compaction_and_one_retry(
    wire: Callable[..., Provider], fault: Callable[[int | None], UpstreamFault], limit: int | None, tmp_path: Path
) -> None:
    upstream = Upstream(*[UpstreamAnswer(f"Answer {at}. {LONG}") for at in range(6)], caches=True)
    upstream.then(fault(limit), UpstreamAnswer(handoff_text(goal="Import.")), UpstreamAnswer("It fits now."))
    async with upstream:
        provider = wire(upstream.base_url, api_key=KEY, name="mock", retry_policy=RetryPolicy(sleep=RecordedSleep()))
        async with chat_with(provider, tmp_path, window=64_000) as chat:
            for at in range(6):
                chat.type(f"Question {at}", ENTER)
                await chat.sees(f"Answer {at}.")
            before = len(chat.text)
            chat.type("And now?", ENTER)
            await chat.sees("It fits now.")
            await chat.leaves()
        await provider.close()
    told = " ".join(chat.text[before:].partition("It fits now.")[0].split())
    assert told.count("compacted ") == 1
    assert told.count("window") == 1
    assert told.count("too large") == 1
    expected = (
        "the request was too large for scripted-model: mock states a window of 8,000 tokens, not the configured 64,000"
        if limit
        else "the request was too large for scripted-model; mock states no window, "
    )
    assert expected in told
    # The six questions, the one that was refused, the summary and the retry.
    assert len(upstream.received) == 9


def test_a_script_is_told_of_an_overflow_once_too(capsys: pytest.CaptureFixture[str]) -> None:
    import sys

    from clew.cli.console import console_for

    recorder = ExchangeRecorder(console_for(sys.stdout, sys.stderr, {}), streams=True)
    recorder.on_event(Overflowed("s", 1, 8_000, "m-1", "mock", 8_000, None))
    assert recorder.warnings == ["the request was too large for m-1: mock states a window of 8,000 tokens"]
    assert capsys.readouterr().out.count('"event": "notice"') == 1
