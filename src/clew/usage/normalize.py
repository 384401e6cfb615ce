"""A provider's usage object, of any shape, as `CanonicalUsage`.

Providers differ in whether cached tokens are included in the prompt's number or separate from it, and whether
reasoning is included in the output's. The object's total decides it where there is one, otherwise the field names.
"""

from __future__ import annotations

from dataclasses import dataclass

from clew.usage import fields as f
from clew.usage.fields import FoldedFields, as_count, find_usage, fold, read_field

_OUR_NAMES = frozenset({"inputtokens", "outputtokens", "cachereadtokens", "cachewritetokens", "reasoningtokens"})
_BOTH = (True, False)
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

    @property
    def prompt_tokens(self) -> int:
        """The whole prompt: what filled the window."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.output_tokens

    def __add__(self, other: CanonicalUsage) -> CanonicalUsage:
        if not isinstance(other, CanonicalUsage):
            return NotImplemented
        return CanonicalUsage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
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
    output: int | None
    reasoning: int
    reasoning_separate: bool
    total: int | None


def normalize_usage(raw: object, provider: str | None = None, api: str | None = None) -> CanonicalUsage:
    """The usage of one call; `provider` and `api` are hints. Never raises, and no number is ever negative."""
    if isinstance(raw, CanonicalUsage):
        return raw
    folded = find_usage(raw)
    if folded is None:
        return CanonicalUsage()
    reported = _reported_usage(folded, f"{provider or ''} {api or ''}".lower())
    input_tokens, cached, written = _split_prompt(reported)
    output = _output_tokens(reported, input_tokens + cached + written)
    return CanonicalUsage(input_tokens, output, cached, written, reported.reasoning)


def _reported_usage(folded: FoldedFields, hints: str) -> _ReportedUsage:
    prompt, _ = read_field(folded, f.PROMPT)
    cached, read_separate = read_field(folded, f.CACHE_READ)
    written, write_separate = read_field(folded, f.CACHE_WRITE)
    if not written:
        # Some report only the parts of what was written, by how long each is kept.
        parts = [as_count(value) or 0 for value in _write_parts(folded)]
        written, write_separate = sum(parts), any(parts) or write_separate
    output, _ = read_field(folded, f.OUTPUT)
    reasoning, reasoning_separate = read_field(folded, f.REASONING)
    return _ReportedUsage(
        prompt=prompt,
        fresh=read_field(folded, f.PROMPT_FRESH)[0],
        tool=read_field(folded, f.TOOL_PROMPT)[0] or 0,
        cached=cached or 0,
        written=written or 0,
        cache_separate=_is_cache_separate(folded, read_separate or write_separate, hints),
        output=output,
        reasoning=reasoning or 0,
        reasoning_separate=reasoning_separate or _is_reasoning_separate(folded, hints),
        total=read_field(folded, f.TOTAL)[0] or None,
    )


def _is_cache_separate(folded: FoldedFields, named_separate: bool, hints: str) -> bool:
    if "prompttokens" in folded:
        # `prompt_tokens` is the whole prompt, also where a proxy adds Anthropic's names to it.
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
    parts: list[object] = [read_field(folded, (field,))[0] for field in f.CACHE_WRITE_PARTS]
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
                return cache, reasoning, tool
    # A prompt is never smaller than its cached part, nor an output than its reasoning.
    return by_name[0] or kept > reported.prompt, by_name[1] or reported.reasoning > (reported.output or 0), True


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


def _output_tokens(reported: _ReportedUsage, prompt: int) -> int:
    _, reasoning_separate, _ = _separate_parts(reported)
    stated = (reported.output or 0) + (reported.reasoning if reasoning_separate else 0)
    if reported.output is None and reported.prompt is not None and reported.total is not None:
        return max(stated, reported.total - prompt)
    return stated
