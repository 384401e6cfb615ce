"""How an exchange is told: sentences, deeds, and what a short output says."""

from __future__ import annotations

import pytest

from clew.ledger import Ledger
from clew.messages import Message
from clew.summaries.deeds import brief_target, deeds_of
from clew.summaries.exchanges import LEAST_REQUEST_CHARS, HandoffMaterial
from clew.summaries.sentences import closing_sentences, quoted_sentences, sentences_in
from clew.testing import assistant, call, tool, user
from clew.testing.scripted import summary_input_of


def ran(command: str, result: str, id: str) -> list[Message]:
    return [assistant(None, [call("terminal", {"command": command}, id)]), tool(id, result)]


def said(text: str) -> list[str]:
    return [one.text for one in sentences_in(text, 4, lambda _: 0.5)]


def worth(text: str) -> float:
    [one] = sentences_in(text, 4, lambda _: 0.5)
    return one.worth


def test_sentences_and_list_items_are_whole_and_headings_and_code_are_none() -> None:
    text = """## What I did
**Summary**
The retry now waits 0.5 s, doubling to 8 s. It matches the gateway's Retry-After!
- `put()` keeps its signature, as you asked
```python
this_is_code_and_no_sentence_at_all(1, 2, 3)
```
---
`★ Insight ─────────────────────`
ok."""
    assert said(text) == [
        "The retry now waits 0.5 s, doubling to 8 s.",
        "It matches the gateway's Retry-After!",
        "- `put()` keeps its signature, as you asked",
    ]


def test_a_list_that_begins_a_text_keeps_its_first_number() -> None:
    told = said("1. Hotel Borges in Chiado, 118 euros a night\n2. Casa do Jasmim in Estrela, 96 euros a night")
    assert told == ["1. Hotel Borges in Chiado, 118 euros a night", "2. Casa do Jasmim in Estrela, 96 euros a night"]


def test_sentences_in_chinese_end_where_they_end() -> None:
    first = "上传模块现在是异步的，所有的接口都保持不变，测试也全部通过了。"
    second = "重试的等待时间从半秒开始加倍，最多八秒为止，与网关的要求一致！"
    assert said(first + second) == [first, second]


def conclusion(text: str) -> float:
    [one] = sentences_in(text, 4, lambda _: 0.5)
    return one.conclusion


def test_openings_are_not_told_but_what_the_agent_was_about_to_do_last() -> None:
    for opening in ("Let me check the retry once more now.", "Now fix the tests of the retry, all of them:"):
        assert sentences_in(opening, 4, lambda _: 0.5) == []
        assert closing_sentences(opening, 4, lambda _: 0.5) == []
        [one] = closing_sentences(opening, 4, lambda _: 0.5, is_newest=True)
        assert one.text == opening


def test_a_question_is_worth_less_than_its_answer() -> None:
    assert worth("The bucket is named in config/prod.toml, line 14.") > worth(
        "Is the bucket named in some of the files?"
    )


def test_a_conclusion_states_what_came_of_the_work_and_is_no_item_of_a_list() -> None:
    stated = conclusion("The cause was a missing await, and it is fixed now.")
    assert stated > conclusion("- **Build:** 26200.7462, fDenyTSConnections 1, EventID 4688, port 5040")
    assert stated > conclusion("These are still vibrant, but not too much so for the eye.")
    assert stated > conclusion("I have changed these files in the course of the work:")


def test_a_sentence_that_was_broken_off_is_marked() -> None:
    def last(text: str) -> str:
        return sentences_in(text, 4, lambda _: 0.5)[-1].text

    assert last("It is done. So `this.ui.invalidate()` is called, which should call `invali").endswith("`invali…")
    assert last("It is done. The retry now waits for the gateway and then goes").endswith("goes…")
    item = "- the retry of the uploader, with its tests"
    assert last(f"These were changed:\n{item}") == item


def test_sentences_of_a_message_are_one_quote_with_what_is_left_out_marked() -> None:
    first, second, third = sentences_in(
        "The retry waits 0.5 s at first. It doubles up to 8 s each time. It gives up after six tries.", 4, lambda _: 0
    )
    assert quoted_sentences([second, first]) == (
        '"The retry waits 0.5 s at first. It doubles up to 8 s each time." (m4)'
    )
    assert quoted_sentences([third, first]) == '"The retry waits 0.5 s at first. … It gives up after six tries." (m4)'


def deeds(*messages: Message) -> list[str]:
    return deeds_of(Ledger.of(messages).actions)


def test_like_runs_are_one_line_with_their_count_and_how_the_last_ended() -> None:
    failing = "FAILED tests/test_up.py::test_retry\n1 failed in 0.1s\n[exit 1]"
    passing = "16 passed in 0.2s\n[exit 0]"
    assert deeds(*ran("pytest -q", failing, "a"), *ran("pytest -q", failing, "b"), *ran("pytest -q", passing, "c")) == [
        "RAN pytest -q: 3 runs, 2 failed, the last exit 0, 16 passed (m4)"
    ]


def test_a_command_that_failed_again_and_again_is_told_with_its_error_and_one_that_failed_once_as_tried() -> None:
    failing = "fatal: no such host\n[exit 128]"
    assert deeds(*ran("make deploy", failing, "a"), *ran("ls", "a.py", "b"), *ran("make deploy", failing, "c")) == [
        "RAN make deploy: 2 runs, 2 failed, the last exit 128, 2 lines: fatal: no such host (m4)"
    ]
    assert deeds(*ran("make deploy", failing, "a"), *ran("ls", "a.py", "b")) == []
    assert deeds(*ran("./hang", "[exit 137]", "a"), *ran("./hang", "[exit 137]", "b")) == []


def test_what_went_well_in_the_end_and_a_look_for_what_is_not_there_are_no_deeds() -> None:
    failing, passing = "error: busy\n[exit 1]", "done\nall of it\n[exit 0]"
    assert deeds(*ran("make all", failing, "a"), *ran("make all", passing, "b")) == []
    assert deeds(*ran("ls /etc/init.d/x", "ls: /etc/init.d/x: No such file or directory\n[exit 1]", "a")) == []


def test_changes_are_one_line_and_a_change_that_failed_is_none() -> None:
    def patch(id: str, result: str) -> list[Message]:
        arguments = {"path": "src/a.py", "old_string": "a", "new_string": "b\nc"}
        return [assistant(None, [call("patch", arguments, id)]), tool(id, result)]

    wrote = [assistant(None, [call("write_file", {"path": "src/b.py", "content": "x"}, "w")]), tool("w", "ok")]
    assert deeds(*patch("a", "ok"), *wrote) == ["CHANGED src/a.py +2 -1 (m0) · WROTE src/b.py +1 (m2)"]
    assert deeds(*patch("a", "ok"), *patch("b", "ok")) == ["CHANGED src/a.py (2x, m0-m2)"]
    at_once = [call for one in (*patch("a", "ok"), *patch("b", "ok")) for call in one.get("tool_calls", ())]
    both = [assistant(None, at_once), tool("a", "ok"), tool("b", "ok")]
    assert deeds(*both) == ["CHANGED src/a.py (2x, m0)"]
    assert deeds(*patch("a", "Error: old_string was not found")) == []


def test_changes_of_one_kind_have_one_verb_and_files_that_ended_alike_stand_together() -> None:
    def wrote(path: str, id: str) -> list[Message]:
        return [assistant(None, [call("write_file", {"path": path, "content": "x"}, id)]), tool(id, "ok")]

    assert deeds(*wrote("a.py", "a"), *wrote("b.py", "b"), *ran("mv c.py d.py e.py lib/", "", "c")) == [
        "WROTE a.py +1 (m0), b.py +1 (m2) · MOVED c.py, d.py, e.py to lib/ (m4)"
    ]


def test_a_script_that_begins_with_a_remark_is_told_by_it() -> None:
    assert (
        brief_target("# Fix the imports of the parser\nsed -i 's/a/b/' parser.py") == "# Fix the imports of the parser"
    )


def test_a_target_is_told_by_the_end_of_a_path_and_the_start_of_a_command() -> None:
    assert brief_target("/home/me/work/src/uploader.py") == "…/src/uploader.py"
    assert brief_target("C:\\work\\me\\src\\uploader.py") == "…\\src\\uploader.py"
    assert brief_target("cd /home/me && pytest -q") == "pytest -q"
    assert len(brief_target("echo " + "word " * 90)) <= 60


def test_a_secret_that_a_cut_would_halve_is_taken_out_before() -> None:
    secret = "gh" + "p_" + "Ab1" * 12
    assert secret[:8] not in brief_target(f"curl --max-time 9 --silent -H 'Token: {secret}' https://example.org")


def test_what_stands_under_a_summary_is_the_conclusion_and_a_label_is_not() -> None:
    report = (
        "**System:** Windows 11, build 26200.7462\n\n## Users\n- 3 accounts were found in the list of users\n\n"
        "**Summary:**\nThe account may change everything on this machine.\n- 12 rights were checked in detail\n"
    )
    found = closing_sentences(report, 4, lambda _: 0.5)
    assert max(found, key=lambda one: one.conclusion).text == "The account may change everything on this machine."


REQUESTS = (
    "Fix it.",
    "Please fix the retry loop of the importer, which waits for ever when the second file is missing.",
    "a" * 200,
    "word " * 80,
    "wide          gaps          between          the          words          of          it          all          ",
    "one\nline\nafter\nthe\nother\nuntil\nit\nis\nlonger\nthan\nthe\nshortest\nhead\nof\nall\nthat\nmay\nbe\ntold",
)


@pytest.mark.parametrize("request_text", REQUESTS)
def test_a_head_that_is_not_written_for_want_of_room_would_not_have_fitted(request_text: str) -> None:
    messages = [part for text in (request_text, "And then?", "On.") for part in (user(text), assistant("Done so far."))]
    material = HandoffMaterial(summary_input_of(messages))
    chars = len(material.head(0, (), LEAST_REQUEST_CHARS))
    assert [material.may_fit(0, (), room) for room in (chars - 1, chars)] == [False, True]
