"""Reads a shell command line into the simple commands that it would run. Nothing is run."""

from clew.agent.shell.commands import read_command_line
from clew.agent.shell.words import UNKNOWN, CommandLine, Redirect, SimpleCommand, Word, join_words, unescape
from clew.errors import UnreadableCommand

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
