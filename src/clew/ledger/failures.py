"""Which calls failed last, whether a failure still stands in the way, and what cured it: later calls may show that.

Also which errors are none: what programs print that go well all the same.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from clew.ledger.outcomes import ERROR_PHRASES, both_ends, error_line, named_errors
from clew.ledger.tools import without_folder

if TYPE_CHECKING:
    from clew.ledger.ledger import Action

_KEY_CHARS_READ = 400
_KEY_CHARS = 60
_WORDS_OF_KEY = 4
_MOST_FAILURES = 300
_MOST_LATER = 150
_SHARE_ALIKE = 0.7
_TESTS = "any tests"
_TEST_RUNNERS = frozenset("pytest py.test nose nosetests tox nox jest vitest mocha rspec phpunit ctest".split())
_REMOTE = re.compile(r"(?:sudo\s+|ssh\s+(?:-\S+\s+(?:\w+=\S+\s+)?)*\S+\s+[\"']?)*")
_LOOKS = frozenset(
    "ls dir cat head tail which where type command grep egrep rg ag find fd test stat file ps pgrep lsof diff".split()
)
_WRITES_FILE = re.compile(r"\bcat *>")
_FOUND_NOTHING = re.compile(
    r"no such file|not found|cannot access|cannot find|does not exist|nicht gefunden|introuvable", re.IGNORECASE
)
_SLIP = re.compile(
    r"not been read yet|modified since read|to replace not found|not found in file|no match|exceeds maximum allowed"
    r"|no changes to make|are (?:exactly the same|identical)|not unique|found \d+ matches|old_?str|does not exist",
    re.IGNORECASE,
)
_MISSING = re.compile(
    r"No module named '?(?P<module>[\w.]+)|Cannot find (?:module|package) '(?P<package>[^']+)'"
    r"|(?P<command>[\w.+-]+): (?:command )?not found|command not found: (?P<zsh>[\w.+-]+)"
    r"|^(?P<which>[\w.+-]+) not found|'(?P<windows>[\w.+-]+)' is not recognized"
)
_WRONG_FOLDER = re.compile(
    r"not a git repository|no (?:package\.json|Makefile|pyproject\.toml|Cargo\.toml)", re.IGNORECASE
)
# What shows only a part of what a command prints, or waits before it: the command is the same one.
_ASIDE = re.compile(
    r"(?:\s*(?:2>&1|2>\s*/dev/null|\|\s*tail(?: -n)?(?: -?\d+)?|\|\s*head(?: -n)? -?\d{2,}"
    r"|\|\s*e?grep\b[^|]*(?:err|fail|warn)[^|]*))+[\"']?\s*\Z|\bsleep \d+\s*(?:&&|;)\s*",
    re.IGNORECASE,
)
_MAY_STAND_ASIDE = ("2>", "|", "sleep")
_FILE_NAMED = re.compile(r"[\w-][\w.-]*\.[A-Za-z]\w{0,5}\b")
_INLINE_CODE = re.compile(r"\s*(?:python[\d.]*|node|ruby|perl|php|bun|deno|(?:npx )?tsx)(?: -\w+)*? (?:-[ce]\b|-? ?<<)")
_SCRIPTS = (".py", ".js", ".mjs", ".ts", ".rb", ".sh")
_INSTALLS = re.compile(r"\b(?:install|add|apt|apk|brew|pip|uv|conda|npm|yarn|pnpm|ensurepip)\b")
_CHECKS = frozenset("build check test tests lint compile make tsc pytest tox cargo gradle mvn ninja".split())


_ERRORS_OF_ONE_RUN = 3
_FEWEST_COMMANDS = 2
_MOST_LINES_KNOWN = 1_000


class HarmlessErrors:
    """Error lines that runs of several commands printed and went well: no run failed by them."""

    def __init__(self) -> None:
        self.lines: set[str] = set()
        self._printed_by: dict[str, set[str]] = {}
        self._instead: list[tuple[Action, str]] = []

    def add_good_run(self, command: str, result: str) -> None:
        """Learn from a run that went well which errors are none; failures that were told by one get the next error."""
        for line in _errors_printed(both_ends(result)):
            if line in self.lines or len(self._printed_by) >= _MOST_LINES_KNOWN:
                continue
            commands = self._printed_by.setdefault(line, set())
            commands.add(" ".join(_words_of(command[:_KEY_CHARS_READ])[:_WORDS_OF_KEY]))
            if len(commands) >= _FEWEST_COMMANDS:
                self.lines.add(line)
                for failed, error in self._instead:
                    if failed.outcome and failed.outcome.error == line:
                        failed.outcome = replace(failed.outcome, error="" if error in self.lines else error)

    def add_failure(self, failed: Action, result: str) -> None:
        """Give a failure the error that is one, and remember the next, since its own may prove harmless later."""
        outcome = failed.outcome
        if outcome is None or not outcome.error:
            return
        if outcome.error in self.lines:
            error = error_line(both_ends(result), surely=True, but=self.lines)
            failed.outcome = outcome = replace(outcome, error=error)
        ends = both_ends(result)
        self._instead.append((failed, error_line(ends, surely=True, but={outcome.error, *self.lines})))


def _errors_printed(ends: str) -> list[str]:
    """The lines that name errors, the last first."""
    last = error_line(ends, surely=False)
    if not last:
        return []
    found: dict[str, None] = {}
    for line in named_errors(ends.splitlines(), [phrase for phrase in ERROR_PHRASES if phrase in ends]):
        # What is no line of its own, but told of the whole, is told alone.
        if not line or len(found) >= _ERRORS_OF_ONE_RUN or (not found and line != last):
            break
        found[line] = None
    if len(found) > 1 and error_line(ends, surely=False, but={last}) == last:
        return [last]
    return list(found) or [last]


@dataclass(frozen=True, slots=True)
class LastFailure:
    """The last failure of a command."""

    action: Action
    blocks: bool
    """Whether it still stands in the way."""
    shown_by: Action | None = None
    """The call that shows that it was overcome."""
    cure: Sequence[Action] = ()
    """What overcame it, where that can be told: changes of the file it names, an installation, another command."""


def last_failures(actions: Sequence[Action], since: int) -> list[LastFailure]:
    """The last failure of each command, newest first. None from before message `since` stands in the way."""
    last = {_key(action): action for action in actions if action.failed and not found_nothing(action)}
    oldest = min((action.number for action in last.values()), default=0)
    worked: dict[str, Action] = {}
    for action in actions if last else ():
        # What went well before the first of them says nothing about it.
        if action.number >= oldest and _went_well(action):
            worked[_key(action)] = action
            if action.outcome and action.outcome.tests:
                worked[_TESTS] = action
    newest = sorted(last.items(), key=lambda item: -item[1].number)[:_MOST_FAILURES]
    return [_judged(action, key, worked, actions, since) for key, action in newest]


def _judged(action: Action, key: str, worked: dict[str, Action], actions: Sequence[Action], since: int) -> LastFailure:
    start = bisect_right(actions, action.number, key=lambda one: one.number)
    # What cures a failure mostly comes soon, and what was learnt from an old one is told where there is room.
    later = actions[start : start + _MOST_LATER]
    shown_by = _shown_by(action, key, worked, later)
    if shown_by is not None:
        return LastFailure(action, False, shown_by, _cure(action, shown_by, later))
    return LastFailure(action, action.number >= since and not _is_past(action, key, worked, later))


def outdated_results(actions: Iterable[Action]) -> frozenset[int]:
    """The results of commands that named an error and were run again later: what they say may no longer be so."""
    failed: dict[str, int] = {}
    outdated: set[int] = set()
    for action in actions:
        if action.verb != "RAN" or action.result is None or only_looks(action):
            continue
        key = _key(action)
        if key in failed:
            outdated.add(failed.pop(key))
        if action.failed or (action.outcome and action.outcome.error):
            failed[key] = action.result
    return frozenset(outdated)


def only_looks(action: Action) -> bool:
    """Whether it changes nothing, and all that can be told of it is what it found."""
    if action.verb != "RAN":
        return action.verb in ("READ", "LISTED", "SEARCHED")
    command = without_folder(action.target[:_KEY_CHARS_READ])
    remote = _REMOTE.match(command)
    words = command[remote.end() if remote else 0 :].split(maxsplit=1)
    return bool(words) and words[0] in _LOOKS and not action.files and not _WRITES_FILE.search(action.target)


def found_nothing(action: Action) -> bool:
    """Whether the call only looked for something that was not there."""
    error = action.outcome.error if action.outcome else None
    if error is None or not only_looks(action):
        return False
    return (not error and action.verb == "RAN") or bool(_FOUND_NOTHING.search(error))


def is_slip(action: Action) -> bool:
    """Whether it failed by how the tool was used, which the next call does better: nothing is learnt from it."""
    is_of_file = action.verb in ("READ", "WROTE", "CHANGED") and action.outcome is not None
    return is_of_file and action.outcome is not None and bool(_SLIP.search(action.outcome.error))


def _went_well(action: Action) -> bool:
    """Whether a call went well; where its result does not say, whether it names no error."""
    outcome = action.outcome
    return outcome is not None and not outcome.failed and (outcome.failed is False or not outcome.error)


def _shown_by(action: Action, key: str, worked: dict[str, Action], later: Sequence[Action]) -> Action | None:
    """The call behind a failure that shows that it was overcome: the same one, or one that holds it, went well."""
    same = worked.get(key)
    if same and same.number > action.number and (action.verb != "RAN" or _holds(same, action)):
        return same
    if action.verb != "RAN":
        return None
    does_it = _repeats(action)
    ran = (one for one in later if one.verb == "RAN" and one.outcome)
    return next(filter(does_it, ran), None) or _green_behind_change(action, later)


def _is_past(action: Action, key: str, worked: dict[str, Action], later: Sequence[Action]) -> bool:
    """Whether a failure stands in the way no longer, though nothing shows that the same was done in the end."""
    assert action.outcome is not None
    alike = [worked.get(key), worked.get(_TESTS) if action.outcome.tests else None]
    if any(one and one.number > action.number for one in alike):
        return True
    if _tries_code(action) and any(one.verb == "RAN" and _went_well(one) for one in later):
        return True
    return action.verb == "RAN" and any(
        _is_alike(one, action) for one in reversed(later) if one.verb == "RAN" and _went_well(one)
    )


def _tries_code(action: Action) -> bool:
    """Whether a command runs code that it brings along, as one tries something out: nothing waits for that."""
    if action.verb != "RAN" or not action.outcome or action.outcome.tests:
        return False
    if _INLINE_CODE.match(without_folder(action.target[:_KEY_CHARS_READ])):
        return True
    ending = action.target[-_KEY_CHARS_READ:].rpartition("\n")[2]
    return any(path.endswith(_SCRIPTS) and path.rpartition("/")[2] in ending for path in action.files)


def _green_behind_change(action: Action, later: Sequence[Action]) -> Action | None:
    """A commit, or a check that went well, behind a change of the file that a failure names."""
    assert action.outcome is not None
    named = set(_FILE_NAMED.findall(action.outcome.error))
    changed = next((at for at, one in enumerate(later) if named and _changes_one_of(one, named)), None)
    behind = later[changed + 1 :] if changed is not None else ()
    return next((one for one in behind if one.commit or (_is_check(one) and _went_well(one))), None)


def _is_check(action: Action) -> bool:
    assert action.outcome is not None
    return action.verb == "RAN" and (bool(action.outcome.tests) or not _CHECKS.isdisjoint(_words(action)[:3]))


def _changes_one_of(action: Action, names: set[str]) -> bool:
    return not action.failed and any(re.split(r"[/\\]", path)[-1] in names for path in action.files)


def _cure(action: Action, shown_by: Action, later: Sequence[Action]) -> Sequence[Action]:
    """What was done between a failure and the first call that shows it overcome, where it is plain that this did it."""
    assert action.outcome is not None
    if _WRONG_FOLDER.search(action.outcome.error):
        return ()
    shows = (at for at, one in enumerate(later) if one is shown_by or (_went_well(one) and _holds(one, action)))
    first = next(shows, len(later))
    between = later[:first]
    if _MISSING.search(action.outcome.error):
        installed = [one for one in between if one.verb == "RAN" and _INSTALLS.search(one.target) and not one.failed]
        if installed or _words(shown_by)[:1] != _words(action)[:1]:
            return installed[-1:] or (shown_by,)
    named = set(_FILE_NAMED.findall(f"{action.outcome.error} {action.target[:_KEY_CHARS_READ]}"))
    if changed := [one for one in between if _changes_one_of(one, named)]:
        return changed
    shown_by = later[first] if first < len(later) else shown_by
    is_other = shown_by.verb == "RAN" and not shown_by.commit and _words(shown_by) != _words(action)
    if is_other and not _is_check(shown_by):
        return (shown_by,)
    changed = [one for one in between if one.files and not one.failed]
    return changed if len({path for one in changed for path in one.files}) == 1 else ()


def _repeats(failed: Action) -> Callable[[Action], bool]:
    """Tells whether a later command did what one that failed was to do: many are asked about one failure."""
    assert failed.outcome is not None
    missing = _MISSING.search(failed.outcome.error)
    if missing and (name := next(filter(None, missing.groups()))):
        return partial(_has_what_was_missing, name)
    words = _words(failed)
    if words and _WRONG_FOLDER.search(failed.outcome.error):
        return lambda later: _went_well(later) and words[0] in _words(later)
    own = frozenset(words)
    return lambda later: _went_well(later) and _has_words_of(_words(later), words, own)


def _has_what_was_missing(name: str, later: Action) -> bool:
    assert later.outcome is not None
    if name in _TEST_RUNNERS and later.outcome.tests:
        return True  # the tests were run by another one
    # It may fail in another way: what was missing is there.
    return name in later.target.split() and name not in later.outcome.error


def _holds(later: Action, failed: Action) -> bool:
    """Whether a command is the same as another, or the same with something before, behind or between its words."""
    words = _words(failed)
    return _has_words_of(_words(later), words, frozenset(words))


def _has_words_of(other: Sequence[str], words: Sequence[str], own: Set[str]) -> bool:
    return words == other or (_WORDS_OF_KEY <= len(own) <= len(other) and own <= frozenset(other))


def _is_alike(later: Action, failed: Action) -> bool:
    words, other = _words(failed), _words(later)
    if not words or not other or words[0] != other[0]:
        return False
    own, its = set(words), set(other)
    return len(own & its) >= _SHARE_ALIKE * len(own | its)


def _words(action: Action) -> Sequence[str]:
    return _words_of(action.target[:_KEY_CHARS_READ])


@lru_cache(maxsize=4_096)
def _words_of(command: str) -> tuple[str, ...]:
    """The words of a command, without those that only show a part of what it prints."""
    command = without_folder(command)
    if any(mark in command for mark in _MAY_STAND_ASIDE):
        command = _ASIDE.sub("", command)
    if command.startswith("ssh "):
        command = command.replace('"', " ").replace("'", " ")
    return tuple(command.split())


def _key(action: Action) -> str:
    """Commands with the same beginning count as the same one, wherever they are run."""
    words = _words(action) if action.verb == "RAN" else tuple(action.target[:_KEY_CHARS_READ].split())
    return f"{action.verb} {' '.join(words[:_WORDS_OF_KEY])[:_KEY_CHARS]}"
