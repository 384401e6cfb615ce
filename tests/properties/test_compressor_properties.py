"""Whatever the conversation: a compaction is sound, not larger, stable, and keeps what it says it keeps."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

import clew
from clew.config import CompressionSettings
from clew.engines import (
    Compaction,
    CompactionRegion,
    ContextCompressor,
    Fate,
    account_problems,
    broken_promises,
    budgets_for,
)
from clew.engines.compressor.history import prompts_in
from clew.engines.compressor.plan import cut_at, head_end, tail_start
from clew.engines.compressor.prune import fit_tail, prune
from clew.handoff import SYSTEM_NOTE, unwrap
from clew.messages import Message, arguments_of_call, calls_of, read_conversation, repair, safe_cuts
from clew.testing import assistant, call, system, tool, user
from clew.tokens import counter_for
from tests.support.strategies import broken_histories, histories

quick = settings(max_examples=25, deadline=None)
chosen = st.builds(
    CompressionSettings,
    target_ratio=st.floats(0.10, 0.80),
    protect_last_n=st.integers(0, 25),
    protect_first_n=st.integers(0, 6),
)
windows = st.sampled_from([1_000, 2_000, 4_000, 16_000])
MOST_AGAIN = 6
"""Compactions in a row after which nothing is left to fold."""


@st.composite
def long_histories(draw: st.DrawFn) -> list[Message]:
    """A history whose results are long enough to need folding."""
    messages = copy.deepcopy(draw(histories(max_turns=5)))
    for place, message in enumerate(messages):
        if message["role"] == "tool":
            words = draw(st.integers(0, 120))
            message["content"] = f"{message['content']} {f'row {place} has salt, rope and tar; ' * words}"
    return messages


def compress(engine: ContextCompressor, messages: Sequence[Message]) -> Compaction:
    """As a host does it: what was done is in effect."""
    done = asyncio.run(engine.compress(messages, force=True))
    engine.restore(done.state)
    return done


RED = "The build is red."


def reads(first: int, many: int, result: str = f"{RED} ") -> list[Message]:
    """Calls of one message, with their results."""
    ids = [f"call_{first + at}" for at in range(many)]
    return [assistant(None, [call("read_file", {}, id) for id in ids]), *(tool(id, result) for id in ids)]


def one_summary_at_most(messages: Sequence[Message]) -> bool:
    return sum(unwrap(message) is not None for message in messages) <= 1


@quick
@given(long_histories(), windows, chosen)
# A newest message of a person that is blank.
@example(
    [
        user(""),
        user("ログを確認して"),
        *reads(100, 3),
        user(" "),
        *reads(200, 1, f"{RED} {'row 8 has salt, rope and tar; ' * 100}"),
    ],
    1_000,
    CompressionSettings(target_ratio=0.5, protect_last_n=0, protect_first_n=1),
)
def test_every_promise_holds_for_every_sound_history(
    messages: list[Message], window: int, how: CompressionSettings
) -> None:
    as_it_was = copy.deepcopy(messages)
    done = compress(ContextCompressor(window, settings=how), messages)
    assert messages == as_it_was
    assert broken_promises(messages, done) == []
    assert one_summary_at_most(done.messages)
    assert all(fate is not Fate.REMOVED for fate in done.fates)


@quick
@given(long_histories(), windows, st.lists(long_histories(), min_size=1, max_size=3))
# A handoff that is merged into a message of the agent, twice.
@example(
    [
        *(user(RED), user(RED), *reads(100, 1), assistant(RED), user(RED), *reads(200, 3), *reads(203, 1)),
        *(user(RED), user(RED), *reads(400, 1, "\U000b7115!°r\U000a4ee2{¦\x971𑵷Kâ\x88çJAr𫺩¨ "), *reads(401, 1)),
    ],
    1_000,
    [[user(RED)], []],
)
def test_again_and_again_one_summary_and_one_note_stand(
    messages: list[Message], window: int, later: list[list[Message]]
) -> None:
    engine = ContextCompressor(window)
    view: Sequence[Message] = messages
    for number, more in enumerate(later):
        done = compress(engine, view)
        assert broken_promises(view, done) == []
        assert one_summary_at_most(done.messages)
        assert json.dumps(list(done.messages)).count(json.dumps(SYSTEM_NOTE)[1:-1]) <= 1
        # A newest result that used the free window may be folded by the next ones: each is smaller, and they end.
        smaller = done
        for _ in range(MOST_AGAIN):
            if not smaller.changed:
                break
            smaller = compress(engine, smaller.messages)
            assert not smaller.changed or smaller.tokens_after < smaller.tokens_before
        assert not smaller.changed
        new = [message for message in more if message["role"] != "system"]
        view = [*done.messages, *json.loads(json.dumps(new).replace("call_", f"call_{number}_"))]


@quick
@given(st.one_of(long_histories(), broken_histories()), windows, chosen, st.none() | st.integers(0, 50_000))
def test_a_preview_says_what_compress_then_does_and_neither_changes_the_engine(
    messages: list[Message], window: int, how: CompressionSettings, tokens: int | None
) -> None:
    engine = ContextCompressor(window, settings=how)
    foreseen = engine.preview(messages, tokens)
    done = asyncio.run(engine.compress(messages, tokens))
    assert engine.state == ContextCompressor(window).state
    assert (foreseen.tokens_before, len(foreseen.regions)) == (done.tokens_before, len(messages))
    if done.changed:
        assert done.tokens_after <= foreseen.tokens_after
        assert [type(item) for item in foreseen.items] == [type(item) for item in done.items]
        folded = (CompactionRegion.FOLDED, CompactionRegion.HANDOFF)
        gone = [region in folded for region in foreseen.regions]
        assert gone == [fate is Fate.SUMMARISED for fate in done.fates]


@quick
@given(broken_histories(), windows)
def test_a_broken_history_becomes_a_sound_one_or_is_left_alone(messages: list[Message], window: int) -> None:
    as_it_was = copy.deepcopy(messages)
    done = compress(ContextCompressor(window), messages)
    assert messages == as_it_was
    assert account_problems(messages, done) == []
    if done.changed:
        assert not repair(done.messages, open_end=True).repairs
    else:
        assert done.messages is messages


@quick
@given(broken_histories(), st.sampled_from([500, 1_000, 5_000]))
def test_the_door_gives_back_what_can_be_sent_or_says_why_not(messages: list[Message], target: int) -> None:
    done = clew.compress(messages, target_tokens=target)
    if not repair(read_conversation(done.messages).messages, open_end=True).repairs:
        json.dumps(done.messages, ensure_ascii=False).encode()
    else:
        assert any("a repair would make it larger" in warning for warning in done.warnings)
    assert len(done.fates) == len(messages)
    assert done.tokens_after == clew.count_tokens(done.messages) > 0


@pytest.mark.parametrize("target", [500, 2_000, 50_000])
def test_the_count_of_the_result_is_that_of_the_result_however_much_was_repaired(target: int) -> None:
    messages = [system("Be brief."), user("Do it.")]
    for n in range(20):
        calls = [call("terminal", {"command": f"make part_{n}_{place}"}, f"c{n}_{place}") for place in range(6)]
        broken = [{**each, "function": {"name": "terminal", "arguments": '{"command": "ma'}} for each in calls]
        messages.append(assistant(None, broken))  # type: ignore[arg-type]
        messages += [tool("nobody", "x " * 40)]
    done = clew.compress([*messages, user("Go on.")], target_tokens=target)
    assert 0 < done.tokens_after == clew.count_tokens(done.messages)


@quick
@given(long_histories(), st.integers(0, 6), st.integers(0, 25), st.integers(0, 3_000))
def test_cuts_never_part_what_belongs_together(messages: list[Message], first: int, last: int, tokens: int) -> None:
    count = counter_for(None).message
    sizes = [count(message) for message in messages]
    safe = set(safe_cuts(messages))
    head = head_end(messages, first)
    start = tail_start(sizes, messages, tokens, last)
    assert head in safe and start in safe
    later, tail = fit_tail(messages[start:], range(start, len(messages)), sizes[start:], tokens, count)
    assert start + later in safe
    assert len(tail) == len(messages) - start - later
    cut = cut_at(messages, head, start + later, prompts_in(messages))
    assert sorted([*range(cut.head), *cut.folded, *cut.kept, *range(cut.tail, len(messages))]) == [
        *range(len(messages))
    ]


@quick
@given(long_histories())
def test_pruning_keeps_calls_valid_and_is_done_once(messages: list[Message]) -> None:
    numbers = range(len(messages))
    once = prune(messages, numbers)
    assert prune(once, numbers) == once
    for old, new in zip(messages, once, strict=True):
        assert [call["id"] for call in calls_of(old)] == [call["id"] for call in calls_of(new)]
        assert all(isinstance(arguments_of_call(call), dict) for call in calls_of(new))


@given(st.lists(st.integers(1, 3_000_000), min_size=2, max_size=20), chosen, st.none() | st.integers(1, 500_000))
def test_every_budget_rises_with_the_window(sizes: list[int], how: CompressionSettings, output: int | None) -> None:
    all_budgets = [budgets_for(size, how, output) for size in sorted(sizes)]
    for figure in ("threshold", "tail", "head", "max_summary"):
        figures = [getattr(budgets, figure) for budgets in all_budgets]
        assert figures == sorted(figures)
        assert all(0 <= value <= budgets.window for value, budgets in zip(figures, all_budgets, strict=True))


@quick
@given(histories(max_turns=1), st.sampled_from(["user", "tool"]), st.integers(600, 20_000))
def test_one_huge_newest_message_is_shortened_at_any_target(before: list[Message], role: str, target: int) -> None:
    huge = "\n".join(f"12:{n % 60:02} request {n} was served by worker {n % 13}" for n in range(6_000))
    called = [assistant(None, [call("terminal", {"command": "cat log"}, "huge")]), tool("huge", huge)]
    messages = [*before, user("Read the log."), *called] if role == "tool" else [*before, user(huge)]
    assert clew.compress(messages, target_tokens=target).tokens_after <= target


@quick
@given(long_histories(), st.integers(500, 6_000))
def test_a_target_is_kept_or_said_to_be_missed(messages: list[Message], target: int) -> None:
    done: Any = clew.compress(messages, target_tokens=target)
    assert done.tokens_after <= done.tokens_before
    assert done.tokens_after <= target or any("was not reached" in warning for warning in done.warnings)


@quick
@given(long_histories())
def test_what_was_not_touched_leaves_as_the_same_object(messages: list[Message]) -> None:
    done: Any = clew.compress(messages, context_length=2_000)
    assume(done.changed)
    there = set(map(id, done.messages))
    for message, fate in zip(messages, done.fates, strict=True):
        is_noted = message["role"] == "system"
        takes_summary = any(found and found.message == message for found in map(unwrap, done.messages))
        assert (fate is not Fate.KEPT) or id(message) in there or is_noted or takes_summary
