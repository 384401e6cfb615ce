"""Texts of the chat about an exchange: a title for a question, remarks on replies, problems with their remedies."""

from __future__ import annotations

from typing import Any

from clew.cli.failures import failure_json
from clew.cli.views.text import printable_line
from clew.errors import ClewError, ContextExhausted, StoreError
from clew.events import Overflowed
from clew.messages import calls_of, text_of
from clew.providers import ErrorKind, FinishReason, ProviderRefused, Reply, explain_refusal

MAX_TITLE_CHARS = 60
# Where a chat can do something about it.
REMEDIES: dict[ErrorKind, str] = {
    "quota": "The account has nothing left to spend; see to it at the provider, or take another model with /model.",
    "rate_limit": "Wait a little and ask again; what you asked is kept.",
    "overloaded": "The provider is busy or down; ask again in a while, or take another model with /model.",
    "prompt_too_long": "/compress makes it smaller; /new starts afresh.",
    "payload_too_large": "/compress makes it smaller; /new starts afresh.",
    "other": "Ask again; if it stays, /model takes another one.",
}
FINISH_REMARKS: dict[FinishReason, str] = {
    "length": "the reply was cut off: it reached the most output allowed (agent.max_tokens); ask it to go on",
    "refusal": "the provider broke the reply off: its filter of contents; ask in other words",
}
EXHAUSTED_REMEDY = "/new begins a new conversation; /compress TOPIC names what matters."
EMPTY_REPLY = "the model answered without a word; ask again, or in other words"


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


def overflow_notice(event: Overflowed) -> str:
    """That a request was too large, what its provider says of the window, and what is made of that."""
    again = "again " if event.attempt > 1 else ""
    told = f"the request was {again}too large for {event.model or 'the model'}"
    provider = event.provider or "the provider"
    if event.limit:
        configured = f", not the configured {event.configured:,}" if event.configured else ""
        return f"{told}: {provider} states a window of {event.limit:,} tokens{configured}"
    if event.window:
        return f"{told}; {provider} states no window, {event.window:,} tokens are assumed in this session"
    return told


def explain_problem(problem: ClewError) -> str:
    """The problem and the remedy, for a person."""
    if isinstance(problem, ProviderRefused):
        return str(explain_refusal(problem, remedies=REMEDIES))
    # Only where a disk or a database failed: a name that nobody has is no damage.
    if isinstance(problem, StoreError) and problem.__cause__ is not None:
        return (
            f"{str(problem).rstrip('.')}. The conversation is as it was stored last; `clew doctor` checks the database."
        )
    if isinstance(problem, ContextExhausted):
        return f"{problem} {EXHAUSTED_REMEDY}"
    return str(problem)


def problem_line(problem: ClewError) -> str:
    """What went wrong, for whoever reads stderr."""
    return explain_problem(problem) if isinstance(problem, ProviderRefused) else str(problem)


def problem_json(problem: ClewError, session: str | None = None) -> dict[str, Any]:
    """What went wrong, for programs, and the session that the question is kept in."""
    error: dict[str, Any] = {"type": type(problem).__name__, **failure_json(problem)["error"]}
    if isinstance(problem, ProviderRefused):
        remedy = explain_refusal(problem, remedies=REMEDIES).remedy
        error |= {"provider": problem.provider, "remedy": remedy}
    return {"error": error, "session": session}
