"""`clew compress --preview` says beforehand what `clew compress` then does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import clew.library
from clew.cli import main
from clew.engines import CompactionRegion, Fate
from clew.messages import Message
from clew.testing import assistant, call, system, tool, user

SIZES = [{"target_tokens": 2_500}, {"target_tokens": 9_000}, {"context_length": 8_000}, {"context_length": 60_000}]


def watchman(rounds: int = 30) -> list[Message]:
    messages = [system("You keep the night watch."), user("Walk the rounds. Report every open door.")]
    for number in range(rounds):
        messages.append(assistant(None, [call("walk", {"floor": number}, id=f"w{number}")]))
        messages.append(tool(f"w{number}", f"floor {number}: door {number}-B open\n" + "door shut\n" * 150))
    return [*messages, assistant("Rounds done."), user("Which doors were open?")]


def run(capsys: pytest.CaptureFixture[str], home: Path, messages: Any, *words: str, **environ: str) -> tuple[int, str]:
    file = home / "watch.json"
    file.write_text(json.dumps(messages))
    code = main(["compress", str(file), *words], {"CLEW_HOME": str(home / "home"), **environ})
    return code, capsys.readouterr().out


@pytest.mark.parametrize("size", SIZES)
def test_what_is_foreseen_is_what_is_done(size: dict[str, Any]) -> None:
    history = watchman()
    foreseen = clew.library.preview(history, **size)
    done = clew.library.compress(history, **size)
    folded = {n for n, place in enumerate(foreseen.regions) if place is CompactionRegion.FOLDED}
    summarised = {n for n, fate in enumerate(done.fates) if fate is Fate.SUMMARISED}
    # What a summary leaves of a target goes to the newest of the messages that would have been folded.
    assert summarised == folded or ("target_tokens" in size and summarised == set(sorted(folded)[: len(summarised)]))
    assert foreseen.would_fold == done.changed
    assert foreseen.tokens_before == done.tokens_before
    assert foreseen.tokens_after >= done.tokens_after
    assert len(foreseen.sizes) == len(foreseen.sizes_after) == len(foreseen.numbers) == len(history)


def test_an_earlier_handoff_has_its_own_place_and_no_number() -> None:
    once = clew.library.compress([*watchman(), assistant("B doors."), user("Which floors?")], target_tokens=4_000)
    again = clew.library.preview(
        [*once.messages, *watchman()[2:-2], assistant("Again."), user("And now?")], target_tokens=3_000
    )
    handoffs = [
        number for number, place in zip(again.numbers, again.regions, strict=True) if place is CompactionRegion.HANDOFF
    ]
    assert handoffs in ([None], [])  # a handoff that was merged into a message shares its place
    numbers = [number for number in again.numbers if number is not None]
    assert numbers == sorted(set(numbers))
    assert numbers[-1] > len(once.messages)


def test_the_preview_shows_every_region_and_does_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run(capsys, tmp_path, watchman(), "--to", "4000", "--preview")
    assert code == 0
    assert "what would become of the messages" in out
    assert re.search(r"m0-m2 +3  head", out)
    assert re.search(r"m3-m\d+ +\d+  folded", out)
    assert "at most" in out
    assert "Nothing was done" in out
    assert "Active task" not in out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["watch.json"]


@pytest.mark.parametrize("width", ["60", "80", "120"])
def test_the_preview_fits_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str], width: str) -> None:
    out = run(capsys, tmp_path, watchman(), "--to", "2500", "--preview", COLUMNS=width)[1]
    names = out.replace(str(tmp_path), "")
    assert max(map(len, names.splitlines())) <= int(width)


def test_the_preview_as_json_covers_every_message_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = watchman()
    code, out = run(capsys, tmp_path, history, "--to", "4000", "--preview", "--json")
    told = json.loads(out)
    assert code == 0
    assert told["changed"] is True
    assert sum(each["messages"] for each in told["ranges"]) == len(history) == len(told["places"])
    assert [each["place"] for each in told["ranges"]][:2] == ["head", "folded"]
    assert told["ranges"][0]["first"] == 0
    assert told["ranges"][-1]["last"] == len(history) - 2, "the system prompt has no number"
    assert all(each["tokens_after"] == 0 for each in told["ranges"] if each["place"] == "folded")
    assert told["tokens_after_at_most"] <= 4_000 < told["tokens_before"]
    assert "summary" not in told


def test_a_preview_of_what_fits_says_that_there_is_nothing_to_fold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = run(capsys, tmp_path, watchman(1), "--to", "5000", "--preview")
    assert code == 0
    assert "There is nothing to fold." in out
    told = json.loads(run(capsys, tmp_path, watchman(1), "--to", "5000", "--preview", "--json")[1])
    assert (told["changed"], told["summary_tokens_at_most"]) == (False, 0)
    assert told["tokens_after_at_most"] == told["tokens_before"]


def test_a_preview_shows_the_system_prompt_apart_as_the_result_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, shown = run(capsys, tmp_path, watchman(), "--preview", COLUMNS="100")
    assert re.search(r"S system [\d,]+", shown)
