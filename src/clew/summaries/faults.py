"""What can go wrong when a model summarises: how often each fault is tried again, how long the model rests after it.

One row per kind, and the translation of a foreign exception into one of them. Knows no model and no clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clew.errors import SummaryFailed
from clew.ledger import shorten
from clew.redact import redact_text

SHORT_REST_SECONDS = 60.0
LONG_REST_SECONDS = 600.0
_WORDS_CHARS = 160


@dataclass(frozen=True, slots=True)
class Fault:
    """A kind of failure."""

    kind: str
    retries: int
    rest_seconds: float
    words: str
    """What happened, said of the model: `fast-model` + words."""


_TABLE = (
    Fault("rate_limit", 2, SHORT_REST_SECONDS, "is rate limited"),
    Fault("overloaded", 2, SHORT_REST_SECONDS, "is overloaded or failed on its side"),
    Fault("network", 2, SHORT_REST_SECONDS, "could not be reached or broke off"),
    Fault("timeout", 1, SHORT_REST_SECONDS, "did not answer in time"),
    Fault("auth", 0, LONG_REST_SECONDS, "refused the credentials"),
    Fault("quota", 0, LONG_REST_SECONDS, "has no credit or quota left"),
    Fault("bad_request", 0, LONG_REST_SECONDS, "refused the request (is the model's name right?)"),
    Fault("prompt_too_long", 0, SHORT_REST_SECONDS, "said that even a smaller prompt was too long"),
    Fault("payload_too_large", 0, SHORT_REST_SECONDS, "said that even a smaller prompt was too large"),
    Fault("output_cap_too_large", 0, SHORT_REST_SECONDS, "refused the length that was asked for"),
    Fault("other", 1, SHORT_REST_SECONDS, "failed"),
    # The next ones are about the text that came. Another try may well give another text.
    Fault("empty", 1, SHORT_REST_SECONDS, "wrote nothing"),
    Fault("thoughts_only", 1, SHORT_REST_SECONDS, "only thought aloud and wrote no handoff"),
    Fault("garbage", 1, SHORT_REST_SECONDS, "wrote something that is no handoff"),
    Fault("repetition", 1, SHORT_REST_SECONDS, "repeated itself over and over"),
    Fault("cut", 0, SHORT_REST_SECONDS, "was cut off before it had written a handoff"),
    Fault("unfounded", 0, SHORT_REST_SECONDS, "wrote mostly what the conversation does not show"),
    # These are about us, and say nothing against the model.
    Fault("window_too_small", 0, 0.0, "has too small a window for this"),
    Fault("coverage", 0, 0.0, "was not given every message"),
    Fault("no_room", 0, 0.0, "wrote more than fits beside what must be kept"),
)
_BY_KIND = {fault.kind: fault for fault in _TABLE}

_TIMEOUT_NAMES = ("timeout", "deadline")


def fault_of(failure: SummaryFailed) -> Fault:
    return _BY_KIND.get(failure.kind, _BY_KIND["other"])


def described(failure: SummaryFailed) -> str:
    """The failure in words for people, without secrets."""
    detail = shorten(redact_text(failure.problem), _WORDS_CHARS)
    return f"{fault_of(failure).words} ({detail})" if detail else fault_of(failure).words


def translated(error: Exception) -> SummaryFailed:
    """A foreign exception as the failure it means, by the attributes that SDKs and HTTP clients give theirs."""
    # Only where something failed: the table of errors is large, and most who come here never see one.
    from clew.providers import classify_error

    response = _field(error, "response")
    status = _status(error) or _status(response)
    body = _field(error, "body") or _field(response, "text") or error
    headers = _field(response, "headers") or _field(error, "headers")
    found = classify_error(status, body, headers=_as_mapping(headers))
    if found.kind == "other" and body is not error:
        found = classify_error(status, error)
    kind = "timeout" if found.kind in ("network", "other") and _is_timeout(error, status) else found.kind
    if kind == "other" and isinstance(error, OSError):
        kind = "network"
    said = " ".join(str(part) for part in (status, type(error).__name__, str(error)) if part)
    return SummaryFailed(
        redact_text(said),
        kind=kind,
        retry_after=found.retry_after,
        limit=found.limit,
        available_output=found.available_output,
    )


def _field(owner: object, name: str) -> Any:
    try:
        return getattr(owner, name, None)
    except (RuntimeError, ValueError):
        # Some clients raise when a streamed body is asked for before it was read.
        return None


def _status(owner: object) -> int | None:
    for name in ("status_code", "status", "http_status", "code"):
        value = _field(owner, name)
        if isinstance(value, int) and 100 <= value < 600:
            return value
    return None


def _as_mapping(headers: object) -> Mapping[str, str] | None:
    if isinstance(headers, Mapping):
        return {str(name): str(value) for name, value in headers.items()}
    return None


def _is_timeout(error: BaseException, status: int | None) -> bool:
    seen = 0
    current: BaseException | None = error
    while current is not None and seen < 8:
        words = f"{type(current).__name__} {current}".lower()
        if isinstance(current, TimeoutError) or any(name in words for name in (*_TIMEOUT_NAMES, "timed out")):
            return True
        current, seen = current.__cause__ or current.__context__, seen + 1
    return status in (408, 504)
