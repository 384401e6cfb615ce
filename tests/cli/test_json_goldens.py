"""What `--json` prints is an interface: the output of every reading command is compared with a stored file.

After an intended change: CLEW_WRITE_GOLDENS=1 python -m pytest tests/cli/test_json_goldens.py, then read the diff.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from clew.cli import main
from tests.cli.conftest import Kept

GOLDEN = Path(__file__).parent / "golden"
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "session.json"
WHOLE = {
    "sessions list": "sessions list",
    "sessions list all": "sessions list --all",
    "sessions show": "sessions show clock-2",
    "sessions show view": "sessions show clock-2 --view",
    "sessions show all": "sessions show clock-1 --all --full",
    "sessions tree": "sessions tree clock-1",
    "sessions tree nodes": "sessions tree clock-1 --nodes",
    "sessions state": "sessions state clock-2",
    "open several": "open clock-1 m0-m3",
    "usage of one": "usage clock-1",
    "usage by source": "usage --by source --by provider",
    "doctor quarantined": "doctor --quarantined",
    "config path": "config path",
    "config check": "config check",
    "models show": "models show claude-sonnet-4-5",
    "plugins show check": "plugins show compressor --check",
    "serve show": "serve --show codex",
    "export": "export clock-1",
    "export anthropic": "export clock-1 --as anthropic",
    "export responses view": "export clock-1 --as responses --view",
    "usage": "usage",
    "usage by day": "usage --by day",
    "insights": "insights --since 2026-01-01 --until 2026-12-31",
    "plugins list": "plugins list",
    "plugins show": "plugins show compressor",
    "config show": "config show compression",
    "keys list": "keys list",
    "vectors off": "vectors --off",
}
"""Commands over the conversations of `conftest`: every value is compared."""
SHAPES = {
    "compress": f"compress {EXAMPLE} --to 10000",
    "compress preview": f"compress {EXAMPLE} --preview",
    "context": f"context {EXAMPLE}",
    "import": f"import {EXAMPLE} --dry-run",
    "compress map": f"compress {EXAMPLE} --engine lcm --window 50k",
    "audit": f"audit {EXAMPLE}",
    "search": "search clock",
    "search filters": "search clock --conversation clock-1 --role user",
    "init": "init",
    "mcp show": "mcp --show all",
    "setup undo": "setup hermes --undo",
    "help": "help sessions show",
    "completion": "completion bash",
    "open": "open clock-1 m2",
    "doctor": "doctor",
    "models list": "models list",
    "version": "version",
}
"""Commands whose values depend on handoffs, ranking or the machine: names and types are compared."""


@pytest.mark.parametrize("name", WHOLE)
def test_the_json_of_a_reading_command_is_as_stored(name: str, kept: Kept) -> None:
    compare(name, stable(kept.json(*WHOLE[name].split()), kept.home))


@pytest.mark.parametrize("name", SHAPES)
def test_the_json_of_other_commands_has_the_stored_fields(name: str, kept: Kept) -> None:
    found = kept.json(*SHAPES[name].split())
    if (
        name.startswith("compress") and "handoff" in found
    ):  # which sections a handoff has, and which messages stay, is the engine's affair
        found |= {field: type(found[field]).__name__ for field in ("handoff", "messages", "fates")}
    compare(name, shape(found))


def compare(name: str, found: Any) -> None:
    path = GOLDEN / f"{name.replace(' ', '_')}.json"
    written = json.dumps(found, indent=1, ensure_ascii=False, sort_keys=False) + "\n"
    if os.environ.get("CLEW_WRITE_GOLDENS"):
        path.write_text(written, encoding="utf-8")
    assert written == path.read_text(encoding="utf-8"), f"{path.name}: see the docstring of this file"


def stable(found: Any, home: Path) -> Any:
    """The output with the home's path and every time replaced by a name."""
    text = json.dumps(found).replace(json.dumps(str(home))[1:-1], "HOME").replace(str(Path.home()), "PERSON")
    return json.loads(re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?", "TIME", text))


def shape(value: Any) -> Any:
    """Names of fields with the types of their values; of a list, the shapes that occur in it."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    if isinstance(value, list):
        shapes = {json.dumps(shape(inner)): shape(inner) for inner in value}
        return [shapes[written] for written in sorted(shapes)]
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def test_every_command_that_prints_json_is_frozen_or_changes_something(capsys: pytest.CaptureFixture[str]) -> None:
    """A new command has to be added above, or here: these serve or ask a model."""
    others = {"chat", "wrap", "dashboard"}
    main(["--help"], {})
    listed = set(re.findall(r"^  ([a-z]+) {2,}", capsys.readouterr().out, re.MULTILINE))
    assert len(listed) > 15
    assert listed - others == {words.split()[0] for words in (*WHOLE.values(), *SHAPES.values())}
