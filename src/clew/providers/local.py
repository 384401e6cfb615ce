"""A model in a file on this machine: a llama.cpp server inside this process, on loopback, with a key of its own.

Knows how that server is started and stopped; requests go through the provider of the chat wire. The library
(`xllamacpp`, the extra `local`) is imported when the first request is sent.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from clew.errors import InvalidArgument
from clew.providers.base import OnDelta, Provider, Reply, Request
from clew.providers.chat import OpenAIChatProvider
from clew.providers.patience import Patience

DEFAULT_CONTEXT_LENGTH = 8_192
"""A window costs memory from the first token on, so a large one is asked for, not given."""


class LocalProvider(Provider):
    """Runs a GGUF file."""

    def __init__(
        self,
        model_file: str | Path,
        *,
        context_length: int | None = None,
        threads: int | None = None,
        patience: Patience | None = None,
    ) -> None:
        """`threads` None: as many as the machine has cores, which is slow where others use them too."""
        self.name = "local"
        self._file = Path(model_file).expanduser()
        if not self._file.is_file():
            raise InvalidArgument(f"there is no model file at {self._file}; give the path of a .gguf file")
        self.context_length = context_length or DEFAULT_CONTEXT_LENGTH
        self._threads = threads
        self._patience = patience
        self._server: Any = None
        self._chat: OpenAIChatProvider | None = None
        self._starting = asyncio.Lock()

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        return await (await self._started()).send(request, on_delta)

    async def models(self) -> list[Mapping[str, Any]]:
        return await (await self._started()).models()

    async def close(self) -> None:
        async with self._starting:
            chat, self._chat = self._chat, None
            if chat is not None:
                await chat.close()
            self._server = None  # it stops when nobody holds it

    async def _started(self) -> OpenAIChatProvider:
        async with self._starting:
            if self._chat is None:
                key = secrets.token_urlsafe(24)
                self._server = await asyncio.to_thread(
                    started_server, self._file, self.context_length, self._threads, key
                )
                address = f"{self._server.listening_address}/v1"
                self._chat = OpenAIChatProvider(address, api_key=key, name=self.name, patience=self._patience)
            return self._chat


def started_server(file: Path, context_length: int, threads: int | None, key: str) -> Any:
    """A server on any free port of loopback, which lives as long as somebody holds it."""
    try:
        xllamacpp = import_module("xllamacpp")
    except ImportError as error:
        raise InvalidArgument("models in files need the extra `local`; pip install 'clew[local]'") from error
    asked = xllamacpp.CommonParams()
    asked.model.path = str(file)
    asked.model_alias = {file.stem}
    asked.n_ctx = context_length
    asked.n_parallel = 1  # more would share the window out among them
    if threads is not None:
        asked.cpuparams.n_threads = asked.cpuparams_batch.n_threads = threads
    asked.hostnames = ["127.0.0.1"]
    asked.port = 0
    asked.api_keys = [key]  # a page in a browser can reach loopback too
    asked.cors_origins = ""
    asked.ui = False
    asked.verbosity = -1
    try:
        return xllamacpp.Server(asked)
    except (RuntimeError, ValueError) as error:
        raise InvalidArgument(f"{file} cannot be run: {error}; is it a GGUF file, and is there memory?") from error
