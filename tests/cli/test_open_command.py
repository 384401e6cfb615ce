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
    assert part["start"] == 0 and LOG.startswith(part["text"]) and part["text"].endswith("late\n")
    assert 5_700 <= len(part["text"]) <= 6_000 and message["chars"] == len(LOG)
    code, shown, note = home.run("open", "work", "m3")
    assert code == 0 and f"of {len(LOG):,}]" in shown and f"read on with m3@{len(part['text'])}" in shown + note
    for chars in (1_500, 4_500, 7_000):
        asked = ("open", "work", "m3", "--around", "tick 1200", "--chars", str(chars))
        [part] = home.json(*asked)["messages"][0]["parts"]
        assert "tick 1200 late" in part["text"] and 0.95 * chars <= len(part["text"]) <= chars
        assert f"of {len(LOG):,}]" in home.run(*asked)[1]
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
    label = home.run("open", "work", "m1")[1].splitlines()[0]
    assert "a.log: m3" in label and "ls: m2" in label


def test_a_long_range_shows_a_beginning_of_each_message_and_where_to_read_on(home: Kept) -> None:
    async def more(store: Store) -> None:
        await store.append("work", [user(f"Log {number}.\n{LOG}") for number in range(5, 150)])

    home.ask(more)
    code, shown, note = home.run("open", "work", "m5-m140")
    numbers = [number for number in range(5, 150) if f"Log {number}.\n" in shown]
    last = numbers[-1]
    assert code == 0 and numbers == list(range(5, last + 1)) and last > 30 and "[chars 0 to 0 " not in shown
    assert f"shown up to m{last}, read on with m{last + 1}-m140" in shown + note


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
