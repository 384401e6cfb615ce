"""Which schemas go with a request: all of them, or those in use where they would fill the window."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clew.agent import AgentTool, CallContext, Toolbox, ToolResult
from clew.agent.toolbox import CACHE_SECONDS, MORE_TOOLS, UNUSED_ROUNDS
from clew.agent.tools import Arguments, function_schema
from clew.messages import Tool
from clew.testing import assistant, call, user
from clew.testing.scripted import ScriptedProvider
from clew.turn import receive
from tests.support.flow import SESSION, Flow, flow_with

WORDS = "does many things that take a while to describe and may be of use one day "


class Wordy(AgentTool):
    """A tool with a long description."""

    def __init__(self, name: str, words: int = 10) -> None:
        self.name = name
        self.schema = function_schema(name, f"{name} {WORDS * words}", {})

    async def run(self, arguments: Arguments, call: CallContext) -> ToolResult:
        return ToolResult("done")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def names(schemas: Sequence[Tool]) -> list[str]:
    return [schema["function"]["name"] for schema in schemas]


async def rounds(toolbox: Toolbox, flow: Flow, many: int) -> None:
    for _ in range(many):
        await toolbox.schemas_for(flow.runtime, SESSION)
        toolbox.record_calls(SESSION, [call("used")])


def toolbox_with(clock: Clock) -> Toolbox:
    return Toolbox([Wordy("used"), Wordy("idle"), Wordy("other")], clock)


async def test_below_a_tenth_of_the_window_all_are_sent_however_long_unused(tmp_path: Path) -> None:
    clock = Clock()
    toolbox = toolbox_with(clock)
    async with flow_with(ScriptedProvider(), tmp_path, window=200_000) as flow:
        await rounds(toolbox, flow, UNUSED_ROUNDS + 5)
        clock.now += 2 * CACHE_SECONDS
        assert names(await toolbox.schemas_for(flow.runtime, SESSION)) == ["used", "idle", "other"]


async def test_a_hot_prefix_is_never_moved_and_a_cold_one_leaves_out_what_was_long_unused(tmp_path: Path) -> None:
    clock = Clock()
    toolbox = toolbox_with(clock)
    async with flow_with(ScriptedProvider(), tmp_path, window=4_000) as flow:
        first = await toolbox.schemas_for(flow.runtime, SESSION)
        await rounds(toolbox, flow, UNUSED_ROUNDS + 5)
        assert await toolbox.schemas_for(flow.runtime, SESSION) is first
        clock.now += 2 * CACHE_SECONDS
        assert names(await toolbox.schemas_for(flow.runtime, SESSION)) == ["used", MORE_TOOLS]
        again = Toolbox(toolbox.tools, clock)
        assert names(await again.schemas_for(flow.runtime, SESSION)) == ["used", MORE_TOOLS]


async def test_a_compaction_leaves_out_only_where_that_saves_more_than_it_costs(tmp_path: Path) -> None:
    for folder, sizes, left in (("cheap", (30, 1, 1), []), ("dear", (1, 30, 30), ["idle", "other"])):
        clock = Clock()
        toolbox = Toolbox([Wordy(n, w) for n, w in zip(("used", "idle", "other"), sizes, strict=True)], clock)
        async with flow_with(ScriptedProvider(), tmp_path / folder, window=4_000) as flow:
            for number in range(8):
                long = f"{number} " + "something was said about it " * 40
                await receive(flow.runtime, SESSION, [user(long), assistant(long)])
            await rounds(toolbox, flow, UNUSED_ROUNDS + 5)
            await flow.compact()
            sent = names(await toolbox.schemas_for(flow.runtime, SESSION))
            assert sent == [n for n in ("used", "idle", "other") if n not in left] + ([MORE_TOOLS] if left else [])


async def test_the_model_can_bring_back_what_was_left_out(tmp_path: Path) -> None:
    clock = Clock()
    toolbox = toolbox_with(clock)
    async with flow_with(ScriptedProvider(), tmp_path, window=4_000) as flow:
        await rounds(toolbox, flow, UNUSED_ROUNDS + 5)
        clock.now += 2 * CACHE_SECONDS
        offered = await toolbox.schemas_for(flow.runtime, SESSION)
        assert "idle: idle does many things" in offered[-1]["function"]["description"]
        more = toolbox.find(MORE_TOOLS)
        assert more is not None
        told = await more.run({"names": ["idle", "nonsense"]}, CallContext(SESSION, "c1"))
        assert told.text == "Back from the next request on: idle."
        assert names(await toolbox.schemas_for(flow.runtime, SESSION)) == ["used", "idle", MORE_TOOLS]
        assert (await more.run({"names": ["used"]}, CallContext(SESSION, "c2"))).is_error
        # The very same bytes after a restart.
        again = Toolbox(toolbox.tools, clock)
        assert await again.schemas_for(flow.runtime, SESSION) == await toolbox.schemas_for(flow.runtime, SESSION)


async def test_what_a_request_has_cached_since_the_compaction_is_not_moved_for_a_small_saving(tmp_path: Path) -> None:
    for folder, is_sent, left in (("before", False, ["idle", "other"]), ("behind", True, [])):
        toolbox = Toolbox([Wordy("used", 20), Wordy("idle", 6), Wordy("other", 6)], Clock())
        async with flow_with(ScriptedProvider(), tmp_path / folder, window=4_000) as flow:
            for number in range(8):
                long = f"{number} " + "something was said about it " * 40
                await receive(flow.runtime, SESSION, [user(long), assistant(long)])
            await rounds(toolbox, flow, UNUSED_ROUNDS + 5)
            await flow.compact()
            live = await flow.runtime.conversation(SESSION)
            live.view.last_prompt_tokens = 1_000 if is_sent else 0
            sent = names(await toolbox.schemas_for(flow.runtime, SESSION))
            assert sent == [n for n in ("used", "idle", "other") if n not in left] + ([MORE_TOOLS] if left else [])
