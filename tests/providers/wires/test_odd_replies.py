"""Servers that send what nobody should send: a typed error or a reply, never anything else."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clew.providers import Request
from clew.providers.http.connection import ConnectionFailed, SseEvent
from clew.providers.wires.anthropic import AnthropicReplyAccumulator
from clew.providers.wires.chat import ChatReplyAccumulator
from clew.providers.wires.http_provider import ErrorInReply, ReplyAccumulator
from clew.providers.wires.responses import ResponsesReplyAccumulator
from clew.testing.messages import call, user
from clew.testing.upstream_wires import UpstreamAnswer, anthropic_events, chat_events, responses_events

KINDS: list[tuple[type[Any], Any]] = [
    (ChatReplyAccumulator, chat_events),
    (ResponsesReplyAccumulator, responses_events),
    (AnthropicReplyAccumulator, anthropic_events),
]
ASK = Request("m", [user("x")])
ANSWER = UpstreamAnswer("some text", (call("t", {"a": 1}, "c1"), call("u", {}, "c2")), "thought", piece_chars=4)
ODD: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 600) | st.text(max_size=4) | st.just(""),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["type", "text", "id", "name"]), inner),
    max_leaves=4,
)


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(path for name, one in inner for path in paths(one, (*at, name)))]


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], new)
    return copy


def accumulated(kind: type[Any], events: list[tuple[str, Any]]) -> ReplyAccumulator:
    accumulator: ReplyAccumulator = kind("mock")
    with suppress(ErrorInReply, ConnectionFailed):
        for name, value in events:
            raw = value if isinstance(value, str) else json.dumps(value)
            for delta in accumulator.add_event(SseEvent(name, raw)):
                assert isinstance(delta.text, str)
    return accumulator


@pytest.mark.parametrize(("kind", "events"), KINDS)
@settings(max_examples=60, deadline=None)
@given(choice=st.data())
def test_a_field_of_the_wrong_type_breaks_nothing(kind: type[Any], events: Any, choice: st.DataObject) -> None:
    stream = list(events(ANSWER, {"stream_options": {"include_usage": True}}))
    at = choice.draw(st.integers(0, len(stream) - 1))
    name, value = stream[at]
    path = choice.draw(st.sampled_from(paths(value)))
    stream[at] = (name, replaced(value, path, choice.draw(ODD)))
    accumulator = accumulated(kind, stream)
    message = accumulator.message()
    assert message is None or message["role"] == "assistant"
    reply = accumulator.reply(ASK)
    json.dumps(reply.message)
    assert isinstance(reply.model, str)


@pytest.mark.parametrize(("kind", "events"), KINDS)
@settings(max_examples=50, deadline=None)
@given(choice=st.data())
def test_lost_and_repeated_events_break_nothing(kind: type[Any], events: Any, choice: st.DataObject) -> None:
    stream = list(events(ANSWER, {}))
    kept = choice.draw(st.lists(st.sampled_from(range(len(stream))), max_size=len(stream) + 3))
    accumulator = accumulated(kind, [stream[at] for at in kept])
    json.dumps(accumulator.reply(ASK).message)


@pytest.mark.parametrize(("kind", "events"), KINDS)
@settings(max_examples=50, deadline=None)
@given(body=st.dictionaries(st.sampled_from(["choices", "content", "output", "type", "error", "usage", "model"]), ODD))
def test_a_body_of_any_shape_breaks_nothing(kind: type[Any], events: Any, body: dict[str, Any]) -> None:
    accumulator: ReplyAccumulator = kind("mock")
    with suppress(ErrorInReply):
        list(accumulator.add_body(body))
        json.dumps(accumulator.reply(ASK).message)


def test_an_item_whose_content_is_a_number_is_an_empty_message() -> None:
    """Found by `./check fuzz`."""
    item = {"type": "message", "role": "assistant", "content": 5}
    done = ("", {"type": "response.output_item.done", "output_index": 0, "item": item})
    assert accumulated(ResponsesReplyAccumulator, [done]).reply(ASK).message["role"] == "assistant"
