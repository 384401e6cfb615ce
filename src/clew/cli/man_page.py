"""The manual page of Clew (section 1), written from the parsers of its commands."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from clew import __version__
from clew.cli.command_tree import CommandNode, CommandValue, command_tree

PAGE_DATE = "2026-11-16"
"""A constant, so that the same commands make the same page; formatters want one."""
_FIRST_CHARACTER = re.compile(r"^([.'])", re.MULTILINE)


def man_page(parser: argparse.ArgumentParser) -> str:
    """The page, in roff."""
    root = command_tree(parser)
    return "\n".join(_lines(root)) + "\n"


def _lines(root: CommandNode) -> Iterator[str]:
    yield f'.TH CLEW 1 "{PAGE_DATE}" "clew {__version__}" "User Commands"'
    yield ".SH NAME"
    yield r"clew \- a context engine for LLM agents"
    yield ".SH SYNOPSIS"
    yield from _synopsis(root)
    yield ".SH DESCRIPTION"
    yield _escaped(" ".join(root.description.split()))
    yield from _items(root)
    yield ".SH COMMANDS"
    for child in root.children:
        yield from _command(child)
    yield ".SH NOTES"
    yield from _literal(root.epilog, first=True)


def _command(node: CommandNode) -> Iterator[str]:
    """A command, and those below it."""
    yield f".SS {_escaped(' '.join(node.path))}"
    yield _escaped(node.description or f"{node.about[:1].upper()}{node.about[1:]}.")
    if not node.children:
        yield ".PP"
        yield from _synopsis(node)
    yield from _items(node)
    yield from _literal(node.epilog)
    for child in node.children:
        yield from _command(child)


def _synopsis(node: CommandNode) -> Iterator[str]:
    yield ".nh"
    yield _escaped(node.usage)
    yield ".hy"


def _items(node: CommandNode) -> Iterator[str]:
    """Arguments and options, each with what it means."""
    for argument in node.arguments:
        yield ".TP"
        yield rf"\fI{_escaped(argument.value.name)}\fR"
        yield _escaped(argument.about or " ")
    for option in node.options:
        yield ".TP"
        names = ", ".join(rf"\fB{_escaped(name)}\fR" for name in option.names)
        yield f"{names}{_value(option.value)}"
        yield _escaped(option.about or " ")


def _value(value: CommandValue) -> str:
    return "" if value.kind == "none" else rf" \fI{_escaped(value.name)}\fR"


def _literal(text: str, *, first: bool = False) -> Iterator[str]:
    """Text whose line ends and columns count, as in the examples; `first` below a heading."""
    if text.strip():
        if not first:
            yield ".PP"
        yield ".nf"
        yield _escaped(text.strip("\n"))
        yield ".fi"


def _escaped(text: str) -> str:
    # A dot or an apostrophe at the start of a line would be a request to the formatter.
    plain = text.replace("\\", r"\e").replace("-", r"\-").replace("`", r"\(ga")
    ascii_only = "".join(char if char.isascii() else f"\\[u{ord(char):04X}]" for char in plain)
    return _FIRST_CHARACTER.sub(r"\\&\1", ascii_only)
