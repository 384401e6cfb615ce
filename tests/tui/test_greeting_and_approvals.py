"""What stands at the start, and what is asked: fitted to narrow terminals, and clear about what is no answer."""

from __future__ import annotations

import asyncio
from pathlib import Path

from clew.agent import Risk
from clew.app import AgentAppOptions, open_agent_app
from clew.cli.tui.chat import Chat, ChatTerminal
from clew.cli.tui.markdown import TerminalLook, render
from clew.cli.tui.prompt import ApprovalPrompts
from clew.cli.tui.screen import Screen
from clew.cli.tui.start import greeting
from clew.config import load_config
from clew.store import open_store
from clew.testing import assistant, user
from clew.testing.scripted import ScriptedProvider, refuses
from clew.turn import receive


def screen_of(written: list[str]) -> Screen:
    return Screen(TerminalLook(colors=False), lambda: (80, 24), written.append)


async def test_a_greeting_is_wrapped_beside_its_names_and_says_where_one_was(tmp_path: Path) -> None:
    environ = {"CLEW_HOME": str(tmp_path), "HOME": str(tmp_path)}
    config = load_config(environ, ["model.name=a-model-with-a-long-name", "model.context_length=64000"])
    options = AgentAppOptions(tmp_path, provider=ScriptedProvider())
    async with (
        open_store(tmp_path / "state.db", flush="normal") as store,
        open_agent_app(config, environ, store, options) as app,
    ):
        session = await app.new_session()
        await receive(app.runtime, session, [user("Which clock is late?"), assistant("The third, " + "very " * 80)])
        live = await app.runtime.conversation(session)
        lines = render(greeting(app, live, "ask", resumed="Clocks"), 40, TerminalLook(colors=False)).splitlines()
    assert all(len(line) <= 40 for line in lines)
    assert all(line.startswith("  ") for line in lines[2:])
    told = "\n".join(lines)
    assert "  you       Which clock is late?" in told
    assert "  it        The third, very" in told
    assert told.endswith("…")


async def test_the_meter_has_the_tools_before_the_first_question(tmp_path: Path) -> None:
    environ = {"CLEW_HOME": str(tmp_path), "HOME": str(tmp_path)}
    config = load_config(environ, ["model.name=m-1", "model.context_length=64000"])
    options = AgentAppOptions(tmp_path, provider=ScriptedProvider())
    async with (
        open_store(tmp_path / "state.db", flush="normal") as store,
        open_agent_app(config, environ, store, options) as app,
    ):
        terminal = ChatTerminal.on(screen_of([]))
        chat = Chat(app, await app.new_session(), terminal)
        await chat.refresh()
        live = await app.runtime.conversation(chat.state.session)
        assert live.size.tools > 500
        assert chat.figures(live).used >= live.size.tools + live.size.system


async def test_what_is_no_answer_is_named_and_asked_again() -> None:
    written: list[str] = []
    screen = screen_of(written)
    questions = ApprovalPrompts(screen)
    opened = asyncio.Event()
    questions.on_open = opened.set
    asked = asyncio.create_task(questions.approve("terminal", Risk("run: rm -rf build", ("deletes",), "rm")))
    for line in ("perhaps", "y"):
        await opened.wait()
        opened.clear()
        questions.answer(line)
    assert await asked == ("once", "")
    await screen.flush()
    assert "'perhaps' is no answer: y once, a for this session" in "".join(written)


async def test_a_script_is_shown_before_it_runs() -> None:
    written: list[str] = []
    screen = screen_of(written)
    questions = ApprovalPrompts(screen)
    opened = asyncio.Event()
    questions.on_open = opened.set
    script = "x.sh:\necho \x1b[2Jone\n" + "echo more\n" * 1_000
    asked = asyncio.create_task(questions.approve("terminal", Risk("run: bash x.sh", ("runs x.sh",), "x.sh", script)))
    await opened.wait()
    questions.answer("n")
    await asked
    await screen.flush()
    shown = "".join(written)
    assert "| x.sh:" in shown and "more lines" in shown
    assert "\x1b[2J" not in shown, "no escape of a script reaches the terminal"


async def test_a_compaction_that_was_undone_is_not_counted_any_more(tmp_path: Path) -> None:
    environ = {"CLEW_HOME": str(tmp_path), "HOME": str(tmp_path)}
    config = load_config(environ, ["model.name=m-1", "model.context_length=20000"])
    options = AgentAppOptions(tmp_path, provider=ScriptedProvider(refuses("auth")))
    async with (
        open_store(tmp_path / "state.db", flush="normal") as store,
        open_agent_app(config, environ, store, options) as app,
    ):
        terminal = ChatTerminal.on(screen_of([]))
        chat = Chat(app, await app.new_session(), terminal)
        talk = [(user, assistant)[turn % 2](f"{turn}: " + "a long way to go " * 60) for turn in range(40)]
        await receive(app.runtime, chat.state.session, talk)
        live = await app.runtime.conversation(chat.state.session)
        seen = []
        for act in (live.compact_now, live.undo_compaction):
            await act()
            await chat.refresh()
            seen.append(chat.figures(live).compactions)
    assert seen == [1, 0]
