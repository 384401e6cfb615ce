"""Which field of a provider's usage object means what. One row per spelling.

Names are compared without case, underscores and hyphens, so `cacheReadInputTokens` and `cache_read_input_tokens` are
one row. Knows spellings. Does not know how the numbers relate: that is `normalize`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final

_INSIDE: Final = ("prompttokensdetails", "prompttokendetails", "inputtokensdetails", "inputtokendetails")
_OUTSIDE: Final = ("completiontokensdetails", "completiontokendetails", "outputtokensdetails", "outputtokendetails")


@dataclass(frozen=True, slots=True)
class Spelling:
    """A field name, maybe inside another field, and whether its number is part of the one it belongs to.

    `beside` says how the provider counts when its own total does not settle it: cached tokens beside the input they
    were sent with, or reasoning beside the output it came with.
    """

    name: str
    within: tuple[str, ...] = ()
    beside: bool = False


def _within(parents: tuple[str, ...], *names: str) -> tuple[Spelling, ...]:
    return tuple(Spelling(name, (parent,)) for name in names for parent in parents)


# fmt: off
PROMPT: Final = (
    Spelling("prompttokens"),                       # chat completions and most who speak it; DashScope
    Spelling("prompttokencount"),                   # Gemini
    Spelling("promptevalcount"),                    # Ollama
    Spelling("inputtokens"),                        # Anthropic, Responses, Bedrock, AI SDK, Codex
    Spelling("total", ("inputtokens",)),            # AI SDK 6
    Spelling("inputtokencount"),                    # Bedrock invocation metrics, watsonx
    Spelling("tokensevaluated"),                    # llama.cpp, native completion
    Spelling("tokensin"),                           # Cline and its kin
    Spelling("numprompttokens"),
    Spelling("input"),                              # pi, opencode, gemini-cli
    Spelling("inputtokens", ("tokens",)),           # Cohere: what the model saw, not what is billed
    Spelling("inputtokens", ("billedunits",)),
)
PROMPT_FRESH: Final = (
    Spelling("promptcachemisstokens"),              # DeepSeek
    Spelling("nocache", ("inputtokens",)),          # AI SDK 6
    Spelling("nocachetokens", ("inputtokendetails",)),
    Spelling("promptn", ("timings",)),              # llama.cpp counts what it evaluated
)
TOOL_PROMPT: Final = (
    Spelling("tooluseprompttokencount", beside=True),  # Gemini
    Spelling("tool", beside=True),                     # gemini-cli
)
CACHE_READ: Final = (
    Spelling("cachereadinputtokens", beside=True),      # Anthropic, Bedrock
    Spelling("cachereadinputtokencount", beside=True),
    Spelling("cachereadinputtokenscount", beside=True),
    Spelling("cachereads", beside=True),
    Spelling("cacheread", beside=True),                 # pi
    Spelling("read", ("cache",), beside=True),          # opencode
    Spelling("cachen", ("timings",), beside=True),      # llama.cpp
    *_within(_INSIDE, "cachedtokens", "cachereadtokens", "cacheread", "cachereadinputtokens", "cachedinputtokens"),
    Spelling("cacheread", ("inputtokens",)),
    Spelling("promptcachehittokens"),
    Spelling("cachedcontenttokencount"),
    Spelling("cachedinputtokens"),
    Spelling("cachedprompttokens"),
    Spelling("cachedprompttexttokens"),
    Spelling("cachereadtokens"),
    Spelling("cachedtokens"),                           # Moonshot, Together
    Spelling("numcachedtokens"),
    Spelling("cached"),
    Spelling("cachedtokens", ("tokens",)),
)
CACHE_WRITE: Final = (
    Spelling("cachecreationinputtokens", beside=True),
    Spelling("cachewriteinputtokens", beside=True),
    Spelling("cachewriteinputtokencount", beside=True),
    Spelling("cachewrites", beside=True),
    Spelling("cachewrite", beside=True),
    Spelling("write", ("cache",), beside=True),
    *_within(_INSIDE, "cachewritetokens", "cachecreationtokens", "createdcachetokens", "cachecreationinputtokens",
             "cachewriteinputtokens", "cachewrite", "cachecreation"),
    Spelling("cachewrite", ("inputtokens",)),
    Spelling("cachewritetokens"),
    Spelling("cachecreationtokens"),
)
# Writes by how long they are kept, where no field has their sum.
CACHE_WRITE_PARTS: Final = (
    Spelling("ephemeral5minputtokens", ("cachecreation",), beside=True),
    Spelling("ephemeral1hinputtokens", ("cachecreation",), beside=True),
)
OUTPUT: Final = (
    Spelling("completiontokens"),
    Spelling("outputtokens"),
    Spelling("total", ("outputtokens",)),
    Spelling("candidatestokencount"),
    Spelling("responsetokencount"),                 # Gemini Live
    Spelling("outputtokencount"),
    Spelling("generatedtokencount"),                # watsonx
    Spelling("generatedtokens"),                    # TGI
    Spelling("evalcount"),
    Spelling("tokenspredicted"),
    Spelling("tokensout"),
    Spelling("output"),
    Spelling("predictedn", ("timings",)),
    Spelling("outputtokens", ("tokens",)),
    Spelling("outputtokens", ("billedunits",)),
)
REASONING: Final = (
    Spelling("thoughtstokencount", beside=True),
    Spelling("thoughts", beside=True),
    *_within(_OUTSIDE, "reasoningtokens", "thinkingtokens", "reasoning", "thinking"),
    Spelling("reasoning", ("outputtokens",)),
    Spelling("reasoningoutputtokens"),
    Spelling("reasoningtokens"),
    Spelling("thinkingtokens"),
    Spelling("reasoning"),
)
TOTAL: Final = (Spelling("totaltokens"), Spelling("totaltokencount"), Spelling("total"))
# Where a usage object hides in what was handed to us, the likeliest first.
WRAPPERS: Final = (
    "usage", "usagemetadata", "tokenusage", "lasttokenusage", "responsemetadata", "message", "response", "info", "meta",
    "tokens", "amazonbedrockinvocationmetrics", "xgroq", "choices", "result", "data", "body", "payload", "details",
    "metadata", "totaltokenusage", "modelusage", "event",
)
# fmt: on

EVERY: Final = (
    *PROMPT, *PROMPT_FRESH, *TOOL_PROMPT, *CACHE_READ, *CACHE_WRITE, *CACHE_WRITE_PARTS, *OUTPUT, *REASONING, *TOTAL,
)  # fmt: skip
_NAMES: Final = frozenset(spelling.name for spelling in EVERY) | {parent for s in EVERY for parent in s.within}
# Common words that a reply may also use for something else; alone they do not make an object a usage.
_VAGUE: Final = frozenset(
    {"total", "input", "output", "tokens", "cached", "tool", "reasoning", "thoughts", "cache", "read", "write"}
)
_DIGITS: Final = re.compile(r"\d{1,18}(?:\.\d*)?")
_MAX_DEPTH: Final = 8
# A reply of llama.cpp has timings beside its usage, and counts differently in them.
_FIRST: Final = "usage"

Folded = dict[str, Any]


def fold(raw: object) -> Folded | None:
    """The fields of a mapping or an object with folded names, or None where there are none."""
    mapping = _as_mapping(raw)
    if mapping is None:
        return None
    return {
        str(key).replace("_", "").replace("-", "").replace(".", "").lower(): value for key, value in mapping.items()
    }


def find_usage(raw: object, depth: int = 0) -> Folded | None:
    """The fields of the usage object in `raw`: itself, or what a reply, a chunk or a log line wraps around it."""
    if depth > _MAX_DEPTH:
        return None
    if isinstance(raw, (str, bytes)):
        return find_usage(_parsed(raw), depth + 1)
    if isinstance(raw, list) or type(raw) is tuple:
        # Of the chunks of a stream the last one with a usage has the final figures.
        return next((found for item in reversed(raw[-64:]) if (found := find_usage(item, depth + 1))), None)
    folded = fold(raw)
    if folded is None:
        return None
    named = find_usage(folded[_FIRST], depth + 1) if _FIRST in folded else None
    if named or _is_usage(folded):
        return named or folded
    inner = (find_usage(folded[name], depth + 1) for name in WRAPPERS if folded.get(name) is not None)
    return next((found for found in inner if found), folded if _NAMES & folded.keys() else None)


def count(value: object) -> int | None:
    """A whole number of tokens, or None: for what is missing, negative (some write -1), endless or no number."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        digits = value.strip().replace(",", "").replace("_", "")
        return int(float(digits)) if _DIGITS.fullmatch(digits) else None
    if isinstance(value, int):
        return value if value >= 0 else None
    if isinstance(value, float):
        return int(value) if math.isfinite(value) and value >= 0 else None
    return None


def read(folded: Folded, spellings: tuple[Spelling, ...]) -> tuple[int | None, bool]:
    """The number under the first spelling that has one (a later one where the first says zero), and its convention."""
    zero: tuple[int | None, bool] = (None, False)
    for spelling in spellings:
        found = count(_look_up(folded, spelling))
        if found:
            return found, spelling.beside
        if found is not None and zero[0] is None:
            zero = (found, spelling.beside)
    return zero


def _look_up(folded: Folded, spelling: Spelling) -> object:
    inside: Folded | None = folded
    for name in spelling.within:
        inside = fold((inside or {}).get(name))
    return inside.get(spelling.name) if inside else None


def _is_usage(folded: Folded) -> bool:
    named = {name for name in folded.keys() & _NAMES if _holds_count(folded[name])}
    return bool(named - _VAGUE) or {"input", "output"} <= named


def _holds_count(value: object) -> bool:
    inner = fold(value)
    return count(value) is not None or (inner is not None and any(count(part) is not None for part in inner.values()))


def _parsed(raw: str | bytes) -> object:
    if len(raw) > 1_000_000:
        return None
    try:
        found: object = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, (dict, list)) else None


def _as_mapping(raw: object) -> Mapping[Any, Any] | None:
    if isinstance(raw, Mapping):
        return raw
    if raw is None or isinstance(raw, (str, bytes, int, float, list, set, type)) or type(raw) is tuple:
        return None
    return dict(_attributes(raw))


def _attributes(raw: object) -> Iterator[tuple[str, object]]:
    """The public fields of an SDK's object, whichever way it keeps them."""
    if is_dataclass(raw):
        names = [field.name for field in fields(raw)]
    else:
        ways = (getattr(raw, way, None) for way in ("_fields", "__dict__", "__slots__", "__pydantic_extra__"))
        names = [name for way in ways if isinstance(way, (Mapping, list, tuple)) for name in way]
    for name in names:
        if isinstance(name, str) and not name.startswith("_"):
            yield name, getattr(raw, name, None)
