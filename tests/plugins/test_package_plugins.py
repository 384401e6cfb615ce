"""Plugins as installed packages: real distributions, as importlib.metadata sees them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from clew.errors import PluginError
from clew.plugins import Plugin, PluginCatalog, PluginKind, register, registered

BELL = PluginKind("bell", "bell", contract=1)


def install(site: Path, package: str, points: str, code: str = "", version: str = "1.2") -> None:
    """What an installer leaves behind: the module, and the folder of metadata beside it."""
    module = package.replace("-", "_")
    (site / f"{module}.py").write_text(f"RAN = True\n{code}")
    info = site / f"{module}-{version}.dist-info"
    info.mkdir()
    about = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\nSummary: The {package} bells\n"
    (info / "METADATA").write_text(about)
    (info / "entry_points.txt").write_text(f"[clew.bell]\n{points}\n")


def ringing(name: str, kind: str = "bell") -> str:
    return (
        "from clew.plugins import PluginKind, register as offer\n"
        f"KIND = PluginKind({kind!r}, {kind!r}, contract=1)\n"
        f"def register():\n    offer(KIND, {name!r}, lambda setup: f'{name} {{setup}}')\n"
    )


def bells(home: Path) -> PluginCatalog[int, str]:
    return PluginCatalog(BELL, home, lambda: register(BELL, "built", lambda _: "built"), lambda _, __: "")


def packaged(home: Path) -> list[Plugin]:
    return [each for each in bells(home).plugins() if each.origin == "package"]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return folder


def refusal(home: Path, name: str) -> str:
    catalog = bells(home)
    with pytest.raises(PluginError) as refused:
        catalog.build(catalog.find(name), 7)
    return str(refused.value)


def test_a_package_is_described_by_its_metadata_and_imported_when_it_is_named(site: Path, tmp_path: Path) -> None:
    install(site, "bells-fog", "fog = bells_fog:register", ringing("fog"))
    (found,) = packaged(tmp_path)
    assert (found.name, found.where, found.version) == ("fog", "bells-fog 1.2", "1.2")
    assert found.description == "The bells-fog bells"
    assert found.problem == ""
    assert "bells_fog" not in sys.modules
    catalog = bells(tmp_path)
    assert catalog.build(catalog.find("fog"), 7) == "fog 7"
    assert "bells_fog" in sys.modules
    assert registered(BELL) == []


def test_one_package_may_offer_several(site: Path, tmp_path: Path) -> None:
    install(site, "bells-two", "low = bells_two:low\nhigh = bells_two:high", _two("low") + _two("high"))
    catalog = bells(tmp_path)
    assert [each.name for each in packaged(tmp_path)] == ["high", "low"]
    assert [catalog.build(catalog.find(name), 1) for name in ("low", "high")] == ["low 1", "high 1"]


def _two(name: str) -> str:
    return ringing(name).replace("def register()", f"def {name}()")


def test_a_name_that_two_packages_offer_serves_nobody(site: Path, tmp_path: Path) -> None:
    install(site, "bells-a", "fog = bells_a:register", ringing("fog"))
    install(site, "bells-b", "fog = bells_b:register", ringing("fog"))
    (found,) = packaged(tmp_path)
    assert found.problem == "offered by bells-a 1.2 and bells-b 1.2; uninstall all but one"
    assert found.problem in refusal(tmp_path, "fog")
    assert not {"bells_a", "bells_b"} & set(sys.modules)


@pytest.mark.parametrize(
    ("package", "points", "code", "problem"),
    [
        ("bells-c", "fog = bells_c", "", "module:function is expected, as package:register"),
        ("bells-d", "Fog = bells_d:register", "", "cannot be asked for; use 1 to 64 small letters"),
    ],
)
def test_what_can_be_seen_to_be_wrong_is_told_without_running_it(
    site: Path, tmp_path: Path, package: str, points: str, code: str, problem: str
) -> None:
    install(site, package, points, code)
    (found,) = packaged(tmp_path)
    assert problem in found.problem
    assert package.replace("-", "_") not in sys.modules


@pytest.mark.parametrize(
    ("package", "target", "code", "problem"),
    [
        ("bells-e", "bells_e:register", "raise RuntimeError('cracked')", "bells_e.py line 2: RuntimeError: cracked"),
        ("bells-f", "bells_f:register", "", "AttributeError: module 'bells_f' has no attribute 'register'"),
        ("bells-g", "bells_gone:register", "", "loading failed: ModuleNotFoundError: No module named 'bells_gone'"),
        ("bells-h", "bells_h:RAN", "", "the entry point 'bells_h:RAN' is True; a function is expected"),
        ("bells-i", "bells_i:register", "def register(): ...", "offered nothing, not 'fog': the name of its entry"),
        ("bells-j", "bells_j:register", ringing("mist"), "bells_j:register offered mist, not 'fog'"),
        ("bells-k", "bells_k:register", ringing("fog", kind="horn"), "offered nothing, not 'fog'"),
        ("bells-l", "bells_l:register", "x = (", "bells_l.py line 2: SyntaxError"),
    ],
)
def test_a_broken_package_is_refused_by_name_and_problem(
    site: Path, tmp_path: Path, package: str, target: str, code: str, problem: str
) -> None:
    install(site, package, f"fog = {target}", code)
    told = refusal(tmp_path, "fog")
    assert told.startswith(f"bell 'fog' (package, {package} 1.2): ")
    assert problem in told


def test_a_folder_comes_before_a_package_and_a_package_before_a_built_in(site: Path, tmp_path: Path) -> None:
    install(site, "bells-m", "built = bells_m:register", ringing("built"))
    catalog = bells(tmp_path)
    assert catalog.build(catalog.find("built"), 1) == "built 1"
    folder = tmp_path / "bell" / "built"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(ringing("built").replace("f'built", "f'folder"))
    assert catalog.build(catalog.find("built"), 1) == "folder 1"
    assert [(each.origin, each.shadowed) for each in catalog.plugins()] == [
        ("folder", False),
        ("package", True),
        ("built-in", True),
    ]
