"""The built-in summariser: a handoff told by exchange, out of the ledger. Deterministic; no network, no key, no model.

What must be there comes first: the task, the goal, the rules, the state. Then every request of a person, newest first;
of each exchange the agent's own conclusion; what was changed and run; more of the agent's sentences. The room that is
left goes to whole lines of the original text that will likely be needed again. Older exchanges get less of it all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from clew.ledger import FocusTopic, atoms_in, found_nothing, only_looks, text_with_calls
from clew.redact import redact_text
from clew.summaries import handoff as parts
from clew.summaries.deeds import deeds_of, lasting_deeds_of, reference_of, told_target
from clew.summaries.draft import CHANGING_VERBS, ENTRY_CHARS, HandoffDraft
from clew.summaries.exchanges import (
    LEAST_REQUEST_CHARS,
    HandoffMaterial,
    ToldExchange,
    exchange_text,
)
from clew.summaries.focus_line import focus_line
from clew.summaries.handoff import (
    CountTokens,
    Handoff,
    RequestStretch,
    Summary,
    SummaryInput,
    joined_stretches,
    number_at_end,
)
from clew.summaries.required_facts import (
    TASK_CHARS,
    HandoffLine,
    continued_task,
    longer_goal,
    named_task,
    shorter_task,
)
from clew.summaries.sentences import Sentence, by_worth

BUILTIN = "built-in"
TEMPLATE = "builtin/2"

# Of the budget: what is aimed at, and what is enough not to try again; nor is that done where so much of it has nothing
# to be filled with, or the last try brought hardly more.
_AIM = 0.985
_FULL_ENOUGH = 0.9
_SHARE_UNUSED = 0.05
_SOME_MORE = 1.005
_TRIES_TO_FIT, _FEWEST_TOKENS = 5, 10
# Of what is left for quotes, those by which it is measured what quotes take, and of the rest what is then planned for.
_SHARE_OF_FIRST_QUOTES = 0.85
_SHARE_OF_OTHER_QUOTES = 0.95
_NEARLY_ALL = 0.95
_MOST_CHARS_TOO_MANY = 2.0
# Less than this is not filled; with more than that left, more of the same kind is told.
_SHARE_OF_LAST, _SHARE_OF_MUCH = 0.025, 0.08
_TIMES_TO_FILL = 4
_PIECES, _PIECE_CHARS = 40, 300

# Of the room that is left when its turn comes, each kind may take this share.
_SHARE_OF_CERTAIN = 0.85
_SHARE_OF_TASK = 0.5
# Where the task can be read whole below, its words here are only its name.
_SHARE_OF_TASK_BELOW = 0.15
# What failed and was overcome: a large handoff has better use for most of its room.
_SHARE_OF_FAILURES = 0.25
_MOST_OF_FAILURES = (900, 0.04)
# More of it where else a part of the room would be left: of a talk little is told but what was said.
_SHARES_OF_REQUESTS = (0.38, 0.5, 0.65, 0.9)
_MOST_LEFT_OVER = 0.06
# All of them, though, where they take no more than this.
_LARGEST_SHARE_OF_REQUESTS = 0.7
_SHARE_OF_CONCLUSIONS, _SHARE_OF_CONCLUSIONS_BESIDE_FOCUS = 0.6, 0.3
_SHARE_OF_DEEDS = 0.25
_SHARE_OF_SENTENCES = 0.05
# For all the words of requests that were cut, before any line of a result.
_SHARE_OF_WHOLE_REQUESTS = 0.12
# Of a large handoff more: there is room for answers as they were given.
_SHARE_OF_CLOSINGS, _SHARE_OF_CLOSINGS_OF_LARGE, _LARGE_CHARS = 0.06, 0.2, 30_000
# Of a handoff, for what it shall tell most of; of that, for requests and for the agent's own sentences.
_SHARE_OF_FOCUS = 0.6
_SHARE_OF_FOCUS_LINE = 0.06
_SHARE_OF_FOCUS_REQUESTS = 0.3
_SHARE_OF_FOCUS_SENTENCES = 0.4
_NEWEST_WHOLE, _NEWEST_IN_DETAIL, _NEWEST_WITH_DEEDS = 3, 4, 8
# What a subagent found is told in so many chars at least and at most, and in this part of the room for deeds.
_CHARS_OF_REPORT = (200, 900)
_REPORTS_OF_DEEDS = 20
_OLD_REQUEST_CHARS, _ONE_OF_MANY_CHARS = 340, 160
_ROOM_FOR_ANY_HEAD = 2 * LEAST_REQUEST_CHARS
_SHORTEST_ENTRY_CHARS, _MOST_TRIED = 25, 200
_CUT = '…" (m'
_REFERENCE_CHARS = 12
_LEAST_WORTH, _LEAST_LEFT = 0.3, 200
# The same command with the same outcome, over all exchanges.
_MOST_REPEATED = 2
_HEADINGS_OF_REQUESTS = frozenset({parts.ACTIVE_TASK, parts.GOAL, parts.RULES})
# Told under headings of their own.
_TOLD_ELSEWHERE = CHANGING_VERBS | {"PLANNED", "ASKED"}


async def summarize_builtin(source: SummaryInput, budget: int, count: CountTokens) -> Summary:
    """The summary that needs no model."""
    text = redact_text(write_handoff(source, budget, count).render())
    return Summary(text, written_by=BUILTIN, template=TEMPLATE)


def write_handoff(source: SummaryInput, budget: int, count: CountTokens) -> Handoff:
    """The handoff that tells the most of the source in at most `budget` tokens."""
    composer = _Composer(HandoffMaterial(source), _chars_per_token(source, count), count)
    best, most = Handoff({}), 0
    aim = planned = int(_AIM * budget)
    for _ in range(_TRIES_TO_FIT):
        written, size, left = composer.compose(aim, planned)
        is_more = size > _SOME_MORE * most
        if size > budget:
            aim, planned = int(aim * _AIM * budget / size), int(planned * budget / size)
            continue
        if size > most:
            best, most = written, size
        if size > _FULL_ENOUGH * budget or left > _SHARE_UNUSED or not is_more:
            return best
        planned = int(planned * min(1.5, _AIM * budget / max(1, size)))
    while not most and aim > _FEWEST_TOKENS:
        aim = int(aim * 0.8)
        written, size, _ = composer.compose(aim, aim)
        if size <= budget:
            return written
    return best


def _chars_per_token(source: SummaryInput, count: CountTokens) -> float:
    """By pieces of messages from everywhere, and a little more: what is told takes less than what is planned for it."""
    step = max(1, (source.last - source.first) // _PIECES)
    texts = (text_with_calls(source.read(number)) for number in range(source.first, source.last, step))
    sample = "\n".join(text[len(text) // 2 :][:_PIECE_CHARS] for text in texts)
    return 1.1 * len(sample) / max(1, count(sample)) if sample else 3.0


class _Composer:
    """Tells as much of the material as there is room for."""

    def __init__(self, material: HandoffMaterial, chars_per_token: float, count: CountTokens) -> None:
        self._material = material
        self._chars_per_token = chars_per_token
        self._count = count
        self._written, self._size = Handoff({}), 0
        """The draft as it was measured last, which is when something was last told."""
        self._exchanges = {exchange.number: exchange for exchange in material.exchanges}
        # Of thousands of requests, what is the same for every size is found once.
        self._request_chars = sorted(len(exchange.request) for exchange in material.exchanges)
        self._old_request_chars = sum(min(chars, _OLD_REQUEST_CHARS) for chars in self._request_chars)
        self._deeds: dict[tuple[int, bool, bool], list[str]] = {}
        """By exchange, whether they are brief, and whether the files are told above."""
        self._folded_requests = [
            (n, one) for n, one in enumerate(material.exchanges) if one.request and not material.stays_whole(one.number)
        ]

    def compose(self, tokens: int, planned: int) -> tuple[Handoff, int, float]:
        """The handoff of about so many tokens, its size, and for which share of the tokens there was nothing to tell.

        For `planned` tokens it is planned what each kind may take: more, where some take less than they may.
        """
        for share in _SHARES_OF_REQUESTS:
            draft = self._draft(tokens, int(planned * self._chars_per_token), share)
            left = draft.left / max(1, tokens * self._chars_per_token)
            if left <= _MOST_LEFT_OVER or not draft.stretches:
                break
        return self._written, self._size, left

    def _draft(self, tokens: int, room: int, share_of_requests: float) -> HandoffDraft:
        draft = HandoffDraft(room, covered=set(self._material.source.kept_atoms))
        self._tell_certain(draft)
        held = self._tell_focus(draft, room) if self._material.focus else 0
        draft.left -= held
        draft.tell_former(self._material)
        self._tell_requests(draft, self._room_for_requests(draft, int(draft.left * share_of_requests)))
        self._tell_stretches(draft, room)
        self._tell_conclusions(draft)
        self._tell_deeds(draft)
        self._tell_closings(draft)
        said = {n: self._material.sentences(n) for n in draft.entries}
        sentences = by_worth(said, len(self._material.exchanges) - 1, self._material.repeated)
        self._tell_sentences(draft, sentences, int(draft.left * _SHARE_OF_SENTENCES), _LEAST_WORTH)
        draft.tell_again(self._material)
        self._tell_whole_requests(draft, 0 if draft.stretches else int(draft.left * _SHARE_OF_WHOLE_REQUESTS))
        draft.left += held
        if self._material.focus:
            about = [(one, n) for one, n in sentences if self._material.focus.is_about(one.text)]
            held -= self._tell_sentences(draft, about, int(held * _SHARE_OF_FOCUS_SENTENCES), -1.0)
        self._tell_passages(draft, tokens, held)
        self._fill(draft, tokens, sentences)
        return draft

    def _fill(self, draft: HandoffDraft, tokens: int, sentences: Sequence[tuple[Sentence, int]]) -> None:
        """With room left, more of all that there is."""
        for tell in (
            lambda: self._tell_sentences(draft, sentences, draft.left, -1.0),
            lambda: self._tell_other_actions(draft),
            lambda: self._tell_whole_requests(draft, draft.left),
            lambda: self._tell_plain_lines(draft),
        ):
            for again in range(_TIMES_TO_FILL):
                # More of the same kind, where much is left.
                if tokens - self._size < (_SHARE_OF_MUCH if again else _SHARE_OF_LAST) * tokens:
                    break
                before = draft.left
                tell()
                if draft.left == before:
                    break
                self._measure(draft, tokens)

    def _measure(self, draft: HandoffDraft, tokens: int) -> int:
        """What is told so far in tokens; the chars that are left of so many tokens are then known too."""
        self._written = draft.written(self._material)
        text = self._written.render()
        self._size = self._count(text)
        draft.left = int((tokens - self._size) * len(text) / max(1, self._size))
        return self._size

    def _tell_certain(self, draft: HandoffDraft) -> None:
        least = draft.left * (1 - _SHARE_OF_CERTAIN)
        failures = min(draft.left * _SHARE_OF_FAILURES, _MOST_OF_FAILURES[0] + draft.left * _MOST_OF_FAILURES[1])
        for whole in self._material.top:
            line = whole
            if whole.heading in (parts.ACTIVE_TASK, parts.GOAL):
                line = self._task_or_goal(whole, draft.left)
            is_failure = line.heading == parts.TRIED
            if line.chars <= draft.left - least and not (is_failure and line.chars > failures):
                draft.top.append(line)
                draft.left -= line.chars
                failures -= line.chars if is_failure else 0
                # Of a file in a list nothing is said.
                draft.covered |= atoms_in(line.text) if line.heading != parts.FILES else set()
        draft.above = self._asked_above(draft.top)

    def _task_or_goal(self, line: HandoffLine, room: int) -> HandoffLine:
        """By its first words where it can be read elsewhere, also when more is folded; a task that is long shorter."""
        number, source = number_at_end(line.text), self._material.source
        # What stays between the head and the tail is not read again when more is folded.
        stays = self._material.stays_whole(number) and number not in source.kept
        if stays:
            line = named_task(line, "above" if number in source.above else "below")
        if line.heading == parts.GOAL:
            return line
        line = continued_task(source, line)
        return shorter_task(line, int(room * (_SHARE_OF_TASK_BELOW if stays else _SHARE_OF_TASK)))

    def _tell_focus(self, draft: HandoffDraft, room: int) -> int:
        """Where the topic comes up and what was asked about it; returns the chars to hold for what else is about it."""
        assert self._material.focus is not None
        told = sum(line.chars for line in draft.top if self._material.focus.is_about(line.text))
        line = focus_line(
            self._material.source, self._material.focus, self._material.about, int(room * _SHARE_OF_FOCUS_LINE)
        )
        if line is not None and line.chars <= draft.left:
            draft.top.append(line)
            draft.left -= line.chars
            told += line.chars
        held = max(0, min(draft.left, int(room * _SHARE_OF_FOCUS) - told, self._material.chars_about))
        before = draft.left
        self._tell_requests(draft, int(held * _SHARE_OF_FOCUS_REQUESTS), self._material.focus)
        return held - (before - draft.left)

    def _room_for_requests(self, draft: HandoffDraft, share: int) -> int:
        above = [len(self._exchanges[number].request) for number in draft.above & self._exchanges.keys()]
        chars = self._old_request_chars - sum(min(chars, _OLD_REQUEST_CHARS) for chars in above)
        chars += (len(self._request_chars) - len(above)) * (_REFERENCE_CHARS + ENTRY_CHARS)
        return max(share, chars) if chars <= draft.left * _LARGEST_SHARE_OF_REQUESTS else share

    def _tell_requests(self, draft: HandoffDraft, room: int, topic: FocusTopic | None = None) -> None:
        """Every request, newest first; with a topic only those about it, each in detail."""
        above = draft.above
        material = self._material
        last, tried = len(material.exchanges) - 1, 0
        each = self._chars_for_each_request(room, above)
        for n in material.told_first:
            # Of thousands of requests one may still fit into the last few chars: it is not worth a look at all of them.
            if room < _SHORTEST_ENTRY_CHARS or tried > _MOST_TRIED:
                break
            if n in draft.entries or (topic and not topic.is_about(material.exchanges[n].request)):
                continue
            tried += room < _ROOM_FOR_ANY_HEAD
            if room < _ROOM_FOR_ANY_HEAD and not material.may_fit(n, above, room - ENTRY_CHARS):
                continue
            most = TASK_CHARS if topic or last - n < _NEWEST_WHOLE else _OLD_REQUEST_CHARS
            most = most if topic else min(most, each)
            head = material.head(n, above, max(LEAST_REQUEST_CHARS, min(most, room - _REFERENCE_CHARS - ENTRY_CHARS)))
            if len(head) + ENTRY_CHARS <= room:
                draft.entries[n] = ToldExchange(head)
                draft.covered |= atoms_in(head)
                room -= len(head) + ENTRY_CHARS
                draft.left -= len(head) + ENTRY_CHARS

    def _chars_for_each_request(self, room: int, above: Collection[int]) -> int:
        """To how many chars the long requests are cut so that each one is told: what is pasted into some of them would
        leave no room for a short one that says what all of it is for. Where there are too many, the newest go first,
        in a line or two each.
        """
        frame = _REFERENCE_CHARS + ENTRY_CHARS
        lengths = self._request_chars.copy()
        for number in self._exchanges.keys() & above:
            lengths.remove(len(self._exchanges[number].request))
        for at, chars in enumerate(lengths):
            share, length = room // (len(lengths) - at), chars + frame
            if length > share:
                return share - frame if share - frame >= LEAST_REQUEST_CHARS else _ONE_OF_MANY_CHARS
            room -= length
        return TASK_CHARS

    def _tell_stretches(self, draft: HandoffDraft, room: int) -> None:
        """The requests that there was no room for, several in one line."""
        above = draft.above
        untold = self._material.former[: len(self._material.former) - len(draft.former)]
        old = [
            RequestStretch.of_line(lines[0])
            for number, lines in untold
            if number not in above and not lines[0].startswith(parts.STILL_ASKED)
        ]
        counted = max((one.last for one in old), default=-1)
        new = [
            one
            for n, one in self._folded_requests
            if n not in draft.entries and one.number > counted and one.number not in above
        ]
        for stretch in joined_stretches(old, new, room) if old or new else ():
            if len(stretch.text) + ENTRY_CHARS <= draft.left:
                draft.stretches.append((stretch, ToldExchange(stretch.text)))
                draft.left -= len(stretch.text) + ENTRY_CHARS

    def _asked_above(self, top: Iterable[HandoffLine]) -> set[int]:
        """The requests that stand under the first headings: the task, the goal, and what is all of it a rule."""
        return {
            number
            for line in top
            if line.heading in _HEADINGS_OF_REQUESTS and (number := number_at_end(line.text)) >= 0
            if line.heading != parts.RULES or line.text.startswith(self._whole_request(number))
        }

    def _whole_request(self, number: int) -> str:
        """How a line begins that is a request, all of it; a blank, as no line does, where the message is none."""
        exchange = self._exchanges.get(number)
        return f'"{" ".join(exchange.request.split())}" (m' if exchange else " "

    def _tell_conclusions(self, draft: HandoffDraft) -> None:
        room = int(draft.left * (_SHARE_OF_CONCLUSIONS_BESIDE_FOCUS if self._material.about else _SHARE_OF_CONCLUSIONS))
        for n in draft.entries:
            told = self._material.conclusion(n, draft.told)
            if told and told[0].chars > room:
                # An older one that is shorter would be told in the place of this one, and not where there is more room.
                break
            room -= draft.conclude(n, told, room)

    def _tell_deeds(self, draft: HandoffDraft) -> None:
        room = int(draft.left * _SHARE_OF_DEEDS)
        told = any(line.heading == parts.FILES for line in draft.top)
        listed = frozenset(self._material.source.ledger.files) if told else frozenset()
        chars_of_report = max(_CHARS_OF_REPORT[0], min(_CHARS_OF_REPORT[1], room // _REPORTS_OF_DEEDS))
        newest = len(self._material.exchanges) - _NEWEST_WITH_DEEDS
        failures = _failures_in(draft.top)
        for n, entry in draft.entries.items():
            actions = self._material.actions.get(n, ())
            # Of an older exchange, its conclusion and its commits say what was done, the list of files where.
            is_brief = n < newest and entry.sentences
            key = (n, bool(is_brief), told)
            if key not in self._deeds:
                below = self._material.actions_below(n)
                self._deeds[key] = list(lasting_deeds_of(actions) if is_brief else deeds_of(actions, listed, below))
                self._deeds[key] += self._material.steps(n)
            done = self._deeds[key]
            for line in (*self._material.reports(n, chars_of_report), *done):
                is_failure = " -> " in line and reference_of(line) in failures
                if len(line) + ENTRY_CHARS <= room and not is_failure:
                    entry.deeds.append(line)
                    draft.covered |= atoms_in(line)
                    room -= len(line) + ENTRY_CHARS
                    draft.left -= len(line) + ENTRY_CHARS

    def _tell_sentences(
        self, draft: HandoffDraft, sentences: Iterable[tuple[Sentence, int]], room: int, least: float
    ) -> int:
        """Sentences of the agent, in this order as far as there is room; returns the chars they take."""
        left = room
        quoted: dict[int, str] = {}
        waiting: set[int] = set()
        for one, n in sentences:
            if one.worth <= least or one.chars > left or one.text in draft.told or n in waiting:
                continue
            if n not in quoted:
                quoted[n] = draft.entries[n].quoted_lines()
                if draft.entries[n].conclusion is None and (first := self._material.conclusion(n, draft.told)):
                    # Before any other sentence of an exchange, the one that says what came of it.
                    left -= draft.conclude(n, first, left)
                    waiting |= {n} if draft.entries[n].conclusion is None else set()
            if n not in waiting and one.chars <= left and one.text not in draft.told and one.text not in quoted[n]:
                draft.take(one, n)
                left -= one.chars
        return room - left

    def _tell_closings(self, draft: HandoffDraft) -> None:
        """More of the agent's last words on the newest requests, then on older ones: what it found and left open."""
        newest = len(self._material.exchanges) - 1
        room = int(draft.left * _SHARE_OF_CLOSINGS + max(0, draft.left - _LARGE_CHARS) * _SHARE_OF_CLOSINGS_OF_LARGE)
        ended = {n: self._material.closing(n) for n in draft.entries if self._material.exchanges[n].is_ended}
        for some in (range(newest - _NEWEST_IN_DETAIL, newest + 1), range(newest - _NEWEST_IN_DETAIL)):
            said = {n: own for n, own in ended.items() if n in some}
            room -= self._tell_sentences(draft, by_worth(said, newest, self._material.repeated), room, _LEAST_WORTH)

    def _tell_passages(self, draft: HandoffDraft, tokens: int, for_focus: int) -> None:
        """Quotes, which take most of the room that is left, and leave so many chars as are left of the tokens.

        How many tokens are left is counted. How many chars of quotes those are is known when the first ones are told.
        """
        selector, focus = self._material.selector, self._material.focus
        about = [number for number in self._material.about if self._material.may_quote(number)] if for_focus else []
        favoured = focus.spans_in(about, selector.texts) if focus else ()
        left, told, before = draft.left, self._measure(draft, tokens), 0
        most = max(0, int((tokens - told) * self._chars_per_token))
        for_focus = int(for_focus * min(1.0, most / max(1, left)))
        room = int(most * _SHARE_OF_FIRST_QUOTES)
        quotes, spent = selector.select(room, most, draft.covered, favoured, for_focus)
        draft.place(self._material, quotes, spent)
        for _ in range(_TIMES_TO_FILL):
            size = self._measure(draft, tokens)
            fits = size <= tokens / _AIM
            if size <= told or (fits and (spent < _NEARLY_ALL * room or size > (1 - _SHARE_OF_LAST) * tokens)):
                return
            # As many chars for each token that is left as the last ones took, where that is not out of all measure.
            per_token = min((spent - before) / (size - told), _MOST_CHARS_TOO_MANY * self._chars_per_token)
            told, before = size, spent
            room = spent + int((tokens - size) * (_SHARE_OF_OTHER_QUOTES if fits else 1) * per_token)
            quotes, spent = selector.select_more(room, room) if fits else selector.select_fewer(room)
            draft.place_again(self._material, quotes, spent)
        self._measure(draft, tokens)

    def _tell_whole_requests(self, draft: HandoffDraft, room: int) -> None:
        """What people asked is told whole as far as there is room, the newest first, however long ago."""
        above = draft.above
        for at, line in enumerate(draft.top):
            if (
                line.heading == parts.GOAL
                and (longer := longer_goal(self._material.source, line)).chars - line.chars <= room
            ):
                room -= longer.chars - line.chars
                draft.left -= longer.chars - line.chars
                draft.top[at] = longer
        for n in sorted(draft.entries, reverse=True):
            if _CUT not in draft.entries[n].head:
                continue
            head = self._material.head(n, above, TASK_CHARS)
            more = len(head) - len(draft.entries[n].head)
            if 0 < more <= room:
                draft.entries[n].head = head
                draft.covered |= atoms_in(head)
                room -= more
                draft.left -= more

    def _tell_plain_lines(self, draft: HandoffDraft) -> None:
        """With room left, lines that hold nothing exact too: of a talk they may be all there is."""
        if draft.left > _LEAST_LEFT:
            told = [line.text for line in draft.top] + [exchange_text(entry) for entry in draft.entries.values()]
            draft.place(self._material, *self._material.selector.plain_lines(draft.left, "\n".join(told)))

    def _tell_other_actions(self, draft: HandoffDraft) -> None:
        """With room left, the actions that nothing was told of, newest first: a short output is the outcome."""
        failures = _failures_in(draft.top)
        told_before: Counter[tuple[str, str]] = Counter()
        for n in sorted(draft.entries, reverse=True):
            entry = draft.entries[n]
            references = failures | {reference_of(line) for line in entry.deeds}
            for action in reversed(self._material.actions.get(n, ())):
                if draft.left < _SHORTEST_ENTRY_CHARS:
                    return
                is_lesson = action.failed and (action.verb == "READ" or not found_nothing(action))
                is_told = is_lesson or action.verb in _TOLD_ELSEWHERE
                is_told = is_told or bool({f"(m{action.number})", f"(m{action.result})"} & references)
                if is_told or not told_target(action) or not self._material.may_quote(action.number):
                    continue
                key, line_chars = self._material.line_of(action.number, action.call_index + 1)
                told = entry.passages.setdefault(key, [])
                shown = self._material.short_output(action)
                if not shown and action.verb != "READ" and only_looks(action):
                    continue
                shown = shown or (self._material.ending(action) if action.verb == "RAN" else "")
                told_before[action.target, shown] += 1
                if told_before[action.target, shown] > _MOST_REPEATED:
                    continue
                chars = len(shown) + (0 if told else line_chars)
                if chars <= draft.left and all(is_call and shown for _, is_call, _ in told):
                    told.append((action.number, False, shown))
                    draft.left -= chars


def _failures_in(top: Iterable[HandoffLine]) -> set[str]:
    """The references of what stands above as failed, with its message."""
    return {reference_of(line.text) for line in top if line.heading in (parts.BLOCKED, parts.TRIED)}
