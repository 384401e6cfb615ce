"""The provider of the OpenAI chat completions wire: OpenAI itself, and the many servers that speak it.

Knows which of its fields not every server takes, and learns from a refusal what this one does not.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, ClassVar

from clew.messages import convert_tools, repair
from clew.providers.base import Request
from clew.providers.chat_reply import ChatGathering
from clew.providers.chat_request import chat_messages
from clew.providers.known import ALL_REASONING
from clew.providers.wire import Concession, HttpProvider

_UNKNOWN = (
    r"unsupported|not supported|unknown|unrecogni[sz]ed|unexpected|not permitted|not allowed|extra|"
    r"invalid (?:field|param)"
)


def refusal_of(field: str) -> re.Pattern[str]:
    """The words with which servers refuse a field that they do not know, before its name or behind it."""
    return re.compile(
        rf"(?i)(?:{field})[^.]{{0,80}}?(?:{_UNKNOWN})|(?:{_UNKNOWN}|does not support)[^.]{{0,80}}?(?:{field})"
    )


class OpenAIChatProvider(HttpProvider):
    """`POST {base_url}/chat/completions`."""

    default_base_url: ClassVar[str] = "https://api.openai.com/v1"
    default_key_env: ClassVar[str] = "OPENAI_API_KEY"
    concessions: ClassVar[tuple[Concession, ...]] = (
        Concession("stream_options", refusal_of("stream_options|include_usage")),
        Concession("prompt_cache_key", refusal_of("prompt_cache_key")),
        # Some refuse in a history what they themselves wrote; the names do not tell which.
        *(Concession(field, refusal_of(rf"\b{field}\b")) for field in ALL_REASONING),
        # Two names for one thing; newer models of OpenAI refuse the old one, most other servers know it alone.
        Concession("max_completion_tokens", refusal_of("max_completion_tokens")),
        Concession("max_tokens", re.compile(r"(?i)max_tokens[^.]{0,40}not supported|use '?max_completion_tokens")),
    )

    def __init__(
        self,
        base_url: str | None = None,
        *,
        takes_back: Collection[str] | None = None,
        key_header: str = "Authorization",
        **options: Any,
    ) -> None:
        """`takes_back`: the reasoning fields that the server wants to see again; OpenAI has none of them."""
        super().__init__(base_url, **options)
        self._is_openai = self._line.host == "api.openai.com" or self._line.host.endswith(".openai.azure.com")
        self._takes_back = takes_back if takes_back is not None else () if self._is_openai else ALL_REASONING
        self._key_header = key_header

    def endpoint(self) -> str:
        return self._line.url("/chat/completions")

    def key_headers(self) -> dict[str, str]:
        prefix = "Bearer " if self._key_header == "Authorization" else ""
        return {self._key_header: prefix + self._key.reveal()}

    def gathering(self) -> ChatGathering:
        return ChatGathering(self.name)

    def spelled(self, request: Request, without: frozenset[str]) -> dict[str, Any]:
        sound = repair(request.messages, open_end=True).messages
        takes_back = [field for field in self._takes_back if field not in without]
        body: dict[str, Any] = {"model": request.model, "messages": chat_messages(sound, takes_back)}
        if request.tools:
            body["tools"] = convert_tools(request.tools, "openai_chat")
        if request.max_tokens is not None:
            body[self._cap_field(without)] = request.max_tokens
        if request.cache_key and "prompt_cache_key" not in without:
            body["prompt_cache_key"] = request.cache_key
        if self._stream:
            body["stream"] = True
            if "stream_options" not in without:
                body["stream_options"] = {"include_usage": True}
        return {**body, **request.extra}

    def _cap_field(self, without: frozenset[str]) -> str:
        if self._is_openai:
            return "max_completion_tokens" if "max_completion_tokens" not in without else "max_tokens"
        return "max_tokens" if "max_tokens" not in without else "max_completion_tokens"
