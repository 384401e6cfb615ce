"""Stored API keys: in the keyring of the system, or in a file that only its owner can read.

`keys.json` in the Clew home has one entry for each environment variable that a key replaces: the place of the key, and
the key itself if that place is the file. A variable that is set in the environment has priority.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from clew.config.home import clew_home, read_text, replace_file
from clew.errors import ClewError, InvalidArgument
from clew.install import install_command

KeyPlace: TypeAlias = Literal["keyring", "file"]
KEYS_FILE = "keys.json"
_SERVICE = "clew"


class StoredKeys:
    """The keys under a Clew home, by the environment variables they replace."""

    def __init__(self, home: Path) -> None:
        self.path = home / KEYS_FILE

    def places(self) -> Mapping[str, KeyPlace]:
        """The place of the key for each variable. Reads no key from the keyring."""
        return {variable: entry["in"] for variable, entry in self._entries().items()}

    def get(self, variable: str) -> str | None:
        """The key for a variable; None if none is stored. Raises ClewError if the keyring refuses."""
        entry = self._entries().get(variable)
        if entry is None:
            return None
        if entry["in"] == "file":
            return str(entry["key"])
        key: str | None = _ask_keyring("get_password", _SERVICE, variable)
        return key

    def put(self, variable: str, key: str, place: KeyPlace) -> None:
        """Store a key, in place of an earlier one."""
        if not key.strip() or not key.isprintable():
            raise InvalidArgument("the key is empty or holds characters that no key has", remedy="paste it again")
        before = self._entries()
        if place == "keyring":
            _ask_keyring("set_password", _SERVICE, variable, key)
            entry: dict[str, Any] = {"in": "keyring"}
        else:
            entry = {"in": "file", "key": key}
        self._write({**before, variable: entry})
        if place == "file" and before.get(variable, {}).get("in") == "keyring":
            _ask_keyring("delete_password", _SERVICE, variable)

    def remove(self, variable: str) -> bool:
        """Remove the key for a variable; False if none is stored."""
        entries = self._entries()
        entry = entries.pop(variable, None)
        if entry is None:
            return False
        if entry["in"] == "keyring":
            _ask_keyring("delete_password", _SERVICE, variable)
        self._write(entries)
        return True

    def _entries(self) -> dict[str, dict[str, Any]]:
        text = read_text(self.path)
        if not text:
            return {}
        try:
            found = json.loads(text)
            entries = {str(name): dict(entry) for name, entry in found.items()}
            is_right = all(_is_entry(entry) for entry in entries.values())
        except (ValueError, TypeError, AttributeError, RecursionError):
            is_right = False
        if not is_right:
            raise ClewError(f"{self.path}: is not a list of keys", remedy="remove the file, and store the keys again")
        return entries

    def _write(self, entries: Mapping[str, Mapping[str, Any]]) -> None:
        replace_file(self.path, json.dumps(entries, indent=2, sort_keys=True) + "\n")


def key_for(variable: str, environ: Mapping[str, str]) -> str | None:
    """The key for a variable: from the environment, else the stored one."""
    return environ.get(variable) or StoredKeys(clew_home(environ)).get(variable)


def has_keyring() -> bool:
    """Whether keys can be stored in a keyring: the package is installed and has a backend."""
    try:
        import keyring
        from keyring.backends.fail import Keyring as NoKeyring
    except ImportError:
        return False
    return not isinstance(keyring.get_keyring(), NoKeyring)


def _is_entry(entry: Mapping[str, Any]) -> bool:
    place = entry.get("in")
    return place in get_args(KeyPlace) and (place == "keyring" or isinstance(entry.get("key"), str))


def _ask_keyring(action: str, *arguments: str) -> Any:
    try:
        import keyring  # late, since it searches all backends
        from keyring.errors import KeyringError, PasswordDeleteError
    except ImportError as error:
        raise InvalidArgument("the keyring needs the extra `keyring`", remedy=install_command("keyring")) from error
    try:
        return getattr(keyring, action)(*arguments)
    except PasswordDeleteError:
        return None  # it was removed by another program
    except KeyringError as error:
        raise ClewError(
            f"the keyring of this system does not answer: {error}",
            remedy="unlock it, or keep the key in the environment",
        ) from error
