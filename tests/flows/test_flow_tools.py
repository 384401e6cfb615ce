"""Tool results on their way into the history: bounded, kept whole elsewhere, and always beside their calls."""

from __future__ import annotations

from pathlib import Path

from clew.events import Notice, OutputSpilled
from clew.messages import NO_RESULT, text_of
from clew.store import SearchScope
from clew.testing import call, system, tool, user
from clew.testing.scripted import ScriptedProvider, calls
from clew.tooloutput import ToolOutputLimits, is_persisted_block
from tests.support.flow import SESSION, answers, flow_with
from tests.support.groups import calls_have_results

PREVIEW = ToolOutputLimits().preview_chars
_MEDIUM = (("a", "alpha", 70_000), ("b", "beta", 95_000), ("c", "gamma", 75_000))


def lines(word: str, chars: int) -> str:
    return "\n".join(f"{n} {word}" for n in range(chars // (len(word) + 6)))


async def test_a_large_result_is_on_disk_and_in_the_index_and_a_block_stands_for_it(tmp_path: Path) -> None:
    provider = ScriptedProvider(calls(call("terminal", {"command": "make"}, id="c1")), answers("It failed."))
    log = lines("compiling", 120_000) + "\nfatal: zanzibar missing"
    async with flow_with(provider, tmp_path, window=200_000) as flow:
        await flow.turn(user("Build it."))
        await flow.turn(tool("c1", log))
        seen = text_of(provider.requests[1].messages[-1])
        assert is_persisted_block(seen, PREVIEW)
        assert len(seen) < 5_000
        assert flow.events_of(OutputSpilled) == [OutputSpilled(SESSION, "terminal", len(log))]
        files = list((tmp_path / "outputs").glob("*.txt"))
        assert [file.read_text() for file in files] == [log]
        found = await flow.store.search("zanzibar", SearchScope())
        assert found.groups
        assert text_of((await flow.view())[2]) == seen


async def test_of_three_medium_results_over_the_turns_budget_the_largest_go_to_disk(tmp_path: Path) -> None:
    asked = [call("terminal", {"command": name}, id=name) for name in ("a", "b", "c")]
    provider = ScriptedProvider(calls(*asked), answers("All read."))
    async with flow_with(provider, tmp_path, window=400_000) as flow:
        await flow.turn(user("Run all three."))
        results = [tool(name, lines(word, size)) for name, word, size in _MEDIUM]
        await flow.turn(*results)
        seen = [text_of(message) for message in provider.requests[1].messages[-3:]]
        assert [is_persisted_block(text, PREVIEW) for text in seen] == [False, True, False]
        assert sum(map(len, seen)) <= 200_000


async def test_reading_a_file_is_never_spilled_for_its_length(tmp_path: Path) -> None:
    provider = ScriptedProvider(calls(call("read_file", {"path": "x"}, id="c1")), answers("Read."))
    async with flow_with(provider, tmp_path, window=400_000) as flow:
        await flow.turn(user("Read x."))
        await flow.turn(tool("c1", lines("word", 120_000)))
        assert not flow.events_of(OutputSpilled)
        assert len(text_of(provider.requests[1].messages[-1])) > 100_000


async def test_small_windows_have_small_limits(tmp_path: Path) -> None:
    provider = ScriptedProvider(calls(call("terminal", {}, id="c1")), answers("Ok."))
    async with flow_with(provider, tmp_path, window=8_000) as flow:
        await flow.turn(user("Run."))
        await flow.turn(tool("c1", lines("word", 9_000)))
        assert len(flow.events_of(OutputSpilled)) == 1


async def test_calls_that_nobody_answered_get_a_stub_when_the_person_goes_on(tmp_path: Path) -> None:
    asked = [call("terminal", {}, id="c1"), call("terminal", {}, id="c2")]
    provider = ScriptedProvider(calls(*asked), answers("All right."))
    async with flow_with(provider, tmp_path) as flow:
        await flow.turn(user("Run both."))
        await flow.turn(tool("c1", "one"), user("Stop, do something else."))
        request = provider.requests[1]
        assert calls_have_results(request.messages)
        assert [text_of(message) for message in request.messages[-3:]] == ["one", NO_RESULT, "Stop, do something else."]
        assert any("repaired" in notice.text for notice in flow.events_of(Notice))


async def test_what_is_injected_is_seen_in_its_turn_and_never_enters_the_history(tmp_path: Path) -> None:
    provider = ScriptedProvider(answers("First."), answers("Second."))
    async with flow_with(provider, tmp_path) as flow:
        await flow.turn(user("one"), inject=[system("Today is a Tuesday.")])
        await flow.turn(user("two"))
        assert text_of(provider.requests[0].messages[-1]) == "Today is a Tuesday."
        assert [text_of(message) for message in provider.requests[1].messages[1:]] == ["one", "First.", "two"]
        assert [text_of(message) for message in await flow.view()] == ["one", "First.", "two", "Second."]
        assert flow.checker.checked == 1


async def test_the_same_object_sent_twice_is_two_messages(tmp_path: Path) -> None:
    provider = ScriptedProvider(answers("Yes."), answers("Yes, again."))
    again = user("go on")
    async with flow_with(provider, tmp_path) as flow:
        await flow.turn(again)
        await flow.turn(again)
        conversation = await flow.runtime.conversation(SESSION)
        assert len({id(message) for message in conversation.messages}) == 4


async def test_claude_gets_breakpoints_before_what_is_injected_and_openai_a_stable_key(tmp_path: Path) -> None:
    provider = ScriptedProvider(answers("a"), answers("b"), name="anthropic")
    async with flow_with(provider, tmp_path / "claude", model="claude-sonnet-4-5") as flow:
        await flow.turn(user("one"), inject=[user("just now")])
        await flow.turn(user("two"))
        marked = [m for m in provider.requests[0].messages if "cache_control" in str(m)]
        assert [text_of(message) for message in marked] == ["You are a careful assistant.", "one"]
        assert flow.checker.checked == 1
    provider = ScriptedProvider(answers("a"), answers("b"), name="openai")
    async with flow_with(provider, tmp_path / "openai", model="gpt-5") as flow:
        await flow.turn(user("one"))
        await flow.turn(user("two"))
        keys = {request.cache_key for request in provider.requests}
        assert len(keys) == 1
        assert None not in keys
