"""A provider whose replies are written in the test, and builders of these replies.

It is an ordinary implementation without a network: it keeps the requests it got, and replies may be failures.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from clew.errors import InvalidArgument
from clew.messages import Message, ToolCall, text_of
from clew.providers import (
    Delta,
    ErrorClass,
    ErrorKind,
    FinishReason,
    OnDelta,
    Provider,
    ProviderRefused,
    Reply,
    Request,
)
from clew.usage import CanonicalUsage

Step: TypeAlias = Reply | ProviderRefused | Callable[[Request], Reply]
"""A reply, a refusal to raise, or a function from the request to a reply (which may raise one)."""

MODEL = "scripted-model"


class ScriptedProvider(Provider):
    """Plays its steps in order and keeps the requests in `requests`; a call beyond the last step is an error."""

    def __init__(self, *steps: Step, name: str = "scripted") -> None:
        self.name = name
        self.requests: list[Request] = []
        self.is_closed = False
        self._steps = list(steps)

    def then(self, *steps: Step) -> ScriptedProvider:
        """Add steps to the script."""
        self._steps += steps
        return self

    @property
    def steps_left(self) -> int:
        return len(self._steps) - len(self.requests)

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        at = len(self.requests)
        self.requests.append(request)
        if at >= len(self._steps):
            raise InvalidArgument(
                f"the script has {len(self._steps)} steps, and this is call {at + 1}", remedy="add a step"
            )
        step = self._steps[at]
        if isinstance(step, ProviderRefused):
            _show(step.partial, on_delta)
            raise step
        reply = step if isinstance(step, Reply) else step(request)
        _show(reply.message, on_delta)
        return reply

    async def close(self) -> None:
        self.is_closed = True


def _show(message: Message | None, on_delta: OnDelta | None) -> None:
    if message is None or on_delta is None:
        return
    for piece in re.findall(r"\S+\s*|\s+", text_of(message)):
        on_delta(Delta("text", piece))
    for call in message.get("tool_calls") or ():
        on_delta(Delta("call", call["function"]["name"]))


def says(
    text: str, *, prompt_tokens: int | None = None, usage: CanonicalUsage | None = None,
    finish: FinishReason = "stop",
) -> Reply:  # fmt: skip
    """A reply of text; `prompt_tokens` is the reported size of the prompt."""
    return Reply({"role": "assistant", "content": text}, usage or _usage(prompt_tokens, text), finish, MODEL)


def calls(*tool_calls: ToolCall, text: str | None = None, prompt_tokens: int | None = None) -> Reply:
    """A reply that calls tools: `calls(call("read_file", {"path": "a"}))`."""
    message: Message = {"role": "assistant", "content": text, "tool_calls": list(tool_calls)}
    return Reply(message, _usage(prompt_tokens, text or ""), "tool_calls", MODEL)


def refuses(
    kind: ErrorKind, body: str = "", *, limit: int | None = None, available_output: int | None = None,
    retry_after: float | None = None, partial: Message | None = None,
) -> ProviderRefused:  # fmt: skip
    """A refusal of a kind."""
    fault = ErrorClass(kind, limit=limit, available_output=available_output, retry_after=retry_after, matched="script")
    return ProviderRefused("scripted", fault, body or f"a scripted {kind}", partial)


def overflow(limit: int | None = None) -> ProviderRefused:
    """The prompt is too long, with or without the window stated."""
    stated = f"; the window has {limit} tokens" if limit else ""
    return refuses("prompt_too_long", f"the prompt is too long{stated}", limit=limit)


def breaks_off(after: str) -> ProviderRefused:
    """The connection breaks after this part of the reply."""
    return refuses("network", "the connection broke", partial={"role": "assistant", "content": after})


def _usage(prompt_tokens: int | None, text: str) -> CanonicalUsage | None:
    if prompt_tokens is None:
        return None
    return CanonicalUsage(input_tokens=prompt_tokens, output_tokens=max(1, len(text) // 4))
