"""Where the agent may read and write."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from clew.agent.files.paths import ResolvedPath, Workspace
from clew.errors import InvalidArgument


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / "src").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "notes.txt").write_text("private")
    return tmp_path / "project"


def resolved(workspace: Workspace, path: object) -> ResolvedPath:
    return workspace.resolve(path)


def problem(workspace: Workspace, path: object) -> str:
    with pytest.raises(InvalidArgument) as refused:
        workspace.resolve(path)
    return str(refused.value)


def test_a_relative_path_starts_at_the_project(project: Path) -> None:
    found = resolved(Workspace(project), "src/../src/app.py")
    assert (found.path, found.display_name, found.zone) == (project / "src" / "app.py", "src/app.py", "project")


def test_a_path_that_climbs_out_is_outside(project: Path) -> None:
    workspace = Workspace(project)
    assert resolved(workspace, "../elsewhere/notes.txt").zone == "outside"
    assert resolved(workspace, "/etc/shadow").zone == "outside"
    assert resolved(workspace, "~/x").path == Path.home().resolve() / "x"


def test_a_tilde_inside_a_name_is_a_name(project: Path) -> None:
    assert resolved(Workspace(project), "~draft").path == project / "~draft"


def test_a_project_whose_name_another_begins_with_does_not_hold_it(project: Path) -> None:
    (project.parent / "project-secret").mkdir()
    assert resolved(Workspace(project), "../project-secret/x").zone == "outside"


def test_a_link_counts_as_what_it_points_to(project: Path) -> None:
    (project / "link").symlink_to(project.parent / "elsewhere")
    (project / "file").symlink_to("link/notes.txt")
    workspace = Workspace(project)
    assert resolved(workspace, "link/new.txt").zone == "outside"
    assert resolved(workspace, "file").path == project.parent / "elsewhere" / "notes.txt"
    assert resolved(workspace, "file").zone == "outside"


def test_a_project_that_is_a_link_itself_holds_its_files(project: Path) -> None:
    (project.parent / "alias").symlink_to(project)
    assert resolved(Workspace(project.parent / "alias"), "src").zone == "project"


def test_links_in_a_ring_are_a_problem_and_no_crash(project: Path) -> None:
    (project / "a").symlink_to("b")
    (project / "b").symlink_to("a")
    assert "cannot be resolved" in problem(Workspace(project), "a/x")


@pytest.mark.parametrize("path", ["", "  ", None, 7, ["a"], "a\0b", "x" * 5_000, "y" * 300, "half \ud800"])
def test_what_is_no_path_is_said_and_raises_no_risk(project: Path, path: object) -> None:
    workspace = Workspace(project)
    assert problem(workspace, path)
    assert workspace.read_concerns(path) == workspace.write_concerns(path) == ()
    with pytest.raises(InvalidArgument):
        workspace.path_to_read(path)


def test_devices_pipes_and_sockets_are_no_places(project: Path, tmp_path: Path) -> None:
    os.mkfifo(project / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        before = Path.cwd()
        os.chdir(project)  # the name of a socket has to be short
        try:
            listening.bind("sock")
        finally:
            os.chdir(before)
    workspace = Workspace(project)
    assert "is a pipe" in problem(workspace, "pipe")
    assert "is a socket" in problem(workspace, "sock")
    assert "is a device" in problem(workspace, "/dev/zero")


def test_outside_is_refused_until_a_person_was_asked(project: Path) -> None:
    workspace = Workspace(project)
    with pytest.raises(InvalidArgument, match=r"outside the project .*agent\.allowed_paths"):
        workspace.path_to_read("../elsewhere/notes.txt")
    (concern,) = workspace.read_concerns("../elsewhere/notes.txt")
    assert "outside the project" in concern.reason
    assert str(project) in concern.reason
    assert workspace.path_to_read("../elsewhere/notes.txt").zone == "outside"
    with pytest.raises(InvalidArgument):
        workspace.path_to_write("../elsewhere/notes.txt")


def test_a_link_that_moves_after_the_question_is_not_what_was_agreed_to(project: Path) -> None:
    (project.parent / "elsewhere" / "other.txt").write_text("more private")
    (project / "link").symlink_to(project.parent / "elsewhere" / "notes.txt")
    workspace = Workspace(project)
    assert workspace.read_concerns("link")
    (project / "link").unlink()
    (project / "link").symlink_to(project.parent / "elsewhere" / "other.txt")
    with pytest.raises(InvalidArgument, match=r"other\.txt is outside"):
        workspace.path_to_read("link")


def test_allowed_folders_need_no_question(project: Path) -> None:
    elsewhere = project.parent / "elsewhere"
    workspace = Workspace(project, allowed=[elsewhere])
    assert workspace.write_concerns(str(elsewhere / "x")) == ()
    assert workspace.path_to_write(str(elsewhere / "x")).zone == "allowed"


def test_some_folders_may_be_read_but_not_written(project: Path) -> None:
    elsewhere = project.parent / "elsewhere"
    workspace = Workspace(project, read_only_allowed=[elsewhere])
    assert workspace.read_concerns(str(elsewhere / "notes.txt")) == ()
    assert workspace.path_to_read(str(elsewhere / "notes.txt")).zone == "read_only"
    assert workspace.write_concerns(str(elsewhere / "notes.txt"))


@pytest.mark.parametrize("path", [".git/config", "sub/.git/hooks/pre-commit", ".GIT/config", ".git"])
def test_nothing_is_written_into_git(project: Path, path: str) -> None:
    workspace = Workspace(project)
    assert workspace.write_concerns(path) == ()
    with pytest.raises(InvalidArgument, match=r"inside \.git"):
        workspace.path_to_write(path)
    assert workspace.path_to_read(path).zone == "project"


@pytest.mark.parametrize(
    "name", [".env", ".env.production", "id_rsa", "server.pem", ".netrc", "credentials.json", ".aws/config", "ID_RSA"]
)
def test_reading_what_looks_secret_is_asked_for(project: Path, name: str) -> None:
    (project / name).parent.mkdir(exist_ok=True)
    (project / name).write_text("x")
    (concern,) = Workspace(project).read_concerns(name)
    assert "looks like" in concern.reason


@pytest.mark.parametrize("name", [".env.example", "id_rsa.pub", "environment.py", "keys.md", ".gitignore"])
def test_what_only_sounds_secret_is_not(project: Path, name: str) -> None:
    (project / name).write_text("x")
    assert Workspace(project).read_concerns(name) == ()


def test_a_secret_that_is_not_there_is_no_concern(project: Path) -> None:
    assert Workspace(project).read_concerns(".env") == ()


def test_a_project_below_a_private_folder_is_no_secret_itself(tmp_path: Path) -> None:
    project = tmp_path / ".aws" / "project"
    project.mkdir(parents=True)
    (project / "app.py").write_text("x")
    assert Workspace(project).read_concerns("app.py") == ()


def test_a_folder_only_for_reading_stays_so_inside_a_project(project: Path) -> None:
    (project / ".clew" / "spill").mkdir(parents=True)
    workspace = Workspace(project, read_only_allowed=[project / ".clew" / "spill"])
    assert resolved(workspace, ".clew/spill/x.txt").zone == "read_only"
    (concern,) = workspace.write_concerns(".clew/spill/x.txt")
    assert "only for reading" in concern.reason
