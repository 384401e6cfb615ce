"""Reads a shell command line into the simple commands that it would run. Nothing is run."""

from clew.errors import UnreadableCommand
from clew.shell.commands import read_command_line
from clew.shell.words import UNKNOWN, CommandLine, Redirect, SimpleCommand, Word, join_words, unescape

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
