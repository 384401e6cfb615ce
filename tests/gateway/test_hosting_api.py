"""The door of hosted conversations: what is refused and how, the description, exports, search, pins, other wires."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from clew.gateway.hosted_api import MAX_BODY_BYTES, MAX_CONTENT_CHARS, description
from clew.gateway.hosted_http import OPERATIONS, HostingRoutes
from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import Upstream, UpstreamAnswer
from clew.testing.upstream_rules import UpstreamRules
from tests.support.gateway import gateway_with
from tests.support.hosting import CREDENTIAL, HostedBot, hosting_with


async def begun(bot: HostedBot, *questions: str) -> str:
    id = await bot.begin(system="Be brief.")
    for question in questions:
        await bot.ask(id, question)
    return id


REFUSED: list[tuple[str, str, Any, int, str]] = [
    ("POST", "conversations", {"modell": "x"}, 400, "'modell'"),
    ("POST", "conversations", {"model": 7}, 400, "'model'"),
    ("POST", "conversations", {"model": ""}, 400, "'model'"),
    ("POST", "conversations", {"model": "a\0b"}, 400, "NUL"),
    ("POST", "conversations", ["model"], 400, "object"),
    ("POST", "conversations/{id}/messages", {}, 400, "'content' is missing"),
    ("POST", "conversations/{id}/messages", {"content": ""}, 400, "'content'"),
    ("POST", "conversations/{id}/messages", {"content": "x", "stream": "yes"}, 400, "'stream'"),
    ("POST", "conversations/{id}/messages", {"content": "\ud800"}, 400, "half a character"),
    ("POST", "conversations/{id}/messages", {"content": "x" * (MAX_CONTENT_CHARS + 1)}, 400, "1,000,000"),
    ("POST", "conversations/{id}/compress", {"apply": "p_1", "preview": True}, 400, "'apply'"),
    ("POST", "conversations/{id}/compress", {"apply": "p_1"}, 404, "preview"),
    ("POST", "conversations/{id}/branch", {"at": -1}, 400, "'at'"),
    ("POST", "conversations/{id}/branch", {"at": 0, "before_last_question": True}, 400, "exclude"),
    ("POST", "conversations/{id}/branch", {"at": 99}, 409, "messages"),
    ("POST", "conversations/{id}/retry", {}, 409, "asked"),
    ("PATCH", "conversations/{id}", {}, 400, "empty"),
    ("GET", "conversations?limit=0", None, 400, "'limit'"),
    ("GET", "conversations?limit=ten", None, 400, "'limit'"),
    ("GET", "conversations?limit=1&limit=2", None, 400, "twice"),
    ("GET", "conversations?page=2", None, 400, "'page'"),
    ("GET", "conversations?before=s_none", None, 404, "page"),
    ("GET", "conversations/{id}/export?format=pdf", None, 400, "'format'"),
    ("DELETE", "conversations/{id}/pins/1", None, 404, "pin"),
    ("GET", "conversations/{id}/open?messages=m9", None, 404, "message"),
    ("GET", "search", None, 400, "'q' is missing"),
    ("GET", "usage?since=yesterday", None, 400, "no time"),
    ("GET", "conversations/..%2f..%2fetc%2fpasswd", None, 404, "conversation"),
    ("GET", "nowhere", None, 404, "does not serve"),
    ("PUT", "conversations", {}, 405, "PUT"),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "words"), REFUSED)
async def test_what_is_not_allowed_is_named(
    tmp_path: Path, method: str, path: str, body: Any, status: int, words: str
) -> None:
    async with hosting_with(Upstream(), tmp_path) as bot:
        id = await bot.begin()
        told, value = await bot.call(method, path.format(id=id), body)
        assert told == status, value
        assert set(value["error"]) == {"message", "kind", "remedy"} and value["error"]["remedy"]
        assert words in value["error"]["message"]
        assert bot.flow.upstream.calls == []


@pytest.mark.parametrize(
    ("raw", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b'{"content": "x"}', "text/plain", 415),
        (b" " * (MAX_BODY_BYTES + 1), "application/json", 413),
    ],
    ids=["cut", "deep", "no text", "not json", "large"],
)
async def test_a_body_that_is_no_json_object_is_refused(tmp_path: Path, raw: bytes, kind: str, status: int) -> None:
    async with hosting_with(Upstream(), tmp_path) as bot:
        url = f"{bot.flow.root}/clew/conversations"
        async with bot.http.post(url, data=BytesIO(raw), headers={"Content-Type": kind}) as response:
            assert response.status == status
            assert set((await response.json())["error"]) == {"message", "kind", "remedy"}


async def test_a_method_that_is_not_served_names_those_that_are(tmp_path: Path) -> None:
    async with hosting_with(Upstream(), tmp_path) as bot, bot.http.put(f"{bot.flow.root}/clew/search") as response:
        assert (response.status, response.headers["Allow"]) == (405, "GET")


async def test_a_request_that_cannot_fit_says_what_is_large(tmp_path: Path) -> None:
    upstream = Upstream(rules=UpstreamRules(window=2_000))
    async with hosting_with(upstream, tmp_path, window=2_000) as bot:
        id = await bot.begin(system="very many words " * 4_000)
        status, value = await bot.call("POST", f"conversations/{id}/messages", {"content": "hi"})
        assert (status, value["error"]["kind"]) == (413, "prompt_too_long")
        assert "the system prompt" in value["error"]["message"]
        assert len(upstream.calls) <= 3


async def test_the_description_is_of_the_routes_there_are(tmp_path: Path) -> None:
    async with gateway_with(Upstream(), tmp_path) as flow:
        resources = [it for it in flow.server.application().router.resources() if it.canonical.startswith("/clew")]
        served = {(route.method, it.canonical) for it in resources for route in it if route.method != "*"}
        async with aiohttp.ClientSession() as http, http.get(f"{flow.root}/clew/openapi.json") as response:
            told = await response.json()
    described = {(method.upper(), path) for path, methods in told["paths"].items() for method in methods}
    assert served == described == {(operation.method, operation.path) for operation in OPERATIONS}
    assert told["openapi"].startswith("3.1") and told == json.loads(json.dumps(description(OPERATIONS)))


def test_every_operation_has_a_method_and_every_name_in_the_description_is_there() -> None:
    assert all(callable(getattr(HostingRoutes, operation.name)) for operation in OPERATIONS)
    told = description(OPERATIONS)
    names = set(told["components"]["schemas"])
    used = {part.split('"')[0] for part in json.dumps(told).split("#/components/schemas/")[1:]}
    assert used <= names
    assert {operation.answer.__name__ for operation in OPERATIONS if operation.answer} <= names


async def test_a_conversation_is_exported_in_every_shape(tmp_path: Path) -> None:
    async with hosting_with(Upstream(UpstreamAnswer("hello")), tmp_path) as bot:
        id = await begun(bot, "hi")
        path = f"conversations/{id}/export"
        chat = await bot.done("GET", path)
        assert [message["role"] for message in chat["messages"]] == ["system", "user", "assistant"]
        assert (await bot.done("GET", path, format="anthropic"))["system"]
        assert (await bot.done("GET", path, format="responses"))["input"]
        lines = [json.loads(line) for line in (await bot.done("GET", path, format="jsonl")).splitlines()]
        assert lines == chat["messages"] == (await bot.done("GET", path, view="true"))["messages"]
        shown = await bot.done("GET", path, format="jsonl", view="true")
        assert [json.loads(line) for line in shown.splitlines()] == lines


async def test_words_are_found_with_the_conversation_they_are_in(tmp_path: Path) -> None:
    async with hosting_with(Upstream(*[UpstreamAnswer("noted")] * 2), tmp_path) as bot:
        first, second = await begun(bot, "the lighthouse key is brass"), await begun(bot, "nothing of it")
        hit = (await bot.done("GET", "search", q="lighthouse"))["hits"][0]
        assert (hit["conversation"], hit["seq"], hit["role"]) == (first, 0, "user")
        start, stop = hit["marks"][0]
        assert hit["snippet"][start:stop] == "lighthouse"
        assert (await bot.done("GET", "search", q="lighthouse", conversation=second))["hits"] == []
        assert (await bot.done("GET", "search", q="noted", role="user"))["hits"] == []
        by = {each["group"]["conversation"]: each["calls"] for each in (await usage_by(bot, "conversation"))}
        assert by == {first: 1, second: 1}
        assert [each["group"]["model"] for each in await usage_by(bot, "model")] == [GATEWAY_MODEL]
        assert len((await usage_by(bot, "day"))[0]["group"]["day"]) == len("2026-01-31")
        later = await bot.done("GET", "usage", since="2999-01-01T00:00:00Z")
        assert later["groups"][0]["calls"] == 0


async def usage_by(bot: HostedBot, by: str) -> Any:
    return (await bot.done("GET", "usage", by=by))["groups"]


async def test_pages_of_conversations_have_each_one_once(tmp_path: Path) -> None:
    async with hosting_with(Upstream(), tmp_path) as bot:
        made = [await bot.begin(title=f"number {number}") for number in range(5)]
        seen, query = [], {"limit": 2}
        while True:
            page = await bot.done("GET", "conversations", **query)
            seen += [each["id"] for each in page["conversations"]]
            if page["next"] is None:
                break
            query["before"] = page["next"]
        assert seen == made[::-1]


async def test_a_pin_is_kept_and_taken_away(tmp_path: Path) -> None:
    async with hosting_with(Upstream(UpstreamAnswer("ok")), tmp_path) as bot:
        id = await begun(bot)
        await bot.done("POST", f"conversations/{id}/pins", {"text": "never on a Sunday", "label": "rule"})
        pins = (await bot.done("GET", f"conversations/{id}/pins"))["pins"]
        assert pins == [{"number": 1, "label": "rule", "text": "never on a Sunday"}]
        await bot.ask(id, "when?")
        assert "never on a Sunday" in json.dumps(bot.flow.upstream.calls[0].body)
        assert (await bot.done("DELETE", f"conversations/{id}/pins/1"))["pins"] == []


async def test_another_model_answers_from_the_next_message_on(tmp_path: Path) -> None:
    async with hosting_with(Upstream(*[UpstreamAnswer("ok")] * 2), tmp_path) as bot:
        id = await begun(bot, "one")
        changed = await bot.done("PATCH", f"conversations/{id}", {"model": "gpt-4o", "title": None})
        assert (changed["model"], changed["title"]) == ("gpt-4o", None)
        await bot.ask(id, "two")
        assert [call.body["model"] for call in bot.flow.upstream.calls] == [GATEWAY_MODEL, "gpt-4o"]
        assert (await bot.done("GET", f"conversations/{id}/context"))["window"] > 100_000


async def test_the_configured_model_answers_where_none_is_named(tmp_path: Path) -> None:
    async with hosting_with(Upstream(), tmp_path) as bot:
        assert (await bot.done("POST", "conversations"))["model"] == GATEWAY_MODEL


@pytest.mark.parametrize(
    ("provider", "path", "header"),
    [("anthropic", "/v1/messages", "x-api-key"), ("openai-responses", "/v1/responses", "authorization")],
)
async def test_the_provider_of_the_config_says_which_wire_is_spoken(
    tmp_path: Path, provider: str, path: str, header: str
) -> None:
    environ = {"CLEW_MODEL_PROVIDER": provider}
    async with hosting_with(Upstream(UpstreamAnswer("ok")), tmp_path, environ=environ) as bot:
        id = await begun(bot, "hi")
        assert (await bot.done("GET", f"conversations/{id}"))["messages"] == 2
        call = bot.flow.upstream.calls[0]
        assert call.path == path and call.headers[header].endswith(CREDENTIAL)


async def test_what_went_through_a_wire_is_read_here_and_not_talked_to(tmp_path: Path) -> None:
    async with hosting_with(Upstream(*[UpstreamAnswer("passed")] * 2), tmp_path) as bot:
        body = {"model": GATEWAY_MODEL, "messages": [{"role": "user", "content": "through the wire"}]}
        headers = {"Authorization": f"Bearer {CREDENTIAL}"}
        async with bot.http.post(f"{bot.flow.base_url}/chat/completions", json=body, headers=headers) as response:
            assert response.status == 200
        await bot.flow.wait_for_recordings()
        listed = (await bot.done("GET", "conversations"))["conversations"]
        assert [each["source"] for each in listed] == ["gateway"]
        path = f"conversations/{listed[0]['id']}"
        assert len((await bot.done("GET", f"{path}/messages"))["messages"]) == 2
        status, value = await bot.call("POST", f"{path}/messages", {"content": "hi"})
        assert (status, value["error"]["kind"]) == (409, "not_hosted")
        assert (await bot.call("DELETE", path))[0] == 204
        async with bot.http.post(f"{bot.flow.base_url}/chat/completions", json=body, headers=headers) as response:
            assert response.status == 200
        await bot.flow.wait_for_recordings()
        assert len((await bot.done("GET", "conversations"))["conversations"]) == 1


async def test_no_error_names_the_address_of_the_upstream_or_the_path_of_the_store(tmp_path: Path) -> None:
    headers = {"Authorization": f"Bearer {CREDENTIAL}"}
    async with (
        gateway_with(Upstream(), tmp_path, upstreams=("http://127.0.0.1:9/v1",)) as flow,
        aiohttp.ClientSession(headers=headers) as http,
    ):
        async with http.post(f"{flow.root}/clew/conversations", json={}) as response:
            url = f"{flow.root}/clew/conversations/{(await response.json())['id']}"
        async with http.post(f"{url}/messages", json={"content": "hello"}) as response:
            unreachable = (response.status, (await response.json())["error"])
        await flow.store.close()
        async with http.get(url) as response:
            failed = (response.status, (await response.json())["error"])
    assert (unreachable[0], unreachable[1]["kind"], failed[0], failed[1]["kind"]) == (502, "network", 500, "store")
    for told in (str(unreachable), str(failed)):
        assert "127.0.0.1" not in told and str(tmp_path) not in told
