"""The built-in summariser: a handoff told by exchange, out of the ledger. Deterministic; no network, no key, no model.

What must be there comes first: the task, the goal, the rules, the state. Then every request of a person, newest first;
of each exchange the agent's own conclusion; what was changed and run; more of the agent's sentences. The room that is
left goes to whole lines of the original text that will likely be needed again. Older exchanges get less of it all.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from clew.ledger import Action, FocusTopic, LedgerExchange, QuoteSelector, atoms_in, text_with_calls
from clew.redact import redact_text
from clew.summaries import handoff as parts
from clew.summaries.exchanges import (
    TELLING_WIDTH,
    Sentence,
    ToldExchange,
    actions_by_exchange,
    brief_target,
    by_worth,
    closing_sentences,
    deeds_of,
    exchange_text,
    lines_to_tell_again,
    owners_of,
    reference_of,
    sentences_in,
    times_in,
)
from clew.summaries.handoff import CONTINUED, CountTokens, Handoff, Summary, SummaryInput
from clew.summaries.required_facts import (
    TASK_CHARS,
    HandoffLine,
    certain_lines,
    focus_line,
    messages_about,
    number_in,
    quoted_request,
    shorter_task,
)

BUILTIN = "built-in"
TEMPLATE = "builtin/2"

_TRIES_TO_FIT = 5
_CLOSE_ENOUGH = 0.965
_SHARE_UNUSED = 0.2
_SAMPLE_CHARS = 12_000
_FEWEST_CHARS = 30

# Of the room that is left when its turn comes, each kind may take this share.
_SHARE_OF_CERTAIN = 0.85
_SHARE_OF_TASK = 0.5
_SHARE_OF_FAILURES = 0.2
_SHARE_OF_REQUESTS = 0.38
# All of them, though, where they take no more than this.
_LARGEST_SHARE_OF_REQUESTS = 0.7
_SHARE_OF_FORMER = 0.4
_SHARE_OF_CONCLUSIONS = 0.3
_SHARE_OF_DEEDS = 0.25
_SHARE_OF_SENTENCES = 0.05
# Of a handoff, for what it shall tell most of; of that, for requests and for the agent's own sentences.
_SHARE_OF_FOCUS = 0.64
_SHARE_OF_FOCUS_LINE = 0.06
_SHARE_OF_FOCUS_REQUESTS = 0.3
_SHARE_OF_FOCUS_SENTENCES = 0.4
_NEWEST_WHOLE = 3
_NEWEST_WITH_DEEDS = 8
_OLD_REQUEST_CHARS = 340
_LEAST_REQUEST_CHARS = 60
_SHORTEST_ENTRY_CHARS = 25
_REFERENCE_CHARS = 12
_LEAST_WORTH = 0.3
_LEFT_OUT = -1
"""Where what is quoted of exchanges stands that are not told one by one."""
_ENTRY_CHARS = 5
_FRAME_CHARS = 22
_SHORT_OUTPUT_CHARS = 200
_LEAST_LEFT = 200
_SEPARATOR = " · "
_AS_TASK = "The active task, as above"
_ASKED_BELOW = "Asked below"
# Told under headings of their own.
_TOLD_ELSEWHERE = frozenset({"WROTE", "CHANGED", "PLANNED"})
_FAVOUR_NEW = 3.0


async def summarize_builtin(source: SummaryInput, budget: int, count: CountTokens) -> Summary:
    """The summary that needs no model."""
    text = redact_text(write_handoff(source, budget, count).render())
    return Summary(text, written_by=BUILTIN, template=TEMPLATE)


def write_handoff(source: SummaryInput, budget: int, count: CountTokens) -> Handoff:
    """The handoff that tells the most of the source in at most `budget` tokens."""
    material = _Material(source)
    chars = int(budget * _chars_per_token(source, count))
    best, most = Handoff({}), 0
    low, high = 0, 0
    for _ in range(_TRIES_TO_FIT):
        written, left = material.compose(chars)
        size = count(written.render())
        if size <= budget:
            if size > most:
                best, most = written, size
            low = chars
            if size > _CLOSE_ENOUGH * budget or left > _SHARE_UNUSED * chars:
                return best
        else:
            high = chars
        guess = int(chars * min(1.5, 0.985 * budget / max(1, size)))
        chars = guess if guess > low and (not high or guess < high) else (low + (high or guess)) // 2
    while not most and chars > _FEWEST_CHARS:
        chars = int(chars * 0.8)
        written, _ = material.compose(chars)
        if count(written.render()) <= budget:
            return written
    return best


def _chars_per_token(source: SummaryInput, count: CountTokens) -> float:
    """By the newest text of the source; quotes out of it are a little denser."""
    sample, number = "", source.last
    while len(sample) < _SAMPLE_CHARS and number > source.first:
        number -= 1
        sample += text_with_calls(source.read(number))[:_SAMPLE_CHARS]
    return 0.95 * len(sample) / max(1, count(sample)) if sample else 3.0


@dataclass(slots=True)
class _Draft:
    """A handoff in the making, and the chars that are left for it."""

    left: int
    top: list[HandoffLine] = field(default_factory=list)
    former: list[tuple[int, list[str]]] = field(default_factory=list)
    entries: dict[int, ToldExchange] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)
    covered: set[str] = field(default_factory=set)

    def take(self, sentence: Sentence, position: int) -> None:
        self.entries[position].sentences.append(sentence)
        self.told.add(sentence.text)
        self.covered |= atoms_in(sentence.text)
        self.left -= sentence.chars


class _Material:
    """All that could be told, found once; `compose` tells as much of it as there is room."""

    def __init__(self, source: SummaryInput) -> None:
        self._source = source
        ledger = source.ledger
        self._exchanges = ledger.exchanges or [LedgerExchange(source.first)]
        folded = (action for action in ledger.actions if not self._stays_whole(action.number))
        self._actions = actions_by_exchange(self._exchanges, folded)
        self._owners = owners_of(ledger.actions)
        self._requests = {exchange.number for exchange in self._exchanges if exchange.request}
        self._focus = FocusTopic(source.focus) if source.focus and source.focus.strip() else None
        self._about = messages_about(source, self._focus) if self._focus else []
        self._chars_about = sum(len(text_with_calls(source.read(number))) for number in self._about)
        self._long_requests = {one.number for one in self._exchanges if len(one.request) > TASK_CHARS}
        self._selector = QuoteSelector(
            ledger.index,
            source.read,
            source.first,
            self._may_quote,
            self._line_of,
            # What the newest request is about was seen last; where there is one request, all of it is about that one.
            favour_new=_FAVOUR_NEW if len(self._exchanges) > 1 else 0.0,
            redacted=source.clean,
        )
        self._top = certain_lines(source)
        told = self._told_before()
        start = min((exchange.number for exchange in ledger.exchanges), default=source.first)
        self._former = [(number, lines) for number, lines in told if number < start]
        self._told = {number: lines[1:] for number, lines in told if number >= start}
        self._closings: dict[int, list[Sentence]] = {}
        self._said: dict[int, list[Sentence]] = {}
        self._frame_chars: dict[tuple[str, str], int] = {}

    # -- what there is -------------------------------------------------------------------------------------------------

    def _told_before(self) -> list[tuple[int, list[str]]]:
        """The entries of the previous handoff, each with its first message."""
        told = [text.split(CONTINUED) for text in self._source.previous_lines(parts.COMPLETED)]
        for task in self._source.previous_lines(parts.ACTIVE_TASK)[:1]:
            if all(line.text != task for line in self._top):
                # What was the task then is one of the earlier requests now.
                own = [lines for lines in told if lines[0].startswith(_AS_TASK)] or [[]]
                told = [*(lines for lines in told if lines is not own[0]), [task, *own[0][1:]]]
        return [(number_in(lines[0]), lines) for lines in told]

    def _closing(self, n: int) -> list[Sentence]:
        """The sentences of the agent's last words on an exchange."""
        if n not in self._closings:
            closing, at = self._exchanges[n].closing, self._exchanges[n].closing_number
            is_quoted = at is not None and at < self._source.last
            self._closings[n] = closing_sentences(closing, at or 0, self._selector.worth_of) if is_quoted else []
        return self._closings[n]

    def _sentences(self, n: int) -> list[Sentence]:
        """What the agent said in an exchange, its last words included."""
        if n not in self._said:
            exchange = self._exchanges[n]
            found = [*self._closing(n)]
            for number in exchange.said:
                if number != exchange.closing_number and self._may_quote(number):
                    said = sentences_in(self._selector.texts(number)[0], number, self._selector.worth_of)
                    found += [replace(one, worth=one.worth - 0.5) for one in said]
            self._said[n] = found
        return self._said[n]

    def _stays_whole(self, number: int) -> bool:
        """Whether the message can be read below the handoff."""
        return number >= self._source.last and number not in self._source.shortened

    def _may_quote(self, number: int) -> bool:
        """Whether lines of a message may be quoted beside what is told of it: of a request its words are told."""
        source = self._source
        if number in source.ledger.program_messages:
            return False
        # Of a request that is too long to be told whole, such as one with a log pasted in, lines may be quoted too.
        if number in self._requests and number not in self._long_requests:
            return False
        return source.first <= number < source.last or number in source.shortened

    def _line_of(self, number: int, part: int) -> tuple[Hashable, int]:
        """On which line of the handoff a passage would stand, and what that line takes without it."""
        action = self._owners.get((number, part))
        if action is None:
            return number, 16
        key = (action.verb, action.target)
        if key not in self._frame_chars:
            self._frame_chars[key] = len(brief_target(action.target)) + _FRAME_CHARS
        return key, self._frame_chars[key]

    # -- telling it ----------------------------------------------------------------------------------------------------

    def compose(self, room: int) -> tuple[Handoff, int]:
        """The handoff of about `room` chars, and how many of them there was nothing to fill with."""
        draft = _Draft(room, covered=set(self._source.kept_atoms))
        self._tell_certain(draft)
        held = self._tell_focus(draft, room) if self._focus else 0
        draft.left -= held
        self._tell_former(draft)
        self._tell_requests(draft, self._room_for_requests(draft))
        self._tell_conclusions(draft)
        self._tell_deeds(draft)
        sentences = by_worth({n: self._sentences(n) for n in draft.entries}, len(self._exchanges) - 1)
        self._tell_sentences(draft, sentences, int(draft.left * _SHARE_OF_SENTENCES), _LEAST_WORTH)
        self._tell_again(draft)
        draft.left += held
        if self._focus:
            about = [(one, n) for one, n in sentences if self._focus.is_about(one.text)]
            held -= self._tell_sentences(draft, about, int(held * _SHARE_OF_FOCUS_SENTENCES), -1.0)
        self._tell_passages(draft, held)
        self._tell_sentences(draft, sentences, draft.left, -1.0)
        self._tell_other_actions(draft)
        self._tell_whole_requests(draft)
        self._tell_plain_lines(draft)
        return self._written(draft), draft.left

    def _tell_certain(self, draft: _Draft) -> None:
        least = draft.left * (1 - _SHARE_OF_CERTAIN)
        failures = draft.left * _SHARE_OF_FAILURES
        for whole in self._top:
            line = (
                shorter_task(whole, int(draft.left * _SHARE_OF_TASK)) if whole.heading == parts.ACTIVE_TASK else whole
            )
            is_failure = line.heading == parts.TRIED
            if line.chars <= draft.left - least and not (is_failure and line.chars > failures):
                draft.top.append(line)
                draft.left -= line.chars
                failures -= line.chars if is_failure else 0
                draft.covered |= atoms_in(line.text)

    def _tell_former(self, draft: _Draft) -> None:
        """What was told before, newest first: an entry whole, then its first lines, then several in one."""
        room = int(draft.left * _SHARE_OF_FORMER)
        whole = room // 2
        for number, lines in reversed(self._former):
            for kept in (lines, lines[:2], lines[:1]):
                chars = sum(len(line) + len(CONTINUED) for line in kept) + _ENTRY_CHARS
                if chars <= (whole if len(kept) > 1 else room):
                    draft.former.insert(0, (number, kept))
                    draft.left -= chars
                    room -= chars
                    whole -= chars
                    draft.covered |= atoms_in(" ".join(kept))
                    break
            else:
                break

    def _tell_focus(self, draft: _Draft, room: int) -> int:
        """Where the topic comes up and what was asked about it; returns the chars to hold for what else is about it."""
        assert self._focus is not None
        told = sum(line.chars for line in draft.top if self._focus.is_about(line.text))
        line = focus_line(self._source, self._focus, self._about, int(room * _SHARE_OF_FOCUS_LINE))
        if line is not None and line.chars <= draft.left:
            draft.top.append(line)
            draft.left -= line.chars
            told += line.chars
        held = max(0, min(draft.left, int(room * _SHARE_OF_FOCUS) - told, self._chars_about))
        before = draft.left
        self._tell_requests(draft, int(held * _SHARE_OF_FOCUS_REQUESTS), self._focus)
        return held - (before - draft.left)

    def _room_for_requests(self, draft: _Draft) -> int:
        top = " ".join(line.text for line in draft.top)
        untold = [one.request for one in self._exchanges if " ".join(one.request.split()) not in top]
        chars = sum(min(len(request), _OLD_REQUEST_CHARS) + _REFERENCE_CHARS + _ENTRY_CHARS for request in untold)
        share = int(draft.left * _SHARE_OF_REQUESTS)
        return max(share, chars) if chars <= draft.left * _LARGEST_SHARE_OF_REQUESTS else share

    def _tell_requests(self, draft: _Draft, room: int, topic: FocusTopic | None = None) -> None:
        """Every request, newest first; with a topic only those about it, each in detail."""
        top = " ".join(line.text for line in draft.top)
        last = len(self._exchanges) - 1
        for n in range(last, -1, -1):
            if room < _SHORTEST_ENTRY_CHARS:
                break
            if n in draft.entries or (topic and not topic.is_about(self._exchanges[n].request)):
                continue
            most = TASK_CHARS if topic or last - n < _NEWEST_WHOLE else _OLD_REQUEST_CHARS
            head = self._head(n, top, max(_LEAST_REQUEST_CHARS, min(most, room - _REFERENCE_CHARS - _ENTRY_CHARS)))
            if len(head) + _ENTRY_CHARS <= room:
                draft.entries[n] = ToldExchange(head)
                draft.covered |= atoms_in(head)
                room -= len(head) + _ENTRY_CHARS
                draft.left -= len(head) + _ENTRY_CHARS

    def _head(self, n: int, top: str, most: int) -> str:
        """The request, or where it can be read above."""
        exchange = self._exchanges[n]
        if not exchange.request:
            return f"Still on what was asked before (m{exchange.number})" if self._source.previous else ""
        cancelled = f"; cancelled by m{exchange.cancelled_by}" if exchange.cancelled_by is not None else ""
        if " ".join(exchange.request.split()) in top and not exchange.chosen:
            word = _AS_TASK if n == len(self._exchanges) - 1 else "Asked, as above"
            return f"{word} (m{exchange.number}{cancelled})"
        if self._stays_whole(exchange.number):
            return f"{_ASKED_BELOW} (m{exchange.number}{cancelled})"
        head = quoted_request(self._source.ledger, exchange, most)
        return head[:-1] + cancelled + ")" if cancelled else head

    def _tell_conclusions(self, draft: _Draft) -> None:
        room = int(draft.left * _SHARE_OF_CONCLUSIONS)
        for n in draft.entries:
            new = [one for one in self._closing(n) if one.text not in draft.told]
            telling = [one for one in new if one.width >= TELLING_WIDTH] or new
            best = max(telling, key=lambda one: (one.worth, -one.order), default=None)
            if best is not None and best.chars > room:
                # An older one that is shorter would be told in the place of this one, and not where there is more room.
                break
            if best is not None:
                draft.take(best, n)
                room -= best.chars

    def _tell_deeds(self, draft: _Draft) -> None:
        room = int(draft.left * _SHARE_OF_DEEDS)
        told = any(line.heading == parts.FILES for line in draft.top)
        listed = frozenset(self._source.ledger.files) if told else frozenset()
        newest = len(self._exchanges) - _NEWEST_WITH_DEEDS
        for n, entry in draft.entries.items():
            # Of an older exchange, the agent's conclusion says what was done, and the list of files where.
            if n < newest and entry.sentences:
                continue
            for line in deeds_of(self._actions.get(n, ()), listed):
                if len(line) + _ENTRY_CHARS <= room and not _is_failure_in(draft.top, line):
                    entry.deeds.append(line)
                    draft.covered |= atoms_in(line)
                    room -= len(line) + _ENTRY_CHARS
                    draft.left -= len(line) + _ENTRY_CHARS

    def _tell_sentences(self, draft: _Draft, sentences: Iterable[tuple[Sentence, int]], room: int, least: float) -> int:
        """Sentences of the agent, in this order as far as there is room; returns the chars they take."""
        left = room
        for one, n in sentences:
            is_new = one.text not in draft.told and not draft.entries[n].shows(one)
            if one.worth > least and is_new and one.chars <= left:
                draft.take(one, n)
                left -= one.chars
        return room - left

    def _tell_again(self, draft: _Draft) -> None:
        """What was quoted of exchanges that were told before, newest first: it may no longer be read."""
        room = int(draft.left * _SHARE_OF_FORMER)
        for n in sorted(draft.entries, reverse=True):
            entry, exchange = draft.entries[n], self._exchanges[n]
            before = self._told.get(exchange.number, ())
            for line in lines_to_tell_again(entry, before, exchange.closing_number) if before else ():
                if len(line) + _ENTRY_CHARS <= room:
                    entry.told_before.append(line)
                    room -= len(line) + _ENTRY_CHARS
                    draft.left -= len(line) + _ENTRY_CHARS
                    draft.covered |= atoms_in(line)

    def _tell_passages(self, draft: _Draft, for_focus: int) -> None:
        about = [number for number in self._about if self._may_quote(number)] if for_focus else []
        favoured = self._focus.spans_in(about, self._selector.texts) if self._focus else ()
        self._place(draft, *self._selector.select(draft.left, draft.covered, favoured, for_focus))

    def _tell_whole_requests(self, draft: _Draft) -> None:
        """With room left, what people asked is told whole, however long ago."""
        top = " ".join(line.text for line in draft.top)
        for n in sorted(draft.entries, reverse=True):
            head = self._head(n, top, TASK_CHARS) if n != _LEFT_OUT else ""
            longer = len(head) - len(draft.entries[n].head)
            if 0 < longer <= draft.left:
                draft.entries[n].head = head
                draft.left -= longer

    def _tell_plain_lines(self, draft: _Draft) -> None:
        """With room left, lines that hold nothing exact too: of a talk they may be all there is."""
        if draft.left > _LEAST_LEFT:
            told = [line.text for line in draft.top] + [exchange_text(entry, None) for entry in draft.entries.values()]
            self._place(draft, *self._selector.plain_lines(draft.left, "\n".join(told)))

    def _place(self, draft: _Draft, chosen: Mapping[tuple[int, int], list[str]], spent: int) -> None:
        """Put quotes under the exchanges that they are of."""
        draft.left -= spent
        top = " ".join(line.text for line in draft.top)
        starts = [exchange.number for exchange in self._exchanges]
        for (number, part), lines in chosen.items():
            n = max(0, bisect_right(starts, number) - 1)
            entry = draft.entries.get(n) or draft.entries.setdefault(_LEFT_OUT, ToldExchange(""))
            owner = self._owners.get((number, part))
            if owner is not None and number == owner.result and (short := self._short_output(owner)):
                draft.left -= max(0, len(short) - len(_SEPARATOR.join(lines)))
                lines = [short]
            above = f"{top} {entry.head}"
            said = [one.text for one in entry.sentences if one.number == number]
            new = [line for line in lines if line not in draft.told and line.strip("…") not in above]
            new = [line for line in new if not any(text in line for text in said)]
            own = entry.passages.setdefault(self._line_of(number, part)[0], [])
            own += [(owner.number if owner else number, bool(part), line) for line in new]

    def _tell_other_actions(self, draft: _Draft) -> None:
        """With room left, the actions that nothing was told of, newest first: a short output is the outcome."""
        failures = {reference_of(line.text) for line in draft.top if line.heading in (parts.BLOCKED, parts.TRIED)}
        for n in sorted(draft.entries, reverse=True):
            entry = draft.entries[n]
            references = failures | {reference_of(line) for line in entry.deeds}
            for action in reversed(self._actions.get(n, ())):
                key = (action.verb, action.target)
                known = action.verb in _TOLD_ELSEWHERE or f"(m{action.number})" in references
                if known or not action.target or not self._may_quote(action.number):
                    continue
                told = entry.passages.setdefault(key, [])
                shown = self._short_output(action)
                chars = len(shown) + (0 if told else self._line_of(action.number, action.call_index + 1)[1])
                if chars <= draft.left and all(is_call and shown for _, is_call, _ in told):
                    told.append((action.number, False, shown))
                    draft.left -= chars

    def _short_output(self, action: Action) -> str:
        if action.result is None or not self._may_quote(action.result):
            return ""
        text = self._selector.texts(action.result)[0]
        lines = self._source.clean(text).splitlines() if len(text) <= 2 * _SHORT_OUTPUT_CHARS else ()
        shown = _SEPARATOR.join(" ".join(line.split()) for line in lines if line.strip())
        return shown if len(shown) <= _SHORT_OUTPUT_CHARS and action.result != action.number else ""

    def _written(self, draft: _Draft) -> Handoff:
        sections: dict[str, list[str]] = {}
        for line in sorted(draft.top, key=lambda line: line.number):
            sections.setdefault(line.heading, []).append(self._source.clean(line.text))
        left_out = draft.entries.pop(_LEFT_OUT, ToldExchange(""))
        left_out.head = self._left_out(draft)
        entries = [exchange_text(left_out, None), *(CONTINUED.join(lines) for _, lines in draft.former)]
        new = (exchange_text(entry, self._exchanges[n].closing_number) for n, entry in sorted(draft.entries.items()))
        # Without another line they tell nothing that is not told already.
        entries += [text for text in new if CONTINUED in text or not text.startswith((_AS_TASK, _ASKED_BELOW))]
        if told := [self._source.clean(text) for text in entries if text]:
            sections[parts.COMPLETED] = told
        return Handoff(sections)

    def _left_out(self, draft: _Draft) -> str:
        """One line for the exchanges that there was no room for: how many, and from where to where."""
        former = self._former[: len(self._former) - len(draft.former)]
        new = [self._exchanges[n] for n in range(len(self._exchanges)) if n not in draft.entries]
        numbers = [*(number for number, _ in former), *(exchange.number for exchange in new)]
        if not numbers:
            return ""
        times = sum(times_in(lines[0]) for _, lines in former) + len(new)
        return f"{times} earlier requests, no longer told one by one (m{min(numbers)}-m{max(numbers)})"


def _is_failure_in(top: Iterable[HandoffLine], deed: str) -> bool:
    """Whether what a single run failed with stands above, with its message."""
    failures = {reference_of(line.text) for line in top if line.heading in (parts.BLOCKED, parts.TRIED)}
    return " -> " in deed and reference_of(deed) in failures
