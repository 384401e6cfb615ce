"""The context window of a model, and the source of the figure.

Sources in order: a limit that a provider stated in this run, the config, a limit that was stated in an earlier run
(remembered on disk), the answer of a models endpoint, the table that ships with Clew, a default. Answers of endpoints
are passed in; nothing here uses the network.

Shapes of endpoint answers:

    OpenAI-compatible lists   {"data": [{"id": ..., ...}]}      vLLM max_model_len, OpenRouter and Together
                                                                context_length, Groq context_window, Mistral
                                                                max_context_length, Anthropic max_input_tokens
    llama.cpp                 data[].meta.n_ctx, /props default_generation_settings.n_ctx
    LM Studio                 loaded_context_length before max_context_length; loaded_instances[].config
    Ollama                    /api/show parameters "num_ctx N", else model_info "<arch>.context_length"
    Gemini                    {"models": [{"name": "models/...", "inputTokenLimit": ...}]}
    LiteLLM, TGI, Copilot     model_info, max_total_tokens, capabilities.limits
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from clew.errors import ClewError
from clew.lazy import read_beside
from clew.tokens.families import DEFAULT_WINDOW, normalize_model_name, starts_with_name


@dataclass(frozen=True, slots=True)
class KnownModel:
    """Window and largest output of a model and every variant of it: `gpt-4` for `gpt-4-0613`, not for `gpt-4o`."""

    name: str
    """As `normalize_model_name` gives it. Of several rows the longest name counts."""
    window: int
    max_output: int | None
    source: str


_TABLE = json.loads(read_beside(__file__, "models.json"))
KNOWN_MODELS = tuple(
    KnownModel(name, window, max_output, _TABLE["sources"][source])
    for name, window, max_output, source in _TABLE["models"]
)

WindowSource: TypeAlias = Literal["config", "stated", "endpoint", "table", "default"]

# "256K" read as 256,000, not as 262,144: a guess that is too large overflows again.
LADDER = (256_000, 128_000, 64_000, 32_000, 16_000, 8_000)
# Claude Code's way of asking for the long window of a model.
_LONG_WINDOW_SUFFIX = "[1m]"
_SMALLEST_WINDOW, _LARGEST_WINDOW = 256, 1_000_000_000
# The order matters: what a server runs with precedes what the model could do.
_WINDOW_KEYS = (
    "loaded_context_length",
    "max_model_len",
    "n_ctx",
    "num_ctx",
    "context_length",
    "context_window",
    "max_context_window_tokens",
    "max_total_tokens",
    "max_context_length",
    "max_input_tokens",
    "inputTokenLimit",
    "input_token_limit",
    "max_prompt_tokens",
    "max_position_embeddings",
    "n_ctx_train",
)
_OUTPUT_KEYS = ("max_completion_tokens", "max_output_tokens", "outputTokenLimit", "output_token_limit", "max_tokens")
_NESTED_KEYS = (
    "top_provider",
    "meta",
    "model_info",
    "limits",
    "capabilities",
    "metadata",
    "default_generation_settings",
    "config",
    "details",
    "architecture",
)
_NUM_CTX = re.compile(r"\bnum_ctx\s+(\d+)")


@dataclass(frozen=True, slots=True)
class Window:
    """The window in tokens, its source, the largest output, and a notice for the user."""

    tokens: int
    source: WindowSource
    max_output: int | None = None
    notice: str | None = None


def window_of(
    model: str | None,
    *,
    base_url: str | None = None,
    configured: int | None = None,
    stated: int | None = None,
    learnt: LearntLimits | None = None,
    remembered: int | None = None,
    endpoint: object = None,
) -> Window:
    """The window of a model. `stated` is a limit from an error of this run, `learnt` has those of earlier runs.

    `remembered` is one of an earlier run that is kept elsewhere.
    A limit that was stated in this run wins over the config; a limit of an earlier run gives way to the config.
    """
    name = model or ""
    if learnt is not None:
        remembered = learnt.limit(name, base_url)
    known = known_model(name)
    max_output = max_output_in(endpoint, name) or (known.max_output if known else None)
    if configured is not None and configured > 0:
        if stated is not None and 0 < stated < configured:
            return Window(stated, "stated", max_output, _notice_of_stated_limit(name, configured, stated))
        if remembered is not None and remembered < configured:
            notice = _notice_of_overruled_limit(name, configured, remembered)
            return Window(configured, "config", max_output, notice)
        return Window(configured, "config", max_output)
    stated = stated or remembered
    if stated is not None and stated > 0:
        return Window(stated, "stated", max_output)
    answered = window_in(endpoint, name)
    if answered is not None:
        return Window(answered, "endpoint", max_output)
    if known is not None:
        return Window(1_000_000 if name.lower().endswith(_LONG_WINDOW_SUFFIX) else known.window, "table", max_output)
    return Window(DEFAULT_WINDOW, "default", max_output, _notice_of_unknown_window(name))


def next_guess(current: int) -> int | None:
    """The next smaller window of `LADDER`, after an overflow that stated no limit; None below the last.

    A guess is for this session only, and never written to disk.
    """
    return next((size for size in LADDER if size < current), None)


@lru_cache(maxsize=1_024)
def known_model(model: str) -> KnownModel | None:
    """The row of the table for a model, whichever way its name is written; None when there is none."""
    name = normalize_model_name(model.lower().removesuffix(_LONG_WINDOW_SUFFIX))
    rows = [row for row in KNOWN_MODELS if starts_with_name(name, row.name)]
    return max(rows, key=lambda row: len(row.name), default=None)


def _notice_of_stated_limit(model: str, configured: int, stated: int) -> str:
    return (
        f"The provider stated a limit of {stated:,} tokens for {model}, which is below the configured {configured:,}; "
        f"{stated:,} is used. Set the configured context length to {stated} or less to silence this."
    )


def _notice_of_overruled_limit(model: str, configured: int, learnt: int) -> str:
    return (
        f"The provider of {model} once stated a limit of {learnt:,} tokens; the configured {configured:,} are used. "
        f"`clew models forget {model}` ends this notice."
    )


def _notice_of_unknown_window(model: str) -> str:
    return (
        f"The window of {model or 'the model'} is not known; {DEFAULT_WINDOW:,} tokens are assumed. "
        "Set model.context_length in the config to be sure."
    )


_MOST_LIMITS = 500
"""Limits in one file: of more, the oldest are forgotten."""


@dataclass(frozen=True, slots=True)
class LearntLimit:
    """A window that a provider stated for a model."""

    model: str
    address: str
    """Host and path; "-" for the address that the provider's name represents."""
    tokens: int


class LearntLimits:
    """Limits that providers stated in errors, by model and base URL, in one private JSON file.

    Guesses are not stored. A missing or broken file counts as empty; a failed write is reported and otherwise ignored.
    """

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path).expanduser()
        self._limits: dict[str, int] | None = None
        self._unwritten: dict[str, int] = {}

    def limit(self, model: str, base_url: str | None = None) -> int | None:
        """The limit a provider stated for this model at this address; None when it never did."""
        return self._known().get(_key(model, base_url))

    def remember(self, model: str, base_url: str | None, limit: int) -> bool:
        """Store a stated limit; False where it was not written, or is no plausible window."""
        if isinstance(limit, bool) or not isinstance(limit, int) or not _SMALLEST_WINDOW <= limit <= _LARGEST_WINDOW:
            return False
        key = _key(model, base_url)
        if self._known().get(key) == limit:
            return True
        # Read again first: another process may have learnt or forgotten something meanwhile.
        known = {**self._read(), **self._unwritten}
        known.pop(key, None)
        self._limits = {**dict(list(known.items())[-_MOST_LIMITS + 1 :]), key: limit}
        is_written = self._write(self._limits)
        self._unwritten = {} if is_written else {**self._unwritten, key: limit}
        return is_written

    def all(self) -> list[LearntLimit]:
        """Every limit, by model and address."""
        return [_limit_of(key, tokens) for key, tokens in sorted(self._known().items())]

    def of_model(self, model: str) -> list[LearntLimit]:
        """The limits of a model, at every address."""
        return [limit for limit in self.all() if limit.model == _plain_name(model)]

    def forget(self, model: str) -> list[LearntLimit]:
        """Take out the limits of a model, at every address; those that there were. Raises where the file stays."""
        self._limits = {**self._read(), **self._unwritten}
        gone = self.of_model(model)
        kept = {key: tokens for key, tokens in self._limits.items() if _limit_of(key, tokens) not in gone}
        if gone and not self._write(kept):
            raise ClewError(
                f"{self._path} could not be written, so nothing was forgotten", remedy="look at its permissions"
            )
        self._limits, self._unwritten = kept, {}
        return gone

    def _known(self) -> dict[str, int]:
        if self._limits is None:
            self._limits = self._read()
        return self._limits

    def _read(self) -> dict[str, int]:
        try:
            stored = json.loads(self._path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        limits = stored.get("limits") if isinstance(stored, Mapping) else None
        if not isinstance(limits, Mapping):
            return {}
        return {
            key: value
            for key, value in limits.items()
            if type(value) is int and _SMALLEST_WINDOW <= value <= _LARGEST_WINDOW
        }

    def _write(self, limits: dict[str, int]) -> bool:
        import tempfile  # written once in many runs, and slow to import

        text = json.dumps({"version": 1, "limits": limits}, indent=2) + "\n"
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            # mkstemp gives 0600, and the file keeps it when it takes its place.
            number, name = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}.")
        except OSError:
            return False
        try:
            with os.fdopen(number, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self._path)
        except OSError:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            return False
        return True


def _key(model: str, base_url: str | None) -> str:
    return f"{_plain_name(model)} @ {_address(base_url)}"


def _plain_name(model: str) -> str:
    return model.strip().lower()


def _limit_of(key: str, tokens: int) -> LearntLimit:
    model, _, address = key.rpartition(" @ ")
    return LearntLimit(model, address, tokens)


def _address(base_url: str | None) -> str:
    """Host, port and path in lower case: without user and query, which may be secret, and without the scheme."""
    if not base_url:
        return "-"
    try:
        parts = urlsplit(base_url if "//" in base_url else f"//{base_url}")
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "-"
    return f"{(parts.hostname or '').lower()}{port}{parts.path.rstrip('/')}"


def window_in(answer: object, model: str) -> int | None:
    """The window that an endpoint's answer states for a model; None when it states none."""
    entry = _entry_for(answer, model)
    if entry is None:
        return None
    running = _ollama_num_ctx(entry) or _loaded_instance(entry)
    return running or _first_number(entry, _WINDOW_KEYS) or _architecture_length(entry)


def max_output_in(answer: object, model: str) -> int | None:
    """The largest output that an endpoint's answer states for a model; None when it states none."""
    entry = _entry_for(answer, model)
    return _first_number(entry, _OUTPUT_KEYS) if entry is not None else None


def _entry_for(answer: object, model: str) -> Mapping[str, Any] | None:
    """The entry of one model in an answer that is a list of them, or the answer itself."""
    listed = answer
    if isinstance(answer, Mapping):
        listed = next((answer[key] for key in ("data", "models") if isinstance(answer.get(key), list)), None)
        if listed is None:
            inner = answer.get("data")
            return inner if isinstance(inner, Mapping) else answer
    if not isinstance(listed, list):
        return None
    entries = [entry for entry in listed if isinstance(entry, Mapping)]
    exact = [entry for entry in entries if model in _names_in_entry(entry)]
    alike = [
        entry for entry in entries if normalize_model_name(model) in map(normalize_model_name, _names_in_entry(entry))
    ]
    found = exact or alike
    # A local server that serves one model answers with its file's name, whatever the client calls it.
    return found[0] if found else entries[0] if len(entries) == 1 else None


def _names_in_entry(entry: Mapping[str, Any]) -> Iterator[str]:
    for key in ("id", "model", "name", "key", "model_name", "canonical_slug"):
        value = entry.get(key)
        if isinstance(value, str):
            yield value


def _first_number(entry: Mapping[str, Any], keys: tuple[str, ...]) -> int | None:
    """The number under the first of these keys that the entry or a nested object has with a plausible value."""
    objects = list(_nested_objects(entry, 0))
    for key in keys:
        for each in objects:
            number = _plausible_size(each.get(key))
            if number is not None:
                return number
    return None


def _nested_objects(entry: Mapping[str, Any], depth: int) -> Iterator[Mapping[str, Any]]:
    yield entry
    for key in _NESTED_KEYS:
        inner = entry.get(key)
        if isinstance(inner, Mapping) and depth < 3:
            yield from _nested_objects(inner, depth + 1)


def _ollama_num_ctx(entry: Mapping[str, Any]) -> int | None:
    parameters = entry.get("parameters")
    found = _NUM_CTX.search(parameters) if isinstance(parameters, str) else None
    return _plausible_size(found.group(1)) if found else None


def _loaded_instance(entry: Mapping[str, Any]) -> int | None:
    instances = entry.get("loaded_instances")
    for instance in instances if isinstance(instances, list) else ():
        if isinstance(instance, Mapping):
            found = _first_number(instance, _WINDOW_KEYS)
            if found:
                return found
    return None


def _architecture_length(entry: Mapping[str, Any]) -> int | None:
    info = entry.get("model_info")
    for key, value in info.items() if isinstance(info, Mapping) else ():
        if isinstance(key, str) and key.endswith(".context_length"):
            return _plausible_size(value)
    return None


def _plausible_size(value: object) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 12:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if _SMALLEST_WINDOW <= value <= _LARGEST_WINDOW else None
