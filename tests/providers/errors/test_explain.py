"""What a person is told of a refusal: what happened, and what to do about it."""

from __future__ import annotations

import socket
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from clew.config import ModelSettings, StoredKeys
from clew.errors import CalledEndpoint
from clew.providers import ErrorClass, ProviderRefused, Request, RetryPolicy, explain_refusal, provider_for
from clew.providers.errors.explain import wait_text
from clew.providers.wires.http_provider import HttpProvider
from clew.testing import user
from clew.testing.upstream import RawAnswer, Upstream, UpstreamFault

KEY = "not-" + "a-real-" + "key"
NOW = datetime(2026, 3, 10, 11, 5, tzinfo=timezone(timedelta(hours=1)))
PAGE = "<!DOCTYPE html><html><head><title>Sign in</title></head><body>Welcome</body></html>"


async def refusal(settings: ModelSettings, environ: dict[str, str]) -> ProviderRefused:
    provider = provider_for(settings, environ=environ, retry_policy=RetryPolicy(retries=0))
    try:
        with pytest.raises(ProviderRefused) as stopped:
            await provider.send(Request(settings.name or "m", [user("hi")]))
    finally:
        await provider.close()
    return stopped.value


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def test_a_refused_key_names_the_variable_that_holds_it() -> None:
    fault = UpstreamFault(401, {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}})
    async with Upstream(fault, fault, fault) as upstream:
        named = ModelSettings(name="m", base_url=upstream.base_url, api_key_env="MY_KEY")
        told = explain_refusal(await refusal(named, {"MY_KEY": KEY}))
        assert told.remedy == "Check the key in the environment variable MY_KEY."
        told = explain_refusal(await refusal(named, {}))
        assert told.remedy == "No key was sent: set the environment variable MY_KEY."
        bare = ModelSettings(name="m", base_url=upstream.base_url)
        told = explain_refusal(await refusal(bare, {}))
        assert told.remedy == (
            "No key was sent: put it into an environment variable, and name that variable with model.api_key_env."
        )


def test_a_key_of_a_known_provider_is_in_its_own_variable() -> None:
    openai = provider_for(ModelSettings(name="gpt-5"), environ={"OPENAI_API_KEY": KEY})
    google = provider_for(ModelSettings(name="gemini-2.5-pro"), environ={"GOOGLE_API_KEY": KEY})
    file = provider_for(ModelSettings(name="gpt-5", api_key=KEY), environ={})
    assert isinstance(openai, HttpProvider) and isinstance(google, HttpProvider) and isinstance(file, HttpProvider)
    assert [provider.endpoint_called.key_source for provider in (openai, google, file)] == [
        "the environment variable OPENAI_API_KEY",
        "the environment variable GOOGLE_API_KEY",
        "model.api_key of the config",
    ]
    refused = ProviderRefused("openai", ErrorClass("auth"), "no", endpoint=file.endpoint_called)
    assert explain_refusal(refused).remedy == "Check the key in model.api_key of the config."


def test_a_key_that_was_stored_is_told_as_that(tmp_path: Path) -> None:
    StoredKeys(tmp_path).put("OPENAI_API_KEY", KEY, "file")
    provider = provider_for(ModelSettings(name="gpt-5"), environ={"CLEW_HOME": str(tmp_path)})
    assert isinstance(provider, HttpProvider)
    refused = ProviderRefused("openai", ErrorClass("auth"), "no", endpoint=provider.endpoint_called)
    assert explain_refusal(refused).remedy == ("Check the key in the store of `clew models key`, for OPENAI_API_KEY.")
    unknown = ProviderRefused("openai", ErrorClass("auth"), "no")
    assert explain_refusal(unknown).remedy == "Check the key, and the variable that model.api_key_env names."


async def test_a_server_that_is_not_running_is_told_with_its_address() -> None:
    address = f"http://127.0.0.1:{free_port()}/v1"
    told = explain_refusal(await refusal(ModelSettings(name="m", base_url=address), {}))
    assert told.text == f"no server is running at {address}."
    assert told.remedy == "Start it, or set model.base_url to where it runs."


def test_a_host_that_nobody_knows_is_told() -> None:
    body = "connection error with api.example.invalid: ClientConnectorDNSError: [Name or service not known]"
    refused = ProviderRefused(
        "x", ErrorClass("network"), body, endpoint=CalledEndpoint("https://api.example.invalid/v1")
    )
    told = explain_refusal(refused)
    assert told.text == "there is no host of the name in https://api.example.invalid/v1."
    assert told.remedy == "Check model.base_url and the connection."


def test_a_far_server_that_cannot_be_reached_is_not_to_be_started() -> None:
    body = "connection error with api.example.invalid: ClientConnectorError: Cannot connect to host"
    refused = ProviderRefused(
        "x", ErrorClass("network"), body, endpoint=CalledEndpoint("https://api.example.invalid/v1")
    )
    assert str(explain_refusal(refused)) == (
        "there is no answer from https://api.example.invalid/v1. Check the connection, and model.base_url."
    )


async def test_a_stream_that_broke_off_is_told_as_that() -> None:
    piece = b'data: {"choices": [{"delta": {"content": "Half"}}]}\n\n'
    async with Upstream(RawAnswer([piece])) as upstream:
        refused = await refusal(ModelSettings(name="m", base_url=upstream.base_url), {})
    told = explain_refusal(refused)
    assert told.text == "the reply of 127.0.0.1 broke off before its end. The part that arrived is kept."
    assert told.remedy == "Ask again, or ask it to go on."


async def test_a_web_page_instead_of_an_answer_is_told_as_that() -> None:
    page = RawAnswer([PAGE.encode()], content_type="text/html")
    async with Upstream(page, UpstreamFault(404, PAGE), UpstreamFault(502, PAGE)) as upstream:
        settings = ModelSettings(name="m", base_url=upstream.base_url)
        for _ in range(2):
            told = explain_refusal(await refusal(settings, {}))
            assert told.text == f"{upstream.base_url} answered with a web page (Sign in), which no model does."
            assert told.remedy == (
                "Check model.base_url (many end with /v1), and whether a proxy or a login page is in between."
            )
        # A gateway's own page for a server that is down says nothing of the address.
        told = explain_refusal(await refusal(settings, {}))
        assert told.text == "127.0.0.1 refused (502, overloaded): a web page, Sign in."


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (7, "It asks to wait 7 s."),
        (0.4, "It asks to wait 1 s."),
        (90, "It asks to wait until about 11:07, in 2 minutes."),
        (3 * 3600, "It asks to wait until about 14:05, in 3 hours."),
        (3600, "It asks to wait until about 12:05, in 1 hour."),
        (13 * 3600, "It asks to wait until about 00:05 tomorrow, in 13 hours."),
        (6 * 86400, "It asks to wait until about 11:05 on 16 March, in 6 days."),
    ],
)
def test_a_wait_is_told_as_a_time(seconds: float, text: str) -> None:
    assert wait_text(seconds, NOW) == text


def test_a_wait_without_end_does_no_harm() -> None:
    assert wait_text(1e18, datetime.now(UTC)) == "It asks to wait for years."


def test_a_message_is_taken_out_of_its_json_and_cut() -> None:
    refused = ProviderRefused("x", ErrorClass("bad_request"), '{"error": {"message": "no such model"}}')
    assert explain_refusal(refused).text == "x refused (bad request): no such model."
    long = ProviderRefused("x", ErrorClass("other"), "y" * 2_000)
    assert len(explain_refusal(long).text) < 500
