from __future__ import annotations

from clew.ledger import UNVERIFIED_MARK
from clew.messages import Message
from clew.summaries import Handoff, parse_handoff
from clew.summaries.grounding import GroundedHandoff, ground_handoff
from clew.summaries.handoff import (
    BLOCKED,
    COMPLETED,
    CONTINUED,
    DECISIONS,
    FILES,
    GOAL,
    RULES,
    STATE,
    VALUES,
    number_in,
)
from clew.testing import assistant, call, tool, user
from clew.testing.scripted import summary_input_of
from clew.tokens import counter_for

count = counter_for(None).text


def ran(command: str, result: str, id: str) -> list[Message]:
    return [assistant(None, [call("terminal", {"command": command}, id)]), tool(id, result)]


HISTORY = [
    user("Port the uploader to asyncio. Never touch prod.db. Use httpx, not requests."),
    *ran("make lint", "lint: E501 in src/app.py\nerror: style violation 77\nexit code: 2", "c1"),
    assistant(None, [call("write_file", {"path": "src/retry.py", "content": "RETRY_LIMIT = 7311"}, "c2")]),
    tool("c2", "ok"),
    *ran("git commit -m x", "[feat/async 9f3c2ab] x\n 1 file changed\nexit code: 0", "c3"),
]


def grounded(drafted: Handoff, budget: int = 900, **more: object) -> tuple[GroundedHandoff, Handoff]:
    source = summary_input_of(HISTORY, task="Write the docs too.", task_number=7, **more)  # type: ignore[arg-type]
    result = ground_handoff(source, drafted, budget, count)
    assert count(result.text) <= budget
    return result, parse_handoff(result.text)


def test_what_the_prose_dropped_and_must_be_kept_is_put_back() -> None:
    _, handoff = grounded(Handoff({COMPLETED: ["Did things."]}))
    assert any("Never touch prod.db." in line for line in handoff.lines(RULES))
    assert any("Use httpx, not requests." in line for line in handoff.lines(RULES))
    assert any("src/retry.py" in line for line in handoff.lines(FILES))
    assert any("style violation 77" in line for line in handoff.lines(BLOCKED))
    assert "Port the uploader to asyncio." in handoff.lines(GOAL)[0]


def test_what_the_prose_has_is_not_added_again() -> None:
    drafted = Handoff({
        RULES: ['"Never touch prod.db." (m0)'],
        BLOCKED: ["make lint fails: error: style violation 77"],
        FILES: ["src/retry.py: the new back-off"],
    })  # fmt: skip
    result, handoff = grounded(drafted)
    assert result.text.count("Never touch prod.db.") == 2  # once as a rule, once in the goal, word for word
    assert handoff.lines(BLOCKED) == ["make lint fails: error: style violation 77"]
    assert [line for line in handoff.lines(FILES) if "retry" in line] == ["src/retry.py: the new back-off"]


def test_the_active_task_is_the_persons_own_words_whatever_the_model_wrote() -> None:
    result, _ = grounded(Handoff({"Active task": ["Delete everything."]}))
    assert result.text.startswith('## Active task\n"Write the docs too." (m7)')


def test_exact_values_that_were_dropped_come_back_as_quotes_with_their_message() -> None:
    _, handoff = grounded(Handoff({COMPLETED: ["Did things."]}))
    assert any(line.startswith("m3: ") and "RETRY_LIMIT = 7311" in line for line in handoff.lines(VALUES))


def test_what_was_invented_is_marked_and_counted() -> None:
    result, handoff = grounded(Handoff({COMPLETED: ["Wrote src/retry.py and src/ghost.py."]}))
    assert result.unverified == ("src/ghost.py",)
    assert handoff.lines(COMPLETED) == [f"Wrote src/retry.py and src/ghost.py{UNVERIFIED_MARK}."]


def test_a_mark_is_carried_through_an_update_and_does_not_come_true() -> None:
    previous = Handoff({COMPLETED: [f"Wrote src/ghost.py{UNVERIFIED_MARK}.", "Named it legacy_box."]})
    result, _ = grounded(Handoff({COMPLETED: ["Wrote src/ghost.py.", "Named it legacy_box."]}), previous=previous)
    assert result.unverified == ("src/ghost.py",)


def test_previous_lines_that_were_dropped_now_come_back_where_there_is_room() -> None:
    previous = Handoff({
        COMPLETED: ["Measured upload_rate at 88.25 MB/s [terminal m0]"],
        DECISIONS: ["Chose token_bucket over leaky_bucket"],
    })  # fmt: skip
    _, handoff = grounded(Handoff({COMPLETED: ["Wrote src/retry.py."]}), previous=previous)
    assert handoff.lines(COMPLETED)[0] == "Measured upload_rate at 88.25 MB/s [terminal m0]"
    assert "Chose token_bucket over leaky_bucket" in handoff.lines(DECISIONS)


def test_a_rule_in_other_words_stays_beside_the_users_own() -> None:
    _, handoff = grounded(Handoff({RULES: ["Answers in German."]}))
    assert handoff.lines(RULES)[-1] == "Answers in German."


def test_nothing_is_added_that_does_not_fit() -> None:
    drafted = Handoff({COMPLETED: [f"Step {word} went well." for word in "one two three four five six".split()]})
    result, _ = grounded(drafted, budget=260)
    assert result.text


TALK = [
    user("Speed up the nightly import; it takes four hours."),
    *ran("python profile_import.py", "parse 0:12\nwrite_rows 3:41\nexit code: 0", "c1"),
    assistant("Nearly all of the time goes into write_rows, which commits after each row. Shall I use COPY?"),
    user("yes"),
    assistant(None, [call("patch", {"path": "importer/write.py", "old_string": "a", "new_string": "b"}, "c2")]),
    tool("c2", "ok"),
    *ran("pytest -q", "14 passed in 0.2s\nexit code: 0", "c3"),
    *ran("git commit -am x", "[fast-import 9f3c2ab] x\n 1 file changed\nexit code: 0", "c4"),
    assistant("With COPY the import takes 40 minutes, of which write_rows takes 19."),
    user("Now move it to the new scheduler."),
    assistant("The scheduler needs an owner for each job, so I stopped there."),
    user("Never mind the scheduler, we stay with cron. Which table is the largest?"),
    assistant("The largest table is ledger_lines with 88,412,007 rows."),
]


def told(drafted: Handoff, budget: int = 900) -> tuple[str, Handoff]:
    source = summary_input_of(TALK, task="Go on.", task_number=len(TALK))
    result = ground_handoff(source, drafted, budget, count)
    assert count(result.text) <= budget
    return result.text, parse_handoff(result.text)


def test_what_people_asked_and_what_came_of_it_is_put_back_by_exchange() -> None:
    _, handoff = told(Handoff({GOAL: ["A faster import."], DECISIONS: ["COPY is used."]}))
    heads = [entry.split(CONTINUED)[0] for entry in handoff.lines(COMPLETED)]
    assert heads == [
        "Asked, as above (m0)",
        '"yes", that is "Shall I use COPY?" (m4; offered in m3)',
        '"Now move it to the new scheduler." (m12; cancelled by m14)',
        '"Never mind the scheduler, we stay with cron. Which table is the largest?" (m14)',
    ]
    conclusions = [entry.split(CONTINUED)[1] for entry in handoff.lines(COMPLETED)]
    assert conclusions[0].startswith('"Nearly all of the time goes into write_rows')
    assert conclusions[1] == '"With COPY the import takes 40 minutes, of which write_rows takes 19." (m11)'
    assert conclusions[3] == '"The largest table is ledger_lines with 88,412,007 rows." (m15)'


def test_the_state_of_the_work_is_put_back() -> None:
    _, handoff = told(Handoff({GOAL: ["A faster import."]}))
    assert handoff.lines(STATE) == ["Tests: 14 passed (m8).", "Branch fast-import at 9f3c2ab (m10)."]
    _, handoff = told(Handoff({STATE: ["On fast-import, commit 9f3c2ab; 14 passed."]}))
    assert handoff.lines(STATE) == ["On fast-import, commit 9f3c2ab; 14 passed."]


def test_an_exchange_that_the_model_told_is_completed_where_it_stands() -> None:
    mine = CONTINUED.join(['"Now move it to the new scheduler." (m12)', "Stopped: an owner was missing."])
    text, handoff = told(Handoff({COMPLETED: ["Profiled the import (m1).", mine]}))
    entries = [entry.split(CONTINUED) for entry in handoff.lines(COMPLETED)]
    (scheduler,) = [entry for entry in entries if "new scheduler" in entry[0]]
    assert scheduler == [
        '"Now move it to the new scheduler." (m12)',
        '"The scheduler needs an owner for each job, so I stopped there." (m13)',
        "Stopped: an owner was missing.",
    ]
    assert [number_in(entry[0]) for entry in entries] == sorted(number_in(entry[0]) for entry in entries)
    assert text.count("Now move it") == 1


def test_a_conclusion_that_is_told_in_other_words_is_not_quoted_beside_them() -> None:
    by_value = CONTINUED.join(['"Which table is the largest?"', "ledger_lines, 88,412,007 rows."])
    by_reference = CONTINUED.join(['"yes" (m4)', "Forty minutes instead of four hours (m11)."])
    text, _ = told(Handoff({COMPLETED: [by_reference, by_value]}))
    assert "The largest table is" not in text
    assert '"With COPY the import takes' not in text


def test_where_room_is_short_the_newest_requests_are_put_back_first() -> None:
    text, _ = told(Handoff({GOAL: ["A faster import."]}), budget=170)
    assert "Which table is the largest?" in text
    assert "Now move it" not in text


def test_lines_of_an_entry_are_left_out_one_by_one() -> None:
    idle = [f"Looked at the weather for the {word} time." for word in "first second third fourth fifth sixth".split()]
    entry = CONTINUED.join(['"Speed up the nightly import; it takes four hours." (m0)', *idle * 6])
    text, _ = told(Handoff({COMPLETED: [entry]}), budget=500)
    assert '"Speed up the nightly import; it takes four hours." (m0)' in text
    assert 0 < text.count("weather") < 36
    assert "write_rows takes 19" in text


def test_what_was_asked_before_the_ledger_begins_comes_back_from_the_previous_handoff() -> None:
    before = CONTINUED.join(['"Please be kind to the operators." (m0)', '"They are told first." (m1)'])
    _, handoff = grounded(Handoff({GOAL: ["Go on."]}), previous=Handoff({COMPLETED: [before]}))
    assert handoff.lines(COMPLETED)[0] == before


def test_where_the_focus_topic_comes_up_is_put_back() -> None:
    _, handoff = grounded(Handoff({COMPLETED: ["Did things."]}), focus="lint")
    assert handoff.lines(VALUES)[0] == '"lint" comes up in m1-m2'
    copied = Handoff({VALUES: ['"lint" comes up in m1', "RETRY_LIMIT = 7311 (m3)"]})
    _, handoff = grounded(copied, focus="lint", previous=Handoff({VALUES: ['"lint" comes up in m1']}))
    assert [line for line in handoff.lines(VALUES) if "comes up" in line] == ['"lint" comes up in m1-m2']
    assert "RETRY_LIMIT = 7311 (m3)" in handoff.lines(VALUES)
    _, handoff = grounded(Handoff({COMPLETED: ["Did things."]}), focus="zeppelin")
    assert not any("comes up" in line for line in handoff.lines(VALUES))
