"""Agents of the real Hermes in a home of their own, before a mock upstream. Imported inside Hermes' environment only.

Hermes reads its home when it is imported, so there is one for a process: `python hermes_agents.py HOME TURNS FIRST
[SESSION]` is a process of its own, which talks for some turns and prints what became of it.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from clew.testing.upstream import Step, Upstream, UpstreamAnswer, UpstreamFault
from clew.testing.upstream_steps import ReceivedRequest
from clew.turn import EventLoopThread

KEY = "not-" + "a-real-" + "key"
MODEL, SMALL_MODEL = "mock-model", "mock-small"
WINDOW, SMALL_WINDOW = 131_072, 65_536
THRESHOLD, SMALL_THRESHOLD = WINDOW // 2, SMALL_WINDOW // 2

HANDOFF = """\
## Active task
Answer the newest question about tides.

## Goal
Collect the tide tables of all ports.

## Constraints and preferences
- Times in UTC.

## Completed actions
1. Read the tables of the first ports.

## Critical context
- The tables are below /data/ports.
"""


def is_summary_request(request: ReceivedRequest) -> bool:
    return not request.body.get("tools")


class HermesHome:
    """A home of Hermes and one of Clew below a folder, and an upstream that answers both."""

    def __init__(self, folder: Path, *, in_place: bool = True, keys: str | None = None) -> None:
        self.folder = folder
        self.answers: Callable[[ReceivedRequest], Step] = self.answer
        self.summaries: Step = UpstreamAnswer(HANDOFF)
        self.loop = EventLoopThread()
        self.upstream = Upstream(answers=lambda request: self.answers(request), caches=True)
        self.loop.run(self.upstream.__aenter__())
        self.said: list[str] = []
        """What Hermes told people."""
        os.environ.update(HERMES_HOME=str(folder / "hermes"), CLEW_HOME=str(folder / "clew"), HOME=str(folder))
        (folder / "hermes").mkdir(exist_ok=True)
        both = "plugins:\n  enabled: [clew]\ncontext:\n  engine: clew\n"
        (folder / "hermes" / "config.yaml").write_text(
            f"model:\n  default: {MODEL}\n  provider: custom\n  base_url: {self.upstream.base_url}\n"
            f"compression:\n  in_place: {str(in_place).lower()}\n"
            f"custom_providers:\n  - name: mock\n    base_url: {self.upstream.base_url}\n    models:\n"
            f"      {MODEL}: {{context_length: {WINDOW}}}\n      {SMALL_MODEL}: {{context_length: {SMALL_WINDOW}}}\n"
            + (both if keys is None else keys)
        )

    def answer(self, request: ReceivedRequest) -> Step:
        if is_summary_request(request):
            return self.summaries
        return UpstreamAnswer(f"High water at {len(request.body['messages'])} o'clock.")

    def agent(self, session: str | None = None, model: str = MODEL, **more: Any) -> Any:
        from hermes_cli.plugins import discover_plugins
        from hermes_state import SessionDB
        from run_agent import AIAgent

        discover_plugins()
        return AIAgent(
            model=model,
            base_url=self.upstream.base_url,
            api_key=KEY,
            provider="custom",
            enabled_toolsets=["context_engine"],
            quiet_mode=True,
            session_id=session,
            session_db=SessionDB(),
            skip_memory=True,
            skip_context_files=True,
            status_callback=lambda _, text: self.said.append(text),
            **more,
        )

    @property
    def requests(self) -> list[ReceivedRequest]:
        """Those of the agents themselves."""
        return [it for it in self.upstream.received if it.path.endswith("completions") and not is_summary_request(it)]

    @property
    def summary_requests(self) -> list[ReceivedRequest]:
        return [it for it in self.upstream.received if it.path.endswith("completions") and is_summary_request(it)]

    def close(self) -> None:
        self.loop.run(self.upstream.__aexit__())
        self.loop.stop()


def question(number: int, words: int = 400) -> str:
    """A long question, with a path and a value that occur nowhere else."""
    return (
        f"Question {number}: "
        + f"the table of port {number} is /data/ports/p{number}.csv, depth {number * 7919} cm; " * (words // 10)
    )


def talk(agent: Any, history: list[dict[str, Any]] | None, numbers: Sequence[int], words: int = 1_500) -> Any:
    """The history after these questions."""
    for number in numbers:
        history = agent.run_conversation(question(number, words), conversation_history=history)["messages"]
    return history


def moved_prefixes(requests: Sequence[ReceivedRequest]) -> int:
    """How many requests do not begin with the whole of the one before them."""
    lists = [[_bare(message) for message in request.body["messages"]] for request in requests]
    return sum(later[: len(before)] != before for before, later in itertools.pairwise(lists))


def _bare(message: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in message.items() if key != "cache_control"}


def main() -> None:
    folder, turns, first = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    home = HermesHome(folder, in_place=False)
    session = sys.argv[4] if len(sys.argv) > 4 else None
    history: list[dict[str, Any]] | None = None
    if session is not None:
        from hermes_state import SessionDB

        history = SessionDB().get_messages_as_conversation(session)
    agent = home.agent(session, model=SMALL_MODEL)
    resumed = len(history or ())
    history = talk(agent, history, range(first, first + turns))
    told = {
        "session": agent.session_id,
        "engine": agent.context_compressor.name,
        "status": agent.context_compressor.get_status(),
        "resumed": resumed,
        "moved": moved_prefixes(home.requests),
        "messages": len(history or ()),
    }
    agent.shutdown_memory_provider(history)
    home.close()
    sys.stdout.write(f"RESULT {json.dumps(told)}\n")


if __name__ == "__main__":
    main()

__all__ = ["HermesHome", "UpstreamFault", "moved_prefixes", "question", "talk"]
