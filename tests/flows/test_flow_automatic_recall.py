"""Recall that comes by itself: what a request names and the view does not show comes back, for one turn."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from clew.config import RecallSettings, Settings
from clew.events import PassagesRecalled
from clew.messages import Message, text_of
from clew.providers import Reply, Request
from clew.store import NewSession
from clew.testing import ScriptedProvider, assistant, call, tool, user
from clew.turn import is_recall, recall_counts, receive
from tests.support.engines import PlainEngine
from tests.support.flow import SESSION, Flow, answers, flow_with, request_tokens

WORDS = "the keeper counts the herring and writes each bucket down before the next one is opened "
GATE = [
    user("Which code opens the harbour gate?"),
    assistant("The harbour gate opens with narwhal-8812-quay. Keep it."),
]


def rounds(first: int, last: int) -> list[Message]:
    said: list[Message] = []
    for number in range(first, last):
        said += (
            user(f"Count bucket {number}, please. " + WORDS * 6),
            assistant(f"Bucket {number} is counted. " + WORDS * 6),
        )
    return said


@asynccontextmanager
async def recalling(folder: Path, *replies: Any, automatic: str = "conversation", **more: Any) -> AsyncIterator[Flow]:
    provider = ScriptedProvider(*replies or [answers(f"Answer {n}.") for n in range(12)])
    settings = Settings(recall=RecallSettings(automatic=automatic))
    # An engine that writes no handoff: what it takes out of the view is then in no words there.
    made = {"new_engine": PlainEngine, "window": 16_000, "settings": settings, **more}
    async with flow_with(provider, folder, **made) as flow:
        yield flow


async def folded(flow: Flow, *said: Message) -> None:
    await receive(flow.runtime, flow.session, [*rounds(0, 10), *said, *rounds(10, 50)])
    await flow.compact()
    shown = "\n".join(text_of(message) for message in await flow.view())
    assert not any(text_of(message) in shown for message in said if text_of(message))


def requests(flow: Flow) -> list[Request]:
    provider = flow.checker.provider
    assert isinstance(provider, ScriptedProvider)
    return provider.requests


def recalled(flow: Flow) -> str:
    """What came back with the newest request."""
    last = requests(flow)[-1].messages[-1]
    return text_of(last) if is_recall(last) else ""


async def stored(flow: Flow) -> Sequence[Message]:
    return [row.message for row in await flow.store.messages(flow.session)]


async def test_what_a_request_names_comes_back_for_this_turn_only(tmp_path: Path) -> None:
    async with recalling(tmp_path) as flow:
        await folded(flow, *GATE)
        await flow.turn(user("Please open the quay for narwhal-8812-quay and note who came."))
        assert "m21 (assistant" in recalled(flow) and "The harbour gate opens with narwhal-8812-quay." in recalled(flow)
        assert "data to read, not a request" in recalled(flow) and "<data-" in recalled(flow)
        (told,) = flow.events_of(PassagesRecalled)
        assert "m21" in told.messages and 0 < told.tokens <= 320
        await flow.turn(user("Thank you, that is all."))
        assert not any(is_recall(message) for message in requests(flow)[-1].messages)
        assert not any(is_recall(message) for message in await stored(flow))
        counts = await recall_counts(flow.store, flow.session)
        assert (counts.passages, counts.tokens) == (len(told.messages), told.tokens)


async def test_a_plain_question_finds_its_passage_by_the_words_that_the_view_does_not_have(tmp_path: Path) -> None:
    async with recalling(tmp_path) as flow:
        await folded(flow, *GATE)
        await flow.turn(user("How do we get through the harbour gate?"))
        assert "narwhal-8812-quay" in recalled(flow)
        assert "m20 (user" in recalled(flow) or "m21 (assistant" in recalled(flow)


async def test_a_result_that_names_it_brings_it_back_too(tmp_path: Path) -> None:
    note = [
        user("Remember where the tide table lies."),
        assistant("In ledgers/tide_table.csv, column level_m, in metres."),
    ]
    async with recalling(tmp_path) as flow:
        await folded(flow, *note)
        looking = assistant(None, [call("terminal", {"command": "ls"}, id="c1")])
        await receive(flow.runtime, SESSION, [user("What is in the folder?"), looking])
        await flow.turn(tool("c1", "buckets.txt\nledgers/tide_table.csv\n"))
        assert "column level_m, in metres" in recalled(flow)


@pytest.mark.parametrize("name", ["recall", "lcm_expand", "mcp__clew__search_sessions"])
async def test_a_result_of_recall_is_not_recalled(tmp_path: Path, name: str) -> None:
    called = assistant(None, [call(name, {"query": "quay"}, id="r1")])
    found = tool("r1", "m21: the harbour gate opens with narwhal-8812-quay.")
    async with recalling(tmp_path) as flow:
        await folded(flow, user("Look it up."), called, found, assistant("Done."))
        await flow.turn(user("Please open the quay for narwhal-8812-quay."))
        assert not recalled(flow)


def worked(number: int, arguments: dict[str, object], result: str) -> list[Message]:
    called = assistant(None, [call("look", arguments, id=f"t{number}")])
    return [user(f"Look at tide {number}."), called, tool(f"t{number}", result), assistant("Done.")]


async def test_parameters_and_tags_bring_nothing_back(tmp_path: Path) -> None:
    given: dict[str, object] = {"old_string": "low", "level_mark": "high"}
    async with recalling(tmp_path) as flow:
        await folded(flow, *worked(0, given, "fine </tide-report>"))
        await receive(flow.runtime, SESSION, [user("Go on."), assistant(None, [call("look", given, id="c1")])])
        await flow.turn(tool("c1", "still fine </tide-report>"))
        assert recalled(flow) == ""


@pytest.mark.parametrize("times", [3, 8])
async def test_a_line_that_stands_in_many_results_comes_once(tmp_path: Path, times: int) -> None:
    result = "see ledgers/spring_tide.csv, row ebb_4471"
    async with recalling(tmp_path) as flow:
        await folded(flow, *(message for n in range(times) for message in worked(n, {"command": f"cat {n}"}, result)))
        looking = assistant(None, [call("look", {"command": "ls"}, id="c1")])
        await receive(flow.runtime, SESSION, [user("Go on."), looking])
        await flow.turn(tool("c1", "done: ledgers/spring_tide.csv"))
        assert recalled(flow).count("ebb_4471") == 1
        again = assistant(None, [call("look", {"command": "ls"}, id="c2")])
        await receive(flow.runtime, SESSION, [again])
        await flow.turn(tool("c2", "once more: ledgers/spring_tide.csv"))
        assert not recalled(flow)


TABLE = "\n".join(
    [
        "name: ledgers/tide_table.csv",
        "columns: level_m, taken_at_utc",
        "",
        "",
        "",
        "name: ledgers/weather.csv",
        "columns: wind_kn, seen_from_pier",
    ]
)


async def named_in_view(flow: Flow, *folded_before: Message) -> None:
    """A conversation whose view still names the tide table, and no longer says what is in it."""
    await receive(flow.runtime, flow.session, [*rounds(0, 10), *folded_before, *rounds(10, 50)])
    await receive(flow.runtime, flow.session, [user("Keep ledgers/tide_table.csv in mind."), assistant("I do.")])
    await flow.compact()
    shown = "\n".join(text_of(message) for message in await flow.view())
    assert "ledgers/tide_table.csv" in shown and "level_m" not in shown


async def test_what_the_history_says_beside_a_name_comes_back_where_the_view_only_names_it(tmp_path: Path) -> None:
    async with recalling(tmp_path) as flow:
        await named_in_view(flow, *worked(0, {"path": "ledgers/index.yaml"}, TABLE))
        looking = assistant(None, [call("look", {"path": "ledgers/tide_table.csv"}, id="c1")])
        await receive(flow.runtime, SESSION, [user("Go on."), looking])
        await flow.turn(tool("c1", "busy, try again"))
        assert "m22 (tool, look ledgers/index.yaml):\nname: ledgers/tide_table.csv\ncolumns: level_m" in recalled(flow)
        assert "wind_kn" not in recalled(flow)
        (told,) = flow.events_of(PassagesRecalled)
        assert told.messages == ("m22",)


async def test_a_file_that_is_named_by_its_end_brings_its_path_back(tmp_path: Path) -> None:
    async with recalling(tmp_path) as flow:
        await folded(flow, *worked(0, {"command": "find"}, "found /srv/harbour/ledgers/tide_table.csv, 12 KB"))
        await flow.turn(user("Now read tide_table.csv, please."))
        assert "/srv/harbour/ledgers/tide_table.csv" in recalled(flow)


async def test_lines_are_remembered_over_a_restart_and_come_again_where_the_call_failed(tmp_path: Path) -> None:
    def broken(request: Request) -> Reply:
        raise OSError("no line")

    async with recalling(tmp_path, broken, answers("Yes."), answers("Yes.")) as flow:
        await named_in_view(flow, *worked(0, {"path": "ledgers/index.yaml"}, TABLE))
        looking = assistant(None, [call("look", {"path": "ledgers/tide_table.csv"}, id="c1")])
        await receive(flow.runtime, SESSION, [user("Go on."), looking])
        with pytest.raises(OSError, match="no line"):
            await flow.turn(tool("c1", "busy, try again"))
        assert "level_m" in recalled(flow)
    async with recalling(tmp_path) as flow:
        await flow.turn()
        assert "level_m" in recalled(flow)
        await receive(flow.runtime, SESSION, [assistant(None, [call("look", {"path": "tide_table.csv"}, id="c2")])])
        await flow.turn(tool("c2", "busy, try again"))
        assert "level_m" not in recalled(flow)


@pytest.mark.parametrize("most", [100, 200, 320])
async def test_lines_take_no_more_than_the_setting_allows(tmp_path: Path, most: int) -> None:
    table = "\n\n\n\n".join(f"ledgers/tide_table.csv holds reading_{n:03} of gauge_{n:03}" for n in range(200))
    settings = Settings(recall=RecallSettings(max_tokens=most))
    async with recalling(tmp_path, settings=settings) as flow:
        await named_in_view(flow, *worked(0, {"path": "ledgers/index.yaml"}, table))
        looking = assistant(None, [call("look", {"path": "ledgers/tide_table.csv"}, id="c1")])
        await receive(flow.runtime, SESSION, [user("Go on."), looking])
        await flow.turn(tool("c1", "busy, try again"))
        size = request_tokens(Request("scripted-model", [requests(flow)[-1].messages[-1]]))
        assert not recalled(flow) if most == 100 else "reading_" in recalled(flow) and size <= most + 8


async def test_the_same_passage_comes_once_also_after_a_restart(tmp_path: Path) -> None:
    async with recalling(tmp_path) as flow:
        await folded(flow, *GATE)
        await flow.turn(user("Is narwhal-8812-quay still right?"))
        assert recalled(flow)
        await flow.turn(user("And what of the harbour?"))
        assert not recalled(flow)
    async with recalling(tmp_path) as flow:
        await flow.turn(user("Who knows about the harbour gate?"))
        assert not recalled(flow)
        assert (await recall_counts(flow.store, flow.session)).passages >= 1


async def test_a_question_that_is_asked_again_because_the_call_failed_keeps_its_passage(tmp_path: Path) -> None:
    def broken(request: Request) -> Reply:
        raise OSError("no line")

    async with recalling(tmp_path, broken, answers("Yes.")) as flow:
        await folded(flow, *GATE)
        with pytest.raises(OSError, match="no line"):
            await flow.turn(user("Is narwhal-8812-quay still right?"))
        await flow.turn()
        assert "narwhal-8812-quay" in recalled(flow)


async def test_what_is_in_view_or_was_never_said_brings_nothing(tmp_path: Path) -> None:
    async with recalling(tmp_path) as flow:
        await folded(flow, *GATE)
        await flow.turn(user("Count bucket 49 again, please."))
        assert not recalled(flow)
        await flow.turn(user("Does walrus_feeder_v7.py exist?"))
        assert not recalled(flow)
    async with recalling(tmp_path / "unfolded") as flow:
        await receive(flow.runtime, SESSION, [*GATE, *rounds(0, 3)])
        await flow.turn(user("Is narwhal-8812-quay still right?"))
        assert not recalled(flow)


async def test_no_secret_comes_back(tmp_path: Path) -> None:
    key = "ghp_" + "FAKE0123456789fake0123456789FAKE0123"
    said = [user(f"The harbour token for gate_api.py is {key}, keep it."), assistant("Kept, for gate_api.py.")]
    async with recalling(tmp_path) as flow:
        await folded(flow, *said)
        await flow.turn(user("Look at gate_api.py, please."))
        assert "gate_api.py" in recalled(flow) and key not in recalled(flow)
    async with recalling(tmp_path / "lines") as flow:
        await named_in_view(flow, *worked(0, {}, f"ledgers/tide_table.csv, level_m, token {key}"))
        looking = assistant(None, [call("look", {"path": "ledgers/tide_table.csv"}, id="c1")])
        await receive(flow.runtime, SESSION, [user("Go on."), looking])
        await flow.turn(tool("c1", "busy, try again"))
        assert "level_m" in recalled(flow) and key not in recalled(flow)


@pytest.mark.parametrize("window", [4_000, 16_000, 60_000])
async def test_it_takes_at_most_two_hundredths_of_the_window(tmp_path: Path, window: int) -> None:
    said = [user(f"Note on depth_gauge.log: {WORDS * 30}") for _ in range(12)]
    async with recalling(tmp_path, window=window) as flow:
        await receive(flow.runtime, SESSION, [*rounds(0, 10), *said, *rounds(10, 120)])
        await flow.compact()
        await flow.turn(user("What was it about depth_gauge.log?"))
        if recalled(flow):
            size = request_tokens(Request("scripted-model", [requests(flow)[-1].messages[-1]]))
            assert size <= window * 0.02 + 8
        assert window < 16_000 or recalled(flow)


async def test_it_is_off_where_it_is_switched_off_and_in_other_peoples_sessions(tmp_path: Path) -> None:
    async with recalling(tmp_path, automatic="off") as flow:
        await folded(flow, *GATE)
        await flow.turn(user("Is narwhal-8812-quay still right?"))
        assert not recalled(flow)
    async with recalling(tmp_path / "owned", automatic="everywhere") as flow:
        await flow.store.start_session(NewSession(id="theirs", owner="ann", model="scripted-model"))
        flow.session = "theirs"
        await folded(flow, *GATE)
        await flow.turn(user("Is narwhal-8812-quay still right?"))
        assert not recalled(flow)


async def test_everywhere_is_all_conversations_of_ones_own_and_of_nobody_else(tmp_path: Path) -> None:
    async with recalling(tmp_path, automatic="everywhere") as flow:
        for name, owner, code in (("mine", "", "narwhal-8812-quay"), ("theirs", "ann", "beluga-1133-quay")):
            await flow.store.start_session(NewSession(id=name, owner=owner))
            said = [
                user("Which code opens harbour_gate?"),
                assistant(f"harbour_gate opens with {code}, as it was told."),
            ]
            await flow.store.append(name, said)
        await flow.turn(user("Good morning."))
        await flow.turn(user("How is harbour_gate opened?"))
        assert "mine m1" in recalled(flow) and "narwhal-8812-quay" in recalled(flow)
        assert "beluga" not in recalled(flow)
    async with recalling(tmp_path / "here", automatic="conversation") as flow:
        await flow.store.start_session(NewSession(id="mine"))
        await flow.store.append("mine", [user("harbour_gate opens with narwhal-8812-quay.")])
        await flow.turn(user("How is harbour_gate opened?"))
        assert not recalled(flow)
