"""How the hits of `clew search` look: by conversation, with the matches highlighted; and the same as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clew.cli.console import Console
from clew.cli.views.amounts import format_time, iso_time, plural
from clew.cli.views.tables import MARGIN
from clew.cli.views.text import clip, display_width, fitting_chars, pad, printable, whole_facts, wrap
from clew.store import SearchHit, SearchHitGroup, SearchResult, Snippet

MAX_SNIPPET_LINES = 5


@dataclass(frozen=True, slots=True)
class SearchPage:
    """The result of a search, with the names of what it found."""

    result: SearchResult
    first_messages: Mapping[int | None, str]
    """Of the conversations without a title."""
    ids: Mapping[str, str]
    """The sessions of the hits, each with its short id."""


def print_results(page: SearchPage, where: str, console: Console) -> None:
    """The hits; `where` are the filters in words."""
    result = page.result
    if result.problem:
        console.print(console.style(f"Note: {result.problem}.", "yellow"))
    if not result.hits:
        _print_none(result, where, console)
        return
    groups = result.groups
    head = f"{plural(len(result.hits), 'hit')} in {plural(len(groups), 'conversation')}"
    for line in wrap(f"{head}{', ' + where if where else ''}", console.width):
        console.print(console.style(line, "dim"))
    for group in groups:
        console.print()
        first_message = page.first_messages.get(group.conversation, "")
        for line in _group_lines(group, first_message, page.ids, console):
            console.print(line.rstrip())


def results_json(page: SearchPage, where: str) -> dict[str, Any]:
    result = page.result
    searched = result.searched
    return {
        "query": result.query,
        "where": where,
        "hits": len(result.hits),
        "groups": [
            {
                "conversation": group.conversation,
                "title": group.title,
                "opening": page.first_messages.get(group.conversation),
                "hits": [_hit_json(hit) for hit in group.hits],
            }
            for group in result.groups
        ],
        "searched": searched
        and {"messages": searched.messages, "summaries": searched.summaries, "outputs": searched.outputs},
        **({"problem": result.problem} if result.problem else {}),
    }


def _hit_json(hit: SearchHit) -> dict[str, Any]:
    return {
        "kind": hit.kind,
        "session": hit.session,
        "number": hit.seq,
        "role": hit.role,
        "tool": hit.tool,
        "at": iso_time(hit.at),
        "score": round(hit.score, 4),
        "ref": hit.ref,
        "snippet": hit.snippet.text,
        "marks": [list(mark) for mark in hit.snippet.marks],
        "start": hit.snippet.start,
    }


def _print_none(result: SearchResult, where: str, console: Console) -> None:
    console.print(printable(f"Nothing found for {result.query!r}{' ' + where if where else ''}."))
    if result.searched is not None:
        narrower = "; without the filters there may be more" if where else ""
        console.print(f"Searched: {result.searched}{narrower}.")


def _group_lines(group: SearchHitGroup, first_message: str, ids: Mapping[str, str], console: Console) -> Iterator[str]:
    title = printable(group.title or first_message or f"conversation {group.conversation}")
    yield console.style(clip(title, console.width), "bold")
    for hit in group.hits:
        label = {"summary": "handoff", "output": f"output {hit.ref}"}.get(hit.kind) or (
            f"m{hit.seq}" if hit.seq is not None else hit.kind
        )
        said_by = " ".join(word for word in (hit.role if hit.kind == "message" else "", hit.tool) if word)
        session = ids.get(hit.session or "", "")
        told = [printable(fact) for fact in (said_by, format_time(hit.at), session) if fact]
        facts = whole_facts(told, console.width - len(MARGIN) - max(5, len(label)) - 2)
        yield f"{MARGIN}{console.style(pad(label, 5), 'cyan')}  {console.style(facts, 'dim')}"
        for line in _snippet_lines(hit.snippet, console):
            yield f"{MARGIN * 2}{line}"


def _snippet_lines(snippet: Snippet, console: Console) -> Iterator[str]:
    """The lines of a snippet, fitted to the width, with the match in colour, or between marks where there is none."""
    text, marks = _text_and_marks(snippet, console)
    room = console.width - len(MARGIN) * 2 - 2
    spans = [span for span in _wrap_spans(text, room) if text[span[0] : span[1]].strip()]
    chosen = _lines_around_match(spans, marks)
    for number, span in enumerate(chosen):
        before = "…" if number == 0 and (not snippet.is_start or span != spans[0]) else ""
        after = "…" if number == len(chosen) - 1 and (not snippet.is_end or span != spans[-1]) else ""
        yield before + _highlight(text, span, marks if console.colors else (), console) + after


def _text_and_marks(snippet: Snippet, console: Console) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The text, printable character by character, and where it matched; without colours the marks are in the text."""
    text = "".join(char if char == "\n" else printable(char) for char in snippet.text)
    marks = _join_marks(snippet.marks, text)
    if console.colors:
        return text, marks
    left, right = ("«", "»") if console.unicode else ("[", "]")
    pieces, done, placed = list[str](), 0, list[tuple[int, int]]()
    length = 0
    for start, stop in marks:
        piece = text[done:start] + left + text[start:stop] + right
        placed.append((length + start - done, length + len(piece)))
        pieces.append(piece)
        length += len(piece)
        done = stop
    return "".join([*pieces, text[done:]]), tuple(placed)


def _join_marks(marks: Sequence[tuple[int, int]], text: str) -> tuple[tuple[int, int], ...]:
    """Marks with one character between them made one: the parts of an identifier, the words of a phrase."""
    joined: list[tuple[int, int]] = []
    for start, stop in marks:
        if joined and start - joined[-1][1] <= 1 and "\n" not in text[joined[-1][1] : start]:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((start, stop))
    return tuple(joined)


def _lines_around_match(spans: list[tuple[int, int]], marks: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """As many lines as are shown, so that the first match is among them."""
    if len(spans) <= MAX_SNIPPET_LINES:
        return spans
    first = marks[0][0] if marks else 0
    holding = next((at for at, (start, stop) in enumerate(spans) if start <= first < stop), 0)
    begin = max(0, min(holding - 1, len(spans) - MAX_SNIPPET_LINES))
    return spans[begin : begin + MAX_SNIPPET_LINES]


def _wrap_spans(text: str, room: int) -> Iterator[tuple[int, int]]:
    """Where the lines of a text begin and end when it is fitted to a width: at line ends, at spaces, or anywhere."""
    start = 0
    for line in text.split("\n"):
        stop = start + len(line)
        at = start
        while display_width(text[at:stop]) > room:
            cut = at + fitting_chars(text[at:stop], room)
            space = text.rfind(" ", at + 1, cut + 1)
            cut = space if space > at else max(cut, at + 1)
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
