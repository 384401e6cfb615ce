"""The whole contract of context engines: the suite that ships, and what only our own engines are put through."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

from clew.engines import ContextEngine, SessionStart, account_problems, broken_promises
from clew.handoff import Summary, SummaryInput
from clew.messages import Message, Part
from clew.testing import EngineContract, assistant, call, system, tool, user
from clew.testing.engine_contract import (
    PROMPT,
    WINDOW,
    compressed,
    listed,
    long_histories,
    one_round,
    reading_call,
    rounds,
    state_and_status,
    through_json,
)
from clew.tokens import count_tokens
from clew.usage import CanonicalUsage
from tests.support.engines import MemoryEngineHost


class WholeEngineContract(EngineContract):
    """Inherit, say how the engine is made, and let pytest run it."""

    def long_histories(self) -> dict[str, list[Message]]:
        return {
            **super().long_histories(),
            "talk without tools": [system(PROMPT), *_talk(60)],
            "Chinese": [system("你负责看守灯塔。回答要简短。"), *_chinese_rounds(24)],
            "thinking": [system(PROMPT), *_thinking_rounds(24)],
            "the prompt in blocks": [_prompt_in_blocks(), *rounds(24)],
        }

    def small_histories(self) -> dict[str, list[Message]]:
        return {**super().small_histories(), "Chinese": [system("你负责看守灯塔。"), *_chinese_rounds(16, lines=2)]}

    def test_the_status_follows_the_real_prompt(self) -> None:
        engine = self.engine()
        usage = CanonicalUsage(input_tokens=100, cache_read_tokens=700, cache_write_tokens=200, output_tokens=50)
        engine.update_from_response(usage)
        status = engine.get_status()
        assert status.last_prompt_tokens == 1_000, f"the prompt had 1,000 tokens, cached ones included: {status}"
        assert status.percent == 100 * 1_000 / WINDOW, f"{status.percent}% of {WINDOW}"

    def test_asking_whether_to_compress_changes_nothing(self) -> None:
        engine = self.engine()
        for _ in range(2):
            before = state_and_status(engine)
            for tokens in (None, 0, engine.get_status().threshold_tokens, 100 * WINDOW):
                engine.should_compress(tokens)
                assert state_and_status(engine) == before, (
                    f"should_compress({tokens}): {before} -> {state_and_status(engine)}"
                )
            compressed(engine, long_histories()["tool rounds"])

    def test_a_smaller_window_can_fire_at_once(self) -> None:
        engine = self.engine(200_000)
        engine.update_from_response(CanonicalUsage(input_tokens=30_000))
        assert not engine.should_compress(), "30,000 of 200,000"
        engine.update_model("smaller-model", 16_000)
        assert engine.should_compress(), "30,000 tokens no longer fit into 16,000"

    def test_it_sees_that_long_conversations_have_something_to_fold(self) -> None:
        for name, messages in self.long_histories().items():
            if name != "a huge result":  # a matter of taste: few messages, of which one is large
                assert self.engine().has_content_to_compress(messages), f"{name}: {len(messages)} messages"

    def test_broken_conversations_do_not_raise(self) -> None:
        for name, messages in _broken_histories().items():
            as_it_was = copy.deepcopy(messages)
            engine = self.engine()
            engine.observe(messages)
            engine.has_content_to_compress(messages)
            done = compressed(engine, messages)
            assert messages == as_it_was, f"{name}: the input was changed"
            assert count_tokens(done.messages) <= count_tokens(messages), f"{name}: the result is larger"
            problems = account_problems(messages, done)
            assert not problems, f"{name}: {listed(problems)}"

    def test_the_callers_figure_is_the_size_before(self) -> None:
        messages = long_histories()["tool rounds"]
        done = compressed(self.engine(), messages, current_tokens=50_000)
        assert done.tokens_before == 50_000, f"current_tokens=50000 was given, tokens_before is {done.tokens_before}"
        freed = count_tokens(messages) - count_tokens(done.messages)
        assert done.tokens_after == 50_000 - freed, f"{freed} tokens were freed; tokens_after={done.tokens_after}"

    def test_a_summary_by_a_model_keeps_every_promise_too(self) -> None:
        messages = long_histories()["tool rounds"]
        self.kept_promises("with a summariser", messages, summarize=_summarize)

    def test_every_step_of_a_session_passes_without_an_error(self) -> None:
        messages = long_histories()["tool rounds"]
        for host in (None, MemoryEngineHost(messages)):
            engine = self.engine()
            engine.on_session_start(SessionStart("first", host=host))
            engine.observe(messages)
            done = compressed(engine, messages)
            if host is not None:
                host.publish(done)
            engine.on_session_end("first")
            state = through_json("state", engine.state)
            engine.on_session_start(SessionStart("second", continues="first", state=state, host=host))
            self._still_usable(engine)
            engine.on_session_end("second")

    def test_a_state_of_another_version_does_not_raise(self) -> None:
        engine = self.engine()
        engine.on_session_start(SessionStart("first", state={"written_by_a_later_version": [1, {"a": None}]}))
        self._still_usable(engine)

    def test_a_cancelled_compaction_leaves_it_usable(self) -> None:
        for steps in (0, 1, 5):
            writer = _SlowWriter()
            engine = self.engine(summarize=writer)
            asyncio.run(_cancel_after(engine, long_histories()["tool rounds"], steps))
            writer.is_slow = False
            before = engine.get_status().compactions
            self._still_usable(engine)
            assert engine.get_status().compactions == before + 1, "a compaction after a cancelled one is not counted"

    def _still_usable(self, engine: ContextEngine) -> None:
        messages = long_histories()["parallel calls"]
        done = compressed(engine, messages)
        problems = broken_promises(messages, done)
        assert done.changed and not problems, f"no longer usable: {listed(problems) or 'nothing changed'}"


async def _cancel_after(engine: ContextEngine, messages: list[Message], steps: int) -> None:
    task = asyncio.ensure_future(engine.compress(messages, force=True))
    for _ in range(steps):
        await asyncio.sleep(0)
    was_done = task.done()
    task.cancel()
    await asyncio.wait([task], timeout=30)
    assert was_done or task.cancelled(), "a compaction that is cancelled must end with CancelledError"


class _SlowWriter:
    """A summariser that does not come back for as long as it is slow."""

    def __init__(self) -> None:
        self.is_slow = True

    async def __call__(self, source: SummaryInput, budget: int) -> Summary:
        if self.is_slow:
            await asyncio.Event().wait()
        return await _summarize(source, budget)


async def _summarize(source: SummaryInput, budget: int) -> Summary:
    del budget
    text = f"## Active task\nNone.\n\n## Goal\n- Messages {source.first} to {source.last} were about the oil.\n"
    return Summary(text, written_by="a fake", template="fake 1")


def _broken_histories() -> dict[str, list[Message]]:
    """Conversations with broken messages between valid rounds; each can be repaired."""
    broken: dict[str, list[Any]] = {
        "content is None": [{"role": "user", "content": None}, {"role": "assistant", "content": None}],
        "content is missing": [{"role": "user"}, {"role": "assistant"}],
        "empty lists": [{"role": "user", "content": []}, {"role": "assistant", "content": [], "tool_calls": []}],
        "a result for no call": [tool("never_called", "found nothing")],
        "a call with no result": [assistant(None, [reading_call("lost")]), user("go on")],
        "broken arguments": [assistant(None, [call("read", '{"path": "lam', id="cut")]), tool("cut", "no such file")],
        "a repeated id": [*one_round(900, 2), *one_round(900, 2)],
        "a lone surrogate": [user("the lamp \ud83d is out")],
        "two system prompts": [system("Speak Latin."), user("quid?")],
        "one role again and again": [user("and"), user("and"), user("and"), assistant("yes"), assistant("yes")],
    }
    return {name: [system(PROMPT), *rounds(8), *middle, *rounds(8, 50)] for name, middle in broken.items()}


def _talk(count: int) -> list[Message]:
    messages: list[Message] = []
    for number in range(count):
        asked = f"Question {number}: what does paragraph {number} of the keeper's handbook say about shutters and wind?"
        stated = f"Paragraph {number} says that at {number} knots the shutter is closed by {number} degrees. " * 5
        messages += [user(asked), assistant(stated)]
    return messages


def _chinese_rounds(count: int, lines: int = 10) -> list[Message]:
    messages: list[Message] = []
    for number in range(count):
        log = "".join(f"第{number}夜第{line}小时：灯亮着，北风{line}级，油还剩{number}升。\n" for line in range(lines))
        messages += [
            user(f"请检查第{number}夜的记录，不要熄灭灯。"),
            assistant(None, [reading_call(f"zh_{number}", f"记录/第{number}夜.txt")]),
            tool(f"zh_{number}", log),
            assistant(f"第{number}夜油量偏低，只剩{number}升。"),
        ]
    return messages


def _thinking_rounds(count: int) -> list[Message]:
    messages = rounds(count)
    for number, message in enumerate(messages):
        if message["role"] == "assistant":
            thought: Part = {"type": "thinking", "thinking": f"step {number}: the log first", "signature": f"s{number}"}
            message["reasoning"] = [thought]
    return messages


def _prompt_in_blocks() -> Message:
    return {"role": "system", "content": [{"type": "text", "text": PROMPT}, {"type": "text", "text": "Log in UTC."}]}
