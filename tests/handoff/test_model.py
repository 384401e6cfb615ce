"""A summary model made from any function: how replies are read, and how failures are translated."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from clew.errors import InvalidArgument, SummaryFailed
from clew.handoff import SummaryModel, summary_model


class Refused(Exception):  # noqa: N818
    """As SDKs raise it: with a status, a body and a response."""

    def __init__(self, status: int, body: object = None, headers: dict[str, str] | None = None, said: str = "") -> None:
        super().__init__(said)
        self.status_code = status
        self.body = body
        self.response = SimpleNamespace(status_code=status, text=str(body or ""), headers=headers or {})


async def failure_of(error: Exception) -> SummaryFailed:
    def model(prompt: str) -> str:
        raise error

    with pytest.raises(SummaryFailed) as failure:
        await summary_model(model).complete("p", 10)
    assert type(failure.value.__cause__) is type(error)
    return failure.value


async def test_a_plain_function_is_a_model() -> None:
    model = summary_model(lambda prompt: f"got {prompt}")
    assert await model.complete("p", 10) == "got p"
    assert model.name == "the given summarizer"


async def test_an_async_function_is_one_too_and_lends_its_name() -> None:
    async def my_model(prompt: str) -> str:
        await asyncio.sleep(0)
        return prompt

    model = summary_model(my_model, context_length=8_000)
    assert (await model.complete("p", 10), model.name, model.context_length) == ("p", "my_model", 8_000)


async def test_an_object_that_can_be_called_is_one_too() -> None:
    class Client:
        async def __call__(self, prompt: str, *, max_tokens: int) -> str:
            return f"{prompt} {max_tokens}"

    assert await summary_model(Client()).complete("p", 10) == "p 10"


async def test_max_tokens_is_passed_where_the_function_has_a_place_for_it() -> None:
    def by_name(prompt: str, temperature: float = 0.0, max_tokens: int = 0) -> str:
        return f"{prompt} {temperature} {max_tokens}"

    def by_position(prompt: str, most: int) -> str:
        return f"{prompt} {most}"

    assert await summary_model(by_name).complete("p", 7) == "p 0.0 7"
    assert await summary_model(by_position).complete("p", 7) == "p 7"


@pytest.mark.parametrize(
    "reply",
    [
        "text",
        SimpleNamespace(text="text"),
        {"choices": [{"message": {"content": "text"}, "finish_reason": "stop"}]},
        SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content="text"), finish_reason="stop")]),
        {"content": [{"type": "text", "text": "te"}, {"type": "text", "text": "xt"}], "stop_reason": "end_turn"},
        SimpleNamespace(content="text", response_metadata={"finish_reason": "stop"}),
        SimpleNamespace(output_text="text", status="completed"),
    ],
)
async def test_the_replies_of_common_clients_are_read(reply: Any) -> None:
    assert await summary_model(lambda _: reply).complete("p", 10) == "text"


@pytest.mark.parametrize(
    "reply",
    [
        {"choices": [{"message": {"content": "half"}, "finish_reason": "length"}]},
        SimpleNamespace(content=[{"type": "text", "text": "half"}], stop_reason="max_tokens"),
        SimpleNamespace(output_text="half", status="incomplete"),
    ],
)
async def test_a_reply_that_was_cut_off_is_reported_with_what_there_is(reply: Any) -> None:
    with pytest.raises(SummaryFailed) as failure:
        await summary_model(lambda _: reply).complete("p", 10)
    assert (failure.value.kind, failure.value.partial) == ("cut", "half")


async def test_nothing_is_an_empty_text_and_a_stranger_is_refused() -> None:
    assert await summary_model(lambda _: None).complete("p", 10) == ""
    with pytest.raises(SummaryFailed, match="a int was returned"):
        await summary_model(lambda _: 7).complete("p", 10)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (Refused(401), "auth"),
        (Refused(402), "quota"),
        (Refused(403), "auth"),
        (Refused(404), "bad_request"),
        (Refused(429), "rate_limit"),
        (Refused(500), "overloaded"),
        (Refused(529), "overloaded"),
        (TimeoutError(), "timeout"),
        (RuntimeError("Request timed out."), "timeout"),
        (ConnectionResetError("peer closed the connection"), "network"),
        (BrokenPipeError("pipe"), "network"),
        (KeyError("choices"), "other"),
    ],
)
async def test_exceptions_are_translated_by_what_they_carry(error: Exception, kind: str) -> None:
    assert (await failure_of(error)).kind == kind


async def test_the_words_of_a_body_count_more_than_its_status() -> None:
    body = {"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}}
    failure = await failure_of(Refused(400, body))
    assert (failure.kind, failure.limit) == ("prompt_too_long", 200_000)


async def test_a_wait_that_the_provider_asks_for_is_carried_along() -> None:
    assert (await failure_of(Refused(429, headers={"retry-after": "7"}))).retry_after == 7


async def test_a_response_that_cannot_be_read_any_more_does_no_harm() -> None:
    class Unread:
        status_code = 503

        @property
        def text(self) -> str:
            raise RuntimeError("not read")

    error = RuntimeError("stream")
    error.response = Unread()  # type: ignore[attr-defined]
    assert (await failure_of(error)).kind == "overloaded"


async def test_a_key_in_an_error_is_not_repeated() -> None:
    key = "sk-" + "proj-" + "aB3dE" * 10
    assert key not in str(await failure_of(Refused(401, said=f"Incorrect API key provided: {key}")))


async def test_a_model_that_never_answers_is_stopped() -> None:
    async def hangs(prompt: str) -> str:
        await asyncio.Event().wait()
        return prompt

    with pytest.raises(SummaryFailed) as failure:
        await summary_model(hangs, timeout_seconds=0).complete("p", 10)
    assert failure.value.kind == "timeout"


async def test_a_failure_of_our_own_passes_as_it_is() -> None:
    raised = SummaryFailed("no provider", kind="auth")

    def model(prompt: str) -> str:
        raise raised

    with pytest.raises(SummaryFailed) as failure:
        await summary_model(model).complete("p", 10)
    assert failure.value is raised


def test_what_cannot_be_a_model_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="pass a function"):
        summary_model("gpt")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="context_length 0"):
        SummaryModel("m", summary_model(str).complete, 0)
