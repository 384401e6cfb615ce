"""A focus topic takes 60 to 70% of the handoff, and every message on it is named."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import clew
from clew.engines import Fate
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


def named_in(summary: str) -> set[int]:
    runs = re.findall(r"\bm(\d+)(?:-m(\d+))?", summary)
    return {number for first, last in runs for number in range(int(first), int(last or first) + 1)}


def share(topic: str, summary: str) -> float:
    lines = summary.split("\n")
    return sum(len(line) for line in lines if topic.lower() in line.lower()) / sum(map(len, lines))


def on_topic(messages: list[Message], topic: str) -> list[int]:
    return [n for n, message in enumerate(messages) if topic in json.dumps(message, ensure_ascii=False)]


@pytest.mark.parametrize("target", [2_000, 6_000, 16_000])
@pytest.mark.parametrize("topic", AREAS)
def test_it_takes_most_of_the_handoff_and_each_of_its_messages_is_named(topic: str, target: int) -> None:
    messages = history()
    done = clew.compress(messages, target_tokens=target, focus_topic=topic)
    assert done.summary is not None and done.tokens_after <= target
    assert 0.58 <= share(topic, done.summary) <= 0.75
    folded = [n for n in on_topic(messages, topic) if done.fates[n] is Fate.SUMMARISED]
    assert len(folded) > 10
    assert set(folded) <= named_in(done.summary)
    assert f'"{topic}" comes up in m' in done.summary


def test_a_word_that_only_tools_showed_is_quoted_though_it_is_no_name() -> None:
    messages = history()
    messages[55] = {**messages[55], "content": f"{messages[55]['content']}\nthe gulls cry over the harbour at dawn"}
    done = clew.compress(messages, target_tokens=4_000, focus_topic="gulls")
    assert done.summary is not None
    assert "the gulls cry over the harbour at dawn" in done.summary
    assert 55 in named_in(done.summary)


def test_what_nobody_spoke_of_changes_nothing_else() -> None:
    plain = clew.compress(history(), target_tokens=4_000)
    assert clew.compress(history(), target_tokens=4_000, focus_topic="zeppelin").summary == plain.summary
    assert clew.compress(history(), target_tokens=4_000, focus_topic="  ").summary == plain.summary


def test_the_messages_of_earlier_compactions_stay_named() -> None:
    view: list[Any] = []
    everything: list[Message] = []
    for part in (history(20), history(40)[81:], history(60)[161:]):
        everything += part
        view = clew.compress([*view, *part], target_tokens=6_000, focus_topic="billing").messages
    [handoff] = [str(message["content"]) for message in view if "comes up in" in str(message["content"])]
    kept = "".join(str(message.get("content")) for message in view if message.get("content") != handoff)
    missing = set(on_topic(everything, "billing")) - named_in(handoff)
    assert all(str(everything[number]["content"]) in kept for number in missing)


def test_with_thousands_of_messages_near_ones_are_named_as_a_stretch() -> None:
    messages = [system("Be brief.")]
    for number in range(1_500):
        said = "the harbour" if number % 3 else "the weather"
        messages += [user(f"What of {said}, {number}?"), assistant(f"About {said} nothing new came in, {number}.")]
    done = clew.compress(messages, target_tokens=3_000, focus_topic="harbour")
    assert done.summary is not None
    [line] = [line for line in done.summary.split("\n") if "comes up in" in line]
    assert len(line) < 1_000
    folded = {n for n in on_topic(messages, "harbour") if done.fates[n] is Fate.SUMMARISED}
    assert folded <= named_in(line)
