"""A model in a file on this machine: llama.cpp's server in a child process, on loopback, with a key of its own.

Knows when that process is started, when it is started again and when it is stopped; requests go through the provider
of the chat wire. The library (`xllamacpp`, the extra `local`) is imported by the child alone.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clew.errors import InvalidArgument
from clew.providers.base import OnDelta, Provider, ProviderRefused, Reply, Request
from clew.providers.chat import OpenAIChatProvider
from clew.providers.gguf import trained_window
from clew.providers.local_child import Orders, ServerChild
from clew.providers.patience import Patience

DEFAULT_CONTEXT_LENGTH = 16_384
"""A window costs memory from the first token on, so a larger one is asked for, not given."""
# A small model that has lost its thread goes on until the window is full, which takes minutes.
_OUTPUT_SHARE = 4
_LEAST_OUTPUT = 256
# A prompt of a full window takes minutes on a small machine, and not a byte comes before it is read. A server that
# dies is noticed at once all the same.
_IDLE_SECONDS = 1_800.0


@dataclass(frozen=True, slots=True)
class _Running:
    child: ServerChild
    chat: OpenAIChatProvider


class LocalProvider(Provider):
    """Runs a GGUF file."""

    def __init__(
        self,
        model_file: str | Path,
        *,
        context_length: int | None = None,
        threads: int | None = None,
        patience: Patience | None = None,
        log: Path | None = None,
    ) -> None:
        """`context_length` is cut to what the model was trained for; `log` is where llama.cpp's chatter goes."""
        self.name = "local"
        self.file = Path(model_file).expanduser().absolute()
        if not self.file.is_file():
            raise InvalidArgument(f"there is no model file at {self.file}; give the path of a .gguf file")
        trained = trained_window(self.file)
        asked = context_length or DEFAULT_CONTEXT_LENGTH
        self.context_length = min(asked, trained) if trained else asked
        """The window that the server runs with; known before it is started."""
        self._orders = Orders(self.file, self.context_length, threads, log)
        # A server on this machine that does not answer is dead: asking again would only wait.
        self._patience = replace(patience or Patience(), retries=0, idle_seconds=_IDLE_SECONDS)
        self._running: _Running | None = None
        self._child: ServerChild | None = None
        self._end: weakref.finalize[..., LocalProvider] | None = None

    @property
    def model(self) -> str:
        """What the model is called: its file's name."""
        return self.file.stem

    @property
    def base_url(self) -> str:
        """Tells this model in this window apart from others, where stated limits are remembered."""
        return f"local://{self.file.name}/{self.context_length}"

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        running = await self._started()
        try:
            return await running.chat.send(self._capped(request), on_delta)
        except ProviderRefused as refused:
            if refused.fault.kind != "network" or not await _has_ended(running.child):
                raise
            raise self._died(running.child, refused) from refused

    async def models(self) -> list[Mapping[str, Any]]:
        return await (await self._started()).chat.models()

    async def close(self) -> None:
        running, child = self._taken_off()
        await _let_go(running, child)

    async def _started(self) -> _Running:
        """The server, started where none runs. Nothing waits between a look and a change here: no lock is needed."""
        if self._child is None or not self._child.is_running:
            running, child = self._taken_off()
            self._child = ServerChild(self._orders)
            self._end = weakref.finalize(self, self._child.stop)
            await _let_go(running, child)
        child = self._child
        if child is None:
            raise InvalidArgument(f"{self.file.name} was closed while it was being started; ask again to start it")
        try:
            # Shielded: who stops waiting does not stop the loading, and the next request finds it further on.
            address = await asyncio.shield(asyncio.wrap_future(child.address))
        except InvalidArgument:
            if self._child is child:
                await self.close()
            raise
        if self._running is None or self._running.child is not child:
            chat = OpenAIChatProvider(f"{address}/v1", api_key=child.key, name=self.name, patience=self._patience)
            self._running = _Running(child, chat)
        return self._running

    def _taken_off(self) -> tuple[_Running | None, ServerChild | None]:
        taken = self._running, self._child
        self._running = self._child = None
        if self._end is not None:
            self._end.detach()
        return taken

    def _capped(self, request: Request) -> Request:
        """A request with an end to its reply: where none is asked for, a quarter of the window."""
        if request.max_tokens is not None:
            return request
        return replace(request, max_tokens=max(_LEAST_OUTPUT, self.context_length // _OUTPUT_SHARE))

    def _died(self, child: ServerChild, refused: ProviderRefused) -> ProviderRefused:
        told = (
            f"the server of {self.file.name} ended during the request ({child.ending}); "
            "the next request starts it again. If that repeats, a smaller model.context_length takes less memory"
        )
        return ProviderRefused(self.name, refused.fault, told, refused.partial)


async def _has_ended(child: ServerChild) -> bool:
    """Whether the process is gone; a connection can break a moment before that shows."""
    for _ in range(20):
        if not child.is_running:
            return True
        await asyncio.sleep(0.01)
    return False


async def _let_go(running: _Running | None, child: ServerChild | None) -> None:
    if running is not None:
        await running.chat.close()
    if child is not None:
        await asyncio.to_thread(child.stop)
