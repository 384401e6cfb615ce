"""The other side of the speed figures: Hermes Agent 0.19.0 from PyPI, loaded from a folder of its own.

    pip install --no-deps --target FOLDER hermes-agent==0.19.0
    pip install --target FOLDER requests httpx pyyaml

Knows three of its functions and how to keep its summariser from calling a model. It never becomes a dependency: what
uses it says so and goes on when it is missing.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

STUB_SUMMARY = "## Goal\nA summary that no model wrote."
WINDOW = 200_000


@dataclass(frozen=True)
class HermesSide:
    """What is measured of it, as plain functions of messages."""

    version: str
    request_size: Callable[[Sequence[Any]], int]
    breakpoints: Callable[[Sequence[Any]], Sequence[Any]]
    compress: Callable[[Sequence[Any]], Sequence[Any]]
    """With its summariser answered by a stub; each call is a compressor of its own."""
    compress_without_model: Callable[[Sequence[Any]], Sequence[Any]]
    """With no summariser to be had, as it goes on then."""
    compressor_for: Callable[[int, Callable[..., str]], Any]
    """A compressor of a window that lives on; the callable stands for its model, and gets each request to it."""


def load_hermes(folder: Path | None) -> HermesSide | None:
    """Hermes out of that folder; None, and a line that says why, when it is not there."""
    if folder is None or not (folder / "agent" / "context_compressor.py").is_file():
        print("Hermes is missing: its columns stay empty. See benchmarks/README.md for the two lines that fetch it.")
        return None
    # It keeps settings and caches at home; ours are not its business.
    os.environ["HERMES_HOME"] = tempfile.mkdtemp(prefix="hermes-home-")
    logging.disable(logging.WARNING)
    # Behind everything else, so that the libraries beside it do not replace those of this environment.
    sys.path.append(str(folder))
    try:
        compressor = importlib.import_module("agent.context_compressor")
        caching = importlib.import_module("agent.prompt_caching")
        sizes = importlib.import_module("agent.model_metadata")
    except ImportError as error:
        print(f"Hermes does not load ({error}): its columns stay empty. Install that module into {folder} too.")
        return None
    return HermesSide(
        version=_version_in(folder),
        request_size=sizes.estimate_request_tokens_rough,
        breakpoints=caching.apply_anthropic_cache_control,
        compress=_compress_with(compressor, _answer_with_stub),
        compress_without_model=_compress_with(compressor, _answer_with_fault),
        compressor_for=lambda window, write: _living(compressor, window, write),
    )


def _compress_with(module: Any, answer: Callable[..., Any]) -> Callable[[Sequence[Any]], Sequence[Any]]:
    def compress(messages: Sequence[Any], window: int = WINDOW) -> Sequence[Any]:
        module.call_llm = answer
        compressor = module.ContextCompressor("stub-model", config_context_length=window, quiet_mode=True)
        result: Sequence[Any] = compressor.compress(list(messages), current_tokens=window, force=True)
        return result

    return compress


def _living(module: Any, window: int, write: Callable[..., str]) -> Any:
    module.call_llm = lambda **request: _reply(write(**request))
    return module.ContextCompressor("stub-model", config_context_length=window, quiet_mode=True)


def _answer_with_stub(**_request: Any) -> Any:
    return _reply(STUB_SUMMARY)


def _reply(text: str) -> Any:
    return SimpleNamespace(choices=[SimpleNamespace(message=SimpleNamespace(content=text))])


def _answer_with_fault(**_request: Any) -> Any:
    raise RuntimeError("No LLM provider configured")


def _version_in(folder: Path) -> str:
    found = next(folder.glob("hermes_agent-*.dist-info"), None)
    return found.name.removeprefix("hermes_agent-").removesuffix(".dist-info") if found else "unknown"
