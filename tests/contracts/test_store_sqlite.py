from __future__ import annotations

from pathlib import Path

import pytest

from tests.contracts.store_contract import StoreContract


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def store_url(self, tmp_path: Path) -> str:
        return str(tmp_path / "state.db")
