"""Editing passages: found exactly, or but for their white space, or not at all with the reason."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from clew.agent.files import Workspace
from clew.agent.files.disk import FileStamp, FileTracker
from clew.agent.tools import CallContext, ToolResult
from clew.agent.tools.patch import PatchTool
from clew.tokens import count_tokens

CALL = CallContext("session", "call")


async def patch(root: Path, *edits: dict[str, Any]) -> ToolResult:
    return await PatchTool(Workspace(root), FileTracker()).run({"edits": list(edits)}, CALL)


async def patched(root: Path, before: str, old: str, new: str, **options: Any) -> tuple[ToolResult, str]:
    path = root / "a.py"
    path.write_bytes(before.encode())
    result = await patch(root, {"path": "a.py", "old": old, "new": new, **options})
    return result, path.read_bytes().decode()


async def test_an_exact_edit_tells_its_lines_and_shows_a_diff(tmp_path: Path) -> None:
    result, after = await patched(tmp_path, "a\nb\nc\n", "b\n", "B\nBB\n")
    assert after == "a\nB\nBB\nc\n"
    assert result.text == "a.py: changed, 3 -> 4 lines\nedit 1: applied, exact, now lines 2-3"
    assert result.display_text is not None
    assert "-b\n+B\n+BB\n c" in result.display_text
    assert not result.is_error


async def test_edits_of_one_file_see_each_other_and_know_their_final_lines(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\nthree\n")
    result = await patch(
        tmp_path,
        {"path": "a.py", "old": "three", "new": "3"},
        {"path": "a.py", "old": "one", "new": "zero\nhalf\none"},
        {"path": "./a.py", "old": "half", "new": "1/2"},
    )
    assert (tmp_path / "a.py").read_text() == "zero\n1/2\none\ntwo\n3\n"
    assert "edit 1: applied, exact, now line 5" in result.text
    assert "edit 3: applied, exact, now line 2" in result.text


async def test_a_file_changes_wholly_or_not_at_all_and_others_are_not_held_up(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\n")
    (tmp_path / "b.py").write_text("one\n")
    result = await patch(
        tmp_path,
        {"path": "a.py", "old": "one", "new": "1"},
        {"path": "b.py", "old": "one", "new": "1"},
        {"path": "a.py", "old": "nothing like it", "new": "x"},
    )
    assert (tmp_path / "a.py").read_text() == "one\ntwo\n"
    assert (tmp_path / "b.py").read_text() == "1\n"
    assert result.is_error
    assert "a.py: nothing changed\nedit 3: old was not found" in result.text
    assert "edits that fit, but were left out with them: 1" in result.text
    assert "b.py: changed" in result.text


async def test_several_places_are_named_and_nothing_is_guessed(tmp_path: Path) -> None:
    before = "x = 1\ny\nx = 1\n"
    result, after = await patched(tmp_path, before, "x = 1", "x = 2")
    assert after == before
    assert "old is there 2 times, at lines 1, 3" in result.text
    result, after = await patched(tmp_path, before, "x = 1", "x = 2", replace_all=True)
    assert after == "x = 2\ny\nx = 2\n"
    assert "2 places" in result.text


async def test_overlapping_places_are_several(tmp_path: Path) -> None:
    result, after = await patched(tmp_path, "aaa\n", "aa", "b")
    assert result.is_error
    assert after == "aaa\n"


async def test_space_at_line_ends_is_tolerated_and_kept_where_nothing_changes(tmp_path: Path) -> None:
    result, after = await patched(
        tmp_path, "def f():  \n    a\n\t\n    b\n", "def f():\n    a\n\n    b", "def f():\n    a\n\n    c"
    )
    assert after == "def f():  \n    a\n\t\n    c\n"
    assert "tolerant (space at line ends differed)" in result.text


async def test_a_shift_of_indentation_is_given_to_the_new_lines(tmp_path: Path) -> None:
    before = "class A:\n    def f(self):\n        return 1\n\n    def g(self): ...\n"
    old = "def f(self):\n    return 1\n"
    new = "def f(self):\n    if self:\n        return 2\n\n    return 1\n"
    result, after = await patched(tmp_path, before, old, new)
    assert after == (
        "class A:\n    def f(self):\n        if self:\n            return 2\n\n        return 1\n"
        "\n    def g(self): ...\n"
    )
    assert "tolerant (indentation differed)" in result.text


async def test_lines_that_were_written_too_far_right_move_left(tmp_path: Path) -> None:
    _, after = await patched(tmp_path, "if a:\n  b\n", "    if a:\n      b", "    if a:\n      c\n    d")
    assert after == "if a:\n  c\nd\n"


async def test_tabs_for_spaces_are_tolerated_both_ways(tmp_path: Path) -> None:
    _, after = await patched(
        tmp_path, "f {\n\tif a {\n\t\tb\n\t}\n}\n", "    if a {\n        b\n", "    if a {\n        c\n        d\n"
    )
    assert after == "f {\n\tif a {\n\t\tc\n\t\td\n\t}\n}\n"
    _, after = await patched(tmp_path, "  if a:\n    b\n", "\tif a:\n\t\tb", "\tif a:\n\t\tb\n\t\t\tc")
    assert after == "  if a:\n    b\n      c\n"


async def test_white_space_inside_lines_is_tolerated_last(tmp_path: Path) -> None:
    result, after = await patched(tmp_path, "x  =  1  # one\ny\n", "x = 1 # one\n", "x = 2 # two\n")
    assert after == "x = 2 # two\ny\n"
    assert "tolerant (white space differed)" in result.text


async def test_an_indentation_that_is_not_shifted_evenly_does_not_fit(tmp_path: Path) -> None:
    before = "if a:\n    b\nc\n"
    result, after = await patched(tmp_path, before, "if a:\n    b\n    c", "x")
    assert after == before
    assert "closest are lines 1-3" in result.text
    assert "-    c\n+c" in result.text


async def test_a_tolerant_fit_in_two_places_is_several(tmp_path: Path) -> None:
    before = "  a\n  b\n---\n    a\n    b\n"
    result, after = await patched(tmp_path, before, "a\nb", "c")
    assert "old is there 2 times, at lines 1, 4, but for indentation" in result.text
    assert after == before


async def test_a_miss_shows_the_closest_lines_by_their_numbers_on_disk(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("head\n" + "def load(path):\n    text = read(path)\n    return parse(text)\n")
    result = await patch(
        tmp_path,
        {"path": "a.py", "old": "head\n", "new": "1\n2\n3\n4\n"},
        {"path": "a.py", "old": "def load(path):\n    text = read(name)\n    return parse(text)", "new": "x"},
    )
    assert "closest are lines 2-4 (- old, + file)" in result.text
    assert "-    text = read(name)\n+    text = read(path)" in result.text


async def test_a_miss_knows_the_usual_mistakes(tmp_path: Path) -> None:
    result, _ = await patched(tmp_path, "a\nb\n", "1\ta\n2\tb", "x")
    assert "leave out the line numbers" in result.text
    result, _ = await patched(tmp_path, "new thing\n", "old thing that was", "new thing")
    assert "new stands at line 1 already" in result.text
    result, _ = await patched(tmp_path, "a\n", "zzzzzzzz", "q")
    assert "nor anything like it" in result.text


async def test_the_same_old_and_new_are_refused(tmp_path: Path) -> None:
    result, _ = await patched(tmp_path, "a\n", "a", "a")
    assert "old and new are the same" in result.text


async def test_an_empty_old_creates_a_file_but_never_replaces_one(tmp_path: Path) -> None:
    result = await patch(
        tmp_path,
        {"path": "new/a.py", "old": "", "new": "one\ntwo\n"},
        {"path": "new/a.py", "old": "two", "new": "2"},
    )
    assert (tmp_path / "new/a.py").read_text() == "one\n2\n"
    assert "edit 1: applied, created, now lines 1-2" in result.text
    again = await patch(tmp_path, {"path": "new/a.py", "old": "", "new": "x"})
    assert "this one exists" in again.text
    assert (tmp_path / "new/a.py").read_text() == "one\n2\n"
    missing = await patch(tmp_path, {"path": "b.py", "old": "x", "new": "y"})
    assert "there is no such file" in missing.text
    assert not (tmp_path / "b.py").exists()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\r\nb\r\nc", b"a\r\nx\r\ny\r\nc"),
        (b"\xef\xbb\xbfa\nb\nc\n", b"\xef\xbb\xbfa\nx\ny\nc\n"),
        ("a\nb\nc\n".encode("utf-16"), "a\nx\ny\nc\n".encode("utf-16")),
        (b"caf\xe9\nb\nc\n", b"caf\xe9\nx\ny\nc\n"),
        (b"a\r\nb\nc\r\n\x0c\n", b"a\r\nx\ny\nc\r\n\x0c\n"),
    ],
)
async def test_a_file_keeps_its_spelling(tmp_path: Path, before: bytes, after: bytes) -> None:
    (tmp_path / "a.txt").write_bytes(before)
    (tmp_path / "a.txt").chmod(0o755)
    await patch(tmp_path, {"path": "a.txt", "old": "b\n", "new": "x\ny\n"})
    assert (tmp_path / "a.txt").read_bytes() == after
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o755


async def test_what_the_encoding_cannot_hold_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"caf\xe9\n")
    result = await patch(tmp_path, {"path": "a.txt", "old": "caf", "new": "→"})
    assert "cannot be written as latin-1" in result.text
    assert (tmp_path / "a.txt").read_bytes() == b"caf\xe9\n"


async def test_binaries_folders_and_outside_are_refused(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "bin").write_bytes(b"\x7fELF\xff\0")
    (tmp_path / "x.txt").write_text("x")
    root = tmp_path / "project"
    assert "holds no text" in (await patch(root, {"path": "bin", "old": "E", "new": "F"})).text
    assert "is a folder" in (await patch(root, {"path": ".", "old": "E", "new": "F"})).text
    assert "outside the project" in (await patch(root, {"path": "../x.txt", "old": "x", "new": "y"})).text
    assert (tmp_path / "x.txt").read_text() == "x"


async def test_a_file_known_before_an_edit_is_known_after_it(tmp_path: Path) -> None:
    tracker, path = FileTracker(), tmp_path / "a.txt"
    path.write_text("a\n")
    tool = PatchTool(Workspace(tmp_path), tracker)
    await tool.run({"edits": [{"path": "a.txt", "old": "a", "new": "b"}]}, CALL)
    assert not tracker.is_current(path, FileStamp.of(path.stat()))
    tracker.record(path, FileStamp.of(path.stat()))
    await tool.run({"edits": [{"path": "a.txt", "old": "b", "new": "c"}]}, CALL)
    assert tracker.is_current(path, FileStamp.of(path.stat()))


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"edits": []},
        {"edits": "x"},
        {"edits": [3]},
        {"edits": [{"path": "a"}]},
        {"edits": [{"path": ["a"], "old": "a", "new": "b"}]},
        {"edits": [{"path": "a", "old": 1, "new": "b"}]},
        {"edits": [{"path": "a", "old": "a", "new": "b", "replace_all": "perhaps"}]},
    ],
)
async def test_wrong_arguments_are_told_and_never_raise(tmp_path: Path, arguments: dict[str, Any]) -> None:
    (tmp_path / "a").write_text("a")
    tool = PatchTool(Workspace(tmp_path), FileTracker())
    tool.risk(arguments)
    tool.headline(arguments)
    assert (await tool.run(arguments, CALL)).is_error
    assert (tmp_path / "a").read_text() == "a"


async def test_one_edit_without_a_list_is_understood(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    tool = PatchTool(Workspace(tmp_path), FileTracker())
    assert not (await tool.run({"path": "a", "old": "a", "new": "b"}, CALL)).is_error
    assert (tmp_path / "a").read_text() == "b"


def test_the_risk_names_every_file_outside_and_every_secret(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / ".env").write_text("x")
    tool = PatchTool(Workspace(tmp_path / "project"), FileTracker())
    edit = {"old": "a", "new": "b"}
    risk = tool.risk({"edits": [{"path": path, **edit} for path in ("../a", "in", ".env", "../b")]})
    assert risk is not None
    assert len(risk.reasons) == 3
    assert tool.risk({"edits": [{"path": "in", **edit}]}) is None


def test_headlines_count(tmp_path: Path) -> None:
    tool = PatchTool(Workspace(tmp_path), FileTracker())
    assert tool.headline({"edits": [{"path": "a"}, {"path": "b"}, {"path": "a"}]}) == "patch 3 edits in 2 files"
    assert tool.headline({"edits": [{"path": "a"}]}) == "patch 1 edit in a"


def test_the_schema_is_short() -> None:
    assert count_tokens(str(PatchTool.schema)) < 250
