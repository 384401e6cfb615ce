"""What happens, as a person sees it: replies, calls of tools and events, on a screen that is a list."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from clew.agent import ToolActivity, ToolResult
from clew.cli.tui.exchange import explain_problem
from clew.cli.tui.markdown import MAX_DIFF_ROWS, TerminalLook
from clew.cli.tui.observer import ScreenObserver
from clew.cli.tui.prompt import parse_approval
from clew.cli.tui.screen import Screen
from clew.errors import ContextExhausted, StoreError
from clew.events import (
    CompactionFinished,
    CompactionPhase,
    CompactionStarted,
    Event,
    Notice,
    OutputCapLowered,
    OutputSpilled,
    Overflowed,
    PassagesRecalled,
)
from clew.providers import Delta
from clew.store import UnknownSession
from clew.testing import call
from clew.testing.scripted import breaks_off, calls, refuses, says


class Watched:
    """A observer, and everything it put on the screen."""

    def __init__(self, *, colors: bool = False, unicode: bool = True) -> None:
        self.written: list[str] = []
        self.screen = Screen(
            TerminalLook(colors, unicode, {"TERM": "xterm-256color"}), lambda: (80, 24), self.written.append
        )
        self.observer = ScreenObserver(self.screen)

    def text(self) -> str:
        asyncio.run(self.screen.flush())
        return "".join(self.written)

    def going_on(self) -> list[str]:
        return [text for _, text in self.screen.live_rows()]


ACTIVITY = ToolActivity("1", "terminal", "terminal pytest -q")


def test_a_reply_that_did_not_stream_is_shown_whole() -> None:
    seen = Watched()
    seen.observer.on_reply(says("One.\n\nTwo."))
    assert seen.text() == "One.\n\nTwo.\n"


def test_a_reply_that_streamed_is_not_shown_twice() -> None:
    seen = Watched()
    for piece in ("One.\n", "\nTw", "o."):
        seen.observer.on_delta(Delta("text", piece))
    assert "Two." in seen.going_on()
    seen.observer.on_reply(says("One.\n\nTwo."))
    assert seen.text() == "One.\n\nTwo.\n"


def test_between_two_blocks_of_a_reply_nobody_is_waited_for() -> None:
    seen = Watched()
    seen.observer.wait_for("waiting for the model")
    assert "waiting for the model" in seen.going_on()[0]
    seen.observer.on_delta(Delta("text", "One.\n\n"))
    assert seen.going_on() == []
    seen.screen.live.last_text_at -= 2
    assert "waiting for the model" in seen.going_on()[0]


def test_what_is_said_while_the_terminal_is_made_ready_is_printed_with_the_rest() -> None:
    seen = Watched()

    async def above(action: Callable[[], None]) -> None:
        seen.screen.print("second")
        action()

    seen.screen.run_above = above
    seen.screen.print("first")
    asyncio.run(seen.screen.flush())
    assert seen.written == ["first\nsecond\n"]


def test_thinking_is_seen_only_while_it_lasts() -> None:
    seen = Watched()
    seen.observer.on_delta(Delta("reasoning", "I should look first."))
    assert "thinking: I should look first." in seen.going_on()
    seen.observer.on_delta(Delta("text", "It is late.\n\n"))
    assert not any("thinking" in row for row in seen.going_on())
    assert seen.text() == "It is late.\n"


def test_markdown_is_drawn_with_colours_and_without_its_marks() -> None:
    seen = Watched(colors=True)
    seen.observer.on_reply(says("A **bold** word and <b>a tag</b>."))
    assert "\x1b[1mbold\x1b[0m" in seen.text()
    assert "<b>a tag</b>" in seen.text()


def test_lists_keep_their_numbers_and_plain_terminals_get_plain_signs() -> None:
    seen = Watched(unicode=False)
    seen.observer.on_reply(says("9. nine\n10. ten\n    - inner\n\n> said"))
    assert [line.rstrip() for line in seen.text().splitlines()] == [" 9. nine", "10. ten", "     * inner", "", "| said"]


def test_the_address_of_a_link_is_seen() -> None:
    seen = Watched()
    seen.observer.on_reply(says("[the bank](http://elsewhere.example/login)"))
    assert "http://elsewhere.example/login" in seen.text()


def test_a_call_runs_with_its_output_and_ends_in_one_line() -> None:
    seen = Watched()
    seen.observer.on_tool_start(ACTIVITY)
    seen.observer.on_tool_output(ACTIVITY, "..F\n")
    assert seen.going_on()[:2] == ["⏵ terminal pytest -q", "  ..F"]
    seen.observer.on_tool_end(ACTIVITY, ToolResult("all of it"), 1.23)
    assert seen.going_on() == []
    assert seen.text() == "✓ terminal pytest -q  1.2 s  #1\n  all of it\n"


def test_a_call_that_failed_shows_why() -> None:
    seen = Watched()
    seen.observer.on_tool_end(ACTIVITY, ToolResult("\n\x1b[31mno such file\x1b[0m\nmore", is_error=True), 0.04)
    assert seen.text() == "✗ terminal pytest -q  0.0 s  #1\n  no such file\n  more\n"


def test_a_terminal_without_such_signs_gets_plain_ones() -> None:
    seen = Watched(unicode=False)
    seen.observer.on_tool_end(ACTIVITY, ToolResult("", is_error=True), 0.1)
    assert seen.text().startswith("x terminal")


def test_a_diff_is_bounded_and_coloured() -> None:
    seen = Watched(colors=True)
    diff = "--- a.py\n+++ a.py\n@@ -1 +1 @@\n-old\n" + "".join(f"+new {number}\n" for number in range(60))
    seen.observer.on_tool_end(ACTIVITY, ToolResult("done", display_text=diff), 0.1)
    lines = seen.text().splitlines()
    assert len(lines) == MAX_DIFF_ROWS + 2
    assert "\x1b[31m  -old" in seen.text()
    assert "\x1b[32m  +new 0" in seen.text()
    assert "44 more lines" in lines[-1]


def test_a_compaction_is_followed_and_then_told_in_one_line() -> None:
    seen = Watched()
    seen.observer.on_event(CompactionStarted("s", 61_240, "usage"))
    assert "compacting (usage): summarise 0 s · 61,240 tokens" in seen.going_on()[0]
    seen.observer.on_event(CompactionPhase("s", "summarise", 3.0))
    assert "commit" in seen.going_on()[0]
    seen.observer.on_event(CompactionFinished("s", "s2", 61_240, 9_870, "built-in", ("It may be less accurate.",)))
    assert seen.going_on() == []
    told = " ".join(seen.text().split())
    assert told.startswith("compacted 61,240 → 9,870 tokens in 0.0 s, written by built-in; /compress --undo brings it")
    assert told.endswith("It may be less accurate.")


def test_a_compaction_by_hand_is_told_by_its_command_alone() -> None:
    seen = Watched()
    seen.observer.on_event(CompactionStarted("s", 61_240, "manual"))
    seen.observer.on_event(CompactionFinished("s", "s2", 61_240, 9_870, "built-in", ()))
    assert seen.text() == ""
    assert len(seen.observer.compactions) == 1


def test_a_compaction_that_failed_does_not_stay_on_the_screen() -> None:
    seen = Watched()
    seen.observer.on_event(CompactionStarted("s", 61_240, "usage"))
    seen.observer.on_event(Notice("The provider is busy."))
    assert "compacting (usage)" in seen.going_on()[0]
    seen.observer.on_event(CompactionFinished("s", None, 61_240, 61_240, None, ()))
    seen.observer.on_event(Notice("The conversation was not compacted and goes on as it was: no room"))
    assert seen.going_on() == []
    assert "no room" in seen.text()


def test_a_preparation_that_is_waited_for_shows_what_it_does() -> None:
    seen = Watched()
    seen.observer.wait_for("waiting for the model")
    seen.observer.on_event(CompactionPhase("s", "prepare", 0.0))
    seen.observer.on_event(CompactionPhase("s", "awaited", 0.0))
    assert "compacting (prepared ahead): summarise 0 s" in seen.going_on()[0]
    seen.observer.on_event(CompactionPhase("s", "prepared", 2.0))
    assert "waiting for the model 0 s" in seen.going_on()[0]


def test_a_preparation_shows_in_the_status_line_only() -> None:
    seen = Watched()
    seen.observer.on_event(CompactionPhase("s", "prepare", 0.0))
    during = seen.observer.is_preparing
    assert seen.going_on() == []
    seen.observer.on_event(CompactionPhase("s", "prepared", 2.0))
    assert (during, seen.observer.is_preparing) == (True, False)
    assert seen.text() == ""


@pytest.mark.parametrize(
    ("event", "told"),
    [
        (Overflowed("s", 1, 8_192, "m-1", "mock", 8_192), "too large for m-1: mock states a window of 8,192 tokens"),
        (
            Overflowed("s", 1, 8_192, "m-1", "mock", 8_192, 64_000),
            "mock states a window of 8,192 tokens, not the configured 64,000",
        ),
        (Overflowed("s", 2, None, "m-1", "mock", 64_000), "mock states no window, 64,000 tokens are assumed"),
        (Overflowed("s", 3, None, "m-1", "mock"), "the request was again too large for m-1"),
        (OutputCapLowered("s", 900), "at most 900 tokens of output"),
        (OutputSpilled("s", "terminal", 300_000), "terminal gave 300,000 characters"),
        (PassagesRecalled("s", ("m12", "m40"), 380), "recalled m12, m40 for this answer, 380 tokens"),
        (Notice("Read this."), "Read this."),
    ],
)
def test_what_a_person_should_know_is_said(event: Event, told: str) -> None:
    seen = Watched()
    seen.observer.on_event(event)
    assert told in " ".join(seen.text().split())


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("y", ("once", "")),
        (" YES ", ("once", "")),
        ("a", ("session", "")),
        ("n", ("no", "")),
        ("no, use make clean", ("no", "use make clean")),
        ("n use make clean", ("no", "use make clean")),
        ("", None),
        ("yes but first tell me", None),
        ("a question of mine", None),
        ("yep", None),
    ],
)
def test_only_a_clear_answer_counts(line: str, meant: tuple[str, str] | None) -> None:
    assert parse_approval(line) == meant


def test_a_refusal_is_explained_with_what_to_do() -> None:
    told = explain_problem(refuses("rate_limit", '{"error": {"message": "too many"}}', retry_after=7))
    assert told == "scripted refused (rate limit): too many. It asks to wait 7 s. " + (
        "Wait a little and ask again; what you asked is kept."
    )
    assert "The part that arrived is kept." in explain_problem(breaks_off("Half"))
    assert "clew doctor" not in explain_problem(UnknownSession("s_1"))


def test_a_disk_that_failed_is_told_in_whole_sentences() -> None:
    failed = StoreError("state.db: the disk failed; check it, then try again")
    failed.__cause__ = OSError()
    assert "try again. The conversation is as it was stored last; `clew doctor`" in explain_problem(failed)


def test_a_request_that_never_fits_is_told_with_the_commands_that_help() -> None:
    exhausted = ContextExhausted("s_1", "mock", ["pruning"], ["the tools (9,000 tokens)"])
    assert "/new" not in str(exhausted)
    assert explain_problem(exhausted).endswith("/new begins a new conversation; /compress TOPIC names what matters.")


def test_a_page_of_a_gateway_is_told_without_its_tags() -> None:
    page = "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"
    assert "scripted refused (overloaded): a web page, 502 Bad Gateway. " in explain_problem(
        refuses("overloaded", page)
    )


def test_a_line_that_broke_is_no_refusal() -> None:
    assert explain_problem(breaks_off("Half")).startswith("the reply of scripted broke off before its end. ")
    assert explain_problem(refuses("network", "timed out")).startswith("the connection to scripted failed: timed out. ")


def test_a_reply_that_was_cut_off_says_so() -> None:
    seen = Watched()
    seen.observer.on_reply(replace(says("Half a sen"), finish="length"))
    told = " ".join(seen.text().split())
    assert told.startswith("Half a sen the reply was cut off: it reached the most output allowed")


def test_a_reply_without_a_word_says_so_and_one_with_calls_need_not() -> None:
    seen = Watched()
    seen.observer.on_reply(calls(call("read_file", {"path": "a"})))
    assert seen.text() == ""
    seen.observer.on_reply(says(""))
    assert "the model answered without a word" in seen.text()


def test_a_call_that_was_stopped_leaves_a_line() -> None:
    seen = Watched()
    seen.observer.on_tool_start(ACTIVITY)
    seen.observer.finish_turn()
    assert seen.text() == "✗ terminal pytest -q  stopped after 0.0 s\n"
    assert seen.going_on() == []


def test_how_a_long_call_ended_is_still_seen() -> None:
    seen = Watched()
    seen.observer.on_tool_end(ToolActivity("1", "terminal", "$ " + "very " * 40 + "long"), ToolResult(""), 1.0)
    line = seen.text().rstrip("\n")
    assert line.endswith("…  1.0 s")
    assert len(line) < 80
