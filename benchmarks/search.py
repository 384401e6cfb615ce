"""What search costs and what it finds: CPU by length, planted facts through `lcm_grep`, and long talks.

    python benchmarks/search.py [--only speed|facts|talks] [--lengths 1000 20000 200000] [--talks held_out] [--vectors]

Speed: made-up messages of about 155 tokens, each query in milliseconds of CPU of the whole process, the median of
several runs. Facts: 50 facts among 2,000 messages, folded by the lossless engine, each asked for by its key term, by a
plain question and by a paraphrase; found is what stands in a snippet of the first page of the first search. Talks: long
talks with questions (`_talks`); right is a question whose every message of evidence is among the first ten hits.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import _repository  # noqa: F401
from _table import report
from _talks import TEMPLATES, Talk, read_topics, talk_of_two, talk_with_assistant
from clew.config import LosslessSettings, Settings
from clew.engines import LosslessEngine
from clew.messages import Message
from clew.store import NewMessage, NewSession, SearchScope, Store, installed_embedder, open_store
from clew.testing import ScriptedProvider, assistant, user
from clew.turn import receive
from tests.support.flow import SESSION, flow_with

PARTS = ("speed", "facts", "talks")
LENGTHS = (1_000, 20_000, 200_000)
FIRST_PAGE = 10
APPENDED = 300
QUERIES = {
    "rare word": "quetzalcoatlus",
    "common word": "session",
    "path": "src/billing/drain_ledger_{middle}.py",
    "Chinese": "第三次重试",
    "question": "why did the drain of the ledger stop in the billing part?",
}
SPEED_COLUMNS = ("messages", *(f"{name} ms" for name in QUERIES), "append ms", "database MB", "database / text")
TALK_COLUMNS = ("templates", "talk", "turns", "questions", "all evidence %", "recall %", "ms each")
KINDS = ("said", "next turn", "dated", "by date", "many")
_SUBJECTS = "session invoice ledger cursor batch shard packet tenant quota replica".split()
_ACTIONS = "load merge drain verify rotate flush rank parse encode reserve".split()
_AREAS = "billing gateway storage auth metrics queue export sync reports".split()
_SENTENCES = (
    "The {area} part stopped while it tried to {action} the {subject}, and the session was lost with it.",
    "I looked at src/{area}/{action}_{subject}_{number}.py first, because the failure names it.",
    "After {number} attempts the {subject} was still in the queue of {area}, so the session stayed open.",
    "请检查 {area} 模块，第{number}次重试之后它为什么还在报错？",
    "We agreed to keep {action}_{subject} as it is, and to bound the retries at {number} for now.",
    "Nothing else in {area} calls it any more; what remains is the caller of {action}_{subject}.",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--lengths", type=int, nargs="+", default=list(LENGTHS))
    parser.add_argument("--talks", choices=("develop", "held_out"), nargs="+", default=["develop", "held_out"])
    parser.add_argument("--vectors", action="store_true", help="talks with the extra vectors beside the words")
    parser.add_argument("--losses", action="store_true", help="print each fact that was not found")
    options = parser.parse_args()
    for part in PARTS if options.only is None else (options.only,):
        if part == "speed":
            report("search_speed", [asyncio.run(speed_of(length)) for length in options.lengths], SPEED_COLUMNS)
        elif part == "facts":
            rows = asyncio.run(planted_facts(losses=options.losses))
            report("search_facts", rows, ("asked by", "facts", "visible", "first hit", "hermes-lcm 0.21"))
        else:
            rows = [row for name in options.talks for row in _talks(name, with_vectors=options.vectors)]
            report("search_talks", rows, (*TALK_COLUMNS, *(f"{kind} %" for kind in KINDS)))


# -- speed -------------------------------------------------------------------------------------------------------------


def short_messages(count: int, seed: int = 0) -> Iterator[Message]:
    """Messages of about 155 tokens; one word and one path among them exist once."""
    rng = Random(seed)
    for number in range(count):
        text = " ".join(_filled(rng, number) for _ in range(6))
        if number == count // 2:
            text += f" It was quetzalcoatlus all along, see src/billing/drain_ledger_{number}.py."
        yield user(text) if number % 2 == 0 else assistant(text)


def _filled(rng: Random, number: int) -> str:
    return rng.choice(_SENTENCES).format(
        area=rng.choice(_AREAS),
        subject=rng.choice(_SUBJECTS),
        action=rng.choice(_ACTIONS),
        number=rng.choice((3, number, rng.randint(1, 9_999))),
    )


async def speed_of(length: int) -> dict[str, Any]:
    row: dict[str, Any] = {"messages": length}
    chars = 0
    with tempfile.TemporaryDirectory(prefix="clew-bench-") as folder:
        where = Path(folder) / "store.db"
        async with open_store(where) as store:
            await store.start_session(NewSession(id="s"))
            history = list(short_messages(length))
            chars = sum(len(str(message["content"]).encode()) for message in history)
            bulk = len(history) - min(APPENDED, length // 2)
            for start in range(0, bulk, 500):
                await store.append("s", history[start : min(start + 500, bulk)])
            await store.index_waiting()
            started = time.process_time()
            for message in history[bulk:]:
                await store.append("s", [message])
            await store.index_waiting()
            row["append ms"] = (time.process_time() - started) * 1_000 / (length - bulk)
            for name, query in QUERIES.items():
                row[f"{name} ms"] = await _median(store, query.replace("{middle}", str(length // 2)))
        row["database MB"] = where.stat().st_size / 1e6
        row["database / text"] = where.stat().st_size / chars
    return row


async def _median(store: Store, query: str) -> float:
    scope = SearchScope(conversation_of="s")
    assert (await store.search(query, scope)).hits
    figures: list[float] = []
    for _ in range(11):
        started = time.process_time()
        await store.search(query, scope)
        figures.append((time.process_time() - started) * 1_000)
    return statistics.median(figures)


# -- facts -------------------------------------------------------------------------------------------------------------


async def planted_facts(*, losses: bool) -> list[dict[str, Any]]:
    facts = [line.split(" | ") for line in _lines_of("facts")]
    rng = Random(7)
    history = list(short_messages(2_000, seed=7))
    for fact, place in zip(facts, sorted(rng.sample(range(len(history) - 400), len(facts))), strict=True):
        said = f"{_filled(rng, place)} {fact[1]} {_filled(rng, place)}"
        history[place] = user(said) if history[place]["role"] == "user" else assistant(said)
    found: dict[str, Counter[str]] = {}
    settings = Settings(lossless=LosslessSettings(leaf_tokens=4_000))
    with tempfile.TemporaryDirectory(prefix="clew-bench-") as folder:
        async with flow_with(
            ScriptedProvider(), Path(folder), window=64_000, settings=settings, new_engine=LosslessEngine
        ) as flow:
            await receive(flow.runtime, SESSION, history)
            await flow.compact()
            grep: Callable[..., Any] = (await flow.conversation()).engine.handle_tool_call
            for key, _, question, paraphrase, answer in facts:
                for asked, query in (("key term", key), ("question", question), ("paraphrase", paraphrase)):
                    page = json.loads(await grep("lcm_grep", {"query": query}))
                    snippets = [hit["snippet"] for group in page.get("groups", ()) for hit in group["hits"]]
                    count = found.setdefault(asked, Counter())
                    count["visible"] += (is_visible := any(answer in snippet for snippet in snippets))
                    count["first"] += bool(snippets) and answer in snippets[0]
                    if losses and not is_visible:
                        print(f"not visible by {asked}: {query!r} -> {answer!r}")
    theirs = {"key term": "50", "question": "0", "paraphrase": "0"}
    return [
        {
            "asked by": asked,
            "facts": len(facts),
            "visible": count["visible"],
            "first hit": count["first"],
            "hermes-lcm 0.21": theirs[asked],
        }
        for asked, count in found.items()
    ]


def _lines_of(name: str) -> list[str]:
    lines = (TEMPLATES / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


# -- talks -------------------------------------------------------------------------------------------------------------


def _talks(name: str, *, with_vectors: bool) -> Iterator[dict[str, Any]]:
    topics = read_topics(name)
    for label, talks in (
        ("two people", [talk_of_two(topics, 600, seed) for seed in range(3)]),
        ("two people, no names", [talk_of_two(topics, 600, seed, named=False) for seed in range(3)]),
        ("two people, long", [talk_of_two(topics, 6_000, seed) for seed in range(2)]),
        ("with an assistant", [talk_with_assistant(topics, 600, seed) for seed in range(3)]),
        ("with an assistant, long", [talk_with_assistant(topics, 4_000, seed) for seed in range(2)]),
    ):
        yield {"templates": name, "talk": label, **asyncio.run(found_in(talks, with_vectors=with_vectors))}


async def found_in(talks: Sequence[Talk], *, with_vectors: bool = False) -> dict[str, Any]:
    right: dict[str, list[bool]] = {}
    recall: list[float] = []
    spent = 0.0
    for talk in talks:
        with tempfile.TemporaryDirectory(prefix="clew-bench-") as folder:
            embedder = installed_embedder(wanted=with_vectors)
            async with open_store(Path(folder) / "store.db", embedder=embedder) as store:
                await store.start_session(NewSession(id="t"))
                messages: list[Message] = [
                    user(turn.text) if turn.role == "user" else assistant(turn.text) for turn in talk.turns
                ]
                rows = [NewMessage(message, at=turn.at) for message, turn in zip(messages, talk.turns, strict=True)]
                await store.append("t", rows)
                await store.index_waiting()
                await store.embed_waiting()
                for question in talk.questions:
                    started = time.process_time()
                    answer = await store.search(question.text, SearchScope(conversation_of="t"), limit=FIRST_PAGE)
                    spent += time.process_time() - started
                    shown = question.evidence.intersection(hit.seq for hit in answer.hits if hit.seq is not None)
                    right.setdefault(question.kind, []).append(shown == question.evidence)
                    recall.append(len(shown) / len(question.evidence))
    every = [one for found in right.values() for one in found]
    return {
        "turns": sum(len(talk.turns) for talk in talks) // len(talks),
        "questions": len(every),
        "all evidence %": 100 * sum(every) / len(every),
        "recall %": 100 * sum(recall) / len(recall),
        "ms each": spent * 1_000 / len(every),
        **{f"{kind} %": 100 * sum(found) / len(found) for kind, found in right.items()},
    }


if __name__ == "__main__":
    main()
