"""The service for plugins: one history in the store, folds, recall, and who may ask."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from clew.config import Settings
from clew.engines import ContextCompressor
from clew.gateway import PageServer, RequestBounds
from clew.importers import open_sessions
from clew.importers.import_session import ImportedSession, import_session
from clew.integrations.plugin_service import PluginService
from clew.store import Store, open_store
from clew.tooloutput import SpillFolder
from clew.turn import RuntimeOptions

TOKEN = "fake-token"
FACT = "the depot waits 4177 seconds before it tries again"


class Plugin:
    """What a plugin sends."""

    def __init__(self, http: aiohttp.ClientSession, address: str) -> None:
        self._http = http
        self.address = address

    async def ask(self, call: str, token: str = TOKEN, **fields: Any) -> tuple[int, dict[str, Any]]:
        url = f"{self.address}/inside/v1/{call}"
        body = {"program": "pi", "session": "s1", **fields}
        async with self._http.post(url, json=body, headers={"x-clew-token": token}) as answer:
            return answer.status, await answer.json()

    async def fold(self, messages: Sequence[dict[str, Any]], **fields: Any) -> dict[str, Any]:
        status, answer = await self.ask("fold", messages=list(messages), window=8_000, **fields)
        assert status == 200, answer
        return answer


def work(first: int, count: int) -> list[dict[str, Any]]:
    """Rounds of a session: a request, a call, its result and a reply."""
    rows: list[dict[str, Any]] = []
    for number in range(first, first + count):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "bash", "arguments": f'{{"n": {number}}}'}}
        output = "\n".join(f"line {line} of the output of part {number}" for line in range(40))
        rows += [
            {"role": "user", "content": f"Look at part {number} of the depot."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": f"{FACT if number == 1 else ''}\n{output}"},
            {"role": "assistant", "content": f"Part {number} is in order."},
        ]
    return rows


def held_after(answer: dict[str, Any], given: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a program holds when it has taken the items of an answer."""
    return [given[item["place"]] if "place" in item else item["message"] for item in answer["items"]]


@asynccontextmanager
async def serving(store: Store, folder: Path) -> AsyncIterator[Plugin]:
    options = RuntimeOptions(ContextCompressor.of, SpillFolder(folder), Settings(), summarizes=False)
    service = PluginService(store, options, TOKEN)
    async with PageServer(service, "127.0.0.1", 0, bounds=RequestBounds()) as server, aiohttp.ClientSession() as http:
        yield Plugin(http, server.address)
    await service.close()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(str(tmp_path / "state.db")) as opened:
        yield opened


@pytest.fixture
async def plugin(store: Store, tmp_path: Path) -> AsyncIterator[Plugin]:
    async with serving(store, tmp_path) as made:
        yield made


async def stored_messages(store: Store) -> list[int]:
    return [(await store.view(tip.id)).next_seq for tip in await store.list_sessions(limit=50, only_tips=True)]


async def test_a_fold_keeps_what_stays_by_its_place_and_writes_the_rest(plugin: Plugin) -> None:
    given = work(0, 12)
    answer = await plugin.fold(given)
    assert answer["changed"] and answer["tokens_after"] < answer["tokens_before"]
    held = held_after(answer, given)
    assert len(held) < len(given)
    assert any("[Clew handoff]" in str(message.get("content")) for message in held)
    calls = {call["id"] for message in held for call in message.get("tool_calls") or ()}
    assert {message["tool_call_id"] for message in held if message["role"] == "tool"} == calls


async def test_a_second_compaction_stores_each_message_once(plugin: Plugin, store: Store) -> None:
    given = work(0, 12)
    held = held_after(await plugin.fold(given), given)
    more = [*held, *work(12, 12)]
    answer = await plugin.fold(more)
    assert answer["changed"]
    assert await stored_messages(store) == [24 * 4]


async def test_a_program_that_gives_its_whole_history_stores_it_once(plugin: Plugin, store: Store) -> None:
    await plugin.fold(work(0, 12), kept_from=44)
    answer = await plugin.fold(work(0, 24), kept_from=92)
    assert answer["changed"] and answer["kept_from"] >= 92
    assert await stored_messages(store) == [24 * 4]


async def test_messages_that_follow_earlier_ones_are_added_once(plugin: Plugin, store: Store) -> None:
    await plugin.fold(work(0, 12), is_more=True)
    await plugin.fold(work(12, 12), is_more=True)
    await plugin.fold(work(12, 12), is_more=True)
    assert await stored_messages(store) == [24 * 4]


async def test_a_restarted_service_goes_on_with_the_same_session(store: Store, tmp_path: Path) -> None:
    given = work(0, 12)
    async with serving(store, tmp_path) as first:
        held = held_after(await first.fold(given), given)
    async with serving(store, tmp_path) as second:
        assert (await second.fold([*held, *work(12, 12)]))["changed"]
    assert await stored_messages(store) == [24 * 4]


async def test_an_undo_before_a_restart_opens_no_second_session(store: Store, tmp_path: Path) -> None:
    given = work(0, 12)
    async with serving(store, tmp_path) as first:
        held = held_after(await first.fold(given), given)
    (tip,) = await store.list_sessions(limit=50, only_tips=True)
    assert await store.undo(tip.id) is not None
    async with serving(store, tmp_path) as second:
        assert (await second.fold([*held, *work(12, 12)]))["changed"]
    assert await stored_messages(store) == [24 * 4]


@pytest.mark.parametrize("program", ["claude-code", "pi"])
async def test_an_answer_that_came_too_late_opens_no_second_session(plugin: Plugin, store: Store, program: str) -> None:
    given = work(0, 12)
    await plugin.fold(given, program=program)
    answer = await plugin.fold([*given, *work(12, 12)], program=program)
    assert answer["changed"]
    assert await stored_messages(store) == [24 * 4]


async def test_messages_are_stored_without_a_fold(plugin: Plugin, store: Store) -> None:
    given = work(0, 12)
    held = held_after(await plugin.fold(given), given)
    for count in (1, 2):
        status, answer = await plugin.ask("record", messages=[*held, *work(12, count)])
        assert (status, answer["messages"]) == (200, (12 + count) * 4)
    assert await stored_messages(store) == [14 * 4]
    assert len(await store.compactions(answer["session"])) == 1


async def test_a_compaction_by_claude_code_itself_stays_in_the_session(store: Store, tmp_path: Path) -> None:
    given = work(0, 12)
    summary = {"role": "user", "content": "This session is being continued: the depot is in order."}
    own = [summary, *given[-2:], *work(12, 1)]
    async with serving(store, tmp_path) as first:
        await first.ask("record", program="claude-code", messages=given)
        await first.ask("record", program="claude-code", messages=own)
        assert await stored_messages(store) == [13 * 4 + 1]
    async with serving(store, tmp_path) as second:
        _, answer = await second.ask("record", program="claude-code", messages=[*own, *work(13, 1)])
        assert await stored_messages(store) == [14 * 4 + 1]
        assert (await second.fold([*own, *work(13, 12)], program="claude-code"))["changed"]
    assert await stored_messages(store) == [25 * 4 + 1]
    assert [tip.id for tip in await store.list_sessions(limit=50)][-1] == answer["session"]


def pi_file(path: Path, messages: Sequence[dict[str, Any]]) -> Path:
    """The file in which pi keeps a session of this name."""
    lines: list[dict[str, Any]] = [{"type": "session", "version": 3, "id": "s1", "cwd": "/srv"}]
    for number, message in enumerate(messages):
        blocks: list[dict[str, Any]] = [{"type": "text", "text": message["content"]}] if message["content"] else []
        for call in message.get("tool_calls") or ():
            given = json.loads(call["function"]["arguments"])
            blocks.append({"type": "toolCall", "id": call["id"], "name": call["function"]["name"], "arguments": given})
        said = {"role": message["role"], "content": blocks}
        if message["role"] == "tool":
            said |= {"role": "toolResult", "toolCallId": message["tool_call_id"], "toolName": "bash"}
        above = f"e{number - 1}" if number else None
        lines.append({"type": "message", "id": f"e{number}", "parentId": above, "message": said})
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


async def import_file(store: Store, path: Path) -> ImportedSession:
    with open_sessions(path) as file:
        (session,) = file.sessions
        return await import_session(store, session)


async def test_an_import_leaves_out_a_session_that_a_plugin_stores(
    plugin: Plugin, store: Store, tmp_path: Path
) -> None:
    _, answer = await plugin.ask("record", messages=work(0, 12))
    imported = await import_file(store, pi_file(tmp_path / "pi.jsonl", work(0, 12)))
    assert (imported.session, imported.added, imported.known) == (answer["session"], 0, 48)
    assert await stored_messages(store) == [48]


async def test_a_plugin_continues_a_session_that_was_imported(plugin: Plugin, store: Store, tmp_path: Path) -> None:
    path = pi_file(tmp_path / "pi.jsonl", work(0, 12))
    await import_file(store, path)
    assert (await plugin.fold(work(0, 24)))["changed"]
    again = await import_file(store, pi_file(path, work(0, 24)))
    assert again.added == 0
    (begun,) = [session for session in await store.list_sessions(limit=50) if session.kind == "branch"]
    assert (begun.parent_session_id, begun.first_seq) == ("pi-s1", 48)
    assert sorted(await stored_messages(store)) == [48, 96]


async def test_the_text_holds_what_the_program_does_not_keep(plugin: Plugin) -> None:
    given = work(0, 12)
    whole = await plugin.fold(given)
    assert whole["text"].startswith("[Clew handoff]") and "Part 11 is in order." in whole["text"]
    part = await plugin.fold(given, session="s2", kept_from=44)
    assert "Part 11 is in order." not in part["text"].partition("Messages from before")[2]


async def test_recall_finds_and_opens_what_was_folded(plugin: Plugin) -> None:
    await plugin.fold(work(0, 12))
    _, found = await plugin.ask("recall", query="depot waits seconds tries again")
    assert "4177" in found["text"]
    _, opened = await plugin.ask("recall", open="m6")
    assert FACT in opened["text"]


async def test_sessions_do_not_see_each_other(plugin: Plugin, store: Store) -> None:
    await plugin.fold(work(0, 12))
    await plugin.fold(work(0, 12), session="s2")
    assert await stored_messages(store) == [48, 48]
    _, found = await plugin.ask("recall", session="unknown", query="depot")
    assert found["is_error"]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"token": "another"}, 401),
        ({"program": "nothing"}, 400),
        ({"session": "../../etc"}, 400),
        ({"messages": []}, 400),
        ({"messages": [3]}, 400),
        ({"messages": "text"}, 400),
    ],
)
async def test_what_cannot_be_answered_is_refused(plugin: Plugin, fields: dict[str, Any], status: int) -> None:
    answered, body = await plugin.ask("fold", **{"messages": work(0, 2), **fields})
    assert answered == status and body["error"]


async def test_a_short_conversation_is_left_to_the_program(plugin: Plugin) -> None:
    answer = await plugin.fold([{"role": "user", "content": "Hello."}])
    assert answer["changed"] is False
