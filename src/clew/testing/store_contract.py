"""What every store must do, as a suite: subclass `StoreContract` in a test module and give it a `store_url` fixture.

Each test starts on an empty database. Needs pytest and pytest-asyncio.
"""

from __future__ import annotations

from clew.testing.store_contract_history import HistoryContract
from clew.testing.store_contract_search import SearchContract
from clew.testing.store_contract_sessions import SessionContract
from clew.testing.store_contract_views import ViewContract


class StoreContract(SessionContract, HistoryContract, ViewContract, SearchContract):
    """All of it."""


__all__ = ["StoreContract"]
