"""What can be read word for word above or below a handoff is not told again in it."""

from __future__ import annotations

from dataclasses import replace

import clew
from clew.messages import Message, text_of
from clew.summaries import Handoff, write_handoff
from clew.summaries.handoff import ACTIVE_TASK, COMPLETED, GOAL
from clew.testing import assistant, call, tool, user
from clew.testing.scripted import summary_input_of
from clew.tokens import counter_for

count = counter_for(None).text

LONG_GOAL = "Move the stock list to the new store. " + "Every shelf keeps its number and its label. " * 20
LABELS = "\n\n".join(
    f"Shelf {shelf} got the label WINTER-{shelf + 13}, and the rows of it were counted." for shelf in range(14, 20)
)
REPLY = "The stock list is in the new store now.\n\n" + LABELS


def ran(command: str, result: str, id: str) -> list[Message]:
    return [assistant(None, [call("terminal", {"command": command}, id)]), tool(id, result)]


def handoff_of(messages: list[Message], *, above: set[int] = frozenset(), kept: set[int] = frozenset()) -> Handoff:  # type: ignore[assignment]
    source = replace(summary_input_of(messages, first=len(above)), above=frozenset(above), kept=frozenset(kept))
    return write_handoff(source, 2_000, count)


def test_a_goal_and_a_task_that_stand_above_are_told_by_their_first_words() -> None:
    work = [
        one for part in range(4) for one in ran(f"./move --shelf {part}", f"shelf {part}: 12 rows moved", f"{part}")
    ]
    folded, above = handoff_of([user(LONG_GOAL), *work]), handoff_of([user(LONG_GOAL), *work], above={0})
    assert len(folded.lines(ACTIVE_TASK)[0]) > 800
    assert above.lines(ACTIVE_TASK)[0].startswith('"Move the stock list to the new store.')
    assert above.lines(ACTIVE_TASK)[0].endswith('…" (m0; whole above)')
    assert len(above.lines(ACTIVE_TASK)[0]) < 340
    later = [user(LONG_GOAL), *work, assistant(REPLY), user("Now the orders, please."), *work]
    assert handoff_of(later, above={0}).lines(GOAL)[0].endswith('…" (m0; whole above)')


def test_a_task_that_is_cut_above_goes_on_where_it_is_cut() -> None:
    halls = [f"Hall {hall} keeps its {hall + 20} shelves, by the door on the north side." for hall in range(10, 40)]
    shown = "\n".join([*halls[:12], "[... 900 chars left out; whole: m0 ...]", *halls[-6:]])
    messages = [user("\n".join(halls)), *ran("./move --all", "212 rows moved", "a")]
    for first, place in ((1, '" (m0; its beginning above)'), (0, '" (m0)')):
        source = replace(summary_input_of(messages, first=first), shortened={0: user(shown)})
        task = write_handoff(source, 2_000, count).lines(ACTIVE_TASK)[0]
        assert task.startswith(f'"{halls[0]} {halls[1][:40]}') and task.endswith(place)
        assert all(hall in task for hall in halls[12:-6])
        # What stands below the handoff is folded one day, and may not be told again then.
        assert any(hall in task for hall in halls[4:12]) is not bool(first)
        assert halls[-1] not in task or not first


def test_what_was_asked_and_answered_above_is_no_completed_action() -> None:
    messages = [user("Where is the stock list?"), assistant("Which of the two stock lists do you mean?")]
    messages += [user("The one of hall 3, and print it."), *ran("lpr hall3.txt", "queued as job 88", "p")]
    messages += [assistant("The list of hall 3 is printed as job 88."), user("Thanks. Now count its rows.")]
    told = handoff_of(messages, above={0, 1, 2}).lines(COMPLETED)
    assert told[0].startswith("Asked above (m2)") and "printed as job 88" in told[0]
    assert "Which of the two stock lists" not in "".join(told)


def test_of_a_reply_that_follows_word_for_word_only_what_came_of_it_is_told() -> None:
    messages = [user("Move the stock list."), *ran("./move", "212 rows", "a"), assistant(REPLY)]
    messages += [user("Now the orders."), *ran("./move --orders", "1,204 rows", "b")]
    reply = messages.index(assistant(REPLY))
    whole, kept = ("".join(handoff_of(messages, kept=own).lines(COMPLETED)) for own in (set(), {reply}))
    assert "Shelf 14 got the label WINTER-27" in whole
    assert whole.count("WINTER-") == 6 and kept.count("WINTER-") == 1
    assert f"(m{reply})" in kept


def test_the_compressor_says_what_stays_above_and_below() -> None:
    work = [one for part in range(60) for one in ran(f"./move --shelf {part}", "rows moved, " * 60, f"{part}")]
    messages = [user(LONG_GOAL), *work[:4], assistant(REPLY * 4), user("Now the orders, please."), *work]
    done = clew.compress(messages, target_tokens=3_000)
    handoff = next(text_of(one) for one in done.messages if "[Clew handoff]" in text_of(one))
    assert any(text_of(one) == LONG_GOAL for one in done.messages)
    assert "; whole above)" in handoff.partition("## Completed")[0]
    assert any(text_of(one).endswith(REPLY * 4) for one in done.messages)
    assert handoff.partition("[End of Clew handoff]")[0].count("WINTER-27") <= 1


def test_a_long_request_that_stood_below_is_told_whole_when_it_is_folded_without_a_record() -> None:
    long = "Now the orders, please. " + " ".join(f"Group {n} goes to hall {n + 3}, door side." for n in range(30))
    moved = [ran(f"./move --shelf {part}", f"rows moved {part}, " * 60, f"{part}") for part in range(60)]
    before = [one for each in moved[:50] for one in each] + [assistant("Moved all of the stock to the new halls.")]
    messages = [user("Move the stock."), *before, user(long), *(one for each in moved[50:] for one in each)]
    first = clew.compress(messages, target_tokens=3_000)
    back = [one for n in range(60) for one in ran(f"./back --shelf {n}", f"rows back {n}, " * 60, f"b{n}")]
    later = [*first.messages, assistant("The orders are moved, all 30 groups."), user("And the returns?"), *back]
    second = clew.compress(later, target_tokens=3_000)
    assert long in (second.summary or "") and "(whole: m" not in (second.summary or "")


def test_of_a_result_that_stays_in_part_only_what_is_not_shown_is_quoted() -> None:
    lines = [f"Shelf {shelf} was counted by the night shift and is in order." for shelf in range(10, 50)]
    shown = "\n".join([*lines[:8], "[... 1,900 chars left out; whole: m2 ...]", *lines[-8:]])
    messages = [user("Read the stock report."), *ran("cat report.txt", "\n".join(lines), "a")]
    source = replace(summary_input_of(messages), shortened={2: tool("a", shown)})
    told = "".join(write_handoff(source, 2_000, count).lines(COMPLETED))
    assert lines[20] in told or "such lines" in told
    assert not [line for line in (*lines[:8], *lines[-8:]) if line in told]


def test_the_tags_of_a_harness_in_what_is_not_shown_are_not_quoted() -> None:
    lines = [f"Shelf {shelf} was counted by {name} and is in order." for shelf, name in enumerate("abcdefghijkl", 10)]
    elided = ["</output_head>", "<elided_chars>", "297 characters elided", "</elided_chars>", "<output_tail>"]
    whole = "\n".join(
        ["<returncode>0</returncode>", "<output_head>", *lines[:6], *elided, *lines[6:], "</output_tail>"]
    )
    shown = "\n".join(
        ["<returncode>0</returncode>", "<output_head>", lines[0], "[... 900 chars left out; whole: m2 ...]"]
    )
    messages = [user("Read the stock report."), *ran("cat report.txt", whole, "a")]
    source = replace(summary_input_of(messages), shortened={2: tool("a", shown)})
    told = "".join(write_handoff(source, 2_000, count).lines(COMPLETED))
    assert lines[7] in told
    assert "output_" not in told
    assert "elided" not in told
