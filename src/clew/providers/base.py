"""What a provider is: it takes a request and gives a reply with usage, or refuses with a typed error.

Knows the values that pass; how each wire spells them is next door. Knows no session and no engine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from clew.errors import ClewError
from clew.messages import Message, Tool
from clew.providers.classify import ErrorClass
from clew.usage import CanonicalUsage

FinishReason: TypeAlias = Literal["stop", "tool_calls", "length", "refusal", "other"]


@dataclass(frozen=True, slots=True)
class Request:
    """One call: the system prompt is the leading message, tools stand beside."""

    model: str
    messages: Sequence[Message]
    tools: Sequence[Tool] = ()
    max_tokens: int | None = None
    """The output cap; None leaves it to the provider, where the wire allows."""
    cache_key: str | None = None
    """A stable key for providers that cache by one; breakpoints are in the messages already."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields that go onto the wire as they are: temperature, reasoning effort, ..."""
    is_tried_once: bool = False
    """Whoever sends it waits and tries again by itself: a provider that does so too would multiply the waiting."""


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a reply while it streams, for screens."""

    kind: Literal["text", "reasoning", "call"]
    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: an assistant message as it enters the history, and what it cost."""

    message: Message
    usage: CanonicalUsage | None
    """None where the provider said nothing of it."""
    finish: FinishReason
    model: str
    """As the provider names it."""


class ProviderRefused(ClewError):  # noqa: N818 (reads as what it says)
    """A call that failed for good, after what retries there were; `fault` says what it means."""

    def __init__(self, provider: str, fault: ErrorClass, body: str, partial: Message | None = None) -> None:
        super().__init__(f"{provider}: {fault.kind}: {body[:300]}")
        self.provider = provider
        self.fault = fault
        self.body = body
        self.partial = partial
        """What had come of the reply when the stream broke."""


OnDelta = Callable[[Delta], None]


class Provider(ABC):
    """Somebody who runs models."""

    name: str = ""

    @abstractmethod
    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        """The whole reply; pieces of it go to `on_delta` as they come. Refusals raise `ProviderRefused`."""

    async def models(self) -> list[Mapping[str, Any]]:
        """What the provider's models endpoint lists, as it wrote it; empty where it has none."""
        return []

    async def close(self) -> None:  # noqa: B027 (most have nothing to let go of)
        """Let go of connections."""
