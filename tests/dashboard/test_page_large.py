"""The page with 2,000 sessions and a session of 20,000 messages: only what is in sight is asked for and drawn."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from clew.store import NewSession, Store, open_store
from clew.testing.messages import assistant, user
from tests.dashboard.chromium import CHROMIUM, NO_CHROMIUM, ChromiumTab
from tests.dashboard.conftest import OpenTab, show
from tests.support.dashboard import DASHBOARD_MODEL, DashboardFlow, running_dashboard

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM),
]
SESSIONS = 2_000
MESSAGES = 20_000
_AT_ONCE = 2_000
MOST_ELEMENTS = 2_500
"""Of the whole page: with a row for each message it would have 100,000."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def large_store(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Store, str, Path]]:
    """Many sessions, and the id of a long one."""
    folder = tmp_path_factory.mktemp("large")
    async with open_store(folder / "state.db", flush="normal") as store:
        for number in range(SESSIONS - 1):
            new = NewSession(source="terminal", model=DASHBOARD_MODEL, title=f"Session {number}")
            made = await store.start_session(new)
            await store.append(made.id, [user(f"question {number}")])
        long = await store.start_session(NewSession(source="terminal", model=DASHBOARD_MODEL, title="The long one"))
        for start in range(0, MESSAGES, _AT_ONCE):
            numbers = range(start, start + _AT_ONCE)
            await store.append(
                long.id, [user(f"ask {at}") if at % 2 == 0 else assistant(f"say {at}") for at in numbers]
            )
        yield store, long.id, folder


@pytest_asyncio.fixture(loop_scope="module")
async def flow(large_store: tuple[Store, str, Path]) -> AsyncIterator[DashboardFlow]:
    store, _, folder = large_store
    async with running_dashboard(folder, store=store) as running:
        yield running


async def elements_in(tab: ChromiumTab) -> int:
    return int(await tab.evaluate("document.querySelectorAll('*').length"))


async def test_two_thousand_sessions_come_page_by_page_and_any_is_found_by_typing(open_tab: OpenTab) -> None:
    async with open_tab() as tab:
        await tab.wait_for("document.querySelectorAll('.row').length === 50")
        assert f"{SESSIONS:,} sessions" in await tab.text(".head")
        assert await elements_in(tab) < MOST_ELEMENTS
        await tab.click("button", "Show 50 more")
        await tab.wait_for("document.querySelectorAll('.row').length === 100")
        # Coming back from a session, the list is as long as it was left, and in the same place.
        await tab.evaluate("document.querySelectorAll('.row h2 a')[90].scrollIntoView({ block: 'center' })")
        before = await tab.evaluate("document.querySelectorAll('.row h2 a')[90].getBoundingClientRect().top")
        await tab.click(".row h2 a", (await tab.texts(".row h2 a"))[90])
        await tab.wait_for("document.querySelector('.actions')")
        await tab.evaluate("history.back()")
        await tab.wait_for("document.querySelectorAll('.row').length === 100")
        after = await tab.wait_for(
            f"(() => {{ const top = document.querySelectorAll('.row h2 a')[90].getBoundingClientRect().top;"
            f" return Math.abs(top - {before}) < 300 && [top]; }})()"
        )
        assert len(after) == 1
        await tab.fill("#find", "question 1234")
        await tab.wait_for("document.querySelector('.hit')?.innerText.includes('Session 1234')")


async def test_twenty_thousand_messages_are_a_window_that_moves(
    large_store: tuple[Store, str, Path], open_tab: OpenTab
) -> None:
    _, long, _ = large_store
    async with open_tab() as tab:
        await show(tab, f"#/session/{long}")
        await tab.wait_for_text("ask 0", ".list-card")
        tab.paths.clear()
        await tab.evaluate("document.querySelector('.list-card .messages').scrollTop = 1e9")
        await tab.wait_for_text(f"say {MESSAGES - 1}", ".list-card")
        assert await tab.evaluate("document.querySelectorAll('.list-card .message').length") < 60
        assert await elements_in(tab) < MOST_ELEMENTS
        asked = [path for path in tab.paths if "/messages?" in path]
        assert len(asked) <= 2
        await tab.fill("#find-here", "m12345")
        await tab.press("Enter")
        await tab.wait_for_text("say 12345", ".panel")
        await tab.wait_for("document.querySelector('.list-card .message.current')?.dataset.seq === '12345'")
