"""Plugins as folders: what is seen without running them, and what is said of the broken ones."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from clew.errors import PluginError
from clew.plugins import Plugin, PluginCatalog, PluginKind, register, registered

LAMP = PluginKind("lamp", "lamp", contract=2)


def lamps(home: Path) -> PluginCatalog[int, str]:
    def problem_of(name: str, made: str) -> str:
        return "" if isinstance(made, str) else f"{name} is no text but {made!r}"

    return PluginCatalog(
        LAMP, home, lambda: register(LAMP, "built", lambda setup: f"built {setup}", contract=2), problem_of
    )


def write(home: Path, name: str, code: str = "", manifest: str = "", **modules: str) -> Path:
    folder = home / "lamp" / name
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(code)
    if manifest:
        (folder / "plugin.yaml").write_text(manifest)
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(text)
    return folder


def registering(name: str, made: str = "f'{__name__} {setup}'", contract: int = 2) -> str:
    return (
        "from test_kinds import LAMP\n"
        "from clew.plugins import register as offer\n"
        f"def register():\n    offer(LAMP, {name!r}, lambda setup: {made}, contract={contract})\n"
    )


@pytest.fixture(autouse=True)
def kinds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kind under test, where the code of the plugins can import it."""
    module: Any = type(sys)("test_kinds")
    module.LAMP = LAMP
    monkeypatch.setitem(sys.modules, "test_kinds", module)


def only(home: Path) -> Plugin:
    (plugin,) = [each for each in lamps(home).plugins() if each.name != "built"]
    return plugin


def refusal(home: Path, name: str) -> str:
    catalog = lamps(home)
    with pytest.raises(PluginError) as refused:
        catalog.build(catalog.find(name), 7)
    return str(refused.value)


def test_a_folder_is_described_by_its_manifest_and_none_of_its_code_runs(tmp_path: Path) -> None:
    code = f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\n" + registering("oil")
    write(tmp_path, "oil", code, "description: burns\n  oil\nversion: 1.5\ncontract: 2\nauthor: somebody\n")
    found = only(tmp_path)
    assert (found.description, found.version, found.contract, found.problem) == ("burns oil", "1.5", 2, "")
    assert not (tmp_path / "ran").exists()
    catalog = lamps(tmp_path)
    catalog.build(catalog.find("oil"), 7)
    assert (tmp_path / "ran").exists()


def test_a_plugin_without_a_manifest_serves_too(tmp_path: Path) -> None:
    write(tmp_path, "oil", registering("oil"))
    assert only(tmp_path).problem == ""
    catalog = lamps(tmp_path)
    assert catalog.build(catalog.find("oil"), 7).endswith(" 7")


def test_modules_of_two_plugins_do_not_meet_and_relative_imports_work(tmp_path: Path) -> None:
    for name in ("a-b", "a_b"):
        code = f"from .flame import COLOUR\n{registering(name, 'COLOUR')}"
        write(tmp_path, name, code, flame=f"COLOUR = 'colour of {name}'")
    catalog = lamps(tmp_path)
    assert [catalog.build(catalog.find(name), 1) for name in ("a-b", "a_b")] == ["colour of a-b", "colour of a_b"]
    assert "flame" not in sys.modules


def test_plugins_of_two_homes_do_not_meet_either(tmp_path: Path) -> None:
    made = []
    for home in (tmp_path / "one", tmp_path / "two"):
        write(home, "oil", registering("oil", f"{home.name!r}"))
        catalog = lamps(home)
        made.append(catalog.build(catalog.find("oil"), 1))
    assert made == ["one", "two"]


def test_a_plugin_is_imported_once_however_often_it_is_built(tmp_path: Path) -> None:
    write(tmp_path, "oil", "made = []\n" + registering("oil", "made.append(setup) or str(len(made))"))
    catalog = lamps(tmp_path)
    assert [catalog.build(catalog.find("oil"), 1) for _ in range(3)] == ["1", "2", "3"]


BROKEN = {
    "syntax": ("def register(:\n", "__init__.py line 1: SyntaxError"),
    "raises": ("def register(): ...\nraise RuntimeError('no oil')\n", "__init__.py line 2: RuntimeError: no oil"),
    "leaves": ("def register(): ...\nimport sys\nsys.exit(3)\n", "__init__.py line 3: SystemExit: 3"),
    "needs": ("def register(): ...\nimport no_such_package\n", "No module named 'no_such_package'"),
    "silent": ("x = 1\n", "__init__.py: defines no register()"),
    "typed": ("register: int = 3\n", "__init__.py: register() is missing"),
    "idle": ("def register(): ...\n", "register() offered nothing, not 'idle'"),
    "other": (registering("somebody"), "register() offered somebody, not 'other'"),
    "misnamed": (registering("../up"), "line 4: '../up' cannot name a lamp; use 1 to 64 small letters"),
    "uncallable": (registering("uncallable").replace("lambda setup: f", "f"), "NameError"),
    "old": (registering("old", contract=1), "version 1 of the contract, this Clew has version 2; update the plugin"),
    "new": (registering("new", contract=3), "version 3 of the contract, this Clew has version 2; update Clew"),
    "failing": (registering("failing", "1 / 0"), "line 4: ZeroDivisionError: division by zero"),
    "wrong": (registering("wrong", "42"), "wrong is no text but 42"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plugin_is_refused_by_name_file_and_problem(tmp_path: Path, name: str) -> None:
    code, problem = BROKEN[name]
    folder = write(tmp_path, name, code)
    told = refusal(tmp_path, name)
    assert told.startswith(f"lamp {name!r} (folder, {folder}): ")
    assert problem in told
    assert "\n" not in told


def test_a_broken_submodule_is_named_by_its_own_file(tmp_path: Path) -> None:
    folder = write(tmp_path, "oil", "from .wick import burn\n" + registering("oil"), wick="\n\nburn = {}['no']\n")
    assert f"{folder / 'wick.py'} line 3: KeyError: 'no'" in refusal(tmp_path, "oil")


def test_a_plugin_that_failed_can_be_mended_and_tried_again(tmp_path: Path) -> None:
    code = "from .wick import burn\n" + registering("mended", "burn")
    folder = write(tmp_path, "mended", code, wick="raise OSError\n")
    refusal(tmp_path, "mended")
    assert not [name for name in sys.modules if name.startswith("_clew_plugin_lamp_mended")]
    (folder / "wick.py").write_text("burn = 'bright, and of another length'\n")
    catalog = lamps(tmp_path)
    assert catalog.build(catalog.find("mended"), 1).startswith("bright")


@pytest.mark.parametrize(
    ("manifest", "problem"),
    [
        ("description: [1]\n", "description = [1] is not allowed; text is expected"),
        ("contract: yes\n", "contract = True is not allowed; a whole number is expected"),
        ("contract: 3\n", "version 3 of the contract, this Clew has version 2"),
        ("version: {}\n", "version = {} is not allowed; a version, as 1.0.0"),
        ("name: gas\n", "name = 'gas', but its folder is 'oil'"),
        ("- a\n", "keys are expected"),
        ("a: [\n", "not valid YAML"),
        ("x: " + "y" * 70_000, "larger than 64,000 bytes"),
    ],
)
def test_a_manifest_that_cannot_be_understood_is_a_problem_of_the_plugin(
    tmp_path: Path, manifest: str, problem: str
) -> None:
    write(tmp_path, "oil", registering("oil"), manifest)
    assert problem in only(tmp_path).problem
    assert problem in refusal(tmp_path, "oil")


def test_a_manifest_that_is_no_text_is_a_problem_of_the_plugin(tmp_path: Path) -> None:
    (write(tmp_path, "oil", registering("oil")) / "plugin.yaml").write_bytes(b"\xff\xfe")
    assert "plugin.yaml: cannot be read" in only(tmp_path).problem


def test_a_plugin_that_cannot_be_read_hides_no_others(tmp_path: Path) -> None:
    (write(tmp_path, "bad", registering("bad")) / "plugin.yaml").mkdir()
    write(tmp_path, "oil", registering("oil"))
    catalog = lamps(tmp_path)
    assert [bool(plugin.problem) for plugin in catalog.plugins()] == [True, False, False]
    assert catalog.find("oil").problem == "" and "cannot be read" in catalog.find("bad").problem


def test_what_can_be_seen_to_be_wrong_is_told_without_running_it(tmp_path: Path) -> None:
    write(tmp_path, "syntax", "def register(:\n")
    write(tmp_path, "silent", "x = 1\n")
    write(tmp_path, "Upper Case", registering("x"))
    (tmp_path / "lamp" / "bare").mkdir()
    (tmp_path / "lamp" / "single.py").write_text("")
    (tmp_path / "lamp" / ".hidden").mkdir()
    (tmp_path / "lamp" / "notes.txt").write_text("")
    problems = {each.name: each.problem for each in lamps(tmp_path).plugins() if each.name != "built"}
    assert set(problems) == {"Upper Case", "bare", "silent", "single.py", "syntax"}
    assert "SyntaxError" in problems["syntax"]
    assert "defines no register()" in problems["silent"]
    assert "cannot be asked for; use 1 to 64 small letters" in problems["Upper Case"]
    assert "__init__.py: missing" in problems["bare"]
    assert f"make it {tmp_path / 'lamp' / 'single' / '__init__.py'}" in problems["single.py"]


@pytest.mark.parametrize("name", ["../lamp/oil", "..", ".", "", "a/b", "/etc", "Oil", "o" * 65, "oil\n", "油", "~"])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    write(tmp_path, "oil", registering("oil"))
    with pytest.raises(PluginError, match="no lamp is called"):
        lamps(tmp_path).find(name)


def test_an_unknown_name_gets_the_nearest_known_ones(tmp_path: Path) -> None:
    write(tmp_path, "petrol", registering("petrol"))
    told = refusal(tmp_path, "petroll")
    assert told == "no lamp is called 'petroll'; did you mean petrol? Known: built, petrol"
    assert refusal(tmp_path, "zzz") == "no lamp is called 'zzz'; known: built, petrol"


def test_the_folder_comes_before_the_program_and_the_program_before_the_built_in(tmp_path: Path) -> None:
    kind = PluginKind("lantern", "lantern", contract=1)
    catalog: PluginCatalog[int, str] = PluginCatalog(
        kind, tmp_path, lambda: register(kind, "own", lambda _: "built"), lambda _, __: ""
    )
    assert catalog.build(catalog.find("own"), 0) == "built"
    register(kind, "own", lambda _: "program", description="of this program")
    assert [each.name for each in registered(kind)] == ["own"]
    assert catalog.build(catalog.find("own"), 0) == "program"
    folder = tmp_path / "lantern" / "own"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("def register(): ...\n")
    assert [(each.origin, each.shadowed) for each in catalog.plugins()] == [
        ("folder", False),
        ("program", True),
        ("built-in", True),
    ]
    assert catalog.find("own").origin == "folder"
    assert catalog.build(catalog.find_built_in("own"), 0) == "built"


def test_what_a_plugin_registers_while_it_is_imported_reaches_nobody(tmp_path: Path) -> None:
    sneaky = f"{registering('oil')}\noffer(LAMP, 'sneaky', lambda setup: 'mine')\n"
    write(tmp_path, "oil", sneaky)
    catalog = lamps(tmp_path)
    catalog.build(catalog.find("oil"), 1)
    assert registered(LAMP) == []
    assert [each.name for each in catalog.plugins()] == ["oil", "built"]


def test_a_factory_that_is_none_is_refused_at_once() -> None:
    with pytest.raises(PluginError, match="the factory of the lamp 'oil' is 42; a callable is expected"):
        register(LAMP, "oil", 42)  # type: ignore[arg-type]
