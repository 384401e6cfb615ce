"""The map on the page of `clew compress --engine lcm --report`: every node, with its text and what it was made from."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

import clew
from clew.cli import main
from clew.messages import Message
from clew.report import build_report
from clew.report.page import MAX_MAP_CHARS, DrawnNode, map_section
from clew.testing import assistant, call, system, tool, user

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = "--headless --no-sandbox --disable-gpu --no-first-run --disable-dev-shm-usage --enable-logging=stderr --v=0"
EVIL = "</details></script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
SMALL = ("--window", "6000", "--set", "lossless.leaf_tokens=1500", "--set", "lossless.leaves_condensed=2")


def beekeeper(said: str = "", rounds: int = 30) -> list[Message]:
    messages = [system("You keep the bees.")]
    for number in range(rounds):
        messages.append(user(f"Look at hive {number}, and write down the weight. {said}"))
        messages.append(assistant(None, [call("weigh", {"hive": f"hive_{number}"}, id=f"h{number}")]))
        messages.append(tool(f"h{number}", f"hive_{number} weighs {30_000 + 7 * number} g {said}\n" + "hum\n" * 150))
        messages.append(assistant(f"Hive {number} weighs {30_000 + 7 * number} g."))
    return [*messages, user("Which hive is the lightest?")]


def map_page(folder: Path, messages: list[Message]) -> str:
    (folder / "bees.json").write_text(json.dumps(messages), encoding="utf-8")
    compress(folder, "--report", str(folder / "page.html"))
    return (folder / "page.html").read_text(encoding="utf-8")


def compress(folder: Path, *words: str) -> None:
    line = ["compress", str(folder / "bees.json"), "--engine", "lcm", *SMALL, *words]
    assert main(line, {"CLEW_HOME": str(folder / "home")}) == 0


def nodes_on(page: str) -> list[tuple[str, int, int]]:
    """Id, tokens before and after of every node that can be opened."""
    found = re.findall(r"<summary><code>(n\d+-\d+\w*)</code> .*?· ([\d,]+) → ([\d,]+) tokens", page)
    return [(name, int(before.replace(",", "")), int(after.replace(",", ""))) for name, before, after in found]


def test_every_node_is_drawn_by_depth_and_can_be_opened(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = map_page(tmp_path, beekeeper())
    capsys.readouterr()
    compress(tmp_path, "--json")
    made = json.loads(capsys.readouterr().out)["map"]
    expected = {(node["id"], node["stands_for_tokens"], node["tokens"]) for node in made["nodes"]}
    assert set(nodes_on(page)) == expected
    assert len(nodes_on(page)) == len(expected) > 4
    rows = re.findall(r'<div class="name">(leaves|depth \d)</div>', page)
    assert rows[-1] == "leaves"
    assert rows[:-1] == [f"depth {depth}" for depth in range(len(rows) - 1, 0, -1)]
    assert len(rows) > 1
    leaves = [node for node in made["nodes"] if not node["parts"]]
    assert len(re.findall('<div class="covers" data-first="', page)) == len(leaves)
    assert '<h2 id="handoff">Map</h2>' in page
    assert page.count("provisional</span>") == len(expected)


def test_what_a_tool_said_and_secrets_do_not_get_onto_the_page(tmp_path: Path) -> None:
    key = "sk-proj-" + "notAKey0" * 5
    page = map_page(tmp_path, beekeeper(f"{EVIL} password={key}"))
    assert "<img src=x" not in page
    assert key not in page
    assert page.count("<script") == 2


def test_a_large_map_is_cut_and_says_how_much_is_left_out() -> None:
    messages = beekeeper()
    done = clew.compress(messages, engine="lcm", context_length=6_000)
    compaction = done.compaction
    report = build_report("bees.json", "OpenAI chat", None, clew.preview(messages), done, is_previewed=False)
    small = map_section(report)
    long = tuple(replace(node, text="- a bee flew by\n" * MAX_MAP_CHARS) for node in compaction.nodes[:1])
    compaction = replace(compaction, nodes=(*long, *compaction.nodes[1:]))
    large = map_section(replace(report, result=replace(done, compaction=compaction)))
    assert small is not None
    assert large is not None
    assert not any(drawn.left_out for drawn in drawn_nodes(small.parts))
    assert [drawn.left_out > 0 for drawn in drawn_nodes(large.parts)].count(True) == 1
    assert sum(len(drawn.html) for drawn in drawn_nodes(large.parts)) < 4 * MAX_MAP_CHARS


def drawn_nodes(parts: Iterable[DrawnNode]) -> list[DrawnNode]:
    return [each for drawn in parts for each in (drawn, *drawn_nodes(drawn.children))]


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_in_a_browser_a_node_opens_with_the_messages_it_stands_for(tmp_path: Path) -> None:
    page = map_page(tmp_path, beekeeper(EVIL))
    leaf = re.search(r'<div class="covers" data-first="(\d+)" data-last="(\d+)"', page)
    assert leaf
    number = re.findall(r'<details class="node" id="(node-\d+)">', page[: leaf.start()])[-1]
    address = f"{(tmp_path / 'page.html').as_uri()}#{number}"
    words = [str(BROWSER), *FLAGS.split(), f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", address]
    done = subprocess.run(words, capture_output=True, timeout=120)
    dom = done.stdout.decode("utf-8", "replace")
    assert "CONSOLE" not in done.stderr.decode("utf-8", "replace")
    assert f'id="{number}" open=""' in dom
    inside = dom[dom.index(f'data-first="{leaf[1]}"') :].split("</div>")[0]
    assert inside.count('class="cell summarised') == int(leaf[2]) - int(leaf[1])
    assert "<title>Clew: " in dom
