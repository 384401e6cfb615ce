"""Where the agent may read and write."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from clew.agent.files.paths import Place, Unusable, Workplace
from clew.errors import InvalidArgument


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / "src").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "notes.txt").write_text("private")
    return tmp_path / "project"


def place(workplace: Workplace, path: object) -> Place:
    found = workplace.locate(path)
    assert isinstance(found, Place)
    return found


def problem(workplace: Workplace, path: object) -> str:
    found = workplace.locate(path)
    assert isinstance(found, Unusable)
    return found.problem


def test_a_relative_path_starts_at_the_project(project: Path) -> None:
    found = place(Workplace(project), "src/../src/app.py")
    assert (found.path, found.shown, found.zone) == (project / "src" / "app.py", "src/app.py", "project")


def test_a_path_that_climbs_out_is_outside(project: Path) -> None:
    workplace = Workplace(project)
    assert place(workplace, "../elsewhere/notes.txt").zone == "outside"
    assert place(workplace, "/etc/hostname").zone == "outside"
    assert place(workplace, "~/x").path == Path.home().resolve() / "x"


def test_a_tilde_inside_a_name_is_a_name(project: Path) -> None:
    assert place(Workplace(project), "~draft").path == project / "~draft"


def test_a_project_whose_name_another_begins_with_does_not_hold_it(project: Path) -> None:
    (project.parent / "project-secret").mkdir()
    assert place(Workplace(project), "../project-secret/x").zone == "outside"


def test_a_link_counts_as_what_it_points_to(project: Path) -> None:
    (project / "link").symlink_to(project.parent / "elsewhere")
    (project / "file").symlink_to("link/notes.txt")
    workplace = Workplace(project)
    assert place(workplace, "link/new.txt").zone == "outside"
    assert place(workplace, "file").path == project.parent / "elsewhere" / "notes.txt"
    assert place(workplace, "file").zone == "outside"


def test_a_project_that_is_a_link_itself_holds_its_files(project: Path) -> None:
    (project.parent / "alias").symlink_to(project)
    assert place(Workplace(project.parent / "alias"), "src").zone == "project"


def test_links_in_a_ring_are_a_problem_and_no_crash(project: Path) -> None:
    (project / "a").symlink_to("b")
    (project / "b").symlink_to("a")
    assert "cannot be resolved" in problem(Workplace(project), "a/x")


@pytest.mark.parametrize("path", ["", "  ", None, 7, ["a"], "a\0b", "x" * 5_000, "y" * 300, "half \ud800"])
def test_what_is_no_path_is_said_and_raises_no_risk(project: Path, path: object) -> None:
    workplace = Workplace(project)
    assert problem(workplace, path)
    assert workplace.reading_concerns(path) == workplace.writing_concerns(path) == ()
    with pytest.raises(InvalidArgument):
        workplace.place_to_read(path)


def test_devices_pipes_and_sockets_are_no_places(project: Path, tmp_path: Path) -> None:
    os.mkfifo(project / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        before = Path.cwd()
        os.chdir(project)  # the name of a socket has to be short
        try:
            listening.bind("sock")
        finally:
            os.chdir(before)
    workplace = Workplace(project)
    assert "is a pipe" in problem(workplace, "pipe")
    assert "is a socket" in problem(workplace, "sock")
    assert "is a device" in problem(workplace, "/dev/zero")


def test_outside_is_refused_until_a_person_was_asked(project: Path) -> None:
    workplace = Workplace(project)
    with pytest.raises(InvalidArgument, match=r"outside the project .*agent\.allowed_paths"):
        workplace.place_to_read("../elsewhere/notes.txt")
    (concern,) = workplace.reading_concerns("../elsewhere/notes.txt")
    assert "outside the project" in concern.reason
    assert str(project) in concern.reason
    assert workplace.place_to_read("../elsewhere/notes.txt").zone == "outside"
    with pytest.raises(InvalidArgument):
        workplace.place_to_write("../elsewhere/notes.txt")


def test_a_link_that_moves_after_the_question_is_not_what_was_agreed_to(project: Path) -> None:
    (project.parent / "elsewhere" / "other.txt").write_text("more private")
    (project / "link").symlink_to(project.parent / "elsewhere" / "notes.txt")
    workplace = Workplace(project)
    assert workplace.reading_concerns("link")
    (project / "link").unlink()
    (project / "link").symlink_to(project.parent / "elsewhere" / "other.txt")
    with pytest.raises(InvalidArgument, match=r"other\.txt is outside"):
        workplace.place_to_read("link")


def test_allowed_folders_need_no_question(project: Path) -> None:
    elsewhere = project.parent / "elsewhere"
    workplace = Workplace(project, allowed=[elsewhere])
    assert workplace.writing_concerns(str(elsewhere / "x")) == ()
    assert workplace.place_to_write(str(elsewhere / "x")).zone == "allowed"


def test_some_folders_may_be_read_but_not_written(project: Path) -> None:
    elsewhere = project.parent / "elsewhere"
    workplace = Workplace(project, read_only_allowed=[elsewhere])
    assert workplace.reading_concerns(str(elsewhere / "notes.txt")) == ()
    assert workplace.place_to_read(str(elsewhere / "notes.txt")).zone == "read_only"
    assert workplace.writing_concerns(str(elsewhere / "notes.txt"))


@pytest.mark.parametrize("path", [".git/config", "sub/.git/hooks/pre-commit", ".GIT/config", ".git"])
def test_nothing_is_written_into_git(project: Path, path: str) -> None:
    workplace = Workplace(project)
    assert workplace.writing_concerns(path) == ()
    with pytest.raises(InvalidArgument, match=r"inside \.git"):
        workplace.place_to_write(path)
    assert workplace.place_to_read(path).zone == "project"


@pytest.mark.parametrize(
    "name", [".env", ".env.production", "id_rsa", "server.pem", ".netrc", "credentials.json", ".aws/config", "ID_RSA"]
)
def test_reading_what_looks_secret_is_asked_for(project: Path, name: str) -> None:
    (project / name).parent.mkdir(exist_ok=True)
    (project / name).write_text("x")
    (concern,) = Workplace(project).reading_concerns(name)
    assert "looks like" in concern.reason


@pytest.mark.parametrize("name", [".env.example", "id_rsa.pub", "environment.py", "keys.md", ".gitignore"])
def test_what_only_sounds_secret_is_not(project: Path, name: str) -> None:
    (project / name).write_text("x")
    assert Workplace(project).reading_concerns(name) == ()


def test_a_secret_that_is_not_there_is_no_concern(project: Path) -> None:
    assert Workplace(project).reading_concerns(".env") == ()


def test_a_project_below_a_private_folder_is_no_secret_itself(tmp_path: Path) -> None:
    project = tmp_path / ".aws" / "project"
    project.mkdir(parents=True)
    (project / "app.py").write_text("x")
    assert Workplace(project).reading_concerns("app.py") == ()


def test_a_folder_only_for_reading_stays_so_inside_a_project(project: Path) -> None:
    (project / ".clew" / "spill").mkdir(parents=True)
    workplace = Workplace(project, read_only_allowed=[project / ".clew" / "spill"])
    assert place(workplace, ".clew/spill/x.txt").zone == "read_only"
    (concern,) = workplace.writing_concerns(".clew/spill/x.txt")
    assert "only for reading" in concern.reason
