"""What the gateway adds to a request, what it holds, and what it does to a provider's cache.

    python benchmarks/gateway.py [--only latency|rate|streams|idle|cache|recall] [--rounds N] [--requests N]

Latency: requests whose history grows, as agents send them, go by turns straight to an upstream, through a plain aiohttp
pass-through, and through the gateway, which reads, recognises and records them. Each is a process of its own. The best
of several rounds is told, since machines are shared, and the CPU time that the process spent on a request.
Rate: short streamed replies by many clients at once, each of whose conversations grows; requests per second.
Streams: so many replies are streamed at once, slowly; the memory of the gateway meanwhile. Idle: memory for each
session after it has rested. Cache: the share of prompt tokens that an upstream's cache held, with and without it.
Recall: requests of a folded conversation whose model does not recall, with the tools and without.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import statistics
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

import _repository  # noqa: F401
from _table import report
from clew.gateway.recall import tool_tokens
from clew.messages import DialectName
from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import Upstream, UpstreamAnswer
from clew.tokens import counter_for
from tests.support.gateway import gateway_with
from tests.support.gateway_clients import CLIENTS
from tests.support.history import synthetic_history

SIZES = {"10 KB": 10_000, "100 KB": 100_000, "1 MB": 1_000_000}
STREAMS, STREAM_SECONDS, STREAM_PIECE_SECONDS = 200, 60.0, 0.25
SINGLE_STREAMS = 30
RATE_CLIENTS, RATE_TURNS, RATE_EVENTS = 16, 10, 20
IDLE_SESSIONS, IDLE_BYTES = 300, 20_000
REPLAYED_TURNS, REPLAY_WINDOW = 200, 32_000
NO_LIMIT = 256 * 1024 * 1024
PAGE = os.sysconf("SC_PAGE_SIZE")
_SERVE = ("serve", "--port", "0", "--json", "--per-minute", "1000000")


# -- the other processes -----------------------------------------------------------------------------------------------


async def run_upstream() -> None:
    """An upstream that answers at once; a streamed reply comes in pieces, slowly."""
    said = {"role": "assistant", "content": "It is done."}
    usage = {"prompt_tokens": 1_000, "completion_tokens": 5, "total_tokens": 1_005}
    head = {"id": "c", "object": "chat.completion", "created": 1, "model": GATEWAY_MODEL, "usage": usage}
    whole = {**head, "choices": [{"index": 0, "message": said, "finish_reason": "stop"}]}

    async def answer(request: web.Request) -> web.StreamResponse:
        asked = (await request.read())[-60:]
        if b'"stream":true' not in asked:
            return web.json_response(whole)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        is_short = b'"user":"rate"' in asked
        for _ in range(RATE_EVENTS if is_short else 0):
            piece = {"index": 0, "delta": {"role": "assistant", "content": "some words "}}
            await response.write(b"data: " + json.dumps({**head, "choices": [piece]}).encode() + b"\n\n")
        until = time.monotonic() + (0 if is_short else STREAM_SECONDS)
        while time.monotonic() < until:
            piece = {"index": 0, "delta": {"role": "assistant", "content": "a few words "}}
            await response.write(b"data: " + json.dumps({**head, "choices": [piece]}).encode() + b"\n\n")
            await asyncio.sleep(STREAM_PIECE_SECONDS)
        last = {"index": 0, "delta": {}, "finish_reason": "stop"}
        await response.write(b"data: " + json.dumps({**head, "choices": [last]}).encode() + b"\n\ndata: [DONE]\n\n")
        await response.write_eof()
        return response

    await _listen(answer)


async def run_pass_through(upstream: str) -> None:
    """What any proxy in aiohttp costs: the body is read, sent on, and the reply passed back as it comes."""
    async with aiohttp.ClientSession(auto_decompress=False) as client:

        async def answer(request: web.Request) -> web.StreamResponse:
            body = await request.read()
            async with client.post(upstream + request.path, data=body, headers={"Content-Type": "x"}) as reply:
                response = web.StreamResponse(status=reply.status, headers={"Content-Type": reply.content_type})
                await response.prepare(request)
                async for chunk in reply.content.iter_any():
                    await response.write(chunk)
                await response.write_eof()
                return response

        await _listen(answer)


async def _listen(answer: Any) -> None:
    async def answer_until_hung_up(request: web.Request) -> web.StreamResponse:
        try:
            response: web.StreamResponse = await answer(request)
        except ConnectionResetError:
            return web.Response()
        return response

    application = web.Application(client_max_size=NO_LIMIT)
    application.router.add_post("/{path:.*}", answer_until_hung_up)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1_024).start()
    print(json.dumps({"address": f"http://127.0.0.1:{runner.addresses[0][1]}"}), flush=True)
    await asyncio.Event().wait()


@asynccontextmanager
async def program(*arguments: str, folder: Path | None = None) -> AsyncIterator[tuple[Process, str]]:
    """A program that prints where it listens, as JSON."""
    limits = {"CLEW_MODEL_NAME": GATEWAY_MODEL, "CLEW_MODEL_CONTEXT_LENGTH": "2000000", "CLEW_HOME": str(folder)}
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=PIPE, env={**os.environ, **(limits if folder else {})}
    )
    try:
        assert process.stdout is not None
        told = b""
        while not told.rstrip().endswith(b"}"):
            told += await process.stdout.readline()
        yield process, json.loads(told)["address"]
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def all_three(folder: Path) -> AsyncIterator[dict[str, tuple[Process, str]]]:
    async with (
        program(__file__, "--role", "upstream") as upstream,
        program(__file__, "--role", "pass-through", "--upstream", upstream[1]) as plain,
        program("-m", "clew", *_SERVE, "--upstream", upstream[1], folder=folder) as gateway,
    ):
        yield {"direct": upstream, "pass-through": plain, "gateway": gateway}


def cpu_seconds(process: Process) -> float:
    """Of all its threads, in nanoseconds: ticks of the clock are too coarse for short requests."""
    seconds = 0.0
    for thread in Path(f"/proc/{process.pid}/task").iterdir():
        with suppress(FileNotFoundError):  # it has ended meanwhile
            seconds += int((thread / "schedstat").read_text().split()[0]) / 1e9
    return seconds


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


# -- latency -----------------------------------------------------------------------------------------------------------


class GrowingRequest:
    """A history of about so many bytes; each request has the last reply and a new question behind it."""

    def __init__(self, size: int, name: str) -> None:
        self._items: list[bytes] = []
        history = iter(synthetic_history(2_000))
        self._items.append(_item({"role": "user", "content": f"The session {name}."}))
        while sum(map(len, self._items)) < size:
            self._items.append(_item(next(history)))

    def next_body(self) -> bytes:
        self._items.append(_item({"role": "assistant", "content": "It is done."}))
        question = f"Go on with step {len(self._items)}. " + "And so on. " * 10
        self._items.append(_item({"role": "user", "content": question}))
        return b'{"model":"%s","messages":[%s]}' % (GATEWAY_MODEL.encode(), b",".join(self._items))


def _item(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


async def measure_latency(rounds: int, requests: int) -> None:
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="clew-bench-") as folder:
        async with all_three(Path(folder)) as programs, aiohttp.ClientSession() as client:
            for size, length in SIZES.items():
                best: dict[str, dict[str, float]] = {}
                for round_number in range(rounds):
                    for way, figures in (await _one_round(client, programs, length, requests, round_number)).items():
                        known = best.setdefault(way, figures)
                        best[way] = {name: min(known[name], figures[name]) for name in figures}
                plain = best["pass-through"]
                for way, figures in best.items():
                    more = {"p50 more": figures["p50"] - plain["p50"], "p99 more": figures["p99"] - plain["p99"]}
                    rows.append(
                        {
                            "body": size,
                            "way": way,
                            "requests": rounds * requests,
                            **figures,
                            **(more if way == "gateway" else {}),
                        }
                    )
    report("gateway_latency", rows, ("body", "way", "requests", "p50", "p99", "p50 more", "p99 more", "cpu ms"))
    print(f"ms; best of {rounds} rounds of {requests} requests; load average {os.getloadavg()[0]:.1f}")


async def _one_round(
    client: aiohttp.ClientSession, programs: dict[str, tuple[Process, str]], length: int, requests: int, number: int
) -> dict[str, dict[str, float]]:
    """Each request goes each way in turn, so that whatever else the machine does meets all of them."""
    growing = GrowingRequest(length, f"{length} {number}")
    took: dict[str, list[float]] = {way: [] for way in programs}
    for at in range(requests + 3):
        body = growing.next_body()
        for way, (_, address) in programs.items():
            started = time.perf_counter()
            async with client.post(
                f"{address}/v1/chat/completions", data=body, headers={"Content-Type": "application/json"}
            ) as reply:
                await reply.read()
                assert reply.status == 200, await reply.text()
            took[way].append((time.perf_counter() - started) * 1_000)
            if at == 2:  # the first ones open what later ones use
                took[way].clear()
    spent: dict[str, float] = {}
    for way, (process, address) in programs.items():
        before = cpu_seconds(process)
        for _ in range(requests):
            body = growing.next_body()
            async with client.post(f"{address}/v1/chat/completions", data=body) as reply:
                await reply.read()
        spent[way] = (cpu_seconds(process) - before) * 1_000 / requests
    return {
        way: {"p50": statistics.median(times), "p99": _percentile(times, 0.99), "cpu ms": spent[way]}
        for way, times in took.items()
    }


def _percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


# -- rate --------------------------------------------------------------------------------------------------------------


async def measure_rate(rounds: int, requests: int) -> None:
    rows: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="clew-bench-") as folder:
        async with all_three(Path(folder)) as programs, aiohttp.ClientSession() as client:
            for number in range(rounds):
                for way, (process, address) in programs.items():
                    started, spent = time.perf_counter(), cpu_seconds(process)
                    each = requests // RATE_CLIENTS
                    asking = (_grow(client, address, f"{number} {at}", each) for at in range(RATE_CLIENTS))
                    await asyncio.gather(*asking)
                    count = each * RATE_CLIENTS
                    rate = count / (time.perf_counter() - started)
                    cpu = (cpu_seconds(process) - spent) * 1_000 / count
                    known = rows.setdefault(way, {"way": way, "requests/s": rate, "cpu ms": cpu})
                    known["requests/s"] = max(known["requests/s"], rate)
                    known["cpu ms"] = min(known["cpu ms"], cpu)
    report("gateway_rate", list(rows.values()), ("way", "requests/s", "cpu ms"))
    print(f"best of {rounds} rounds of {requests} requests by {RATE_CLIENTS} clients; load {os.getloadavg()[0]:.1f}")


async def _grow(client: aiohttp.ClientSession, address: str, name: str, requests: int) -> None:
    """Conversations of some turns, one after the other, each reply a stream that comes at once."""
    for at in range(requests):
        if at % RATE_TURNS == 0:
            history: list[dict[str, str]] = []
        history.append({"role": "user", "content": f"The turn {at} of {name}. " + "And so on. " * 40})
        body = _item({"model": GATEWAY_MODEL, "messages": history, "user": "rate", "stream": True})
        async with client.post(f"{address}/v1/chat/completions", data=body) as reply:
            assert (await reply.read()).endswith(b"[DONE]\n\n")
        history.append({"role": "assistant", "content": "some words " * RATE_EVENTS})


# -- streams -----------------------------------------------------------------------------------------------------------


async def measure_streams() -> None:
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="clew-bench-") as folder:
        async with all_three(Path(folder)) as programs:
            connector = aiohttp.TCPConnector(limit=0)
            async with aiohttp.ClientSession(connector=connector) as client:
                for way in ("pass-through", "gateway"):
                    process, address = programs[way]
                    alone = [
                        await _stream(client, address, -number, seconds=0.0) for number in range(1, SINGLE_STREAMS)
                    ]
                    streams = [asyncio.create_task(_stream(client, address, number)) for number in range(STREAMS)]
                    memory = list[float]()
                    for _ in range(4):
                        await asyncio.sleep(STREAM_SECONDS / 5)
                        memory.append(resident_bytes(process.pid) / 1e6)
                    first = await asyncio.gather(*streams)
                    rows.append(
                        {
                            "way": way,
                            "first byte of one, p50 ms": statistics.median(alone) * 1_000,
                            "best ms": min(alone) * 1_000,
                            "streams at once": len(first),
                            **{f"MB at {at}/5": figure for at, figure in enumerate(memory, 1)},
                        }
                    )
    report("gateway_streams", rows, tuple(rows[0]))
    print(f"for {STREAM_SECONDS:g} s; load average {os.getloadavg()[0]:.1f}")


async def _stream(client: aiohttp.ClientSession, address: str, number: int, seconds: float = 1e9) -> float:
    """One reply to its end, or for so long; the seconds to its first byte."""
    history = [{"role": "user", "content": f"The stream {number}. " + "And so on. " * 500}]
    body = json.dumps({"model": GATEWAY_MODEL, "messages": history, "stream": True}, separators=(",", ":"))
    started = time.perf_counter()
    first = 0.0
    async with client.post(f"{address}/v1/chat/completions", data=body, timeout=aiohttp.ClientTimeout(300)) as reply:
        last = b""
        async for chunk in reply.content.iter_any():
            first = first or time.perf_counter() - started
            last = chunk
            if time.perf_counter() - started > seconds:
                return first
        assert last.endswith(b"[DONE]\n\n"), last
    return first


# -- memory of sessions that rest --------------------------------------------------------------------------------------


async def measure_idle() -> None:
    """In this process, with a clock that can be set: resting takes two minutes."""
    now = 0.0
    with tempfile.TemporaryDirectory(prefix="clew-bench-") as folder:
        upstream = Upstream(*[UpstreamAnswer("It is done.")] * (IDLE_SESSIONS + 50))
        opened = gateway_with(upstream, Path(folder), window=2_000_000, clock=lambda: now)
        async with opened as flow, aiohttp.ClientSession() as client:

            async def ask(number: int) -> None:
                body = GrowingRequest(IDLE_BYTES, f"idle {number}").next_body()
                async with client.post(f"{flow.base_url}/chat/completions", data=body) as reply:
                    await reply.read()
                upstream.received.clear()

            async def memory() -> tuple[int, int]:
                await flow.wait_for_recordings()
                flow.exchanges.clear()
                gc.collect()
                return resident_bytes(os.getpid()), flow.server.exchanges.conversations.count

            async def rest() -> None:
                nonlocal now
                await flow.wait_for_recordings()
                now += 1_000
                await flow.server.exchanges.conversations.close_idle()

            for number in range(50):
                await ask(-number - 1)
            await rest()
            before, _ = await memory()
            for number in range(IDLE_SESSIONS):
                await ask(number)
            in_use, open_count = await memory()
            await rest()
            rested, rest_count = await memory()
    rows = [
        {"sessions": "in use", "open": open_count, "KB each": (in_use - before) / IDLE_SESSIONS / 1e3},
        {"sessions": "resting", "open": rest_count, "KB each": (rested - before) / IDLE_SESSIONS / 1e3},
    ]
    report("gateway_idle", rows, ("sessions", "open", "KB each"))
    print(f"{IDLE_SESSIONS} sessions of {IDLE_BYTES:,} bytes, by the resident memory of the process")


# -- the provider's cache ----------------------------------------------------------------------------------------------


async def measure_cache() -> None:
    rows = []
    for way in ("direct", "gateway"):
        upstream = Upstream(*[UpstreamAnswer(f"answer {at}") for at in range(REPLAYED_TURNS)], caches=True)
        with tempfile.TemporaryDirectory(prefix="clew-bench-") as folder:
            async with (
                gateway_with(upstream, Path(folder), window=REPLAY_WINDOW) as flow,
                CLIENTS["messages"](GATEWAY_MODEL, stream=False) as client,
            ):
                root = flow.root if way == "gateway" else upstream.base_url.removesuffix("/v1")
                for _ in range(REPLAYED_TURNS):
                    await client.turn(root)
                await flow.wait_for_recordings()
        read = sum(it["cache_read_input_tokens"] for it in client.usage)
        prompt = read + sum(it["input_tokens"] + it["cache_creation_input_tokens"] for it in client.usage)
        rows.append(
            {
                "way": way,
                "turns": len(client.usage),
                "prompt tokens": prompt,
                "read from the cache %": 100 * read / prompt,
            }
        )
    report("gateway_cache", rows, tuple(rows[0]))


# -- recall ------------------------------------------------------------------------------------------------------------


async def measure_recall(rounds: int, requests: int) -> None:
    """What recall adds to requests of a folded conversation whose model does not recall. All in this process."""
    tools = [{"type": "function", "function": {"name": "shell", "parameters": {"type": "object"}}}]
    answer = UpstreamAnswer("It is done. " * 200, piece_chars=12)
    history: list[dict[str, Any]] = []
    spent: dict[str, list[tuple[float, float]]] = {"on": [], "off": []}
    with tempfile.TemporaryDirectory(prefix="clew-bench-") as folder:
        async with (
            gateway_with(Upstream(answers=lambda _: answer), Path(folder)) as flow,
            aiohttp.ClientSession() as client,
        ):

            async def ask(recall: str) -> None:
                body = {"model": GATEWAY_MODEL, "messages": history, "tools": tools, "stream": True}
                headers, url = {"x-clew-recall": recall}, f"{flow.base_url}/chat/completions"
                async with client.post(url, json=body, headers=headers) as reply:
                    assert (await reply.read()).endswith(b"[DONE]\n\n")
                await flow.wait_for_recordings()

            while not any(it.is_folded for it in flow.exchanges):
                history.append({"role": "user", "content": f"note {len(history)} " + "and so on " * 300})
                await ask("on")
                history.append({"role": "assistant", "content": "It is done. " * 200})
            history.append({"role": "user", "content": "Go on."})
            for recall in ("on", "off") * rounds:
                started, cpu = time.perf_counter(), time.process_time()
                for _ in range(requests):
                    await ask(recall)
                passed = (time.perf_counter() - started) / requests, (time.process_time() - cpu) / requests
                spent[recall].append(passed)
    rows = [
        {
            "recall": recall,
            "ms, best round": 1_000 * min(it[0] for it in figures),
            "CPU ms, best round": 1_000 * min(it[1] for it in figures),
        }
        for recall, figures in spent.items()
    ]
    report("gateway_recall", rows, tuple(rows[0]))
    print(f"{rounds} rounds of {requests} streamed replies of 200 events; load average {os.getloadavg()[0]:.1f}")
    counter = counter_for("gpt-5").text
    dialects: tuple[DialectName, ...] = ("openai_chat", "responses", "anthropic", "gemini")
    print("tokens of the two tools:", ", ".join(f"{it} {tool_tokens(it, counter)}" for it in dialects))


# -- the program -------------------------------------------------------------------------------------------------------


def main() -> None:
    options = _options()
    if options.role == "upstream":
        asyncio.run(run_upstream())
    elif options.role == "pass-through":
        asyncio.run(run_pass_through(options.upstream))
    if options.only in (None, "latency"):
        asyncio.run(measure_latency(options.rounds, options.requests))
    if options.only in (None, "rate"):
        asyncio.run(measure_rate(options.rounds, options.requests))
    if options.only in (None, "streams"):
        asyncio.run(measure_streams())
    if options.only in (None, "idle"):
        asyncio.run(measure_idle())
    if options.only in (None, "cache"):
        asyncio.run(measure_cache())
    if options.only in (None, "recall"):
        asyncio.run(measure_recall(options.rounds, options.requests))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=("latency", "rate", "streams", "idle", "cache", "recall"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=100, help="of a round, for each size and way")
    parser.add_argument("--role", choices=("upstream", "pass-through"), help=argparse.SUPPRESS)
    parser.add_argument("--upstream", help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    main()
