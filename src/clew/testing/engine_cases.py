"""Input for the contract suite of engines: long, short and broken conversations, and arguments for tools."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from clew.messages import Message, Part
from clew.testing.messages import assistant, call, system, tool, user

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


def long_histories() -> dict[str, list[Message]]:
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


def short_histories() -> dict[str, list[Message]]:
    """Valid conversations in which there is nothing to fold."""
    return {
        "nothing at all": [],
        "a system prompt alone": [system(_PROMPT)],
        "one request": [user("Is the lamp on?")],
        "one exchange": [system(_PROMPT), user("Is the lamp on?"), assistant("It is.")],
    }


def broken_histories() -> dict[str, list[Message]]:
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


def small_histories() -> dict[str, list[Message]]:
    """Valid conversations that are larger than a window of `SMALL_WINDOW` tokens."""
    return {
        "tool rounds": [system(_PROMPT), *_rounds(24, lines=2)],
        "Chinese": [system("你负责看守灯塔。"), *_chinese_rounds(16, lines=2)],
    }


def next_rounds(number: int) -> list[Message]:
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


def problem_with_schema(schema: Any) -> str:
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


def arguments_for(schema: Mapping[str, Any]) -> dict[str, Any]:
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
