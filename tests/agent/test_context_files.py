"""Files for agents: which are read, in which order, how much of them, and what is never followed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clew.agent.context_files import ALL_CHARS, FILE_CHARS, context_files, subfolder_context_files


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """`repo/part/inner` in a repository, inside a folder that is none."""
    inner = tmp_path / "above" / "repo" / "part" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "above" / "repo" / ".git").mkdir()
    return inner


def home_of(project: Path) -> Path:
    return project.parents[3] / "home"


def read(project: Path) -> list[tuple[str, str]]:
    found = context_files(project, home_of(project))
    return [(str(file.path.relative_to(project.parents[3])), file.text) for file in found]


def test_files_come_from_the_person_then_from_the_root_of_the_repository_down(project: Path) -> None:
    home_of(project).mkdir()
    for folder, text in (
        (home_of(project), "own"),
        (project.parents[2], "outside"),
        (project.parents[1], "root"),
        (project.parent, "part"),
        (project, "inner"),
    ):
        (folder / "AGENTS.md").write_text(text + "\n")
    (project.parents[1] / "CLAUDE.md").write_text("also root")
    assert read(project) == [
        ("home/AGENTS.md", "own"),
        ("above/repo/AGENTS.md", "root"),
        ("above/repo/CLAUDE.md", "also root"),
        ("above/repo/part/AGENTS.md", "part"),
        ("above/repo/part/inner/AGENTS.md", "inner"),
    ]


def test_without_a_repository_only_the_project_itself_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("above")
    (tmp_path / "project").mkdir()
    assert context_files(tmp_path / "project", tmp_path / "none") == ()


def test_the_same_text_in_a_folder_and_the_same_file_are_told_once(project: Path) -> None:
    (project / "AGENTS.md").write_text("the same\n")
    (project / "CLAUDE.md").symlink_to("AGENTS.md")
    (project.parent / "AGENTS.md").write_text("twice\n")
    (project.parent / "CLAUDE.md").write_text("twice")
    (project.parents[1] / "CLAUDE.md").symlink_to("part/AGENTS.md")
    assert [path for path, _ in read(project)] == ["above/repo/CLAUDE.md", "above/repo/part/inner/AGENTS.md"]


def test_imports_are_text(project: Path) -> None:
    (project / "secret.md").write_text("inside")
    (project / "CLAUDE.md").write_text("@secret.md\n@~/x")
    assert read(project) == [("above/repo/part/inner/CLAUDE.md", "@secret.md\n@~/x")]


def test_a_link_out_of_the_repository_is_not_followed(project: Path) -> None:
    (project.parents[2] / "private").write_text("private words")
    (project / "AGENTS.md").symlink_to(project.parents[2] / "private")
    (found,) = context_files(project, home_of(project))
    assert found.text == "" and found.problem is not None and "leads out" in found.problem


def test_what_is_no_readable_file_is_told_and_the_rest_is_read(project: Path) -> None:
    (project / "AGENTS.md").mkdir()
    (project / "CLAUDE.md").write_text("good")
    os.mkfifo(project.parent / "AGENTS.md")
    (project.parent / "CLAUDE.md").symlink_to("nowhere")
    (project.parents[1] / "CLAUDE.md").symlink_to("CLAUDE.md")
    (project.parents[1] / "AGENTS.md").write_text(" \n")
    found = context_files(project, home_of(project))
    assert [file.text for file in found if file.problem is None] == ["good"]
    assert len(found) == 5


def test_bytes_that_are_no_utf_8_are_replaced(project: Path) -> None:
    (project / "AGENTS.md").write_bytes(b"\xef\xbb\xbfcaf\xe9\r\nnext")
    assert read(project)[0][1] == "caf\ufffd\nnext"


def test_a_long_file_is_cut_at_a_line_end(project: Path) -> None:
    (project / "AGENTS.md").write_text("a line of some words\n" * 5_000)
    (found,) = context_files(project, home_of(project))
    assert found.is_cut and FILE_CHARS - 50 < len(found.text) <= FILE_CHARS
    assert found.text.endswith("some words")
    (project / "AGENTS.md").write_text("é" * 1_000_000)
    assert len(context_files(project, home_of(project))[0].text) == FILE_CHARS


def test_when_all_are_too_long_the_persons_own_and_the_nearest_are_kept(project: Path) -> None:
    home_of(project).mkdir()
    for folder in (home_of(project), project.parents[1], project.parent, project):
        (folder / "AGENTS.md").write_text(f"{folder.name} " * 4_000)
    found = context_files(project, home_of(project))
    assert sum(len(file.text) for file in found) <= ALL_CHARS
    assert [len(file.text) for file in found] == [19_999, 0, 0, 20_000]
    assert all(file.is_cut for file in found[1:])


def test_files_further_down_are_named_nearest_first_and_not_read(tmp_path: Path) -> None:
    for place in ("b/deep/AGENTS.md", "b/AGENTS.md", "a/CLAUDE.md", ".hidden/AGENTS.md", "node_modules/x/AGENTS.md"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text("x")
    (tmp_path / "AGENTS.md").write_text("own")
    (tmp_path / "circle").symlink_to(tmp_path)
    assert subfolder_context_files(tmp_path) == ("a/CLAUDE.md", "b/AGENTS.md", "b/deep/AGENTS.md")
    for number in range(30):
        (tmp_path / f"n{number:02}").mkdir()
        (tmp_path / f"n{number:02}" / "AGENTS.md").write_text("x")
    assert len(subfolder_context_files(tmp_path)) == 20
    assert subfolder_context_files(tmp_path / "none") == ()
