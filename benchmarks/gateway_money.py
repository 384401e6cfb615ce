"""What real sessions cost direct, through the gateway, and under Hermes' policy, against a simulated prompt cache.

    python benchmarks/gateway_money.py [--data FOLDER] [--windows N ...] [--pace SECONDS] [--hermes FOLDER]

Each session is sent again as its agent sent it, a request before each assistant message, with the cache of
`money.py`; then the sessions of each data set behind each other as one long one. Four ways:

- direct: the whole history each time; `refused` are the calls that are larger than the window;
- built-in: the compressor at 85% of the window, where a fold is paid back by the turns that are to be expected, and in
  any case at 95%. Its handoffs are written without a model;
- model: the caller's model is asked behind its own request once a reply leaves the conversation at 70%, and answers
  after `ANSWER_SECONDS`. What it wrote is used as above, with all that came since behind it; at 95% a built-in handoff
  is used where it is not there yet. A handoff that the session ends without needing is paid for;
- Hermes: the real compressor of Hermes Agent 0.19.0 with its own threshold, where `--hermes` names its folder.

Dollars are those of the price table for the model, output and summaries included.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from _prefix_cache import Blocks, PrefixCache
from _sessions import conversation_files, name_of, sessions_in
from _table import report
from clew.config import CompressionSettings
from clew.engines import Compaction, ContextCompressor, budgets_for
from clew.gateway.conversations import MUST_FOLD, is_time_to_prepare, pays_back
from clew.messages import Message
from clew.testing import user
from clew.turn import HANDOFF_SHARE, handoff_pays
from clew.usage import CanonicalUsage
from hermes_side import HermesSide, load_hermes
from money import (
    FIXED_TOKENS,
    INSTRUCTION,
    MODEL,
    PRICED_AS,
    TARGET,
    ClewPolicy,
    HermesPolicy,
    NoCompaction,
    dollars,
    long_session,
    read_options,
    replayed,
    with_output,
)

HYGIENE_SHARE = 0.85
LEAST_CALLS = 2
ANSWER_SECONDS = 40.0
OBSERVED_TURNS = 3
COLUMNS = (
    "sessions", "count", "window", "way", "calls", "refused", "folds", "hits %", "summaries $", "cost $", "of direct %",
)  # fmt: skip


class GatewayPolicy(ClewPolicy):
    """As the gateway folds: late, and where it pays."""

    def __init__(self, window: int, blocks: Blocks) -> None:
        super().__init__(window, blocks)
        settings = CompressionSettings(threshold=HYGIENE_SHARE)
        self._engine = ContextCompressor(window, settings=settings, system_as_blocks=True)
        self._window = window

    def fitted(self, view: list[Message], new: Sequence[Message], tokens: int) -> list[Message]:
        turns = sum(message["role"] == "assistant" for message in view)
        if tokens < MUST_FOLD * self._window and not pays_back(tokens, turns, MODEL, PRICED_AS):
            self._engine.observe(new)
            return view
        return super().fitted(view, new, tokens)


class ModelPolicy(GatewayPolicy):
    """The same with handoffs that the caller's model prepares; `asked` are the requests that this takes."""

    def __init__(self, window: int, blocks: Blocks) -> None:
        super().__init__(window, blocks)
        self.asked: list[CanonicalUsage] = []
        self._summary = int(HANDOFF_SHARE * budgets_for(window, CompressionSettings()).max_summary)
        self._folded_to = 0
        """How many messages the last fold left."""
        self._prepared: tuple[float, int, Compaction] | None = None
        """When it is there, how many messages it was made from, and what it makes of them."""

    def replayed(self, history: Sequence[Message], times: Callable[[int], float]) -> list[CanonicalUsage]:
        """The usage of each call of a session; `times` gives the second at which the message at a place was there."""
        blocks, cache = self._blocks, PrefixCache(self._blocks, FIXED_TOKENS)
        view, usages = list[Message](), list[CanonicalUsage]()
        tokens, new = FIXED_TOKENS, list[Message]()
        for place, message in enumerate(history):
            if message["role"] == "user" and view:
                self._engine.observe(new)
                view, new = self.idled(cache, view, times(place - 1), times(place)), []
            if message["role"] == "assistant" and view:
                now = times(place - 1)
                self._engine.observe(new)
                view, new = self._folded(view, tokens, now), []
                usages.append(with_output(cache.send(view, now), blocks.tokens([message])))
                tokens = FIXED_TOKENS + blocks.tokens([*view, message])
                turns = self._turns_by_growth([*view, message])
                is_time = is_time_to_prepare(tokens, FIXED_TOKENS, turns, self._engine.threshold_tokens)
                if self._prepared is None and is_time and self._pays(tokens, turns):
                    self._ask(cache, view, tokens, now)
            view.append(message)
            new.append(message)
            tokens = FIXED_TOKENS + blocks.tokens(view)
        return usages

    def idled(self, cache: PrefixCache, view: list[Message], last: float, now: float) -> list[Message]:
        """The view after a pause of the person."""
        del cache, last, now
        return view

    def _ask(self, cache: PrefixCache, view: list[Message], tokens: int, now: float) -> None:
        done = asyncio.run(self._engine.compress(list(view), current_tokens=tokens))
        if done.changed:
            wrote = self._blocks.tokens([user(done.summary or "")])
            self.asked.append(with_output(cache.send(view, now, [INSTRUCTION]), wrote))
            self._prepared = (now + ANSWER_SECONDS, len(view), done)

    def _folded(self, view: list[Message], tokens: int, now: float) -> list[Message]:
        must = tokens >= MUST_FOLD * self._window
        turns = sum(message["role"] == "assistant" for message in view)
        if not self._engine.should_compress(tokens) or not (must or pays_back(tokens, turns, MODEL, PRICED_AS)):
            return view
        ready = self._prepared if self._prepared is not None and self._prepared[0] <= now else None
        if ready is None and not must and (self._prepared or self._pays(tokens, self._turns_by_growth(view))):
            return view
        done = asyncio.run(self._engine.compress(view, current_tokens=tokens)) if ready is None else ready[2]
        self._prepared = None
        if not done.changed:
            return view
        self._engine.restore(done.state)
        self.spent["compactions"] += 1
        self._folded_to = len(done.messages)
        return [*done.messages, *view[ready[1] if ready else len(view) :]]

    def _pays(self, tokens: int, turns: int) -> bool:
        return handoff_pays(tokens, FIXED_TOKENS, turns, self._summary, TARGET)

    def _turns_by_growth(self, view: Sequence[Message]) -> int:
        """As `Conversation.turns_by_growth`."""
        new = view[self._folded_to :]
        replies, grown = sum(message["role"] == "assistant" for message in new), self._blocks.tokens(new)
        if replies < OBSERVED_TURNS:
            return sum(message["role"] == "assistant" for message in view)
        return round(self._blocks.tokens(view) * replies / grown)


class Account:
    """What the calls of several sessions took together."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.calls: list[CanonicalUsage] = []
        self.summaries: list[CanonicalUsage] = []
        self.folds = 0

    def row(self, direct: float) -> dict[str, Any]:
        prompts = sum(usage.prompt_tokens for usage in self.calls)
        summaries = dollars(self.summaries)
        cost = dollars(self.calls) + summaries
        return {
            "calls": len(self.calls),
            "refused": sum(usage.prompt_tokens > self.window for usage in self.calls),
            "folds": self.folds,
            "hits %": 100 * sum(usage.cache_read_tokens for usage in self.calls) / max(1, prompts),
            "summaries $": summaries,
            "cost $": cost,
            "of direct %": 100 * cost / max(1e-9, direct),
        }


def compared(
    sessions: Sequence[Sequence[Message]], window: int, pace: float, hermes: HermesSide | None
) -> list[dict[str, Any]]:
    """A row for each way."""
    direct, built_in, by_model, theirs = (Account(window) for _ in range(4))
    for history in sessions:
        blocks = Blocks()
        direct.calls += replayed(history, NoCompaction(), blocks, pace)
        policy, asking = GatewayPolicy(window, blocks), ModelPolicy(window, blocks)
        built_in.calls += replayed(history, policy, blocks, pace)
        built_in.folds += policy.spent["compactions"]
        by_model.calls += asking.replayed(history, paced(history, pace))
        by_model.summaries += asking.asked
        by_model.folds += asking.spent["compactions"]
        if hermes is not None:
            other = HermesPolicy(window, blocks, hermes)
            theirs.calls += replayed(history, other, blocks, pace)
            theirs.summaries.append(CanonicalUsage(other.spent["read"], other.spent["written"]))
            theirs.folds += other.spent["compactions"]
    ways = {"direct": direct, "built-in": built_in, "model": by_model}
    if hermes is not None:
        ways[f"Hermes {hermes.version}"] = theirs
    cost = dollars(direct.calls)
    return [{"window": window, "way": name, **account.row(cost)} for name, account in ways.items()]


def paced(history: Sequence[Message], pace: float) -> Callable[[int], float]:
    """The times of a session that has none: so many seconds from call to call."""
    replies, times = 0, list[float]()
    for message in history:
        times.append(replies * pace)
        replies += message["role"] == "assistant"
    return lambda place: times[min(place + 1, len(times) - 1)]


def main() -> None:
    options = read_options(__doc__)
    if options is None:
        return
    hermes, rows = load_hermes(options.hermes), list[dict[str, Any]]()
    for path in conversation_files(options.data):
        each = [session for session in sessions_in(path) if _calls(session) >= LEAST_CALLS]
        as_one = [long_session(sessions_in(path))]
        for name, sessions in ((name_of(path), each), (f"{name_of(path)}, as one", as_one)):
            for window in options.windows:
                made = compared(sessions, window, options.pace, hermes)
                rows += [{"sessions": name, "count": len(sessions), **row} for row in made]
    report("gateway_money", rows, COLUMNS)


def _calls(session: Sequence[Any]) -> int:
    return sum(message["role"] == "assistant" for message in session)


if __name__ == "__main__":
    main()
