"""The memory: entries in files that people edit too, bounded, durable, and never with a secret in them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from clew.agent.memory import Memory
from clew.agent.memory.files import JOURNAL, JOURNAL_BYTES, LOCK, entries_of, join_blocks, parse_blocks, with_entry
from clew.agent.tools import CallContext, ToolResult
from clew.agent.tools.memory_and_skill import MemoryTool
from clew.tokens import count_tokens

SECRET = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"[:36]


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    return Memory(tmp_path / "home", clock=lambda: datetime(2026, 1, 2, 3, 4, tzinfo=UTC))


def journal_of(memory: Memory) -> list[dict[str, str]]:
    """The changes in the journal, oldest first; a line that a killed writer left half is skipped."""
    lines = (memory.folder / JOURNAL).read_text().splitlines() if (memory.folder / JOURNAL).exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


async def call(memory: Memory, **arguments: object) -> ToolResult:
    return await MemoryTool(memory).run(arguments, CallContext("s", "c1"))


async def test_an_entry_is_a_list_item_in_a_private_file(memory: Memory) -> None:
    done = await memory.add("user", "Prefers\n tabs.", "s")
    assert done.is_done and "USER.md is" in done.message
    path = memory.path("user")
    assert path.read_text() == "- Prefers tabs.\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert memory.folder.stat().st_mode & 0o777 == 0o700
    assert memory.entries("memory") == []


async def test_an_entry_is_named_by_a_part_that_only_it_holds(memory: Memory) -> None:
    for text in ("The tests run with tox.", "The docs are built with make.", "Deploys on Fridays are off."):
        await memory.add("memory", text)
    assert not (await memory.replace("memory", "The", "x")).is_done
    twice = await memory.remove("memory", "The ")
    assert not twice.is_done and "2 entries hold" in twice.message and "Deploys" not in twice.message
    assert (await memory.replace("memory", "run with TOX", "The tests run with nox.")).is_done
    assert (await memory.remove("memory", "Fridays")).is_done
    assert memory.entries("memory") == ["The tests run with nox.", "The docs are built with make."]
    missing = await memory.remove("memory", "kubernetes")
    assert not missing.is_done and "- The tests run with nox." in missing.message


async def test_the_same_entry_again_is_no_mistake_and_no_second_entry(memory: Memory) -> None:
    await memory.add("memory", "Uses uv.")
    again = await memory.add("memory", " - Uses   uv.")
    assert again.is_done and "already" in again.message
    assert memory.entries("memory") == ["Uses uv."]
    await memory.add("memory", "Uses pip.")
    assert not (await memory.replace("memory", "pip", "Uses uv.")).is_done


async def test_what_people_wrote_by_hand_stays_as_it_is(memory: Memory) -> None:
    prose, item, code = "# This machine\n\nIn prose.\n\n", "* one thing\n  on two lines\n", "\n```\n- code\n```\n"
    by_hand = (prose + item + code).replace("\n", "\r\n")
    memory.folder.mkdir()
    memory.path("memory").write_bytes(by_hand.encode())
    assert memory.entries("memory") == ["one thing on two lines"]
    await memory.add("memory", "another")
    text = memory.path("memory").read_bytes().decode()
    assert text == by_hand.replace("  on two lines\r\n", "  on two lines\r\n- another\r\n")
    await memory.remove("memory", "another")
    assert memory.path("memory").read_bytes().decode() == by_hand
    await memory.remove("memory", "one thing")
    assert memory.path("memory").read_bytes().decode() == by_hand.replace("* one thing\r\n  on two lines\r\n", "")


@pytest.mark.parametrize(
    "by_hand",
    [
        "",
        "\n",
        "prose",
        "prose\n",
        "```\nopen code",
        "- a\nlazy line\n\nprose\n",
        "- a",
        "---\n- a\n***\n",
        "- \n-\n- - -\n",
    ],
)
def test_a_new_entry_can_always_be_read_again(by_hand: str) -> None:
    assert join_blocks(parse_blocks(by_hand)) == by_hand
    text = with_entry(by_hand, "new")
    assert entries_of(text) == [*entries_of(by_hand), "new"]
    assert text.endswith("\n")
    for line in by_hand.split("\n"):
        assert line in text.split("\n")


async def test_copies_made_by_hand_go_together(memory: Memory) -> None:
    memory.folder.mkdir()
    memory.path("memory").write_text("- twice\n- once\n- twice\n")
    assert (await memory.replace("memory", "twic", "thrice")).is_done
    assert memory.entries("memory") == ["thrice", "once"]


async def test_an_entry_that_says_nothing_is_refused(memory: Memory) -> None:
    for text in ("", " \n", "- ", "\x00\x1b", "…", "\u202e"):
        assert not (await memory.add("memory", text)).is_done
    assert not memory.path("memory").exists()


async def test_what_is_not_seen_does_not_reach_the_file(memory: Memory) -> None:
    await memory.add("memory", "a\x1b[2Jb\u202ec\u200bd\ud800e\U000e0041f\u2028- g")
    assert memory.entries("memory") == ["a[2Jbcdef - g"]
    await memory.add("memory", "می\u200cخواهم 👩\u200d💻")
    assert memory.entries("memory")[1] == "می\u200cخواهم 👩\u200d💻"


async def test_over_the_bound_nothing_is_lost_and_the_way_out_is_told(tmp_path: Path) -> None:
    memory = Memory(tmp_path, memory_chars=60)
    await memory.add("memory", "a" * 40)
    full = await memory.add("memory", "b" * 40)
    assert not full.is_done
    assert "60 is the most" in full.message and "Merge" in full.message and f"- {'a' * 40}" in full.message
    assert memory.entries("memory") == ["a" * 40]
    assert (await memory.replace("memory", "aaa", "b" * 50)).is_done
    assert memory.fullness("memory") == "MEMORY.md is 86% full (52 of 60 chars)"


async def test_a_file_that_people_filled_too_far_is_cut_for_the_model_and_can_shrink(tmp_path: Path) -> None:
    memory = Memory(tmp_path, memory_chars=50)
    memory.path("memory").write_text("- " + "a" * 30 + "\n- " + "b" * 30 + "\n- " + "c" * 30 + "\n")
    shown = memory.snapshot()
    assert shown.memory == "- " + "a" * 30 + "\n[cut: the rest is in MEMORY.md]"
    assert any("shorten it" in notice for notice in shown.notices)
    assert (await memory.replace("memory", "bbb", "b")).is_done
    assert not (await memory.add("memory", "d")).is_done
    assert (await memory.remove("memory", "ccc")).is_done


async def test_a_secret_is_refused_by_its_kind_and_never_repeated(memory: Memory) -> None:
    refused = await memory.add("memory", f"The token is {SECRET}.")
    assert not refused.is_done and "github" in refused.message and SECRET not in refused.message
    await memory.add("memory", "Has a token.")
    assert not (await memory.replace("memory", "token", SECRET)).is_done
    for path in memory.folder.iterdir():
        assert SECRET not in path.read_text()


async def test_a_secret_that_somebody_wrote_by_hand_is_not_shown_nor_noted(memory: Memory) -> None:
    memory.folder.mkdir()
    memory.path("user").write_text(f"- token {SECRET}\n- likes tea\n")
    shown = memory.snapshot()
    assert SECRET not in shown.user and "likes tea" in shown.user
    assert any("take it out" in notice for notice in shown.notices)
    await memory.remove("user", "token")
    assert SECRET not in (memory.folder / JOURNAL).read_text()


async def test_a_commit_waits_for_a_change_that_is_under_way(memory: Memory) -> None:
    changes = [asyncio.create_task(memory.add("memory", f"entry {n}")) for n in range(8)]
    await asyncio.sleep(0)
    await memory.commit()
    assert len(memory.entries("memory")) == 8
    await asyncio.gather(*changes)


async def test_a_change_that_nobody_waits_for_any_more_is_made_whole(memory: Memory) -> None:
    change = asyncio.create_task(memory.add("memory", "entry"))
    await asyncio.sleep(0)
    change.cancel()
    await memory.commit()
    assert memory.entries("memory") in ([], ["entry"])
    assert [it["entry"] for it in journal_of(memory)] == memory.entries("memory")


async def test_every_change_is_in_the_journal_with_what_it_took_away(memory: Memory) -> None:
    await memory.add("memory", "one", "s1")
    await memory.replace("memory", "one", "two", "s1")
    await memory.remove("memory", "two", "s2")
    await memory.remove("memory", "three", "s2")
    told = [(it["session"], it["file"], it["action"], it["entry"], it["old"]) for it in journal_of(memory)]
    assert told == [
        ("s1", "MEMORY.md", "add", "one", ""),
        ("s1", "MEMORY.md", "replace", "two", "one"),
        ("s2", "MEMORY.md", "remove", "", "two"),
    ]
    assert journal_of(memory)[0]["at"] == "2026-01-02T03:04:00+00:00"
    assert (memory.folder / JOURNAL).stat().st_mode & 0o777 == 0o600


async def test_the_journal_stays_small_and_survives_half_a_line(memory: Memory) -> None:
    memory.folder.mkdir()
    line = json.dumps({"at": "", "session": "", "file": "MEMORY.md", "action": "add", "entry": "x" * 900}) + "\n"
    (memory.folder / JOURNAL).write_text(line * (JOURNAL_BYTES // len(line) + 2) + '{"at": "half')
    await memory.add("memory", "newest")
    assert (memory.folder / JOURNAL).stat().st_size < JOURNAL_BYTES * 0.6
    assert [it["entry"] for it in journal_of(memory)[-2:]] == ["x" * 900, "newest"]


async def test_a_file_that_is_not_utf_8_is_shown_as_far_as_it_goes_and_never_overwritten(memory: Memory) -> None:
    memory.folder.mkdir()
    memory.path("memory").write_bytes(b"- caf\xe9\n")
    refused = await memory.add("memory", "new")
    assert not refused.is_done and "not UTF-8 at byte 5" in refused.message
    assert memory.path("memory").read_bytes() == b"- caf\xe9\n"
    assert "caf" in memory.snapshot().memory
    assert any("UTF-8" in notice for notice in memory.snapshot().notices)


async def test_a_folder_or_a_pipe_in_the_place_of_a_file_is_told(memory: Memory) -> None:
    memory.path("memory").mkdir(parents=True)
    os.mkfifo(memory.path("user"))
    for which in ("memory", "user"):
        refused = await memory.add(which, "new")
        assert not refused.is_done and "is no file; move it away" in refused.message
    assert len(memory.snapshot().notices) == 2


async def test_a_folder_that_cannot_be_had_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    memory = Memory(tmp_path / "file" / "home")
    refused = await memory.add("memory", "new")
    assert not refused.is_done and "cannot be written" in refused.message
    await memory.commit()


def test_a_disk_that_refuses_leaves_the_old_file(tmp_path: Path) -> None:
    """A process that may write no file above a size meets what a full disk is: a write that fails half way."""
    memory = Memory(tmp_path)
    asyncio.run(memory.add("memory", "old"))
    script = """
import asyncio, resource, signal, sys
from pathlib import Path
from clew.agent.memory import Memory
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))
print(asyncio.run(Memory(Path(sys.argv[1])).add("memory", "n" * 1000)).message)
"""
    told = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True).stdout
    assert "nothing was changed" in told and "File too large" in told
    assert memory.path("memory").read_text() == "- old\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == [LOCK, "MEMORY.md", JOURNAL]


async def test_a_link_to_where_somebody_keeps_the_file_stays_a_link(memory: Memory, tmp_path: Path) -> None:
    memory.folder.mkdir()
    (tmp_path / "kept.md").write_text("- old\n")
    memory.path("memory").symlink_to(tmp_path / "kept.md")
    assert (await memory.add("memory", "new")).is_done
    assert memory.path("memory").is_symlink()
    assert (tmp_path / "kept.md").read_text() == "- old\n- new\n"
    memory.path("user").symlink_to(memory.path("user"))
    assert not (await memory.add("user", "new")).is_done


KILLED_EVERYWHERE = """
import asyncio, os, signal, sys
from pathlib import Path
from clew.agent.memory import Memory
from clew.agent.memory.memory import _MemoryChange

folder, step = Path(sys.argv[1]), 0
while True:
    step += 1
    target = folder / str(step)
    asyncio.run(Memory(target).add("memory", "old"))
    child = os.fork()
    if child == 0:
        seen = 0
        def watch(event, args):
            global seen
            if event in ("open", "os.rename", "os.remove") or event.startswith("fcntl"):
                seen += 1
                if seen == step:
                    os.kill(os.getpid(), signal.SIGKILL)
        memory = Memory(target)
        sys.addaudithook(watch)
        memory._change_now(_MemoryChange("add", "memory", "new"))
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
        break
print(step)
"""


def test_a_writer_killed_at_any_step_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED_EVERYWHERE, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    steps = int(done.stdout)
    assert steps > 5
    outcomes = {(tmp_path / str(step) / "MEMORY.md").read_text() for step in range(1, steps + 1)}
    assert outcomes == {"- old\n", "- old\n- new\n"}
    for step in range(1, steps + 1):
        memory = Memory(tmp_path / str(step))
        assert asyncio.run(memory.add("memory", "later")).is_done
        assert [it["entry"] for it in journal_of(memory)][-1] == "later"
        assert not list(memory.folder.glob("*.part")) and not list(memory.folder.glob(".*.part"))


async def test_the_tool_adds_replaces_removes_and_lists(memory: Memory) -> None:
    assert not (await call(memory, action="add", which="user", text="Lives in Bern.")).is_error
    assert not (await call(memory, action="replace", which="user", old="Bern", text="Lives in Basel.")).is_error
    listed = await call(memory, action="list", which="user")
    assert listed.text.splitlines() == ["USER.md is 0% full (17 of 2,000 chars)", "- Lives in Basel."]
    assert not (await call(memory, action="remove", which="user", old="Basel")).is_error
    assert "(no entries)" in (await call(memory, action="list", which="user")).text
    assert [it["session"] for it in journal_of(memory)] == ["s", "s", "s"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "which is None"),
        ({"which": ["user"]}, "which is ['user']"),
        ({"which": "user", "action": "forget"}, "add, replace, remove, list"),
        ({"which": "user", "action": "add"}, "add needs text"),
        ({"which": "user", "action": "replace", "text": "x"}, "replace needs old"),
        ({"which": "user", "action": "remove", "old": 3}, "remove needs old"),
        ({"which": "user", "action": "remove", "old": " "}, "no entries"),
        ({"which": "user", "action": "add", "text": ""}, "says nothing"),
    ],
)
async def test_the_tool_tells_what_is_wrong_with_a_call(
    memory: Memory, arguments: dict[str, object], told: str
) -> None:
    result = await call(memory, **arguments)
    assert result.is_error and told in result.text


def test_the_schema_is_small(memory: Memory) -> None:
    assert count_tokens([], tools=[MemoryTool(memory).schema], model="gpt-4o") < 200
