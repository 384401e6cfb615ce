"""A store with something in it, for the commands that read one."""

from __future__ import annotations

import asyncio
import io
import json
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from clew.cli import main
from clew.messages import Message
from clew.store import CompactionEntry, ModelCall, NewOutput, NewSession, Store, open_store
from clew.testing import assistant, call, tool, user
from clew.usage import CanonicalUsage

T = TypeVar("T")
NOON = 1_772_366_400.0  # 2026-03-01 12:00 UTC
HISTORY = [
    user("Why does the clock in hall 3 run late?"),
    assistant("I look at its log.", [call("read_file", {"path": "hall3.log"})]),
    tool("call_1", "tick 1 late\ntick 2 late\nretry_backoff = 3\n"),
    assistant("A dry bearing: tick 400 is 3 s late."),
    user("Oil it, please. 时钟慢了。"),
    assistant("Oiled."),
]
SUMMARY: Message = {"role": "user", "content": "Handoff: the bearing of hall 3 was oiled."}


@dataclass(frozen=True)
class Kept:
    """A Clew home, and the ways into it."""

    home: Path
    capsys: pytest.CaptureFixture[str]

    @property
    def database(self) -> Path:
        return self.home / "state.db"

    def run(self, *words: str, **environ: str) -> tuple[int, str, str]:
        # Nobody is at a terminal, and nothing is piped in.
        own = {"CLEW_HOME": str(self.home), "HERMES_HOME": str(self.home / "no-hermes"), "COLUMNS": "100"}
        code = main(list(words), {**own, **environ}, io.StringIO())
        out, err = self.capsys.readouterr()
        return code, out, err

    def json(self, *words: str) -> Any:
        code, out, err = self.run(*words, "--json")
        assert code == 0, err
        return json.loads(out)

    def ask(self, work: Callable[[Store], Awaitable[T]], url: str | None = None) -> T:
        """Do something in the store, as the program itself would."""

        async def go() -> T:
            async with open_store(url or self.database, clock=lambda: NOON) as store:
                return await work(store)

        return asyncio.run(go())

    def fill(self, url: str | None = None) -> None:
        """Put the conversations of this file in."""
        self.ask(_fill, url)


def spent(model: str, cost: int | None, source: Any = "terminal", fresh: int = 100) -> ModelCall:
    return ModelCall(CanonicalUsage(fresh, 40, 800, 100, 10), model, "somebody", source, cost)


async def _fill(store: Store) -> None:
    """A chain of two sessions with a branch and a subagent, and a conversation of its own."""
    await store.start_session(
        NewSession(id="clock-1", source="terminal", model="m-1", title="Late clock", system="Mend.")
    )
    await store.append("clock-1", HISTORY[:4], call=spent("m-1", 12_000))
    view = await store.view("clock-1")
    entry = CompactionEntry.of(
        view,
        [view.messages[0], SUMMARY, view.messages[3]],
        SUMMARY,
        tokens_before=900,
        tokens_after=300,
        engine="compressor",
    )
    await store.commit_compaction("clock-1", entry, calls=[spent("m-small", 500, "auxiliary")], new_id="clock-2")
    await store.append("clock-2", HISTORY[4:], call=spent("nobodys", None))
    await store.branch("clock-1", 2, new_id="other-way")
    await store.rename("other-way", "Another way")
    await store.append("other-way", [user("Or is it the spring?")])
    await store.start_session(NewSession(id="helper", parent="other-way", kind="subagent", source="subagent"))
    await store.start_session(NewSession(id="s_4f1c0d", source="gateway", model="m-2"))
    await store.append("s_4f1c0d", [user("Tea or coffee?"), assistant("Tea.")], call=spent("m-2", 4_000, "gateway"))
    await store.keep_output(NewOutput("s_4f1c0d", "kettle log\n" * 20, tool="terminal"))


@pytest.fixture
def empty_home(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Kept:
    return Kept(tmp_path / "home", capsys)


@pytest.fixture(scope="session")
def filled_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Filled once; a test gets a copy."""
    home = tmp_path_factory.mktemp("filled") / "home"

    async def fill() -> None:
        async with open_store(home / "state.db", clock=lambda: NOON) as store:
            await _fill(store)

    asyncio.run(fill())
    return home


@pytest.fixture
def kept(empty_home: Kept, filled_home: Path) -> Kept:
    shutil.copytree(filled_home, empty_home.home)
    return empty_home
