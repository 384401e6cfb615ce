"""One question, one answer, no screen: what `clew chat -p` does, for scripts.

The answer goes to stdout as it is; with `--json` everything that is known of the exchange, as one object.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clew.agent import Doing, Exchange, Onlooker, ToolResult
from clew.cli.tui.harmless import harmless, harmless_line
from clew.cli.tui.problems import explained, remark_on, remedy
from clew.cli.tui.tally import Tally
from clew.cli.tui.typed import message_of, title_of
from clew.errors import ClewError
from clew.events import CompactionFinished, Event, Notice
from clew.messages import text_of
from clew.providers import ProviderRefused, Reply
from clew.usage import CanonicalUsage

if TYPE_CHECKING:
    from clew.app import Desk
    from clew.cli.output import Console

_MICROS = 1_000_000


@dataclass(slots=True)
class Account(Onlooker):
    """Follows an exchange, and can tell it afterwards."""

    console: Console
    tally: Tally = field(default_factory=Tally)
    usage: CanonicalUsage = field(default_factory=CanonicalUsage)
    tools: list[dict[str, Any]] = field(default_factory=list)
    compactions: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def began(self, doing: Doing) -> None:
        self.console.progress(harmless_line(doing.headline))

    def ended(self, doing: Doing, result: ToolResult, seconds: float) -> None:
        self.console.wipe()
        self.tools.append(
            {
                "name": doing.tool,
                "headline": doing.headline,
                "ok": not result.is_error,
                "seconds": round(seconds, 3),
            }
        )

    def replied(self, reply: Reply) -> None:
        self.usage += reply.usage or CanonicalUsage()

    def heard(self, event: Event) -> None:
        """For `clew.events`."""
        self.tally.heard(event)
        if isinstance(event, CompactionFinished) and event.continued_as is not None:
            told = {"tokens_before": event.tokens_before, "tokens_after": event.tokens_after}
            self.compactions.append({**told, "written_by": event.written_by})
            self.warnings += event.warnings
        elif isinstance(event, Notice):
            self.warnings.append(event.text)


async def ask_once(desk: Desk, session: str, question: str, account: Account) -> Exchange:
    """Ask, with a title where the session has none."""
    tip = await desk.store.session(await desk.store.get_compression_tip(session))
    if not tip.title:
        await desk.store.rename(tip.id, title_of(question))
    return await desk.agent.ask(session, message_of(question, desk.project), account)


def say_answer(exchange: Exchange, account: Account, console: Console) -> None:
    """The answer alone; what else there is to know goes to stderr."""
    for warning in account.warnings:
        console.note(harmless_line(warning))
    if exchange.is_cut:
        console.note(f"stopped after {exchange.rounds} rounds; agent.max_rounds allows more")
    if remark := remark_on(exchange.reply):
        console.note(remark)
    answer = text_of(exchange.reply.message)
    # A terminal is protected; a program gets every character.
    console.say(harmless(answer) if console.out.isatty() else answer)


def as_json(exchange: Exchange, session: str, account: Account) -> dict[str, Any]:
    """Everything that is known of an exchange."""
    used, spent = account.usage, account.tally.here
    return {
        "answer": text_of(exchange.reply.message),
        "session": session,
        "model": exchange.reply.model,
        "finish": exchange.reply.finish,
        "rounds": exchange.rounds,
        "is_cut": exchange.is_cut,
        "usage": {
            "prompt_tokens": used.prompt_tokens,
            "input_tokens": used.input_tokens,
            "cache_read_tokens": used.cache_read_tokens,
            "cache_write_tokens": used.cache_write_tokens,
            "output_tokens": used.output_tokens,
            "reasoning_tokens": used.reasoning_tokens,
        },
        "cost": None if spent.unpriced or not spent.calls else spent.cost_micros / _MICROS,
        "tools": account.tools,
        "compactions": account.compactions,
        "warnings": account.warnings,
    }


def problem_line(problem: ClewError) -> str:
    """What went wrong, for whoever reads stderr."""
    return explained(problem) if isinstance(problem, ProviderRefused) else str(problem)


def problem_json(problem: ClewError, session: str | None = None) -> dict[str, Any]:
    """What went wrong, for programs, and the session that the question is kept in."""
    told: dict[str, Any] = {"type": type(problem).__name__, "message": str(problem)}
    if isinstance(problem, ProviderRefused):
        told |= {"kind": problem.fault.kind, "provider": problem.provider, "remedy": remedy(problem)}
    return {"error": told, "session": session}
