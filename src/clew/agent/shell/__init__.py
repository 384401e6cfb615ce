"""Reading a shell command line: taken apart into the simple commands that it would run, as far as that is certain.

Runs nothing, and judges nothing.
"""

from clew.agent.shell.commands import read_line
from clew.agent.shell.values import UNKNOWN, Line, Redirect, Simple, Unreadable, Word, joined

__all__ = ["UNKNOWN", "Line", "Redirect", "Simple", "Unreadable", "Word", "joined", "read_line"]
