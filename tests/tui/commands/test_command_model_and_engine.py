"""/model and /engine: who answers and who compacts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clew.config import read_config
from clew.errors import InvalidArgument, PluginError
from clew.events import CompactionStarted
from clew.testing import user
from clew.turn import run_turn

PLUGIN = """
from clew.engines import register_context_engine
from tests.support.engines import PlainEngine

class Mine(PlainEngine):
    name = "mine"

def register():
    register_context_engine("mine", Mine)
"""


async def test_it_shows_the_model_its_window_price_and_caching(chat: Any) -> None:
    shown = await chat.type("/model")
    assert "scripted-model" in shown
    assert "20,000 tokens, from the config" in shown
    assert "no price is known" in shown
    assert "caching left to scripted; Clew adds no cache markers" in " ".join(shown.split())


async def test_the_window_of_a_model_in_a_file_is_the_one_it_runs_with(chat: Any) -> None:
    chat.provider.name = "local"
    for command in ("/model", "/context"):
        shown = await chat.type(command)
        assert "as it is run here" in shown
        assert "from the config" not in shown


async def test_another_model_answers_the_next_question(chat: Any) -> None:
    shown = " ".join((await chat.type("/model gpt-5")).split())
    assert "gpt-5 answers from the next question on" in shown
    assert "a window of 400,000 tokens" in shown
    await run_turn(chat.runtime, chat.state.session, [user("Who are you?")])
    assert chat.provider.requests[-1].model == "gpt-5"
    assert (await chat.app.store.session(chat.state.session)).model == "gpt-5"
    assert "gpt-5" in chat.state.models
    assert "$1.25 in" in " ".join((await chat.type("/model")).split())
    assert "answers already" in await chat.type("/model gpt-5")


async def test_a_smaller_window_is_met_by_a_compaction_before_the_next_question(long_chat: Any) -> None:
    await long_chat.type("/model gpt-5")
    shown = " ".join((await long_chat.type("/model gpt-4")).split())
    assert "a window of 8,192 tokens" in shown
    assert "the next question begins with a compaction" in shown
    await run_turn(long_chat.runtime, long_chat.state.session, [user("Well?")])
    assert [event.reason for event in long_chat.events if isinstance(event, CompactionStarted)] == ["preflight"]


async def test_the_engines_are_listed_and_the_one_that_serves_is_marked(chat: Any) -> None:
    shown = await chat.type("/engine")
    assert "* compressor" in shown
    assert "compacts at 10,000 of 20,000 tokens" in " ".join(shown.split())


async def test_a_chosen_engine_serves_here_at_once_and_is_written_down(long_chat: Any) -> None:
    folder = Path(long_chat.app.home) / "plugins" / "context_engine" / "mine"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(PLUGIN)
    before = await long_chat.view()
    shown = " ".join((await long_chat.type("/engine mine")).split())
    assert "mine serves from now on: here, in new conversations and after a restart" in shown
    live = await long_chat.runtime.conversation(long_chat.state.session)
    assert live.messages == before
    assert read_config(long_chat.app.environ).settings.context.engine == "mine"
    assert long_chat.app.engine_name == "mine"


async def test_the_lossless_engine_and_back_in_the_middle_of_a_conversation_loses_nothing(long_chat: Any) -> None:
    store, session = long_chat.app.store, long_chat.state.session
    rows = [row.message for row in await store.messages(session)]
    for name in ("lcm", "compressor", "lcm"):
        await long_chat.type(f"/engine {name}")
        await long_chat.type("/compress")
        live = await long_chat.runtime.conversation(session)
        assert live.engine.name == name and live.is_compacted
        assert bool(await store.shown_nodes(live.session)) == (name == "lcm")
        assert [row.message for row in await store.messages(session)][: len(rows)] == rows
        await long_chat.hear(user(f"And what does {name} say?"))
        await run_turn(long_chat.runtime, session, [user("Go on with the rota, please. " + "Shift by shift. " * 200)])
    opened = await live.engine.handle_tool_call("lcm_expand", {"id": "m0"})
    assert rows[0]["content"][:40] in opened
    assert await store.check() == []


async def test_an_unknown_engine_changes_nothing(chat: Any) -> None:
    with pytest.raises(PluginError, match="compresor"):
        await chat.type("/engine compresor")
    assert read_config(chat.app.environ).settings.context.engine == "compressor"
    assert chat.app.engine_name == "compressor"


async def test_while_a_turn_runs_the_engine_stays(chat: Any) -> None:
    live = await chat.runtime.conversation(chat.state.session)
    async with live.locks.turn:
        with pytest.raises(InvalidArgument, match="a turn is running"):
            await chat.type("/engine compressor")


async def test_all_of_it_fits_from_60_to_120_columns(chat: Any) -> None:
    for line in ("/model", "/engine", "/model gpt-5", "/model", "/engine compressor"):
        await chat.type(line)
    for width in (50, 60, 80, 120):
        chat.drawn(width)
