"""How the answer to a search looks: hits by conversation, with what matched made visible; and the same as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clew.cli.amounts import counted
from clew.cli.moments import in_json, shown
from clew.cli.output import Console, clipped, columns, padded, printable
from clew.store import Hit, HitGroup, SearchAnswer, Snippet

LINES_OF_A_SNIPPET = 5
MARGIN = "  "


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer, with what people need to know beside it."""

    answer: SearchAnswer
    openings: Mapping[int | None, str]
    """How the conversations without a title begin."""
    ids: Mapping[str, str]
    """The sessions of the hits, as they are shown."""


def say_answer(answered: Answered, where: str, console: Console) -> None:
    """The answer for people."""
    answer = answered.answer
    if not answer.hits:
        _say_none(answer, where, console)
        return
    groups = answer.groups
    head = f"{counted(len(answer.hits), 'hit')} in {counted(len(groups), 'conversation')}"
    console.say(console.paint(printable(f"{head}{', ' + where if where else ''}"), "dim"))
    for group in groups:
        console.say()
        opening = answered.openings.get(group.conversation, "")
        for line in _group(group, opening, answered.ids, console):
            console.say(line.rstrip())


def answer_json(answered: Answered, where: str) -> dict[str, Any]:
    answer = answered.answer
    searched = answer.searched
    return {
        "query": answer.query,
        "where": where,
        "hits": len(answer.hits),
        "groups": [
            {
                "conversation": group.conversation,
                "title": group.title,
                "opening": answered.openings.get(group.conversation),
                "hits": [_hit_json(hit) for hit in group.hits],
            }
            for group in answer.groups
        ],
        "searched": searched
        and {"messages": searched.messages, "summaries": searched.summaries, "outputs": searched.outputs},
    }


def _hit_json(hit: Hit) -> dict[str, Any]:
    return {
        "kind": hit.kind,
        "session": hit.session,
        "number": hit.seq,
        "role": hit.role,
        "tool": hit.tool,
        "at": in_json(hit.at),
        "score": round(hit.score, 4),
        "ref": hit.ref,
        "snippet": hit.snippet.text,
        "marks": [list(mark) for mark in hit.snippet.marks],
        "start": hit.snippet.start,
    }


def _say_none(answer: SearchAnswer, where: str, console: Console) -> None:
    console.say(printable(f"Nothing found for {answer.query!r}{' ' + where if where else ''}."))
    if answer.searched is not None:
        narrower = "; without the filters there may be more" if where else ""
        console.say(f"Searched: {answer.searched}{narrower}.")


def _group(group: HitGroup, opening: str, ids: Mapping[str, str], console: Console) -> Iterator[str]:
    title = printable(group.title or opening or f"conversation {group.conversation}")
    yield console.paint(clipped(title, console.width), "bold")
    for hit in group.hits:
        place = {"summary": "handoff", "output": f"output {hit.ref}"}.get(hit.kind) or (
            f"m{hit.seq}" if hit.seq is not None else hit.kind
        )
        said_by = " ".join(word for word in (hit.role if hit.kind == "message" else "", hit.tool) if word)
        session = ids.get(hit.session or "", "")
        facts = "  ".join(printable(fact) for fact in (said_by, shown(hit.at), session) if fact)
        yield f"{MARGIN}{console.paint(padded(place, 5), 'cyan')}  {console.paint(facts, 'dim')}"
        for line in _snippet(hit.snippet, console):
            yield f"{MARGIN * 2}{line}"


def _snippet(snippet: Snippet, console: Console) -> Iterator[str]:
    """The lines of a snippet, fitted to the width, with the match in colour, or between marks where there is none."""
    text, marks = _marked(snippet, console)
    room = console.width - len(MARGIN) * 2 - 2
    spans = [span for span in _wrapped(text, room) if text[span[0] : span[1]].strip()]
    chosen = _around(spans, marks)
    for number, span in enumerate(chosen):
        before = "…" if number == 0 and (not snippet.is_start or span != spans[0]) else ""
        after = "…" if number == len(chosen) - 1 and (not snippet.is_end or span != spans[-1]) else ""
        yield before + _painted(text, span, marks if console.colors else (), console) + after


def _marked(snippet: Snippet, console: Console) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The text, printable character by character, and where it matched; without colours the marks are in the text."""
    text = "".join(char if char == "\n" else printable(char) for char in snippet.text)
    marks = _joined(snippet.marks, text)
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


def _joined(marks: Sequence[tuple[int, int]], text: str) -> tuple[tuple[int, int], ...]:
    """Marks with one character between them as one: the parts of an identifier, the words of a phrase."""
    joined: list[tuple[int, int]] = []
    for start, stop in marks:
        if joined and start - joined[-1][1] <= 1 and "\n" not in text[joined[-1][1] : start]:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((start, stop))
    return tuple(joined)


def _around(spans: list[tuple[int, int]], marks: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """As many lines as are shown, so that the first match is among them."""
    if len(spans) <= LINES_OF_A_SNIPPET:
        return spans
    first = marks[0][0] if marks else 0
    holding = next((at for at, (start, stop) in enumerate(spans) if start <= first < stop), 0)
    begin = max(0, min(holding - 1, len(spans) - LINES_OF_A_SNIPPET))
    return spans[begin : begin + LINES_OF_A_SNIPPET]


def _wrapped(text: str, room: int) -> Iterator[tuple[int, int]]:
    """Where the lines of a text begin and end when it is fitted to a width: at line ends, at spaces, or anywhere."""
    start = 0
    for line in text.split("\n"):
        stop = start + len(line)
        at = start
        while columns(text[at:stop]) > room:
            cut = at
            while columns(text[at : cut + 1]) <= room:
                cut += 1
            space = text.rfind(" ", at + room // 2, cut + 1)
            cut = space if space > at else max(cut, at + 1)
            yield at, cut
            at = cut + 1 if text[cut : cut + 1] == " " else cut
        yield at, stop
        start = stop + 1


def _painted(text: str, span: tuple[int, int], marks: Sequence[tuple[int, int]], console: Console) -> str:
    pieces, at = list[str](), span[0]
    for start, stop in marks:
        low, high = max(start, at), min(stop, span[1])
        if low < high:
            pieces += [text[at:low], console.paint(text[low:high], "bold", "yellow")]
            at = high
    return "".join([*pieces, text[at : span[1]]])
