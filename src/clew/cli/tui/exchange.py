"""One exchange with the agent: the title of a question, remarks on replies and problems, and print mode.

Print mode (`clew chat -p`) asks one question without a screen: the answer goes to stdout as it is, or with `--json`
everything that is known of the exchange.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clew.agent import AgentObserver, Exchange, ToolActivity, ToolResult
from clew.cli.tui.attachments import question_message
from clew.cli.tui.status import UsageCounter
from clew.cli.views.text import printable_line, sanitize, sanitize_line
from clew.errors import ClewError, StoreError
from clew.events import CompactionFinished, Event, Notice
from clew.messages import calls_of, text_of
from clew.providers import ErrorKind, FinishReason, ProviderRefused, Reply
from clew.usage import CanonicalUsage

if TYPE_CHECKING:
    from clew.app import AgentApp
    from clew.cli.console import Console

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
_MICROS = 1_000_000
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


# -- print mode: `clew chat -p` ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class ExchangeRecorder(AgentObserver):
    """Records the tools, usage, compactions and warnings of an exchange."""

    console: Console
    counter: UsageCounter = field(default_factory=UsageCounter)
    usage: CanonicalUsage = field(default_factory=CanonicalUsage)
    tools: list[dict[str, Any]] = field(default_factory=list)
    compactions: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def on_tool_start(self, activity: ToolActivity) -> None:
        self.console.progress(sanitize_line(activity.headline))

    def on_tool_end(self, activity: ToolActivity, result: ToolResult, seconds: float) -> None:
        self.console.clear_progress()
        self.tools.append(
            {
                "name": activity.tool,
                "headline": activity.headline,
                "ok": not result.is_error,
                "seconds": round(seconds, 3),
            }
        )

    def on_reply(self, reply: Reply) -> None:
        self.usage += reply.usage or CanonicalUsage()

    def on_event(self, event: Event) -> None:
        """For `clew.events`."""
        self.counter.on_event(event)
        if isinstance(event, CompactionFinished) and event.continued_as is not None:
            sizes = {"tokens_before": event.tokens_before, "tokens_after": event.tokens_after}
            self.compactions.append({**sizes, "written_by": event.written_by})
            self.warnings += event.warnings
        elif isinstance(event, Notice):
            self.warnings.append(event.text)


async def ask_once(app: AgentApp, session: str, question: str, recorder: ExchangeRecorder) -> Exchange:
    """Ask in a session, and give it a title where it has none."""
    tip = await app.store.session(await app.store.get_compression_tip(session))
    if not tip.title:
        await app.store.rename(tip.id, title_from(question))
    asked = question_message(question, app.project, max_chars=app.max_result_chars)
    recorder.warnings += asked.notes
    return await app.agent.ask(session, asked.message, recorder)


def print_answer(exchange: Exchange, recorder: ExchangeRecorder, console: Console) -> None:
    """The answer to stdout; warnings and remarks to stderr."""
    for warning in recorder.warnings:
        console.note(sanitize_line(warning))
    if exchange.hit_round_limit:
        console.note(f"stopped after {exchange.rounds} rounds; agent.max_rounds allows more")
    if remark := reply_remark(exchange.reply):
        console.note(remark)
    answer = text_of(exchange.reply.message)
    # A terminal is protected; a program gets every character.
    console.print(sanitize(answer) if console.out.isatty() else answer)


def exchange_json(exchange: Exchange, session: str, recorder: ExchangeRecorder) -> dict[str, Any]:
    """Everything that is known of an exchange."""
    used, totals = recorder.usage, recorder.counter.since_start
    return {
        "answer": text_of(exchange.reply.message),
        "session": session,
        "model": exchange.reply.model,
        "finish": exchange.reply.finish,
        "rounds": exchange.rounds,
        "is_cut": exchange.hit_round_limit,
        "usage": {
            "prompt_tokens": used.prompt_tokens,
            "input_tokens": used.input_tokens,
            "cache_read_tokens": used.cache_read_tokens,
            "cache_write_tokens": used.cache_write_tokens,
            "output_tokens": used.output_tokens,
            "reasoning_tokens": used.reasoning_tokens,
        },
        "cost": None if totals.unpriced or not totals.calls else totals.cost_micros / _MICROS,
        "tools": recorder.tools,
        "compactions": recorder.compactions,
        "warnings": recorder.warnings,
    }


def problem_line(problem: ClewError) -> str:
    """What went wrong, for whoever reads stderr."""
    return explain_problem(problem) if isinstance(problem, ProviderRefused) else str(problem)


def problem_json(problem: ClewError, session: str | None = None) -> dict[str, Any]:
    """What went wrong, for programs, and the session that the question is kept in."""
    error: dict[str, Any] = {"type": type(problem).__name__, "message": str(problem)}
    if isinstance(problem, ProviderRefused):
        error |= {"kind": problem.fault.kind, "provider": problem.provider, "remedy": remedy_for(problem)}
    return {"error": error, "session": session}
