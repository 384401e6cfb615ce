"""How the lines look that point programs at a gateway. They are printed as they are, to be pasted: never wrapped."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from clew.cli.console import Console
from clew.cli.parser import did_you_mean
from clew.errors import InvalidArgument
from clew.gateway import CLIENT_SETUPS, ClientSetup, ServedModel, fill_in, setup_named


def chosen_setups(name: str) -> tuple[ClientSetup, ...]:
    """What `--show NAME` means; raises where there is no such program."""
    if name == "all":
        return CLIENT_SETUPS
    if chosen := setup_named(name):
        return (chosen,)
    names = [setup.name for setup in CLIENT_SETUPS]
    near = did_you_mean(name, names)
    takes = f"{'It' if near else 'it'} takes {', '.join(names)}, all"
    raise InvalidArgument(f"serve: --show: {name!r} is not known; {near}{takes}")


def print_setups(setups: Iterable[ClientSetup], address: str, model: ServedModel, console: Console) -> None:
    """For people: which file, the lines, and the setting of the window."""
    for setup in setups:
        console.print()
        console.print(console.style(f"{setup.title} ({setup.where}):", "bold"))
        for line in fill_in(setup.lines, address, model).splitlines():
            console.print(f"  {line}".rstrip())
        if setup.window:
            console.print(console.style(f"  # window: {setup.window}", "dim"))


def setup_json(setup: ClientSetup, address: str, model: ServedModel) -> dict[str, Any]:
    """For programs."""
    lines = fill_in(setup.lines, address, model)
    return {"name": setup.name, "title": setup.title, "where": setup.where, "lines": lines, "window": setup.window}
