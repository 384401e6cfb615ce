"""Commands inside bubblewrap, with the real program."""

# ruff: noqa: ASYNC240 (small files of the test itself)
from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest

from clew.agent.processes import BackgroundCommands
from clew.agent.sandbox import BubblewrapSandbox
from clew.agent.tools import CallContext
from clew.agent.tools.terminal import TerminalTool
from clew.errors import SandboxUnavailable

CALL = CallContext("s", "c")


def home_of(folder: Path) -> Path:
    home = folder / "home"
    for name in (".ssh", ".clew", ".config/gh", "project/src", "elsewhere", "allowed"):
        (home / name).mkdir(parents=True)
    (home / ".ssh/id_ed25519").write_text("a private key")
    (home / ".netrc").write_text("a password")
    (home / ".clew/config.yaml").write_text("a key")
    (home / "elsewhere/notes.txt").write_text("notes")
    return home


class SandboxedProject:
    """A project in a home folder with secrets, and a terminal with walls."""

    def __init__(self, folder: Path) -> None:
        self.home = home_of(folder)
        self.project = self.home / "project"
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        self.sandbox = BubblewrapSandbox.open(self.environ, self.project, [self.home / "allowed"], self.home / ".clew")
        self.terminal = TerminalTool(self.project, self.environ, sandbox=self.sandbox)

    async def run(self, command: str) -> str:
        return (await self.terminal.run({"command": command}, CALL)).text


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:  # it has ended meanwhile
        return ""


@pytest.fixture
def inside(tmp_path: Path) -> SandboxedProject:
    try:
        return SandboxedProject(tmp_path)
    except SandboxUnavailable as problem:
        pytest.skip(str(problem))


async def test_the_project_can_be_written_and_the_rest_only_read(inside: SandboxedProject) -> None:
    text = await inside.run("echo 1 > src/a; echo 2 > ~/allowed/b; cat ~/elsewhere/notes.txt; echo 3 > ~/elsewhere/c")
    assert "notes" in text and "Read-only file system" in text
    assert (inside.project / "src/a").read_text() == "1\n"
    assert (inside.home / "allowed/b").read_text() == "2\n"
    assert not (inside.home / "elsewhere/c").exists()


async def test_secrets_and_the_folder_of_clew_are_hidden(inside: SandboxedProject) -> None:
    text = await inside.run(
        "ls -A ~/.ssh ~/.clew; cat ~/.ssh/id_ed25519 ~/.clew/config.yaml ~/.netrc; ls -A ~/.config/gh"
    )
    assert "a private key" not in text and "a key" not in text and "a password" not in text
    assert (inside.home / ".netrc").read_text() == "a password"


async def test_there_is_no_network_not_even_to_this_machine(inside: SandboxedProject) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        reach = f"(echo hello > /dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo connected || echo no way"
        assert (await inside.run(reach)).startswith("no way\n")
        outside = await TerminalTool(inside.project, inside.environ).run({"command": reach}, CALL)
        assert outside.text.startswith("connected\n"), "the test itself: without walls it can be reached"


async def test_no_process_outside_is_to_be_seen(inside: SandboxedProject) -> None:
    text = await inside.run(f"ls -d /proc/[0-9]* | wc -l; [ -e /proc/{os.getpid()}/mem ] && echo ours || echo other")
    assert int(text.split()[0]) < 10
    seen = await inside.run("cat /proc/*/environ | tr '\\0' '\\n' | grep -c ^PYTEST_CURRENT_TEST=")
    assert seen.startswith("0\n")


async def test_the_shared_scratch_folder_is_another_and_sockets_of_services_are_gone(inside: SandboxedProject) -> None:
    marker = inside.home.parent / "marker"
    marker.write_text("x")
    text = await inside.run(f"echo $TMPDIR; echo 1 > /tmp/mine && echo written; ls -A /run; cat {marker}")
    assert text.startswith("/tmp\nwritten\n")
    assert not Path("/tmp/mine").exists()


async def test_hooks_and_settings_of_git_cannot_be_changed(inside: SandboxedProject) -> None:
    hooks = inside.project / ".git/hooks"
    hooks.mkdir(parents=True)
    (inside.project / ".git/config").write_text("[core]\n")
    again = BubblewrapSandbox.open(inside.environ, inside.project, (), inside.home / ".clew")
    terminal = TerminalTool(inside.project, inside.environ, sandbox=again)
    command = (
        "echo x > .git/hooks/pre-commit; echo x >> .git/config; rm -rf .git/hooks; echo 1 > .git/HEAD && echo written"
    )
    text = (await terminal.run({"command": command}, CALL)).text
    assert "Read-only file system" in text and "written" in text
    assert hooks.is_dir() and not any(hooks.iterdir())
    assert (inside.project / ".git/config").read_text() == "[core]\n"


async def test_the_walls_cannot_be_taken_down_from_inside(inside: SandboxedProject) -> None:
    text = await inside.run(
        "umount ~/.ssh; mount -o remount,rw /; mount --bind / /mnt; cat ~/.ssh/id_ed25519; touch /x"
    )
    assert "a private key" not in text
    assert not Path("/x").exists()


async def test_what_a_command_leaves_running_ends_with_it(inside: SandboxedProject) -> None:
    token = f"token{inside.home.parent.name}"
    await inside.run(f"(setsid sh -c 'sleep 30; echo {token}' &)")
    lines = [_read(path) for path in Path("/proc").glob("[0-9]*/cmdline")]
    assert not [line for line in lines if token in line]


async def test_commands_in_the_background_have_the_same_walls(inside: SandboxedProject) -> None:
    background = BackgroundCommands(sandbox=inside.sandbox)
    command = await background.start("echo 1 > ~/elsewhere/x; cat ~/.netrc; echo end", inside.project, inside.environ)
    await command.wait(20)
    assert "Read-only file system" in command.last_output(10) and "a password" not in command.last_output(10)
    await background.close()


def test_the_model_is_told(inside: SandboxedProject) -> None:
    assert "there is no network" in inside.terminal.schema["function"]["description"]
    plain = TerminalTool(inside.project, inside.environ)
    assert "sandbox" not in plain.schema["function"]["description"]


def test_a_project_that_is_the_home_folder_still_hides_secrets(tmp_path: Path) -> None:
    home = home_of(tmp_path)
    sandbox = BubblewrapSandbox("bwrap", {"HOME": str(home)}, [home], home / ".clew")
    words = sandbox.arguments(home)
    assert words.index(str(home / ".ssh")) > words.index(str(home))


def test_it_is_an_error_where_it_is_chosen_and_not_installed(tmp_path: Path) -> None:
    with pytest.raises(SandboxUnavailable, match=r"terminal\.sandbox is bubblewrap, but there is no program `bwrap`"):
        BubblewrapSandbox.open({"PATH": str(tmp_path), "HOME": str(tmp_path)}, tmp_path, (), tmp_path / "clew")


def test_it_is_an_error_where_the_system_forbids_it(tmp_path: Path) -> None:
    program, project = tmp_path / "bin/bwrap", tmp_path / "project"
    program.parent.mkdir()
    project.mkdir()
    program.write_text(f"#!{shutil.which('sh')}\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(SandboxUnavailable, match="cannot run here: bwrap: No permissions to create new namespace"):
        BubblewrapSandbox.open({"PATH": str(program.parent), "HOME": str(tmp_path)}, project, (), tmp_path / "clew")


def test_a_program_of_the_project_is_not_taken_for_bubblewrap(tmp_path: Path) -> None:
    program = tmp_path / ".venv/bin/bwrap"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!{shutil.which('sh')}\nexit 0\n")
    program.chmod(0o755)
    with pytest.raises(SandboxUnavailable, match="there is no program `bwrap`"):
        BubblewrapSandbox.open({"PATH": f"{program.parent}:.", "HOME": str(tmp_path)}, tmp_path, (), tmp_path / "clew")
