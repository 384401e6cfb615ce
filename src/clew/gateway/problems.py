"""What goes wrong with a hosted conversation, as an answer: a status, a kind for programs, what to do for people."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from clew.errors import (
    ClewError,
    ContextExhausted,
    DatabaseBusy,
    DatabaseFull,
    InUse,
    InvalidArgument,
    InvalidMessage,
    LeaseLost,
    ProviderRefused,
    ReadOnlyStore,
    StaleHistory,
    StaleView,
    StoreError,
    UnknownSession,
)
from clew.gateway.callers import Refusal
from clew.providers import ErrorKind, explain_refusal

_KINDS = {
    400: "bad_request",
    401: "auth",
    402: "quota",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    409: "conflict",
    413: "payload_too_large",
    415: "unsupported_media_type",
    429: "rate_limit",
}
_STATUS_OF_FAULT = {"rate_limit": 429, "overloaded": 503, "quota": 402, "bad_request": 400}
_REMEDIES = {
    400: "See /clew/openapi.json for what a call takes.",
    401: "Send a key in Authorization: Bearer, x-api-key or x-goog-api-key.",
    402: "Raise the budget of the key, or take another one.",
    403: "Call the gateway by a name of its own.",
    404: "GET /clew/conversations lists those there are.",
    413: "Send less at once.",
    429: "Wait, as Retry-After says, and try again.",
}
_UPSTREAM_REMEDIES: Mapping[ErrorKind, str] = {
    "bad_request": "Check the name of the model: GET /v1/models lists those of the upstream.",
    "network": "The question is kept; send it again.",
}
_BUSY_SECONDS = 2


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a call is not served."""

    status: int
    kind: str
    message: str
    remedy: str
    headers: Mapping[str, str] = field(default_factory=dict)

    def as_plain(self) -> dict[str, Any]:
        return {"error": {"message": self.message, "kind": self.kind, "remedy": self.remedy}}


class Refused(Refusal):
    """A call of the hosted conversations that is not served, with its kind and what to do."""

    def __init__(
        self, status: int, message: str, remedy: str = "", *, kind: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status, message, headers)
        self.remedy = remedy
        self.kind = kind


def no_conversation(id: str) -> Refused:
    """The same words for one that never was and for one of somebody else."""
    return Refused(404, f"there is no conversation {id[:100]!r}")


def problem_of(error: Refusal | ClewError, *, is_own_credential: bool = False) -> Problem:
    """An error as the answer to a call. `is_own_credential`: the upstream was asked with the caller's own."""
    if isinstance(error, Refusal):
        named = error if isinstance(error, Refused) else None
        return _problem(error.status, str(error), *(named.kind, named.remedy) if named else ("", ""), error.headers)
    if isinstance(error, ProviderRefused):
        return _provider_problem(error, is_own_credential=is_own_credential)
    if isinstance(error, ContextExhausted):
        what = f"the request does not fit the window; large are {', '.join(error.large)}"
        remedy = "Use a model with a larger window, begin afresh, or make smaller what is large."
        return _problem(413, what, "prompt_too_long", remedy)
    return _store_problem(error)


def _provider_problem(error: ProviderRefused, *, is_own_credential: bool) -> Problem:
    kind, wait = error.fault.kind, error.fault.retry_after
    if kind == "auth" and is_own_credential:
        return _problem(401, "the upstream does not take this credential", "auth", "Send one that it takes.")
    if kind == "auth":
        what = "the upstream does not take the credential of this gateway"
        return _problem(502, what, "upstream_auth", "Whoever runs the gateway has to set model.api_key_env.")
    told = explain_refusal(error, remedies=_UPSTREAM_REMEDIES)
    status = _STATUS_OF_FAULT.get(kind, 502)
    headers = {"Retry-After": str(max(1, math.ceil(wait)))} if wait is not None and wait < 86_400 * 365 else {}
    return Problem(status, kind, told.text, told.remedy, headers)


def _store_problem(error: ClewError) -> Problem:
    text = str(error)
    match error:
        case UnknownSession():
            return problem_of(no_conversation(error.session))
        case InUse():
            return _problem(409, text, "in_use", "Delete its branches first.")
        case StaleView() | StaleHistory() | LeaseLost():
            return _problem(409, "another process has changed the conversation meanwhile", "", "Try again.")
        case DatabaseBusy():
            wait = {"Retry-After": str(_BUSY_SECONDS)}
            return _problem(503, "the store is busy", "overloaded", "Try again in a moment.", wait)
        case DatabaseFull() | ReadOnlyStore():
            return _problem(503, text, "store", "Whoever runs the gateway has to make room, or give it the right.")
        case StoreError():
            return _problem(500, text, "store", "Whoever runs the gateway can see more with `clew doctor`.")
        case InvalidArgument() | InvalidMessage():
            return _problem(400, text)
        case _:
            return _problem(500, text, "other", "Try again; if it stays, tell whoever runs the gateway.")


def _problem(
    status: int, message: str, kind: str = "", remedy: str = "", headers: Mapping[str, str] | None = None
) -> Problem:
    return Problem(
        status,
        kind or _KINDS.get(status, "other"),
        message,
        remedy or _REMEDIES.get(status, "Try again."),
        headers or {},
    )


INTERNAL = Problem(
    500, "internal", "something failed inside the gateway", "Try again; if it stays, tell whoever runs the gateway."
)
