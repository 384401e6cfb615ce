"""`clew setup PROGRAM`: install a plugin that lets another agent compact with Clew; `--undo` removes it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from clew.cli.console import Console
from clew.cli.options import OneOf, command, json_option
from clew.errors import InvalidArgument

if TYPE_CHECKING:
    from clew.integrations.inside_setup import FileChange

PROGRAMS = ("claude-code", "opencode", "pi", "openclaw", "hermes", "service")
EXAMPLES = """\
claude-code   a mod in ~/.claude/skills/clew (Claude Code 2.1.287 or newer)
opencode      ~/.config/opencode/plugin/clew.js
pi            ~/.pi/agent/extensions/clew.js
openclaw      ~/.openclaw/extensions/clew, and agents.defaults.compaction.provider
hermes        Hermes Agent folds with Clew: plugins.enabled and context.engine in its
              config (HERMES_HOME, else ~/.hermes)
service       the local service that these plugins talk to. They start it themselves;
              --undo ends it, --check says whether it answers

When the program is full, the plugin sends its messages to the service on this machine,
which stores them, folds them without a model, and answers in well under a second; the
model can recall everything that was folded. If the service does not answer within
2 seconds, the program compacts by itself.

--undo removes what was written; a config gets back its bytes from before.

examples:
  clew setup claude-code
  clew setup opencode --print
  clew setup pi --check
  clew setup claude-code --undo
"""


@command(EXAMPLES, exclusive=("undo", "check"))
@click.argument("program", metavar="PROGRAM", type=OneOf(PROGRAMS))
@click.option("--undo", is_flag=True, help="remove what was written")
@click.option("--check", is_flag=True, help="say whether it is installed and whether Clew answers")
@click.option("--print", "show", is_flag=True, help="show what would change, also with --undo, and change nothing")
@json_option
def setup_command(console: Console, program: str, undo: bool, check: bool, show: bool) -> int:
    if check and show:
        raise InvalidArgument("--check: not allowed with --print", remedy="give one of them")
    if program == "hermes":
        return _run_hermes(console, undo, check, show)
    if program == "service":
        return _run_service(console, undo, check, show)
    return _check_plugin(program, console) if check else _run_plugin(program, console, undo, show)


def _run_plugin(name: str, console: Console, undo: bool, show: bool) -> int:
    from clew.app.inside_app import InsideNote, read_note, start_command, write_note
    from clew.integrations.inside_setup import apply_changes, inside_program, planned_changes

    program = inside_program(name)
    changes = planned_changes(program, console.environ, undo=undo)
    if not show:
        if not undo:
            known = read_note(console.environ)
            write_note(console.environ, InsideNote(start_command(), known.url, known.token, known.pid))
        changes = apply_changes(program, changes, console.environ, undo=undo)
    needed = [change for change in changes if change.is_change]
    fields = {"program": program.name, "applied": not show, "changes": [_change_json(it) for it in needed]}

    def draw() -> None:
        _print_changes(needed, console, is_applied=not show)
        if not needed:
            console.print(f"{program.title}: {'nothing of Clew is there' if undo else 'set up already'}")
        elif not show:
            ends = "compacts by itself again" if undo else "compacts with Clew"
            console.print(f"{program.title} {ends} from its next start on.")

    return console.show(fields, draw)


def _check_plugin(name: str, console: Console) -> int:
    from clew.app.inside_app import ensure_service
    from clew.integrations.inside_setup import inside_program, is_installed

    program = inside_program(name)
    installed = is_installed(program, console.environ)
    url, problem = "", ""
    try:
        url = ensure_service(console.environ)[0].url
    except InvalidArgument as error:
        problem = str(error)
    fields = {"program": program.name, "installed": installed, "answers": not problem, "problem": problem or None}

    def draw() -> None:
        state = "is installed" if installed else f"is not installed, or of another version: clew setup {program.name}"
        console.print(f"The plugin of {program.title} {state}.")
        console.print(problem or f"Clew answers at {url}.")

    console.show(fields, draw)
    return 0 if installed and not problem else 1


def _print_changes(changes: Sequence[FileChange], console: Console, *, is_applied: bool) -> None:
    """Print the files, and the changed lines of configs."""
    from difflib import unified_diff

    for change in changes:
        verb = "add" if change.before is None else "remove" if change.after is None else "change"
        done = {"add": "added", "remove": "removed", "change": "changed"}[verb]
        console.print(f"{done if is_applied else verb} {change.path}")
        if change.is_config:
            before, after = ((text or "").splitlines() for text in (change.before, change.after))
            difference = list(unified_diff(before, after, lineterm="", n=1))[2:]
            console.print_all(f"  {line}" for line in difference)


def _change_json(change: FileChange) -> dict[str, Any]:
    return {"path": str(change.path), "before": change.before, "after": change.after}


def _run_service(console: Console, undo: bool, check: bool, show: bool) -> int:
    from clew.app.inside_app import ask_service, ensure_service, read_note, stop_service

    url, message = "", "No service answers."
    if undo and not show:
        message = "The service was ended." if stop_service(console.environ) else message
    elif check or show:
        note = read_note(console.environ)
        url = note.url if ask_service(note) is not None else ""
    else:
        url = ensure_service(console.environ)[0].url
    message = f"Clew answers at {url}." if url else message
    console.show({"program": "service", "url": url or None, "message": message}, lambda: console.print(message))
    return 1 if check and not url else 0


def _run_hermes(console: Console, undo: bool, check: bool, show: bool) -> int:
    from clew.integrations.hermes_setup import (
        check_hermes,
        hermes_config_path,
        planned_hermes_change,
        read_hermes_config,
        set_up_hermes,
        undo_hermes_setup,
    )

    folder = hermes_config_path(console.environ).parent
    if not undo and not folder.is_dir() and shutil.which("hermes", path=console.environ.get("PATH")) is None:
        problem = f"there is no Hermes Agent here: neither a folder {folder} nor a program `hermes`"
        raise InvalidArgument(problem, remedy="install it, or name its folder with HERMES_HOME")
    changed: list[str] = []
    planned = None if check else planned_hermes_change(console.environ, undo=undo)
    needed = [planned] if planned is not None and planned.is_change else []
    if check or show:
        config = read_hermes_config(console.environ)
    else:
        config, changed = (undo_hermes_setup if undo else set_up_hermes)(console.environ)
    found = check_hermes(console.environ)
    problems = list(found.problems) if found else []
    if check and found is None:
        problems = [f"{config.path} does not name Clew: clew setup hermes"]
    fields = {
        "program": "hermes",
        "config": str(config.path),
        "changed": changed,
        "changes": [_change_json(change) for change in needed],
        "in_use": config.is_complete and not problems,
        "python": found.python if found else None,
        "problems": problems,
    }

    def draw() -> None:
        _print_changes(needed, console, is_applied=not show)
        if show and not needed:
            console.print(f"{config.path}: nothing to change")
        elif changed:
            console.print(f"{config.path}: {'removed' if undo else 'set'} {' and '.join(changed)}")
        elif not check and not show:
            console.print(f"{config.path}: {'nothing of Clew is in it' if undo else 'both keys are set already'}")
        for problem in problems:
            console.error(problem)
        if not problems and not undo and not show:
            where = f" ({found.python})" if found and found.python else ""
            console.print(f"Hermes folds with Clew from its next start on{where}.")

    console.show(fields, draw)
    return 1 if problems else 0
