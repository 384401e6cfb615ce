"""Rows that were set aside, with their bytes."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clew.cli.console import Console
from clew.cli.views.amounts import format_time, iso_time
from clew.cli.views.text import printable

if TYPE_CHECKING:
    from clew.store import QuarantinedRow


def print_quarantined(found: Sequence[QuarantinedRow], label: str, console: Console) -> None:
    if not found:
        console.print(f"Nothing was set aside in {printable(label)}.")
    for row in found:
        console.print(console.style(printable(f"{row.what}: {row.problem}"), "bold"))
        console.print(f"set aside {format_time(row.at)}, {len(row.body):,} bytes:")
        for line in row.body.decode(errors="replace").splitlines():
            console.print(f"  {printable(line)}")


def quarantined_json(row: QuarantinedRow) -> dict[str, Any]:
    return {
        "kind": row.kind,
        "what": row.what,
        "message": row.seq,
        "problem": row.problem,
        "at": iso_time(row.at),
        "text": row.body.decode(errors="replace"),
        "bytes_base64": base64.b64encode(row.body).decode(),
    }
