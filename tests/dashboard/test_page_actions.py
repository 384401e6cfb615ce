"""What can be done on the page of the dashboard, by mouse and by keyboard alone, and what it says afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from clew.errors import UnknownSession
from clew.messages import text_of
from clew.store import Session
from tests.dashboard.chromium import CHROMIUM, NO_CHROMIUM, ChromiumTab
from tests.dashboard.conftest import OpenTab, compact, show
from tests.support.dashboard import DashboardFlow, add_chat

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM),
]
ROUNDS = 14


async def compacted(flow: DashboardFlow) -> Session:
    chat = await add_chat(flow.store, ROUNDS)
    await compact(flow, chat)
    return chat


async def newest_handoff(flow: DashboardFlow, session: Session) -> str:
    made = [each for each in await flow.store.compactions(session.id) if each.is_in_effect]
    assert made[-1].entry.summary is not None
    return text_of(made[-1].entry.summary)


async def press_until(tab: ChromiumTab, condition: str, key: str = "Tab", most: int = 60) -> None:
    """Press a key until a condition holds, as somebody does who looks for something."""
    for _ in range(most):
        if await tab.evaluate(condition):
            return
        await tab.press(key)
    raise AssertionError(f"{condition} never held; the focus is on {await tab.focused()!r}")


def focus_is_on(words: str) -> str:
    return f"document.activeElement.innerText.trim().startsWith({words!r})"


async def test_a_preview_with_a_focus_topic_is_applied_exactly_as_it_was_shown(
    flow: DashboardFlow, open_tab: OpenTab
) -> None:
    chat = await add_chat(flow.store, ROUNDS)
    async with open_tab(f"#/session/{chat.id}") as tab:
        await tab.click(".actions button", "Compact…")
        await tab.fill("#focus", "the ledger")
        await tab.click("dialog button", "Preview")
        await tab.wait_for("document.querySelector('dialog .handoff')")
        assert await flow.store.compactions(chat.id) == []
        shown = await tab.evaluate("document.querySelector('dialog .handoff .line').textContent")
        after = (await tab.texts("dialog .figure dd"))[1].split("→")[1].strip()
        await tab.click("dialog button", "Apply exactly this")
        await tab.wait_for_no("dialog")
        await tab.wait_for_text(f"→ {after} tokens", ".said")
        await tab.wait_for_text(f"→ {after} tokens", ".compactions")
        await tab.wait_for_text("with the focus “the ledger”", ".compactions")
        assert shown.strip().lstrip("0123456789. ")[:60] in (await newest_handoff(flow, chat))


async def test_a_changed_focus_must_be_previewed_before_it_can_be_applied(
    flow: DashboardFlow, open_tab: OpenTab
) -> None:
    chat = await add_chat(flow.store, ROUNDS)
    async with open_tab(f"#/session/{chat.id}") as tab:
        await tab.click(".actions button", "Compact…")
        await tab.click("dialog button", "Preview")
        await tab.wait_for_text("Apply exactly this", "dialog")
        await tab.fill("#focus", "another")
        await tab.wait_for("!document.querySelector('dialog').innerText.includes('Apply exactly this')")
        await tab.click("dialog button", "Preview again")
        await tab.wait_for_text("Apply exactly this", "dialog")


async def test_a_preview_of_what_was_compacted_meanwhile_is_refused_in_words(
    flow: DashboardFlow, open_tab: OpenTab
) -> None:
    chat = await add_chat(flow.store, ROUNDS)
    async with open_tab(f"#/session/{chat.id}") as tab:
        await tab.click(".actions button", "Compact…")
        await tab.click("dialog button", "Preview")
        await tab.wait_for_text("Apply exactly this", "dialog")
        await compact(flow, chat)
        await tab.click("dialog button", "Apply exactly this")
        await tab.wait_for_text("Preview again to see it as it would be now.", "dialog")
        # The browser itself notes the refusal; it is the only thing that may be noted.
        assert all("404" in problem or "409" in problem for problem in tab.problems)
        tab.problems.clear()
    assert len(await flow.store.compactions(chat.id)) == 1


async def test_a_short_session_says_that_there_is_nothing_to_compact(flow: DashboardFlow, open_tab: OpenTab) -> None:
    chat = await add_chat(flow.store, 1)
    async with open_tab(f"#/session/{chat.id}") as tab:
        await tab.click(".actions button", "Compact…")
        await tab.click("dialog button", "Preview")
        await tab.wait_for_text("There is nothing to compact now.", "dialog")


async def test_undo_brings_the_former_view_back(flow: DashboardFlow, open_tab: OpenTab) -> None:
    chat = await compacted(flow)
    async with open_tab(f"#/session/{chat.id}") as tab:
        await tab.click(".actions button", "Undo…")
        await tab.click("dialog button.main", "Undo")
        await tab.wait_for_text("42 messages in view again", ".said")
        await tab.wait_for_text("undone", ".compactions")
    tip = await flow.store.get_compression_tip(chat.id)
    assert len((await flow.store.view(tip)).messages) == 3 * ROUNDS


async def test_rename_shows_the_new_title_everywhere(flow: DashboardFlow, open_tab: OpenTab) -> None:
    chat = await add_chat(flow.store, 2)
    async with open_tab(f"#/session/{chat.id}") as tab:
        await tab.click(".actions button", "Rename…")
        await tab.fill("#title", "Ledger & <i>spool</i>")
        await tab.press("Enter")
        await tab.wait_for_text("Ledger & <i>spool</i>", "h1")
        await show(tab, "#/")
        await tab.wait_for_text("Ledger & <i>spool</i>", ".row h2")
    assert (await flow.store.session(chat.id)).title == "Ledger & <i>spool</i>"


async def test_branch_opens_a_session_that_shares_the_first_messages(flow: DashboardFlow, open_tab: OpenTab) -> None:
    chat = await add_chat(flow.store, 4)
    async with open_tab(f"#/session/{chat.id}") as tab:
        await tab.click(".actions button", "Branch…")
        await tab.fill("#at", "5")
        await tab.wait_for_text("m0 to m4.", "dialog")
        await tab.fill("#branch-title", "Another way")
        await tab.click("dialog button.main")
        await tab.wait_for_text("Another way", "h1")
        await tab.wait_for_text("branch of Fix the login after m4", ".crumbs")
        await tab.wait_for_text("5 messages", "main .facts")


async def test_export_is_a_link_to_the_chosen_form(flow: DashboardFlow, open_tab: OpenTab) -> None:
    chat = await compacted(flow)
    async with open_tab(f"#/session/{chat.id}") as tab:
        await tab.click(".actions button", "Export…")
        await tab.click("dialog label", "Anthropic Messages")
        await tab.click("dialog label", "What the model sees now")
        fetched: list[Any] = await tab.evaluate(
            "fetch(document.querySelector('dialog a[download]').href).then(async (answer) =>"
            " [answer.headers.get('Content-Disposition'), (await answer.json()).messages.length])"
        )
        assert "attachment" in fetched[0]
        assert 0 < fetched[1] < 3 * ROUNDS


async def test_delete_asks_first_and_then_it_is_gone(flow: DashboardFlow, open_tab: OpenTab) -> None:
    chat = await add_chat(flow.store, 2)
    async with open_tab(f"#/session/{chat.id}") as tab:
        await tab.click(".actions button", "Delete…")
        await tab.wait_for("document.activeElement.innerText === 'Keep it'")
        await tab.press("Enter")
        await tab.wait_for_no("dialog")
        assert (await flow.store.session(chat.id)).id == chat.id
        await tab.click(".actions button", "Delete…")
        await tab.click("dialog button", "Delete for good")
        await tab.wait_for_text("No sessions yet")
    with pytest.raises(UnknownSession):
        await flow.store.session(chat.id)


async def test_what_cannot_be_done_says_why(flow: DashboardFlow, open_tab: OpenTab) -> None:
    chat = await add_chat(flow.store, 2)
    await flow.store.branch(chat.id, 3)
    async with open_tab(f"#/session/{chat.id}") as tab:
        await tab.click(".actions button", "Delete…")
        await tab.wait_for("document.querySelector('.said')?.innerText.includes('branch')")
        assert not await tab.evaluate("document.querySelector('dialog')")


async def test_a_compaction_is_made_and_undone_with_no_mouse(flow: DashboardFlow, open_tab: OpenTab) -> None:
    chat = await add_chat(flow.store, ROUNDS)
    async with open_tab() as tab:
        await tab.wait_for("document.querySelector('.row')")
        await press_until(tab, focus_is_on("Fix the login"))
        await tab.press("Enter")
        await tab.wait_for("document.querySelector('.actions')")
        await press_until(tab, focus_is_on("Compact…"))
        await tab.press("Enter")
        await tab.wait_for("document.activeElement.id === 'focus'")
        await tab.press("Enter")
        await tab.wait_for_text("Apply exactly this", "dialog")
        await press_until(tab, focus_is_on("Apply exactly this"))
        await tab.press(" ")
        await tab.wait_for_no("dialog")
        await tab.wait_for_text("became a handoff", ".compactions")
        assert await tab.focused() == "Compact…"
        await press_until(tab, focus_is_on("Undo…"))
        await tab.press("Enter")
        await tab.wait_for("document.querySelector('dialog')")
        await press_until(tab, "document.activeElement.matches('dialog button.main')")
        await tab.press("Enter")
        await tab.wait_for_text("undone", ".compactions")
    assert not any(each.is_in_effect for each in await flow.store.compactions(chat.id))


async def test_the_focus_stays_in_a_dialog_and_escape_gives_it_back(flow: DashboardFlow, open_tab: OpenTab) -> None:
    chat = await add_chat(flow.store, 2)
    async with open_tab(f"#/session/{chat.id}") as tab:
        await press_until(tab, focus_is_on("Branch…"))
        await tab.press("Enter")
        await tab.wait_for("document.activeElement.id === 'at'")
        for _ in range(9):
            await tab.press("Tab")
            # Chromium also lets the focus out to its own window, where the document's body has it.
            assert await tab.evaluate(
                "document.activeElement === document.body || !!document.activeElement.closest('dialog')"
            )
        await tab.press("Escape")
        await tab.wait_for_no("dialog")
        assert await tab.focused() == "Branch…"


async def test_messages_are_walked_through_with_arrow_keys(flow: DashboardFlow, open_tab: OpenTab) -> None:
    chat = await add_chat(flow.store, 40)
    async with open_tab(f"#/session/{chat.id}") as tab:
        await tab.wait_for("document.querySelector('.list-card .message[tabindex=\"0\"]')")
        await tab.evaluate("document.querySelector('.list-card .message[tabindex=\"0\"]').focus()")
        await tab.press("ArrowDown")
        await tab.wait_for("document.activeElement.dataset.seq === '1'")
        await tab.press("End")
        await tab.wait_for("document.activeElement.dataset.seq === '119'")
        await tab.press("Enter")
        await tab.wait_for_text("m119", ".panel h2")
        await tab.press("Escape")
        await tab.wait_for_no(".panel")
        await tab.wait_for("document.activeElement.dataset.seq === '119'")


async def test_a_link_past_the_head_of_the_page_comes_first(open_tab: OpenTab) -> None:
    async with open_tab() as tab:
        await tab.press("Tab")
        await tab.wait_for(focus_is_on("Skip to the content"))
        await tab.press("Enter")
        await tab.wait_for("document.activeElement.id === 'main'")
