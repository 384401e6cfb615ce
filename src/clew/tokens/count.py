"""Token counts of texts, messages of any dialect, tool definitions and whole requests.

`count_tokens` refuses what is no message at all. Inside a message counting never raises, however broken it is: what
has no meaning counts as nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from clew.errors import InvalidArgument
from clew.messages import (
    declarations_of,
    detect_dialect,
    is_request,
    plain_messages,
    plain_system,
    plain_tools,
    read_conversation,
    request_fields,
)
from clew.tokens.families import ModelFamily, family_of
from clew.tokens.media import AUDIO_TYPES, DOCUMENT_TYPES, VIDEO_TYPES, image_tokens, media_tokens
from clew.tokens.tokenizer import Estimator, vocabulary

if TYPE_CHECKING:
    from clew.messages import Message, Tool


EXACT_CHARS = 2_000_000
"""Longer histories are not counted token by token, but estimated and corrected by a sample."""
SAMPLE_CHARS = 500_000
# A sample that differs more than this from its estimate says nothing about the rest.
_LARGEST_SCALE = 1.5
_IMAGE_TYPES = frozenset({"image_url", "image", "input_image"})
_CALL_TYPES = frozenset({"tool_use", "server_tool_use", "function_call", "custom_tool_call", "mcp_call"})
_RESULT_TYPES = frozenset({"tool_result", "function_call_output", "custom_tool_call_output", "web_search_tool_result"})
_MEDIA_TYPES = DOCUMENT_TYPES | AUDIO_TYPES | VIDEO_TYPES
_TEXT_KEYS = ("text", "refusal", "thinking", "reasoning")
# Encrypted reasoning in base64. The usage of replies shows about six characters a token.
_ENCRYPTED_KEYS = ("data", "encrypted_content", "signature")
_ENCRYPTED_CHARS_PER_TOKEN = 6
_MAX_DEPTH = 24
_LONGEST_PARSED_CHARS = 1_000
# By the order of `weights.CLASSES`: 1 to 4 are small letters, 5 and 6 capitals, 8 is the space.
_WORD_STARTS = tuple((8, letter) for letter in (1, 2, 3, 4, 5, 6))
_LETTER_PAIRS = tuple((left, right) for left in (1, 2, 3, 4) for right in (1, 2, 3, 4))
_SCHEMA_KEYS = ("parameters", "input_schema", "inputSchema", "schema", "parametersJsonSchema", "parameters_json_schema")


def count_tokens(
    messages: Any,
    system: Any = None,
    tools: Iterable[Any] | None = None,
    model: str | None = None,
) -> int:
    """The size of a request in tokens: messages of any dialect, system prompt and tools.

    `messages` are a list, a whole request, one message, a text or None; dicts, objects of SDKs, pydantic models or
    dataclasses. Counted with the model's vocabulary where there is one, estimated elsewhere; without a model, with
    OpenAI's o200k. `InvalidArgument` and `InvalidMessage` for what cannot be read.
    """
    if model is not None and not isinstance(model, str):
        raise InvalidArgument(f"model={model!r:.80} is no text; pass the name of a model, or None")
    counter = counter_for(model)
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    fields = None if isinstance(messages, list) else request_fields(messages)
    if fields is not None and is_request(fields):
        conversation = read_conversation(messages, system=system, tools=tools)
        listed: Sequence[Any] = conversation.messages
        system, read_tools = None, list(conversation.tools)
    else:
        listed = plain_messages([messages] if fields is not None else () if messages is None else messages)
        read_tools = plain_tools(tools)
        if detect_dialect(listed) == "gemini":  # whose parts are not ours
            listed = read_conversation(listed, dialect="gemini").messages
    counted = sum(count_each(listed, model=model))
    return counter.request + counted + counter.system(plain_system(system)) + counter.tools(read_tools)


def count_each(messages: Sequence[Message], model: str | None = None) -> list[int]:
    """The size of every message, in order.

    Above `EXACT_CHARS` every message is estimated, a sample spread over all of them is counted exactly, and the
    estimates are scaled by the difference.
    """
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
    """Exact count by estimate, for a sample spread over the messages."""
    step = max(1, sum(sizes) // SAMPLE_CHARS)
    exact = estimated = read = 0
    for index in range(step // 2, len(messages), step):
        if read + sizes[index] > 2 * SAMPLE_CHARS:
            continue
        read += sizes[index]
        exact += counter.message(messages[index])
        estimated += estimates[index]
    return max(1 / _LARGEST_SCALE, min(_LARGEST_SCALE, exact / estimated)) if estimated and read else 1.0


def _chars(message: Any) -> int:
    """About how much text a message has."""
    if type(message) is not dict and not isinstance(message, Mapping):
        return 0
    content = message.get("content")
    chars = len(content) if isinstance(content, str) else _chars_of_parts(content)
    calls = message.get("tool_calls")
    return chars + (_chars_of_parts(calls) if calls else 0)


def _chars_of_parts(parts: Any, depth: int = 0) -> int:
    kind = type(parts)
    if kind is str:
        return len(parts)
    if depth > 6:
        return 0
    if kind is dict or isinstance(parts, Mapping):
        parts = parts.values()
    elif kind is not list and kind is not tuple:
        return 0
    chars = 0
    for value in parts:
        chars += len(value) if type(value) is str else _chars_of_parts(value, depth + 1)
    return chars


class TokenCounter:
    """Counts for one family of models. `exact`: with the models' own vocabulary; `basis` says what it counts with."""

    __slots__ = ("_framing", "_measure", "basis", "exact", "family")

    def __init__(self, family: ModelFamily, *, quick: bool = False) -> None:
        self.family = family
        self._framing = family.framing
        if family.vocabulary is None or quick:
            self.exact = False
            self.basis = f"estimate, {family.weights} weights x {family.ratio:g} ({family.name})"
            self._measure = _estimate(family)
        else:
            self.exact = family.is_own_vocabulary
            self.basis = f"vocabulary {family.vocabulary} ({family.name})"
            self._measure = vocabulary(family.vocabulary).count

    def text(self, text: str) -> int:
        """Tokens of a text alone."""
        return math.ceil(self._measure(text)) if text else 0

    def message(self, message: Message) -> int:
        """Tokens of a message with its calls, reasoning and images, and of what the wire adds to it."""
        return math.ceil(self._message(message))

    def system(self, system: object) -> int:
        """Tokens of a system prompt: a text, a list of blocks, or a whole message."""
        if not system:
            return 0
        if isinstance(system, Mapping):
            return self.message(system)  # type: ignore[arg-type]
        return math.ceil(self._framing.message + self._content(system, 0))

    def tools(self, tools: Sequence[Tool] | None) -> int:
        """Tokens of tool definitions of any dialect."""
        given = [tool for tool in tools or () if isinstance(tool, Mapping)]
        known = [function for tool in given for function in declarations_of(tool) or (tool,)]
        if not known:
            return 0
        written = sum(self._measure(tool_text(tool)) + self._framing.tool for tool in known)
        return math.ceil(self._framing.tools + written)

    @property
    def has_vocabulary(self) -> bool:
        """Whether texts are counted token by token, rather than estimated."""
        return not self.basis.startswith("estimate")

    @property
    def request(self) -> int:
        """Tokens that every request has, also an empty one."""
        return self._framing.request

    def _message(self, message: Any) -> float:
        # The type alone decides for nearly all of them: asking whether it is a Mapping takes ten times as long.
        if type(message) is not dict and not isinstance(message, Mapping):
            return self._measure(message) if isinstance(message, str) else 0.0
        if "role" not in message and "type" in message:
            return self._framing.message + self._part(message, 0)
        tokens = float(self._framing.message)
        content = message.get("content")
        tokens += self._measure(content) if type(content) is str else self._content(content, 0)
        if message.get("role") in ("tool", "function"):
            tokens += self._framing.result
        for call in _sequence(message.get("tool_calls")):
            tokens += self._chat_call(call)
        if message.get("function_call") is not None:
            tokens += self._chat_call({"function": message["function_call"]})
        for part in _sequence(message.get("reasoning")):
            tokens += self._part(part, 0)
        reasoning = message.get("reasoning_content")
        return tokens + (self._measure(reasoning) if isinstance(reasoning, str) else 0)

    def _content(self, content: Any, depth: int) -> float:
        if isinstance(content, str):
            return self._measure(content)
        if type(content) is not list and isinstance(content, Mapping):
            return self._part(content, depth)
        if depth > _MAX_DEPTH:
            return 0.0
        return sum(self._part(part, depth + 1) for part in _sequence(content))

    def _part(self, part: Any, depth: int) -> float:
        if isinstance(part, str):
            return self._measure(part)
        if depth > _MAX_DEPTH or (type(part) is not dict and not isinstance(part, Mapping)):
            return 0.0
        kind = part.get("type")
        if not isinstance(kind, str):
            kind = ""
        if kind in _IMAGE_TYPES:
            return image_tokens(part, self.family.images)
        if kind in _CALL_TYPES:
            return self._call(part.get("name"), part.get("arguments") if "arguments" in part else part.get("input"))
        if kind in _RESULT_TYPES:
            return self._framing.result + self._content(part.get("content", part.get("output")), depth + 1)
        if kind in _MEDIA_TYPES:
            return self._document(part, depth)
        return self._text_or_unknown(part, depth)

    def _document(self, part: Mapping[str, Any], depth: int) -> float:
        """A document may hold plain text or blocks; any other is estimated by its size."""
        source = part.get("source")
        if isinstance(source, Mapping) and source.get("type") in ("text", "content"):
            return self._content(source.get("data") or source.get("content"), depth + 1)
        return media_tokens(part)

    def _text_or_unknown(self, part: Mapping[str, Any], depth: int) -> float:
        """Text and reasoning of any dialect; of an unknown part everything in it."""
        texts = [part[key] for key in _TEXT_KEYS if isinstance(part.get(key), str) and part[key]]
        if texts:
            return sum(map(self._measure, texts))
        encrypted = next((part[key] for key in _ENCRYPTED_KEYS if isinstance(part.get(key), str)), None)
        if encrypted is not None:
            return len(encrypted) / _ENCRYPTED_CHARS_PER_TOKEN
        inner = [part[key] for key in ("content", "summary", "output") if part.get(key)]
        if inner:
            return sum(self._content(value, depth + 1) for value in inner)
        return 0.0 if any(key in part for key in _TEXT_KEYS) else self._json_value(part)

    def _chat_call(self, call: Any) -> float:
        if type(call) is not dict and not isinstance(call, Mapping):
            return 0.0
        function = call.get("function", call.get("custom"))
        if type(function) is not dict and not isinstance(function, Mapping):
            return float(self._framing.call)
        return self._call(function.get("name"), function.get("arguments", function.get("input")))

    def _call(self, name: Any, arguments: Any) -> float:
        tokens = float(self._framing.call)
        if isinstance(name, str):
            tokens += self._measure(name)
        if self._framing.has_plain_arguments and isinstance(arguments, str):
            arguments = _parsed(arguments)
        if isinstance(arguments, str):
            return tokens + self._measure(arguments)
        if isinstance(arguments, Mapping):
            tokens += self._framing.parameter * len(arguments)
        return tokens + self._json_value(arguments)

    def _json_value(self, value: Any) -> float:
        """A JSON value: its texts, and about a token for each number and each bracket."""
        texts: list[str] = []
        other = _collect_texts(value, texts, 0)
        # Counting one text is faster than counting twenty short ones.
        return other + (self._measure("\n".join(texts)) if texts else 0.0)


@lru_cache(maxsize=256)
def counter_for(model: str | None = None, *, quick: bool = False) -> TokenCounter:
    """The counter of a model; `quick` estimates even where there is a vocabulary. The vocabulary is loaded later."""
    return _counter_of(family_of(model), quick)


@lru_cache(maxsize=256)
def _counter_of(family: ModelFamily, quick: bool) -> TokenCounter:
    return TokenCounter(family, quick=quick)


def _estimate(family: ModelFamily) -> Callable[[str], float]:
    more = dict.fromkeys(_WORD_STARTS, family.word) | dict.fromkeys(_LETTER_PAIRS, family.letters)
    estimator = Estimator(family.weights, more)
    tokens, ratio = estimator.tokens, family.ratio
    return tokens if ratio == 1.0 else lambda text: tokens(text) * ratio


def _collect_texts(value: Any, texts: list[str], depth: int) -> float:
    """Append every text of a JSON value to `texts`; returns the tokens of the rest."""
    if isinstance(value, str):
        texts.append(value)
        return 0.0
    if depth > _MAX_DEPTH or value is None:
        return 1.0
    if isinstance(value, Mapping):
        return 2.0 + sum(
            _collect_texts(k, texts, depth + 1) + _collect_texts(v, texts, depth + 1) for k, v in value.items()
        )
    if isinstance(value, list | tuple):
        return 2.0 + sum(_collect_texts(item, texts, depth + 1) for item in value)
    return 1.0 + value.bit_length() / 10 if isinstance(value, int) else 2.0


def _sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _parsed(arguments: str) -> Any:
    if len(arguments) > _LONGEST_PARSED_CHARS and "\\u" not in arguments:
        # Undoing the two frequent escapes is enough; parsing would take longer than counting.
        return arguments.replace("\\n", "\n").replace('\\"', '"')
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments


def tool_text(tool: Tool) -> str:
    """Name, description and parameters of a tool of any dialect, as lines.

    Providers rewrite definitions for the model: names, descriptions, types and choices stay, most of the JSON goes.
    """
    function = tool.get("function")
    described = function if isinstance(function, Mapping) else tool
    schema = next((described[key] for key in _SCHEMA_KEYS if isinstance(described.get(key), Mapping)), None)
    title = _joined(described.get("name") or described.get("type"), described.get("description"))
    return "\n".join([title, *(_fields(schema, 0) if schema is not None else ())])


def _fields(schema: Mapping[str, Any], depth: int) -> Iterator[str]:
    """A line for every property with its type, description and limits, and for those of the objects inside it."""
    if depth > _MAX_DEPTH:
        return
    required = schema.get("required")
    required = required if isinstance(required, list | tuple) else ()
    properties = schema.get("properties")
    for name, field in properties.items() if isinstance(properties, Mapping) else ():
        if isinstance(field, Mapping):
            must = "required" if name in required else None
            yield "  " + _joined(name, field.get("type"), must, field.get("description"), *_limits(field))
            yield from _fields(field, depth + 1)
    for key in ("items", "anyOf", "oneOf", "allOf", "$defs", "definitions"):
        inner = schema.get(key)
        values = inner.values() if key in ("$defs", "definitions") and isinstance(inner, Mapping) else inner
        for value in (values,) if isinstance(values, Mapping) else values if isinstance(values, list | tuple) else ():
            if isinstance(value, Mapping):
                yield "  " + _joined(value.get("type"), value.get("description"), *_limits(value))
                yield from _fields(value, depth + 1)


def _limits(field: Mapping[str, Any]) -> Iterator[str]:
    choices = field.get("enum")
    if isinstance(choices, list | tuple):
        yield "|".join(str(choice) for choice in choices if not isinstance(choice, int) or choice < 1 << 64)
    for key in ("default", "minimum", "maximum", "format", "pattern", "minLength", "maxLength", "minItems", "maxItems"):
        value = field.get(key)
        if isinstance(value, str | float) or (isinstance(value, int) and abs(value) < 1 << 64):
            yield f"{key} {value}"


def _joined(*texts: Any) -> str:
    return ": ".join(
        value if isinstance(value, str) else "|".join(map(str, value)) for value in texts if _is_text(value)
    )


def _is_text(value: Any) -> bool:
    return bool(value) and (
        isinstance(value, str) or (isinstance(value, list) and all(isinstance(v, str) for v in value))
    )
