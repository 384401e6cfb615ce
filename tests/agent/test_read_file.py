"""Reading files a page at a time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from clew.agent.files import Workspace
from clew.agent.files.disk import FileStamp, FileTracker
from clew.agent.tools import CallContext, ToolResult
from clew.agent.tools.read_write import ReadFileTool
from clew.tokens import count_tokens
from clew.tooloutput import Spilled, SpillFolder

CALL = CallContext("session", "call")


async def read(root: Path, path: str, *, spills: Path | None = None, **arguments: Any) -> ToolResult:
    tool = ReadFileTool(Workspace(root, read_only_allowed=[spills] if spills else ()), FileTracker())
    return await tool.run({"path": path, **arguments}, CALL)


async def test_lines_come_with_numbers_and_their_span(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\ttwo\n")
    assert (await read(tmp_path, "a.txt")).text == "1\tone\n2\t\ttwo\n[lines 1-2 of 2]"


async def test_a_page_tells_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("".join(f"line {n}\n" for n in range(1, 8_124)))
    first = (await read(tmp_path, "long.txt")).text
    assert first.endswith("2000\tline 2000\n[lines 1-2000 of 8,123; go on with offset=2001]")
    last = (await read(tmp_path, "long.txt", offset="8122", limit=50)).text
    assert last == "8122\tline 8122\n8123\tline 8123\n[lines 8122-8123 of 8,123]"


async def test_pages_put_together_are_the_file(tmp_path: Path) -> None:
    lines = [f"{n} " + "x" * (n % 300) for n in range(1_500)]
    (tmp_path / "a.txt").write_text("\n".join(lines))
    got: list[str] = []
    page = ["go on"]
    while "go on" in page[-1]:
        page = (await read(tmp_path, "a.txt", offset=len(got) + 1, limit=700)).text.split("\n")
        got += [line.split("\t", 1)[1] for line in page[:-1]]
        assert sum(map(len, page)) < 70_000
    assert got == lines
    assert "no line end at the end" in page[-1]


async def test_pages_can_be_smaller_for_a_small_window(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x" * 90 + "\n" + ("y" * 90 + "\n") * 50)
    tool = ReadFileTool(Workspace(tmp_path), FileTracker(), page_chars=1_000)
    assert "[lines 1-10 of 51; go on with offset=11]" in (await tool.run({"path": "a.txt"}, CALL)).text


async def test_an_offset_behind_the_end_says_how_long_the_file_is(tmp_path: Path) -> None:
    for text in ("a\nb\n", "a\nb"):
        (tmp_path / "a.txt").write_text(text)
        result = await read(tmp_path, "a.txt", offset=3)
        assert result.is_error
        assert "has 2 lines" in result.text


async def test_a_long_line_is_cut_and_can_be_read_on(tmp_path: Path) -> None:
    line = "".join(chr(0x4E00 + n % 2_000) for n in range(120_000))
    (tmp_path / "a.txt").write_text(f"short\n{line}\nend\n")
    page = (await read(tmp_path, "a.txt")).text
    assert f"2\t{line[:2_000]} [... 118,000 more chars: offset=2, column=2001]" in page
    got, column = line[:2_000], 2_001
    while True:
        text, _, note = (await read(tmp_path, "a.txt", offset=2, column=column)).text.rpartition("\n")
        got, column = got + text, column + len(text)
        if "the line ends here" in note:
            break
        assert f"column={column}" in note
    assert got == line
    assert (await read(tmp_path, "a.txt", offset=2, column=column)).is_error


async def test_a_huge_file_is_read_without_being_loaded(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.write(b"first\nsecond\n")
        os.truncate(file.fileno(), 3 << 30)
        file.seek(0)
        file.write(b"a" * 20_000 + b"\nsecond\n")
    tool = ReadFileTool(Workspace(tmp_path), FileTracker())
    result = await tool.run({"path": "huge", "limit": 2}, CALL)
    assert "2\tsecond" in result.text
    assert "of many (3,221,225,472 bytes); go on with offset=3" in result.text


async def test_spilled_results_can_be_read_whole_whatever_is_in_them(tmp_path: Path) -> None:
    folder = SpillFolder(tmp_path / "spill")
    spilled = folder.write("first\x00\n\ud800 half\nlast")
    assert isinstance(spilled, Spilled)
    (tmp_path / "project").mkdir()
    result = await read(tmp_path / "project", str(spilled.path), spills=folder.folder)
    assert result.text.startswith("1\tfirst␀\n2\t\\ud800 half\n3\tlast\n[lines 1-3 of 3")


@pytest.mark.parametrize(
    ("content", "line", "note"),
    [
        (b"\xef\xbb\xbfhi\n", "1\thi", "utf-8 with a byte order mark"),
        ("größe\n".encode("utf-16"), "1\tgröße", "utf-16-le with a byte order mark"),
        (b"caf\xe9\n", "1\tcafé", "1 lines are no UTF-8, read as Latin-1"),
        (b"a\r\nb\r\n", "1\ta\n2\tb\n", "line ends are CRLF"),
        (b"open", "1\topen", "no line end at the end of the file"),
    ],
)
async def test_what_is_special_about_a_text_is_said(tmp_path: Path, content: bytes, line: str, note: str) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    text = (await read(tmp_path, "a.txt")).text
    assert text.startswith(line)
    assert note in text


async def test_what_is_no_text_is_named(tmp_path: Path) -> None:
    png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (640).to_bytes(4, "big") + (480).to_bytes(4, "big")
    (tmp_path / "a.png").write_bytes(png)
    (tmp_path / "a.out").write_bytes(b"\x7fELF\0\0\0")
    (tmp_path / "empty").touch()
    assert "PNG image, 640 x 480 pixels, 24 bytes" in (await read(tmp_path, "a.png")).text
    assert "ELF program or library, 7 bytes" in (await read(tmp_path, "a.out")).text
    assert (await read(tmp_path, "empty")).text == "[empty is empty]"


async def test_a_folder_is_listed(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "a.txt").write_text("hello")
    (tmp_path / "link").symlink_to("nowhere")
    text = (await read(tmp_path, ".")).text
    assert text == "b/\na.txt  5 bytes\nlink -> nowhere\n[folder, entries 1-3 of 3]"
    assert "[folder, entries 1-2 of 3; go on with offset=3]" in (await read(tmp_path, ".", limit=2)).text


async def test_a_missing_file_leads_to_the_nearest_names(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "parser.py").touch()
    (tmp_path / "src" / "deep").mkdir()
    (tmp_path / "src" / "deep" / "other.py").touch()
    near = await read(tmp_path, "src/parsr.py")
    assert near.is_error
    assert "src/parser.py" in near.text
    assert "src/deep/other.py" in (await read(tmp_path, "other.py")).text
    assert "nearest folder that exists is src" in (await read(tmp_path, "src/no/such/thing.zzz")).text
    assert (await read(tmp_path, "src/parser.py/x")).is_error


async def test_reading_remembers_what_was_seen(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    tracker = FileTracker()
    await ReadFileTool(Workspace(tmp_path), tracker).run({"path": "a.txt"}, CALL)
    assert tracker.is_current(tmp_path / "a.txt", FileStamp.of((tmp_path / "a.txt").stat()))


async def test_outside_is_a_risk_and_refused_without_one(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "x.txt").write_text("x")
    tool = ReadFileTool(Workspace(tmp_path / "project"), FileTracker())
    assert (await tool.run({"path": "../x.txt"}, CALL)).is_error
    risk = tool.risk({"path": "../x.txt"})
    assert risk is not None
    assert "outside the project" in risk.reasons[0]
    assert (await tool.run({"path": "../x.txt"}, CALL)).text.startswith("1\tx\n")


@pytest.mark.parametrize("arguments", [{}, {"path": 3}, {"path": "a", "offset": "x"}, {"path": "a", "limit": -1}])
async def test_wrong_arguments_are_told_and_never_raise(tmp_path: Path, arguments: dict[str, Any]) -> None:
    tool = ReadFileTool(Workspace(tmp_path), FileTracker())
    (tmp_path / "a").write_text("x")
    tool.risk(arguments)
    tool.headline(arguments)
    assert (await tool.run(arguments, CALL)).is_error


async def test_a_file_that_may_not_be_read_says_so(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    (tmp_path / "a").write_text("x")
    (tmp_path / "a").chmod(0)
    assert "Permission denied" in (await read(tmp_path, "a")).text


def test_the_headline_names_the_lines_that_were_asked_for(tmp_path: Path) -> None:
    tool = ReadFileTool(Workspace(tmp_path), FileTracker())
    assert tool.headline({"path": "src/app.py"}) == "read src/app.py"
    assert tool.headline({"path": "src/app.py", "limit": 200}) == "read src/app.py 1-200"


def test_the_schema_is_short() -> None:
    assert count_tokens(str(ReadFileTool.schema)) < 250
