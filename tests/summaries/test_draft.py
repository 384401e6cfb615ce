from __future__ import annotations

import pytest

from clew.errors import SummaryFailed
from clew.summaries.draft import read_draft
from clew.summaries.handoff import COMPLETED, GOAL, HEADINGS, RULES
from clew.testing.summaries import handoff_text

GOOD = handoff_text(goal="Port the uploader.", completed_actions=["1. Read it.", "3. Ran it."], critical_context="One.")


@pytest.mark.parametrize(
    "reply",
    [
        GOOD,
        f"<think>\nhm, ## Goal\n</think>\n\n{GOOD}",
        f"<thinking>a</thinking><think>b</think>{GOOD}",
        f"I think about it\n</think>\n{GOOD}",
        f"Sure, here is the handoff:\n\n{GOOD}",
        f"```markdown\n{GOOD}\n```",
        GOOD.replace("## ", "# ").upper().replace("PORT THE UPLOADER.", "Port the uploader."),
        GOOD.replace("## Goal", "**Goal:**"),
        GOOD.replace("## ", "### 2. "),
    ],
    ids=["plain", "thought", "two thoughts", "end of a thought", "greeting", "fence", "loud", "bold", "numbered"],
)
def test_a_handoff_is_found_in_what_models_put_around_it(reply: str) -> None:
    assert list(read_draft(reply).handoff.lines(GOAL)) == ["Port the uploader."]
    assert not read_draft(reply).is_cut


def test_numbers_of_actions_are_taken_off_so_that_they_can_be_given_anew() -> None:
    assert "1. Read it.\n2. Ran it." in read_draft(GOOD).handoff.render()
    assert list(read_draft(GOOD).handoff.lines(COMPLETED)) == ["Read it.", "Ran it."]


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        ("", "empty"),
        (" \n\t", "empty"),
        ("<think>only thoughts</think>", "thoughts_only"),
        ("<think>thoughts without an end ## Goal ## Blocked", "thoughts_only"),
        ("Sure! The bug is in line 3, I will fix it now.", "garbage"),
        ('{"goal": "port", "active task": "x"}', "garbage"),
        ("## Introduction\nHello\n## Findings\nMany\n## Conclusion\nNone", "garbage"),
        ("\n".join(f"## {heading}\nNone." for heading in HEADINGS), "empty"),
        (GOOD + "\n- I will now read the file again." * 400, "repetition"),
        (GOOD + " and then" * 2_000, "repetition"),
    ],
)
def test_what_is_no_handoff_is_refused_with_what_it_is(reply: str, kind: str) -> None:
    with pytest.raises(SummaryFailed) as failure:
        read_draft(reply)
    assert failure.value.kind == kind


def test_a_reply_that_was_cut_loses_its_half_line_and_says_so() -> None:
    draft = read_draft(GOOD.split("3. Ran")[0] + "3. Changed src/uplo", is_cut=True)
    assert draft.is_cut
    assert list(draft.handoff.lines(COMPLETED)) == ["Read it."]


def test_a_reply_that_ends_in_the_middle_is_seen_to_be_cut_without_a_report() -> None:
    assert read_draft(GOOD.split("3. Ran")[0] + "3. Changed src/uplo").is_cut


def test_lines_of_the_prompt_and_code_fences_do_not_become_facts() -> None:
    draft = read_draft(f"{GOOD}\n```text\n@@12ab34 end of the record\n```")
    assert list(draft.handoff.lines("Critical context")) == ["One."]


def test_secrets_that_a_model_repeats_are_removed() -> None:
    secret = "ghp_" + "aB3" * 12
    handoff = read_draft(handoff_text(goal=f"Use {secret}.", constraints_and_preferences="none of it")).handoff
    assert secret not in handoff.render()
    assert list(handoff.lines(RULES)) == ["none of it"]


def test_chinese_under_english_headings_is_a_handoff() -> None:
    draft = read_draft(handoff_text(goal="把上传改成异步。", critical_context="端口 8443。"))
    assert list(draft.handoff.lines(GOAL)) == ["把上传改成异步。"]
