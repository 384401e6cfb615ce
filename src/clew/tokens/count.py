"""Token counts of texts, messages of any dialect, tool definitions and whole requests.

A text is counted with a vocabulary, or estimated from which kinds of characters follow each other. The vocabularies are
inside an installed wheel; nothing is downloaded. The first count loads one, which takes 0.1 to 0.3 s.

`count_tokens` refuses what is no message at all. Inside a message counting never raises, however broken it is: what
has no meaning counts as nothing.
"""

from __future__ import annotations

import json
import math
import re
from binascii import unhexlify
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any
from zlib import adler32

from clew.errors import InvalidArgument
from clew.messages import (
    declarations_of,
    detect_dialect,
    is_request,
    plain_messages,
    plain_system,
    plain_tools,
    read_conversation,
    refuse_unusable,
    request_fields,
)
from clew.tokens.families import ModelFamily, family_of
from clew.tokens.media import AUDIO_TYPES, DOCUMENT_TYPES, VIDEO_TYPES, image_tokens, media_tokens
from clew.tokens.weights import CLASSES, LEAD_SCALE, LEAD_WEIGHTS, PAIR_SCALE, PAIR_WEIGHTS

if TYPE_CHECKING:
    from splintr import AnyTokenizer

    from clew.messages import Message, Tool

# A list of token numbers takes forty bytes a token: long texts are counted in pieces to save memory.
_PIECE_CHARS = 1_000_000
# Between a line end and a letter every vocabulary here starts a new token, so a cut there changes no count.
_SAFE_CUT = re.compile(r"\n(?=[A-Za-z])")
# How special markers start in these two; the faster way to count reads markers, so it is only for texts without any.
_MARKERS = {"o200k_base": "<|", "cl100k_base": "<|"}
# Long texts are estimated in pieces, too.
_BLOCK = 65_520
# So many bytes add up to less than 65,521, the modulus of Adler-32.
_SUMMED = 256
_NOT_LEADING = bytes(range(0xC0))
_OUTSIDE_ASCII = 15


class Vocabulary:
    """One vocabulary; special markers in a text are counted as plain text."""

    __slots__ = ("_marker", "_tokenizer", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self._marker = _MARKERS.get(name)
        self._tokenizer: AnyTokenizer | None = None

    def count(self, text: str) -> int:
        if len(text) <= _PIECE_CHARS:
            return self._count(text)
        return sum(self._count(piece) for piece in _pieces(text))

    def _count(self, text: str) -> int:
        tokenizer = self._tokenizer or self._load()
        try:
            return self._encoded_length(tokenizer, text)
        except UnicodeEncodeError:
            from clew.messages import replace_lone_surrogates  # rarely needed, and slow to import

            return self._encoded_length(tokenizer, replace_lone_surrogates(text))

    def _encoded_length(self, tokenizer: AnyTokenizer, text: str) -> int:
        if self._marker is not None and self._marker not in text:
            return len(tokenizer.encode_flat(text)) // 4
        return len(tokenizer.encode_ordinary(text))

    def _load(self) -> AnyTokenizer:
        from splintr import Tokenizer

        self._tokenizer = Tokenizer.from_pretrained(self.name)
        return self._tokenizer


@cache
def vocabulary(name: str) -> Vocabulary:
    """The vocabulary of this name; loaded once per process."""
    return Vocabulary(name)


def _pieces(text: str) -> list[str]:
    pieces, start = [], 0
    while len(text) - start > _PIECE_CHARS:
        end = start + _PIECE_CHARS
        cut = _SAFE_CUT.search(text, end - 10_000, end)
        stop = cut.end() if cut else end
        pieces.append(text[start:stop])
        start = stop
    return [*pieces, text[start:]]


def _class_of_each_byte() -> bytes:
    table = bytearray(256)
    for number, characters in enumerate(CLASSES):
        for character in characters:
            table[ord(character)] = number
    table[0x80:] = bytes([_OUTSIDE_ASCII]) * 0x80
    return bytes(table)


CLASS_OF_BYTE = _class_of_each_byte()
_DIGIT_OF_BYTE = bytes(b"0123456789abcdef"[number] for number in CLASS_OF_BYTE)


class Estimator:
    """Estimates with one set of weights; `more` adds tokens to single pairs, given as (left class, right class).

    Every byte of UTF-8 belongs to one of sixteen classes. Each pair of neighbours adds the weight that was fitted for
    it, and each character outside ASCII adds the weight of its leading byte, which names its script. The sums are
    computed with hexadecimal digits and checksums, the fastest ways through bytes in plain Python: 200 MB a second.
    """

    __slots__ = ("_leads", "_pairs", "name")

    def __init__(self, name: str, more: Mapping[tuple[int, int], float]) -> None:
        self.name = name
        pairs = bytearray(weight for row in PAIR_WEIGHTS[name] for weight in row)
        for (left, right), tokens in more.items():
            place = left * 16 + right
            pairs[place] = min(255, pairs[place] + round(tokens * PAIR_SCALE))
        self._pairs = bytes(pairs)
        self._leads = bytes(0xC0) + bytes(LEAD_WEIGHTS[name])

    def tokens(self, text: str) -> float:
        """The estimate, not rounded, because callers add several first."""
        if not text:
            return 0.0
        raw = text.encode("utf-8", "surrogatepass")
        if len(raw) <= _BLOCK:
            return self._block(raw, text.isascii())
        blocks = (raw[start : start + _BLOCK] for start in range(0, len(raw), _BLOCK))
        return sum(self._block(block, block.isascii()) for block in blocks)

    def _block(self, raw: bytes, is_ascii: bool) -> float:
        # A class is one hexadecimal digit, and two digits are one byte: a byte for each character and the one after it,
        # first for every other one, then for those between. The class after the last is 0.
        digits = raw.translate(_DIGIT_OF_BYTE)
        neighbours = unhexlify(digits + b"0" + digits[1:] if len(digits) % 2 else digits + digits[1:] + b"0")
        tokens = _sum_of_bytes(neighbours.translate(self._pairs)) / PAIR_SCALE
        if is_ascii:
            return tokens
        leads = raw.translate(self._leads, _NOT_LEADING)
        return tokens + _sum_of_bytes(leads) / LEAD_SCALE


def _sum_of_bytes(raw: bytes) -> int:
    """The sum at the speed of C: the lower half of an Adler-32 that starts at 0 is the sum modulo 65,521."""
    if len(raw) <= _SUMMED:
        return adler32(raw, 0) & 0xFFFF
    view = memoryview(raw)
    return sum([adler32(view[start : start + _SUMMED], 0) & 0xFFFF for start in range(0, len(raw), _SUMMED)])


def features(text: str) -> Sequence[int]:
    """What the weights are multiplied with: 256 counts of neighbours, then 64 of leading bytes. Used to fit them."""
    raw = text.encode("utf-8", "surrogatepass")
    counts = [0] * 320
    classes = raw.translate(CLASS_OF_BYTE)
    for left, right in zip(classes, classes[1:] + b"\0", strict=False):
        counts[left * 16 + right] += 1
    for byte in raw:
        if byte >= 0xC0:
            counts[0x100 + byte - 0xC0] += 1
    return counts


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
        raise InvalidArgument(f"model={model!r:.80} is no text", remedy="pass the name of a model, or None")
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
        dialect = detect_dialect(listed)
        if dialect == "openai_chat":
            for index, message in enumerate(listed):
                refuse_unusable(message, index)
        else:
            read = read_conversation(listed, dialect=dialect).messages
            listed = read if dialect == "gemini" else listed  # whose parts are not ours
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
