"""Settings from a TOML file, checked once, when they are read."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class ConfigError(ValueError):
    """A setting that is missing, unknown or out of range."""


@dataclass(frozen=True)
class Config:
    stations: tuple[str, ...]
    batch_size: int
    batch_age_s: float
    url: str
    max_tries: int
    first_delay_s: float
    timeout_s: float
    spool_directory: Path
    max_files: int


def load(path: Path) -> Config:
    raw = tomllib.loads(path.read_text())
    relay, uplink, spool = raw.get("relay", {}), raw.get("uplink", {}), raw.get("spool", {})
    return Config(
        stations=tuple(_need(relay, "relay", "stations", list)),
        batch_size=_positive(relay, "relay", "batch_size", 60),
        batch_age_s=_positive(relay, "relay", "batch_age_s", 900),
        url=_need(uplink, "uplink", "url", str),
        max_tries=_positive(uplink, "uplink", "max_tries", 5),
        first_delay_s=_positive(uplink, "uplink", "first_delay_s", 2.0),
        timeout_s=_positive(uplink, "uplink", "timeout_s", 20),
        spool_directory=Path(spool.get("directory", "var/spool")),
        max_files=_positive(spool, "spool", "max_files", 5000),
    )


def _need(table: dict[str, Any], section: str, name: str, kind: type) -> Any:
    if name not in table:
        raise ConfigError(f"[{section}] {name} is missing")
    if not isinstance(table[name], kind):
        raise ConfigError(f"[{section}] {name} = {table[name]!r} must be a {kind.__name__}")
    return table[name]


def _positive(table: dict[str, Any], section: str, name: str, default: float) -> Any:
    value = table.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise ConfigError(f"[{section}] {name} = {value!r} must be a positive number")
    return value
