"""A browser for a whole module of tests, and tabs in which nothing may go wrong unseen."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest_asyncio

from clew.store import Session
from tests.dashboard.chromium import Chromium, ChromiumTab, running_chromium
from tests.support.dashboard import DashboardFlow, running_dashboard, visiting

OpenTab: TypeAlias = Callable[..., AbstractAsyncContextManager[ChromiumTab]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Chromium]:
    async with running_chromium() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def flow(tmp_path: Path) -> AsyncIterator[DashboardFlow]:
    """A dashboard over an empty store."""
    async with running_dashboard(tmp_path) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def open_tab(browser: Chromium, flow: DashboardFlow) -> OpenTab:
    """Signs in and opens a place of the page. What the browser complained about fails the test, and so does a request
    to anybody but the dashboard."""

    @asynccontextmanager
    async def opened(place: str = "#/", width: int = 1400, *, is_dark: bool = False) -> AsyncIterator[ChromiumTab]:
        async with browser.tab(flow.address, width, is_dark=is_dark) as tab:
            await tab.go(flow.launch_url)
            await tab.wait_for("location.hash === '#/' && document.querySelector('main h1')")
            await show(tab, place)
            yield tab
            assert tab.problems == []
            assert tab.other_hosts == []

    return opened


async def show(tab: ChromiumTab, place: str) -> None:
    """Go to a place of the page, as a link does, and wait until it is drawn and everything of it was read."""
    # The event of a new address comes later than the address: without this the view before would be looked at.
    await tab.evaluate(
        "new Promise((go) => { const there = () => requestAnimationFrame(() => setTimeout(go));"
        f" if (location.hash === {place!r}) return there();"
        f" addEventListener('hashchange', there, {{ once: true }}); location.hash = {place!r}; }})"
    )
    await tab.wait_for("document.querySelector('main') && !document.querySelector('.waiting')")


async def compact(flow: DashboardFlow, session: Session) -> None:
    """Compact a session as another visitor does."""
    async with visiting(flow) as visitor:
        found = await visitor.act("POST", f"{session.id}/compress", {"preview": True})
        await visitor.act("POST", f"{session.id}/compress", {"apply": found["preview"]})
