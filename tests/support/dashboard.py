"""A local dashboard for tests: the real one on loopback, over a store with sessions of every kind, and its visitors."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import aiohttp

from clew.app import DashboardAppOptions, LocalDashboard, open_dashboard
from clew.config import read_config
from clew.messages import Message
from clew.store import CallSource, ModelCall, NewMessage, NewSession, Session, Store, open_store
from clew.testing.messages import assistant, call, tool, user
from clew.tokens import counter_for
from clew.usage import CanonicalUsage, cost_of
from tests.support.history import synthetic_history

DASHBOARD_MODEL = "claude-sonnet-4-5"
SMALL_WINDOW = 60_000
_ROUND = 3
_AROUND = 4_000
"""What every request has beside its messages: the system prompt and the tools."""
_MINUTE = timedelta(minutes=1)


@dataclass(slots=True)
class DashboardFlow:
    """A running dashboard, and its store."""

    dashboard: LocalDashboard
    store: Store
    links: list[str] = field(default_factory=list)
    """Those that were made after one was used."""

    @property
    def address(self) -> str:
        """Without a path."""
        return self.dashboard.address.removesuffix("/dashboard/")

    @property
    def launch_url(self) -> str:
        """Good for one sign-in; afterwards it is another."""
        return self.dashboard.link


@asynccontextmanager
async def running_dashboard(
    folder: Path, environ: Mapping[str, str] | None = None, *, window: int = SMALL_WINDOW, store: Store | None = None
) -> AsyncIterator[DashboardFlow]:
    """A dashboard over the store in a folder, or over one that is open; `window` is that of `DASHBOARD_MODEL`."""
    settings = {"CLEW_MODEL_CONTEXT_LENGTH": str(window)}
    variables = {"CLEW_HOME": str(folder), **settings, **(environ or {})}
    links: list[str] = []
    async with AsyncExitStack() as last:
        opened = store if store is not None else await last.enter_async_context(open_store(folder / "state.db"))
        options = DashboardAppOptions(label=opened.where, on_new_link=links.append)
        dashboard = await last.enter_async_context(open_dashboard(read_config(variables), variables, opened, options))
        yield DashboardFlow(dashboard, opened, links)


@dataclass(slots=True)
class DashboardVisitor:
    """A browser without a page: it has the cookie, and sends the token."""

    http: aiohttp.ClientSession
    address: str
    csrf: str = ""

    async def call(
        self, method: str, path: str, body: Any = None, *, headers: Mapping[str, str] | None = None, **query: Any
    ) -> tuple[int, Any]:
        sent = {"X-Clew-CSRF": self.csrf, **(headers or {})}
        url = f"{self.address}/dashboard/{path}"
        async with self.http.request(method, url, json=body, headers=sent, params=query) as response:
            text = await response.text()
            return response.status, json.loads(text) if text and response.content_type == "application/json" else text

    async def get(self, path: str, **query: Any) -> Any:
        status, value = await self.call("GET", f"api/{path}", **query)
        assert status == 200, value
        return value

    async def act(self, method: str, path: str, body: Any = None) -> Any:
        """A call of the hosted conversations."""
        status, value = await self.call(method, f"clew/conversations/{path}", body)
        assert status < 300, value
        return value

    async def sign_in(self, **secret: str) -> Any:
        """By `launch` or by `key`."""
        status, told = await self.call("POST", "api/sign-in", secret)
        assert status == 200, told
        self.csrf = told["csrf"]
        return told


@asynccontextmanager
async def visiting(flow: DashboardFlow) -> AsyncIterator[DashboardVisitor]:
    """Somebody who has signed in with the link."""
    # The addresses of tests are numbers, for which aiohttp keeps no cookies unless told to.
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
        visitor = DashboardVisitor(http, flow.address)
        await visitor.sign_in(launch=flow.launch_url.partition("#launch=")[2])
        yield visitor


async def add_chat(
    store: Store,
    rounds: int = 12,
    *,
    title: str | None = "Fix the login",
    source: str = "terminal",
    owner: str = "",
    began: datetime | None = None,
    seed: int = 0,
) -> Session:
    """A session in which each answer came by a request, most of it read from the cache."""
    started = began or datetime.now(UTC) - rounds * _MINUTE
    new = NewSession(
        source=source, model=DASHBOARD_MODEL, title=title, system="You help.", owner=owner, created=started
    )
    session = await store.start_session(new)
    await add_rounds(store, session.id, rounds, started, source=source, seed=seed)
    return session


async def add_rounds(
    store: Store, session: str, rounds: int, began: datetime, *, source: str = "terminal", seed: int = 0
) -> None:
    """Go on with a session: a question, an answer with a call, and its result, each round."""
    counter = counter_for(DASHBOARD_MODEL)
    history = _history(_ROUND * rounds, seed)
    tip = await store.get_compression_tip(session)
    size = _AROUND + sum(map(counter.message, (await store.view(tip)).messages))
    asked_by: CallSource = "gateway" if source == "gateway" else "terminal"
    for at in range(0, len(history), _ROUND):
        when = began + (at // _ROUND) * _MINUTE
        messages = history[at : at + _ROUND]
        counts = [counter.message(message) for message in messages]
        fresh = counts[0]
        usage = CanonicalUsage(
            input_tokens=12, output_tokens=counts[1], cache_read_tokens=size, cache_write_tokens=fresh
        )
        await store.append(
            session,
            [NewMessage(message, when, tokens) for message, tokens in zip(messages, counts, strict=True)],
            calls={1: _call(usage, when, asked_by)},
        )
        size += sum(counts)


@cache
def _history(messages: int, seed: int) -> list[Message]:
    return synthetic_history(messages, seed)


def _call(usage: CanonicalUsage, at: datetime, source: CallSource) -> ModelCall:
    cost = cost_of(usage, DASHBOARD_MODEL)
    assert cost is not None
    direct = None if source != "gateway" else int(cost.micros * 1.25)
    return ModelCall(usage, DASHBOARD_MODEL, "anthropic", source, cost.micros, at=at, cost_direct_micros=direct)


async def add_imported(store: Store) -> Session:
    """A session of another program: nobody counted its messages, and nothing is known of its requests."""
    new = NewSession(source="claude-code", model="claude-opus-4-1", title="An imported session")
    session = await store.start_session(new)
    asked = [
        user("where is the config read?"),
        assistant("I look.", [call("read_file", {"path": "config.py"}, id="c1")]),
    ]
    await store.append(session.id, [*asked, tool("c1", "import os\n" * 400), assistant("In `load`, line 12.")])
    return session


async def add_sessions_of_every_kind(store: Store) -> dict[str, Session]:
    """Sessions by name: a chat, a branch of it, an imported one, one of a gateway's client, a hosted one."""
    chat = await add_chat(store, 14)
    branch = await store.branch(chat.id, 9)
    return {
        "chat": chat,
        "branch": await store.rename(branch.id, "Another way"),
        "imported": await add_imported(store),
        "gateway": await add_chat(store, 5, title=None, source="gateway", owner="anna", seed=1),
        "hosted": await add_chat(store, 4, title="A bot", source="hosted", owner="anna", seed=2),
    }
