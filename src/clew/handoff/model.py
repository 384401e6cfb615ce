"""A model that can summarise: a name, a window and a callable; and how one is made from any function.

Replies of the common SDKs are read here, and whatever a function raises becomes a `SummaryFailed`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clew.errors import InvalidArgument, SummaryFailed
from clew.handoff.failures import translate_error

Complete = Callable[[str, int], Awaitable[str]]

TIMEOUT_SECONDS = 300.0
_DEFAULT_CONTEXT_LENGTH = 128_000


@dataclass(frozen=True, slots=True)
class ConversationExtension:
    """A way to ask a model at the end of the conversation that it is in, instead of with a text of it.

    The request begins with the bytes of the last one, so that its provider reads them from the cache.
    """

    complete: Complete
    """Takes an instruction, which becomes the last message, and max tokens. A reply that calls a tool is a
    `SummaryFailed` of the kind `called_tool`."""
    tokens: int
    """The size of the conversation as it is sent, system prompt and tools included."""
    numbers: Collection[int]
    """The messages of the history that it shows."""
    beside: Sequence[str] = ()
    """Texts that it shows beside these: the system prompt."""
    is_only_way: bool = False
    """Whether the model is asked only this way, and once: it belongs to a client that sends its own requests."""


@dataclass(frozen=True, slots=True)
class SummaryModel:
    """A model as the summariser sees it: `complete` takes a prompt and max tokens and returns text, or raises
    `SummaryFailed`."""

    name: str
    complete: Complete
    context_length: int
    max_output: int | None = None
    extension: ConversationExtension | None = None
    """Tried first, where the model is in the conversation itself and that is the cheaper way."""

    def __post_init__(self) -> None:
        if self.context_length <= 0 or (self.max_output is not None and self.max_output <= 0):
            raise InvalidArgument(
                f"the summary model {self.name!r} has context_length {self.context_length} and max_output "
                f"{self.max_output}",
                remedy="both count tokens and are larger than 0",
            )


def summary_model(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    context_length: int = _DEFAULT_CONTEXT_LENGTH,
    max_output: int | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> SummaryModel:
    """A model made from a function that takes a prompt, and `max_tokens` where it has such a parameter.

    The function may be async. It returns the text, or the reply of a common SDK. `context_length` is the window of the
    model behind it: longer conversations are read in chunks.
    """
    if not callable(function):
        raise InvalidArgument(
            f"summarizer is {function!r}", remedy="pass a function that takes a prompt and returns text"
        )
    call = _caller(function)

    async def complete(prompt: str, max_tokens: int) -> str:
        try:
            async with asyncio.timeout(timeout_seconds):
                reply = read_reply(await call(prompt, max_tokens))
        except SummaryFailed:
            raise
        except Exception as error:
            # The function of a caller may raise anything; it is translated here and nowhere else.
            raise translate_error(error) from error
        if reply.is_truncated:
            raise SummaryFailed(f"the reply stopped at {max_tokens:,} tokens", kind="cut", partial=reply.text)
        return reply.text

    return SummaryModel(name or _name_of(function), complete, context_length, max_output)


def summary_model_for(summarizer: Callable[..., Any] | SummaryModel, window: int) -> SummaryModel:
    """The model that is given; a function becomes one that is sent no more than the window that it summarises for."""
    if isinstance(summarizer, SummaryModel):
        return summarizer
    return summary_model(summarizer, context_length=min(window, _DEFAULT_CONTEXT_LENGTH))


def _caller(function: Callable[..., Any]) -> Callable[[str, int], Awaitable[Any]]:
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
    passes = _how_max_tokens_is_passed(function)

    async def call(prompt: str, max_tokens: int) -> Any:
        args = (prompt, max_tokens) if passes == "position" else (prompt,)
        named = {"max_tokens": max_tokens} if passes == "name" else {}
        if is_async:
            return await function(*args, **named)
        # In a thread, so that a function that blocks does not block the event loop.
        reply = await asyncio.to_thread(function, *args, **named)
        return await reply if inspect.isawaitable(reply) else reply

    return call


def _how_max_tokens_is_passed(function: Callable[..., Any]) -> str:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return "not"  # some built-in callables have no signature
    if any(parameter.name == "max_tokens" for parameter in parameters[1:]):
        return "name"
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [one for one in parameters if one.kind in positional and one.default is inspect.Parameter.empty]
    return "position" if len(required) >= 2 else "not"


def _name_of(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", "") or type(function).__name__
    return "the given summarizer" if name == "<lambda>" else name


_TRUNCATED = frozenset({"length", "max_tokens", "max_output_tokens", "model_length", "incomplete"})


@dataclass(frozen=True, slots=True)
class ReplyText:
    """The text of a reply, and whether it was cut off at its longest length."""

    text: str
    is_truncated: bool


def read_reply(reply: object) -> ReplyText:
    """The text of a reply: a string, `.text`, chat-completions `choices`, Anthropic's or LangChain's `content`."""
    if reply is None:
        return ReplyText("", False)
    if isinstance(reply, str):
        return ReplyText(reply, False)
    choice = _first(_get(reply, "choices"))
    if choice is not None:
        text = _text(_get(_get(choice, "message"), "content")) or _text(_get(choice, "text"))
        return ReplyText(text or "", _get(choice, "finish_reason") in _TRUNCATED)
    for name in ("text", "output_text", "content"):
        text = _text(_get(reply, name))
        if text is not None:
            return ReplyText(text, _stop_reason(reply) in _TRUNCATED)
    raise SummaryFailed(
        f"a {type(reply).__name__} was returned, not a string. Return the text of the reply", kind="garbage"
    )


def _stop_reason(reply: object) -> Any:
    metadata = _get(reply, "response_metadata")
    return next(
        (
            reason
            for owner, name in (
                (reply, "stop_reason"),
                (reply, "finish_reason"),
                (reply, "status"),
                (metadata, "finish_reason"),
                (metadata, "stop_reason"),
            )
            if isinstance(reason := _get(owner, name), str)
        ),
        None,
    )


def _get(owner: object, name: str) -> Any:
    return owner.get(name) if isinstance(owner, Mapping) else getattr(owner, name, None)


def _first(value: object) -> Any:
    return value[0] if isinstance(value, list | tuple) and value else None


def _text(content: object) -> str | None:
    if isinstance(content, str):
        return content
    if isinstance(content, list | tuple):
        texts = [part if isinstance(part, str) else _get(part, "text") for part in content]
        return "".join(text for text in texts if isinstance(text, str))
    return None
