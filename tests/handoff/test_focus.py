"""A focus topic gets a larger share of the handoff."""

from __future__ import annotations

import pytest

import clew
from clew.messages import Message
from clew.testing import assistant, call, system, tool, user

AREAS = ("billing", "search", "Versand", "缓存刷新", "src/pay/ledger.py")
WORDS = "window parser order weight shelf column report signal branch number folder answer margin letter".split()


def sentence(area: str, seed: int) -> str:
    words = [WORDS[(seed * 7 + place * 5) % len(WORDS)] for place in range(9)]
    return f"In {area} the {' '.join(words[:4])} was found to fail because {' '.join(words[4:])} is {seed * 31}."


def history(rounds: int = 60) -> list[Message]:
    """Every area in turn: asked for, read and concluded."""
    messages: list[Message] = [system("You repair a shop.")]
    for number in range(rounds):
        area = AREAS[number % len(AREAS)]
        shown = "\n".join(f"{area} row_{number}_{line}: {sentence(area, number * 40 + line)}" for line in range(25))
        messages += [
            user(f"Please look into {area}, part {number}."),
            assistant(f"I look at {area}.", [call("terminal", {"command": f"show {area} {number}"}, f"c{number}")]),
            tool(f"c{number}", shown),
            assistant(f"{sentence(area, number)} {sentence(area, number + 1_000)}"),
        ]
    return [*messages, user("Go on.")]


def share(topic: str, target: int, focus: str | None) -> float:
    """Which part of the handoff is lines that name the topic."""
    done = clew.compress(history(), target_tokens=target, focus_topic=focus)
    assert done.summary is not None and done.tokens_after <= target
    lines = done.summary.split("\n")
    return sum(len(line) for line in lines if topic.lower() in line.lower()) / sum(map(len, lines))


@pytest.mark.parametrize("target", [2_000, 6_000])
@pytest.mark.parametrize("topic", AREAS)
def test_a_focus_topic_gets_a_larger_share_than_without(topic: str, target: int) -> None:
    assert share(topic, target, topic) > 1.3 * share(topic, target, None)


def test_a_focus_topic_gets_most_of_the_handoff() -> None:
    assert share("billing", 6_000, "billing") >= 0.5


def test_a_word_that_only_tools_showed_is_quoted_though_it_is_no_name() -> None:
    messages = history()
    messages[55] = {**messages[55], "content": f"{messages[55]['content']}\nthe gulls cry over the harbour at dawn"}
    done = clew.compress(messages, target_tokens=4_000, focus_topic="gulls")
    assert done.summary is not None
    assert "the gulls cry over the harbour at dawn" in done.summary


def test_a_topic_that_nobody_spoke_of_changes_nothing() -> None:
    plain = clew.compress(history(), target_tokens=4_000)
    assert clew.compress(history(), target_tokens=4_000, focus_topic="zeppelin").summary == plain.summary
    assert clew.compress(history(), target_tokens=4_000, focus_topic="  ").summary == plain.summary
