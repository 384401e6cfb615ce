"""Settings from their sources, in rising order: defaults, file, environment, flags.

`read_config` never raises over a setting: it gathers every problem, and leaves a bad value out. `load_config` is for
those who cannot go on with a bad one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_type_hints

from clew.config.declare import Setting, Value, settings_in
from clew.config.home import config_path, read_text
from clew.config.moved import NEW_PLACES
from clew.config.problems import InvalidConfig, Problem, describe, nearest, sounds_secret
from clew.config.settings import Settings

OriginKind: TypeAlias = Literal["default", "file", "env", "flag"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from."""

    kind: OriginKind
    where: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.where}".rstrip()


DEFAULT = Origin("default")


@dataclass(frozen=True, slots=True)
class Given:
    """What one source says about one key, not yet checked."""

    key: str
    value: object
    source: str
    origin: Origin
    remedy: str = ""
    """What to do, where it cannot count as it is written."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings in force, where each came from, and what there is to say about it."""

    settings: Settings
    path: Path
    origins: Mapping[str, Origin]
    """By key; what is not here has its default."""
    notices: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()

    def origin_of(self, key: str) -> Origin:
        return self.origins.get(key, DEFAULT)

    def value_of(self, key: str) -> Value:
        """The value in force of a setting by its key."""
        value: Any = self.settings
        for name in key.split("."):
            value = getattr(value, name)
        found: Value = value
        return found


@cache
def declared() -> Mapping[str, Setting]:
    """Every setting by its key, in the order of declaration."""
    return {setting.key: setting for setting in settings_in(Settings)}


def load_config(environ: Mapping[str, str], flags: Sequence[str] = ()) -> Loaded:
    """The settings in force; raises ConfigError if any source has a problem."""
    loaded = read_config(environ, flags)
    if loaded.problems:
        raise InvalidConfig(loaded.problems)
    return loaded


def read_config(environ: Mapping[str, str], flags: Sequence[str] = ()) -> Loaded:
    """The settings in force, with every problem of every source beside them; `flags` are texts like key=value."""
    path = config_path(environ)
    gathering = _Gathering()
    gathering.add_source(lambda: _from_file(path))
    gathering.add_source(lambda: _from_environment(environ))
    gathering.add_source(lambda: _from_flags(flags))
    gathering.notices += _misspelt_variables(environ)
    values = {key: given.value for key, given in gathering.accepted.items()}
    origins = {key: given.origin for key, given in gathering.accepted.items()}
    settings = _built(Settings, values)
    return Loaded(settings, path, origins, tuple(gathering.notices), tuple(gathering.problems))


def setting_named(key: str, source: str) -> Setting:
    """The setting with this key, old keys included; raises ConfigError, with the name that was probably meant."""
    setting = declared().get(NEW_PLACES.get(key, key))
    if setting is None:
        raise InvalidConfig([_unknown(Given(key, None, source, DEFAULT))])
    return setting


def value_from(text: str, setting: Setting, source: str) -> Value:
    """The value that a person's words mean for a setting; raises ConfigError."""
    value = setting.from_text(text)
    if not setting.accepts(value):
        raise InvalidConfig([_not_allowed(setting, value, source)])
    return value


class _Gathering:
    """What the sources have given so far: later ones overrule earlier ones."""

    def __init__(self) -> None:
        self.accepted: dict[str, Given] = {}
        self.notices: list[str] = []
        self.problems: list[Problem] = []

    def add_source(self, read: Callable[[], Iterable[Given]]) -> None:
        try:
            given = list(read())
        except InvalidConfig as error:
            self.problems += error.problems
            return
        for each in self._in_new_places(given):
            self._add(each)

    def _in_new_places(self, given: Sequence[Given]) -> Iterator[Given]:
        keys = {each.key for each in given}
        for each in given:
            new = NEW_PLACES.get(each.key)
            if new is None:
                yield each
            elif new in keys:
                self.notices.append(f"{each.source}: {each.key} has moved to {new}; both are set, {new} counts")
            else:
                self.notices.append(f"{each.source}: {each.key} has moved to {new}, and is read as such")
                yield Given(new, each.value, each.source, each.origin)

    def _add(self, given: Given) -> None:
        setting = declared().get(given.key)
        if given.remedy:
            self.problems.append(Problem(given.source, given.key, _shown(given), given.remedy))
        elif setting is None:
            self.problems += _misplaced(given)
        elif setting.accepts(given.value):
            self.accepted[given.key] = given
        else:
            self.problems.append(_not_allowed(setting, given.value, given.source))


def _from_file(path: Path) -> Iterator[Given]:
    text = read_text(path)
    if text is None:
        return
    # Only where there is a file: importing YAML takes as long as everything else on the way to a short answer.
    from clew.config.yamlfile import leaves_of, tree_of

    tree = tree_of(text, path)
    for leaf in leaves_of(tree) if tree is not None else ():
        source = f"{path} line {leaf.line}"
        yield Given(leaf.key, leaf.value, source, Origin("file", f"line {leaf.line}"), leaf.remedy)


def _from_environment(environ: Mapping[str, str]) -> Iterator[Given]:
    for key in (*declared(), *NEW_PLACES):
        setting = declared()[NEW_PLACES.get(key, key)]
        variable = "CLEW_" + key.replace(".", "_").upper()
        text = environ.get(variable, "")
        if text.strip():
            yield Given(key, setting.from_text(text), f"environment {variable}", Origin("env", variable))


def _from_flags(flags: Sequence[str]) -> Iterator[Given]:
    for flag in flags:
        key, equals, text = (part.strip() for part in flag.partition("="))
        setting = declared().get(NEW_PLACES.get(key, key))
        value = setting.from_text(text) if setting else text
        yield Given(key, value, "--set", Origin("flag", "--set"), "" if equals else "expects key=value")


def _misspelt_variables(environ: Mapping[str, str]) -> Iterator[str]:
    """A notice for each variable that is nearly ours; other CLEW_ variables are other people's business."""
    known = {setting.variable for setting in declared().values()}
    known |= {"CLEW_" + old.replace(".", "_").upper() for old in NEW_PLACES} | {"CLEW_HOME"}
    for variable in environ:
        if variable.startswith("CLEW_") and variable not in known:
            meant = nearest(variable, known)
            if meant:
                yield f"environment {variable} is no setting and is not read; did you mean {meant}?"


def _not_allowed(setting: Setting, value: object, source: str) -> Problem:
    # A key pasted where the name of its variable belongs must not be printed either.
    shown = describe(value, sounds_secret(setting.key))
    unquoted = setting.kind is str and not setting.limits.shape and isinstance(value, int | float)
    quotes = "; put it in quotes" if unquoted else ""
    return Problem(source, setting.key, shown, f"not allowed; expects {setting.allowed}{quotes}")


def _misplaced(given: Given) -> Iterator[Problem]:
    """What is wrong with a key that is no setting: a group given a value, a setting given keys, or unknown."""
    below = [key.removeprefix(f"{given.key}.") for key in declared() if key.startswith(f"{given.key}.")]
    if below:
        if given.value not in (None, {}):
            names = ", ".join(dict.fromkeys(name.partition(".")[0] for name in below))
            yield Problem(given.source, given.key, _shown(given), f"not allowed; expects keys below it: {names}")
        return
    above = next((setting for key, setting in declared().items() if given.key.startswith(f"{key}.")), None)
    yield _not_allowed(above, {}, given.source) if above else _unknown(given)


def _shown(given: Given) -> str:
    return describe(given.value, sounds_secret(given.key))


def _unknown(given: Given) -> Problem:
    meant = nearest(given.key, declared())
    hint = f"did you mean {meant}?" if meant else "`clew config show` lists them all"
    shown = "" if given.value is None else describe(given.value, sounds_secret(f"{given.key} {meant}"))
    return Problem(given.source, given.key, shown, f"no such setting; {hint}")


def _built(tree: type, values: Mapping[str, object], prefix: str = "") -> Any:
    hints = get_type_hints(tree)
    given: dict[str, object] = {}
    for each in fields(tree):
        key = prefix + each.name
        if is_dataclass(hints[each.name]):
            given[each.name] = _built(hints[each.name], values, f"{key}.")
        elif key in values:
            value = values[key]
            # A threshold of 1 in the file is the number 1.0.
            given[each.name] = float(value) if hints[each.name] is float else value  # type: ignore[arg-type]
    return tree(**given)
