"""What folding idle conversations saves, replayed with pauses against a simulated prompt cache.

    python benchmarks/idle.py [--data FOLDER] [--windows N ...]

The session files that other programs wrote have the time of each message; the sessions of the data sets have none, and
their people pause before one of five questions, which are drawn. Each session is sent again at these times through the
gateway's policy with a model (`gateway_money.py`): as it is, and with conversations above 40% of the window folded 30
seconds before the cache of five minutes expires, where somebody came back before and prices say that it pays. The end
of each session counts as a pause from which nobody comes back: a handoff that was asked for then is paid for. `pauses`
are those in which the cache expires, `ends` the ends of sessions.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from _prefix_cache import LIFETIME_SECONDS, Blocks, PrefixCache
from _sessions import conversation_files, name_of, sessions_in
from _table import report
from clew.importers import open_session
from clew.messages import Message
from clew.testing import user
from clew.turn import FOLD_BEFORE_SECONDS, IDLE_AT
from clew.turn.fold_prices import idle_fold_pays
from clew.usage import CanonicalUsage
from gateway_money import ModelPolicy
from money import FIXED_TOKENS, INSTRUCTION, PACE_SECONDS, TARGET, dollars, read_options, with_output

PAUSE_SECONDS, SHARE_OF_PAUSES = 900.0, 0.2
COLUMNS = (
    "file", "window", "way", "calls", "pauses", "ends", "idle folds", "folds", "hits %", "handoffs $", "cost $",
    "of as it is %",
)  # fmt: skip


class IdlePolicy(ModelPolicy):
    """The same, and idle conversations are folded before the cache expires."""

    def __init__(self, window: int, blocks: Blocks) -> None:
        super().__init__(window, blocks)
        self._returns = 0

    def idled(self, cache: PrefixCache, view: list[Message], last: float, now: float) -> list[Message]:
        tokens = FIXED_TOKENS + self._blocks.tokens(view)
        is_open = bool(view[-1].get("tool_calls"))
        if now - last < LIFETIME_SECONDS:
            return view
        self._returns += 1
        pays = idle_fold_pays(tokens, self._summary, TARGET, self._returns - 1)
        if is_open or tokens < IDLE_AT * self._window or not pays:
            return view
        done = asyncio.run(self._engine.compress(list(view), current_tokens=tokens, force=True))
        if not done.changed:
            return view
        asked_at = last + LIFETIME_SECONDS - FOLD_BEFORE_SECONDS
        wrote = self._blocks.tokens([user(done.summary or "")])
        self.asked.append(with_output(cache.send(view, asked_at, [INSTRUCTION]), wrote))
        self._engine.restore(done.state)
        self._prepared = None
        self.spent["idle"] += 1
        self.spent["compactions"] += 1
        return list(done.messages)


def timed_session(path: Path) -> tuple[list[Message], list[float]]:
    """The messages of a session file, and when each was there in seconds."""
    with open_session(path) as session:
        entries = [entry for entry in session.entries() if entry.timestamp]
    return [entry.message for entry in entries], [
        datetime.fromisoformat(str(entry.timestamp)).timestamp() for entry in entries
    ]


def drawn_times(messages: Sequence[Message], chance: random.Random) -> list[float]:
    """Times for a session that has none: a call each `PACE_SECONDS`, and a pause before some questions."""
    now, times = 0.0, list[float]()
    for place, message in enumerate(messages):
        is_question = message["role"] == "user" and place > 0 and messages[place - 1]["role"] == "assistant"
        now += PACE_SECONDS * (message["role"] == "assistant")
        now += PAUSE_SECONDS * (is_question and chance.random() < SHARE_OF_PAUSES)
        times.append(now)
    return times


def compared(sessions: Sequence[tuple[Sequence[Message], Sequence[float]]], window: int) -> list[dict[str, Any]]:
    """A row for each way. A last request long after the end stands for the pause that follows it; it is not counted."""
    rows = list[dict[str, Any]]()
    pauses = sum(
        later - now >= LIFETIME_SECONDS and message["role"] == "user"
        for messages, times in sessions
        for now, later, message in zip(times, times[1:], messages[1:], strict=False)
    )
    for way, kind in (("as it is", ModelPolicy), ("idle folds", IdlePolicy)):
        spent, calls, asked = Counter[str](), list[CanonicalUsage](), list[CanonicalUsage]()
        for messages, times in sessions:
            policy, ends = kind(window, Blocks()), [*times, times[-1] + 24 * 3_600.0]
            calls += policy.replayed([*messages, user("Is anybody there?")], ends.__getitem__)
            asked += policy.asked
            spent += policy.spent
        cost = dollars(calls) + dollars(asked)
        rows.append(
            {
                "window": window,
                "way": way,
                "calls": len(calls),
                "pauses": pauses,
                "ends": len(sessions),
                "idle folds": spent["idle"],
                "folds": spent["compactions"],
                "hits %": 100
                * sum(usage.cache_read_tokens for usage in calls)
                / max(1, sum(usage.prompt_tokens for usage in calls)),
                "handoffs $": dollars(asked),
                "cost $": cost,
                "of as it is %": 100 * cost / max(1e-9, rows[0]["cost $"] if rows else cost),
            }
        )
    return rows


def main() -> None:
    options = read_options(__doc__)
    if options is None:
        return
    files = {
        f"{path.name.removesuffix('.jsonl.gz')}, recorded pauses": [timed_session(path)]
        for path in sorted((options.data / "session_files").glob("*.jsonl.gz"))
    }
    for path in conversation_files(options.data):
        chance = random.Random(name_of(path))
        files[name_of(path)] = [(session, drawn_times(session, chance)) for session in sessions_in(path)]
    rows = list[dict[str, Any]]()
    for name, sessions in files.items():
        for window in options.windows:
            rows += [{"file": name, **row} for row in compared(sessions, window)]
    report("idle", rows, COLUMNS)


if __name__ == "__main__":
    main()
