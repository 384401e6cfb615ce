"""A provider's usage object, in whichever of their shapes, as `CanonicalUsage`.

Providers differ in two things only: whether cached tokens stand inside the prompt's number or beside it, and whether
reasoning stands inside the output's. The object's own total settles it where there is one; else the spelling does.
Never raises and never gives a negative bucket.
"""

from __future__ import annotations

from dataclasses import dataclass

from clew.usage import fields as f
from clew.usage.canonical import CanonicalUsage
from clew.usage.fields import Folded, count, find_usage, fold, read

_OUR_NAMES = frozenset({"inputtokens", "outputtokens", "cachereadtokens", "cachewritetokens", "reasoningtokens"})
_BOTH = (True, False)
_WAYS = tuple((cache, reasoning, tool) for cache in _BOTH for reasoning in _BOTH for tool in _BOTH)


@dataclass(frozen=True, slots=True)
class _Figures:
    """What the object states, before it is known how the numbers relate."""

    prompt: int | None
    fresh: int | None
    tool: int
    cached: int
    written: int
    cache_beside: bool
    output: int | None
    reasoning: int
    reasoning_beside: bool
    total: int | None


def normalize_usage(raw: object, provider: str | None = None, api: str | None = None) -> CanonicalUsage:
    """The usage of one call. `provider` and `api` are hints for what the object itself leaves open."""
    if isinstance(raw, CanonicalUsage):
        return raw
    folded = find_usage(raw)
    if folded is None:
        return CanonicalUsage()
    figures = _figures(folded, f"{provider or ''} {api or ''}".lower())
    input_tokens, cached, written = _split_prompt(figures)
    output = _whole_output(figures, input_tokens + cached + written)
    return CanonicalUsage(input_tokens, output, cached, written, figures.reasoning)


def _figures(folded: Folded, hints: str) -> _Figures:
    prompt, _ = read(folded, f.PROMPT)
    cached, read_beside = read(folded, f.CACHE_READ)
    written, write_beside = read(folded, f.CACHE_WRITE)
    if not written:
        # Some name only the parts of what was written, by how long each is kept.
        parts = [count(value) or 0 for value in _write_parts(folded)]
        written, write_beside = sum(parts), any(parts) or write_beside
    output, _ = read(folded, f.OUTPUT)
    reasoning, reasoning_beside = read(folded, f.REASONING)
    return _Figures(
        prompt=prompt,
        fresh=read(folded, f.PROMPT_FRESH)[0],
        tool=read(folded, f.TOOL_PROMPT)[0] or 0,
        cached=cached or 0,
        written=written or 0,
        cache_beside=_cache_stands_beside(folded, read_beside or write_beside, hints),
        output=output,
        reasoning=reasoning or 0,
        reasoning_beside=reasoning_beside or _reasons_beside(folded, hints),
        total=read(folded, f.TOTAL)[0] or None,
    )


def _cache_stands_beside(folded: Folded, spelled_beside: bool, hints: str) -> bool:
    if "prompttokens" in folded:
        # `prompt_tokens` is the whole prompt, also where a proxy adds Anthropic's names to it.
        return False
    if folded.keys() >= _OUR_NAMES:
        return True
    return spelled_beside or ("cachereadtokens" in folded and ("anthropic" in hints or "bedrock" in hints))


def _reasons_beside(folded: Folded, hints: str) -> bool:
    # xAI itself counts so; OpenRouter in front of it does not. Coding agents that keep a `cache` object do too.
    return ("xai" in hints and "openrouter" not in hints and "completiontokens" in folded) or (
        "cache" in folded and "reasoning" in folded
    )


def _write_parts(folded: Folded) -> list[object]:
    parts: list[object] = [read(folded, (spelling,))[0] for spelling in f.CACHE_WRITE_PARTS]
    if any(parts):
        return parts
    details = folded.get("cachedetails")
    return [(fold(item) or {}).get("inputtokens") for item in details[:16]] if isinstance(details, list) else []


def _settled(figures: _Figures) -> tuple[bool, bool, bool]:
    """Whether cache, reasoning and tool prompt stand beside: as the total says, else as the spelling says."""
    usual = (figures.cache_beside, figures.reasoning_beside, True)
    if figures.prompt is None:
        return usual
    kept = figures.cached + figures.written
    if figures.total is not None:
        for cache, reasoning, tool in sorted(_WAYS, key=lambda way: _distance(way, usual)):
            parts = (figures.output or 0, kept * cache, figures.reasoning * reasoning, figures.tool * tool)
            if figures.prompt + sum(parts) == figures.total:
                return cache, reasoning, tool
    # A prompt is never smaller than its cached part, nor an output than its reasoning.
    return usual[0] or kept > figures.prompt, usual[1] or figures.reasoning > (figures.output or 0), True


def _distance(way: tuple[bool, bool, bool], usual: tuple[bool, bool, bool]) -> int:
    return sum(a != b for a, b in zip(way, usual, strict=True))


def _split_prompt(figures: _Figures) -> tuple[int, int, int]:
    """Fresh, read and written tokens of the prompt."""
    cache_beside, _, tool_beside = _settled(figures)
    tool = figures.tool if tool_beside else 0
    if figures.prompt is None:
        return _prompt_from_the_rest(figures) + tool, figures.cached, figures.written
    if cache_beside:
        return figures.prompt + tool, figures.cached, figures.written
    cached = min(figures.cached, figures.prompt)
    written = min(figures.written, figures.prompt - cached)
    return figures.prompt - cached - written + tool, cached, written


def _prompt_from_the_rest(figures: _Figures) -> int:
    if figures.fresh is not None:
        return figures.fresh
    rest = (figures.total or 0) - (figures.output or 0) - figures.cached - figures.written
    return max(0, rest)


def _whole_output(figures: _Figures, prompt: int) -> int:
    _, reasoning_beside, _ = _settled(figures)
    stated = (figures.output or 0) + (figures.reasoning if reasoning_beside else 0)
    if figures.output is None and figures.prompt is not None and figures.total is not None:
        return max(stated, figures.total - prompt)
    return stated
