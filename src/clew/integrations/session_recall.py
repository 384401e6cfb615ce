"""What another agent may ask about the sessions of a store: search, open, compress, count them, and tell their state.

Every answer is a JSON object of bounded size, with what to ask for next. No conversation is changed. Only those of
the person at this machine are seen, whoever else has some in the store.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from clew.agent.tools.recall import message_text
from clew.config import CompressionSettings
from clew.engines import (
    Changed,
    Compaction,
    CompactionItem,
    ContextCompressor,
    Kept,
    budgets_for_target,
    messages_of,
)
from clew.errors import InvalidArgument, UnknownSession
from clew.facts import person_text
from clew.integrations.recalled_text import SNIPPET_CHARS, RecalledText
from clew.messages import Message, text_of
from clew.store import CallFilter, SearchHit, SearchScope, Session, Store, StoredMessage, View
from clew.tokens import count_each, counter_for, window_of
from clew.turn import read_conversation_state

OWNER = ""
"""The person at the terminal, to whom imported sessions and those of `clew chat` belong."""
HITS_PER_PAGE = 8
MAX_HITS = 80
SESSIONS_PER_PAGE = 20
MESSAGES_PER_PAGE = 40
PAGE_CHARS = 16_000
SHORT_RESULT_CHARS = 300
MIN_TOKENS, USUAL_TOKENS, MAX_TOKENS = 1_000, 4_000, 16_000
"""Of a compressed session."""
MAX_COUNTED_CHARS = 2_000_000
_ROWS_AT_ONCE = 200
_NEAR = 5
_EVERY_SESSION = 100_000
_REQUEST_CHARS = 300
_SAID_CHARS = 20_000
"""How much of a message is searched for what a person said."""
_MOST_OF_A_KIND = 4


@dataclass(frozen=True, slots=True)
class SessionQuery:
    """What is searched for."""

    words: str
    session: str = ""
    """Only in the conversation of this one."""
    program: str = ""
    role: str = ""
    days: int = 0
    """Only so many back."""
    page: int = 1


class SessionRecall:
    """Reads a store for another agent. `importing` tells how far an import in the background is."""

    def __init__(
        self, store: Store, *, redacts: bool = True, importing: Callable[[], Mapping[str, Any]] | None = None
    ) -> None:
        self._store = store
        self._texts = RecalledText(redacts)
        self._importing = importing

    # -- searching -----------------------------------------------------------------------------------------------------

    async def search(self, query: SessionQuery) -> dict[str, Any]:
        """The best hits for any of the words, a page at a time."""
        if not query.words.strip():
            raise InvalidArgument("query is empty; give the words to look for")
        within = (await self.find(query.session)).id if query.session else None
        scope = SearchScope(
            conversation_of=within,
            owner=OWNER,
            roles=(query.role,) if query.role else (),
            since=datetime.now(UTC) - timedelta(days=query.days) if query.days else None,
        )
        first = (query.page - 1) * HITS_PER_PAGE
        wanted = min(MAX_HITS, first + HITS_PER_PAGE + 1)
        # Programs are no part of the index: where one is asked for, more is looked at.
        found = await self._store.search(
            query.words, scope, limit=wanted * (5 if query.program else 1), snippet_chars=SNIPPET_CHARS
        )
        sessions = await self._sessions_of(found.hits)
        hits = [hit for hit in found.hits if not query.program or _program(sessions, hit) == query.program][:wanted]
        shown = hits[first : first + HITS_PER_PAGE]
        answer: dict[str, Any] = {"hits": [self._hit(hit, sessions) for hit in shown]}
        if len(hits) > first + HITS_PER_PAGE:
            answer["next_page"] = query.page + 1
        if not shown:
            answer["note"] = "Nothing found. Try other or fewer words, or fewer filters."
        return {**answer, **self._import_note()}

    async def _sessions_of(self, hits: Iterable[SearchHit]) -> dict[str, Session]:
        names = dict.fromkeys(hit.session for hit in hits if hit.session)
        return {name: await self._store.session(name, owner=OWNER) for name in names}

    def _hit(self, hit: SearchHit, sessions: Mapping[str, Session]) -> dict[str, Any]:
        what = {"summary": "handoff", "output": "output"}.get(hit.kind) or hit.role
        told = {
            "session": hit.session,
            "message": hit.seq,
            "role": what,
            "tool": hit.tool,
            "at": _minute(hit.at),
            "program": _program(sessions, hit),
            "title": self._texts.line(hit.title, 80),
            "text": self._texts.around_match(hit.snippet),
        }
        return {name: value for name, value in told.items() if value is not None and value != ""}

    # -- opening -------------------------------------------------------------------------------------------------------

    async def open(self, name: str, start: int = 0, offset: int = 0, *, whole: bool = False) -> dict[str, Any]:
        """Messages word for word from a number on; tool results by their beginning, unless `whole`."""
        session = await self.find(name)
        count = await self._count_messages(session)
        first = max(0, count + start) if start < 0 else start
        if count and first >= count:
            raise InvalidArgument(f"start is {start}; session {session.id} has messages 0 to {count - 1}")
        rows = await self._store.messages(session.id, first, first + MESSAGES_PER_PAGE, owner=OWNER, keep_damaged=True)
        shown, following = self._page(rows, offset, whole)
        answer = {**self._about(session), "messages_in_all": count, "messages": shown}
        if following is None and rows and rows[-1].seq + 1 < count:
            following = {"start": rows[-1].seq + 1}
        return {**answer, "next": following} if following else answer

    def _page(
        self, rows: Sequence[StoredMessage], offset: int, whole: bool
    ) -> tuple[list[dict[str, Any]], dict[str, int] | None]:
        """As many messages as fit on a page, and where the next page begins."""
        shown: list[dict[str, Any]] = []
        room = PAGE_CHARS
        for row in rows:
            text = message_text(row.message)
            start = min(offset, len(text)) if not shown else 0
            is_short = row.message["role"] == "tool" and not whole and not start
            if shown and room < (SHORT_RESULT_CHARS if is_short else min(len(text), PAGE_CHARS // 4)):
                return shown, {"start": row.seq}
            part = self._texts.part(text, start, min(room, SHORT_RESULT_CHARS) if is_short else room)
            told = {"message": row.seq, "role": row.message["role"], "at": _minute(row.at), "text": part.text}
            if row.tool:
                told["tool"] = row.tool
            if part.end < len(text):
                told["cut"] = f"chars {start:,} to {part.end:,} of {len(text):,}"
            shown.append(told)
            room -= part.end - start
            if part.end < len(text) and not is_short:
                return shown, {"start": row.seq, "offset": part.end}
        return shown, None

    # -- compressing and counting --------------------------------------------------------------------------------------

    async def compress(self, name: str, tokens: int = USUAL_TOKENS, focus: str | None = None) -> dict[str, Any]:
        """A whole session in so many tokens: how it began, a handoff, how it ended. Numbers in it open messages."""
        session = await self.find(name)
        messages = await self._history(session)
        if not messages:
            raise InvalidArgument(f"session {session.id} has no messages; take another")
        compaction = await asyncio.to_thread(_compressed, messages, session.model, tokens, focus)
        shown = [
            {**_number_of(item), "role": message["role"], "text": self._texts.whole(message_text(message))}
            for item in compaction.items
            for message in messages_of(messages, [item])
        ]
        return {
            **self._about(session),
            "tokens_before": compaction.tokens_before,
            "tokens_after": compaction.tokens_after,
            "messages_in_all": len(messages),
            "messages": shown,
        }

    async def count(self, name: str = "", text: str = "", model: str | None = None) -> dict[str, Any]:
        """How many tokens a session or a text has, and how much of the model's window that is."""
        if bool(name) == bool(text):
            raise InvalidArgument("give either session or text")
        if text:
            if len(text) > MAX_COUNTED_CHARS:
                raise InvalidArgument(f"text has {len(text):,} chars; at most {MAX_COUNTED_CHARS:,} are counted")
            counter = counter_for(model)
            tokens = {"tokens": await asyncio.to_thread(counter.text, text)}
            return {**tokens, **_window(model, tokens["tokens"]), "exact": counter.exact}
        session = await self.find(name)
        model = model or session.model
        view = await self._store.view(session.id, owner=OWNER, keep_damaged=True)
        shown = await asyncio.to_thread(_tokens, view.messages, model)
        whole = shown if view.base is None else await asyncio.to_thread(_tokens, await self._history(session), model)
        counts = {"messages_in_all": view.next_seq, "tokens_in_all": whole, "tokens_in_view": shown}
        return {**self._about(session), **counts, **_window(model, shown), "exact": counter_for(model).exact}

    # -- state ---------------------------------------------------------------------------------------------------------

    async def state(self, name: str) -> dict[str, Any]:
        """One session: its size, compactions, usage, first and last request, and how files, tests, tasks ... stand."""
        session = await self.find(name)
        view = await self._store.view(session.id, owner=OWNER, keep_damaged=True)
        made = await self._store.compactions(session.id, owner=OWNER, keep_damaged=True)
        used = await self._store.usage([], CallFilter(session=session.id))
        last = await self._store.messages(session.id, max(0, view.next_seq - 1), view.next_seq, keep_damaged=True)
        children = await self._store.children_of(session.id, owner=OWNER)
        return {
            **self._about(session),
            "updated": _minute(last[0].at) if last else _minute(session.created),
            "messages_in_all": view.next_seq,
            "messages_in_view": len(view.messages),
            "compactions": sum(each.is_in_effect for each in made),
            **self._requests(view),
            **({"calls": used[0].calls, "tokens_used": used[0].usage.total_tokens} if used and used[0].calls else {}),
            **({"children": [child.id for child in children[:_NEAR]]} if children else {}),
            **({"stands": stands} if (stands := await self._stands(session)) else {}),
        }

    async def _stands(self, session: Session) -> list[dict[str, Any]]:
        """The newest of each kind of thing that the conversation has said something about, and is not over."""
        state = await read_conversation_state(self._store, session.id, owner=OWNER)
        shown = Counter[str]()
        told = []
        for entity in state.entities():
            if not entity.is_ended and shown[entity.kind] < _MOST_OF_A_KIND:
                shown[entity.kind] += 1
                words = {"name": self._texts.line(entity.name), "is": self._texts.line(entity.value)}
                told.append({"kind": entity.kind, **words, "message": entity.now.number})
        return told

    async def overview(self, program: str = "", page: int = 1) -> dict[str, Any]:
        """All conversations, the newest first, a page at a time."""
        everyone = await self.conversations()
        chosen = [session for session in everyone if not program or session.source == program]
        first = (page - 1) * SESSIONS_PER_PAGE
        answer: dict[str, Any] = {
            "store": self._store.where,
            "sessions_in_all": len(chosen),
            "programs": sorted({session.source for session in everyone}),
            "sessions": [self._about(session) for session in chosen[first : first + SESSIONS_PER_PAGE]],
        }
        if len(chosen) > first + SESSIONS_PER_PAGE:
            answer["next_page"] = page + 1
        return {**answer, **self._import_note()}

    async def view(self, name: str) -> dict[str, Any]:
        """What the model of a session sees now, the newest messages of it that fit on a page."""
        session = await self.find(name)
        view = await self._store.view(session.id, owner=OWNER, keep_damaged=True)
        shown: list[dict[str, Any]] = []
        room = PAGE_CHARS
        for message, number in zip(reversed(view.messages), reversed(view.seqs), strict=True):
            text = message_text(message)
            part = self._texts.part(text, 0, SHORT_RESULT_CHARS if message["role"] == "tool" else PAGE_CHARS // 4)
            room -= len(part.text)
            if room < 0 and shown:
                break
            cut = {"cut": f"of {len(text):,} chars"} if part.end < len(text) else {}
            own = {"message": number} if number is not None else {}
            shown.insert(0, {**own, "role": message["role"], "text": part.text, **cut})
        left_out = len(view.messages) - len(shown)
        return {**self._about(session), "messages_in_view": len(view.messages), "left_out": left_out, "messages": shown}

    def describe(self, session: Session) -> tuple[str, str]:
        """A session in the words of a list: its title, and where and when it was."""
        return self._texts.line(session.title, 80) or session.id, f"{session.source}, {_minute(session.created)}"

    async def conversations(self) -> list[Session]:
        """The newest session of every conversation that is no subagent's, the newest first."""
        tips = await self._store.list_sessions(owner=OWNER, limit=_EVERY_SESSION, only_tips=True)
        return sorted((tip for tip in tips if tip.kind != "subagent"), key=lambda tip: tip.created, reverse=True)

    async def find(self, name: str) -> Session:
        """The newest session of the conversation that an id, the beginning or end of one, or a title means."""
        wanted = name.strip()
        try:
            return await self._store.session(await self._store.get_compression_tip(wanted, owner=OWNER), owner=OWNER)
        except UnknownSession:
            pass
        folded = wanted.casefold()
        near = [it for it in await self.conversations() if folded and _is_like(it, folded)]
        if len(near) == 1:
            return near[0]
        some = ", ".join(f"{it.id} ({self._texts.line(it.title, 60)})" for it in islice(near, _NEAR))
        remedy = f"it could be {some}; give the id" if near else "take the id of a search hit, or ask session_state"
        raise InvalidArgument(f"there is no session {wanted!r:.100}; {remedy}")

    # -- parts of answers ----------------------------------------------------------------------------------------------

    def _about(self, session: Session) -> dict[str, Any]:
        told = {
            "session": session.id,
            "title": self._texts.line(session.title, 80),
            "program": session.source,
            "model": session.model,
            "created": _minute(session.created),
        }
        return {name: value for name, value in told.items() if value}

    def _requests(self, view: View) -> dict[str, str]:
        """The first and the last request that the view shows; what a compaction wrote is none."""
        own = (message for at, message in enumerate(view.messages) if at not in view.written)
        said = [words for message in own if message["role"] == "user" and (words := _request_in(message))]
        if not said:
            return {}
        line = self._texts.line
        return {"first_request": line(said[0], _REQUEST_CHARS), "last_request": line(said[-1], _REQUEST_CHARS)}

    def _import_note(self) -> dict[str, Any]:
        told = self._importing() if self._importing else {}
        return {"importing": dict(told)} if told else {}

    async def _count_messages(self, session: Session) -> int:
        return (await self._store.view(session.id, owner=OWNER, keep_damaged=True)).next_seq

    async def _history(self, session: Session) -> list[Message]:
        messages: list[Message] = []
        while rows := await self._store.messages(
            session.id, len(messages), len(messages) + _ROWS_AT_ONCE, owner=OWNER, keep_damaged=True
        ):
            messages += [row.message for row in rows]
        return messages


def _compressed(messages: Sequence[Message], model: str | None, tokens: int, focus: str | None) -> Compaction:
    """By the built-in summariser: whoever asks for a session asks for no call of a model."""
    settings = CompressionSettings()
    engine = ContextCompressor(model=model, settings=settings, budgets=budgets_for_target(tokens, settings))
    size = engine.size_of(messages)
    if size <= tokens:
        return Compaction.nothing(messages, size)
    return asyncio.run(engine.compress(messages, size, focus))


def _number_of(item: CompactionItem) -> dict[str, int]:
    return {"message": item.index} if isinstance(item, Kept | Changed) else {}


def _tokens(messages: Sequence[Message], model: str | None) -> int:
    return sum(count_each(messages, model))


def _window(model: str | None, tokens: int) -> dict[str, Any]:
    if model is None:
        return {}
    window = window_of(model)
    return {"model": model, "window": window.tokens, "percent_of_window": round(100 * tokens / window.tokens, 1)}


def _program(sessions: Mapping[str, Session], hit: SearchHit) -> str:
    found = sessions.get(hit.session or "")
    return found.source if found else ""


def _is_like(session: Session, folded: str) -> bool:
    own = session.id.casefold()
    return own.startswith(folded) or own.endswith(folded) or folded in (session.title or "").casefold()


def _request_in(message: Message) -> str:
    """What a person asked for; nothing for a bare command to the program (`/model`)."""
    said = person_text(text_of(message)[:_SAID_CHARS]).strip()
    return "" if said.startswith("/") and len(said.split()) == 1 else said


def _minute(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%MZ")
