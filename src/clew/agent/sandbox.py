"""Commands inside bubblewrap: no network, the project writable, the rest of the disk read-only, secrets hidden.

Of the home folder, tools and documents are there to be read, and nothing else that begins with a dot. Repositories that
were there cannot be moved, nor their hooks and settings changed; new ones that would make git run code outside are set
aside when a command ends (`clew.agent.git_controls`). A command sees its own processes only, so no environment and no
memory of the agent. What it may not do fails with an error of the system; nothing is asked here. Where the sandbox was
chosen and cannot run, that is an error: no command ever runs without it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from clew.agent.files.file_types import TABLES, secret_kind
from clew.agent.git_controls import TrustedGit
from clew.agent.processes import LeftCode, path_outside
from clew.errors import SandboxUnavailable
from clew.redact import redact_text

SETTING = "terminal.sandbox"
_PROBE_SECONDS = 20.0
_VISIBLE_IN_HOME = TABLES["visible_in_home"].split()
"""Tools, and what they fetched. All else in the home folder that begins with a dot is hidden: programs keep their
credentials there, those of tomorrow too."""
_HIDDEN_AMONG_TOOLS = (".local/share/uv/credentials", ".julia/servers", ".dotnet/corefx")
_PERSONAL_GIT_CONFIGS = (".gitconfig", ".config/git/config")
_NAMES_CREDENTIALS = re.compile(r"CREDENTIAL|SECRET|TOKEN|KEY|PASSW|AUTH|NETRC|CONFIG", re.IGNORECASE)
"""Of a variable whose value is the path of a file with credentials."""
_EMPTY_FOLDERS = ("/tmp", "/var/tmp", "/run")  # noqa: S108 (they are made empty: sockets of services lie there)
_KEPT_IN_RUN = ("/run/current-system", "/run/wrappers")
"""Where NixOS keeps its programs."""
_GIT_CONTROLS = ("hooks", "config", "hgrc")
"""What is written there runs later, outside the sandbox."""
_LEFT_OUT_VARIABLES = ("SSH_AUTH_SOCK", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "XAUTHORITY", "DISPLAY")


class BubblewrapSandbox:
    """Builds the arguments of `bwrap`, once for all commands of an agent."""

    def __init__(self, program: str, environ: Mapping[str, str], writable: Sequence[Path], clew_home: Path) -> None:
        self._program = program
        self._environ = environ
        self._home = Path(environ.get("HOME") or "/nonexistent").resolve()
        self._writable = [path.resolve() for path in writable]
        self._clew_home = clew_home.resolve()
        self._git = TrustedGit(self._writable, environ)

    def arguments(self, folder: Path) -> list[str]:
        # For each command anew: a program may have signed in since.
        mounts = self._mounts()
        return [
            *(self._program, "--unshare-all", "--die-with-parent", "--cap-drop", "ALL"),
            *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
            # The innermost folder counts: a project in a hidden folder is visible, a secret in a project is not.
            *(word for path in sorted(mounts, key=lambda one: one.count("/")) for word in mounts[path]),
            *(word for name in _LEFT_OUT_VARIABLES for word in ("--unsetenv", name)),
            *("--setenv", "TMPDIR", "/tmp", "--setenv", "XDG_CACHE_HOME", "/tmp/.cache"),  # noqa: S108 (its own)
            *("--chdir", str(folder), "--"),
        ]

    def set_aside(self) -> list[LeftCode]:
        """Set aside what commands left by which git would run code outside."""
        return self._git.set_aside()

    def decide(self, left: LeftCode, *, keeps: bool) -> str:
        """Put it back in its place, or leave it aside; returns a sentence about it."""
        return self._git.decide(left, keeps=keeps)

    def _mounts(self) -> dict[str, list[str]]:
        mounts = {path: ["--tmpfs", path] for path in _EMPTY_FOLDERS if Path(path).is_dir()}
        # A home folder may lie in one that is made empty.
        kept = [path for path in (*_KEPT_IN_RUN, str(self._home)) if path != "/" and Path(path).is_dir()]
        mounts |= {path: ["--ro-bind", path, path] for path in kept}
        hidden = (self._clew_home, *self._hidden_in_home(), *self._hidden_by_variables())
        mounts |= {str(path): _hiding(path) for path in hidden if path.exists()}
        visible = [str(self._home / name) for name in _VISIBLE_IN_HOME if (self._home / name).exists()]
        mounts |= {path: ["--ro-bind", path, path] for path in visible}
        among = [self._home / name for name in _HIDDEN_AMONG_TOOLS]
        mounts |= {str(path): _hiding(path) for path in among if path.exists()}
        mounts |= {path: ["--ro-bind", copy, path] for path, copy in self._redacted_configs()}
        mounts |= {str(path): ["--bind", str(path), str(path)] for path in self._writable}
        for git in map(str, self._git.folders):
            # A folder that something is mounted on cannot be moved away.
            mounts |= {git: ["--bind", git, git]} if Path(git).is_dir() else {}
            controls = [f"{git}/{name}" for name in _GIT_CONTROLS]
            mounts |= {path: ["--ro-bind", path, path] for path in controls if Path(path).exists()}
        return mounts

    def _hidden_in_home(self) -> Iterator[Path]:
        """What is hidden of the home folder; of a link, what it leads to."""
        for entry in self._home.iterdir() if self._home.is_dir() else ():
            path, name = entry.resolve(), entry.name
            is_hidden = name.startswith(".") or secret_kind(name) is not None
            if is_hidden and name not in _VISIBLE_IN_HOME and not self._home.is_relative_to(path):
                yield path

    def _hidden_by_variables(self) -> Iterator[Path]:
        """Files and folders of the home folder in which variables say that credentials are."""
        for name, value in self._environ.items():
            if not value.startswith("/") or not _NAMES_CREDENTIALS.search(name):
                continue
            path = Path(os.path.realpath(value))
            holds_ours = any(one.is_relative_to(path) for one in (self._home, *self._writable))
            if path.is_relative_to(self._home) and not holds_ours:
                yield path

    def _redacted_configs(self) -> Iterator[tuple[str, str]]:
        """Personal configs of git with a password in them, each with its copy without one."""
        for name in _PERSONAL_GIT_CONFIGS:
            path = self._home / name
            with suppress(OSError, UnicodeDecodeError):
                text = path.read_text("utf-8")
                if (redacted := redact_text(text)) != text:
                    copy = self._clew_home / f"sandbox-{path.name.lstrip('.')}"
                    copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                    copy.write_text(redacted, "utf-8")
                    yield str(path), str(copy)

    @classmethod
    def open(
        cls, environ: Mapping[str, str], project: Path, allowed: Sequence[Path], clew_home: Path
    ) -> BubblewrapSandbox:
        """The sandbox of a project. Raises SandboxUnavailable where bubblewrap is missing or cannot run here."""
        writable = [project, *(path for path in allowed if path.exists())]
        program = shutil.which("bwrap", path=path_outside(environ, [path.resolve() for path in writable]))
        if program is None:
            raise SandboxUnavailable(
                f"{SETTING} is bubblewrap, but there is no program `bwrap`; install it (Debian, Ubuntu, Fedora, Arch: "
                f"the package bubblewrap), or set {SETTING} to none to run commands without walls"
            )
        sandbox = cls(program, environ, writable, clew_home)
        sandbox._check(project, environ)
        return sandbox

    def _check(self, project: Path, environ: Mapping[str, str]) -> None:
        """Run it once, with the walls that commands will have."""
        command = [*self.arguments(project.resolve()), "/bin/sh", "-c", "exit 0"]
        try:
            ran = subprocess.run(
                command, env=dict(environ), stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_SECONDS
            )
            problem = ran.stderr.decode("utf-8", "replace").strip() if ran.returncode else ""
        except (OSError, subprocess.TimeoutExpired) as failed:
            ran, problem = None, str(failed)
        if ran is None or ran.returncode:
            raise SandboxUnavailable(
                f"{SETTING} is bubblewrap, but it cannot run here: {problem or 'no reason given'}. The system may "
                f"forbid user namespaces (in a container, say); allow them, or set {SETTING} to none"
            )


def _hiding(path: Path) -> list[str]:
    return ["--tmpfs", str(path)] if path.is_dir() else ["--ro-bind", "/dev/null", str(path)]
