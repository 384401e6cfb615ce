"""`clew.compress`: whatever dialect and shape comes in goes out, and what was not changed leaves as it entered."""

from __future__ import annotations

import asyncio
import copy
import json
import threading
from typing import Any

import pytest

import clew
from clew.config import CompressionSettings
from clew.engines import CompactionRegion, Fate, Kept, Removed
from clew.errors import InvalidArgument
from clew.handoff import SYSTEM_NOTE, unwrap
from clew.messages import read_conversation, repair
from clew.tokens import counter_for
from tests.support.summaries import handoff_text

WINDOW = 16_000
LOG = "".join(f"ship {line}: berth {line * 31}, cargo salt, master aboard\n" for line in range(20))


def chat(rounds: int = 30, first: int = 0) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You look after a harbour.", "x_own": [1]}]
    for number in range(first, first + rounds):
        calls = [_chat_call(f"call_{number}_{place}", number) for place in range(2)]
        messages += [
            {"role": "user", "content": f"Which ships came on day {number}?"},
            {"role": "assistant", "content": None, "tool_calls": calls},
            *({"role": "tool", "tool_call_id": each["id"], "content": f"day {number}\n{LOG}"} for each in calls),
            {"role": "assistant", "content": f"Day {number}: salt.", "x_cost": 0.10},
        ]
    return messages


def _chat_call(id: str, number: int) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": "read_file", "arguments": json.dumps({"path": number})}}


def blocks(rounds: int = 30, first: int = 0) -> list[dict[str, Any]]:
    """Anthropic: signed thinking, two calls at once, results as lists and as text."""
    messages: list[dict[str, Any]] = []
    for number in range(first, first + rounds):
        ids = [f"toolu_{number}_{place}" for place in range(2)]
        thinking = {"type": "thinking", "thinking": f"the log of day {number}", "signature": f"sig{number}=="}
        uses = [{"type": "tool_use", "id": id, "name": "read_file", "input": {"path": number}} for id in ids]
        results: list[dict[str, Any]] = [
            {
                "type": "tool_result",
                "tool_use_id": ids[0],
                "content": [{"type": "text", "text": f"day {number} {LOG}"}],
            },
            {"type": "tool_result", "tool_use_id": ids[1], "content": LOG, "is_error": False},
        ]
        messages += [
            {"role": "user", "content": f"Which ships came on day {number}?"},
            {"role": "assistant", "content": [thinking, {"type": "text", "text": "I look."}, *uses]},
            {"role": "user", "content": results},
            {"role": "assistant", "content": [{"type": "text", "text": f"Day {number}: salt."}]},
        ]
    return messages


def items(rounds: int = 30, first: int = 0) -> list[dict[str, Any]]:
    """Responses: reasoning items, two calls at once, outputs."""
    wire: list[dict[str, Any]] = []
    for number in range(first, first + rounds):
        ids = [f"fc_{number}_{place}" for place in range(2)]
        wire += [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": f"Ships of day {number}?"}]},
            {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "zzzz"},
            *(
                {"type": "function_call", "call_id": id, "name": "read_file", "arguments": f'{{"path": {number}}}'}
                for id in ids
            ),
            *({"type": "function_call_output", "call_id": id, "output": f"day {number}\n{LOG}"} for id in ids),
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": f"Day {number}: salt.", "annotations": []}],
            },
        ]
    return wire


def contents(rounds: int = 30, first: int = 0) -> list[dict[str, Any]]:
    """Gemini: signed thoughts, two calls at once without ids, responses with the client's own."""
    wire: list[dict[str, Any]] = []
    for number in range(first, first + rounds):
        thought = {"text": f"the log of day {number}", "thought": True}
        call = {"functionCall": {"name": "read_file", "args": {"path": number}}}
        responses = [{"name": "read_file", "response": {"output": f"day {number}\n{LOG}"}} for _ in range(2)]
        wire += [
            {"role": "user", "parts": [{"text": f"Which ships came on day {number}?"}]},
            {"role": "model", "parts": [thought, {**call, "thoughtSignature": f"sig{number}=="}, call]},
            {
                "role": "user",
                "parts": [{"functionResponse": {"id": f"own-{number}-{at}", **it}} for at, it in enumerate(responses)],
            },
            {"role": "model", "parts": [{"text": f"Day {number}: salt.", "thoughtSignature": "c2ln"}]},
        ]
    return wire


WIRES: dict[str, Any] = {"openai_chat": chat, "anthropic": blocks, "responses": items, "gemini": contents}


@pytest.mark.parametrize("dialect", WIRES)
def test_a_list_goes_out_as_a_list_of_the_same_dialect(dialect: str) -> None:
    wire = WIRES[dialect]()
    as_it_was = copy.deepcopy(wire)
    done = clew.compress(wire, context_length=WINDOW)
    assert wire == as_it_was
    assert done.changed and done.tokens_after < done.tokens_before / 3
    assert isinstance(done.messages, list)
    again = read_conversation(done.messages)
    assert again.dialect == dialect
    assert not repair(again.messages).repairs
    assert sum(unwrap(message) is not None for message in again.messages) == 1


@pytest.mark.parametrize("dialect", WIRES)
def test_what_was_not_changed_leaves_as_the_same_object(dialect: str) -> None:
    wire = WIRES[dialect]()
    done = clew.compress(wire, context_length=WINDOW)
    same = [item for item in wire if any(item is other for other in done.messages)]
    assert wire[-1] in same and len(same) >= 5
    texts = [json.dumps(item) for item in done.messages]
    assert json.dumps(wire[-1]) == texts[-1]


@pytest.mark.parametrize("dialect", WIRES)
def test_it_can_be_compressed_again_and_again_on_its_own_output(dialect: str) -> None:
    wire = WIRES[dialect]()
    for number in range(4):
        done = clew.compress(wire, context_length=WINDOW)
        conversation = read_conversation(done.messages)
        assert conversation.dialect == dialect
        assert not repair(conversation.messages).repairs
        assert sum(unwrap(message) is not None for message in conversation.messages) == 1
        assert not clew.compress(done.messages, context_length=WINDOW).changed
        new = [item for item in WIRES[dialect](10, 100 * (number + 1)) if item.get("role") != "system"]
        wire = [*json.loads(json.dumps(done.messages)), *new]


@pytest.mark.parametrize("dialect", WIRES)
def test_a_request_goes_out_as_a_request_with_every_other_field_as_it_was(dialect: str) -> None:
    name = {"responses": "input", "gemini": "contents"}.get(dialect, "messages")
    request = {"model": "m", name: WIRES[dialect](), "temperature": 0.30, "metadata": {"k": [1, None]}}
    done = clew.compress(request, context_length=WINDOW)
    assert list(done.request) == list(request)
    assert {key: value for key, value in done.request.items() if key != name} == {
        key: value for key, value in request.items() if key != name
    }
    assert len(done.request[name]) < len(request[name])
    assert done.messages == done.request[name] and isinstance(done.messages, list)


def test_an_anthropic_system_prompt_in_a_request_gets_the_note_as_a_block_of_its_own() -> None:
    request = {"system": "You look after a harbour.", "messages": blocks(), "max_tokens": 100}
    done = clew.compress(request, context_length=WINDOW)
    assert done.request["system"] == [
        {"type": "text", "text": "You look after a harbour."},
        {"type": "text", "text": SYSTEM_NOTE},
    ]
    assert done.system == done.request["system"]
    more = {**done.request, "messages": [*done.request["messages"], *blocks(20)]}
    again = clew.compress(more, context_length=WINDOW)
    assert again.changed
    assert again.request["system"] == done.request["system"]


def test_an_anthropic_system_prompt_in_blocks_keeps_its_cached_part_as_it_is() -> None:
    cached = {"type": "text", "text": "You look after a harbour.", "cache_control": {"type": "ephemeral"}}
    done = clew.compress(blocks(), system=[cached], context_length=WINDOW)
    assert done.system == [cached, {"type": "text", "text": SYSTEM_NOTE}]
    assert isinstance(done.messages, list)
    assert done.messages[0]["role"] == "user"


def test_instructions_beside_responses_items_stay_a_text_with_one_note() -> None:
    request = {"instructions": "You look after a harbour.", "input": items()}
    done = clew.compress(request, context_length=WINDOW)
    assert done.request["instructions"] == f"You look after a harbour.\n\n{SYSTEM_NOTE}"
    more = {**done.request, "input": [*done.request["input"], *items(20)]}
    assert clew.compress(more, context_length=WINDOW).request["instructions"] == done.request["instructions"]


def test_a_system_instruction_of_gemini_keeps_its_shape_and_has_one_note() -> None:
    request = {"contents": contents(), "systemInstruction": {"parts": [{"text": "You look after a harbour."}]}}
    done = clew.compress(request, context_length=WINDOW)
    assert done.request["systemInstruction"] == {"parts": [{"text": f"You look after a harbour.\n\n{SYSTEM_NOTE}"}]}
    more = {**done.request, "contents": [*done.request["contents"], *contents(20)]}
    again = clew.compress(more, context_length=WINDOW)
    assert again.changed and again.request["systemInstruction"] == done.request["systemInstruction"]


def test_a_system_prompt_beside_a_chat_list_comes_back_beside_it() -> None:
    done = clew.compress(chat()[1:], system="You look after a harbour.", context_length=WINDOW)
    assert done.system == f"You look after a harbour.\n\n{SYSTEM_NOTE}"
    assert done.messages[0]["role"] == "user"


def test_a_system_message_of_a_chat_list_stays_its_first() -> None:
    done = clew.compress(chat(), context_length=WINDOW)
    assert done.system is None
    assert done.messages[0] == {
        "role": "system",
        "content": f"You look after a harbour.\n\n{SYSTEM_NOTE}",
        "x_own": [1],
    }


def test_signed_thinking_is_sent_as_it_was_signed() -> None:
    done = clew.compress(blocks(), context_length=WINDOW)
    signed = [part for message in blocks() if isinstance(message["content"], list) for part in message["content"]]
    kept = [part for message in done.messages if isinstance(message["content"], list) for part in message["content"]]
    thoughts = [part for part in kept if part["type"] == "thinking"]
    assert thoughts and all(part in signed for part in thoughts)


def test_a_conversation_that_was_read_before_is_taken_too() -> None:
    conversation = read_conversation(blocks())
    done = clew.compress(conversation, context_length=WINDOW)
    assert done.conversation is conversation
    assert done.messages == clew.compress(blocks(), context_length=WINDOW).messages


@pytest.mark.parametrize("target", [1_500, 4_000, 10_000])
@pytest.mark.parametrize("dialect", WIRES)
def test_a_target_is_kept_with_all_that_stands_beside_the_messages(dialect: str, target: int) -> None:
    done = clew.compress(WIRES[dialect](40), target_tokens=target)
    assert done.changed
    assert done.tokens_after <= target
    assert not done.warnings


def test_what_fits_the_target_is_left_alone() -> None:
    messages = chat(3)
    done = clew.compress(messages, target_tokens=50_000)
    assert (done.changed, done.summary, done.warnings) == (False, None, ())
    assert done.messages is messages
    assert done.tokens_before == done.tokens_after
    assert set(done.fates) == {Fate.KEPT}


def test_tools_count_towards_the_target() -> None:
    tool = {"type": "function", "function": {"name": "t", "description": "It weighs ships. " * 100, "parameters": {}}}
    with_tools = clew.compress(chat(), target_tokens=6_000, tools=[tool] * 5)
    assert with_tools.tokens_after <= 6_000
    assert clew.count_tokens(with_tools.messages) < 6_000 - 5 * 200
    with pytest.raises(InvalidArgument, match="target_tokens=600 is too small: tools and framing alone take"):
        clew.compress(chat(), target_tokens=600, tools=[tool] * 5)


def test_a_target_below_what_must_stay_is_missed_with_a_warning_that_says_why() -> None:
    messages = chat()
    messages[0] = {"role": "system", "content": "The rules of the harbour, one after the other. " * 400}
    done = clew.compress(messages, target_tokens=2_000)
    assert 2_000 < done.tokens_after < done.tokens_before
    [warning] = [told for told in done.warnings if "target" in told]
    assert "target_tokens=2,000" in warning and "system prompt" in warning


@pytest.mark.parametrize("target", [-5, 0, 1, 399])
def test_a_target_without_room_for_anything_is_refused(target: int) -> None:
    with pytest.raises(InvalidArgument, match=f"target_tokens={target} is too small"):
        clew.compress(chat(), target_tokens=target)


def test_both_ways_of_saying_how_short_are_refused_together() -> None:
    with pytest.raises(InvalidArgument, match="context_length=8000 and target_tokens=4000"):
        clew.compress(chat(), target_tokens=4_000, context_length=8_000)


def test_a_window_of_2000_tokens_is_enough() -> None:
    done = clew.compress(chat(), context_length=2_000)
    assert done.changed
    assert not any("window" in warning for warning in done.warnings)
    assert clew.compress(chat(), context_length=1_000).changed


def test_with_neither_the_window_of_the_model_says_how_short() -> None:
    small, large = (clew.compress(chat(300), model=model) for model in ("gpt-4", "gpt-4o"))
    assert small.changed and large.changed
    assert small.tokens_after < large.tokens_after


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens", "max_output_tokens"])
def test_a_request_that_asks_for_a_long_reply_leaves_room_for_it(field: str) -> None:
    messages, late = chat(60), CompressionSettings(threshold=0.95)
    beside = clew.compress(messages, context_length=64_000, max_output=32_000, settings=late)
    inside = clew.compress({"messages": messages, field: 32_000}, context_length=64_000, settings=late)
    assert inside.request["messages"] == inside.messages == beside.messages
    assert beside.tokens_after + 32_000 <= 64_000
    assert beside.tokens_after < clew.compress(messages, context_length=64_000, settings=late).tokens_after
    unasked = {"messages": messages, field: None}
    assert (
        clew.compress(unasked, context_length=64_000).messages
        == clew.compress(messages, context_length=64_000).messages
    )


TEXT = handoff_text(goal="Watch the ships.", completed_actions=["Read the logs."], critical_context="Salt.")


def test_a_function_may_write_the_summary() -> None:
    prompts: list[str] = []

    def write(prompt: str) -> str:
        prompts.append(prompt)
        return TEXT

    done = clew.compress(chat(), context_length=WINDOW, summarizer=write, focus_topic="the price of salt")
    assert done.summary is not None and "Watch the ships." in done.summary
    assert done.compaction.written_by == "write"
    assert "the price of salt" in prompts[0]


@pytest.mark.parametrize("window", [8_000, 16_000, 40_000])
@pytest.mark.parametrize("rounds", [30, 200])
def test_a_function_is_never_sent_more_than_the_window_that_it_serves(window: int, rounds: int) -> None:
    asked: list[int] = []

    def write(prompt: str, max_tokens: int) -> str:
        asked.append(counter_for(None).text(prompt) + max_tokens)
        return TEXT

    done = clew.compress(chat(rounds), context_length=window, summarizer=write)
    assert done.compaction.written_by == "write" and asked
    assert max(asked) <= window
    with clew.Projection(context_length=window, summarizer=write) as view:
        view.fit(chat(rounds))
    assert max(asked) <= window


def test_a_summary_without_the_headings_is_asked_for_again_with_what_is_missing() -> None:
    prompts: list[str] = []

    def write(prompt: str) -> str:
        prompts.append(prompt)
        return "## Active task\nAdd replay.\n\n## Goal\nShips that replay."

    (warning,) = clew.compress(chat(), context_length=WINDOW, summarizer=write).warnings
    for text in (warning, prompts[-1].removeprefix(prompts[0])):
        assert "only Active task, Goal" in text
        assert "Completed actions" in text and "Critical context" in text
    assert len(prompts) == 2


def test_an_async_function_may_write_the_summary() -> None:
    async def write(prompt: str, max_tokens: int) -> str:
        await asyncio.sleep(0)
        return TEXT

    done = clew.compress(chat(), context_length=WINDOW, summarizer=write)
    assert done.compaction.written_by == "write"


async def test_it_works_inside_a_running_event_loop() -> None:
    async def write(prompt: str) -> str:
        return TEXT

    for summarizer in (None, write, lambda _: TEXT):
        done = clew.compress(chat(), context_length=WINDOW, summarizer=summarizer)
        assert done.changed


def test_a_summariser_that_fails_is_named_and_the_built_in_one_writes() -> None:
    def refuse(prompt: str) -> str:
        raise PermissionError("no key")

    done = clew.compress(chat(), context_length=WINDOW, summarizer=refuse)
    assert done.changed
    assert done.compaction.written_by == "built-in"
    assert any("refuse" in warning for warning in done.warnings)


def test_without_a_summariser_the_built_in_one_writes_a_handoff() -> None:
    done = clew.compress(chat(), context_length=WINDOW)
    assert done.compaction.written_by == "built-in"
    assert done.summary is not None and done.summary.startswith("## ")


def test_fates_are_told_for_each_message_of_the_conversation() -> None:
    for dialect, make in WIRES.items():
        done = clew.compress(make(), context_length=WINDOW)
        assert len(done.fates) == len(done.conversation.messages), dialect


async def test_async_code_gets_the_same_without_a_thread() -> None:
    seen: list[str] = []

    async def write(prompt: str) -> str:
        seen.append(threading.current_thread().name)
        return TEXT

    ways: list[dict[str, Any]] = [{"context_length": WINDOW}, {"target_tokens": 4_000}]
    for how in ways:
        assert (await clew.acompress(chat(), **how)).messages == clew.compress(chat(), **how).messages
    done = await clew.acompress(chat(), context_length=WINDOW, summarizer=write)
    assert done.compaction.written_by == "write" and {*seen} == {threading.current_thread().name}


@pytest.mark.parametrize("dialect", WIRES)
@pytest.mark.parametrize("how", [{"context_length": WINDOW}, {"target_tokens": 4_000}, {"target_tokens": 500_000}])
def test_a_preview_takes_the_arguments_of_compress_and_comes_true(dialect: str, how: dict[str, Any]) -> None:
    def refuse(prompt: str) -> str:
        raise AssertionError("a preview asks no model")

    plan = clew.preview(WIRES[dialect](), **how, focus_topic="salt", summarizer=refuse)
    done = clew.compress(WIRES[dialect](), **how)
    assert plan.would_fold == done.changed and plan.tokens_before == done.tokens_before
    assert done.tokens_after <= plan.tokens_after
    folded = {n for n, region in enumerate(plan.regions) if region is CompactionRegion.FOLDED}
    summarised = {n for n, fate in enumerate(done.fates) if fate is Fate.SUMMARISED}
    # What a summary leaves of a target goes to messages that would have been folded.
    assert summarised == folded or ("target_tokens" in how and summarised < folded)


def test_a_preview_tells_of_each_message_that_came_in_also_of_broken_ones() -> None:
    broken = [*chat(), {"role": "tool", "tool_call_id": "never", "content": "x"}, {"role": "user", "content": "And?"}]
    plan, done = clew.preview(broken, context_length=WINDOW), clew.compress(broken, context_length=WINDOW)
    assert len(plan.regions) == len(plan.numbers) == len(plan.sizes) == len(plan.sizes_after) == len(broken)
    assert plan.regions[-2] is CompactionRegion.REMOVED and done.fates[-2] is Fate.REMOVED
    assert sum(plan.sizes) + clew.count_tokens([]) == plan.tokens_before == done.tokens_before
    assert clew.count_tokens(done.messages) == done.tokens_after


def test_a_result_shows_itself_in_one_line() -> None:
    done = clew.compress(chat(), context_length=WINDOW)
    shown = repr(done)
    assert shown.startswith("<Compressed: 151 -> ") and "\n" not in shown
    assert f"{done.tokens_before:,} -> {done.tokens_after:,} tokens, handoff by built-in>" in shown
    assert repr(clew.compress(chat(1), context_length=WINDOW)).startswith("<Compressed: unchanged, 6 messages, ")


def test_a_notebook_shows_bars_and_escapes_what_is_told() -> None:
    def refuse(prompt: str) -> str:
        raise PermissionError("<b>no key</b>")

    shown = clew.compress(chat(), context_length=WINDOW, summarizer=refuse)._repr_html_()
    assert shown.count('<div style="background') == 2 and "width:100.0%" in shown
    assert "<b>" not in shown and "&lt;b&gt;no key&lt;/b&gt;" in shown


MARKER = {"cache_control": {"type": "ephemeral"}}


def marked_blocks(rounds: int) -> list[Any]:
    """An Anthropic history in which a client left a cache marker on every block."""
    messages: list[Any] = []
    for number in range(rounds):
        arguments = {"path": f"{number}.log", "content": "salt, rope and tar; " * 60}
        messages += [
            {"role": "user", "content": [{"type": "text", "text": f"Day {number}?", **MARKER}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "text", "text": "I write.", **MARKER},
                    {"type": "tool_use", "id": f"a{number}", "name": "write_file", "input": arguments, **MARKER},
                    {"type": "tool_use", "id": f"b{number}", "name": "read_file", "input": {"path": "b"}, **MARKER},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": f"a{number}", "content": "written " * 400, **MARKER},
                    {
                        "type": "tool_result",
                        "tool_use_id": f"b{number}",
                        "content": [{"type": "text", "text": "rope " * 400, **MARKER}],
                    },
                ],
            },
            {"role": "assistant", "content": [{"type": "text", "text": f"Day {number} is done. " * 30, **MARKER}]},
        ]
    return messages


@pytest.mark.parametrize("engine", [None, "lcm"])
@pytest.mark.parametrize("window", [4_000, 8_000, 16_000])
def test_nothing_that_is_written_has_the_cache_marker_of_a_client(engine: str | None, window: int) -> None:
    for messages in (marked_blocks(30), marked_blocks(30)[3:], [*marked_blocks(30), *marked_blocks(1)[:2]]):
        done = clew.compress(messages, context_length=window, engine=engine)
        assert done.changed
        came = {id(message) for message in messages}
        new = [item.message for item in done.compaction.items if not isinstance(item, Kept | Removed)]
        assert new and "cache_control" not in json.dumps(new)
        changed = [message for message in done.messages if id(message) not in came and message["role"] == "assistant"]
        assert "cache_control" not in json.dumps(changed)


def test_a_chat_message_that_is_changed_loses_the_cache_marker_of_a_client() -> None:
    messages = [{**message, **MARKER} for message in chat()[1:]]
    done = clew.compress([{"role": "system", "content": "Be brief.", **MARKER}, *messages], target_tokens=2_500)
    came = {id(message) for message in messages}
    written = [message for message in done.messages[1:] if id(message) not in came]
    assert len(written) > 1
    assert not any("cache_control" in message for message in written)
    assert "cache_control" in done.messages[0], "the system prompt stays as it is, with a note behind it"
