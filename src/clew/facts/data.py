"""Loads the tables of this room: TOML files beside the code."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any


def load_table(name: str) -> dict[str, Any]:
    """The content of a TOML file of this package."""
    return tomllib.loads(Path(__file__).with_name(name).read_text("utf-8"))
