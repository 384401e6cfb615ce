"""A chat driven by keys: what is typed, asked, queued, approved, stopped and left. No terminal is needed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.input.base import PipeInput
from prompt_toolkit.output import DummyOutput

from clew.app import AgentAppOptions, open_agent_app
from clew.cli.tui.chat import ChatTerminal
from clew.cli.tui.markdown import TerminalLook
from clew.cli.tui.prompt import Pastes
from clew.cli.tui.screen import Screen
from clew.cli.tui.start import Keyboard, run_terminal_chat
from clew.config import load_config
from clew.events import Events
from clew.messages import text_of
from clew.providers import Delta, OnDelta, Provider, Reply, Request
from clew.store import NewMessage, Store, open_store
from clew.testing import assistant, call, user
from clew.testing.scripted import ScriptedProvider, calls, refuses, says
from clew.turn import CACHE_SECONDS, FOLD_BEFORE_SECONDS, STOPPED, Conversation
from tests.support.summaries import handoff_text

ENTER, CTRL_C, CTRL_D, ALT_ENTER = "\r", "\x03", "\x04", "\x1b\r"
ESC, SHIFT_TAB = "\x1b", "\x1b[Z"
DEADLINE_SECONDS = 10.0


class Stalls(Provider):
    """Says a few words, and then nothing more until it is stopped."""

    name = "stalls"

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.answers_from = 1
        self.go_on = asyncio.Event()

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        self.requests.append(request)
        if len(self.requests) > self.answers_from:
            return says("And so it goes on.")
        if on_delta:
            on_delta(Delta("text", "Half a sentence"))
        await self.go_on.wait()
        return says("Half a sentence, and the rest.")


@dataclass
class Driven:
    """A chat at a screen that is a list of texts."""

    terminal: ChatTerminal
    keys: PipeInput
    store: Store
    written: list[str] = field(default_factory=list)
    task: asyncio.Task[None] | None = None

    @property
    def text(self) -> str:
        return "".join(self.written)

    @property
    def going_on(self) -> str:
        return "\n".join(text for _, text in self.terminal.screen.live_rows())

    def type(self, *keys: str) -> None:
        self.keys.send_text("".join(keys))

    async def until(self, happened: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while not happened():
                assert self.task is None or not self.task.done() or self.task.exception() is None, self.task
                await asyncio.sleep(0.005)

    async def sees(self, text: str, times: int = 1) -> None:
        try:
            await self.until(lambda: self.text.count(text) >= times)
        except TimeoutError:
            raise AssertionError(f"{text!r} is not on the screen:\n{self.text[-3000:]}\n---\n{self.going_on}") from None

    async def leaves(self) -> None:
        self.type(CTRL_D)
        assert self.task is not None
        await asyncio.wait_for(self.task, DEADLINE_SECONDS)


@asynccontextmanager
async def chat_with(
    provider: Provider,
    folder: Path,
    *first: str,
    window: int = 64_000,
    begun: Callable[[Conversation], Awaitable[None]] | None = None,
    **settings: str,
) -> AsyncIterator[Driven]:
    """The chat; `begun` says what there is of its conversation before it starts."""
    environ = {"CLEW_HOME": str(folder / "home"), "HOME": str(folder), "PATH": "/usr/bin:/bin"}
    flags = ["model.name=scripted-model", f"model.context_length={window}"]
    config = load_config(environ, [*flags, *(f"{key.replace('__', '.')}={value}" for key, value in settings.items())])
    (folder / "project").mkdir(exist_ok=True)
    written: list[str] = []
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        screen = Screen(TerminalLook(colors=False), lambda: (100, 30), written.append)
        terminal = ChatTerminal.on(screen)
        options = AgentAppOptions(
            folder / "project", terminal.approvals.approve, "ask", Events(terminal.on_event), provider
        )
        async with (
            open_store(folder / "home" / "state.db", flush="normal") as store,
            open_agent_app(config, environ, store, options) as app,
        ):
            driven = Driven(terminal, keys, store, written)
            session = await app.new_session()
            if begun is not None:
                await begun(await app.runtime.conversation(session))
            work = run_terminal_chat(terminal, app, session, "ask", first, keyboard=Keyboard(keys, DummyOutput()))
            driven.task = asyncio.create_task(work)
            try:
                yield driven
            finally:
                if not driven.task.done():
                    driven.task.cancel()
                    await asyncio.gather(driven.task, return_exceptions=True)


async def test_the_greeting_names_what_one_talks_to(tmp_path: Path) -> None:
    async with chat_with(ScriptedProvider(), tmp_path) as chat:
        await chat.sees("approvals")
        assert "scripted-model through scripted, window 64.0K (as configured)" in chat.text
        assert "compressor, compacts from 32,000 tokens" in chat.text
        assert "caching" in chat.text
        await chat.leaves()


async def test_a_question_is_answered_in_blocks(tmp_path: Path) -> None:
    provider = ScriptedProvider(says("# Clocks\n\nThe **third** one is late.\n\n```sh\noil hall3\n```\nThat is all."))
    async with chat_with(provider, tmp_path) as chat:
        chat.type("Which one?", ENTER)
        await chat.sees("That is all.")
        assert "› Which one?" in chat.text
        assert "The third one is late." in chat.text
        assert chat.text.count("oil hall3") == 1
        await chat.leaves()
        assert "1 question, " in chat.text


async def test_the_first_question_may_come_with_the_command(tmp_path: Path) -> None:
    async with chat_with(ScriptedProvider(says("Late.")), tmp_path, "What is wrong?") as chat:
        await chat.sees("Late.")
        await chat.leaves()


async def test_escape_sequences_of_a_model_do_not_reach_the_terminal(tmp_path: Path) -> None:
    async with chat_with(ScriptedProvider(says("\x1b[2Jcleared \x1b]0;title\x07 not")), tmp_path) as chat:
        chat.type("Hello", ENTER)
        await chat.sees("cleared")
        assert "\x1b" not in chat.text
        await chat.leaves()


async def test_a_line_goes_on_after_a_backslash_or_alt_enter(tmp_path: Path) -> None:
    provider = ScriptedProvider(says("Three."))
    async with chat_with(provider, tmp_path) as chat:
        chat.type("one", ALT_ENTER, "two\\", ENTER, "three", ENTER)
        await chat.sees("Three.")
        assert provider.requests[0].messages[-1]["content"] == "one\ntwo\nthree"
        await chat.leaves()


async def test_enter_that_a_terminal_made_a_line_feed_of_still_sends(tmp_path: Path) -> None:
    provider = ScriptedProvider(says("First."), says("Second."))
    async with chat_with(provider, tmp_path) as chat:
        chat.type("one\n", "two\n")
        await chat.sees("Second.")
        assert [request.messages[-1]["content"] for request in provider.requests] == ["one", "two"]
        await chat.leaves()


async def test_a_paste_of_several_lines_is_one_question(tmp_path: Path) -> None:
    provider = ScriptedProvider(says("Read."))
    async with chat_with(provider, tmp_path) as chat:
        chat.type("\x1b[200~first\nsecond\x1b[201~", ENTER)
        await chat.sees("Read.")
        assert provider.requests[0].messages[-1]["content"] == "first\nsecond"
        await chat.leaves()


async def test_of_a_long_paste_the_beginning_and_the_end_stay_on_the_screen(tmp_path: Path) -> None:
    provider = ScriptedProvider(says("Read."))
    pasted = "\n".join(f"row {number}." for number in range(500)) + "\n"
    async with chat_with(provider, tmp_path) as chat:
        chat.type(f"\x1b[200~{pasted}\x1b[201~", ENTER)
        await chat.sees("Read.")
        assert provider.requests[0].messages[-1]["content"] == pasted
        assert "row 2.\n  ... 494 more lines ...\n  row 497." in chat.text
        assert "row 499.\n\nRead." in chat.text
        await chat.leaves()


def test_the_last_newline_of_a_paste_is_no_line() -> None:
    assert Pastes().collapse("row\n" * 5_000) == "[pasted text 1, 5,000 lines]"


async def test_ctrl_c_stops_the_turn_and_keeps_what_came(tmp_path: Path) -> None:
    provider = Stalls()
    async with chat_with(provider, tmp_path) as chat:
        chat.type("Tell me", ENTER)
        await chat.until(lambda: "Half a sentence" in chat.going_on)
        chat.type(CTRL_C)
        await chat.sees("stopped; the reply so far is kept")
        assert "Half a sentence" in chat.text
        chat.type("Go on", ENTER)
        await chat.sees("And so it goes on.")
        kept = [text_of(message) for message in provider.requests[1].messages]
        assert kept[-2:] == [f"Half a sentence\n\n{STOPPED}", "Go on"]
        await chat.leaves()


class Resists(Stalls):
    """Goes on for ever when it is stopped."""

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        try:
            return await super().send(request, on_delta)
        except asyncio.CancelledError:
            await asyncio.Event().wait()
            raise


async def test_a_second_ctrl_c_does_not_wait_for_what_will_not_stop(tmp_path: Path) -> None:
    async with chat_with(Resists(), tmp_path) as chat:
        chat.type("Tell me", ENTER)
        await chat.until(lambda: "Half a sentence" in chat.going_on)
        chat.type(CTRL_C)
        await chat.until(lambda: "stopping" in chat.going_on)
        chat.type(CTRL_C)
        await chat.sees("stopped; the reply so far is kept")
        await chat.leaves()


class Breaks(Provider):
    """Has a defect."""

    name = "breaks"

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        raise KeyError("usage")


async def test_a_defect_is_told_and_does_not_end_the_chat(tmp_path: Path) -> None:
    async with chat_with(Breaks(), tmp_path) as chat:
        chat.type("Hello", ENTER)
        await chat.sees("KeyError: 'usage'")
        chat.type("/help", ENTER)
        await chat.sees("/compress")
        await chat.leaves()


async def test_what_is_typed_meanwhile_is_shown_as_queued_and_asked_next(tmp_path: Path) -> None:
    provider = Stalls()
    async with chat_with(provider, tmp_path) as chat:
        chat.type("Tell me", ENTER)
        await chat.until(lambda: "Half a sentence" in chat.going_on)
        chat.type("And then?", ENTER)
        await chat.until(lambda: "queued: And then?" in chat.going_on)
        assert len(provider.requests) == 1
        provider.go_on.set()
        await chat.sees("And so it goes on.")
        assert "queued" not in chat.going_on
        assert text_of(provider.requests[1].messages[-1]) == "And then?"
        await chat.leaves()


async def test_ctrl_c_gives_the_lines_that_waited_back_and_asks_none_of_them(tmp_path: Path) -> None:
    provider = Stalls()
    async with chat_with(provider, tmp_path) as chat:
        chat.type("Tell me", ENTER)
        await chat.until(lambda: "Half a sentence" in chat.going_on)
        chat.type("First", ENTER, "Second", ENTER, "half typed")
        await chat.until(lambda: "queued: Second" in chat.going_on)
        chat.type(CTRL_C)
        await chat.sees("the 2 queued lines are back in the input")
        await chat.sees("stopped; the reply so far is kept")
        assert len(provider.requests) == 1
        chat.type(ENTER)
        await chat.sees("And so it goes on.")
        assert text_of(provider.requests[1].messages[-1]) == "First\nSecond\nhalf typed"
        await chat.leaves()


async def test_commands_that_only_look_need_not_wait(tmp_path: Path) -> None:
    async with chat_with(Stalls(), tmp_path) as chat:
        chat.type("Tell me", ENTER)
        await chat.until(lambda: "Half a sentence" in chat.going_on)
        chat.type("/help", ENTER)
        await chat.sees("/compress")
        assert "Half a sentence" in chat.going_on
        await chat.leaves()
        assert "resume    clew chat" in chat.text


async def test_ctrl_c_at_an_empty_line_says_how_to_leave(tmp_path: Path) -> None:
    async with chat_with(ScriptedProvider(), tmp_path) as chat:
        await chat.sees("approvals")
        chat.type(CTRL_C)
        await chat.sees("Ctrl-D or /quit leaves")
        await chat.leaves()


async def test_ctrl_c_forgets_what_is_typed(tmp_path: Path) -> None:
    provider = ScriptedProvider(says("Yes."))
    async with chat_with(provider, tmp_path) as chat:
        chat.type("a mistake", CTRL_C, "right", ENTER)
        await chat.sees("Yes.")
        assert text_of(provider.requests[0].messages[-1]) == "right"
        await chat.leaves()


DANGER = calls(call("terminal", {"command": "rm -rf assets"}))


@pytest.mark.parametrize(("answer", "is_gone"), [("y", True), ("a", True), ("n", False)])
async def test_a_person_is_asked_before_what_is_dangerous(tmp_path: Path, answer: str, is_gone: bool) -> None:
    provider = ScriptedProvider(DANGER, says("So be it."))
    async with chat_with(provider, tmp_path) as chat:
        build = tmp_path / "project" / "assets"
        build.mkdir()
        chat.type("Clean up", ENTER)
        await chat.until(lambda: chat.terminal.approvals.is_open)
        await chat.sees("rm -rf assets")
        assert "why you are asked" in chat.text
        chat.type(answer, ENTER)
        await chat.sees("So be it.")
        assert build.exists() is not is_gone
        await chat.leaves()


async def test_for_this_session_means_that_it_is_not_asked_again(tmp_path: Path) -> None:
    provider = ScriptedProvider(DANGER, DANGER, says("Twice."))
    async with chat_with(provider, tmp_path) as chat:
        chat.type("Clean up twice", ENTER)
        await chat.until(lambda: chat.terminal.approvals.is_open)
        chat.type("a", ENTER)
        await chat.sees("Twice.")
        assert chat.text.count("why you are asked") == 1
        await chat.leaves()


async def test_a_reason_for_no_reaches_the_model(tmp_path: Path) -> None:
    provider = ScriptedProvider(DANGER, says("I see."))
    async with chat_with(provider, tmp_path) as chat:
        chat.type("Clean up", ENTER)
        await chat.until(lambda: chat.terminal.approvals.is_open)
        chat.type("n use make clean", ENTER)
        await chat.sees("I see.")
        assert "use make clean" in text_of(provider.requests[1].messages[-1])
        await chat.leaves()


async def test_half_a_sentence_allows_nothing_and_is_there_again_afterwards(tmp_path: Path) -> None:
    provider = ScriptedProvider(DANGER, says("I see."), says("Later."))
    async with chat_with(provider, tmp_path) as chat:
        chat.type("Clean up", ENTER, "yes but")
        await chat.until(lambda: chat.terminal.approvals.is_open)
        chat.type("yes please do", ENTER)
        await chat.sees("y once, a for this session", times=2)
        chat.type("n", ENTER)
        await chat.sees("I see.")
        chat.type(" later", ENTER)
        await chat.sees("Later.")
        assert text_of(provider.requests[2].messages[-1]) == "yes but later"
        await chat.leaves()


async def test_ctrl_c_at_a_question_stops_the_turn(tmp_path: Path) -> None:
    async with chat_with(ScriptedProvider(DANGER), tmp_path) as chat:
        build = tmp_path / "project" / "assets"
        build.mkdir()
        chat.type("Clean up", ENTER)
        await chat.until(lambda: chat.terminal.approvals.is_open)
        chat.type(CTRL_C)
        await chat.sees("stopped; the reply so far is kept")
        assert build.exists()
        assert not chat.terminal.approvals.is_open
        await chat.leaves()


async def test_a_refusal_is_explained_and_the_chat_goes_on(tmp_path: Path) -> None:
    provider = ScriptedProvider(refuses("auth", "no such key"), says("Now it works."))
    async with chat_with(provider, tmp_path) as chat:
        chat.type("Hello", ENTER)
        await chat.sees("refused (auth): no such key. Check the key")
        chat.type("Again", ENTER)
        await chat.sees("Now it works.")
        await chat.leaves()


async def test_an_unknown_command_is_no_question(tmp_path: Path) -> None:
    provider = ScriptedProvider(says("A file."))
    async with chat_with(provider, tmp_path) as chat:
        chat.type("/frobnicate", ENTER)
        await chat.sees("no command /frobnicate")
        chat.type("/etc/hosts is what?", ENTER)
        await chat.sees("A file.")
        await chat.leaves()


async def test_a_compaction_is_told_with_the_way_back(tmp_path: Path) -> None:
    long = "The clock in hall 3 runs late by a little every day. " * 80
    provider = ScriptedProvider(*[says(f"Noted. {long}") for _ in range(40)])
    async with chat_with(provider, tmp_path, window=16_000) as chat:
        # The model writes the handoff too, so that not every call is an answer.
        for number in range(1, 20):
            chat.type(f"Part {number}", ENTER)
            await chat.sees("Noted.", times=number)
            if "compacted" in chat.text:
                break
        await chat.sees("/compress --undo brings it back")
        assert re.search(r"compacted [\d,]+ → [\d,]+ tokens in \d+\.\d s, written by", chat.text)
        await chat.leaves()
        assert "tokens in 1 compaction" in chat.text


async def test_the_session_gets_a_title_and_lines_get_a_private_history(tmp_path: Path) -> None:
    async with chat_with(ScriptedProvider(says("Late.")), tmp_path) as chat:
        chat.type("What is wrong with the clock?", ENTER)
        await chat.sees("Late.")
        await chat.leaves()
        (session,) = await chat.store.list_sessions()
        assert session.title == "What is wrong with the clock?"
        assert f"clew chat --resume {session.id}" in chat.text
    history = tmp_path / "home" / "chat_history"
    assert "What is wrong with the clock?" in history.read_text()
    assert history.stat().st_mode & 0o777 == 0o600


async def test_a_chat_in_which_nothing_was_asked_leaves_nothing_behind(tmp_path: Path) -> None:
    async with chat_with(ScriptedProvider(), tmp_path) as chat:
        await chat.sees("approvals")
        await chat.leaves()
        assert await chat.store.list_sessions() == []
        assert "nothing was asked" in chat.text


async def test_a_file_named_by_an_at_goes_along_and_a_missing_one_is_told(tmp_path: Path) -> None:
    provider = ScriptedProvider(says("Read."))
    async with chat_with(provider, tmp_path) as chat:
        (tmp_path / "project" / "rota.py").write_text("ovens = ['Greta']\n")
        chat.type("What is in @rota.py, and in @plan/none.py?", ENTER)
        await chat.sees("Read.")
        assert "rota.py: attached, 1 line" in chat.text
        assert "there is no file plan/none.py" in chat.text
        assert "ovens = ['Greta']" in text_of(provider.requests[0].messages[-1])
        await chat.leaves()


async def test_a_command_of_the_person_runs_and_only_two_signs_show_it_to_the_model(tmp_path: Path) -> None:
    provider = ScriptedProvider(says("I see a bell."))
    async with chat_with(provider, tmp_path) as chat:
        chat.type("!echo first; pwd; exit 3", ENTER)
        await chat.sees("exit 3, ")
        await chat.sees("/project\n")
        assert "  first" in chat.text
        chat.type("!!echo the bell is $((40 + 2))", ENTER)
        await chat.sees("the next question includes this output")
        assert provider.requests == []
        chat.type("What did it print?", ENTER)
        await chat.sees("I see a bell.")
        sent = text_of(provider.requests[0].messages[-1])
        assert "the bell is 42" in sent and "first" not in sent
        chat.type("/output 1", ENTER)
        await chat.sees("$ echo first; pwd; exit 3", times=2)
        await chat.leaves()


async def test_ctrl_c_ends_a_command_of_the_person(tmp_path: Path) -> None:
    async with chat_with(ScriptedProvider(), tmp_path) as chat:
        chat.type("!echo begun; sleep 60", ENTER)
        await chat.until(lambda: "begun" in chat.going_on)
        chat.type(CTRL_C)
        await chat.sees("stopped after")
        await chat.leaves()


async def test_the_whole_output_of_a_tool_is_opened_by_a_key_and_by_its_number(tmp_path: Path) -> None:
    many = "; ".join(f"echo row-{number}" for number in range(30))
    provider = ScriptedProvider(calls(call("terminal", {"command": many})), says("Done."))
    async with chat_with(provider, tmp_path) as chat:
        chat.type("/output", ENTER)
        await chat.sees("has printed anything in this chat yet")
        chat.type("Count", ENTER)
        await chat.sees("Done.")
        assert "#1" in chat.text and "  row-17" not in chat.text
        chat.type("\x0f")
        await chat.sees("  row-17")
        chat.type("/output 1 20", ENTER)
        await chat.sees("  row-29", times=2)
        assert chat.text.count("  row-17") == 1
        chat.type("/output 7", ENTER)
        await chat.sees("there is no output 7")
        await chat.leaves()


async def test_an_edited_question_is_asked_instead_of_the_old_one(tmp_path: Path) -> None:
    provider = ScriptedProvider(says("About bells."), says("About clocks."))
    async with chat_with(provider, tmp_path) as chat:
        chat.type("Tell me of bells", ENTER)
        await chat.sees("About bells.")
        chat.type("/edit", ENTER)
        await chat.sees('Taken back: "Tell me of bells" and what followed.')
        chat.type("\x7f" * len("bells"), "clocks", ENTER)
        await chat.sees("About clocks.")
        assert [text_of(it) for it in provider.requests[1].messages if it["role"] != "system"] == ["Tell me of clocks"]
        await chat.leaves()


async def test_a_failed_question_asked_again_is_in_the_history_once(tmp_path: Path) -> None:
    provider = ScriptedProvider(refuses("auth", "no such key"), refuses("auth", "no such key"), says("Now it works."))
    async with chat_with(provider, tmp_path) as chat:
        chat.type("Hello", ENTER)
        await chat.sees("refused (auth)")
        chat.type("Hello", ENTER)
        await chat.sees("refused (auth)", times=2)
        chat.type("/retry", ENTER)
        await chat.sees("Now it works.")
        asked = [text_of(it) for it in provider.requests[-1].messages if it["role"] == "user"]
        assert asked == ["Hello"]
        await chat.leaves()


EDIT = calls(call("patch", {"edits": [{"path": "bell.txt", "old": "dull", "new": "bright"}]}, id="c1"))
CREATE = calls(call("write_file", {"path": "new.txt", "content": "ding\ndong\n"}, id="c2"))


def bell_in(folder: Path) -> Path:
    bell = folder / "project" / "bell.txt"
    bell.parent.mkdir(exist_ok=True)
    bell.write_text("a dull bell\n")
    return bell


async def test_undo_puts_files_back_question_by_question(tmp_path: Path) -> None:
    bell = bell_in(tmp_path)
    provider = ScriptedProvider(EDIT, says("Patched."), CREATE, says("Created."))
    async with chat_with(provider, tmp_path) as chat:
        chat.type("Brighten it", ENTER)
        await chat.sees("Patched.")
        chat.type("And a new one", ENTER)
        await chat.sees("Created.")
        chat.type("/undo", ENTER)
        await chat.sees("Removed, since it did not exist before: new.txt.")
        assert not (bell.parent / "new.txt").exists()
        assert bell.read_text() == "a bright bell\n"
        chat.type("/undo", ENTER)
        await chat.sees("Put back as before: bell.txt.")
        assert bell.read_text() == "a dull bell\n"
        await chat.leaves()


async def test_undo_asks_before_it_overwrites_what_somebody_else_wrote_since(tmp_path: Path) -> None:
    bell = bell_in(tmp_path)
    async with chat_with(ScriptedProvider(EDIT, says("Patched.")), tmp_path) as chat:
        chat.type("Brighten it", ENTER)
        await chat.sees("Patched.")
        bell.write_text("mine\n")
        chat.type("/undo", ENTER)
        await chat.until(lambda: chat.terminal.approvals.is_open)
        chat.type("n", ENTER)
        await chat.sees("Left as it is, since something else changed it: bell.txt.")
        assert bell.read_text() == "mine\n"
        await chat.leaves()


async def test_undo_can_keep_the_files(tmp_path: Path) -> None:
    bell = bell_in(tmp_path)
    async with chat_with(ScriptedProvider(EDIT, says("Patched.")), tmp_path) as chat:
        chat.type("Brighten it", ENTER)
        await chat.sees("Patched.")
        chat.type("/undo --keep-files", ENTER)
        await chat.sees("Taken back")
        assert bell.read_text() == "a bright bell\n"
        await chat.leaves()


@pytest.mark.parametrize(("answer", "text"), [("y", "a bright bell\n"), ("n leave it", "a dull bell\n")])
async def test_in_ask_mode_an_edit_is_shown_and_asked_for(tmp_path: Path, answer: str, text: str) -> None:
    bell = bell_in(tmp_path)
    async with chat_with(ScriptedProvider(EDIT, says("So be it.")), tmp_path) as chat:
        chat.type(SHIFT_TAB)
        await chat.sees("Each edit of a file is shown")
        chat.type("Brighten it", ENTER)
        await chat.until(lambda: chat.terminal.approvals.is_open)
        await chat.sees("+a bright bell")
        assert bell.read_text() == "a dull bell\n"
        chat.type(answer, ENTER)
        await chat.sees("So be it.")
        assert bell.read_text() == text
        await chat.leaves()


async def test_in_plan_mode_nothing_changes_until_the_plan_is_approved(tmp_path: Path) -> None:
    bell = bell_in(tmp_path)
    run = calls(call("terminal", {"command": "touch ran"}, id="c0"))
    provider = ScriptedProvider(run, EDIT, says("The plan: polish it."), EDIT, says("Polished."))
    async with chat_with(provider, tmp_path) as chat:
        chat.type("/plan Brighten it", ENTER)
        await chat.sees("Carry out this plan?")
        assert bell.read_text() == "a dull bell\n"
        assert not (bell.parent / "ran").exists()
        assert "plan-mode" in text_of(provider.requests[0].messages[-1])
        chat.type("y", ENTER)
        await chat.sees("Polished.")
        assert bell.read_text() == "a bright bell\n"
        await chat.leaves()


async def test_esc_stops_the_turn(tmp_path: Path) -> None:
    async with chat_with(Stalls(), tmp_path) as chat:
        chat.type("Tell me", ENTER)
        await chat.until(lambda: "Half a sentence" in chat.going_on)
        chat.type(ESC)
        await chat.sees("stopped; the reply so far is kept")
        await chat.leaves()


async def test_a_long_paste_is_a_mark_in_the_input_and_whole_for_the_model(tmp_path: Path) -> None:
    provider = ScriptedProvider(says("Read."))
    pasted = "\n".join(f"row {number}" for number in range(500))
    async with chat_with(provider, tmp_path) as chat:
        chat.type(f"\x1b[200~{pasted}\x1b[201~", " What is it?", ENTER)
        await chat.sees("Read.")
        assert text_of(provider.requests[0].messages[-1]) == f"{pasted} What is it?"
        assert "row 250" not in chat.text
        await chat.leaves()


async def test_what_a_question_cost_that_was_taken_back_stays_counted(tmp_path: Path) -> None:
    provider = ScriptedProvider(says("One.", prompt_tokens=700), says("Two.", prompt_tokens=800))
    async with chat_with(provider, tmp_path) as chat:
        chat.type("First", ENTER)
        await chat.sees("One.")
        chat.type("/undo", ENTER)
        await chat.sees("Taken back")
        chat.type("Second", ENTER)
        await chat.sees("Two.")
        chat.type("/cost", ENTER)
        await chat.sees("1,500")
        chat.type("exit", ENTER)
        assert chat.task is not None
        await asyncio.wait_for(chat.task, DEADLINE_SECONDS)
        assert "2 questions, 2 calls of the model" in chat.text


async def test_a_command_that_failed_has_a_red_mark_and_three_lines(tmp_path: Path) -> None:
    run = calls(call("terminal", {"command": "seq 9; exit 3"}, id="c1"))
    async with chat_with(ScriptedProvider(run, says("It failed.")), tmp_path) as chat:
        chat.type("Run it", ENTER)
        await chat.sees("It failed.")
        assert "✗ $ seq 9; exit 3" in chat.text
        assert "  8\n  9\n  [exit 3]" in chat.text
        assert "7 lines before; Ctrl-O shows all" in chat.text
        await chat.leaves()


async def test_line_ends_of_a_reply_are_kept(tmp_path: Path) -> None:
    async with chat_with(ScriptedProvider(says("Roses are red\nviolets are blue\n")), tmp_path) as chat:
        chat.type("A poem", ENTER)
        await chat.sees("Roses are red\nviolets are blue")
        await chat.leaves()


async def test_a_markdown_file_is_a_command(tmp_path: Path) -> None:
    folder = tmp_path / "project" / ".clew" / "commands"
    folder.mkdir(parents=True)
    front = "---\ndescription: A review\nallowed-tools: Read\n---\n"
    (folder / "review.md").write_text(f"{front}Review $ARGUMENTS strictly.\n")
    provider = ScriptedProvider(says("Reviewed."))
    async with chat_with(provider, tmp_path) as chat:
        chat.type("/review bell.txt", ENTER)
        await chat.sees("Reviewed.")
        assert text_of(provider.requests[0].messages[-1]) == "Review bell.txt strictly."
        await chat.leaves()


async def test_a_program_that_needs_a_terminal_is_refused_with_a_reason(tmp_path: Path) -> None:
    async with chat_with(ScriptedProvider(), tmp_path) as chat:
        chat.type("!vim notes.txt", ENTER)
        await chat.sees("vim needs a terminal of its own")
        await chat.leaves()


async def test_a_question_for_approval_says_what_a_for_this_session_covers(tmp_path: Path) -> None:
    async with chat_with(ScriptedProvider(DANGER, says("Kept.")), tmp_path) as chat:
        chat.type("Clean up", ENTER)
        await chat.sees("a covers: terminal, ")
        chat.type("n", ENTER)
        await chat.sees("Kept.")
        await chat.leaves()


async def test_a_chat_in_which_nobody_writes_is_folded_before_the_cache_expires(tmp_path: Path) -> None:
    async def begun(conversation: Conversation) -> None:
        at = datetime.now(UTC) - timedelta(hours=1)
        await conversation.append([NewMessage(user("Read the log."), at), NewMessage(assistant("Read."), at)])
        while conversation.size.tokens < 0.42 * conversation.window.tokens:
            await conversation.append([user("And this: " + "gears turn " * 500), assistant("Read.")])
        conversation.note_sent()
        assert conversation.view.sent_at is not None
        conversation.view.sent_at -= CACHE_SECONDS["5m"] - FOLD_BEFORE_SECONDS - 0.1

    provider = ScriptedProvider(says(handoff_text(goal="Mend the clock.", key_decisions="The blue lantern.")))
    async with chat_with(provider, tmp_path, window=40_000, begun=begun, model__name="claude-sonnet-4-5") as chat:
        await chat.sees("folded while idle")
        assert len(provider.requests) == 1
        await chat.leaves()
