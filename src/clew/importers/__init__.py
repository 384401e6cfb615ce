"""Importers: conversations out of the files of other programs, and of plain JSON.

`read_transcript` returns everything at once; `open_session` reads message by message, for files of any size, and
`open_sessions` all the sessions of a file that holds several. The kind of a file is detected by content, never by name.
Broken conversations are not repaired here. `import_session` writes sessions into the store, `import_files` those of
many files, and `follow` those that programs continue writing.
"""

from clew.importers.read import SessionFile, Transcript, open_session, open_sessions, read_transcript, session_files
from clew.importers.session import SourceEntry, SourceMetadata, SourceSession, SourceUsage
from clew.importers.source import ReadLimits, TranscriptSource

__all__ = [
    "ReadLimits",
    "SessionFile",
    "SourceEntry",
    "SourceMetadata",
    "SourceSession",
    "SourceUsage",
    "Transcript",
    "TranscriptSource",
    "open_session",
    "open_sessions",
    "read_transcript",
    "session_files",
]
