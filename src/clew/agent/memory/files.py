"""The files of the memory: their entries, atomic replacement with one writer at a time, and a journal of changes.

A file is replaced only after the new one and the journal line are flushed, so what a change removes can always be read
in the journal. Entries are list items of markdown; everything else in a file is kept as it is, character by character.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import json
import os
import re
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from clew.agent.files.disk import FileStamp, read_prefix
from clew.agent.safe_text import without_invisible
from clew.errors import MemoryUnusable
from clew.portable import flush_folder, lock_file

LOCK = ".memory.lock"
JOURNAL = "memory.log.jsonl"
JOURNAL_BYTES = 256 * 1024
"""Above it the older half is dropped."""
MAX_BYTES = 1 << 20
LOCK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """The text of a file, and its stamp; None where there is no file."""

    text: str
    stamp: FileStamp | None
    problem: str | None = None
    """Why it cannot be changed; the text is then what can be decoded of it."""


def read_memory_file(path: Path) -> MemoryFile:
    """Read a file; empty where there is none. Never raises: see `problem`."""
    try:
        content, found = read_prefix(path, MAX_BYTES + 1)
    except FileNotFoundError:
        return MemoryFile("", None)
    except OSError as problem:
        return MemoryFile("", None, f"{path} cannot be read: {problem.strerror or problem}; move it away")
    if len(content) > MAX_BYTES:
        return MemoryFile("", None, f"{path} has {found.st_size:,} bytes, which is no memory; move it away")
    return _decoded(path, content, FileStamp.of(found))


def replace_memory_file(path: Path, text: str, stamp: FileStamp | None, change: Mapping[str, str]) -> bool:
    """Replace a file that has this stamp, and put the change in the journal; False where the file has changed since.

    The caller holds the lock. Raises OSError, and then the file is unchanged.
    """
    target = path.resolve()  # a person may keep it elsewhere and link to it
    partial = target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")
    _remove_abandoned(target)
    try:
        _write_new(partial, text.encode("utf-8"))
        if _stamp_at(path) != stamp:
            # An editor knows nothing of our lock.
            return False
        _append_to_journal(path.with_name(JOURNAL), change)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    flush_folder(target.parent)
    return True


@contextlib.contextmanager
def memory_lock(folder: Path) -> Iterator[None]:
    """Holds the lock on the memory in a folder, over threads and processes. Raises MemoryUnusable after 10 seconds."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        _acquire(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def flush_file(path: Path) -> None:
    """Flush a file that another program may have written; does nothing where there is none."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _decoded(path: Path, content: bytes, stamp: FileStamp) -> MemoryFile:
    try:
        return MemoryFile(content.decode("utf-8-sig"), stamp)
    except UnicodeDecodeError as error:
        problem = f"{path} is not UTF-8 at byte {error.start:,}; save it as UTF-8"
        return MemoryFile(content.decode("utf-8-sig", "replace"), stamp, problem)


def _acquire(descriptor: int, folder: Path) -> None:
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            lock_file(descriptor, wait=False)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise MemoryUnusable(
                    f"another program has held {folder / LOCK} for {LOCK_SECONDS:.0f} seconds; try again later"
                ) from None
            time.sleep(0.005)
        except OSError as problem:
            if problem.errno in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):  # a file system without locks
                return
            raise
        else:
            return


def _write_new(partial: Path, content: bytes) -> None:
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _remove_abandoned(target: Path) -> None:
    """Remove what a killed writer left; the holder of the lock is the only writer."""
    for partial in target.parent.glob(f".{glob.escape(target.name)}.*.part"):
        partial.unlink(missing_ok=True)


def _append_to_journal(journal: Path, change: Mapping[str, str]) -> None:
    line = json.dumps(change, ensure_ascii=False) + "\n"
    _shorten_journal(journal)
    descriptor = os.open(journal, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "r+b", buffering=0) as file:
        os.fchmod(file.fileno(), 0o600)
        size = file.seek(0, os.SEEK_END)
        # A killed writer may have left half a line.
        is_torn = size > 0 and os.pread(file.fileno(), 1, size - 1) != b"\n"
        file.write((("\n" if is_torn else "") + line).encode("utf-8"))
        os.fsync(file.fileno())


def _shorten_journal(journal: Path) -> None:
    try:
        if journal.stat().st_size <= JOURNAL_BYTES:
            return
    except FileNotFoundError:
        return
    newest = journal.read_bytes()[-JOURNAL_BYTES // 2 :].partition(b"\n")[2]
    partial = journal.with_name(f".{journal.name}.{secrets.token_hex(8)}.part")
    try:
        _write_new(partial, newest)
        partial.replace(journal)
    finally:
        partial.unlink(missing_ok=True)


def _stamp_at(path: Path) -> FileStamp | None:
    try:
        return FileStamp.of(path.stat())
    except FileNotFoundError:
        return None


_ITEM = re.compile(r"[-*+][ \t]+(?=.*\w)(\S.*)")
_MARKERS = re.compile(r"(?:[-*+]\s+)+")
_CODE = "```"
_ENDS_ITEM = ("#", _CODE, ">", "---", "***", "___")


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """Lines that belong together: an entry, or a line between entries."""

    lines: tuple[str, ...]
    entry: str | None = None
    """The entry's text, on one line; None for other lines."""


def parse_blocks(text: str) -> list[MemoryBlock]:
    """The text as blocks; `join_blocks` gives the same text back."""
    blocks: list[MemoryBlock] = []
    lines = text.split("\n")
    at, is_code = 0, False
    while at < len(lines):
        item = None if is_code else _ITEM.match(lines[at].rstrip("\r"))
        if item is None:
            is_code ^= lines[at].lstrip().startswith(_CODE)
            blocks.append(MemoryBlock((lines[at],)))
            at += 1
            continue
        stop = at + 1
        while stop < len(lines) and _continues_item(lines[stop]):
            stop += 1
        entry = " ".join(" ".join([item[1], *lines[at + 1 : stop]]).split())
        blocks.append(MemoryBlock(tuple(lines[at:stop]), entry))
        at = stop
    return blocks


def join_blocks(blocks: Sequence[MemoryBlock]) -> str:
    return "\n".join(line for block in blocks for line in block.lines)


def entries_of(text: str) -> list[str]:
    """The entries of a text, in their order."""
    return [block.entry for block in parse_blocks(text) if block.entry is not None]


def clean_entry(text: str) -> str:
    """A text as an entry: one paragraph without invisible characters; empty where it has no words."""
    words = " ".join(without_invisible(" ".join(text.split())).split())
    words = _MARKERS.sub("", words, count=1) if _MARKERS.match(words) else words
    return words if re.search(r"\w", words) else ""


def with_entry(text: str, entry: str) -> str:
    """The text with an entry added after the last one."""
    blocks = parse_blocks(text)
    indexes = [at for at, block in enumerate(blocks) if block.entry is not None]
    new = MemoryBlock((f"- {entry}{_carriage_return(text)}",), entry)
    if indexes:
        blocks.insert(indexes[-1] + 1, new)
    else:
        kept = text.rstrip()
        # After an unclosed code fence it would be code.
        is_open = sum(line.lstrip().startswith(_CODE) for line in kept.split("\n")) % 2 == 1
        if is_open:
            blocks = [new, MemoryBlock((_carriage_return(text),)), *blocks]
        else:
            above = [*parse_blocks(kept), MemoryBlock((_carriage_return(text),))] if kept else []
            blocks = [*above, new, MemoryBlock(("",))]
    changed = join_blocks(blocks)
    return changed if changed.endswith("\n") else changed + "\n"


def with_entry_replaced(text: str, old: str, new: str) -> str:
    """The text with the entry `old` (as `entries_of` gives it) replaced; copies of it are removed."""
    blocks = parse_blocks(text)
    first = next(at for at, block in enumerate(blocks) if block.entry == old)
    blocks[first] = MemoryBlock((f"- {new}{_carriage_return(text)}",), new)
    return join_blocks([block for block in blocks if block.entry != old])


def without_entry(text: str, old: str) -> str:
    """The text without an entry and its copies."""
    return join_blocks([block for block in parse_blocks(text) if block.entry != old])


def matching_entries(entries: Sequence[str], part: str) -> list[str]:
    """The entries that contain a text, with or without regard to case; only the one that equals it, if there is one."""
    wanted = " ".join(part.split())
    if not wanted:
        return []
    if wanted in entries:
        return [wanted]
    exact = [entry for entry in entries if wanted in entry]
    return exact or [entry for entry in entries if wanted.casefold() in entry.casefold()]


def _continues_item(line: str) -> bool:
    """Whether a line belongs to the item above it: it is indented, or plain text right after it."""
    if not line.strip():
        return False
    if line[0] in " \t":
        return True
    return not line.startswith(_ENDS_ITEM) and not re.match(r"[-*+][ \t]", line)


def _carriage_return(text: str) -> str:
    """What precedes a line feed in this text."""
    return "\r" if "\r\n" in text else ""
