"""The tool `recall`: searches all conversations of the session's owner, and opens messages and outputs word for word.

What it finds is fenced, since others may have written it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from clew.agent.safe_text import fenced, one_line
from clew.agent.tools.base import AgentTool, Arguments, CallContext, ToolResult, error_result, tool_schema
from clew.errors import InvalidArgument
from clew.messages import text_of
from clew.store import SearchHit, SearchScope, Session, Store, UnknownSession
from clew.turn import (
    OPENED_CHARS,
    PAGE_CHARS,
    FoundMessage,
    found_label,
    found_texts,
    open_messages,
    opened_label,
    position_of,
    reading_on,
    search_history,
)

MAX_CHARS = PAGE_CHARS + 4_000
"""Of a result, labels and fences included."""
_THIS = "this"
_NUMBER = re.compile(r"m?\d{1,12}")


class RecallTool(AgentTool):
    """Searches and reads the store."""

    name = "recall"
    is_read_only = True

    def __init__(self, store: Store, name: str = name) -> None:
        self._store = store
        self.name = name
        self.schema = tool_schema(RecallTool.name, name, OPENED_CHARS=OPENED_CHARS)

    def headline(self, arguments: Arguments) -> str:
        subject = arguments.get("query") or arguments.get("open") or arguments.get("around", "")
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
        if not request.open:
            return await self._search(request, here, target)
        output = await self._store.output(request.open.partition("@")[0], owner=here.owner)
        if output is not None:
            offset = request.open.partition("@")[2]
            label = f"output {output.id} of {output.tool or 'a tool'}, {output.at:%Y-%m-%d %H:%M}"
            return ToolResult(_output_part(label, output.id, output.text, int(offset) if offset.isdecimal() else 0))
        return await self._open(request, target)

    # -- searching -----------------------------------------------------------------------------------------------------

    async def _search(self, request: _RecallRequest, here: Session, target: Session) -> ToolResult:
        within = target.id if request.session is not None else None
        scope = SearchScope(conversation_of=within, owner=here.owner, kinds=("message", "output"))
        # What the model sees anyway, its own call first of all, is no result.
        view = await self._store.view(here.id, keep_damaged=True)
        seen = {seq for at, seq in enumerate(view.seqs) if seq is not None and at not in view.written}

        def is_seen(hit: SearchHit) -> bool:
            return hit.kind == "message" and hit.conversation == here.conversation and hit.seq in seen

        page = await search_history(self._store, request.query, scope, is_seen=is_seen)
        if not page.hits:
            rest = " beyond what you see already" if page.hidden else ""
            nothing = f"Nothing found for {request.query!r}{rest}. Try other or fewer words."
            return ToolResult(f"{nothing}\n({page.problem})" if page.problem else nothing)
        lines = [f"{len(page.hits)} hits, the best first. Read one: {self.name}(open=m12, session=ID)."]
        lines += [f"({page.problem})"] if page.problem else []
        for found in page.hits:
            lines.append(await self._format_hit(found, here))
        return ToolResult("\n".join(lines), display_text=f"{len(page.hits)} hits for {request.query!r}")

    async def _format_hit(self, found: FoundMessage, here: Session) -> str:
        hit = found.hit
        label = found_label(found)
        if hit.conversation != here.conversation:
            label = f"session {hit.session} ({await self._title(hit)}), {label}, {hit.at:%Y-%m-%d %H:%M}"
        return fenced(label, "\n".join(f"{name}: {text}" if name else text for name, text in found_texts(found)))

    async def _title(self, hit: SearchHit) -> str:
        """A conversation's title, or its beginning."""
        if hit.title or hit.session is None:
            return one_line(hit.title or "")[:80]
        first = await self._store.messages(hit.session, 0, 1, keep_damaged=True)
        return one_line(text_of(first[0].message)[:200])[:80] if first else ""

    # -- opening -------------------------------------------------------------------------------------------------------

    async def _open(self, request: _RecallRequest, target: Session) -> ToolResult:
        try:
            page = await open_messages(
                self._store, target.id, request.open, words=request.around, chars=request.chars, owner=target.owner
            )
        except InvalidArgument as problem:
            return error_result(str(problem))
        lines = [f"Session {page.session}, word for word:"]
        for above, message in zip((None, *page.messages), page.messages, strict=False):
            for part in message.parts:
                label = ", ".join(filter(None, (opened_label(message, above), position_of(part, len(message.text)))))
                lines.append(fenced(label, message.text[part.start : part.stop]))
        if page.missing:
            lines.append(f"(none of these words is there: {page.missing})")
        if page.next:
            lines.append(f"({reading_on(page, 'open=')})")
        return ToolResult("\n".join(lines), display_text=request.open)


@dataclass(frozen=True, slots=True)
class _RecallRequest:
    query: str
    open: str
    around: str
    chars: int | None
    session: str | None


def _parse_request(arguments: Arguments) -> _RecallRequest | ToolResult:
    """What a call asks for; or the error."""
    texts = {name: arguments.get(name) for name in ("query", "open", "around", "session")}
    # A number is a message: open=12, around=12 and around="m12" mean m12.
    for name in ("open", "around"):
        if isinstance(texts[name], int) and not isinstance(texts[name], bool):
            texts[name] = f"m{texts[name]}"
    invalid = [name for name, value in texts.items() if value is not None and not _is_text(value)]
    if invalid:
        return error_result(f"{' and '.join(invalid)} has to be a text; leave it out where it is not needed")
    wanted, around = (texts["open"] or "").strip(), (texts["around"] or "").strip()
    if not wanted and _NUMBER.fullmatch(around):
        wanted, around = around, ""
    chars = arguments.get("chars") or None
    if chars is not None and (isinstance(chars, bool) or not isinstance(chars, int) or chars < 1):
        return error_result(f"chars is {chars!r:.40}; it has to be a number, 1 or more")
    if not (texts["query"] or "").strip() and not wanted:
        return error_result("give query to search, or open to read: open=m12")
    chars = None if chars is None else min(chars, PAGE_CHARS)
    return _RecallRequest(texts["query"] or "", wanted, around, chars, texts["session"] or None)


def _is_text(value: Any) -> bool:
    """Text that a store can search for: without lone surrogates."""
    return isinstance(value, str) and not any("\ud800" <= char <= "\udfff" for char in value)


def _output_part(label: str, id: str, text: str, offset: int) -> str:
    """A part of an output, fenced, and how to read on."""
    part = range(min(offset, len(text)), min(len(text), offset + PAGE_CHARS))
    named = ", ".join(filter(None, (label, position_of(part, len(text)))))
    more = f"\n(read on with open={id}@{part.stop})" if part.stop < len(text) else ""
    return fenced(named, text[part.start : part.stop]) + more
