"""What the mock upstream's script is made of, and what it keeps of each request."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from clew.handoff.prompt import EXTEND, template_text
from clew.testing.upstream_rules import listed_messages
from clew.testing.upstream_wires import CHAT, GEMINI, MESSAGES, RESPONSES, Event, UpstreamAnswer

_INSTRUCTION = json.dumps(template_text(EXTEND).partition("]")[0])[1:-1]


@dataclass(frozen=True, slots=True)
class StreamedAnswer:
    """An answer whose stream is sent in an unusual way, or breaks. Counts are of events."""

    answer: UpstreamAnswer
    cut_after: int | None = None
    """The connection is closed after so many events."""
    stall_after: int | None = None
    """After so many events nothing more is sent, until the client hangs up."""
    keep_alives_after: int | None = None
    """After so many events only `keep_alive` is sent, again and again, until the client hangs up."""
    keep_alive: bytes = b": keep-alive\n\n"
    error_after: int | None = None
    error: Event = ("", "")
    """Sent after so many events, and then the stream ends."""
    chunk_bytes: int | None = None
    """The bytes go out in chunks of this size, wherever that cuts a line or a character."""
    line_end: str = "\n"
    comments: bool = False
    """A keep-alive comment before every event."""
    first_delay: float = 0.0
    """Seconds before the first event."""
    event_delay: float = 0.0
    """Seconds between two events."""


@dataclass(frozen=True, slots=True)
class UpstreamFault:
    """A refusal with a status."""

    status: int
    body: Any = None
    """JSON, or a text as it is; None: the words of the wire's provider for this status."""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """Given bytes, piece by piece, with status 200."""

    pieces: Sequence[bytes]
    content_type: str = "text/event-stream"


@dataclass(frozen=True, slots=True)
class HangUp:
    """The connection is closed before the first byte of the answer."""


Step: TypeAlias = UpstreamAnswer | StreamedAnswer | UpstreamFault | RawAnswer | HangUp


@dataclass(slots=True)
class ReceivedRequest:
    """A request as it arrived."""

    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: dict[str, Any]
    """The parsed JSON; empty if it is none."""
    peer: object = None
    """The other end of the connection: the same for requests over one connection."""
    raw: bytes = field(default=b"", repr=False)
    """The body as received."""
    method: str = "POST"
    query: str = ""
    status: int = 0
    """The status of the answer; 0 before it."""

    @property
    def wire(self) -> str:
        """The wire of a call of the model: chat/completions, responses, messages or gemini; "" for anything else."""
        if self.path.rpartition(":")[2] in ("generateContent", "streamGenerateContent"):
            return GEMINI
        if self.path.endswith((":rawPredict", ":streamRawPredict", "/invoke", "/invoke-with-response-stream")):
            return "" if self.path.endswith("/count-tokens:rawPredict") else MESSAGES
        return next((name for name in (CHAT, RESPONSES, MESSAGES) if self.path.endswith(f"/{name}")), "")

    @property
    def is_framed(self) -> bool:
        """Whether its reply is a stream in Amazon's binary frames."""
        return self.path.endswith("/invoke-with-response-stream")

    @property
    def is_streamed(self) -> bool:
        if self.wire == GEMINI or self.is_framed:
            return self.is_framed or self.path.endswith(":streamGenerateContent")
        return bool(self.body.get("stream"))

    @property
    def asks_for_handoff(self) -> bool:
        """Whether the gateway asks the model for a handoff by it."""
        newest = listed_messages(self.body)[-1:]
        return bool(newest) and newest[0].get("role") == "user" and _INSTRUCTION in json.dumps(newest)

    def summary(self) -> dict[str, Any]:
        """Its fields for a journal."""
        kept = ("method", "path", "query", "status", "headers", "body")
        return {name: getattr(self, name) for name in kept}


Answers: TypeAlias = Callable[[ReceivedRequest], Step]
