"""What fills a window: tokens by kind of content, and the largest messages."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from clew.messages import Message, Part, calls_of, images_of, text_of

ContentKind: TypeAlias = Literal["system", "tools", "user", "assistant", "reasoning", "tool results", "images"]
CONTENT_KINDS: tuple[ContentKind, ...] = ("system", "tools", "user", "assistant", "reasoning", "tool results", "images")
_KIND_OF_ROLE: Mapping[str, ContentKind] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool results",
}
_OPENING_CHARS = 200


@dataclass(frozen=True, slots=True)
class ContentShare:
    """What one kind of content takes."""

    kind: ContentKind
    tokens: int
    count: int
    """Messages, tools or images."""


@dataclass(frozen=True, slots=True)
class LargeMessage:
    index: int
    role: str
    tool: str | None
    """On a result: the tool that gave it. On an assistant message: the tools it called."""
    tokens: int
    opening: str
    """The first words, as they are in the message."""


@dataclass(frozen=True, slots=True)
class WindowUsage:
    """The tokens of a request by kind, and its largest messages."""

    shares: tuple[ContentShare, ...]
    largest: tuple[LargeMessage, ...]
    framing: int = 0
    """What every request has, whatever is in it."""

    @property
    def tokens(self) -> int:
        return self.framing + sum(share.tokens for share in self.shares)


def measure_window(
    messages: Sequence[Message],
    sizes: Sequence[int],
    count: Callable[[Message], int],
    tools: ContentShare | None = None,
    top: int = 10,
    framing: int = 0,
) -> WindowUsage:
    """Add up messages of known sizes by kind; `count` counts the parts of those that hold several kinds."""
    tokens = dict.fromkeys(CONTENT_KINDS, 0)
    counts = dict.fromkeys(CONTENT_KINDS, 0)
    if tools is not None:
        tokens["tools"], counts["tools"] = tools.tokens, tools.count
    for message, size in zip(messages, sizes, strict=True):
        for share in _parts(message, size, count):
            tokens[share.kind] += share.tokens
            counts[share.kind] += share.count
    shares = tuple(ContentShare(kind, tokens[kind], counts[kind]) for kind in CONTENT_KINDS if counts[kind])
    return WindowUsage(shares, _largest_messages(messages, sizes, top), framing)


def _parts(message: Message, size: int, count: Callable[[Message], int]) -> Iterator[ContentShare]:
    """One message by kind: what is left when reasoning and images are taken out belongs to its role."""
    rest = size
    empty: Message = {"role": message["role"], "content": None}
    if message.get("reasoning"):
        taken = min(rest, count({**empty, "reasoning": message["reasoning"]}) - count(empty))
        rest -= taken
        yield ContentShare("reasoning", taken, 1)
    images = _images(message)
    if images:
        taken = min(rest, count({**empty, "content": images}) - count(empty))
        rest -= taken
        yield ContentShare("images", taken, len(images))
    yield ContentShare(_KIND_OF_ROLE.get(message["role"], "user"), rest, 1)


def _largest_messages(messages: Sequence[Message], sizes: Sequence[int], top: int) -> tuple[LargeMessage, ...]:
    indexes = heapq.nlargest(top, range(len(sizes)), key=sizes.__getitem__)
    names = _names_of_calls(messages) if indexes else {}
    return tuple(_described(index, messages[index], sizes[index], names) for index in indexes)


def _described(index: int, message: Message, tokens: int, names: Mapping[str, str]) -> LargeMessage:
    calls = [_call(each) for each in _calls(message)]
    tool = ", ".join(dict.fromkeys(name for _, name, _ in calls))
    if message["role"] == "tool":
        tool = names.get(str(message.get("tool_call_id"))) or str(message.get("name") or "")
    opening = text_of(message)[: 10 * _OPENING_CHARS].strip() or next((arguments for _, _, arguments in calls), "")
    return LargeMessage(index, message["role"], tool or None, tokens, opening[:_OPENING_CHARS])


def _names_of_calls(messages: Sequence[Message]) -> dict[str, str]:
    calls = (_call(each) for message in messages for each in _calls(message))
    return {id_: name for id_, name, _ in calls}


def _calls(message: Message) -> Sequence[object]:
    # A file may hold anything where a list belongs, and measuring precedes any repair.
    calls: object = calls_of(message)
    return calls if isinstance(calls, list) else ()


def _images(message: Message) -> list[Part]:
    content = message.get("content")
    if not isinstance(content, list):
        return []
    sane = [part for part in content if isinstance(part, dict) and isinstance(part.get("type"), str)]
    return images_of({"role": "user", "content": sane})


def _call(call: object) -> tuple[str, str, str]:
    """The id, name and arguments of a call, each a text whatever the file holds."""
    outer = call if isinstance(call, Mapping) else {}
    function = outer.get("function") or outer.get("custom")
    inner = function if isinstance(function, Mapping) else {}
    return str(outer.get("id")), str(inner.get("name", "?")), str(inner.get("arguments", inner.get("input", "")))
