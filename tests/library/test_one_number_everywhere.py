"""A reference (m12) is the same through every door: the number of the message in the stored history."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import clew
from clew.cli import main
from clew.importers import open_sessions
from clew.importers.import_session import import_session
from clew.integrations.session_recall import SessionRecall
from clew.messages import text_of
from clew.store import open_store
from clew.testing import assistant, call, system, tool, user

MARKED = "Never repaint the lighthouse of Amrum in green."
PROMPTS: dict[str, list[Any]] = {
    "no prompt": [],
    "a prompt": [system("You look after the lamps of a coast.")],
    "two prompts": [system("You look after the lamps of a coast."), {"role": "developer", "content": "Be brief."}],
}


def history() -> list[Any]:
    """Rounds with a call that nobody answered, a result without a call and a system message among them."""
    messages: list[Any] = []
    for number in range(40):
        messages += [
            user(MARKED if number == 20 else f"Look at lamp {number}."),
            assistant(None, [call("look", {"lamp": number}, f"c{number}")]),
            tool(f"c{number}", f"lamp {number}: lit. " * 40),
            assistant(f"Lamp {number} is lit."),
        ]
        if number == 5:
            messages += [assistant(None, [call("look", id="lost"), call("look", id="lost too")])]
        if number == 6:
            messages += [tool("never called", "dark"), system("Lamp 6 belongs to the navy.")]
    return messages


def reference_in(handoff: str | None) -> int:
    found = re.search(re.escape(MARKED) + r'" \(m(\d+)', handoff or "")
    assert found, handoff
    return int(found[1])


@pytest.fixture(params=PROMPTS)
def prompts(request: pytest.FixtureRequest) -> list[Any]:
    return PROMPTS[request.param]


async def test_a_message_has_one_number_through_every_door(prompts: list[Any], tmp_path: Path) -> None:
    messages = [*prompts, *history()]
    file = tmp_path / "session.json"
    file.write_text(json.dumps(messages))
    number = next(at for at, message in enumerate(history()) if text_of(message) == MARKED)

    done = await clew.acompress(messages, target_tokens=4_000)
    assert reference_in(done.summary) == number
    again = await clew.acompress([*done.messages, *history()[:80]], target_tokens=4_000)
    assert reference_in(again.summary) == number
    assert number in clew.preview(messages, target_tokens=4_000).numbers

    async with open_store(tmp_path / "state.db") as store:
        with open_sessions(file) as opened:
            [imported] = [await import_session(store, session) for session in opened.sessions]
        assert imported.added == len(history())
        assert imported.session is not None
        [row] = await store.messages(imported.session, number, number + 1)
        assert text_of(row.message) == MARKED
        told = await SessionRecall(store).compress(imported.session, 4_000)
        handoff = next(message["text"] for message in told["messages"] if "[Clew handoff]" in message["text"])
        assert reference_in(handoff) == number

    with clew.Projection(context_length=8_000) as projection:
        shown = await projection.afit(messages)
        handoff = next(text_of(message) for message in shown if "[Clew handoff]" in text_of(message))
        assert reference_in(handoff) == number


def test_the_command_gives_the_same_numbers(
    prompts: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    home = {"CLEW_HOME": str(tmp_path / "home")}
    file = tmp_path / "session.json"
    file.write_text(json.dumps([*prompts, *history()]))
    number = next(at for at, message in enumerate(history()) if text_of(message) == MARKED)
    assert main(["compress", str(file), "--to", "4k", "--json"], home) == 0
    report = json.loads(capsys.readouterr().out)
    assert reference_in(report["summary"]) == number
    assert len(report["fates"]) == len(prompts) + len(history())
    assert main(["compress", str(file), "--to", "4k", "--preview", "--json"], home) == 0
    ranges = json.loads(capsys.readouterr().out)["ranges"]
    assert (ranges[0]["first"], ranges[-1]["last"]) == (0, len(history()) - 1)
