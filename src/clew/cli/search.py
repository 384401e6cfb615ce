"""`clew search QUERY`, `clew open SESSION m12`, `clew vectors`: search stored messages, and read them word for word."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from clew.cli.console import Console
from clew.cli.options import (
    OneOf,
    command,
    complete_sessions,
    one_or_more,
    option,
    period_options,
    refuse,
    session_argument,
    store_options,
)
from clew.cli.pages import MARGIN, describe_period, format_time, json_fields, plural
from clew.cli.store_access import all_session_ids, configured_store, find_session, short_ids, stored_session
from clew.cli.text import clip, display_width, fitting_chars, printable, wrap
from clew.config import config_path, read_config, set_in_file, setting_named
from clew.errors import InvalidArgument

if TYPE_CHECKING:
    from clew.cli.tui.state import ChatState
    from clew.store import SearchHit, Snippet, Store
    from clew.turn import FoundMessage, FoundPage, OpenedMessage, OpenedPage

SEARCH_HELP = """\
Any of the words counts; what has more of them, or has them as a phrase, comes first. Every
query is allowed, in any language: there is no syntax. A message that was compacted
ten times is found once, and a call and its result are one hit. `clew open` reads on.
The exit status is 1 where the index is damaged, so that messages may be missing.

examples:
  clew search "retry backoff"
  clew search connection refused --tool terminal --since 7d
  clew search 构建失败 --role user
  clew search rota --conversation 4f1c --json
"""
DEFAULT_LIMIT, MAX_LIMIT = 10, 1_000
ROLES = ("user", "assistant", "tool", "system", "developer")
OPEN_HELP = """\
A handoff and a search name messages by their numbers; this shows what they say.

  m12        one message; 12 is the same
  m12-m20    several; m12- to the end, m12,m40 two of them
  m12@3000   one message from that character on
  --last 20  the newest twenty

A message of at most 6,000 characters is shown whole. Of a longer one its beginning is
shown, or with --around the place where most of the words are close together, with its
position. Several messages share a page of 14,000 characters: short ones are whole. With
--chars each shows as much as was asked for. The last line says how to read on. Arguments
of calls are decoded. A call names its result, and a result its call.

examples:
  clew open 4f1c m121
  clew open 4f1c m121 --around "connection refused"
  clew open 4f1c m121 --chars 20000
  clew open 4f1c m120-m130 --json
"""
VECTORS_HELP = """\
Sets store.vectors and makes the vectors of all stored turns; those of new turns are made in
the background. A question is then also compared with what turns mean: "Which car does she
own?" finds "my sedan". Ctrl-C keeps what is made, and the rest is made later.

It helps with questions about long talks with an assistant. It does not help with sessions of
coding agents and with short turns between people: there search without vectors is better.

examples:
  clew vectors
  clew vectors --off
"""
_EMBEDDED_AT_ONCE = 64
HERE_FLAG = "--here"
LINES_ON_SCREEN = 6
"""Lines of one hit on a terminal; a pipe gets all of them."""


@command(SEARCH_HELP, exclusive=("session", "conversation"))
@click.argument("words", metavar="QUERY", nargs=-1, required=True)
@option("--session", "SESSION", "in one session alone", complete_sessions)
@option("--conversation", "SESSION", "in the whole conversation of a session", complete_sessions)
@option("--role roles", "ROLE", ", ".join(ROLES), type=OneOf(ROLES), multiple=True)
@option("--tool tools", "NAME", "in results of this tool", multiple=True)
@period_options
@option(
    "--limit", "N", f"how many hits at most (default {DEFAULT_LIMIT})", type=one_or_more, default=str(DEFAULT_LIMIT)
)
@store_options
async def search_command(console: Console, words: Sequence[str], **given: Any) -> int:
    query = " ".join(words)
    if not query.strip():
        raise InvalidArgument("the query is empty", remedy="give the words to look for")
    asked = SearchOptions(**given)
    location = configured_store(console)
    named = asked.session or asked.conversation
    if not location.exists and named is None:
        empty = {"query": query, "hits": 0, "groups": [], "searched": None, "problem": None, "where": ""}
        return console.show(empty, lambda: console.print(location.empty_message))
    async with location.open(f"session {named!r}") as store:
        page = await search_store(store, query, asked)
    console.show(results_json(page, asked.in_words), lambda: print_results(page, asked.in_words, console))
    if page.result.problem is None:
        return 0
    console.note(page.result.problem)
    return 1


@command(OPEN_HELP, exclusive=("messages", "last"))
@session_argument
@click.argument("messages", metavar="MESSAGES", required=False)
@option("--last", "N", "the newest N messages", type=one_or_more)
@option("--around", "WORDS", "show long messages around these words", default="")
@option("--chars", "N", "so much of each (default up to 6000)", type=one_or_more)
@store_options
@click.pass_context
async def open_command(
    context: click.Context,
    console: Console,
    session: str,
    messages: str | None,
    last: int | None,
    around: str,
    chars: int | None,
) -> int:
    from clew.turn import open_messages

    if messages is None and last is None:
        refuse(context, "one of MESSAGES and --last is missing")
    async with stored_session(console, session) as (store, found):
        wanted = f"-{last}" if last else str(messages)
        page = await open_messages(store, found.id, wanted, words=around, chars=chars)
    return console.show(opened_json(page), lambda: print_opened(page, console))


@command(VECTORS_HELP)
@click.option("--off", is_flag=True, help="search by words alone; the vectors stay")
@store_options
async def vectors_command(console: Console, off: bool) -> int:
    from clew.install import has_extra, install_command

    if not off and not has_extra("vectors"):
        raise InvalidArgument("the extra `vectors` is not installed", remedy=install_command("vectors"))
    setting = setting_named("store.vectors", "vectors")
    console.notes(set_in_file(config_path(console.environ), setting, not off))
    loaded = read_config(console.environ, console.flags)
    location = replace(configured_store(console), with_vectors=not off)
    made = 0
    if location.exists and not off:
        async with location.open("the database") as store:
            made = await _make_vectors(store, console)
    is_on = bool(loaded.value_of(setting.key))
    if is_on is off:
        console.note(f"{loaded.origin_of(setting.key)} overrules {loaded.path}")
    fields = {"vectors": is_on, "config": str(loaded.path), "store": location.label, "made": made}
    state = f"{setting.key} = {setting.shown(is_on)}  ({loaded.path})"
    done = "" if off else f"\nvectors of {plural(made, 'turn')} made; a running program uses them after a restart"
    return console.show(fields, lambda: console.print(state + done))


async def _make_vectors(store: Store, console: Console) -> int:
    """Make missing vectors; returns the number of turns."""
    await store.index_waiting()
    waiting, made = await store.vectors_waiting(), 0
    while more := await store.embed_waiting(_EMBEDDED_AT_ONCE):
        made += more
        console.progress(f"making vectors: {made:,} of {waiting:,} turns")
    console.clear_progress()
    return made


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """The filters of a search."""

    session: str | None = None
    conversation: str | None = None
    roles: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    limit: int = DEFAULT_LIMIT

    @property
    def in_words(self) -> str:
        """The filters in words; empty without filters."""
        words = [
            f"in session {self.session}" if self.session else "",
            f"in the conversation of {self.conversation}" if self.conversation else "",
            f"said by {' or '.join(self.roles)}" if self.roles else "",
            f"from {' or '.join(self.tools)}" if self.tools else "",
            describe_period(self.since, self.until),
        ]
        return ", ".join(filter(None, words))


async def search_store(store: Store, query: str, asked: SearchOptions) -> SearchPage:
    """Search the store, and read the titles of the hits."""
    from clew.cli.sessions import first_message
    from clew.store import SearchScope
    from clew.turn import search_history

    session = (await find_session(store, asked.session)).id if asked.session else None
    whole = (await find_session(store, asked.conversation)).id if asked.conversation else None
    scope = SearchScope(
        session=session,
        conversation_of=whole,
        roles=asked.roles,
        tools=asked.tools,
        since=asked.since,
        before=asked.until,
    )
    page = await search_history(store, query, scope, limit=min(asked.limit, MAX_LIMIT))
    hits = [found.hit for found in page.hits if found.hit.session]
    untitled = {hit.conversation: str(hit.session) for hit in reversed(hits) if hit.title is None}
    openings = {conversation: await first_message(store, session) for conversation, session in untitled.items()}
    ids = short_ids((str(hit.session) for hit in hits), await all_session_ids(store))
    return SearchPage(page, openings, ids, is_one=bool(session or whole))


@dataclass(frozen=True, slots=True)
class SearchPage:
    """The result of a search, with titles and ids for its hits."""

    result: FoundPage
    first_messages: Mapping[int | None, str]
    """First messages of conversations without a title."""
    ids: Mapping[str, str]
    """Short ids of sessions."""
    is_one: bool = False
    """Only one session or conversation was searched, so that hits do not name it."""

    @property
    def groups(self) -> dict[int | None, list[FoundMessage]]:
        """Hits by conversation, ordered by the best hit of each."""
        by_conversation: dict[int | None, list[FoundMessage]] = {}
        for found in self.result.hits:
            by_conversation.setdefault(found.hit.conversation, []).append(found)
        return by_conversation


def print_results(page: SearchPage, where: str, console: Console) -> None:
    """Print the hits; `where` are the filters in words."""
    result, groups = page.result, page.groups
    if not result.hits:
        console.print(printable(f"Nothing found for {result.query!r}{' ' + where if where else ''}."))
        if result.searched is not None:
            narrower = "; without the filters there may be more" if where else ""
            console.print(f"Searched: {result.searched}{narrower}.")
        return
    head = f"{plural(len(result.hits), 'hit')} in {plural(len(groups), 'conversation')}"
    console.say(f"{head}{', ' + where if where else ''}", "dim")
    for conversation, hits in groups.items():
        console.print()
        title = hits[0].hit.title or page.first_messages.get(conversation) or f"conversation {conversation}"
        console.print(console.style(clip(printable(title), console.width), "bold"))
        for found in hits:
            _print_hit(found, page, console)


def _print_hit(found: FoundMessage, page: SearchPage, console: Console) -> None:
    from clew.store import Snippet
    from clew.turn import found_label

    name, _, facts = found_label(found).partition(" ")
    if not page.is_one:
        session = page.ids.get(found.hit.session or "", "")
        facts = ", ".join(filter(None, (facts, format_time(found.hit.at), session)))
    facts = printable(facts)
    room = _room(console, len(MARGIN) + display_width(name) + 1)
    first, *more = [clip(facts, room)] if console.colors else wrap(facts, room) or [""]
    console.print(f"{MARGIN}{console.style(name, 'cyan')} {console.style(first, 'dim')}".rstrip())
    for line in more:
        console.print(f"{MARGIN * 2}{line}")
    _print_excerpts(found.hit, console)
    for other in found.partners:
        console.print(f"{MARGIN * 2}{console.style(f'm{other.seq}:', 'cyan')}")
        _print_excerpts(other, console)
    if found.preview:
        console.print(f"{MARGIN * 2}{console.style(f'm{found.results[0].number}:', 'cyan')}")
        _print_text(Snippet(found.preview, (), 0, True, True), console)


def _room(console: Console, beside: int) -> int:
    """The columns of a line beside others; unlimited in a pipe."""
    return sys.maxsize if console.is_for_program else console.width - beside


def _print_excerpts(hit: SearchHit, console: Console) -> None:
    for excerpt in (hit.snippet,) if console.colors else hit.excerpts or (hit.snippet,):
        _print_text(excerpt, console)


def _print_text(snippet: Snippet, console: Console) -> None:
    """Print a text fitted to the width: a few lines with colored matches, or without colors all lines."""
    text = "".join(char if char == "\n" else printable(char) for char in snippet.text)
    room = _room(console, len(MARGIN) * 2 + 2)
    spans = [span for span in _wrap_spans(text, room) if text[slice(*span)].strip()]
    chosen = _lines_around_match(spans, snippet.marks) if console.colors else spans
    for number, span in enumerate(chosen):
        before = "…" if number == 0 and (not snippet.is_start or span != spans[0]) else ""
        after = "…" if number == len(chosen) - 1 and (not snippet.is_end or span != spans[-1]) else ""
        shown = _highlight(text, span, snippet.marks if console.colors else (), console)
        console.print(f"{MARGIN * 2}{before}{shown}{after}".rstrip())


def _lines_around_match(spans: list[tuple[int, int]], marks: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The lines to show on a screen, including the first match."""
    if len(spans) <= LINES_ON_SCREEN:
        return spans
    first = marks[0][0] if marks else 0
    holding = next((at for at, (start, stop) in enumerate(spans) if start <= first < stop), 0)
    begin = max(0, min(holding - 1, len(spans) - LINES_ON_SCREEN))
    return spans[begin : begin + LINES_ON_SCREEN]


def _wrap_spans(text: str, room: int) -> Iterator[tuple[int, int]]:
    """Start and end of each line of a text that is wrapped to a width.

    Lines break at line ends and spaces. An ASCII word, such as a URL or a path, is never broken.
    """
    start = 0
    for line in text.split("\n"):
        stop = start + len(line)
        at = start
        while display_width(text[at:stop]) > room:
            cut = at + fitting_chars(text[at:stop], room)
            space = text.rfind(" ", at + 1, cut + 1)
            if space > at:
                cut = space
            elif text[at : at + room].isascii():
                space = text.find(" ", cut, stop)
                cut = space if space >= 0 else stop
            else:
                cut = max(cut, at + 1)
            yield at, cut
            at = cut + 1 if text[cut : cut + 1] == " " else cut
        yield at, stop
        start = stop + 1


def _highlight(text: str, span: tuple[int, int], marks: Sequence[tuple[int, int]], console: Console) -> str:
    pieces, at = list[str](), span[0]
    for start, stop in marks:
        low, high = max(start, at), min(stop, span[1])
        if low < high:
            pieces += [text[at:low], console.style(text[low:high], "bold", "yellow")]
            at = high
    return "".join([*pieces, text[at : span[1]]])


def results_json(page: SearchPage, where: str) -> dict[str, Any]:
    result = page.result
    return {
        "query": result.query,
        "where": where,
        "hits": len(result.hits),
        "groups": [
            {
                "conversation": conversation,
                "title": hits[0].hit.title,
                "opening": page.first_messages.get(conversation),
                "hits": [_found_json(found) for found in hits],
            }
            for conversation, hits in page.groups.items()
        ],
        "searched": result.searched and json_fields(result.searched, "messages", "summaries", "outputs"),
        "problem": result.problem,
    }


def _found_json(found: FoundMessage) -> dict[str, Any]:
    hit = found.hit
    return {
        **json_fields(hit, "kind", "session"),
        "number": hit.seq,
        **json_fields(hit, "role", "tool", "at"),
        "score": round(hit.score, 4),
        **json_fields(hit, "ref", "chars"),
        "excerpts": [_excerpt_json(it) for it in hit.excerpts or (hit.snippet,)],
        "same_in": sorted(hit.copies),
        "result_of": found.call and {"number": found.call.number, "call": found.call.call},
        "results": [link.number for link in found.results],
        "beside": [
            *(
                {"number": it.seq, "excerpts": [_excerpt_json(each) for each in it.excerpts or (it.snippet,)]}
                for it in found.partners
            ),
            *([{"number": found.results[0].number, "excerpts": [{"text": found.preview}]}] if found.preview else ()),
        ],
    }


def _excerpt_json(snippet: Snippet) -> dict[str, Any]:
    return {"text": snippet.text, "start": snippet.start, "marks": [list(mark) for mark in snippet.marks]}


# -- opened messages ---------------------------------------------------------------------------------------------------


def print_opened(page: OpenedPage, console: Console) -> None:
    """Print messages verbatim, each after a line about it."""
    from clew.turn import opened_label, position_of, reading_on

    for above, message in zip((None, *page.messages), page.messages, strict=False):
        if above:
            console.print()
        console.print(console.style(printable(opened_label(message, above)), "cyan"))
        for part in message.parts:
            if position := position_of(part, len(message.text)):
                console.print(console.style(f"[{position}]", "dim"))
            for line in message.text[part.start : part.stop].split("\n"):
                console.print(printable(line))
    if page.missing:
        console.note(printable(f"none of these words is there: {page.missing}"))
    if page.next:
        console.note(reading_on(page))


def opened_json(page: OpenedPage) -> dict[str, Any]:
    return {
        "session": page.session,
        "messages_in_all": page.count,
        "messages": [_opened_json(message) for message in page.messages],
        "next": page.next or None,
    }


def _opened_json(message: OpenedMessage) -> dict[str, Any]:
    return {
        **json_fields(message, "number", "role", "tool", "at"),
        "chars": len(message.text),
        "parts": [{"start": part.start, "text": message.text[part.start : part.stop]} for part in message.parts],
        "result_of": message.call and {"number": message.call.number, "call": message.call.call},
        "results": [{"number": link.number, "call": link.call} for link in message.results],
    }


# -- in a chat ---------------------------------------------------------------------------------------------------------


async def run_search(state: ChatState, words: str) -> None:
    is_here = words == HERE_FLAG or words.startswith(f"{HERE_FLAG} ")
    query = words.removeprefix(HERE_FLAG).strip() if is_here else words
    if not query:
        raise InvalidArgument("/search needs words to look for: /search retry backoff")
    page = await search_store(state.app.store, query, SearchOptions(conversation=state.session if is_here else None))
    if not page.result.hits:
        elsewhere = "/search without --here looks everywhere" if is_here else "other words may find it"
        state.show_text(f"Nothing found for {query!r} among {page.result.searched}; {elsewhere}.")
        return

    def print_page(console: Console) -> None:
        print_results(page, "in this conversation" if is_here else "", console)
        hint = "/pin mN keeps one of this conversation; /resume SESSION goes to another"
        console.print_lines(["", *console.hint_lines(hint)])

    state.show_page(print_page)
