"""A caller of hosted conversations that keeps no history of its own, against a real gateway."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import Upstream
from tests.support.gateway import GatewayFlow, gateway_with

CREDENTIAL = "fake-key-of-anna"


@dataclass(slots=True)
class HostedBot:
    """A caller with a credential and no memory."""

    flow: GatewayFlow
    http: aiohttp.ClientSession
    credential: str = CREDENTIAL

    async def call(
        self, method: str, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None, **query: Any
    ) -> tuple[int, Any]:
        sent = {"Authorization": f"Bearer {self.credential}", **(headers or {})}
        url = f"{self.flow.root}/clew/{path}"
        async with self.http.request(method, url, json=body, headers=sent, params=query) as response:
            text = await response.text()
            return response.status, json.loads(text) if text and response.content_type == "application/json" else text

    async def done(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        status, value = await self.call(method, path, body, **query)
        assert status < 300, value
        return value

    async def begin(self, **fields: Any) -> str:
        made = await self.done("POST", "conversations", {"model": GATEWAY_MODEL, **fields})
        return str(made["id"])

    async def ask(self, id: str, content: str) -> Any:
        return await self.done("POST", f"conversations/{id}/messages", {"content": content})

    async def stream(self, id: str, content: str) -> list[tuple[str, Any]]:
        sent = {"Authorization": f"Bearer {self.credential}"}
        url = f"{self.flow.root}/clew/conversations/{id}/messages"
        async with self.http.post(url, json={"content": content, "stream": True}, headers=sent) as response:
            assert response.content_type == "text/event-stream"
            return events_in(await response.text())


def events_in(text: str) -> list[tuple[str, Any]]:
    events = []
    for block in text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if lines:
            events.append((lines["event"], json.loads(lines["data"])))
    return events


@asynccontextmanager
async def hosting_with(upstream: Upstream, folder: Path, **how: Any) -> AsyncIterator[HostedBot]:
    async with gateway_with(upstream, folder, **how) as flow, aiohttp.ClientSession() as http:
        yield HostedBot(flow, http)
