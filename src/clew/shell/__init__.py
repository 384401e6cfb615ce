"""Reads a shell command line into the simple commands that it would run. Nothing is run."""

from clew.errors import UnreadableCommand
from clew.shell.commands import (
    UNKNOWN,
    CommandLine,
    Redirect,
    SimpleCommand,
    Word,
    join_words,
    read_command_line,
    unescape,
)

__all__ = [
    "UNKNOWN",
    "CommandLine",
    "Redirect",
    "SimpleCommand",
    "UnreadableCommand",
    "Word",
    "join_words",
    "read_command_line",
    "unescape",
]
