"""Titles, notices and errors of an exchange; and print mode (`clew chat -p`).

Print mode writes the answer to stdout; with `--json` an object about the exchange; with `--json-stream` one JSON object
a line for each event, and that object last.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from clew.agent import AgentObserver, Answer, Risk, ToolActivity, ToolResult
from clew.app import AgentApp
from clew.cli.console import Console
from clew.cli.entry import failure_json
from clew.cli.text import printable_line, sanitize, sanitize_line
from clew.cli.tui.attachments import question_message
from clew.cli.tui.status import UsageCounter
from clew.errors import ClewError, ContextExhausted, StoreError
from clew.events import CompactionFinished, CompactionStarted, Event, Notice, Overflowed
from clew.messages import calls_of, text_of
from clew.providers import Delta, ErrorKind, FinishReason, ProviderRefused, Reply, explain_refusal
from clew.usage import CanonicalUsage

_MICROS = 1_000_000

MAX_TITLE_CHARS = 60
# Errors with a remedy in a chat.
REMEDIES: dict[ErrorKind, str] = {
    "quota": "The account has nothing left to spend; check it at the provider, or choose another model with /model.",
    "rate_limit": "Wait a little and ask again; what you asked is kept.",
    "overloaded": "The provider is busy or down; ask again in a while, or choose another model with /model.",
    "prompt_too_long": "/compress makes it smaller; /new starts a new conversation.",
    "payload_too_large": "/compress makes it smaller; /new starts a new conversation.",
    "other": "Ask again; if it fails again, /model chooses another model.",
}
FINISH_REMARKS: dict[FinishReason, str] = {
    "length": "the reply was cut off: it reached the most output allowed (agent.max_tokens); ask it to continue",
    "refusal": "the provider broke the reply off: its filter of contents; ask in other words",
}
EXHAUSTED_REMEDY = "/new begins a new conversation; /compress TOPIC names what matters."
EMPTY_REPLY = "the model answered without a word; ask again, or in other words"


def title_from(line: str) -> str:
    """The first words of a question as a title."""
    words = printable_line(line)
    if len(words) <= MAX_TITLE_CHARS:
        return words or "untitled"
    cut = words[:MAX_TITLE_CHARS].rsplit(" ", 1)[0]
    return f"{cut}…"


def reply_remark(reply: Reply) -> str:
    """A notice about an unusual end of a reply; else empty."""
    if reply.finish in FINISH_REMARKS:
        return FINISH_REMARKS[reply.finish]
    return "" if calls_of(reply.message) or text_of(reply.message).strip() else EMPTY_REPLY


def overflow_notice(event: Overflowed) -> str:
    """A notice that a request was too large, and about the window of the provider."""
    again = "again " if event.attempt > 1 else ""
    what = f"the request was {again}too large for {event.model or 'the model'}"
    provider = event.provider or "the provider"
    if event.limit:
        configured = f", not the configured {event.configured:,}" if event.configured else ""
        return f"{what}: {provider} states a window of {event.limit:,} tokens{configured}"
    if event.window:
        return f"{what}; {provider} states no window, {event.window:,} tokens are assumed in this session"
    return what


def explain_problem(problem: ClewError) -> str:
    """The error and its remedy for the screen."""
    if isinstance(problem, ProviderRefused):
        return str(explain_refusal(problem, remedies=REMEDIES))
    # Only for failures of a disk or a database.
    if isinstance(problem, StoreError) and problem.__cause__ is not None:
        return (
            f"{str(problem).rstrip('.')}. The conversation is as it was stored last; `clew doctor` checks the database."
        )
    if isinstance(problem, ContextExhausted):
        return f"{problem} {EXHAUSTED_REMEDY}"
    return str(problem)


def problem_json(problem: ClewError, session: str | None = None) -> dict[str, Any]:
    """The error as JSON, with the session that has the question."""
    error: dict[str, Any] = {"type": type(problem).__name__, **failure_json(problem)["error"]}
    if isinstance(problem, ProviderRefused):
        remedy = explain_refusal(problem, remedies=REMEDIES).remedy
        error |= {"provider": problem.provider, "remedy": remedy}
    return {"error": error, "session": session}


@dataclass(slots=True)
class ExchangeRecorder(AgentObserver):
    """Records the tools, refusals, usage, compactions and warnings of an exchange; prints them at once if `streams`."""

    console: Console
    streams: bool = False
    counter: UsageCounter = field(default_factory=UsageCounter)
    usage: CanonicalUsage = field(default_factory=CanonicalUsage)
    tools: list[dict[str, Any]] = field(default_factory=list)
    refusals: list[dict[str, Any]] = field(default_factory=list)
    """Calls that were not approved."""
    compactions: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def emit(self, event: str, **fields: Any) -> None:
        """Print one line of `--json-stream`."""
        if self.streams:
            self.console.print_json_line({"event": event, **fields})

    def on_delta(self, delta: Delta) -> None:
        if delta.kind in ("text", "reasoning"):
            self.emit(delta.kind, text=delta.text)

    def on_tool_start(self, activity: ToolActivity) -> None:
        self.console.progress(sanitize_line(activity.headline))
        self.emit("tool_start", id=activity.call_id, name=activity.tool, headline=activity.headline)

    def on_refusal(self, activity: ToolActivity, risk: Risk) -> None:
        refused = {"name": activity.tool, "headline": activity.headline, "reasons": list(risk.reasons)}
        self.refusals.append(refused)
        self.emit("refused", id=activity.call_id, **refused)

    def on_tool_end(self, activity: ToolActivity, result: ToolResult, seconds: float) -> None:
        self.console.clear_progress()
        done = {
            "name": activity.tool,
            "headline": activity.headline,
            "ok": not result.is_error,
            "seconds": round(seconds, 3),
        }
        self.tools.append(done)
        self.emit("tool_end", id=activity.call_id, **done, output=result.text)

    def on_reply(self, reply: Reply) -> None:
        used = reply.usage or CanonicalUsage()
        self.usage += used
        self.emit("reply", model=reply.model, finish=reply.finish, usage=used.as_json())

    def on_event(self, event: Event) -> None:
        """Handle an event of the app."""
        self.counter.on_event(event)
        if isinstance(event, CompactionStarted):
            self.emit("compaction_start", tokens=event.tokens, reason=event.reason)
        elif isinstance(event, CompactionFinished) and event.continued_as is not None:
            sizes = {"tokens_before": event.tokens_before, "tokens_after": event.tokens_after}
            self.compactions.append({**sizes, "written_by": event.written_by})
            self.warnings += event.warnings
            self.emit("compaction", **self.compactions[-1], warnings=list(event.warnings))
        elif isinstance(event, Notice | Overflowed):
            text = event.text if isinstance(event, Notice) else overflow_notice(event)
            self.warnings.append(text)
            self.emit("notice", text=text)


async def ask_once(app: AgentApp, session: str, question: str, recorder: ExchangeRecorder) -> Answer:
    """Ask in a session; a session without a title gets one."""
    tip = await app.store.session(await app.store.get_compression_tip(session))
    if not tip.title:
        await app.store.rename(tip.id, title_from(question))
    asked = question_message(question, app.project, max_chars=app.max_result_chars)
    recorder.warnings += asked.missing
    recorder.emit("start", session=tip.id, model=app.target.model)
    return await app.agent.ask(session, asked.message, recorder)


def print_answer(exchange: Answer, recorder: ExchangeRecorder, console: Console) -> None:
    """Print the answer to stdout, warnings and notices to stderr."""
    for warning in recorder.warnings:
        console.note(sanitize_line(warning))
    for refused in recorder.refusals:
        why = "; ".join(refused["reasons"])
        console.note(sanitize_line(f"not run: {refused['name']} {refused['headline']}: {why}; --yes would allow it"))
    if exchange.hit_round_limit:
        console.note(f"stopped after {exchange.rounds} rounds; agent.max_rounds allows more")
    if remark := reply_remark(exchange.reply):
        console.note(remark)
    answer = text_of(exchange.reply.message)
    # Sanitized for a terminal only.
    console.print(sanitize(answer) if console.out.isatty() else answer)


def exchange_json(exchange: Answer, session: str, recorder: ExchangeRecorder) -> dict[str, Any]:
    """An exchange as JSON."""
    totals = recorder.counter.since_start
    return {
        "answer": text_of(exchange.reply.message),
        "session": session,
        "model": exchange.reply.model,
        "finish": exchange.reply.finish,
        "rounds": exchange.rounds,
        "is_cut": exchange.hit_round_limit,
        "usage": recorder.usage.as_json(),
        "cost": None if totals.unpriced else totals.cost_micros / _MICROS,
        "tools": recorder.tools,
        "refused": recorder.refusals,
        "compactions": recorder.compactions,
        "warnings": recorder.warnings,
    }
