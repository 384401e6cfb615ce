"""How the hits of `clew search` and the messages of `clew open` look; and the same as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clew.cli.console import Console
from clew.cli.views.amounts import format_time, iso_time, plural
from clew.cli.views.tables import MARGIN
from clew.cli.views.text import clip, display_width, fitting_chars, printable, wrap
from clew.store import SearchHit, Snippet
from clew.turn import FoundMessage, FoundPage, OpenedMessage, OpenedPage, found_label, opened_label, position_of

LINES_ON_SCREEN = 6
"""Of one hit; a program that reads it gets all of them."""


@dataclass(frozen=True, slots=True)
class SearchPage:
    """The result of a search, with the names of what it found."""

    result: FoundPage
    first_messages: Mapping[int | None, str]
    """Of the conversations without a title."""
    ids: Mapping[str, str]
    """The sessions of the hits, each with its short id."""
    is_one: bool = False
    """One session was searched: its hits need not name it."""

    @property
    def groups(self) -> dict[int | None, list[FoundMessage]]:
        """The hits by conversation, in the order of each one's best hit."""
        by_conversation: dict[int | None, list[FoundMessage]] = {}
        for found in self.result.hits:
            by_conversation.setdefault(found.hit.conversation, []).append(found)
        return by_conversation


def print_results(page: SearchPage, where: str, console: Console) -> None:
    """The hits; `where` are the filters in words."""
    result, groups = page.result, page.groups
    if not result.hits:
        console.print(printable(f"Nothing found for {result.query!r}{' ' + where if where else ''}."))
        if result.searched is not None:
            narrower = "; without the filters there may be more" if where else ""
            console.print(f"Searched: {result.searched}{narrower}.")
        return
    head = f"{plural(len(result.hits), 'hit')} in {plural(len(groups), 'conversation')}"
    for line in wrap(f"{head}{', ' + where if where else ''}", console.width):
        console.print(console.style(line, "dim"))
    for conversation, hits in groups.items():
        console.print()
        title = hits[0].hit.title or page.first_messages.get(conversation) or f"conversation {conversation}"
        console.print(console.style(clip(printable(title), console.width), "bold"))
        for found in hits:
            _print_hit(found, page, console)


def _print_hit(found: FoundMessage, page: SearchPage, console: Console) -> None:
    name, _, facts = found_label(found).partition(" ")
    if not page.is_one:
        session = page.ids.get(found.hit.session or "", "")
        facts = ", ".join(filter(None, (facts, format_time(found.hit.at), session)))
    facts = printable(facts)
    room = console.width - len(MARGIN) - display_width(name) - 1
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


def _print_excerpts(hit: SearchHit, console: Console) -> None:
    for excerpt in (hit.snippet,) if console.colors else hit.excerpts or (hit.snippet,):
        _print_text(excerpt, console)


def _print_text(snippet: Snippet, console: Console) -> None:
    """The lines of a text, fitted to the width: a few with the matches in colour, or where no colours are all."""
    text = "".join(char if char == "\n" else printable(char) for char in snippet.text)
    room = console.width - len(MARGIN) * 2 - 2
    spans = [span for span in _wrap_spans(text, room) if text[slice(*span)].strip()]
    chosen = _lines_around_match(spans, snippet.marks) if console.colors else spans
    for number, span in enumerate(chosen):
        before = "…" if number == 0 and (not snippet.is_start or span != spans[0]) else ""
        after = "…" if number == len(chosen) - 1 and (not snippet.is_end or span != spans[-1]) else ""
        shown = _highlight(text, span, snippet.marks if console.colors else (), console)
        console.print(f"{MARGIN * 2}{before}{shown}{after}".rstrip())


def _lines_around_match(spans: list[tuple[int, int]], marks: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """As many lines as are shown on a screen, so that the first match is among them."""
    if len(spans) <= LINES_ON_SCREEN:
        return spans
    first = marks[0][0] if marks else 0
    holding = next((at for at, (start, stop) in enumerate(spans) if start <= first < stop), 0)
    begin = max(0, min(holding - 1, len(spans) - LINES_ON_SCREEN))
    return spans[begin : begin + LINES_ON_SCREEN]


def _wrap_spans(text: str, room: int) -> Iterator[tuple[int, int]]:
    """Where the lines of a text begin and end when it is fitted to a width.

    Lines end at line ends and spaces. A word in ASCII without a space, such as an address or a path, is never broken.
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
    searched = result.searched
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
        "searched": searched
        and {"messages": searched.messages, "summaries": searched.summaries, "outputs": searched.outputs},
    }


def _found_json(found: FoundMessage) -> dict[str, Any]:
    hit = found.hit
    return {
        "kind": hit.kind,
        "session": hit.session,
        "number": hit.seq,
        "role": hit.role,
        "tool": hit.tool,
        "at": iso_time(hit.at),
        "score": round(hit.score, 4),
        "ref": hit.ref,
        "chars": hit.chars,
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
    """Messages word for word: a line about each, then its text as it is."""
    for number, message in enumerate(page.messages):
        if number:
            console.print()
        console.print(console.style(printable(opened_label(message)), "cyan"))
        for part in message.parts:
            if position := position_of(part, len(message.text)):
                console.print(console.style(f"[{position}]", "dim"))
            for line in message.text[part.start : part.stop].split("\n"):
                console.print(printable(line))
    if page.missing:
        console.note(printable(f"none of these words is there: {page.missing}"))
    if page.next:
        console.note(f"read on with {page.next}")


def opened_json(page: OpenedPage) -> dict[str, Any]:
    return {
        "session": page.session,
        "messages_in_all": page.count,
        "messages": [_opened_json(message) for message in page.messages],
        "next": page.next or None,
    }


def _opened_json(message: OpenedMessage) -> dict[str, Any]:
    return {
        "number": message.number,
        "role": message.role,
        "tool": message.tool,
        "at": iso_time(message.at),
        "chars": len(message.text),
        "parts": [{"start": part.start, "text": message.text[part.start : part.stop]} for part in message.parts],
        "result_of": message.call and {"number": message.call.number, "call": message.call.call},
        "results": [{"number": link.number, "call": link.call} for link in message.results],
    }
