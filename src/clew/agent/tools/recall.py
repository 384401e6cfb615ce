"""The tool `recall`: finds what was said in any conversation, and reads it word for word.

Knows the store, within the owner of the present session; shows what it finds as data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from clew.agent.fence import fenced, one_line
from clew.agent.tools.base import AgentTool, Arguments, CallContext, ToolResult, function_schema, wrong
from clew.messages import arguments_of_call, calls_of, images_of, name_of_call, text_of
from clew.store import DocKind, Hit, SearchScope, Session, Store, StoredMessage, UnknownSession

MOST_CHARS = 12_000
HITS = 8
_SNIPPET_CHARS = 500
_BEFORE, _AFTER = 2, 3
"""Messages that are read around the one asked for."""
_NEIGHBOUR_CHARS = 1_500
_THIS = "this"
_KINDS: dict[str, tuple[DocKind, ...]] = {"messages": ("message",), "outputs": ("output",)}
_NUMBER = re.compile(r"m?(\d{1,12})")

_ABOUT = (
    "Search everything ever said or run, here and in earlier conversations, or read it word for word. It brings back "
    "the exact words of what a handoff folded: m12 there is message 12 of this conversation (around=12). "
    "Give query to search; around to read; output to read a persisted output."
)


class Recall(AgentTool):
    """Looks into the store, and changes nothing there."""

    name = "recall"
    changes_nothing = True

    def __init__(self, store: Store) -> None:
        self._store = store
        self.schema = function_schema(
            self.name,
            _ABOUT,
            {
                "query": {"type": "string", "description": "any words"},
                "kind": {"type": "string", "enum": list(_KINDS)},
                "session": {"type": "string", "description": "id of a hit, or this; default for around: this"},
                "around": {"type": "integer", "description": "message number"},
                "output": {"type": "string", "description": "id of an output"},
                "offset": {"type": "integer", "description": "char to read on from"},
            },
        )

    def headline(self, arguments: Arguments) -> str:
        said = arguments.get("query") or arguments.get("output") or f"m{arguments.get('around', '')}"
        return f"recall {one_line(str(said))[:80]}"

    async def run(self, arguments: Arguments, call: CallContext) -> ToolResult:
        asked = _asked(arguments)
        if isinstance(asked, ToolResult):
            return asked
        # A call may still name the session that a compaction has ended since.
        here = await self._store.session(await self._store.get_compression_tip(call.session))
        try:
            there = here
            if asked.session not in (None, _THIS):
                there = await self._store.session(asked.session or "", owner=here.owner)
        except UnknownSession:
            return wrong(f"there is no session {asked.session!r}; take the id of a hit, or {_THIS!r}")
        if asked.output is not None:
            return await self._read_output(asked.output, asked.offset, here.owner)
        if asked.around is not None:
            return await self._read(there, asked.around, asked.offset)
        return await self._search(asked, here, there)

    # -- searching -----------------------------------------------------------------------------------------------------

    async def _search(self, asked: _Asked, here: Session, there: Session) -> ToolResult:
        within = there.id if asked.session is not None else None
        scope = SearchScope(conversation_of=within, owner=here.owner, kinds=_KINDS[asked.kind])
        # What the model sees anyway, its own call first of all, is no answer.
        seen = await self._in_view(here.id)
        answer = await self._store.search(asked.query, scope, limit=HITS * 3, snippet_chars=_SNIPPET_CHARS)
        hits = [hit for hit in answer.hits if not _is_seen(hit, here, seen) and hit.tool != self.name][:HITS]
        if not hits:
            rest = " beyond what you see already" if answer.hits else ""
            return ToolResult(f"Nothing found for {asked.query!r} in {asked.kind}{rest}. Try other or fewer words.")
        told = [f"{len(hits)} hits, the best first. Read around one: recall(session=ID, around=NUMBER)."]
        for hit in hits:
            told.append(_hit(hit, here, await self._title(hit)))
        return ToolResult(_bounded(told), shown=f"{len(hits)} hits for {asked.query!r}")

    async def _in_view(self, session: str) -> set[int]:
        """The messages of the present conversation that are seen as they are."""
        view = await self._store.view(session)
        return {place for at, place in enumerate(view.places) if place is not None and at not in view.written}

    async def _title(self, hit: Hit) -> str:
        """What a conversation is called, or how it begins."""
        if hit.title or hit.session is None:
            return one_line(hit.title or "")[:80]
        first = await self._store.messages(hit.session, 0, 1)
        return one_line(text_of(first[0].message)[:200])[:80] if first else ""

    # -- reading -------------------------------------------------------------------------------------------------------

    async def _read(self, there: Session, around: int, offset: int) -> ToolResult:
        start = around if offset else max(0, around - _BEFORE)
        rows = await self._store.messages(there.id, start, around + 1 if offset else around + _AFTER + 1)
        named = next((row for row in rows if row.seq == around), None)
        if named is None:
            count = (await self._store.view(there.id)).next_seq
            return wrong(f"there is no message m{around} in session {there.id}; it has m0 to m{count - 1}")
        others = sum(min(len(_said(row)), _NEIGHBOUR_CHARS) for row in rows if row is not named)
        told = [f"Session {there.id}, word for word:"]
        for row in rows:
            most = MOST_CHARS - 1_000 - others if row is named else _NEIGHBOUR_CHARS
            told.append(_message(row, offset if row is named else 0, most))
        return ToolResult("\n".join(told), shown=f"m{rows[0].seq} to m{rows[-1].seq}")

    async def _read_output(self, output: str, offset: int, owner: str) -> ToolResult:
        found = await self._store.output(output, owner=owner)
        if found is None:
            return wrong(f"there is no output {output!r}; search with kind=outputs, and take the id of a hit")
        label = f"output {found.id} of {found.tool or 'a tool'}, {found.at:%Y-%m-%d %H:%M}"
        return ToolResult(_part(label, found.text, offset, MOST_CHARS - 500))


@dataclass(frozen=True, slots=True)
class _Asked:
    query: str
    kind: str
    session: str | None
    around: int | None
    output: str | None
    offset: int


def _asked(arguments: Arguments) -> _Asked | ToolResult:
    """What a call asks for; or what is wrong with it."""
    around, offset = _number(arguments.get("around")), _number(arguments.get("offset") or 0)
    if offset is None or (around is None and arguments.get("around") is not None):
        return wrong("around and offset have to be numbers, 0 or more: around=12 for m12")
    kind = arguments.get("kind") or "messages"
    if not isinstance(kind, str) or kind not in _KINDS:
        return wrong(f"kind is {kind!r}; it has to be {' or '.join(_KINDS)}")
    texts = {name: arguments.get(name) for name in ("query", "session", "output")}
    unfit = [name for name, value in texts.items() if value is not None and not _is_text(value)]
    if unfit:
        return wrong(f"{' and '.join(unfit)} has to be a text; leave it out where it is not needed")
    if not (texts["query"] or "").strip() and around is None and not texts["output"]:
        return wrong("give query to search, around to read messages, or output to read an output")
    return _Asked(texts["query"] or "", kind, texts["session"] or None, around, texts["output"] or None, offset)


def _is_text(value: object) -> bool:
    """Text that a store can look for: half a character is none."""
    return isinstance(value, str) and not any("\ud800" <= char <= "\udfff" for char in value)


def _number(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    found = _NUMBER.fullmatch(str(value).strip())
    return int(found[1]) if found else None


def _is_seen(hit: Hit, here: Session, seen: set[int]) -> bool:
    return hit.kind == "message" and hit.conversation == here.conversation and hit.seq in seen


def _hit(hit: Hit, here: Session, title: str) -> str:
    where = "this conversation" if hit.conversation == here.conversation else f"session {hit.session}"
    what = f"output {hit.ref}" if hit.kind == "output" else f"m{hit.seq} {hit.role}"
    tool = f" {hit.tool}" if hit.tool else ""
    label = f"{where}, {what}{tool}, {hit.at:%Y-%m-%d %H:%M}"
    before, after = "" if hit.snippet.is_start else "… ", "" if hit.snippet.is_end else " …"
    about = "" if hit.conversation == here.conversation or not title else f", titled: {title}"
    return fenced(label + about, f"{before}{hit.snippet.text}{after}")


def _message(row: StoredMessage, offset: int, most: int) -> str:
    tool = f" {row.tool}" if row.tool else ""
    return _part(f"m{row.seq} {row.message['role']}{tool}, {row.at:%Y-%m-%d %H:%M}", _said(row), offset, most)


def _part(label: str, text: str, offset: int, most: int) -> str:
    """A stretch of a text, and how to read on."""
    shown = text[offset : offset + most]
    end = offset + len(shown)
    more = f"\n(chars {offset:,} to {end:,} of {len(text):,}; read on with offset={end})" if end < len(text) else ""
    return fenced(label, shown) + more


def _said(row: StoredMessage) -> str:
    return "\n".join(_saying(row))


def _saying(row: StoredMessage) -> Iterator[str]:
    text = text_of(row.message)
    if text:
        yield text
    yield from ("[picture]" for _ in images_of(row.message))
    for call in calls_of(row.message):
        yield f"[called {name_of_call(call)} with {json.dumps(arguments_of_call(call), ensure_ascii=False)}]"


def _bounded(told: Sequence[str]) -> str:
    """As many of the pieces as fit, whole."""
    kept, chars = list[str](), 0
    for piece in told:
        chars += len(piece) + 1
        if chars > MOST_CHARS:
            kept.append("(more hits were left out; search for something narrower)")
            break
        kept.append(piece)
    return "\n".join(kept)
