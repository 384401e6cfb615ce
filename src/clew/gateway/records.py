"""What is known of a request while it is under way, and what came of it, for metrics, logs and pages that listen."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from aiohttp import web

from clew.gateway.callers import Caller
from clew.gateway.clients import ClientProgram
from clew.gateway.conversations import OpenConversation, UpstreamRequest
from clew.gateway.wires import WirePath, WireRequest
from clew.store import View
from clew.turn import Conversation, Recovery, TakenHistory
from clew.usage import CanonicalUsage

Mode: TypeAlias = Literal["observe", "spill", "compact"]
MODES: tuple[Mode, ...] = ("observe", "spill", "compact")
HandoffWriter: TypeAlias = Literal["model", "built-in"]
HANDOFF_WRITERS: tuple[HandoffWriter, ...] = ("model", "built-in")


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


@dataclass(slots=True)
class GatewayExchange:
    """What is known of a request while it is under way."""

    http: web.Request
    path: WirePath
    caller: Caller
    raw: bytes
    client: ClientProgram
    mode: Mode
    handoffs: HandoffWriter = "model"
    started: float = field(default_factory=time.monotonic)
    model: str = ""
    host: str = ""
    """Of the upstream that is asked."""
    request: WireRequest | None = None
    taken: TakenHistory | None = None
    """The history that the reply belongs behind."""
    opened: OpenConversation | None = None
    conversation: Conversation | None = None
    recovery: Recovery | None = None
    is_folded: bool = False
    is_fallback: bool = False
    drops_thinking: bool = False
    """Whether thoughts from before the newest fold are left out."""
    drops_all_thinking: bool = False
    shown: tuple[View, int] | None = None
    """The view that the request was made of, and how many of its messages go on."""
    sent: UpstreamRequest | None = None
    status: int = 0
    usage: CanonicalUsage | None = None
    cost_micros: int | None = None
    writing: asyncio.Task[None] | None = None
    """Keeps what came, while the upstream is asked."""
    recording: asyncio.Task[None] | None = None
    """Keeps the reply, while its end is still passed to the client."""

    def record(self) -> ExchangeRecord:
        return ExchangeRecord(
            self.path.wire.name,
            self.path.action,
            self.client.name,
            self.mode,
            self.model,
            self.status,
            time.monotonic() - self.started,
            len(self.raw),
            self.opened.view.session if self.opened else None,
            self.is_folded,
            self.is_fallback,
            len(self.recovery.tried) if self.recovery else 0,
            self.usage,
            self.cost_micros,
        )
