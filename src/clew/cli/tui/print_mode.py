"""`clew chat -p`: one question and its answer without a screen, for scripts.

The answer goes to stdout as it is; with `--json` everything that is known of the exchange, as one object.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clew.agent import AgentObserver, Exchange, ToolActivity, ToolResult
from clew.cli.tui.exchange import explain_problem, message_from, remedy_for, reply_remark, title_from
from clew.cli.tui.status import UsageCounter
from clew.cli.views.text import sanitize, sanitize_line
from clew.errors import ClewError
from clew.events import CompactionFinished, Event, Notice
from clew.messages import text_of
from clew.providers import ProviderRefused, Reply
from clew.usage import CanonicalUsage

if TYPE_CHECKING:
    from clew.app import AgentApp
    from clew.cli.console import Console

_MICROS = 1_000_000


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
    return await app.agent.ask(session, message_from(question, app.project), recorder)


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
