"""Running a file that the session wrote is asked for once, with its text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from clew.agent.files import FileTracker, Workspace
from clew.agent.tools import CallContext
from clew.agent.tools.patch import PatchTool
from clew.agent.tools.read_write import WriteFileTool
from clew.agent.tools.terminal import TerminalTool

CALL = CallContext("s", "c")
ENVIRON = {"PATH": os.environ["PATH"], "HOME": "/nowhere"}


class AgentTools:
    """The tools of a session, which share what they wrote."""

    def __init__(self, project: Path) -> None:
        tracker, workspace = FileTracker(), Workspace(project)
        self.project = project
        self._write = WriteFileTool(workspace, tracker)
        self._patch = PatchTool(workspace, tracker)
        self.terminal = TerminalTool(project, ENVIRON, session_files=tracker.session_files)

    async def write(self, path: str, content: str) -> None:
        assert not (await self._write.run({"path": path, "content": content}, CALL)).is_error

    async def patch(self, path: str, old: str, new: str) -> None:
        assert not (await self._patch.run({"path": path, "old": old, "new": new}, CALL)).is_error

    async def run(self, command: str) -> str:
        self.terminal.risk({"command": command})
        return (await self.terminal.run({"command": command}, CALL)).text

    def asks(self, command: str) -> bool:
        return self.terminal.risk({"command": command}) is not None


@pytest.fixture
def tools(tmp_path: Path) -> AgentTools:
    return AgentTools(tmp_path)


async def test_its_text_is_shown_once_and_again_when_it_has_changed(tools: AgentTools) -> None:
    await tools.write("x.sh", "echo one\n")
    risk = tools.terminal.risk({"command": "bash x.sh"})
    assert risk is not None
    assert risk.text == "x.sh:\necho one\n"
    assert "runs x.sh, which was written in this session" in risk.reasons[0]
    assert (await tools.run("bash x.sh")).startswith("one\n")
    assert not tools.asks("bash x.sh")
    assert not tools.asks("cd . && bash ./x.sh")
    await tools.patch("x.sh", "one", "two")
    assert tools.asks("bash x.sh")
    await tools.run("bash x.sh")
    await tools.patch("x.sh", "two", "one")
    assert not tools.asks("bash x.sh"), "this text was agreed to before"


async def test_a_refusal_agrees_to_nothing(tools: AgentTools) -> None:
    await tools.write("x.py", "print(1)\n")
    assert tools.asks("python x.py")
    tools.terminal.refused({"command": "python x.py"})
    assert tools.asks("python x.py")


async def test_a_script_that_changed_between_the_question_and_the_run_does_not_run(tools: AgentTools) -> None:
    await tools.write("x.sh", "echo one\n")
    assert tools.asks("bash x.sh")
    (tools.project / "x.sh").write_text("echo harm > harm.txt\n")
    assert "has changed since" in (await tools.terminal.run({"command": "bash x.sh"}, CALL)).text
    assert not (tools.project / "harm.txt").exists()


@pytest.mark.parametrize(
    "command",
    [
        "./x.sh",
        "sh x.sh",
        "bash -x x.sh",
        "source x.sh",
        ". ./x.sh",
        "bash < x.sh",
        "cat x.sh | bash",
        "chmod +x x.sh && ./x.sh",
        "timeout 5 ./x.sh",
        "env A=1 bash x.sh",
        "bash -c ./x.sh",
        "cd sub && bash ../x.sh",
        "find . -name '*.md' -exec ./x.sh {} +",
        "python x.sh",
        "python -m x",
        "node x.js",
        "make all",
        "npm test",
        "npm run build",
        "uv run x.py",
    ],
)
async def test_every_way_to_run_it_counts(tools: AgentTools, command: str) -> None:
    (tools.project / "sub").mkdir()
    assert not tools.asks(command), "what the project had before is not asked for"
    for name in ("x.sh", "x.js", "x.py", "Makefile", "package.json"):
        await tools.write(name, f"# {name}\n")
    assert tools.asks(command)


@pytest.mark.parametrize(
    "command", ["cat x.sh", "grep -n echo x.sh", "ruff check x.py", "git add x.sh", "pytest tests/test_x.py", "ls"]
)
async def test_what_only_reads_it_is_not_asked_for(tools: AgentTools, command: str) -> None:
    for name in ("x.sh", "x.py", "tests/test_x.py"):
        await tools.write(name, "echo 1\n")
    assert not tools.asks(command)


@pytest.mark.parametrize(
    "writes",
    [
        "echo 'echo 1' > x.sh",
        "cat > x.sh <<'EOF'\necho 1\nEOF",
        "printf 'echo 1' | tee x.sh",
        "cp template.txt x.sh",
        "mv template.txt x.sh",
        "sed -i 's/a/b/' x.sh",
        "dd if=template.txt of=x.sh",
        "mkdir -p bin && cp template.txt x.sh",
    ],
)
async def test_what_a_command_wrote_counts_too(tools: AgentTools, writes: str) -> None:
    (tools.project / "template.txt").write_text("echo 1\n")
    (tools.project / "x.sh").write_text("echo a\n")
    assert not tools.asks("bash x.sh")
    await tools.run(writes)
    assert tools.asks("bash x.sh")


async def test_writing_and_running_on_one_line_is_asked_for(tools: AgentTools) -> None:
    assert tools.asks("echo 'echo 1' > x.sh; bash x.sh")
    assert tools.asks("cat > x.py <<'EOF'\nprint(1)\nEOF\npython x.py")
    assert not tools.asks("gcc -o main main.c && ./main"), "what a compiler writes is not read by people"
