"""The compressor's rules, one by one."""

from __future__ import annotations

import asyncio
import threading
from collections import UserDict
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest

import clew
from clew.config import CompressionSettings
from clew.engines import Compaction, ContextCompressor, Fate, broken_promises
from clew.handoff import SYSTEM_NOTE, Summary, SummaryInput, unwrap
from clew.messages import NO_RESULT, Message, Part, calls_of, repair, text_of
from clew.testing import assistant, call, system, tool, user
from clew.tokens import count_tokens

WINDOW = 16_000
PROMPT = system("You look after a harbour.")
PICTURE: Part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aaaa"}}


def rounds(count: int, first: int = 0, lines: int = 20) -> list[Message]:
    """Rounds of one call each, nobody speaking in between."""
    messages: list[Message] = []
    for number in range(first, first + count):
        reading = call("read_file", {"path": f"logs/day_{number}.txt"}, id=f"call_{number}")
        text = "".join(f"day {number}, ship {line}: berth {number * 31 + line}, cargo salt\n" for line in range(lines))
        messages += [assistant(None, [reading]), tool(reading["id"], text)]
    return messages


def talk(count: int, first: int = 0) -> list[Message]:
    messages: list[Message] = []
    for number in range(first, first + count):
        messages += [user(f"Which ships came on day {number}?"), *rounds(1, number), assistant(f"Day {number}: salt.")]
    return messages


def compress(engine: ContextCompressor, messages: Sequence[Message], **more: Any) -> Compaction:
    """As a host does it: what was done is in effect."""
    done = asyncio.run(engine.compress(messages, **{"force": True, **more}))
    engine.restore(done.state)
    return done


def summaries_in(messages: Sequence[Message]) -> list[str]:
    return [found.text for message in messages if (found := unwrap(message))]


class Writer:
    """A summariser that remembers its inputs."""

    def __init__(self, text: str = "## Goal\n- Ships.") -> None:
        self.inputs: list[SummaryInput] = []
        self.budgets: list[int] = []
        self.text = text

    async def __call__(self, source: SummaryInput, budget: int) -> Summary:
        self.inputs.append(source)
        self.budgets.append(budget)
        return Summary(self.text, written_by="a fake", template="fake 1")


# -- head and tail -----------------------------------------------------------------------------------------------------


def test_head_and_tail_stay_and_one_summary_stands_between() -> None:
    messages = [PROMPT, *talk(30)]
    done = compress(ContextCompressor(WINDOW), messages)
    assert not broken_promises(messages, done)
    assert done.messages[1] is messages[1]
    assert done.messages[-4:] == messages[-4:]
    assert len(summaries_in(done.messages)) == 1
    assert done.summary is not None and done.summary in text_of(done.messages[4])


def test_the_request_that_is_the_task_stays_word_for_word_in_a_long_run_on_one_prompt() -> None:
    task = user("List every day on which no ship came. Never stop in between.")
    messages = [PROMPT, user("Good morning."), assistant("Good morning."), *talk(2), task, *rounds(300, 10)]
    done = compress(ContextCompressor(WINDOW), messages)
    assert done.messages.index(task) < len(done.messages) - 2
    assert done.tokens_after < done.tokens_before / 10
    assert not broken_promises(messages, done)
    place = done.messages.index(task)
    assert unwrap(done.messages[place - 1]) and calls_of(done.messages[place + 1])


def test_a_task_with_pictures_keeps_them_wherever_it_stands() -> None:
    task = user([{"type": "text", "text": "What is on this chart?"}, PICTURE])
    for before in ([PROMPT], [PROMPT, *talk(4)]):
        done = compress(ContextCompressor(WINDOW), [*before, task, *rounds(60, 10)])
        assert done.changed
        assert task in done.messages


LISTING = "".join(f"berth {number:05}: the tide table of that day\n" for number in range(1_200))


@pytest.mark.parametrize("behind", [0, 2, 60])
@pytest.mark.parametrize("before", [0, 12])
def test_of_a_huge_newest_request_both_ends_stay_and_only_the_last_message_takes_more_than_half(
    before: int, behind: int
) -> None:
    task = user(f"Read all of this.\n{LISTING}Which berth is missing?")
    messages = [PROMPT, *talk(before), task, *rounds(behind, 20)]
    engine = ContextCompressor(WINDOW)
    done = compress(engine, messages)
    kept = next(text_of(message) for message in done.messages if "Which berth is missing?" in text_of(message))
    number = messages.index(task)
    assert kept.startswith("Read all of this.") and f"chars left out; whole: m{number}" in kept
    assert not broken_promises(messages, done)
    is_last = behind == 0
    assert (count_tokens([user(kept)]) > engine.threshold_tokens // 2 + 20) is is_last
    assert done.tokens_after < 0.9 * engine.threshold_tokens
    assert any(
        f"m{number}, one of the newest messages, has {len(text_of(task)):,} chars" in warning
        for warning in done.warnings
    )


def test_the_task_stays_where_a_program_wrote_the_newest_user_message() -> None:
    task, demand = (
        "Mend the tide table of the harbour.",
        "Please always provide EXACTLY ONE action in triple backticks, found 2 actions.",
    )
    messages = [user(task), *rounds(3), user(demand), *rounds(60, 3)]
    done = clew.compress(messages, target_tokens=3_000)
    assert any(text_of(message).endswith(task) for message in done.messages)
    assert demand not in (done.summary or "")


def test_a_huge_newest_listing_does_not_starve_the_rest() -> None:
    listing = [assistant(None, [call("terminal", {"command": "ls -lR"}, id="ls")]), tool("ls", LISTING)]
    messages = [PROMPT, *talk(20), user("List everything."), *listing]
    done = clew.compress(messages, target_tokens=4_000)
    assert done.tokens_after <= 4_000
    last = text_of(done.messages[-1])
    assert last.startswith("berth 00000") and "berth 01199" in last and "chars left out" in last
    assert count_tokens([done.messages[-1]]) < 2_000
    assert done.summary is not None and '"Which ships came on day 9?" (m36)' in done.summary
    assert any("one of the newest messages" in warning for warning in done.warnings)


def test_of_a_huge_newest_call_the_warning_names_its_arguments() -> None:
    calls = [call("write_file", {"path": "tides.txt", "content": LISTING}, id="w")]
    for end in ([], [tool("w", "written")]):
        messages = [PROMPT, *talk(20), user("Write them down."), assistant(None, calls), *end]
        done = clew.compress(messages, target_tokens=4_000)
        [told] = [warning for warning in done.warnings if "one of the newest messages" in warning]
        chars = len(calls[0]["function"]["arguments"])
        assert f"has calls with {chars:,} chars of arguments. Long arguments are shortened" in told
        assert "beginning" not in told


def test_of_a_huge_newest_result_that_became_a_line_the_warning_says_so() -> None:
    calls = [call("terminal", {"command": f"cat {name}"}, id=name) for name in "abcdefgh"]
    messages = [*talk(20), user("Read all."), assistant(None, calls), *(tool(name, LISTING) for name in "abcdefgh")]
    done = clew.compress(messages, target_tokens=2_000)
    told = [warning for warning in done.warnings if "one of the newest messages" in warning]
    lines = [message for message in done.messages[-8:] if text_of(message).startswith("[terminal] ran")]
    assert lines and len([warning for warning in told if "One line says what it was" in warning]) == len(lines)


def test_nobody_is_told_of_a_cut_where_none_was_made() -> None:
    done = clew.compress([PROMPT, *talk(30)], target_tokens=4_000)
    assert not any("one of the newest" in warning for warning in done.warnings)


def test_older_long_messages_of_the_head_are_cut_to_its_share() -> None:
    long = user("Welcome. " + "The tide tables of the last years are here. " * 900)
    done = compress(ContextCompressor(WINDOW), [PROMPT, long, assistant("Thanks."), *talk(30)])
    assert "chars left out; whole: m1" in text_of(done.messages[1])
    assert done.fates[1] is Fate.PRUNED


def test_a_pruned_result_in_the_head_does_not_cost_the_request_before_it() -> None:
    first = user("Please " + "count all the ships carefully and then tell me. " * 20)
    messages = [PROMPT, first, *rounds(1, 0, lines=900), *talk(30, 1)]
    done = compress(ContextCompressor(WINDOW), messages)
    assert done.messages[1] is first
    assert done.messages[3]["content"] == '[read_file] read "logs/day_0.txt" -> 901 lines (whole: m3)'


def test_the_newest_reply_that_a_person_saw_stays() -> None:
    reply = assistant("So far: forty ships, all with salt.")
    messages = [PROMPT, *talk(4), user("Go on."), *rounds(3, 50), reply, *rounds(80, 60)]
    done = compress(ContextCompressor(WINDOW), messages)
    assert reply in done.messages and user("Go on.") in done.messages


def test_a_system_message_in_the_middle_stays() -> None:
    later = system("From now on the harbour is closed at night.")
    messages = [PROMPT, *talk(10), later, *talk(20, 10)]
    done = compress(ContextCompressor(WINDOW), messages)
    assert later in done.messages
    again = compress(ContextCompressor(WINDOW), [*done.messages, *talk(20, 40)])
    assert later in again.messages


def test_parallel_calls_and_thinking_stay_together() -> None:
    messages: list[Message] = [PROMPT, user("Compare.")]
    for number in range(30):
        ids = [f"p{number}_{place}" for place in range(4)]
        thought: Part = {"type": "thinking", "thinking": f"step {number}", "signature": f"s{number}"}
        calling = assistant(None, [call("read", {"path": id}, id=id) for id in ids])
        messages += [{**calling, "reasoning": [thought]}, *(tool(id, "salt and rope\n" * 30) for id in ids)]
    for last in range(1, 12):
        settings = CompressionSettings(protect_last_n=last, protect_first_n=last)
        done = compress(ContextCompressor(WINDOW, settings=settings), messages)
        assert not repair(done.messages).repairs
        assert all(message.get("reasoning") for message in done.messages if calls_of(message))


def test_large_results_of_a_tail_over_its_budget_are_pruned_the_newest_last() -> None:
    messages = [PROMPT, *talk(10), user("Now the big ones."), *rounds(4, 100, lines=60)]
    done = compress(ContextCompressor(WINDOW), messages)
    tail = [text_of(message) for message in done.messages if message["role"] == "tool"][-4:]
    assert tail[-1] == text_of(messages[-1])
    assert tail[0].startswith('[read_file] read "logs/day_100.txt" -> 61 lines')


def test_where_nothing_can_be_folded_a_huge_result_is_pruned_all_the_same() -> None:
    messages = [PROMPT, user("Read it."), *rounds(1, lines=3_000)]
    engine = ContextCompressor(WINDOW)
    assert not engine.has_content_to_compress(messages)
    done = compress(engine, messages)
    assert (done.changed, done.summary) == (True, None)
    # The model is about to read it: it may use what is free of the threshold.
    assert 0.75 * engine.threshold_tokens < done.tokens_after < 0.9 * engine.threshold_tokens
    assert [str(fate) for fate in done.fates] == ["kept", "kept", "kept", "pruned"]
    assert not compress(engine, done.messages).changed


# -- the summariser ----------------------------------------------------------------------------------------------------


def test_the_summariser_reads_originals_not_what_was_pruned() -> None:
    writer = Writer()
    messages = [PROMPT, *talk(8), user("Now the big ones."), *rounds(12, 100, lines=80)]
    done = compress(ContextCompressor(WINDOW, summarize=writer), messages)
    [source] = writer.inputs
    assert Fate.PRUNED in done.fates
    assert [source.read(number) for number in range(source.last)] == messages[: source.last]
    assert (source.first, source.last) == done.numbers
    assert all(source.read(number) is messages[number] for number in source.shortened)
    assert (source.task, source.task_number) == ("Now the big ones.", messages.index(user("Now the big ones.")))


def test_what_was_pruned_beside_the_summary_may_be_quoted_in_it() -> None:
    writer = Writer()
    messages = [PROMPT, user("Read."), *rounds(1, 0, lines=90), *talk(30, 1)]
    compress(ContextCompressor(WINDOW, summarize=writer), messages)
    assert 3 in writer.inputs[0].shortened


def test_the_budget_of_a_summary_is_that_of_its_window() -> None:
    writer = Writer()
    compress(ContextCompressor(200_000, summarize=writer), [PROMPT, *talk(300)])
    assert 2_000 <= writer.budgets[0] <= 10_000


def test_a_focus_topic_reaches_the_summariser() -> None:
    writer = Writer()
    compress(ContextCompressor(WINDOW, summarize=writer), [PROMPT, *talk(30)], focus_topic="the salt")
    assert writer.inputs[0].focus == "the salt"


# -- assembling --------------------------------------------------------------------------------------------------------


def test_the_system_prompt_gets_its_note_once_however_often() -> None:
    engine, view = ContextCompressor(WINDOW), [PROMPT, *talk(30)]
    for number in range(4):
        view = [*compress(engine, view).messages, *talk(20, 100 * (number + 1))]
        assert text_of(view[0]).count(SYSTEM_NOTE) == 1
        assert text_of(view[0]).startswith(text_of(PROMPT))


def test_without_a_system_prompt_there_is_no_note() -> None:
    done = compress(ContextCompressor(WINDOW), talk(30))
    assert SYSTEM_NOTE not in "".join(map(text_of, done.messages))
    assert done.messages[0]["role"] == "user"


@pytest.mark.parametrize("first", range(6))
@pytest.mark.parametrize("last", [1, 2, 3, 4])
def test_no_role_is_repeated_around_the_summary(first: int, last: int) -> None:
    settings = CompressionSettings(protect_first_n=first, protect_last_n=last, target_ratio=0.10)
    messages = [PROMPT, *talk(30)]
    done = compress(ContextCompressor(8_000, settings=settings), messages)
    place = next(place for place, message in enumerate(done.messages) if unwrap(message))
    around = [message["role"] for message in done.messages[max(0, place - 1) : place + 2]]
    assert all(one != other for one, other in pairwise(around))
    assert not broken_promises(messages, done)


def test_a_result_that_would_not_be_smaller_changes_nothing() -> None:
    messages = [PROMPT, *talk(30)]
    engine = ContextCompressor(WINDOW, summarize=Writer("## Goal\n" + "- more and more words\n" * 9_000))
    done = compress(engine, messages)
    assert not done.changed
    assert done.messages is messages
    assert done.tokens_after == done.tokens_before
    assert "would not be smaller" in done.warnings[0]
    assert engine.get_status().compactions == 0


def test_the_account_tells_tokens_numbers_and_who_wrote_it() -> None:
    messages = [PROMPT, *talk(30)]
    done = compress(ContextCompressor(WINDOW, summarize=Writer()), messages)
    assert (done.written_by, done.template) == ("a fake", "fake 1")
    assert done.replaced == done.numbers
    assert done.tokens_before == sum(count_tokens([message]) - count_tokens([]) for message in messages)


def test_a_window_below_2000_is_served_with_a_warning() -> None:
    done = compress(ContextCompressor(1_500), [PROMPT, *talk(30)])
    assert done.changed
    assert any("A window of 1,500 tokens" in warning for warning in done.warnings)


# -- the value ---------------------------------------------------------------------------------------------------------


def test_a_compaction_says_which_message_is_the_summary_and_what_it_covers() -> None:
    messages = [PROMPT, *talk(30)]
    done = compress(ContextCompressor(WINDOW), messages)
    [summary] = done.summaries
    assert summary.text == done.summary and unwrap(summary.message) is not None
    assert any(message is summary.message for message in done.messages)
    assert summary.covers == tuple(range(*done.replaced))
    for index, after in enumerate(done.messages_after):
        assert (after is None) == (index in summary.covers)


def test_the_tokens_after_are_those_of_the_result_and_of_what_stood_beside_it() -> None:
    stray = tool("never_called", "x" * 900)
    for messages in ([PROMPT, *talk(30)], [PROMPT, *talk(20), stray, *talk(10, 40), assistant(None, [call("a")])]):
        engine = ContextCompressor(WINDOW)
        done = compress(engine, messages, current_tokens=engine.size_of(messages) + 1_234)
        assert done.tokens_after == engine.size_of(done.messages) + 1_234


def test_neither_a_preview_nor_a_dropped_compaction_leaves_a_trace() -> None:
    messages = [PROMPT, *talk(30)]
    engine, untouched = ContextCompressor(WINDOW), ContextCompressor(WINDOW)
    engine.preview(messages)
    asyncio.run(engine.compress(messages, force=True))
    assert engine.state == untouched.state and engine.get_status() == untouched.get_status()
    assert compress(engine, messages).messages == compress(untouched, messages).messages


# -- fates -------------------------------------------------------------------------------------------------------------


def test_every_message_has_one_fate_and_the_prompt_counts_as_kept() -> None:
    messages = [PROMPT, *talk(30)]
    done = compress(ContextCompressor(WINDOW), messages)
    first, last = done.replaced
    assert len(done.fates) == len(messages)
    assert done.fates[0] is Fate.KEPT
    assert set(done.fates[first:last]) == {Fate.SUMMARISED}
    assert Fate.SUMMARISED not in (*done.fates[:first], *done.fates[last:])


def test_what_a_repair_left_out_is_removed_and_what_it_mended_has_its_own_fate() -> None:
    orphan, mended = tool("never_called", "x" * 900), {"role": "assistant", "content": None}
    messages: list[Any] = [PROMPT, *talk(10), orphan, mended, *talk(10, 20), orphan, *talk(10, 40)]
    done = compress(ContextCompressor(WINDOW), messages)
    removed = [place for place, fate in enumerate(done.fates) if fate is Fate.REMOVED]
    assert removed == [place for place, message in enumerate(messages) if message is orphan]
    assert done.fates[messages.index(mended)] is Fate.SUMMARISED
    assert done.fates[-1] is Fate.KEPT
    assert any("message 41: a result for 'never_called'" in warning for warning in done.warnings)


def test_calls_that_are_still_open_at_the_end_stay_open() -> None:
    calls = [call("read_file", id="done"), call("read_file", id="open")]
    messages = [PROMPT, *talk(30), user("Once more."), assistant(None, calls), tool("done", "a page")]
    for end in (len(messages) - 1, len(messages)):
        done = compress(ContextCompressor(WINDOW), messages[:end])
        assert done.changed
        assert done.messages[-1] is messages[end - 1]
        assert done.fates[-1] is Fate.KEPT
        assert not any("repaired" in warning for warning in done.warnings)


def test_a_call_that_was_left_open_before_the_end_gets_a_stub() -> None:
    opened = assistant(None, [call("read_file", id="open")])
    done = compress(ContextCompressor(WINDOW), [PROMPT, *talk(30), opened, user("Leave it."), assistant("Yes.")])
    assert tool("open", NO_RESULT) in done.messages


def test_a_message_that_takes_the_summary_in_counts_as_kept() -> None:
    settings = CompressionSettings(protect_first_n=0, target_ratio=0.10)
    messages = [PROMPT, *talk(30)]
    done = compress(ContextCompressor(WINDOW, settings=settings), messages)
    taken = next(found.message for message in done.messages if (found := unwrap(message)))
    assert taken is not None
    assert done.fates[messages.index(taken)] is Fate.KEPT


def test_an_earlier_summary_is_folded_into_the_next() -> None:
    engine = ContextCompressor(WINDOW)
    view = [*compress(engine, [PROMPT, *talk(30)]).messages, *talk(20, 100)]
    place = next(place for place, message in enumerate(view) if unwrap(message))
    done = compress(engine, view)
    assert done.fates[place] is Fate.SUMMARISED
    assert done.replaced[0] == place


# -- settings ----------------------------------------------------------------------------------------------------------


def test_compression_that_is_switched_off_never_fires_by_itself() -> None:
    engine = ContextCompressor(WINDOW, settings=CompressionSettings(enabled=False))
    assert not engine.should_compress(WINDOW)
    assert compress(engine, [PROMPT, *talk(30)]).changed


def test_another_model_counts_anew() -> None:
    engine, messages = ContextCompressor(WINDOW, model="gpt-4o"), talk(5)
    as_gpt = engine.size_of(messages)
    engine.update_model("claude-opus-4-5", WINDOW)
    assert engine.size_of(messages) != as_gpt
    assert engine.size_of(messages) == ContextCompressor(WINDOW, model="claude-opus-4-5").size_of(messages)


def test_a_preview_comes_true() -> None:
    engine, messages = ContextCompressor(WINDOW), [PROMPT, *talk(30)]
    foreseen = engine.preview(messages)
    done = compress(engine, messages)
    assert foreseen.would_fold and foreseen.tokens_before == done.tokens_before
    assert done.tokens_after <= foreseen.tokens_after
    folded = [number for number, where in zip(foreseen.numbers, foreseen.regions, strict=True) if where == "folded"]
    assert folded == [index for index, fate in enumerate(done.fates) if fate is Fate.SUMMARISED]
    assert [type(item) for item in foreseen.items] == [type(item) for item in done.items]
    assert list(foreseen.regions) == list(done.regions)


async def test_a_person_who_insists_gets_a_short_conversation_shorter_and_then_it_stays() -> None:
    long = "The importer reads one file after the other and writes what it found. " * 20
    history = [user("Import it."), *(say(f"{n} {long}") for n in range(12) for say in (assistant, user))]
    engine = ContextCompressor(200_000)
    assert not (await engine.compress(history)).changed
    done = await engine.compress(history, force=True)
    assert done.changed
    assert done.messages[-1] is history[-1]
    assert not (await engine.compress(done.messages, force=True)).changed


async def test_what_takes_long_is_computed_where_the_host_says() -> None:
    threads: set[int] = set()

    class Watched(UserDict[str, Any]):
        def keys(self) -> Any:
            threads.add(threading.get_ident())
            return super().keys()

    engine = ContextCompressor(WINDOW, compute=asyncio.to_thread)
    history: list[Any] = [Watched(message) for message in talk(40)]
    done = await engine.compress(history, force=True)
    assert done.messages == (await ContextCompressor(WINDOW).compress(talk(40), force=True)).messages
    assert threads and threading.get_ident() not in threads


async def test_messages_that_arrive_during_a_compaction_are_read_after_it() -> None:
    first, arriving = talk(40), talk(3, 40)
    waiting = [arriving]

    async def compute(function: Callable[..., Any], *arguments: Any) -> Any:
        if waiting:
            engine.observe(waiting.pop())
        return function(*arguments)

    engine, other = ContextCompressor(WINDOW, compute=compute), ContextCompressor(WINDOW)
    for it in (engine, other):
        it.observe(first)
    done, same = await engine.compress(first, force=True), await other.compress(first, force=True)
    other.observe(arriving)
    assert done.messages == same.messages
    again = [await it.compress([*done.messages, *arriving], force=True) for it in (engine, other)]
    assert again[0].messages == again[1].messages
