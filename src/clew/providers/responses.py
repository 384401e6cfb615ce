"""The provider of OpenAI's Responses wire.

Asks for nothing to be kept on the other side: reasoning comes encrypted, stays in the history, and goes back with it.
"""

from __future__ import annotations

from typing import Any, ClassVar

from clew.messages import convert, read_conversation
from clew.providers.base import Request
from clew.providers.chat import refusal_of
from clew.providers.responses_reply import ResponsesGathering
from clew.providers.wire import Concession, HttpProvider

ENCRYPTED = "reasoning.encrypted_content"


class ResponsesProvider(HttpProvider):
    """`POST {base_url}/responses`."""

    default_base_url: ClassVar[str] = "https://api.openai.com/v1"
    default_key_env: ClassVar[str] = "OPENAI_API_KEY"
    concessions: ClassVar[tuple[Concession, ...]] = (
        # Models that do not reason refuse to hand out what they have not.
        Concession("include", refusal_of(r"include|encrypted[_ ]content")),
        Concession("prompt_cache_key", refusal_of("prompt_cache_key")),
        Concession("store", refusal_of(r"\bstore\b")),
    )

    def __init__(self, base_url: str | None = None, *, key_header: str = "Authorization", **options: Any) -> None:
        super().__init__(base_url, **options)
        self._key_header = key_header

    def endpoint(self) -> str:
        return self._line.url("/responses")

    def key_headers(self) -> dict[str, str]:
        prefix = "Bearer " if self._key_header == "Authorization" else ""
        return {self._key_header: prefix + self._key.reveal()}

    def gathering(self) -> ResponsesGathering:
        return ResponsesGathering(self.name)

    def spelled(self, request: Request, without: frozenset[str]) -> dict[str, Any]:
        source = read_conversation(request.messages, dialect="openai_chat", tools=request.tools)
        body: dict[str, Any] = {"model": request.model, **convert(source, "responses")}
        if request.max_tokens is not None:
            body["max_output_tokens"] = request.max_tokens
        if request.cache_key:
            body["prompt_cache_key"] = request.cache_key
        body["store"] = False
        body["include"] = [ENCRYPTED]
        body = {name: value for name, value in body.items() if name not in without}
        if self._stream:
            body["stream"] = True
        body |= request.extra
        if body.get("store") is not True:
            body["input"] = [item for item in body["input"] if not _is_lost(item)]
        return body


def _is_lost(item: dict[str, Any]) -> bool:
    """A reasoning item that only its id stands for: the server, which kept nothing, would not find it."""
    return item.get("type") == "reasoning" and not item.get("encrypted_content")
