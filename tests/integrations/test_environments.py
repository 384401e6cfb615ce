"""The table of environments that adapters are tested in."""

from __future__ import annotations

from tests.integrations.run import HERE, environments


def test_every_row_names_tests_that_are_there_and_that_the_test_line_leaves_out() -> None:
    named = {test for environment in environments().values() for test in environment.tests}
    assert {test for test in named if not (HERE / test).is_file() or test.startswith("test_")} == set()
    assert {path.name for path in HERE.glob("inside_*.py")} == named


def test_every_row_pins_the_version_that_was_tried() -> None:
    needed = [each for environment in environments().values() for each in environment.requirements]
    assert [each for each in needed if "==" not in each] == []
