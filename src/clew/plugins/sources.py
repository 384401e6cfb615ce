"""Where plugins are found: folders, `plugins/<kind>/<name>/` of the Clew home, and installed packages.

A folder is a Python package with a `register()`. A package has an entry point whose name is the plugin's, and whose
target is its `register()`: `[project.entry-points."clew.context_engine"]` with `turns = "clew_turns:register"`.

Both are found and described by reading files, and imported when loaded. A folder is imported under a private module
name, so that its modules hide no others of the same name.

An optional `plugin.yaml` describes the plugin without running it. Unknown keys are ignored; a newer Clew may have them.

    description: keeps whole turns
    version: 1.0.0
    contract: 1
"""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from itertools import groupby
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any

from clew.errors import PluginError
from clew.plugins.registry import (
    ALLOWED_NAMES,
    Plugin,
    PluginKind,
    PluginOrigin,
    PluginRegistration,
    collect_registrations,
    registration_by,
    shown_name,
    valid_name,
)

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_CODE = "__init__.py"
_MANIFEST = "plugin.yaml"
_LARGEST_MANIFEST_BYTES = 64_000
_MANIFEST_KEYS: Mapping[str, tuple[Any, str]] = {
    "name": (str, "text"),
    "description": (str, "text"),
    "version": (str | int | float, "a version, as 1.0.0"),
    "contract": (int, "a whole number"),
}
_import_lock = RLock()


def folder_plugins(kind: PluginKind, home: Path) -> Iterator[Plugin]:
    """Every plugin of the kind in the folder of plugins, by name; one that cannot be loaded has a `problem`."""
    parent = home / kind.folder
    try:
        entries = sorted(parent.iterdir()) if parent.is_dir() else []
    except OSError as error:
        raise PluginError(f"{parent}: cannot be read ({error.strerror})", remedy="check its permissions") from error
    for entry in entries:
        if not entry.name.startswith((".", "__")) and (entry.is_dir() or entry.suffix == ".py"):
            yield _plugin_of(kind, entry)


def _plugin_of(kind: PluginKind, folder: Path) -> Plugin:
    described: dict[str, Any] = {}
    try:
        described = read_manifest(folder)
        problem = next(_problems(folder), "")
    except OSError as error:
        problem = f"{folder}: cannot be read ({error.strerror})"
    except PluginError as error:
        problem = next(_problems(folder), "") or str(error)
    load = partial(_load, kind, folder)
    return Plugin(kind, folder.name, PluginOrigin.FOLDER, str(folder), load, problem=problem, root=folder, **described)


def _problems(folder: Path) -> Iterator[str]:
    """The problems of a plugin that can be seen without running it."""
    if not folder.is_dir():
        yield f"{folder}: a plugin is a folder; make it {folder.with_suffix('') / _CODE}"
        return
    if not valid_name(folder.name):
        yield f"{folder}: the folder's name cannot be asked for; use {ALLOWED_NAMES}"
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
    """Whether there is a definition, import or assignment of `register`, or a star import, which may define it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "register":
            return True
        if isinstance(node, ast.alias) and (node.asname or node.name) in ("register", "*"):
            return True
        if isinstance(node, ast.Name) and node.id == "register" and isinstance(node.ctx, ast.Store):
            return True
    return False


def _load(kind: PluginKind, folder: Path) -> PluginRegistration:
    with _import_lock:
        register = getattr(_imported(kind, folder), "register", None)
    if not callable(register):
        raise PluginError(
            f"{folder / _CODE}: register() is missing", remedy="Clew calls it to learn what the plugin offers"
        )
    return registration_by(register, kind, folder.name, called="register()", named_by="folder")


def _imported(kind: PluginKind, folder: Path) -> ModuleType:
    private = _private_name(kind, folder)
    if private in sys.modules:
        return sys.modules[private]
    code = folder / _CODE
    spec = spec_from_file_location(private, code, submodule_search_locations=[str(folder)])
    if spec is None or spec.loader is None:
        raise PluginError(f"{code}: cannot be imported")
    module = module_from_spec(spec)
    sys.modules[private] = module
    try:
        # Registrations at import, outside register(), are ignored.
        with collect_registrations():
            spec.loader.exec_module(module)
    except BaseException:
        for name in [name for name in sys.modules if name == private or name.startswith(f"{private}.")]:
            del sys.modules[name]
        raise
    return module


def _private_name(kind: PluginKind, folder: Path) -> str:
    """One name per folder: `a-b` and `a_b`, and plugins of two homes, need different ones."""
    digest = hashlib.sha256(str(folder.resolve()).encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return f"_clew_plugin_{kind.folder}_{folder.name.replace('-', '_')}_{digest}"


def read_manifest(folder: Path) -> dict[str, Any]:
    """The fields of a `Plugin` that its manifest states; none without a manifest. Raises PluginError if it is wrong."""
    path = folder / _MANIFEST
    if not path.exists():
        return {}
    try:
        raw = path.read_bytes()[: _LARGEST_MANIFEST_BYTES + 1]
        text = raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PluginError(f"{path}: cannot be read: {error}") from error
    if len(raw) > _LARGEST_MANIFEST_BYTES:
        raise PluginError(f"{path}: larger than {_LARGEST_MANIFEST_BYTES:,} bytes; a manifest holds a few lines")
    # Only where there is a manifest: YAML takes long to import.
    import yaml

    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise PluginError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise PluginError(f"{path}: keys are expected, as `description: ...`")
    for key, (allowed, words) in _MANIFEST_KEYS.items():
        if key in content and (not isinstance(content[key], allowed) or isinstance(content[key], bool)):
            raise PluginError(f"{path}: {key} = {content[key]!r} is not allowed; {words} is expected")
    if content.get("name", folder.name) != folder.name:
        raise PluginError(
            f"{path}: name = {content['name']!r}, but its folder is {folder.name!r}; they must be the same"
        )
    description = " ".join(content.get("description", "").split())
    return {
        "description": description,
        "version": str(content.get("version", "")),
        "contract": content.get("contract"),
    }


def package_plugins(kind: PluginKind) -> Iterator[Plugin]:
    """Every plugin of the kind among the installed packages, by name; one that cannot be loaded has a `problem`."""
    # Late, because it is slow to import and most runs look nothing up.
    from importlib.metadata import entry_points

    points = sorted(entry_points(group=kind.entry_points), key=lambda point: (point.name, _package(point)))
    for _, same in groupby(points, key=lambda point: point.name):
        yield _packaged(kind, list(same))


def _packaged(kind: PluginKind, points: list[EntryPoint]) -> Plugin:
    """The plugin of one name; it is a `problem` if several packages offer it."""
    point = points[0]
    summaries = point.dist.metadata.get_all("Summary") if point.dist else None
    return Plugin(
        kind,
        point.name,
        PluginOrigin.PACKAGE,
        " and ".join(map(_package, points)),
        load=partial(_load_entry_point, kind, point),
        description=" ".join(" ".join(summaries or ()).split()),
        version=point.dist.version if point.dist else "",
        problem=_problem_of_offers(points),
    )


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


def _problem_of_offers(points: list[EntryPoint]) -> str:
    point = points[0]
    if len(points) > 1:
        return f"offered by {' and '.join(map(_package, points))}; uninstall all but one"
    if not valid_name(point.name):
        return f"the entry point's name {shown_name(point.name)} cannot be asked for; use {ALLOWED_NAMES}"
    found = point.pattern.match(point.value)
    if found is None or not found["attr"]:
        return f"the entry point is {shown_name(point.value)}; module:function is expected, as package:register"
    return ""


def _load_entry_point(kind: PluginKind, point: EntryPoint) -> PluginRegistration:
    # Registrations at import, outside the function, are ignored.
    with collect_registrations():
        register = point.load()
    if not callable(register):
        raise PluginError(f"the entry point {point.value!r} is {shown_name(register)}", remedy="a function is expected")
    return registration_by(register, kind, point.name, called=point.value, named_by="entry point")
