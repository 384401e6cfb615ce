"""What a models endpoint says about a model's window, in the shapes that real servers answer.

Reads only; an answer it does not understand says nothing.

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

import re
from collections.abc import Iterator, Mapping
from typing import Any

from clew.tokens.names import plain_name

# What a server runs with comes before what a model could do: the order of each list matters.
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
_INNER = (
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
_LEAST, _MOST = 256, 1_000_000_000


def window_in(answer: object, model: str) -> int | None:
    """The window that an endpoint's answer states for a model; None when it states none."""
    entry = _entry_for(answer, model)
    if entry is None:
        return None
    running = _ollama_num_ctx(entry) or _loaded_instance(entry)
    return running or _first(entry, _WINDOW_KEYS) or _architecture_length(entry)


def max_output_in(answer: object, model: str) -> int | None:
    """The largest output that an endpoint's answer states for a model; None when it states none."""
    entry = _entry_for(answer, model)
    return _first(entry, _OUTPUT_KEYS) if entry is not None else None


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
    exact = [entry for entry in entries if model in _names(entry)]
    alike = [entry for entry in entries if plain_name(model) in map(plain_name, _names(entry))]
    found = exact or alike
    # A local server that serves one model answers with its file's name, whatever the client calls it.
    return found[0] if found else entries[0] if len(entries) == 1 else None


def _names(entry: Mapping[str, Any]) -> Iterator[str]:
    for key in ("id", "model", "name", "key", "model_name", "canonical_slug"):
        value = entry.get(key)
        if isinstance(value, str):
            yield value


def _first(entry: Mapping[str, Any], keys: tuple[str, ...]) -> int | None:
    """The first key, in their order, that the entry or one of its inner objects has with a sensible number."""
    places = list(_places(entry, 0))
    for key in keys:
        for place in places:
            number = _sensible(place.get(key))
            if number is not None:
                return number
    return None


def _places(entry: Mapping[str, Any], depth: int) -> Iterator[Mapping[str, Any]]:
    yield entry
    for key in _INNER:
        inner = entry.get(key)
        if isinstance(inner, Mapping) and depth < 3:
            yield from _places(inner, depth + 1)


def _ollama_num_ctx(entry: Mapping[str, Any]) -> int | None:
    parameters = entry.get("parameters")
    found = _NUM_CTX.search(parameters) if isinstance(parameters, str) else None
    return _sensible(found.group(1)) if found else None


def _loaded_instance(entry: Mapping[str, Any]) -> int | None:
    instances = entry.get("loaded_instances")
    for instance in instances if isinstance(instances, list) else ():
        if isinstance(instance, Mapping):
            found = _first(instance, _WINDOW_KEYS)
            if found:
                return found
    return None


def _architecture_length(entry: Mapping[str, Any]) -> int | None:
    info = entry.get("model_info")
    for key, value in info.items() if isinstance(info, Mapping) else ():
        if isinstance(key, str) and key.endswith(".context_length"):
            return _sensible(value)
    return None


def _sensible(value: object) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 12:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if _LEAST <= value <= _MOST else None
