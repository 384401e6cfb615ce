"""What people are told about an exchange: a title for a question, remarks on replies, problems with their remedies."""

from __future__ import annotations

import json
import re
from typing import Any

from clew.cli.views.text import printable_line
from clew.errors import ClewError, StoreError
from clew.messages import calls_of, text_of
from clew.providers import ErrorKind, FinishReason, ProviderRefused, Reply

MAX_TITLE_CHARS = 60
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
FINISH_REMARKS: dict[FinishReason, str] = {
    "length": "the reply was cut off: it reached the most output allowed (agent.max_tokens); ask it to go on",
    "refusal": "the provider broke the reply off: its filter of contents; ask in other words",
}
EMPTY_REPLY = "the model answered without a word; ask again, or in other words"
_TAG = re.compile(r"<(?:style|script)\b.*?</(?:style|script)>|<!--.*?-->|<[^>]*>", re.DOTALL | re.IGNORECASE)


# -- questions ---------------------------------------------------------------------------------------------------------


def title_from(line: str) -> str:
    """A title of the first words of a question."""
    words = printable_line(line)
    if len(words) <= MAX_TITLE_CHARS:
        return words or "untitled"
    cut = words[:MAX_TITLE_CHARS].rsplit(" ", 1)[0]
    return f"{cut}…"


# -- replies and problems ----------------------------------------------------------------------------------------------


def reply_remark(reply: Reply) -> str:
    """What a person should know of how a reply ended; empty where it ended as usual."""
    if reply.finish in FINISH_REMARKS:
        return FINISH_REMARKS[reply.finish]
    return "" if calls_of(reply.message) or text_of(reply.message).strip() else EMPTY_REPLY


def explain_problem(problem: ClewError) -> str:
    """The problem and the remedy, for a person."""
    if isinstance(problem, ProviderRefused):
        kept = " What came is kept." if problem.partial is not None else ""
        return f"{_refusal_text(problem)}{kept} {remedy_for(problem)}"
    # Only where a disk or a database failed: a name that nobody has is no damage.
    if isinstance(problem, StoreError) and problem.__cause__ is not None:
        return (
            f"{str(problem).rstrip('.')}. The conversation is as it was stored last; `clew doctor` checks the database."
        )
    return str(problem)


def remedy_for(problem: ProviderRefused) -> str:
    wait = problem.fault.retry_after
    when = f"It says to wait {wait:.0f} s. " if wait else ""
    return when + REMEDIES.get(problem.fault.kind, REMEDIES["other"])


def _refusal_text(problem: ProviderRefused) -> str:
    body = " ".join(_error_message(problem.body).split())
    cut = f"{body[:400]}…" if len(body) > 400 else body
    kind, who = problem.fault.kind.replace("_", " "), problem.provider or "the provider"
    # A connection that broke was not refused.
    how = f"the connection to {who} failed" if kind == "network" else f"{who} refused ({kind})"
    return f"{how}: {cut.rstrip('.')}."


def _error_message(body: str) -> str:
    """The message inside an error's JSON; the body itself where it has none."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return _TAG.sub(" ", body) if body.lstrip()[:1] == "<" else body
    inner = found.get("error", found) if isinstance(found, dict) else body
    message = inner.get("message") if isinstance(inner, dict) else inner
    return message if isinstance(message, str) and message.strip() else body


def problem_line(problem: ClewError) -> str:
    """What went wrong, for whoever reads stderr."""
    return explain_problem(problem) if isinstance(problem, ProviderRefused) else str(problem)


def problem_json(problem: ClewError, session: str | None = None) -> dict[str, Any]:
    """What went wrong, for programs, and the session that the question is kept in."""
    error: dict[str, Any] = {"type": type(problem).__name__, "message": str(problem)}
    if isinstance(problem, ProviderRefused):
        error |= {"kind": problem.fault.kind, "provider": problem.provider, "remedy": remedy_for(problem)}
    return {"error": error, "session": session}
