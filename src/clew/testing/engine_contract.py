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
    broken_promises,
)
from clew.handoff import Summarize
from clew.messages import Message, Part
from clew.plugins import valid_name
from clew.testing.messages import assistant, call, system, tool, user
from clew.tokens import count_tokens
from clew.usage import CanonicalUsage

WINDOW = 8_000
"""A window that each of the long conversations exceeds."""
SMALL_WINDOW = 2_000

PROMPT = "You look after a lighthouse. Be brief, and never put out the lamp."
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

    def test_its_name_can_stand_in_a_config(self) -> None:
        name = self.engine().name
        assert valid_name(name), f"name = {name!r}; small letters, digits, - and _ are allowed"

    def test_a_new_engine_shows_its_window_and_no_past(self) -> None:
        status = self.engine().get_status()
        assert status.context_length == WINDOW, f"{status} was made for a window of {WINDOW}"
        assert 0 < status.threshold_tokens <= WINDOW, f"the threshold must lie within the window: {status}"
        assert (status.last_prompt_tokens, status.compactions, status.paused) == (0, 0, None), f"a new one has {status}"

    def test_only_compactions_that_changed_something_are_counted(self) -> None:
        engine = self.engine()
        for messages in _short_histories().values():
            compressed(engine, messages)
        assert engine.get_status().compactions == 0, "nothing was compacted, but it is counted"
        done = compressed(engine, long_histories()["tool rounds"])
        assert engine.get_status().compactions == int(done.changed), "one compaction, one more in the count"

    def test_it_fires_at_the_threshold_and_not_below(self) -> None:
        engine = self.engine()
        threshold = engine.get_status().threshold_tokens
        assert engine.should_compress(threshold), f"prompt_tokens >= {threshold} must fire"
        assert not engine.should_compress(threshold - 1), f"{threshold - 1} is below the threshold of {threshold}"

    def test_without_a_figure_the_last_real_prompt_counts(self) -> None:
        engine = self.engine()
        assert not engine.should_compress(), "nothing was sent yet"
        threshold = engine.get_status().threshold_tokens
        engine.update_from_response(CanonicalUsage(input_tokens=10, cache_read_tokens=threshold - 10))
        assert engine.should_compress(), "tokens from the cache fill the window like others"
        engine.update_from_response(CanonicalUsage(input_tokens=threshold - 1))
        assert not engine.should_compress(), "the last reply is below the threshold"

    def test_output_and_reasoning_never_fire(self) -> None:
        engine = self.engine()
        threshold = engine.get_status().threshold_tokens
        engine.update_from_response(
            CanonicalUsage(input_tokens=threshold - 1, output_tokens=WINDOW, reasoning_tokens=WINDOW)
        )
        assert not engine.should_compress(), "what a model wrote does not sit in the next prompt as a whole"

    def test_the_threshold_rises_with_the_window_and_stays_inside(self) -> None:
        engine = self.engine()
        thresholds = []
        for window in WINDOWS:
            engine.update_model("some-model", window)
            status = engine.get_status()
            assert status.context_length == window, f"update_model said {window}: {status}"
            assert 0 < status.threshold_tokens <= window, f"{status}"
            thresholds.append(status.threshold_tokens)
        assert thresholds == sorted(thresholds), f"windows {WINDOWS} have thresholds {thresholds}: they must rise"
        assert thresholds[0] < thresholds[-1], f"the threshold is {thresholds[0]} for every window"

    def test_long_conversations_become_shorter_and_keep_every_promise(self) -> None:
        for name, messages in self.long_histories().items():
            done = self.kept_promises(name, messages)
            assert done.changed, f"{name}: {count_tokens(messages):,} tokens in a window of {WINDOW:,}; nothing changed"
            assert done.tokens_after < done.tokens_before, f"{name}: {done.tokens_before} -> {done.tokens_after}"

    def test_it_works_in_a_window_of_2000_tokens(self) -> None:
        for name, messages in self.small_histories().items():
            done = self.kept_promises(name, messages, SMALL_WINDOW)
            assert done.changed, f"{name}: {count_tokens(messages):,} tokens in {SMALL_WINDOW:,}; nothing changed"

    def test_where_there_is_nothing_to_fold_nothing_changes(self) -> None:
        for name, messages in _short_histories().items():
            engine = self.engine()
            assert not engine.has_content_to_compress(messages), f"{name}: there is nothing between head and tail"
            done = compressed(engine, messages)
            assert not done.changed, f"{name}: changed to {done.messages}"
            assert list(done.messages) == messages, f"{name}: not marked as changed, but it is"

    def test_the_input_is_never_changed(self) -> None:
        for name, messages in self.long_histories().items():
            as_it_was = copy.deepcopy(messages)
            engine = self.engine()
            engine.observe(messages)
            engine.has_content_to_compress(messages)
            compressed(engine, messages, focus_topic="the oil")
            assert messages == as_it_was, f"{name}: the messages that were handed in have changed"

    def test_again_and_again_it_keeps_its_promises(self) -> None:
        engine = self.engine()
        messages = long_histories()["tool rounds"]
        for number in range(5):
            done = compressed(engine, messages)
            problems = broken_promises(messages, done)
            assert not problems, f"compaction {number + 1}: {listed(problems)}"
            messages = [*done.messages, *next_rounds(number)]

    def test_the_same_messages_give_the_same_result(self) -> None:
        if not self.deterministic:
            return
        for name, messages in self.long_histories().items():
            first, second = (compressed(self.engine(), copy.deepcopy(messages)) for _ in range(2))
            assert _written(first.messages) == _written(second.messages), f"{name}: two results"

    def test_every_part_of_the_account_can_be_stored(self) -> None:
        done = compressed(self.engine(), long_histories()["tool rounds"])
        through_json("records", done.records)
        assert all(isinstance(warning, str) for warning in done.warnings), f"warnings: {done.warnings!r}"
        assert done.summary is None or isinstance(done.summary, str), f"summary: {done.summary!r}"

    def test_a_compaction_changes_nothing_in_the_engine_until_it_is_in_effect(self) -> None:
        engine = self.engine()
        engine.on_session_start(SessionStart("first"))
        before = state_and_status(engine)
        done = asyncio.run(engine.compress(long_histories()["tool rounds"], force=True))
        assert state_and_status(engine) == before, (
            f"compress: {before} -> {state_and_status(engine)}; use Compaction.state"
        )
        engine.restore(None)
        assert state_and_status(engine) == before, f"restore(None): {before} -> {state_and_status(engine)}"
        engine.restore(done.state)
        assert engine.get_status().compactions == 1, f"Compaction.state = {done.state} counts no compaction"

    def test_a_reset_forgets_the_past(self) -> None:
        engine = self.engine()
        engine.on_session_start(SessionStart("first"))
        compressed(engine, long_histories()["tool rounds"])
        engine.update_from_response(CanonicalUsage(input_tokens=WINDOW))
        engine.on_session_reset()
        status = engine.get_status()
        assert (status.last_prompt_tokens, status.compactions, status.paused) == (0, 0, None), (
            f"after a reset: {status}"
        )
        assert not engine.should_compress(), "after a reset nothing was sent yet"

    def test_its_state_is_json_and_outlives_a_restart(self) -> None:
        engine = self.engine()
        engine.on_session_start(SessionStart("first"))
        done = compressed(engine, long_histories()["tool rounds"])
        kept = through_json("state", engine.state)
        if done.state is not None:
            assert through_json("Compaction.state", done.state) == kept, f"{done.state} was restored as {kept}"
        restarted = self.engine()
        restarted.on_session_start(SessionStart("first", state=kept))
        assert state_and_status(restarted)[0] == kept, f"{kept} became {dict(restarted.state)} in a new process"
        compactions = restarted.get_status().compactions
        assert compactions == engine.get_status().compactions, f"a new process counts {compactions} compactions"

    def test_its_tool_schemas_are_valid(self) -> None:
        schemas = self.engine().get_tool_schemas()
        problems = [problem for schema in schemas if (problem := _problem_with_schema(schema))]
        assert not problems, "; ".join(problems)
        names = [_tool_name(schema) for schema in schemas]
        assert len(set(names)) == len(names), f"two tools of one name: {names}"

    def test_each_of_its_tools_answers(self) -> None:
        engine = self.engine()
        engine.on_session_start(SessionStart("first"))
        compressed(engine, long_histories()["tool rounds"])
        for schema in engine.get_tool_schemas():
            for arguments in (_arguments_for(schema), {}):
                answer = asyncio.run(engine.handle_tool_call(_tool_name(schema), arguments))
                assert isinstance(answer, str), f"{_tool_name(schema)}({arguments}) gave {answer!r}; text is expected"

    def test_a_tool_it_does_not_have_is_a_lookup_error(self) -> None:
        try:
            answer = asyncio.run(self.engine().handle_tool_call("no_such_tool", {}))
        except LookupError:
            return
        raise AssertionError(f"a tool that does not exist answered {answer!r}; LookupError is expected")

    def engine(self, window: int = WINDOW, summarize: Summarize | None = None) -> ContextEngine:
        return self.make_engine(EngineSetup(context_length=window, summarize=summarize))

    def long_histories(self) -> dict[str, list[Message]]:
        """Conversations that must become shorter, by name."""
        return long_histories()

    def small_histories(self) -> dict[str, list[Message]]:
        """Conversations that are larger than a window of `SMALL_WINDOW` tokens, by name."""
        return {"tool rounds": [system(PROMPT), *rounds(24, lines=2)]}

    def kept_promises(
        self, name: str, messages: list[Message], window: int = WINDOW, summarize: Summarize | None = None
    ) -> Compaction:
        done = compressed(self.engine(window, summarize), messages)
        problems = broken_promises(messages, done)
        assert not problems, f"{name}: {listed(problems)}"
        return done


def listed(problems: Sequence[str]) -> str:
    more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
    return "; ".join(problems[:5]) + more


def compressed(engine: ContextEngine, messages: list[Message], **more: Any) -> Compaction:
    """Compact as a host does: the result is in effect."""
    done = asyncio.run(engine.compress(messages, force=True, **more))
    engine.restore(done.state)
    return done


def through_json(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    try:
        restored: dict[str, Any] = json.loads(json.dumps(dict(values)))
    except (TypeError, ValueError) as error:
        raise AssertionError(f"{name} must be plain JSON values: {error}: {values!r}") from error
    return restored


def state_and_status(engine: ContextEngine) -> tuple[dict[str, Any], EngineStatus]:
    return through_json("state", engine.state), engine.get_status()


def _written(messages: Sequence[Message]) -> str:
    return json.dumps(list(messages))


def _tool_name(schema: Mapping[str, Any]) -> str:
    name: str = (schema.get("function") or schema)["name"]
    return name


def long_histories() -> dict[str, list[Message]]:
    """Valid conversations, each much larger than a window of `WINDOW` tokens."""
    return {
        "tool rounds": [system(PROMPT), *rounds(24)],
        "no system prompt": rounds(24),
        "parallel calls": [system(PROMPT), *_parallel_rounds(16)],
        "one request and a long run": [system(PROMPT), *_single_prompt_run(40)],
        "pictures": [system(PROMPT), *_picture_rounds(24)],
        "a huge result": [system(PROMPT), *rounds(6), *one_round(90, 400), user("And now?")],
        "calls still open": [system(PROMPT), *rounds(24), user("Once more."), assistant(None, [reading_call("open")])],
    }


def _short_histories() -> dict[str, list[Message]]:
    """Valid conversations in which there is nothing to fold."""
    return {
        "nothing at all": [],
        "a system prompt alone": [system(PROMPT)],
        "one request": [user("Is the lamp on?")],
        "one exchange": [system(PROMPT), user("Is the lamp on?"), assistant("It is.")],
    }


def next_rounds(number: int) -> list[Message]:
    """How a conversation goes on after its n-th compaction."""
    return rounds(16, first=1_000 * (number + 1))


def rounds(count: int, first: int = 0, lines: int = 12) -> list[Message]:
    return [message for number in range(first, first + count) for message in one_round(number, lines)]


def one_round(number: int, lines: int) -> list[Message]:
    return [
        user(f"Read the log of night {number} and tell me what was wrong."),
        assistant(f"I open night {number}.", [reading_call(f"call_{number}", f"logs/night_{number}.txt")]),
        tool(f"call_{number}", "".join(_LOG.format(n=number + line) for line in range(lines))),
        assistant(f"Night {number}: the oil stood at {number} litres, which is low."),
    ]


def _parallel_rounds(count: int) -> list[Message]:
    messages: list[Message] = []
    for number in range(count):
        ids = [f"p{number}_{number_of_call}" for number_of_call in range(3)]
        messages += [
            user(f"Compare the three gauges of night {number}."),
            assistant(None, [reading_call(id) for id in ids]),
        ]
        messages += [tool(id, "".join(_LOG.format(n=number + line) for line in range(6))) for id in reversed(ids)]
        messages.append(assistant(f"Gauge {number % 3} is off by {number}."))
    return messages


def _single_prompt_run(count: int) -> list[Message]:
    messages = [user("Go through all the logs and list every night on which the oil was low. Do not stop in between.")]
    for number in range(count):
        messages += one_round(number, 10)[1:3]
    return messages


def _picture_rounds(count: int) -> list[Message]:
    messages: list[Message] = []
    for number in range(count):
        picture: Part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{_PIXEL}"}}
        text: Part = {"type": "text", "text": f"Here is the lamp on night {number}. Is the glass clean?"}
        messages += [user([text, picture]), assistant(f"On night {number} there is soot on the left pane. " * 12)]
    return messages


def reading_call(id: str, path: str = "logs/today.txt") -> Any:
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
