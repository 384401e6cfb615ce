"""The sample plugin of `examples/`, loaded from a plugin folder and from an installed package, keeps the contract."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import pytest

from clew.app import EngineChoice
from clew.config import load_config
from clew.engines import ContextEngine, EngineSetup
from clew.testing import EngineContract

pytestmark = pytest.mark.slow

SAMPLE = Path(__file__).resolve().parents[2] / "examples" / "turns_engine"
CODE = SAMPLE / "src" / "clew_turns"
NO_BYTECODE = shutil.ignore_patterns("__pycache__")


def copy_as_folder(home: Path) -> None:
    shutil.copytree(CODE, home / "plugins" / "context_engine" / "turns", ignore=NO_BYTECODE)


def install_as_package(site: Path) -> None:
    """What `pip install` leaves behind: the code, and its metadata as the sample's pyproject states it."""
    project: dict[str, Any] = tomllib.loads((SAMPLE / "pyproject.toml").read_text())["project"]
    shutil.copytree(CODE, site / "clew_turns", ignore=NO_BYTECODE)
    info = site / f"clew_turns-{project['version']}.dist-info"
    info.mkdir()
    name, version, summary = project["name"], project["version"], project["description"]
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nSummary: {summary}\n"
    (info / "METADATA").write_text(metadata)
    ((group, points),) = project["entry-points"].items()
    lines = [f"[{group}]", *(f"{point} = {target}" for point, target in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


class TestTurnsEngineFromAFolder(EngineContract):
    _home: ClassVar[TemporaryDirectory[str]]

    @classmethod
    def setup_class(cls) -> None:
        cls._home = TemporaryDirectory()
        copy_as_folder(Path(cls._home.name))

    @classmethod
    def teardown_class(cls) -> None:
        cls._home.cleanup()

    def make_engine(self, setup: EngineSetup) -> ContextEngine:
        environ = {"CLEW_HOME": self._home.name, "CLEW_CONTEXT_ENGINE": "turns"}
        loaded = EngineChoice(load_config(environ), environ).load(setup)
        assert loaded.notices == ()
        return loaded.engine


def run(environ: dict[str, str], *command: str) -> subprocess.CompletedProcess[str]:
    """The real program; its PYTHONPATH comes before the one that is inherited."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("CLEW_")}
    path = os.pathsep.join(filter(None, [environ.get("PYTHONPATH"), inherited.get("PYTHONPATH")]))
    full = inherited | environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    words = [sys.executable, *command]
    return subprocess.run(words, env=full, capture_output=True, text=True, encoding="utf-8", check=False)


LOAD = """
import os, sys
from clew.app import EngineChoice, engine_setup
from clew.config import load_config
config = load_config(os.environ)
loaded = EngineChoice(config, os.environ).load(engine_setup(config.settings))
print(loaded.engine.name, type(loaded.engine).__module__, *loaded.notices)
"""
IS_IMPORTED = """
import os, sys
from clew.app import EngineChoice
from clew.config import load_config
print([each.name for each in EngineChoice(load_config(os.environ), os.environ).catalog.plugins()])
print([name for name in sys.modules if "turns" in name])
"""


@pytest.fixture
def as_package(tmp_path: Path) -> dict[str, str]:
    site = tmp_path / "site"
    site.mkdir()
    install_as_package(site)
    return {"CLEW_HOME": str(tmp_path / "home"), "PYTHONPATH": str(site)}


@pytest.fixture
def as_folder(tmp_path: Path) -> dict[str, str]:
    copy_as_folder(tmp_path / "home")
    return {"CLEW_HOME": str(tmp_path / "home")}


def test_the_installed_package_serves_when_the_config_names_it(as_package: dict[str, str]) -> None:
    used = run(as_package, "-m", "clew", "plugins", "use", "turns")
    assert (used.returncode, used.stderr) == (0, "")
    assert run(as_package, "-c", LOAD).stdout == "turns clew_turns.engine\n"


def test_the_folder_serves_when_the_config_names_it(as_folder: dict[str, str]) -> None:
    used = run(as_folder, "-m", "clew", "plugins", "use", "turns")
    assert (used.returncode, used.stderr) == (0, "")
    assert run(as_folder, "-c", LOAD).stdout.startswith("turns _clew_plugin_context_engine_turns_")


def test_unless_it_is_named_it_is_listed_but_not_imported(
    as_package: dict[str, str], as_folder: dict[str, str]
) -> None:
    assert run(as_package, "-c", LOAD).stdout == "compressor clew.engines.compressor.engine\n"
    assert run(as_package, "-c", IS_IMPORTED).stdout == "['turns', 'turns', 'compressor', 'lcm']\n[]\n"
    listed = json.loads(run(as_package, "-m", "clew", "plugins", "list", "--json").stdout)
    found = [(each["name"], each["origin"], each["version"], each["hidden"]) for each in listed["plugins"][:2]]
    assert found == [("turns", "folder", "1.0.0", False), ("turns", "package", "1.0.0", True)]
    assert listed["plugins"][0]["description"] == listed["plugins"][1]["description"] != ""


def test_the_folder_and_the_package_say_the_same_of_themselves() -> None:
    import yaml

    project = tomllib.loads((SAMPLE / "pyproject.toml").read_text())["project"]
    manifest = yaml.safe_load((CODE / "plugin.yaml").read_text())
    assert (manifest["description"], manifest["version"]) == (project["description"], project["version"])


def test_the_tests_of_the_sample_pass_as_its_author_runs_them(tmp_path: Path) -> None:
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-c", os.devnull, "--rootdir", str(tmp_path)]
    done = run({"PYTHONPATH": str(SAMPLE / "src")}, "-m", "pytest", *options, str(SAMPLE / "tests"))
    assert done.returncode == 0, done.stdout + done.stderr
