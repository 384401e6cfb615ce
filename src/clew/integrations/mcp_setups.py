"""The MCP server in the configs of programs: the lines to paste for each, and what is wrong on this machine.

Of a config that names the server it is found out whether the program that it names is there.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

_MAX_CONFIG_BYTES = 5_000_000


@dataclass(frozen=True, slots=True)
class McpClientSetup:
    """One program. In its lines `$shell` is the command for a shell, `$json` a list of its words, `$program` its first
    word and `$rest` a list of the others."""

    name: str
    title: str
    where: str
    """The file or the shell that the lines belong to."""
    lines: str
    config: str = ""
    """Its config file, below the home folder; empty where it is not looked at."""
    table: str = ""
    """Under which key of that its servers are."""


MCP_SETUPS = (
    McpClientSetup(
        "claude",
        "Claude Code",
        "the shell, once",
        "claude mcp add --scope user clew -- $shell",
        ".claude.json",
        "mcpServers",
    ),
    McpClientSetup(
        "codex",
        "Codex",
        "~/.codex/config.toml",
        "[mcp_servers.clew]\n"
        "command = $program\n"
        "args = $rest\n"
        "# required = true    # without this, `codex exec` asks before a server has started",
        ".codex/config.toml",
        "mcp_servers",
    ),
    McpClientSetup(
        "gemini",
        "Gemini CLI",
        "~/.gemini/settings.json",
        '{"mcpServers": {"clew": {"command": $program, "args": $rest}}}',
        ".gemini/settings.json",
        "mcpServers",
    ),
    McpClientSetup(
        "opencode",
        "opencode",
        "~/.config/opencode/opencode.json",
        '{"mcp": {"clew": {"type": "local", "command": $json}}}',
        ".config/opencode/opencode.json",
        "mcp",
    ),
    McpClientSetup(
        "clew",
        "clew chat",
        "~/.clew/config.yaml",
        "mcp:\n  servers:\n    clew: {command: $program, args: $rest, trust: true}",
    ),
    McpClientSetup(
        "other",
        "Cursor, Claude Desktop and others",
        "their mcp.json",
        '{"mcpServers": {"clew": {"command": $program, "args": $rest}}}',
    ),
)


@dataclass(frozen=True, slots=True)
class McpCheck:
    """The server in the config of a client."""

    client: str
    config: str
    problem: str
    """Why it cannot work; empty where nothing is wrong."""


def server_command(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The words that start the server, wherever the client is started: with a whole path, unless a link leads here."""
    found = shutil.which("clew", path=environ.get("PATH"))
    own = Path(sys.executable).with_name("clew")
    # A program in the environment's own folder is found only while that environment is active.
    if found and Path(found).parent != own.parent and Path(found).resolve() == own.resolve():
        return ("clew", "mcp")
    # Clients start it in the folder of a project: -P keeps that folder off the module path.
    return (str(own), "mcp") if own.exists() else (sys.executable, "-P", "-m", "clew", "mcp")


def filled_in(setup: McpClientSetup, command: tuple[str, ...]) -> str:
    """The lines for this machine."""
    return Template(setup.lines).substitute(
        shell=shlex.join(command),
        json=json.dumps(command, ensure_ascii=False),
        program=json.dumps(command[0], ensure_ascii=False),
        rest=json.dumps(command[1:], ensure_ascii=False),
    )


def mcp_setup_named(name: str) -> McpClientSetup | None:
    """The one with this name or title."""
    wanted = name.strip().lower()
    return next((it for it in MCP_SETUPS if wanted in (it.name, it.title.lower())), None)


def check_mcp_clients(environ: Mapping[str, str]) -> tuple[McpCheck, ...]:
    """The clients of this machine whose config names the server; a config that cannot be read is no concern of ours."""
    home = environ.get("HOME") or environ.get("USERPROFILE")
    if not home:
        return ()
    checks = []
    for setup in MCP_SETUPS:
        for command in _commands(Path(home) / setup.config, setup.table) if setup.config else ():
            checks.append(McpCheck(setup.title, f"~/{setup.config}", _problem_with(command, environ)))
    return tuple(checks)


def _commands(path: Path, table: str) -> Iterator[list[str]]:
    """The commands of the servers in a config that run `clew mcp`."""
    try:
        if path.stat().st_size > _MAX_CONFIG_BYTES:
            return
        text = path.read_text(encoding="utf-8")
        whole: Any = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError):
        return
    servers = whole.get(table) if isinstance(whole, dict) else None
    for server in servers.values() if isinstance(servers, dict) else ():
        if not isinstance(server, dict) or server.get("enabled") is False:
            continue
        command, args = server.get("command"), server.get("args")
        words = [*(command if isinstance(command, list) else [command]), *(args if isinstance(args, list) else [])]
        if all(isinstance(word, str) for word in words) and _is_clew(words):
            yield words


def _is_clew(words: list[str]) -> bool:
    program = words[0].replace("\\", "/").rpartition("/")[2].removesuffix(".exe") if words else ""
    return "mcp" in words[1:] and (program == "clew" or _runs_module(words))


def _runs_module(words: list[str]) -> bool:
    return words[1:3] == ["-m", "clew"] or words[1:4] == ["-P", "-m", "clew"]


def _problem_with(words: list[str], environ: Mapping[str, str]) -> str:
    program = words[0]
    is_there = os.access(program, os.X_OK) if os.sep in program else shutil.which(program, path=environ.get("PATH"))
    if not is_there:
        lines = "`clew mcp --show all` prints what to put there"
        return f"it names {program}, which is not there or cannot be run; {lines}"
    if words[1:3] == ["-m", "clew"]:
        return "it starts Python without -P, so that a folder `clew` of a project would be run: put -P before -m"
    return ""
