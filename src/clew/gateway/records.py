"""What came of each request, for metrics, logs and pages that listen; and the modes there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from clew.usage import CanonicalUsage

Mode: TypeAlias = Literal["observe", "spill", "compact"]
MODES: tuple[Mode, ...] = ("observe", "spill", "compact")


@dataclass(frozen=True, slots=True)
class ExchangeRecord:
    """What came of a request, for metrics and logs: figures and names, no text."""

    wire: str
    action: str
    client: str
    mode: str
    model: str
    status: int
    seconds: float
    request_bytes: int
    session: str | None = None
    is_folded: bool = False
    """Whether a shorter history went on than came."""
    is_fallback: bool = False
    """Whether something failed here, so that the client's bytes went on."""
    recovered: int = 0
    """Overflows that the client has not seen."""
    usage: CanonicalUsage | None = None
    cost_micros: int | None = None
