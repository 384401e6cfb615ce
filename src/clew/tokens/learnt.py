"""Limits that providers stated in errors, remembered on disk by model and base URL.

Only what a provider said is written, never a guess. A file that is missing or broken is an empty one; a disk that
refuses a write costs the memory of this limit after a restart, and nothing else.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

_LEAST, _MOST = 256, 1_000_000_000


class LearntLimits:
    """The limits in one JSON file, private to its owner and replaced in one step."""

    def __init__(self, path: Path | str) -> None:
        self._path = Path(path).expanduser()
        self._limits: dict[str, int] | None = None

    def limit(self, model: str, base_url: str | None = None) -> int | None:
        """The limit a provider stated for this model at this address; None when it never did."""
        return self._known().get(_key(model, base_url))

    def remember(self, model: str, base_url: str | None, limit: int) -> bool:
        """Keep a stated limit; the answer is whether it reached the disk. What is no window is not kept at all."""
        if isinstance(limit, bool) or not isinstance(limit, int) or not _LEAST <= limit <= _MOST:
            return False
        key = _key(model, base_url)
        if self._known().get(key) == limit:
            return True
        # Read again first: another process may have learnt something meanwhile.
        self._limits = {**self._known(), **self._read(), key: limit}
        return self._write(self._limits)

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
        return {key: value for key, value in limits.items() if type(value) is int and _LEAST <= value <= _MOST}

    def _write(self, limits: dict[str, int]) -> bool:
        import tempfile  # written once in many runs, and slow to import

        text = json.dumps({"version": 1, "limits": limits}, indent=2, sort_keys=True) + "\n"
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
    return f"{model.strip().lower()} @ {_address(base_url)}"


def _address(base_url: str | None) -> str:
    """Host, port and path, without what may be secret (user, query) or only spelling (case, slash, scheme)."""
    if not base_url:
        return "-"
    try:
        parts = urlsplit(base_url if "//" in base_url else f"//{base_url}")
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "-"
    return f"{(parts.hostname or '').lower()}{port}{parts.path.rstrip('/')}"
