"""The fuzzer itself: a few fixed cases of every target, and what a finding is."""

from __future__ import annotations

import importlib.util
import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def fuzz() -> ModuleType:
    spec = importlib.util.spec_from_file_location("clew_fuzz", Path(__file__).with_name("fuzz.py"))
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_fixed_cases_of_every_target_find_nothing(fuzz: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert fuzz.main(["--seed", "1", "--cases", "15"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("seed 1, targets importers, dialects, streams, reports, config, database, folds, texts\n")
    assert "\n120 cases in " in out and out.endswith("0 findings\n")


def test_a_case_is_drawn_from_its_seed_and_number_alone(fuzz: ModuleType) -> None:
    for target in fuzz.TARGETS.values():
        assert target(random.Random("7:3"))[0] == target(random.Random("7:3"))[0]


@pytest.mark.parametrize(
    "long",
    [
        "\n" * 60_000,
        "cat <<EOF > a.py\n" + "\n" * 60_000,
        "sed -i '" + "<<E。if " * 10_000,
        "1~a/" * 20_000,
        "| a | b |\n|" + "\t" * 60_000,
    ],
)
def test_a_text_in_which_something_comes_again_and_again_is_folded_soon(fuzz: ModuleType, long: str) -> None:
    for place in range(4):
        messages = fuzz.conversation_with(f"Look: {long} end", place)
        assert fuzz.run_case(lambda _, messages=messages: (b"", fuzz.folding(messages)), "") is None


def test_an_error_that_no_door_documents_is_a_finding_that_is_kept(
    fuzz: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: random.Random) -> tuple[bytes, Callable[[], None]]:
        return b"the input", lambda: [].pop()

    assert fuzz.main(["--seed", "4", "--cases", "3"], {"config": broken}, tmp_path / "findings") == 1
    out = capsys.readouterr().out
    assert "FOUND --seed 4 --only config --case 0: IndexError: pop from empty list at test_fuzz_runs.py" in out
    assert [each.read_bytes() for each in (tmp_path / "findings").iterdir()] == [b"the input"]


def test_random_agents_through_a_gateway_find_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.spec_from_file_location("gateway_fuzz", Path(__file__).with_name("gateway_fuzz.py"))
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.main(["--seed", "5", "--worlds", "4"]) == 0, capsys.readouterr().out
