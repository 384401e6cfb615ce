"""Print mode (`clew chat -p`): one question without a screen.

The answer goes to stdout as it is; with `--json` as one object with everything that is known of the exchange, and with
`--json-stream` each thing as it happens, one JSON object a line, that object last.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clew.agent import AgentObserver, Answer, Risk, ToolActivity, ToolResult
from clew.cli.tui.attachments import question_message
from clew.cli.tui.exchange import overflow_notice, reply_remark, title_from
from clew.cli.tui.status import UsageCounter
from clew.cli.views.text import sanitize, sanitize_line
from clew.events import CompactionFinished, CompactionStarted, Event, Notice, Overflowed
from clew.messages import text_of
from clew.providers import Delta, Reply
from clew.usage import CanonicalUsage

if TYPE_CHECKING:
    from clew.app import AgentApp
    from clew.cli.console import Console

_MICROS = 1_000_000


@dataclass(slots=True)
class ExchangeRecorder(AgentObserver):
    """Records the tools, refusals, usage, compactions and warnings of an exchange; prints them too, as they come,
    where it `streams`."""

    console: Console
    streams: bool = False
    counter: UsageCounter = field(default_factory=UsageCounter)
    usage: CanonicalUsage = field(default_factory=CanonicalUsage)
    tools: list[dict[str, Any]] = field(default_factory=list)
    refusals: list[dict[str, Any]] = field(default_factory=list)
    """Calls that did not run, because nobody approved them."""
    compactions: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def emit(self, event: str, **fields: Any) -> None:
        """One line of `--json-stream`."""
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
        """For `clew.events`."""
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
    """Ask in a session, and give it a title where it has none."""
    tip = await app.store.session(await app.store.get_compression_tip(session))
    if not tip.title:
        await app.store.rename(tip.id, title_from(question))
    asked = question_message(question, app.project, max_chars=app.max_result_chars)
    recorder.warnings += asked.missing
    recorder.emit("start", session=tip.id, model=app.target.model)
    return await app.agent.ask(session, asked.message, recorder)


def print_answer(exchange: Answer, recorder: ExchangeRecorder, console: Console) -> None:
    """The answer to stdout; warnings and remarks to stderr."""
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
    # A terminal is protected; a program gets every character.
    console.print(sanitize(answer) if console.out.isatty() else answer)


def exchange_json(exchange: Answer, session: str, recorder: ExchangeRecorder) -> dict[str, Any]:
    """Everything that is known of an exchange."""
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
