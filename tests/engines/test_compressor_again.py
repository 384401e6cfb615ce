"""Compacting again and again: one summary, the same numbers, nothing drifts, the same bytes everywhere."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

import clew
from clew.engines import Compaction, ContextCompressor, broken_promises
from clew.handoff import Summary, SummaryInput, WrappedSummary, unwrap
from clew.messages import Message, text_of
from clew.testing import assistant, call, system, tool, user
from clew.tokens import count_tokens

WINDOW = 16_000
PROMPT = system("You look after a harbour.")


def talk(count: int, first: int = 0) -> list[Message]:
    messages: list[Message] = []
    for number in range(first, first + count):
        reading = call("read_file", {"path": f"logs/day_{number}.txt"}, id=f"call_{number}")
        text = "".join(f"day {number}, ship {line}: berth {number * 31 + line}, cargo salt\n" for line in range(20))
        asked = user(f"Which ships came on day {number}?")
        messages += [asked, assistant(None, [reading]), tool(reading["id"], text), assistant(f"Day {number}: salt.")]
    return messages


def compress(engine: ContextCompressor, messages: Sequence[Message], **more: Any) -> Compaction:
    """As a host does it: what was done is in effect."""
    done = asyncio.run(engine.compress(messages, **{"force": True, **more}))
    engine.restore(done.state)
    return done


def only_summary(messages: Sequence[Message]) -> WrappedSummary:
    [found] = [found for message in messages if (found := unwrap(message))]
    return found


def test_exactly_one_summary_stands_after_many_compactions() -> None:
    engine, view = ContextCompressor(WINDOW), [PROMPT, *talk(20)]
    for number in range(8):
        before = list(view)
        done = compress(engine, view)
        assert not broken_promises(before, done)
        only_summary(done.messages)
        view = [*done.messages, *talk(12, 100 * (number + 1))]


@pytest.mark.parametrize("observing", [True, False])
def test_a_number_names_the_same_message_for_as_long_as_the_conversation_lasts(observing: bool) -> None:
    history: list[Message] = [PROMPT, *talk(20)]
    inputs: list[SummaryInput] = []

    async def summarize(source: SummaryInput, budget: int) -> Summary:
        inputs.append(source)
        return Summary("## Goal\n- Ships.", "a fake", "fake 1")

    engine, view = ContextCompressor(WINDOW, summarize=summarize), list(history)
    if observing:
        engine.observe(history)
    for number in range(6):
        done = compress(engine, view)
        source = inputs[-1]
        assert [source.read(n) for n in range(source.first, source.last)] == history[source.first : source.last]
        assert done.numbers == (4, source.last)
        assert inputs[-2].last == source.first if number else source.first == 4
        new = talk(12, 100 * (number + 1))
        if observing:
            engine.observe(new)
        history += new
        view = [*done.messages, *new]


def test_numbers_go_on_when_nothing_is_remembered_but_the_result() -> None:
    history: list[Message] = [PROMPT, *talk(20)]
    view: Any = list(history)
    for number in range(5):
        view = clew.compress(view, context_length=WINDOW).messages
        found = only_summary(view)
        tail = len(view) - 1 - next(place for place, message in enumerate(view) if unwrap(message))
        assert found.last + tail == len(history) - 1, "the system prompt has no number"
        # A result that was pruned is still the one of its place in the whole history.
        for place, message in enumerate(view[len(view) - tail :], found.last):
            original = history[place + 1]
            is_pruned = text_of(message).endswith("(shortened)")
            assert {**message, "content": original["content"]} == original if is_pruned else message == original
        new = talk(12, 100 * (number + 1))
        history += new
        view = [*view, *new]


def test_the_first_goal_and_what_came_of_each_request_outlast_compactions_that_remember_nothing_else() -> None:
    asked = ["Build a tide table importer for the harbour.", "Add a dry run.", "Handle semicolons.", "Refuse old rows."]
    messages: list[Message] = [PROMPT]
    for step, request in enumerate(asked):
        messages = [*messages, user(request)]
        for part in range(8):
            rows = "\n".join(f"limit_{row} = {step * 1_000 + part * 100 + row} rows" for row in range(60))
            messages += [assistant(None, [call("read", {"path": f"p_{step}_{part}.py"}, id=f"c{step}{part}")])]
            messages += [tool(f"c{step}{part}", rows)]
        messages += [assistant(f"Step {step} is done: STEP_{step} = {step * 17} decides it, {20 + step} tests pass.")]
        done = clew.compress(messages, target_tokens=4_000)
        messages = list(done.messages)
    told = done.summary or ""
    assert f'## Goal\n- "{asked[0]}" (m0)' in told
    assert all(f"STEP_{step} = {step * 17} decides it" in told for step in range(3))


def test_the_person_is_warned_from_the_second_compaction_on() -> None:
    engine, view = ContextCompressor(WINDOW), [PROMPT, *talk(20)]
    first = compress(engine, view)
    assert not any("compacted" in warning for warning in first.warnings)
    second = compress(engine, [*first.messages, *talk(12, 100)])
    assert any("compacted 2 times" in warning and "/new" not in warning for warning in second.warnings)


def test_a_new_process_knows_that_there_was_one_before() -> None:
    first = clew.compress([PROMPT, *talk(20)], context_length=WINDOW)
    second = clew.compress([*first.messages, *talk(12, 100)], context_length=WINDOW)
    assert not any("compacted" in warning for warning in first.warnings)
    assert any("compacted before" in warning for warning in second.warnings)


def test_nobody_tells_the_model_that_its_window_fills_up() -> None:
    engine, view = ContextCompressor(WINDOW), [PROMPT, *talk(20)]
    for number in range(3):
        done = compress(engine, view)
        said = "\n".join(map(text_of, done.messages))
        assert not any(warning in said for warning in done.warnings)
        view = [*done.messages, *talk(12, 100 * (number + 1))]


@pytest.mark.parametrize("how", [{"context_length": WINDOW}, {"context_length": 4_000}, {"target_tokens": 3_000}])
def test_compressing_what_was_compressed_changes_nothing(how: dict[str, Any]) -> None:
    for messages in ([PROMPT, *talk(30)], talk(30), [PROMPT, *talk(2), user("Go."), *talk(30)[1:]]):
        once: Any = clew.compress(messages, **how)
        assert once.changed
        twice = clew.compress(once.messages, **how)
        assert not twice.changed
        assert twice.messages == once.messages


def test_the_view_does_not_grow_over_the_years() -> None:
    engine, view = ContextCompressor(WINDOW), [PROMPT, *talk(20)]
    sizes = []
    for number in range(15):
        done = compress(engine, view)
        sizes.append(count_tokens(done.messages))
        view = [*done.messages, *talk(12, 100 * (number + 1))]
    assert max(sizes) < 1.15 * sizes[1]


PROGRAM = """
import json, sys, clew
messages = json.load(sys.stdin)
for how in json.loads(sys.argv[1]):
    done = clew.compress(messages, **how)
    print(json.dumps([done.messages, done.summary, done.warnings, done.fates, done.tokens_after]))
"""


def test_the_same_input_gives_the_same_bytes_in_every_process_and_under_every_hash_seed() -> None:
    rule = user("Never touch harbour.db, always answer in German, and prefer short lines.")
    wire = json.dumps([PROMPT, rule, *talk(40)])
    ways: list[dict[str, Any]] = [{"context_length": WINDOW}, {"target_tokens": 3_000}]
    outputs = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM, json.dumps(ways)],
            input=wire.encode(),
            env={**os.environ, "PYTHONHASHSEED": seed},
            stdout=subprocess.PIPE,
            check=True,
        ).stdout
        for seed in ("0", "4242")
    }
    assert len(outputs) == 1
    for how, told in zip(ways, outputs.pop().splitlines(), strict=True):
        done: Any = clew.compress(json.loads(wire), **how)
        assert json.loads(told)[0] == done.messages
