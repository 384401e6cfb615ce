"""Of what an agent needed later and no longer has in its context: how much one search brings back.

    python benchmarks/quality.py --only recoverable

What stood before the cut of each real session is compressed, and kept whole in a real SQLite store. For each atom that
was needed afterwards and is not verbatim in the result, one search of that conversation is made, with the words that
stand around the atom where it was first used: once with the atom among them, once without, and once with the whole line
of that use without the atom. Found is what stands in a
message of the first ten hits; shown is what stands in their snippets, so that nothing has to be opened.

`lcm_grep` is the same line, asked by the tool of the lossless engine: each session is folded by that engine to about as
many tokens, the atoms are those that its view does not hold, and found is what stands in a message of the first page.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import _repository  # noqa: F401
import clew
from _sessions import CutSession, conversation_files, cut_sessions, name_of
from clew.engines import LosslessEngine
from clew.store import NewSession, SearchResult, SearchScope, Store, open_store
from clew.testing import ScriptedProvider
from clew.turn import receive
from tests.support.flow import SESSION, flow_with

TARGET_TOKENS = 10_000
FIRST_PAGE = 10
WORDS_EACH_SIDE = 6
COLUMNS = (
    "file", "sessions", "atoms", "not in context", "words", "found %", "in view or found %", "shown %", "first hit %",
    "goal %",
)  # fmt: skip
GOAL = 97.0
"""In view or found."""
WAYS = {"with": "with the atom", "without": "without the atom", "line": "its line, without it"}
GREP = "its line, by lcm_grep"
FOLDED_SHARE = 0.5 * (0.20 + 0.25)
"""Of the window: what a fold leaves of a conversation, by the default threshold, tail and map."""
_word = re.compile(r"[^\s\"'`(){}\[\]<>,;:=|\\]+")
_LINE_ENDS = ("\n", "\\n")
_escapes = re.compile(r"\\[nrt\"]")


def recoverable(data: Path, scorer: Any, losses: list[dict[str, Any]] | None = None) -> list[dict[str, Any]]:
    """A row per data set and kind of query; each atom that was not found is added to `losses`."""
    rows = []
    for path in conversation_files(data):
        with tempfile.TemporaryDirectory(prefix="clew-bench-") as folder:
            total = asyncio.run(_measured(list(cut_sessions(path, scorer)), Path(folder) / "store.db", scorer, losses))
        if total["sessions"]:
            rows += [_row(name_of(path), total, words, label) for words, label in WAYS.items()]
            with tempfile.TemporaryDirectory(prefix="clew-bench-") as folder:
                folded = asyncio.run(_by_grep(list(cut_sessions(path, scorer)), Path(folder), scorer, losses))
            rows.append(_row(name_of(path), folded, "grep", GREP))
    return rows


async def _by_grep(
    sessions: Sequence[CutSession], folder: Path, scorer: Any, losses: list[dict[str, Any]] | None
) -> Counter[str]:
    total: Counter[str] = Counter()
    for number, session in enumerate(sessions):
        total["sessions"] += 1
        total["atoms"] += len(session.need)
        where = folder / str(number)
        where.mkdir()
        window = int(TARGET_TOKENS / FOLDED_SHARE)
        async with flow_with(ScriptedProvider(), where, window=window, new_engine=LosslessEngine) as flow:
            await receive(flow.runtime, SESSION, session.before)
            await flow.compact()
            conversation = await flow.conversation()
            view = "\n".join(scorer.text(message) for message in conversation.messages)
            for atom in [atom for atom in session.need if atom not in view]:
                total["missing"] += 1
                used = next(text for message in session.after if atom in (text := scorer.text(message)))
                query, typed = queries_for(atom, used)[-1], as_typed(atom, used)
                page = json.loads(await conversation.engine.handle_tool_call("lcm_grep", {"query": query}))
                hits = [hit for group in page.get("groups", ()) for hit in group["hits"]]
                opened = [await _opened(flow.store, conversation.session, hit, scorer) for hit in hits]
                is_found = any(typed in text for text in opened)
                total["grep found"] += is_found
                total["grep first"] += bool(opened) and typed in opened[0]
                total["grep shown"] += any(typed in hit["snippet"] or typed in hit.get("of", "") for hit in hits)
                if not is_found and losses is not None:
                    losses.append({"session": str(number), "words": "grep", "atom": typed, "query": query})
    return total


async def _measured(
    sessions: Sequence[CutSession], where: Path, scorer: Any, losses: list[dict[str, Any]] | None
) -> Counter[str]:
    total: Counter[str] = Counter()
    async with open_store(where) as store:
        for number, session in enumerate(sessions):
            await store.start_session(NewSession(id=str(number)))
            await store.append(str(number), session.before)
        for number, session in enumerate(sessions):
            total["sessions"] += 1
            total["atoms"] += len(session.need)
            for atom in missing_atoms(session, scorer):
                total["missing"] += 1
                await _look_for(store, str(number), (session, atom), scorer, total, losses)
    return total


async def _opened(store: Store, session: str, hit: dict[str, Any], scorer: Any) -> str:
    """The whole message of a hit and the call that it shows, or the whole output; of a part of the map, its snippet."""
    if "role" in hit:
        number = int(hit["id"][1:])
        rows = await store.messages(session, number, number + 1)
        return "\n".join((hit.get("of", ""), *(scorer.text(row.message) for row in rows)))
    output = await store.output(hit["id"])
    return hit["snippet"] if output is None else output.text


def missing_atoms(session: CutSession, scorer: Any) -> list[str]:
    """The atoms that are not in the compressed context."""
    kept = clew.compress(session.before, target_tokens=TARGET_TOKENS).messages
    result = "\n".join(scorer.text(message) for message in kept)
    return [atom for atom in session.need if atom not in result]


async def _look_for(
    store: Store,
    name: str,
    wanted: tuple[CutSession, str],
    scorer: Any,
    total: Counter[str],
    losses: list[dict[str, Any]] | None,
) -> None:
    session, atom = wanted
    used = next(text for message in session.after if atom in (text := scorer.text(message)))
    typed = as_typed(atom, used)
    for words, query in zip(WAYS, queries_for(atom, used), strict=True):
        answer = await store.search(query, SearchScope(conversation_of=name, kinds=("message",)), limit=FIRST_PAGE)
        rank = rank_of(typed, answer, session.before, scorer)
        total[f"{words} found"] += rank is not None
        total[f"{words} first"] += rank == 0
        total[f"{words} shown"] += any(typed in hit.snippet.text for hit in answer.hits)
        if rank is None and losses is not None:
            losses.append({"session": name, "words": words, "atom": typed, "query": query})


def as_typed(atom: str, used: str) -> str:
    """In the JSON of arguments, the letter of an escape runs into the word behind it; nobody would type it."""
    is_escaped = used[: used.index(atom)].endswith("\\") and atom[0] in "nrt"
    return atom[1:] if is_escaped else atom


def queries_for(atom: str, used: str) -> tuple[str, str, str]:
    """The words around an atom where it is first used: with it, without it, and the whole line without it."""
    at = used.index(atom)
    before = _word.findall(_escapes.sub(" ", used[:at]))[-WORDS_EACH_SIDE:]
    after = _word.findall(_escapes.sub(" ", used[at + len(atom) :]))[:WORDS_EACH_SIDE]
    line_start = max((found + len(end) for end in _LINE_ENDS if (found := used.rfind(end, 0, at)) >= 0), default=0)
    line_stop = min((found for end in _LINE_ENDS if (found := used.find(end, at)) >= 0), default=len(used))
    line = _word.findall(_escapes.sub(" ", used[line_start:line_stop].replace(atom, " ")))
    # An atom that stands alone on its line, or beside nothing but strokes of a drawing, has no words of its own.
    line = line if sum(any(map(str.isalnum, word)) for word in line) > 1 else [*before, *after]
    return " ".join((*before, as_typed(atom, used), *after)), " ".join((*before, *after)), " ".join(line)


def rank_of(atom: str, answer: SearchResult, messages: Sequence[Any], scorer: Any) -> int | None:
    """The place of the first hit whose message holds the atom."""
    for place, hit in enumerate(answer.hits):
        if hit.seq is not None and atom in scorer.text(messages[hit.seq]):
            return place
    return None


def _row(name: str, total: Counter[str], words: str, label: str) -> dict[str, Any]:
    missing = max(1, total["missing"])
    return {
        "file": name,
        "sessions": total["sessions"],
        "atoms": total["atoms"],
        "not in context": total["missing"],
        "words": label,
        "found %": 100 * total[f"{words} found"] / missing,
        "in view or found %": 100 * (1 - (total["missing"] - total[f"{words} found"]) / max(1, total["atoms"])),
        "shown %": 100 * total[f"{words} shown"] / missing,
        "first hit %": 100 * total[f"{words} first"] / missing,
        "goal %": GOAL,
    }
