"""The built-in summariser: a handoff from the record of a conversation and the candidates of its messages.

Deterministic; no model, no network. Everything that may be said competes in one selection. The order of the selection
does not depend on the budget, so a larger handoff has everything that a smaller one has.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from itertools import groupby
from math import fsum

from clew.facts import CUT, Action, Exchange, Record, Rule, asks_back, flatten, shorten
from clew.facts.outcomes import SETTLED_BY_COMMIT, command_key, is_lookup, makes_commit
from clew.facts.record import needs_request_before
from clew.facts.speech import concludes, is_question
from clew.facts.text import prose_pieces
from clew.handoff import value
from clew.handoff.candidates import BELOW_ROOT, LIMITS, Candidate, Group, Kind, Material, read_material
from clew.handoff.select import Choice, Frame, excerpt, select
from clew.handoff.summary import CountTokens, Summary, SummaryInput, redacted_input
from clew.handoff.value import Entry, Handoff
from clew.handoff.worth import Weights, Worth
from clew.messages import text_of

BUILTIN = "built-in"
TEMPLATE = "builtin/4"
REQUEST_CHARS = LIMITS["request_chars"]
_TASK_CHARS = LIMITS["task_chars"]
_STAYING_TASK_CHARS = LIMITS["staying_task_chars"]
_LONG_REQUEST_CHARS = LIMITS["long_request_chars"]
_HEAD_CHARS = LIMITS["head_chars"]
_LABEL_CHARS = LIMITS["label_chars"]
_PLAN_CHARS = LIMITS["plan_chars"]
_EXACT_PATHS = LIMITS["exact_paths"]
_MOST_TESTS = LIMITS["most_tests"]
_MOST_FAILURES = LIMITS["most_failures"]
_MOST_REQUESTS = LIMITS["most_requests"]
_SHORTEST_CONCLUSION = LIMITS["shortest_conclusion"]
_SHORTEST_REPEATED_CHARS = LIMITS["shortest_repeated_chars"]
_MOST_COMMITS = LIMITS["most_commits"]
_MOST_RANGES = LIMITS["most_ranges"]
_MANY_EDITS, _EDITED = 3, ("WROTE ", "CHANGED ")
_CODE_IN_WORDS = frozenset({Kind.SNIPPET, Kind.WRITTEN})
_NONE = "None."
_GOES_ON = "Work on an earlier request"
_SO_FAR = "Work on the active task"
_STANDS_FOR = " stands for "
_PLACES = 1_000
"""The places of the lines of one entry of an earlier handoff."""
_FRAME_TOKENS = 7
"""Around a line: indentation, quotes or a colon, and the reference."""
_PIECE_TOKENS = 1
"""Between two pieces of a line."""
_CHARS_PER_TOKEN = 3.6
"""The selection counts in chars: its limits for a line were set so."""
_TRIES_TO_FIT = 12
_FULL = 0.985
"""The share of the budget that is enough."""


def summarize_builtin(source: SummaryInput, budget: int, count: CountTokens) -> Summary:
    """The built-in handoff in at most `budget` tokens."""
    handoff = write_handoff(redacted_input(source), budget, count)
    return Summary(handoff.render(), BUILTIN, TEMPLATE, handoff=handoff)


def write_handoff(source: SummaryInput, budget: int, count: CountTokens, weights: Weights | None = None) -> Handoff:
    """The longest beginning of the selection that fits the budget."""
    draft = Draft(source, count, weights, max(_HEAD_CHARS, min(_TASK_CHARS, budget)))
    best, fits, over = draft.handoff(()), 0, None
    sizes = [float(count(best.render()))]
    if sizes[0] > budget:
        return _smallest(best, budget, count)
    order = draft.order()
    taken: list[Candidate] = []
    wanted = float(budget)
    for _ in range(_TRIES_TO_FIT):
        while sizes[-1] < wanted and (chosen := next(order, None)) is not None:
            taken.append(chosen[0])
            sizes.append(sizes[-1] + chosen[1])
        many = bisect_right(sizes, wanted) - 1
        if over is not None:
            many = min(many, over - 1)
        many = max(many, fits)
        handoff = draft.handoff(taken[:many])
        tokens = count(handoff.render())
        if tokens <= budget:
            best, fits = handoff, many
        else:
            over = many
        if over is not None and over - fits <= 1:
            break
        if tokens <= budget and ((many == len(taken) and sizes[-1] < wanted) or tokens > _FULL * budget):
            break
        # The estimated sizes are as far off as that of this text was.
        wanted = min(budget * sizes[many] / max(1, tokens), wanted * 2) * (1.0 if tokens <= budget else _FULL)
    return best


def _smallest(handoff: Handoff, budget: int, count: CountTokens) -> Handoff:
    """The active task alone, cut to what fits; an empty handoff where nothing does."""
    for task in handoff.entries(value.ACTIVE_TASK)[:1]:
        for most in (4 * budget, 2 * budget, budget):
            shorter = Handoff({value.ACTIVE_TASK: (Entry(shorten(task.text, most), task.numbers),)})
            if count(shorter.render()) <= budget:
                return shorter
    return Handoff()


class Draft:
    """The candidates of one handoff, their order, and the handoff of any beginning of it."""

    def __init__(
        self, source: SummaryInput, count: CountTokens, weights: Weights | None = None, task_chars: int = _TASK_CHARS
    ) -> None:
        self.source, self.record, self._count = source, source.record, count
        self._first = source.first if source.readable_from is None else source.readable_from
        numbers = range(min(self._first, self.record.first_number), self.record.next_number)
        self._staying = self._staying_numbers()
        self.material = read_material(self.record, source.read, numbers, self._may_quote)
        self._rules = list({_without_values(rule.text): rule for rule in self.record.rules}.values())
        whole = self._whole_requests()
        self._listed = {rule.number for rule, exchange in whole if not exchange.actions}
        """Requests that are a rule as a whole, and are listed as such."""
        kept = set(self._rules)
        self._labelled = {rule.number for rule, exchange in whole if exchange.actions and rule in kept}
        """Those that were acted upon, which are listed as requests too, by their first words."""
        self._worth = Worth(self.material, self.record.next_number, weights, source.focus)
        self._earlier: dict[tuple[str, int], Entry] = {}
        # The newest request of a part is not the task of the conversation.
        in_view = {*self._staying, *source.shortened}  # of a shortened message both ends stay
        self._task = () if source.is_part else tuple(active_task(self.record, source, in_view, task_chars))
        self.material.candidates[:0] = self._entries()

    @property
    def _is_open(self) -> bool:
        """Whether the newest request still waits for its answer."""
        return bool(self._task) and not self._task[0].text.startswith(_NONE)

    def _is_newest(self, entry: Entry) -> bool:
        newest = self.record.newest
        return newest is not None and entry.numbers == (newest.number,)

    def _is_task(self, exchange: Exchange) -> bool:
        """Whether the request of an exchange is the active task."""
        return self._is_open and exchange is self.record.newest

    def _whole_requests(self) -> list[tuple[Rule, Exchange]]:
        """The rules that are all of a request, each with its exchange."""
        exchanges = {exchange.number: exchange for exchange in self.record.exchanges}
        found = (
            (rule, exchanges.get(rule.number) or self.record.exchanges[self.record.exchange_of(rule.number)])
            for rule in self.record.rules
        )
        return [
            (rule, exchange)
            for rule, exchange in found
            if rule.text == exchange.request or rule.text == flatten(exchange.request)
        ]

    def _may_quote(self, number: int) -> bool:
        return self._first <= number < self.source.last or number in self.source.shortened

    def order(self) -> Iterator[tuple[Candidate, float]]:
        """The candidates in the order of the selection, each with the tokens it adds."""
        worth, terms = self._worth, self.material.terms
        conclusions = _conclusions(self.material, worth)
        asked = {
            candidate.group.exchange
            for candidate in self.material.candidates
            if candidate.kind is Kind.ASKED and candidate.group is not None
        }
        beginnings = {index: condense(self.record.exchanges[index].request, REQUEST_CHARS) for index in asked}
        staying = self._staying_lines()
        candidates = [
            candidate
            for candidate in self.material.candidates
            # The beginning of a request is proposed whole.
            if (
                candidate.kind is not Kind.ASKED
                or candidate.group is None
                or candidate.text not in beginnings[candidate.group.exchange]
            )
            # What stays in view is not said twice.
            and not (candidate.group and len(candidate.text) >= _SHORTEST_REPEATED_CHARS and candidate.text in staying)
        ]
        choices = []
        sizes: dict[str, int] = {}  # many lines occur several times
        for candidate in candidates:
            scale, bonus = worth.of_candidate(candidate)
            if candidate in conclusions:
                bonus += worth.bonus("conclusion")
            beside = _FRAME_TOKENS if candidate.group is None else _PIECE_TOKENS
            tokens = sizes.get(candidate.text)
            if tokens is None:
                tokens = sizes[candidate.text] = self._count(candidate.text)
            chars = _CHARS_PER_TOKEN * (tokens + beside)
            choices.append(Choice(candidate.terms, chars, scale, bonus, candidate.group))
        frames: dict[Hashable, Frame] = {}
        for candidate in candidates:
            if candidate.group is not None and candidate.group not in frames:
                frame = self.material.frames.get(candidate.group, "")
                chars = _CHARS_PER_TOKEN * (self._count(frame) + _FRAME_TOKENS)
                frames[candidate.group] = Frame(terms.of(frame), chars)
        opened: set[Group] = set()
        for index in select(choices, worth.of_term, frames, self._shown_terms()):
            chars, group = choices[index].chars, candidates[index].group
            if group is not None and group not in opened:
                opened.add(group)
                chars += frames[group].chars
            yield candidates[index], chars / _CHARS_PER_TOKEN

    def _staying_numbers(self) -> set[int]:
        """The messages that stay in view word for word."""
        source = self.source
        after = (number for number in range(source.last, self.record.next_number) if number not in source.shortened)
        return {*after, *source.kept, *source.above}

    def _staying_lines(self) -> set[str]:
        texts = (text_of(self.source.read(number)) for number in sorted(self._staying))
        return {line.strip() for text in texts for line in text.split("\n")}

    def _shown_terms(self) -> set[str]:
        return self.material.terms.of_all(text_of(self.source.read(number)) for number in sorted(self._staying))

    # -- entries of sections -------------------------------------------------------------------------------------------

    def _entries(self) -> list[Candidate]:
        found = [*self._requests(), *self._rule_entries(), *self._states(), *self._failures(), *self._files()]
        if self.source.readable_from is None and self.source.previous:
            self._earlier = dict(self._earlier_entries(self.source.previous))
            found += self._previous()
        return found

    def _entry(self, kind: Kind, text: str, numbers: tuple[int, ...], section: str, at: int = 0) -> Candidate:
        return Candidate(kind, text, numbers, frozenset(self.material.terms.of(text)), None, at, section)

    def _requests(self) -> Iterator[Candidate]:
        times = Counter(exchange.request for exchange in self.record.exchanges)
        newest = list(enumerate(self.record.exchanges))[-_MOST_REQUESTS:]
        for index, exchange in newest:
            if not exchange.request or not self._may_quote(exchange.number) or self._is_task(exchange):
                continue
            if exchange.number in self._listed:
                continue
            repeated = ("repeated",) if times[exchange.request] > 1 else ()
            is_labelled = exchange.number in self._labelled
            lengths = [_LABEL_CHARS] if is_labelled else [_HEAD_CHARS, REQUEST_CHARS, _LONG_REQUEST_CHARS]
            short, *longer = dict.fromkeys(request_text(exchange, most) for most in lengths)
            for text in (short, *longer):
                candidate = self._entry(Kind.REQUEST, text, (exchange.number,), value.COMPLETED, index)
                # The beginning of a request is proposed first, then more of it.
                candidate.features = repeated if text == short else (*repeated, "whole")
                yield candidate

    def _rule_entries(self) -> Iterator[Candidate]:
        for at, rule in enumerate(self._rules):
            if rule.number < self.source.last and rule.number not in self.source.above:
                candidate = self._entry(Kind.RULE, f'"{rule.text}"', (rule.number,), value.RULES, at)
                # A message between the handoff and the tail is folded next time, so its rules are listed now.
                candidate.features = ("in view",) if self._is_in_view(rule) else ()
                yield candidate

    def _is_in_view(self, rule: Rule) -> bool:
        """Whether the message of a rule stays, and still states it."""
        shortened = self.source.shortened.get(rule.number)
        if shortened is not None:
            return rule.text in flatten(text_of(shortened))
        return rule.number in self.source.kept

    def _states(self) -> Iterator[Candidate]:
        record = self.record
        if record.has_current_plan and record.plan_number is not None:
            yield self._entry(Kind.STATE, plan_text(record), (record.plan_number,), value.STATE)
        changed = max((file.last for file in record.files.values()), default=-1)
        commit = record.states.get("commit")
        for name, line in record.states.items():
            # What `git status` said of the files does not hold behind a commit, or that all was clean behind a change.
            is_over = commit is not None and line.number < commit.number
            if name == "worktree" and (is_over or (":" not in line.text and line.number < changed)):
                continue
            yield self._entry(Kind.STATE, f"{name.capitalize()}: {line.text}", (line.number,), value.STATE, 1)
        if earlier := [line for line in record.commits[:-1] if self._may_quote(line.number)][-_MOST_COMMITS:]:
            text = "; ".join(shorten(line.text, _HEAD_CHARS) for line in earlier)
            yield self._entry(
                Kind.STATE, f"Earlier commits: {text}", (earlier[0].number, earlier[-1].number), value.STATE, 1
            )
        runs = sorted((run for run in record.tests.values() if run.outcome), key=lambda run: run.number)
        passed = max((action.number for action in runs if not action.failed), default=-1)
        # A failed run before one that passed was overcome, or is listed as a failure.
        current = [action for action in runs if not action.failed or action.number > passed]
        for at, action in enumerate(current[-_MOST_TESTS:], start=2):
            # Where the counts are all that is known of a failure, they are listed as one.
            if action.outcome and action.result is not None and action.outcome.error != action.outcome.tests:
                stale = ", before the last change of a file" if action.number < changed else ""
                text = f"Tests: {shorten(action.reading.target, _HEAD_CHARS)}: {action.outcome.tests}{stale}"
                yield self._entry(Kind.STATE, text, (action.result,), value.STATE, at)

    def _failures(self) -> Iterator[Candidate]:
        newest = self.record.newest.number if self.record.newest else 0
        for at, action in enumerate(open_failures(self.record)):
            if action.outcome and action.result is not None and action.result < self.source.last:
                text = f"{shorten(action.reading.target, _HEAD_CHARS)}: {action.outcome.error}"
                section = value.BLOCKED if action.number > newest else value.TRIED
                candidate = self._entry(Kind.FAILURE, text, (action.result,), section, at)
                candidate.features = ("tried",) if section == value.TRIED else ()
                yield candidate

    def _files(self) -> Iterator[Candidate]:
        files = self.record.files.values()
        for at, file in enumerate(files):
            size = f" +{file.added} -{file.removed}" if file.added or file.removed else ""
            # The paths that were changed last are given exactly as tools take them.
            path = file.path if at >= len(files) - _EXACT_PATHS else self.material.short_path(file.path)
            yield self._entry(Kind.FILE, f"{path} ({file.fate}{size})", (file.first, file.last), value.FILES, at)

    def _previous(self) -> Iterator[Candidate]:
        """The lines of an earlier handoff whose originals are gone."""
        for (section, at), entry in self._earlier.items():
            for line, part in enumerate((entry, *entry.lines)):
                candidate = self._entry(Kind.PREVIOUS, part.text, part.numbers, section, _PLACES * at + line)
                if line:
                    candidate.features = ("line", "words") if part.text.startswith('"') else ("line",)
                yield candidate

    def _earlier_entries(self, previous: Handoff) -> Iterator[tuple[tuple[str, int], Entry]]:
        """The entries of an earlier handoff that still hold, by section and place."""
        root = next((text for entry in previous.entries(value.STATE) if (text := _root_in(entry.text))), "")
        for heading in value.HEADINGS:
            for at, entry in enumerate(previous.entries(heading)):
                if heading == value.ACTIVE_TASK or _root_in(entry.text) or self._is_known_again(heading, entry):
                    continue
                section = heading
                if heading == value.IN_PROGRESS and entry.text == _SO_FAR:
                    # What the work was on is now a request like the others.
                    section, at = value.COMPLETED, at + len(previous.entries(value.COMPLETED))
                    task = (one for one in previous.entries(value.ACTIVE_TASK) if one.numbers == entry.numbers)
                    entry = Entry(next(task, entry).text, entry.numbers, entry.lines)
                elif heading == value.BLOCKED and self.record.newest is not None:
                    section, at = value.TRIED, at + len(previous.entries(value.TRIED))
                yield (section, at), entry if root == self.material.root else _with_root(entry, root)

    def _is_known_again(self, heading: str, entry: Entry) -> bool:
        """Whether the record has a newer line about the file or the command of an earlier entry."""
        if heading == value.FILES:
            return entry.text.rpartition(" (")[0] in self.record.files
        return heading in (value.BLOCKED, value.TRIED) and any(
            action.outcome is not None and entry.text.startswith(f"{shorten(action.reading.target, _HEAD_CHARS)}: ")
            for action in self.record.actions()
        )

    # -- the handoff ---------------------------------------------------------------------------------------------------

    def handoff(self, chosen: Sequence[Candidate]) -> Handoff:
        """The handoff that says what was chosen."""
        sections: dict[str, list[tuple[int, Entry]]] = {heading: [] for heading in value.HEADINGS}
        groups: dict[int, dict[Group, list[Candidate]]] = {}
        asked: dict[int, Candidate] = {}
        previous: dict[str, list[Candidate]] = {}
        for candidate in chosen:
            if candidate.group is not None:
                groups.setdefault(candidate.group.exchange, {}).setdefault(candidate.group, []).append(candidate)
            elif candidate.kind is Kind.REQUEST:
                known = asked.get(candidate.at)
                asked[candidate.at] = max(filter(None, (known, candidate)), key=lambda one: len(one.text))
            elif candidate.kind is Kind.PREVIOUS:
                previous.setdefault(candidate.section, []).append(candidate)
            else:
                sections[candidate.section].append((candidate.at, Entry(candidate.text, candidate.numbers)))
        entries = {
            heading: [entry for _, entry in sorted(found, key=lambda one: one[0])]
            for heading, found in sections.items()
        }
        entries[value.ACTIVE_TASK] = [*self._task]
        if self.material.root and (groups or entries[value.FILES]):
            entries[value.STATE].append(Entry(f"{BELOW_ROOT}{_STANDS_FOR}{self.material.root}"))
        former = {section: self._joined_entries(section, lines) for section, lines in previous.items()}
        own = self._exchanges(asked, groups)
        entries[value.COMPLETED] = _of_each_request(former.pop(value.COMPLETED, []), own)
        if self._is_open and entries[value.COMPLETED] and self._is_newest(entries[value.COMPLETED][-1]):
            newest = entries[value.COMPLETED].pop()
            if newest.lines:
                # The request is the active task already.
                entries[value.IN_PROGRESS] = [Entry(_SO_FAR, newest.numbers, newest.lines)]
        for heading, lines in former.items():
            entries[heading] = [*lines, *entries[heading]]
        said = {heading: tuple(found) for heading, found in entries.items() if found}
        return Handoff(said or {value.ACTIVE_TASK: (Entry(_NONE),)})

    def _joined_entries(self, section: str, chosen: Sequence[Candidate]) -> list[Entry]:
        """The entries of an earlier handoff of which something was chosen, with those of their lines that were."""
        found: dict[int, list[Entry]] = {}
        for candidate in sorted(chosen, key=lambda one: one.at):
            lines = found.setdefault(candidate.at // _PLACES, [])
            if "line" in candidate.features:
                lines.append(Entry(candidate.text, candidate.numbers))
        heads = {at: self._earlier[section, at] for at in found}
        return [Entry(heads[at].text, heads[at].numbers, tuple(lines)) for at, lines in found.items()]

    def _exchanges(self, asked: dict[int, Candidate], groups: dict[int, dict[Group, list[Candidate]]]) -> list[Entry]:
        entries: list[Entry] = []
        omitted: list[Exchange] = []
        for index, exchange in enumerate(self.record.exchanges):
            if index not in asked and index not in groups:
                is_shown = exchange.number in self._listed or self._is_task(exchange)
                if exchange.request and self._may_quote(exchange.number) and not is_shown:
                    omitted.append(exchange)
                continue
            text = asked[index].text if index in asked else request_text(exchange, _HEAD_CHARS)
            # A longer beginning of the request may have been chosen behind a sentence of it.
            own = {
                group: [piece for piece in pieces if piece.kind is not Kind.ASKED or piece.text not in text]
                for group, pieces in groups.get(index, {}).items()
            }
            lines = [self._line(group, own[group]) for group in sorted(own) if own[group]]
            numbers = (exchange.number,) if exchange.number >= 0 else ()
            entries.append(Entry(text or _GOES_ON, numbers, tuple(lines)))
        if omitted and entries:
            many = f"{len(omitted)} requests" if len(omitted) > 1 else "1 request"
            entries.insert(0, Entry(f"{many} not listed", (omitted[0].number, omitted[-1].number)))
        return entries

    def _line(self, group: Group, pieces: Sequence[Candidate]) -> Entry:
        """The words of a message in quotes, or an action with its result."""
        ordered = sorted(pieces, key=lambda piece: (piece.numbers, piece.at))
        frame = self.material.frames.get(group) if group.call >= 0 else None
        # A line of a result may be its outcome, too.
        ordered = list({(piece.numbers, piece.text): piece for piece in reversed(ordered)}.values())[::-1]
        sources = {number for piece in ordered for number in piece.numbers}
        numbers: tuple[int, ...] = (min(sources), max(sources))
        if frame is None:
            text = f" {CUT} ".join(map(_words_and_code, _stretches(ordered)))
            return Entry(f'"{text}"', numbers)
        calls = self.material.calls[group]
        if len(calls) >= _MANY_EDITS and frame.startswith(_EDITED):
            frame, numbers = f"{frame}, {len(calls)} times", (calls[-1], calls[0])
        elif len(sources - {group.number}) <= 1:
            # A call is opened with its result, so one reference serves both.
            numbers = (group.number,)
        if shown := self.material.shown.get(group):
            frame += f" lines {', '.join(f'{first}-{last}' for first, last in merged_ranges(shown)[-_MOST_RANGES:])}"
        is_command = frame.startswith("RAN ")
        of_call = [piece.text for piece in ordered if is_command and piece.kind is Kind.COMMAND]
        of_result = [piece for piece in ordered if not is_command or piece.kind is not Kind.COMMAND]
        results = [
            # Of several runs of a command, the last line of each names its own message.
            f"{piece.text} (m{piece.numbers[0]})" if is_command and len(calls) > 1 and is_last else piece.text
            for piece, is_last in _with_last_of_each(of_result)
        ]
        said = " · ".join((frame, *of_call))
        return Entry(f"{said}{' -> ' if is_command else ': '}{' · '.join(results)}" if results else said, numbers)


def _stretches(pieces: Sequence[Candidate]) -> list[list[Candidate]]:
    """The pieces, divided where something is missing between two of them."""
    found: list[list[Candidate]] = []
    for piece in pieces:
        before = found[-1][-1] if found else None
        if before is not None and before.numbers == piece.numbers and piece.at == before.at + 1:
            found[-1].append(piece)
        else:
            found.append([piece])
    return found


def _words_and_code(pieces: Sequence[Candidate]) -> str:
    """Pieces that follow one another as one text, in which code is marked."""
    said = []
    for is_code, run in groupby(pieces, lambda piece: piece.kind in _CODE_IN_WORDS):
        text = " ".join(piece.text for piece in run)
        said.append(f"`{text}`" if is_code and "`" not in text else text)
    return " ".join(said)


def _with_last_of_each(pieces: Sequence[Candidate]) -> Iterator[tuple[Candidate, bool]]:
    """The pieces, and whether each is the last one of its message."""
    for piece, following in zip(pieces, (*pieces[1:], None), strict=False):
        yield piece, following is None or following.numbers != piece.numbers


def merged_ranges(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges of numbers in order, those that overlap or follow one another as one."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return found


def _without_values(rule: str) -> str:
    """A rule without its amounts and dates: a later rule that differs only in them replaces it."""
    return " ".join("0" if _is_amount(word) else word for word in rule.split())


def _is_amount(word: str) -> bool:
    """Whether a word has digits and no letters, such as $201 or 2027-08-09. Names may have digits."""
    return not word[0].isalpha() and any(map(str.isdigit, word)) and not any(map(str.isalpha, word))


def request_text(exchange: Exchange, most: int = REQUEST_CHARS) -> str:
    """The request in quotes, with what a short answer chose; or which request it repeats."""
    if not exchange.request:
        return ""
    if exchange.repeats is not None:
        return f'The request of m{exchange.repeats} again: "{shorten(exchange.request, _HEAD_CHARS)}"'
    text = quoted(exchange.request, most)
    if exchange.chosen:
        text += (
            f", {'after the question' if is_question(exchange.chosen) else 'that is'} {quoted(exchange.chosen, most)}"
        )
    return f"{text}, cancelled later" if exchange.cancelled else text


def quoted(text: str, most: int) -> str:
    text = text.strip()
    # Some programs put a request in quote marks themselves.
    if len(text) > 2 and text[0] == '"' == text[-1]:
        text = text[1:-1]
    return f'"{condense(text, most)}"'


def active_task(
    record: Record, source: SummaryInput, staying: Collection[int] = (), most: int = _TASK_CHARS
) -> Iterator[Entry]:
    """The newest request that is not fulfilled, with the question that the agent asked back.

    A request that only forbids, agrees or says to continue has the request that it belongs to with it. Of a request in
    a message that stays in view only the beginning is repeated.
    """
    found = record.open_requests()
    if not found:
        return

    def shown(one: Exchange, chars: int) -> str:
        return request_text(one, min(chars, _STAYING_TASK_CHARS) if one.number in staying else chars)

    exchange, *interrupted = found
    closing = exchange.closing
    said = shown(exchange, most)
    question = asks_back(text_of(source.read(closing))) if closing is not None else ""
    if closing is None or question:
        yield Entry(said, (exchange.number,))
        # What a short answer chose is shown with it.
        belongs = request_before(record) if needs_request_before(exchange) and not exchange.chosen else None
        for before in interrupted if closing is None else ():
            chars = most if before is belongs else min(most, REQUEST_CHARS)
            yield Entry(f"Still open from before: {shown(before, chars)}", (before.number,))
        if belongs is not None and not (closing is None and any(one is belongs for one in interrupted)):
            yield Entry(f"The request before it: {shown(belongs, most)}", (belongs.number,))
        if closing is not None:
            yield Entry(f"The agent asked: {quoted(question, min(most, REQUEST_CHARS))}", (closing,))
    elif exchange.number in staying:
        if most == _TASK_CHARS:
            yield Entry(_NONE)
    else:
        yield Entry(f"{_NONE} The newest request, {said}, was answered", (exchange.number, closing))


def condense(text: str, most: int) -> str:
    """The text on one line; of a longer one its beginning and what names most: list entries, files, values."""
    whole = flatten(text)
    if len(whole) <= most or most <= REQUEST_CHARS:
        return shorten(whole, most)
    begin = shorten(whole, REQUEST_CHARS)
    others = [piece for piece in prose_pieces(text) if flatten(piece) not in begin]
    rest = excerpt(others, most - len(begin), gap=CUT)
    return flatten(" ".join((begin, *rest[rest[:1] == [CUT] :], *([CUT] if rest[-1:] != others[-1:] else ()))))


def request_before(record: Record) -> Exchange | None:
    """The last request before the newest that says what to do."""
    earlier = reversed(record.exchanges[:-1])
    return next((one for one in earlier if one.request and not needs_request_before(one)), None)


def plan_text(record: Record) -> str:
    """The plan with the status of each entry; of a long one the open entries and the last that were done."""
    entries = list(record.plan)
    while sum(len(entry.text) + 5 for entry in entries) > _PLAN_CHARS and any(entry.is_done for entry in entries):
        entries.remove(next(entry for entry in entries if entry.is_done))
    marks = ("[x]" if entry.is_done else "[~]" if entry.is_started else "[ ]" for entry in entries)
    done = len(record.plan) - len(entries)
    shown = " ".join(f"{mark} {flatten(entry.text)}" for mark, entry in zip(marks, entries, strict=True))
    return f"Plan: {f'{done} done earlier, ' if done else ''}{shorten(shown, 2 * _PLAN_CHARS)}"


def open_failures(record: Record) -> list[Action]:
    """The last failed actions that did not succeed when they were repeated.

    A failure of an answered request is over when tests passed behind it.
    """
    last: dict[str, Action] = {}
    for exchange in record.exchanges:
        first = exchange.number
        for action in exchange.actions:
            outcome, target = action.outcome, action.reading.target
            if outcome is None or action.reading.verb not in ("RAN", "CALLED"):
                continue
            is_command = action.reading.verb == "RAN"
            if is_command and is_lookup(target):
                continue
            if outcome.tests and not outcome.failed:
                last = {
                    key: other
                    for key, other in last.items()
                    if not (other.outcome and other.outcome.tests)
                    and not (exchange.is_answered and other.number > first)
                }
            if is_command and not outcome.failed and makes_commit(target):
                last = {
                    key: other
                    for key, other in last.items()
                    if not key.startswith(SETTLED_BY_COMMIT) and not makes_commit(other.reading.target)
                }
            key = command_key(target) if is_command else action.reading.tool
            last.pop(key, None)
            if outcome.failed and outcome.error:
                last[key] = action
    return list(last.values())[-_MOST_FAILURES:]


def _conclusions(material: Material, worth: Worth) -> set[Candidate]:
    """Of the closing words of each exchange the sentence that says most."""
    best: dict[int, tuple[bool, float, Candidate]] = {}
    for candidate in material.candidates:
        if candidate.kind is Kind.CLOSING and candidate.group and len(candidate.text) >= _SHORTEST_CONCLUSION:
            # An exact sum does not depend on the order in which a set is read.
            density = fsum(map(worth.of_term, candidate.terms)) / (len(candidate.text) + _SHORTEST_CONCLUSION)
            found = (concludes(candidate.text), density, candidate)
            known = best.get(candidate.group.exchange)
            if known is None or found[:2] > known[:2]:
                best[candidate.group.exchange] = found
    # What the agent says again and again concludes nothing.
    return set({candidate.text: candidate for _, _, candidate in best.values()}.values())


def _of_each_request(former: Sequence[Entry], own: Sequence[Entry]) -> list[Entry]:
    """The entries of requests, those of an earlier handoff first; a request that both have is one entry."""
    entries = list(former)
    for entry in own:
        # Lines without a request belong to the last request before them.
        number = entry.numbers[0] if entry.numbers else entry.lines[0].numbers[0] if entry.lines else -1
        is_same = entry.text == _GOES_ON or bool(entry.numbers)
        at = next((at for at in reversed(range(len(former))) if former[at].numbers[:1] <= (number,)), None)
        known = entries[at] if is_same and at is not None else None
        if known is not None and at is not None and (entry.text == _GOES_ON or known.numbers == entry.numbers):
            entries[at] = Entry(known.text, known.numbers, (*known.lines, *entry.lines))
        else:
            entries.append(entry)
    return entries


def _root_in(state: str) -> str:
    """The folder that a line of an earlier handoff has a mark for."""
    mark, _, root = state.partition(_STANDS_FOR)
    return root if mark == BELOW_ROOT else ""


def _with_root(entry: Entry, root: str) -> Entry:
    """The entry with whole paths; what was said is quoted as it was."""
    lines = tuple(_with_root(line, root) for line in entry.lines)
    text = entry.text if entry.text.startswith('"') else entry.text.replace(BELOW_ROOT, root)
    return Entry(text, entry.numbers, lines)
