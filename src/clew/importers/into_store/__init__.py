"""Into the store: sessions of other programs become sessions of Clew, message by message.

Importing twice adds nothing, importing a file that has grown adds the new part, and a run that was killed is finished
by the next one. Knows the store and what readers give; knows no format and no terminal.
"""

from clew.importers.into_store.outcome import ImportedSession
from clew.importers.into_store.writing import import_session

__all__ = ["ImportedSession", "import_session"]
