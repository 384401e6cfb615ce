"""Writing whole files, and never over what was not read."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from clew.agent.files import Workspace
from clew.agent.files.disk import FileStamp, FileTracker, open_regular, write_atomically
from clew.agent.tools import CallContext, ToolResult
from clew.agent.tools.read_write import ReadFileTool, WriteFileTool
from clew.errors import InvalidArgument
from clew.tokens import count_tokens

CALL = CallContext("session", "call")


class FileTools:
    """Reading and writing in one project, with one tracker."""

    def __init__(self, root: Path) -> None:
        tracker, workspace = FileTracker(), Workspace(root)
        self.reader, self.writer = ReadFileTool(workspace, tracker), WriteFileTool(workspace, tracker)

    async def read(self, path: str) -> ToolResult:
        return await self.reader.run({"path": path}, CALL)

    async def write(self, path: str, content: Any) -> ToolResult:
        return await self.writer.run({"path": path, "content": content}, CALL)


async def test_a_new_file_is_created_with_its_folders(tmp_path: Path) -> None:
    result = await FileTools(tmp_path).write("a/b/c.txt", "one\ntwo\n")
    assert (tmp_path / "a/b/c.txt").read_text() == "one\ntwo\n"
    assert result.text == "created a/b/c.txt: 2 lines"
    assert result.display_text is not None
    assert "+one\n+two" in result.display_text
    assert [path.name for path in (tmp_path / "a/b").iterdir()] == ["c.txt"]


async def test_the_umask_decides_the_mode_of_a_new_file(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        await FileTools(tmp_path).write("a.txt", "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640


async def test_a_file_that_was_never_read_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("precious")
    tools = FileTools(tmp_path)
    refused = await tools.write("a.txt", "gone")
    assert refused.is_error
    assert "read it first" in refused.text
    assert (tmp_path / "a.txt").read_text() == "precious"
    await tools.read("a.txt")
    assert not (await tools.write("a.txt", "new")).is_error
    assert not (await tools.write("a.txt", "newer")).is_error


async def test_a_file_that_changed_since_is_not_written_over(tmp_path: Path) -> None:
    tools = FileTools(tmp_path)
    await tools.write("a.txt", "mine")
    (tmp_path / "a.txt").write_text("theirs, longer")
    refused = await tools.write("a.txt", "mine again")
    assert "has changed on disk" in refused.text
    assert (tmp_path / "a.txt").read_text() == "theirs, longer"


async def test_replacing_keeps_the_mode_and_the_link(tmp_path: Path) -> None:
    (tmp_path / "real.sh").write_text("#!/bin/sh\n")
    (tmp_path / "real.sh").chmod(0o755)
    (tmp_path / "link.sh").symlink_to("real.sh")
    tools = FileTools(tmp_path)
    await tools.read("link.sh")
    result = await tools.write("link.sh", "#!/bin/sh\necho\n")
    assert result.text == "replaced real.sh: 1 -> 2 lines"
    assert (tmp_path / "link.sh").is_symlink()
    assert (tmp_path / "real.sh").read_text() == "#!/bin/sh\necho\n"
    assert stat.S_IMODE((tmp_path / "real.sh").stat().st_mode) == 0o755


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\r\nb\r\n", b"a\r\nc\r\n"),
        (b"\xef\xbb\xbfa\nb\n", b"\xef\xbb\xbfa\nc\n"),
        ("a\nb\n".encode("utf-16"), "a\nc\n".encode("utf-16")),
    ],
)
async def test_a_file_keeps_its_spelling(tmp_path: Path, before: bytes, after: bytes) -> None:
    (tmp_path / "a.txt").write_bytes(before)
    tools = FileTools(tmp_path)
    await tools.read("a.txt")
    await tools.write("a.txt", "a\nc\n")
    assert (tmp_path / "a.txt").read_bytes() == after


async def test_the_same_content_writes_nothing(tmp_path: Path) -> None:
    tools = FileTools(tmp_path)
    await tools.write("a.txt", "x\n")
    before = FileStamp.of((tmp_path / "a.txt").stat())
    assert "already" in (await tools.write("a.txt", "x\n")).text
    assert FileStamp.of((tmp_path / "a.txt").stat()) == before


@pytest.mark.parametrize("content", [None, 3, ["x"], "half \ud800"])
async def test_what_is_no_text_is_refused(tmp_path: Path, content: Any) -> None:
    result = await FileTools(tmp_path).write("a.txt", content)
    assert result.is_error
    assert not (tmp_path / "a.txt").exists()


async def test_folders_git_and_read_only_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    tools = FileTools(tmp_path)
    assert "is a folder" in (await tools.write("folder", "x")).text
    assert "inside .git" in (await tools.write(".git/hooks/pre-commit", "x")).text
    assert not (tmp_path / ".git").exists()
    assert (await tools.write("folder/../a.txt/b", "x")).text.startswith("created")
    assert (await tools.write("a.txt/b/c", "x")).is_error


async def test_outside_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    tools = FileTools(tmp_path / "project")
    assert (await tools.write("../x.txt", "x")).is_error
    risk = tools.writer.risk({"path": "../x.txt", "content": "x"})
    assert risk is not None
    assert risk.scope == f"write outside: {tmp_path}"
    assert not (await tools.write("../x.txt", "x")).is_error
    assert tools.writer.risk({"path": "x.txt"}) is None
    assert tools.writer.risk({}) is None


def test_a_link_that_appears_on_the_way_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x").write_text("private")
    (tmp_path / "folder").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match=r"directory|link"):
        write_atomically(tmp_path / "folder" / "y", b"x", None)
    with pytest.raises(OSError, match=r"directory|link"):
        open_regular(tmp_path / "folder" / "x")
    (tmp_path / "file").symlink_to("elsewhere/x")
    with pytest.raises(OSError, match="link"):
        open_regular(tmp_path / "file")
    with pytest.raises(InvalidArgument):
        write_atomically(tmp_path / "file", b"x", FileStamp.of((tmp_path / "elsewhere" / "x").stat()))
    assert (tmp_path / "elsewhere" / "x").read_text() == "private"
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["x"]


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="no regular file"):
        open_regular(tmp_path / "pipe")


def test_creating_never_overwrites(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("a", "dangling"):
        with pytest.raises(InvalidArgument, match="exists already"):
            write_atomically(tmp_path / name, b"y", None)
    assert (tmp_path / "a").read_text() == "x"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "dangling"]


async def test_the_diff_for_people_is_bounded(tmp_path: Path) -> None:
    tools = FileTools(tmp_path)
    await tools.write("a.txt", "".join(f"{n}\n" for n in range(20_000)))
    result = await tools.write("a.txt", "".join(f"{n}!\n" for n in range(20_000)))
    assert result.display_text is not None
    assert len(result.display_text.splitlines()) < 500
    assert "more lines of the diff" in result.display_text


async def test_a_small_change_in_a_large_file_is_a_small_diff(tmp_path: Path) -> None:
    tools = FileTools(tmp_path)
    lines = [f"{n}\n" for n in range(20_000)]
    await tools.write("a.txt", "".join(lines))
    lines[9_999] = "changed\n"
    shown = (await tools.write("a.txt", "".join(lines))).display_text
    assert shown is not None
    assert shown.splitlines()[2:] == [
        "@@ -9997,7 +9997,7 @@", " 9996", " 9997", " 9998", "-9999", "+changed", " 10000", " 10001", " 10002"
    ]  # fmt: skip


def test_the_schema_is_short() -> None:
    assert count_tokens(str(WriteFileTool.schema)) < 250
