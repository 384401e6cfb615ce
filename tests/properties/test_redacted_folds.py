"""No part of a secret is in anything that a fold writes, wherever a quote may cut through it."""

from __future__ import annotations

import asyncio
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from clew.config import CompressionSettings
from clew.engines import ContextCompressor, budgets_for_target
from clew.messages import Message
from clew.testing import assistant, call, tool, user

# Plainly fake, and in parts, so that no scanner takes this file for a leak.
secrets = st.sampled_from(
    [
        "gh" + "p_" + "Ab1Zq9" * 6,
        "sk-" + "proj-" + "x9Yw2V" * 8,
        "PASS" + "WORD=" + "Kd83Lw0q" * 3,
        "p" + "w: " + "Xy12" * 6,
    ]
)
places = st.sampled_from(["request", "reply", "command", "written", "result", "error", "tests", "worktree", "person"])
# A result is read to 1,500 chars from its start and 2,500 from its end, a quote has 420 chars, an error 300.
before = st.sampled_from([0, 3, 150, 285, 300, 405, 1_480, 1_499])
behind = st.sampled_from([0, 5, 400, 2_490, 2_500, 6_000])


def filler(chars: int) -> str:
    return ("the count of rows was as expected and " * (chars // 38 + 1))[:chars]


def history_with(secret: str, place: str, start: int, end: int) -> list[Message]:
    line = f"{filler(start)} {secret} {filler(end)}"
    request = f"Never print this: {line}" if place == "request" else "Find out why it fails, and fix it."
    command = f"deploy --quiet && echo '{line}'" if place == "command" else "make check"
    results = {
        "result": f"first line\n{line}\nlast line",
        "error": f"Traceback (most recent call last):\nValueError: {line}\n[exit 1]",
        "tests": f"=== 1 failed, 3 passed in {line} ===\n[exit 1]",
        "worktree": f"On branch work {line}\nChanges not staged for commit:\n\tmodified: {line}\n",
        "person": f"<feedback>{line}</feedback>\nThe user says: {line}",
    }
    return [
        user(request),
        assistant(line if place == "reply" else "I look.", [call("terminal", {"command": command}, "a")]),
        tool("a", results.get(place, "done\n[exit 0]")),
        assistant(None, [call("write_file", {"path": "a.md", "content": line if place == "written" else "# A"}, "b")]),
        tool("b", "ok"),
        assistant("It is done."),
        *(message for n in range(8) for message in (user(f"Part {n}: {filler(900)}"), assistant(f"Done {n}."))),
        user("Go on."),
    ]


def parts_of(secret: str) -> list[str]:
    """What no text may hold: of a value every part of 6 characters."""
    value = secret.rpartition("=")[2].rpartition(" ")[2]
    return [value[at : at + 6] for at in range(len(value) - 5)]


@settings(deadline=None, max_examples=60)
@given(secrets, places, before, behind, st.sampled_from([600, 1_500]), st.booleans())
def test_no_part_of_a_secret_is_in_a_fold(
    secret: str, place: str, start: int, end: int, target: int, is_observed: bool
) -> None:
    history = history_with(secret, place, start, end)
    engine = ContextCompressor(budgets=budgets_for_target(target, CompressionSettings()))
    if is_observed:
        for message in history:
            engine.observe([message])
    done = asyncio.run(engine.compress(history, force=True))
    written = json.dumps([done.summary, done.handoff.as_json() if done.handoff else None, done.unverified])
    assert done.summary
    assert [part for part in parts_of(secret) if part in written] == []
