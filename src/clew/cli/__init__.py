"""The terminal door: `clew NOUN ...`, one file per noun.

A command decodes its arguments, asks the rooms below, and prints: results to stdout, everything else to stderr.
"""

from clew.cli.entry import main

__all__ = ["main"]
