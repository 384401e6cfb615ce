"""Definitions in quoted code: a name stands for a line that says no more than it."""

from __future__ import annotations

import pytest

from clew.ledger import joined_definitions
from clew.ledger.spans import bare_definition, repeats_definition


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("def test_email(self):", "test_email"),
        ("async def close(self) -> None:", "close"),
        ("15→def main():", "main"),
        ("class TestEmail:", "TestEmail"),
        ("class TestEmail(unittest.TestCase):", "TestEmail"),
        ("function restoreEditor() {", "restoreEditor"),
        ("private hideModelSelector(): void {", "hideModelSelector"),
        ("pub fn close(&self) {", "close"),
        ("func TestRetry(t *testing.T) {", "TestRetry"),
        ("def put(self, path, bucket):", ""),
        ("fn retry(times: u32) -> bool {", ""),
        ("default_chunk = 5", ""),
        ("definitely a sentence about def main():", ""),
        ("class TestEmail: its second half is below", ""),
    ],
)
def test_a_definition_whose_parameters_say_nothing_is_told_by_its_name(line: str, name: str) -> None:
    assert bare_definition(line) == name


def test_definitions_that_follow_each_other_stand_on_one_line_behind_their_class() -> None:
    lines = [
        "import pytest",
        "class TestEmail:",
        "def test_basic(self):",
        "def test_plus(self):",
        "class TestCard:",
        "def test_visa(self):",
        "DELAYS = (0.5, 1, 2)",
        "def test_alone(self):",
        "assert wait(3) == 2",
    ]
    assert joined_definitions(lines) == [
        "import pytest",
        "class TestEmail: def test_basic, test_plus(self):",
        "class TestCard: def test_visa(self):",
        "DELAYS = (0.5, 1, 2)",
        "def test_alone(self):",
        "assert wait(3) == 2",
    ]


def test_definitions_without_a_class_keep_the_word_before_the_first() -> None:
    assert joined_definitions(["def load():", "def save():", "def close():"]) == ["def load, save, close():"]
    assert joined_definitions(["class Aa:", "class Bb:", "class Cc:"]) == ["class Aa, Bb, Cc:"]


def test_a_comment_that_says_the_name_again_is_known() -> None:
    text = 'def test_email_redaction(self):\n    """Test email address redaction"""\n    """Cards keep four digits"""\n'
    first = text.index('"""')
    second = text.index('"""Cards')
    assert repeats_definition(text, first, text.index("\n", first))
    assert not repeats_definition(text, second, text.index("\n", second))
