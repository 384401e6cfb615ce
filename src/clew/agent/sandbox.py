"""Commands inside bubblewrap: no network, the project writable, the rest of the disk read-only, secrets hidden.

A command sees its own processes only, so no environment and no memory of the agent. What it may not do fails with an
error of the system; nothing is asked here. Where the sandbox was chosen and cannot run, that is an error: no command
ever runs without it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from clew.errors import SandboxUnavailable

SETTING = "terminal.sandbox"
_PROBE_SECONDS = 20.0
_HIDDEN_IN_HOME = (
    *(".ssh", ".aws", ".azure", ".gnupg", ".kube", ".docker", ".password-store", ".mozilla", ".clew"),
    *(".config/gh", ".config/hub", ".config/gcloud", ".config/rclone", ".config/op", ".config/chromium"),
    *(".config/google-chrome", ".config/BraveSoftware", ".local/share/keyrings", "Library/Keychains"),
    *(".netrc", ".pgpass", ".my.cnf", ".git-credentials", ".pypirc", ".npmrc", ".vault-token", ".boto", ".s3cfg"),
    *(".bash_history", ".zsh_history", ".python_history", ".psql_history", ".node_repl_history"),
)
_EMPTY_FOLDERS = ("/tmp", "/var/tmp", "/run")  # noqa: S108 (they are made empty: sockets of services lie there)
_KEPT_IN_RUN = ("/run/current-system", "/run/wrappers")
"""Where NixOS keeps its programs."""
_GIT_CONTROLS = (".git/hooks", ".git/config")
"""What is written there runs later, outside the sandbox."""
_LEFT_OUT_VARIABLES = ("SSH_AUTH_SOCK", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "XAUTHORITY", "DISPLAY")


class BubblewrapSandbox:
    """Builds the arguments of `bwrap`, once for all commands of an agent."""

    def __init__(self, program: str, home: Path, writable: Sequence[Path], hidden: Iterable[Path]) -> None:
        folders = [path.resolve() for path in writable]
        mounts = {path: ["--tmpfs", path] for path in _EMPTY_FOLDERS if Path(path).is_dir()}
        # A home folder may lie in one that is made empty.
        kept = [path for path in (*_KEPT_IN_RUN, str(home.resolve())) if path != "/" and Path(path).is_dir()]
        mounts |= {path: ["--ro-bind", path, path] for path in kept}
        mounts |= {str(path): _hiding(path) for path in hidden if path.exists()}
        mounts |= {str(path): ["--bind", str(path), str(path)] for path in folders}
        controls = [str(folder / name) for folder in folders for name in _GIT_CONTROLS]
        mounts |= {path: ["--ro-bind", path, path] for path in controls if Path(path).exists()}
        self._arguments = [
            *(program, "--unshare-all", "--die-with-parent", "--cap-drop", "ALL"),
            *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
            # The innermost folder counts: a project inside a hidden folder is there, a secret inside a project is not.
            *(word for path in sorted(mounts, key=lambda one: one.count("/")) for word in mounts[path]),
            *(word for name in _LEFT_OUT_VARIABLES for word in ("--unsetenv", name)),
            *("--setenv", "TMPDIR", "/tmp", "--setenv", "XDG_CACHE_HOME", "/tmp/.cache"),  # noqa: S108 (its own)
        ]

    def arguments(self, folder: Path) -> list[str]:
        return [*self._arguments, "--chdir", str(folder), "--"]

    @classmethod
    def open(
        cls, environ: Mapping[str, str], project: Path, allowed: Sequence[Path], clew_home: Path
    ) -> BubblewrapSandbox:
        """The sandbox of a project. Raises SandboxUnavailable where bubblewrap is missing or cannot run here."""
        program = shutil.which("bwrap", path=environ.get("PATH", os.defpath))
        if program is None:
            raise SandboxUnavailable(
                f"{SETTING} is bubblewrap, but there is no program `bwrap`; install it (Debian, Ubuntu, Fedora, Arch: "
                f"the package bubblewrap), or set {SETTING} to none to run commands without walls"
            )
        home = Path(environ.get("HOME") or "/nonexistent")
        hidden = [clew_home, *(home / name for name in _HIDDEN_IN_HOME)]
        writable = [project, *(path for path in allowed if path.exists())]
        sandbox = cls(program, home, writable, [path.resolve() for path in hidden])
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
