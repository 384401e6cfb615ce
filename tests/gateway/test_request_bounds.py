"""How large, how deep, how packed and how slow a request may be, and what is no request at all."""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
import zlib
from contextlib import suppress
from pathlib import Path

import pytest

from clew.gateway import GatewayOptions, RequestBounds
from clew.gateway.wires import wire_path
from clew.testing.gateway import GATEWAY_MODEL
from tests.gateway.raw_http import (
    LONGEST_WAIT,
    PROVIDER_KEY,
    answering,
    ask_raw,
    body_for,
    parse,
    request_bytes,
    send_raw,
)
from tests.support.gateway import GatewayFlow, gateway_with

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SMALL = GatewayOptions(bounds=RequestBounds(body_bytes=100_000, linger_seconds=0.1))
KEY = ("x-api-key", PROVIDER_KEY)
PATHS = (
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1/messages/count_tokens",
    f"/v1beta/models/{GATEWAY_MODEL}:generateContent",
)
BOMB = b'{"messages":[{"role":"user","content":"' + b"a" * 20_000_000 + b'"}]}'


def is_error_of(path: str, body: object) -> bool:
    """Whether an error is spelled as the wire of a path spells errors."""
    found = wire_path(path)
    assert found is not None and isinstance(body, dict)
    status = 413 if found.wire.name == "gemini" else 0
    return body.keys() == found.wire.error(status, "").keys() and bool(body["error"]["message"])


@pytest.mark.parametrize("path", PATHS)
async def test_a_body_that_says_that_it_is_too_large_is_refused_before_it_comes(tmp_path: Path, path: str) -> None:
    async with gateway_with(answering(), tmp_path, listen=SMALL) as flow:
        # Not one byte of the body is sent: whoever waited for it would wait for ever.
        reply = await send_raw(flow, request_bytes(flow, path, [KEY, ("Content-Length", "100001")]))
        assert reply.status == 413 and is_error_of(path, reply.json)
        assert not flow.upstream.received


@pytest.mark.parametrize("path", PATHS)
async def test_a_body_of_unknown_length_is_refused_where_it_becomes_too_large(tmp_path: Path, path: str) -> None:
    async with gateway_with(answering(), tmp_path, listen=SMALL) as flow:
        chunk = b"%x\r\n%s\r\n" % (50_001, b"x" * 50_001)
        headers = [KEY, ("Transfer-Encoding", "chunked")]
        reply = await send_raw(flow, request_bytes(flow, path, headers) + chunk + chunk)  # and no end
        assert reply.status == 413 and is_error_of(path, reply.json)
        assert not flow.upstream.received


async def test_a_client_that_asks_first_is_told_at_once(tmp_path: Path) -> None:
    async with gateway_with(answering(), tmp_path, listen=SMALL) as flow:
        asks = ("Expect", "100-continue")
        large = await send_raw(flow, request_bytes(flow, "/v1/messages", [KEY, asks, ("Content-Length", "100001")]))
        assert large.status == 413
        small = await ask_raw(flow, "/v1/messages", KEY, asks)
        assert small.status == 100 and small.body.startswith(b"HTTP/1.1 200")
        assert "expect" not in flow.upstream.received[0].headers


async def test_headers_have_a_bound(tmp_path: Path) -> None:
    async with gateway_with(answering(), tmp_path) as flow:
        assert (await ask_raw(flow, "/v1/messages", ("x-long", "a" * 70_000))).status == 400
        many = [(f"x-{number}", "1") for number in range(1_000)]
        assert (await ask_raw(flow, "/v1/messages", *many)).status == 400
        assert (await ask_raw(flow, "/v1/messages?" + "a" * 70_000)).status == 400
        assert (await ask_raw(flow, "/v1/messages", ("x-long", "a" * 7_000))).status == 200
        assert len(flow.upstream.received) == 1


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/chat/completions"])
async def test_a_websocket_upgrade_gets_426_so_that_the_client_posts_at_once(tmp_path: Path, path: str) -> None:
    upgrade = (("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"), ("Sec-WebSocket-Key", "ZmFrZSBmYWtlIGZha2U="))
    async with gateway_with(answering(), tmp_path) as flow:
        reply = await ask_raw(flow, path, KEY, *upgrade, method="GET")
        assert reply.status == 426 and is_error_of(path, reply.json)
        assert (await ask_raw(flow, "/v1/nothing", KEY, *upgrade, method="GET")).status == 404
        assert not flow.upstream.received


def packed(encoding: str, body: bytes) -> bytes:
    return gzip.compress(body) if encoding.endswith("gzip") else zlib.compress(body)


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "deflate", "GZIP"])
async def test_a_packed_body_is_unpacked_and_goes_on_plain(tmp_path: Path, encoding: str) -> None:
    async with gateway_with(answering(), tmp_path) as flow:
        plain = json.dumps(body_for("/v1/messages")).encode()
        body = packed(encoding.lower(), plain)
        assert (await ask_raw(flow, "/v1/messages", KEY, ("Content-Encoding", encoding), body=body)).status == 200
        assert flow.upstream.received[0].raw == plain
        assert "content-encoding" not in flow.upstream.received[0].headers


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
@pytest.mark.parametrize("path", PATHS)
async def test_a_bomb_is_unpacked_to_the_bound_and_no_further(tmp_path: Path, path: str, encoding: str) -> None:
    async with gateway_with(answering(), tmp_path, listen=SMALL) as flow:
        body = packed(encoding, BOMB)
        assert len(body) < 100_000
        reply = await ask_raw(flow, path, KEY, ("Content-Encoding", encoding), body=body)
        assert reply.status == 413 and is_error_of(path, reply.json)
        assert not flow.upstream.received


async def test_zstd_is_unpacked_within_the_bound(tmp_path: Path) -> None:
    wide = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 30})
    async with gateway_with(answering(), tmp_path, listen=SMALL) as flow:
        head = ("Content-Encoding", "zstd")
        plain = json.dumps(body_for("/v1/messages")).encode()
        assert (await ask_raw(flow, "/v1/messages", KEY, head, body=zstd.compress(plain))).status == 200
        assert flow.upstream.received[0].raw == plain
        assert (await ask_raw(flow, "/v1/messages", KEY, head, body=zstd.compress(BOMB))).status == 413
        for body in (b"no zstd", zstd.compress(plain)[:-4], wide.compress(plain) + wide.flush(), b""):
            assert (await ask_raw(flow, "/v1/messages", KEY, head, body=body)).status == 400
        assert len(flow.upstream.received) == 1


@pytest.mark.parametrize("encoding", ["br", "compress", "gzip, gzip", "x", "zstd, gzip"])
@pytest.mark.parametrize("path", PATHS)
async def test_an_encoding_that_is_not_read_is_refused_and_the_known_ones_named(
    tmp_path: Path, path: str, encoding: str
) -> None:
    async with gateway_with(answering(), tmp_path) as flow:
        reply = await ask_raw(flow, path, KEY, ("Content-Encoding", encoding), body=b"\x28\xb5\x2f\xfd")
        assert reply.status == 415 and is_error_of(path, reply.json)
        assert reply.headers["accept-encoding"].startswith("gzip, deflate")
        assert not flow.upstream.received


PACKED = gzip.compress(b"{}", mtime=0)


@pytest.mark.parametrize(
    "body", [b"no gzip", PACKED[:-4], PACKED + b"more", b""], ids=["other", "cut off", "more behind it", "nothing"]
)
async def test_a_body_that_is_not_packed_as_it_says_is_refused(tmp_path: Path, body: bytes) -> None:
    async with gateway_with(answering(), tmp_path) as flow:
        head = (("Content-Encoding", "gzip"), ("Content-Length", str(len(body))))
        assert (await ask_raw(flow, "/v1/messages", KEY, *head, body=body)).status == 400
        assert not flow.upstream.received


DEEP = b"[" * 100_000 + b"]" * 100_000
DEEP_OBJECT = b'{"a":' * 50_000 + b"1" + b"}" * 50_000


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("deep", [DEEP, DEEP_OBJECT], ids=["lists", "objects"])
async def test_deep_nesting_is_refused_wherever_it_stands(tmp_path: Path, path: str, deep: bytes) -> None:
    async with gateway_with(answering(), tmp_path) as flow:
        plain = json.dumps(body_for(path)).encode()
        for field in (b"messages", b"input", b"contents", b"system", b"tools", b"metadata", b"unknown"):
            body = plain[:-1] + b',"' + field + b'":' + deep + b"}"
            reply = await ask_raw(flow, path, KEY, body=body)
            assert reply.status == 400 and is_error_of(path, reply.json), field
        assert not flow.upstream.received
        assert (await ask_raw(flow, path, KEY)).status == 200


@pytest.mark.parametrize("path", PATHS)
async def test_what_is_nested_less_deep_passes_as_it_came(tmp_path: Path, path: str) -> None:
    """Deeper than anybody writes, and read all the same, or passed on unread."""
    async with gateway_with(answering(), tmp_path) as flow:
        plain = json.dumps(body_for(path)).encode()
        body = plain[:-1] + b',"metadata":' + b"[" * 400 + b"]" * 400 + b"}"
        assert (await ask_raw(flow, path, KEY, body=body)).status == 200
        assert flow.upstream.received[0].raw == body


HASTY = GatewayOptions(bounds=RequestBounds(head_seconds=0.5, silent_seconds=0.3, body_seconds=0.6, linger_seconds=0.5))


async def drip(flow: GatewayFlow, first: bytes, piece: bytes) -> bytes:
    """Send a beginning, and then piece by piece until the other side has had enough; what it says."""
    reader, writer = await asyncio.open_connection("127.0.0.1", flow.server.port)
    writer.write(first)

    async def send() -> None:
        while piece:
            await asyncio.sleep(0.05)
            writer.write(piece)
            await writer.drain()

    sending = asyncio.create_task(send())
    said = b""
    with suppress(ConnectionError):  # what was said before counts
        said = await asyncio.wait_for(reader.read(2**16), LONGEST_WAIT)
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    with suppress(ConnectionError):
        said += await asyncio.wait_for(reader.read(), LONGEST_WAIT)
    writer.close()
    return said


@pytest.mark.parametrize("first", [b"", b"POST /v1/mess", b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\n"])
@pytest.mark.parametrize("piece", [b"", b"x"])
async def test_headers_that_do_not_come_to_their_end_are_cut_off(tmp_path: Path, first: bytes, piece: bytes) -> None:
    async with gateway_with(answering(), tmp_path, listen=HASTY) as flow:
        said = await drip(flow, first, piece)
        assert b" 200 " not in said


async def test_headers_of_a_second_request_are_cut_off_too(tmp_path: Path) -> None:
    async with gateway_with(answering(), tmp_path, listen=HASTY) as flow:
        head = f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{flow.server.port}\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", flow.server.port)
        writer.write(f"{head}\r\n".encode())
        assert parse(await reader.readuntil(b'"ok"}')).status == 200
        writer.write(head.encode())
        assert await asyncio.wait_for(reader.read(), LONGEST_WAIT) == b""
        writer.close()


@pytest.mark.parametrize("piece", [b"", b"x"], ids=["silent", "dripping"])
@pytest.mark.parametrize("path", PATHS)
async def test_a_body_that_comes_too_slowly_is_given_up(tmp_path: Path, path: str, piece: bytes) -> None:
    async with gateway_with(answering(), tmp_path, listen=HASTY) as flow:
        said = await drip(flow, request_bytes(flow, path, [KEY, ("Content-Length", "5000")]), piece)
        reply = parse(said)
        assert reply.status == 408 and is_error_of(path, reply.json)
        assert not flow.upstream.received and flow.server.meter.under_way == 0


async def test_a_slow_answer_of_the_upstream_is_not_cut_off(tmp_path: Path) -> None:
    """The bounds are those of requests: models think for minutes."""
    async with gateway_with(answering(event_delay=0.2), tmp_path, listen=HASTY) as flow:
        body = json.dumps({**body_for("/v1/messages"), "stream": True}).encode()
        reply = await ask_raw(flow, "/v1/messages", KEY, body=body)
        assert reply.status == 200 and b"message_stop" in reply.body


HIDDEN = b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nx-hidden: 1\r\nContent-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize(
    "headers",
    [
        [("Content-Length", "5"), ("Content-Length", "6")],
        [("Content-Length", "0"), ("Transfer-Encoding", "chunked")],
        [("Transfer-Encoding", "chunked"), ("Content-Length", "0")],
        [("Transfer-Encoding", "chunked, identity")],
        [("Transfer-Encoding", "identity, chunked"), ("Content-Length", "5")],
        [("Transfer-Encoding", "xchunked")],
        [("Transfer-Encoding", "chunked"), ("Transfer-Encoding", "identity")],
        [("Transfer-Encoding ", "chunked")],
        [("Content-Length", "+5")],
        [("Content-Length", "-5")],
        [("Content-Length", "5, 5")],
        [("Content-Length", "0x5")],
        [("Content-Length", "5 5")],
        [("Content-Length", "\u00b2")],
    ],
)
async def test_lengths_that_conflict_are_refused_and_nothing_hides_behind_them(
    tmp_path: Path, headers: list[tuple[str, str]]
) -> None:
    async with gateway_with(answering(), tmp_path) as flow:
        body = b"0\r\n\r\n" + HIDDEN
        payload = request_bytes(flow, "/v1/messages", [KEY, *headers], body).replace(b"Connection: close\r\n", b"")
        reply = await send_raw(flow, payload)
        assert reply.status == 400
        assert reply.body.count(b"HTTP/1.1") == 0 and not flow.upstream.received


@pytest.mark.parametrize(
    "chunks",
    [
        b"5\nhello\r\n0\r\n\r\n",
        b"5;\r\nhelloX\r\n0\r\n\r\n",
        b"-5\r\nhello\r\n0\r\n\r\n",
        b"fffffffffffffffff\r\nx",
        b"0x5\r\nhello\r\n0\r\n\r\n",
    ],
)
async def test_chunks_that_are_none_are_refused(tmp_path: Path, chunks: bytes) -> None:
    async with gateway_with(answering(), tmp_path, listen=HASTY) as flow:
        payload = request_bytes(flow, "/v1/messages", [KEY, ("Transfer-Encoding", "chunked")]) + chunks
        assert (await send_raw(flow, payload)).status in (0, 400, 408)
        assert not flow.upstream.received


async def test_each_request_of_a_connection_is_one_request_at_the_upstream(tmp_path: Path) -> None:
    """What follows a body is a request of its own, which is checked like any other."""
    async with gateway_with(answering(), tmp_path) as flow:
        body = json.dumps(body_for("/v1/messages")).encode()
        first = request_bytes(flow, "/v1/messages", [KEY], body).replace(b"Connection: close\r\n", b"")
        reply = await send_raw(flow, first + HIDDEN.replace(b"x-hidden: 1", b"Connection: close"))
        assert reply.status == 200 and b"HTTP/1.1 403" in reply.body  # localhost without its port
        assert [received.raw for received in flow.upstream.received] == [body]


@pytest.mark.parametrize(
    "line", ["x-a: 1\r\n b: folded", "x-a: 1\nx-b: 2", "x-a: 1\rx-b: 2", "x-a: a\x00b", ": empty", "x a: 1"]
)
async def test_headers_that_are_none_are_refused(tmp_path: Path, line: str) -> None:
    async with gateway_with(answering(), tmp_path) as flow:
        raw = request_bytes(flow, "/v1/messages", [KEY], b"{}")
        head, _, body = raw.partition(b"\r\n\r\n")
        reply = await send_raw(flow, head + b"\r\n" + line.encode() + b"\r\n\r\n" + body)
        assert reply.status == 400 and not flow.upstream.received


async def test_headers_of_one_connection_stay_on_it(tmp_path: Path) -> None:
    async with gateway_with(answering(), tmp_path) as flow:
        headers = [
            ("Connection", "x-first, x-second"),
            ("x-first", "1"),
            ("x-second", "2"),
            ("x-third", "3"),
            ("Keep-Alive", "timeout=9"),
            ("TE", "trailers"),
            ("Trailer", "x-late"),
            ("Upgrade", "h2c"),
            ("Proxy-Authorization", "Basic ZmFrZQ=="),
            ("Proxy-Connection", "keep-alive"),
        ]
        assert (await ask_raw(flow, "/v1/messages", KEY, *headers)).status == 200
        passed = flow.upstream.received[0].headers
        assert passed["x-third"] == "3"
        gone = {
            "x-first",
            "x-second",
            "keep-alive",
            "te",
            "trailer",
            "upgrade",
            "proxy-authorization",
            "proxy-connection",
        }
        assert not gone & set(passed)
