"""How models look on a terminal: the one in use, those on this machine, those that a provider lists; and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from clew.cli.console import Console
from clew.cli.views.amounts import NO_PRICE
from clew.cli.views.tables import table_lines
from clew.cli.views.text import Align, printable
from clew.providers import FetchableModel, LocalModel, trained_window
from clew.tokens import KNOWN_MODELS, LearntLimit, Window, known_model, normalize_model_name, window_of
from clew.usage import Price, price_of

WINDOW_SOURCES: Mapping[str, str] = {
    "config": "from the config",
    "stated": "as the provider stated in an error",
    "endpoint": "as the provider's models endpoint says",
    "table": "from the table that ships with Clew",
    "default": "assumed, since nobody says how large it is",
    "file": "as it is run here; model.context_length changes it",
}
_MARGIN = "  "
_SIMILARITY = 0.75


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What is known of a model: None where it is not."""

    name: str
    provider: str | None
    window: int | None
    source: str
    price: Price | None


@dataclass(frozen=True, slots=True)
class ModelDetails:
    """What `clew models show` tells of a model. Of keys only where they are looked for, never what they are."""

    info: ModelInfo
    max_output: int | None
    base_url: str | None
    keys: tuple[tuple[str, bool], ...]
    """The environment variables that may hold the key, and whether each is set."""
    key_in_config: bool
    learnt: tuple[LearntLimit, ...]


def model_info(name: str, provider: str | None, window: Window) -> ModelInfo:
    return ModelInfo(name, provider, window.tokens, window.source, price_of(name, provider))


def listed_models(listed: Sequence[Mapping[str, Any]], provider: str, words: Sequence[str]) -> list[ModelInfo]:
    """What a models endpoint lists, by name, as far as the names hold these words."""
    names = sorted({name for entry in listed if (name := _name_of(entry))}, key=str.lower)
    wanted = [name for name in names if all(word.lower() in name.lower() for word in words)]
    info = [model_info(name, provider, window_of(name, endpoint={"data": list(listed)})) for name in wanted]
    return [_without_assumed_window(each) for each in info]


def _name_of(entry: Mapping[str, Any]) -> str:
    return next((str(entry[key]) for key in ("id", "name", "model") if isinstance(entry.get(key), str)), "")


def _without_assumed_window(info: ModelInfo) -> ModelInfo:
    """Without a window that is only assumed, which a list would show as if it were known."""
    if info.source != "default":
        return info
    return ModelInfo(info.name, info.provider, None, "unknown", info.price)


def similar_names(name: str) -> list[str]:
    """Names in our tables that are like one which is not there."""
    plain = normalize_model_name(name)
    names = [row.name for row in KNOWN_MODELS]
    return [] if plain in names else get_close_matches(plain, names, 3, _SIMILARITY)


def is_known(info: ModelInfo) -> bool:
    return known_model(info.name) is not None and info.price is not None


# -- as lines ----------------------------------------------------------------------------------------------------------


def model_line(info: ModelInfo) -> str:
    """All that is known of a model, in one line."""
    return f"{info.name}{_through(info)}: {_window(info)}; {_price(info.price)}"


def details_lines(details: ModelDetails) -> list[str]:
    """All that is known of a model, a line each."""
    info = details.info
    rows = [("window", f"{_tokens(info.window)}, {WINDOW_SOURCES[info.source]}")]
    rows += [("learnt", _learnt(limit, info)) for limit in details.learnt]
    if details.max_output:
        rows.append(("output", f"{details.max_output:,} tokens at most"))
    rows += [("price", _price(info.price)), ("key", _keys(details))]
    address = f", {_without_secrets(details.base_url)}" if details.base_url else ""
    return [f"{info.name}{_through(info)}{address}", *(f"{_MARGIN}{name:<8}{text}" for name, text in rows)]


def limit_text(limit: LearntLimit) -> str:
    at = "" if limit.address == "-" else f" at {limit.address}"
    return f"{limit.tokens:,} tokens{at}"


def _learnt(limit: LearntLimit, info: ModelInfo) -> str:
    overruled = ", overruled by the config" if info.source == "config" and (info.window or 0) > limit.tokens else ""
    return f"{limit_text(limit)}{overruled}; `clew models forget {info.name}` forgets it"


def _keys(details: ModelDetails) -> str:
    if details.info.provider == "local":
        return "none is needed"
    found = ["model.api_key in the config"] if details.key_in_config else []
    found += [f"{variable}, {'set' if is_set else 'not set'}" for variable, is_set in details.keys]
    return "; ".join(found) or "model.api_key_env names the variable that holds it, where one is needed"


def _without_secrets(base_url: str) -> str:
    """An address without user and query, where some have a key."""
    parts = urlsplit(base_url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _through(info: ModelInfo) -> str:
    if info.provider is None:
        return ", served by nobody that Clew knows"
    return " on this machine" if info.provider == "local" else f" through {info.provider}"


def local_lines(models: Sequence[LocalModel], chosen: str | None, console: Console) -> list[str]:
    rows = [
        ("*" if model.name == chosen or str(model.file) == chosen else " ", printable(model.name), *_size(model))
        for model in models
    ]
    aligns: list[Align] = ["<", "<", ">", "<"]
    return [_MARGIN + line for line in table_lines(rows, aligns, console.width - len(_MARGIN))]


def fetchable_lines(rows: Sequence[FetchableModel], console: Console) -> list[str]:
    cells = [(row.name, format_bytes(row.file_bytes), row.about) for row in rows]
    return [_MARGIN + line for line in table_lines(cells, ["<", ">", "<"], console.width - len(_MARGIN))]


def remote_lines(info: Sequence[ModelInfo], console: Console) -> list[str]:
    rows = [(printable(each.name), _tokens(each.window), _rate(each.price)) for each in info]
    return [_MARGIN + line for line in table_lines(rows, ["<", ">", "<"], console.width - len(_MARGIN))]


def format_bytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e9:,.1f} GB" if size_bytes >= 1e9 else f"{max(1, round(size_bytes / 1e6)):,} MB"


def _size(model: LocalModel) -> tuple[str, str]:
    window = trained_window(model.file)
    return format_bytes(model.size_bytes), f"window {window:,} tokens" if window else "window unknown"


def _tokens(window: int | None) -> str:
    return f"{window:,} tokens" if window else "window unknown"


def _window(info: ModelInfo) -> str:
    return f"window {_tokens(info.window)}, {WINDOW_SOURCES[info.source]}" if info.window else _tokens(None)


def _price(price: Price | None) -> str:
    return _rate(price) + (" per million tokens" if price is not None and price.input else "")


def _rate(price: Price | None) -> str:
    if price is None:
        return NO_PRICE
    return f"{_dollars(price.input)} in, {_dollars(price.output)} out" if price.input or price.output else "free"


def _dollars(amount: Decimal) -> str:
    plain = f"{amount:.4f}".rstrip("0")
    whole, _, rest = plain.partition(".")
    return f"${whole}.{rest:0<2}" if rest else f"${whole}"


# -- as JSON -----------------------------------------------------------------------------------------------------------


def model_json(info: ModelInfo) -> dict[str, Any]:
    price = info.price
    dollars = None if price is None else {"input": float(price.input), "output": float(price.output)}
    return {
        "name": info.name,
        "provider": info.provider,
        "window": info.window,
        "window_from": info.source,
        "dollars_per_million": dollars,
    }


def details_json(details: ModelDetails) -> dict[str, Any]:
    return {
        **model_json(details.info),
        "max_output": details.max_output,
        "base_url": _without_secrets(details.base_url) if details.base_url else None,
        "keys": [{"variable": variable, "set": is_set} for variable, is_set in details.keys],
        "key_in_config": details.key_in_config,
        "learnt": [learnt_json(limit) for limit in details.learnt],
    }


def learnt_json(limit: LearntLimit) -> dict[str, Any]:
    return {"address": None if limit.address == "-" else limit.address, "tokens": limit.tokens}


def local_json(model: LocalModel, chosen: str | None) -> dict[str, Any]:
    return {
        "name": model.name,
        "path": str(model.file),
        "bytes": model.size_bytes,
        "window": trained_window(model.file),
        "chosen": model.name == chosen or str(model.file) == chosen,
    }


def fetchable_json(row: FetchableModel) -> dict[str, Any]:
    return {"name": row.name, "file": row.file, "bytes": row.file_bytes, "about": row.about}
