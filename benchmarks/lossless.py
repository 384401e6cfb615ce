"""The lossless engine: CPU time of a turn, a fold and a restart by length of the conversation, and recall by itself.

    python benchmarks/lossless.py [--lengths N ...] [--turns N] [--only cost|recall] [--data FOLDER]

A conversation of so many messages is folded in a real SQLite file, with a summariser that answers at once. Then come
turns: a user message, a request, a reply with usage, recorded, with automatic recall switched on. Then a new process'
worth of work: the whole history is sent again, and compared row by row. Every figure is CPU time of the whole process,
threads included, in milliseconds.

`recall`: what the agents of real sessions needed later (`quality.py` says how that is found), each session folded to
10,000 and to 5,000 tokens by the compressor and by the lossless engine, which counts the system prompt in; then turns
in a window of twice the session's size. In view is what the fold still shows as a fact; recalled is what automatic
recall shows as a fact in the very request whose reply first uses it, nobody asking. "Share of input" is what recall
sends of all that is new in the requests: replies, results and what is injected.

Left out are "facts" that begin with the letter of an escape in the JSON of a call (the t of a tab): nobody wrote them.
"Named" is about what no choice of passages could exceed: facts that stand near a name of the newest request, call or
results in a folded message; "named, not in view" counts only names, and words of a request, that are not in view.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import _repository  # noqa: F401
import clew
from _sessions import SHARED, CutSession, conversation_files, cut_sessions, load_scorer, name_of
from _table import report
from clew.config import LosslessSettings, Settings
from clew.engines import EngineSetup, LosslessEngine
from clew.facts import Terms
from clew.handoff import Summary, SummaryInput
from clew.messages import Message, arguments_of_call, calls_of, name_of_call, text_of
from clew.providers import OnDelta, Provider, Reply, Request
from clew.store import CompactionEntry, NewSession, open_store
from clew.testing import ScriptedProvider, assistant, user
from clew.tokens import count_tokens
from clew.tooloutput import SpillFolder
from clew.turn import ModelTarget, Runtime, RuntimeOptions, is_recall, run_turn
from clew.usage import CanonicalUsage
from recoverable import FOLDED_SHARE, as_typed
from tests.support.engines import PlainEngine
from tests.support.flow import flow_with
from tests.support.history import synthetic_history

LENGTHS = (1_000, 20_000)
WINDOW = 200_000
FOLDED_TO = (10_000, 5_000)
ENGINES = ("compressor", "lcm")
SESSION = "s"
COUNTED_FOR = "gpt-4o"
_CHARS_EACH = 500
NEAR_CHARS = 600
_HANDOFF = "## Completed actions\n1. Worked through this part of it, and the tests pass.\n"


class Instant(Provider):
    """Answers at once."""

    name = "instant"

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        del on_delta
        usage = CanonicalUsage(input_tokens=1_000, output_tokens=40)
        return Reply(assistant("Done, and the tests pass."), usage, "stop", request.model)


async def _stub(source: SummaryInput, budget: int) -> Summary:
    del source, budget
    return Summary(_HANDOFF, written_by="stub", template="stub/1")


def _engine(setup: EngineSetup) -> LosslessEngine:
    return LosslessEngine(replace(setup, summarize=_stub))


def _runtime(store: Any, folder: Path) -> Runtime:
    settings = Settings(lossless=LosslessSettings(calls_per_hour=1_000_000))
    target = ModelTarget(Instant(), "claude-sonnet-4-5", context_length=WINDOW)
    return Runtime(store, target, RuntimeOptions(_engine, SpillFolder(folder / "outputs"), settings, summarizes=False))


async def cost(length: int, turns: int) -> dict[str, Any]:
    history = [_shortened(message) for message in synthetic_history(length)]
    row: dict[str, Any] = {"messages": length, "tokens each": count_tokens(history[:500]) // 500}
    with tempfile.TemporaryDirectory(prefix="clew-bench-") as name:
        folder = Path(name)
        async with open_store(folder / "state.db") as store:
            await store.start_session(NewSession(id=SESSION))
            for start in range(0, length, 2_000):
                await store.append(SESSION, history[start : start + 2_000])
            await store.index_waiting()
            runtime = _runtime(store, folder)
            conversation = await runtime.conversation(SESSION)
            conversation.engine.observe(conversation.messages)  # as it is when each message came with a turn
            row["fold"] = await _timed(conversation.compact_now())
            nodes = await store.nodes(conversation.session)
            row["nodes"] = len(nodes)
            each = [await _timed(run_turn(runtime, SESSION, [user(f"Go on with part {n}.")])) for n in range(turns)]
            row["turn p50"] = statistics.median(each)
            row["turn p95"] = statistics.quantiles(each, n=20)[-1]
            await runtime.close()
        row["database MB"] = (folder / "state.db").stat().st_size / 1e6
        async with open_store(folder / "state.db") as store:
            tip = await store.get_compression_tip(SESSION)
            started = time.process_time()
            rows = [stored.message for stored in await store.messages(tip)]
            row["read"] = (time.process_time() - started) * 1_000
            started = time.process_time()
            synced = await store.sync(rows, session=tip)
            row["sent again"] = (time.process_time() - started) * 1_000
            row["rows added"] = synced.added
    return row


def _shortened(message: Message) -> Message:
    """A message of about 155 tokens, as those were that hermes-lcm was measured with."""
    text = text_of(message)
    return {**message, "content": text[:_CHARS_EACH]} if len(text) > _CHARS_EACH else message


async def _timed(work: Any) -> float:
    started = time.process_time()
    await work
    return (time.process_time() - started) * 1_000


async def recall(sessions: Sequence[CutSession], scorer: Any, engine: str, tokens: int) -> Counter[str]:
    total: Counter[str] = Counter()
    for session in sessions:
        with tempfile.TemporaryDirectory(prefix="clew-bench-") as folder:
            view = await _folded(session, Path(folder), engine, tokens)
            await _recalled(session, view, Path(folder), scorer, total)
    return total


async def _folded(session: CutSession, folder: Path, engine: str, tokens: int) -> list[Any]:
    """What an engine leaves of a session."""
    if engine == "compressor":
        return list(clew.compress(session.before, target_tokens=tokens).messages)
    where = folder / "fold"
    where.mkdir()
    window = int(tokens / FOLDED_SHARE)
    # With a model whose tokens are counted as the other engine and this benchmark count them.
    async with flow_with(
        ScriptedProvider(), where, window=window, model=COUNTED_FOR, new_engine=LosslessEngine
    ) as flow:
        # As they came: an agent would have bounded large results, and the other engine is given them whole.
        await flow.store.append(flow.session, session.before)
        await flow.compact()
        return [{**message} for message in (await flow.conversation()).messages]


async def _recalled(session: CutSession, view: Sequence[Any], folder: Path, scorer: Any, total: Counter[str]) -> None:
    window = 2 * count_tokens(session.before)
    total["view tokens"] += count_tokens(view)
    total["sessions"] += 1
    lines = {
        atom: scorer.companions(atom, session.before) for atom in session.need if _is_written(atom, session, scorer)
    }
    shown = "\n".join(scorer.text(message) for message in view)
    missing = [atom for atom, near in lines.items() if near and not scorer.shown_as_fact(atom, near, shown)]
    total["facts"] += sum(bool(found) for found in lines.values())
    total["in view"] += sum(bool(found) for found in lines.values()) - len(missing)
    provider = ScriptedProvider(*(_replayed(message) for message in session.after if message["role"] == "assistant"))
    target = ModelTarget(provider, "any-model", context_length=window)
    async with open_store(folder / "state.db", flush="normal") as store:
        await store.start_session(NewSession(id=SESSION))
        await store.append(SESSION, session.before)
        stored = await store.view(SESSION)
        await store.commit_compaction(SESSION, CompactionEntry.of(stored, [*_in_store(view, stored)], None))
        # An engine that leaves the view alone: what is measured is one fold and what comes after it.
        options = RuntimeOptions(
            lambda setup: PlainEngine(replace(setup, context_length=10**9)), SpillFolder(folder / "o")
        )
        runtime = Runtime(store, target, replace(options, summarizes=False))
        incoming: list[Message] = []
        reach = Reach(session, view)
        for message in session.after:
            if message["role"] != "assistant":
                incoming.append(message)
                continue
            incoming_now, incoming = incoming, []
            await run_turn(runtime, SESSION, incoming_now)
            last = provider.requests[-1].messages[-1]
            passages = text_of(last) if is_recall(last) else ""
            total["turns"] += 1
            total["new tokens"] += count_tokens([*incoming_now, message])
            total["injected"] += bool(passages)
            total["tokens"] += count_tokens([last]) if passages else 0
            used = scorer.text(message)
            for atom in [atom for atom in missing if atom in used]:
                missing.remove(atom)
                total["recalled"] += bool(passages) and scorer.shown_as_fact(atom, lines[atom], passages)
                total.update(reach.of(atom, lines[atom], scorer))
            reach.follow(message)
        await runtime.close()


def _is_written(atom: str, session: CutSession, scorer: Any) -> bool:
    """Whether somebody wrote it: in the JSON of arguments, the letter of an escape runs into the word behind it."""
    used = next(text for message in session.after if atom in (text := scorer.text(message)))
    return as_typed(atom, used) == atom


class Reach:
    """Which facts a passage could bring back at a turn, by the names of the newest messages."""

    def __init__(self, session: CutSession, view: Sequence[Any]) -> None:
        shown = {repr(message) for message in view}
        self._terms = Terms()
        self._hidden = [_text_with_calls(it) for it in session.before if repr(it) not in shown]
        last = max(at for at, it in enumerate(view) if it["role"] == "assistant")
        self._newest = list(view[last:])
        self._seen = self._terms.of_all(map(_text_with_calls, view[:last]))
        self._after = iter(session.after)

    def of(self, atom: str, near: Any, scorer: Any) -> Counter[str]:
        names = {name for name in self._terms.of_all(map(_text_with_calls, self._newest)) if self._is_exact(name)}
        names |= self._terms.of_all(text_of(it) for it in self._newest if it["role"] == "user")
        unseen = names - self._seen
        beside: set[str] = set()
        for text in self._hidden:
            at = text.find(atom)
            while at >= 0:
                passage = text[max(0, at - NEAR_CHARS) : at + NEAR_CHARS]
                if scorer.shown_as_fact(atom, near, passage):
                    beside |= self._terms.of(passage)
                at = text.find(atom, at + 1)
        return Counter({"named": bool(beside & names), "named unseen": bool(beside & unseen)})

    def _is_exact(self, name: str) -> bool:
        return bool(self._terms.kinds[name]) and not name.replace(".", "").isdigit()

    def follow(self, reply: Any) -> None:
        """Go on to the turn behind a reply: its newest messages are the reply and what came before the next."""
        self._seen |= self._terms.of_all(map(_text_with_calls, self._newest))
        self._newest = [reply]
        for message in self._after:
            if message is reply:
                break
        rest = list(self._after)
        self._after = iter(rest)
        for message in rest:
            if message["role"] == "assistant":
                break
            self._newest.append(message)


def _text_with_calls(message: Any) -> str:
    return "\n".join([text_of(message), *(f"{name_of_call(it)} {arguments_of_call(it)}" for it in calls_of(message))])


def _replayed(message: Any) -> Any:
    def reply(request: Request) -> Reply:
        return Reply(message, CanonicalUsage(input_tokens=1, output_tokens=1), "stop", request.model)

    return reply


def _in_store(view: Sequence[Any], stored: Any) -> list[Any]:
    """The messages of a compressed view, as the objects of the stored one where they are the same."""
    by_text: dict[str, list[Any]] = {}
    for message in reversed(stored.messages):
        by_text.setdefault(repr(message), []).append(message)
    return [same.pop() if (same := by_text.get(repr(message))) else {**message} for message in view]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--only", choices=("cost", "recall"))
    parser.add_argument("--data", type=Path, default=SHARED / "data")
    options = parser.parse_args()
    if options.only != "recall":
        rows = [asyncio.run(cost(length, options.turns)) for length in options.lengths]
        report("lossless", rows, tuple(rows[0]))
    if options.only != "cost" and options.data.exists():
        scorer = load_scorer(options.data.parent / "retention.py")
        rows = [
            _recall_row(path, scorer, engine, tokens)
            for tokens in FOLDED_TO
            for engine in ENGINES
            for path in conversation_files(options.data)
        ]
        report("automatic_recall", rows, tuple(rows[0]))


def _recall_row(path: Path, scorer: Any, engine: str, tokens: int) -> dict[str, Any]:
    total = asyncio.run(recall(list(cut_sessions(path, scorer)), scorer, engine, tokens))
    facts = max(1, total["facts"])
    return {
        "file": name_of(path),
        "engine": engine,
        "folded to": total["view tokens"] // max(1, total["sessions"]),
        "facts": total["facts"],
        "in view %": 100 * total["in view"] / facts,
        "in view or recalled %": 100 * (total["in view"] + total["recalled"]) / facts,
        "points": 100 * total["recalled"] / facts,
        "named %": 100 * total["named"] / facts,
        "named, not in view %": 100 * total["named unseen"] / facts,
        "turns": total["turns"],
        "with passages": total["injected"],
        "tokens each": total["tokens"] // max(1, total["injected"]),
        "tokens in all": total["tokens"],
        "share of input %": 100 * total["tokens"] / max(1, total["new tokens"] + total["tokens"]),
    }


if __name__ == "__main__":
    main()
