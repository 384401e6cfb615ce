"""The files that a handoff lists: what was done to each, and how many of them stand on one line.

Lines are read back too: a later handoff goes on from what an earlier one has told.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from clew.ledger import FileFact, Ledger, atoms_in, is_path

# How many files of a very long history are considered.
_NEWEST = 300
_NEWEST_READ = 12
_LONG_FOLDER = 24
_FEWEST_IN_ROOT = 3
_BELOW = "Below "
_JOINED = ", "
_SEPARATOR = " · "
# A name before the path is what handoffs of earlier versions have.
_FILE_LINE = re.compile(
    r"(?:\w+: )?(?P<paths>.+) \((?P<how>moved to [^(),]+|[^()]*?),? (?:.*, )?m(?P<first>\d+)(?:-m(?P<last>\d+))?\)$"
)
_FOLDER = re.compile(r".*[/\\]")
_FOLDERS = re.compile(r"[/\\]")
_ABSOLUTE = re.compile(r"(?:~|[A-Za-z]:)?[/\\]")
_BELOW_ROOT = re.compile(rf"{_BELOW}(?P<root>\S.*?[/\\]): (?P<files>.+)$")
_FILES_OF_FOLDER = re.compile(r"(?P<folder>\S.*?[/\\]): (?P<files>.+ \(.*)$")
_BETWEEN_FILES = re.compile(r"(?<=\)), ")
_DRIVE = re.compile(r"(?:/(?:mnt/|cygdrive/)?([A-Za-z])|([A-Za-z]):)(?=/)")
_HOME = re.compile(r"(?:/home/[^/]+|/root|(?:/[a-z]:)?/Users/[^/]+)/")
_READ = "read"
_CHANGED = "changed"
_CREATED = "created"
_KINDS = {_CHANGED: _CHANGED, "written": _CHANGED, _CREATED: _CHANGED, _READ: _READ} | dict.fromkeys(
    ("deleted", "moved", "reverted"), "gone"
)


@dataclass(frozen=True, slots=True)
class FileLine:
    """What is told of one file."""

    path: str
    how: str
    """`changed`, `written`, `created`, `read`, `deleted`, `reverted`, `moved to b.py`."""
    first: int
    last: int
    words: str = ""
    """The whole line, where a model wrote it."""

    @property
    def text(self) -> str:
        if self.words:
            return self.words
        when = f"m{self.first}" if self.first == self.last else f"m{self.first}-m{self.last}"
        return " ".join(f"{self.path} ({self.how}, {when})".split())


def changed_files(ledger: Ledger, previous: Iterable[str]) -> list[FileLine]:
    """The files that were changed, newest first, then those that only the previous handoff has."""
    told = {line.path: line for text in previous for line in _files_in(text) if line.how != _READ}
    known = [fact for fact in _each_once(ledger.files.values()) if fact.changes]
    lines = [_file_line(fact, told.get(fact.path)) for fact in sorted(known, key=lambda fact: -fact.last)[:_NEWEST]]
    new = {fact.path for fact in known}
    return [*lines, *(line for path, line in reversed(told.items()) if path not in new)]


def _each_once(files: Iterable[FileFact]) -> list[FileFact]:
    """The files; one that is named from a folder too, as `src/a.py` beside `/srv/shop/src/a.py`, by its whole path.

    From a home folder, too (`~/a.py`), and by two spellings of a drive (`C:\\a.py`, `/c/a.py`).
    """
    known: dict[str, FileFact] = {}
    for fact in files:
        path = _spelling_of(fact.path)
        known[path] = _joined_facts(known[path], replace(fact, path=known[path].path)) if path in known else fact
    _join_home_folders(known)
    by_name: dict[str, list[str]] = {}
    for path in known:
        by_name.setdefault(path.rpartition("/")[2], []).append(path)
    once: dict[str, FileFact] = {}
    for path, fact in known.items():
        whole, alike = path, by_name[path.rpartition("/")[2]]
        # A name without a folder may be that of another file.
        if len(alike) > 1 and "/" in path:
            longer = [other for other in alike if other.endswith(f"/{path.removeprefix('./')}")]
            longest = max(longer, key=len, default=path)
            whole = longest if all(longest.endswith(other) for other in longer) else path
        named = fact if whole == path else replace(fact, path=known[whole].path)
        once[whole] = _joined_facts(once[whole], named) if whole in once else named
    return list(once.values())


def _spelling_of(path: str) -> str:
    """A path by which a file is known, however its folders and its drive are written."""
    path = path.replace("\\", "/")
    drive = _DRIVE.match(path)
    return f"/{(drive[1] or drive[2]).lower()}:{path[drive.end() :]}" if drive else path


def _join_home_folders(known: dict[str, FileFact]) -> None:
    """Files that are named from a home folder become those of the one home folder in which there is such a file."""
    from_home = [path for path in known if path.startswith("~/")]
    below_home: dict[str, list[str]] = {}
    for path in known if from_home else ():
        if home := _HOME.match(path):
            below_home.setdefault(path[home.end() :], []).append(path)
    for path in from_home:
        if len(alike := below_home.get(path[2:], [])) == 1:
            fact = known[alike[0]]
            known[alike[0]] = _joined_facts(fact, replace(known.pop(path), path=fact.path))


def _joined_facts(one: FileFact, other: FileFact) -> FileFact:
    newest = max(one, other, key=lambda fact: fact.last)
    return replace(
        newest,
        first=min(one.first, other.first),
        changes=sorted([*one.changes, *other.changes]),
        reads=one.reads + other.reads,
        is_written=one.is_written and other.is_written,
        is_new=one.is_new or other.is_new,
    )


def read_files(ledger: Ledger) -> list[FileLine]:
    """The newest files that were read and not changed."""
    known = [fact for fact in _each_once(ledger.files.values()) if fact.reads and not fact.changes]
    newest = sorted(known, key=lambda fact: -fact.last)[:_NEWEST_READ]
    return [FileLine(fact.path, _READ, fact.first, fact.last) for fact in newest]


def joined_lines(lines: Iterable[str]) -> list[str]:
    """The lines with those as one that tell the same of several files: `a.py, b.py (changed, m553)`."""
    by_what: dict[str, list[str]] = {}
    for line in lines:
        path, parenthesis, what = line.rpartition(" (")
        by_what.setdefault(parenthesis + what, []).append(path)
    return [_JOINED.join(paths) + what for what, paths in by_what.items()]


def lines_by_kind(lines: Iterable[str]) -> list[str]:
    """One line for the files that are there and were changed, one for those that are not, and one for those read.

    Of many with a long folder in common those that are in it stand on a line of their own: `Below /srv/shop/: a.py`.
    """
    kinds: dict[str, list[str]] = {}
    for line in lines:
        found = _FILE_LINE.match(line)
        how = found["how"].split()[0] if found else ""
        kinds.setdefault(_KINDS.get(how, line), []).extend(_apart(line))
    root = _root_of([line.partition(" (")[0] for own in kinds.values() for line in own])
    told: list[str] = []
    for own in kinds.values():
        below = joined_lines(line.removeprefix(root) for line in own if root and line.startswith(root))
        others = joined_lines(line for line in own if not root or not line.startswith(root))
        told += [f"{_BELOW}{root}: {_SEPARATOR.join(_by_folder(below))}"] if below else []
        told += [_SEPARATOR.join(_by_folder(others))] if others else []
    return told


def _root_of(paths: Sequence[str]) -> str:
    """The folder of several files that is worth being told once for all of them; empty where there is none."""
    whole = filter(_ABSOLUTE.match, paths)
    inside = Counter(path[: found.end()] for path in whole for found in _FOLDERS.finditer(path))
    shared = (one for one, times in inside.items() if times >= _FEWEST_IN_ROOT and len(one) > _LONG_FOLDER)
    return max(shared, key=lambda folder: (inside[folder] - 1) * len(folder), default="")


def _by_folder(lines: Sequence[str]) -> list[str]:
    """The lines with a long folder named once for its files: `/srv/shop/src/: a.py (read, m6), b.py (read, m9)`."""
    folders: dict[str, list[str]] = {}
    for line in (one for joined in lines for one in _apart(joined)):
        folder = _FOLDER.match(line.partition(" (")[0])
        folders.setdefault(folder[0] if folder and len(folder[0]) > _LONG_FOLDER else line, []).append(line)
    return [
        own[0] if len(own) == 1 else f"{folder}: {_JOINED.join(line.removeprefix(folder) for line in own)}"
        for folder, own in folders.items()
    ]


def _out_of_folder(line: str) -> list[str]:
    """The lines that `_by_folder` made one of."""
    found = _FILES_OF_FOLDER.match(line)
    return [f"{found['folder']}{one}" for one in _BETWEEN_FILES.split(found["files"])] if found else [line]


def _apart(joined: str) -> list[str]:
    """The files of a line one by one, where they have a long folder."""
    paths, parenthesis, what = joined.rpartition(" (")
    folder = _FOLDER.match(paths.split(_JOINED)[0])
    is_long = folder is not None and len(folder[0]) > _LONG_FOLDER
    return [f"{path}{parenthesis}{what}" for path in paths.split(_JOINED)] if is_long else [joined]


def _file_line(fact: FileFact, told: FileLine | None) -> FileLine:
    first = fact.changes[0] if told is None or told.first < 0 else min(told.first, fact.changes[0])
    is_new = fact.is_new or (told is not None and told.how == _CREATED)
    how = fact.ended or (_CREATED if is_new else "written" if fact.is_written and told is None else _CHANGED)
    return FileLine(fact.path, how, first, fact.changes[-1])


def _files_in(text: str) -> Iterator[FileLine]:
    """The files of a line that `joined_lines` wrote; of one in which a model tells a change, the first path."""
    if below := _BELOW_ROOT.match(text):
        yield from (replace(line, path=below["root"] + line.path) for line in _files_in(below["files"]))
        return
    for one in (path for joined in text.split(_SEPARATOR) for path in _out_of_folder(joined)):
        if found := _FILE_LINE.match(one):
            first, last = int(found["first"]), int(found["last"] or found["first"])
            how = _CHANGED if found["how"].startswith(_CHANGED) else found["how"]
            yield from (FileLine(path, how, first, last) for path in found["paths"].split(_JOINED))
        elif _CHANGED in one and (paths := [atom for atom in atoms_in(one) if is_path(atom)]):
            path = min(paths, key=lambda path: (one.find(path), -len(path)))
            yield FileLine(path, _CHANGED, -1, -1, words=one)
