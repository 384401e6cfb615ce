"""How a command fails: its exit code, and the error for people (one line on stderr) or for programs (JSON on stdout).

A program that asked for JSON gets JSON, whatever happens:
`{"error": {"kind": ..., "message": ..., "remedy": ...}}`, and the same exit code as without.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from clew.cli.console import Console
from clew.errors import ClewError, ConfigError, InvalidArgument, ProviderRefused

FAILED = 1
WRONG_USE = 2
INTERRUPTED = 130
COMMAND_LINE_SOURCES = ("--set", "config set", "config show")
"""What a `ConfigError` names as its source where the command line is wrong, not the file."""
_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")


def wants_json(words: Sequence[str]) -> bool:
    """Whether JSON was asked for, though the words could not be parsed."""
    options = words[: words.index("--")] if "--" in words else words
    return "--json" in options


def exit_code(error: ClewError) -> int:
    """2 where the command line is wrong, 1 for everything else."""
    is_wrong_use = isinstance(error, InvalidArgument) or (
        isinstance(error, ConfigError) and error.source in COMMAND_LINE_SOURCES
    )
    return WRONG_USE if is_wrong_use else FAILED


def report_failure(error: ClewError, console: Console, *, as_json: bool) -> int:
    """Print why the command fails; returns the exit code."""
    if as_json:
        console.clear_progress()
        console.print_json(failure_json(error))
    else:
        console.error(failure_text(error))
    return exit_code(error)


def failure_text(error: ClewError) -> str:
    """The error for people; a provider's refusal in words that say what to do."""
    if not isinstance(error, ProviderRefused):
        return str(error)
    from clew.providers import explain_refusal

    return str(explain_refusal(error))


def failure_json(error: ClewError) -> dict[str, Any]:
    """The error for programs."""
    if isinstance(error, ProviderRefused):
        from clew.providers import explain_refusal

        explained = explain_refusal(error)
        return {"error": {"kind": error.fault.kind, "message": str(explained), "remedy": explained.remedy}}
    remedy = getattr(error, "remedy", None) or _remedy_in(str(error)) or getattr(error, "allowed", None)
    return {"error": {"kind": error_kind(error), "message": str(error), "remedy": remedy}}


def error_kind(error: ClewError) -> str:
    """`wrong_use`, or the name of the error: no_model, unknown_session, ..."""
    if exit_code(error) == WRONG_USE:
        return "wrong_use"
    name = type(error).__name__
    return "failed" if name == "ClewError" else _CAPITAL.sub("_", name.removesuffix("Error")).lower()


def _remedy_in(message: str) -> str | None:
    """What stands behind the last semicolon: messages name the thing, the value, and then what to do."""
    _, semicolon, remedy = message.rpartition("; ")
    return remedy if semicolon else None
