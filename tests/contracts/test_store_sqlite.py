from __future__ import annotations

from pathlib import Path

import pytest

# Asserts of the shipped suite say what they compared, as those of a test module do.
for _part in ("", "_history", "_search"):
    pytest.register_assert_rewrite(f"clew.testing.store_contract{_part}")

from clew.testing.store_contract import StoreContract  # noqa: E402


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def store_url(self, tmp_path: Path) -> str:
        return str(tmp_path / "state.db")
