"""Settings from their sources: defaults, file, environment, flags. A later source overrules an earlier one.

`read_config` never raises for a setting: it collects every problem, and leaves an invalid value out. `load_config`
raises them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_type_hints

from clew.config.declare import Setting, SettingValue, is_secret_key, nearest, shown_value, variable_of
from clew.config.entries import MCP_SERVERS, UPSTREAMS, McpServer, UpstreamEntry
from clew.config.home import config_path, read_text
from clew.config.settings import MOVED_SETTINGS, Settings, declared_settings
from clew.errors import ConfigProblem, InvalidConfig

SettingOriginKind: TypeAlias = Literal["default", "file", "env", "flag"]


@dataclass(frozen=True, slots=True)
class SettingOrigin:
    """The source of a value."""

    kind: SettingOriginKind
    where: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.where}".rstrip()


_DEFAULT = SettingOrigin("default")


@dataclass(frozen=True, slots=True)
class GivenValue:
    """The value of a key in one source, not yet checked."""

    key: str
    value: object
    source: str
    origin: SettingOrigin
    remedy: str = ""
    """The remedy, if the key is not valid."""

    @property
    def shown(self) -> str:
        return shown_value(self.value, is_secret_key(self.key))


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """The settings, the source of each, notices and problems."""

    settings: Settings
    path: Path
    origins: Mapping[str, SettingOrigin]
    """By key; settings that are missing here have their default."""
    notices: tuple[str, ...] = ()
    problems: tuple[ConfigProblem, ...] = ()
    mcp_servers: tuple[McpServer, ...] = ()
    upstreams: tuple[UpstreamEntry, ...] = ()

    def origin_of(self, key: str) -> SettingOrigin:
        return self.origins.get(key, _DEFAULT)

    def value_of(self, key: str) -> SettingValue:
        """The value of a setting by its key."""
        found: SettingValue = attrgetter(key)(self.settings)
        return found


def load_config(environ: Mapping[str, str], flags: Sequence[str] = ()) -> LoadedConfig:
    """The settings; raises InvalidConfig if any source has a problem."""
    loaded = read_config(environ, flags)
    if loaded.problems:
        raise InvalidConfig(loaded.problems)
    return loaded


def read_config(environ: Mapping[str, str], flags: Sequence[str] = ()) -> LoadedConfig:
    """The settings with every problem of every source; `flags` are texts like key=value."""
    path = config_path(environ)
    merged = _MergedSources()
    merged.add_source(lambda: _from_file(path, merged))
    merged.add_source(lambda: _from_environment(environ))
    merged.add_source(lambda: _from_flags(flags))
    merged.notices += _misspelt_variables(environ)
    values = {key: given.value for key, given in merged.accepted.items()}
    origins = {key: given.origin for key, given in merged.accepted.items()}
    settings = _build_settings(Settings, values)
    return LoadedConfig(
        settings,
        path,
        origins,
        tuple(merged.notices),
        tuple(merged.problems),
        tuple(merged.mcp_servers),
        tuple(merged.upstreams),
    )


def setting_named(key: str, source: str) -> Setting:
    """The setting with this key, old keys included; raises InvalidConfig, with the name that was probably meant."""
    setting = declared_settings().get(MOVED_SETTINGS.get(key, key))
    if setting is None:
        raise InvalidConfig([_unknown(GivenValue(key, None, source, _DEFAULT))])
    return setting


def value_from(text: str, setting: Setting, source: str) -> SettingValue:
    """The value of a setting in a text; raises InvalidConfig."""
    value = setting.from_text(text)
    if not setting.accepts(value):
        raise InvalidConfig([_not_allowed(setting, value, source)])
    return value


class _MergedSources:
    """The values of the sources so far."""

    def __init__(self) -> None:
        self.accepted: dict[str, GivenValue] = {}
        self.notices: list[str] = []
        self.problems: list[ConfigProblem] = []
        self.mcp_servers: list[McpServer] = []
        self.upstreams: list[UpstreamEntry] = []

    def add_source(self, read: Callable[[], Iterable[GivenValue]]) -> None:
        try:
            given = list(read())
        except InvalidConfig as error:
            self.problems += error.problems
            return
        for each in self._with_moved_keys(given):
            self._add(each)

    def _with_moved_keys(self, given: Sequence[GivenValue]) -> Iterator[GivenValue]:
        keys = {each.key for each in given}
        for each in given:
            new = MOVED_SETTINGS.get(each.key)
            if new is None:
                yield each
            elif new in keys:
                self.notices.append(f"{each.source}: {each.key} is now called {new}; both are set, {new} counts")
            else:
                self.notices.append(f"{each.source}: {each.key} is now called {new}, and is read as that")
                yield GivenValue(new, each.value, each.source, each.origin)

    def _add(self, given: GivenValue) -> None:
        setting = declared_settings().get(given.key)
        if given.remedy:
            self.problems.append(ConfigProblem(given.source, given.key, given.shown, given.remedy))
        elif setting is None:
            self.problems += _misplaced(given)
        elif setting.accepts(value := setting.from_yaml(given.value)):
            self.accepted[given.key] = replace(given, value=value)
        else:
            self.problems.append(_not_allowed(setting, given.value, given.source))


def _from_file(path: Path, merged: _MergedSources) -> Iterator[GivenValue]:
    text = read_text(path)
    if text is None:
        return
    # Imported only if there is a file, since that takes as long as all the rest.
    from clew.config.yaml_file import leaves_of, parse_yaml

    tree = parse_yaml(text, path)
    if tree is None:
        return
    merged.mcp_servers, wrong_servers = MCP_SERVERS.read(tree, path)
    merged.upstreams, wrong_upstreams = UPSTREAMS.read(tree, path)
    merged.problems += wrong_servers + wrong_upstreams
    for leaf in leaves_of(tree):
        if not f"{leaf.key}.".startswith((f"{MCP_SERVERS.key}.", f"{UPSTREAMS.key}.")):
            line = f"line {leaf.line}"
            yield GivenValue(leaf.key, leaf.value, f"{path} {line}", SettingOrigin("file", line), leaf.remedy)


def _from_environment(environ: Mapping[str, str]) -> Iterator[GivenValue]:
    for key in (*declared_settings(), *MOVED_SETTINGS):
        setting, variable = declared_settings()[MOVED_SETTINGS.get(key, key)], variable_of(key)
        text = environ.get(variable, "")
        if text.strip():
            yield GivenValue(key, setting.from_text(text), f"environment {variable}", SettingOrigin("env", variable))


def _from_flags(flags: Sequence[str]) -> Iterator[GivenValue]:
    for flag in flags:
        key, equals, text = (part.strip() for part in flag.partition("="))
        setting = declared_settings().get(MOVED_SETTINGS.get(key, key))
        value = setting.from_text(text) if setting else text
        yield GivenValue(key, value, "--set", SettingOrigin("flag", "--set"), "" if equals else "expects key=value")


def _misspelt_variables(environ: Mapping[str, str]) -> Iterator[str]:
    """A notice for each variable with a name similar to one of ours; other CLEW_ variables are ignored."""
    known = {*map(variable_of, (*declared_settings(), *MOVED_SETTINGS)), "CLEW_HOME"}
    for variable in environ:
        if variable.startswith("CLEW_") and variable not in known and (meant := nearest(variable, known)):
            yield f"environment {variable} is no setting and is not read; did you mean {meant}?"


def _not_allowed(setting: Setting, value: object, source: str) -> ConfigProblem:
    # A key that was pasted in place of the name of its variable must not be printed, either.
    shown = shown_value(value, is_secret_key(setting.key))
    unquoted = setting.kind is str and not setting.limits.shape and isinstance(value, int | float)
    quotes = "; put it in quotes" if unquoted else ""
    return ConfigProblem(source, setting.key, shown, f"not allowed; expects {setting.allowed}{quotes}")


def _misplaced(given: GivenValue) -> Iterator[ConfigProblem]:
    """The problem of a key that is no setting: a group with a value, a setting with keys below it, or unknown."""
    below = [key.removeprefix(f"{given.key}.") for key in declared_settings() if key.startswith(f"{given.key}.")]
    if below:
        if given.value not in (None, {}):
            names = ", ".join(dict.fromkeys(name.partition(".")[0] for name in below))
            yield ConfigProblem(given.source, given.key, given.shown, f"not allowed; expects keys below it: {names}")
        return
    above = next((setting for key, setting in declared_settings().items() if given.key.startswith(f"{key}.")), None)
    yield _not_allowed(above, {}, given.source) if above else _unknown(given)


def _unknown(given: GivenValue) -> ConfigProblem:
    meant = nearest(given.key, declared_settings())
    hint = f"did you mean {meant}?" if meant else "`clew config show` lists them all"
    shown = "" if given.value is None else shown_value(given.value, is_secret_key(f"{given.key} {meant}"))
    return ConfigProblem(given.source, given.key, shown, f"no such setting; {hint}")


def _build_settings(tree: type, values: Mapping[str, object], prefix: str = "") -> Any:
    hints = get_type_hints(tree)
    given: dict[str, object] = {}
    for each in fields(tree):
        key = prefix + each.name
        if is_dataclass(hints[each.name]):
            given[each.name] = _build_settings(hints[each.name], values, f"{key}.")
        elif key in values:
            value = values[key]
            # A threshold of 1 in the file is the number 1.0.
            given[each.name] = float(value) if hints[each.name] is float else value  # type: ignore[arg-type]
    return tree(**given)
