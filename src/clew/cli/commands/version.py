"""`clew version`: the version; with `--json` also what it runs on, for reports of problems."""

from __future__ import annotations

import argparse
import platform
import sys

from clew import __version__
from clew.cli.console import Console


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON, with Python, the system and the extras")


def run(arguments: argparse.Namespace, console: Console) -> int:
    if not arguments.json:
        console.print(f"clew {__version__}")
        return 0
    from clew.install import EXTRAS, has_extra, source_folder

    folder = source_folder()
    console.print_json(
        {
            "version": __version__,
            "python": platform.python_version(),
            "executable": sys.executable,
            "system": f"{platform.system()} {platform.machine()}",
            "installed_from": None if folder is None else str(folder),
            "extras": {name: has_extra(name) for name in EXTRAS},
        }
    )
    return 0
