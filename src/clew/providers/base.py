"""The provider contract: `send` takes a request and returns a reply with usage, or raises `ProviderRefused`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from clew.messages import Message, Tool
from clew.usage import CanonicalUsage

FinishReason: TypeAlias = Literal["stop", "tool_calls", "length", "refusal", "other"]


@dataclass(frozen=True, slots=True)
class Request:
    """One call of a model. The system prompt is the first message."""

    model: str
    messages: Sequence[Message]
    tools: Sequence[Tool] = ()
    max_tokens: int | None = None
    """The output cap; None leaves it to the provider, where the wire allows."""
    cache_key: str | None = None
    """A stable key for providers that cache by one; breakpoints are in the messages already."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields that go onto the wire as they are: temperature, reasoning effort, ..."""
    is_single_attempt: bool = False
    """Whether the caller retries, so that the provider does not: both together would multiply the waits."""


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a reply while it streams, for display."""

    kind: Literal["text", "reasoning", "call"]
    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """The assistant message as it enters the history, and the usage of the call."""

    message: Message
    usage: CanonicalUsage | None
    """None where the provider reported none."""
    finish: FinishReason
    model: str
    """The provider's name of the model."""


OnDelta = Callable[[Delta], None]


class Provider(ABC):
    """A service, or a process on this machine, that runs models."""

    name: str = ""

    @abstractmethod
    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        """Return the complete reply; `on_delta` gets its pieces as they arrive. Raises `ProviderRefused`."""

    async def models(self) -> list[Mapping[str, Any]]:
        """The entries of the provider's models endpoint, unchanged; empty if there is no such endpoint."""
        return []

    async def close(self) -> None:  # noqa: B027 (most providers hold nothing)
        """Close connections."""
