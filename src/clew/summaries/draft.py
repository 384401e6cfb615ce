"""A handoff in the making: what is told so far of each exchange, and how many chars are left.

Quotes are put under the exchanges that they are of, without what is told there already; in the end all is written.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from clew.ledger import atoms_in, shorten
from clew.summaries import handoff as parts
from clew.summaries.deeds import tells_step
from clew.summaries.exchanges import (
    ELSEWHERE,
    LEAST_REQUEST_CHARS,
    HandoffMaterial,
    ToldExchange,
    exchange_text,
    lines_to_tell_again,
)
from clew.summaries.file_lines import lines_by_kind
from clew.summaries.handoff import CONTINUED, Handoff, RequestStretch
from clew.summaries.required_facts import HandoffLine
from clew.summaries.sentences import Sentence, without_code

_SEPARATOR = " · "
_TELL_WHAT_CAME = ("RAN", "SEARCHED", "LISTED")
"""Of these calls what was asked for says nothing without what came of it."""
ENTRY_CHARS = 5
"""What an entry takes beside its words."""
# Of the room that is left, for what was told before.
_SHARE_OF_FORMER = 0.4
# Of that, where there is nothing else to tell: what came of it, and not what was asked.
_SHARE_OF_OUTCOMES = 0.5
# Told under headings of their own.
CHANGING_VERBS = frozenset({"WROTE", "CHANGED"})


_BELOW_HEAD = re.compile(r"\n *--[- ]*$", re.MULTILINE)
_FIRST_CHARS = 600
# Above what failed pytest shows the source of the test, of which a line says nothing.
_SHOWS_SOURCE = "\nE   "
_SAYS_WHAT_FAILED = re.compile(r"E |FAILED |ERROR |\S+:\d+: |.*\b\d+ (?:passed|failed|errors?)\b")


def _heads_table(text: str, line: str) -> bool:
    """Whether a line of a result only names the columns of what stands below it."""
    below = _BELOW_HEAD.search(text, 0, _FIRST_CHARS)
    return below is not None and " ".join(text[: below.start()].rpartition("\n")[2].split()) == line


# A rule, a closing bracket or the end of a docstring, with the number of its line or without, and where code begins.
_SAYS_NOTHING = re.compile(r"(?:\d+(?:[:→|-]|\s)\s*)?[-=*_~#\"'`()\[\]{};,.<>/\\\s]+(?:(?<=```)\w+)?\Z")
_ENTRY = re.compile(r"(?:[-*•+]|\d{1,2}[.)]) ")
_LABEL = re.compile(r"#{1,6} .|\W*\*\*[^*]+\*\*\W*\Z|.*[:：]\**\Z")
_LONGEST_LABEL, _WORDS_ALONE = 60, 4
_PLAIN_WORD = re.compile(r"[^\W\d_]{2,}(?![\w./-])")


def _with_labels(text: str, lines: list[str]) -> list[str]:
    """The lines of a reply, entries of a list that say little by themselves behind what stands above the list.

    Once that is told of one, an entry of another list gets its own, or it would read as one of the first.
    """
    bare = {line for line in lines if _ENTRY.match(line) and len(_PLAIN_WORD.findall(line)) < _WORDS_ALONE}
    if not bare:
        return lines
    rows = [" ".join(row.split()) for row in without_code(text).split("\n")]
    told: list[str] = []
    above, is_named = "", False
    for line in lines:
        if not _ENTRY.match(line):
            above = line.lstrip("# ")
        elif (line in bare or above) and line in rows:
            at = rows.index(line)
            while at and (not rows[at] or _ENTRY.match(rows[at])):
                at -= 1
            is_label = len(rows[at]) <= _LONGEST_LABEL and _LABEL.match(rows[at])
            label = rows[at].lstrip("# ") if is_label else ""
            is_other = label != above and (label or is_named)
            above = label
            if is_other:
                is_named = True
                line = f"{label or shorten(rows[at].lstrip('# '), _LONGEST_LABEL)} {line}"
        told.append(line)
    return told


@dataclass(slots=True)
class HandoffDraft:
    """A handoff in the making, and the chars that are left for it."""

    left: int
    top: list[HandoffLine] = field(default_factory=list)
    above: set[int] = field(default_factory=set)
    """The requests that stand under the first headings."""
    former: list[tuple[int, list[str]]] = field(default_factory=list)
    stretches: list[tuple[RequestStretch, ToldExchange]] = field(default_factory=list)
    entries: dict[int, ToldExchange] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)
    covered: set[str] = field(default_factory=set)

    def tell_former(self, material: HandoffMaterial) -> None:
        """What was told before, newest first: each request, then with it what came of it, then all that was told."""
        if material.source.first >= material.source.last:
            self._tell_only_former(material)
            return
        room = int(self.left * _SHARE_OF_FORMER)
        kept: dict[int, list[str]] = {}
        for lines_each in (1, 2, None):
            for at in range(len(material.former) - 1, -1, -1):
                lines = material.former[at][1][:lines_each]
                more = lines[len(kept.get(at, ())) :]
                chars = sum(len(line) + len(CONTINUED) for line in more) + (0 if at in kept else ENTRY_CHARS)
                if chars > room or (at not in kept and lines_each != 1):
                    if lines_each == 1:
                        break
                    continue  # an older one may have less to tell
                kept[at] = lines
                room -= chars
                self.left -= chars
        self.former = [(material.former[at][0], lines) for at, lines in sorted(kept.items())]
        self.covered |= atoms_in(" ".join(line for _, lines in self.former for line in lines))

    def _tell_only_former(self, material: HandoffMaterial) -> None:
        """Where nothing is new: as many of the newest requests as half of the room holds, then line by line."""
        former = material.former
        newest_first = range(len(former) - 1, -1, -1)
        kept: dict[int, list[str]] = {}
        held = int(self.left * _SHARE_OF_OUTCOMES)
        for at in newest_first:
            chars = len(former[at][1][0]) + ENTRY_CHARS
            if chars > self.left - held:
                break
            kept[at] = [former[at][1][0]]
            self.left -= chars
        for lines_each in (slice(1, 2), slice(2, None)):
            for at in newest_first[: len(kept)]:
                for line in former[at][1][lines_each]:
                    if len(line) + len(CONTINUED) <= self.left:
                        kept[at].append(line)
                        self.left -= len(line) + len(CONTINUED)
        self.former = [(former[at][0], lines) for at, lines in sorted(kept.items())]

    def tell_again(self, material: HandoffMaterial) -> None:
        """What was quoted of exchanges that were told before, newest first: it may no longer be read."""
        room = int(self.left * _SHARE_OF_FORMER)
        for n in sorted(self.entries, reverse=True):
            entry, exchange = self.entries[n], material.exchanges[n]
            before = material.told.get(exchange.number, ())
            for line in lines_to_tell_again(entry, before, exchange.closing_number) if before else ():
                if len(line) + ENTRY_CHARS <= room:
                    entry.told_before.append(line)
                    room -= len(line) + ENTRY_CHARS
                    self.left -= len(line) + ENTRY_CHARS
                    self.covered |= atoms_in(line)

    def take(self, sentence: Sentence, position: int) -> None:
        self.entries[position].sentences.append(sentence)
        self.told.add(sentence.text)
        self.covered |= atoms_in(sentence.text)
        self.left -= sentence.chars

    def conclude(self, position: int, conclusion: Iterable[Sentence], room: int) -> int:
        """Tell what came of an exchange, as far as there is room; returns the chars it takes."""
        left = room
        for one in conclusion:
            if one.chars <= left:
                self.entries[position].conclusion = one.number
                self.take(one, position)
                left -= one.chars
        return room - left

    def _stretch_with(self, material: HandoffMaterial, n: int) -> ToldExchange:
        """Where an exchange is told that has no entry: the line that it is counted on, else a new entry."""
        number = material.exchanges[n].number
        for stretch, entry in self.stretches:
            if stretch.first <= number <= stretch.last:
                return entry
        return self.entries.setdefault(n, ToldExchange(material.head(n, self.above, LEAST_REQUEST_CHARS)))

    def place(self, material: HandoffMaterial, chosen: Mapping[tuple[int, int], list[str]], spent: int) -> None:
        """Put quotes under the exchanges that they are of."""
        self.left -= spent
        top = " ".join(line.text for line in self.top)
        starts = [exchange.number for exchange in material.exchanges]
        entered = frozenset(self.entries)  # what came of others, such as those of a stretch, can only be quoted
        for (number, part), lines in chosen.items():
            n = max(0, bisect_right(starts, number) - 1)
            if n not in self.entries and material.exchanges[n].cancelled_by is not None:
                continue  # nothing would say that it was taken back
            entry = self.entries.get(n) or self._stretch_with(material, n)
            owner = material.owners.get((number, part))
            if owner is not None and (owner.verb == "PLANNED" or owner.answers):
                continue  # told on lines of their own
            came_of_it = material.conclusion(n, self.told) if owner is None and entry.conclusion is None else ()
            if came_of_it and (n in entered or not any(one.text in line for one in came_of_it for line in lines)):
                self.left += sum(map(len, lines))
                continue  # first comes what came of it, which there was no room for yet
            if owner is not None and owner.verb in CHANGING_VERBS and (owner.failed or number == owner.result):
                continue  # that it was done, or failed, is told
            if owner is not None and owner.verb == "READ" and owner.failed:
                continue
            if owner is not None and owner.verb == "RAN" and tells_step(entry.deeds, owner):
                self.left += sum(map(len, lines))
                continue
            if owner is not None and number == owner.result and material.only_complains(owner):
                self.left += sum(map(len, lines))
                continue  # it stands under what was tried, or nothing is learnt from it
            if owner is not None and owner.verb == "DELEGATED" and owner.result not in (None, number):
                self.left += sum(map(len, lines))
                continue  # what a subagent was told would read as what it found
            if owner is not None and number == owner.result and entry.commit_told(owner):
                self.left += sum(map(len, lines))
                continue  # what checks printed before it was made
            is_result = owner is not None and number == owner.result
            if is_result and owner and (short := material.short_output(owner)):
                self.left -= max(0, len(short) - len(_SEPARATOR.join(lines)))
                lines = [short]
            if len(lines) > 1:
                lines = [line for line in lines if not _SAYS_NOTHING.match(line)]
            above = f"{top} {entry.head}"
            new = [line for line in lines if line not in self.told and line.strip("…") not in above]
            new = entry.without_told(new, number, part, owner)
            if new and (owner is None or (is_result and owner.verb == "DELEGATED")):
                labelled = _with_labels(material.selector.texts(number)[0], new)
                self.left -= sum(map(len, labelled)) - sum(map(len, new))
                new = labelled
            if is_result and len(new) == 1 and _heads_table(material.selector.texts(number)[0], new[0]):
                new = []  # without a row it says nothing
            tests = owner.outcome.tests if is_result and new and owner and owner.outcome else ""
            if tests and _SHOWS_SOURCE in material.selector.texts(number)[0]:
                new = [line for line in new if _SAYS_WHAT_FAILED.match(line)]
            if tests and not any(tests in line for line in new):
                # What a test is about says nothing without how the run ended.
                new = [tests, *new]
                self.left -= len(tests) + len(_SEPARATOR)
            if is_result and new and owner and owner.outcome:
                # How it ended was told for want of what it printed.
                before = entry.passages.get(material.line_of(number, part)[0], [])
                before[:] = [one for one in before if one != (owner.number, False, owner.outcome.describe())]
            for key, own in material.by_line(number, part, new):
                entry.quote(key, (owner.number if owner else number, bool(part)), own)
            is_told = owner is None or owner.verb not in _TELL_WHAT_CAME or not part or (owner.result, 0) in chosen
            # What was run or looked for is not told without what came of it: where that is short it, else how it ended.
            if not is_told and owner and (short := material.short_output(owner) or material.ending(owner)):
                entry.quote(material.line_of(number, part)[0], (owner.number, False), [short])
                self.left -= len(short)

    def place_again(self, material: HandoffMaterial, chosen: Mapping[tuple[int, int], list[str]], spent: int) -> None:
        """Put quotes in the place of all that were put before."""
        for entry in (*self.entries.values(), *(entry for _, entry in self.stretches)):
            entry.passages.clear()
        self.place(material, chosen, spent)

    def written(self, material: HandoffMaterial) -> Handoff:
        sections: dict[str, list[str]] = {}
        for line in sorted(self.top, key=lambda line: line.number):
            sections.setdefault(line.heading, []).append(material.source.clean(line.text))
        if files := sections.get(parts.FILES):
            sections[parts.FILES] = lines_by_kind(files)
        entries = [(stretch.first, exchange_text(entry)) for stretch, entry in self.stretches]
        entries += [(number, CONTINUED.join(lines)) for number, lines in self.former]
        named: set[str] = set()
        for n, entry in sorted(self.entries.items()):
            if material.says_nothing(n):
                continue
            text = exchange_text(entry, named)
            # Without another line they tell nothing that is not told already.
            if CONTINUED in text or not text.startswith(ELSEWHERE):
                entries.append((material.exchanges[n].number, text))
        if told := [material.source.clean(text) for _, text in sorted(entries, key=lambda one: one[0]) if text]:
            sections[parts.COMPLETED] = told
        return Handoff(sections)
