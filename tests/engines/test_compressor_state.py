"""What the compressor must not forget: strikes against loops, and the summary models that rest."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from clew.engines import Compaction, ContextCompressor, SessionStart
from clew.handoff import Cooldowns, Summary, SummaryInput
from clew.messages import Message
from clew.testing import assistant, call, system, tool, user
from clew.tokens import count_tokens
from clew.usage import CanonicalUsage

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


class Writer:
    """A summariser that keeps what it was given."""

    def __init__(self) -> None:
        self.inputs: list[SummaryInput] = []

    async def __call__(self, source: SummaryInput, budget: int) -> Summary:
        self.inputs.append(source)
        return Summary("## Goal\n- Ships.", written_by="a fake", template="fake 1")


BESIDE = 700
"""What tools would take."""
HUGE_PROMPT = system("These are the rules of the harbour, all of them, one after the other. " * 900)


def struck_out() -> tuple[ContextCompressor, list[Message], Compaction]:
    engine, view = ContextCompressor(WINDOW), [HUGE_PROMPT, *talk(6)]
    for number in range(2):
        done = compress(engine, view, current_tokens=count_tokens(view) + BESIDE, force=False)
        view = [*done.messages, *talk(1, 50 + number)]
    return engine, view, done


def test_two_compactions_that_leave_too_much_stop_the_automatic_ones() -> None:
    engine, view, last = struck_out()
    size = count_tokens(view)
    assert not engine.should_compress(size)
    assert engine.get_status().paused
    [told] = [warning for warning in last.warnings if "paused" in warning]
    assert "/new" not in told
    assert f"The system prompt takes {engine.size_of(last.messages[:1]):,} tokens" in told
    assert "tools and what else is sent 70" in told
    again = asyncio.run(engine.compress(view, size))
    assert not again.changed and "paused" in again.warnings[0]


def test_a_person_may_always_compact() -> None:
    engine, view, _ = struck_out()
    assert compress(engine, [*view, *talk(3, 80)], force=True).changed


def test_growth_forgives_strikes_and_asking_does_not() -> None:
    engine, view, _ = struck_out()
    size = count_tokens(view)
    grown = size + BESIDE + engine.get_status().threshold_tokens // 10
    assert not engine.should_compress(size)
    assert engine.should_compress(grown)
    assert engine.get_status().paused and not engine.should_compress(size)
    engine.update_from_response(CanonicalUsage(input_tokens=grown))
    assert engine.get_status().paused is None and engine.should_compress(size)


def test_a_try_with_nothing_to_fold_is_a_strike_too() -> None:
    engine = ContextCompressor(WINDOW)
    for _ in range(2):
        assert engine.should_compress(10_000)
        compress(engine, [HUGE_PROMPT, user("Hello?")], current_tokens=10_000, force=False)
    assert not engine.should_compress(10_000)
    assert engine.get_status().compactions == 0


def test_strikes_outlive_a_restart_and_a_continuation_but_not_a_new_conversation() -> None:
    engine, view, _ = struck_out()
    size, state = count_tokens(view), engine.state
    risen = ContextCompressor(WINDOW)
    risen.on_session_start(SessionStart("b", continues="a", state=state))
    assert not risen.should_compress(size)
    risen.on_session_start(SessionStart("c", continues="b"))
    assert not risen.should_compress(size)
    risen.on_session_start(SessionStart("c"))
    assert not risen.should_compress(size)
    risen.on_session_reset()
    assert risen.should_compress(size)


def test_another_session_knows_nothing_of_the_strikes_of_the_last() -> None:
    engine, view, _ = struck_out()
    engine.on_session_start(SessionStart("a"))
    engine.on_session_start(SessionStart("z"))
    assert engine.should_compress(count_tokens(view))
    assert engine.get_status().compactions == 0


RESTING = Cooldowns().start("small-model", 60.0, "was overloaded", now=1_000.0)


class RestingWriter(Writer):
    """A summariser whose second model fails and rests from then on."""

    async def __call__(self, source: SummaryInput, budget: int) -> Summary:
        summary = await super().__call__(source, budget)
        return replace(summary, cooldowns=source.cooldowns.start("large-model", 60.0, "was overloaded", now=1_000.0))


def test_rests_of_the_summary_model_are_remembered_with_the_strikes() -> None:
    engine = ContextCompressor(WINDOW)
    stored = {"strikes": 1, "left_at": 900, "compactions": 3, "cooldowns": RESTING.as_json()}
    engine.on_session_start(SessionStart("a", state=stored))
    assert engine.state == stored
    writer = Writer()
    compress(ContextCompressor(WINDOW, summarize=writer), [PROMPT, *talk(30)])
    assert writer.inputs[0].cooldowns == Cooldowns()


def test_rests_go_in_with_what_is_summarised_and_come_out_with_the_summary() -> None:
    writer = RestingWriter()
    engine = ContextCompressor(WINDOW, summarize=writer)
    engine.restore({"cooldowns": RESTING.as_json()})
    before = engine.state
    done = asyncio.run(engine.compress([PROMPT, *talk(30)]))
    assert writer.inputs[0].cooldowns == RESTING
    assert engine.state == before and done.state is not None
    assert set(done.state["cooldowns"]) == {"small-model", "large-model"}


def test_force_ends_every_rest_and_an_automatic_compaction_does_not() -> None:
    writer = Writer()
    engine = ContextCompressor(WINDOW, summarize=writer)
    engine.restore({"cooldowns": RESTING.as_json()})
    compress(engine, [PROMPT, *talk(30)], force=False)
    assert engine.state["cooldowns"] == RESTING.as_json()
    compress(engine, [PROMPT, *talk(30)], force=True)
    assert writer.inputs[-1].cooldowns == Cooldowns()
    assert engine.state["cooldowns"] == {}


def test_force_ends_every_rest_also_where_there_is_nothing_to_fold() -> None:
    engine = ContextCompressor(WINDOW)
    engine.restore({"cooldowns": RESTING.as_json()})
    assert not compress(engine, [PROMPT, user("Hello?")]).changed
    assert engine.state["cooldowns"] == {}


def test_a_new_conversation_does_not_end_a_rest() -> None:
    engine = ContextCompressor(WINDOW)
    engine.restore({"strikes": 2, "cooldowns": RESTING.as_json()})
    engine.on_session_reset()
    assert engine.state == {"strikes": 0, "left_at": 0, "compactions": 0, "cooldowns": RESTING.as_json()}
