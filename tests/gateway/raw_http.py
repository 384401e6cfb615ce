"""Requests as bytes on a socket: what no client library would send."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from clew.gateway import hash_key, make_key
from clew.store import NewKey
from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import Upstream, UpstreamAnswer
from tests.support.gateway import GatewayFlow

PROVIDER_KEY = "fake-key-of-a-provider"
LONGEST_WAIT = 20.0


@dataclass(frozen=True, slots=True)
class RawReply:
    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def answering(event_delay: float = 0.0) -> Upstream:
    """An upstream that answers everything."""
    return Upstream(answers=lambda _: UpstreamAnswer("ok"), models=[{"id": "m"}], event_delay=event_delay)


def body_for(path: str, text: str = "hello") -> dict[str, Any]:
    """A small request for a path of a wire."""
    if "generateContent" in path or "countTokens" in path:
        return {"contents": [{"role": "user", "parts": [{"text": text}]}]}
    field = "input" if "responses" in path else "messages"
    return {"model": GATEWAY_MODEL, "max_tokens": 100, field: [{"role": "user", "content": text}]}


async def make_caller(flow: GatewayFlow, owner: str, **chosen: Any) -> str:
    """A key for an owner; `chosen` are further fields of it."""
    key = make_key()
    await flow.store.create_key(NewKey(owner, hash_key(key), **chosen))
    return key


def request_bytes(
    flow: GatewayFlow,
    target: str,
    headers: Iterable[tuple[str, str]] = (),
    body: bytes = b"",
    method: str = "POST",
    host: str | None = None,
) -> bytes:
    """A request that ends its connection; the length of its body stands in it unless `headers` frame it otherwise."""
    given = list(headers)
    names = {name.lower() for name, _ in given}
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host or f'127.0.0.1:{flow.server.port}'}", "Connection: close"]
    if body and not names & {"content-length", "transfer-encoding"}:
        given.append(("Content-Length", str(len(body))))
    lines += [f"{name}: {value}" for name, value in given]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


async def send_raw(flow: GatewayFlow, payload: bytes) -> RawReply:
    """Send bytes, and read the first answer up to the end of the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", flow.server.port)
    try:
        writer.write(payload)
        return parse(await asyncio.wait_for(reader.read(), LONGEST_WAIT))
    finally:
        writer.close()


async def ask_raw(flow: GatewayFlow, target: str, *headers: tuple[str, str], **rest: Any) -> RawReply:
    path = target.partition("?")[0]
    body = rest.pop("body", None)
    if body is None and rest.get("method", "POST") == "POST":
        body = json.dumps(body_for(path)).encode()
    return await send_raw(flow, request_bytes(flow, target, headers, body or b"", **rest))


def parse(raw: bytes) -> RawReply:
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    if not first:
        return RawReply(0, {}, b"")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return RawReply(int(first.split()[1]), headers, body)
