"""Which calls failed last, and whether a failure still stands in the way: a later call may show that it does not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from clew.ledger.ledger import Action
from clew.ledger.tools import without_folder

_KEY_CHARS_READ = 400
_KEY_CHARS = 60
_WORDS_OF_KEY = 4
_SHARE_ALIKE = 0.7
_TESTS = "any tests"
_TEST_RUNNERS = frozenset("pytest py.test nose nosetests tox nox jest vitest mocha rspec phpunit ctest".split())
_REMOTE = re.compile(r"(?:sudo\s+|ssh\s+(?:-\S+\s+(?:\w+=\S+\s+)?)*\S+\s+[\"']?)*")
_LOOKS = frozenset(
    "ls dir cat head tail which where type command grep egrep rg ag find fd test stat file ps pgrep lsof diff".split()
)
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


def last_failures(actions: Sequence[Action], since: int) -> list[tuple[Action, bool]]:
    """The last failure of each command, newest first, each with whether it still stands in the way.

    None does from before message `since`.
    """
    last = {_key(action): action for action in actions if action.failed and not found_nothing(action)}
    oldest = min((action.number for action in last.values()), default=0)
    worked: dict[str, int] = {}
    for action in actions if last else ():
        # What went well before the first of them says nothing about it.
        if action.number >= oldest and action.outcome and not action.failed:
            worked[_key(action)] = action.number
            if action.outcome.tests:
                worked[_TESTS] = action.number
    newest = sorted(last.items(), key=lambda item: -item[1].number)
    return [
        (action, action.number >= since and not _is_overcome(action, key, worked, actions)) for key, action in newest
    ]


def only_looks(action: Action) -> bool:
    """Whether it is a command that changes nothing and tells nothing but what it finds."""
    words = _REMOTE.sub("", without_folder(action.target[:_KEY_CHARS_READ]), count=1).split(maxsplit=1)
    return action.verb == "RAN" and bool(words) and words[0] in _LOOKS


def found_nothing(action: Action) -> bool:
    """Whether the call only looked for something that was not there."""
    error = action.outcome.error if action.outcome else None
    if error is None or not (only_looks(action) or action.verb in ("READ", "LISTED", "SEARCHED")):
        return False
    return (not error and action.verb == "RAN") or bool(_FOUND_NOTHING.search(error))


def is_slip(action: Action) -> bool:
    """Whether it failed by how the tool was used, which the next call does better: nothing is learnt from it."""
    is_of_file = action.verb in ("READ", "WROTE", "CHANGED") and action.outcome is not None
    return is_of_file and action.outcome is not None and bool(_SLIP.search(action.outcome.error))


def _is_overcome(action: Action, key: str, worked: dict[str, int], actions: Sequence[Action]) -> bool:
    assert action.outcome is not None
    tests = worked.get(_TESTS, -1) if action.outcome.tests else -1
    if max(worked.get(key, -1), tests) > action.number:
        return True
    return action.verb == "RAN" and any(_overcomes(later, action) for later in _ran_after(actions, action.number))


def _ran_after(actions: Sequence[Action], number: int) -> Iterator[Action]:
    """The commands behind a message, the newest first."""
    for action in reversed(actions):
        if action.number <= number:
            break
        if action.verb == "RAN" and action.outcome:
            yield action


def _overcomes(later: Action, failed: Action) -> bool:
    """Whether a later command shows that a failure no longer stands in the way."""
    assert failed.outcome is not None and later.outcome is not None
    missing = _MISSING.search(failed.outcome.error)
    if missing and (name := next(filter(None, missing.groups()))):
        if name in _TEST_RUNNERS and later.outcome.tests:
            return True  # the tests were run by another one
        # It may fail in another way: what was missing is there.
        return name in later.target.split() and name not in later.outcome.error
    words, other = (_words(action) for action in (failed, later))
    if later.failed or not words or not other:
        return False
    if _WRONG_FOLDER.search(failed.outcome.error):
        return words[0] in other
    own, its = set(words), set(other)
    if len(own) >= _WORDS_OF_KEY and own <= its:
        return True  # the same with something before or behind it
    return words[0] == other[0] and len(own & its) >= _SHARE_ALIKE * len(own | its)


def _words(action: Action) -> list[str]:
    return without_folder(action.target[:_KEY_CHARS_READ]).split()


def _key(action: Action) -> str:
    """Commands with the same beginning count as the same one, wherever they are run."""
    words = _words(action) if action.verb == "RAN" else action.target[:_KEY_CHARS_READ].split()
    return f"{action.verb} {' '.join(words[:_WORDS_OF_KEY])[:_KEY_CHARS]}"
