"""A quick look at an engine on this machine: one made-up conversation, compacted once, and the promises checked.

For `clew plugins show NAME --check`. An author wants the contract suite in `clew.testing`, which asks far more.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator

from clew.engines.base import ContextEngine, SessionStart
from clew.engines.promises import broken_promises
from clew.engines.setup import EngineFactory, EngineSetup
from clew.messages import Message
from clew.usage import CanonicalUsage

_WINDOW = 16_000
_ROUNDS = 40


async def check_engine(make: EngineFactory) -> list[str]:
    """What is wrong with the engine that this makes; what it raises is raised."""
    engine = make(EngineSetup(context_length=_WINDOW))
    engine.on_session_start(SessionStart("check"))
    problems = [*_wrong_with_the_threshold(engine)]
    messages = _conversation()
    as_it_was = copy.deepcopy(messages)
    done = await engine.compress(messages, force=True)
    if messages != as_it_was:
        problems.append("compress changed the messages it was given")
    problems += broken_promises(as_it_was, done)
    if not done.changed:
        problems.append(f"compress changed nothing in a conversation of {len(messages)} messages over the threshold")
    problems += _wrong_with_what_it_tells(engine)
    return problems


def _wrong_with_the_threshold(engine: ContextEngine) -> Iterator[str]:
    status = engine.get_status()
    threshold = status.threshold_tokens
    if not 0 < threshold <= _WINDOW or status.context_length != _WINDOW:
        yield f"a threshold of {threshold:,} in a window of {status.context_length:,} tokens; {_WINDOW:,} were given"
        return
    if not engine.should_compress(threshold):
        yield f"should_compress({threshold}) is False at the threshold"
    if engine.should_compress(threshold - 1):
        yield f"should_compress({threshold - 1}) is True below the threshold"
    engine.update_from_response(CanonicalUsage(input_tokens=1, output_tokens=_WINDOW, reasoning_tokens=_WINDOW))
    if engine.should_compress():
        yield "output and reasoning tokens make it compact; only prompt_tokens may"


def _wrong_with_what_it_tells(engine: ContextEngine) -> Iterator[str]:
    try:
        json.dumps(dict(engine.memory))
    except (TypeError, ValueError) as error:
        yield f"its memory is not plain JSON: {error}"
    try:
        json.dumps(engine.get_tool_schemas())
    except (TypeError, ValueError) as error:
        yield f"its tool schemas are not plain JSON: {error}"


def _conversation() -> list[Message]:
    """A system prompt and rounds of request, call, result and reply; about 10,000 tokens."""
    messages: list[Message] = [{"role": "system", "content": "You mend the water mill. Answer in one line."}]
    for number in range(_ROUNDS):
        arguments = json.dumps({"path": f"wheel/part_{number}.txt"})
        called = {"id": f"call_{number}", "type": "function", "function": {"name": "read", "arguments": arguments}}
        messages += [
            {"role": "user", "content": f"Look at part {number} of the wheel and say what it needs."},
            {"role": "assistant", "content": None, "tool_calls": [called]},  # type: ignore[list-item]
            {"role": "tool", "tool_call_id": f"call_{number}", "content": f"part {number}: paddle, cracked. " * 25},
            {"role": "assistant", "content": f"Part {number} needs a new paddle."},
        ]
    return messages
