"""Real SDK objects count, fold and come back as dicts do, and what comes back is taken by the SDKs."""

from __future__ import annotations

import copy
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pydantic
import pytest
from anthropic import AsyncAnthropic
from anthropic.types import Message as AnthropicReply
from anthropic.types import ParsedTextBlock, TextBlock, ToolUseBlock
from openai import AsyncOpenAI, pydantic_function_tool
from openai.types.chat import ChatCompletion, ChatCompletionMessage, ParsedChatCompletionMessage
from openai.types.responses import ParsedResponseFunctionToolCall, ResponseReasoningItem

import clew
from clew.engines import ContextCompressor
from clew.errors import InvalidMessage
from clew.messages import read_conversation, repair
from clew.store import NewMessage, NewSession
from clew.testing import call
from clew.testing.upstream import Upstream, UpstreamAnswer

LOG = "".join(f"ship {line}: berth {line * 31}, cargo salt, master aboard\n" for line in range(20))
ROUNDS = 14
WINDOW = 12_000
KEY = "not-a-key"


@dataclass(frozen=True)
class Wire:
    """How a program with one of the SDKs asks, and what it keeps of a reply."""

    client: Callable[[str], Any]
    ask: Callable[[Any, list[Any]], Awaitable[Any]]
    keep: Callable[[Any], list[Any]]
    result: Callable[[str, str], dict[str, Any]]


def openai_client(base_url: str) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=base_url, api_key=KEY)


def anthropic_client(base_url: str) -> AsyncAnthropic:
    return AsyncAnthropic(base_url=base_url.removesuffix("/v1"), api_key=KEY)


WIRES = {
    "openai_chat": Wire(
        openai_client,
        lambda client, messages: client.chat.completions.create(model="gpt-5", messages=messages),
        lambda reply: [reply.choices[0].message],
        lambda id, text: {"role": "tool", "tool_call_id": id, "content": text},
    ),
    "responses": Wire(
        openai_client,
        lambda client, items: client.responses.create(model="gpt-5", input=items),
        lambda reply: list(reply.output),
        lambda id, text: {"type": "function_call_output", "call_id": id, "output": text},
    ),
    "anthropic": Wire(
        anthropic_client,
        lambda client, messages: client.messages.create(model="claude-mock", max_tokens=500, messages=messages),
        lambda reply: [{"role": "assistant", "content": reply.content}],
        lambda id, text: {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": id, "content": [TextBlock(type="text", text=text)]}],
        },
    ),
}


def answers(rounds: int) -> list[UpstreamAnswer]:
    return [
        answer
        for number in range(rounds)
        for answer in (
            UpstreamAnswer(
                "I look." * (number % 2),
                (call("read_file", {"path": f"{number}.log"}, f"c{number}"),),
                f"the log of day {number}",
            ),
            UpstreamAnswer(f"Day {number}: salt."),
        )
    ]


async def history_of(wire: Wire, client: Any) -> list[Any]:
    """A conversation as a program with the SDK has it: its own dicts, and the SDK's objects between them."""
    history: list[Any] = []
    for number in range(ROUNDS):
        history.append({"role": "user", "content": f"Which ships came on day {number}?"})
        history += wire.keep(await wire.ask(client, history))
        history.append(wire.result(f"c{number}", f"day {number}\n{LOG}"))
        history += wire.keep(await wire.ask(client, history))
    return history


_MADE: dict[str, list[Any]] = {}


async def made_history(dialect: str) -> list[Any]:
    """A copy of a conversation that is made once for each dialect: OpenAI's SDK takes seconds to send it."""
    if dialect not in _MADE:
        wire = WIRES[dialect]
        async with Upstream(*answers(ROUNDS)) as upstream, wire.client(upstream.base_url) as client:
            _MADE[dialect] = await history_of(wire, client)
    return copy.deepcopy(_MADE[dialect])


def as_dicts(value: Any) -> Any:
    """The same without objects, by the SDKs' own means; a chat message without content says so."""
    if isinstance(value, pydantic.BaseModel):
        dumped = json.loads(value.model_dump_json(exclude_none=True))
        return {"content": None, **dumped} if isinstance(value, ChatCompletionMessage) else dumped
    if isinstance(value, list):
        return [as_dicts(inner) for inner in value]
    return {name: as_dicts(inner) for name, inner in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize("dialect", WIRES)
async def test_objects_count_and_fold_as_their_dicts_do(dialect: str) -> None:
    history = await made_history(dialect)
    plain, as_it_was = as_dicts(history), copy.deepcopy(history)
    assert clew.count_tokens(history) == clew.count_tokens(plain) > 4_000
    done, of_dicts = [await clew.acompress(each, context_length=WINDOW) for each in (history, plain)]
    assert history == as_it_was
    assert done.conversation.dialect == of_dicts.conversation.dialect == dialect
    assert done.changed and done.tokens_after < done.tokens_before / 2
    assert (done.summary, done.fates, done.tokens_after) == (of_dicts.summary, of_dicts.fates, of_dicts.tokens_after)
    assert as_dicts(done.messages) == of_dicts.messages
    assert not repair(read_conversation(done.messages).messages).repairs


@pytest.mark.parametrize("dialect", WIRES)
async def test_what_comes_out_goes_back_through_the_client_without_a_null(dialect: str) -> None:
    wire = WIRES[dialect]
    async with Upstream(*answers(ROUNDS), UpstreamAnswer("Yes.")) as upstream, wire.client(upstream.base_url) as client:
        history = await history_of(wire, client)
        done = clew.compress(history, context_length=WINDOW)
        await wire.ask(client, [*done.messages, {"role": "user", "content": "And?"}])
        sent = upstream.received[-1].body["input" if dialect == "responses" else "messages"]
        assert without_nulls(sent[:-1]) == without_nulls(as_dicts(done.messages))
        # What is set to null in a dict of ours is the content of a call: the rest is as the SDK sends its own objects.
        ours = [item for item, out in zip(sent[:-1], done.messages, strict=True) if type(out) is dict]
        assert all(item == {**without_nulls(item), "content": item.get("content")} for item in ours if "role" in item)


def without_nulls(value: Any) -> Any:
    if isinstance(value, list):
        return [without_nulls(inner) for inner in value]
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return value


@pytest.mark.parametrize("dialect", WIRES)
async def test_what_did_not_change_is_the_object_that_came_and_what_did_is_a_dict(dialect: str) -> None:
    history = await made_history(dialect)
    done = clew.compress(history, context_length=WINDOW)
    came = {id(item) for item in history}
    kept = [item for item in done.messages if id(item) in came]
    assert len(kept) >= 5 and done.messages[-1] is history[-1]
    assert any(isinstance(item, pydantic.BaseModel) for item in kept) or dialect == "anthropic"
    assert all(type(item) is dict for item in done.messages if id(item) not in came)
    untouched = clew.compress(history, target_tokens=500_000)
    assert untouched.messages is history and untouched.request is None


@pytest.mark.parametrize("dialect", WIRES)
async def test_every_door_reads_objects(dialect: str) -> None:
    history = await made_history(dialect)
    plain = as_dicts(history)
    assert clew.preview(history, context_length=WINDOW) == clew.preview(plain, context_length=WINDOW)
    if dialect != "responses":
        marked = clew.apply_cache_control(history)
        assert as_dicts(marked) == clew.apply_cache_control(plain)
        assert sum(one is not other for one, other in zip(marked, history, strict=True)) == 3
    if dialect == "openai_chat":
        engines = [ContextCompressor(WINDOW) for _ in range(2)]
        engines[0].observe(history[:4])
        assert engines[0].has_content_to_compress(history)
        folded, of_dicts = [await engine.compress(each) for engine, each in zip(engines, (history, plain), strict=True)]
        assert (folded.messages, folded.summary) == (of_dicts.messages, of_dicts.summary)
    async with clew.open_store(":memory:") as store:
        await store.start_session(NewSession(id="objects"))
        await store.append("objects", history[:6])
        await store.append("objects", (NewMessage(item) for item in history[6:]))
        stored = [row.message for row in await store.messages("objects")]
        assert [json.loads(json.dumps(message)) for message in stored] == plain
        synced = await store.sync(history)
        assert (synced.known, synced.added) == (len(history), 0)


async def test_a_reply_with_its_usage_is_read_whole_or_by_its_usage() -> None:
    replies: list[Any] = []
    for wire in WIRES.values():
        async with Upstream(UpstreamAnswer("Yes.")) as upstream, wire.client(upstream.base_url) as client:
            replies.append(await wire.ask(client, [{"role": "user", "content": "Salt?"}]))
    for reply in replies:
        used = clew.normalize_usage(reply.usage)
        assert used == clew.normalize_usage(reply) == clew.normalize_usage(reply.usage.model_dump())
        assert (used.prompt_tokens, used.output_tokens, used.is_known) == (100, 9, True)
    engine = ContextCompressor(WINDOW)
    engine.update_from_response(replies[0].usage)
    assert engine.get_status().last_prompt_tokens == 100


def test_a_whole_reply_of_anthropic_in_the_list_is_its_message() -> None:
    reply = AnthropicReply.model_validate(
        {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "stop_reason": None,
            "stop_sequence": None, "usage": {"input_tokens": 3, "output_tokens": 4},
            "content": [
                {"type": "text", "text": "I look. " * 50, "citations": None},
                {"type": "tool_use", "id": "t1", "name": "read_file", "input": {"path": None, "parsed": 1}},
            ],
        }
    )  # fmt: skip
    history = [{"role": "user", "content": "Salt?"}, reply]
    for each in (history, [history[0], reply.model_dump()]):
        conversation = read_conversation(each)
        assert conversation.dialect == "anthropic"
        assert conversation.messages[1]["tool_calls"][0]["function"]["arguments"] == '{"path": null, "parsed": 1}'
        assert clew.count_tokens(each) == clew.count_tokens(
            [history[0], {"role": "assistant", "content": reply.content}]
        )


def test_whole_replies_that_are_no_messages_are_refused_with_where_the_message_is() -> None:
    completion = ChatCompletion.model_validate(
        {
            "id": "1", "object": "chat.completion", "created": 1, "model": "gpt-5",
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Yes."}}],
        }
    )  # fmt: skip
    with pytest.raises(InvalidMessage, match=r"message 1: a ChatCompletion is no message.*choices\[0\]\.message"):
        clew.compress([{"role": "user", "content": "Salt?"}, completion], context_length=WINDOW)
    with pytest.raises(InvalidMessage, match=r"message 0: a Choice is no message.*the message in it"):
        clew.count_tokens([completion.choices[0]])


def test_what_an_sdk_parsed_out_of_a_text_is_not_counted_twice_and_not_sent_back() -> None:
    class Ship(pydantic.BaseModel):
        name: str
        cargo: str = "salt " * 200

    ship, text = Ship(name="Anna"), Ship(name="Anna").model_dump_json()
    arguments = {"name": "note", "arguments": text}
    said = ParsedChatCompletionMessage[Ship].model_construct(
        role="assistant", content=text, parsed=ship, refusal=None,
        tool_calls=[{"id": "c", "type": "function", "function": {**arguments, "parsed_arguments": ship}}],
    )  # fmt: skip
    assert "parsed" not in read_conversation([said]).messages[0]
    called = ParsedResponseFunctionToolCall(
        type="function_call", call_id="c", name="note", arguments=text, parsed_arguments=ship
    )
    plain = {"type": "function_call", "call_id": "c", **arguments}
    assert clew.count_tokens([called]) == clew.count_tokens([plain])
    block = ParsedTextBlock[Ship].model_construct(type="text", text=text, parsed_output=ship)
    beside = {"role": "assistant", "content": [{"type": "text", "text": text}]}
    assert read_conversation([{"role": "assistant", "content": [block]}], dialect="anthropic").messages[0] == beside


def test_fields_without_a_value_go_and_the_null_of_a_call_without_content_stays() -> None:
    asked = ChatCompletionMessage.model_validate(
        {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call("ls", {"path": None}, "c1")]}
    )
    [message] = read_conversation([asked]).messages
    assert message == {"role": "assistant", "content": None, "tool_calls": [call("ls", {"path": None}, "c1")]}
    [item] = read_conversation([ResponseReasoningItem(id="rs_1", type="reasoning", summary=[])]).messages
    assert item["reasoning"] == [{"id": "rs_1", "type": "reasoning", "summary": []}]


def test_dumps_with_all_their_nulls_count_as_the_objects_do() -> None:
    said = ChatCompletionMessage(role="assistant", content="Day 1: salt.")
    used = ToolUseBlock(type="tool_use", id="t1", name="ls", input={"path": "."})
    for value in (said, {"role": "assistant", "content": [used, TextBlock(type="text", text="I look.")]}):
        dumped = value.model_dump() if isinstance(value, ChatCompletionMessage) else as_all(value)
        assert clew.count_tokens([value]) == clew.count_tokens([dumped])


def as_all(message: dict[str, Any]) -> dict[str, Any]:
    return {**message, "content": [block.model_dump() for block in message["content"]]}


def test_tools_of_the_sdks_are_read() -> None:
    class Tides(pydantic.BaseModel):
        """When high water comes to a port."""

        port: str

    tool = pydantic_function_tool(Tides)
    assert clew.count_tokens([], tools=[tool]) == clew.count_tokens([], tools=(each for each in [dict(tool)]))
    assert clew.count_tokens([], tools=[tool]) > clew.count_tokens([]) + 10


def test_a_request_that_is_an_object_goes_out_as_done_request() -> None:
    class Request(pydantic.BaseModel):
        model: str
        messages: list[Any]
        system: str = "You look after a harbour."
        temperature: float = 0.3

    blocks = [TextBlock(type="text", text=LOG)]
    messages = [{"role": role, "content": blocks} for _ in range(20) for role in ("user", "assistant")]
    request = Request(model="claude-sonnet-4-5", messages=messages)
    assert clew.count_tokens(request) == clew.count_tokens(messages, system=request.system)
    done = clew.compress(request, context_length=WINDOW)
    assert done.changed and isinstance(done.messages, list) and done.request["messages"] == done.messages
    assert (done.request["model"], done.request["temperature"]) == ("claude-sonnet-4-5", 0.3)
    assert done.request["system"][0]["text"] == "You look after a harbour."
    short = clew.compress(request, target_tokens=900_000)
    assert short.request is request and isinstance(short.messages, list)
