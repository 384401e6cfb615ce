"""What went wrong, in one paragraph with what to do about it. The table is data: one line per kind of refusal."""

from __future__ import annotations

import json

from clew.errors import ClewError, StoreError
from clew.providers import ErrorKind, ProviderRefused

REMEDIES: dict[ErrorKind, str] = {
    "auth": "Check the key: the environment variable of the provider, or model.api_key_env in the config.",
    "quota": "The account has nothing left to spend; see to it at the provider, or take another model with /model.",
    "rate_limit": "Wait a little and ask again; what you asked is kept.",
    "overloaded": "The provider is busy or down; ask again in a while, or take another model with /model.",
    "network": "The line broke or nobody answered; check the address and the connection, then ask again.",
    "bad_request": "Check the name of the model and the address: `clew config show` tells both.",
    "prompt_too_long": "/compress makes it smaller; /new starts afresh.",
    "payload_too_large": "/compress makes it smaller; /new starts afresh.",
    "output_cap_too_large": "Set agent.max_tokens lower.",
    "other": "Ask again; if it stays, /model takes another one.",
}


def explained(problem: ClewError) -> str:
    """The problem and the remedy, for a person."""
    if isinstance(problem, ProviderRefused):
        kept = " What came is kept." if problem.partial is not None else ""
        return f"{_words(problem)}{kept} {remedy(problem)}"
    if isinstance(problem, StoreError):
        return f"{problem} The conversation is as it was stored last; `clew doctor` checks the database."
    return str(problem)


def remedy(problem: ProviderRefused) -> str:
    wait = problem.fault.retry_after
    when = f"It says to wait {wait:.0f} s. " if wait else ""
    return when + REMEDIES.get(problem.fault.kind, REMEDIES["other"])


def _words(problem: ProviderRefused) -> str:
    body = " ".join(_said(problem.body).split())
    cut = f"{body[:400]}…" if len(body) > 400 else body
    kind = problem.fault.kind.replace("_", " ")
    return f"{problem.provider or 'the provider'} refused ({kind}): {cut.rstrip('.')}."


def _said(body: str) -> str:
    """The message inside an error's JSON; the body itself where it has none."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return body
    inner = found.get("error", found) if isinstance(found, dict) else body
    said = inner.get("message") if isinstance(inner, dict) else inner
    return said if isinstance(said, str) and said.strip() else body
