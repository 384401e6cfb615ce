"""Who may call the gateway, what one caller may see of another, and where requests and secrets go."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from pathlib import Path

import pytest
from aiohttp import web

from clew.dashboard import is_dashboard_path
from clew.gateway import KEY_PREFIX, OPEN_PATHS, GatewayOptions, make_key
from clew.gateway.admission import OwnNames
from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import Upstream, UpstreamAnswer, UpstreamFault
from tests.gateway.raw_http import PROVIDER_KEY, RawReply, answering, ask_raw, make_caller
from tests.support.gateway import GatewayFlow, gateway_with

GEMINI = f"/v1beta/models/{GATEWAY_MODEL}"
ASKS = ("/v1/chat/completions", "/v1/responses", "/v1/messages", f"{GEMINI}:generateContent")
WIRE_PATHS = (*ASKS, "/v1/messages/count_tokens", f"{GEMINI}:streamGenerateContent?alt=sse", f"{GEMINI}:countTokens")
EVENTS = "/clew/events"
PLACES = ("Authorization", "x-api-key", "x-goog-api-key")
KEYED = {"CLEW_MODEL_API_KEY": PROVIDER_KEY}


def with_key(key: str, place: str = "x-api-key") -> tuple[str, str]:
    return place, f"Bearer {key}" if place == "Authorization" else key


def served_routes(flow: GatewayFlow) -> Iterable[tuple[str, str]]:
    """Every method and path that the application has, with an id in every gap, and the paths of the wires.

    The dashboard's have a sign-in of their own: tests/dashboard/test_gateway_dashboard.py.
    """
    for resource in flow.server.application().router.resources():
        if is_dashboard_path(resource.canonical):
            continue
        for route in resource:
            target = "/".join("x" if part.startswith("{") else part for part in resource.canonical.split("/"))
            if resource.canonical != "/{path}" and target not in OPEN_PATHS:
                # What answers to any method is asked with one that nothing else there has.
                yield "PUT" if route.method == "*" else route.method, target
    yield from (("POST", target) for target in WIRE_PATHS)
    yield "GET", "/v1/models"
    yield "GET", f"/v1/models/{GATEWAY_MODEL}"


@pytest.mark.parametrize(
    "host", ["127.0.0.1:{port}", "localhost:{port}", "LOCALHOST:{port}", "[::1]:{port}", "127.9.9.9:{port}"]
)
async def test_a_loopback_name_with_the_right_port_is_served(tmp_path: Path, host: str) -> None:
    async with gateway_with(answering(), tmp_path) as flow:
        reply = await ask_raw(flow, "/v1/messages", with_key(PROVIDER_KEY), host=host.format(port=flow.server.port))
        assert reply.status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:{port}",
        "127.0.0.1.evil.example:{port}",
        "localhost.evil.example:{port}",
        "localhost",
        "localhost:1",
        "127.0.0.1:80",
        "192.168.1.5:{port}",
        "0.0.0.0:{port}",
        "localhost:{port}@evil.example",
        "evil.example/localhost:{port}",
        "localhost:{port}, evil.example",
        "",
    ],
)
async def test_another_host_is_refused_on_every_path(tmp_path: Path, host: str) -> None:
    """DNS rebinding: a page's own name, pointed at loopback, still stands in the Host of its requests."""
    async with gateway_with(answering(), tmp_path) as flow:
        for method, target in (*served_routes(flow), ("GET", "/"), ("GET", "/healthz"), ("GET", "/nothing")):
            reply = await ask_raw(flow, target, method=method, host=host.format(port=flow.server.port) or " ")
            assert reply.status in (400, 403), (method, target)
        assert not flow.upstream.received


async def test_names_are_added_with_or_without_a_port(tmp_path: Path) -> None:
    listen = GatewayOptions(names=frozenset({"clew.example", "box.example:9000"}))
    async with gateway_with(answering(), tmp_path, listen=listen) as flow:
        for host, status in {
            "clew.example": 200,
            "Clew.Example:444": 200,
            "box.example:9000": 200,
            "box.example": 403,
            "other.example": 403,
            "127.0.0.1": 200,  # Amazon's SDK for JavaScript leaves the port out
            "localhost": 403,
        }.items():
            assert (await ask_raw(flow, "/", method="GET", host=host)).status == status, host


def test_an_address_that_others_reach_is_called_by_any_address_but_not_by_any_name() -> None:
    names = OwnNames("0.0.0.0", 8787)
    assert names.has("10.0.0.7:8787", "http") and names.has("[fe80::1]:8787", "http")
    assert not names.has("evil.example:8787", "http") and not names.has("10.0.0.7:9", "http")


async def test_two_hosts_and_no_host_are_refused(tmp_path: Path) -> None:
    async with gateway_with(answering(), tmp_path) as flow:
        twice = await ask_raw(flow, "/healthz", ("Host", "evil.example"), method="GET")
        assert twice.status == 400


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:{port}", 200),
        ("http://localhost:{port}", 200),
        ("https://evil.example", 403),
        ("http://localhost:3000", 403),
        ("http://localhost", 403),
        ("null", 403),
        ("file://", 403),
        ("http://evil.example:{port}", 403),
        ("http://localhost:{port}.evil.example", 403),
        ("ws://localhost:{port}", 403),
    ],
)
async def test_pages_of_other_sites_are_refused(tmp_path: Path, origin: str, status: int) -> None:
    async with gateway_with(answering(), tmp_path) as flow:
        own = origin.format(port=flow.server.port)
        reply = await ask_raw(flow, "/v1/messages", ("Origin", own), with_key(PROVIDER_KEY))
        assert reply.status == status
        fetched = await ask_raw(flow, "/healthz", ("Sec-Fetch-Site", "cross-site"), method="GET")
        assert fetched.status == 403


async def test_no_answer_invites_other_origins(tmp_path: Path) -> None:
    async with gateway_with(answering(), tmp_path) as flow:
        own = ("Origin", f"http://localhost:{flow.server.port}")
        preflight = ("Access-Control-Request-Method", "POST")
        replies = [
            await ask_raw(flow, "/v1/messages", own, with_key(PROVIDER_KEY)),
            await ask_raw(flow, "/v1/messages", own, preflight, method="OPTIONS"),
            await ask_raw(flow, "/healthz", own, method="GET"),
            await ask_raw(flow, "/nothing", own),
        ]
        for reply in replies:
            assert not [name for name in reply.headers if name.startswith("access-control-")]


async def test_every_route_needs_a_key_once_there_is_one(tmp_path: Path) -> None:
    async with gateway_with(answering(), tmp_path, environ=KEYED) as flow:
        key = await make_caller(flow, "ann")
        for method, target in served_routes(flow):
            for headers in ((), (with_key(PROVIDER_KEY),), (with_key(make_key()),), (with_key(key + "x"),)):
                reply = await ask_raw(flow, target, *headers, method=method)
                assert reply.status == 401, (method, target, headers)
                assert method == "HEAD" or "error" in reply.json
        assert not flow.upstream.received


@pytest.mark.parametrize("place", PLACES)
async def test_every_route_takes_a_key_in_every_header_and_passes_the_gateways_own(tmp_path: Path, place: str) -> None:
    async with gateway_with(answering(), tmp_path, environ=KEYED) as flow:
        key = await make_caller(flow, "ann")
        for method, target in served_routes(flow):
            if target == EVENTS and method == "GET":
                continue  # it does not end
            before = len(flow.upstream.received)
            assert (await ask_raw(flow, target, with_key(key, place), method=method)).status != 401, target
            for received in flow.upstream.received[before:]:
                assert received.headers[place.lower()] == with_key(PROVIDER_KEY, place)[1]
                assert key not in str(received.headers) + received.query


@pytest.mark.parametrize("target", WIRE_PATHS)
async def test_two_credentials_that_differ_are_refused_on_every_wire(tmp_path: Path, target: str) -> None:
    async with gateway_with(answering(), tmp_path, environ=KEYED) as flow:
        ann, bob = await make_caller(flow, "ann"), await make_caller(flow, "bob")
        pairs = [
            (with_key(ann), with_key(bob, "Authorization")),
            (with_key(ann), with_key(bob)),
            (with_key(bob, "x-goog-api-key"), with_key(ann, "Authorization")),
            (with_key(ann), with_key(PROVIDER_KEY, "Authorization")),
        ]
        for pair in pairs:
            assert (await ask_raw(flow, target, *pair)).status == 401
        assert not flow.upstream.received


async def test_a_session_of_another_caller_cannot_be_entered_seen_or_counted(tmp_path: Path) -> None:
    """A knows the id of B's session, its name and its first messages, and gets nothing of it."""
    async with gateway_with(answering(), tmp_path, environ=KEYED) as flow:
        ann, bob = await make_caller(flow, "ann"), await make_caller(flow, "bob")
        secret = "the words that only bob has written"
        body = {"model": GATEWAY_MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": secret}]}
        named = ("x-clew-session", "bobs-name")
        first = await ask_raw(flow, "/v1/messages", with_key(bob), named, body=json.dumps(body).encode())
        session = first.headers["x-clew-session"]
        await flow.wait_for_recordings()
        for headers in (("x-clew-session", session), named, ("x-claude-code-session-id", session)):
            for target in WIRE_PATHS:
                before = len(flow.upstream.received)
                reply = await ask_raw(flow, target, with_key(ann), headers)
                assert reply.status == 200
                assert reply.headers.get("x-clew-session") != session
                assert secret.encode() not in reply.body
                assert all(secret.encode() not in received.raw for received in flow.upstream.received[before:])
        again = await ask_raw(flow, "/v1/messages", with_key(ann), named, body=json.dumps(body).encode())
        assert again.headers["x-clew-session"] != session
        await flow.wait_for_recordings()
        assert (await flow.store.session(session, owner="bob")).id == session


async def test_a_credential_and_a_cookie_are_used_for_the_callers_own_requests_only(tmp_path: Path) -> None:
    cookie = UpstreamFault(400, {"error": {"message": "no"}}, {"Set-Cookie": "who=ann; Path=/"})
    async with gateway_with(Upstream(cookie, answers=lambda _: UpstreamAnswer("ok")), tmp_path) as flow:
        refused = await ask_raw(flow, "/v1/messages", with_key("fake-key-of-ann"))
        assert refused.headers["set-cookie"] == "who=ann; Path=/"
        await ask_raw(flow, "/v1/messages", with_key("fake-key-of-bob"))
        await ask_raw(flow, "/v1/messages")
        ann, bob, nobody = flow.upstream.received
        assert ann.headers["x-api-key"] == "fake-key-of-ann" and bob.headers["x-api-key"] == "fake-key-of-bob"
        assert not {"x-api-key", "authorization"} & set(nobody.headers)
        assert "cookie" not in bob.headers and "cookie" not in nobody.headers


async def test_a_netrc_of_whoever_runs_the_gateway_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("default login operator password fake-password\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    async with gateway_with(answering(), tmp_path) as flow:
        await ask_raw(flow, "/v1/messages")
        assert "authorization" not in flow.upstream.received[0].headers


async def test_a_key_of_clew_goes_nowhere(tmp_path: Path) -> None:
    """Not where it was read, and not where nobody looks for it: in cookies, in unknown headers, in the query."""
    async with gateway_with(answering(), tmp_path, environ=KEYED) as flow:
        key = await make_caller(flow, "ann")
        encoded = key.replace("_", "%5F")
        for target in (*WIRE_PATHS, "/v1/models"):
            joined = f"{target}{'&' if '?' in target else '?'}"
            method = "GET" if target.endswith("models") else "POST"
            extra = (("Cookie", f"a=b; k={key}"), ("x-unknown", f"see {key}"), ("openai-organization", key))
            for query in (f"beta=true&token={key}&x=1", f"token={encoded}&x=1", f"key={key}&x=1"):
                reply = await ask_raw(flow, joined + query, with_key(key), *extra, method=method)
                assert reply.status == 200, (target, query)
                received = flow.upstream.received[-1]
                seen = f"{received.path}?{received.query} {dict(received.headers)}"
                assert KEY_PREFIX not in seen and "x=1" in received.query
                assert PROVIDER_KEY in seen


async def test_geminis_key_in_the_query_names_a_caller(tmp_path: Path) -> None:
    async with gateway_with(answering(), tmp_path, environ=KEYED) as flow:
        key = await make_caller(flow, "ann")
        for method, target in (("POST", f"{GEMINI}:generateContent"), ("GET", "/v1beta/models")):
            assert (await ask_raw(flow, f"{target}?key={key}&alt=json", method=method)).status == 200
            received = flow.upstream.received[-1]
            assert received.query == "alt=json" and received.headers["x-goog-api-key"] == PROVIDER_KEY


@pytest.mark.parametrize(
    "target",
    [
        "/v1/models/../../admin",
        "/v1/models/%2e%2e/%2e%2e/admin",
        "/v1/models/%252e%252e/%252e%252e/admin",
        "/v1/models/x%2f..%2f..%2fadmin",
        "/v1/models/x%5c..%5cadmin",
        "/v1/models/x%00y",
        "/v1/models/x%3fkey=1",
        "/v1/models/x%23y",
        "/v1/models/x%0d%0aHost:%20evil.example",
        "/v1/models/..",
        "/v1/models/./x",
        "/v1/models//evil.example/x",
        "//evil.example/v1/models",
        "/v1/models/../chat/completions",
        "/v1/models/x;y=1/../z",
        "/v1beta/models/..:generateContent",
        "/v1beta/models/../../x:generateContent",
        "/v1beta/models/x%2f..%2f..%2ffiles:generateContent",
        "/v1beta/models/x%00:generateContent",
        "/v1beta/models/x%3f:generateContent",
        "/v1beta/models/x/y:generateContent",
        "/v1beta/models/x:deleteModel",
        "/v1/../v1/messages",
        "/v1/messages/../files",
        "/v1/messages%2fbatches",
        "/v1/messages/batches",
        "/v1/files",
        "/V1/messages",
        "/\u00e9/v1/messages",
    ],
)
async def test_no_path_reaches_another_path_of_the_upstream(tmp_path: Path, target: str) -> None:
    async with gateway_with(answering(), tmp_path) as flow:
        # A model's own id may have colons: a GET asks for the model of that name, and no more.
        for method in ("POST",) if ":" in target else ("GET", "POST"):
            reply = await ask_raw(flow, target, with_key(PROVIDER_KEY), method=method)
            assert reply.status in (400, 404), method
        assert not flow.upstream.received


async def test_ids_that_providers_have_pass(tmp_path: Path) -> None:
    async with gateway_with(answering(), tmp_path) as flow:
        ids = ("gpt-4o", "ft:gpt-4o:org::id", "anthropic/claude-3.5:free", "models@2026")
        for name in ids:
            await ask_raw(flow, f"/v1/models/{name}", with_key(PROVIDER_KEY), method="GET")
        assert [received.path for received in flow.upstream.received] == [f"/v1/models/{name}" for name in ids]


async def test_the_query_passes_as_it_came(tmp_path: Path) -> None:
    async with gateway_with(answering(), tmp_path) as flow:
        await ask_raw(flow, "/v1/messages?beta=true&a=%26b%3D1&c=%2Fx+y&empty=", with_key(PROVIDER_KEY))
        assert flow.upstream.received[0].query == "beta=true&a=%26b%3D1&c=/x y&empty="  # as the mock shows it


@pytest.mark.parametrize(
    "headers",
    [
        [("X-Forwarded-Host", "evil.example")],
        [("X-Forwarded-For", "10.0.0.9"), ("X-Forwarded-Proto", "https"), ("X-Real-IP", "10.0.0.9")],
        [("Forwarded", "host=evil.example;for=10.0.0.9"), ("Via", "1.1 evil.example")],
        [("X-Original-URL", "http://evil.example/"), ("X-Rewrite-URL", "/admin")],
        [("x-clew-upstream", "http://evil.example"), ("x-upstream", "http://evil.example")],
    ],
)
async def test_no_header_chooses_the_upstream(tmp_path: Path, headers: list[tuple[str, str]]) -> None:
    async with gateway_with(answering(), tmp_path) as flow:
        reply = await ask_raw(flow, "/v1/messages", with_key(PROVIDER_KEY), *headers)
        received = flow.upstream.received[0]
        assert reply.status == 200 and received.path == "/v1/messages"
        assert received.headers["host"] == f"127.0.0.1:{flow.upstream.port}"
        told = {
            name
            for name in received.headers
            if name.startswith(("x-forwarded", "forwarded", "via", "x-real", "x-clew"))
        }
        assert not told


@pytest.mark.parametrize("field", ["base_url", "api_base", "upstream", "endpoint", "proxy", "url"])
async def test_no_field_chooses_the_upstream(tmp_path: Path, field: str) -> None:
    async with gateway_with(answering(), tmp_path) as flow:
        body = {"model": GATEWAY_MODEL, "messages": [{"role": "user", "content": "hi"}], field: "http://127.0.0.1:1/"}
        body["model"] = "http://127.0.0.1:1/evil" if field == "url" else GATEWAY_MODEL
        reply = await ask_raw(flow, "/v1/chat/completions", body=json.dumps(body).encode())
        assert reply.status == 200 and flow.upstream.received[0].body == body


@pytest.mark.parametrize(
    "target", ["http://evil.example/v1/messages", "https://127.0.0.1:1/v1/messages", "evil.example:443", "*"]
)
@pytest.mark.parametrize("method", ["POST", "CONNECT", "OPTIONS"])
async def test_the_gateway_is_no_proxy(tmp_path: Path, target: str, method: str) -> None:
    async with gateway_with(answering(), tmp_path) as flow:
        assert (await ask_raw(flow, target, with_key(PROVIDER_KEY), method=method)).status in (400, 404)
        assert not flow.upstream.received


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_of_the_upstream_is_not_followed(tmp_path: Path, status: int) -> None:
    async with answering() as elsewhere:
        moved = UpstreamFault(status, {"moved": True}, {"Location": f"{elsewhere.base_url}/messages"})
        async with gateway_with(Upstream(moved), tmp_path) as flow:
            reply = await ask_raw(flow, "/v1/messages", with_key(PROVIDER_KEY))
            assert reply.status == status and reply.headers["location"] == f"{elsewhere.base_url}/messages"
            assert not elsewhere.received and len(flow.upstream.received) == 1


async def test_no_log_and_no_error_holds_a_credential_or_a_text(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Every way to fail that a client has, with everything logged that aiohttp, asyncio and Clew log."""
    caplog.set_level(logging.DEBUG)
    secret, text = "fake-secret-of-a-caller", "words of a private question"
    async with gateway_with(answering(), tmp_path, environ=KEYED) as flow:
        key = await make_caller(flow, "ann")
        secrets = (secret, text, key, PROVIDER_KEY)
        authorization = ("Authorization", f"Bearer {secret}")
        private = json.dumps({"model": GATEWAY_MODEL, "messages": [{"role": "user", "content": text}]}).encode()
        replies: list[RawReply] = [
            await ask_raw(flow, "/v1/messages", authorization, body=private),
            await ask_raw(flow, "/v1/messages", with_key(key), authorization, body=private),
            await ask_raw(flow, f"/v1/messages?key={secret}", with_key(key), body=b'{"messages": [' + text.encode()),
            await ask_raw(flow, "/v1/messages", with_key(key), ("Content-Encoding", "gzip"), body=text.encode()),
            await ask_raw(flow, "/v1/messages", ("Bad Header", secret), authorization, body=private),
            await ask_raw(flow, "/v1/messages", ("x-bad", f"{secret}\x01"), with_key(key), body=private),
            await ask_raw(flow, "/v1/messages", ("Content-Length", f"{secret}"), body=private),
            await ask_raw(flow, f"/{secret}", method=f"{'A' * 20}"),
        ]
        await flow.upstream.__aexit__()
        replies.append(await ask_raw(flow, "/v1/messages", with_key(key), body=private))
        assert replies[-1].status == 502
        for reply in replies:
            assert not [it for it in secrets if it.encode() in reply.body.replace(f"/{secret}".encode(), b"")]
        callers = repr([await flow.server.callers.of(web_request(flow, key))])
        assert not [it for it in secrets if it in callers]
    assert not [it for it in secrets if it in caplog.text]


def web_request(flow: GatewayFlow, key: str) -> web.Request:
    from aiohttp.test_utils import make_mocked_request

    return make_mocked_request("POST", "/v1/messages", headers={"x-api-key": key})
