"""The tool `recall`: searches all conversations of the session's owner, and reads messages and outputs verbatim.

What it finds is fenced, since others may have written it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from clew.agent.safe_text import fenced, one_line
from clew.agent.tools.base import AgentTool, Arguments, CallContext, ToolResult, error_result, function_schema
from clew.messages import Message, arguments_of_call, calls_of, images_of, name_of_call, text_of
from clew.store import DocKind, SearchHit, SearchScope, Session, SnippetSizes, Store, StoredMessage, UnknownSession

MAX_CHARS = 12_000
MAX_HITS = 20
_SNIPPET_CHARS, _LATER_CHARS = 500, 160
"""The best hits are shown at length, the others only so that one can be chosen to read."""
_BEFORE, _AFTER = 2, 3
"""Messages that are read around the requested one."""
_NEIGHBOUR_CHARS = 1_500
_THIS = "this"
_KINDS: dict[str, tuple[DocKind, ...]] = {"messages": ("message",), "outputs": ("output",)}
_NUMBER = re.compile(r"m?(\d{1,12})")

_DESCRIPTION = (
    "Search everything ever said or run, here and in earlier conversations, or read it word for word. It brings back "
    "the exact words of what a handoff folded: m12 there is message 12 of this conversation (around=12). "
    "Give query to search; around to read; output to read a persisted output."
)


class RecallTool(AgentTool):
    """Searches and reads the store."""

    name = "recall"
    is_read_only = True

    def __init__(self, store: Store, name: str = name) -> None:
        self._store = store
        self.name = name
        self.schema = function_schema(
            self.name,
            _DESCRIPTION,
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
        subject = arguments.get("query") or arguments.get("output") or f"m{arguments.get('around', '')}"
        return f"recall {one_line(str(subject))[:80]}"

    async def run(self, arguments: Arguments, call: CallContext) -> ToolResult:
        request = _parse_request(arguments)
        if isinstance(request, ToolResult):
            return request
        # A call may still name the session that a compaction has ended since.
        here = await self._store.session(await self._store.get_compression_tip(call.session))
        try:
            target = here
            if request.session not in (None, _THIS):
                target = await self._store.session(request.session or "", owner=here.owner)
        except UnknownSession:
            return error_result(f"there is no session {request.session!r}; take the id of a hit, or {_THIS!r}")
        if request.output is not None:
            return await self._read_output(request.output, request.offset, here.owner)
        if request.around is not None:
            return await self._read(target, request.around, request.offset)
        return await self._search(request, here, target)

    # -- searching -----------------------------------------------------------------------------------------------------

    async def _search(self, request: _RecallRequest, here: Session, target: Session) -> ToolResult:
        within = target.id if request.session is not None else None
        scope = SearchScope(conversation_of=within, owner=here.owner, kinds=_KINDS[request.kind])
        # What the model sees anyway, its own call first of all, is no result.
        seen = await self._in_view(here.id)
        sizes = SnippetSizes(_SNIPPET_CHARS, _LATER_CHARS, seen, here.conversation)
        answer = await self._store.search(request.query, scope, limit=MAX_HITS * 3, snippet_chars=sizes)
        hits = [hit for hit in answer.hits if not _is_seen(hit, here, seen) and hit.tool != self.name][:MAX_HITS]
        if not hits:
            rest = " beyond what you see already" if answer.hits else ""
            return ToolResult(f"Nothing found for {request.query!r} in {request.kind}{rest}. Try other or fewer words.")
        lines = [f"{len(hits)} hits, the best first. Read around one: {self.name}(session=ID, around=NUMBER)."]
        for hit in hits:
            lines.append(_format_hit(hit, here, await self._title(hit)))
        return ToolResult(_bounded(lines), display_text=f"{len(hits)} hits for {request.query!r}")

    async def _in_view(self, session: str) -> set[int]:
        """Numbers of the messages of this conversation that the view shows unchanged."""
        view = await self._store.view(session, keep_damaged=True)
        return {target for at, target in enumerate(view.seqs) if target is not None and at not in view.written}

    async def _title(self, hit: SearchHit) -> str:
        """A conversation's title, or its beginning."""
        if hit.title or hit.session is None:
            return one_line(hit.title or "")[:80]
        first = await self._store.messages(hit.session, 0, 1, keep_damaged=True)
        return one_line(text_of(first[0].message)[:200])[:80] if first else ""

    # -- reading -------------------------------------------------------------------------------------------------------

    async def _read(self, target: Session, around: int, offset: int) -> ToolResult:
        start = around if offset else max(0, around - _BEFORE)
        rows = await self._store.messages(
            target.id, start, around + 1 if offset else around + _AFTER + 1, keep_damaged=True
        )
        wanted = next((row for row in rows if row.seq == around), None)
        if wanted is None:
            count = (await self._store.view(target.id, keep_damaged=True)).next_seq
            return error_result(f"there is no message m{around} in session {target.id}; it has m0 to m{count - 1}")
        others = sum(min(len(message_text(row.message)), _NEIGHBOUR_CHARS) for row in rows if row is not wanted)
        lines = [f"Session {target.id}, word for word:"]
        for row in rows:
            max_chars = MAX_CHARS - 1_000 - others if row is wanted else _NEIGHBOUR_CHARS
            lines.append(_format_message(row, offset if row is wanted else 0, max_chars))
        return ToolResult("\n".join(lines), display_text=f"m{rows[0].seq} to m{rows[-1].seq}")

    async def _read_output(self, output: str, offset: int, owner: str) -> ToolResult:
        found = await self._store.output(output, owner=owner)
        if found is None:
            return error_result(f"there is no output {output!r}; search with kind=outputs, and take the id of a hit")
        label = f"output {found.id} of {found.tool or 'a tool'}, {found.at:%Y-%m-%d %H:%M}"
        return ToolResult(_excerpt(label, found.text, offset, MAX_CHARS - 500))


@dataclass(frozen=True, slots=True)
class _RecallRequest:
    query: str
    kind: str
    session: str | None
    around: int | None
    output: str | None
    offset: int


def _parse_request(arguments: Arguments) -> _RecallRequest | ToolResult:
    """What a call asks for; or the error."""
    around, offset = _number(arguments.get("around")), _number(arguments.get("offset") or 0)
    if offset is None or (around is None and arguments.get("around") is not None):
        return error_result("around and offset have to be numbers, 0 or more: around=12 for m12")
    kind = arguments.get("kind") or "messages"
    if not isinstance(kind, str) or kind not in _KINDS:
        return error_result(f"kind is {kind!r}; it has to be {' or '.join(_KINDS)}")
    texts = {name: arguments.get(name) for name in ("query", "session", "output")}
    invalid = [name for name, value in texts.items() if value is not None and not _is_text(value)]
    if invalid:
        return error_result(f"{' and '.join(invalid)} has to be a text; leave it out where it is not needed")
    if not (texts["query"] or "").strip() and around is None and not texts["output"]:
        return error_result("give query to search, around to read messages, or output to read an output")
    return _RecallRequest(texts["query"] or "", kind, texts["session"] or None, around, texts["output"] or None, offset)


def _is_text(value: object) -> bool:
    """Text that a store can search for: without lone surrogates."""
    return isinstance(value, str) and not any("\ud800" <= char <= "\udfff" for char in value)


def _number(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    found = _NUMBER.fullmatch(str(value).strip())
    return int(found[1]) if found else None


def _is_seen(hit: SearchHit, here: Session, seen: set[int]) -> bool:
    return hit.kind == "message" and hit.conversation == here.conversation and hit.seq in seen


def _format_hit(hit: SearchHit, here: Session, title: str) -> str:
    where = "this conversation" if hit.conversation == here.conversation else f"session {hit.session}"
    what = f"output {hit.ref}" if hit.kind == "output" else f"m{hit.seq} {hit.role}"
    tool = f" {hit.tool}" if hit.tool else ""
    label = f"{where}, {what}{tool}, {hit.at:%Y-%m-%d %H:%M}"
    before, after = "" if hit.snippet.is_start else "… ", "" if hit.snippet.is_end else " …"
    about = "" if hit.conversation == here.conversation or not title else f", titled: {title}"
    return fenced(label + about, f"{before}{hit.snippet.text}{after}")


def _format_message(row: StoredMessage, offset: int, max_chars: int) -> str:
    tool = f" {row.tool}" if row.tool else ""
    return _excerpt(
        f"m{row.seq} {row.message['role']}{tool}, {row.at:%Y-%m-%d %H:%M}", message_text(row.message), offset, max_chars
    )


def _excerpt(label: str, text: str, offset: int, max_chars: int) -> str:
    """A part of a text, fenced, and how to read on."""
    shown = text[offset : offset + max_chars]
    end = offset + len(shown)
    more = f"\n(chars {offset:,} to {end:,} of {len(text):,}; read on with offset={end})" if end < len(text) else ""
    return fenced(label, shown) + more


def message_text(message: Message) -> str:
    """A message as text: what it says, and for each call and picture a line."""
    return "\n".join(_message_parts(message))


def _message_parts(message: Message) -> Iterator[str]:
    text = text_of(message)
    if text:
        yield text
    yield from ("[picture]" for _ in images_of(message))
    for call in calls_of(message):
        yield f"[called {name_of_call(call)} with {json.dumps(arguments_of_call(call), ensure_ascii=False)}]"


def _bounded(pieces: Sequence[str]) -> str:
    """As many of the pieces as fit."""
    kept, chars = list[str](), 0
    for piece in pieces:
        chars += len(piece) + 1
        if chars > MAX_CHARS:
            kept.append("(more hits were left out; search for something narrower)")
            break
        kept.append(piece)
    return "\n".join(kept)
