"""Hosted conversations over HTTP: a bot that keeps no history of its own, in front of the mock upstream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from clew.gateway import hash_key, make_key
from clew.store import NewKey
from clew.testing.upstream import StreamedAnswer, Upstream, UpstreamAnswer, UpstreamFault
from tests.support.damaged_index import damage_index
from tests.support.gateway import gateway_with
from tests.support.hosting import CREDENTIAL, HostedBot, events_in, hosting_with

LONG = "many words of a question that goes on " * 40
ANNA, BERT = CREDENTIAL, "fake-key-of-bert"


def answers(count: int) -> list[UpstreamAnswer]:
    return [UpstreamAnswer(f"answer {number}") for number in range(count)]


def sent_messages(bot: HostedBot, number: int) -> list[Any]:
    messages: list[Any] = bot.flow.upstream.calls[number].body["messages"]
    return messages


# -- a bot -------------------------------------------------------------------------------------------------------------


async def test_a_bot_without_a_history_is_answered_with_all_that_was_said(tmp_path: Path) -> None:
    async with hosting_with(Upstream(*answers(3)), tmp_path) as bot:
        id = await bot.begin(system="Be brief.", title="a chat")
        for number in range(3):
            reply = await bot.ask(id, f"question {number}")
            assert (reply["conversation"], reply["content"]) == (id, f"answer {number}")
            assert reply["seq"] == 2 * number + 1
            assert reply["usage"]["output_tokens"] == 9
        sent = sent_messages(bot, 2)
        assert [message["content"] for message in sent] == [
            "Be brief.", "question 0", "answer 0", "question 1", "answer 1", "question 2",
        ]  # fmt: skip
        assert bot.flow.upstream.calls[0].headers["authorization"] == f"Bearer {ANNA}"
        page = await bot.done("GET", f"conversations/{id}/messages", limit=4)
        assert [row["message"]["content"] for row in page["messages"]][:2] == ["question 0", "answer 0"]
        rest = await bot.done("GET", f"conversations/{id}/messages", after=page["next"])
        assert [row["seq"] for row in rest["messages"]] == [4, 5] and rest["next"] is None
        before = await bot.done("GET", f"conversations/{id}/messages", before=4, limit=2)
        assert [row["seq"] for row in before["messages"]] == [2, 3]
        shown = await bot.done("GET", f"conversations/{id}")
        assert (shown["messages"], shown["system"], shown["title"]) == (6, "Be brief.", "a chat")


async def test_a_streamed_answer_comes_in_pieces_and_ends_with_its_usage(tmp_path: Path) -> None:
    async with hosting_with(Upstream(UpstreamAnswer("one two three four five")), tmp_path) as bot:
        events = await bot.stream(await bot.begin(), "count")
        deltas = [value["text"] for name, value in events if name == "delta"]
        assert len(deltas) > 2 and "".join(deltas) == "one two three four five"
        name, done = events[-1]
        assert (name, done["content"], done["usage"]["prompt_tokens"]) == ("done", "one two three four five", 100)


async def test_a_conversation_is_compacted_twice_and_keeps_one_id(tmp_path: Path) -> None:
    async with hosting_with(Upstream(*answers(30)), tmp_path) as bot:
        id = await bot.begin()
        for number in range(30):
            assert (await bot.ask(id, f"question {number}: {LONG}"))["conversation"] == id
        made = (await bot.done("GET", f"conversations/{id}/compactions"))["compactions"]
        assert len(made) >= 2
        shown = await bot.done("GET", f"conversations/{id}")
        assert shown["id"] == id and shown["messages"] == 60 and shown["in_view"] < 60
        listed = await bot.done("GET", "conversations")
        assert [each["id"] for each in listed["conversations"]] == [id]
        history = [row async for row in rows_of(bot, id)]
        assert [row["seq"] for row in history] == list(range(60))
        context = await bot.done("GET", f"conversations/{id}/context")
        assert context["tokens"] < context["threshold"] < context["window"] == 8_000
        assert sum(part["tokens"] for part in context["parts"]) == context["tokens"]
        assert next(part["tokens"] for part in context["parts"] if part["name"] == "summary") > 0


async def rows_of(bot: HostedBot, id: str) -> AsyncIterator[Any]:
    query: dict[str, Any] = {"limit": 7}
    while True:
        page = await bot.done("GET", f"conversations/{id}/messages", **query)
        for row in page["messages"]:
            yield row
        if page["next"] is None:
            return
        query["after"] = page["next"]


async def test_a_restart_loses_nothing(tmp_path: Path) -> None:
    async with hosting_with(Upstream(UpstreamAnswer("first")), tmp_path) as bot:
        id = await bot.begin(system="Remember.")
        await bot.ask(id, "one")
    async with hosting_with(Upstream(UpstreamAnswer("second")), tmp_path) as bot:
        assert (await bot.ask(id, "two"))["content"] == "second"
        assert [message["content"] for message in sent_messages(bot, 0)] == ["Remember.", "one", "first", "two"]


async def test_a_damaged_index_is_told_with_what_was_found(tmp_path: Path) -> None:
    async with hosting_with(Upstream(UpstreamAnswer("first")), tmp_path) as bot:
        await bot.ask(await bot.begin(), "a heron")
        assert (await bot.done("GET", "search", q="heron"))["problem"] is None
    damage_index(tmp_path)
    async with hosting_with(Upstream(), tmp_path) as bot:
        found = await bot.done("GET", "search", q="heron")
        assert found["hits"] and "clew doctor --repair" in found["problem"]


async def test_messages_that_are_sent_at_once_are_answered_one_after_the_other(tmp_path: Path) -> None:
    async with hosting_with(Upstream(*answers(5)), tmp_path) as bot:
        id = await bot.begin()
        replies = await asyncio.gather(*(bot.ask(id, f"question {number}") for number in range(5)))
        assert sorted(reply["seq"] for reply in replies) == [1, 3, 5, 7, 9]
        roles = [row["message"]["role"] async for row in rows_of(bot, id)]
        assert roles == ["user", "assistant"] * 5


# -- compactions by hand -----------------------------------------------------------------------------------------------


async def filled(bot: HostedBot, count: int = 8) -> str:
    id = await bot.begin()
    for number in range(count):
        await bot.ask(id, f"question {number} about the harbour: {'words ' * 260}")
    return id


async def test_a_preview_changes_nothing_and_is_applied_exactly_once(tmp_path: Path) -> None:
    async with hosting_with(Upstream(*answers(20)), tmp_path) as bot:
        id = await filled(bot, 12)
        preview = await bot.done("POST", f"conversations/{id}/compress", {"preview": True, "focus": "harbour"})
        assert preview["is_changed"] and not preview["is_applied"] and preview["folded"] > 0
        assert (await bot.done("GET", f"conversations/{id}"))["in_view"] == 24
        applied = await bot.done("POST", f"conversations/{id}/compress", {"apply": preview["preview"]})
        assert applied["is_applied"]
        assert {**applied, "is_applied": False, "preview": preview["preview"]} == preview
        assert (await bot.call("POST", f"conversations/{id}/compress", {"apply": preview["preview"]}))[0] == 404
        await bot.ask(id, "and now?")
        assert any(preview["handoff"] in message["content"] for message in sent_messages(bot, 12))
        undone = await bot.done("POST", f"conversations/{id}/undo")
        assert undone["is_undone"] and undone["in_view"] == 26
        assert not (await bot.done("POST", f"conversations/{id}/undo", {}))["is_undone"]


@pytest.mark.parametrize("engine", ["compressor", "lcm"])
async def test_a_preview_is_applied_exactly_by_another_process(tmp_path: Path, engine: str) -> None:
    environ = {"CLEW_CONTEXT_ENGINE": engine}
    async with (
        hosting_with(Upstream(*answers(12)), tmp_path, environ=environ) as one,
        hosting_with(one.flow.upstream, tmp_path, environ=environ) as two,
    ):
        id = await filled(one)
        await two.done("GET", f"conversations/{id}/context")  # open there, too
        preview = await one.done("POST", f"conversations/{id}/compress", {"preview": True, "focus": "harbour"})
        assert preview["is_changed"] and preview["handoff"]
        await one.ask(id, "One more question, which stays at the end.")
        applied = await two.done("POST", f"conversations/{id}/compress", {"apply": preview["preview"]})
        assert applied["is_applied"] and applied["handoff"] == preview["handoff"]
        for bot, number in ((one, 9), (two, 10)):
            await bot.ask(id, f"And {number}?")
            sent = sent_messages(one, number)
            assert any(preview["handoff"] in str(message["content"]) for message in sent)
            assert "which stays at the end" in str(sent)
        again = await one.call("POST", f"conversations/{id}/compress", {"apply": preview["preview"]})
        assert again[0] == 404


async def test_a_preview_of_another_state_is_not_applied(tmp_path: Path) -> None:
    async with hosting_with(Upstream(*answers(20)), tmp_path) as bot:
        id = await filled(bot, 12)
        preview = await bot.done("POST", f"conversations/{id}/compress", {"preview": True})
        assert (await bot.done("POST", f"conversations/{id}/compress"))["is_applied"]
        status, value = await bot.call("POST", f"conversations/{id}/compress", {"apply": preview["preview"]})
        assert (status, value["error"]["kind"]) == (409, "stale_preview")


# -- the last question -------------------------------------------------------------------------------------------------


async def test_the_last_question_is_asked_again_or_taken_back_in_a_branch(tmp_path: Path) -> None:
    async with hosting_with(Upstream(*answers(4)), tmp_path) as bot:
        id = await bot.begin()
        await bot.ask(id, "one")
        await bot.ask(id, "two")
        again = await bot.done("POST", f"conversations/{id}/retry")
        assert again["conversation"] != id and again["content"] == "answer 2"
        assert [message["content"] for message in sent_messages(bot, 2)] == ["one", "answer 0", "two"]
        changed = await bot.done("POST", f"conversations/{id}/retry", {"content": "three"})
        assert [message["content"] for message in sent_messages(bot, 3)] == ["one", "answer 0", "three"]
        taken = await bot.done("POST", f"conversations/{id}/branch", {"before_last_question": True, "title": "back"})
        assert (taken["title"], taken["branch_of"]) == ("back", id)
        assert (await bot.done("GET", f"conversations/{taken['id']}"))["messages"] == 2
        assert (await bot.done("GET", f"conversations/{id}"))["messages"] == 4
        status, value = await bot.call("DELETE", f"conversations/{id}")
        assert (status, value["error"]["kind"]) == (409, "in_use")
        for branch in (again["conversation"], changed["conversation"], taken["id"], id):
            assert (await bot.call("DELETE", f"conversations/{branch}"))[0] == 204
        assert (await bot.done("GET", "conversations"))["conversations"] == []
        assert (await bot.call("GET", f"conversations/{id}"))[0] == 404


async def test_a_question_that_got_no_answer_is_kept_once_when_it_is_sent_again(tmp_path: Path) -> None:
    busy = UpstreamFault(429, {"error": {"message": "slow down"}}, {"Retry-After": "7"})
    async with hosting_with(Upstream(busy, UpstreamFault(503, "down"), UpstreamAnswer("at last")), tmp_path) as bot:
        id = await bot.begin()
        status, value = await bot.call("POST", f"conversations/{id}/messages", {"content": "hello"})
        assert (status, value["error"]["kind"]) == (429, "rate_limit")
        events = await bot.stream(id, "hello")
        assert [name for name, _ in events] == ["error"] and events[0][1]["error"]["kind"] == "overloaded"
        assert (await bot.ask(id, "hello"))["content"] == "at last"
        assert len(bot.flow.upstream.calls) == 3
        assert [message["content"] for message in sent_messages(bot, 2)] == ["hello"]


async def test_a_message_with_the_same_idempotency_key_is_asked_once_also_over_a_restart(tmp_path: Path) -> None:
    key = {"Idempotency-Key": "order-17"}
    async with hosting_with(Upstream(UpstreamAnswer("done")), tmp_path) as bot:
        id = await bot.begin()
        path, body = f"conversations/{id}/messages", {"content": "order it"}
        (_, first), (_, second) = await asyncio.gather(
            bot.call("POST", path, body, headers=key), bot.call("POST", path, body, headers=key)
        )
        assert {first["is_repeated"], second["is_repeated"]} == {False, True}
    async with hosting_with(Upstream(), tmp_path) as bot:
        status, third = await bot.call("POST", path, body, headers=key)
        assert (status, third["content"], third["seq"], third["usage"]) == (200, "done", 1, first["usage"])
        status, value = await bot.call("POST", path, {"content": "another"}, headers=key)
        assert (status, value["error"]["kind"]) == (409, "conflict")
        assert bot.flow.upstream.calls == []


async def test_a_caller_that_hangs_up_stops_nothing_and_one_that_stops_keeps_what_was_written(tmp_path: Path) -> None:
    stalls = StreamedAnswer(UpstreamAnswer("a sentence that is never finished"), stall_after=4)
    async with hosting_with(Upstream(stalls, UpstreamAnswer("fine")), tmp_path) as bot:
        id = await bot.begin()
        asked = asyncio.create_task(bot.ask(id, "go on"))
        await bot.flow.upstream.stalled.wait()
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        assert not bot.flow.upstream.hung_up.is_set()
        assert await bot.done("POST", f"conversations/{id}/stop") == {"conversation": id, "is_stopped": True}
        await bot.flow.upstream.hung_up.wait()
        kept = [row["message"]["content"] async for row in rows_of(bot, id)]
        assert kept[1].startswith("a sentence") and "stopped" in kept[1]
        assert not (await bot.done("POST", f"conversations/{id}/stop"))["is_stopped"]
        assert (await bot.ask(id, "again"))["content"] == "fine"


# -- callers -----------------------------------------------------------------------------------------------------------


CALLS: tuple[tuple[str, str, Any], ...] = (
    ("GET", "conversations/{id}", None),
    ("PATCH", "conversations/{id}", {"title": "mine"}),
    ("DELETE", "conversations/{id}", None),
    ("GET", "conversations/{id}/messages", None),
    ("POST", "conversations/{id}/messages", {"content": "hi"}),
    ("POST", "conversations/{id}/messages", {"content": "hi", "stream": True}),
    ("POST", "conversations/{id}/retry", {}),
    ("POST", "conversations/{id}/stop", {}),
    ("POST", "conversations/{id}/compress", {}),
    ("POST", "conversations/{id}/compress", {"preview": True}),
    ("POST", "conversations/{id}/compress", {"apply": "p_0"}),
    ("POST", "conversations/{id}/undo", {}),
    ("POST", "conversations/{id}/branch", {}),
    ("GET", "conversations/{id}/compactions", None),
    ("GET", "conversations/{id}/context", None),
    ("GET", "conversations/{id}/pins", None),
    ("POST", "conversations/{id}/pins", {"text": "x"}),
    ("DELETE", "conversations/{id}/pins/1", None),
    ("GET", "conversations/{id}/export", None),
    ("GET", "search?q=one&conversation={id}", None),
    ("GET", "usage?conversation={id}", None),
)


async def test_another_callers_conversation_looks_like_one_that_never_was(tmp_path: Path) -> None:
    async with hosting_with(Upstream(UpstreamAnswer("one")), tmp_path) as anna:
        bert = HostedBot(anna.flow, anna.http, BERT)
        id = await anna.begin(title="private")
        await anna.ask(id, "one secret")
        never = "s_" + "0" * (len(id) - 2)
        for method, path, body in CALLS:
            foreign = await bert.call(method, path.format(id=id), body)
            unknown = await bert.call(method, path.format(id=never), body)
            assert foreign[0] == 404, (method, path, foreign)
            assert json.dumps(foreign).replace(id, never) == json.dumps(unknown)
        assert (await bert.done("GET", "conversations"))["conversations"] == []
        assert (await bert.done("GET", "search", q="secret"))["hits"] == []
        assert (await bert.done("GET", "usage"))["groups"][0]["calls"] == 0
        assert (await anna.done("GET", "usage"))["groups"][0]["calls"] == 1
        assert (await anna.done("GET", f"conversations/{id}"))["title"] == "private"


async def test_a_key_of_clew_is_never_sent_upstream_and_pays_for_its_turns(tmp_path: Path) -> None:
    environ = {"CLEW_MODEL_API_KEY_ENV": "UPSTREAM_KEY", "UPSTREAM_KEY": "fake-key-of-the-upstream"}
    upstream = Upstream(UpstreamAnswer("yes"), UpstreamFault(401, {"error": {"message": "invalid api key"}}))
    async with hosting_with(upstream, tmp_path, environ=environ) as bot:
        key = make_key()
        made = await bot.flow.store.create_key(NewKey("anna", hash_key(key), budget_micros=1_000_000))
        bot.credential = key
        for style in ({"x-api-key": key}, {"x-goog-api-key": key}):
            assert (await bot.call("GET", "conversations", headers=style))[0] == 200
        id = await bot.begin(model="gpt-4o")
        reply = await bot.ask(id, "may I?")
        assert reply["cost_usd"] > 0
        sent = upstream.calls[0].headers
        assert sent["authorization"] == "Bearer fake-key-of-the-upstream" and key not in json.dumps(dict(sent))
        spent = next(it for it in await bot.flow.store.list_keys() if it.id == made.id).spent_micros
        assert spent == round(reply["cost_usd"] * 1_000_000)
        status, value = await bot.call("POST", f"conversations/{id}/messages", {"content": "again"})
        assert (status, value["error"]["kind"]) == (502, "upstream_auth")
        bot.credential = ANNA
        status, value = await bot.call("GET", "conversations")
        assert status == 401 and set(value["error"]) == {"message", "kind", "remedy"}


async def test_events_are_those_of_the_callers_own_conversations(tmp_path: Path) -> None:
    async with hosting_with(Upstream(*answers(30)), tmp_path) as anna:
        bert = HostedBot(anna.flow, anna.http, BERT)
        ids = {"anna": await anna.begin(), "bert": await bert.begin()}
        headers = {"Authorization": f"Bearer {ANNA}"}
        async with anna.http.get(f"{anna.flow.root}/clew/events", headers=headers) as stream:
            await bert.ask(ids["bert"], "of bert")
            await anna.ask(ids["anna"], "of anna")
            text = ""
            while "replied" not in text:
                text += (await stream.content.readany()).decode()
        events = events_in(text)
        assert {value["conversation"] for _, value in events} == {ids["anna"]}
        assert ("replied", 100) in [(name, value.get("prompt_tokens")) for name, value in events]
        assert "of anna" not in text


async def test_a_gateway_stops_although_somebody_follows_events(tmp_path: Path) -> None:
    async with aiohttp.ClientSession() as http:
        async with gateway_with(Upstream(), tmp_path) as flow:
            stream = await http.get(f"{flow.root}/clew/events")
        assert await stream.read() == b""


# -- two processes -----------------------------------------------------------------------------------------------------


async def test_two_gateways_over_one_store_behave_as_one(tmp_path: Path) -> None:
    upstream = Upstream(answers=lambda _: UpstreamAnswer("ok"))
    async with hosting_with(upstream, tmp_path) as one, gateway_with(upstream, tmp_path) as second:
        two = HostedBot(second, one.http)
        id = await filled(one, 6)
        for number in range(6):
            await two.ask(id, f"question {number} of the other: {'words ' * 260}")
        context = await one.done("GET", f"conversations/{id}/context")
        assert sum(part["messages"] for part in context["parts"]) == 24
        await two.ask(id, "the last question")
        again = await one.done("POST", f"conversations/{id}/retry")
        assert sent_messages(one, -1)[-1]["content"] == "the last question"
        assert (await two.done("GET", f"conversations/{again['conversation']}"))["branch_of"] is not None
        assert (await two.done("POST", f"conversations/{id}/compress"))["is_applied"]
        await one.ask(id, "after the compaction of the other")
        assert len(sent_messages(one, -1)) < 24
        assert (await one.done("POST", f"conversations/{id}/undo"))["in_view"] == 28
        assert (await two.done("GET", f"conversations/{id}"))["in_view"] == 28


async def test_a_question_that_fails_again_leaves_no_branch_behind(tmp_path: Path) -> None:
    async with hosting_with(Upstream(UpstreamAnswer("ok"), UpstreamFault(503, "down")), tmp_path) as bot:
        id = await bot.begin()
        await bot.ask(id, "one")
        assert (await bot.call("POST", f"conversations/{id}/retry"))[0] == 503
        assert [each["id"] for each in (await bot.done("GET", "conversations"))["conversations"]] == [id]
