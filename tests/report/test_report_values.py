"""The report of a compaction: every message with what became of it, and sums that agree."""

from __future__ import annotations

import pytest

from clew.engines import CompactionRegion, Fate
from clew.library import compress, preview
from clew.messages import Message
from clew.report import CompactionReport, build_report, measure_retention
from clew.testing import assistant, call, system, tool, user


def baker(rounds: int = 24) -> list[Message]:
    messages = [system("You run the bakery."), user("Bake rye first. Never use the left oven.")]
    for number in range(rounds):
        messages.append(assistant(f"Batch {number}.", [call("bake", {"tray": f"tray_{number}"}, id=f"b{number}")]))
        messages.append(tool(f"b{number}", f"tray_{number} done at {4000 + number}\n" + "heat steady\n" * 150))
    return [*messages, assistant("All trays are done."), user("Thanks. How many?")]


def report(messages: list[Message], target: int | None, model: str | None = None) -> CompactionReport:
    """Folded to a target or, without one, for a window of 16,000 tokens."""
    window = None if target else 16_000
    previewed = preview(messages, model=model, target_tokens=target, context_length=window)
    done = compress(messages, model=model, target_tokens=target, context_length=window)
    return build_report("bakery.json", "OpenAI chat", model, previewed, done)


@pytest.mark.parametrize("target", [2_000, 6_000, None])
def test_the_parts_add_up_to_the_whole(target: int | None) -> None:
    found = report(baker(), target)
    framing = found.result.tokens_before - sum(part.tokens for part in found.parts_before)
    assert 0 <= framing < 10
    assert sum(part.tokens for part in found.parts_after) + framing == found.result.tokens_after
    assert [part.name for part in found.parts_after if part.tokens == 0] == []
    assert "folded" in [part.name for part in found.parts_before]
    assert "folded" not in [part.name for part in found.parts_after]


@pytest.mark.parametrize("later", [[], baker(48)[50:]], ids=["left", "folded again"])
def test_a_handoff_within_a_message_has_a_part_of_its_own(later: list[Message]) -> None:
    calls = [call("look", {"oven": oven}, id=f"l{oven}") for oven in range(4)]
    looks = [assistant("First a look.", calls), *(tool(f"l{oven}", "cold") for oven in range(4))]
    once = compress([*baker()[:2], *looks, *baker()[2:]], target_tokens=6_000).messages
    found = report([*once, *later], 6_000)
    assert CompactionRegion.HANDOFF not in [
        outcome.region for outcome in found.outcomes
    ]  # it was merged into a neighbour
    before, after = ({part.name: part.tokens for part in parts} for parts in (found.parts_before, found.parts_after))
    assert before["handoff"] > 200
    assert after["handoff"] > 200
    assert found.result.changed is bool(later)
    assert 0 <= found.result.tokens_before - sum(before.values()) < 10
    assert 0 <= found.result.tokens_after - sum(after.values()) < 10


def test_every_message_has_a_fate_that_its_text_bears_out() -> None:
    found = report(baker(), 4_000)
    assert len(found.outcomes) == len(baker())
    for outcome in found.outcomes:
        if outcome.fate is Fate.KEPT and outcome.role != "system":
            assert outcome.message_after == outcome.message
        elif outcome.fate is Fate.PRUNED:
            assert outcome.message_after is not None
            assert outcome.tokens_after < outcome.tokens
        elif outcome.fate is Fate.SUMMARISED:
            assert outcome.message_after is None
            assert outcome.tokens_after == 0
    fates = {outcome.fate for outcome in found.outcomes}
    assert fates == {Fate.KEPT, Fate.PRUNED, Fate.SUMMARISED}


def test_the_system_prompt_counts_as_kept_though_a_note_stands_behind_it() -> None:
    first = report(baker(), 6_000).outcomes[0]
    assert (first.role, first.fate) == ("system", Fate.KEPT)
    assert first.tokens_after > first.tokens


def test_results_are_named_after_their_tool() -> None:
    found = report(baker(), 2_000)
    assert {outcome.tool for outcome in found.outcomes if outcome.role == "tool"} == {"bake"}


def test_a_result_that_was_only_shortened_has_the_size_that_it_really_has() -> None:
    found = report([user("Bake at these heats: " + "220 degrees, " * 6_000)], 3_000)
    assert [outcome.fate for outcome in found.outcomes] == [Fate.PRUNED]
    assert found.handoff_tokens == 0
    assert sum(part.tokens for part in found.parts_after) <= found.result.tokens_after <= 3_000


def test_nothing_done_is_told_as_nothing() -> None:
    found = report(baker(2), 20_000)
    assert not found.result.changed
    assert {outcome.fate for outcome in found.outcomes} == {Fate.KEPT}
    assert found.parts_before == found.parts_after
    assert CompactionRegion.FOLDED not in {outcome.region for outcome in found.outcomes}


def test_a_known_price_gives_a_saving_and_an_unknown_one_none() -> None:
    found = report(baker(), 2_000, "claude-sonnet-4-5")
    assert found.cost is not None
    assert 0 < found.cost.after < found.cost.before
    assert report(baker(), 2_000, "nobodys-model-1").cost is None


def test_all_but_everything_saved_is_not_100_percent() -> None:
    found = report(baker(400), 700)
    assert found.saved.startswith("99.")


def test_a_rule_stands_and_a_string_that_is_gone_is_named_with_its_message() -> None:
    found = report(baker(150), 3_000)
    left = measure_retention(found)
    assert left.strings > left.retained > 0
    result = "\n".join(str(message) for message in found.result.compaction.messages)
    assert left.lost
    numbers = {outcome.number for outcome in found.outcomes if outcome.fate is Fate.SUMMARISED}
    for lost in left.lost:
        assert lost.text not in result
        assert lost.number in numbers


def test_an_error_of_a_folded_call_is_a_fact_with_its_source() -> None:
    messages = baker()
    messages[7] = tool("b2", "Traceback\nOvenError: the left oven is cold\n[exit 1]")
    facts = measure_retention(report(messages, 3_000)).facts
    errors = [fact for fact in facts if fact.kind == "errors"]
    assert [(fact.number, "OvenError" in fact.text) for fact in errors] == [(6, True)]


def test_requests_and_changed_files_of_folded_messages_are_looked_up_in_the_result() -> None:
    wrote = call("write_file", {"path": "plan/Rye.md", "content": "bake at 220"}, id="w")
    messages = baker(60)
    messages[20:20] = [user("Write the plan down."), assistant("", [wrote]), tool("w", "written")]
    found = report(messages, 3_000)
    facts = {(fact.kind, fact.text): fact.is_retained for fact in measure_retention(found).facts}
    result = "\n".join(str(message["content"]) for message in found.result.compaction.messages)
    assert facts[("requests", "Write the plan down.")] is ("Write the plan down." in result)
    assert facts[("files", "plan/Rye.md")] is ("plan/Rye.md" in result)


def test_lost_strings_are_spelled_as_their_message_spells_them() -> None:
    messages = [baker()[0], user("Look at /srv/Ovens/Left.cfg and BatchCode77."), *baker(200)[2:]]
    messages.insert(1, user("Good morning."))
    messages.insert(2, assistant("Good morning."))
    lost = {string.text for string in measure_retention(report(messages, 700)).lost}
    assert lost
    source = str(messages)
    assert all(string in source for string in lost)
