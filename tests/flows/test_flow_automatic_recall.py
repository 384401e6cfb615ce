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
from clew.testing import PlainEngine, ScriptedProvider, assistant, call, tool, user
from clew.testing.runtime import SESSION, Flow, answers, flow_with, request_tokens
from clew.turn import is_recall, recall_counts, receive

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


@pytest.mark.parametrize(("times", "comes"), [(3, 1), (8, 0)], ids=["read three times", "stands everywhere"])
async def test_a_result_brings_one_passage_of_like_ones_and_none_for_what_stands_everywhere(
    tmp_path: Path, times: int, comes: int
) -> None:
    result = "see ledgers/spring_tide.csv, row ebb_4471"
    async with recalling(tmp_path) as flow:
        await folded(flow, *(message for n in range(times) for message in worked(n, {"command": f"cat {n}"}, result)))
        looking = assistant(None, [call("look", {"command": "ls"}, id="c1")])
        await receive(flow.runtime, SESSION, [user("Go on."), looking])
        await flow.turn(tool("c1", "done: ledgers/spring_tide.csv"))
        assert recalled(flow).count("ebb_4471") == comes


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
