"""Completes and checks a handoff that a model wrote. The model's text stays whole.

Appended is only what is certain, missing and no longer in the window: the active task where the text names none, rules,
changed files, the newest errors of open requests; in at most a tenth of the budget. Checked are exact things only
(hashes, ids, paths, long numbers, quotes), against the whole conversation. What is not found is reported; a certain
invention is also marked.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clew.facts import Terms, flatten
from clew.handoff import value
from clew.handoff.builtin import active_task, open_failures, request_text
from clew.handoff.select import Choice, Frame, select
from clew.handoff.summary import CountTokens, SummaryInput
from clew.handoff.value import Entry, Handoff
from clew.messages import calls_of, text_of
from clew.redact import redact_text

UNVERIFIED_MARK = "⟨unverified⟩"
ADDED_HEADING = "On record, not mentioned above"
_SHARE_OF_ADDED = 0.1
_LONGEST_ADDED_CHARS = 400
_MOST_FILES_ADDED = 40
_NEWEST_ACTIONS = 10
"""An error before so many actions of an open request is left to the model: the agent continued to something else."""

_HASH = re.compile(r"(?<![\w-])(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}(?![\w-])")
_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
_NUMBER = re.compile(r"(?<![\w.,#/:-])\d[\d,_]{3,}(?:\.\d+)?(?![\w/-])")
_PATH = re.compile(
    r"(?<![A-Za-z0-9_/.@:-])(?:~|\.{1,2}|[A-Za-z]:)?(?:[\\/][\w.@+-]+){2,}"
    r"|(?<![A-Za-z0-9_/.@:-])[A-Za-z0-9_.@+-]+(?:/[\w.@+-]+)+\.[A-Za-z0-9]{1,5}(?![A-Za-z0-9_])"
)
_TESTS = r"(?:tests?|specs?|checks?|cases?)"
_OUTCOME = r"pass(?:ed|es|ing)?|green|succeed(?:ed|s)?|fail(?:ed|s|ing|ures?)?|red|errors?"
_COUNT = re.compile(
    r"\b(?P<number>\d+)(?:"
    rf" ?(?:/|of|out of) ?(?P<total>\d+) (?:{_TESTS} )?(?:(?:are|is|were|now|all|still) ){{0,2}}(?P<of>{_OUTCOME})"
    rf"|(?: \w+)? {_TESTS} (?:(?:are|is|were|now|all|still) ){{0,2}}(?P<tests>{_OUTCOME})"
    r"| (?P<bare>passed|failed|passing|failing|errors?))\b"
)
_NEAR_COUNT = re.compile(
    rf"\b(?:(?P<total>(?:{_TESTS}|items|examples|total)\b)|(?P<passed>pass|ok\b|green|succe)|(?P<failed>fail|err|red\b))"
    r"|(?P<ticked>[✓✔])|(?P<crossed>[✗✘])"
)
"""Words by which conversations name an outcome, or all tests."""
_WHOLE_NUMBER = re.compile(r"(?<![\w.])\d+(?!\w)")
_QUOTE = re.compile(r'(?:^|(?<=[\s(\[:*]))"([^"]{24,400})"(?=$|[\s).,;:!?*\]])|“([^”]{24,400})”')
_NO_TEXT = re.compile(r"[\W_]+")
_ELISION = re.compile(r"\s*(?:…|\.\.\.|\[…\]|\[\.\.\.\]| / )\s*")
_FEWEST_CHARS_OF_QUOTE = 16
_RUN_WORDS, _SHARE_OF_RUNS = 3, 0.7
"""A quote is shown where so many of its runs of words are: models mend spelling and leave words out."""
_FEWEST_DIGITS = 4
_NEAR_CHARS = 24
_FOLDERS_OF_URL = re.compile(r"\bhttps?://\S*/")
_SLASHES = re.compile(r"[\\/]+")
_OTHER_ENDING = re.compile(r"(?<=\w)/\.\w{1,5}$")
"""`paper.pdf/.txt` names two files."""
_HEX = tuple("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class CompletedHandoff:
    """The text with what was added, what the conversation does not show, and how many lines had to be left out."""

    text: str
    handoff: Handoff
    unverified: tuple[str, ...]
    left_out: int = 0


def complete_handoff(
    source: SummaryInput, text: str, budget: int, count: CountTokens, beside: Sequence[str] = ()
) -> CompletedHandoff:
    """The model's text, completed and checked. `beside` are texts that the model was shown beside the messages."""
    claims = find_inventions(text, conversation_texts(source, beside))
    text = redact_text(text.strip())
    for claim in claims:
        if claim.is_certain:
            text = _marked(text, claim.text)
    most = int(budget * _SHARE_OF_ADDED)
    # Only a text that is too long anyway makes room for what is missing in it.
    fitted, left_out = shorten_text(text, budget if count(text) <= budget else budget - most, count)
    added = _added(source, fitted, min(most, budget - count(fitted)), count)
    if added:
        fitted = f"{fitted}\n\n## {ADDED_HEADING}\n" + "\n".join(f"- {source.clean(entry.render())}" for entry in added)
    return CompletedHandoff(fitted, Handoff.of_text(fitted), tuple(claim.text for claim in claims), left_out)


# -- what is missing ---------------------------------------------------------------------------------------------------


def _added(source: SummaryInput, text: str, room: int, count: CountTokens) -> list[Entry]:
    """The certain entries that neither the text nor another entry mentions, as many as fit."""
    left = room - count(f"\n\n## {ADDED_HEADING}\n")
    said = _plain(text)
    added: list[Entry] = []
    for entry, key in _certain(source, text):
        if _plain(key) in said or len(entry.text) > _LONGEST_ADDED_CHARS:
            continue
        cost = count(f"- {entry.render()}\n")
        if cost <= left:
            left -= cost
            added.append(entry)
            said += f" {_plain(entry.text)}"
    return added


def _certain(source: SummaryInput, text: str) -> Iterator[tuple[Entry, str]]:
    """What must be in a handoff, each with the string by which it is recognised, the most important first."""
    record = source.record
    if not source.is_part and not Handoff.of_text(text).entries(value.ACTIVE_TASK):
        for entry in active_task(record, source):
            yield Entry(f"Active task: {entry.text}", entry.numbers), entry.text
    for rule in reversed(record.rules):
        if source.is_folded(rule.number):
            yield Entry(f'Rule: "{rule.text}"', (rule.number,)), rule.text
    newest_actions = [action for exchange in record.open_requests() for action in exchange.actions][-_NEWEST_ACTIONS:]
    for action in open_failures(record):
        error = action.outcome.error if action.outcome else ""
        if error and action.result is not None and source.is_folded(action.result) and action in newest_actions:
            yield Entry(f"Open error: {error}", (action.result,)), error[:60]
    for file in list(record.files.values())[: -_MOST_FILES_ADDED - 1 : -1]:
        name = file.path.replace("\\", "/").rsplit("/", 1)[-1]
        yield Entry(f"{file.fate.capitalize()}: {file.path}", (file.first, file.last)), name
    newest = record.newest
    if newest and newest.request and source.is_folded(newest.number):
        yield Entry(f"Newest request: {request_text(newest)}", (newest.number,)), flatten(newest.request)[:80]


def shorten_text(text: str, budget: int, count: CountTokens) -> tuple[str, int]:
    """The text within the budget: of its lines those that say most, under their headings. Usually all of it."""
    if count(text) <= budget:
        return text, 0
    lines = text.split("\n")
    terms, headings, heading = Terms(), dict[Hashable, Frame](), -1
    choices = []
    for at, line in enumerate(lines):
        if line.startswith("#"):
            heading, headings[at] = at, Frame(frozenset(), len(line) + 1)
        choices.append(Choice(frozenset() if heading == at else terms.of(line), len(line) + 1, group=heading))
    order = list(select(choices, lambda term: 2.0 if terms.kinds[term] else 1.0, headings))
    above = [choice.group for choice in choices]

    def chosen(many: int) -> list[str]:
        kept = {*order[:many], *(above[at] for at in order[:many])}
        return [line for at, line in enumerate(lines) if at in kept]

    low, high = 0, len(order)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count("\n".join(chosen(middle))) <= budget else (low, middle - 1)
    said = chosen(low)
    return "\n".join(said), sum(1 for line in lines if line.strip()) - len(said)


# -- what was invented -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Claim:
    """An exact string of a handoff that the conversation does not show."""

    text: str
    is_certain: bool


def conversation_texts(source: SummaryInput, beside: Iterable[str] = ()) -> list[str]:
    """Every text that a handoff may be based on, the newest messages and the previous handoff included."""
    record = source.record
    first = source.first if source.readable_from is None else source.readable_from
    texts = [source.task, source.focus or "", *beside]
    if source.previous:
        texts.append(source.previous.render())
    for number in range(min(first, record.first_number), record.next_number):
        message = source.read(number)
        texts.append(text_of(message))
        calls: Sequence[Any] = calls_of(message)
        texts += [str(call.get("function") or call.get("custom") or "") for call in calls]
    return texts


def find_inventions(text: str, sources: Sequence[str]) -> list[Claim]:
    """The hashes, ids, paths, long numbers, test counts and quotes of a text that no source shows."""
    everything = "\n".join(sources).lower().replace("\\\\", "\\").replace("\\n", "\n").replace('\\"', '"')
    found: dict[str, Claim] = {}
    for pattern in (_UUID, _HASH):
        for match in pattern.finditer(text):
            if not _shows_hash(match[0], everything):
                found.setdefault(match[0], Claim(match[0], is_certain=True))
    slashed = _SLASHES.sub("/", _FOLDERS_OF_URL.sub(" ", everything))
    paths = {
        match[0]
        for match in _PATH.finditer(text)
        if match[0].lower() not in everything
        and not _shows_path(match[0], slashed, is_below_variable=text[match.start() - 1 : match.start()] == "$")
    }
    # A folder of another claim is the same claim.
    for path in sorted(paths):
        if not any(other != path and other.startswith(path) for other in paths):
            found.setdefault(path, Claim(path, is_certain=False))
    digits = everything.replace(",", "").replace("_", "")
    for match in _NUMBER.finditer(text):
        number = match[0].replace(",", "").replace("_", "").rstrip(".")
        if len(number.partition(".")[0]) < _FEWEST_DIGITS:
            continue
        if not re.search(rf"(?<!\d){re.escape(number)}(?!\d)", digits) and not _is_rounded(number, digits):
            found.setdefault(match[0].rstrip(","), Claim(match[0].rstrip(","), is_certain=False))
    claimed = list(_COUNT.finditer(text))
    counts = _counts_in(everything) if claimed else {}
    for match in claimed:
        if not _shows_count(match, counts, everything):
            found.setdefault(match[0], Claim(match[0], is_certain=False))
    plain = _plain(everything)
    for quote in _quotes_in(text):
        parts = [_plain(part) for part in _ELISION.split(quote)]
        if not all(_shows_quote(part, plain) for part in parts if len(part) >= _FEWEST_CHARS_OF_QUOTE):
            found.setdefault(quote, Claim(quote, is_certain=False))
    return list(found.values())


def _quotes_in(text: str) -> Iterator[str]:
    """What is between quotation marks, on lines on which they are in pairs."""
    for line in text.splitlines():
        if line.count('"') % 2 == 0:
            yield from (match[1] or match[2] for match in _QUOTE.finditer(line))


def _shows_quote(part: str, plain: str) -> bool:
    if part in plain:
        return True
    words = part.split()
    runs = [" ".join(words[at : at + _RUN_WORDS]) for at in range(len(words) - _RUN_WORDS + 1)]
    return bool(runs) and sum(run in plain for run in runs) >= _SHARE_OF_RUNS * len(runs)


def _shows_hash(claimed: str, everything: str) -> bool:
    """Whether the hash occurs whole, or as the beginning or the end of a longer one."""
    for at in _places(claimed, everything):
        stop = at + len(claimed)
        if everything[max(0, at - 1) : at] not in _HEX or everything[stop : stop + 1] not in _HEX:
            return True
    return False


def _counts_in(everything: str) -> dict[str, set[str]]:
    """The numbers that stand near a word for tests that passed or failed, or for all of them."""
    found: dict[str, set[str]] = {"passed": set(), "failed": set(), "total": set()}
    for match in _NEAR_COUNT.finditer(everything):
        kind = {"ticked": "passed", "crossed": "failed"}.get(str(match.lastgroup), str(match.lastgroup))
        before = everything[max(0, match.start() - _NEAR_CHARS) : match.start()].rpartition("\n")[2]
        behind = everything[match.end() : match.end() + _NEAR_CHARS].partition("\n")[0]
        found[kind].update(_WHOLE_NUMBER.findall(before), _WHOLE_NUMBER.findall(behind)[:1])
    return found


def _shows_count(match: re.Match[str], counts: Mapping[str, set[str]], everything: str) -> bool:
    """Whether the number is named with the outcome, and the total with tests or with the number."""
    number, total, outcome = match["number"], match["total"], match["of"] or match["tests"] or match["bare"]
    kind = "passed" if outcome[0] in "pgs" else "failed"
    # "Ran 70 tests", and nothing of a failure.
    is_all_of_them = kind == "passed" and total in (None, number) and number in counts["total"]
    if number != "0" and number not in counts[kind] and not is_all_of_them:
        return False
    return total in (None, number) or total in counts["total"] | counts[kind] or f"{number}/{total}" in everything


def _shows_path(path: str, everything: str, *, is_below_variable: bool = False) -> bool:
    """Whether the path occurs, or parts of it that together are the path: below a folder that is named, as a listing
    of it shows them, or words joined by slashes.

    A name that occurs only below other folders is no such part.
    """
    lowered = _OTHER_ENDING.sub("", path.lower().rstrip(".").replace("\\", "/"))
    if lowered in everything:
        return True
    names = [name for name in lowered.split("/") if name and name not in ("~", ".", "..")]
    reached = {1 if is_below_variable else 0}
    """How many names are shown by parts."""
    first = frozenset(reached)
    for stop in range(1, len(names) + 1):
        for start in sorted(reached):
            if start < stop and _shows_part("/".join(names[start:stop]), everything, is_first=start in first):
                reached.add(stop)
                break
    return len(names) in reached


def _shows_part(part: str, everything: str, *, is_first: bool) -> bool:
    """Whether names occur one after the other; one name after others only where it is below no other folder."""
    is_bare_needed, is_shown = not is_first and "/" not in part, False
    for at in _places(part, everything):
        before = everything[max(0, at - 2) : at]
        behind = everything[at + len(part) : at + len(part) + 1]
        if before[-1:].isalnum() or behind.isalnum() or behind in ("_", "-"):
            continue
        if is_bare_needed and before[-1:] == "/" and before != "./":
            return False
        is_shown = True
        if not is_bare_needed:
            break
    return is_shown


def _places(text: str, everything: str) -> Iterator[int]:
    at = everything.find(text)
    while at >= 0:
        yield at
        at = everything.find(text, at + 1)


def _is_rounded(number: str, digits: str) -> bool:
    """Whether a longer number of the conversation begins so, as 1.2 million does for 1200000."""
    return number.endswith("000") and number.rstrip("0") in digits


def _plain(text: str) -> str:
    return _NO_TEXT.sub(" ", text.lower()).strip()


def _marked(text: str, claim: str) -> str:
    return re.sub(rf"(?<![\w/]){re.escape(claim)}(?![\w/])", f"{claim}{UNVERIFIED_MARK}", text)
