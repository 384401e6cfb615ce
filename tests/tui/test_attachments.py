"""What a question takes along, and the line that the person typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.cli.tui.attachments import MAX_LISTED, command_output_block, named_paths, question_message, typed_line
from clew.errors import InvalidArgument
from clew.messages import text_of


def test_a_question_that_names_nothing_is_plain_text(tmp_path: Path) -> None:
    asked = question_message("mail rota@example.org, ask @greta and @me", tmp_path)
    assert asked.message == {"role": "user", "content": "mail rota@example.org, ask @greta and @me"}
    assert (asked.taken, asked.missing) == ((), ())


@pytest.mark.parametrize("spelling", ["@rota.py", "(@rota.py)", "@rota.py.", "@./rota.py,", '@"rota.py"'])
def test_a_text_file_goes_along_whatever_stands_beside_its_name(tmp_path: Path, spelling: str) -> None:
    (tmp_path / "rota.py").write_text("x = 1\n")
    asked = question_message(f"look at {spelling} now", tmp_path)
    assert "\nx = 1\n</file>" in text_of(asked.message)
    assert typed_line(asked.message) == f"look at {spelling} now"


def test_a_name_with_spaces_stands_in_quotes(tmp_path: Path) -> None:
    (tmp_path / "my notes.md").write_text("Greta is off.")
    assert "Greta is off." in text_of(question_message('read @"my notes.md"', tmp_path).message)


def test_a_file_that_is_named_twice_goes_along_once(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("only once")
    assert text_of(question_message("@a.txt and @./a.txt", tmp_path).message).count("only once") == 1


def test_of_a_long_file_whole_lines_go_along_and_the_rest_is_told(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("".join(f"line {number}\n" for number in range(1000)))
    asked = question_message("@log", tmp_path, max_chars=100)
    text = text_of(asked.message)
    assert "line 12\n" in text and "line 13" not in text
    assert "offset=14" in text
    assert asked.taken == ("log: the first 13 of 1,000 lines are attached",)


def test_of_a_folder_the_names_go_along(tmp_path: Path) -> None:
    (tmp_path / "src" / "inner").mkdir(parents=True)
    (tmp_path / "src" / "b.py").touch()
    text = text_of(question_message("what is in @src/ ?", tmp_path).message)
    assert '<folder path="src/">\nb.py\ninner/\n</folder>' in text


def test_of_a_large_folder_the_first_names(tmp_path: Path) -> None:
    for number in range(MAX_LISTED + 5):
        (tmp_path / f"f{number:04}").touch()
    assert "[5 more]" in text_of(question_message("@.", tmp_path).message)


def test_pictures_go_along_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"one")
    (tmp_path / "b.JPG").write_bytes(b"two")
    message = question_message("@a.png or @b.JPG", tmp_path).message
    content = message["content"]
    assert isinstance(content, list)
    urls = [part["image_url"]["url"] for part in content[1:]]
    assert [url.split(";")[0] for url in urls] == ["data:image/png", "data:image/jpeg"]
    assert typed_line(message) == "@a.png or @b.JPG"


def test_what_cannot_go_along_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with (tmp_path / "big.png").open("wb") as file:
        file.truncate(11 * 1024 * 1024)
    with pytest.raises(InvalidArgument, match="smaller"):
        question_message("@big.png", tmp_path)
    (tmp_path / "prog").write_bytes(b"\x7fELF\x00\x00\x01")
    with pytest.raises(InvalidArgument, match="no text"):
        question_message("@prog", tmp_path)


def test_a_name_that_looks_like_a_path_and_is_none_is_told(tmp_path: Path) -> None:
    asked = question_message("see @docs/plan.md, @notes.md and @greta", tmp_path)
    assert [note.split(" in ")[0] for note in asked.missing] == [
        "there is no file docs/plan.md",
        "there is no file notes.md",
    ]


def test_decorators_in_pasted_code_are_no_files(tmp_path: Path) -> None:
    pasted = "why does this fail?\n@app.route\n@pytest.mark.asyncio\ndef f(): ...\nsee @a/b.py"
    assert named_paths(pasted, tmp_path) == ([], ["a/b.py"])


def test_outputs_of_commands_stand_behind_the_question(tmp_path: Path) -> None:
    asked = question_message("why?", tmp_path, [command_output_block('grep "x" y', "y:1:x\n")])
    assert text_of(asked.message) == "why?\n\n<command-output command='grep \"x\" y'>\ny:1:x\n</command-output>"
    assert typed_line(asked.message) == "why?"
