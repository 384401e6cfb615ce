"""A progress line for work that takes a while: which phase, and for how many seconds.

Drawn only where somebody watches, and gone when the phase is over.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic

from clew.cli.output import Console

_EVERY_SECONDS = 0.25
# A phase that is over sooner needs no clock.
_CLOCK_FROM_SECONDS = 1.0


@contextmanager
def phase(console: Console, words: str) -> Iterator[None]:
    """Show the words, with the seconds once it takes longer, for as long as the block runs."""
    if not console.live:
        yield
        return
    started, over = monotonic(), Event()

    def tick() -> None:
        while not over.wait(_EVERY_SECONDS):
            seconds = monotonic() - started
            if seconds >= _CLOCK_FROM_SECONDS:
                console.progress(f"{words} ... {seconds:.0f} s")

    console.progress(f"{words} ...")
    clock = Thread(target=tick, daemon=True)
    clock.start()
    try:
        yield
    finally:
        over.set()
        clock.join()
        console.wipe()
