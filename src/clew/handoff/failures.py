"""The kinds of failure of a model that summarises: how each is described, how often retried, how long it cools down.

Also translates the exception of any SDK or HTTP client into one of the kinds. No model and no clock is known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clew.errors import SummaryFailed
from clew.facts import shorten
from clew.redact import redact_text

_SHORT_SECONDS = 60.0
_LONG_SECONDS = 600.0
_DETAIL_CHARS = 360


@dataclass(frozen=True, slots=True)
class FailureKind:
    """A kind of failure: how often it is retried, and how long the model cools down after it."""

    kind: str
    retries: int
    cooldown_seconds: float
    description: str
    """What the model did, for people: `fast-model` + description."""


_TABLE = (
    FailureKind("rate_limit", 2, _SHORT_SECONDS, "is rate limited"),
    FailureKind("overloaded", 2, _SHORT_SECONDS, "is overloaded or failed on its side"),
    FailureKind("network", 2, _SHORT_SECONDS, "could not be reached or broke off"),
    FailureKind("timeout", 1, _SHORT_SECONDS, "did not answer in time"),
    FailureKind("auth", 0, _LONG_SECONDS, "refused the credentials"),
    FailureKind("quota", 0, _LONG_SECONDS, "has no credit or quota left"),
    FailureKind("bad_request", 0, _LONG_SECONDS, "refused the request (is the model's name right?)"),
    FailureKind("prompt_too_long", 0, _SHORT_SECONDS, "said that even a smaller prompt was too long"),
    FailureKind("payload_too_large", 0, _SHORT_SECONDS, "said that even a smaller prompt was too large"),
    FailureKind("output_cap_too_large", 0, _SHORT_SECONDS, "refused the length that was asked for"),
    FailureKind("other", 1, _SHORT_SECONDS, "failed"),
    # The next ones are about the reply.
    FailureKind("empty", 1, _SHORT_SECONDS, "wrote nothing"),
    FailureKind("thoughts_only", 1, _SHORT_SECONDS, "only thought aloud and wrote no handoff"),
    FailureKind("garbage", 1, _SHORT_SECONDS, "wrote something that is no handoff"),
    FailureKind("repetition", 1, _SHORT_SECONDS, "repeated itself over and over"),
    FailureKind("cut", 0, _SHORT_SECONDS, "was cut off before it had written a handoff"),
    FailureKind("called_tool", 0, _SHORT_SECONDS, "called a tool instead of writing"),
    FailureKind("unfounded", 0, _SHORT_SECONDS, "wrote mostly what the conversation does not show"),
    # These are no fault of the model.
    FailureKind("window_too_small", 0, 0.0, "has too small a window for this"),
    FailureKind("coverage", 0, 0.0, "was not given every message"),
    FailureKind("no_room", 0, 0.0, "wrote more than fits beside what must be kept"),
)
_BY_KIND = {row.kind: row for row in _TABLE}
# About the line to the model: asking in another way meets the same failure.
_WHATEVER_IS_ASKED = frozenset({"rate_limit", "overloaded", "network", "timeout", "auth", "quota"})

# Another try may give a better reply where the model reads what was wrong with the last one.
_ABOUT_REPLY = frozenset({"empty", "thoughts_only", "garbage", "repetition"})

_TIMEOUT_WORDS = ("timeout", "deadline", "timed out")


def failure_kind_of(failure: SummaryFailed) -> FailureKind:
    return _BY_KIND.get(failure.kind, _BY_KIND["other"])


def is_about_request(failure: SummaryFailed) -> bool:
    """Whether the same model may do better when it is asked in another way."""
    return failure.kind not in _WHATEVER_IS_ASKED


def is_about_reply(failure: SummaryFailed) -> bool:
    """Whether the model replied, but with no handoff."""
    return failure.kind in _ABOUT_REPLY


def describe_failure(failure: SummaryFailed) -> str:
    """The failure in words for people, without secrets."""
    description = failure_kind_of(failure).description
    detail = shorten(redact_text(failure.problem), _DETAIL_CHARS)
    return f"{description} ({detail})" if detail else description


def translate_error(error: Exception) -> SummaryFailed:
    """An exception of any SDK or HTTP client as a failure, by the attributes that such exceptions have."""
    # Imported only where something failed, since the table of errors is large.
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
    problem = " ".join(str(part) for part in (status, type(error).__name__, str(error)) if part)
    return SummaryFailed(
        redact_text(problem),
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
        if isinstance(current, TimeoutError) or any(word in words for word in _TIMEOUT_WORDS):
            return True
        current, seen = current.__cause__ or current.__context__, seen + 1
    return status in (408, 504)
