"""Loads the tables of this room: TOML files beside the code."""

from __future__ import annotations

import tomllib
from typing import Any

from clew.lazy import read_beside


def load_table(name: str) -> dict[str, Any]:
    """The content of a TOML file of this package."""
    return tomllib.loads(read_beside(__file__, name).decode())
