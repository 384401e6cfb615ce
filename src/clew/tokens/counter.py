"""Counting for one model: texts, messages of any dialect, tools.

Knows how a message is built and what its wire adds; which model is of which family, and how a text is counted, are
next door. Never raises on a message, however broken: what cannot be read costs nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from clew.tokens.estimate import Estimator
from clew.tokens.families import Family, family_of
from clew.tokens.media import DOCUMENT_TYPES, FILM_TYPES, SOUND_TYPES, media_price
from clew.tokens.pictures import picture_price
from clew.tokens.tool_text import tool_text
from clew.tokens.vocabularies import vocabulary

if TYPE_CHECKING:
    from clew.messages import Message, Tool


_PICTURE_TYPES = frozenset({"image_url", "image", "input_image"})
_CALL_TYPES = frozenset({"tool_use", "server_tool_use", "function_call", "custom_tool_call", "mcp_call"})
_RESULT_TYPES = frozenset({"tool_result", "function_call_output", "custom_tool_call_output", "web_search_tool_result"})
_MEDIA_TYPES = DOCUMENT_TYPES | SOUND_TYPES | FILM_TYPES
_TEXT_KEYS = ("text", "refusal", "thinking", "reasoning")
# Sealed reasoning: base64 of something encrypted. Six characters a token is what a reply's usage says of it.
_SEALED_KEYS = ("data", "encrypted_content", "signature")
_SEALED_CHARS = 6
_DEEPEST = 24
_PARSED_CHARS = 1_000
# By the order of `weights.CLASSES`: 1 to 4 are small letters, 5 and 6 capitals, 8 is the space.
_WORD_STARTS = tuple((8, letter) for letter in (1, 2, 3, 4, 5, 6))
_LETTER_PAIRS = tuple((left, right) for left in (1, 2, 3, 4) for right in (1, 2, 3, 4))


class TokenCounter:
    """Counts for one family of models. `exact` says whether the vocabulary is the model's own; `basis` names it."""

    __slots__ = ("_framing", "_measure", "basis", "exact", "family")

    def __init__(self, family: Family, *, quick: bool = False) -> None:
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
        """Tokens of a message with its calls, reasoning and pictures, and of what the wire writes around it."""
        return math.ceil(self._message(message))

    def system(self, system: object) -> int:
        """Tokens of a system prompt: a text, a list of blocks, or a whole message."""
        if not system:
            return 0
        if isinstance(system, Mapping):
            return self.message(system)  # type: ignore[arg-type]
        return math.ceil(self._framing.message + self._content(system, 0))

    def tools(self, tools: Sequence[Tool] | None) -> int:
        """Tokens of the definitions of tools, in whichever dialect they are."""
        known = [tool for tool in tools or () if isinstance(tool, Mapping)]
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
        """Tokens that every request has, whatever is in it."""
        return self._framing.request

    def _message(self, message: Any) -> float:
        if not isinstance(message, Mapping):
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
        if "function_call" in message:
            tokens += self._chat_call({"function": message["function_call"]})
        for part in _sequence(message.get("reasoning")):
            tokens += self._part(part, 0)
        reasoning = message.get("reasoning_content")
        return tokens + (self._measure(reasoning) if isinstance(reasoning, str) else 0)

    def _content(self, content: Any, depth: int) -> float:
        if isinstance(content, str):
            return self._measure(content)
        if isinstance(content, Mapping):
            return self._part(content, depth)
        if depth > _DEEPEST:
            return 0.0
        return sum(self._part(part, depth + 1) for part in _sequence(content))

    def _part(self, part: Any, depth: int) -> float:
        if isinstance(part, str):
            return self._measure(part)
        if not isinstance(part, Mapping) or depth > _DEEPEST:
            return 0.0
        kind = part.get("type")
        if not isinstance(kind, str):
            kind = ""
        if kind in _PICTURE_TYPES:
            return picture_price(part, self.family.pictures)
        if kind in _CALL_TYPES:
            return self._call(part.get("name"), part.get("arguments") if "arguments" in part else part.get("input"))
        if kind in _RESULT_TYPES:
            return self._framing.result + self._content(part.get("content", part.get("output")), depth + 1)
        if kind in _MEDIA_TYPES:
            return self._document(part, depth)
        return self._described(part, depth)

    def _document(self, part: Mapping[str, Any], depth: int) -> float:
        """A document may carry plain text or blocks of its own; anything else has a price."""
        source = part.get("source")
        if isinstance(source, Mapping) and source.get("type") in ("text", "content"):
            return self._content(source.get("data") or source.get("content"), depth + 1)
        return media_price(part)

    def _described(self, part: Mapping[str, Any], depth: int) -> float:
        """Text and reasoning of any dialect, and as a last resort all that an unknown part says."""
        said = [part[key] for key in _TEXT_KEYS if isinstance(part.get(key), str) and part[key]]
        if said:
            return sum(map(self._measure, said))
        sealed = next((part[key] for key in _SEALED_KEYS if isinstance(part.get(key), str)), None)
        if sealed is not None:
            return len(sealed) / _SEALED_CHARS
        inner = [part[key] for key in ("content", "summary", "output") if part.get(key)]
        if inner:
            return sum(self._content(value, depth + 1) for value in inner)
        return 0.0 if any(key in part for key in _TEXT_KEYS) else self._anything(part)

    def _chat_call(self, call: Any) -> float:
        if not isinstance(call, Mapping):
            return 0.0
        function = call.get("function", call.get("custom"))
        if not isinstance(function, Mapping):
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
        return tokens + self._anything(arguments)

    def _anything(self, value: Any) -> float:
        """A value of JSON: its texts, and about a token for each number and each bracket."""
        texts: list[str] = []
        other = _gather(value, texts, 0)
        # One text is counted sooner than twenty small ones.
        return other + (self._measure("\n".join(texts)) if texts else 0.0)


@lru_cache(maxsize=256)
def counter_for(model: str | None = None, *, quick: bool = False) -> TokenCounter:
    """The counter of a model; `quick` takes the estimate even where there is a vocabulary. Loads nothing yet."""
    return _counter_of(family_of(model), quick)


@lru_cache(maxsize=256)
def _counter_of(family: Family, quick: bool) -> TokenCounter:
    return TokenCounter(family, quick=quick)


def _estimate(family: Family) -> Callable[[str], float]:
    more = dict.fromkeys(_WORD_STARTS, family.word) | dict.fromkeys(_LETTER_PAIRS, family.letters)
    estimator = Estimator(family.weights, more)
    tokens, ratio = estimator.tokens, family.ratio
    return tokens if ratio == 1.0 else lambda text: tokens(text) * ratio


def _gather(value: Any, texts: list[str], depth: int) -> float:
    """Put every text of a JSON value into `texts`; the answer is what all the rest of it costs."""
    if isinstance(value, str):
        texts.append(value)
        return 0.0
    if depth > _DEEPEST or value is None:
        return 1.0
    if isinstance(value, Mapping):
        return 2.0 + sum(_gather(k, texts, depth + 1) + _gather(v, texts, depth + 1) for k, v in value.items())
    if isinstance(value, list | tuple):
        return 2.0 + sum(_gather(item, texts, depth + 1) for item in value)
    return 1.0 + value.bit_length() / 10 if isinstance(value, int) else 2.0


def _sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _parsed(arguments: str) -> Any:
    if len(arguments) > _PARSED_CHARS and "\\u" not in arguments:
        # A long text inside JSON differs from itself by these two escapes; parsing would take longer than counting.
        return arguments.replace("\\n", "\n").replace('\\"', '"')
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
