"""What can be seen of a gateway: metrics, health, and a line for each request, without a word of any message."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

import aiohttp
import pytest

from clew.events import CompactionFinished
from clew.gateway import (
    CallLimits,
    ExchangeLog,
    ExchangeRecord,
    GatewayLogFormatter,
    GatewayObserver,
    GatewayOptions,
    Observers,
)
from clew.gateway.observe import GatewayMetrics
from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import StreamedAnswer, Upstream, UpstreamAnswer, UpstreamFault, UpstreamRules
from clew.usage import CanonicalUsage
from tests.gateway.raw_http import PROVIDER_KEY, answering, ask_raw, make_caller
from tests.support.gateway import GatewayFlow, gateway_with

ROOT = Path(__file__).parents[2]
KEY = ("x-api-key", PROVIDER_KEY)
USAGE = CanonicalUsage(input_tokens=100, output_tokens=7, cache_read_tokens=50, cache_write_tokens=20)
RECORD = ExchangeRecord("messages", "answer", "Claude Code", "compact", "claude-x", 200, 1.5, 1_000, "s1", usage=USAGE)
PRIVATE = "words that nobody but the model may read"


async def figures(flow: GatewayFlow, *headers: tuple[str, str]) -> dict[str, float]:
    reply = await ask_raw(flow, "/metrics", *headers, method="GET")
    assert reply.status == 200 and reply.headers["content-type"].startswith("text/plain; version=")
    lines = [line for line in reply.body.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def body_of(text: str, **fields: Any) -> bytes:
    messages = [{"role": "user", "content": text}]
    return json.dumps({"model": GATEWAY_MODEL, "max_tokens": 9, "messages": messages, **fields}).encode()


# -- metrics -----------------------------------------------------------------------------------------------------------


async def test_requests_tokens_and_bytes_are_counted(tmp_path: Path) -> None:
    steps: list[UpstreamAnswer | UpstreamFault] = [
        UpstreamAnswer("hello", usage=USAGE),
        UpstreamFault(529, {"error": {"message": "overloaded"}}),
    ]
    async with gateway_with(Upstream(*steps), tmp_path) as flow:
        agent = ("User-Agent", "claude-cli/2.1.197")
        sent = body_of("hi")
        await ask_raw(flow, "/v1/messages", KEY, agent, body=sent)
        await ask_raw(flow, "/v1/messages", KEY, body=sent)
        await ask_raw(flow, "/nothing")
        await flow.wait_for_recordings()
        seen = await figures(flow)
        labels = 'action="answer",client="{}",mode="compact",status="{}",wire="messages"'
        assert seen[f"clew_gateway_requests_total{{{labels.format('Claude Code', 200)}}}"] == 1
        assert seen[f"clew_gateway_requests_total{{{labels.format('other', 529)}}}"] == 1
        assert seen['clew_gateway_upstream_errors_total{status="529"}'] == 1
        assert seen['clew_gateway_refusals_total{status="404"}'] == 1
        assert seen['clew_gateway_request_seconds_count{wire="messages"}'] == 2
        assert seen['clew_gateway_request_bytes_total{wire="messages"}'] == 2 * len(sent)
        assert seen["clew_gateway_response_bytes_total"] > 50
        tokens = {
            kind: seen[f'clew_gateway_tokens_total{{kind="{kind}"}}'] for kind in ("input", "output", "cache_read")
        }
        assert tokens == {"input": 100, "output": 7, "cache_read": 50}
        assert seen["clew_gateway_open_conversations"] >= 1 and seen["clew_gateway_requests_under_way"] == 1


async def test_folds_and_recovered_overflows_are_counted(tmp_path: Path) -> None:
    long = "many words of a question that goes on " * 60
    history: list[dict[str, str]] = []
    async with gateway_with(answering(), tmp_path) as flow:
        for number in range(14):
            history.append({"role": "user", "content": f"{number} {long}"})
            body = json.dumps({"model": GATEWAY_MODEL, "max_tokens": 9, "messages": history}).encode()
            assert (await ask_raw(flow, "/v1/messages", KEY, body=body)).status == 200
            history.append({"role": "assistant", "content": "ok"})
        await flow.wait_for_recordings()
        seen = await figures(flow)
        folds = [event for event in flow.events if isinstance(event, CompactionFinished) and event.continued_as]
        assert folds
        assert sum(value for name, value in seen.items() if name.startswith("clew_gateway_folds_total")) == len(folds)
        assert seen["clew_gateway_tokens_freed_total"] == sum(it.tokens_before - it.tokens_after for it in folds)


def test_nothing_that_a_client_writes_becomes_a_label() -> None:
    metrics = GatewayMetrics()
    for number in range(1_000):
        client, model = f"client {number}", f"model-{number}"
        metrics.exchange(ExchangeRecord("chat", "answer", client, "observe", model, 100 + number % 500, 0.1, 10))
        metrics.refused(300 + number, "chat")
    page = metrics.page().decode()
    assert "client 1" not in page and "model-" not in page
    assert page.count("\nclew_gateway_requests_total{") < 40


def test_a_recovered_overflow_a_fallback_and_a_cost_are_counted() -> None:
    metrics = GatewayMetrics()
    record = ExchangeRecord("chat", "answer", "", "spill", "m", 200, 0.1, 10, None, False, True, 2, None, 1_500_000)
    metrics.exchange(record)
    page = metrics.page().decode()
    for line in (
        "clew_gateway_recovered_overflows_total 2.0",
        "clew_gateway_fallbacks_total 1.0",
        "clew_gateway_cost_dollars_total 1.5",
    ):
        assert line in page


async def test_metrics_need_a_key_once_there_is_one_and_hold_no_secret(tmp_path: Path) -> None:
    async with gateway_with(answering(), tmp_path, environ={"CLEW_MODEL_API_KEY": PROVIDER_KEY}) as flow:
        await figures(flow)
        key = await make_caller(flow, "ann-the-owner")
        flow.server.callers._any = None  # as if two seconds had passed
        await ask_raw(flow, "/v1/messages", ("x-api-key", key), body=body_of(PRIVATE, model=PRIVATE))
        assert (await ask_raw(flow, "/metrics", method="GET")).status == 401
        shown = await ask_raw(flow, "/metrics", ("Authorization", f"Bearer {key}"), method="GET")
        assert shown.status == 200
        for secret in (key, key[:16], PROVIDER_KEY, PRIVATE, "ann-the-owner"):
            assert secret.encode() not in shown.body


# -- health ------------------------------------------------------------------------------------------------------------


async def test_a_gateway_is_ready_when_its_store_and_its_upstream_are(tmp_path: Path) -> None:
    async with gateway_with(answering(), tmp_path) as flow:
        alive = await ask_raw(flow, "/healthz", method="GET")
        ready = await ask_raw(flow, "/readyz", method="GET")
        assert (alive.status, alive.json["status"]) == (200, "ok")
        assert (ready.status, ready.json) == (200, {"status": "ok", "store": "ok", "upstream": "ok"})


async def test_an_upstream_whose_name_nobody_knows_makes_it_not_ready_but_alive(tmp_path: Path) -> None:
    upstream = Upstream()
    upstream.base_url = "http://nowhere.invalid/v1"
    async with gateway_with(upstream, tmp_path) as flow:
        ready = await ask_raw(flow, "/readyz", method="GET")
        assert ready.status == 503
        assert ready.json["status"] == "unavailable" and ready.json["store"] == "ok" and ready.json["upstream"] != "ok"
        assert (await ask_raw(flow, "/healthz", method="GET")).status == 200


async def test_a_store_that_fails_makes_it_not_ready(tmp_path: Path) -> None:
    async with gateway_with(answering(), tmp_path) as flow:
        await flow.store.close()
        ready = await ask_raw(flow, "/readyz", method="GET")
        assert ready.status == 503 and ready.json["store"] == "fails" and ready.json["upstream"] == "ok"


@pytest.mark.skipif(os.name != "posix", reason="needs limits of processes")
async def test_a_full_disk_makes_it_not_ready(tmp_path: Path) -> None:
    script = """
        import asyncio, resource, signal, sys
        from pathlib import Path
        from tests.support.gateway import gateway_with
        from tests.gateway.raw_http import answering, ask_raw

        async def main():
            async with gateway_with(answering(), Path(sys.argv[1])) as flow:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
                print((await ask_raw(flow, "/readyz", method="GET")).body.decode())
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

        asyncio.run(main())
    """
    command = [sys.executable, "-c", dedent(script), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=ROOT)  # noqa: ASYNC221
    assert json.loads(done.stdout) == {"status": "unavailable", "store": "fails", "upstream": "ok"}


# -- the log -----------------------------------------------------------------------------------------------------------


async def test_the_log_has_one_line_for_each_exchange_and_no_text(tmp_path: Path) -> None:
    out, plain = io.StringIO(), io.StringIO()
    observers = (ExchangeLog(out, is_json=True), ExchangeLog(plain, is_json=False))
    limits = GatewayOptions(limits=CallLimits(per_minute=2))
    upstream = Upstream(UpstreamAnswer(PRIVATE, usage=USAGE), UpstreamAnswer("again"))
    async with gateway_with(upstream, tmp_path, listen=limits, observers=observers) as flow:
        session = await ask_raw(flow, f"/v1/messages?secret={PRIVATE.replace(' ', '+')}", KEY, body=body_of(PRIVATE))
        await ask_raw(flow, "/v1/messages", KEY, ("x-note", PRIVATE), body=body_of(PRIVATE, model=PRIVATE))
        await ask_raw(flow, "/v1/messages", KEY, body=body_of(PRIVATE))
        await flow.wait_for_recordings()
        lines = [json.loads(line) for line in out.getvalue().splitlines()]
        first, second, refused = lines
        assert first.pop("time") and first.pop("ms") > 0
        assert first == {
            "event": "exchange",
            "wire": "messages",
            "action": "answer",
            "client": "other",
            "mode": "compact",
            "model": GATEWAY_MODEL,
            "status": 200,
            "request_bytes": len(body_of(PRIVATE)),
            "session": session.headers["x-clew-session"],
            "folded": False,
            "fallback": False,
            "recovered": 0,
            "input_tokens": 170,
            "output_tokens": 7,
            "cache_read_tokens": 50,
            "cache_write_tokens": 20,
        }
        assert second["model"] == "other"
        assert (refused["event"], refused["status"], refused["wire"]) == ("refused", 429, "messages")
        assert len(plain.getvalue().splitlines()) == 3
        for text in (out.getvalue(), plain.getvalue()):
            assert "words" not in text and PROVIDER_KEY not in text and "secret" not in text


def test_python_logs_keep_the_place_of_a_failure_and_not_its_words() -> None:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(GatewayLogFormatter(is_json=True))
    log = logging.getLogger("clew.test.of.the.log")
    log.addHandler(handler)
    log.propagate = False
    try:
        raise ValueError(PRIVATE)
    except ValueError:
        log.exception("it failed with Bearer %s\nand %s", "sk-proj-" + "a1B2c3D4" * 6, PRIVATE)
    told = json.loads(out.getvalue())
    assert (told["event"], told["level"], told["logger"]) == ("log", "error", "clew.test.of.the.log")
    assert "ValueError in test_python_logs" in told["message"]
    assert PRIVATE not in out.getvalue() and "a1B2c3D4" not in out.getvalue()


class FailingObserver(GatewayObserver):
    def exchange(self, record: ExchangeRecord) -> None:
        raise ValueError(PRIVATE)


async def test_an_observer_that_fails_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    out = io.StringIO()
    Observers([FailingObserver(), ExchangeLog(out, is_json=True)]).exchange(RECORD)
    assert json.loads(out.getvalue())["client"] == "Claude Code"
    assert "FailingObserver failed: ValueError" in caplog.text and PRIVATE not in caplog.text
    async with gateway_with(answering(), tmp_path, observers=(FailingObserver(),)) as flow:
        assert (await ask_raw(flow, "/v1/messages", KEY)).status == 200


@asynccontextmanager
async def clew_serve(folder: Path, upstream: Upstream, *flags: str) -> AsyncIterator[tuple[str, asyncio.StreamReader]]:
    """The real command: its address, and its standard error."""
    environ = {**os.environ, "CLEW_HOME": str(folder)}
    command = [sys.executable, "-m", "clew", "serve", "--upstream", upstream.base_url, "--port", "0", "--json"]
    process = await asyncio.create_subprocess_exec(
        *command, *flags, env=environ, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None and process.stderr is not None
        told = json.loads(await process.stdout.readuntil(b"}"))
        yield told["address"], process.stderr
    finally:
        process.terminate()
        rest = await process.communicate()
    assert process.returncode == 0 and PRIVATE.encode() not in b"".join(rest)


async def test_clew_serve_logs_each_request_on_stderr(tmp_path: Path) -> None:
    """The real command, with the flags that a person would give."""
    flags = ("--log", "json", "--name", "clew.example", "--per-minute", "1")
    async with answering() as upstream, clew_serve(tmp_path, upstream, *flags) as (address, log):
        port = int(address.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = body_of(PRIVATE)
        head = "POST /v1/messages HTTP/1.1\r\nHost: clew.example\r\nConnection: close\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        assert (await reader.read()).startswith(b"HTTP/1.1 200")
        writer.close()
        line = json.loads(await log.readline())
        assert (line["event"], line["status"], line["wire"]) == ("exchange", 200, "messages")


@pytest.mark.parametrize("form", ["json", "text"])
async def test_clew_serve_logs_why_a_fold_waits(tmp_path: Path, form: str) -> None:
    """Between 85% and 95% of the window: a fold that would not pay back, and a handoff that is still being written."""
    stalls = StreamedAnswer(UpstreamAnswer("never written"), stall_after=0)
    rules = UpstreamRules(window=24_000, pairs=True)
    upstream = Upstream(answers=lambda asked: stalls if asked.asks_for_handoff else UpstreamAnswer("ok"), rules=rules)

    async def reasons(model: str, window: int, sizes: Sequence[int]) -> list[str]:
        """What the log line of each request says; the questions have so many words."""
        found, history = list[str](), [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "ok"}]
        settings = (f"model.context_length={window}", "gateway.handoffs=model", f"model.name={model}")
        flags = (word for each in settings for word in ("--set", each))
        async with (
            aiohttp.ClientSession() as http,
            clew_serve(tmp_path / model, upstream, "--log", form, *flags) as (address, log),
        ):
            for words in sizes:
                history.append({"role": "user", "content": "word " * words})
                async with http.post(
                    f"{address}/v1/chat/completions", json={"model": model, "messages": history}
                ) as it:
                    assert it.status == 200
                history.append({"role": "assistant", "content": "ok"})
                said = re.search(r"fold_waits_for\W+(\w+)|fold waits for (\w+)", (await log.readline()).decode())
                found += [reason for reason in said.groups() if reason] if said else [""]
        return found

    async with upstream:
        assert await reasons("claude-sonnet-4-5", 8_000, [4_600, 1_150]) == ["", "payback"]
        assert await reasons(GATEWAY_MODEL, 24_000, [1_000] * 17) == [""] * 16 + ["handoff"]
