"""`clew doctor`: what is wrong is found and named, what is derived is mended after a copy was made."""

from __future__ import annotations

import importlib
import json
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from clew.install import has_extra
from clew.store import CompactionEntry, NewNode, NewSession, NodePublication, Rows, WrittenMessage
from clew.store.migrate import latest_version
from clew.testing import user

if TYPE_CHECKING:
    from clew.store import Store
    from tests.cli.conftest import Kept


def damage(kept: Kept, *statements: str) -> None:
    with closing(sqlite3.connect(kept.database)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def wrong(kept: Kept, *words: str) -> tuple[int, dict[str, list[str]], Any]:
    """Exit code, problems by check, and the whole answer."""
    code, out, _ = kept.run("doctor", "--json", *words)
    answer = json.loads(out)
    return code, {it["name"]: [p["what"] for p in it["problems"]] for it in answer["checks"] if it["problems"]}, answer


def test_a_healthy_store_passes_and_nothing_is_copied(kept: Kept) -> None:
    kept.home.chmod(0o700)
    code, out, err = kept.run("doctor")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1] == "All is well."
    assert kept.run("doctor", "--repair")[0] == 0
    assert [path.name for path in kept.home.iterdir()] == ["state.db"]


def test_an_index_out_of_step_is_found_and_rebuilt_after_a_copy(kept: Kept) -> None:
    kept.json("search", "tea")
    damage(kept, "DELETE FROM docs WHERE id <= 2")
    code, problems, _ = wrong(kept)
    assert (code, set(problems)) == (1, {"index"})
    code, out, _ = kept.run("doctor", "--repair")
    assert code == 0
    assert "rebuilt from the rows" in out
    (copy,) = kept.home.glob("state.db.backup-*")
    assert str(copy) in out
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("SELECT count(*) FROM messages").fetchone() == (9,)
    assert wrong(kept)[:2] == (0, {})
    assert kept.json("search", "late")["hits"] > 0


def test_vectors_are_checked_where_they_are_asked_for(kept: Kept) -> None:
    assert "vectors" not in {it["name"] for it in wrong(kept)[2]["checks"]}
    kept.run("config", "set", "store.vectors", "true")
    code, problems, answer = wrong(kept)
    assert "vectors" in {it["name"] for it in answer["checks"]}
    if has_extra("vectors"):
        assert (code, problems) == (0, {})
    else:
        assert code == 1
        assert "the extra vectors is missing" in problems["vectors"][0]


def test_a_damaged_index_is_rebuilt(kept: Kept) -> None:
    kept.json("search", "tea")
    damage(kept, "UPDATE words_data SET block = x'00' WHERE id > 10")
    assert wrong(kept)[0] == 1
    code, problems, answer = wrong(kept, "--repair")
    assert (code, problems) == (0, {})
    assert answer["backup"]
    assert answer["mended"] == ["the index: rebuilt from the rows"]


@pytest.mark.parametrize(
    ("statement", "check", "words"),
    [
        ("UPDATE messages SET body = replace(body, 'bearing', 'spring') WHERE seq = 3", "chain", "is not what it was"),
        ("DELETE FROM messages WHERE seq = 1", "chain", "has no message 1"),
        ("DELETE FROM sessions WHERE name = 'clock-2'", "orphans", "without a session"),
        ("UPDATE entries SET view = '[[0, 99]]' WHERE kind = 'compaction'", "views", "message 98"),
    ],
)
def test_damaged_rows_are_named_and_never_repaired(kept: Kept, statement: str, check: str, words: str) -> None:
    damage(kept, statement)
    code, problems, _ = wrong(kept)
    assert code == 1
    assert words in " ".join(problems[check])
    assert kept.run("doctor", "--repair")[0] == 1
    assert check in wrong(kept)[1]


def test_a_file_that_is_no_database_is_a_finding_not_a_crash(kept: Kept) -> None:
    kept.database.write_text("no database at all, " * 100)
    code, out, err = kept.run("doctor")
    assert (code, err) == (1, "")
    assert "not a sound database" in " ".join(out.split())
    assert "not certain" in out
    assert kept.run("doctor", "--repair")[0] == 1


def test_torn_pages_are_a_finding(kept: Kept) -> None:
    raw = bytearray(kept.database.read_bytes())
    for page in range(8, len(raw) // 4096):
        raw[page * 4096 + 8 : page * 4096 + 600] = b"\xff" * 592
    kept.database.write_bytes(raw)
    code, problems, _ = wrong(kept)
    assert code == 1
    assert problems["database"]


@pytest.mark.parametrize(
    "words",
    [
        ["sessions", "list"],
        ["sessions", "show", "clock-2"],
        ["sessions", "export", "clock-2"],
        ["search", "tea"],
        ["import", "{file}"],
        ["doctor", "--quarantined"],
    ],
)
def test_a_damaged_page_is_one_error_that_names_the_remedy_at_every_door(
    kept: Kept, tmp_path: Path, words: list[str]
) -> None:
    with closing(sqlite3.connect(kept.database)) as connection:
        roots = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name IN ('messages', 'sessions', 'quarantine')"
        ).fetchall()
    raw = bytearray(kept.database.read_bytes())
    for (root,) in roots:
        raw[(root - 1) * 4096 : root * 4096] = b"\xff" * 4096
    kept.database.write_bytes(raw)
    (tmp_path / "new.json").write_text(json.dumps([{"role": "user", "content": "Tea is late."}]))
    code, out, err = kept.run(*(word.format(file=tmp_path / "new.json") for word in words))
    assert (code, out) == (1, "")
    assert err.startswith(f"clew: {kept.database}: the database is damaged (") and err.count("\n") == 1
    assert "`clew doctor` shows the extent and the remedy" in err
    code, out, err = kept.run("doctor")
    assert (code, err) == (1, "")
    assert "rows      not certain" in out
    assert "restore a backup of the database" in " ".join(out.split())


@pytest.mark.skipif(os.name != "posix", reason="modes are a matter of POSIX")
def test_files_that_others_may_read_are_made_private(kept: Kept) -> None:
    kept.home.chmod(0o777)
    kept.database.chmod(0o644)
    code, problems, answer = wrong(kept)
    assert code == 1
    assert f"{kept.home} has mode 0777, so that others may write to it" in problems["files"]
    assert answer["mended"] == [f"{kept.database} had mode 0644, and now has 0600"]
    assert wrong(kept, "--repair")[:2] == (0, {})
    assert stat.S_IMODE(kept.home.stat().st_mode) == 0o755


def test_a_database_of_a_newer_clew_is_not_called_damaged(kept: Kept) -> None:
    damage(kept, "UPDATE schema_versions SET version = version + 500")
    for words in (["doctor"], ["doctor", "--repair"], ["sessions", "list"]):
        code, out, err = kept.run(*words)
        assert (code, out) == (1, "")
        assert f"has schema {500 + latest_version('sqlite')}, and this Clew knows" in err


def test_no_database_is_nothing_to_check(empty_home: Kept) -> None:
    code, out, _ = empty_home.run("doctor")
    assert (code, "Nothing to check" in out) == (0, True)
    assert empty_home.json("doctor")["ok"] is True
    assert not empty_home.home.exists()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE messages SET body = CAST(substr(CAST(body AS BLOB), 1, 20) || x'ff' || substr(CAST(body AS BLOB), 22)"
        " AS TEXT) WHERE seq = 3",
        "UPDATE messages SET body = substr(body, 1, 20) WHERE seq = 3",
    ],
)
def test_a_row_that_cannot_be_read_is_set_aside_and_every_command_goes_on(kept: Kept, statement: str) -> None:
    kept.json("search", "late")
    damage(kept, statement)
    code, out, err = kept.run("sessions", "show", "clock-2", "--all")
    assert code == 0 and "message 3 of the history is damaged" in out and "Oiled." in out
    assert "m3 of clock-1 is damaged" in err and "clew doctor --repair" in err
    for shape in ("chat", "jsonl", "anthropic", "responses"):
        code, out, err = kept.run("export", "clock-2", "--as", shape)
        assert code == 0 and "Oiled." in out and "m3 of clock-1 is damaged" in err
    assert [hit["message"] for hit in kept.json("sessions", "show", "clock-2", "--all")["messages"]][5]
    assert kept.json("search", "Oil")["hits"] > 0
    assert kept.json("sessions", "list")["sessions"] and kept.run("sessions", "tree")[0] == 0
    code, problems, _ = wrong(kept)
    assert code == 1 and "message 3 of session 'clock-1' cannot be read" in problems["rows"][0]

    code, out, _ = kept.run("doctor", "--repair")
    assert code == 0
    assert "message 3 of session 'clock-1': set aside" in " ".join(out.split())
    assert "clew doctor --quarantined" in out and "copy made before" in out
    (copy,) = kept.home.glob("state.db.backup-*")
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("SELECT count(*) FROM messages").fetchone() == (9,)
    assert wrong(kept)[:2] == (0, {})
    code, out, _ = kept.run("doctor", "--quarantined")
    assert code == 0 and '{"role":"assistant"' in out
    (row,) = kept.json("doctor", "--quarantined")["quarantined"]
    assert (row["kind"], row["message"]) == ("message", 3)
    shown = kept.json("sessions", "show", "clock-2", "--all")["messages"]
    assert [line["number"] for line in shown] == [0, 1, 2, 3, 4, 5]
    assert kept.run("export", "clock-2")[2] == ""


def test_a_map_that_leaves_messages_out_is_undone_and_its_messages_are_in_view_again(kept: Kept) -> None:
    async def fold(store: Store) -> str:
        await store.start_session(NewSession(id="mapped"))
        await store.append("mapped", [user(f"walrus {n}") for n in range(10)])
        leaves = [NewNode(f"n{at}", 0, at, at + 4, "walruses", 5, 50, "m", "t/1", True) for at in (0, 4)]
        view = CompactionEntry((WrittenMessage(user("the map")), Rows(8, 10)), user("the map"), None, 10)
        publication = NodePublication(tuple(leaves), tuple(leaf.name for leaf in leaves))
        return (await store.commit_compaction("mapped", view, nodes=publication)).id

    session = kept.ask(fold)
    assert wrong(kept)[:2] == (0, {})
    damage(kept, "DELETE FROM entry_nodes WHERE node = (SELECT id FROM nodes WHERE name = 'n4')")
    code, problems, _ = wrong(kept)
    assert (code, set(problems)) == (1, {"maps"})
    code, problems, answer = wrong(kept, "--repair")
    assert (code, problems) == (0, {})
    assert answer["backup"] and any("4 to 8" in each for each in answer["mended"])
    assert len(kept.ask(lambda store: store.view(session)).messages) == 10


def test_a_turn_goes_on_after_a_row_was_set_aside(kept: Kept) -> None:
    for seq in (1, 2):
        damage(kept, f"UPDATE messages SET body = substr(body, 1, 20) WHERE seq = {seq}")
    assert kept.run("doctor", "--repair")[0] == 0
    assert kept.ask(lambda store: store.view("clock-1")).seqs == (0, 1, 2, 3)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="becomes another user for a while")
def test_a_store_that_cannot_be_written_is_read_and_doctor_says_why(kept: Kept) -> None:
    parents = [kept.home, *kept.home.parents]
    modes = {folder: folder.stat().st_mode for folder in parents if folder.stat().st_uid == 0}
    with closing(sqlite3.connect(kept.database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    for folder, mode in modes.items():
        folder.chmod(stat.S_IMODE(mode) | 0o055)
    kept.database.chmod(0o444)
    importlib.import_module("clew.cli.sessions")  # another user may not be able to read the source
    os.seteuid(65534)
    try:
        code, problems, _ = wrong(kept)
        assert code == 1 and any("cannot be written" in each for each in problems["files"])
        assert set(problems) == {"files"}
        assert "nothing can be added" in " ".join(kept.run("doctor", "--repair")[1].split())
        assert kept.json("sessions", "list")["sessions"]
        assert kept.json("search", "late")["hits"] > 0
        assert kept.run("sessions", "show", "clock-2")[0] == 0
        assert kept.run("export", "clock-2")[0] == 0
        code, _, err = kept.run("sessions", "rename", "clock-2", "Another")
        assert code == 1 and "cannot be written" in err
    finally:
        os.seteuid(0)
        for folder, mode in modes.items():
            folder.chmod(stat.S_IMODE(mode))
