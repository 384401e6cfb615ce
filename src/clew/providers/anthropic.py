"""The provider of Anthropic's Messages wire: Anthropic itself, and servers that speak it.

Knows its headers and that it wants an output cap with every request. How messages are spelled is the dialect's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, cast

from clew.messages import Message, convert, read_conversation
from clew.providers.anthropic_reply import AnthropicGathering
from clew.providers.base import Request
from clew.providers.wire import HttpProvider
from clew.tokens import known_model

VERSION = "2023-06-01"
MOST_OUTPUT = 32_000
"""Asked for where nobody said: long enough for a file, and no model of today has less, but for those in the table."""
_MARKER = "cache_control"


class AnthropicProvider(HttpProvider):
    """`POST {base_url}/v1/messages`; the base URL may end in /v1 or not."""

    default_base_url: ClassVar[str] = "https://api.anthropic.com"
    default_key_env: ClassVar[str] = "ANTHROPIC_API_KEY"

    def endpoint(self) -> str:
        return self._line.url("/messages", inner="/v1")

    def key_headers(self) -> dict[str, str]:
        return {"x-api-key": self._key.reveal()}

    def _all_headers(self) -> dict[str, str]:
        return {"anthropic-version": VERSION, **super()._all_headers()}

    def _models_url(self) -> str:
        return self._line.url("/models", inner="/v1", query="limit=1000")

    def gathering(self) -> AnthropicGathering:
        return AnthropicGathering(self.name)

    def spelled(self, request: Request, without: frozenset[str]) -> dict[str, Any]:  # noqa: ARG002 (every field is asked for)
        source = read_conversation(_markers_lifted(request.messages), dialect="openai_chat", tools=request.tools)
        body = {"model": request.model, "max_tokens": request.max_tokens or _most_output(request.model)}
        body |= convert(source, "anthropic")
        if self._stream:
            body["stream"] = True
        return {**body, **request.extra}


def _most_output(model: str) -> int:
    known = known_model(model)
    return min(MOST_OUTPUT, known.max_output or MOST_OUTPUT) if known else MOST_OUTPUT


def _markers_lifted(messages: Sequence[Message]) -> list[Message]:
    """A marker on a picture or a file, which is spelled anew, stands on its message until that is done."""
    return [_lifted(message) if isinstance(message.get("content"), list) else message for message in messages]


def _lifted(message: Message) -> Message:
    content: Any = message["content"]
    last = content[-1] if content else None
    if not isinstance(last, dict) or _MARKER not in last or last.get("type") == "text":
        return message
    bare = {name: value for name, value in last.items() if name != _MARKER}
    return cast(Message, {**message, "content": [*content[:-1], bare], _MARKER: last[_MARKER]})
