"""What is typed, as a title and as a message."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.cli.tui.exchange import MAX_TITLE_CHARS, message_from, title_from
from clew.errors import InvalidArgument


def test_a_short_question_is_its_own_title() -> None:
    assert title_from("  Why is the\nclock late? ") == "Why is the clock late?"


def test_a_long_one_is_cut_between_words() -> None:
    title = title_from("word " * 40)
    assert len(title) <= MAX_TITLE_CHARS + 1
    assert title.endswith("word…")


def test_a_question_without_pictures_is_plain_text(tmp_path: Path) -> None:
    assert message_from("see @notes.md and @none.png", tmp_path)["content"] == "see @notes.md and @none.png"


def test_pictures_go_along_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"one")
    (tmp_path / "b.JPG").write_bytes(b"two")
    content = message_from("@a.png or @b.JPG", tmp_path)["content"]
    assert isinstance(content, list)
    urls = [part["image_url"]["url"] for part in content[1:]]
    assert [url.split(";")[0] for url in urls] == ["data:image/png", "data:image/jpeg"]


def test_a_picture_that_is_too_large_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with (tmp_path / "big.png").open("wb") as file:
        file.truncate(11 * 1024 * 1024)
    with pytest.raises(InvalidArgument, match="smaller"):
        message_from("@big.png", tmp_path)
