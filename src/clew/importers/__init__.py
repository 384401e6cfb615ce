"""Importers: conversations out of files, whoever wrote them.

`read_transcript` gives everything at once; `open_session` gives message by message, for files of any size. The kind is
recognised by content, never by name. Knows the formats of other programs; does not repair what a conversation says.
"""

from clew.importers.entries import Entry, Margin
from clew.importers.session import Session, open_session
from clew.importers.source import ReadLimits, TranscriptSource
from clew.importers.transcript import Transcript, read_transcript

__all__ = [
    "Entry",
    "Margin",
    "ReadLimits",
    "Session",
    "Transcript",
    "TranscriptSource",
    "open_session",
    "read_transcript",
]
