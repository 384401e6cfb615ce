"""Those who watch a gateway: what they are told, and the log that writes a line for each request.

An observer gets figures and names, and never a message, a header or a query. One that fails is logged, and stops
nothing.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, TextIO

from clew.events import CompactionFinished, Event
from clew.gateway.connections import where_it_failed
from clew.gateway.records import ExchangeRecord
from clew.redact import redact_text

LOG_FORMATS = ("text", "json", "none")
# A client names its model: more than a name would be a text.
_MODEL = re.compile(r"[A-Za-z0-9_.:/@+\-]{1,100}")
_MAX_WORDS = 300

_log = logging.getLogger("clew.gateway")


class GatewayObserver:
    """Told of what happens in a gateway. Each method does nothing unless it is overridden."""

    def began(self) -> None:
        """A request for a model has come: what is told in its task, and in tasks begun there, belongs to it."""

    def exchange(self, record: ExchangeRecord) -> None:
        """A request for a model has ended."""

    def refused(self, status: int, wire: str) -> None:
        """A request was refused by the gateway itself."""

    def sent(self, response_bytes: int) -> None:
        """A response has gone out."""

    def event(self, event: Event) -> None:
        """Something happened in a conversation."""


class Observers(GatewayObserver):
    """Several observers as one."""

    def __init__(self, observers: Iterable[GatewayObserver] = ()) -> None:
        self._observers = tuple(observers)

    def began(self) -> None:
        self._tell("began")

    def exchange(self, record: ExchangeRecord) -> None:
        self._tell("exchange", record)

    def refused(self, status: int, wire: str) -> None:
        self._tell("refused", status, wire)

    def sent(self, response_bytes: int) -> None:
        self._tell("sent", response_bytes)

    def event(self, event: Event) -> None:
        self._tell("event", event)

    def _tell(self, what: str, *details: Any) -> None:
        for observer in self._observers:
            try:
                getattr(observer, what)(*details)
            except Exception as problem:
                # An observer is a listener: whatever fails in it must not stop a request.
                _log.error("%s failed: %s", type(observer).__name__, where_it_failed(problem))


def model_label(model: str) -> str:
    """The model that a client named, where that is a name."""
    return model if _MODEL.fullmatch(model) else "other" if model else ""


# -- the log -----------------------------------------------------------------------------------------------------------


class ExchangeLog(GatewayObserver):
    """Writes one line for each request: JSON, or for people."""

    def __init__(self, out: TextIO, *, is_json: bool) -> None:
        self._out = out
        self._is_json = is_json

    def exchange(self, record: ExchangeRecord) -> None:
        figures = exchange_figures(record)
        self._write("exchange", figures, _exchange_words(figures))

    def refused(self, status: int, wire: str) -> None:
        self._write("refused", {"status": status, "wire": wire}, f"{status} {wire} refused")

    def event(self, event: Event) -> None:
        if not isinstance(event, CompactionFinished) or event.continued_as is None:
            return
        figures = {
            "session": event.session,
            "continued_as": event.continued_as,
            "tokens_before": event.tokens_before,
            "tokens_after": event.tokens_after,
            "written_by": event.written_by,
        }
        words = f"folded {event.tokens_before:,} -> {event.tokens_after:,} tokens, session {event.session}"
        self._write("fold", figures, words)

    def _write(self, event: str, figures: dict[str, Any], words: str) -> None:
        now = datetime.now(UTC)
        if self._is_json:
            line = json.dumps({"time": now.isoformat(timespec="milliseconds"), "event": event, **figures})
        else:
            line = f"{now.astimezone():%H:%M:%S} {words}"
        self._out.write(line + "\n")
        self._out.flush()


def exchange_figures(record: ExchangeRecord) -> dict[str, Any]:
    """All that is told of a request, as plain values; what is not known is left out."""
    usage = record.usage
    figures = {
        "wire": record.wire,
        "action": record.action,
        "client": record.client or "other",
        "mode": record.mode,
        "model": model_label(record.model),
        "status": record.status,
        "ms": round(record.seconds * 1_000, 1),
        "request_bytes": record.request_bytes,
        "session": record.session,
        "folded": record.is_folded,
        "fallback": record.is_fallback,
        "recovered": record.recovered,
        "input_tokens": usage.prompt_tokens if usage else None,
        "output_tokens": usage.output_tokens if usage else None,
        "cache_read_tokens": usage.cache_read_tokens if usage else None,
        "cache_write_tokens": usage.cache_write_tokens if usage else None,
        "cost_micros": record.cost_micros,
    }
    return {name: value for name, value in figures.items() if value is not None}


def _exchange_words(figures: dict[str, Any]) -> str:
    client = "unknown client" if figures["client"] == "other" else figures["client"]
    words = [f"{figures['status']} {figures['wire']} {figures['action']}", client, figures["model"] or "no model"]
    words.append(f"{figures['ms'] / 1_000:.2f} s")
    if "input_tokens" in figures:
        words.append(f"{figures['input_tokens']:,} in ({figures['cache_read_tokens']:,} cached)")
        words.append(f"{figures['output_tokens']:,} out")
    words += [name for name in ("folded", "fallback", "recovered") if figures[name]]
    return ", ".join(words)


class GatewayLogFormatter(logging.Formatter):
    """Lines of Python's logging for the same stream: what failed and where, never the words of an exception."""

    def __init__(self, *, is_json: bool) -> None:
        super().__init__()
        self._is_json = is_json

    def format(self, record: logging.LogRecord) -> str:
        # The first line: asyncio and aiohttp quote in the next ones what they had in hand.
        words = redact_text(record.getMessage().partition("\n")[0][:_MAX_WORDS])
        problem = record.exc_info[1] if record.exc_info else None
        if problem is not None:
            words += f" ({where_it_failed(problem)})"
        now = datetime.fromtimestamp(record.created, UTC)
        if not self._is_json:
            return f"{now.astimezone():%H:%M:%S} {record.levelname.lower()}: {words}"
        told = {"time": now.isoformat(timespec="milliseconds"), "event": "log", "level": record.levelname.lower()}
        return json.dumps({**told, "logger": record.name, "message": words})
