"""What the config and the summariser give the compressor, as `clew.app` puts them together."""

from __future__ import annotations

import asyncio

from clew.app import EngineChoice, engine_setup
from clew.config import load_config
from clew.engines import ContextCompressor, SessionStart
from clew.handoff import ModelSummarizer
from clew.messages import Message
from clew.testing import assistant, call, system, tool, user
from clew.tokens import counter_for
from tests.support.summaries import RecordedSleep, ScriptedSummaryModel, fails

ENVIRON = {"CLEW_HOME": "/nowhere"}


def talk(count: int, first: int = 0) -> list[Message]:
    messages: list[Message] = []
    for number in range(first, first + count):
        reading = call("read_file", {"path": f"logs/day_{number}.txt"}, id=f"call_{number}")
        text = "".join(f"day {number}, ship {line}: berth {number * 31 + line}, cargo salt\n" for line in range(20))
        asked = user(f"Which ships came on day {number}?")
        messages += [asked, assistant(None, [reading]), tool(reading["id"], text), assistant(f"Day {number}: salt.")]
    return messages


def summarizer(model: ScriptedSummaryModel) -> ModelSummarizer:
    return ModelSummarizer([model.model], count=counter_for(None).text, sleep=RecordedSleep(), clock=lambda: 1_000.0)


def engine_with(model: ScriptedSummaryModel) -> ContextCompressor:
    config = load_config(ENVIRON)
    setup = engine_setup(config.settings, 16_000, summarize=summarizer(model))
    engine = EngineChoice(config, ENVIRON).load(setup).engine
    assert isinstance(engine, ContextCompressor)
    return engine


def test_a_summary_model_without_a_key_rests_over_a_restart_until_a_person_asks() -> None:
    broken = ScriptedSummaryModel(fails("auth"))
    engine = engine_with(broken)
    engine.on_session_start(SessionStart("a"))
    first = asyncio.run(engine.compress([system("s"), *talk(30)]))
    engine.restore(first.state)
    assert first.written_by == "built-in" and len(broken.prompts) == 1
    well = ScriptedSummaryModel()
    risen = engine_with(well)
    risen.on_session_start(SessionStart("a", state=engine.state))
    view = [*first.messages, *talk(20, 100)]
    second = asyncio.run(risen.compress(view))
    assert second.written_by == "built-in" and not well.prompts
    assert any("rests for another" in warning for warning in second.warnings)
    by_hand = asyncio.run(risen.compress(view, force=True))
    assert by_hand.written_by == "scripted" and well.prompts


def test_the_settings_of_the_config_are_the_compressors_own() -> None:
    config = load_config(ENVIRON, ["compression.threshold=0.25", "compression.enabled=false"])
    engine = EngineChoice(config, ENVIRON).load(engine_setup(config.settings, 16_000)).engine
    assert engine.get_status().threshold_tokens == 4_000
    assert not engine.should_compress(16_000)


def test_a_window_that_the_config_allows_is_one_that_the_engine_takes() -> None:
    config = load_config(ENVIRON, ["model.context_length=1000"])
    engine = EngineChoice(config, ENVIRON).load(engine_setup(config.settings)).engine
    assert engine.get_status().context_length == 1_000
