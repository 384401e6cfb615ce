"""Whose words a user message holds, which of them are rules, and what cancels, continues or chooses."""

from __future__ import annotations

import pytest

from clew.facts import asks_back, person_text, rules_in
from clew.facts.speech import cancels, chosen_option, confirms, continues, forbids, is_thanks

SKILL = "Base directory for this skill: /skills/review\n\n# Review\nAlways be thorough. Never skip a file."


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Fix the upload.", "Fix the upload."),
        ("<system-reminder>\nThe todo list is empty.\n</system-reminder>\nFix the upload.", "Fix the upload."),
        ("<environment_context>\n<cwd>/srv</cwd>\n</environment_context>", ""),
        ("<user_query>\nFix the upload.\n</user_query>", "Fix the upload."),
        (SKILL, ""),
        ("[Request interrupted by user]", ""),
        ("This session is being continued from a previous conversation. Summary: fix it.", ""),
        ("<task-notification>done</task-notification>", ""),
        ("Is `a < b` or `b > a` right?", "Is `a < b` or `b > a` right?"),
        ("Tidy a.py.\n\n<plan-mode>Only reading tools run now.</plan-mode>", "Tidy a.py."),
        ('Tidy a.py.\n\n<file path="docs/rules.md">\nNever use tabs.\n</file>', "Tidy a.py."),
        ('Go.\n<command-output command="git log">\nnever push\n</command-output>', "Go."),
        ("Fix it.\n<agent_notice level=1>\nAlways be brief.\n</agent_notice>", "Fix it."),
        ("<my-widget>\nAlways blue?\n</my-widget>", "<my-widget>\nAlways blue?\n</my-widget>"),
        ("Attached media from tool result:", ""),
        ("(attached media from previous tool call)", ""),
        ("## Context Usage\n**Tokens:** 61.9k / 200k", ""),
        ("Tool call error:\n<error>\nNo calls were found.\n</error>", ""),
        ("<div>Why is this not centred?</div>", "<div>Why is this not centred?</div>"),
    ],
)
def test_what_a_program_put_into_the_user_role_is_not_said_by_the_person(text: str, said: str) -> None:
    assert person_text(text) == said


def test_a_sender_that_is_a_program_is_no_person() -> None:
    assert person_text("Fix the upload.", "hook") == ""


@pytest.mark.parametrize(
    "rule",
    [
        "Never touch prod.db.",
        "Please don't rename public functions.",
        "Use httpx, not requests.",
        "Antworte immer auf Deutsch.",
        "不要改数据库结构。",
        "絶対に main に push しないで。",
    ],
)
def test_rules_are_found_in_any_language(rule: str) -> None:
    assert rules_in(rule) == [rule]


@pytest.mark.parametrize(
    "text",
    [
        "I don't know why it fails.",
        "The button doesn't work.",
        "Never mind.",
        "Add a retry.",
        "Must it be so?",
        "The monthly report never finishes on the box.",
    ],
)
def test_a_description_or_a_question_is_no_rule(text: str) -> None:
    assert rules_in(text) == []


FILLER = "The uploader is old and slow, and the team would like to see it replaced by something better. " * 4


@pytest.mark.parametrize(
    "text",
    [
        "`wspace` and `hspace` do nothing, and the option doesn't change that.",
        "QuerySet.only() crashes after select_related().",
        "I expected the markers of the class, but this only shows those of its base.",
        "LC_ALL: None",
        "+ 15 - **Newlines**: the text must stop at the first newline.",
        '{"message": "Each block must have a result", "code": 400}',
    ],
)
def test_what_a_long_request_describes_or_pastes_is_no_rule(text: str) -> None:
    assert rules_in(f"{FILLER}\n{text}") == []


@pytest.mark.parametrize(
    "rule",
    [
        "Do not modify files below vendor/.",
        "Change the uploader, but don't touch the public functions.",
        "The output must be valid JSON.",
        "Use the new client, without changing its tests.",
        "IMPORTANT: the box has no network at night.",
    ],
)
def test_what_a_long_request_demands_is_a_rule(rule: str) -> None:
    assert rules_in(f"{FILLER}\n{rule}") == [rule]


def test_a_rule_of_a_long_request_has_its_object() -> None:
    [rule] = rules_in(f"{FILLER}The budget for the pilot is 400 euros. Never exceed it.")
    assert "budget for the pilot is 400 euros" in rule and rule.endswith("Never exceed it.")
    [rule] = rules_in(f"{FILLER}Never exceed a budget of 400 euros for the pilot.")
    assert rule == "Never exceed a budget of 400 euros for the pilot."


@pytest.mark.parametrize(
    "text",
    ["Stop that now.", "Stop this now.", "Stop it!", "Never mind, leave it.", "Forget about the scheduler.",
     "Cancel that.", "Drop this.", "算了，不用了。"],
)  # fmt: skip
def test_a_short_request_that_takes_the_last_one_back_cancels_it(text: str) -> None:
    assert cancels(text)


@pytest.mark.parametrize(
    "text",
    ["Please stop the server and start it again.", "Write a test for the stop button.", "Why did it stop?"],
)
def test_other_requests_cancel_nothing(text: str) -> None:
    assert not cancels(text)


@pytest.mark.parametrize("text", ["Stop the dev server on port 3000.", "Drop that test, it is flaky."])
def test_a_request_to_stop_or_drop_a_thing_is_a_request(text: str) -> None:
    assert not cancels(text)


def test_words_to_go_on_and_thanks_ask_for_nothing() -> None:
    assert continues("continue") and continues("继续") and not continues("Continue with the docs: a page per command.")
    assert is_thanks("thanks, great!") and not is_thanks("Great, can you also add a test?")


def test_a_number_chooses_the_option_that_was_offered() -> None:
    offer = "I see two ways:\n1. Keep SQLite\n2. **Move to Postgres**\nWhich one do you want?"
    assert chosen_option("2", offer) == "Move to Postgres"
    assert chosen_option("option 1 and 2", offer) == "Keep SQLite; Move to Postgres"
    assert chosen_option("yes", "All green.\n\nShould I push it?") == "Should I push it?"
    assert chosen_option("yes", "All green.") == ""


def test_the_question_at_the_end_of_a_reply_is_found() -> None:
    assert asks_back("Both of them work, and both are fast enough for this.\nWhich one?") == "Which one?"
    assert asks_back("Why? Because it was slow. It is fast now.") == ""


@pytest.mark.parametrize(
    "text",
    "Keep going!|weiter|continuez|adelante|segue|avanti|ga verder|dalej|дальше|продовжуй|devam|继续|続けて|계속해 줘"
    "|تابع|जारी रखो".split("|"),
)
def test_words_to_go_on_are_known_in_many_languages(text: str) -> None:
    assert continues(text)


def test_a_word_that_only_begins_like_one_to_go_on_is_a_request() -> None:
    assert not continues("Nextcloud is down") and not continues("continuous mode is broken")


def test_short_prohibitions_and_agreements_are_recognised() -> None:
    assert forbids("Do not restart it.") and forbids("не трогай базу") and not forbids("Restart the database.")
    assert confirms("да") and confirms("yes, please") and not confirms("Now add a test.")


def test_a_format_that_a_long_request_sets_is_a_rule() -> None:
    story = "The archive of the museum is large and has many rooms, each with its own catalogue from other years. " * 4
    wanted = "Each entry has the date first, then the shelf, as in 2031-04-05 B7."
    assert rules_in(f"{story}\n{wanted}\nThe rooms are cold.") == [wanted]
