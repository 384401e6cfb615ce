"""The commands as values, read from their parsers: what completion scripts and the manual page are written from."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

ValueKind: TypeAlias = Literal["none", "words", "files", "folders", "sessions", "commands", "text"]
"""What stands behind an option or in place of an argument, as far as a shell can complete it."""
_KINDS: Mapping[str, ValueKind] = {
    "FILE": "files",
    "OUT.html": "files",
    "NAME|URL|FILE": "files",
    "DIR": "folders",
    "SESSION": "sessions",
    "COMMAND": "commands",
}
SETTING_METAVARS = ("KEY", "KEY=VALUE")
PROVIDER_FLAG = "--provider"


@dataclass(frozen=True, slots=True)
class CommandValue:
    """What an option or an argument takes."""

    name: str
    """As the help shows it; empty where nothing is taken."""
    kind: ValueKind
    words: tuple[str, ...] = ()
    """All that are allowed, or the usual ones."""


@dataclass(frozen=True, slots=True)
class CommandOption:
    names: tuple[str, ...]
    about: str
    value: CommandValue
    is_repeatable: bool


@dataclass(frozen=True, slots=True)
class CommandArgument:
    value: CommandValue
    about: str
    is_optional: bool
    is_repeatable: bool


@dataclass(frozen=True, slots=True)
class CommandNode:
    """A command with what it takes, and the commands below it."""

    path: tuple[str, ...]
    about: str
    description: str
    epilog: str
    usage: str
    options: tuple[CommandOption, ...]
    arguments: tuple[CommandArgument, ...]
    children: tuple[CommandNode, ...]
    default_child: str | None = None
    """Which of the children is meant where none is named."""

    @property
    def name(self) -> str:
        return self.path[-1]

    @property
    def own_options(self) -> tuple[CommandOption, ...]:
        """Its options, and those of the command that is meant where none is named."""
        meant = next((child for child in self.children if child.name == self.default_child), None)
        known = {name for option in self.options for name in option.names}
        more = meant.options if meant else ()
        return (*self.options, *(option for option in more if not known.intersection(option.names)))

    def walk(self) -> Iterator[CommandNode]:
        """This command, and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


def command_tree(parser: argparse.ArgumentParser, about: str = "", path: tuple[str, ...] = ("clew",)) -> CommandNode:
    """The command of a parser, with all below it."""
    actions = [action for action in parser._actions if action.help != argparse.SUPPRESS]
    below = next((action for action in actions if isinstance(action, argparse._SubParsersAction)), None)
    abouts = {each.dest: each.help or "" for each in below._choices_actions} if below else {}
    children = below.choices.items() if below else ()
    return CommandNode(
        path=path,
        about=about,
        description=parser.description or "",
        epilog=parser.epilog or "",
        usage=" ".join(parser.format_usage().split()).removeprefix("usage: "),
        options=tuple(_option(action, parser) for action in actions if action.option_strings),
        arguments=tuple(_argument(each, parser) for each in actions if not each.option_strings and each is not below),
        children=tuple(command_tree(child, abouts.get(name, ""), (*path, name)) for name, child in children),
        default_child=getattr(parser, "default_verb", None),
    )


def _option(action: argparse.Action, parser: argparse.ArgumentParser) -> CommandOption:
    repeatable = isinstance(action, argparse._AppendAction)
    return CommandOption(tuple(action.option_strings), _about(action, parser), _value(action, parser), repeatable)


def _argument(action: argparse.Action, parser: argparse.ArgumentParser) -> CommandArgument:
    many = action.nargs in ("*", "+")
    return CommandArgument(_value(action, parser), _about(action, parser), action.nargs in ("?", "*"), many)


def _about(action: argparse.Action, parser: argparse.ArgumentParser) -> str:
    return (action.help or "") % {**vars(action), "prog": parser.prog}


def _value(action: argparse.Action, parser: argparse.ArgumentParser) -> CommandValue:
    if action.nargs == 0:
        return CommandValue("", "none")
    name = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if action.choices is not None:
        return CommandValue(name, "words", tuple(map(str, action.choices)))
    if name in SETTING_METAVARS:
        from clew.config import declared_settings

        ending = "=" if name.endswith("VALUE") else ""
        return CommandValue(name, "words", tuple(f"{key}{ending}" for key in declared_settings()))
    if PROVIDER_FLAG in action.option_strings:
        return CommandValue(name, "words", _providers())
    if (name == "NAME" and parser.prog.startswith("clew models")) or "--model" in action.option_strings:
        return CommandValue(name, "words", _models())
    return CommandValue(name, _KINDS.get(name, "text"))


def _providers() -> tuple[str, ...]:
    from clew.providers import PROVIDER_PRESETS

    return tuple(sorted({preset.name for preset in PROVIDER_PRESETS}))


def _models() -> tuple[str, ...]:
    from clew.providers import FETCHABLE_MODELS

    return ("local", *(row.name for row in FETCHABLE_MODELS))
