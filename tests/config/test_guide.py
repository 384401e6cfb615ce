"""The guide for users says what the declarations say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from clew.config import Setting, declared_settings, load_config
from clew.config.settings import MOVED_SETTINGS

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "config.md"


def row_of(setting: Setting) -> str:
    name = setting.key.rpartition(".")[2]
    return f"| `{name}` | `{setting.shown(setting.default)}` | {setting.allowed} | {setting.limits.about} |"


@pytest.mark.parametrize("group", dict.fromkeys(key.rpartition(".")[0] for key in declared_settings()))
def test_the_guide_has_every_setting_of_a_group_and_no_other(group: str) -> None:
    chapter = GUIDE.read_text().partition(f"\n## `{group}`\n")[2].partition("\n## ")[0]
    rows = [line for line in chapter.splitlines() if line.startswith("| `")]
    assert rows == [row_of(setting) for key, setting in declared_settings().items() if key.rpartition(".")[0] == group]


def test_the_guide_has_every_moved_setting() -> None:
    rows = re.findall(r"^\| `(\S+\.\S+)` \| `(\S+)` \|$", GUIDE.read_text(), re.MULTILINE)
    assert rows == list(MOVED_SETTINGS.items())


def test_the_example_in_the_guide_is_a_valid_config(tmp_path: Path) -> None:
    example = GUIDE.read_text().partition("```yaml\n")[2].partition("```")[0]
    (tmp_path / "config.yaml").write_text(example)
    assert load_config({"CLEW_HOME": str(tmp_path)}).settings.compression.threshold == 0.6
