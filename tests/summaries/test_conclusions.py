"""What is told of an exchange in the agent's words: what came of it, and no thought in the middle of the work."""

from __future__ import annotations

import pytest

from clew.ledger import Ledger
from clew.messages import Message
from clew.summaries import Handoff, write_handoff
from clew.summaries.handoff import COMPLETED
from clew.summaries.sentences import closing_sentences, conclusion_of, is_thought, quoted_sentences, sentences_in
from clew.testing import assistant, call, tool, user
from clew.testing.scripted import summary_input_of
from clew.tokens import counter_for

count = counter_for(None).text


def ran(command: str, result: str, id: str, said: str | None = None) -> list[Message]:
    return [assistant(said, [call("terminal", {"command": command}, id)]), tool(id, result)]


def handoff_of(messages: list[Message], budget: int = 2_000) -> Handoff:
    return write_handoff(summary_input_of(messages), budget, count)


def told_of(messages: list[Message], budget: int = 2_000) -> list[list[str]]:
    """The lines of each entry."""
    return [entry.split("\n   ") for entry in handoff_of(messages, budget).lines(COMPLETED)]


LATER = [
    user("Now look after the port."),
    assistant("The port is 8443 in all three environments, as config/prod.toml has it."),
]


def test_an_exchange_ended_where_the_agent_spoke_and_called_nothing() -> None:
    ledger = Ledger.of(
        [
            user("Port the parser."),
            *ran("ls src", "parser.py", "a", "The parser is large."),
            user("Go on."),
            *ran("ls src", "parser.py", "b", "The parser is large."),
            assistant("The parser is ported."),
        ]
    )
    assert [exchange.is_ended for exchange in ledger.exchanges] == [False, True]


def test_a_thought_in_the_middle_of_the_work_is_no_conclusion() -> None:
    messages = [
        user("Port the parser to the new lexer, and commit each step."),
        *ran("git commit -m 'Use Lexer2 in parse()'", "[port 1a2b3c4] Use Lexer2 in parse()\n 1 file changed", "a"),
        *ran("cat src/parser.py | wc -l", "2204", "b", "This is going to be extensive, the constructor is large."),
        *LATER,
    ]
    first = told_of(messages)[0]
    assert first[1] == 'COMMITTED 1a2b3c4 "Use Lexer2 in parse()" (m2)'
    assert not any("extensive" in line for line in first)


def test_a_finding_in_the_middle_of_the_work_tells_an_exchange_that_was_broken_off() -> None:
    messages = [
        user("Why does the theme crash?"),
        *ran("cat nord.json", '{"vars": {}}', "a", "Let me look at the theme file first."),
        *ran(
            "cat loader.ts",
            "throw new Error(name)",
            "b",
            "The crash is because nord.json refers to `dimGray`, which was removed from its vars.",
        ),
        *ran("ls themes", "nord.json", "c", "Instead of patching each theme one by one, let me write a check."),
        *LATER,
    ]
    first = "\n".join(told_of(messages)[0])
    assert '"The crash is because nord.json refers to `dimGray`, which was removed from its vars." (m3)' in first
    assert "one by one" not in first


def test_advice_at_the_end_is_no_conclusion_where_an_answer_stands_before_it() -> None:
    closing = sentences_in(
        "No, this session runs as the user deploy without any rights on the whole machine.\n\n"
        "If you need to run something that requires root access, you can prefix commands with `sudo -u root`. "
        "You can customize what happens when a *new* session is created in ~/.config/session.toml, of course.",
        1,
        lambda _: 0.5,
    )
    told = [one.text for one in conclusion_of(closing, closing, is_ended=True)]
    assert told == ["No, this session runs as the user deploy without any rights on the whole machine."]


def test_a_plan_in_the_middle_of_the_work_tells_an_exchange_that_was_broken_off() -> None:
    messages = [
        user("Read the notes again, they say how to go on from here."),
        *ran(
            "cat notes.md",
            "# Notes",
            "a",
            "Now I see where I am:\n\n1. Create `src/modes/screen.ts` out of `renderer.ts`\n"
            "2. Replace direct access to the agent by methods of the session\n3. Keep the imports as they are",
        ),
        *LATER,
    ]
    assert "1. Create `src/modes/screen.ts` out of `renderer.ts`" in "\n".join(told_of(messages, 220)[0])


def test_a_sentence_that_announces_a_list_stands_with_the_list() -> None:
    messages = [
        user("Write the plan for the port."),
        *ran("touch docs/port.md", "", "a"),
        assistant(
            "Created `docs/port.md`, the whole plan of the port, with:\n\n- the order of the steps\n"
            "- a check for each step\n"
        ),
        *LATER,
    ]
    first = "\n".join(told_of(messages, 260)[0])
    assert "with: - the order of the steps - a check for each step" in first


def test_a_short_answer_that_was_broken_off_is_marked() -> None:
    [told] = closing_sentences("So `ui.invalidate()` is called, which should call `invali", 3, lambda _: 0)
    assert told.text.endswith("`invali…")


def test_short_entries_of_a_list_stand_behind_what_announces_them() -> None:
    closing = sentences_in(
        "I've successfully removed most of the packages of the modem:\n\n- modem-init\n- smstools3\n\nBye now.",
        3,
        lambda _: 0,
    )
    told = [one.text for one in conclusion_of(closing, closing, is_ended=True)]
    assert told == ["I've successfully removed most of the packages of the modem:", "- modem-init", "- smstools3"]


def test_a_short_answer_is_told_whole() -> None:
    messages = [
        user("Which bucket is it?"),
        assistant("acme-eu-1. It stands in config/prod.toml in line 14, and nothing else reads it any more."),
        *LATER,
        *(message for n in range(6) for message in (user(f"Note {n}."), assistant(f"Noted as number {n}, thank you."))),
    ]
    told = "\n".join(told_of(messages, 600)[0])
    assert '"acme-eu-1. It stands in config/prod.toml in line 14, and nothing else reads it any more." (m1)' in told


def test_steps_that_are_named_by_what_is_being_done_are_openings() -> None:
    messages = [
        user("Set the project up."),
        *ran("mkdir tests", "", "a", "Setting up the pytest test suite for all of the modules"),
        *ran("mkdir docs", "", "b", "Now step 2: Create the folder of the documentation with its first page."),
        *LATER,
    ]
    assert not any(line.startswith('"') for line in told_of(messages)[0][1:])


REPORT = """# 🔒 AUDIT REPORT OF THE OFFICE SERVER

**Host:** rack-7

## CRITICAL (act now)

### 🔴 1. **Real-Time Scanner DISABLED**
- **Status:** scanner 4.2, service stopped since 03:12
- **Fix:** `systemctl enable --now scand`

### 🔴 2. **No Password For The Backup Account**
- ports 2179, 2869, 5040 and 8834 answer from outside

## Next Steps

### 3. Weak TLS settings on port 8443
- Review `/etc/ssl/openssl.cnf`, `/etc/ssh/sshd_config` and `/etc/exim4/update-exim4.conf.conf`

Would you like me to fix any of these now?
"""


def test_the_findings_of_a_report_are_its_numbered_headings() -> None:
    told = [one.text for one in conclusion_of(sentences_in(REPORT, 1, lambda _: 0.5), [], is_ended=True)]
    assert told == [
        "🔴 1. **Real-Time Scanner DISABLED**",
        "🔴 2. **No Password For The Backup Account**",
        "3. Weak TLS settings on port 8443",
    ]


def test_a_heading_that_states_an_outcome_is_told_and_one_that_names_a_section_is_not() -> None:
    said = (
        "# ✅ COMMIT SUCCESSFUL - all six reports were pushed\n\n## What Was Committed\n\n1. `01-Audit.md` (241 lines)"
    )
    told = [one.text for one in sentences_in(said, 1, lambda _: 0.5)]
    assert told == ["✅ COMMIT SUCCESSFUL - all six reports were pushed", "1. `01-Audit.md` (241 lines)"]
    best = conclusion_of(sentences_in(said, 1, lambda _: 0.5), [], is_ended=True)
    assert best[0].text == "✅ COMMIT SUCCESSFUL - all six reports were pushed"


def conclusion_in(text: str) -> str:
    closing = closing_sentences(text, 4, lambda _: 0.3)
    return conclusion_of(closing, closing, is_ended=True)[0].text


def test_a_whole_sentence_stands_for_an_answer_and_no_entry_of_its_list_with_many_figures() -> None:
    answer = (
        "Here is the route to depot.example:\n\n1. **10.0.8.1** - ~1 ms - gateway\n"
        "2. **203.0.113.77** - ~27 ms - node-4.depot.example, passed, completed\n\n"
        "The depot is reached in 2 hops, and nothing is lost on the way there."
    )
    assert conclusion_in(answer) == "The depot is reached in 2 hops, and nothing is lost on the way there."


def test_an_answer_that_begins_with_yes_is_told_by_that() -> None:
    answer = (
        "Yes, the depot is reachable from the outside too. It resolved to 203.0.113.77 because node-4 is up and "
        "its port 8443 is open now."
    )
    assert conclusion_in(f"{answer}\n\n" + "The log has more of it. " * 6).startswith("Yes, the depot is reachable")


def test_what_is_labelled_as_the_verdict_is_the_conclusion() -> None:
    answer = (
        "### Option 1: another shell\nCommands would go through the other shell, which has no such errors at all.\n\n"
        "### Option 2: an update\nYour version is recent (2.52.0), but there might be a patch release available.\n\n"
        "**Verdict**: the errors are annoying and prevent nothing.\n\nWhich one would you like me to take?"
    )
    assert conclusion_in(answer) == "**Verdict**: the errors are annoying and prevent nothing."


def test_a_short_sentence_that_says_what_was_done_is_the_conclusion() -> None:
    answer = (
        "Perfect! I've created a rebase script. Here are your instructions:\n\n### Step 1\n"
        "1. **Close ALL windows and conversations** (including this one)\n"
        "2. **Open a shell as administrator**:\n   - ✅ Checks if all processes are closed\n"
    )
    assert conclusion_in(answer) == "I've created a rebase script."


def test_what_was_said_already_does_not_stand_for_the_answer() -> None:
    told = told_of(
        [
            user("Trace the route to depot.example."),
            *ran("traceroute depot.example", "started in the background", "a", "I'll trace the route."),
            assistant("The route has 14 hops, and the depot is hosted by Examplenet in Oregon, 38 ms away."),
            user("<task-notification>\n<task-id>b1</task-id>\n<status>completed</status>\n</task-notification>"),
            assistant("I've already read and analyzed the output above. Is there anything else?"),
            *LATER,
        ]
    )
    assert told[0][1].startswith('"The route has 14 hops, and the depot is hosted by Examplenet')


def test_a_step_that_is_numbered_and_being_done_is_no_finding_on_the_way() -> None:
    said = sentences_in("## 4. Creating the file of requirements", 4, lambda _: 0.3, in_passing=True)
    assert said == []


def test_a_numbered_label_is_told_once_and_as_it_was_written() -> None:
    answer = (
        "I've hardened the shop's repository against secrets that are committed.\n\n#### 1. **Scanner v8.30.0** ✅\n"
        "- Installed by the package manager of this machine\n\n#### 2. **Configuration File** (`.scan.toml`) ✅\n"
        "- Tokens of the forge (PAT, OAuth, App)\n- Detection by entropy (min: 3.5, max: 7.0)\n"
    )
    told = "\n".join("\n".join(lines) for lines in told_of([user("Harden it."), assistant(answer), *LATER]))
    assert "\0" not in told
    assert told.count("2. **Configuration File** (`.scan.toml`) ✅") == 1


def test_yes_in_the_middle_of_the_work_answers_nobody() -> None:
    messages = [
        user("Why does the query crash on proxy models?"),
        *ran("cat query.py", "only_load = None", "a", "Yes, I inserted it before the assignment of only_load."),
        *ran("cat query.py", "x = 1", "b", "The cause is that only_load has no entry for the concrete model: fixed."),
        *ran("cat query.py", "x = 2", "c", "Next I look at the tests."),
    ]
    assert told_of([*messages, *LATER])[0][1].startswith('"The cause is that only_load has no entry')


def test_a_guess_in_the_middle_of_the_work_is_no_conclusion() -> None:
    messages = [
        user("Add the code of the error to the constraints."),
        *ran(
            "cat constraints.py", "x = 1", "a", "I added `code` to both constraints, and the message stays as it was."
        ),
        *ran("cat constraints.py", "x = 1", "b", "I updated `Unique.__init__` earlier, but maybe I reverted it again?"),
        *ran("cat constraints.py", "x = 2", "c", "Next I look at the tests."),
    ]
    assert told_of([*messages, *LATER])[0][1].startswith('"I added `code` to both constraints')


def test_a_label_in_bold_letters_that_is_told_as_a_finding_is_told_once() -> None:
    answer = (
        "Query logging is not enabled now, and the resolver keeps no list of queries by default.\n\n"
        "### **Option 2: Check the missing status only**\n\n- API available at: http://box.example:4005/\n"
        "- The status is only kept until the next restart of the resolver\n"
    )
    said = closing_sentences(answer, 4, lambda _: 0.3)
    assert quoted_sentences(said).count("Option 2: Check the missing status only") == 1


def test_a_label_stands_before_no_sentence_that_has_one_of_its_own() -> None:
    answer = (
        "Lists of blocked names cannot be imported there, in whatever form they are kept.\n\n**Workarounds:**\n\n"
        "```\nimport.sh names.txt\n```\n\n"
        "**Bottom line:** the filter is made for security and does not block what you want blocked.\n"
    )
    told = quoted_sentences(closing_sentences(answer, 4, lambda _: 0.3))
    assert "Workarounds" not in told and "**Bottom line:** the filter is made" in told


def test_numbered_findings_stand_behind_the_heading_of_their_section() -> None:
    answer = (
        "### Code that stands there twice\n\n#### 1. **Handling of the events**\nIn both.\n\n"
        "#### 2. **Handling of the shell commands**\nIn both.\n\n### Names to change\n\n"
        "#### 1. **Renderer of rows is no renderer**\nIt is more."
    )
    told = quoted_sentences([one for one in closing_sentences(answer, 4, lambda _: 0.3) if one.is_finding])
    first, _, second = told.partition("Names to change")
    assert first.startswith('"Code that stands there twice 1. **Handling of the events**')
    assert first.count("Code that stands there twice") == 1
    assert second.startswith(" 1. **Renderer of rows")


def test_bare_entries_of_a_list_stand_behind_what_is_above_it() -> None:
    scripts = "\n".join(f"- gate_{name}_8{row}" for row, name in enumerate(("modem", "tether", "signal", "carrier")))
    answer = (
        "I've removed all that belonged to the modem, and nothing else of the router was changed by it.\n\n"
        f"✓ **Init scripts:**\n{scripts}\n\nShall I remove the module of the kernel too, or leave it?"
    )
    follow = [user("Start gate_tether_81 and gate_signal_82 again."), *ran("start gate_tether_81", "no such", "a")]
    told = "\n".join(
        line for lines in told_of([user("Remove the modem."), assistant(answer), *follow]) for line in lines
    )
    assert "- gate_tether_81" in told
    assert told.index("Init scripts:**") < told.index("- gate_tether_81")


def test_an_entry_of_another_list_does_not_stand_behind_the_label_of_the_first() -> None:
    report = (
        "The repository was looked at in all of its parts, file by file.\n\n**Strengths:**\n- hall_rows_7 (sorted)\n"
        "- hall_gates_8 (sorted)\n\n**Missing:**\n- No file such as hall_owners_9 that names the owners of each hall\n"
        "- hall_keys_10\n"
    )
    explored = [assistant(None, [call("Task", {"description": "Look at the halls"}, "a")]), tool("a", report)]
    messages = [user("Look at the halls."), *explored, assistant("Explored."), user("Add hall_owners_9, hall_keys_10.")]
    told = "\n".join(line for lines in told_of(messages) for line in lines)
    assert "**Strengths:** - hall_rows_7" in told
    assert "**Missing:** - No file such as hall_owners_9" in told


def test_a_number_of_several_entries_of_a_list_ends_no_sentence() -> None:
    route = "**Route**:\n1. **gate** - 1 ms\n8. **border** - 94 ms\n9-11. **No answer** from three hops on the way\n\n"
    closing = f"{route}The site is hosted in Oregon. The trace took 12 hops and reached it in 59 ms."
    messages = [user("Trace the route."), assistant(closing), user("Thanks, and now the other one?")]
    told = "".join(write_handoff(summary_input_of(messages), 2_000, count).lines(COMPLETED))
    assert "9-11. …" not in told and "9-11. **No answer** from three hops" in told


def test_what_the_agent_tells_itself_to_do_next_is_a_thought() -> None:
    thoughts = [
        "Run `verify_tides.py` again.",
        "And update the `super().__init__` call.",
        "Actually, `tide_gates.py` has:",
        "In `src/tide_gates.py`:",
        "Should probably convert the depths that were fixed.",
    ]
    assert all(map(is_thought, thoughts))
    stated = [
        "Yes, `tide_csv` gives a list of stations.",
        "Added the retry to `put`.",
        "Run time is 4 s now.",
        "Check constraints raise `ValidationError` without a code. That is why the form shows nothing.",
    ]
    assert not any(map(is_thought, stated))


@pytest.mark.parametrize(
    "supposed",
    [
        "So the `parcel` SHOULD be in `weighed_boxes` after step 2, which fails now because the error is missing.",
        "Because if I add it in step 1, then step 2 returns the default and the fix needs no error, only `Box`.",
        "If `weigh_box` returns the default, the error is found and fixed because only `Box` needs it.",
        "Suppose the scale returns the default: the missing error is fixed and only `weigh_box` needs the change.",
        '"* The default of `weigh_box` is now `Box`, which fixed the missing error and needs no change."',
    ],
)
def test_what_would_be_so_in_some_case_does_not_stand_for_what_came_of_an_exchange(supposed: str) -> None:
    found = "I fixed `weigh_box`, which now returns the weight of the parcel."
    said = [*sentences_in(found, 3, lambda _: 0.2, in_passing=True), *sentences_in(supposed, 7, lambda _: 0.9)]
    assert [one.text for one in conclusion_of([], said, is_ended=False)] == [found]


@pytest.mark.parametrize(
    "line",
    [
        "The `*` was literally in the file? No, I think I misread what was printed. No, the output I saw earlier:",
        "Wait, if I changed the default of `Box`, then `weigh_box` returns it now.",
    ],
)
def test_a_line_of_thoughts_alone_is_a_thought(line: str) -> None:
    assert is_thought(line)
    assert not is_thought(f"The scale is fixed and returns `Box` now. {line}")
