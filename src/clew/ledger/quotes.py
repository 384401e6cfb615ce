"""Selects the lines of a conversation to quote, by the atoms in them that are likely needed again.

A quote is a whole line of what a message says or a call was given, decoded; of a long line, the clause around an atom.
The selection is a greedy cover: each step takes the line that adds the most worth for its length.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from itertools import islice, pairwise

from clew.ledger.atoms import AtomIndex, AtomStats, atoms_of_word, words_with_atoms
from clew.ledger.candidates import (
    DIAGNOSTICS,
    LISTINGS,
    MOST_ALIKE,
    MOST_DIAGNOSTICS,
    NAMES_FILE,
    SEPARATOR_CHARS,
    QuotablePart,
    QuoteCandidate,
    QuoteSelection,
    diagnostics_in,
    may_take,
    weight_of_code,
)
from clew.ledger.extract import quotable_texts
from clew.ledger.readable import listing
from clew.ledger.spans import (
    FEWEST_WORDS,
    LONGEST_LINE,
    MARKS_OF_REMARK,
    OPENS_BODY,
    QuoteSpan,
    bare_definition,
    block_span,
    command_span,
    finds_with_files,
    has_words,
    is_packed,
    joined_spans,
    line_span,
    quote_of,
    repeats_definition,
    trimmed,
    whole_line,
    whole_sentence,
)
from clew.messages import Message
from clew.redact import redact_text

ReadMessage = Callable[[int], Message]
# For a part of a message, the key of the handoff line that its quotes go to, and the chars of that line without quotes.
LineOf = Callable[[int, int], tuple[Hashable, int]]

_OCCURRENCES = 3
_FEWEST_WORDS_OF_CALL = 5  # the lines of a script follow from each other more than those of a result
_FAVOURED_WORTH = 0.5
_CHARS_PER_ATOM = 8  # of the room: lines are looked for of more atoms than can be told
_ATOMS_WEIGHED = 6_000
# By how much more a line of the newest message is worth than an equal one of the first, and how fast that fades.
_FAVOUR_NEW, _NEWNESS_POWER = 3.0, 4
_WEIGHT_SINCE_CHANGE = 1.5  # what was looked at since the last change is what the next one is made of
_PARTS_OF_ROOM = 8
_WORTH_ANOTHER_PASS = 0.02
_WORTH_OF_HALF, _WORTH_OF_WHOLE = 0.7, 0.2  # beside the atoms in them
_SHARE_OF_STATEMENTS = 0.12  # of the room, for the rest of statements of which a line was chosen
# No more than this share of the room goes to one result while others have something to say; twice as much where it came
# since the last change.
_SHARE_OF_PART = 0.2
_LEAST_OF_PART = 600
_ENCODED_CHARS = 44
_ENCODED = re.compile(
    # From the start of a run alone: what a part of it has, all of it has.
    r"(?<![A-Za-z\d+/])(?=[a-z\d+/]*[A-Z])(?=[A-Z\d+/]*[a-z])(?=[A-Za-z+/]*\d)"
    rf"[A-Za-z\d+/]{{{_ENCODED_CHARS},}}"
)
_CHARS_PER_FOLDER = 16  # a path has more of them
_FIGURES = re.compile(r"\d[\d.,:]*")
_LINE = re.compile(r"[^\n]*\S[^\n]*")
# A line of code that any file may have, with the number that a listing puts before it.
_SAYS_LITTLE = re.compile(
    r"(?:\d+(?:→|[:|]) ?)?"
    r"(?:import \w+(?:, \w+)*|from \w+ import \w+(?:, \w+)*|#include <\w+(?:\.h)?>|return(?: \w+)?);?"
)


class QuoteSelector:
    """Selects lines of the messages that `may_quote` allows."""

    def __init__(
        self,
        index: AtomIndex,
        read: ReadMessage,
        first: int,
        may_quote: Callable[[int], bool],
        line_of: LineOf,
        newest_request: int | None = None,
        redacted: Callable[[str], str] = redact_text,
        outdated: Set[int] = frozenset(),
        last_change: int = -1,
    ) -> None:
        """`newest_request` is the message of the newest of several requests: what was seen since, and late, is worth
        more than what is as good and older.

        Of the messages in `outdated` little is quoted: what they say may no longer be so. `last_change` is the message
        of the last change of any file.
        """
        self._outdated = outdated
        self._last_change = last_change
        self._index = index
        self._may_quote = may_quote
        self._line_of = line_of
        self._read, self._redacted = read, redacted
        self._first = first
        self._newest_request = newest_request
        self._parts: dict[int, list[QuotablePart]] = {}
        self._found: dict[QuoteSpan, QuoteCandidate] = {}
        self._searched = 0
        self._selection = QuoteSelection(0, set())
        self._waiting: list[QuoteCandidate] = []
        """What could be selected besides."""
        self._like: dict[tuple[int, int, str], list[tuple[int, int]]] = {}
        self._worth_by_word: dict[str, dict[str, float]] = {}
        self._atoms_of_statements: dict[QuoteSpan, Mapping[str, float]] = {}
        # In the order of their names, by which those stay that are worth the same.
        self._worth = {atom: index.worth(atom, first, newest_request) for atom in sorted(index.newest(_ATOMS_WEIGHED))}
        self._best = sorted(self._worth, key=self._worth.__getitem__, reverse=True)

    def select(
        self, room: int, most: int, covered: set[str], first: Iterable[list[QuoteSpan]] = (), for_first: int = 0
    ) -> tuple[dict[tuple[int, int], list[str]], int]:
        """The quotes that fit into `room` chars by message number and part, and how many chars they take.

        `most` is the room that they may have in the end, by `select_more`. `covered` are atoms that the handoff has
        already. With room left, they are quoted from a second line: that says something else of them. `for_first` chars
        go to the spans of `first` before all others, list by list.
        """
        candidates = self._candidates(most)
        all_fit = sum(one.chars for one in candidates) <= most
        selection = self._selection = QuoteSelection.of(room, most, set(covered), all_fit=all_fit)
        if for_first:
            selection.room, selection.least = for_first, _FAVOURED_WORTH
            told: set[int] = set()
            for favoured in first:
                self._cover([self._candidate(span) for span in favoured], selection)
                told.update(span.number for span in favoured)
            selection.room, selection.least = room, 0.0
            candidates = [one for one in candidates if not selection.overlaps(one.span)]
            # They had their share: what room is left goes to the other messages before it is theirs again.
            self._cover([one for one in candidates if one.span.number not in told], selection)
        self._waiting = candidates
        return self.select_more(room, most)

    def select_more(self, room: int, most: int) -> tuple[dict[tuple[int, int], list[str]], int]:
        """What was selected last and as much more as fits into `room` chars with it, as `select` gives it."""
        selection = self._selection
        selection.room = room - int(max(0, room - selection.spent) * _SHARE_OF_STATEMENTS)
        selection.most_of_part, selection.held = max(_LEAST_OF_PART, int(most * _SHARE_OF_PART)), []
        self._cover(self._not_settled(), selection)
        selection.room = room
        self._complete_statements(selection)
        if room - selection.spent > room * _WORTH_ANOTHER_PASS:
            self._cover(self._not_settled(), selection)
        selection.most_of_part = 0
        self._cover(selection.held, selection)
        covered, selection.covered = selection.covered, set()
        self._cover(self._not_settled(), selection)
        selection.covered |= covered
        return self._quotes(selection), selection.spent

    def select_fewer(self, room: int) -> tuple[dict[tuple[int, int], list[str]], int]:
        """What was selected last as far as it fits into `room` chars, what came last left out, as `select` gives it."""
        self._selection.give_back(room)
        return self._quotes(self._selection), self._selection.spent

    def _not_settled(self) -> list[QuoteCandidate]:
        settled = self._selection.settled
        self._waiting = [one for one in self._waiting if one not in settled]
        return self._waiting

    def plain_lines(self, room: int, told: str) -> tuple[dict[tuple[int, int], list[str]], int]:
        """Lines of the newest messages that `told` has not, also those without an atom, as `select` gives them.

        Of a part of a message that has such lines, those that were selected last are among them, all in their order.
        """
        before = self._selection
        # What was taken of a part, and which lines are alike, counts on.
        selection = replace(before, room=room, covered=set(), spent=0, spans={})
        for number in range(self._index.last, self._first - 1, -1):
            if not self._may_quote(number):
                continue
            # What the agent said is told by sentences; the first line that a call was given is its target.
            first = int(self._read(number)["role"] == "assistant")
            for at, part in list(enumerate(self._parts_of(number)))[first:]:
                most = selection.spent + max(LONGEST_LINE, (room - selection.spent) // _PARTS_OF_ROOM)
                for found in islice(_LINE.finditer(part.text), min(1, at), None):
                    span = QuoteSpan(number, at, *trimmed(part.text, *found.span()))
                    frame = 0 if part.line in selection.lines else part.line_chars
                    chars = span.end - span.start + SEPARATOR_CHARS + frame
                    if selection.spent + chars > min(most, room):
                        break
                    quote = part.quote(span[2:])
                    is_new = len(quote) <= LONGEST_LINE and quote not in told and not _SAYS_LITTLE.fullmatch(quote)
                    is_new = is_new and not part.is_routine(*span[2:])
                    if is_new and has_words(part.text, *span[2:], FEWEST_WORDS) and may_take(span, part, selection):
                        told += f"\n{quote}"
                        selection.take(span, part.line, chars)
            if room - selection.spent < LONGEST_LINE // 4:
                break
        for part_of, spans in selection.spans.items():
            spans += before.spans.get(part_of, ())
            before.spans[part_of] = spans
        return self._quotes(selection), selection.spent

    def texts(self, number: int) -> Sequence[str]:
        """The quotable texts of a message."""
        return [part.text for part in self._parts_of(number)]

    def _parts_of(self, number: int) -> Sequence[QuotablePart]:
        parts = self._parts.get(number)
        if parts is None:
            message = self._read(number)
            is_result = message["role"] == "tool"
            age = 1 - max(0, number - self._first) / max(1, self._index.last - self._first)
            newness = 1 if self._newest_request is None else 1 + _FAVOUR_NEW * (1 - age) ** _NEWNESS_POWER
            if is_result and self._is_since_change(number):
                newness *= _WEIGHT_SINCE_CHANGE
            parts = self._parts[number] = [
                QuotablePart(
                    text,
                    newness,
                    *self._line_of(number, at),
                    is_result=is_result,
                    is_said=message["role"] == "assistant" and not at,
                    is_outdated=number in self._outdated,
                )
                for at, text in enumerate(quotable_texts(message))
            ]
        return parts

    def _is_since_change(self, number: int) -> bool:
        """Whether a message came after the last change, where there was one."""
        return 0 <= self._last_change < number

    def worth_of(self, atom: str) -> float:
        """What it is worth to quote the atom; 0 where the index does not have it."""
        worth = self._worth.get(atom)
        if worth is None:
            is_known = atom in self._index.atoms
            worth = self._index.worth(atom, self._first, self._newest_request) if is_known else 0.0
            self._worth[atom] = worth
        return worth

    def _cover(self, candidates: list[QuoteCandidate], selection: QuoteSelection) -> None:
        """Take spans by density; what a span adds is weighed again when its turn comes."""
        left, takes = selection.room - selection.spent, 0
        heap = [
            (-density, order, takes, one)
            for order, one in enumerate(candidates)
            if one.chars <= left and (density := one.density(selection))
        ]
        heapq.heapify(heap)
        shortest = min((one.chars for _, _, _, one in heap), default=0)
        while heap and selection.spent + shortest <= selection.room:
            density, order, weighed, one = heap[0]
            if selection.spent + one.chars > selection.room:
                heapq.heappop(heap)
                continue
            if weighed != takes:
                before, density = density, -one.density(selection)
                if density > before and len(heap) > 1:
                    # What was selected since has some of its atoms: it goes back to where it belongs now.
                    if density:
                        heapq.heapreplace(heap, (density, order, takes, one))
                    else:
                        heapq.heappop(heap)
                    continue
            heapq.heappop(heap)
            chars = one.chars_in(selection)
            if not density or selection.spent + chars > selection.room:
                continue
            if selection.most_of_part and selection.has_enough_of(one.span, self._is_since_change(one.span.number)):
                selection.held.append(one)
                continue
            selection.settled.add(one)
            if may_take(one.span, one.part, selection):
                selection.take(one.span, one.line, chars)
                selection.covered.update(one.atoms)
                takes += 1

    def _complete_statements(self, selection: QuoteSelection) -> None:
        """Tell more of the code and the sentences of which a line was selected, what says most for its length first."""
        wholes = []
        for (number, at), own in selection.spans.items():
            part = self._parts_of(number)[at]
            parts_of_more = [span for span in own if part.statement(span[2:]) != span[2:]] if part.is_result else ()
            told = {start for span in own for start, _ in part.lines_of(span[2:])} if parts_of_more else set()
            for span in parts_of_more:
                whole_span = QuoteSpan(number, at, *part.statement(span[2:]))
                more = sum(end - start for start, end in part.lines_of(whole_span[2:]) if start not in told)
                atoms = self._atoms_in(whole_span)
                worth = sum(each for atom, each in atoms.items() if atom not in selection.covered)
                # An error without its status, and the head of a list without the list, are half of a fact.
                is_half = "error" in part.text[span.start : span.end] or weight_of_code(part.text, *whole_span[2:]) > 1
                worth += _WORTH_OF_HALF if is_half else _WORTH_OF_WHOLE
                wholes.append((-worth / (more + 1), span, whole_span, told))
        for _, span, whole_span, told in sorted(wholes, key=lambda one: one[:3]):
            part, own = self._parts_of(span.number)[span.part], selection.spans[span.number, span.part]
            new = [line for line in part.lines_of(whole_span[2:]) if line[0] not in told]
            more = sum(end - start + SEPARATOR_CHARS for start, end in new)
            if selection.spent + more <= selection.room:
                own.remove(span)
                told.update(start for start, _ in new)
                part.statements[whole_span[2:]] = whole_span[2:]
                if whole_span not in own:
                    selection.take(whole_span, part.line, more)
                    selection.covered.update(self._atoms_in(whole_span))

    def _atoms_in(self, span: QuoteSpan) -> Mapping[str, float]:
        """The atoms of a statement; found once for all sizes of a handoff."""
        atoms = self._atoms_of_statements.get(span)
        if atoms is None:
            atoms = self._atoms_of_statements[span] = self._candidate(span).atoms
        return atoms

    def _candidates(self, room: int) -> list[QuoteCandidate]:
        """The lines with the atoms that are worth most; a second try with more room only looks for what is new."""
        most = max(50, room // _CHARS_PER_ATOM)
        wanted: dict[int, set[AtomStats]] = {}
        for atom in self._best[self._searched : most]:
            stats = self._index.atoms[atom]
            for number in stats.newest_numbers:
                if number in wanted:
                    wanted[number].add(stats)
                else:
                    wanted[number] = {stats}
        for number, atoms in wanted.items():
            if self._may_quote(number):
                self._find_spans(atoms, number)
        self._searched = max(self._searched, most)
        return list(self._found.values())

    def _candidate(self, span: QuoteSpan, words: Iterable[str] | None = None) -> QuoteCandidate:
        part = self._parts_of(span.number)[span.part]
        atoms: dict[str, float] = {}
        known = self._worth_by_word
        for word in words_with_atoms(part.text[span.start : span.end].split() if words is None else words):
            worths = known.get(word)
            if worths is None:
                worths = known[word] = self._worths_in(word)
            atoms.update(worths)
        # Names of definitions stand side by side.
        name = bare_definition(part.text[span.start : span.end]) if part.text.endswith(OPENS_BODY, 0, span.end) else ""
        return QuoteCandidate(span, len(name) or span.end - span.start, part, atoms)

    def _worths_in(self, word: str) -> dict[str, float]:
        """What each atom of a word is worth."""
        return {atom: self.worth_of(atom) for atom in atoms_of_word(word) if atom in self._index.atoms}

    def _find_spans(self, wanted: Set[AtomStats], number: int) -> None:
        """Find the lines that hold such an atom beside other words; else a short line with its neighbours."""
        lines: dict[str, list[tuple[QuoteSpan, Sequence[str] | None]]] = {}
        blocks: dict[str, tuple[QuoteSpan, None]] = {}
        parts = self._parts_of(number)
        is_said = self._read(number)["role"] == "assistant"
        for at, part in enumerate(parts):
            text = part.text
            fewest = _FEWEST_WORDS_OF_CALL if at else FEWEST_WORDS
            # What the agent said is told by whole sentences.
            longest = LONGEST_LINE if is_said and not at else len(text)
            for start, end, held, words in self._index.lines_with(wanted, text, _OCCURRENCES, longest):
                if end - start > LONGEST_LINE:
                    for atom in held if not is_packed(text, start, end) else ():
                        place = text.find(atom, start, end)
                        line_of_call = command_span(text, start, end, place, place + len(atom)) if at else (start, end)
                        if clause := line_span(text, *line_of_call, place, place + len(atom), fewest):
                            lines.setdefault(atom, []).append((QuoteSpan(number, at, *clause), None))
                elif line := whole_line(text, start, end, words, fewest) or _definition_in(text, start, end):
                    if text[line[0]] in MARKS_OF_REMARK and repeats_definition(text, *line):
                        continue
                    told = whole_sentence(text, *line) if part.is_result else line
                    whole = (QuoteSpan(number, at, *told), words if told == line else None)
                    for atom in held:
                        lines.setdefault(atom, []).append(whole)
                elif near := block_span(text, start, end, fewest):
                    block = (QuoteSpan(number, at, *near), None)
                    for atom in held:
                        blocks.setdefault(atom, block)
        found = [one for own in lines.values() for one in own]
        for span, own_words in (*found, *(block for atom, block in blocks.items() if atom not in lines)):
            part = parts[span.part]
            if span not in self._found and not (part.is_result and part.is_routine(span.start, span.end)):
                self._found[span] = self._candidate(span, own_words)

    def _quotes(self, selection: QuoteSelection) -> dict[tuple[int, int], list[str]]:
        folded: dict[tuple[int, int], list[str]] = {}
        for number, at, shape in (key for key, times in selection.alike.items() if times >= MOST_ALIKE):
            folded.setdefault((number, at), []).append(shape)
        quotes: dict[tuple[int, int], list[str]] = {}
        for (number, at), spans in sorted(selection.spans.items()):
            shapes = folded.get((number, at), [])
            diagnostics = selection.alike[number, at, DIAGNOSTICS]
            selected = (tuple(spans), tuple(shapes), diagnostics > MOST_DIAGNOSTICS)
            # Of most parts nothing more is selected later.
            if (number, at) not in selection.written or selection.written[number, at][0] != selected:
                selection.written[number, at] = (selected, self._quotes_of(number, at, selection, shapes))
            if written := selection.written[number, at][1]:
                quotes[number, at] = written
        return quotes

    def _quotes_of(self, number: int, at: int, selection: QuoteSelection, shapes: Iterable[str]) -> list[str]:
        """What is quoted of a part of a message, lines of these shapes by their count or as a listing."""
        part, spans = self._parts_of(number)[at], selection.spans[number, at]
        text = part.text
        counts: dict[str, str] = {}
        listings: dict[str, str] = {}
        listed: set[tuple[int, int]] = set()
        for shape in shapes:
            if shape == DIAGNOSTICS or (shape == NAMES_FILE and part.lists_by_file):
                continue
            like = self._lines_like(number, at, shape)
            if len(like) > MOST_ALIKE + 1 and shape in LISTINGS:
                listed.update(like[1:])
                spans = [*spans, QuoteSpan(number, at, *like[0])]
                told = selection.listings.get((number, at, shape), "")
                if not told:
                    paths, is_clean = [text[slice(*line)] for line in like], partial(self._is_clean, part)
                    told = listing(paths, self.worth_of, is_clean, selection.listing_chars)
                    selection.spent += len(told) - selection.listing_chars
                    selection.listings[number, at, shape] = told
                listings[part.quote(like[0])] = told
            elif len(like) > MOST_ALIKE + 1:
                spans = [*spans, *(QuoteSpan(number, at, *ends) for ends in (like[0], like[-1]))]
                counts[part.quote(like[-1])] = f" ({len(like)} such lines)"
                # Not one between them that differs from the first in nothing but figures.
                chosen = {(span.start, span.end) for span in spans}.intersection(like[1:-1])
                first = _FIGURES.sub("0", text[slice(*like[0])])
                listed.update(line for line in chosen if _FIGURES.sub("0", text[slice(*line)]) == first)
        apart = [line for span in joined_spans(spans) for line in part.lines_of(span) if line not in listed]
        others: list[tuple[int, int]] = []
        if part.lists_by_file:
            apart, others = finds_with_files(text, apart)
        if part.is_result:
            counts |= {part.quote(line): " …" for line in _opened_only(text, apart)}
        lines = dict.fromkeys(map(part.quote, apart))
        clean = [listings.get(line, line) + counts.get(line, "") for line in lines if self._is_clean(part, line)]
        if selection.alike[number, at, DIAGNOSTICS] > MOST_DIAGNOSTICS:
            clean.append(f"({diagnostics_in(text)} places in all)")
        if others:
            paths = [text[slice(*file)].removeprefix("File: ").rstrip(":") for file in others]
            found = listing(paths, self.worth_of, partial(self._is_clean, part), selection.listing_chars)
            clean.append(f"also found in {found}" if apart else f"found in {found}")
        return clean

    def _lines_like(self, number: int, at: int, shape: str) -> list[tuple[int, int]]:
        """Where the lines of a shape stand; found once for all sizes of a handoff."""
        key = (number, at, shape)
        if key not in self._like:
            part = self._parts_of(number)[at]
            # A plain string is found many times as fast as a shape is made of a line.
            literal = max(shape.split("\0"), key=len) if "\0" in shape else ""
            lines = [found.span() for found in _LINE.finditer(part.text)]
            like = [line for line in lines if part.text.find(literal, *line) >= 0 and part.shape_at(*line) == shape]
            self._like[key] = [trimmed(part.text, *line) for line in like]
        return self._like[key]

    def _is_clean(self, part: QuotablePart, quote: str) -> bool:
        """Whether the quote holds no secret, nor a piece of one that would not be recognised alone.

        Encoded bytes, such as a line of a key that a program complains about, are never quoted.
        """
        if (
            len(quote) >= _ENCODED_CHARS
            and max(map(len, quote.split())) >= _ENCODED_CHARS
            and any(blob.count("/") * _CHARS_PER_FOLDER <= len(blob) for blob in _ENCODED.findall(quote))
        ):
            return False
        if part.clean is None:
            clean = self._redacted(part.text)
            part.clean = "" if clean == part.text else quote_of(clean, 0, len(clean))
        return not part.clean or quote.removesuffix("…") in part.clean


def _opened_only(text: str, lines: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The lines of code that open something of which the next lines are not told: what follows is not in it."""
    for (start, end), (following, _) in pairwise([*lines, (len(text), len(text))]):
        if text[end - 1] in "{[(" and text[end:following].strip() and not bare_definition(text[start:end]):
            yield start, end


def _definition_in(text: str, start: int, end: int) -> tuple[int, int] | None:
    """The line without its indent, where it only names what is defined there."""
    return trimmed(text, start, end) if bare_definition(text[start:end].strip()) else None
