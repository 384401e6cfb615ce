"""How many files a call passes through, and that docs/walk.md says which."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks"))

import walks  # noqa: E402  (benchmarks are scripts in a folder of their own)

PAGE = (ROOT / "docs" / "walk.md").read_text(encoding="utf-8").partition("\n## The four walks")[2].partition("\n## ")[0]
LISTED = re.findall(r"```\n(.*?)```", PAGE, re.DOTALL)
MOST_FILES = {"compress": 30, "a turn": 40, "an append": 8, "preview, then apply": 42}


@pytest.mark.parametrize(("name", "listed"), list(zip(walks.WALKS, LISTED, strict=True)))
def test_a_walk_is_short_and_the_page_tells_it(name: str, listed: str) -> None:
    walked = walks.walk_of(walks.WALKS[name]).files
    assert len(walked) <= MOST_FILES[name], "\n".join(walked)
    told = dict(line.split(": ", 1) for line in listed.splitlines())
    assert set(told) == set(walked)
    for path, functions in told.items():
        assert set(functions.split(", ")) <= set(walked[path]), path


@pytest.mark.parametrize(("name", "most"), [("a request through the gateway", 30), ("one that is folded", 40)])
def test_a_request_through_the_gateway_is_a_short_walk(name: str, most: int) -> None:
    walked = walks.walk_of(walks.GATEWAY_WALKS[name]).files
    assert len(walked) <= most, "\n".join(walked)
