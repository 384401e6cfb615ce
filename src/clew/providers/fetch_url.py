"""A model file from an address, piece by piece to the disk; a download that broke goes on where it stopped.

Only https, or http on this machine, and so for every place that a server sends us on to. Goes on only where the server
proves by its ETag that the file is still the same.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import urljoin, urlsplit

from clew.errors import InvalidArgument
from clew.providers.fetch import FetchFailed, Progress, check_space, disk_faults, take_place

if TYPE_CHECKING:
    import aiohttp

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_MOST_REDIRECTS = 6
_PIECE_BYTES = 1 << 18
_CONNECT_SECONDS, _IDLE_SECONDS = 20.0, 60.0


@dataclass(frozen=True, slots=True)
class _Begun:
    """What is known of a download that broke."""

    address: str
    etag: str


class _Part:
    """The file as far as it has come, and the note beside it that says what it is a part of."""

    def __init__(self, target: Path, address: str) -> None:
        self.file = target.with_name(f".{target.name}.part")
        self._note = target.with_name(f".{target.name}.part.json")
        self._address = address

    @property
    def come(self) -> int:
        return self.file.stat().st_size if self.file.exists() else 0

    def headers(self) -> dict[str, str]:
        """Ask for the rest only; for the whole where nothing proves that it is the same file."""
        # Compressed, a range would count other bytes than ours.
        plain = {"Accept-Encoding": "identity"}
        with contextlib.suppress(OSError, ValueError, TypeError):
            begun = _Begun(**json.loads(self._note.read_text(encoding="utf-8")))
            if begun.address == self._address and self.come:
                return {**plain, "Range": f"bytes={self.come}-", "If-Range": begun.etag}
        return plain

    def opened(self, etag: str, *, goes_on: bool) -> BinaryIO:
        with disk_faults(self.file):
            self._note.unlink(missing_ok=True)
            if etag and not etag.startswith("W/"):
                self._note.write_text(json.dumps(asdict(_Begun(self._address, etag))), encoding="utf-8")
            return self.file.open("ab" if goes_on else "wb")

    def put(self, file: BinaryIO, piece: bytes) -> None:
        with disk_faults(self.file):
            file.write(piece)

    def done(self, target: Path) -> Path:
        with disk_faults(target):
            self._note.unlink(missing_ok=True)
            return take_place(self.file, target)


async def from_address(address: str, target: Path, tell: Progress) -> Path:
    """The file at an address, under the target's name."""
    import aiohttp

    part, host = _Part(target, address), urlsplit(address).hostname
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=_IDLE_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=host not in _LOOPBACK) as session,
            await _answer(session, address, part.headers()) as response,
        ):
            await _written(response, part, tell)
    except TimeoutError as error:
        raise FetchFailed(f"{host} sent nothing in time; what has come is kept, try again") from error
    except aiohttp.ClientError as error:
        # The words may hold the address; what stands behind its question mark can be a key.
        told = f"{type(error).__name__}: {error}".split("?")[0]
        raise FetchFailed(f"{host}: {told}; what has come is kept, try again") from error
    return part.done(target)


async def _answer(session: aiohttp.ClientSession, address: str, headers: Mapping[str, str]) -> aiohttp.ClientResponse:
    """The answer at the end of all redirects, each of which is looked at first."""
    for _ in range(_MOST_REDIRECTS):
        _check(address)
        response = await session.get(address, headers=headers, allow_redirects=False)
        if response.status in (301, 302, 303, 307, 308) and "location" in response.headers:
            address = urljoin(address, response.headers["location"])
            response.release()
            continue
        if response.status in (200, 206):
            return response
        response.close()
        raise FetchFailed(f"{urlsplit(address).hostname} answered {response.status} {response.reason}; is it there?")
    raise FetchFailed(f"{urlsplit(address).hostname} sends on and on; give the address of the file itself")


def _check(address: str) -> None:
    parts = urlsplit(address)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise InvalidArgument(f"{parts.scheme}://{parts.hostname} is not fetched from; models come over https only")


async def _written(response: aiohttp.ClientResponse, part: _Part, tell: Progress) -> None:
    goes_on = response.status == 206
    come = part.come if goes_on else 0
    length = response.content_length
    total = None if length is None else come + length
    check_space(part.file.parent, length or 0)
    with part.opened(response.headers.get("etag", ""), goes_on=goes_on) as file:
        async for piece in response.content.iter_chunked(_PIECE_BYTES):
            part.put(file, piece)
            come += len(piece)
            tell(come, total)
    if total is not None and come != total:
        raise FetchFailed(f"{come:,} of {total:,} bytes came; what has come is kept, try again")
