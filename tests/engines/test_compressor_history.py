"""A history as the compressor reads it: repaired, numbered, on record."""

from __future__ import annotations

from clew.engines.compressor.history import HistoryRecord, number_history
from clew.handoff import wrap
from clew.messages import NO_RESULT, Message, repair, text_of
from clew.testing import assistant, call, system, tool, user

SUMMARY = wrap("## Goal\n- Count the boats.", 2, 9, [4])
CALLING = assistant(None, [call("ls", {"path": "src"})])
HISTORY: list[Message] = [
    user("Count the boats."),
    assistant(None, [call("ls", id="c1")]),
    tool("c1", "one boat\n" * 40),
    assistant("One."),
]


def test_numbers_go_on_behind_an_earlier_summary() -> None:
    summary: Message = {"role": "assistant", "content": SUMMARY}
    history = number_history([user("a"), user("b"), summary, user("kept"), assistant("t"), user("u")])
    assert history.numbers == [0, 1, 4, 9, 10]
    assert (history.position, history.first_unread, history.next_number) == (2, 9, 11)
    assert history.has_handoff
    assert [history.repaired_position(position) for position in range(5)] == [0, 1, 3, 4, 5]


def test_numbers_go_on_behind_a_summary_that_was_merged() -> None:
    history = number_history([user("a"), user("b"), assistant(f"{SUMMARY}\n\nkept"), user("u")])
    assert history.messages == [user("a"), user("b"), assistant("kept"), user("u")]
    assert history.numbers == [0, 1, 4, 9]
    assert not history.has_handoff
    assert [history.repaired_position(position) for position in range(4)] == [0, 1, 2, 3]


def test_a_record_takes_in_what_is_new() -> None:
    record = HistoryRecord.of(HISTORY)
    new = [user("And the nets?")]
    assert record.catch_up([*HISTORY, *new], range(5))
    assert record.read(4) is new[0]
    assert [exchange.request for exchange in record.record.exchanges] == ["Count the boats.", "And the nets?"]


def test_pruned_copies_and_equal_ones_are_known_again() -> None:
    record = HistoryRecord.of(HISTORY)
    pruned = [dict(HISTORY[0]), HISTORY[1], tool("c1", "[ls] listed -> 40 lines (whole: m2)"), HISTORY[3]]
    assert record.catch_up(pruned, range(4))  # type: ignore[arg-type]
    assert record.read(2) is HISTORY[2]


def test_a_system_prompt_with_a_note_behind_it_is_known_again() -> None:
    record = HistoryRecord.of([system("Be brief."), *HISTORY])
    assert record.catch_up([system("Be brief.\n\n[a note]"), *HISTORY], range(5))


def test_a_history_whose_call_got_a_stub_is_known_again() -> None:
    waiting = [
        *HISTORY,
        user("And the nets?"),
        assistant(None, [call("ls", id="c2"), call("cat", id="c3")]),
        tool("c2", "a"),
        user("Never mind."),
    ]
    record = HistoryRecord.of(waiting[:5])
    repaired = repair(waiting)
    assert text_of(repaired.messages[-2]) == NO_RESULT
    assert record.catch_up(repaired.messages, repaired.indexes)
    assert record.record.next_number == len(waiting)
    assert record.read(5) is waiting[5]


def test_an_edited_message_is_another_conversation() -> None:
    record = HistoryRecord.of(HISTORY)
    edited = [HISTORY[0], assistant("I will not."), user("Why?"), assistant("I am tired."), user("Rest.")]
    assert not record.catch_up(edited, range(5))
    assert len(record.log) == 4


def test_a_record_of_nothing_knows_nobody() -> None:
    assert not HistoryRecord().catch_up(HISTORY, range(4))
    assert not HistoryRecord.of(HISTORY).catch_up(HISTORY[:2], range(2))


def test_a_number_is_that_of_the_message_as_it_came() -> None:
    messages = [user("a"), tool("never", "x"), CALLING, user("b"), tool("never", "y")]
    repaired = repair(messages)
    history = number_history(repaired.messages, repaired.indexes, len(messages))
    assert [message["role"] for message in history.messages] == ["user", "assistant", "tool", "user"]
    assert list(history.numbers) == [0, 2, 2, 3]  # the stub has the number of its call
    assert history.next_number == 5
    record = HistoryRecord.of(history.messages, history.numbers)
    assert record.read(2) is CALLING
    assert text_of(record.read(1)) == ""
    assert history.following(1) == (2, 2, 3, 5)
    assert number_history(HISTORY).following(1) == ()


def test_numbers_go_on_behind_a_summary_that_names_what_follows() -> None:
    summary = user(wrap("## Goal\n- Count the boats.", 2, 9, [4], (9, 10, 10, 12, 15)))
    behind = [user("kept"), user("m9"), CALLING, tool("c", "stub"), user("m12"), user("m15"), user("m16")]
    history = number_history([user("a"), user("b"), summary, *behind])
    assert history.numbers == [0, 1, 4, 9, 10, 10, 12, 15, 16]
    assert history.next_number == 17
