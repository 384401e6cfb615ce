"""Loads the tables of this room: TOML files beside the code."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any


def load_table(name: str) -> dict[str, Any]:
    """The content of a TOML file of this package."""
    return tomllib.loads(files("clew.facts").joinpath(name).read_text("utf-8"))
