"""The command line: `clew NOUN ...`. Each noun has one file; `tui` is the chat.

A command parses its arguments, calls the rooms below and prints: results to stdout, everything else to stderr.
"""

from clew.cli.entry import main

__all__ = ["main"]
