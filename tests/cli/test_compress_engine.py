"""`clew compress --engine`: another engine folds, and what it made is told: a map in place of a handoff."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from clew.cli import main
from clew.engines import nodes_in_map
from clew.messages import repair

EXAMPLE = str(Path(__file__).resolve().parents[2] / "examples" / "session.json")
SMALL = ("--window", "50k", "--set", "lossless.leaf_tokens=6000", "--set", "lossless.leaves_condensed=3")


def run(capsys: pytest.CaptureFixture[str], home: Path, *words: str) -> tuple[int, str, str]:
    code = main(["compress", EXAMPLE, *words], {"CLEW_HOME": str(home / "home"), "COLUMNS": "100"})
    out, err = capsys.readouterr()
    return code, out, err


def told(capsys: pytest.CaptureFixture[str], home: Path, *words: str) -> Any:
    code, out, _ = run(capsys, home, *words, "--json")
    assert code == 0
    return json.loads(out)


def test_the_map_covers_every_folded_message_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = told(capsys, tmp_path, "--engine", "lcm", *SMALL)
    nodes = {node["id"]: node for node in result["map"]["nodes"]}

    def leaves(id: str) -> list[dict[str, Any]]:
        node = nodes[id]
        return [leaf for part in node["parts"] for leaf in leaves(part)] if node["parts"] else [node]

    messages = json.loads(Path(EXAMPLE).read_text(encoding="utf-8"))["messages"]
    # The system prompt has no number.
    numbered = [at for at, message in enumerate(messages) if message["role"] != "system"]
    covered = [
        numbered[number]
        for shown in result["map"]["shown"]
        for leaf in leaves(shown)
        for number in range(int(leaf["first"][1:]), int(leaf["last"][1:]) + 1)
    ]
    assert covered == list(range(covered[0], covered[-1] + 1))
    folded = [at for at, fate in enumerate(result["fates"]) if fate == "summarised"]
    # The newest request stays word for word, and is one of the messages that a leaf stands for.
    assert folded == [at for at in covered if result["fates"][at] != "kept"]
    assert len(covered) - len(folded) <= 1
    assert max(node["depth"] for node in nodes.values()) > 0
    assert {(node["written_by"], node["final"]) for node in nodes.values()} == {("built-in", False)}
    assert result["tokens_after"] < result["tokens_before"] / 2
    assert repair(result["messages"]).repairs == ()


def test_the_account_shows_the_parts_and_speaks_of_no_handoff(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = told(capsys, tmp_path, "--engine", "lcm", *SMALL)["map"]["shown"]
    code, out, _ = run(capsys, tmp_path, "--engine", "lcm", *SMALL)
    assert code == 0
    assert "in the map" in out
    assert "handoff" not in out
    assert all(name in out for name in shown)
    assert "provisional" in out
    _, _, err = run(capsys, tmp_path, "--engine", "lcm", *SMALL, "--output", "-")
    assert f"folded into a map of {len(shown)} part" in err


def test_a_preview_says_what_the_map_would_stand_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    previewed = told(capsys, tmp_path, "--engine", "lcm", *SMALL, "--preview")
    result = told(capsys, tmp_path, "--engine", "lcm", *SMALL)
    assert [place == "folded" for place in previewed["places"]] == [fate == "summarised" for fate in result["fates"]]
    assert result["tokens_after"] <= previewed["tokens_after_at_most"]
    assert "in the map" in run(capsys, tmp_path, "--engine", "lcm", *SMALL, "--preview")[1]


def test_a_folded_map_is_folded_again_with_its_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    once = told(capsys, tmp_path, "--engine", "lcm", *SMALL)
    file = tmp_path / "once.json"
    file.write_text(json.dumps(once["messages"]), encoding="utf-8")
    page = tmp_path / "page.html"
    words = [str(file), "--engine", "lcm", "--window", "6k", "--report", str(page), "--json"]
    assert main(["compress", *words], {"CLEW_HOME": str(tmp_path / "home")}) == 0
    twice = json.loads(capsys.readouterr().out)
    nodes = {node["id"]: node for node in twice["map"]["nodes"]}
    assert twice["map"]["shown"]
    assert set(twice["map"]["shown"]) <= set(nodes)
    assert nodes[twice["map"]["shown"][0]]["first"] == "m0"
    assert all(f"<code>{name}</code>" in page.read_text(encoding="utf-8") for name in twice["map"]["shown"])


def test_what_an_engine_removed_is_said_to_be_removed_by_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plugin = tmp_path / "home" / "plugins" / "context_engine" / "plain"
    plugin.mkdir(parents=True)
    (plugin / "__init__.py").write_text(
        "from clew.engines import register_context_engine\n"
        "from tests.support.engines import PlainEngine\n"
        "def register():\n"
        "    register_context_engine('plain', PlainEngine, description='Plain', version='1.0.0', contract=2)\n"
    )
    code, out, _ = run(capsys, tmp_path, "--engine", "plain", "--window", "20k", "--report", str(tmp_path / "r.html"))
    assert code == 0
    assert "removed by the engine" in out
    assert "no provider" not in out
    assert "written by" not in out
    assert "Written by" not in (tmp_path / "r.html").read_text()


def test_the_compressor_by_name_does_what_it_does_without(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    named = told(capsys, tmp_path, "--engine", "compressor", "--to", "10k")
    assert named == told(capsys, tmp_path, "--to", "10k")
    assert named["map"] is None


def test_what_cannot_be_is_refused_with_what_can(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, tmp_path, "--engine", "lcm", "--to", "10k")
    assert (code, out) == (2, "")
    assert "--window" in err
    code, out, err = run(capsys, tmp_path, "--engine", "lcn")
    assert code != 0
    assert out == ""
    assert "did you mean lcm?" in err


def test_a_map_that_was_condensed_again_and_again_still_covers_every_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "Each crate was opened, its lids were counted twice, and the paper says so now. "
    asked = [f"Please pack crate {number} for the harbour, with {number} lids." for number in range(400)]
    rounds = [
        [
            {"role": "user", "content": request},
            {"role": "assistant", "content": f"Crate {number} is packed into bay {number % 9}. " + said * 4},
        ]
        for number, request in enumerate(asked)
    ]
    file = tmp_path / "long.json"
    file.write_text(json.dumps([message for both in rounds for message in both]))
    small = ("--window", "8000", "--set", "lossless.leaf_tokens=800", "--set", "lossless.leaves_condensed=4")
    code = main(["compress", str(file), "--engine", "lcm", *small, "--json"], {"CLEW_HOME": str(tmp_path / "home")})
    result = json.loads(capsys.readouterr().out)
    assert code == 0
    assert max(node["depth"] for node in result["map"]["nodes"]) > 1
    shown = "\n".join(str(message["content"]) for message in result["messages"])
    parts = nodes_in_map(shown)
    folded = [at for at, fate in enumerate(result["fates"]) if fate == "summarised"]
    assert [at for part in parts for at in range(part.first, part.last)] == list(range(folded[-1] + 1))
    asked_in_map = [int(number) for number in re.findall(r'"Please pack crate \d+ .*?" \(m(\d+)\)', shown)]
    assert asked_in_map and not any(at % 2 for at in asked_in_map), "references are to the requests themselves"


WRONG_TYPE = """
from clew.engines import ContextEngine, register_context_engine

class ListEngine(ContextEngine):
    name = "listing"
    async def compress(self, messages, current_tokens=None, focus_topic=None, force=False):
        return list(messages)

def register():
    register_context_engine("listing", ListEngine)
"""


@pytest.mark.parametrize("words", ["compress EXAMPLE --engine listing --window 20k", "plugins show listing --check"])
def test_an_engine_that_returns_the_wrong_type_gets_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    folder = tmp_path / "plugins" / "context_engine" / "listing"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(WRONG_TYPE)
    code = main(words.replace("EXAMPLE", EXAMPLE).split(), {"CLEW_HOME": str(tmp_path), "COLUMNS": "300"})
    out, err = capsys.readouterr()
    assert code == 1
    told_so = [line for line in (out + err).splitlines() if "compress() returned list" in line]
    assert len(told_so) == 1 and "it must return a clew.engines.Compaction" in told_so[0]
    assert "Traceback" not in out + err
