"""Who may see the page of the dashboard: by the link of a local one, by a key on a gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from clew.gateway import hash_key, make_key
from clew.store import NewKey
from clew.testing.upstream import Upstream
from tests.dashboard.chromium import CHROMIUM, NO_CHROMIUM, Chromium
from tests.dashboard.conftest import OpenTab, show
from tests.support.dashboard import DashboardFlow, add_chat
from tests.support.gateway import GatewayFlow, gateway_with

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM),
]


@pytest_asyncio.fixture(loop_scope="module")
async def gateway(tmp_path: Path) -> AsyncIterator[GatewayFlow]:
    async with gateway_with(Upstream(), tmp_path) as running:
        yield running


async def test_the_link_signs_in_once_and_leaves_the_address(
    browser: Chromium, flow: DashboardFlow, open_tab: OpenTab
) -> None:
    used = flow.launch_url
    async with open_tab() as tab:
        assert "launch" not in await tab.evaluate("location.href")
    async with browser.tab(flow.address) as stranger:
        await stranger.go(used)
        await stranger.wait_for_text("Sign in")
        assert not await stranger.evaluate("document.querySelector('.row')")


async def test_without_the_link_there_is_nothing_to_see_but_how_to_sign_in(
    browser: Chromium, flow: DashboardFlow
) -> None:
    await add_chat(flow.store, 1)
    async with browser.tab(flow.address) as tab:
        await tab.go(f"{flow.address}/dashboard/")
        await tab.wait_for_text("Open the address that clew dashboard printed")
        assert (await tab.texts("h1")) == ["Sign in"]
        assert tab.problems == []


async def test_on_a_gateway_a_key_shows_its_owners_sessions_until_somebody_signs_out(
    browser: Chromium, gateway: GatewayFlow
) -> None:
    key = make_key()
    await gateway.store.create_key(NewKey("anna", hash_key(key)))
    await add_chat(gateway.store, 2, title="Of Anna", source="gateway", owner="anna")
    await add_chat(gateway.store, 2, title="Of Ben", source="gateway", owner="ben", seed=1)
    async with browser.tab(gateway.root) as tab:
        await tab.go(f"{gateway.root}/dashboard/")
        await tab.fill("#key", "clew_sk_wrong")
        await tab.press("Enter")
        await tab.wait_for("document.querySelector('[role=alert]')")
        # The browser itself notes the answer 401; it is the only thing that may be noted.
        assert all("401" in problem for problem in tab.problems)
        tab.problems.clear()
        await tab.fill("#key", key)
        await tab.press("Enter")
        await tab.wait_for("document.querySelector('.row')")
        assert await tab.texts(".row h2") == ["Of Anna"]
        await tab.click("button", "Sign out")
        await tab.wait_for("document.querySelector('#key')")
        assert tab.problems == []
        assert tab.other_hosts == []


async def test_who_may_only_look_is_told_why_instead_of_a_dialog(browser: Chromium, gateway: GatewayFlow) -> None:
    key = make_key()
    await gateway.store.create_key(NewKey("anna", hash_key(key), budget_micros=10))
    (stored,) = await gateway.store.list_keys()
    await gateway.store.add_spending(stored.id, 20)
    chat = await add_chat(gateway.store, 2, source="hosted", owner="anna")
    async with browser.tab(gateway.root) as tab:
        await tab.go(f"{gateway.root}/dashboard/")
        await tab.fill("#key", key)
        await tab.press("Enter")
        await tab.wait_for("document.querySelector('.row')")
        await show(tab, f"#/session/{chat.id}")
        await tab.wait_for_text("spent", ".head .note")
        await tab.click(".actions button", "Rename…")
        await tab.wait_for_text("spent", ".said")
        assert not await tab.evaluate("document.querySelector('dialog')")
