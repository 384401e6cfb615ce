"""A focus topic gets most of the room of a built-in handoff."""

from __future__ import annotations

import json

import clew
from clew.messages import Message
from clew.testing import assistant, call, tool, user

TOPICS = ("billing", "search")


def history() -> list[Message]:
    """Two topics by turns, in words that do not overlap."""
    messages: list[Message] = [user("Tidy up the service.")]
    for number in range(120):
        topic = TOPICS[number % 2]
        lines = "\n".join(
            f"def {topic}_step_{number}_{line}(row): return total_{topic}_{number}_{line} + row" for line in range(12)
        )
        messages.append(assistant(None, [call("read_file", {"path": f"src/{topic}/part{number}.py"}, f"c{number}")]))
        messages.append(tool(f"c{number}", lines))
    return [*messages, assistant("Read them all."), user("Go on.")]


def share_of(topic: str, summary: str) -> float:
    counts = {each: summary.count(f"{each}_step_") for each in TOPICS}
    return counts[topic] / sum(counts.values())


def test_a_focus_topic_takes_most_of_the_quotes() -> None:
    plain = clew.compress(history(), target_tokens=4_000)
    focused = clew.compress(history(), target_tokens=4_000, focus_topic="billing")
    assert plain.summary is not None
    assert focused.summary is not None
    assert 0.3 < share_of("billing", plain.summary) < 0.7
    assert share_of("billing", focused.summary) > 0.6
    assert focused.tokens_after <= 4_000


def test_what_is_certain_stays_whatever_the_focus() -> None:
    focused = clew.compress(
        [*history()[:-1], user("Never touch prod.db."), assistant("I will not."), *history()[1:]],
        target_tokens=4_000,
        focus_topic="billing",
    )
    assert "Never touch prod.db." in json.dumps(focused.messages)
