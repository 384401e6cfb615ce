"""Files for the tools in `clew.agent.tools`: allowed paths, pages, edits, diffs, searches."""

from clew.agent.files.disk import FileTracker
from clew.agent.files.paths import Workspace

__all__ = ["FileTracker", "Workspace"]
