"""Plugins as folders: `plugins/<kind>/<name>/` of the Clew home, each a Python package with a `register()`.

Found and described by reading files; imported when loaded, under a private name, so that two plugins that both have an
`engine.py` do not meet and nothing of theirs stands in the way of an installed package.
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterator
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from threading import RLock
from types import ModuleType

from clew.errors import PluginError
from clew.plugins.found import Kind, Origin, Plugin
from clew.plugins.manifest import read_manifest
from clew.plugins.names import ALLOWED, valid_name
from clew.plugins.registry import Registration, collecting

_CODE = "__init__.py"
_one_import_at_a_time = RLock()


def folder_plugins(kind: Kind, home: Path) -> list[Plugin]:
    """Every plugin of the kind in the folder of plugins, by name; those that cannot serve say why."""
    above = home / kind.folder
    try:
        entries = sorted(above.iterdir()) if above.is_dir() else []
        return [_described(kind, entry) for entry in entries if _looks_like_a_plugin(entry)]
    except OSError as error:
        raise _unreadable(above, error) from error


def folder_plugin(kind: Kind, home: Path, name: str) -> Plugin | None:
    """The plugin of this name; None where there is no folder for it."""
    if not valid_name(name):
        return None
    folder = home / kind.folder / name
    try:
        return _described(kind, folder) if folder.is_dir() else None
    except OSError as error:
        raise _unreadable(folder, error) from error


def _looks_like_a_plugin(entry: Path) -> bool:
    if entry.name.startswith((".", "__")):
        return False
    return entry.is_dir() or entry.suffix == ".py"


def _described(kind: Kind, folder: Path) -> Plugin:
    manifest = read_manifest(folder, folder.name) if folder.is_dir() else None
    problem = next(_problems(folder), "") or (manifest.problem if manifest else "")
    return Plugin(
        kind,
        folder.name,
        Origin.FOLDER,
        str(folder),
        load=partial(_load, kind, folder),
        description=manifest.description if manifest else "",
        version=manifest.version if manifest else "",
        contract=manifest.contract if manifest else None,
        problem=problem,
        root=folder,
    )


def _problems(folder: Path) -> Iterator[str]:
    """What can be seen to be wrong without running anything."""
    if not folder.is_dir():
        yield f"{folder}: a plugin is a folder; make it {folder.with_suffix('') / _CODE}"
        return
    if not valid_name(folder.name):
        yield f"{folder}: the folder's name cannot be asked for; use {ALLOWED}"
    code = folder / _CODE
    if not code.is_file():
        yield f"{code}: missing; it is where register() is expected"
        return
    try:
        tree = ast.parse(code.read_bytes(), str(code))
    except SyntaxError as error:
        yield f"{code} line {error.lineno}: SyntaxError: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        yield f"{code}: not Python: {error}"
    else:
        if not _may_define_register(tree):
            yield f"{code}: defines no register(); Clew calls it to learn what the plugin offers"


def _may_define_register(tree: ast.Module) -> bool:
    """A definition, an import or an assignment anywhere at the top; a star import may bring anything."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "register":
            return True
        if isinstance(node, ast.alias) and (node.asname or node.name) in ("register", "*"):
            return True
        if isinstance(node, ast.Name) and node.id == "register" and isinstance(node.ctx, ast.Store):
            return True
    return False


def _load(kind: Kind, folder: Path) -> Registration:
    with _one_import_at_a_time:
        module = _imported(kind, folder)
    enlist = getattr(module, "register", None)
    if not callable(enlist):
        raise PluginError(f"{folder / _CODE}: register() is missing; Clew calls it to learn what the plugin offers")
    with collecting() as gathered:
        enlist()
    if (kind, folder.name) not in gathered:
        offered = ", ".join(name for of, name in gathered if of == kind) or "nothing"
        raise PluginError(f"register() offered {offered}, not {folder.name!r}: the name of its folder")
    return gathered[kind, folder.name]


def _imported(kind: Kind, folder: Path) -> ModuleType:
    private = _private_name(kind, folder)
    if private in sys.modules:
        return sys.modules[private]
    code = folder / _CODE
    spec = spec_from_file_location(private, code, submodule_search_locations=[str(folder)])
    if spec is None or spec.loader is None:
        raise PluginError(f"{code}: cannot be imported")
    module = module_from_spec(spec)
    sys.modules[private] = module
    done = False
    try:
        # What it registers while being imported, outside register(), is nobody's.
        with collecting():
            spec.loader.exec_module(module)
        done = True
    finally:
        if not done:
            _forget(private)
    return module


def _private_name(kind: Kind, folder: Path) -> str:
    """One name per folder: `a-b` and `a_b`, and plugins of two homes, must not meet."""
    place = hashlib.sha256(str(folder.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return f"_clew_plugin_{kind.folder}_{folder.name.replace('-', '_')}_{place}"


def _forget(private: str) -> None:
    for name in [name for name in sys.modules if name == private or name.startswith(f"{private}.")]:
        del sys.modules[name]


def _unreadable(path: Path, error: OSError) -> PluginError:
    return PluginError(f"{path}: cannot be read ({error.strerror}); check its permissions")
