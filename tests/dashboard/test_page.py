"""The page of the dashboard in a real browser: what it shows, live, at every width, light and dark, to everybody."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from clew.store import NewMessage, Session
from clew.testing.messages import assistant, user
from tests.dashboard.chromium import CHROMIUM, NO_CHROMIUM, Chromium, ChromiumTab
from tests.dashboard.conftest import OpenTab, compact, show
from tests.support.dashboard import (
    DashboardFlow,
    add_chat,
    add_rounds,
    add_sessions_of_every_kind,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM),
]
AXE = os.environ.get("CLEW_TEST_AXE", "")
NO_AXE = "CLEW_TEST_AXE does not name axe.min.js of the npm package axe-core"
WIDTHS = (360, 800, 1400)
SERIOUS = ("serious", "critical")


async def compacted_chat(flow: DashboardFlow, rounds: int = 14) -> Session:
    """A session with a compaction, and requests before and after it."""
    chat = await add_chat(flow.store, rounds)
    await compact(flow, chat)
    await add_rounds(flow.store, chat.id, 2, datetime.now(UTC), seed=9)
    return chat


async def test_a_store_without_sessions_says_how_to_get_one(open_tab: OpenTab) -> None:
    async with open_tab() as tab:
        await tab.wait_for_text("No sessions yet")
        assert "clew chat" in await tab.text("main")


async def test_the_list_has_a_row_for_each_session_with_what_it_took(flow: DashboardFlow, open_tab: OpenTab) -> None:
    await add_sessions_of_every_kind(flow.store)
    async with open_tab() as tab:
        await tab.wait_for("document.querySelectorAll('.row').length === 5")
        await tab.wait_for_text("42 messages", ".rows")
        rows = {row.splitlines()[0]: row for row in await tab.texts(".row")}
        chat = rows["Fix the login"]
        assert "claude-sonnet-4-5 · Clew chat · 42 messages" in chat
        assert "of 60.0K" in chat
        assert "$" in chat
        assert "An imported session" in rows
        assert "Claude Code" in rows["An imported session"]
        told = await tab.evaluate("document.querySelector('.row [role=meter]').getAttribute('aria-valuetext')")
        assert "of 60,000 tokens" in told


async def test_a_new_session_and_new_messages_appear_by_themselves(flow: DashboardFlow, open_tab: OpenTab) -> None:
    first = await add_chat(flow.store, 2, title="The first")
    async with open_tab() as tab:
        await tab.wait_for_text("6 messages", ".row")
        await add_chat(flow.store, 1, title="The second", seed=3)
        await tab.wait_for("document.querySelectorAll('.row').length === 2")
        await flow.store.append(first.id, [user("Is it done?"), assistant("It is done, all of it.")])
        await tab.wait_for_text("8 messages", ".rows")
        await tab.wait_for_text("It is done, all of it.", ".rows")


async def test_a_session_that_is_open_goes_on_by_itself(flow: DashboardFlow, open_tab: OpenTab) -> None:
    chat = await add_chat(flow.store, 3)
    async with open_tab(f"#/session/{chat.id}") as tab:
        await tab.wait_for_text("9 messages", "main")
        await flow.store.append(chat.id, [NewMessage(user("one more question"))])
        await tab.wait_for_text("10 messages", "main")
        await tab.wait_for_text("one more question", ".list-card")


async def test_filters_are_in_the_address_and_back_undoes_nothing_else(flow: DashboardFlow, open_tab: OpenTab) -> None:
    await add_sessions_of_every_kind(flow.store)
    async with open_tab("#/?state=branch") as tab:
        await tab.wait_for("document.querySelectorAll('.row').length === 1")
        assert (await tab.texts(".row h2")) == ["Another way"]
        await tab.click(".row h2 a")
        await tab.wait_for_text("Another way", "h1")
        await tab.evaluate("history.back()")
        await tab.wait_for("document.querySelectorAll('.row').length === 1")
        assert await tab.evaluate("location.hash") == "#/?state=branch"
        await show(tab, "#/?client=nobody")
        await tab.wait_for_text("No session matches these filters.")


async def test_search_finds_words_while_they_are_typed_and_leads_to_the_message(
    flow: DashboardFlow, open_tab: OpenTab
) -> None:
    chat = await add_chat(flow.store, 4)
    words = "the <b>zeppelin</b> lands at noon"
    at = (await flow.store.append(chat.id, [user(words)])).first_seq
    async with open_tab() as tab:
        await tab.fill("#find", "zeppel")
        await tab.wait_for("document.querySelectorAll('.hit').length === 1")
        assert (await tab.texts(".hit mark"))[0] in "zeppelin"
        assert words in (await tab.text(".hit"))
        await tab.click(".hit a")
        await tab.wait_for_text(words, ".panel")
        assert await tab.evaluate("location.hash") == f"#/session/{chat.id}/m{at}"
        assert not await tab.evaluate("document.querySelector('.panel pre b')")
        await show(tab, "#/?search=nothinglikeit")
        await tab.wait_for_text("Nothing with “nothinglikeit”")


async def test_a_session_shows_its_window_requests_compaction_chain_and_messages(
    flow: DashboardFlow, open_tab: OpenTab
) -> None:
    chat = await compacted_chat(flow)
    async with open_tab(f"#/session/{chat.id}") as tab:
        await tab.wait_for("document.querySelector('.u-wrap canvas')")
        context = await tab.wait_for("document.querySelector('.window-bar')?.getAttribute('aria-label')")
        assert "handoff" in context
        assert "tool results" in context
        await tab.wait_for_text("became a handoff, written by built-in", ".compactions")
        await tab.wait_for_text("It cost nothing", ".compactions")
        await tab.wait_for_text("in 2 requests", ".compactions")
        await tab.wait_for_text("compacted", ".tree")
        await tab.click("summary", "As a table")
        await tab.wait_for("document.querySelectorAll('.as-table tbody tr').length === 16")


async def test_a_reference_of_the_handoff_opens_its_message_and_escape_goes_back_to_it(
    flow: DashboardFlow, open_tab: OpenTab
) -> None:
    chat = await compacted_chat(flow)
    async with open_tab(f"#/session/{chat.id}") as tab:
        reference = await tab.wait_for("document.querySelector('.handoff .ref')?.innerText")
        await tab.evaluate("document.querySelector('.handoff .ref').focus()")
        await tab.press("Enter")
        await tab.wait_for_text(reference, ".panel h2")
        assert await tab.evaluate("location.hash") == f"#/session/{chat.id}/{reference}"
        await tab.press("ArrowRight")
        await tab.wait_for_text(f"m{int(reference[1:]) + 1}", ".panel h2")
        await tab.press("Escape")
        await tab.wait_for_no(".panel")
        assert await tab.focused() == reference


async def test_what_the_handoff_replaced_stands_beside_it(flow: DashboardFlow, open_tab: OpenTab) -> None:
    chat = await compacted_chat(flow)
    async with open_tab(f"#/session/{chat.id}") as tab:
        await tab.wait_for("document.querySelectorAll('.replaced .message .words').length > 5")
        boxes = await tab.evaluate(
            "['.told', '.replaced'].map((name) => { const box = document.querySelector('.beside ' + name)"
            ".getBoundingClientRect(); return [box.left, box.right, box.top]; })"
        )
        assert boxes[0][1] <= boxes[1][0]
        assert boxes[0][2] == boxes[1][2]
        await tab.wait_for("document.querySelector('.replaced .cell.folded')")


async def test_the_chart_is_read_with_arrow_keys(flow: DashboardFlow, open_tab: OpenTab) -> None:
    chat = await add_chat(flow.store, 6)
    async with open_tab(f"#/session/{chat.id}") as tab:
        await tab.wait_for("document.querySelector('.u-wrap')")
        await tab.evaluate("document.querySelector('.plot').focus()")
        await tab.press("Home")
        first = await tab.wait_for("document.querySelector('.plot').getAttribute('aria-valuetext')")
        assert first.startswith("Request 1,")
        await tab.press("ArrowRight")
        await tab.wait_for("document.querySelector('.plot').getAttribute('aria-valuetext').startsWith('Request 2,')")
        await tab.wait_for_text("Request 2,", ".tell")


async def test_a_link_that_is_followed_as_soon_as_it_is_drawn_leads_there(
    browser: Chromium, flow: DashboardFlow
) -> None:
    chat = await add_chat(flow.store, 1)
    at_once = (
        "new MutationObserver((_, watch) => { if (!document.querySelector('main h1')) return; watch.disconnect();"
        f" location.hash = '#/session/{chat.id}'; }}).observe(document, {{ childList: true, subtree: true }})"
    )
    async with browser.tab(flow.address) as tab:
        await tab.send("Page.addScriptToEvaluateOnNewDocument", source=at_once)
        await tab.go(flow.launch_url)
        await tab.wait_for_text("Compact…", ".actions")


async def test_a_session_that_does_not_exist_is_said_in_words(open_tab: OpenTab) -> None:
    async with open_tab() as tab:
        await show(tab, "#/session/s_nothing")
        await tab.wait_for_text("There is no such session.")
        # The browser itself notes the answer 404; it is the only thing that may be noted.
        assert all("404" in problem for problem in tab.problems)
        tab.problems.clear()


async def test_a_server_that_is_gone_and_back_is_noticed(browser: Chromium, flow: DashboardFlow) -> None:
    async with browser.tab(flow.address) as tab:
        await tab.go(flow.launch_url)
        await tab.wait_for_text("live", ".live")
        await tab.cut_off(True)
        await tab.evaluate("location.hash = '#/insights'")
        await tab.wait_for_text("The server cannot be reached.")
        await tab.cut_off(False)
        await tab.click("button", "Try again")
        await tab.wait_for_text("No calls in these 30 days")


async def test_insights_add_up_by_day_model_and_client_and_say_what_fills_windows(
    flow: DashboardFlow, open_tab: OpenTab
) -> None:
    await add_sessions_of_every_kind(flow.store)
    async with open_tab("#/insights") as tab:
        await tab.wait_for("document.querySelector('.u-wrap')")
        headings = await tab.texts("h2")
        assert {"Day by day", "By model", "By client", "What fills windows"} <= set(headings)
        assert "claude-sonnet-4-5" in await tab.text("main")
        await tab.click("button", "money")
        await tab.wait_for("document.querySelector('.plot').getAttribute('aria-label') === 'Cost of each day'")
        await tab.click("button", "7 days")
        await tab.wait_for("location.hash === '#/insights?days=7'")


async def places_of(flow: DashboardFlow) -> list[str]:
    await add_sessions_of_every_kind(flow.store)
    chat = await compacted_chat(flow)
    return ["#/", "#/?search=retry", f"#/session/{chat.id}", f"#/session/{chat.id}/m3", "#/insights"]


async def open_dialogs(tab: ChromiumTab) -> list[str]:
    """The names on the buttons that open a dialog."""
    return [name for name in await tab.texts(".actions button:not([aria-disabled=true])") if name]


async def test_no_view_is_wider_than_the_screen(flow: DashboardFlow, open_tab: OpenTab) -> None:
    places = await places_of(flow)
    async with open_tab() as tab:
        for width in WIDTHS:
            await tab.show_as(width)
            for place in places:
                await show(tab, place)
                over = await tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
                assert over <= 0, (width, place)


async def test_it_follows_the_scheme_of_the_system(flow: DashboardFlow, open_tab: OpenTab) -> None:
    await add_chat(flow.store, 2)
    async with open_tab(is_dark=True) as tab:
        look = (
            "[document.body, document.querySelector('.row h2 a')].map((each) => { const style ="
            " getComputedStyle(each); return style.backgroundColor + ' ' + style.color; })"
        )
        dark = await tab.evaluate(look)
        await tab.show_as(1400)
        light = await tab.evaluate(look)
        assert dark[0].startswith("rgb(21, 23, 28)")
        assert light[0].startswith("rgb(251, 250, 248)")
        assert dark[1] != light[1]


@pytest.mark.skipif(not AXE, reason=NO_AXE)
@pytest.mark.parametrize("is_dark", [False, True])
async def test_axe_has_nothing_serious_to_say(flow: DashboardFlow, open_tab: OpenTab, *, is_dark: bool) -> None:
    places = await places_of(flow)
    async with open_tab(is_dark=is_dark) as tab:
        await tab.evaluate(axe_script() + "; true")
        for place in places:
            await show(tab, place)
            assert await findings(tab) == [], place
        await show(tab, places[2])
        for name in await open_dialogs(tab):
            await tab.click(".actions button", name)
            await tab.wait_for("document.querySelector('dialog[open]')")
            assert await findings(tab) == [], name
            await tab.press("Escape")
            await tab.wait_for_no("dialog")


def axe_script() -> str:
    return Path(AXE).read_text(encoding="utf-8")


async def findings(tab: ChromiumTab) -> list[str]:
    """What axe finds that is serious, each with the first element it is about."""
    found = json.loads(
        await tab.evaluate(
            "axe.run(document, { resultTypes: ['violations'] }).then((done) => JSON.stringify(done.violations.map("
            "(each) => [each.impact, each.id, each.nodes.map((node) => node.html + ' ' + node.failureSummary)])))"
        )
    )
    return [f"{name}: {nodes[0]}" for impact, name, nodes in found if impact in SERIOUS]


async def test_the_policy_lets_no_script_or_style_in_that_is_not_ours(browser: Chromium, flow: DashboardFlow) -> None:
    async with browser.tab(flow.address) as tab:
        await tab.go(flow.launch_url)
        await tab.wait_for("document.querySelector('main h1')")
        await tab.evaluate(
            "const made = document.createElement('script'); made.textContent = 'window.ran = 1';"
            " document.body.append(made)"
        )
        assert await tab.evaluate("window.ran === undefined")
        assert any("Content Security Policy" in problem for problem in tab.problems)
