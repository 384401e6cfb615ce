"""Who may look, and what keeps others out: the link, the cookie, the token, names, pages of other sites, headers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from http.cookies import SimpleCookie
from pathlib import Path

import aiohttp
import pytest

from clew.dashboard.sign_in import SIGNED_IN_SECONDS, CookieSessions, LaunchSignIn
from tests.support.dashboard import DashboardFlow, DashboardVisitor, add_chat, running_dashboard, visiting

DATA = ["sessions", "search?q=x", "insights", "sessions/s_1", "sessions/s_1/timeline", "events"]


@pytest.fixture
async def flow(tmp_path: Path) -> AsyncIterator[DashboardFlow]:
    async with running_dashboard(tmp_path) as running:
        yield running


@pytest.fixture
async def stranger() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
        yield http


def token_of(link: str) -> str:
    return link.partition("#launch=")[2]


async def test_a_link_signs_in_once_and_the_next_one_is_told_in_the_terminal(flow: DashboardFlow) -> None:
    link = flow.launch_url
    async with visiting(flow) as visitor:
        assert (await visitor.get("me"))["is_signed_in"]
    assert flow.launch_url != link and flow.links == [flow.launch_url]
    async with aiohttp.ClientSession() as http:
        again = DashboardVisitor(http, flow.address)
        status, told = await again.call("POST", "api/sign-in", {"launch": token_of(link)})
        assert (status, told["error"]["kind"]) == (401, "sign_in")
        assert "new one" in told["error"]["remedy"]


@pytest.mark.parametrize("path", DATA)
async def test_nothing_is_told_to_whoever_has_not_signed_in(
    flow: DashboardFlow, stranger: aiohttp.ClientSession, path: str
) -> None:
    async with stranger.get(f"{flow.address}/dashboard/api/{path}") as response:
        assert response.status == 401
        assert (await response.json())["error"]["kind"] == "sign_in"


async def test_the_page_itself_is_served_to_everybody_and_says_nothing(
    flow: DashboardFlow, stranger: aiohttp.ClientSession
) -> None:
    await add_chat(flow.store, 1, title="A secret title")
    async with stranger.get(f"{flow.address}/dashboard") as response:
        assert response.status == 200 and response.url.path == "/dashboard/"
        assert "secret" not in await response.text()
    me = await DashboardVisitor(stranger, flow.address).get("me")
    assert not me["is_signed_in"] and me["label"] == "" and me["csrf"] is None


@pytest.mark.parametrize(
    "body", [{"launch": ""}, {"launch": "x"}, {}, {"key": "clew_sk_x"}, {"launch": "é\ud800"}, {"launch": 1}, [], "x"]
)
async def test_any_other_secret_is_refused(flow: DashboardFlow, stranger: aiohttp.ClientSession, body: object) -> None:
    url = f"{flow.address}/dashboard/api/sign-in"
    sent = {"Content-Type": "application/json"}
    async with stranger.post(url, data=json.dumps(body), headers=sent) as response:
        assert response.status in (400, 401)
        assert "Set-Cookie" not in response.headers


async def test_the_cookie_is_for_this_page_alone_and_out_of_reach_of_scripts(
    flow: DashboardFlow, stranger: aiohttp.ClientSession
) -> None:
    url = f"{flow.address}/dashboard/api/sign-in"
    async with stranger.post(url, json={"launch": token_of(flow.launch_url)}) as response:
        cookie = SimpleCookie(response.headers["Set-Cookie"])
    (morsel,) = cookie.values()
    assert morsel.key.endswith(flow.address.rpartition(":")[2])
    assert morsel["httponly"] and morsel["samesite"] == "Strict" and morsel["path"] == "/dashboard"
    assert token_of(flow.launch_url) not in morsel.value


async def test_a_cookie_that_was_changed_or_is_of_another_dashboard_is_none(
    flow: DashboardFlow, tmp_path: Path, stranger: aiohttp.ClientSession
) -> None:
    async with visiting(flow) as visitor:
        (cookie,) = visitor.http.cookie_jar
    own, mac = cookie.value.rsplit(".", 1)
    forged = [
        f"{own}.{'0' * len(mac)}",
        f"{own.replace('local', 'other')}.{mac}",
        cookie.value.replace(own.split(".")[1], str(10**11)),
        "local.99999999999.ab." + mac,
        "x" * 10_000,
        "...",
    ]
    for value in forged:
        sent = {"Cookie": f"{cookie.key}={value}"}
        async with stranger.get(f"{flow.address}/dashboard/api/sessions", headers=sent) as response:
            assert response.status in (400, 401), value[:50]
    async with running_dashboard(tmp_path / "other") as other:
        port = other.address.rpartition(":")[2]
        sent = {"Cookie": f"clew_dashboard_{port}={cookie.value}"}
        async with stranger.get(f"{other.address}/dashboard/api/sessions", headers=sent) as response:
            assert response.status == 401


async def test_a_cookie_ends_by_itself(flow: DashboardFlow) -> None:
    now = [1_000_000.0]
    sign_in = LaunchSignIn()
    sessions = CookieSessions(sign_in, clock=lambda: now[0])
    signed_in = sessions.start(await sign_in.admit(sign_in.token))
    request = _Request(signed_in.cookie)
    assert await sessions.find(request) is not None  # type: ignore[arg-type]
    now[0] += SIGNED_IN_SECONDS + 1
    assert await sessions.find(request) is None  # type: ignore[arg-type]


class _Request:
    """As much of a request as a cookie is read from."""

    def __init__(self, cookie: str) -> None:
        self.cookies = {"clew_dashboard_0": cookie}
        self.url = self
        self.port = 0


async def test_after_signing_out_the_browser_has_no_cookie(flow: DashboardFlow) -> None:
    async with visiting(flow) as visitor:
        copied = {it.key: it.value for it in visitor.http.cookie_jar}
        status, _ = await visitor.call("POST", "api/sign-out")
        assert status == 204
        assert not (await visitor.get("me"))["is_signed_in"]
    headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in copied.items())}
    url = f"{flow.address}/dashboard/api/sessions"
    async with aiohttp.ClientSession(headers=headers) as http, http.get(url) as response:
        assert copied and response.status == 401


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "clew/conversations/{id}/compress", {"preview": True}),
        ("POST", "clew/conversations/{id}/undo", {}),
        ("POST", "clew/conversations/{id}/branch", {}),
        ("PATCH", "clew/conversations/{id}", {"title": "x"}),
        ("DELETE", "clew/conversations/{id}", None),
        ("POST", "api/handoff", {"session": "x"}),
        ("POST", "api/sign-out", None),
    ],
)
@pytest.mark.parametrize("token", ["", "0" * 64, "é"])
async def test_a_change_without_the_token_of_the_page_is_not_made(
    flow: DashboardFlow, method: str, path: str, body: object, token: str
) -> None:
    chat = await add_chat(flow.store, 2)
    before = await flow.store.conversations(10)
    async with visiting(flow) as visitor:
        visitor.csrf = token
        status, told = await visitor.call(method, path.format(id=chat.id), body)
    assert (status, told["error"]["kind"]) == (403, "csrf")
    assert await flow.store.conversations(10) == before


async def test_only_the_calls_that_the_page_makes_are_served_below_it(flow: DashboardFlow) -> None:
    chat = await add_chat(flow.store, 2)
    async with visiting(flow) as visitor:
        for method, path, body in (
            ("POST", f"conversations/{chat.id}/messages", {"content": "hello"}),
            ("POST", "conversations", {"model": "m"}),
            ("GET", "events", None),
            ("GET", "openapi.json", None),
        ):
            status, _ = await visitor.call(method, f"clew/{path}", body)
            assert status in (404, 405), path


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example:{port}"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Origin": "http://localhost:{port}", "Host": "localhost:{port}"}, 200),
    ],
)
async def test_only_its_own_names_and_its_own_page_are_answered(
    flow: DashboardFlow, headers: dict[str, str], status: int
) -> None:
    port = flow.address.rpartition(":")[2]
    sent = {name: value.format(port=port) for name, value in headers.items()}
    async with visiting(flow) as visitor:
        answered, _ = await visitor.call("GET", "api/me", headers=sent)
    assert answered == status


async def test_every_answer_has_the_headers_that_keep_a_browser_safe(flow: DashboardFlow) -> None:
    async with visiting(flow) as visitor:
        for path, cache in (
            ("", "no-cache"),
            ("page/app.js", "no-cache"),
            ("api/me", "no-store"),
            ("api/sessions", "no-store"),
            ("api/nothing", "no-store"),
            ("clew/conversations/s_no/export", "no-store"),
        ):
            async with visitor.http.get(f"{flow.address}/dashboard/{path}") as response:
                policy = response.headers["Content-Security-Policy"].split("; ")
                assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
                assert "script-src 'self'" in policy and "'unsafe" not in str(policy)
                assert response.headers["X-Content-Type-Options"] == "nosniff"
                assert response.headers["Cache-Control"] == cache, path
                assert not [name for name in response.headers if name.startswith("Access-Control")]


@pytest.mark.parametrize(
    "path", ["../sign_in.py", "..%2fsign_in.py", "%2e%2e/sign_in.py", "/etc/passwd", "no.py", ".hidden.js", "a//b.js"]
)
async def test_no_other_file_is_served(flow: DashboardFlow, path: str) -> None:
    reader_url = f"{flow.address}/dashboard/page/{path}"
    async with aiohttp.ClientSession() as http:
        from yarl import URL

        async with http.get(URL(reader_url, encoded=True)) as response:
            assert response.status == 404
            assert "import" not in await response.text()


async def test_nothing_but_the_dashboard_is_at_this_address(flow: DashboardFlow) -> None:
    async with aiohttp.ClientSession() as http:
        for path in ("/clew", "/clew/conversations", "/v1/models", "/metrics"):
            async with http.get(flow.address + path) as response:
                assert response.status == 404
