"""`clew keys`: a key is shown once, its hash is all that is kept, and a list says what became of it."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from clew.cli import main
from clew.gateway import hash_key, is_access_key
from clew.store import AccessKey

if TYPE_CHECKING:
    from tests.cli.conftest import Kept


def found(home: Kept, key: str) -> AccessKey:
    made = home.ask(lambda store: store.find_key(hash_key(key)))
    assert made is not None
    return made


def test_a_key_is_printed_alone_and_kept_as_a_hash(empty_home: Kept) -> None:
    code, out, err = empty_home.run("keys", "create", "ann")
    key = out.removesuffix("\n")
    assert code == 0 and is_access_key(key) and "\n" not in key
    made = found(empty_home, key)
    assert f"this is key {made.id} of ann; it is not shown again" in err and key not in err
    assert (made.owner, made.mode, made.budget_micros, made.expires) == ("ann", None, None, None)
    secret = key.removeprefix("clew_sk_").encode()
    assert not any(secret in file.read_bytes() for file in empty_home.home.rglob("*") if file.is_file())
    assert key not in empty_home.run("keys", "list", "--json")[1]


def test_mode_budget_and_end_are_kept_and_told(empty_home: Kept) -> None:
    words = ("keys", "create", "ci", "--mode", "spill", "--budget", "2.5", "--expires", "30")
    told = empty_home.json(*words)
    made = found(empty_home, told["key"])
    assert (made.mode, made.budget_micros) == ("spill", 2_500_000)
    assert made.expires is not None
    assert timedelta(days=29) < made.expires - datetime.now(UTC) < timedelta(days=31)
    assert (told["owner"], told["budget_usd"], told["spent_usd"], told["state"]) == ("ci", 2.5, 0.0, "valid")


def test_a_list_says_what_was_spent_and_whether_a_key_can_be_used(empty_home: Kept) -> None:
    ids = {}
    for owner in ("ann", "bob", "cy"):
        ids[owner] = empty_home.json("keys", "create", owner, "--budget", "1")["id"]
    empty_home.ask(lambda store: store.add_spending(ids["ann"], 1_250_000))
    empty_home.ask(lambda store: store.add_spending(ids["cy"], 40))
    code, out, _ = empty_home.run("keys", "revoke", ids["bob"])
    assert (code, out) == (0, f"{ids['bob']} of bob is revoked.\n")
    listed = {each["owner"]: each for each in empty_home.json("keys")["keys"]}
    assert [listed[it]["state"] for it in ("ann", "bob", "cy")] == ["over_budget", "revoked", "valid"]
    rows = {line.split()[-1]: line for line in empty_home.run("keys")[1].splitlines()}
    assert "over budget" in rows["ann"] and "$1.25 of $1.00" in rows["ann"]
    assert "<$0.0001 of $1.00" in rows["cy"] and "2026-03-01" in rows["cy"]
    assert "never" in rows["bob"]


def test_a_key_is_revoked_by_the_beginning_of_its_id_and_stays_so(empty_home: Kept) -> None:
    made = empty_home.json("keys", "create", "ann")
    first = empty_home.json("keys", "revoke", made["id"][:9])
    assert first["state"] == "revoked" and first["revoked"]
    assert empty_home.json("keys", "revoke", made["id"]) == first
    empty_home.json("keys", "create", "bob")
    code, _, err = empty_home.run("keys", "revoke", "k_")
    assert code == 1 and "give more of the id" in err
    assert empty_home.run("keys", "revoke", "")[0] == 1


def test_without_a_database_there_are_no_keys_and_none_is_made_by_looking(empty_home: Kept) -> None:
    assert "There are no keys" in empty_home.run("keys")[1]
    assert empty_home.json("keys")["keys"] == []
    assert empty_home.run("keys", "revoke", "k_1")[0] == 1
    assert not empty_home.home.exists()


@pytest.mark.parametrize("amount", ["0", "-1", "nan", "inf", "1e99", "0.0000001", "ten", "", "1_000_001"])
def test_an_amount_that_is_none_is_refused(empty_home: Kept, amount: str) -> None:
    assert empty_home.run("keys", "create", "ann", f"--budget={amount}")[0] == 2
    assert not empty_home.home.exists()


@pytest.mark.parametrize("owner", ["", "  ", "a\0b"])
def test_an_owner_that_cannot_be_is_refused(empty_home: Kept, owner: str) -> None:
    assert empty_home.run("keys", "create", owner)[0] == 2
    assert empty_home.json("keys")["keys"] == []


@pytest.mark.parametrize("columns", ["30", "40", "80", "140"])
def test_the_table_fits_and_keeps_the_id_and_the_owner(empty_home: Kept, columns: str) -> None:
    made = empty_home.json("keys", "create", "ann", "--budget", "25")
    out = empty_home.run("keys", COLUMNS=columns)[1]
    assert all(len(line) <= int(columns) for line in out.splitlines())
    assert made["id"] in out and "ann" in out


class TypedAt(io.StringIO):
    """A terminal at which a person has typed an answer."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "is_made"), [("n\n", False), ("\n", False), ("y\n", True)])
def test_a_person_is_asked_before_the_first_key_is_made(
    empty_home: Kept, capsys: pytest.CaptureFixture[str], answer: str, is_made: bool
) -> None:
    code = main(["keys", "create", "ann"], {"CLEW_HOME": str(empty_home.home)}, TypedAt(answer))
    assert "refuses every caller" in " ".join(capsys.readouterr().err.split())
    assert (code == 0) is is_made
    assert len(empty_home.json("keys", "list")["keys"]) == is_made


def test_a_script_is_told_of_the_first_key_and_of_no_other(empty_home: Kept) -> None:
    assert "first key" in empty_home.run("keys", "create", "ann")[2]
    assert "first key" not in empty_home.run("keys", "create", "bob")[2]


def test_a_key_is_deleted_by_the_beginning_of_its_id(empty_home: Kept) -> None:
    made = empty_home.json("keys", "create", "ann")
    code, out, _ = empty_home.run("keys", "delete", made["id"][:8])
    assert (code, out) == (0, f"{made['id']} of ann is deleted.\n")
    assert empty_home.json("keys", "list")["keys"] == []
    assert empty_home.run("keys", "delete", made["id"])[0] != 0
