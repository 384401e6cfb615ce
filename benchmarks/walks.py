"""Which files a call walks through: `clew.compress`, one turn over a real wire, one append, a preview that is applied;
a request through the gateway, and one that it folds.

    python benchmarks/walks.py            the walks: each file, in order, with the functions that ran in it
    python benchmarks/walks.py --counts   the numbers alone
    python benchmarks/walks.py --write    write the lists of docs/walk.md

Each is run once, so that what it needs is imported, and once more on fresh data, watched. Importing is no step of a
walk, and neither is what stands in `clew.testing`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import aiohttp

import _repository  # noqa: F401
import clew
from _table import report
from clew.providers import AnthropicProvider, Provider
from clew.store import NewSession
from clew.testing import user
from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import Upstream, UpstreamAnswer
from clew.turn import Conversation, receive
from tests.support.flow import SESSION, flow_with
from tests.support.gateway import GatewayFlow, gateway_with
from tests.support.history import synthetic_history

SOURCE = Path(clew.__file__).parent
ROOT = Path(__file__).resolve().parents[1]
PAGE, EXAMPLE = ROOT / "docs" / "walk.md", ROOT / "examples" / "session.json"
_MOST_FUNCTIONS = 3
"""Of each file, in the page."""
_BLOCK = re.compile(r"(?P<title>\*\*.+?\*\*, )\d+ files:\n\n```\n.*?```", re.DOTALL)
_HISTORY = 60
_FAKE_KEY = "not-a-real-key"
_MODEL = "claude-sonnet-4-5"


class Walk:
    """The files that were walked through, in order, each with the functions that ran in it."""

    def __init__(self) -> None:
        self.files: dict[str, dict[str, None]] = {}
        self._paths: dict[str, str | None] = {}
        self._is_watching = False

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        if event != "call" or not self._is_watching:
            return
        code = frame.f_code
        if code.co_filename not in self._paths:
            self._paths[code.co_filename] = _relative(code.co_filename)
        path = self._paths[code.co_filename]
        if path is not None and not code.co_name.startswith("<"):
            self.files.setdefault(path, {})[code.co_name] = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        self._is_watching = True
        try:
            yield
        finally:
            self._is_watching = False


def _relative(filename: str) -> str | None:
    path = Path(filename)
    if not path.is_relative_to(SOURCE) or path.is_relative_to(SOURCE / "testing"):
        return None
    return str(path.relative_to(SOURCE))


@asynccontextmanager
async def _closing(provider: Provider) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await provider.close()


async def compress(walk: Walk, folder: Path) -> None:
    del folder
    history = json.loads(EXAMPLE.read_text(encoding="utf-8"))["messages"]
    with walk.watched():
        clew.compress(history, target_tokens=10_000)


async def a_turn(walk: Walk, folder: Path) -> None:
    async with Upstream(UpstreamAnswer("first"), UpstreamAnswer("second")) as upstream:
        provider = AnthropicProvider(upstream.base_url, api_key=_FAKE_KEY)
        async with _closing(provider), flow_with(provider, folder, model=_MODEL) as flow:
            # The checker of prefixes reads every request; that is a test's work, not a turn's.
            flow.runtime.target = replace(flow.runtime.target, provider=provider)
            await flow.turn(user("a question"))
            with walk.watched():
                await flow.turn(user("and another one"))


async def an_append(walk: Walk, folder: Path) -> None:
    async with clew.open_store(folder / "state.db") as store:
        await store.start_session(NewSession(id=SESSION))
        await store.append(SESSION, [user("the first")])
        with walk.watched():
            await store.append(SESSION, [user("the second")])


async def a_preview_applied(walk: Walk, folder: Path) -> None:
    async with flow_with(AnthropicProvider("http://127.0.0.1:9", api_key=_FAKE_KEY), folder) as flow:
        await receive(flow.runtime, SESSION, synthetic_history(_HISTORY))
        with walk.watched():
            conversation: Conversation = await flow.runtime.conversation(SESSION)
            assert await conversation.apply_compaction(await conversation.preview_compaction())


WALKS: dict[str, Callable[[Walk, Path], Coroutine[Any, Any, None]]] = {
    "compress": compress,
    "a turn": a_turn,
    "an append": an_append,
    "preview, then apply": a_preview_applied,
}


async def _ask(flow: GatewayFlow, items: list[Any]) -> bool:
    """Send one more question with its history; whether the request was folded."""
    items.append({"role": "user", "content": f"question {len(items)} " + "with many words " * 60})
    url, body = f"{flow.base_url}/chat/completions", {"model": GATEWAY_MODEL, "messages": items}
    async with aiohttp.ClientSession() as http, http.post(url, json=body) as response:
        answer = await response.json()
    await flow.wait_for_recordings()
    is_folded = len(flow.upstream.received[-1].body["messages"]) < len(items)
    items.append(answer["choices"][0]["message"])
    return is_folded


async def a_request(walk: Walk, folder: Path) -> None:
    items: list[Any] = []
    async with gateway_with(Upstream(answers=lambda _: UpstreamAnswer("done")), folder) as flow:
        await _ask(flow, items)
        await _ask(flow, items)
        with walk.watched():
            await _ask(flow, items)


async def a_folded_request(walk: Walk, folder: Path) -> None:
    items: list[Any] = []
    async with gateway_with(Upstream(answers=lambda _: UpstreamAnswer("done")), folder) as flow:
        is_folded = False
        while not is_folded:
            walk.files.clear()
            with walk.watched():
                is_folded = await _ask(flow, items)


GATEWAY_WALKS: dict[str, Callable[[Walk, Path], Coroutine[Any, Any, None]]] = {
    "a request through the gateway": a_request,
    "one that is folded": a_folded_request,
}
"""Not in docs/walk.md: most of their files are those of an append and of a turn."""


def walk_of(steps: Callable[[Walk, Path], Coroutine[Any, Any, None]]) -> Walk:
    """The walk of the second run of these steps."""
    walk = Walk()
    for attempt in (Walk(), walk):
        with tempfile.TemporaryDirectory() as folder:
            # Threads take over the profile that is set when they start, so it is set before the store opens its own.
            threading.setprofile(attempt)
            sys.setprofile(attempt)
            try:
                asyncio.run(steps(attempt, Path(folder)))
            finally:
                sys.setprofile(None)
                threading.setprofile(None)
    return walk


def page_with(walks: Sequence[Walk], page: str) -> str:
    """The page with its lists replaced: each file with the first public functions that ran in it."""
    start, heading, lists = page.partition("\n## The four walks")
    left = iter(walks)

    def block(found: re.Match[str]) -> str:
        files = next(left).files
        lines = "".join(f"{path}: {', '.join(_shown(functions))}\n" for path, functions in files.items())
        return f"{found['title']}{len(files)} files:\n\n```\n{lines}```"

    return start + heading + _BLOCK.sub(block, lists)


def _shown(functions: Iterable[str]) -> list[str]:
    names = list(functions)
    return [name for name in names if not name.startswith("_")][:_MOST_FUNCTIONS] or names[:_MOST_FUNCTIONS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", action="store_true", help="the numbers alone")
    parser.add_argument("--write", action="store_true", help="write the lists of docs/walk.md")
    options = parser.parse_args()
    walks = {name: walk_of(steps) for name, steps in (WALKS | GATEWAY_WALKS).items()}
    if options.write:
        PAGE.write_text(page_with(list(walks.values()), PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    elif not options.counts:
        for name, walk in walks.items():
            print(f"\n{name}: {len(walk.files)} files")
            for path, functions in walk.files.items():
                print(f"  {path}: {', '.join(functions)}")
    report("walks", [{"walk": name, "files": len(walk.files)} for name, walk in walks.items()], ["walk", "files"])


if __name__ == "__main__":
    main()
