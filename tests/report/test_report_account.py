"""The account of a compaction: every message with what became of it, and sums that agree."""

from __future__ import annotations

import pytest

from clew.engines import Fate, Place
from clew.library import compress, preview
from clew.messages import Message
from clew.report import Account, account_of, survival_of
from clew.testing import assistant, call, system, tool, user


def baker(rounds: int = 24) -> list[Message]:
    messages = [system("You run the bakery."), user("Bake rye first. Never use the left oven.")]
    for number in range(rounds):
        messages.append(assistant(f"Batch {number}.", [call("bake", {"tray": f"tray_{number}"}, id=f"b{number}")]))
        messages.append(tool(f"b{number}", f"tray_{number} done at {4000 + number}\n" + "heat steady\n" * 150))
    return [*messages, assistant("All trays are done."), user("Thanks. How many?")]


def account(messages: list[Message], target: int | None, model: str | None = None) -> Account:
    """Folded to a target or, without one, for a window of 16,000 tokens."""
    window = None if target else 16_000
    foreseen = preview(messages, model=model, target_tokens=target, context_length=window)
    done = compress(messages, model=model, target_tokens=target, context_length=window)
    return account_of("bakery.json", "OpenAI chat", model, foreseen, done)


@pytest.mark.parametrize("target", [2_000, 6_000, None])
def test_the_parts_add_up_to_the_whole(target: int | None) -> None:
    told = account(baker(), target)
    framing = told.done.tokens_before - sum(share.tokens for share in told.before)
    assert 0 <= framing < 10
    assert sum(share.tokens for share in told.after) + framing == told.done.tokens_after
    assert [share.part for share in told.after if share.tokens == 0] == []
    assert "folded" in [share.part for share in told.before]
    assert "folded" not in [share.part for share in told.after]


@pytest.mark.parametrize("later", [[], baker(48)[50:]], ids=["left", "folded again"])
def test_a_handoff_within_a_message_has_a_part_of_its_own(later: list[Message]) -> None:
    calls = [call("look", {"oven": oven}, id=f"l{oven}") for oven in range(4)]
    looks = [assistant("First a look.", calls), *(tool(f"l{oven}", "cold") for oven in range(4))]
    once = compress([*baker()[:2], *looks, *baker()[2:]], target_tokens=6_000).messages
    told = account([*once, *later], 6_000)
    assert Place.HANDOFF not in [cell.place for cell in told.cells]  # it was merged into a neighbour
    before, after = ({share.part: share.tokens for share in shares} for shares in (told.before, told.after))
    assert before["handoff"] > 500
    assert after["handoff"] > 200
    assert told.done.changed is bool(later)
    assert 0 <= told.done.tokens_before - sum(before.values()) < 10
    assert 0 <= told.done.tokens_after - sum(after.values()) < 10


def test_every_message_has_a_fate_that_its_text_bears_out() -> None:
    told = account(baker(), 2_000)
    assert len(told.cells) == len(baker())
    for cell in told.cells:
        if cell.fate is Fate.KEPT and cell.role != "system":
            assert cell.now == cell.message
        elif cell.fate is Fate.PRUNED:
            assert cell.now is not None
            assert cell.tokens_after < cell.tokens
        elif cell.fate is Fate.SUMMARISED:
            assert cell.now is None
            assert cell.tokens_after == 0
    fates = {cell.fate for cell in told.cells}
    assert fates == {Fate.KEPT, Fate.PRUNED, Fate.SUMMARISED}


def test_the_system_prompt_counts_as_kept_though_a_note_stands_behind_it() -> None:
    first = account(baker(), 2_000).cells[0]
    assert (first.role, first.fate) == ("system", Fate.KEPT)
    assert first.tokens_after > first.tokens


def test_results_are_named_after_their_tool() -> None:
    told = account(baker(), 2_000)
    assert {cell.tool for cell in told.cells if cell.role == "tool"} == {"bake"}


def test_nothing_done_is_told_as_nothing() -> None:
    told = account(baker(2), 20_000)
    assert not told.done.changed
    assert {cell.fate for cell in told.cells} == {Fate.KEPT}
    assert told.before == told.after
    assert Place.FOLDED not in {cell.place for cell in told.cells}


def test_a_known_price_gives_a_saving_and_an_unknown_one_none() -> None:
    told = account(baker(), 2_000, "claude-sonnet-4-5")
    assert told.cost is not None
    assert 0 < told.cost.after < told.cost.before
    assert account(baker(), 2_000, "nobodys-model-1").cost is None


def test_all_but_everything_saved_is_not_100_percent() -> None:
    told = account(baker(400), 700)
    assert told.saved.startswith("99.")


def test_a_rule_stands_and_a_string_that_is_gone_is_named_with_its_message() -> None:
    told = account(baker(150), 1_200)
    left = survival_of(told)
    assert left.strings > left.standing > 0
    result = "\n".join(str(message) for message in told.done.compaction.messages)
    assert left.lost
    numbers = {cell.number for cell in told.cells if cell.fate is Fate.SUMMARISED}
    for lost in left.lost:
        assert lost.text not in result
        assert lost.number in numbers


def test_an_error_of_a_folded_call_is_a_fact_with_its_source() -> None:
    messages = baker()
    messages[7] = tool("b2", "Traceback\nOvenError: the left oven is cold\n[exit 1]")
    facts = survival_of(account(messages, 3_000)).facts
    errors = [fact for fact in facts if fact.kind == "errors"]
    assert [(fact.number, "OvenError" in fact.text) for fact in errors] == [(7, True)]
