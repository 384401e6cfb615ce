"""Where the store is: what `store.url` means, and the same commands on PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clew.cli import main
from clew.cli.store_access import store_location
from clew.config import Settings, load_config
from tests.support.postgres import empty_schema

if TYPE_CHECKING:
    from tests.cli.conftest import Kept


def settings(home: Path, url: str | None = None) -> tuple[Settings, dict[str, str]]:
    environ = {"CLEW_HOME": str(home), "HOME": str(home / "me")}
    return load_config(environ, [f"store.url={url}"] if url else []).settings, environ


@pytest.mark.parametrize(
    ("url", "path"),
    [
        (None, "state.db"),
        ("other.db", "other.db"),
        ("a/b.db", "a/b.db"),
        ("~/mine.db", "me/mine.db"),
        ("sqlite://there.db", "there.db"),
    ],
)
def test_a_path_counts_from_the_folder_of_clew(tmp_path: Path, url: str | None, path: str) -> None:
    assert store_location(*settings(tmp_path, url)).path == tmp_path / path


def test_an_absolute_path_is_itself_and_a_server_has_none(tmp_path: Path) -> None:
    assert store_location(*settings(tmp_path, "/var/x.db")).path == Path("/var/x.db")
    password = "pass" + "word"
    location = store_location(*settings(tmp_path, f"postgresql://me:{password}@host/clew"))
    assert location.path is None
    assert password not in location.label
    assert location.label == "postgresql://me@host/clew"


def test_other_addresses_are_refused_by_name(empty_home: Kept) -> None:
    code, _, err = empty_home.run("sessions", "list", "--set", "store.url=mysql://host/x")
    assert code == 2
    assert "store.url = 'mysql://host/x': not allowed; expects a file, or an address" in err


@pytest.fixture
def kept_on_server(server_url: str, empty_home: Kept) -> Iterator[str]:
    with empty_schema(server_url) as url:
        empty_home.fill(url)
        yield url


def test_the_commands_serve_postgresql_too(empty_home: Kept, kept_on_server: str) -> None:
    environ = {"CLEW_STORE_URL": kept_on_server}
    code, out, err = empty_home.run("sessions", "list", "--json", **environ)
    assert code == 0, err
    assert [each["id"] for each in json.loads(out)["sessions"]] == ["s_4f1c0d", "helper", "other-way", "clock-2"]
    assert "A dry bearing" in empty_home.run("search", "bearing", **environ)[1]
    assert "nobodys" in empty_home.run("usage", **environ)[1]
    assert "compactions by day" in empty_home.run("insights", "--since", "2026-01-01", **environ)[1]
    assert empty_home.run("sessions", "undo", "clock-2", **environ)[0] == 0
    assert empty_home.run("sessions", "tree", "clock-2", **environ)[0] == 0
    assert len(json.loads(empty_home.run("export", "clock-2", **environ)[1])["messages"]) == 7
    code, out, _ = empty_home.run("doctor", **environ)
    assert (code, "All is well." in out) == (0, True)
    assert empty_home.run("sessions", "delete", "s_4f1c", "--yes", **environ)[0] == 0


def test_a_server_that_refuses_is_told_at_once_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(
        ["sessions", "list", "--set", "store.url=postgresql://nobody@localhost:1/x"], {"CLEW_HOME": str(tmp_path)}
    )
    err = capsys.readouterr().err
    assert code == 1
    assert err.count("\n") == 1
    assert "refused" in err
