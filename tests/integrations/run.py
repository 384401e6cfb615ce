"""Adapters inside the real packages: `python tests/integrations/run.py [NAME ...]`, or `./check integrations`.

Each row of environments.toml gets an environment of its own below a folder (`CLEW_INTEGRATIONS`, else .integrations
here), made where it is not there yet or its requirements changed. Arguments behind `--` go to pytest.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
FOLDER = Path(os.environ.get("CLEW_INTEGRATIONS") or ROOT / ".integrations")
OF_EVERY_ENVIRONMENT = ("pytest>=8.3", "pytest-asyncio>=0.24")
# Warnings of a framework are not ours to fix, and nothing runs beside these tests.
PYTEST = (
    *("-q", "--show-capture=no", "-o", "addopts=", "-o", "filterwarnings=default"),
    *("-p", "no:cacheprovider", "--import-mode=importlib"),
)


@dataclass(frozen=True, slots=True)
class FrameworkEnvironment:
    """A framework, what it is installed from, and the tests that run inside it."""

    name: str
    requirements: tuple[str, ...]
    tests: tuple[str, ...]

    @property
    def python(self) -> Path:
        scripts = "Scripts" if os.name == "nt" else "bin"
        return FOLDER / self.name / scripts / "python"

    def install(self) -> None:
        """Make the environment, unless the one that is there was made from these requirements."""
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        ours = [*project["dependencies"], json.dumps(project["entry-points"])]
        wanted = "\n".join([*OF_EVERY_ENVIRONMENT, *self.requirements, *ours])
        made_from = FOLDER / self.name / "made-from.txt"
        if made_from.exists() and made_from.read_text("utf-8") == wanted:
            return
        subprocess.run([sys.executable, "-m", "venv", str(FOLDER / self.name)], check=True)
        needed = [*OF_EVERY_ENVIRONMENT, *self.requirements, "-e", str(ROOT)]
        subprocess.run([str(self.python), "-m", "pip", "install", "-q", *needed], check=True, stdout=sys.stderr)
        made_from.write_text(wanted, "utf-8")

    def run(self, arguments: list[str]) -> bool:
        """Run its tests in it; True where all passed."""
        files = [str(HERE / test) for test in self.tests]
        # The environment holds an editable install of one clone; the tests are of the clone that they stand in.
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
        command = [str(self.python), "-m", "pytest", *PYTEST, f"--confcutdir={HERE}", *files, *arguments]
        return subprocess.run(command, cwd=ROOT, env=environ).returncode == 0


def environments() -> dict[str, FrameworkEnvironment]:
    rows = tomllib.loads((HERE / "environments.toml").read_text("utf-8"))
    return {
        name: FrameworkEnvironment(name, tuple(row["requirements"]), tuple(row["tests"])) for name, row in rows.items()
    }


def tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description="Run each adapter inside the real package, before a mock upstream.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these")
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    given = parser.parse_args(words[:end])
    known = environments()
    if unknown := set(given.names) - known.keys():
        parser.error(f"no environment {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    failed = []
    for name in given.names or known:
        started = time.monotonic()
        known[name].install()
        passed = known[name].run(words[end + 1 :])
        tell(f"{'ok  ' if passed else 'FAIL'} {name}, {time.monotonic() - started:.0f} s")
        failed += [] if passed else [name]
    tell(f"{len(given.names or known) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
