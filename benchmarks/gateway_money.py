"""What real sessions cost direct, through the gateway, and under Hermes' policy, against a simulated prompt cache.

    python benchmarks/gateway_money.py [--data FOLDER] [--windows N ...] [--pace SECONDS] [--hermes FOLDER]

Each session is sent again as its agent sent it, a request before each assistant message, with the cache of
`money.py`; then the sessions of each data set behind each other as one long one. Three ways:

- direct: the whole history each time; `refused` are the calls that are larger than the window;
- gateway: the compressor at 85% of the window, where a fold is paid back by the turns that are to be expected, and in
  any case at 95%. Its handoffs are written without a model, or (`by the model`) by the caller's own out of the cache;
- Hermes: the real compressor of Hermes Agent 0.19.0 with its own threshold, where `--hermes` names its folder.

Dollars are those of the price table for the model, output and summaries included.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from _prefix_cache import Blocks, PrefixCache
from _sessions import conversation_files, name_of, sessions_in
from _table import report
from clew.config import CompressionSettings
from clew.engines import ContextCompressor
from clew.gateway.savings import MUST_FOLD, pays_back
from clew.messages import Message
from clew.usage import CanonicalUsage
from hermes_side import HermesSide, load_hermes
from money import (
    INSTRUCTION,
    MODEL,
    PRICED_AS,
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
    direct, gateway, by_model, theirs = (Account(window) for _ in range(4))
    for history in sessions:
        blocks = Blocks()
        direct.calls += replayed(history, NoCompaction(), blocks, pace)
        policy, asked = GatewayPolicy(window, blocks), list[CanonicalUsage]()

        def ask(cache: PrefixCache, view: Sequence[Message], now: float) -> None:
            asked.append(cache.send(view, now, [INSTRUCTION]))  # noqa: B023 (called before the next session)

        through = replayed(history, policy, blocks, pace, ask)
        gateway.calls += through
        by_model.calls += through
        gateway.folds = by_model.folds = gateway.folds + policy.spent["compactions"]
        by_model.summaries += [with_output(each, wrote) for each, wrote in zip(asked, policy.written, strict=True)]
        if hermes is not None:
            other = HermesPolicy(window, blocks, hermes)
            theirs.calls += replayed(history, other, blocks, pace)
            theirs.summaries.append(CanonicalUsage(other.spent["read"], other.spent["written"]))
            theirs.folds += other.spent["compactions"]
    ways = {"direct": direct, "gateway": gateway, "gateway, by the model": by_model}
    if hermes is not None:
        ways[f"Hermes {hermes.version}"] = theirs
    cost = dollars(direct.calls)
    return [{"window": window, "way": name, **account.row(cost)} for name, account in ways.items()]


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
