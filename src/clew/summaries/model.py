"""A model that can write summaries: a name, a window and a callable. And the making of one out of any function.

This is the edge to code that is not ours: whatever it raises becomes a `SummaryFailed` here, once.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from clew.errors import InvalidArgument, SummaryFailed
from clew.summaries.faults import translated
from clew.summaries.replies import read_reply

Complete = Callable[[str, int], Awaitable[str]]

TIMEOUT_SECONDS = 300.0
_DEFAULT_CONTEXT_LENGTH = 128_000


@dataclass(frozen=True, slots=True)
class SummaryModel:
    """A model as the summariser sees it: prompt and most tokens in, text out, or `SummaryFailed`."""

    name: str
    complete: Complete
    context_length: int
    max_output: int | None = None

    def __post_init__(self) -> None:
        if self.context_length <= 0 or (self.max_output is not None and self.max_output <= 0):
            raise InvalidArgument(
                f"the summary model {self.name!r} has context_length {self.context_length} and max_output "
                f"{self.max_output}; both count tokens and are larger than 0"
            )


def summary_model(
    function: Callable[..., Any],
    *,
    name: str | None = None,
    context_length: int = _DEFAULT_CONTEXT_LENGTH,
    max_output: int | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> SummaryModel:
    """A model out of a function that takes a prompt, and `max_tokens` where it has such a parameter.

    It may be async or not. It gives back the text, or the reply of a common SDK.
    """
    if not callable(function):
        raise InvalidArgument(f"summarizer is {function!r}; pass a function that takes a prompt and returns text")
    call = _caller(function)

    async def complete(prompt: str, max_tokens: int) -> str:
        try:
            async with asyncio.timeout(timeout_seconds):
                reply = read_reply(await call(prompt, max_tokens))
        except SummaryFailed:
            raise
        except Exception as error:
            # A stranger's function may raise anything; this is the one place where it is translated.
            raise translated(error) from error
        if reply.is_cut:
            raise SummaryFailed(f"the reply stopped at {max_tokens:,} tokens", kind="cut", partial=reply.text)
        return reply.text

    return SummaryModel(name or _name_of(function), complete, context_length, max_output)


def _caller(function: Callable[..., Any]) -> Callable[[str, int], Awaitable[Any]]:
    is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
    passes = _how_max_tokens_is_passed(function)

    async def call(prompt: str, max_tokens: int) -> Any:
        args = (prompt, max_tokens) if passes == "position" else (prompt,)
        named = {"max_tokens": max_tokens} if passes == "name" else {}
        if is_async:
            return await function(*args, **named)
        # In a thread, so that a function that waits for its network does not stop everybody else's.
        reply = await asyncio.to_thread(function, *args, **named)
        return await reply if inspect.isawaitable(reply) else reply

    return call


def _how_max_tokens_is_passed(function: Callable[..., Any]) -> str:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return "not"  # some built-in callables do not tell
    if any(parameter.name == "max_tokens" for parameter in parameters[1:]):
        return "name"
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [one for one in parameters if one.kind in positional and one.default is inspect.Parameter.empty]
    return "position" if len(required) >= 2 else "not"


def _name_of(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", "") or type(function).__name__
    return "the given summarizer" if name == "<lambda>" else name
