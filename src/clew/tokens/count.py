"""The size of a request nobody has counted before, and of each message in it.

Long histories are not counted token by token: above a few megabytes every message is estimated, a sample spread over
all of them is counted exactly, and the estimates are scaled by what the sample showed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clew.tokens.counter import TokenCounter, counter_for

if TYPE_CHECKING:
    from clew.messages import Message, Tool


EXACT_CHARS = 2_000_000
SAMPLE_CHARS = 500_000
# Beyond this a sample says more about its own oddity than about the rest.
_FURTHEST = 1.5


def count_tokens(
    messages: Sequence[Message] | str | None,
    system: object = None,
    tools: Sequence[Tool] | None = None,
    model: str | None = None,
) -> int:
    """The size of a request in tokens: messages of any dialect, the system prompt and the tools beside them.

    Counted with the model's vocabulary where there is one, estimated elsewhere; without a model, with OpenAI's
    o200k. Never raises on a message: what cannot be read costs nothing.
    """
    model = model if isinstance(model, str) else None
    counter = counter_for(model)
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    listed = [messages] if isinstance(messages, Mapping) else list(messages or ())
    counted = sum(count_each(listed, model=model))
    return counter.request + counted + counter.system(system) + counter.tools(_listed_tools(tools))


def count_each(messages: Sequence[Message], model: str | None = None) -> list[int]:
    """The size of every message, in order."""
    counter = counter_for(model)
    sizes = [_chars(message) for message in messages]
    total = sum(sizes)
    if total <= EXACT_CHARS or not counter.has_vocabulary:
        return [counter.message(message) for message in messages]
    quick = counter_for(model, quick=True)
    estimates = [quick.message(message) for message in messages]
    scale = _scale(messages, sizes, estimates, counter)
    return [round(tokens * scale) for tokens in estimates]


def _scale(messages: Sequence[Message], sizes: Sequence[int], estimates: Sequence[int], counter: TokenCounter) -> float:
    """How far the estimates are from exact counts, by a sample spread over the messages."""
    step = max(1, sum(sizes) // SAMPLE_CHARS)
    exact = estimated = read = 0
    for place in range(step // 2, len(messages), step):
        if read + sizes[place] > 2 * SAMPLE_CHARS:
            continue
        read += sizes[place]
        exact += counter.message(messages[place])
        estimated += estimates[place]
    return max(1 / _FURTHEST, min(_FURTHEST, exact / estimated)) if estimated and read else 1.0


def _chars(message: Any) -> int:
    """About how much text a message has; pictures and numbers do not matter here."""
    if not isinstance(message, Mapping):
        return len(message) if isinstance(message, str) else 0
    content = message.get("content")
    chars = len(content) if isinstance(content, str) else _chars_of_parts(content)
    calls = message.get("tool_calls")
    return chars + (_chars_of_parts(calls) if calls else 0)


def _chars_of_parts(parts: Any, depth: int = 0) -> int:
    if isinstance(parts, str):
        return len(parts)
    if depth > 6:
        return 0
    values = parts.values() if isinstance(parts, Mapping) else parts if isinstance(parts, list | tuple) else ()
    return sum(_chars_of_parts(value, depth + 1) for value in values)


def _listed_tools(tools: object) -> Sequence[Tool]:
    if isinstance(tools, Mapping):
        return [dict(tools)]
    return tools if isinstance(tools, list | tuple) else ()
