"""The contract suite of context engines: what a host relies on, as tests that any engine can be put through.

    class TestMyEngine(EngineContract):
        def make_engine(self, setup: EngineSetup) -> ContextEngine:
            return MyEngine(setup)

Run it with pytest; nothing else is needed. Each test names the conversation on which a promise was broken.
"""

from __future__ import annotations

import asyncio
import copy
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from clew.engines import (
    Compaction,
    ContextEngine,
    EngineSetup,
    EngineStatus,
    SessionStart,
    account_problems,
    broken_promises,
)
from clew.handoff import Summarize, Summary, SummaryInput
from clew.messages import Message, Part
from clew.plugins import valid_name
from clew.testing.messages import assistant, call, system, tool, user
from clew.testing.plain_engine import MemoryEngineHost
from clew.tokens import count_tokens
from clew.usage import CanonicalUsage

WINDOW = 8_000
"""A window that each of the long conversations exceeds."""
SMALL_WINDOW = 2_000

_PROMPT = "You look after a lighthouse. Be brief, and never put out the lamp."
_LOG = "03:{n:02d} lamp on, shutter {n}, wind north {n} knots, oil at {n} litres, nothing else to report tonight.\n"
_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}", re.ASCII)
_SAMPLES: dict[str, Any] = {
    "string": "oil",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "array": [],
    "object": {},
    "null": None,
}
_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

WINDOWS = (2_000, 4_096, 8_192, 32_768, 131_072, 200_000, 1_000_000)


class EngineContract:
    """Inherit, say how the engine is made, and let pytest run it."""

    deterministic: ClassVar[bool] = True
    """Whether the same messages give the same result every time; False for an engine that asks a model by itself."""

    def make_engine(self, setup: EngineSetup) -> ContextEngine:
        """The engine under test."""
        raise NotImplementedError("say how your engine is made: def make_engine(self, setup): return MyEngine(setup)")

    # What it is called, and what it shows

    def test_its_name_can_stand_in_a_config(self) -> None:
        name = self._engine().name
        assert valid_name(name), f"name = {name!r}; small letters, digits, - and _ are allowed"

    def test_a_new_engine_shows_its_window_and_no_past(self) -> None:
        status = self._engine().get_status()
        assert status.context_length == WINDOW, f"{status} was made for a window of {WINDOW}"
        assert 0 < status.threshold_tokens <= WINDOW, f"the threshold must lie within the window: {status}"
        assert (status.last_prompt_tokens, status.compactions, status.paused) == (0, 0, None), f"a new one has {status}"

    def test_the_status_follows_the_real_prompt(self) -> None:
        engine = self._engine()
        usage = CanonicalUsage(input_tokens=100, cache_read_tokens=700, cache_write_tokens=200, output_tokens=50)
        engine.update_from_response(usage)
        status = engine.get_status()
        assert status.last_prompt_tokens == 1_000, f"the prompt had 1,000 tokens, cached ones included: {status}"
        assert status.percent == 100 * 1_000 / WINDOW, f"{status.percent}% of {WINDOW}"

    def test_only_compactions_that_changed_something_are_counted(self) -> None:
        engine = self._engine()
        for messages in _short_histories().values():
            _compress(engine, messages)
        assert engine.get_status().compactions == 0, "nothing was compacted, but it is counted"
        done = _compress(engine, _long_histories()["tool rounds"])
        assert engine.get_status().compactions == int(done.changed), "one compaction, one more in the count"

    # When

    def test_it_fires_at_the_threshold_and_not_below(self) -> None:
        engine = self._engine()
        threshold = engine.get_status().threshold_tokens
        assert engine.should_compress(threshold), f"prompt_tokens >= {threshold} must fire"
        assert not engine.should_compress(threshold - 1), f"{threshold - 1} is below the threshold of {threshold}"

    def test_without_a_figure_the_last_real_prompt_counts(self) -> None:
        engine = self._engine()
        assert not engine.should_compress(), "nothing was sent yet"
        threshold = engine.get_status().threshold_tokens
        engine.update_from_response(CanonicalUsage(input_tokens=10, cache_read_tokens=threshold - 10))
        assert engine.should_compress(), "tokens from the cache fill the window like others"
        engine.update_from_response(CanonicalUsage(input_tokens=threshold - 1))
        assert not engine.should_compress(), "the last reply is below the threshold"

    def test_output_and_reasoning_never_fire(self) -> None:
        engine = self._engine()
        threshold = engine.get_status().threshold_tokens
        engine.update_from_response(
            CanonicalUsage(input_tokens=threshold - 1, output_tokens=WINDOW, reasoning_tokens=WINDOW)
        )
        assert not engine.should_compress(), "what a model wrote does not sit in the next prompt as a whole"

    def test_asking_whether_to_compress_changes_nothing(self) -> None:
        engine = self._engine()
        for _ in range(2):
            before = _state_and_status(engine)
            for tokens in (None, 0, engine.get_status().threshold_tokens, 100 * WINDOW):
                engine.should_compress(tokens)
                assert _state_and_status(engine) == before, (
                    f"should_compress({tokens}): {before} -> {_state_and_status(engine)}"
                )
            _compress(engine, _long_histories()["tool rounds"])

    def test_the_threshold_rises_with_the_window_and_stays_inside(self) -> None:
        engine = self._engine()
        thresholds = []
        for window in WINDOWS:
            engine.update_model("some-model", window)
            status = engine.get_status()
            assert status.context_length == window, f"update_model said {window}: {status}"
            assert 0 < status.threshold_tokens <= window, f"{status}"
            thresholds.append(status.threshold_tokens)
        assert thresholds == sorted(thresholds), f"windows {WINDOWS} have thresholds {thresholds}: they must rise"
        assert thresholds[0] < thresholds[-1], f"the threshold is {thresholds[0]} for every window"

    def test_a_smaller_window_can_fire_at_once(self) -> None:
        engine = self._engine(200_000)
        engine.update_from_response(CanonicalUsage(input_tokens=30_000))
        assert not engine.should_compress(), "30,000 of 200,000"
        engine.update_model("smaller-model", 16_000)
        assert engine.should_compress(), "30,000 tokens no longer fit into 16,000"

    # What a compaction leaves

    def test_long_conversations_become_shorter_and_keep_every_promise(self) -> None:
        for name, messages in _long_histories().items():
            done = self._kept_promises(name, messages)
            assert done.changed, f"{name}: {count_tokens(messages):,} tokens in a window of {WINDOW:,}; nothing changed"
            assert done.tokens_after < done.tokens_before, f"{name}: {done.tokens_before} -> {done.tokens_after}"

    def test_it_works_in_a_window_of_2000_tokens(self) -> None:
        for name, messages in _small_histories().items():
            done = self._kept_promises(name, messages, SMALL_WINDOW)
            assert done.changed, f"{name}: {count_tokens(messages):,} tokens in {SMALL_WINDOW:,}; nothing changed"

    def test_where_there_is_nothing_to_fold_nothing_changes(self) -> None:
        for name, messages in _short_histories().items():
            engine = self._engine()
            assert not engine.has_content_to_compress(messages), f"{name}: there is nothing between head and tail"
            done = _compress(engine, messages)
            assert not done.changed, f"{name}: changed to {done.messages}"
            assert list(done.messages) == messages, f"{name}: not marked as changed, but it is"

    def test_it_sees_that_long_conversations_have_something_to_fold(self) -> None:
        for name, messages in _long_histories().items():
            if name != "a huge result":  # a matter of taste: few messages, of which one is large
                assert self._engine().has_content_to_compress(messages), f"{name}: {len(messages)} messages"

    def test_broken_conversations_do_not_raise(self) -> None:
        for name, messages in _broken_histories().items():
            as_it_was = copy.deepcopy(messages)
            engine = self._engine()
            engine.observe(messages)
            engine.has_content_to_compress(messages)
            done = _compress(engine, messages)
            assert messages == as_it_was, f"{name}: the input was changed"
            assert count_tokens(done.messages) <= count_tokens(messages), f"{name}: the result is larger"
            problems = account_problems(messages, done)
            assert not problems, f"{name}: {_listed(problems)}"

    def test_the_input_is_never_changed(self) -> None:
        for name, messages in _long_histories().items():
            as_it_was = copy.deepcopy(messages)
            engine = self._engine()
            engine.observe(messages)
            engine.has_content_to_compress(messages)
            _compress(engine, messages, focus_topic="the oil")
            assert messages == as_it_was, f"{name}: the messages that were handed in have changed"

    def test_the_callers_figure_is_the_size_before(self) -> None:
        messages = _long_histories()["tool rounds"]
        done = _compress(self._engine(), messages, current_tokens=50_000)
        assert done.tokens_before == 50_000, f"current_tokens=50000 was given, tokens_before is {done.tokens_before}"
        freed = count_tokens(messages) - count_tokens(done.messages)
        assert done.tokens_after == 50_000 - freed, f"{freed} tokens were freed; tokens_after={done.tokens_after}"

    def test_again_and_again_it_keeps_its_promises(self) -> None:
        engine = self._engine()
        messages = _long_histories()["tool rounds"]
        for number in range(5):
            done = _compress(engine, messages)
            problems = broken_promises(messages, done)
            assert not problems, f"compaction {number + 1}: {_listed(problems)}"
            messages = [*done.messages, *_next_rounds(number)]

    def test_the_same_messages_give_the_same_result(self) -> None:
        if not self.deterministic:
            return
        for name, messages in _long_histories().items():
            first, second = (_compress(self._engine(), copy.deepcopy(messages)) for _ in range(2))
            assert _written(first.messages) == _written(second.messages), f"{name}: two results"

    def test_a_summary_by_a_model_keeps_every_promise_too(self) -> None:
        messages = _long_histories()["tool rounds"]
        self._kept_promises("with a summariser", messages, summarize=_summarize)

    def test_every_part_of_the_account_can_be_stored(self) -> None:
        done = _compress(self._engine(), _long_histories()["tool rounds"])
        _through_json("records", done.records)
        assert all(isinstance(warning, str) for warning in done.warnings), f"warnings: {done.warnings!r}"
        assert done.summary is None or isinstance(done.summary, str), f"summary: {done.summary!r}"

    # State

    def test_a_compaction_changes_nothing_in_the_engine_until_it_is_in_effect(self) -> None:
        engine = self._engine()
        engine.on_session_start(SessionStart("first"))
        before = _state_and_status(engine)
        done = asyncio.run(engine.compress(_long_histories()["tool rounds"], force=True))
        assert _state_and_status(engine) == before, (
            f"compress: {before} -> {_state_and_status(engine)}; use Compaction.state"
        )
        engine.restore(None)
        assert _state_and_status(engine) == before, f"restore(None): {before} -> {_state_and_status(engine)}"
        engine.restore(done.state)
        assert engine.get_status().compactions == 1, f"Compaction.state = {done.state} counts no compaction"

    def test_a_reset_forgets_the_past(self) -> None:
        engine = self._engine()
        engine.on_session_start(SessionStart("first"))
        _compress(engine, _long_histories()["tool rounds"])
        engine.update_from_response(CanonicalUsage(input_tokens=WINDOW))
        engine.on_session_reset()
        status = engine.get_status()
        assert (status.last_prompt_tokens, status.compactions, status.paused) == (0, 0, None), (
            f"after a reset: {status}"
        )
        assert not engine.should_compress(), "after a reset nothing was sent yet"

    def test_every_step_of_a_session_passes_without_an_error(self) -> None:
        messages = _long_histories()["tool rounds"]
        for host in (None, MemoryEngineHost(messages)):
            engine = self._engine()
            engine.on_session_start(SessionStart("first", host=host))
            engine.observe(messages)
            done = _compress(engine, messages)
            if host is not None:
                host.publish(done)
            engine.on_session_end("first")
            state = _through_json("state", engine.state)
            engine.on_session_start(SessionStart("second", continues="first", state=state, host=host))
            self._still_usable(engine)
            engine.on_session_end("second")

    def test_its_state_is_json_and_outlives_a_restart(self) -> None:
        engine = self._engine()
        engine.on_session_start(SessionStart("first"))
        done = _compress(engine, _long_histories()["tool rounds"])
        kept = _through_json("state", engine.state)
        if done.state is not None:
            assert _through_json("Compaction.state", done.state) == kept, f"{done.state} was restored as {kept}"
        restarted = self._engine()
        restarted.on_session_start(SessionStart("first", state=kept))
        assert _state_and_status(restarted)[0] == kept, f"{kept} became {dict(restarted.state)} in a new process"
        compactions = restarted.get_status().compactions
        assert compactions == engine.get_status().compactions, f"a new process counts {compactions} compactions"

    def test_a_state_of_another_version_does_not_raise(self) -> None:
        engine = self._engine()
        engine.on_session_start(SessionStart("first", state={"written_by_a_later_version": [1, {"a": None}]}))
        self._still_usable(engine)

    def test_a_cancelled_compaction_leaves_it_usable(self) -> None:
        for steps in (0, 1, 5):
            writer = _SlowWriter()
            engine = self._engine(summarize=writer)
            asyncio.run(_cancel_after(engine, _long_histories()["tool rounds"], steps))
            writer.is_slow = False
            before = engine.get_status().compactions
            self._still_usable(engine)
            assert engine.get_status().compactions == before + 1, "a compaction after a cancelled one is not counted"

    # Tools

    def test_its_tool_schemas_are_valid(self) -> None:
        schemas = self._engine().get_tool_schemas()
        problems = [problem for schema in schemas if (problem := _problem_with_schema(schema))]
        assert not problems, "; ".join(problems)
        names = [_tool_name(schema) for schema in schemas]
        assert len(set(names)) == len(names), f"two tools of one name: {names}"

    def test_each_of_its_tools_answers(self) -> None:
        engine = self._engine()
        engine.on_session_start(SessionStart("first"))
        _compress(engine, _long_histories()["tool rounds"])
        for schema in engine.get_tool_schemas():
            for arguments in (_arguments_for(schema), {}):
                answer = asyncio.run(engine.handle_tool_call(_tool_name(schema), arguments))
                assert isinstance(answer, str), f"{_tool_name(schema)}({arguments}) gave {answer!r}; text is expected"

    def test_a_tool_it_does_not_have_is_a_lookup_error(self) -> None:
        try:
            answer = asyncio.run(self._engine().handle_tool_call("no_such_tool", {}))
        except LookupError:
            return
        raise AssertionError(f"a tool that does not exist answered {answer!r}; LookupError is expected")

    # How the tests above are made

    def _engine(self, window: int = WINDOW, summarize: Summarize | None = None) -> ContextEngine:
        return self.make_engine(EngineSetup(context_length=window, summarize=summarize))

    def _kept_promises(
        self, name: str, messages: list[Message], window: int = WINDOW, summarize: Summarize | None = None
    ) -> Compaction:
        done = _compress(self._engine(window, summarize), messages)
        problems = broken_promises(messages, done)
        assert not problems, f"{name}: {_listed(problems)}"
        return done

    def _still_usable(self, engine: ContextEngine) -> None:
        messages = _long_histories()["parallel calls"]
        done = _compress(engine, messages)
        problems = broken_promises(messages, done)
        assert done.changed and not problems, f"no longer usable: {_listed(problems) or 'nothing changed'}"


def _listed(problems: Sequence[str]) -> str:
    more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
    return "; ".join(problems[:5]) + more


def _compress(engine: ContextEngine, messages: list[Message], **more: Any) -> Compaction:
    """Compact as a host does: what came of it is in effect."""
    done = asyncio.run(engine.compress(messages, force=True, **more))
    engine.restore(done.state)
    return done


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


def _through_json(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    try:
        restored: dict[str, Any] = json.loads(json.dumps(dict(values)))
    except (TypeError, ValueError) as error:
        raise AssertionError(f"{name} must be plain JSON values: {error}: {values!r}") from error
    return restored


def _state_and_status(engine: ContextEngine) -> tuple[dict[str, Any], EngineStatus]:
    return _through_json("state", engine.state), engine.get_status()


def _written(messages: Sequence[Message]) -> str:
    return json.dumps(list(messages))


def _tool_name(schema: Mapping[str, Any]) -> str:
    name: str = (schema.get("function") or schema)["name"]
    return name


# -- the conversations ------------------------------------------------------------------------------------------------


def _long_histories() -> dict[str, list[Message]]:
    """Valid conversations, each much larger than a window of `WINDOW` tokens."""
    return {
        "tool rounds": [system(_PROMPT), *_rounds(24)],
        "no system prompt": _rounds(24),
        "parallel calls": [system(_PROMPT), *_parallel_rounds(16)],
        "one request and a long run": [system(_PROMPT), *_single_prompt_run(40)],
        "talk without tools": [system(_PROMPT), *_talk(60)],
        "Chinese": [system("你负责看守灯塔。回答要简短。"), *_chinese_rounds(24)],
        "pictures": [system(_PROMPT), *_picture_rounds(24)],
        "thinking": [system(_PROMPT), *_thinking_rounds(24)],
        "the prompt in blocks": [_prompt_in_blocks(), *_rounds(24)],
        "a huge result": [system(_PROMPT), *_rounds(6), *_round(90, 400), user("And now?")],
        "calls still open": [system(_PROMPT), *_rounds(24), user("Once more."), assistant(None, [_reading("open")])],
    }


def _short_histories() -> dict[str, list[Message]]:
    """Valid conversations in which there is nothing to fold."""
    return {
        "nothing at all": [],
        "a system prompt alone": [system(_PROMPT)],
        "one request": [user("Is the lamp on?")],
        "one exchange": [system(_PROMPT), user("Is the lamp on?"), assistant("It is.")],
    }


def _broken_histories() -> dict[str, list[Message]]:
    """Conversations with broken messages between valid rounds; each can be repaired."""
    broken: dict[str, list[Any]] = {
        "content is None": [{"role": "user", "content": None}, {"role": "assistant", "content": None}],
        "content is missing": [{"role": "user"}, {"role": "assistant"}],
        "empty lists": [{"role": "user", "content": []}, {"role": "assistant", "content": [], "tool_calls": []}],
        "a result for no call": [tool("never_called", "found nothing")],
        "a call with no result": [assistant(None, [_reading("lost")]), user("go on")],
        "broken arguments": [assistant(None, [call("read", '{"path": "lam', id="cut")]), tool("cut", "no such file")],
        "a repeated id": [*_round(900, 2), *_round(900, 2)],
        "a lone surrogate": [user("the lamp \ud83d is out")],
        "two system prompts": [system("Speak Latin."), user("quid?")],
        "one role again and again": [user("and"), user("and"), user("and"), assistant("yes"), assistant("yes")],
    }
    return {name: [system(_PROMPT), *_rounds(8), *middle, *_rounds(8, 50)] for name, middle in broken.items()}


def _small_histories() -> dict[str, list[Message]]:
    """Valid conversations that are larger than a window of `SMALL_WINDOW` tokens."""
    return {
        "tool rounds": [system(_PROMPT), *_rounds(24, lines=2)],
        "Chinese": [system("你负责看守灯塔。"), *_chinese_rounds(16, lines=2)],
    }


def _next_rounds(number: int) -> list[Message]:
    """How a conversation goes on after its n-th compaction."""
    return _rounds(16, first=1_000 * (number + 1))


def _rounds(count: int, first: int = 0, lines: int = 12) -> list[Message]:
    return [message for number in range(first, first + count) for message in _round(number, lines)]


def _round(number: int, lines: int) -> list[Message]:
    return [
        user(f"Read the log of night {number} and tell me what was wrong."),
        assistant(f"I open night {number}.", [_reading(f"call_{number}", f"logs/night_{number}.txt")]),
        tool(f"call_{number}", "".join(_LOG.format(n=number + line) for line in range(lines))),
        assistant(f"Night {number}: the oil stood at {number} litres, which is low."),
    ]


def _parallel_rounds(count: int) -> list[Message]:
    messages: list[Message] = []
    for number in range(count):
        ids = [f"p{number}_{number_of_call}" for number_of_call in range(3)]
        messages += [
            user(f"Compare the three gauges of night {number}."),
            assistant(None, [_reading(id) for id in ids]),
        ]
        messages += [tool(id, "".join(_LOG.format(n=number + line) for line in range(6))) for id in reversed(ids)]
        messages.append(assistant(f"Gauge {number % 3} is off by {number}."))
    return messages


def _single_prompt_run(count: int) -> list[Message]:
    messages = [user("Go through all the logs and list every night on which the oil was low. Do not stop in between.")]
    for number in range(count):
        messages += _round(number, 10)[1:3]
    return messages


def _talk(count: int) -> list[Message]:
    messages: list[Message] = []
    for number in range(count):
        asked = f"Question {number}: what does paragraph {number} of the keeper's handbook say about shutters and wind?"
        told = f"Paragraph {number} says that at {number} knots the shutter is closed by {number} degrees. " * 5
        messages += [user(asked), assistant(told)]
    return messages


def _chinese_rounds(count: int, lines: int = 10) -> list[Message]:
    messages: list[Message] = []
    for number in range(count):
        log = "".join(f"第{number}夜第{line}小时：灯亮着，北风{line}级，油还剩{number}升。\n" for line in range(lines))
        messages += [
            user(f"请检查第{number}夜的记录，不要熄灭灯。"),
            assistant(None, [_reading(f"zh_{number}", f"记录/第{number}夜.txt")]),
            tool(f"zh_{number}", log),
            assistant(f"第{number}夜油量偏低，只剩{number}升。"),
        ]
    return messages


def _picture_rounds(count: int) -> list[Message]:
    messages: list[Message] = []
    for number in range(count):
        picture: Part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_PIXEL}"}}
        said: Part = {"type": "text", "text": f"Here is the lamp on night {number}. Is the glass clean?"}
        messages += [user([said, picture]), assistant(f"On night {number} there is soot on the left pane. " * 12)]
    return messages


def _thinking_rounds(count: int) -> list[Message]:
    messages = _rounds(count)
    for number, message in enumerate(messages):
        if message["role"] == "assistant":
            thought: Part = {"type": "thinking", "thinking": f"step {number}: the log first", "signature": f"s{number}"}
            message["reasoning"] = [thought]
    return messages


def _prompt_in_blocks() -> Message:
    return {"role": "system", "content": [{"type": "text", "text": _PROMPT}, {"type": "text", "text": "Log in UTC."}]}


def _reading(id: str, path: str = "logs/today.txt") -> Any:
    return call("read", {"path": path}, id=id)


def _problem_with_schema(schema: Any) -> str:
    """Why a provider would refuse a tool's definition; nothing where it would not."""
    try:
        json.dumps(schema)
    except (TypeError, ValueError) as error:
        return f"not plain JSON: {error}: {schema!r}"
    if not isinstance(schema, dict):
        return f"a tool is a dict, not {schema!r}"
    inner = schema.get("function", schema)
    if not isinstance(inner, dict) or not isinstance(inner.get("name"), str) or not _TOOL_NAME.fullmatch(inner["name"]):
        return f"its name must be 1 to 64 letters, digits, - and _: {schema!r}"
    if not isinstance(inner.get("description"), str) or not inner["description"].strip():
        return f"{inner['name']}: a description is missing; a model chooses by it"
    parameters = _parameters(schema)
    if parameters.get("type") != "object" or not isinstance(parameters.get("properties", {}), dict):
        return f"{inner['name']}: its parameters must be a JSON schema of an object: {parameters!r}"
    unknown = set(parameters.get("required", ())) - set(parameters.get("properties", {}))
    return f"{inner['name']}: requires {sorted(unknown)}, which are no properties" if unknown else ""


def _arguments_for(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that the definition allows, every property given."""
    return {name: _sample(each) for name, each in _parameters(schema).get("properties", {}).items()}


def _parameters(schema: Mapping[str, Any]) -> dict[str, Any]:
    inner = schema.get("function", schema)
    found = inner.get("parameters") or inner.get("input_schema") or {}
    return found if isinstance(found, dict) else {}


def _sample(schema: Any) -> Any:
    if not isinstance(schema, dict):
        return "oil"
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type", "string")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind in ("integer", "number"):
        return schema.get("minimum", _SAMPLES[kind])
    if kind == "array":
        return [_sample(schema["items"])] if schema.get("items") else []
    if kind == "object":
        return {name: _sample(each) for name, each in schema.get("properties", {}).items()}
    return _SAMPLES.get(kind, "oil")
