"""The prompt cache of the mock upstream: how much of a request it has read before, by the rules of each wire.

Chat completions, Responses and Gemini: the longest beginning that an earlier request had too. Anthropic's Messages: the
longest beginning that an earlier request had marked, found at a marker or up to 20 blocks before one. On every wire
the order is tools, system prompt, messages, and what is set for tool use and thinking comes before the messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate
from typing import Any

from clew.usage import CanonicalUsage

LEAST_TOKENS = 1_024
_LOOK_BACK_BLOCKS = 20
_CHARS_PER_TOKEN = 4
_MARKER = "cache_control"
_SYSTEM_FIELDS = ("system", "instructions", "systemInstruction", "system_instruction")
_BEFORE_MESSAGES = (
    "tool_choice",
    "thinking",
    "reasoning",
    "reasoning_effort",
    "parallel_tool_calls",
    "toolConfig",
    "tool_config",
)


@dataclass(frozen=True, slots=True)
class PromptBlock:
    """A part of a prompt that is cached as a whole, without its marker."""

    text: str
    is_marked: bool


class UpstreamCache:
    """What the upstream has read, over all requests. Tokens are a quarter of the chars."""

    def __init__(self, least_tokens: int = LEAST_TOKENS) -> None:
        self._least = least_tokens
        self._known: set[bytes] = set()
        """For each beginning that was read a hash of all its blocks."""

    def usage_of(self, wire: str, body: Mapping[str, Any], output_tokens: int) -> CanonicalUsage:
        """The usage that is told for a request, which is remembered."""
        blocks = list(prompt_blocks(body))
        sizes = [0, *accumulate(len(block.text) for block in blocks)]
        tokens = [size // _CHARS_PER_TOKEN for size in sizes]
        chain = list(accumulate((block.text.encode(errors="replace") for block in blocks), _chained, initial=b""))
        ends = [end for end in range(1, len(blocks) + 1) if tokens[end] >= self._least]
        is_anthropic = wire == "messages"
        marked = [end for end in ends if blocks[end - 1].is_marked or not is_anthropic]
        looked_at = (end for last in reversed(marked) for end in range(last, max(0, last - _LOOK_BACK_BLOCKS), -1))
        read = next((end for end in looked_at if chain[end] in self._known), 0)
        self._known.update(chain[end] for end in marked)
        # OpenAI and Google tell of no writing.
        written = max(0, tokens[max(marked, default=0)] - tokens[read]) if is_anthropic else 0
        return CanonicalUsage(
            input_tokens=tokens[-1] - tokens[read] - written,
            output_tokens=output_tokens,
            cache_read_tokens=tokens[read],
            cache_write_tokens=written,
        )


def _chained(before: bytes, text: bytes) -> bytes:
    return blake2b(before + text, digest_size=16).digest()


def prompt_tokens(body: Mapping[str, Any]) -> int:
    """The size of a request, by the same count."""
    return sum(len(block.text) for block in prompt_blocks(body)) // _CHARS_PER_TOKEN


def prompt_blocks(body: Mapping[str, Any]) -> Iterator[PromptBlock]:
    """The blocks of a request of any of the four wires, in the order in which they are read."""
    yield from (_block("tool", tool) for tool in body.get("tools") or ())
    system = next((body[name] for name in _SYSTEM_FIELDS if body.get(name)), None)
    yield from (_block("system", part) for part in _parts(system))
    settings = {name: body[name] for name in _BEFORE_MESSAGES if name in body}
    if settings:
        yield _block("settings", settings)
    for message in listed_messages(body):
        content = message.get("content", message.get("parts"))
        around = {name: value for name, value in message.items() if name not in ("content", "parts", _MARKER)}
        yield from (_block(around, part) for part in _parts(content))
        if not content:
            yield _block(around, "")


def listed_messages(body: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The messages of a request of any of the four wires; a text alone is one of the user."""
    given = body.get("messages") or body.get("input") or body.get("contents") or ()
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return [given] if isinstance(given, dict) else [item for item in given if isinstance(item, dict)]


def _parts(content: Any) -> Sequence[Any]:
    if isinstance(content, str):
        # The same as one part with this text, which is how a text is marked.
        return [{"type": "text", "text": content}]
    if isinstance(content, dict):
        return content.get("parts") or [content]
    return content or []


def _block(around: Any, part: Any) -> PromptBlock:
    is_marked = isinstance(part, dict) and _MARKER in part
    bare = {name: value for name, value in part.items() if name != _MARKER} if is_marked else part
    return PromptBlock(json.dumps([around, bare], ensure_ascii=False), is_marked)
