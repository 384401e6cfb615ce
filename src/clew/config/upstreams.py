"""The upstreams of the gateway that a config file names, under `gateway.upstreams`, in the order they are asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clew.config.declare import URL, VARIABLE
from clew.config.entries import EntryFields, is_texts, named_entries
from clew.errors import ConfigProblem

if TYPE_CHECKING:
    import yaml

UPSTREAMS_KEY = "gateway.upstreams"


@dataclass(frozen=True, slots=True)
class UpstreamEntry:
    """One upstream, and which requests go there."""

    name: str
    url: str
    wires: tuple[str, ...] = ()
    """Names of wires; empty: those that are known to be at the address, or all."""
    models: tuple[str, ...] = ()
    """Names of models, with `*` for any letters; empty: all."""
    api_key_env: str | None = None
    """The variable with the credential for callers with a key of Clew; None: the provider's usual one."""


_FIELDS: EntryFields = {
    "url": (lambda value: isinstance(value, str) and URL.pattern.fullmatch(value) is not None, URL.words),
    "wires": (is_texts, "a list of wires, as [messages]"),
    "models": (is_texts, 'a list of models, as ["claude-*"]'),
    "api_key_env": (
        lambda value: isinstance(value, str) and VARIABLE.pattern.fullmatch(value) is not None,
        VARIABLE.words,
    ),
}


def upstreams_in(tree: yaml.MappingNode, path: Path) -> tuple[list[UpstreamEntry], list[ConfigProblem]]:
    """The upstreams of a config file, and what is wrong with the others."""
    found, problems = named_entries(
        tree, path, UPSTREAMS_KEY, _FIELDS, lambda entry: "" if "url" in entry else "expects url, an address"
    )
    return [UpstreamEntry(name, **entry) for name, entry in found.items()], problems
