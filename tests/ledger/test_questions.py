"""Questions that an agent puts to a person with a tool: what was answered, and what a short answer chose."""

from __future__ import annotations

from clew.ledger import Ledger
from clew.messages import Message
from clew.summaries import write_handoff
from clew.summaries.handoff import ACTIVE_TASK, COMPLETED, RULES
from clew.testing import assistant, call, tool, user
from clew.testing.scripted import summary_input_of
from clew.tokens import counter_for

QUESTION = {
    "question": "Where shall the repository lie?",
    "header": "Folder",
    "options": [
        {"label": "~/Projects/shop", "description": "Beside the others"},
        {"label": "~/Developer/shop", "description": "Where Xcode looks"},
    ],
}


def asked(result: str, **arguments: object) -> list[Message]:
    return [assistant(None, [call("AskUserQuestion", arguments or {"questions": [QUESTION]}, "q")]), tool("q", result)]


def test_a_short_answer_chooses_of_what_a_call_had_offered() -> None:
    messages = [
        user("Make a repository."),
        assistant("I can do that."),
        *asked("The user doesn't want to proceed with this tool use. STOP what you are doing."),
        user("2"),
    ]
    last = Ledger.of(messages).exchanges[-1]
    assert last.chosen == "~/Developer/shop: Where Xcode looks"
    handoff = write_handoff(summary_input_of(messages), 2_000, counter_for(None).text)
    chosen = '"2", that is "~/Developer/shop: Where Xcode looks" (m4; offered in m2)'
    assert handoff.lines(ACTIVE_TASK) == [chosen]


def test_options_may_be_plain_texts() -> None:
    messages = [
        user("Make a repository."),
        *asked("(cancelled)", question="Which licence?", options=["MIT", "Apache 2.0"]),
        user("the first one"),
    ]
    assert Ledger.of(messages).exchanges[-1].chosen == "MIT"


def test_of_several_questions_a_number_chooses_none() -> None:
    messages = [user("Go."), *asked("(cancelled)", questions=[QUESTION, QUESTION]), user("2")]
    assert Ledger.of(messages).exchanges[-1].chosen == ""


def test_what_a_person_answered_to_a_call_is_told_with_the_question() -> None:
    messages = [
        user("Make a repository."),
        *asked(
            'User has answered your questions: "Where shall the repository lie?"="~/Developer/shop", '
            '"Which branch?"="trunk, and never push to it". You can now continue with the user\'s answers in mind.'
        ),
        assistant("The repository is made in ~/Developer/shop with the branch trunk."),
        *(
            message
            for n in range(12)
            for message in (user(f"Note {n}."), assistant(f"Noted as number {n}, thank you."))
        ),
        user("Go on."),
    ]
    handoff = write_handoff(summary_input_of(messages), 900, counter_for(None).text)
    told = (
        'ASKED "Where shall the repository lie?" -> "~/Developer/shop" · '
        '"Which branch?" -> "trunk, and never push to it" (m2)'
    )
    assert told in "\n".join(handoff.lines(COMPLETED))
    assert "You can now continue" not in handoff.render()
    assert handoff.lines(RULES) == ['"trunk, and never push to it" (m2)']


def test_an_answer_in_plain_words_is_told_too() -> None:
    messages = [
        user("Make a repository."),
        *asked("MIT, as always", question="Which licence?"),
        assistant("It has the licence MIT now, in a file of its own."),
        user("Go on."),
    ]
    handoff = write_handoff(summary_input_of(messages), 900, counter_for(None).text)
    assert 'ASKED "Which licence?" -> "MIT, as always" (m2)' in "\n".join(handoff.lines(COMPLETED))
