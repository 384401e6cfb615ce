"""`clew sessions rename|undo|branch|delete`."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Kept


def ids(kept: Kept) -> list[str]:
    return [each["id"] for each in kept.json("sessions", "list", "--all")["sessions"]]


def test_a_whole_chain_has_one_title(kept: Kept) -> None:
    code, out, _ = kept.run("sessions", "rename", "clock-2", "Hall 3")
    assert (code, out) == (0, "clock-2 is now called 'Hall 3'.\n")
    assert kept.json("sessions", "show", "clock-1")["session"]["title"] == "Hall 3"
    assert kept.json("sessions", "show", "other-way")["session"]["title"] == "Another way"
    assert kept.run("sessions", "rename", "Hall 3", "--none")[0] == 0
    assert kept.json("sessions", "show", "clock-2")["session"]["title"] is None
    for words in ([], ["A", "--none"], [" "]):
        assert kept.run("sessions", "rename", "clock-2", *words)[0] == 2


def test_undo_gives_the_former_view_back_and_says_what_it_did(kept: Kept) -> None:
    code, out, _ = kept.run("sessions", "undo", "Late clock")
    assert code == 0
    assert "m1-m2 folded, 900 → 300 tokens) is undone" in " ".join(out.split())
    assert "clock-2 shows 6 messages again" in " ".join(out.split())
    view = kept.json("sessions", "show", "clock-2", "--view", "--all")["messages"]
    assert [each["number"] for each in view] == [0, 1, 2, 3, 4, 5]
    code, out, err = kept.run("sessions", "undo", "clock-2")
    assert (code, out) == (1, "")
    assert "no compaction is in effect in clock-2" in err
    assert "undone" in kept.run("sessions", "tree", "clock-2")[1]


def test_a_branch_shares_the_beginning(kept: Kept) -> None:
    made = kept.json("sessions", "branch", "clock-1", "--at", "3", "--title", "Third way")
    assert made["shared"] == 3
    shown = kept.json("sessions", "show", "Third way")
    assert (shown["messages_total"], shown["session"]["kind"]) == (3, "branch")
    assert "shares the first 6 messages of clock-2" in kept.run("sessions", "branch", "clock-2")[1]
    code, _, err = kept.run("sessions", "branch", "clock-2", "--at", "99")
    assert code == 2
    assert "has 6 messages" in err


def test_delete_without_a_terminal_needs_yes(kept: Kept) -> None:
    before = ids(kept)
    code, out, err = kept.run("sessions", "delete", "helper")
    assert (code, out) == (2, "")
    assert "add --yes" in err
    assert ids(kept) == before
    code, out, _ = kept.run("sessions", "delete", "s_4f1c", "--yes")
    assert (code, out.split(":")[0]) == (0, "s_4f1c0d is deleted")
    assert "s_4f1c0d" not in ids(kept)
    assert kept.json("search", "kettle")["hits"] == 0


def test_what_others_lean_on_is_not_deleted(kept: Kept) -> None:
    code, _, err = kept.run("sessions", "delete", "clock-1", "--yes")
    assert code == 1
    assert "other-way" in err
    assert "clock-1" in ids(kept)


@pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"\n", 1), (b"never\n", 1)])
def test_at_a_terminal_delete_asks(kept: Kept, answer: bytes, code: int) -> None:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    environ = {**os.environ, "CLEW_HOME": str(kept.home)}
    command = [sys.executable, "-m", "clew", "sessions", "delete", "s_4f1c"]
    with subprocess.Popen(command, stdin=theirs, stdout=-1, stderr=-1, env=environ) as running:
        os.close(theirs)
        os.write(ours, answer)
        _, err = running.communicate()
    os.close(ours)
    assert running.returncode == code
    assert b"Delete s_4f1c0d with its whole conversation, 2 messages in 1 session, for good? [y/N]" in err
    assert ("s_4f1c0d" in ids(kept)) == (code != 0)
