"""`clew setup hermes`: let another program use Clew, by its own config; `--undo` takes it back."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from clew.cli.console import Console

EXAMPLES = """\
hermes     Hermes Agent folds with Clew: plugins.enabled and context.engine in its
           config (HERMES_HOME, else ~/.hermes). It wants both; `clew doctor` says
           where one is missing or the Python of Hermes has no Clew.

Nothing else of the config is touched; --undo gives back the bytes from before.

examples:
  clew setup hermes
  clew setup hermes --undo
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("program", choices=("hermes",), metavar="PROGRAM", help="hermes")
    parser.add_argument("--undo", action="store_true", help="take back what was written")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace, console: Console) -> int:
    from clew.integrations.hermes_setup import check_hermes, set_up_hermes, undo_hermes_setup

    config, changed = (undo_hermes_setup if arguments.undo else set_up_hermes)(console.environ)
    check = check_hermes(console.environ)
    problems = list(check.problems) if check else []
    if arguments.json:
        fields: dict[str, Any] = {
            "program": arguments.program,
            "config": str(config.path),
            "changed": changed,
            "in_use": config.is_complete and not problems,
            "python": check.python if check else None,
            "problems": problems,
        }
        console.print_json(fields)
        return 1 if problems else 0
    for line in _lines(config.path, changed, undo=arguments.undo):
        console.print(line)
    for problem in problems:
        console.error(problem)
    if not problems and not arguments.undo:
        where = f" ({check.python})" if check and check.python else ""
        console.print(f"Hermes folds with Clew from its next start on{where}.")
    return 1 if problems else 0


def _lines(path: Path, changed: list[str], *, undo: bool) -> list[str]:
    if not changed:
        return [f"{path}: {'nothing of Clew is in it' if undo else 'both keys are set already'}"]
    return [f"{path}: {'took out' if undo else 'set'} {' and '.join(changed)}"]
