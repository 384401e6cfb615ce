"""`clew serve` for tests and examples, in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory

GATEWAY_MODEL = "mock-model"


@dataclass(frozen=True, slots=True)
class ServedGateway:
    """`clew serve` in a separate process, with a temporary Clew home."""

    address: str
    """The base URL for clients that add `/v1` by themselves."""
    environ: Mapping[str, str]

    @property
    def token(self) -> str:
        """For `x-clew-token`, by which this person's programs read conversations."""
        return (Path(self.environ["CLEW_HOME"]) / "gateway.token").read_text()

    def clew(self, *words: str) -> str:
        """What a command prints that is run beside it."""
        command = [sys.executable, "-m", "clew", *words]
        return subprocess.run(command, env=dict(self.environ), capture_output=True, text=True, check=True).stdout


@contextmanager
def serving(upstream: str, *, window: int = 8_000) -> Iterator[ServedGateway]:
    """The gateway as a person runs it, in front of an address; `window` is that of `GATEWAY_MODEL`."""
    settings = (f"model.name={GATEWAY_MODEL}", f"model.context_length={window}", "gateway.log=none")
    words = [sys.executable, "-m", "clew", "serve", "--upstream", upstream, "--port", "0", "--json"]
    words += [word for setting in settings for word in ("--set", setting)]
    with TemporaryDirectory() as folder:
        environ = {**os.environ, "CLEW_HOME": folder}
        with subprocess.Popen(words, env=environ, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            printed = json.loads("".join(takewhile(lambda line: line != "}\n", process.stdout)) + "}")
            try:
                yield ServedGateway(printed["address"], environ)
            finally:
                process.terminate()
