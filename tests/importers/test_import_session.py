"""Sessions of other programs in the store: once each, whole, and only what is new."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from clew.importers import SourceEntry, SourceMetadata, SourceSession, SourceUsage, open_sessions
from clew.importers.import_session import ImportedSession, import_session
from clew.messages import Message, text_of
from clew.store import CallFilter, CompactionEntry, NewMessage, NewSession, Store, open_store


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    async with open_store(":memory:") as opened:
        yield opened


def line(number: int, kind: str, message: dict[str, Any], **fields: Any) -> dict[str, Any]:
    base = {"type": kind, "uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number else None, "sessionId": "s1"}
    return {**base, "timestamp": f"2026-03-01T10:00:{number:02}.500Z", "message": message, **fields}


def conversation(turns: int) -> list[dict[str, Any]]:
    """Lines as Claude Code writes them: a question, a reply with a call, its result."""
    lines: list[dict[str, Any]] = []
    for turn in range(turns):
        usage = {"input_tokens": 10 + turn, "output_tokens": 5, "cache_read_input_tokens": 100}
        use = {"type": "tool_use", "id": f"t{turn}", "name": "Read", "input": {"path": f"{turn}.txt"}}
        reply = {"role": "assistant", "id": f"m{turn}", "model": "claude-opus-4-5", "content": [use], "usage": usage}
        result = {"type": "tool_result", "tool_use_id": f"t{turn}", "content": f"content {turn}"}
        lines.append(line(len(lines), "user", {"role": "user", "content": f"Read file {turn}."}))
        lines.append(line(len(lines), "assistant", reply))
        lines.append(line(len(lines), "user", {"role": "user", "content": [result]}))
    return lines


def as_jsonl(records: list[Any]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


async def take(store: Store, raw: bytes | Path, **options: Any) -> list[ImportedSession]:
    with open_sessions(raw, name="it") as file:
        return [await import_session(store, session, **options) for session in file.sessions]


async def take_one(store: Store, records: list[Any], **options: Any) -> ImportedSession:
    [done] = await take(store, as_jsonl(records), **options)
    return done


async def texts(store: Store, session: str | None) -> list[str]:
    assert session is not None
    return [text_of(row.message) for row in await store.messages(session)]


async def calls(store: Store) -> int:
    return sum(total.calls for total in await store.usage())


async def test_importing_twice_adds_nothing(store: Store) -> None:
    first = await take_one(store, conversation(3))
    again = await take_one(store, conversation(3))
    assert (first.is_new, first.added, first.known, first.calls) == (True, 9, 0, 3)
    assert (again.is_new, again.added, again.known, again.calls) == (False, 0, 9, 0)
    assert len(await store.list_sessions()) == 1
    assert await calls(store) == 3


async def test_a_file_that_has_grown_adds_its_new_part(store: Store) -> None:
    await take_one(store, conversation(2))
    grown = await take_one(store, conversation(5))
    assert (grown.added, grown.known, grown.calls) == (9, 6, 3)
    assert not grown.is_new and not grown.is_branch
    assert len(await texts(store, grown.session)) == 15
    assert await calls(store) == 5


async def test_a_file_that_was_cut_adds_nothing(store: Store) -> None:
    await take_one(store, conversation(5))
    cut = await take_one(store, conversation(2))
    assert (cut.added, cut.known, cut.is_branch) == (0, 6, False)


async def test_an_edited_message_becomes_a_branch_which_is_found_again(store: Store) -> None:
    lines = conversation(4)
    whole = await take_one(store, lines)
    edited = [*lines[:6], line(6, "user", {"role": "user", "content": "Read the other file."})]
    branch = await take_one(store, edited)
    assert (branch.is_branch, branch.known, branch.added) == (True, 6, 1)
    assert branch.session != whole.session
    assert (await texts(store, branch.session))[-1] == "Read the other file."
    again = await take_one(store, edited)
    assert (again.is_branch, again.known, again.added, again.session) == (False, 7, 0, branch.session)
    grown = await take_one(store, [*edited, line(7, "user", {"role": "user", "content": "Now."})])
    assert (grown.is_branch, grown.known, grown.added, grown.session) == (False, 7, 1, branch.session)
    assert len(await texts(store, whole.session)) == 12
    assert (await take_one(store, lines)).added == 0


async def test_what_was_gone_on_with_here_is_left_alone(store: Store) -> None:
    first = await take_one(store, conversation(2))
    assert first.session is not None
    await store.append(first.session, [{"role": "user", "content": "Thank you."}])
    assert (await take_one(store, conversation(2))).added == 0
    elsewhere = await take_one(store, conversation(3))
    assert (elsewhere.is_branch, elsewhere.added) == (True, 3)
    assert (await texts(store, first.session))[-1] == "Thank you."


async def test_a_session_that_was_compacted_here_goes_on_at_its_tip(store: Store) -> None:
    first = await take_one(store, conversation(2))
    assert first.session is not None
    view = await store.view(first.session)
    summary: Message = {"role": "user", "content": "Two files were read."}
    await store.commit_compaction(first.session, CompactionEntry.of(view, [summary], summary))
    grown = await take_one(store, conversation(3))
    assert (grown.added, grown.known, grown.is_branch) == (3, 6, False)
    tip = await store.get_compression_tip(first.session)
    assert [text_of(message) for message in (await store.view(tip)).messages][:2] == [
        "Two files were read.",
        "Read file 2.",
    ]


async def test_a_run_that_dies_at_any_statement_is_finished_by_the_next(tmp_path: Path) -> None:
    class DiedError(RuntimeError):
        pass

    raw = as_jsonl([*conversation(2), {"type": "custom-title", "customTitle": "Files", "sessionId": "s1"}])
    survived = False
    for point in range(1, 200):
        left = point

        def count(_: str) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise DiedError

        where = tmp_path / f"{point}.db"
        async with open_store(where):
            pass
        try:
            async with open_store(where, on_statement=count) as dying:
                await take(dying, raw)
        except DiedError:
            pass
        survived = left > 0
        async with open_store(where) as opened:
            [done] = await take(opened, raw)
            assert len(await texts(opened, done.session)) == 6
            assert await calls(opened) == 2
            assert await opened.check() == []
            assert (await take(opened, raw))[0].added == 0
        if survived:
            break
    assert survived


async def test_a_dry_run_tells_the_same_and_writes_nothing(store: Store) -> None:
    foreseen = await take_one(store, conversation(3), dry_run=True)
    assert await store.list_sessions() == []
    done = await take_one(store, conversation(3))
    assert foreseen == done
    grown = await take_one(store, conversation(4), dry_run=True)
    assert (grown.added, grown.known, grown.calls) == (3, 9, 1)
    edited = [*conversation(1), line(3, "user", {"role": "user", "content": "Else."})]
    assert (await take_one(store, edited, dry_run=True)).is_branch
    assert len(await store.list_sessions()) == 1
    assert await calls(store) == 3


async def test_plain_files_are_known_by_how_they_begin(store: Store) -> None:
    lines: list[Any] = [{"role": "system", "content": "You sail."}, {"role": "user", "content": "Hoist!"}]
    first = await take_one(store, lines)
    [as_list] = await take(store, json.dumps([*lines, {"role": "assistant", "content": "Hoisted."}]).encode())
    assert (as_list.session, as_list.known, as_list.added) == (first.session, 1, 1)
    other = await take_one(store, [lines[0], {"role": "user", "content": "Reef!"}])
    assert other.is_new


async def test_times_models_and_usage_are_those_of_the_file(store: Store) -> None:
    done = await take_one(store, conversation(1))
    assert done.session is not None
    session = await store.session(done.session)
    assert (session.id, session.source, session.model) == ("claude-code-s1", "claude-code", "claude-opus-4-5")
    rows = await store.messages(done.session)
    assert rows[1].at == datetime(2026, 3, 1, 10, 0, 1, 500_000, tzinfo=UTC)
    assert rows[2].tool == "Read"
    [total] = await store.usage(["source", "model", "day"])
    assert total.group["source"] == "import"
    assert total.group["model"] == "claude-opus-4-5"
    assert (total.usage.input_tokens, total.usage.cache_read_tokens, total.usage.output_tokens) == (10, 100, 5)
    assert total.cost_micros > 0
    found = await store.usage(
        [], CallFilter(since=datetime(2026, 3, 1, tzinfo=UTC), before=datetime(2026, 3, 2, tzinfo=UTC))
    )
    assert found[0].calls == 1


async def test_a_session_started_when_its_first_message_that_tells_a_time_was_said(store: Store) -> None:
    lines = conversation(2)
    lines[0]["timestamp"] = "yesterday"
    done = await take_one(store, lines)
    assert done.session is not None
    began = datetime(2026, 3, 1, 10, 0, 1, 500_000, tzinfo=UTC)
    assert (await store.session(done.session)).created == began
    await take_one(store, conversation(3))
    assert (await store.session(done.session)).created == began


async def test_a_session_whose_file_tells_no_times_started_with_its_import() -> None:
    async with open_store(":memory:", clock=lambda: 1_800_000_000.0) as store:
        done = await take_one(store, [{"role": "user", "content": "Hoist!"}])
        assert done.session is not None
        assert (await store.session(done.session)).created.timestamp() == 1_800_000_000


def prompted(*messages: Message, system: str | None = None) -> SourceSession:
    metadata = SourceMetadata(session="s1", system=system)
    return SourceSession(
        "it", "codex", metadata, lambda: iter([SourceEntry(message, at) for at, message in enumerate(messages)])
    )


async def test_every_prompt_before_the_first_message_stands_beside_the_history(store: Store) -> None:
    lead: list[Message] = [{"role": "system", "content": "You sail."}, {"role": "developer", "content": "Be brief."}]
    done = await import_session(store, prompted(*lead, {"role": "user", "content": "Hoist!"}, system="A harbour."))
    assert await texts(store, done.session) == ["Hoist!"]
    assert done.session is not None
    assert await store.system_prompt(done.session) == "A harbour.\n\nYou sail.\n\nBe brief."


async def test_a_session_that_was_stored_with_a_prompt_in_its_history_goes_on_with_the_same_numbers(
    store: Store,
) -> None:
    lead: Message = {"role": "developer", "content": "Be brief."}
    asked: Message = {"role": "user", "content": "Hoist!"}
    await store.start_session(NewSession("codex-s1", "codex"))
    await store.append("codex-s1", [NewMessage(lead), NewMessage(asked)])
    done = await import_session(store, prompted(lead, asked, {"role": "assistant", "content": "Aye."}))
    assert (done.session, done.known, done.added, done.is_branch) == ("codex-s1", 2, 1, False)


async def test_the_system_prompt_stands_beside_the_history(store: Store) -> None:
    done = await take_one(store, [{"role": "system", "content": "You sail."}, {"role": "user", "content": "Hoist!"}])
    assert done.session is not None
    assert await store.system_prompt(done.session) == "You sail."
    assert await texts(store, done.session) == ["Hoist!"]


async def test_a_subagent_hangs_on_the_session_it_worked_for(store: Store) -> None:
    await take_one(store, conversation(1))
    side = {"isSidechain": True, "agentId": "a7"}
    helper = await take_one(store, [line(0, "user", {"role": "user", "content": "Help."}, **side)])
    [child] = await store.children_of("claude-code-s1")
    assert (child.id, child.kind) == (helper.session, "subagent")
    orphan = {"isSidechain": True, "agentId": "a8", "sessionId": "unknown"}
    alone = await take_one(store, [line(0, "user", {"role": "user", "content": "Help."}, **orphan)])
    assert alone.session is not None
    assert (await store.session(alone.session)).kind == "subagent"


async def test_a_call_that_two_files_tell_of_counts_once(store: Store) -> None:
    def named(session: str, calls: str) -> list[dict[str, Any]]:
        lines = [{**each, "sessionId": session} for each in conversation(2)]
        for each in lines:
            if each["type"] == "assistant":
                each["message"] = {**each["message"], "id": calls + each["message"]["id"]}
        return lines

    own = "msg_01AbCdEfGhIjKlMn"
    await take_one(store, named("first", own))
    await take_one(store, named("resumed", own))
    assert await calls(store) == 2
    await take_one(store, named("third", ""))
    await take_one(store, named("fourth", ""))
    assert await calls(store) == 6


async def test_usage_told_per_session_is_added_once_and_only_what_came_since(store: Store) -> None:
    def session(tokens: int) -> SourceSession:
        metadata = SourceMetadata(session="h", model="claude-opus-4-5")
        metadata.usage.append(
            SourceUsage("claude-opus-4-5", {"input_tokens": tokens, "output_tokens": 1}, "1760000000")
        )
        return SourceSession("it", "hermes", metadata, lambda: [SourceEntry({"role": "user", "content": "Go."}, 1)])

    for tokens, added in ((100, 1), (100, 0), (150, 1), (150, 0)):
        assert (await import_session(store, session(tokens))).calls == added
    [total] = await store.usage()
    assert (total.usage.input_tokens, total.usage.output_tokens) == (150, 1)


@pytest.mark.parametrize(
    ("said", "title"),
    [
        (["Mend the clock.\nIt stands still."], "Mend the clock."),
        (["<environment_context>x</environment_context>", "  Mend\tit. "], "Mend it."),
        (["# AGENTS.md instructions for /p", "/clear", "Mend it."], "Mend it."),
        (["word " * 40], ("word " * 40)[:79].rstrip() + "…"),
        (["ring\x00 \x1b[31mit"], "ring [31mit"),
        (["/clear"], None),
        (["<task-notification>build 3 is done</task-notification>", "Mend it."], "Mend it."),
        (["<system-reminder>Be brief.</system-reminder>\nMend the clock."], "Mend the clock."),
        (["[Request interrupted by user]", "This session is being continued from another.", "Oil it."], "Oil it."),
        (["Caveat: The messages below were generated by the user.", "<command-name>/init</command-name>"], None),
        (["<pr_description>\nConsider the <b>clock</b>.\n</pr_description>"], "Consider the <b>clock</b>."),
        (["\n\n  \nMend it."], "Mend it."),
    ],
)
async def test_the_title_is_the_first_thing_the_user_asked_for(
    store: Store, said: list[str], title: str | None
) -> None:
    lines = [{"role": "user", "content": words} for words in said]
    assert (await take_one(store, [*lines, {"role": "assistant", "content": "Yes."}])).title == title


async def test_a_title_that_the_file_tells_late_counts(store: Store) -> None:
    named = [*conversation(1), {"type": "custom-title", "customTitle": "Files", "sessionId": "s1"}]
    done = await take_one(store, named)
    assert done.session is not None
    assert (await store.session(done.session)).title == "Files"
    await store.rename(done.session, "My files")
    await take_one(store, named)
    assert (await store.session(done.session)).title == "My files"


@pytest.mark.parametrize(
    "at", ["yesterday", "", "nan", "inf", "-5", "1e300", "9" * 30, "2026-13-45", None, "0001-01-01"]
)
async def test_a_time_nobody_can_read_is_no_trouble(store: Store, at: Any) -> None:
    odd = {**line(0, "user", {"role": "user", "content": "Go."}), "timestamp": at}
    assert (await take_one(store, [odd, line(1, "user", {"role": "user", "content": "On."})])).added == 2


async def test_odd_names_are_kept_readable(store: Store) -> None:
    for name in ("a\x00b\nc", "x" * 5000, "x" * 4999 + "y"):
        lines = [{**each, "sessionId": name} for each in conversation(1)]
        done = await take_one(store, lines)
        assert done.is_new and done.session is not None and len(done.session) <= 200
        assert (await take_one(store, lines)).added == 0


async def test_a_session_without_messages_leaves_no_trace(store: Store) -> None:
    done = await import_session(store, SourceSession("it", "codex", SourceMetadata(), list))
    assert (done.session, done.added) == (None, 0)
    assert await store.list_sessions() == []


async def test_entries_are_taken_in_batches_and_progress_is_told(store: Store) -> None:
    def entries() -> Any:
        for number in range(1_300):
            yield SourceEntry({"role": "user", "content": f"Message {number}."}, number)

    seen: list[int] = []
    await import_session(
        store, SourceSession("it", "codex", SourceMetadata(session="b"), entries), progress=seen.append
    )
    assert seen == [500, 1_000, 1_300]


async def test_a_batch_is_one_transaction_however_many_calls_it_tells_of() -> None:
    begun = 0

    def count(sql: str) -> None:
        nonlocal begun
        begun += sql.startswith("BEGIN IMMEDIATE")

    async with open_store(":memory:", on_statement=count) as store:
        opened = begun
        assert (await take_one(store, conversation(10))).calls == 10
        # The session, the batch, and the index that follows.
        assert begun - opened <= 3
        assert await calls(store) == 10


async def test_large_messages_make_small_batches(store: Store) -> None:
    def entries() -> Any:
        for number in range(6):
            yield SourceEntry({"role": "user", "content": [{"type": "text", "text": f"{number}" * 2_500_000}]}, number)

    seen: list[int] = []
    await import_session(
        store, SourceSession("it", "codex", SourceMetadata(session="b"), entries), progress=seen.append
    )
    assert seen == [2, 4, 6]
