"""The contract suite, and what is this engine's own."""

from __future__ import annotations

import asyncio

from clew_turns.engine import TurnsEngine
from clew_turns.turns import is_list

from clew.engines import ContextEngine, EngineSetup, SessionStart
from clew.messages import Message, text_of
from clew.testing import EngineContract, assistant, system, user


class TestTurnsEngine(EngineContract):
    def make_engine(self, setup: EngineSetup) -> ContextEngine:
        return TurnsEngine(setup)


def talk(turns: int) -> list[Message]:
    messages = [system("Answer in one line.")]
    for number in range(1, turns + 1):
        messages += [user(f"Question {number}, in full."), assistant(f"Answer {number}. " * 60)]
    return messages


def compacted(engine: TurnsEngine, messages: list[Message]) -> list[Message]:
    """As a host does it: what was done is in effect."""
    done = asyncio.run(engine.compress(messages, force=True))
    engine.restore(done.state)
    return list(done.messages)


def test_what_was_asked_is_listed_and_can_be_read_in_full() -> None:
    engine = TurnsEngine(EngineSetup(context_length=4_000))
    result = compacted(engine, talk(30))
    assert "1. Question 1, in full." in text_of(result[1])
    assert asyncio.run(engine.handle_tool_call("earlier_request", {"number": 2})) == "Question 2, in full."
    assert "from 1 to" in asyncio.run(engine.handle_tool_call("earlier_request", {"number": 999}))


def test_a_second_compaction_goes_on_counting_and_leaves_one_list() -> None:
    engine = TurnsEngine(EngineSetup(context_length=4_000))
    once = compacted(engine, talk(30))
    twice = compacted(engine, [*once, *talk(60)[61:]])
    assert [position for position, message in enumerate(twice) if is_list(message)] == [1]
    assert "31. Question 31, in full." in text_of(twice[1])


def test_the_list_survives_a_restart() -> None:
    engine = TurnsEngine(EngineSetup(context_length=4_000))
    compacted(engine, talk(30))
    restarted = TurnsEngine(EngineSetup(context_length=4_000))
    restarted.on_session_start(SessionStart("again", state=engine.state))
    assert asyncio.run(restarted.handle_tool_call("earlier_request", {"number": 2})) == "Question 2, in full."
