"""Keys that a person stored, in a private file or in the keyring of the system."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, PasswordDeleteError

from clew.config import ModelSettings, StoredKeys, has_keyring, key_for
from clew.errors import ClewError, InvalidArgument
from clew.providers import provider_for

FAKE = "sk-fake-not-a-key"


class MemoryKeyring(KeyringBackend):
    """A real backend of the package, that keeps nothing when it ends."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kept: dict[tuple[str, str], str] = {}
        self.is_locked = False

    def get_password(self, service: str, username: str) -> str | None:
        if self.is_locked:
            raise KeyringLocked("it is locked")
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if self.kept.pop((service, username), None) is None:
            raise PasswordDeleteError("not there")


@pytest.fixture
def backend() -> Iterator[MemoryKeyring]:
    before, now = keyring.get_keyring(), MemoryKeyring()
    keyring.set_keyring(now)
    yield now
    keyring.set_keyring(before)


def test_a_key_in_the_file_is_private_and_comes_back(tmp_path: Path) -> None:
    keys = StoredKeys(tmp_path)
    assert keys.get("OPENAI_API_KEY") is None
    keys.put("OPENAI_API_KEY", FAKE, "file")
    assert keys.get("OPENAI_API_KEY") == FAKE
    assert keys.places() == {"OPENAI_API_KEY": "file"}
    assert keys.path.stat().st_mode & 0o777 == 0o600
    assert keys.remove("OPENAI_API_KEY")
    assert not keys.remove("OPENAI_API_KEY")
    assert FAKE not in keys.path.read_text()


def test_a_key_in_the_keyring_is_nowhere_in_the_file(tmp_path: Path, backend: MemoryKeyring) -> None:
    assert has_keyring()
    keys = StoredKeys(tmp_path)
    keys.put("OPENAI_API_KEY", FAKE, "keyring")
    assert FAKE not in keys.path.read_text()
    assert keys.get("OPENAI_API_KEY") == FAKE
    keys.put("OPENAI_API_KEY", "sk-fake-another", "file")
    assert backend.kept == {}
    assert keys.get("OPENAI_API_KEY") == "sk-fake-another"


def test_a_key_that_was_taken_out_of_the_keyring_by_hand_can_still_be_removed(
    tmp_path: Path, backend: MemoryKeyring
) -> None:
    keys = StoredKeys(tmp_path)
    keys.put("X_KEY", FAKE, "keyring")
    backend.kept.clear()
    assert keys.get("X_KEY") is None
    assert keys.remove("X_KEY")


def test_a_keyring_that_does_not_answer_is_told_with_the_remedy(tmp_path: Path, backend: MemoryKeyring) -> None:
    keys = StoredKeys(tmp_path)
    keys.put("X_KEY", FAKE, "keyring")
    backend.is_locked = True
    with pytest.raises(ClewError, match="unlock it"):
        keys.get("X_KEY")


def test_the_environment_wins_over_what_is_stored(tmp_path: Path) -> None:
    StoredKeys(tmp_path).put("OPENAI_API_KEY", FAKE, "file")
    environ = {"CLEW_HOME": str(tmp_path)}
    assert key_for("OPENAI_API_KEY", environ) == FAKE
    assert key_for("OPENAI_API_KEY", {**environ, "OPENAI_API_KEY": "sk-fake-of-the-shell"}) == "sk-fake-of-the-shell"


def test_a_provider_is_found_with_a_stored_key(tmp_path: Path) -> None:
    environ = {"CLEW_HOME": str(tmp_path)}
    with pytest.raises(InvalidArgument, match="clew models key openai"):
        provider_for(ModelSettings(name="gpt-5"), environ=environ)
    StoredKeys(tmp_path).put("OPENAI_API_KEY", FAKE, "file")
    assert provider_for(ModelSettings(name="gpt-5"), environ=environ).name == "openai"


@pytest.mark.parametrize("text", ["[]", "{", '{"A": {"in": "attic"}}', '{"A": {"in": "file"}}', '{"A": 1}'])
def test_a_damaged_file_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "keys.json").write_text(text)
    with pytest.raises(ClewError, match="store the keys again"):
        StoredKeys(tmp_path).places()


@pytest.mark.parametrize("key", ["", "  ", "a\nb"])
def test_what_is_no_key_is_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(InvalidArgument, match="paste it again"):
        StoredKeys(tmp_path).put("A", key, "file")


def test_the_file_is_readable_json(tmp_path: Path) -> None:
    StoredKeys(tmp_path).put("A", FAKE, "file")
    assert json.loads((tmp_path / "keys.json").read_text()) == {"A": {"in": "file", "key": FAKE}}
