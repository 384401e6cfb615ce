"""The command line: `clew NOUN ...`. `commands` has one file per noun, `views` how they look, `tui` the chat.

A command parses its arguments, calls the rooms below and prints: results to stdout, everything else to stderr.
"""

from clew.cli.entry import main

__all__ = ["main"]
