"""/compress: now, with a focus, looked at first, applied exactly, and taken back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clew.cli.compress import preview_of
from clew.errors import InvalidArgument
from clew.store import Store
from clew.testing import assistant, user
from clew.turn import receive
from tests.support.summaries import handoff_text


async def stored(chat: Any) -> list[Any]:
    """The compactions of the conversation that are in effect."""
    store: Store = chat.app.store
    return [each for each in await store.compactions(chat.state.session) if each.is_in_effect]


def as_bytes(messages: Any) -> list[bytes]:
    return [json.dumps(message, ensure_ascii=False).encode() for message in messages]


def letters(text: str) -> str:
    """A text without the white space and edges that a screen puts in."""
    return "".join(text.replace("│", "").split())


async def test_it_compacts_now_and_shows_what_it_did(long_chat: Any) -> None:
    shown = await long_chat.type("/compress")
    done = (await stored(long_chat))[0]
    assert f"{done.entry.tokens_before:,} → {done.entry.tokens_after:,} tokens" in shown
    assert "40 messages into one handoff" in shown
    assert "the built-in summariser" in shown
    assert "/compress --undo" in shown
    assert len(await long_chat.view()) == 24


async def test_a_model_that_refuses_is_named_beside_who_wrote_it_instead(long_chat: Any) -> None:
    shown = " ".join((await long_chat.type("/compress")).split())
    assert "! The summary was written by the built-in summariser: scripted-model refused the credentials" in shown


async def test_what_a_model_made_up_is_counted_and_named(long_chat: Any) -> None:
    long_chat.provider.summary = handoff_text(
        active_task='"Then mend it."',
        completed_actions="1. READ /srv/rota/part_3.py",
        critical_context="/srv/no/such.py",
    )
    preview = " ".join((await long_chat.type("/compress --preview --full")).split())
    assert "written by scripted-model" in preview
    assert "/srv/no/such.py" in preview
    calls = long_chat.provider.summaries
    shown = await long_chat.type("/compress --apply")
    assert long_chat.provider.summaries == calls, "applying asks no model again"
    assert "1 not found in the originals: /srv/no/such.py" in shown
    assert (await stored(long_chat))[0].entry.written_by == "scripted-model"


async def test_words_behind_it_are_the_focus(long_chat: Any) -> None:
    shown = await long_chat.type("/compress Sundays in part_7")
    assert (await stored(long_chat))[0].entry.focus_topic == "Sundays in part_7"
    assert "Sundays in part_7" in shown


async def test_where_nothing_can_be_folded_the_reason_is_told(chat: Any) -> None:
    await receive(chat.runtime, chat.state.session, [user("hello"), assistant("hi")])
    shown = " ".join((await chat.type("/compress")).split())
    assert "Nothing was changed" in shown
    assert "nothing lies between the head and the tail" in shown
    assert not await stored(chat)
    assert "Nothing was changed" in await chat.type("/compress --preview")
    assert not chat.asked


async def test_a_preview_changes_nothing_until_it_is_confirmed(long_chat: Any) -> None:
    before = as_bytes(await long_chat.view())
    shown = await long_chat.type("/compress --preview")
    assert long_chat.asked == ["Apply exactly this?"]
    assert as_bytes(await long_chat.view()) == before
    assert not await stored(long_chat)
    assert "/compress --apply" in shown


async def test_a_preview_shows_what_becomes_of_each_region(long_chat: Any) -> None:
    lines = (await long_chat.type("/compress --preview")).splitlines()
    head, folded, tail = (next(line for line in lines if f" {place} " in line) for place in ("head", "folded", "tail"))
    live = await long_chat.runtime.conversation(long_chat.state.session)
    assert ["m0-m2", "3", "head", f"{live.size.between(0, 3):,}"] == head.split()[:4]
    assert ["m3-m42", "40", "folded", f"{live.size.between(3, 43):,}"] == folded.split()[:4]
    assert ["m43-m62", "20", "tail", f"{live.size.between(43, 63):,}"] == tail.split()[:4]


async def test_the_parts_of_a_preview_add_up_to_what_it_promises(long_chat: Any) -> None:
    await long_chat.type("/compress --preview")
    live = await long_chat.runtime.conversation(long_chat.state.session)
    prepared = long_chat.state.previewed
    preview = preview_of(prepared, live)
    standing = sum(it.tokens_after for it in preview.groups) + preview.handoff
    done = prepared.compaction
    freed, system = sum(it.tokens for it in preview.groups) - standing, live.size.system
    await long_chat.type("/compress --apply")
    # A note behind the system prompt tells the model that there is a handoff.
    assert freed - (live.size.system - system) == done.tokens_before - done.tokens_after


async def test_what_a_preview_shows_is_what_is_applied_byte_for_byte(long_chat: Any) -> None:
    long_chat.answers.append(True)
    shown = await long_chat.type("/compress --preview --full Sundays")
    entry = (await stored(long_chat))[0].entry
    view = await long_chat.view()
    summary = next(message for message in view if message.get("content") == entry.summary["content"])
    handoff = str(summary["content"])
    told = letters(shown.partition("the handoff")[2].partition("compacted")[0])
    body = handoff.partition("all kept.")[2].rpartition("Messages m3")[0]
    assert letters(body) in told
    assert f"{entry.tokens_before:,} → {entry.tokens_after:,}" in shown


async def test_the_draft_that_was_shown_is_the_view_that_then_is_stored(long_chat: Any) -> None:
    await long_chat.type("/compress --preview")
    prepared = long_chat.state.previewed
    await long_chat.type("/compress --apply")
    assert as_bytes(await long_chat.view()) == as_bytes(prepared.compaction.messages)
    assert long_chat.state.previewed is None


async def test_a_preview_can_be_applied_after_more_was_said(long_chat: Any) -> None:
    await long_chat.type("/compress --preview")
    prepared = long_chat.state.previewed
    later = [assistant("Mended."), user("Thanks.")]
    await receive(long_chat.runtime, long_chat.state.session, later)
    await long_chat.type("/compress --apply")
    assert as_bytes(await long_chat.view()) == as_bytes([*prepared.compaction.messages, *later])


async def test_a_preview_of_another_state_is_not_applied(long_chat: Any) -> None:
    await long_chat.type("/compress --preview")
    prepared = long_chat.state.previewed
    await long_chat.type("/compress")
    before = as_bytes(await long_chat.view())
    long_chat.state.previewed = prepared
    with pytest.raises(InvalidArgument, match="another state of this conversation"):
        await long_chat.type("/compress --apply")
    assert as_bytes(await long_chat.view()) == before


async def test_without_a_preview_there_is_nothing_to_apply(long_chat: Any) -> None:
    with pytest.raises(InvalidArgument, match="/compress --preview makes one"):
        await long_chat.type("/compress --apply")


async def test_a_long_handoff_is_cut_on_the_screen_with_the_way_to_see_all(long_chat: Any) -> None:
    short = await long_chat.type("/compress --preview")
    assert "more lines: /compress --preview --full shows all" in short
    whole = await long_chat.type("/compress --full")
    assert "more lines" not in whole
    assert len(whole) > len(short)


async def test_undo_brings_the_former_view_back_and_says_how_much(long_chat: Any) -> None:
    before = as_bytes(await long_chat.view())
    await long_chat.type("/compress")
    shown = " ".join((await long_chat.type("/compress --undo")).split())
    assert as_bytes(await long_chat.view()) == before
    assert "63 messages (39 more)" in shown
    assert "above the threshold of 10,000" in shown
    assert "nothing to undo" in await long_chat.type("/compress --undo")


async def test_pinned_texts_that_would_be_folded_are_named_in_the_preview(long_chat: Any) -> None:
    assert "Pinned m10" in await long_chat.type("/pin m10")
    shown = " ".join((await long_chat.type("/compress --preview")).split())
    assert "1 pinned text would be added behind the system prompt" in shown


async def test_a_second_compaction_warns_and_shows_the_earlier_handoff(long_chat: Any) -> None:
    await long_chat.type("/compress")
    more = [
        message for at in range(30) for message in (user(f"And shift {at}? " + "why " * 90), assistant("Fine. " * 60))
    ]
    await receive(long_chat.runtime, long_chat.state.session, more)
    preview = await long_chat.type("/compress --preview")
    assert "the earlier handoff, taken in" in preview
    shown = " ".join((await long_chat.type("/compress --apply")).split())
    assert "! This conversation has been compacted" in shown


@pytest.mark.parametrize("line", ["/compress --nope", "/compress --undo now", "/compress --apply --full"])
async def test_flags_that_mean_nothing_are_refused_with_those_that_do(long_chat: Any, line: str) -> None:
    with pytest.raises(InvalidArgument, match="/compress"):
        await long_chat.type(line)
    assert not await stored(long_chat)


async def test_everything_fits_from_60_to_120_columns(long_chat: Any) -> None:
    await receive(
        long_chat.runtime, long_chat.state.session, [assistant("好的，" * 40), user("请继续修复排班表。" * 9)]
    )
    await long_chat.type("/compress --preview --full 排班表")
    await long_chat.type("/compress")
    await long_chat.type("/compress --undo")
    for width in (50, 60, 80, 101, 120):
        long_chat.drawn(width)


async def test_a_preview_says_that_it_summarises(long_chat: Any) -> None:
    told: list[str] = []
    long_chat.state.wait_for = told.append
    await long_chat.type("/compress --preview")
    assert len(told) == 1
    assert told[0].startswith("preview of ")
    assert told[0].endswith(" tokens: summarise")
