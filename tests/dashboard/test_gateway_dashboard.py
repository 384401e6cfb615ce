"""The dashboard of a gateway: behind its keys, and each key sees what belongs to its owner."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest

from clew.app import DashboardAppOptions, open_dashboard
from clew.config import read_config
from clew.dashboard import is_dashboard_path
from clew.gateway import hash_key, make_key
from clew.store import NewKey, Store
from clew.testing import Upstream, UpstreamAnswer
from clew.testing.gateway import GATEWAY_MODEL
from tests.support.dashboard import DashboardVisitor, add_chat
from tests.support.gateway import GatewayFlow, gateway_with

REFUSED_METHODS = [
    "/dashboard/clew/conversations/x",
    *(f"/dashboard/clew/conversations/x/{call}" for call in ("compress", "undo", "branch", "export")),
]


@pytest.fixture
async def flow(tmp_path: Path) -> AsyncIterator[GatewayFlow]:
    async with gateway_with(Upstream(), tmp_path) as running:
        yield running


async def key_of(store: Store, owner: str, **more: object) -> str:
    key = make_key()
    await store.create_key(NewKey(owner, hash_key(key), **more))  # type: ignore[arg-type]
    return key


@asynccontextmanager
async def visitor_with(flow: GatewayFlow, key: str | None) -> AsyncIterator[DashboardVisitor]:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
        visitor = DashboardVisitor(http, flow.root)
        if key is not None:
            await visitor.sign_in(key=key)
        yield visitor


async def test_a_key_sees_its_owners_sessions_and_nothing_of_others(flow: GatewayFlow) -> None:
    anna, ben = await key_of(flow.store, "anna"), await key_of(flow.store, "ben")
    hers = await add_chat(flow.store, 14, source="hosted", owner="anna", title="Hers")
    his = await add_chat(flow.store, 2, source="hosted", owner="ben", title="His", seed=1)
    async with visitor_with(flow, anna) as visitor:
        assert (await visitor.get("me"))["owner"] == "anna"
        told = await visitor.get("sessions")
        assert [row["id"] for row in told["sessions"]] == [hers.id] and told["total"] == 1
        for path in ("", "/timeline", "/tree", "/context", "/messages", "/messages/0", "/compactions/1"):
            status, _ = await visitor.call("GET", f"api/sessions/{his.id}{path}")
            assert status == 404, path
        assert (await visitor.get("sessions", ids=his.id))["sessions"] == []
        assert {hit["session"] for hit in (await visitor.get("search", q="ticket"))["hits"]} == {hers.id}
        assert (await visitor.get("insights"))["total"]["calls"] == 14
        for method, path, body in (
            ("PATCH", his.id, {"title": "Mine"}),
            ("DELETE", his.id, None),
            ("POST", f"{his.id}/compress", {"preview": True}),
            ("POST", f"{his.id}/undo", {}),
            ("POST", f"{his.id}/branch", {}),
            ("GET", f"{his.id}/export", None),
        ):
            status, _ = await visitor.call(method, f"clew/conversations/{path}", body)
            assert status == 404, path
    async with visitor_with(flow, ben) as visitor:
        assert [row["title"] for row in (await visitor.get("sessions"))["sessions"]] == ["His"]


async def test_a_compaction_of_one_owner_is_not_opened_by_its_number_from_another(flow: GatewayFlow) -> None:
    anna, ben = await key_of(flow.store, "anna"), await key_of(flow.store, "ben")
    hers = await add_chat(flow.store, 14, source="hosted", owner="anna")
    his = await add_chat(flow.store, 2, source="hosted", owner="ben", seed=1)
    async with visitor_with(flow, anna) as visitor:
        await visitor.act("POST", f"{hers.id}/compress", {})
        (made,) = (await visitor.get(f"sessions/{hers.id}"))["compactions"]
        assert (await visitor.get(f"sessions/{hers.id}/compactions/{made['id']}"))["text"]
    async with visitor_with(flow, ben) as visitor:
        for path in (f"compactions/{made['id']}", f"messages?compaction={made['id']}"):
            status, _ = await visitor.call("GET", f"api/sessions/{his.id}/{path}")
            assert status == 404, path


async def test_a_conversation_of_a_client_is_looked_at_renamed_and_deleted_but_not_compacted(
    flow: GatewayFlow,
) -> None:
    anna = await key_of(flow.store, "anna")
    theirs = await add_chat(flow.store, 14, source="gateway", owner="anna")
    async with visitor_with(flow, anna) as visitor:
        told = await visitor.get(f"sessions/{theirs.id}")
        assert "keeps its own history" in told["actions"]["preview"]
        # On the gateway such conversations are compacted later than by an agent.
        assert told["session"]["meter"]["threshold"] == told["session"]["meter"]["window"] * 0.85
        status, refused = await visitor.call("POST", f"clew/conversations/{theirs.id}/compress", {"preview": True})
        assert (status, refused["error"]["kind"]) == (409, "not_hosted")
        await visitor.act("PATCH", theirs.id, {"title": "Renamed"})
        await visitor.act("DELETE", theirs.id)


async def test_a_program_that_goes_through_the_gateway_is_called_by_its_name(tmp_path: Path) -> None:
    async with gateway_with(
        Upstream(UpstreamAnswer("hello")), tmp_path, environ={"CLEW_MODEL_API_KEY": "fake-key"}
    ) as flow:
        anna = await key_of(flow.store, "anna")
        sent = {"Authorization": f"Bearer {anna}", "User-Agent": "claude-cli/2.0 (external, cli)"}
        body = {"model": GATEWAY_MODEL, "messages": [{"role": "user", "content": "hello"}]}
        async with visitor_with(flow, anna) as visitor:
            async with visitor.http.post(f"{flow.base_url}/chat/completions", json=body, headers=sent) as response:
                assert response.status == 200, await response.text()
            await flow.wait_for_recordings()
            (row,) = (await visitor.get("sessions"))["sessions"]
            assert (row["client"], row["source"]) == ("Claude Code", "gateway")
            told = await visitor.get("insights")
            assert [each["client"] for each in told["by_client"]] == ["Claude Code"]


@pytest.mark.parametrize("named", [GATEWAY_MODEL, ""])
async def test_the_page_of_another_process_shows_the_window_that_the_gateway_used(tmp_path: Path, named: str) -> None:
    # Without model.name, the configured window is that of every model.
    async with gateway_with(Upstream(UpstreamAnswer("hello")), tmp_path, environ={"CLEW_MODEL_NAME": named}) as flow:
        body = {"model": GATEWAY_MODEL, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 2_000}
        async with aiohttp.ClientSession() as http, http.post(f"{flow.base_url}/chat/completions", json=body) as answer:
            assert answer.status == 200, await answer.text()
        await flow.wait_for_recordings()
        (overview,) = await flow.store.conversations(10)
        config = read_config({"CLEW_HOME": str(tmp_path / "other")})
        async with (
            open_dashboard(config, {}, flow.store, DashboardAppOptions()) as running,
            aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http,
        ):
            visitor = DashboardVisitor(http, running.address.removesuffix("/dashboard/"))
            await visitor.sign_in(launch=running.link.partition("#launch=")[2])
            meter = (await visitor.get(f"sessions/{overview.newest}"))["session"]["meter"]
    assert (meter["window"], meter["threshold"]) == (8_000, 5_920)
    assert overview.window is not None and overview.window.basis == "config"


async def test_without_a_key_one_sees_the_page_and_no_data(flow: GatewayFlow) -> None:
    async with visitor_with(flow, None) as visitor:
        me = await visitor.get("me")
        assert not me["is_signed_in"] and "clew keys create" in me["note"]
        await key_of(flow.store, "anna")
        assert (await visitor.get("me"))["note"] is None
        status, _ = await visitor.call("GET", "")
        assert status == 200
        for path in ("api/sessions", "api/events", "clew/conversations/s_1/export"):
            status, told = await visitor.call("GET", path)
            assert (status, told["error"]["kind"]) == (401, "sign_in"), path


async def test_every_call_below_it_needs_a_sign_in_but_the_page_and_signing_in_itself(flow: GatewayFlow) -> None:
    await key_of(flow.store, "anna")
    answered = set()
    async with visitor_with(flow, None) as visitor:
        for resource in flow.server.application().router.resources():
            if is_dashboard_path(resource.canonical):
                for route in resource:
                    path = re.sub(r"\{[^}]*\}", "x", resource.canonical)
                    method = "PUT" if route.method == "*" else route.method
                    async with visitor.http.request(method, flow.root + path, allow_redirects=False) as response:
                        if response.status != 401:
                            answered.add((method, path, response.status))
    assert {each for each in answered if each[0] != "HEAD"} == {
        ("GET", "/dashboard", 308),
        ("GET", "/dashboard/", 200),
        ("GET", "/dashboard/page/x", 404),
        ("GET", "/dashboard/api/me", 200),
        ("POST", "/dashboard/api/sign-in", 415),
        ("PUT", "/dashboard/x", 404),
        ("PUT", "/dashboard/clew/x", 404),
        *(("PUT", path, 405) for path in REFUSED_METHODS),
    }


async def test_a_key_in_a_header_or_in_the_address_signs_nobody_in(flow: GatewayFlow) -> None:
    anna = await key_of(flow.store, "anna")
    async with visitor_with(flow, None) as visitor:
        for headers in ({"Authorization": f"Bearer {anna}"}, {"x-api-key": anna}):
            status, _ = await visitor.call("GET", "api/sessions", headers=headers)
            assert status == 401
        status, _ = await visitor.call("GET", "api/sessions", key=anna)
        assert status == 401


async def test_a_cookie_ends_with_its_key(flow: GatewayFlow) -> None:
    anna = await key_of(flow.store, "anna")
    async with visitor_with(flow, anna) as visitor:
        await visitor.get("sessions")
        (key,) = await flow.store.list_keys()
        await flow.store.revoke_key(key.id)
        status, _ = await visitor.call("GET", "api/sessions")
        assert status == 401
        status, told = await visitor.call("POST", "api/sign-in", {"key": anna})
        assert status == 401 and "revoked" in told["error"]["message"]


async def test_the_cookie_of_a_page_opens_no_other_door_of_the_gateway(flow: GatewayFlow) -> None:
    anna = await key_of(flow.store, "anna")
    async with visitor_with(flow, anna) as visitor:
        (cookie,) = visitor.http.cookie_jar
        assert cookie["path"] == "/dashboard" and anna not in cookie.value
        sent = {"Cookie": f"{cookie.key}={cookie.value}", "X-Clew-CSRF": visitor.csrf}
        for path in ("/clew/conversations", "/v1/models", "/metrics"):
            async with visitor.http.get(flow.root + path, headers=sent) as response:
                assert response.status == 401, path


@pytest.mark.parametrize("expired", [True, False])
async def test_an_expired_key_is_refused_and_one_without_money_may_only_look(flow: GatewayFlow, expired: bool) -> None:
    if expired:
        key = await key_of(flow.store, "anna", expires=datetime.now(UTC) - timedelta(days=1))
        async with visitor_with(flow, None) as visitor:
            status, told = await visitor.call("POST", "api/sign-in", {"key": key})
            assert status == 401 and "expired" in told["error"]["message"]
        return
    key = await key_of(flow.store, "anna", budget_micros=10)
    (stored,) = await flow.store.list_keys()
    await flow.store.add_spending(stored.id, 20)
    chat = await add_chat(flow.store, 2, source="hosted", owner="anna")
    async with visitor_with(flow, key) as visitor:
        me = await visitor.get("me")
        assert not me["can_change"] and "spent" in me["read_only_reason"]
        status, told = await visitor.call("PATCH", f"clew/conversations/{chat.id}", {"title": "x"})
        assert (status, told["error"]["kind"]) == (403, "read_only")
