"""A look at a running gateway from outside: what it is, whether its upstream answers, and which wires it has."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

PROBE_SECONDS = 10.0
_WIRES = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "gemini": "/v1beta/models/probe:generateContent",
}


@dataclass(frozen=True, slots=True)
class ProbeFinding:
    """One thing that was looked at."""

    name: str
    is_ok: bool
    what: str


async def probe_gateway(address: str, key: str | None = None) -> list[ProbeFinding]:
    """Look at the gateway at this address. `key` is one of Clew's, for a gateway that wants one.

    The wires are asked with an empty request, which no model answers.
    """
    timeout = aiohttp.ClientTimeout(total=PROBE_SECONDS)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with aiohttp.ClientSession(timeout=timeout, headers=headers) as client:
        try:
            about = await _about(client, address)
        except (aiohttp.ClientError, TimeoutError, ValueError, OSError) as error:
            why = str(error) or type(error).__name__
            return [ProbeFinding("gateway", False, f"nothing answers at {address} ({why}); start one: clew serve")]
        if about.get("gateway") != "clew":
            return [ProbeFinding("gateway", False, f"what answers at {address} is no gateway of Clew")]
        found = [ProbeFinding("gateway", True, f"clew {about.get('version')}, mode {about.get('mode')}")]
        return [*found, *[finding async for finding in _wires(client, address, has_key=key is not None)]]


async def _about(client: aiohttp.ClientSession, address: str) -> Mapping[str, Any]:
    async with client.get(f"{address}/healthz") as reply:
        value = await reply.json(content_type=None)
        return value if isinstance(value, dict) else {}


async def _wires(client: aiohttp.ClientSession, address: str, *, has_key: bool) -> AsyncIterator[ProbeFinding]:
    served: list[str] = []
    for name, path in _WIRES.items():
        try:
            async with client.post(f"{address}{path}", json={}) as reply:
                status, text = reply.status, (await reply.text())[:300]
        except (aiohttp.ClientError, TimeoutError) as error:
            yield ProbeFinding("upstream", False, f"no answer in {PROBE_SECONDS:.0f} s ({type(error).__name__})")
            return
        if status == 502:
            yield ProbeFinding("upstream", False, f"it cannot be reached: {text}")
            return
        if status == 401 and "key of Clew" in text:
            told = "callers need a key of Clew; with one in CLEW_KEY, the wires are tried too"
            yield ProbeFinding("keys", not has_key, "the key in CLEW_KEY is not taken" if has_key else told)
            return
        if status not in (404, 405, 501):
            served.append(name)
    whose = "the key in CLEW_KEY is taken" if has_key else "none; a caller's own credential passes"
    yield ProbeFinding("keys", True, whose)
    what = f"it answers, and serves {', '.join(served)}" if served else "it answers, but serves none of the wires"
    yield ProbeFinding("upstream", bool(served), what)
