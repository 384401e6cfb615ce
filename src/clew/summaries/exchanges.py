"""The exchanges of a conversation, and how one is told: what was said, changed, run and shown, all as one entry."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from clew.ledger import (
    Action,
    FocusTopic,
    LedgerExchange,
    QuoteSelector,
    actions_by_exchange,
    alike_in_a_row,
    found_nothing,
    is_opening,
    is_routine,
    left_out,
    only_looks,
    outdated_results,
    owners_of,
    says_nothing,
    shorten,
    text_with_calls,
    without_folder,
)
from clew.messages import Message, text_of
from clew.summaries import handoff as parts
from clew.summaries.deeds import (
    BRIEF_CHARS,
    DEED,
    as_block,
    brief_target,
    folded_calls,
    framed_passage,
    names_of_run,
    reference_of,
    says_target,
    steps_of,
    told_target,
)
from clew.summaries.focus_line import messages_about
from clew.summaries.handoff import (
    BLOCK,
    CONTINUED,
    STILL_ASKED,
    SummaryInput,
    number_at_end,
    number_in,
    quoted_request,
    told_entries,
)
from clew.summaries.required_facts import TASK_CHARS, certain_lines
from clew.summaries.sentences import (
    Sentence,
    closing_sentences,
    code_in,
    conclusion_of,
    findings_of,
    is_thought,
    quoted_sentences,
    sentences_in,
    without_code,
    without_repeated,
)

_HEADING = re.compile(r"#{1,6} (?:\d+[.)] )?[^\d`]*")
_SHORT_RESULT_CHARS, _SENTENCES_OF_KEPT = 800, 2
_LISTS = re.compile(r"(?:sudo |ssh [^\"']*[\"'])?(?:ls|dir|tree|ps|stat|lsof)\b")
_COUNTED = re.compile(r" \(\d+ such lines\)\Z")

# -- one exchange ------------------------------------------------------------------------------------------------------


SAID, ASKED, CODE = "SAID", "ASKED", "CODE"


class WordsKey(NamedTuple):
    """The line of a handoff for what was said in a message, and no call: of the agent, its words or the code in them;
    of a person, what was asked beside the words that are told of it."""

    number: int
    word: str


@dataclass(slots=True)
class ToldExchange:
    """One exchange as it will be told."""

    head: str
    conclusion: int | None = None
    """The message whose sentences stand for what came of it."""
    sentences: list[Sentence] = field(default_factory=list)
    deeds: list[str] = field(default_factory=list)
    passages: dict[Hashable, list[tuple[int, bool, str]]] = field(default_factory=dict)
    """By the action they belong to: the message, whether it is what was called, and the line."""
    told_before: list[str] = field(default_factory=list)
    """Lines of the previous handoff."""

    def quote(self, key: Hashable, source: tuple[int, bool], lines: Sequence[str]) -> None:
        """Put lines of a message, or of what it called, on a line of the handoff."""
        own = self.passages.setdefault(key, [])
        # Lines that came before are among those that come now, which are in their order.
        came = [(*source, line) for line in lines]
        own[:] = [*(one for one in own if one not in came), *came]

    def quoted_lines(self) -> str:
        """All quoted lines as one text: a sentence, which is one line, is in it where one of them has it."""
        return "\n".join(line for own in self.passages.values() for _, _, line in own)

    def commit_told(self, action: Action) -> tuple[str, str] | None:
        """The commit that an action made, where a deed tells it."""
        is_told = action.commit and any(reference_of(deed) == f"(m{action.result})" for deed in self.deeds)
        return action.commit if is_told else None

    def without_told(self, lines: Sequence[str], number: int, part: int, owner: Action | None) -> list[str]:
        """Those lines of a part of a message that the sentences and deeds do not tell."""
        said = [one.text for one in self.sentences if one.number == number]
        new = [line for line in lines if not any(text in line for text in said)]
        if owner is not None and owner.verb == "DELEGATED":
            told = " ".join(self.deeds)
            return [line for line in new if line.removesuffix("…") not in told]
        if owner is None:
            plain = (line.removeprefix("THOUGHT: ") for line in new)
            return [line for line in plain if not (is_opening(line) or is_thought(line) or _HEADING.fullmatch(line))]
        if commit := self.commit_told(owner):
            return [line for line in new if commit[0] not in line and not (part and commit[1] in line)]
        return new


def exchange_text(entry: ToldExchange, named: set[str] | None = None) -> str:
    """Request, conclusion, deeds, then what else was said and shown, in the order in which it came.

    `named` are the beginnings of paths that were told whole before; it gets those that are told so here.
    """
    named = set() if named is None else named
    by_message: dict[int, list[Sentence]] = {}
    for one in entry.sentences:
        by_message.setdefault(one.number, []).append(one)
    concluding = by_message.pop(entry.conclusion, None) if entry.conclusion is not None else None
    conclusion = [quoted_sentences(concluding)] if concluding else []
    body = [(number, quoted_sentences(own)) for number, own in by_message.items()]
    folders: dict[str, str] = {}
    shown = sorted(
        (min(number for number, _, _ in own), order)
        for order, (key, own) in enumerate(entry.passages.items())
        if own and not _only_looked(key, own)
    )
    passages = list(entry.passages.items())
    body += folded_calls([(number, _passage_line(*passages[order], folders, named)) for number, order in shown])
    body += [(number_in(reference_of(line)), line) for line in entry.told_before]
    lines = [entry.head, *conclusion, *entry.deeds, *(text for _, text in sorted(body, key=lambda one: one[0]))]
    return CONTINUED.join(line for line in lines if line)


def _only_looked(key: Hashable, own: Sequence[tuple[int, bool, str]]) -> bool:
    """Whether it lists what is there, and nothing is told of that."""
    match key:
        case ("RAN", str(command)):
            return bool(_LISTS.match(without_folder(command))) and all(is_call or not line for _, is_call, line in own)
    return False


def lines_to_tell_again(entry: ToldExchange, before: Sequence[str], closing_number: int | None) -> list[str]:
    """The lines of an exchange in the previous handoff that say what the entry does not: its quotes of older messages.

    What was changed and run, and the closing words, are told anew each time.
    """
    told = {(line[:3], reference_of(line)) for line in exchange_text(entry).split(CONTINUED)}
    return [
        line
        for line in before
        if (line[:3], reference_of(line)) not in told
        and number_in(reference_of(line)) not in (-1, closing_number)
        and (BLOCK in line or not DEED.match(line))
    ]


def _passage_line(key: Hashable, own: list[tuple[int, bool, str]], folders: dict[str, str], named: set[str]) -> str:
    """`READ src/retry.py: DELAYS = (0.5, 1, 2) · def wait(): (m60)`; `folders`: beginnings told before, each with what
    it was the beginning of."""
    own = sorted(own, key=lambda one: one[0])
    numbers = sorted({number for number, _, _ in own})
    where = f"m{numbers[0]}" if len(numbers) == 1 else f"m{numbers[0]}-m{numbers[-1]}"
    if isinstance(key, WordsKey):
        lines = list(dict.fromkeys(line for _, _, line in own))
        quote = " · ".join(lines) if key.word == CODE else f'"{" … ".join(lines)}"'
        return as_block(key.word, where, lines) or f"{'' if key.word == SAID else f'{key.word}: '}{quote} ({where})"
    assert isinstance(key, tuple)
    verb, target, *remarks = key
    where = "; ".join([where, *remarks])
    called = [line for _, is_call, line in own if is_call]
    if verb == "RAN":
        names = names_of_run(target, called, folders.get(brief_target(target), ""))
        folders[brief_target(target)] = target
        told = [line for _, is_call, line in own if not is_call]
    else:
        # A path is told whole where it comes first, for a reader needs all of it to open a file; a long folder once.
        begins = target[:BRIEF_CHARS]
        names = [brief_target(target) if begins in named or " " in target else target]
        named.add(begins)
        shown = [one for one in own if not (one[1] and says_target(one[2], verb, target))]
        told = [line.removeprefix(target).lstrip() if is_call else line for _, is_call, line in shown]
    return framed_passage(verb, names, list(dict.fromkeys(filter(None, told))), where)


# -- all that could be told --------------------------------------------------------------------------------------------

LEAST_REQUEST_CHARS = 60
_SCREEN_CHARS, _WORD_CHARS = 340, 20
AS_TASK = "The active task, as above"
ASKED_ABOVE = "Asked, as above"
ASKED_BEFORE, ASKED_BELOW = "Asked above", "Asked below"
# How an entry begins whose request can be read elsewhere.
ELSEWHERE = (AS_TASK, ASKED_ABOVE, ASKED_BEFORE, ASKED_BELOW)
_FRAME_CHARS, _NEWEST_QUESTIONS, _SHORT_OUTPUT_CHARS = 22, 4, 200
_NO_OUTPUT = frozenset({"", "(no output)", "(no content)", "(empty)"})
_RULER = re.compile(r"[\s=+|_─━-]*|d[rwxsStT-]{9}\S* .* \.\.?/?")  # only parts others, or is the folder that is listed
_REPORT_STARTS, _REPORT_ENDS = 4_000, 3_000


class HandoffMaterial:
    """All that could be told, found once, however often it is then told in another size."""

    def __init__(self, source: SummaryInput) -> None:
        self.source = source
        ledger = source.ledger
        self.exchanges = ledger.exchanges or [LedgerExchange(source.first)]
        shortened = source.shortened
        folded = [action for action in ledger.actions if action.number < source.last or action.number in shortened]
        self.actions = actions_by_exchange(self.exchanges, folded)
        below = [action for action in ledger.actions if action.number >= source.last]
        self._below = actions_by_exchange(self.exchanges, below)
        self.owners = owners_of(ledger.actions)
        self._reports = {action.result for action in folded if action.verb == "DELEGATED"}
        self._requests = {exchange.number for exchange in self.exchanges if exchange.request}
        self.focus = FocusTopic(source.focus) if source.focus and source.focus.strip() else None
        self.about = messages_about(source, self.focus) if self.focus else []
        self.chars_about = sum(len(text_with_calls(source.read(number))) for number in self.about)
        asked = (one for one in self.exchanges if not one.is_screen)
        self._long_requests = {one.number: one.request for one in asked if len(one.request) > TASK_CHARS}
        self._shorter: dict[int, Message] = {}
        self.selector = QuoteSelector(
            ledger.index,
            self._quotable_message,
            source.first,
            self.may_quote,
            self.line_of,
            # What the newest request is about was seen last; where there is one request, all of it is about that one.
            newest_request=self.exchanges[-1].number if len(self.exchanges) > 1 else None,
            redacted=source.clean,
            outdated=outdated_results(folded),
            last_change=max((fact.changes[-1] for fact in ledger.files.values() if fact.changes), default=-1),
        )
        self.top = certain_lines(source)
        told = self._told_before()
        start = min((exchange.number for exchange in ledger.exchanges), default=source.first)
        self.former = [(number, lines) for number, lines in told if number < start]
        self.told = {number: lines[1:] for number, lines in told if number >= start}
        self._closings: dict[int, list[Sentence]] = {}
        self._said: dict[int, list[Sentence]] = {}
        self._frame_chars: dict[str, int] = {}
        self._shortest_heads: dict[int, int] = {}
        self._short_outputs: dict[tuple[int, int], str] = {}
        self._reported: dict[int, list[tuple[Action, list[Sentence]]]] = {}

    def actions_below(self, n: int) -> Sequence[Action]:
        """The actions of an exchange that can be read below the handoff."""
        return self._below.get(n, ())

    @cached_property
    def repeated(self) -> frozenset[int]:
        """The exchanges whose request came again and again but for its numbers, without the newest."""
        return alike_in_a_row([one.request for one in self.exchanges])

    def says_nothing(self, n: int) -> bool:
        """Whether an exchange is a greeting or a slip, and nothing was done in it."""
        exchange = self.exchanges[n]
        # Of one that is all there is, even that is told.
        return (
            n + 1 < len(self.exchanges) and not self.actions.get(n) and says_nothing(exchange.request, exchange.closing)
        )

    @cached_property
    def told_first(self) -> list[int]:
        """The exchanges in the order in which they are told: newest first, questions later, what came again last."""
        # What a change of mind took back would be taken for true without it.
        changes = {one.cancelled_by for one in self.exchanges if one.cancelled_by is not None}

        def kind(n: int) -> tuple[bool, bool, bool]:
            one = self.exchanges[n]
            # What people state is lost where it is not told; a question without a figure states nothing, but where
            # something was changed for it: "how about a new file?"
            is_old_question = n + _NEWEST_QUESTIONS < len(self.exchanges) and one.request.endswith(("?", "？"))
            only_asks = is_old_question and not any(map(str.isdigit, one.request))
            only_asks = only_asks and not any(action.files for action in self.actions.get(n, ()))
            return one.number not in changes, n in self.repeated or not one.request, only_asks

        return sorted(range(len(self.exchanges) - 1, -1, -1), key=kind)

    def _told_before(self) -> list[tuple[int, list[str]]]:
        """The entries of the previous handoff, each with its first message."""
        told = told_entries(self.source.previous_lines(parts.COMPLETED))
        for task in self.source.previous_lines(parts.ACTIVE_TASK)[:1]:
            now = [{one.text, number_at_end(one.text)} for one in self.top if one.heading == parts.ACTIVE_TASK]
            if all(own.isdisjoint({task, number_at_end(task)} - {-1}) for own in now):
                # What was the task then is one of the earlier requests now.
                own = [lines for lines in told if lines[0].startswith(AS_TASK)] or [[]]
                told = [*(lines for lines in told if lines is not own[0]), [task, *own[0][1:]]]
        return [(number_at_end(lines[0]), lines) for lines in told]

    def closing(self, n: int) -> list[Sentence]:
        """The sentences of the agent's last words on an exchange."""
        if n not in self._closings:
            closing, at = self.exchanges[n].closing, self.exchanges[n].closing_number
            is_quoted = at is not None and at < self.source.last and at not in self.source.above
            is_newest = n == len(self.exchanges) - 1
            worth_of = self.selector.worth_of
            found = closing_sentences(closing, at or 0, worth_of, is_newest=is_newest) if is_quoted else []
            if at in self.source.kept:  # all of it can be read below
                found = conclusion_of(found, found, is_ended=True)[:_SENTENCES_OF_KEPT]
            is_last = is_newest or self.exchanges[n].is_ended
            self._closings[n] = found if is_last else [one for one in found if not is_thought(one.text)]
        return self._closings[n]

    def sentences(self, n: int) -> list[Sentence]:
        """What the agent said in an exchange, its last words included."""
        if n not in self._said:
            exchange = self.exchanges[n]
            closing, found = self.closing(n), []
            for number in exchange.said:
                if number != exchange.closing_number and self.may_quote(number):
                    text = self.selector.texts(number)[0]
                    found += sentences_in(text, number, self.selector.worth_of, in_passing=True)
            self._said[n] = [*closing, *without_repeated(found, closing)]
        return self._said[n]

    def conclusion(self, n: int, told: Collection[str]) -> list[Sentence]:
        """What stands for the exchange, of what was not told; nothing where its commits tell it better."""
        is_ended, is_newest = self.exchanges[n].is_ended, n == len(self.exchanges) - 1
        if self.exchanges[n].closing_number in self.source.above:
            return []
        if not (is_ended and self.closing(n)) and any(action.commit for action in self.actions.get(n, ())):
            return []
        closing, said = ([one for one in own if one.text not in told] for own in (self.closing(n), self.sentences(n)))
        return conclusion_of(closing, said, is_ended=is_ended or is_newest)

    def stays_whole(self, number: int) -> bool:
        """Whether the message can be read above or below the handoff."""
        stays = number >= self.source.last or number in self.source.kept or number in self.source.above
        return stays and number not in self.source.shortened

    def may_quote(self, number: int) -> bool:
        """Whether lines of a message may be quoted beside what is told of it: of a request its words are told."""
        source = self.source
        if number in source.ledger.program_messages:
            return False
        # Of a request that is too long to be told whole, such as one with a log pasted in, lines may be quoted too.
        if number in self._requests and number not in self._long_requests:
            return False
        return (source.first <= number < source.last and number not in source.kept) or number in source.shortened

    def _quotable_message(self, number: int) -> Message:
        """The message; of a long request only what stands behind the words that are told of it, of the report of a
        subagent no code, for what it found is said in words, and of a result that stays in part what is not shown."""
        if number not in self._shorter:
            message, request = self.source.read(number), self._long_requests.get(number)
            content = whole = text_of(message)
            if request is not None:
                content = request[request.rfind(" ", 0, TASK_CHARS) :]
            elif number in self._reports:
                content = without_code(whole)
            elif number in self.source.shortened and message["role"] == "tool":
                content = left_out(whole, text_of(self.source.shortened[number]))
            self._shorter[number] = message if content == whole else {**message, "content": content}
        return self._shorter[number]

    def by_line(self, number: int, part: int, lines: Sequence[str]) -> Iterator[tuple[Hashable, Sequence[str]]]:
        """On which line of the handoff each of these stands. Fenced code in what the agent said stands apart: it is no
        sentence of the agent's, and may be an example or an action that was refused."""
        key = self.line_of(number, part)[0]
        text = self.selector.texts(number)[0]
        if not isinstance(key, WordsKey) or key.word != SAID or "```" not in text:
            yield key, lines
            return
        code = " ".join(" ".join(code_in(text)).split())
        is_code = {line: _COUNTED.sub("", line).rstrip("…") in code for line in lines}
        yield key, [line for line in lines if not is_code[line]]
        yield WordsKey(number, CODE), [line for line in lines if is_code[line] and not line.startswith("```")]

    def reports(self, n: int, room: int) -> Iterator[str]:
        """A line for what each subagent found, in so many chars of its own words."""
        if n not in self._reported:
            self._reported[n] = list(self._read_reports(n))
        for action, said in self._reported[n]:
            if told := findings_of(said, room):
                where = f"m{action.number}-m{action.result}"
                yield f"DELEGATED {brief_target(action.target)} -> {quoted_sentences(told, where)}"

    def _read_reports(self, n: int) -> Iterator[tuple[Action, list[Sentence]]]:
        for action in self.actions.get(n, ()):
            if action.verb == "DELEGATED" and action.result is not None and self.may_quote(action.result):
                text = self.selector.texts(action.result)[0]
                if len(text) > _REPORT_STARTS + _REPORT_ENDS:
                    # What a long report comes to stands at its beginning or at its end.
                    ending = text.find("\n", -_REPORT_ENDS) + 1
                    text = text[:_REPORT_STARTS] + "\n\n" + text[ending:]
                said = "\n".join(line for line in text.split("\n") if not is_routine(line))
                yield action, closing_sentences(said, action.result, self.selector.worth_of)

    def line_of(self, number: int, part: int) -> tuple[Hashable, int]:
        """On which line of the handoff a passage would stand, and what that line takes without it."""
        action = self.owners.get((number, part))
        if action is None:
            return WordsKey(number, ASKED if number in self._long_requests else SAID), 16
        target = told_target(action)
        if target not in self._frame_chars:
            self._frame_chars[target] = len(brief_target(target)) + _FRAME_CHARS
        fact = self.source.ledger.files.get(target) if action.verb == "READ" else None
        is_old = fact is not None and number < max(fact.changes, default=-1)
        return (action.verb, target, *(["changed since"] if is_old else [])), self._frame_chars[target]

    def head(self, n: int, above: Collection[int], most: int) -> str:
        """The request, or where it can be read above."""
        exchange = self.exchanges[n]
        if not exchange.request:
            goes_on = self.source.previous or (self.source.is_part and exchange.number > 0)
            return f"{STILL_ASKED} (m{exchange.number})" if goes_on else ""
        cancelled = f"; cancelled by m{exchange.cancelled_by}" if exchange.cancelled_by is not None else ""
        if exchange.number in above:
            word = AS_TASK if n == len(self.exchanges) - 1 else ASKED_ABOVE
            return f"{word} (m{exchange.number}{cancelled})"
        if self.stays_whole(exchange.number):
            word = ASKED_BEFORE if exchange.number in self.source.above else ASKED_BELOW
            return f"{word} (m{exchange.number}{cancelled})"
        head = quoted_request(exchange, min(most, _SCREEN_CHARS) if exchange.is_screen else most)
        return head[:-1] + cancelled + ")" if cancelled else head

    def may_fit(self, n: int, above: Collection[int], room: int) -> bool:
        """Whether the shortest head may take no more than `room`: found out once for all sizes, and not redacted.

        Where the room is nearly used up, that spares writing the heads of thousands of requests.
        """
        exchange = self.exchanges[n]
        if not exchange.request or exchange.number in above or self.stays_whole(exchange.number):
            return True
        chars = self._shortest_heads.get(n)
        if chars is None:
            words = " ".join(exchange.request[: LEAST_REQUEST_CHARS + _WORD_CHARS].split())
            if len(words) <= LEAST_REQUEST_CHARS:
                words = exchange.request[: 4 * LEAST_REQUEST_CHARS]
            chars = len(shorten(words, LEAST_REQUEST_CHARS)) + len(f'"" (m{exchange.number})')
            self._shortest_heads[n] = chars
        return chars <= room

    def short_output(self, action: Action) -> str:
        """What a call gave back, whole, where that is short: then it is the outcome."""
        if action.result is None or not self.may_quote(action.result):
            return ""
        key = (action.number, action.result)
        shown = self._short_outputs.get(key)
        if shown is None:
            shown = self._short_outputs[key] = self._read_short_output(action.number, action.result)
        return shown

    def steps(self, n: int) -> list[str]:
        """What was done last in the newest exchange beside changes and commits, with all that it gave back."""
        done = [one for one in self.actions.get(n, ()) if one.number < self.source.last and not only_looks(one)]
        told = ((one, self.short_output(one)) for one in reversed(done if 0 < n == len(self.exchanges) - 1 else ()))
        return steps_of((one, shown) for one, shown in told if shown or not (one.outcome and one.outcome.chars))

    def only_complains(self, action: Action) -> bool:
        """Whether all that a command gave back is why it failed."""
        failed = action.verb == "RAN" and action.failed and action.outcome and not action.outcome.tests
        return bool(failed and not found_nothing(action) and self.short_output(action))

    def ending(self, action: Action) -> str:
        """How a command ended of whose output no line is told."""
        if not action.outcome or action.result is None or not self.may_quote(action.result):
            return ""
        is_short = action.outcome.chars <= _SHORT_RESULT_CHARS
        text = self.selector.texts(action.result)[0].strip() if is_short else ""
        if not is_short or (text not in _NO_OUTPUT and not all(map(is_routine, text.split("\n")))):
            return "" if _LISTS.match(without_folder(action.target)) else action.outcome.describe()
        return "no output" if only_looks(action) or " | " in action.target else ""

    def _read_short_output(self, number: int, result: int) -> str:
        text = self.selector.texts(result)[0]
        lines = self.source.clean(text).splitlines() if len(text) <= 2 * _SHORT_OUTPUT_CHARS else ()
        said = (" ".join(line.split()) for line in lines if not _RULER.fullmatch(line) and not is_routine(line))
        shown = " · ".join(dict.fromkeys(said))
        is_told = len(shown) <= _SHORT_OUTPUT_CHARS and result != number and shown not in _NO_OUTPUT
        return shown if is_told else ""
