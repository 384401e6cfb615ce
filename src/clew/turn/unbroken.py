"""Short work that must not end half done: a stop waits for it, and comes then.

Knows tasks only. For writing down what has come: a reply that was paid for, the results of calls that ran.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

_Value = TypeVar("_Value")


async def unbroken(work: Coroutine[Any, Any, _Value]) -> _Value:
    """What the work gives. However often the caller is cancelled meanwhile, it is cancelled once the work is done."""
    task = asyncio.ensure_future(work)
    stop: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as cancelled:
            stop = cancelled
    if stop is not None:
        raise stop from (None if task.cancelled() else task.exception())
    return task.result()
