"""`clew open`: messages by their numbers, word for word, with the other side of each call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clew.store import NewSession, Store
from clew.testing import assistant, call, tool, user

if TYPE_CHECKING:
    from tests.cli.conftest import Kept

LOG = "".join(f"tick {number} late\n" for number in range(2_000))
WORK = [
    user("Look at both logs."),
    assistant(
        None,
        [call("read_file", {"path": "a.log"}, "one"), call("terminal", {"command": "echo 'x\ty'\nls"}, "two")],
    ),
    tool("two", "listed"),
    tool("one", LOG),
    assistant("Tick 400 is late."),
]


@pytest.fixture
def home(empty_home: Kept) -> Kept:
    async def work(store: Store) -> None:
        await store.start_session(NewSession(id="work", title="Logs"))
        await store.append("work", WORK)

    empty_home.ask(work)
    return empty_home


def test_a_short_message_is_whole_and_a_long_one_tells_where_its_part_is(home: Kept) -> None:
    assert "Look at both logs." in home.run("open", "work", "m0")[1]
    [message] = home.json("open", "Logs", "3")["messages"]
    [part] = message["parts"]
    assert part == {"start": 0, "text": LOG[:1_500]} and message["chars"] == len(LOG)
    shown = home.run("open", "work", "m3", "--around", "tick 1200")
    assert "tick 1200 late" in shown[1] and f"of {len(LOG):,}]" in shown[1] and len(shown[1]) < 3_000
    assert home.json("open", "work", "m3", "--chars", "60000")["messages"][0]["parts"][0]["text"] == LOG


def test_parallel_calls_and_their_results_name_each_other(home: Kept) -> None:
    called, second, first = home.json("open", "work", "m1-m3")["messages"]
    assert [(link["number"], link["call"]) for link in called["results"]] == [
        (3, "read_file path: a.log"),
        (2, "terminal command: echo 'x y' ls"),
    ]
    assert first["result_of"] == {"number": 1, "call": "read_file path: a.log"}
    assert second["result_of"]["call"].startswith("terminal")
    assert "echo 'x\ty'\nls" in called["parts"][0]["text"], "arguments are decoded"


def test_pages_go_on_to_the_end(home: Kept) -> None:
    read, name = "", "m3"
    while name:
        page = home.json("open", "work", name)
        read += page["messages"][0]["parts"][0]["text"]
        name = page["next"]
    assert read == LOG
    assert [it["number"] for it in home.json("open", "work", "--last", "2")["messages"]] == [3, 4]
    assert [it["number"] for it in home.json("open", "work", "m0,m4")["messages"]] == [0, 4]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("work", "m9"), "it has m0 to m4"),
        (("work", "first"), "names no message"),
        (("none", "m0"), "none"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(home: Kept, words: tuple[str, ...], told: str) -> None:
    code, _, err = home.run("open", *words)
    assert code != 0 and told in err
