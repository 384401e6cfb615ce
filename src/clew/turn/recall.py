"""Recall: search a store and open messages by number, for every door (terminal, agent, MCP, library, hosting API).

`search_history` gives a page of hits that show what they found; `open_messages` gives messages word for word, or the
part of a long one around some words. A call and its result name each other. Both return values; a door renders them.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeAlias

from clew.errors import InvalidArgument
from clew.messages import Message, ToolCall, arguments_of_call, calls_of, images_of, name_of_call, text_of
from clew.store import (
    SearchCoverage,
    SearchHit,
    SearchScope,
    SnippetSizes,
    Store,
    StoredMessage,
    call_text,
    excerpts_around,
    parts_around,
)

SHORT_CHARS = 1_500
"""A hit of at most so many characters is shown whole."""
OPENED_CHARS = 6_000
_ALMOST = 1.1
"""An opened message of at most so many characters is shown whole, if there is room for it."""
PAGE_CHARS = 14_000
"""About how much a page shows, some 4,000 tokens."""
HITS_PER_PAGE = 10
_HIT_CHARS = SHORT_CHARS
_EXCERPTS = 3
_LINE_CHARS = 160
_PREVIEW_CHARS = 400
"""Of the result of a found call, where the words did not find the result, too."""
_LOOKED_AT = 3
"""So many times more hits are searched: calls and results become one, and results of recall are left out."""
_NEAR = 24
"""So many messages before and behind a hit are read to link calls and results."""
_MOST_MESSAGES = 200
"""On a page of opened ones."""
_BEGINNING_CHARS = 150
"""Each message of a range shows at least so many."""
_FRAME_CHARS = 80
"""Around the text of a message, beside its label: its position and marks."""
_CALL_CHARS = 60
"""Of each call, where a message has several."""
_PARTNERS = 2
_SHORTENED_CHARS = 600
_NUMBERS = re.compile(r"m?(\d{1,12})(?:@(\d{1,12})|\s*(-|–|to|\.\.)\s*(?:m?(\d{1,12}))?)?")
_NEWEST = re.compile(r"-(\d{1,6})")
# The names that clients give to Clew's own tools, and the shell commands that do the same.
_OWN_TOOL = re.compile(
    r"recall|state|lcm_\w+|(?:.*[_.:/-])?clew[_.:/-]+\w+|(?:search|compress)_sessions?|open_session|session_state"
)
_OWN_COMMAND = re.compile(r"\s*clew\s+(?:search|open|mcp)\b")


Place: TypeAlias = tuple[int, int, int]
"""Messages to open: from, to (not included), and from which character on."""


@dataclass(frozen=True, slots=True)
class CallLink:
    """A link between a call and its result."""

    number: int | None
    """Of the other message; None for a call without a result."""
    call: str
    """The call in a line: its tool and its arguments."""


@dataclass(frozen=True, slots=True)
class OpenedMessage:
    """A message, and which parts of its text are shown."""

    number: int
    role: str
    tool: str | None
    at: datetime
    text: str
    """The whole text: what it says, then its calls with their arguments decoded."""
    parts: tuple[range, ...]
    """The ranges of the text that are shown, in order."""
    results: tuple[CallLink, ...] = ()
    """For a message with calls: the result of each."""
    call: CallLink | None = None
    """For a result: what was called, and by which message."""
    message: Message = field(default_factory=lambda: Message(role="user"), repr=False)

    @property
    def is_whole(self) -> bool:
        return sum(map(len, self.parts)) == len(self.text)


@dataclass(frozen=True, slots=True)
class OpenedPage:
    """The messages of a page."""

    session: str
    count: int
    """Of all messages of the conversation."""
    messages: tuple[OpenedMessage, ...]
    next: str = ""
    """The name of what follows the page; empty at the end."""
    missing: str = ""
    """Words that none of the messages has."""


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """A hit, with the other side of its call: they are one."""

    hit: SearchHit
    results: tuple[CallLink, ...] = ()
    call: CallLink | None = None
    partners: tuple[SearchHit, ...] = ()
    """The call or the results of it that the words found, too."""
    preview: str = ""
    """The part of the first result that fits the words best, if the words did not find that result."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The messages that this hit shows something of."""
        shown = [self.hit.seq, *(it.seq for it in self.partners), *self.hit.copies]
        shown += [self.call.number] if self.call else []
        shown += [it.number for it in self.results[:1]] if self.preview else []
        return tuple(dict.fromkeys(number for number in shown if number is not None))


@dataclass(frozen=True, slots=True)
class FoundPage:
    """The best hits; `searched` says how much was looked through where there are none."""

    query: str
    hits: tuple[FoundMessage, ...]
    has_more: bool = False
    searched: SearchCoverage | None = None
    hidden: int = 0
    """Hits that were left out because the caller sees them already."""
    problem: str | None = None
    """Why hits may be missing, and the remedy: the index is damaged."""


async def search_history(
    store: Store,
    query: str,
    scope: SearchScope,
    *,
    limit: int = HITS_PER_PAGE,
    page: int = 1,
    is_seen: Callable[[SearchHit], bool] | None = None,
    sizes: SnippetSizes | None = None,
) -> FoundPage:
    """A page of the best hits for any of the words: a call and its result once, no result of Clew's own recall."""
    sizes = sizes or SnippetSizes(_HIT_CHARS, whole=SHORT_CHARS, excerpts=_EXCERPTS)
    wanted = limit * page
    looked_at = wanted * (_LOOKED_AT if is_seen is None else 2 * _LOOKED_AT)
    found = await store.search(query, scope, limit=looked_at, snippet_chars=sizes)
    chosen: list[FoundMessage] = []
    at: dict[tuple[int | None, int], int] = {}
    hidden = 0
    for hit in found.hits:
        if is_seen is not None and is_seen(hit):
            hidden += 1
            continue
        linked = await _linked_hit(store, hit, query) if hit.kind == "message" else FoundMessage(hit)
        if linked is None and not scope.tools:
            continue
        one = linked or FoundMessage(hit)
        others = [it.number for it in (*one.results, one.call) if it is not None and it.number is not None]
        known = next((at[hit.conversation, it] for it in others if (hit.conversation, it) in at), None)
        if known is not None:
            kept = chosen[known]
            if len(kept.partners) < _PARTNERS:
                chosen[known] = replace(kept, partners=(*kept.partners, hit), preview="")
            continue
        if len(chosen) > wanted:
            break
        if hit.seq is not None:
            at[hit.conversation, hit.seq] = len(chosen)
        chosen.append(one)
    hits = _within(chosen[wanted - limit : wanted], PAGE_CHARS * limit // HITS_PER_PAGE)
    return FoundPage(query, tuple(hits), len(chosen) > wanted, found.searched, hidden, found.problem)


def _within(hits: Sequence[FoundMessage], chars: int) -> list[FoundMessage]:
    """The hits with at most about so many characters: the last ones show less, and each at least its best excerpt."""
    kept: list[FoundMessage] = []
    for hit in hits:
        room = chars - _SHORTENED_CHARS * (len(hits) - len(kept) - 1)
        if _chars_of(hit) > room:
            hit = replace(hit, partners=tuple(_shortened(it) for it in hit.partners))
        if _chars_of(hit) > room:
            hit = replace(hit, hit=_shortened(hit.hit))
        chars -= _chars_of(hit)
        kept.append(hit)
    return kept


def _chars_of(hit: FoundMessage) -> int:
    return sum(len(text) for _, text in found_texts(hit))


def _shortened(hit: SearchHit) -> SearchHit:
    """A hit with its best excerpt alone."""
    return replace(hit, excerpts=(hit.snippet,))


async def _linked_hit(store: Store, hit: SearchHit, query: str) -> FoundMessage | None:
    """A hit with the links of its call; None for a call of Clew's own recall."""
    if hit.seq is None or hit.session is None or hit.role not in ("assistant", "tool"):
        return FoundMessage(hit)
    rows = await store.messages(hit.session, max(0, hit.seq - _NEAR), hit.seq + _NEAR + 1, keep_damaged=True)
    own = next((row for row in rows if row.seq == hit.seq), None)
    links = CallLinks(rows)
    if own is None or links.is_own_recall(own):
        return None
    results, call = links.results.get(hit.seq, ()), links.calls.get(hit.seq)
    behind = next((row for row in rows if results and row.seq == results[0].number), None)
    preview = ""
    if behind is not None:
        text = message_text(behind.message)
        preview = " … ".join(text[part.start : part.stop] for part in excerpts_around(text, query, _PREVIEW_CHARS, 1))
    return FoundMessage(hit, tuple(results), call, preview=preview)


async def open_messages(
    store: Store,
    session: str,
    wanted: str,
    *,
    words: str = "",
    chars: int | None = None,
    page_chars: int = PAGE_CHARS,
    owner: str | None = None,
) -> OpenedPage:
    """Messages of the conversation of a session by number.

    `wanted` is m12, m12-m20, m12- (to the end), several with commas, -20 (the newest 20), or m12@3000 (from that
    character on).
    Several messages share `page_chars`: short ones are whole, and of each long one as much is shown as there is room
    for, at most 6,000 characters. With `chars`, so many characters of each are shown, and the page has fewer messages.
    Of a long message the parts around `words` are shown, or without them its beginning.
    """
    tip = await store.get_compression_tip(session, owner=owner)
    count = (await store.view(tip, owner=owner, keep_damaged=True)).next_seq
    room, least = max(page_chars, chars or 0), 0
    chosen: list[tuple[OpenedMessage, int]] = []
    rest: Sequence[Place] = ()
    async for message, offset, places in _opened_messages(store, tip, _places(wanted, count), owner):
        least += min(max(0, len(message.text) - offset), chars or _BEGINNING_CHARS) + _frame(message)
        if chosen and (least > room or len(chosen) == _MOST_MESSAGES):
            rest = places
            break
        chosen.append((message, offset))
    frames = sum(_frame(message) for message, _ in chosen) if len(chosen) > 1 else 0
    lengths = [_length_shown(max(0, len(it.text) - offset), chars) for it, offset in chosen]
    opened = [
        replace(message, parts=tuple(parts_around(message.text, words, share, offset)))
        for (message, offset), share in zip(chosen, _shares(lengths, room - frames), strict=True)
    ]
    last = opened[-1]
    following = _names(rest)
    if len(opened) == 1 and (end := last.parts[-1].stop) < len(last.text):
        following = ",".join(filter(None, (f"m{last.number}@{end}", following)))
    return OpenedPage(tip, count, tuple(opened), following, _missing(words, opened))


async def _opened_messages(
    store: Store, tip: str, places: Sequence[Place], owner: str | None
) -> AsyncIterator[tuple[OpenedMessage, int, Sequence[Place]]]:
    """Each message of these places, from which character on, and the places from this message on."""
    for at, (first, stop, offset) in enumerate(places):
        for start in range(first, stop, _MOST_MESSAGES):
            low, end = max(0, start - _NEAR), min(stop, start + _MOST_MESSAGES)
            rows = await store.messages(tip, low, end + _NEAR, owner=owner, keep_damaged=True)
            links = CallLinks(rows)
            for row in rows[start - low : end - low]:
                yield _opened(row, links), offset, [(row.seq, stop, offset), *places[at + 1 :]]


def _length_shown(left: int, chars: int | None) -> int:
    """How many of the remaining characters may be shown: all of them if few would be left."""
    if chars is not None:
        return min(left, chars)
    return left if left <= _ALMOST * OPENED_CHARS else OPENED_CHARS


def _shares(lengths: Sequence[int], room: int) -> list[int]:
    """How many characters each text gets: short ones all of theirs, and long ones the same share of what is left."""
    shares = [0] * len(lengths)
    for done, at in enumerate(sorted(range(len(lengths)), key=lengths.__getitem__)):
        shares[at] = min(lengths[at], room // (len(lengths) - done))
        room -= shares[at]
    return shares


def _frame(message: OpenedMessage) -> int:
    """What a message takes on a page beside its text."""
    return len(opened_label(message)) + _FRAME_CHARS


def _opened(row: StoredMessage, links: CallLinks) -> OpenedMessage:
    return OpenedMessage(
        row.seq,
        row.message["role"],
        row.tool,
        row.at,
        message_text(row.message),
        (),
        tuple(links.results.get(row.seq, ())),
        links.calls.get(row.seq),
        row.message,
    )


def _missing(words: str, opened: Sequence[OpenedMessage]) -> str:
    """The words, where no message has any of them."""
    return words if words and not any(excerpts_around(it.text, words, 1, 1, only_found=True) for it in opened) else ""


def _places(wanted: str, count: int) -> list[Place]:
    """The places that a text names."""
    asked: list[Place] = []
    if (newest := _NEWEST.fullmatch(wanted.strip())) is not None and count:
        return [(max(0, count - int(newest[1])), count, 0)]
    for piece in filter(None, (it.strip() for it in wanted.split(","))):
        if (found := _NUMBERS.fullmatch(piece)) is None:
            raise InvalidArgument(f"{piece!r:.60} names no message", remedy="give m12, m12-m20, m12,m40 or m12@3000")
        first, last = int(found[1]), int(found[4] or (count - 1 if found[3] else found[1]))
        if not first <= last or first >= count:
            there = f"it has m0 to m{count - 1}" if count else "it has no messages"
            raise InvalidArgument(f"there is no message {piece} in this conversation", remedy=there)
        asked.append((first, min(last + 1, count), int(found[2] or 0)))
    if not asked:
        raise InvalidArgument("name the message to open: m12, m12-m20, or -20 for the newest 20")
    return asked


def is_message_name(text: str) -> bool:
    """Whether a text is nothing but the name of messages, such as m12 or m12-m20."""
    pieces = [it.strip() for it in text.split(",")]
    return all(it.startswith("m") and _NUMBERS.fullmatch(it) is not None for it in pieces)


def _names(places: Sequence[Place]) -> str:
    """The text that names these places."""
    return ",".join(
        f"m{first}-m{stop - 1}" if stop - first > 1 else f"m{first}@{offset}" if offset else f"m{first}"
        for first, stop, offset in places
    )


class CallLinks:
    """Which result belongs to which call, in some messages that follow each other."""

    def __init__(self, rows: Sequence[StoredMessage]) -> None:
        self.results: dict[int, list[CallLink]] = {}
        """By the number of a message with calls: the result of each."""
        self.calls: dict[int, CallLink] = {}
        """By the number of a result: its call."""
        self._names: dict[int, str] = {}
        waiting: list[tuple[str, int, int]] = []
        for row in rows:
            for at, call in enumerate(calls_of(row.message)):
                self.results.setdefault(row.seq, []).append(CallLink(None, call_line(call)))
                waiting.append((str(call.get("id") or ""), row.seq, at))
            if row.message["role"] == "tool" and waiting:
                self._answer(row, waiting)

    def _answer(self, row: StoredMessage, waiting: list[tuple[str, int, int]]) -> None:
        """Give a result to its call: the newest with its id, or without an id the oldest that has none."""
        id = str(row.message.get("tool_call_id") or "")
        same = [it for it in waiting if it[0] == id]
        if not same:
            return
        # Ids that are used twice in one message go in order; those of an older message are not meant any more.
        newest = max(it[1] for it in same)
        chosen = next(it for it in same if it[1] == newest)
        waiting.remove(chosen)
        _, number, at = chosen
        line = self.results[number][at].call
        self.results[number][at] = CallLink(row.seq, line)
        self.calls[row.seq] = CallLink(number, line)

    def is_own_recall(self, row: StoredMessage) -> bool:
        """Whether a message is nothing but a call of Clew's own recall, or its result."""
        if row.message["role"] == "tool":
            line = self.calls[row.seq].call if row.seq in self.calls else row.tool or ""
            return is_own_call(line) or is_own_call(row.tool or "")
        lines = [link.call for link in self.results.get(row.seq, ())]
        return bool(lines) and not text_of(row.message).strip() and all(map(is_own_call, lines))


def is_own_call(line: str) -> bool:
    """Whether a call in a line, or the name of a tool, is one of Clew's own recall."""
    name, _, arguments = line.partition(" ")
    is_command = _OWN_COMMAND.match(arguments.partition(": ")[2]) is not None
    return _OWN_TOOL.fullmatch(name) is not None or is_command


def call_line(call: ToolCall, chars: int = _LINE_CHARS) -> str:
    """A call in a line: its tool and its arguments, shortened."""
    line = " ".join(_call_text(call)[: 2 * chars].split())
    return line if len(line) <= chars else f"{line[: chars - 1]}…"


def message_text(message: Message) -> str:
    """A message as text: what it says, then each call with its arguments decoded, then a line for each picture."""
    pieces = [text_of(message), *map(_call_text, calls_of(message)), *("[picture]" for _ in images_of(message))]
    return "\n".join(piece for piece in pieces if piece)


def _call_text(call: ToolCall) -> str:
    # A custom tool takes free text, which search does not index.
    return (
        call_text(call) if call.get("function") else f"{name_of_call(call)} {arguments_of_call(call).get('input', '')}"
    )


# -- rendering ---------------------------------------------------------------------------------------------------------


def opened_label(message: OpenedMessage, above: OpenedMessage | None = None) -> str:
    """Which message it is, and the other side of its calls: `m12 assistant 2026-03-01 02:13, result: m13`.

    The time and the call are not repeated where the message `above` shows them.
    """
    tool = f" {message.tool}" if message.tool else ""
    parts = [f"m{message.number} {message.role}{tool}"]
    time = f"{message.at:%Y-%m-%d %H:%M}"
    if above is None or time != f"{above.at:%Y-%m-%d %H:%M}":
        parts.append(time)
    if message.call is not None:
        is_shown = above is not None and above.number == message.call.number and len(above.results) == 1
        parts.append(f"result of m{message.call.number}" + ("" if is_shown else f": {message.call.call}"))
    if message.results:
        parts.append(_results_label(message.results))
    return ", ".join(parts)


def _results_label(results: Sequence[CallLink]) -> str:
    """The result of a call, or the result of each where there are several calls."""
    names = ["none" if it.number is None else f"m{it.number}" for it in results]
    if len(results) == 1:
        return f"result: {names[0]}"
    calls = (it.call if len(it.call) <= _CALL_CHARS else f"{it.call[: _CALL_CHARS - 1]}…" for it in results)
    return "results: " + "; ".join(f"{call}: {name}" for call, name in zip(calls, names, strict=True))


def reading_on(page: OpenedPage, option: str = "") -> str:
    """How to read on, and up to which message a page with several goes; empty at the end.

    `option` is put before the name of the messages.
    """
    if not page.next:
        return ""
    shown = f"shown up to m{page.messages[-1].number}, " if len(page.messages) > 1 else ""
    return f"{shown}read on with {option}{page.next}"


def position_of(part: range, chars: int) -> str:
    """Where a part is in its text; empty for the whole."""
    return "" if len(part) == chars else f"chars {part.start:,} to {part.stop:,} of {chars:,}"


def found_label(found: FoundMessage) -> str:
    """Which message a hit is, and the other side of its call."""
    hit = found.hit
    what = {"output": f"output {hit.ref}", "summary": "handoff"}.get(hit.kind) or f"m{hit.seq} {hit.role}"
    parts = [f"{what} {hit.tool}" if hit.tool else what]
    if found.call is not None:
        parts.append(f"result of m{found.call.number}: {found.call.call}")
    if found.results:
        parts.append(_results_label(found.results))
    if hit.copies:
        parts.append("nearly the same: " + ", ".join(f"m{number}" for number in sorted(hit.copies)))
    return ", ".join(parts)


def found_texts(found: FoundMessage) -> list[tuple[str, str]]:
    """What a hit shows: each text with the name of its message where it is not the hit's own."""
    texts = [("", hit_text(found.hit)), *((f"m{it.seq}", hit_text(it)) for it in found.partners)]
    if found.preview and found.results:
        texts.append((f"m{found.results[0].number}", found.preview))
    return texts


def hit_text(hit: SearchHit) -> str:
    """The excerpts of a hit, with marks where text is left out."""
    excerpts = hit.excerpts or (hit.snippet,)
    return "\n".join(f"{'' if it.is_start else '… '}{it.text}{'' if it.is_end else ' …'}" for it in excerpts)
