"""Importers: conversations out of files, whoever wrote them.

`read_transcript` gives everything at once; `open_session` gives message by message, for files of any size, and
`open_sessions` all the sessions of a file that holds several. The kind is recognised by content, never by name.
Knows the formats of other programs; does not repair what a conversation says.
"""

from clew.importers.entries import Entry, Margin, Total
from clew.importers.folders import session_files
from clew.importers.opening import SessionFile, open_session, open_sessions
from clew.importers.session import Session
from clew.importers.source import ReadLimits, TranscriptSource
from clew.importers.transcript import Transcript, read_transcript

__all__ = [
    "Entry",
    "Margin",
    "ReadLimits",
    "Session",
    "SessionFile",
    "Total",
    "Transcript",
    "TranscriptSource",
    "open_session",
    "open_sessions",
    "read_transcript",
    "session_files",
]
