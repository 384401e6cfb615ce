"""The fields of providers' usage objects: which name means what, one row per name, and how an object is searched.

Names are folded (without case, underscores and hyphens), so `cacheReadInputTokens` and `cache_read_input_tokens` are
one row.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final

_PROMPT_DETAILS: Final = ("prompttokensdetails", "prompttokendetails", "inputtokensdetails", "inputtokendetails")
_OUTPUT_DETAILS: Final = (
    "completiontokensdetails",
    "completiontokendetails",
    "outputtokensdetails",
    "outputtokendetails",
)


@dataclass(frozen=True, slots=True)
class UsageField:
    """A folded field name, and the names of the objects around it.

    `separate`: cached tokens are not included in the input, or reasoning is not included in the output, as far as the
    total of the object does not show otherwise.
    """

    name: str
    parents: tuple[str, ...] = ()
    separate: bool = False


def _below(parents: tuple[str, ...], *names: str) -> tuple[UsageField, ...]:
    return tuple(UsageField(name, (parent,)) for name in names for parent in parents)


# fmt: off
PROMPT: Final = (
    UsageField("prompttokens"),                       # chat completions and most who speak it; DashScope
    UsageField("prompttokencount"),                   # Gemini
    UsageField("promptevalcount"),                    # Ollama
    UsageField("inputtokens"),                        # Anthropic, Responses, Bedrock, AI SDK, Codex
    UsageField("total", ("inputtokens",)),            # AI SDK 6
    UsageField("inputtokencount"),                    # Bedrock invocation metrics, watsonx
    UsageField("tokensevaluated"),                    # llama.cpp, native completion
    UsageField("tokensin"),                           # Cline and its kin
    UsageField("numprompttokens"),
    UsageField("input"),                              # pi, opencode, gemini-cli
    UsageField("inputtokens", ("tokens",)),           # Cohere: what the model saw, not what is billed
    UsageField("inputtokens", ("billedunits",)),
)
PROMPT_FRESH: Final = (
    UsageField("promptcachemisstokens"),              # DeepSeek
    UsageField("nocache", ("inputtokens",)),          # AI SDK 6
    UsageField("nocachetokens", ("inputtokendetails",)),
    UsageField("promptn", ("timings",)),              # llama.cpp counts what it evaluated
)
TOOL_PROMPT: Final = (
    UsageField("tooluseprompttokencount", separate=True),  # Gemini
    UsageField("tool", separate=True),                     # gemini-cli
)
CACHE_READ: Final = (
    UsageField("cachereadinputtokens", separate=True),      # Anthropic, Bedrock
    UsageField("cachereadinputtokencount", separate=True),
    UsageField("cachereadinputtokenscount", separate=True),
    UsageField("cachereads", separate=True),
    UsageField("cacheread", separate=True),                 # pi
    UsageField("read", ("cache",), separate=True),          # opencode
    UsageField("cachen", ("timings",), separate=True),      # llama.cpp
    *_below(_PROMPT_DETAILS, "cachedtokens", "cachereadtokens", "cacheread", "cachereadinputtokens",
            "cachedinputtokens"),
    UsageField("cacheread", ("inputtokens",)),
    UsageField("promptcachehittokens"),
    UsageField("cachedcontenttokencount"),
    UsageField("cachedinputtokens"),
    UsageField("cachedprompttokens"),
    UsageField("cachedprompttexttokens"),
    UsageField("cachereadtokens"),
    UsageField("cachedtokens"),                           # Moonshot, Together
    UsageField("numcachedtokens"),
    UsageField("cached"),
    UsageField("cachedtokens", ("tokens",)),
)
CACHE_WRITE: Final = (
    UsageField("cachecreationinputtokens", separate=True),
    UsageField("cachewriteinputtokens", separate=True),
    UsageField("cachewriteinputtokencount", separate=True),
    UsageField("cachewrites", separate=True),
    UsageField("cachewrite", separate=True),
    UsageField("write", ("cache",), separate=True),
    *_below(_PROMPT_DETAILS, "cachewritetokens", "cachecreationtokens", "createdcachetokens",
            "cachecreationinputtokens", "cachewriteinputtokens", "cachewrite", "cachecreation"),
    UsageField("cachewrite", ("inputtokens",)),
    UsageField("cachewritetokens"),
    UsageField("cachecreationtokens"),
)
# Writes by how long they are kept, where no field has their sum.
CACHE_WRITE_PARTS: Final = (
    UsageField("ephemeral5minputtokens", ("cachecreation",), separate=True),
    UsageField("ephemeral1hinputtokens", ("cachecreation",), separate=True),
)
OUTPUT: Final = (
    UsageField("completiontokens"),
    UsageField("outputtokens"),
    UsageField("total", ("outputtokens",)),
    UsageField("candidatestokencount"),
    UsageField("responsetokencount"),                 # Gemini Live
    UsageField("outputtokencount"),
    UsageField("generatedtokencount"),                # watsonx
    UsageField("generatedtokens"),                    # TGI
    UsageField("evalcount"),
    UsageField("tokenspredicted"),
    UsageField("tokensout"),
    UsageField("output"),
    UsageField("predictedn", ("timings",)),
    UsageField("outputtokens", ("tokens",)),
    UsageField("outputtokens", ("billedunits",)),
)
REASONING: Final = (
    UsageField("thoughtstokencount", separate=True),
    UsageField("thoughts", separate=True),
    *_below(_OUTPUT_DETAILS, "reasoningtokens", "thinkingtokens", "reasoning", "thinking"),
    UsageField("reasoning", ("outputtokens",)),
    UsageField("reasoningoutputtokens"),
    UsageField("reasoningtokens"),
    UsageField("thinkingtokens"),
    UsageField("reasoning"),
)
TOTAL: Final = (UsageField("totaltokens"), UsageField("totaltokencount"), UsageField("total"))
# Where a usage object hides in what was handed to us, the likeliest first.
WRAPPERS: Final = (
    "usage", "usagemetadata", "tokenusage", "lasttokenusage", "responsemetadata", "message", "response", "info", "meta",
    "tokens", "amazonbedrockinvocationmetrics", "xgroq", "choices", "result", "data", "body", "payload", "details",
    "metadata", "totaltokenusage", "modelusage", "event",
)
# fmt: on

ALL_FIELDS: Final = (
    *PROMPT, *PROMPT_FRESH, *TOOL_PROMPT, *CACHE_READ, *CACHE_WRITE, *CACHE_WRITE_PARTS, *OUTPUT, *REASONING, *TOTAL,
)  # fmt: skip
_NAMES: Final = frozenset(name for field in ALL_FIELDS for name in (field.name, *field.parents))
# Common words that a reply may use for something else; alone they do not make an object a usage object.
_AMBIGUOUS: Final = frozenset(
    {"total", "input", "output", "tokens", "cached", "tool", "reasoning", "thoughts", "cache", "read", "write"}
)
_DIGITS: Final = re.compile(r"\d{1,18}(?:\.\d*)?")
_MAX_DEPTH: Final = 8
# Searched first: a reply of llama.cpp also has timings, which count differently.
_USAGE: Final = "usage"

FoldedFields = dict[str, Any]


def fold(raw: object) -> FoldedFields | None:
    """The fields of a mapping or an object with folded names, or None where there are none."""
    mapping = _as_mapping(raw)
    if mapping is None:
        return None
    return {
        str(key).replace("_", "").replace("-", "").replace(".", "").lower(): value for key, value in mapping.items()
    }


def find_usage(raw: object, depth: int = 0) -> FoldedFields | None:
    """The fields of the usage object in `raw`: `raw` itself, or an object inside a reply, a chunk or a log line."""
    if depth > _MAX_DEPTH:
        return None
    if isinstance(raw, (str, bytes)):
        return find_usage(_parsed(raw), depth + 1)
    if isinstance(raw, list) or type(raw) is tuple:
        # Of the chunks of a stream the last one with a usage has the final numbers.
        return next((found for item in reversed(raw[-64:]) if (found := find_usage(item, depth + 1))), None)
    folded = fold(raw)
    if folded is None:
        return None
    named = find_usage(folded[_USAGE], depth + 1) if _USAGE in folded else None
    if named or _is_usage(folded):
        return named or folded
    inner = (find_usage(folded[name], depth + 1) for name in WRAPPERS if folded.get(name) is not None)
    return next((found for found in inner if found), folded if _NAMES & folded.keys() else None)


def as_count(value: object) -> int | None:
    """A whole number of tokens; None for what is missing, negative (some write -1), infinite or no number."""
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


def read_field(folded: FoldedFields, usage_fields: tuple[UsageField, ...]) -> tuple[int | None, bool]:
    """The first number above zero under these fields, else the first zero, and whether its field is `separate`."""
    zero: tuple[int | None, bool] = (None, False)
    for field in usage_fields:
        found = as_count(_look_up(folded, field))
        if found:
            return found, field.separate
        if found is not None and zero[0] is None:
            zero = (found, field.separate)
    return zero


def _look_up(folded: FoldedFields, field: UsageField) -> object:
    nested: FoldedFields | None = folded
    for name in field.parents:
        nested = fold((nested or {}).get(name))
    return nested.get(field.name) if nested else None


def _is_usage(folded: FoldedFields) -> bool:
    named = {name for name in folded.keys() & _NAMES if _holds_count(folded[name])}
    return bool(named - _AMBIGUOUS) or {"input", "output"} <= named


def _holds_count(value: object) -> bool:
    inner = fold(value)
    return as_count(value) is not None or (
        inner is not None and any(as_count(part) is not None for part in inner.values())
    )


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
    """The public fields of an SDK's object, of any of the usual kinds."""
    if is_dataclass(raw):
        names = [field.name for field in fields(raw)]
    else:
        listings = (getattr(raw, name, None) for name in ("_fields", "__dict__", "__slots__", "__pydantic_extra__"))
        names = [name for listing in listings if isinstance(listing, (Mapping, list, tuple)) for name in listing]
    for name in names:
        if isinstance(name, str) and not name.startswith("_"):
            yield name, getattr(raw, name, None)
