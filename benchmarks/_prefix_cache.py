"""A provider's prompt cache, simulated by Anthropic's rules: what of a request is read, written and neither.

A prefix is cached up to each breakpoint, from 1,024 tokens on, for five minutes after its last use. A request is
matched at its breakpoints, and up to 20 blocks before each. Knows blocks and tokens; why a request looks as it does is
not its business.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from clew.caching import apply_cache_control
from clew.messages import Message
from clew.tokens import counter_for
from clew.usage import CanonicalUsage

LEAST_TOKENS = 1_024
LIFETIME_SECONDS = 300.0
LOOK_BACK_BLOCKS = 20


@dataclass(frozen=True)
class Block:
    """What the provider hashes and counts as one."""

    hash: bytes
    tokens: int


class Blocks:
    """The blocks of messages; a message is taken apart once for as long as it is the same object."""

    def __init__(self) -> None:
        self._counter = counter_for(None)
        self._known: dict[int, tuple[Message, tuple[Block, ...]]] = {}

    def of(self, message: Message) -> tuple[Block, ...]:
        known = self._known.get(id(message))
        if known is None or known[0] is not message:
            known = self._known[id(message)] = (message, tuple(self._taken_apart(message)))
        return known[1]

    def tokens(self, messages: Sequence[Message]) -> int:
        return sum(block.tokens for message in messages for block in self.of(message))

    def _taken_apart(self, message: Message) -> list[Block]:
        texts = _texts_of(message)
        whole, chars = self._counter.message(message), sum(map(len, texts))
        blocks = [
            Block(blake2b(f"{message['role']} {text}".encode("utf-8", "surrogatepass")).digest(), 0) for text in texts
        ]
        shares = [whole * len(text) // max(1, chars) for text in texts]
        shares[-1] += whole - sum(shares)
        return [Block(block.hash, share) for block, share in zip(blocks, shares, strict=True)]


def _texts_of(message: Message) -> list[str]:
    content: Any = message.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []
    texts = [json.dumps(part, sort_keys=True) for part in parts]
    texts += [json.dumps(call, sort_keys=True) for call in message.get("tool_calls") or ()]
    if message["role"] == "tool":
        # A result is one block, whatever it is made of.
        return ["".join([str(message.get("tool_call_id")), *texts])]
    return texts or [""]


class PrefixCache:
    """The cache as a provider keeps it for one account, over the requests of one replay."""

    def __init__(self, blocks: Blocks, fixed_tokens: int) -> None:
        self._blocks = blocks
        self._fixed = fixed_tokens
        """Tools stand before everything else, and never change."""
        self._expires: dict[bytes, float] = {}

    def send(self, messages: Sequence[Message], now: float, behind: Sequence[Message] = ()) -> CanonicalUsage:
        """The usage that a provider would report for the prompt of a request; `behind` stands after the breakpoints."""
        marked = [*apply_cache_control(messages, native=True), *behind]
        messages = [*messages, *behind]
        hashes, sizes, breakpoints = [b""], [self._fixed], list[int]()
        for plain, sent in zip(messages, marked, strict=True):
            for block in self._blocks.of(plain):
                hashes.append(blake2b(hashes[-1] + block.hash, digest_size=16).digest())
                sizes.append(sizes[-1] + block.tokens)
            if sent is not plain:
                breakpoints.append(len(hashes) - 1)
        read = self._longest_hit(hashes, breakpoints, now)
        written = max((place for place in breakpoints if sizes[place] >= LEAST_TOKENS), default=0)
        for place in (*breakpoints, read):
            if place and sizes[place] >= LEAST_TOKENS:
                self._expires[hashes[place]] = now + LIFETIME_SECONDS
        read_tokens = sizes[read] if read else 0
        written_tokens = max(0, sizes[written] - read_tokens) if written else 0
        return CanonicalUsage(
            input_tokens=sizes[-1] - read_tokens - written_tokens,
            output_tokens=0,
            cache_read_tokens=read_tokens,
            cache_write_tokens=written_tokens,
            reasoning_tokens=0,
        )

    def _longest_hit(self, hashes: Sequence[bytes], breakpoints: Sequence[int], now: float) -> int:
        for at in sorted(breakpoints, reverse=True):
            for place in range(at, max(0, at - LOOK_BACK_BLOCKS), -1):
                if self._expires.get(hashes[place], 0.0) > now:
                    return place
        return 0
