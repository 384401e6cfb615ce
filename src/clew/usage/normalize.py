"""A provider's usage object, of any shape, as `CanonicalUsage`.

Providers differ in whether cached tokens are included in the prompt's number or separate from it, and whether
reasoning is included in the output's. The object's total decides it where there is one, otherwise the field names.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final

_OUR_NAMES = frozenset({"inputtokens", "outputtokens", "cachereadtokens", "cachewritetokens", "reasoningtokens"})
_BOTH = (True, False)
MAX_COUNT: Final = 10**12
"""Larger figures are cut to this: no call uses as many tokens, and sums of them still have a place in 64 bits."""
_COMBINATIONS = tuple((cache, reasoning, tool) for cache in _BOTH for reasoning in _BOTH for tool in _BOTH)


@dataclass(frozen=True, slots=True)
class CanonicalUsage:
    """Tokens of one call, or of several added up. The three parts of the prompt do not overlap."""

    input_tokens: int = 0
    """Prompt tokens that were neither read from a cache nor written to one."""
    output_tokens: int = 0
    """Everything the model wrote, its reasoning included."""
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    """The part of the output that was reasoning, as reported."""
    is_known: bool = dataclasses.field(default=True, compare=False, kw_only=True)
    """False where what was handed in has no usage that Clew can read: the zeros then say nothing."""

    @property
    def prompt_tokens(self) -> int:
        """The whole prompt: what filled the window."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.output_tokens

    def as_json(self) -> dict[str, int]:
        """The counts by name, with the whole prompt first."""
        names = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")
        return {"prompt_tokens": self.prompt_tokens, **{name: getattr(self, name) for name in names}}

    def __add__(self, other: CanonicalUsage) -> CanonicalUsage:
        if not isinstance(other, CanonicalUsage):
            return NotImplemented
        return CanonicalUsage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            is_known=self.is_known and other.is_known,
        )


@dataclass(frozen=True, slots=True)
class _ReportedUsage:
    """The numbers of a usage object, before it is known which of them include each other."""

    prompt: int | None
    fresh: int | None
    tool: int
    cached: int
    written: int
    cache_separate: bool
    cache_is_detail: bool
    """Cached tokens are stated as a detail of the prompt, so that they are a part of it however many they are."""
    output: int | None
    reasoning: int
    reasoning_separate: bool
    reasoning_is_detail: bool
    total: int | None


def normalize_usage(raw: object, provider: str | None = None, api: str | None = None) -> CanonicalUsage:
    """The usage of one call; `provider` and `api` are hints. Never raises; no number is negative or over `MAX_COUNT`.

    `raw` is the usage, or a reply that has it: a dict, JSON, or an object of an SDK. Where nothing in it is known as a
    usage, the result is zero and says so: `is_known` is False.
    """
    if isinstance(raw, CanonicalUsage):
        return _bounded(raw)
    folded = find_usage(raw)
    if folded is None or not (_is_usage(folded) or read_field(folded, ALL_FIELDS)[0] is not None):
        return CanonicalUsage(is_known=False)
    reported = _reported_usage(folded, f"{provider or ''} {api or ''}".lower())
    input_tokens, cached, written = _split_prompt(reported)
    output, reasoning = _output_tokens(reported, input_tokens + cached + written)
    return _bounded(CanonicalUsage(input_tokens, output, cached, written, reasoning))


def _bounded(usage: CanonicalUsage) -> CanonicalUsage:
    """The same usage, where every number is one that a call can have."""
    figures = (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
    )
    if all(type(figure) is int and 0 <= figure <= MAX_COUNT for figure in figures):
        return usage
    counts = (min(as_count(figure) or 0, MAX_COUNT) for figure in figures)
    return CanonicalUsage(*counts, is_known=usage.is_known)


def _reported_usage(folded: FoldedFields, hints: str) -> _ReportedUsage:
    prompt, _ = read_field(folded, PROMPT)
    if prompt is None:
        prompt = _count_named(folded, _PROMPT_NAME)
    cached, read_separate = read_field(folded, CACHE_READ)
    if cached is None:
        cached = _count_named(folded, _CACHE_READ_NAME)
    written, write_separate = read_field(folded, CACHE_WRITE)
    if not written:
        # Some report only the parts of what was written, by how long each is kept.
        parts = [as_count(value) or 0 for value in _write_parts(folded)]
        written, write_separate = sum(parts), any(parts) or write_separate
    output, _ = read_field(folded, OUTPUT)
    if output is None:
        output = _count_named(folded, _OUTPUT_NAME)
    reasoning, reasoning_separate = read_field(folded, REASONING)
    return _ReportedUsage(
        prompt=prompt,
        fresh=read_field(folded, PROMPT_FRESH)[0],
        tool=read_field(folded, TOOL_PROMPT)[0] or 0,
        cached=cached or 0,
        written=written or 0,
        cache_separate=_is_cache_separate(folded, read_separate or write_separate, hints),
        cache_is_detail=not (read_separate or write_separate),
        output=output,
        reasoning=reasoning or 0,
        reasoning_separate=reasoning_separate or _is_reasoning_separate(folded, hints),
        reasoning_is_detail=bool(read_field(folded, REASONING_DETAILS)[0]),
        total=read_field(folded, TOTAL)[0] or None,
    )


def _is_cache_separate(folded: FoldedFields, named_separate: bool, hints: str) -> bool:
    if "prompttokens" in folded or "tokensevaluated" in folded:
        # `prompt_tokens` is the whole prompt, also where a proxy adds Anthropic's names to it; so is what llama.cpp
        # calls evaluated.
        return False
    if folded.keys() >= _OUR_NAMES:
        return True
    return named_separate or ("cachereadtokens" in folded and ("anthropic" in hints or "bedrock" in hints))


def _is_reasoning_separate(folded: FoldedFields, hints: str) -> bool:
    # xAI itself counts so; OpenRouter in front of it does not. Coding agents that keep a `cache` object do too.
    return ("xai" in hints and "openrouter" not in hints and "completiontokens" in folded) or (
        "cache" in folded and "reasoning" in folded
    )


def _write_parts(folded: FoldedFields) -> list[object]:
    parts: list[object] = [read_field(folded, (field,))[0] for field in CACHE_WRITE_PARTS]
    if any(parts):
        return parts
    details = folded.get("cachedetails")
    return [(fold(item) or {}).get("inputtokens") for item in details[:16]] if isinstance(details, list) else []


def _separate_parts(reported: _ReportedUsage) -> tuple[bool, bool, bool]:
    """Whether cache, reasoning and tool prompt are separate: by the total where it adds up, else by the names."""
    by_name = (reported.cache_separate, reported.reasoning_separate, True)
    if reported.prompt is None:
        return by_name
    kept = reported.cached + reported.written
    if reported.total is not None:
        for cache, reasoning, tool in sorted(_COMBINATIONS, key=lambda combination: _differences(combination, by_name)):
            parts = (reported.output or 0, kept * cache, reported.reasoning * reasoning, reported.tool * tool)
            if reported.prompt + sum(parts) == reported.total:
                return cache or _is_more_than_cacheable(reported), reasoning or _is_more_than_output(reported), tool
    # A prompt is never smaller than its cached part, nor an output than its reasoning.
    return by_name[0] or kept > reported.prompt, by_name[1] or reported.reasoning > (reported.output or 0), True


def _is_more_than_cacheable(reported: _ReportedUsage) -> bool:
    """Whether more was cached than the prompt has, by fields that count beside it: the total then leaves them out."""
    return not reported.cache_is_detail and reported.cached + reported.written > (reported.prompt or 0)


def _is_more_than_output(reported: _ReportedUsage) -> bool:
    """The same for reasoning. A detail that exceeds its whole was counted wrong, and the whole is right."""
    return not reported.reasoning_is_detail and reported.reasoning > (reported.output or 0)


def _differences(combination: tuple[bool, bool, bool], by_name: tuple[bool, bool, bool]) -> int:
    return sum(a != b for a, b in zip(combination, by_name, strict=True))


def _split_prompt(reported: _ReportedUsage) -> tuple[int, int, int]:
    """Fresh, read and written tokens of the prompt."""
    cache_separate, _, tool_separate = _separate_parts(reported)
    tool = reported.tool if tool_separate else 0
    if reported.prompt is None:
        return _prompt_from_total(reported) + tool, reported.cached, reported.written
    if cache_separate:
        return reported.prompt + tool, reported.cached, reported.written
    cached = min(reported.cached, reported.prompt)
    written = min(reported.written, reported.prompt - cached)
    return reported.prompt - cached - written + tool, cached, written


def _prompt_from_total(reported: _ReportedUsage) -> int:
    if reported.fresh is not None:
        return reported.fresh
    rest = (reported.total or 0) - (reported.output or 0) - reported.cached - reported.written
    return max(0, rest)


def _output_tokens(reported: _ReportedUsage, prompt: int) -> tuple[int, int]:
    """All that was written, and how much of it was reasoning.

    Some leave thinking out of every field but the total: what the total has more than the prompt and the output is it.
    """
    _, reasoning_separate, _ = _separate_parts(reported)
    stated = (reported.output or 0) + (reported.reasoning if reasoning_separate else 0)
    output = stated
    if reported.prompt is not None and reported.total is not None:
        output = max(stated, reported.total - prompt)
    unnamed = output - stated if reported.output is not None else 0
    return output, min(reported.reasoning or unnamed, output)


_PROMPT_DETAILS: Final = ("prompttokensdetails", "prompttokendetails", "inputtokensdetails", "inputtokendetails")
_OUTPUT_DETAILS: Final = (
    "completiontokensdetails",
    "completiontokendetails",
    "outputtokensdetails",
    "outputtokendetails",
)


# -- the fields of providers' usage objects: which name means what, one row per name -----------------------------------


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
    UsageField("inputtexttokencount"),                # Bedrock's own models
    UsageField("nativetokensprompt"),                 # OpenRouter's account of a call; `tokens_*` are its own count
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
    UsageField("nativetokenscached"),
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
    UsageField("generationtokencount"),               # Llama on Bedrock
    UsageField("tokencount", ("results",)),           # Bedrock's own models
    UsageField("evalcount"),
    UsageField("tokenspredicted"),
    UsageField("tokensout"),
    UsageField("nativetokenscompletion"),
    UsageField("output"),
    UsageField("predictedn", ("timings",)),
    UsageField("outputtokens", ("tokens",)),
    UsageField("outputtokens", ("billedunits",)),
)
REASONING_DETAILS: Final = (
    *_below(_OUTPUT_DETAILS, "reasoningtokens", "thinkingtokens", "reasoning", "thinking"),
    UsageField("reasoning", ("outputtokens",)),
)
REASONING: Final = (
    UsageField("thoughtstokencount", separate=True),
    UsageField("thoughts", separate=True),
    *REASONING_DETAILS,
    UsageField("nativetokensreasoning"),
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
    "metadata", "totaltokenusage", "modelusage", "event", "results", "stats",
    "metrics",
)
# fmt: on

# Names that no row has, by their parts: tokens of a prompt, of an output, out of a cache; no limits, rates or prices.
_OTHERWISE = (
    r"(?!.*(?:max|min|limit|detail|audio|image|video|billed|remain|left|cost|price|per|second"
    r"|(?<!gene)rate|time|ids?$))"
)
_PROMPT_NAME: Final = re.compile(rf"{_OTHERWISE}(?!.*cach).*(?:input|prompt).*token")
_OUTPUT_NAME: Final = re.compile(
    rf"{_OTHERWISE}(?!.*(?:cach|prompt|input)).*(?:output|completion|generat|predict|response).*token"
)
_CACHE_READ_NAME: Final = re.compile(rf"{_OTHERWISE}(?!.*(?:writ|creat|miss|stor)).*cach.*token")

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
        # Most objects have few of the fields.
        if (field.parents[0] if field.parents else field.name) not in folded:
            continue
        found = as_count(_look_up(folded, field))
        if found:
            return found, field.separate
        if found is not None and zero[0] is None:
            zero = (found, field.separate)
    return zero


def _look_up(folded: FoldedFields, field: UsageField) -> object:
    nested: FoldedFields | None = folded
    for name in field.parents:
        inner = (nested or {}).get(name)
        nested = fold(inner[0] if isinstance(inner, list) and inner else inner)
    return nested.get(field.name) if nested else None


def _is_usage(folded: FoldedFields) -> bool:
    named = {name for name in folded.keys() & _NAMES if _holds_count(folded[name])}
    if named - _AMBIGUOUS or {"input", "output"} <= named:
        return True
    return _count_named(folded, _PROMPT_NAME) is not None and _count_named(folded, _OUTPUT_NAME) is not None


def _count_named(folded: FoldedFields, pattern: re.Pattern[str]) -> int | None:
    """The first number whose name has the form of a pattern."""
    return next(
        (n for name, value in folded.items() if pattern.match(name) and (n := as_count(value)) is not None), None
    )


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
    if type(raw) is dict or isinstance(raw, Mapping):
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
