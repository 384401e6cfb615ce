"""What an exchange did, as lines of a handoff: its commits, its changes, the commands that matter, and what they gave.

Like calls are folded into one: `pytest -q: 31 runs, the last exit 0`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby

from clew.ledger import (
    COMMAND_CHARS_READ,
    COMPLAINS,
    HERE_DOCUMENT,
    Action,
    found_nothing,
    joined_definitions,
    without_folder,
)
from clew.summaries.handoff import BLOCK, IN_PART, quoted, shorten_redacted

BRIEF_CHARS = 64
_LEAST_BRIEF_CHARS = 48
_MARKS = re.compile(r"[,/\\|;&=:'\"()]")
_WORDS_BEFORE_DIFFERENCE = 2
_COMMAND_CHARS = 100
_SUBJECT_CHARS = 120
_ANSWER_CHARS = 300
_ERROR_CHARS = 160
_WORDS_ALIKE = 3
_MOST_FOLDERS = 2
_MOST_STEPS = 6
_FEWEST_FOLDED = 4
_NUMBERS = re.compile(r"\d+")
_GIVEN_CODE, _FIRST_CHARS = (" -c ", " -e ", "<<"), 60
_BROKEN_LINE = re.compile(r"(?<=&&)\s*\n\s*|(?<=[|;])\s*\n\s*")
_WRITTEN = "…; "
_START_CHARS = 200
DEED = re.compile(
    r"(?:CHANGED|CREATED|WROTE|DELETED|MOVED|REVERTED) (?!.*: )|COMMITTED |ASKED |DELEGATED .* -> \""
    r"|RAN .*(?:: \d+ runs\b| -> (?:exit -?\d+|failed|[\d,]+ lines|\d+ failed)\b)"
)
"""How the lines begin that tell what an exchange did."""


@lru_cache(maxsize=2_048)
def brief_target(target: str) -> str:
    """The end of a path, the start of a command: what tells most in few chars."""
    separator = "\\" if "\\" in target and "/" not in target else "/"
    if " " not in target and target.count(separator) > _MOST_FOLDERS:
        return f"…{separator}{separator.join(target.rsplit(separator, 2)[1:])}"
    return _brief_command(outline_of(target))


def _brief_command(command: str) -> str:
    """The start of a command, cut at a blank or, in a long word, at a mark: a name alone says little of a command."""
    # A script that begins with a remark says there what it is for.
    command = command.split("\n", 1)[0] if command.startswith("#") else command
    if _WRITTEN in command and len(command) > BRIEF_CHARS:
        command = f"…; {command.rpartition(_WRITTEN)[2]}"
    brief = shorten_redacted(command, BRIEF_CHARS)
    if len(brief) > _LEAST_BRIEF_CHARS or not brief.endswith("…") or command.endswith("…"):
        return brief
    line = " ".join(shorten_redacted(command, 2 * _COMMAND_CHARS).split())[:BRIEF_CHARS]
    marks = [found.start() for found in _MARKS.finditer(line, _LEAST_BRIEF_CHARS)]
    return f"{line[: marks[-1]] if marks else line}…"


def outline_of(command: str) -> str:
    """A command without its change of folder and the texts that it writes: `cat > a.py <<EOF …; python a.py`."""
    command = without_folder(command).replace("\\\n", " ")
    if "<<" not in command or "\n" not in command:
        return command
    outline = _BROKEN_LINE.sub(" ", HERE_DOCUMENT.sub(_without_text, command[:COMMAND_CHARS_READ])).strip()
    return outline if "…" not in outline else "; ".join(filter(None, map(str.strip, outline.split("\n"))))


def _without_text(document: re.Match[str]) -> str:
    """A here-document without its text where that goes into a file; what a program is given to run is left."""
    before = document.string[document.string.rfind("\n", 0, document.start()) + 1 : document.start()]
    goes_into_file = ">" in before + document["rest"]
    return f"{document[0].partition(chr(10))[0].rstrip()} …" if goes_into_file else document[0]


def unlike_target(target: str, other: str) -> str:
    """A command told by where it begins to differ from one that was told before: `ssh … "dmesg | tail -50"`."""
    if "\n" in target and target.split("\n", 1)[0] == other.split("\n", 1)[0]:
        return brief_target(target)  # where what is written into a file begins to differ, nothing says which file
    words, others = (without_folder(text).split() for text in (target, other))
    same = next((at for at, pair in enumerate(zip(words, others, strict=False)) if pair[0] != pair[1]), 0)
    if same <= _WORDS_BEFORE_DIFFERENCE:
        return shorten_redacted(brief_target(target), BRIEF_CHARS // 2)
    return f"{words[0]} … {_brief_command(' '.join(words[same - _WORDS_BEFORE_DIFFERENCE :]))}"


def names_of_run(target: str, called: Sequence[str], before: str) -> list[str]:
    """What a command is told by: how it begins, and the lines of it that are quoted; `before`: one that begins alike.

    A line out of the middle of a script says little without what is done with the script.
    """
    brief = brief_target(target)
    starts = (" ".join(target[:_START_CHARS].split()), brief.rstrip("…"))
    opening = [line for line in called if any(start[: len(line)] == line[: len(start)] for start in starts)]
    if opening and "…" not in outline_of(target):
        return list(dict.fromkeys(map(without_folder, called)))
    # Nor does the word that ends what is written.
    said = {*opening, *(found["word"] for found in HERE_DOCUMENT.finditer(target[:COMMAND_CHARS_READ]))}
    name = unlike_target(target, before) if before else brief
    others = (without_folder(line) for line in called if line not in said)
    return [name, *dict.fromkeys(line for line in others if line not in name)]


def told_target(action: Action) -> str:
    """What an action is told by: its target, behind the tool's name where no verb says what that does."""
    return f"{action.tool} {action.target}".rstrip() if action.verb == "CALLED" else action.target


def deeds_of(
    actions: Sequence[Action], known_files: frozenset[str] = frozenset(), later: Iterable[Action] = ()
) -> list[str]:
    """The lines that tell what an exchange did: its commits, its changes in one line, then each command that matters.

    A command that ran once and went well is left to whoever quotes what it printed, and one that ran again among the
    `later` actions, which can be read below, to its last run.
    """
    changes = " · ".join(_changes(actions, known_files))
    below = {_words_alike(action) for action in later}
    runs = _runs(action for action in actions if _words_alike(action) not in below)
    return [*lasting_deeds_of(actions), *([changes] if changes else []), *runs]


def lasting_deeds_of(actions: Sequence[Action]) -> list[str]:
    """What a person answered to a call, and a line for each commit that was made; of one made anew, the last."""
    answered = [f"ASKED {_answers(action)} (m{action.result})" for action in actions if action.answers]
    made = {
        subject: (commit, action.result) for action in actions if action.commit for commit, subject in [action.commit]
    }
    return answered + [
        f'COMMITTED {commit} "{shorten_redacted(subject, _SUBJECT_CHARS)}" (m{number})'
        for subject, (commit, number) in made.items()
    ]


def _answers(action: Action) -> str:
    told = (f"{quoted(asked, _SUBJECT_CHARS)} -> {quoted(said, _ANSWER_CHARS)}" for asked, said in action.answers)
    return " · ".join(told)


def _changes(actions: Iterable[Action], known_files: frozenset[str]) -> Iterable[str]:
    by_file: dict[str, list[Action]] = {}
    for action in actions:
        for path, ended in action.files.items() if not action.failed else ():
            if ended or action.verb in ("WROTE", "CHANGED"):
                by_file.setdefault(path, []).append(action)
    told: list[tuple[str, str, str]] = []
    for path, own in by_file.items():
        name = brief_target(path) if path in known_files else path
        # What a file ended as stands for what was done to it before.
        ended = own[-1].files[path]
        if ended:
            word, _, where = ended.partition(" ")
            told.append((word.upper(), name, " ".join(f"{where} (m{own[-1].number})".split())))
            continue
        is_new = any(action.creates for action in own)
        word = "CREATED" if is_new else "WROTE" if all(action.verb == "WROTE" for action in own) else "CHANGED"
        size = f"{own[0].change.removesuffix(' -0')} " if len(own) == 1 and own[0].change else ""
        told.append((word, name, f"{size}({_when(own)})"))
    for word, alike in groupby(told, key=lambda one: one[0]):
        by_how = groupby(alike, key=lambda one: one[2])
        yield f"{word} " + ", ".join(f"{', '.join(name for _, name, _ in same)} {how}" for how, same in by_how)


def _runs(actions: Iterable[Action]) -> Iterable[str]:
    alike: dict[str, list[Action]] = {}
    for action in actions:
        if action.verb == "RAN":
            alike.setdefault(_words_alike(action), []).append(action)
    for own in alike.values():
        last = own[-1]
        ended = last.outcome.describe() if last.outcome else ""
        failed = sum(action.failed for action in own)
        error = last.outcome.error if last.failed and last.outcome else ""
        # That a command went well in the end says nothing; what it printed is quoted. What failed once is told as
        # tried, or not at all where it was overcome as if of itself, and nothing is learnt from it without an error.
        is_told = COMPLAINS.search(error) and not found_nothing(last)
        is_told = is_told or bool(last.outcome and last.outcome.tests)
        if not ended or len(own) == 1 or not is_told:
            continue
        how = f": {len(own)} runs{f', {failed} failed' if failed else ''}, the last"
        why = f": {shorten_redacted(error, _ERROR_CHARS)}" if error else ""
        command = shorten_redacted(outline_of(last.target), _COMMAND_CHARS)
        yield " ".join(f"RAN {command}{how} {ended}{why} (m{last.number})".split())


def steps_of(newest_first: Iterable[tuple[Action, str]]) -> list[str]:
    """A line for each of the last commands that did something and went well, with what it gave back."""
    told = [
        f"RAN {brief_target(action.target)}{f' -> {shown}' if shown else ''} (m{action.number})"
        for action, shown in newest_first
        if action.verb == "RAN" and not (action.failed or action.files or action.commit)
    ]
    return told[:_MOST_STEPS][::-1]


def tells_step(deeds: Iterable[str], action: Action) -> bool:
    """Whether a line of `steps_of` tells the command."""
    start = f"RAN {brief_target(action.target)}"
    starts = (f"{start} -> ", f"{start} (m")
    return any(deed.startswith(starts) and reference_of(deed) == f"(m{action.number})" for deed in deeds)


def _words_alike(action: Action) -> str:
    """The words by which runs count as those of one command: the first, or all where it writes or is given code."""
    command = outline_of(action.target)
    is_own = "…" in command or any(map(command[:_FIRST_CHARS].__contains__, _GIVEN_CODE))
    return " ".join(command.split()[: None if is_own else _WORDS_ALIKE])


def _when(actions: Sequence[Action]) -> str:
    first, last = actions[0].number, actions[-1].number
    where = f"m{first}" if first == last else f"m{first}-m{last}"
    return where if len(actions) == 1 else f"{len(actions)}x, {where}"


# -- lines of results --------------------------------------------------------------------------------------------------

_FEWEST_OF_BLOCK = 3
_SHORTEST_BLOCK_CHARS = 180
_LEAST_FOLDER_CHARS = 32
_LONGEST_NAME = 40
_LONGEST_ROW = 80
_LONG_FOLDER = re.compile(r"[\W_]{0,3}(?:[A-Za-z]:)?(?:[/\\][^/\\\s]+){3,6}[/\\]")


def framed_passage(verb: str, names: Sequence[str], shown: Sequence[str], where: str) -> str:
    """What was called and what came of it on one line; several long lines of it below each other."""
    shown = list(_side_by_side(joined_definitions(shown)))
    pieces = [*names[1:], *(f"-> {line}" for line in shown)] if len(names) > 1 else shown
    if block := as_block(f"{verb} {names[0]}", where, pieces):
        return block
    gives = " -> " if verb in ("RAN", "CALLED") else ": "
    return f"{verb} {' · '.join(names)}{gives if shown else ''}{' · '.join(shown)} ({where})"


def reference_of(line: str) -> str:
    """`(m60-m62)` at the end of a line, or of the one that announces a block."""
    announcing = line.split(BLOCK, 1)[0].removesuffix(IN_PART)
    return announcing[announcing.rfind("(") :] if announcing.endswith(")") else ""


def says_target(called: str, verb: str, target: str) -> bool:
    """Whether a line that a call was given says no more than its target: the command that printed a file, a number."""
    return (verb == "READ" and target in called) or (": " in called and called.partition(": ")[2] in target)


def as_block(name: str, where: str, lines: Sequence[str]) -> str:
    """The lines below each other under one that names where they are from; empty for a few short ones."""
    if len(lines) < _FEWEST_OF_BLOCK or sum(map(len, lines)) < _SHORTEST_BLOCK_CHARS:
        return ""
    return BLOCK.join([f"{name} ({where}){IN_PART}", *_folder_once(lines)])


def _side_by_side(lines: Iterable[str]) -> Iterator[str]:
    """The lines; names that stand on lines of their own, as in a listing or a long import, several on one."""
    names: list[str] = []
    for line in lines:
        is_name = len(line) <= _LONGEST_NAME and " " not in line
        if names and (not is_name or sum(map(len, names)) > _LONGEST_ROW):
            yield " ".join(names)
            names = []
        if is_name:
            names.append(line)
        else:
            yield line
    if names:
        yield " ".join(names)


def _folder_once(lines: Sequence[str]) -> list[str]:
    """The lines, a long folder that several begin with only in the first of them: `…/src/retry.py`."""
    told: list[str] = []
    folder = ""
    for line in lines:
        if folder and line.startswith(folder):
            told.append(f"…/{line[len(folder) :]}")
            continue
        found = _LONG_FOLDER.match(line)
        folder = found[0] if found and len(found[0]) >= _LEAST_FOLDER_CHARS else folder
        told.append(line)
    return told


def folded_calls(lines: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """The lines; of calls that follow each other and differ in numbers alone only the first and the last."""
    told: list[tuple[int, str]] = []
    for _, run in groupby(lines, key=lambda line: _without_numbers(line[1])):
        alike = list(run)
        if len(alike) >= _FEWEST_FOLDED:
            number, last = alike[-1]
            at = last.rfind(" (m")
            alike = [alike[0], (number, f"{last[:at]} ({len(alike)} such calls){last[at:]}")]
        told += alike
    return told


def _without_numbers(line: str) -> str:
    # What was said is no call, and what stands in a block is quoted line by line.
    return line if line.startswith('"') or BLOCK in line else _NUMBERS.sub("0", line)
