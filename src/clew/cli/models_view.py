"""How models look on a terminal: the one in use, those on this machine, those that a provider lists.

Knows windows, prices and words; fetches nothing and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from typing import Any

from clew.cli.output import Align, Console, printable, table
from clew.providers import Fetchable, LocalModel, trained_window
from clew.tokens import KNOWN_MODELS, Window, known_model, plain_name, window_of
from clew.usage import Price, price_of

SOURCES: Mapping[str, str] = {
    "config": "from the config",
    "stated": "as the provider stated in an error",
    "endpoint": "as the provider's models endpoint says",
    "table": "from the table that ships with Clew",
    "default": "assumed, since nobody says how large it is",
    "file": "as it is run here; model.context_length changes it",
}
_MARGIN = "  "
_ALIKE = 0.75


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is known of a model: None where it is not."""

    name: str
    provider: str | None
    window: int | None
    source: str
    price: Price | None


def facts_of(name: str, provider: str | None, window: Window) -> ModelFacts:
    return ModelFacts(name, provider, window.tokens, window.source, price_of(name, provider))


def listed_facts(listed: Sequence[Mapping[str, Any]], provider: str, words: Sequence[str]) -> list[ModelFacts]:
    """What a models endpoint lists, by name, as far as the names hold these words."""
    names = sorted({name for entry in listed if (name := _name_of(entry))}, key=str.lower)
    wanted = [name for name in names if all(word.lower() in name.lower() for word in words)]
    facts = [facts_of(name, provider, window_of(name, endpoint={"data": list(listed)})) for name in wanted]
    return [_without_guess(each) for each in facts]


def _name_of(entry: Mapping[str, Any]) -> str:
    return next((str(entry[key]) for key in ("id", "name", "model") if isinstance(entry.get(key), str)), "")


def _without_guess(facts: ModelFacts) -> ModelFacts:
    """A list of windows that were only assumed would look as if somebody knew them."""
    if facts.source != "default":
        return facts
    return ModelFacts(facts.name, facts.provider, None, "unknown", facts.price)


def alike(name: str) -> list[str]:
    """Names in our tables that a name which is not there may have meant."""
    plain = plain_name(name)
    names = [row.name for row in KNOWN_MODELS]
    return [] if plain in names else get_close_matches(plain, names, 3, _ALIKE)


def is_known(facts: ModelFacts) -> bool:
    return known_model(facts.name) is not None and facts.price is not None


# -- as lines ----------------------------------------------------------------------------------------------------------


def in_words(facts: ModelFacts) -> str:
    """All of it in one line."""
    through = "on this machine" if facts.provider == "local" else f"through {facts.provider}"
    return f"{facts.name} {through}: {_window(facts)}; {_price(facts.price)}"


def local_lines(models: Sequence[LocalModel], chosen: str | None, console: Console) -> list[str]:
    rows = [
        ("*" if model.name == chosen or str(model.file) == chosen else " ", printable(model.name), *_size(model))
        for model in models
    ]
    aligns: list[Align] = ["<", "<", ">", "<"]
    return [_MARGIN + line for line in table(rows, aligns, console.width - len(_MARGIN))]


def fetchable_lines(rows: Sequence[Fetchable], console: Console) -> list[str]:
    cells = [(row.name, megabytes(row.package_bytes), row.about) for row in rows]
    return [_MARGIN + line for line in table(cells, ["<", ">", "<"], console.width - len(_MARGIN))]


def remote_lines(facts: Sequence[ModelFacts], console: Console) -> list[str]:
    rows = [(printable(each.name), _tokens(each.window), _rate(each.price)) for each in facts]
    return [_MARGIN + line for line in table(rows, ["<", ">", "<"], console.width - len(_MARGIN))]


def megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e9:,.1f} GB" if size_bytes >= 1e9 else f"{max(1, round(size_bytes / 1e6)):,} MB"


def _size(model: LocalModel) -> tuple[str, str]:
    window = trained_window(model.file)
    return megabytes(model.size_bytes), f"window {window:,} tokens" if window else "window unknown"


def _tokens(window: int | None) -> str:
    return f"{window:,} tokens" if window else "window unknown"


def _window(facts: ModelFacts) -> str:
    return f"window {_tokens(facts.window)}, {SOURCES[facts.source]}" if facts.window else _tokens(None)


def _price(price: Price | None) -> str:
    return _rate(price) + (" per million tokens" if price is not None and price.input else "")


def _rate(price: Price | None) -> str:
    if price is None:
        return "price unknown"
    return f"{_dollars(price.input)} in, {_dollars(price.output)} out" if price.input or price.output else "free"


def _dollars(amount: Decimal) -> str:
    plain = f"{amount:.4f}".rstrip("0")
    whole, _, rest = plain.partition(".")
    return f"${whole}.{rest:0<2}" if rest else f"${whole}"


# -- as JSON -----------------------------------------------------------------------------------------------------------


def facts_json(facts: ModelFacts) -> dict[str, Any]:
    price = facts.price
    dollars = None if price is None else {"input": float(price.input), "output": float(price.output)}
    return {
        "name": facts.name,
        "provider": facts.provider,
        "window": facts.window,
        "window_from": facts.source,
        "dollars_per_million": dollars,
    }


def local_json(model: LocalModel, chosen: str | None) -> dict[str, Any]:
    return {
        "name": model.name,
        "path": str(model.file),
        "bytes": model.size_bytes,
        "window": trained_window(model.file),
        "chosen": model.name == chosen or str(model.file) == chosen,
    }


def fetchable_json(row: Fetchable) -> dict[str, Any]:
    return {"name": row.name, "file": row.file, "bytes": row.file_bytes, "about": row.about}
