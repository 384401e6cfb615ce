"""What other agents can do with the sessions of a store: search, open, list and fold them, and read their state.

Every answer is a JSON object of bounded size, with what to ask for next. No conversation is changed. Only those of
the person at this machine are visible, also where others have some in the store.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

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
from clew.integrations.recalled_text import RecalledText
from clew.messages import Message, text_of
from clew.store import CallFilter, SearchHit, SearchScope, Session, Store, View, sessions_by_id
from clew.turn import (
    CallLink,
    FoundMessage,
    OpenedMessage,
    message_text,
    open_messages,
    position_of,
    read_conversation_state,
    search_history,
)

OWNER = ""
"""The person at the terminal, to whom imported sessions and those of `clew chat` belong."""
HITS_PER_PAGE = 8
MAX_PAGES = 10
SESSIONS_PER_PAGE = 20
VIEW_CHARS = 16_000
SHORT_RESULT_CHARS = 300
MIN_TOKENS, USUAL_TOKENS, MAX_TOKENS = 1_000, 4_000, 16_000
"""Of a compressed session."""
_ROWS_AT_ONCE = 200
_NEAR = 5
_EVERY_SESSION = 100_000
_REQUEST_CHARS = 300
_SEARCHED_CHARS = 20_000
"""How much of a message is searched for the words of a person."""
_MOST_OF_A_KIND = 4
_CALL_CHARS = 60
"""Of each call, where a message has several."""


@dataclass(frozen=True, slots=True)
class SessionQuery:
    """A search."""

    words: str
    session: str = ""
    """Only in the conversation of this one."""
    program: str = ""
    role: str = ""
    days: int = 0
    """Only so many back."""
    page: int = 1


class SessionRecall:
    """Reads a store for another agent. `importing` returns the progress of an import in the background."""

    def __init__(
        self, store: Store, *, redacts: bool = True, importing: Callable[[], Mapping[str, Any]] | None = None
    ) -> None:
        self._store = store
        self._texts = RecalledText(redacts)
        self._importing = importing

    async def search(self, query: SessionQuery) -> dict[str, Any]:
        """The best hits for any of the words, a page at a time."""
        if not query.words.strip():
            raise InvalidArgument("query is empty", remedy="give the words to look for")
        within = await self.find(query.session) if query.session else None
        scope = SearchScope(
            conversation_of=within.id if within else None,
            owner=OWNER,
            roles=(query.role,) if query.role else (),
            since=datetime.now(UTC) - timedelta(days=query.days) if query.days else None,
        )
        sessions: dict[str, Session] = {}
        if query.program:
            sessions = {it.id: it for it in await self._store.list_sessions(owner=OWNER, limit=_EVERY_SESSION)}

        def is_other(hit: SearchHit) -> bool:
            return bool(query.program) and _program(sessions, hit) != query.program

        page = await search_history(
            self._store, query.words, scope, limit=HITS_PER_PAGE, page=query.page, is_seen=is_other
        )
        answer: dict[str, Any] = {} if within is None else self._about(within)
        answer["hits"] = [await self._hit(found, is_named=within is None) for found in page.hits]
        if page.has_more:
            answer["next_page"] = query.page + 1
        if not page.hits:
            answer["note"] = "Nothing found. Try other or fewer words, or fewer filters."
        if page.problem:
            answer["problem"] = page.problem
        return {**answer, **self._import_note()}

    async def _hit(self, found: FoundMessage, *, is_named: bool) -> dict[str, Any]:
        hit = found.hit
        fields: dict[str, Any] = {}
        if is_named and hit.session:
            session = await self._store.session(hit.session, owner=OWNER)
            fields = {"session": hit.session, "at": _minute(hit.at), "program": session.source}
            fields["title"] = self._texts.line(hit.title, 80)
        fields |= {
            "message": hit.seq,
            "role": {"summary": "handoff", "output": "output"}.get(hit.kind) or hit.role,
            "tool": hit.tool,
            "result_of": found.call and {"message": found.call.number, "call": self._texts.line(found.call.call, 160)},
            "results": self._results(found.results),
            "same_in": sorted(hit.copies),
            "text": await self._excerpts(hit),
            "beside": {f"m{it.seq}": await self._excerpts(it) for it in found.partners},
        }
        if found.preview:
            fields["beside"][f"m{found.results[0].number}"] = self._texts.whole(found.preview)
        return {name: value for name, value in fields.items() if value not in (None, "", [], {})}

    async def _excerpts(self, hit: SearchHit) -> str:
        """The excerpts of a hit without secrets, which are searched in the whole text: an excerpt may cut one."""
        whole = ""
        if hit.kind == "output":
            output = await self._store.output(hit.ref, owner=OWNER)
            whole = output.text if output else ""
        elif hit.kind == "message" and hit.session is not None and hit.seq is not None:
            rows = await self._store.messages(hit.session, hit.seq, hit.seq + 1, owner=OWNER, keep_damaged=True)
            whole = message_text(rows[0].message) if rows else ""
        clean = []
        for it in hit.excerpts or (hit.snippet,):
            is_there = whole[it.start : it.start + len(it.text)] == it.text
            text = self._texts.part(whole, it.start, len(it.text)).text if is_there else self._texts.whole(it.text)
            clean.append(f"{'' if it.is_start else '… '}{text}{'' if it.is_end else ' …'}")
        return "\n".join(clean)

    async def open(self, name: str, wanted: str = "m0-", words: str = "", chars: int | None = None) -> dict[str, Any]:
        """Messages by number, word for word; of long ones the part around some words."""
        session = await self.find(name)
        page = await open_messages(self._store, session.id, wanted, words=words, chars=chars, owner=OWNER)
        answer = {**self._about(session), "messages_in_all": page.count}
        answer["messages"] = [self._opened(message) for message in page.messages]
        if page.missing:
            answer["note"] = f"None of these words is there: {page.missing}"
        return {**answer, "next": page.next} if page.next else answer

    def _opened(self, message: OpenedMessage) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "message": message.number,
            "role": message.role,
            "tool": message.tool,
            "at": _minute(message.at),
            "result_of": message.call and {"message": message.call.number, "call": self._texts.line(message.call.call)},
            "results": self._results(message.results),
        }
        fields = {name: value for name, value in fields.items() if value not in (None, "", [])}
        texts = [self._texts.part(message.text, part.start, len(part)).text for part in message.parts]
        fields["text"] = texts[0] if len(texts) == 1 else texts
        if not message.is_whole:
            fields["cut"] = "; ".join(position_of(part, len(message.text)) for part in message.parts)
        return fields

    def _results(self, links: Sequence[CallLink]) -> list[Any]:
        """The number of a call's result; where there are several calls, each with its own."""
        if len(links) < 2:
            return [link.number for link in links]
        return [{"message": link.number, "call": self._texts.line(link.call, _CALL_CHARS)} for link in links]

    async def compress(self, name: str, tokens: int = USUAL_TOKENS, focus: str | None = None) -> dict[str, Any]:
        """A whole session in so many tokens: how it began, a handoff, how it ended. Numbers in it open messages."""
        session = await self.find(name)
        messages = await self._history(session)
        if not messages:
            raise InvalidArgument(f"session {session.id} has no messages", remedy="take another")
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

    async def state(self, name: str) -> dict[str, Any]:
        """One session: its size, compactions, usage, first and last request, state of files, tests, tasks ..."""
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
        """The newest entities of each kind that have not ended."""
        state = await read_conversation_state(self._store, session.id, owner=OWNER)
        shown = Counter[str]()
        entries = []
        for entity in state.entities():
            if not entity.is_ended and shown[entity.kind] < _MOST_OF_A_KIND:
                shown[entity.kind] += 1
                words = {"name": self._texts.line(entity.name), "is": self._texts.line(entity.value)}
                entries.append({"kind": entity.kind, **words, "message": entity.now.number})
        return entries

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
        """The newest messages of the current view of a session, as many as fit on a page."""
        session = await self.find(name)
        view = await self._store.view(session.id, owner=OWNER, keep_damaged=True)
        shown: list[dict[str, Any]] = []
        room = VIEW_CHARS
        for message, number in zip(reversed(view.messages), reversed(view.seqs), strict=True):
            text = message_text(message)
            part = self._texts.part(text, 0, SHORT_RESULT_CHARS if message["role"] == "tool" else VIEW_CHARS // 4)
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
        near = await self._named(wanted) if wanted else []
        if len(near) == 1:
            return near[0]
        some = ", ".join(f"{it.id} ({self._texts.line(it.title, 60)})" for it in islice(near, _NEAR))
        remedy = f"it could be {some}; give the id" if near else "take the id of a search hit, or ask clew_list"
        raise InvalidArgument(f"there is no session {wanted!r:.100}", remedy=remedy)

    async def _named(self, wanted: str) -> list[Session]:
        """The newest sessions of conversations that have a session with such an id, or a title with these words."""
        everyone = await self._store.list_sessions(owner=OWNER, limit=_EVERY_SESSION)
        titled = [it for it in everyone if wanted.casefold() in (it.title or "").casefold()]
        found = sessions_by_id(everyone, wanted) or titled
        by_conversation = {it.conversation: it for it in reversed(found)}
        tips = [await self._store.get_compression_tip(it.id, owner=OWNER) for it in by_conversation.values()]
        return [await self._store.session(tip, owner=OWNER) for tip in tips]

    def _about(self, session: Session) -> dict[str, Any]:
        fields = {
            "session": session.id,
            "title": self._texts.line(session.title, 80),
            "program": session.source,
            "model": session.model,
            "created": _minute(session.created),
        }
        return {name: value for name, value in fields.items() if value}

    def _requests(self, view: View) -> dict[str, str]:
        """The first and the last request in the view; messages that a compaction wrote do not count."""
        own = (message for at, message in enumerate(view.messages) if at not in view.written)
        requests = [words for message in own if message["role"] == "user" and (words := _request_in(message))]
        if not requests:
            return {}
        line = self._texts.line
        return {"first_request": line(requests[0], _REQUEST_CHARS), "last_request": line(requests[-1], _REQUEST_CHARS)}

    def _import_note(self) -> dict[str, Any]:
        fields = self._importing() if self._importing else {}
        return {"importing": dict(fields)} if fields else {}

    async def _history(self, session: Session) -> list[Message]:
        messages: list[Message] = []
        while rows := await self._store.messages(
            session.id, len(messages), len(messages) + _ROWS_AT_ONCE, owner=OWNER, keep_damaged=True
        ):
            messages += [row.message for row in rows]
        return messages


def _compressed(messages: Sequence[Message], model: str | None, tokens: int, focus: str | None) -> Compaction:
    """Compress with the built-in summariser: reading a session must not cost a call of a model."""
    settings = CompressionSettings()
    engine = ContextCompressor(model=model, settings=settings, budgets=budgets_for_target(tokens, settings))
    size = engine.size_of(messages)
    if size <= tokens:
        return Compaction.nothing(messages, size)
    return asyncio.run(engine.compress(messages, size, focus))


def _number_of(item: CompactionItem) -> dict[str, int]:
    return {"message": item.index} if isinstance(item, Kept | Changed) else {}


def _program(sessions: Mapping[str, Session], hit: SearchHit) -> str:
    found = sessions.get(hit.session or "")
    return found.source if found else ""


def _request_in(message: Message) -> str:
    """The request of a person; empty for a bare command to the program (`/model`)."""
    text = person_text(text_of(message)[:_SEARCHED_CHARS]).strip()
    return "" if text.startswith("/") and len(text.split()) == 1 else text


def _minute(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%MZ")
