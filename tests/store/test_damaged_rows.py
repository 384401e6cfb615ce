"""One row that cannot be read: an error that names it, everything else goes on, and it is set aside with its bytes."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from clew.errors import ClewError, DamagedRow
from clew.messages import convert
from clew.store import CompactionEntry, EngineRecord, NewMessage, NewOutput, NewSession, Store, open_store
from clew.testing import assistant, call, tool, user
from tests.support.postgres import empty_schema

TALK = [
    user("walrus one"),
    assistant("I look.", [call("read_file", {"path": "a.log"})]),
    tool("call_1", "walrus log é"),
    assistant("walrus four"),
    user("walrus five"),
]


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "s.db")
    else:
        with empty_schema(request.getfixturevalue("server_url")) as schema:
            yield schema


def execute(url: str, sqlite_sql: str, postgres_sql: str | None = None) -> None:
    if not url.startswith("postgres"):
        with closing(sqlite3.connect(url)) as connection:
            connection.execute(sqlite_sql)
            connection.commit()
        return
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute((postgres_sql or sqlite_sql).encode())


def bad_byte(url: str, table: str, column: str, where: str) -> None:
    """Put a byte that no UTF-8 has in the middle of a text."""
    new = f"substr(CAST({column} AS BLOB), 1, 12) || x'ff' || substr(CAST({column} AS BLOB), 14)"
    sqlite_sql = f"UPDATE {table} SET {column} = CAST({new} AS TEXT) WHERE {where}"
    if not url.startswith("postgres"):
        return execute(url, sqlite_sql)
    # A server takes no such text from a client; a cast that checks nothing stands for a damaged file.
    made = "IF NOT EXISTS (SELECT 1 FROM pg_cast WHERE castsource = 17 AND casttarget = 25) THEN"
    execute(url, "", f"DO $$ BEGIN {made} CREATE CAST (bytea AS text) WITHOUT FUNCTION; END IF; END $$")
    damaged = f"overlay(convert_to({column}, 'UTF8') placing '\\xff'::bytea from 13 for 1)"
    return execute(url, "", f"UPDATE {table} SET {column} = CAST({damaged} AS text) WHERE {where}")


def bad_json(url: str, table: str, column: str, where: str) -> None:
    execute(url, f"UPDATE {table} SET {column} = substr({column}, 1, length({column}) - 1) WHERE {where}")


async def texts(store: Store, session: str = "s", keep: bool = False) -> list[str]:
    return [str(row.message.get("content")) for row in await store.messages(session, keep_damaged=keep)]


@pytest.mark.parametrize("damage", [bad_byte, bad_json])
async def test_a_damaged_message_is_named_and_the_others_stay_readable(url: str, damage: object) -> None:
    async with open_store(url) as store:
        await store.start_session(NewSession(id="s"))
        await store.append("s", TALK)
    damage(url, "messages", "body", "seq = 3")  # type: ignore[operator]
    async with open_store(url) as store:
        with pytest.raises(DamagedRow, match="message 3 of session 's' is damaged") as caught:
            await store.messages("s")
        assert (caught.value.session, caught.value.seq) == ("s", 3)
        with pytest.raises(DamagedRow, match="message 3 of session 's'"):
            await store.view("s")
        assert [row.seq for row in await store.messages("s", 0, 3)] == [0, 1, 2]
        kept = await store.messages("s", keep_damaged=True)
        assert [row.seq for row in kept] == [0, 1, 2, 3, 4]
        assert [row.seq for row in kept if row.damage] == [3]
        assert "message 3 of the history is damaged" in str(kept[3].message["content"])
        assert (await store.view("s", keep_damaged=True)).seqs == (0, 1, 2, 3, 4)
        assert {hit.seq for hit in (await store.search("walrus")).hits} == {0, 2, 4}
        await store.append("s", [user("walrus six")])
        assert {hit.seq for hit in (await store.search("walrus")).hits} == {0, 2, 4, 5}
        problems = [it for it in await store.check() if it.kind != "index"]
        assert [(it.kind, it.what.split(":")[0]) for it in problems] == [
            ("row", "message 3 of session 's' cannot be read")
        ]


@pytest.mark.parametrize("damage", [bad_byte, bad_json])
async def test_a_damaged_message_is_set_aside_and_no_number_shifts(url: str, damage: object) -> None:
    async with open_store(url) as store:
        await store.start_session(NewSession(id="s"))
        await store.append("s", TALK)
    damage(url, "messages", "body", "seq = 3")  # type: ignore[operator]
    async with open_store(url) as store:
        (row,) = await store.quarantine()
        await store.rebuild_index()
        assert (row.what, row.seq) == ("message 3 of session 's'", 3)
        assert b"lrus four" in row.body and row.body != b'{"role":"assistant","content":"walrus four"}'
        assert await store.quarantined() == [row]
        assert await store.quarantine() == []
        assert await store.check() == []
        assert (await texts(store))[::4] == ["walrus one", "walrus five"]
        assert "damaged" in (await texts(store))[3]
        # A client that sends its whole history again is still known by the chain.
        synced = await store.sync([*TALK, user("walrus six")], session="s")
        assert (synced.known, synced.added, synced.is_branch) == (5, 1, False)
        await store.delete("s")
        assert await store.quarantined() == []
        assert (await store.search("walrus")).hits == ()


async def test_messages_that_share_damaged_wire_items_are_all_set_aside(url: str) -> None:
    items = convert(TALK[1:3], "anthropic", dialect="openai_chat")["messages"]
    from clew.messages import read_conversation

    read = read_conversation(items, dialect="anthropic").messages
    new = [NewMessage(message, dialect="anthropic", items=items, part=part) for part, message in enumerate(read)]
    async with open_store(url) as store:
        await store.start_session(NewSession(id="s"))
        await store.append("s", [TALK[0], *new, TALK[4]])
    bad_json(url, "messages", "body", "seq = 1")
    async with open_store(url) as store:
        damaged = [row.seq for row in await store.messages("s", keep_damaged=True) if row.damage]
        assert damaged == list(range(1, 1 + len(read)))
        assert [row.seq for row in await store.quarantine()] == damaged
        await store.rebuild_index()
        assert await store.check() == []
        assert [row.seq for row in await store.messages("s")] == list(range(len(read) + 2))


@pytest.mark.parametrize(
    ("table", "column", "where", "names"),
    [
        ("entries", "view", "kind = 'compaction'", "compaction"),
        ("entries", "account", "kind = 'compaction'", "compaction"),
        ("texts", "body", "body LIKE '%kettle%'", "output"),
        ("texts", "body", "body LIKE '%Mend%'", "system prompt"),
        ("texts", "body", "body LIKE '%Handoff%'", "compaction"),
        ("states", "value", "name = 'mood'", "value 'mood'"),
        ("engine_records", "value", "name = 'n1'", "record 'n1'"),
    ],
)
async def test_anything_else_that_is_damaged_is_named_and_set_aside(
    url: str, table: str, column: str, where: str, names: str
) -> None:
    async with open_store(url) as store:
        await store.start_session(NewSession(id="s", system="Mend the clocks of the town hall."))
        await store.append("s", TALK)
        view = await store.view("s")
        summary = user("Handoff: the walrus is well.")
        entry = CompactionEntry.of(view, [summary, view.messages[4]], summary, details={"why": "it was long"})
        await store.commit_compaction("s", entry, new_id="t", records=[EngineRecord("n1", {"node": "a long one"})])
        output = await store.keep_output(NewOutput("t", "kettle log\n" * 20))
        await store.set_state("t", {"mood": "as good as ever"})
    bad_json(url, table, column, where)

    async def read_all(store: Store, keep: bool) -> None:
        await store.system_prompt("t", keep_damaged=keep)
        await store.compactions("t", keep_damaged=keep)
        await store.view("t", keep_damaged=keep)
        await store.output(output)
        await store.state("t")
        await store.engine_records("t", "")

    async with open_store(url) as store:
        with pytest.raises(DamagedRow, match=names):
            await read_all(store, keep=False)
        assert len(await store.messages("t")) == 5
        assert (await store.search("walrus one")).hits
        assert [it.kind for it in await store.check() if it.kind != "index"] == ["row"]
        (row,) = await store.quarantine()
        await store.rebuild_index()
        assert names in row.what
        assert await store.check() == []
        await read_all(store, keep=False)


async def test_no_damaged_byte_gives_anything_but_a_typed_error(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    items = convert(TALK[1:3], "anthropic", dialect="openai_chat")["messages"]
    from clew.messages import read_conversation

    read = read_conversation(items, dialect="anthropic").messages
    new = [NewMessage(message, dialect="anthropic", items=items, part=part) for part, message in enumerate(read)]
    async with open_store(path) as store:
        await store.start_session(NewSession(id="s"))
        await store.append("s", [TALK[0], *new, *TALK[3:]])
    with closing(sqlite3.connect(path)) as connection:
        bodies = connection.execute("SELECT id, CAST(body AS BLOB) FROM messages WHERE body IS NOT NULL").fetchall()
    chance = random.Random(12)
    async with open_store(path) as store:
        for _ in range(150):
            row, body = chance.choice(bodies)
            damaged = bytearray(body)
            damaged[chance.randrange(len(body))] = chance.randrange(256)
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("UPDATE messages SET body = CAST(? AS TEXT) WHERE id = ?", (bytes(damaged), row))
                connection.commit()
            with suppress(DamagedRow):
                await store.messages("s")
            assert len(await store.messages("s", keep_damaged=True)) == 3 + len(read)
            try:
                await store.view("s", keep_damaged=True)
                await store.search("walrus")
                await store.check()
            except ClewError as error:
                pytest.fail(f"{bytes(damaged)!r}: {error}")
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("UPDATE messages SET body = CAST(? AS TEXT) WHERE id = ?", (body, row))
                connection.commit()


async def test_a_conversation_with_a_damaged_row_can_be_deleted_and_none_of_its_words_stay(url: str) -> None:
    async with open_store(url) as store:
        await store.start_session(NewSession(id="s"))
        await store.append("s", TALK)
        await store.start_session(NewSession(id="t"))
        await store.append("t", [user("another walrus")])
        assert (await store.search("four")).hits
    bad_json(url, "messages", "body", "seq = 3")
    async with open_store(url) as store:
        assert await store.delete("s") == 5
        assert [hit.session for hit in (await store.search("walrus")).hits] == ["t"]
        assert not (await store.search("four")).hits
        assert await store.check() == []


async def test_a_damaged_title_hides_no_session(url: str) -> None:
    async with open_store(url) as store:
        await store.start_session(NewSession(id="s", title="The town hall's clock"))
        await store.start_session(NewSession(id="t", title="Another"))
    bad_byte(url, "sessions", "title", "name = 's'")
    async with open_store(url) as store:
        titles = {session.id: session.title for session in await store.list_sessions()}
    assert titles == {"s": "The town hal\ufffd's clock", "t": "Another"}
