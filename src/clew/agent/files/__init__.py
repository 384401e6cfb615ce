"""What the tools for files are made of: where they may go, pages, edits, diffs, searches.

Knows the disk and the project's limits; no model and no schema. The tools themselves are in `clew.agent.tools`.
"""

from clew.agent.files.paths import Workplace
from clew.agent.files.seen import FilesSeen

__all__ = ["FilesSeen", "Workplace"]
