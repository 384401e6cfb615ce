"""Git metadata that a sandboxed command leaves: also without bubblewrap, by changes of the project alone."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from clew.agent.git_controls import TrustedGit

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the sandbox is for Linux")

RUNS = """printf '[core]\\n\\tfsmonitor = "touch %s"\\n' "$ESCAPED" >> """
# The folder of the repository is outside the project here, so that only what the `.git` file says leads to it, as to a
# folder that may not be listed.
POINTER = f'mkdir sub; git init -q --separate-git-dir="$OUT/{{0}}" sub; {RUNS} "$OUT/{{0}}/config"; '
SHARED = 'cp -r .git/objects .git/refs "{0}/"; cp .git/config "{0}/"; ' + RUNS + '"{0}/config"; '
WORKTREE = 'cp .git/HEAD .git/index {0}/; mkdir sub; echo "gitdir: $PWD/{0}" > sub/.git; cp a.txt sub; '
PROGRAM = (
    "mkdir git-merge-x; printf '#!/bin/sh\\ntouch %s\\n' \"$ESCAPED\" > git-merge-x/evil; chmod +x git-merge-x/evil; "
)
TWO_BRANCHES = (
    "git checkout -q -b b; echo b > b; git add b; git commit -qm b; B=$(git rev-parse HEAD); "
    "git checkout -q --detach HEAD~1; echo c > c; git add c; git commit -qm c; "
)
ESCAPES = {
    "a blank at the end of the path": POINTER.format("r "),
    "line ends behind the path": POINTER.format("r") + "head -c 70000 /dev/zero | tr '\\0' '\\n' >> sub/.git",
    "a path that is no UTF-8": "R=$OUT/r$'\\xff'; mkdir sub; git init -q --separate-git-dir=\"$R\" sub; "
    + RUNS
    + '"$R/config"',
    "a null character in the path": POINTER.format("r") + "printf 'gitdir: %s/r\\0junk' \"$OUT\" > sub/.git",
    "a common folder with a blank in its name": "mkdir -p .git/worktrees/x '.git/worktrees/.. '; "
    + SHARED.format(".git/worktrees/.. ")
    + WORKTREE.format(".git/worktrees/x")
    + "printf '../.. \\n' > .git/worktrees/x/commondir",
    "a common folder without a HEAD": "mkdir -p e/worktrees/x; "
    + SHARED.format("e")
    + WORKTREE.format("e/worktrees/x")
    + "echo ../.. > e/worktrees/x/commondir",
    "a merge strategy of a rebase": PROGRAM
    + TWO_BRANCHES
    + "cd $(git rev-parse --git-dir); mkdir rebase-merge; cd rebase-merge; echo $B > orig-head; "
    "git -C ../.. rev-parse HEAD > onto; echo refs/heads/b > head-name; echo x/evil > strategy; touch interactive; "
    "touch done; echo pick $B > git-rebase-todo",
    "a repository with the name of another system": POINTER.format("r")
    + 'mv "$OUT/r" "$OUT/.hg"; echo "gitdir: $OUT/.hg" > sub/.git',
    "a folder that may not be written": "git init -q sub; " + RUNS + "sub/.git/config; chmod 500 sub",
    "a bare repository with a long name": "R=$(printf 'r%.0s' {1..250}); git init -q --bare $R; git -C $R config "
    'core.bare false; git -C $R config core.worktree "$PWD"; ' + RUNS + "$R/config; mkdir sub; "
    'echo "gitdir: ../$R" > sub/.git; rm -f "$ESCAPED"',
    "a merge strategy of a cherry-pick": PROGRAM
    + TWO_BRANCHES
    + "mkdir .git/sequencer; git rev-parse HEAD > .git/sequencer/head; (echo pick $B b; echo pick $B b) > "
    ".git/sequencer/todo; printf '[options]\\n\\tstrategy = x/evil\\n' > .git/sequencer/opts",
}
AFTERWARDS = (
    "git -C sub status; git -C sub add -A; git status; git rebase --continue; git cherry-pick --continue; git add -A"
)


class Project:
    """A repository in a home folder, and a shell in it that has a person's environment."""

    def __init__(self, folder: Path) -> None:
        self.root, self.escaped = folder / "home/project", folder / "home/ESCAPED"
        self.root.mkdir(parents=True)
        (folder / "out").mkdir()
        (folder / "home/.gitconfig").write_text("[user]\n\tname = T\n\temail = t@example.org\n")
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(folder / "home")}
        self.environ |= {"ESCAPED": str(self.escaped), "OUT": str(folder / "out"), "GIT_EDITOR": "true"}
        self.run("git init -q . && echo a > a.txt && git add a.txt && git commit -qm first")
        self.git = TrustedGit((self.root,), self.environ)

    def run(self, command: str) -> str:
        ran = subprocess.run(
            ["bash", "-c", command], cwd=self.root, env=self.environ, capture_output=True, timeout=60, check=False
        )
        return (ran.stdout + ran.stderr).decode("utf-8", "replace")


@pytest.mark.parametrize("escape", ESCAPES)
def test_what_git_would_run_outside_is_set_aside(escape: str, tmp_path: Path) -> None:
    project = Project(tmp_path)
    told = project.run(ESCAPES[escape])
    # Some of git's own commands have run it while it was made.
    project.escaped.unlink(missing_ok=True)
    left = project.git.set_aside()
    told += project.run(AFTERWARDS)
    assert left and not project.escaped.exists(), told


@pytest.mark.parametrize("escape", ESCAPES)
def test_each_of_these_would_run_it_otherwise(escape: str, tmp_path: Path) -> None:
    project = Project(tmp_path)
    told = project.run(ESCAPES[escape])
    project.escaped.unlink(missing_ok=True)
    told += project.run(AFTERWARDS)
    assert project.escaped.exists(), told


@pytest.mark.parametrize(
    "work",
    [
        "git worktree add -q wt; echo x > wt/x; git -C wt add x; git -C wt commit -qm x",
        "git init -q n; cd n; git commit -q --allow-empty -m i; git worktree add -q ../n2",
        "git checkout -q -b b; echo b > a.txt; git commit -qam b; git checkout -q -; echo c > a.txt; "
        "git commit -qam c; git rebase -s ort b",
        "mkdir -p objects refs; echo '[core]' > config",
    ],
)
def test_ordinary_work_with_git_is_left_in_place(work: str, tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.run(work)
    assert project.git.set_aside() == []


@pytest.mark.parametrize("name", [".jj/repo/config.toml", ".sl/config", ".hg/hgrc"])
def test_settings_of_other_version_control_systems_are_set_aside(name: str, tmp_path: Path) -> None:
    project = Project(tmp_path)
    (project.root / name).parent.mkdir(parents=True)
    (project.root / name).write_text("[ui]\npager = 'x'\n")
    assert project.git.set_aside()
    assert not (project.root / name).exists()


EVIL = '[core]\n\tfsmonitor = "touch x"\n'


def evil_in(folder: Path) -> Path:
    """The config of a repository that runs a program."""
    config = folder / ".git/config"
    config.parent.mkdir(parents=True)
    config.write_text(EVIL)
    return config


@pytest.mark.parametrize(
    "named",
    [
        "a" * 100_000,
        "a" * 300,
        "a/" * 520_000,
        ".git",
        "../second/.git",
        "../links/0",
        "../closed/inner",
        "x\0y",
    ],
)
def test_one_bad_repository_keeps_no_other_from_being_set_aside(named: str, tmp_path: Path) -> None:
    project = Project(tmp_path)
    for name, target in (("first", named), ("second", "../first/.git")):
        (project.root / name).mkdir()
        (project.root / name / ".git").write_text(f"gitdir: {target}")
    (project.root / "links").mkdir()
    for number in range(1_500):
        (project.root / f"links/{number}").symlink_to(f"{number + 1}")
    closed = project.root / "closed"
    (closed / "inner").mkdir(parents=True)
    (closed / ".git").mkdir()
    config = evil_in(project.root / "evil")
    closed.chmod(0o600)
    started = time.process_time()
    left = project.git.set_aside()
    seconds = time.process_time() - started
    closed.chmod(0o700)
    assert "evil/.git" in [one.name for one in left]
    assert not config.exists()
    assert seconds < 1


def test_nested_worktrees_are_looked_at_once_each(tmp_path: Path) -> None:
    project = Project(tmp_path)
    folder = project.root / "n"
    for _ in range(300):
        folder.mkdir(parents=True)
        (folder / "HEAD").write_text("ref: refs/heads/main\n")
        (folder / "commondir").write_text("../..\n")
        folder = folder / "worktrees/w"
    (project.root / "n/commondir").unlink()
    started = time.process_time()
    try:
        assert project.git.set_aside() == []
        assert time.process_time() - started < 1
    finally:
        project.run("rm -r n")  # which pytest cannot remove


def test_folders_far_below_the_project_keep_no_repository_from_being_set_aside(tmp_path: Path) -> None:
    project = Project(tmp_path)
    project.run("mkdir -p $(printf 'd/%.0s' {1..1500})")
    config = evil_in(project.root / "evil")
    try:
        assert [one.name for one in project.git.set_aside()] == ["evil/.git"]
        assert not config.exists()
    finally:
        project.run("rm -r d")  # which pytest cannot remove


def test_what_cannot_be_moved_is_reported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project(tmp_path)
    first, second = evil_in(project.root / "a"), evil_in(project.root / "b")
    rename = Path.rename

    def refusing(self: Path, target: Path) -> Path:
        if self == first.parent:
            raise OSError("no")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refusing)
    left = sorted(project.git.set_aside(), key=lambda one: one.name)
    assert {one.name: one.aside is None for one in left} == {"a/.git": True, "b/.git": False}
    assert "could not be moved" in str(left[0])
    assert not second.exists()
    assert project.git.set_aside() == []
    assert "could not be moved" in project.git.decide(left[0], keeps=False)
    monkeypatch.undo()
    assert [one.name for one in project.git.set_aside()] == ["a/.git"]


@pytest.mark.parametrize(
    ("opts", "is_found"),
    [
        ("[options]\n\tstrategy = x/evil\n", True),
        ('[options] Strategy = "my x/evil"\n', True),
        ("[options]\n\tstrategy = x\\\n/evil\n", True),
        ("[options]\n\tstrategy = ort\n\tstrategy-option = subtree=lib/foo\n", False),
        ("[options]\n\tgpg-sign = a/b\n", False),
    ],
)
def test_a_strategy_with_a_slash_is_one_of_the_project(opts: str, is_found: bool, tmp_path: Path) -> None:
    root = tmp_path / "strategy"
    root.mkdir()
    project = Project(root)
    (project.root / ".git/sequencer").mkdir()
    (project.root / ".git/sequencer/opts").write_text(opts)
    assert bool(project.git.set_aside()) is is_found
