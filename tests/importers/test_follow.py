"""Following folders of programs: what is new comes in once, a reply in the making waits, no file is read twice."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from clew.importers.follow import FolderFollower, FollowState
from clew.importers.import_session import ImportedSession
from clew.importers.program_folders import NOTE_NAME, ImportedFiles, fingerprint, program_folders
from clew.messages import text_of
from clew.store import Store, open_store

LONG_AGO = 1_772_359_200  # 2026-03-01


def write_session(path: Path, turns: Sequence[tuple[str, str]], at: datetime | None = None) -> None:
    """A session of Claude Code with what was said, all at one time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    for number, (role, words) in enumerate(turns):
        line = {"type": role, "uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number else None}
        told = (at or datetime.fromtimestamp(LONG_AGO, UTC)).isoformat()
        message = {"role": role, "content": words, "id": f"msg_{number}"}
        lines.append(json.dumps({**line, "sessionId": path.stem, "timestamp": told, "message": message}))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if at is None:
        os.utime(path, (LONG_AGO + len(turns), LONG_AGO + len(turns)))


@asynccontextmanager
async def following(
    folder: Path, store: Store, known: ImportedFiles | None = None
) -> AsyncIterator[tuple[FolderFollower, list[ImportedSession]]]:
    told: list[ImportedSession] = []
    yield FolderFollower(store, [folder], known or ImportedFiles(None, ""), on_session=told.append), told


async def texts(store: Store, session: str) -> list[str]:
    return [text_of(row.message) for row in await store.messages(session)]


async def test_what_is_new_comes_in_and_what_is_known_is_not_read_again(tmp_path: Path) -> None:
    folder = tmp_path / "projects"
    write_session(folder / "p" / "one.jsonl", [("user", "Oil it."), ("assistant", "Oiled.")])
    (folder / "settings.json").write_text('{"theme": "dark"}')
    async with open_store(":memory:") as store, following(folder, store) as (follower, told):
        await follower.read_changed()
        assert [(each.session, each.added) for each in told] == [("claude-code-one", 2)]
        await follower.read_changed()
        assert follower.state == FollowState(rounds=2, sessions=1, messages=2)
        write_session(folder / "p" / "two.jsonl", [("user", "Wind it.")])
        await follower.read_changed()
        assert [each.session for each in told] == ["claude-code-one", "claude-code-two"]
        assert len((await store.search("wind")).hits) == 1


async def test_a_session_that_grew_gets_its_new_part(tmp_path: Path) -> None:
    file = tmp_path / "one.jsonl"
    write_session(file, [("user", "Oil it."), ("assistant", "Oiled.")])
    async with open_store(":memory:") as store:
        async with following(tmp_path, store) as (follower, _):
            await follower.read_changed()
        write_session(file, [("user", "Oil it."), ("assistant", "Oiled."), ("user", "Wind it.")])
        async with following(tmp_path, store) as (follower, told):
            await follower.read_changed()
        assert [(each.added, each.known, each.is_branch) for each in told] == [(1, 2, False)]


async def test_a_reply_that_may_still_be_written_waits_and_makes_no_branch(tmp_path: Path) -> None:
    file, now = tmp_path / "one.jsonl", datetime.now(UTC)
    write_session(file, [("user", "Oil it."), ("assistant", "I will")], now)
    async with open_store(":memory:") as store:
        async with following(tmp_path, store) as (follower, _):
            await follower.read_changed()
        assert await texts(store, "claude-code-one") == ["Oil it."]
        write_session(file, [("user", "Oil it."), ("assistant", "I will oil it now.")], now - timedelta(minutes=3))
        os.utime(file, (now.timestamp() - 180,) * 2)
        async with following(tmp_path, store) as (follower, told):
            await follower.read_changed()
        assert await texts(store, "claude-code-one") == ["Oil it.", "I will oil it now."]
        assert [each.is_branch for each in told] == [False]
        assert len(await store.list_sessions()) == 1


async def test_after_a_restart_nothing_is_read_that_did_not_change(tmp_path: Path) -> None:
    environ = {"CLEW_HOME": str(tmp_path / "home")}
    folder = tmp_path / "projects"
    write_session(folder / "one.jsonl", [("user", "Oil it."), ("assistant", "Oiled.")])
    async with open_store(tmp_path / "state.db") as store:
        async with following(folder, store, ImportedFiles.noted(environ, "a")) as (follower, _):
            await follower.read_changed()
        states: list[FollowState] = []
        again = FolderFollower(store, [folder], ImportedFiles.noted(environ, "a"), on_state=states.append)
        await again.read_changed()
        assert {state.files for state in states} == {0}
        async with following(folder, store, ImportedFiles.noted(environ, "b")) as (other, _):
            await other.read_changed()
        assert other.state.rounds == 1 and other.state.messages == 0


async def test_a_database_that_was_thrown_away_is_filled_again(tmp_path: Path) -> None:
    environ, folder = {"CLEW_HOME": str(tmp_path / "home")}, tmp_path / "projects"
    write_session(folder / "one.jsonl", [("user", "Oil it.")])
    for _ in range(2):
        async with (
            open_store(":memory:") as store,
            following(folder, store, ImportedFiles.noted(environ, "a")) as (follower, told),
        ):
            await follow_for_one_round(follower, tmp_path / "home")
            assert [each.added for each in told] == [1]


async def test_a_note_that_was_broken_is_as_good_as_none(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "projects"
    home.mkdir()
    write_session(folder / "one.jsonl", [("user", "Oil it.")])
    for broken in ("{", "[1]", '{"a": {"/x": 3, "/y": [], "/z": ["1", "s"]}}'):
        (home / NOTE_NAME).write_text(broken)
        async with open_store(":memory:") as store:
            known = ImportedFiles.noted({"CLEW_HOME": str(home)}, "a")
            async with following(folder, store, known) as (follower, told):
                await follower.read_changed()
            assert [each.added for each in told] == [1]


async def follow_for_one_round(follower: FolderFollower, home: Path) -> None:
    states = watch(follower)
    following = asyncio.create_task(follower.follow(home, 0.01))
    await until(states, lambda state: state.rounds > 0)
    follower.stop()
    await following


def watch(follower: FolderFollower) -> asyncio.Queue[FollowState]:
    states = asyncio.Queue[FollowState]()
    follower.on_state = states.put_nowait
    return states


async def until(states: asyncio.Queue[FollowState], is_so: Callable[[FollowState], bool]) -> None:
    while not is_so(await states.get()):
        pass


async def test_two_followers_of_one_home_take_turns(tmp_path: Path) -> None:
    folder, home = tmp_path / "projects", tmp_path / "home"
    write_session(folder / "one.jsonl", [("user", "Oil it.")])
    async with (
        open_store(":memory:") as store,
        following(folder, store) as (first, _),
        following(folder, store) as (second, _),
    ):
        states = watch(second)
        working = asyncio.create_task(first.follow(home, 0.01))
        await until(watch(first), lambda state: state.rounds > 0)
        waiting = asyncio.create_task(second.follow(home, 0.01))
        await until(states, lambda state: state.is_waiting)
        assert second.state.rounds == 0
        first.stop()
        await working
        await until(states, lambda state: state.rounds > 0)
        second.stop()
        await waiting
        assert (first.state.messages, second.state.messages, second.state.is_waiting) == (1, 0, False)


async def test_stopping_in_the_middle_of_a_file_loses_nothing(tmp_path: Path) -> None:
    turns = [("user" if number % 2 == 0 else "assistant", f"turn {number}") for number in range(1_500)]
    write_session(tmp_path / "long.jsonl", turns)
    async with open_store(":memory:") as store:
        async with following(tmp_path, store) as (follower, _):
            stopping = FolderFollower(
                store,
                [tmp_path],
                ImportedFiles(None, ""),
                on_state=lambda state: stopping.stop() if "500 messages" in state.current else None,
            )
            await stopping.read_changed()
            count = len(await texts(store, "claude-code-long"))
            assert 500 <= count < 1_500 and stopping.state.rounds == 0
            await follower.read_changed()
        assert await texts(store, "claude-code-long") == [words for _, words in turns]


async def test_a_file_that_breaks_in_the_middle_is_told_and_the_others_come_in(tmp_path: Path) -> None:
    write_session(tmp_path / "a.jsonl", [("user", "Oil it.")])
    (tmp_path / "b.db").write_bytes(b"SQLite format 3\0" + b"x" * 4_000)
    async with open_store(":memory:") as store, following(tmp_path, store) as (follower, told):
        await follower.read_changed()
        assert [each.session for each in told] == ["claude-code-a"]


def test_the_usual_folders_are_found_where_the_programs_put_them(tmp_path: Path) -> None:
    def found(**environ: str) -> Mapping[str, str]:
        known = program_folders({"HOME": str(tmp_path), **environ})
        return {folder.program: str(folder.path.relative_to(tmp_path)) for folder in known}

    assert found() == {}
    for name in (".claude/projects", ".codex/sessions", ".gemini/tmp", ".pi/agent/sessions", ".hermes", "x/sessions"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / ".local/share/opencode/storage").mkdir(parents=True)
    (tmp_path / ".hermes" / "state.db").touch()
    assert found() == {
        "claude-code": ".claude/projects",
        "codex": ".codex/sessions",
        "gemini-cli": ".gemini/tmp",
        "opencode": ".local/share/opencode/storage",
        "pi": ".pi/agent/sessions",
        "hermes": ".hermes/state.db",
    }
    (tmp_path / ".local/share/opencode/opencode.db").touch()
    moved = found(CODEX_HOME=str(tmp_path / "x"), HERMES_HOME="~/nowhere")
    assert moved["codex"] == "x/sessions" and "hermes" not in moved
    assert moved["opencode"] == ".local/share/opencode/opencode.db"


def test_a_database_has_changed_when_its_log_has(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.touch()
    before = fingerprint(path)
    (tmp_path / "state.db-wal").write_text("more")
    assert before is not None and fingerprint(path) != before
    assert fingerprint(tmp_path / "gone.db") is None
