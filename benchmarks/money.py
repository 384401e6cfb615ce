"""What a long session costs, replayed call by call against a simulated prompt cache.

    python benchmarks/money.py [--data FOLDER] [--windows N ...] [--pace SECONDS] [--hermes FOLDER]

The real sessions of each data set, one after the other as one long session, are sent again as their agents sent them:
a request before each assistant message. A policy decides what the view is:

- no compaction: the whole history each time, as if the window had no end;
- clew, built-in: the compressor, which compacts at half of the window in one step; its summariser costs nothing;
- clew, text: the same, and the model writes the summary, asked with a text of what is folded: it reads all of that
  anew and writes as many tokens;
- clew, extending: the same, and the model is asked at the end of the conversation, which it reads from the cache;
- clew, finished tasks: as the one before, and from 71% of that threshold on also where the agent has just reported a
  task as finished;
- prune in place: at half of the window, old tool results become one line where they stand, which moves the prefix each
  time; only when that is not enough, a model folds the middle;
- Hermes: the real compressor of Hermes Agent 0.19.0 with its own threshold, where `--hermes` names its folder; a model
  at the same prices reads what it asks to be summarised.

Dollars are those of the price table for the model, output included. Tokens are counted, not billed: the differences
between policies are what this shows.
"""

from __future__ import annotations

import argparse
import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

from _prefix_cache import Blocks, PrefixCache
from _sessions import SHARED, conversation_files, name_of, sessions_in
from _table import report
from clew.config import CompressionSettings
from clew.engines import ContextCompressor, budgets_for
from clew.messages import Message, safe_cut_at_or_before, text_of
from clew.testing import system, user
from clew.turn import FINISHED_AT, HANDOFF_SHARE, ModelTarget, early_fold_pays, reports_finished
from clew.usage import CanonicalUsage, cost_of
from hermes_side import HermesSide, load_hermes

MODEL = "claude-sonnet-4-5"
PRICED_AS = "anthropic"
TARGET = ModelTarget(None, MODEL, host_name=PRICED_AS)
WINDOWS = (64_000, 128_000, 200_000)
LEAST_TOKENS = 400_000
"""So many tokens of sessions are put behind each other, where there are so many."""
FIXED_TOKENS = 10_000
"""Tools and what else stands before the system prompt."""
PROMPT_TOKENS = 1_500
"""What a summariser is told beside what it reads."""
INSTRUCTION = user("word " * PROMPT_TOKENS)
"""What stands behind the conversation where a summary extends it."""
PACE_SECONDS = 20.0
PRUNED_CHARS = 200
PROTECTED_MESSAGES = 20
HEAD_MESSAGES = 4
COMPACTION_COLUMNS = (
    "file", "window", "compactions", "text read", "text $", "extending read", "from the cache %", "extending $",
    "cold $", "of text %",
)  # fmt: skip
COLUMNS = (
    "file", "window", "policy", "calls", "compactions", "mean prompt", "hits %", "summaries $", "cost $",
    "of no compaction %",
)  # fmt: skip


class Policy(Protocol):
    """What stands in the view before each request."""

    spent: Counter[str]
    """How many compactions there were, and the tokens of a model that wrote summaries."""

    def fitted(self, view: list[Message], new: Sequence[Message], tokens: int) -> list[Message]:
        """The view to send, out of one of so many tokens of which `new` is new."""


class NoCompaction:
    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()

    def fitted(self, view: list[Message], new: Sequence[Message], tokens: int) -> list[Message]:
        del new, tokens
        return view


class ClewPolicy:
    def __init__(self, window: int, blocks: Blocks) -> None:
        self.spent: Counter[str] = Counter()
        self.written: list[int] = []
        """The tokens of each summary."""
        self._engine = ContextCompressor(window, system_as_blocks=True)
        self._blocks = blocks

    def is_due(self, view: Sequence[Message], tokens: int) -> bool:
        del view
        return self._engine.should_compress(tokens)

    def fitted(self, view: list[Message], new: Sequence[Message], tokens: int) -> list[Message]:
        self._engine.observe(new)
        if not self.is_due(view, tokens):
            return view
        done = asyncio.run(self._engine.compress(view, current_tokens=tokens))
        self._engine.restore(done.state)
        if not done.changed:
            return view
        start, stop = done.replaced
        self.spent["compactions"] += 1
        self.spent["read"] += PROMPT_TOKENS + self._blocks.tokens(view[start:stop])
        self.written.append(self._blocks.tokens([user(done.summary or "")]))
        self.spent["written"] += self.written[-1]
        return list(done.messages)


class FinishedTaskPolicy(ClewPolicy):
    """Folds early, too, where the agent has just reported a task as finished and prices allow it."""

    def __init__(self, window: int, blocks: Blocks) -> None:
        super().__init__(window, blocks)
        self._summary = int(HANDOFF_SHARE * budgets_for(window, CompressionSettings()).max_summary)

    def is_due(self, view: Sequence[Message], tokens: int) -> bool:
        if super().is_due(view, tokens):
            return True
        before = list(view)
        while before and before[-1]["role"] == "user":
            before.pop()
        turns = sum(message["role"] == "assistant" for message in view)
        is_early = (
            tokens >= FINISHED_AT * self._engine.threshold_tokens
            and len(before) < len(view)
            and reports_finished(before)
            and early_fold_pays(tokens, turns, self._summary, TARGET)
        )
        self.spent["early"] += is_early
        return is_early


class PruneInPlace:
    def __init__(self, window: int, blocks: Blocks) -> None:
        self.spent: Counter[str] = Counter()
        self._threshold = window // 2
        self._summary_tokens = min(window // 20, 12_000)
        self._blocks = blocks

    def fitted(self, view: list[Message], new: Sequence[Message], tokens: int) -> list[Message]:
        del new
        if tokens < self._threshold:
            return view
        self.spent["compactions"] += 1
        start = max(0, len(view) - PROTECTED_MESSAGES)
        pruned = [*map(_pruned, view[:start]), *view[start:]]
        if self._blocks.tokens(pruned) + FIXED_TOKENS < self._threshold:
            return pruned
        return self._folded(pruned)

    def _folded(self, view: list[Message]) -> list[Message]:
        head = safe_cut_at_or_before(view, min(HEAD_MESSAGES, len(view)))
        start, tokens = len(view), 0
        while start > head and tokens < self._threshold // 5:
            start -= 1
            tokens += self._blocks.tokens(view[start : start + 1])
        start = max(head, safe_cut_at_or_before(view, start))
        self.spent["read"] += PROMPT_TOKENS + self._blocks.tokens(view[head:start])
        self.spent["written"] += self._summary_tokens
        summary = user(f"Summary {self.spent['compactions']}: " + "word " * self._summary_tokens)
        return [*view[:head], summary, *view[start:]]


class HermesPolicy:
    def __init__(self, window: int, blocks: Blocks, side: HermesSide) -> None:
        self.spent: Counter[str] = Counter()
        self._summary_tokens = min(window // 20, 12_000)
        self._blocks = blocks
        self._side, self._window = side, window
        self._compressor = side.compressor_for(window, self._write)

    def fitted(self, view: list[Message], new: Sequence[Message], tokens: int) -> list[Message]:
        del new
        # What a provider reported for the call before is what its next decision stands on.
        self._compressor.update_from_response({"prompt_tokens": tokens})
        if not self._compressor.should_compress(tokens):
            return view
        done = list(self._compressor.compress(list(view), current_tokens=tokens))
        self.spent["compactions"] += 1
        return done

    def _write(self, **request: Any) -> str:
        self.spent["read"] += self._blocks.tokens(request["messages"])
        self.spent["written"] += self._summary_tokens
        return f"## Goal\nSummary {self.spent['compactions']}.\n" + "word " * self._summary_tokens


def _pruned(message: Message) -> Message:
    text = text_of(message)
    if message["role"] != "tool" or len(text) <= PRUNED_CHARS:
        return message
    return {**message, "content": f"[result of {len(text):,} chars was cleared]"}


def money(
    data: Path, windows: Sequence[int], pace: float = PACE_SECONDS, hermes: HermesSide | None = None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of both tables: what sessions cost by policy, and what a compaction costs by how the model is asked."""
    sessions, compactions = list[dict[str, Any]](), list[dict[str, Any]]()
    for path in conversation_files(data):
        history = long_session(sessions_in(path))
        by_policy, by_way = compared(history, windows, pace, hermes)
        sessions += [{"file": name_of(path), **row} for row in by_policy]
        compactions += [{"file": name_of(path), **row} for row in by_way]
    return sessions, compactions


def compared(
    history: Sequence[Message], windows: Sequence[int], pace: float = PACE_SECONDS, hermes: HermesSide | None = None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A row for each window and policy, and one for each window about its compactions."""
    blocks = Blocks()
    whole = NoCompaction()
    unlimited = replayed(history, whole, blocks, pace)
    sessions, compactions = list[dict[str, Any]](), list[dict[str, Any]]()
    for window in windows:
        clew, pruning = ClewPolicy(window, blocks), PruneInPlace(window, blocks)
        extended = list[CanonicalUsage]()
        cold = list[CanonicalUsage]()

        def ask(cache: PrefixCache, view: Sequence[Message], now: float) -> None:
            extended.append(cache.send(view, now, [INSTRUCTION]))  # noqa: B023 (called before the next window)
            cold.append(PrefixCache(blocks, FIXED_TOKENS).send(view, now, [INSTRUCTION]))  # noqa: B023

        finishing, asked_early = FinishedTaskPolicy(window, blocks), list[CanonicalUsage]()

        def ask_early(cache: PrefixCache, view: Sequence[Message], now: float) -> None:
            asked_early.append(cache.send(view, now, [INSTRUCTION]))  # noqa: B023

        views = replayed(history, clew, blocks, pace, ask)
        early = replayed(history, finishing, blocks, pace, ask_early)
        free = Counter({"compactions": clew.spent["compactions"]})
        runs = {
            "no compaction": (unlimited, whole.spent),
            "clew, built-in": (views, free),
            "clew, text": (views, clew.spent),
            "clew, extending": (views, free),
            "clew, finished tasks": (early, finishing.spent),
            "prune in place": (replayed(history, pruning, blocks, pace), pruning.spent),
        }
        if hermes is not None:
            theirs = HermesPolicy(window, blocks, hermes)
            runs[f"Hermes {hermes.version}"] = (replayed(history, theirs, blocks, pace), theirs.spent)
        summaries = [with_output(each, wrote) for each, wrote in zip(extended, clew.written, strict=True)]
        extending = {
            "clew, extending": summaries,
            "clew, finished tasks": [
                with_output(each, wrote) for each, wrote in zip(asked_early, finishing.written, strict=True)
            ],
        }
        for policy, (calls, spent) in runs.items():
            own = extending.get(policy) or [CanonicalUsage(spent["read"], spent["written"])]
            sessions.append({"window": window, "policy": policy, **_account(calls, spent, own, unlimited)})
        all_cold = [with_output(each, wrote) for each, wrote in zip(cold, clew.written, strict=True)]
        compactions.append({"window": window, **_ways(clew.spent, summaries, all_cold)})
    return sessions, compactions


def _ways(spent: Counter[str], extended: Sequence[CanonicalUsage], cold: Sequence[CanonicalUsage]) -> dict[str, Any]:
    """What a compaction costs on average: asked with a text, at the end of the conversation, and that uncached."""
    times, prompts = max(1, spent["compactions"]), sum(usage.prompt_tokens for usage in extended)
    text = dollars([CanonicalUsage(spent["read"], spent["written"])])
    return {
        "compactions": spent["compactions"],
        "text read": spent["read"] // times,
        "text $": text / times,
        "extending read": prompts // times,
        "from the cache %": 100 * sum(usage.cache_read_tokens for usage in extended) / max(1, prompts),
        "extending $": dollars(extended) / times,
        "cold $": dollars(cold) / times,
        "of text %": 100 * dollars(extended) / max(1e-9, text),
    }


def replayed(
    history: Sequence[Message],
    policy: Policy,
    blocks: Blocks,
    pace: float,
    ask: Callable[[PrefixCache, Sequence[Message], float], None] | None = None,
) -> list[CanonicalUsage]:
    """The usage of each call of a session under a policy; `ask` is called with what a compaction is made of."""
    cache, view, new = PrefixCache(blocks, FIXED_TOKENS), list[Message](), list[Message]()
    usages: list[CanonicalUsage] = []
    tokens = FIXED_TOKENS
    for message in history:
        if message["role"] == "assistant" and view:
            fitted = policy.fitted(view, new, tokens)
            if fitted is not view:
                if ask is not None:
                    ask(cache, view, len(usages) * pace)
                view, tokens = fitted, FIXED_TOKENS + blocks.tokens(fitted)
            new = []
            prompt = cache.send(view, len(usages) * pace)
            usages.append(with_output(prompt, blocks.tokens([message])))
        view.append(message)
        new.append(message)
        tokens += blocks.tokens([message])
    return usages


def long_session(sessions: Iterable[list[Any]], least_tokens: int = LEAST_TOKENS) -> list[Message]:
    """Sessions behind each other, under one system prompt; ids of calls stay apart."""
    blocks, history, tokens = Blocks(), list[Message](), 0
    for number, session in enumerate(sessions):
        own = [_renamed(message, number) for message in session if message["role"] != "system"]
        prompt = next((message for message in session if message["role"] == "system"), None)
        history += own if history else [prompt or system("You are a careful engineer."), *own]
        tokens += blocks.tokens(own)
        if tokens >= least_tokens:
            break
    return history


def _renamed(message: Any, number: int) -> Message:
    renamed = dict(message)
    if message.get("tool_calls"):
        renamed["tool_calls"] = [{**call, "id": f"{number}_{call.get('id')}"} for call in message["tool_calls"]]
    if message.get("tool_call_id"):
        renamed["tool_call_id"] = f"{number}_{message['tool_call_id']}"
    return renamed  # type: ignore[return-value]


def with_output(prompt: CanonicalUsage, output: int) -> CanonicalUsage:
    return CanonicalUsage(
        input_tokens=prompt.input_tokens,
        output_tokens=output,
        cache_read_tokens=prompt.cache_read_tokens,
        cache_write_tokens=prompt.cache_write_tokens,
        reasoning_tokens=0,
    )


def _account(
    usages: Sequence[CanonicalUsage],
    spent: Counter[str],
    written: Sequence[CanonicalUsage],
    unlimited: Sequence[CanonicalUsage],
) -> dict[str, Any]:
    prompts = sum(usage.prompt_tokens for usage in usages)
    summaries = dollars(written)
    cost = dollars(usages) + summaries
    return {
        "calls": len(usages),
        "compactions": spent["compactions"],
        "mean prompt": prompts // max(1, len(usages)),
        "hits %": 100 * sum(usage.cache_read_tokens for usage in usages) / max(1, prompts),
        "read": sum(usage.cache_read_tokens for usage in usages),
        "written": sum(usage.cache_write_tokens for usage in usages),
        "neither": sum(usage.input_tokens for usage in usages),
        "summaries $": summaries,
        "cost $": cost,
        "of no compaction %": 100 * cost / max(1e-9, dollars(unlimited)),
    }


def dollars(usages: Iterable[CanonicalUsage]) -> float:
    # One price, whatever the size of the prompt: a dearer tier for long prompts would favour compaction further.
    added = Counter[str]()
    for usage in usages:
        added.update(
            input=usage.input_tokens,
            output=usage.output_tokens,
            read=usage.cache_read_tokens,
            write=usage.cache_write_tokens,
        )
    parts = (
        CanonicalUsage(added["input"], added["output"], 0, 0, 0),
        CanonicalUsage(0, 0, added["read"], 0, 0),
        CanonicalUsage(0, 0, 0, added["write"], 0),
    )
    return sum(float(found.total) for part in parts if (found := cost_of(part, MODEL, PRICED_AS)) is not None)


def read_options(about: str | None) -> argparse.Namespace | None:
    """What the command line says; None, and a line that says why, where there is no data."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=SHARED / "data")
    parser.add_argument("--windows", type=int, nargs="+", default=list(WINDOWS))
    parser.add_argument("--pace", type=float, default=PACE_SECONDS, help="seconds between two calls")
    parser.add_argument("--hermes", type=Path, help="the folder that hermes-agent 0.19.0 was installed into")
    options = parser.parse_args()
    if options.data.is_dir():
        return options
    print(f"no data at {options.data}: nothing is replayed")
    return None


def main() -> None:
    options = read_options(__doc__)
    if options is not None:
        sessions, compactions = money(options.data, options.windows, options.pace, load_hermes(options.hermes))
        report("money", sessions, COLUMNS)
        report("money, a compaction", compactions, COMPACTION_COLUMNS)


if __name__ == "__main__":
    main()
