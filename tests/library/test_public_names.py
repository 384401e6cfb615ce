"""What `import clew` offers: its public names, complete in one docstring, and every error."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import clew
from clew import errors
from clew.testing import assistant, user
from tests.support.cases import every_case


def test_dir_shows_the_public_names_and_nothing_else() -> None:
    assert dir(clew) == sorted(clew.__all__)


@every_case("name", clew.__all__)
def test_each_is_there_and_in_the_docstring(name: str) -> None:
    assert getattr(clew, name) is not None
    assert name in (clew.__doc__ or "")


def test_every_error_is_exported_and_in_the_tree() -> None:
    every = {
        name for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, errors.ClewError)
    }
    assert every <= set(clew.__all__)
    assert all(name in (errors.__doc__ or "") for name in every)
    assert all(issubclass(getattr(clew, name), clew.ClewError) for name in every)


def test_an_unknown_name_is_told_with_the_known_ones() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute 'compres'; its public names are .*compress"):
        _ = clew.compres


def test_a_result_says_in_one_line_what_happened() -> None:
    history = [message for n in range(60) for message in (user(f"Question {n} " * 40), assistant(f"Answer {n} " * 40))]
    done = clew.compress(history, target_tokens=2_000)
    assert repr(done).startswith("<Compressed: 120 -> ")
    assert "\n" not in repr(done)
    assert "tokens" in done._repr_html_()


async def test_the_async_door_gives_the_same() -> None:
    history = [message for n in range(60) for message in (user(f"Question {n} " * 40), assistant(f"Answer {n} " * 40))]
    assert (await clew.acompress(history, target_tokens=2_000)).messages == clew.compress(
        history, target_tokens=2_000
    ).messages


def test_the_package_says_that_it_is_typed_and_importing_it_loads_no_room() -> None:
    assert (Path(clew.__file__).parent / "py.typed").exists()
    loaded = "import sys, clew; print([name for name in sys.modules if name.startswith('clew.')])"
    ran = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "['clew.lazy']"


EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "session.json"


def test_a_fold_imports_no_database_provider_or_server() -> None:
    fold = (
        "import json, sys, clew; clew.compress(json.load(open(sys.argv[1])), target_tokens=10_000); "
        "rooms = {'clew.' + name for name in 'store turn providers agent gateway app cli importers'.split()}; "
        "rooms |= {'asyncio', 'sqlite3', 'httpx', 'aiohttp', 'yaml', 'click', 'jinja2', 'rich'}; "
        "print(sorted(rooms & sys.modules.keys()))"
    )
    ran = subprocess.run([sys.executable, "-c", fold, str(EXAMPLE)], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


FOLDS_IN_THREADS = """
import json, sys
from concurrent.futures import ThreadPoolExecutor
import clew
messages = json.load(open(sys.argv[1], encoding="utf-8"))["messages"]
cuts = [messages[:length] for length in map(int, sys.argv[2].split())]
sys.setswitchinterval(1e-5)
with ThreadPoolExecutor(6) as pool:
    done = pool.map(lambda cut: clew.compress(cut, target_tokens=5_000), cuts)
json.dump([[each.messages, each.tokens_after] for each in done], sys.stdout)
"""


def test_six_threads_that_fold_at_the_same_time_get_the_results_of_one() -> None:
    # In a new process, because races show while caches are empty.
    lengths = [(120, 180, 240, 300)[number % 4] for number in range(12)]
    command = [sys.executable, "-c", FOLDS_IN_THREADS, str(EXAMPLE), " ".join(map(str, lengths))]
    results = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    messages = json.loads(EXAMPLE.read_text(encoding="utf-8"))["messages"]
    alone = {length: clew.compress(messages[:length], target_tokens=5_000) for length in set(lengths)}
    assert results == [[alone[length].messages, alone[length].tokens_after] for length in lengths]
