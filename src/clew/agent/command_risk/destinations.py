"""Where a command sends to or installs from: an agreement for the session covers that destination, no other.

`git push` is resolved to the address of its remote, so that another remote, or another address for the same one, is
asked about again.
"""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from clew.agent.command_risk.command import InspectedCommand
from clew.shell import UNKNOWN

LOOPBACK = re.compile(
    r"^(?:\w+://)?(?:[^/@]*@)?(?:localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|\[::1?\])(?=[:/?#]|$)", re.IGNORECASE
)
_URL = re.compile(r"^(?:git\+)?\w[\w+.-]*://", re.IGNORECASE)
_HOST = re.compile(r"^(?:[\w.-]+@)?[\w-]+(?:\.[\w-]+)+(?=[:/]|$)|^[\w.-]+@[\w.-]+")
_SOURCE_FLAGS = frozenset(
    "-i --index-url --extra-index-url --index --default-index --find-links -f --registry --source -s --repository "
    "--repository-url -r --host -H --context --profile --region --endpoint-url -R --repo --project --account "
    "--kube-context --namespace -n --stage --app -a".split()
)
"""Flags that say where."""
_SOURCE_VARIABLE = re.compile(
    r"(?:INDEX|REGISTRY|REPOSITORY|HOST|PROFILE|KUBECONFIG|CONTEXT|ENDPOINT)\w*$", re.IGNORECASE
)
_MAX_CONFIG_BYTES = 1_000_000


def destination_of(command: InspectedCommand) -> str:
    """Where a command sends to or takes from, as text for a scope; empty where it names no place."""
    if command.is_git("push"):
        return _git_remote(command)
    return " ".join(dict.fromkeys(_places(command))).replace(UNKNOWN, "…")


def _places(command: InspectedCommand) -> Iterator[str]:
    texts = command.texts
    for at, text in enumerate(texts):
        flag, equals, value = text.partition("=")
        if text in _SOURCE_FLAGS and at + 1 < len(texts):
            yield f"{text} {texts[at + 1]}"
        elif equals and flag in _SOURCE_FLAGS:
            yield f"{flag} {value}"
        elif _URL.match(text):
            yield _host(text)
        elif found := _HOST.match(text):
            yield found[0]
    for name, word in command.parsed.assignments:
        if _SOURCE_VARIABLE.search(name):
            yield f"{name}={word.text}"


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else url


def _git_remote(command: InspectedCommand) -> str:
    """The address that `git push` sends to: of the remote that it names, or of the branch's own."""
    named = [word.text for word in command.positional[1:2]]
    settings = _git_settings(command.folder)
    remote = named[0] if named else _default_remote(command.folder, settings)
    section = f'remote "{remote}"'
    for key in ("pushurl", "url"):
        if settings is not None and settings.has_option(section, key):
            return f"{remote} ({settings.get(section, key)})"
    return remote


def _default_remote(folder: str | None, settings: configparser.RawConfigParser | None) -> str:
    if settings is None or folder is None:
        return "origin"
    try:
        head = (_git_folder(folder) or Path()).joinpath("HEAD").read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        head = ""
    section = f'branch "{head.removeprefix("ref: refs/heads/")}"'
    for where, key in ((section, "pushremote"), ("remote", "pushdefault"), (section, "remote")):
        if settings.has_option(where, key):
            return settings.get(where, key)
    return "origin"


def _git_settings(folder: str | None) -> configparser.RawConfigParser | None:
    git = _git_folder(folder) if folder is not None else None
    if git is None:
        return None
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    try:
        with (git / "config").open(encoding="utf-8") as file:
            text = file.read(_MAX_CONFIG_BYTES)
        # Git indents its settings, which would make them continuations here.
        parser.read_string("\n".join(line.strip() for line in text.splitlines()))
    except (OSError, UnicodeDecodeError, configparser.Error):
        return None
    return parser


def _git_folder(folder: str) -> Path | None:
    here = Path(folder)
    for parent in (here, *here.parents):
        git = parent / ".git"
        if git.is_dir():
            return git
        if git.is_file():
            return _linked_folder(git)
    return None


def _linked_folder(git: Path) -> Path | None:
    """Of a linked worktree or a submodule: `.git` is a file that names the folder."""
    try:
        named = git.read_text("utf-8").partition("gitdir:")[2].strip()
        real = Path(os.path.normpath(git.parent / named))
        common = real / "commondir"
        return Path(os.path.normpath(real / common.read_text("utf-8").strip())) if common.is_file() else real
    except (OSError, UnicodeDecodeError):
        return None
