"""One setting changed in the file, and everything else as the person left it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from clew.config import declared_settings, read_config, set_in_file, unset_in_file
from clew.config.yaml_file import with_key
from clew.errors import ConfigError

COMMENTED = """\
# my settings
compression:
    # when to compact
    threshold: 0.3    # a third
    enabled: yes

model: {name: "m 1"}   # flow
# the end
"""


@pytest.mark.parametrize(
    ("key", "value", "before", "after"),
    [
        ("compression.threshold", 0.6, "threshold: 0.3    #", "threshold: 0.6    #"),
        ("compression.protect_last_n", 5, "enabled: yes\n", "enabled: yes\n    protect_last_n: 5\n"),
        ("model.name", "other", '{name: "m 1"}', "{name: other}"),
        ("model.provider", "x", '{name: "m 1"}', '{provider: x, name: "m 1"}'),
        ("context.engine", "lcm", "# flow\n", "# flow\ncontext:\n  engine: lcm\n"),
        ("auxiliary.compression.model", "true", "# flow\n", '# flow\nauxiliary:\n  compression:\n    model: "true"\n'),
    ],
)
def test_only_the_value_changes_and_comments_stay(
    tmp_path: Path, key: str, value: object, before: str, after: str
) -> None:
    edited = with_key(COMMENTED, tmp_path, key, value)  # type: ignore[arg-type]
    assert edited == COMMENTED.replace(before, after)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "compression:\n  threshold: 0.6\n"),
        ("# nothing yet", "# nothing yet\ncompression:\n  threshold: 0.6\n"),
        ("---\n", "---\ncompression:\n  threshold: 0.6\n"),
        ("compression:", "compression:\n  threshold: 0.6\n"),
        ("compression: # soon\nmodel:\n", "compression: # soon\n  threshold: 0.6\nmodel:\n"),
        ("compression: {}\n", "compression: {threshold: 0.6}\n"),
        ("compression:\n  threshold: # soon\n", "compression:\n  threshold: 0.6 # soon\n"),
        ("compression:\n  threshold:\n    - a\n", "compression:\n  threshold: 0.6\n"),
        ("compression:\n  threshold: |\n    x\nmodel:\n", "compression:\n  threshold: 0.6\nmodel:\n"),
        ("compression:\r\n  enabled: on\r\n", "compression:\r\n  enabled: on\r\n  threshold: 0.6\r\n"),
        ("{}", "{compression: {threshold: 0.6}}"),
        ("\ufeffcompression: {threshold: 1}\n", "\ufeffcompression: {threshold: 0.6}\n"),
    ],
)
def test_a_value_finds_its_place_in_a_file_of_any_shape(tmp_path: Path, text: str, expected: str) -> None:
    assert with_key(text, tmp_path, "compression.threshold", 0.6) == expected


@pytest.mark.parametrize(
    "text", ["null\n", "compression:\n  threshold: 1\n  threshold: 2\n", "? compression\n: {}\n..."]
)
def test_a_file_that_cannot_be_edited_safely_is_refused_and_left_alone(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    try:
        set_in_file(path, declared_settings()["compression.threshold"], 0.6)
    except ConfigError as error:
        assert "by hand" in str(error)
        assert path.read_text() == text
    else:
        assert read_config({"CLEW_HOME": str(tmp_path)}).settings.compression.threshold == 0.6


def test_a_new_file_and_its_folder_are_private(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "home" / "config.yaml"
    set_in_file(path, declared_settings()["compression.threshold"], 0.6)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [each.name for each in path.parent.iterdir()] == ["config.yaml"], "nothing is left beside it"


def test_a_linked_file_stays_a_link(tmp_path: Path) -> None:
    kept = tmp_path / "dotfiles.yaml"
    kept.write_text("# mine\n")
    (tmp_path / "config.yaml").symlink_to(kept)
    set_in_file(tmp_path / "config.yaml", declared_settings()["compression.threshold"], 0.6)
    assert (tmp_path / "config.yaml").is_symlink()
    assert kept.read_text() == "# mine\ncompression:\n  threshold: 0.6\n"


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("in the way")
    with pytest.raises(ConfigError, match="cannot be"):
        set_in_file(tmp_path / "home" / "config.yaml", declared_settings()["compression.threshold"], 0.6)


def test_setting_anything_brings_old_places_to_the_new_ones(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("compression:\n  summary_model: small  # cheap\nmodel: {cache_ttl: 1h, name: m}\n")
    notices = set_in_file(path, declared_settings()["context.engine"], "lcm")
    assert path.read_text() == (
        "compression:\nmodel: {name: m}\ncontext:\n  engine: lcm\nauxiliary:\n  compression:\n    model: small\n"
        "prompt_caching:\n  cache_ttl: 1h\n"
    )
    assert [notice.partition(": ")[2] for notice in notices] == [
        "moved compression.summary_model to auxiliary.compression.model",
        "moved model.cache_ttl to prompt_caching.cache_ttl",
    ]
    assert not read_config({"CLEW_HOME": str(tmp_path)}).notices


def test_an_old_value_that_is_not_allowed_stays_to_be_seen(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("model:\n  cache_ttl: 2h\n")
    assert set_in_file(path, declared_settings()["model.name"], "m") == ()
    assert "cache_ttl: 2h" in path.read_text()


def test_a_setting_taken_out_has_its_default_again(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(COMMENTED)
    unset_in_file(path, declared_settings()["compression.threshold"])
    assert path.read_text() == COMMENTED.replace("    threshold: 0.3    # a third\n", "")
    unset_in_file(path, declared_settings()["context.engine"])
    unset_in_file(tmp_path / "none.yaml", declared_settings()["context.engine"])
    assert not (tmp_path / "none.yaml").exists()


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("compression:\n  threshold: 0.6\n", ""),
        ("model:\n  name: m\ncompression:\n  threshold: 0.6\n", "model:\n  name: m\n"),
        ("compression:\n  threshold: 0.6\n  # of mine\n", "compression:\n  # of mine\n"),
        ("compression:\n  threshold: 0.6\n  enabled: false\n", "compression:\n  enabled: false\n"),
    ],
)
def test_a_group_goes_with_its_last_setting(tmp_path: Path, text: str, left: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    unset_in_file(path, declared_settings()["compression.threshold"])
    assert path.read_text() == left
