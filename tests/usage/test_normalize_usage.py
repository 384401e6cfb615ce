"""Usage objects in the shapes that providers send, with numbers of our own."""

# ruff: noqa: E501 (a case is a line)
from __future__ import annotations

import json
from collections import namedtuple
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from clew.usage import MAX_COUNT, CanonicalUsage, normalize_usage
from tests.support.cases import every_case

ABSURD = [
    1e30,
    2**62,
    2**63,
    2**200,
    -1,
    -(2**63),
    float("nan"),
    float("inf"),
    "1e30",
    "-7",
    "9" * 400,
    "many",
    "",
    [],
    {},
    True,
]


@every_case("figure", ABSURD)
@every_case("shape", ["prompt_tokens", "input_tokens", "output_tokens", "total_tokens", "cache_read_input_tokens"])
def test_an_absurd_figure_is_bounded_and_never_an_error(shape: str, figure: object) -> None:
    read = normalize_usage({"prompt_tokens": 5, "completion_tokens": 3, shape: figure})
    for count in (
        read.input_tokens,
        read.output_tokens,
        read.cache_read_tokens,
        read.cache_write_tokens,
        read.reasoning_tokens,
    ):
        assert type(count) is int and 0 <= count <= MAX_COUNT


@every_case("figure", ABSURD)
def test_a_usage_of_ours_with_absurd_figures_is_bounded_too(figure: Any) -> None:
    read = normalize_usage(CanonicalUsage(figure, figure, figure, figure, figure))
    assert all(
        type(count) is int and 0 <= count <= MAX_COUNT
        for count in (read.input_tokens, read.output_tokens, read.reasoning_tokens)
    )
    whole = CanonicalUsage(5, 3, 2, 1, 1)
    assert normalize_usage(whole) is whole


def usage(fresh: int = 0, output: int = 0, read: int = 0, written: int = 0, reasoning: int = 0) -> CanonicalUsage:
    return CanonicalUsage(fresh, output, read, written, reasoning)


# fmt: off
SHAPES: dict[str, tuple[Any, CanonicalUsage]] = {
    "anthropic": ({"input_tokens": 5, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 70, "output_tokens": 30}, usage(5, 30, 900, 70)),
    "anthropic, writes by lifetime only": ({"input_tokens": 5, "cache_creation": {"ephemeral_5m_input_tokens": 40, "ephemeral_1h_input_tokens": 2}, "output_tokens": 3}, usage(5, 3, 0, 42)),
    "anthropic, nulls": ({"input_tokens": 5, "cache_read_input_tokens": None, "cache_creation": None, "output_tokens": 3}, usage(5, 3)),
    "anthropic, thinking": ({"input_tokens": 5, "output_tokens": 30, "output_tokens_details": {"thinking_tokens": 12}}, usage(5, 30, reasoning=12)),
    "anthropic, iterations": ({"input_tokens": 5, "output_tokens": 3, "iterations": [{"input_tokens": 900, "output_tokens": 80}]}, usage(5, 3)),
    "responses": ({"input_tokens": 100, "input_tokens_details": {"cached_tokens": 64}, "output_tokens": 20, "output_tokens_details": {"reasoning_tokens": 8}, "total_tokens": 120}, usage(36, 20, 64, 0, 8)),
    "responses with writes": ({"input_tokens": 100, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 90}, "output_tokens": 20, "total_tokens": 120}, usage(10, 20, 0, 90)),
    "chat": ({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120, "prompt_tokens_details": {"cached_tokens": 64}, "completion_tokens_details": {"reasoning_tokens": 8}}, usage(36, 20, 64, 0, 8)),
    "chat, details null": ({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120, "prompt_tokens_details": None, "completion_tokens_details": None}, usage(100, 20)),
    "chat with anthropic's names inside": ({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120, "cache_read_input_tokens": 60, "cache_creation_input_tokens": 30}, usage(10, 20, 60, 30)),
    "chat with anthropic's names beside": ({"prompt_tokens": 10, "completion_tokens": 20, "cache_read_input_tokens": 60, "cache_creation_input_tokens": 30}, usage(10, 20, 60, 30)),
    "chat, more cached than sent": ({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120, "prompt_tokens_details": {"cached_tokens": 128}}, usage(0, 20, 100)),
    "embeddings": ({"prompt_tokens": 9, "total_tokens": 9}, usage(9)),
    "total only": ({"total_tokens": 7}, usage(7)),
    "deepseek": ({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120, "prompt_cache_hit_tokens": 90, "prompt_cache_miss_tokens": 10}, usage(10, 20, 90)),
    "deepseek, parts only": ({"completion_tokens": 20, "prompt_cache_hit_tokens": 90, "prompt_cache_miss_tokens": 10}, usage(10, 20, 90)),
    "gemini": ({"promptTokenCount": 100, "cachedContentTokenCount": 60, "candidatesTokenCount": 20, "thoughtsTokenCount": 30, "totalTokenCount": 150}, usage(40, 50, 60, 0, 30)),
    "gemini, tool prompt": ({"promptTokenCount": 100, "toolUsePromptTokenCount": 11, "candidatesTokenCount": 20, "totalTokenCount": 131}, usage(111, 20)),
    "gemini, only thoughts": ({"promptTokenCount": 100, "thoughtsTokenCount": 30, "totalTokenCount": 130}, usage(100, 30, reasoning=30)),
    "gemini, python names": ({"prompt_token_count": 100, "cached_content_token_count": None, "candidates_token_count": 20, "thoughts_token_count": 5, "total_token_count": 125}, usage(100, 25, reasoning=5)),
    "gemini live": ({"promptTokenCount": 100, "responseTokenCount": 20, "totalTokenCount": 120}, usage(100, 20)),
    "bedrock": ({"inputTokens": 5, "outputTokens": 30, "cacheReadInputTokens": 900, "cacheWriteInputTokens": 70, "totalTokens": 1005}, usage(5, 30, 900, 70)),
    "bedrock, no cache": ({"inputTokens": 5, "outputTokens": 30, "totalTokens": 35}, usage(5, 30)),
    "bedrock metrics": ({"amazon-bedrock-invocationMetrics": {"inputTokenCount": 5, "outputTokenCount": 30, "cacheReadInputTokenCount": 9}}, usage(5, 30, 9)),
    "ollama": ({"model": "m", "message": {"role": "assistant", "content": "hi"}, "prompt_eval_count": 40, "eval_count": 7, "total_duration": 123456}, usage(40, 7)),
    "ollama, prompt cached away": ({"eval_count": 7}, usage(0, 7)),
    "llama.cpp timings": ({"timings": {"cache_n": 90, "prompt_n": 10, "predicted_n": 7, "prompt_ms": 3.5}}, usage(10, 7, 90)),
    "llama.cpp, usage beside timings": ({"usage": {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}, "timings": {"cache_n": 90, "prompt_n": 10, "predicted_n": 7}}, usage(100, 7)),
    "cohere": ({"billed_units": {"input_tokens": 5, "output_tokens": 7}, "tokens": {"input_tokens": 60, "output_tokens": 7}}, usage(60, 7)),
    "cohere, billed only": ({"meta": {"billed_units": {"input_tokens": 5, "output_tokens": 7}}}, usage(5, 7)),
    "xai": ({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 150, "completion_tokens_details": {"reasoning_tokens": 30}}, usage(100, 50, reasoning=30)),
    "more reasoning than output, no total": ({"prompt_tokens": 100, "completion_tokens": 20, "completion_tokens_details": {"reasoning_tokens": 30}}, usage(100, 50, reasoning=30)),
    "reasoning at the top, beside": ({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 150, "reasoning_tokens": 30}, usage(100, 50, reasoning=30)),
    "thinking only in the total": ({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 150}, usage(100, 50, reasoning=30)),
    "thinking only in the total, gemini": ({"promptTokenCount": 100, "cachedContentTokenCount": 60, "candidatesTokenCount": 20, "totalTokenCount": 150}, usage(40, 50, 60, 0, 30)),
    "thinking partly in the total alone": ({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 150, "completion_tokens_details": {"reasoning_tokens": 5}}, usage(100, 50, reasoning=5)),
    "a total below its parts": ({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 90}, usage(100, 20)),
    "reasoning beside, left out of the total": ({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120, "reasoning_tokens": 700}, usage(100, 720, reasoning=700)),
    "a detail larger than its whole": ({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120, "completion_tokens_details": {"reasoning_tokens": 23}}, usage(100, 20, reasoning=20)),
    "anthropic's names beside, left out of the total": ({"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30, "cache_read_input_tokens": 60, "cache_creation_input_tokens": 30}, usage(10, 20, 60, 30)),
    "moonshot": ({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120, "cached_tokens": 64}, usage(36, 20, 64)),
    "moonshot stream": ({"choices": [{"delta": {}, "usage": {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}}], "usage": None}, usage(100, 20)),
    "groq stream": ({"x_groq": {"usage": {"prompt_tokens": 100, "completion_tokens": 20, "queue_time": 0.1}}}, usage(100, 20)),
    "vllm": ({"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120, "prompt_tokens_details": {"cached_tokens": 64, "created_cache_tokens": 0}}, usage(36, 20, 64)),
    "qwen": ({"input_tokens": 100, "output_tokens": 20, "total_tokens": 120, "prompt_tokens_details": {"cached_tokens": 64, "cache_creation_input_tokens": 30}}, usage(6, 20, 64, 30)),
    "ai sdk 5": ({"inputTokens": 100, "outputTokens": 20, "totalTokens": 120, "cachedInputTokens": 64, "reasoningTokens": 8}, usage(36, 20, 64, 0, 8)),
    "ai sdk 6": ({"inputTokens": {"total": 100, "noCache": 6, "cacheRead": 64, "cacheWrite": 30}, "outputTokens": {"total": 20, "text": 12, "reasoning": 8}}, usage(6, 20, 64, 30, 8)),
    "codex": ({"input_tokens": 100, "cached_input_tokens": 64, "output_tokens": 20, "reasoning_output_tokens": 8, "total_tokens": 120}, usage(36, 20, 64, 0, 8)),
    "codex rollout": ({"info": {"total_token_usage": {"input_tokens": 900}, "last_token_usage": {"input_tokens": 100, "cached_input_tokens": 64, "output_tokens": 20}}}, usage(36, 20, 64)),
    "claude code model usage": ({"inputTokens": 5, "outputTokens": 30, "cacheReadInputTokens": 900, "cacheCreationInputTokens": 70, "costUSD": 0.5}, usage(5, 30, 900, 70)),
    "langchain": ({"input_tokens": 100, "output_tokens": 20, "total_tokens": 120, "input_token_details": {"cache_read": 64, "cache_creation": 30}, "output_token_details": {"reasoning": 8}}, usage(6, 20, 64, 30, 8)),
    "pi": ({"input": 5, "output": 30, "cacheRead": 900, "cacheWrite": 70, "cost": {"total": 0.1}}, usage(5, 30, 900, 70)),
    "opencode": ({"tokens": {"input": 5, "output": 30, "reasoning": 8, "cache": {"read": 900, "write": 70}}, "cost": 0.1}, usage(5, 38, 900, 70, 8)),
    "opencode with a total": ({"input": 5, "output": 30, "reasoning": 8, "total": 1013, "cache": {"read": 900, "write": 70}}, usage(5, 38, 900, 70, 8)),
    "gemini-cli": ({"input": 100, "output": 20, "cached": 64, "thoughts": 30, "tool": 0, "total": 150}, usage(36, 50, 64, 0, 30)),
    "cline": ({"tokensIn": 5, "tokensOut": 30, "cacheReads": 900, "cacheWrites": 70}, usage(5, 30, 900, 70)),
    "ours, stored": ({"input_tokens": 5, "output_tokens": 30, "cache_read_tokens": 900, "cache_write_tokens": 70, "reasoning_tokens": 8}, usage(5, 30, 900, 70, 8)),
    "watsonx": ({"input_token_count": 100, "generated_token_count": 20}, usage(100, 20)),
    "strings": ({"prompt_tokens": "1,200", "completion_tokens": " 20 "}, usage(1200, 20)),
    "floats": ({"prompt_tokens": 100.0, "completion_tokens": 20.9}, usage(100, 20)),
    "negatives": ({"prompt_tokens": -1, "completion_tokens": 20, "total_tokens": -1}, usage(0, 20)),
    "booleans and endless": ({"prompt_tokens": True, "completion_tokens": float("inf")}, usage()),
    "whole anthropic reply": ({"type": "message", "content": [{"type": "text", "text": "hi"}], "usage": {"input_tokens": 5, "output_tokens": 3}}, usage(5, 3)),
    "message_start": ({"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}}, usage(5, 1)),
    "response.completed": ({"type": "response.completed", "response": {"usage": {"input_tokens": 5, "output_tokens": 1, "total_tokens": 6}}}, usage(5, 1)),
    "whole gemini reply": ({"candidates": [], "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 1}}, usage(5, 1)),
    "chunks of a stream": ([{"choices": []}, {"usage": {"prompt_tokens": 5, "completion_tokens": 1}}, {"choices": []}], usage(5, 1)),
    "json text": (json.dumps({"usage": {"prompt_tokens": 5, "completion_tokens": 1}}), usage(5, 1)),
    "no usage": ({"choices": [{"message": {"content": "hi"}}]}, usage()),
    "nothing": (None, usage()),
    "no object": (12, usage()),
    "empty": ({}, usage()),
    "seconds": ({"type": "duration", "seconds": 12}, usage()),
}
# fmt: on


@every_case("name", SHAPES)
def test_a_shape_is_read_right(name: str) -> None:
    raw, expected = SHAPES[name]
    assert normalize_usage(raw) == expected


def test_an_object_with_attributes_is_read_like_a_mapping() -> None:
    details = SimpleNamespace(cached_tokens=64, audio_tokens=None)
    raw = SimpleNamespace(prompt_tokens=100, completion_tokens=20, total_tokens=120, prompt_tokens_details=details)
    assert normalize_usage(SimpleNamespace(id="x", usage=raw)) == usage(36, 20, 64)


def test_slots_dataclasses_and_named_tuples_are_read_too() -> None:
    @dataclass(slots=True)
    class Slotted:
        input_tokens: int
        output_tokens: int

    named = namedtuple("named", ("input_tokens", "output_tokens"))
    assert normalize_usage(Slotted(5, 3)) == normalize_usage(named(5, 3)) == usage(5, 3)


def test_the_provider_settles_what_the_object_leaves_open() -> None:
    raw = {"input_tokens": 50, "cache_read_tokens": 20, "output_tokens": 3}
    assert normalize_usage(raw) == usage(30, 3, 20)
    assert normalize_usage(raw, "anthropic", "messages") == usage(50, 3, 20)
    reasoned = {"prompt_tokens": 10, "completion_tokens": 20, "reasoning_tokens": 5}
    assert normalize_usage(reasoned).output_tokens == 20
    assert normalize_usage(reasoned, "xai", "chat.completions").output_tokens == 25


def test_a_canonical_usage_passes_through() -> None:
    once = usage(1, 2, 3, 4, 1)
    assert normalize_usage(once) is once


def test_sums_and_additions() -> None:
    assert usage(1, 2, 3, 4, 1).prompt_tokens == 8
    assert usage(1, 2, 3, 4, 1).total_tokens == 10
    assert usage(1, 2, 3, 4, 1) + usage(10, 20, 30, 40, 10) == usage(11, 22, 33, 44, 11)
    assert sum([usage(1), usage(2)], usage()) == usage(3)
