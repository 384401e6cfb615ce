"""What speaks to later sessions or runs by itself is asked about before it is written, in every way of writing."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.agent.approvals import Risk
from clew.agent.command_risk import risk_of_command
from clew.agent.files import FileTracker, Workspace
from clew.agent.tools.patch import PatchTool
from clew.agent.tools.read_write import WriteFileTool

ENVIRON = {"HOME": "/home/someone"}
LASTING = (
    *("AGENTS.md", "sub/CLAUDE.md", "GEMINI.md", ".cursorrules", ".github/copilot-instructions.md"),
    *("skills/deploy/SKILL.md", ".claude/settings.json", ".clew/config.yaml", ".mcp.json"),
    *(".envrc", ".husky/pre-commit", ".pre-commit-config.yaml", ".gitmodules"),
    *(".github/workflows/ci.yml", ".gitlab-ci.yml", "Jenkinsfile", ".circleci/config.yml"),
    *(".bashrc", ".zshrc", ".profile", ".vscode/tasks.json", ".devcontainer/devcontainer.json"),
    *("sitecustomize.py", ".npmrc", "lib/evil.pth"),
)
PLAIN = (
    "README.md",
    "src/agents.py",
    "docs/claude.md.txt",
    "Makefile",
    "package.json",
    ".gitignore",
    "tests/conftest.py",
)
WAYS = (
    "echo x > {}",
    "echo x >> {}",
    "tee -a {} < notes.txt",
    "cp notes.txt {}",
    "mv notes.txt {}",
    "sed -i s/a/b/ {}",
    "perl -i -pe s/a/b/ {}",
    "dd if=notes.txt of={}",
    "ln -sf notes.txt {}",
    "install -m 644 notes.txt {}",
    "curl -o {} http://localhost/x",
    "patch {} < x.diff",
    "sort -o {} notes.txt",
)


def risk_of(command: str, project: Path) -> Risk | None:
    return risk_of_command(command, project, None, ENVIRON)


@pytest.mark.parametrize("path", LASTING)
def test_every_way_of_writing_a_lasting_file_is_asked_about(tmp_path: Path, path: str) -> None:
    unseen = [way for way in WAYS if risk_of(way.format(path), tmp_path) is None]
    assert unseen == []
    workspace, tracker = Workspace(tmp_path), FileTracker()
    assert WriteFileTool(workspace, tracker).risk({"path": path, "content": "x"}) is not None
    assert PatchTool(workspace, tracker).risk({"path": path, "old": "", "new": "x"}) is not None


@pytest.mark.parametrize("path", PLAIN)
def test_other_files_are_written_without_a_question(tmp_path: Path, path: str) -> None:
    asked = [way for way in WAYS if risk_of(way.format(path), tmp_path) is not None]
    assert asked == []
    assert WriteFileTool(Workspace(tmp_path), FileTracker()).risk({"path": path, "content": "x"}) is None


def test_the_reason_says_what_the_file_does(tmp_path: Path) -> None:
    risk = WriteFileTool(Workspace(tmp_path), FileTracker()).risk({"path": "AGENTS.md", "content": "x"})
    assert risk is not None
    assert risk.reasons == ("AGENTS.md is instructions that later sessions read",)
    command = risk_of("echo x > .github/workflows/ci.yml", tmp_path)
    assert command is not None
    assert command.reasons == ("changes what runs in CI: .github/workflows/ci.yml",)


def test_an_agreement_covers_that_file_only(tmp_path: Path) -> None:
    scopes = {risk.scope for name in ("AGENTS.md", "CLAUDE.md") if (risk := risk_of(f"echo x > {name}", tmp_path))}
    assert len(scopes) == 2


@pytest.mark.parametrize(
    ("content", "asks"),
    [
        ('{"scripts": {"test": "jest"}, "dependencies": {"x": "1"}}', False),
        ('{"scripts": {"postinstall": "node x.js"}}', True),
        ('{"scripts": {"prepare": "husky"}}', True),
    ],
)
def test_a_package_file_counts_by_the_scripts_that_run_by_themselves(tmp_path: Path, content: str, asks: bool) -> None:
    risk = WriteFileTool(Workspace(tmp_path), FileTracker()).risk({"path": "package.json", "content": content})
    assert (risk is not None) is asks
    patch = PatchTool(Workspace(tmp_path), FileTracker()).risk({"path": "package.json", "old": "{}", "new": content})
    assert (patch is not None) is asks
