"""What must hold of the lossless engine, for arbitrary histories: nothing is lost, doubled, moved or too large."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from hypothesis import example, given, settings
from hypothesis import strategies as st

from clew.config import CompressionSettings, LosslessSettings, Settings
from clew.engines import LosslessEngine
from clew.engines.base import threshold_for
from clew.engines.lossless.recall import TOOLS
from clew.events import CompactionFinished, CompactionUndone, Event, Events
from clew.messages import Message, repair
from clew.store import Store, open_store
from clew.testing import ScriptedProvider, assistant, call, tool, user
from clew.tokens import count_tokens
from clew.tooloutput import SpillFolder
from clew.turn import ModelTarget, ProjectedConversation, Runtime, RuntimeOptions
from tests.support.strategies import broken_histories, histories

few = settings(max_examples=10, deadline=None)
windows = st.sampled_from([1_000, 2_000, 4_000, 16_000])
leaf_sizes = st.sampled_from([200, 500, 2_000])
MODEL = "any-model"
BROKEN = [user("a" * 9_000), assistant("", [call("x", "{}", id="c"), call("y", "{", id="c")]), tool("c", "")]
HUGE = [assistant(None, [call("write", {"content": "x " * 20_000}, id="c")]), tool("c", "y " * 20_000)]
ROWS = "row 0 has salt, rope and tar; " * 40
# A repair moves the last result, which has no id, up to the call: the tail begins with a lower number.
RESULT_WITHOUT_ID: Message = {"role": "tool", "content": "The build is red."}
MOVED = [
    user(f"The build is red. {ROWS}"),
    RESULT_WITHOUT_ID,
    assistant(None, [call("read_file", {}, id="call_0")]),
    user(f"The build is red. {ROWS}"),
    RESULT_WITHOUT_ID,
    assistant(None, [call("read_file", {}, id="call_1")]),
]
# A repair leaves the first result out, and nothing needs to be folded at first.
LEFT_OUT = [
    {"role": "tool", "content": f"The build is red. {ROWS}"},
    assistant(None, [call("terminal", '{"path": ', id="call_odd")]),
    {"role": "tool", "content": f"The build is red. {ROWS}"},
]
_Result = TypeVar("_Result")


@st.composite
def long_histories(draw: st.DrawFn) -> list[Message]:
    """Histories of any shape, broken ones too, with messages that are long enough to be folded."""
    messages = copy.deepcopy(draw(st.one_of(histories(max_turns=6), broken_histories())))
    for place, message in enumerate(messages):
        words = draw(st.sampled_from([0, 0, 3, 40, 200]))
        if words and isinstance(message.get("content"), str):
            message["content"] = f"{message['content']} {f'row {place} has salt, rope and tar; ' * words}"
    return [message for message in messages if message["role"] not in ("system", "developer")]


@asynccontextmanager
async def projected(
    where: Path, window: int, leaf: int, on_event: Callable[[Event], None] = lambda _: None
) -> AsyncIterator[ProjectedConversation]:
    """A conversation over a store in a folder; with the same folder again it is another process."""
    made = Settings(
        # As small a tail as there may be: what is folded is what is looked at here.
        compression=CompressionSettings(target_ratio=0.10),
        lossless=LosslessSettings(leaf_tokens=leaf, leaves_condensed=3, nodes_condensed=2),
    )
    target = ModelTarget(ScriptedProvider(), MODEL, context_length=window)
    async with open_store(where / "state.db", flush="normal") as store:
        options = RuntimeOptions(LosslessEngine, SpillFolder(where / "outputs"), made, summarizes=False)
        runtime = Runtime(store, target, options, Events(on_event))
        try:
            yield ProjectedConversation(runtime)
        finally:
            await runtime.close()


def in_folder(run: Callable[[Path], Awaitable[_Result]]) -> _Result:
    with TemporaryDirectory() as folder:
        return asyncio.run(_awaited(run(Path(folder))))


async def _awaited(work: Awaitable[_Result]) -> _Result:
    return await work


def store_of(conversation: ProjectedConversation) -> Store:
    return conversation._runtime.store


async def tool_call(conversation: ProjectedConversation, name: str, **arguments: Any) -> dict[str, Any]:
    assert conversation.session is not None
    live = await conversation._runtime.conversation(conversation.session)
    answer = json.loads(await live.engine.handle_tool_call(name, arguments))
    assert isinstance(answer, dict)
    return answer


async def opened(conversation: ProjectedConversation, id: str) -> list[Message]:
    """Everything below a node, opened part by part and page by page through the tool."""
    messages: list[Message] = []
    parts: list[str] = []
    after, half = "", ""
    while True:
        page = await tool_call(conversation, "lcm_expand", id=id, after=after)
        parts += [part["id"] for part in page.get("parts", ())]
        for entry in page.get("messages", ()):
            if "message" in entry:
                messages.append(entry["message"])
                continue
            half += entry["json_part"]
            end, total = entry["chars"].partition(" to ")[2].split(" of ")
            if end == total:
                messages.append(json.loads(half))
                half = ""
        if "next" not in page:
            break
        after = page["next"]
    for part in parts:
        messages += await opened(conversation, part)
    return messages


def exact(messages: Sequence[Any]) -> list[str]:
    return [json.dumps(message) for message in messages]


async def rows_and_nodes(conversation: ProjectedConversation) -> tuple[list[str], list[str], list[str]]:
    """All that the store has of the conversation: its messages, its nodes, and those that are shown."""
    store, session = store_of(conversation), conversation.session
    if session is None:
        return [], [], []
    tip = await store.get_compression_tip(session)
    rows = exact([row.message for row in await store.messages(tip)])
    return rows, [repr(node) for node in await store.nodes(tip)], [node.name for node in await store.shown_nodes(tip)]


def grown(messages: Sequence[Message], times: int) -> list[Message]:
    """A history said several times, each time with ids of its own."""
    said = [json.dumps(list(messages)).replace('"call_', f'"call_{number}x') for number in range(times)]
    return [message for text in said for message in json.loads(text)]


@few
@given(long_histories(), windows, leaf_sizes, st.integers(1, 4))
@example(
    [user("a" * 9_000), assistant("", [call("x", "{}", id="c"), call("y", "{", id="c")]), tool("c", "")], 1_000, 200, 4
)
@example(MOVED, 1_000, 200, 1)
def test_every_node_opened_to_the_bottom_gives_the_exact_messages_in_their_order(
    messages: list[Message], window: int, leaf: int, times: int
) -> None:
    async def run(folder: Path) -> None:
        async with projected(folder, window, leaf) as conversation:
            sent = grown(messages, times)
            await conversation.fit(sent)
            await conversation.compact()
            rows, _, shown = await rows_and_nodes(conversation)
            assert rows == exact(sent)
            store, session = store_of(conversation), conversation.session
            assert session is not None
            for node in await store.nodes(session):
                read = exact(await opened(conversation, node.name))
                assert read == rows[node.first : node.last], node.name
            assert (await tool_call(conversation, "lcm_status"))["problems"] == []
            # Whether each text is found by its own words is a matter of the index, not of the map.
            assert [problem for problem in await store.check() if problem.kind != "index"] == []
            if shown:
                read = [message for id in shown for message in exact(await opened(conversation, id))]
                covered = await store.shown_nodes(session)
                assert read == rows[covered[0].first : covered[-1].last]

    in_folder(run)


@few
@given(long_histories(), st.sampled_from([0, 5, 60]), windows, leaf_sizes)
@example(LEFT_OUT, 0, 4_000, 200)
def test_the_whole_history_sent_again_by_another_process_adds_no_row_and_shows_the_same_bytes(
    messages: list[Message], later: int, window: int, leaf: int
) -> None:
    rounds = [message for n in range(later) for message in (user(f"Question {n}?"), assistant(f"Answer {n}."))]

    async def run(folder: Path) -> None:
        sent = [*grown(messages, 3), *rounds]
        async with projected(folder, window, leaf) as conversation:
            await conversation.fit(sent[: len(sent) - len(rounds)])
            await conversation.compact()
            for end in range(len(sent) - len(rounds) + 1, len(sent) + 1):
                await conversation.fit(sent[:end])
            shown = await conversation.fit(sent)
            before = await rows_and_nodes(conversation)
        for _ in range(2):
            async with projected(folder, window, leaf) as conversation:
                assert exact(await conversation.fit(json.loads(json.dumps(sent)))) == exact(shown)
                assert await rows_and_nodes(conversation) == before
                assert not conversation.is_branch

    in_folder(run)


@few
@given(long_histories(), windows, leaf_sizes)
def test_between_two_folds_each_request_begins_with_the_bytes_of_the_one_before(
    messages: list[Message], window: int, leaf: int
) -> None:
    moved: list[Event] = []

    def on_event(event: Event) -> None:
        is_fold = isinstance(event, CompactionFinished) and event.continued_as is not None
        if is_fold or isinstance(event, CompactionUndone):
            moved.append(event)

    async def run(folder: Path) -> None:
        sent = grown(messages, 4)
        last: list[str] = []
        async with projected(folder, window, leaf, on_event) as conversation:
            for end in range(1, len(sent) + 1):
                moved.clear()
                request = exact(await conversation.fit(sent[:end]))
                if not moved:
                    assert request[: len(last)] == last
                last = request

    in_folder(run)


@few
@given(long_histories(), windows, leaf_sizes, st.integers(0, 400))
@example([user("日本語の長い文章です。" * 3_000)], 1_000, 200, 0)
@example(
    [assistant(None, [call("write", {"content": "x " * 20_000}, id="c")]), tool("c", "y " * 20_000)], 2_000, 200, 9
)
def test_the_request_never_exceeds_its_budget_whatever_the_messages(
    messages: list[Message], window: int, leaf: int, system_words: int
) -> None:
    system = "Keep the walruses fed. " * (system_words // 5)

    async def run(folder: Path) -> None:
        sent = grown(messages, 3)
        async with projected(folder, window, leaf) as conversation:
            prompt: Message = {"role": "system", "content": system}
            limit = threshold_for(window, 1.0, None)
            for end in sorted({len(sent) // 3, len(sent) // 2, len(sent)} - {0}):
                request = await conversation.fit(sent[:end], prompt=prompt if system else None)
                size = count_tokens(request, system=system or None, model=MODEL)
                fixed = count_tokens([], system=system or None, tools=list(TOOLS), model=MODEL)
                # What cannot be sent at all, and a prompt that leaves no room beside the engine's tools, are told
                # apart; calls that wait for their results stay whole.
                if repair(sent[:end]).repairs or limit - fixed < 300:
                    continue
                assert size <= limit, (size, limit, len(request))

    in_folder(run)
