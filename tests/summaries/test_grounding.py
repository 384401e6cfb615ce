from __future__ import annotations

from clew.ledger import UNVERIFIED_MARK
from clew.messages import Message
from clew.summaries import Handoff, parse_handoff
from clew.summaries.grounding import GroundedHandoff, ground_handoff
from clew.summaries.handoff import BLOCKED, COMPLETED, DECISIONS, FILES, GOAL, RULES, VALUES
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
    source = summary_input_of(HISTORY, task="Go on.", task_number=7, **more)  # type: ignore[arg-type]
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
    assert result.text.startswith('## Active task\n"Go on." (m7)')


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
