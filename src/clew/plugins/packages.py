"""Plugins as installed packages: an entry point whose name is the plugin's, and whose target is its `register()`.

    [project.entry-points."clew.context_engine"]
    turns = "clew_turns:register"

Name, version and summary are read from the package's metadata; its code is imported when loaded.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

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


def package_plugins(kind: PluginKind) -> list[Plugin]:
    """Every plugin of the kind among the installed packages, by name; one that cannot be loaded has a `problem`."""
    # Late, because it is slow to import and most runs look nothing up.
    from importlib.metadata import entry_points

    points = sorted(entry_points(group=kind.entry_points), key=lambda point: (point.name, _package(point)))
    offers: dict[str, list[EntryPoint]] = {}
    for point in points:
        offers.setdefault(point.name, []).append(point)
    return [_plugin_of(kind, same) for same in offers.values()]


def package_plugin(kind: PluginKind, name: str) -> Plugin | None:
    """The plugin of this name; None where no package has one."""
    return next((plugin for plugin in package_plugins(kind) if plugin.name == name), None)


def _plugin_of(kind: PluginKind, points: list[EntryPoint]) -> Plugin:
    """The plugin of one name; where several packages offer it, that is its `problem`."""
    point = points[0]
    summaries = point.dist.metadata.get_all("Summary") if point.dist else None
    return Plugin(
        kind,
        point.name,
        PluginOrigin.PACKAGE,
        " and ".join(map(_package, points)),
        load=partial(_load, kind, point),
        description=" ".join(" ".join(summaries or ()).split()),
        version=point.dist.version if point.dist else "",
        problem=_problem(points),
    )


def _package(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value


def _problem(points: list[EntryPoint]) -> str:
    point = points[0]
    if len(points) > 1:
        return f"offered by {' and '.join(map(_package, points))}; uninstall all but one"
    if not valid_name(point.name):
        return f"the entry point's name {shown_name(point.name)} cannot be asked for; use {ALLOWED_NAMES}"
    found = point.pattern.match(point.value)
    if found is None or not found["attr"]:
        return f"the entry point is {shown_name(point.value)}; module:function is expected, as package:register"
    return ""


def _load(kind: PluginKind, point: EntryPoint) -> PluginRegistration:
    # What it registers while being imported, outside its function, is ignored.
    with collect_registrations():
        register = point.load()
    if not callable(register):
        raise PluginError(f"the entry point {point.value!r} is {shown_name(register)}; a function is expected")
    return registration_by(register, kind, point.name, called=point.value, named_by="entry point")
