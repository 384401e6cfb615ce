"""The private folder: names, modes, quota, age, reading back."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from clew.errors import InvalidArgument
from clew.tooloutput import Spilled, SpillFolder, SpillPart, SpillRefused


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def spill(folder: SpillFolder, text: str, age_seconds: float = 0) -> Spilled:
    written = folder.write(text)
    assert isinstance(written, Spilled)
    if age_seconds:
        then = written.path.stat().st_mtime - age_seconds
        os.utime(written.path, (then, then))
    return written


def test_what_is_written_can_be_read_back_exactly(tmp_path: Path) -> None:
    folder = SpillFolder(tmp_path / "spill")
    text = "première ligne\n第二行\r\n\ud800 alone\x00\n"
    written = spill(folder, text)
    assert folder.read(written.id) == SpillPart(text, 0, len(text))
    assert (written.chars, written.lines) == (len(text), 3)
    assert written.size_bytes == written.path.stat().st_size


def test_folder_and_files_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        written = spill(SpillFolder(tmp_path / "home" / "spill"), "secret")
    finally:
        os.umask(before)
    assert mode(written.path) == 0o600
    assert mode(tmp_path / "home" / "spill") == 0o700
    assert mode(tmp_path / "home") == 0o700


def test_a_folder_that_others_may_read_is_closed_to_them(tmp_path: Path) -> None:
    (tmp_path / "spill").mkdir(mode=0o755)
    written = spill(SpillFolder(tmp_path / "spill"), "secret")
    assert mode(written.path.parent) == 0o700


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "spill").symlink_to(tmp_path / "elsewhere")
    refused = SpillFolder(tmp_path / "spill").write("secret")
    assert isinstance(refused, SpillRefused)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_ids_are_random_and_nothing_of_the_text(tmp_path: Path) -> None:
    folder = SpillFolder(tmp_path)
    assert spill(folder, "same").id != spill(folder, "same").id


@pytest.mark.parametrize("bad", ["", "..", "../../etc/passwd", "/etc/passwd", "0" * 31, "0" * 32 + "\n", "A" * 32])
def test_an_id_that_is_none_reads_nothing_and_has_no_path(tmp_path: Path, bad: str) -> None:
    folder = SpillFolder(tmp_path)
    refused = folder.read(bad)
    assert isinstance(refused, SpillRefused)
    assert "32 hexadecimal digits" in refused.reason
    with pytest.raises(InvalidArgument):
        folder.path(bad)
    with pytest.raises(InvalidArgument):
        folder.remove(bad)


def test_a_link_planted_in_the_folder_is_not_followed(tmp_path: Path) -> None:
    folder = SpillFolder(tmp_path / "spill")
    spill(folder, "x")
    (tmp_path / "outside").write_text("private")
    folder.path("a" * 32).symlink_to(tmp_path / "outside")
    assert isinstance(folder.read("a" * 32), SpillRefused)


def test_a_text_is_read_in_parts(tmp_path: Path) -> None:
    folder = SpillFolder(tmp_path)
    written = spill(folder, "0123456789")
    part = folder.read(written.id, 0, 4)
    assert isinstance(part, SpillPart)
    assert (part.text, part.next_offset_chars) == ("0123", 4)
    last = folder.read(written.id, 8, 4)
    assert isinstance(last, SpillPart)
    assert (last.text, last.next_offset_chars) == ("89", None)
    beyond = folder.read(written.id, 50, 4)
    assert isinstance(beyond, SpillPart)
    assert (beyond.text, beyond.next_offset_chars) == ("", None)


@pytest.mark.parametrize(("offset", "limit"), [(-1, 5), (0, 0)])
def test_a_part_that_cannot_be_is_refused(tmp_path: Path, offset: int, limit: int) -> None:
    folder = SpillFolder(tmp_path)
    assert isinstance(folder.read(spill(folder, "x").id, offset, limit), SpillRefused)


def test_the_oldest_go_when_the_quota_is_full(tmp_path: Path) -> None:
    folder = SpillFolder(tmp_path, quota_bytes=100)
    old, middle = spill(folder, "a" * 40, age_seconds=20), spill(folder, "b" * 40, age_seconds=10)
    new = spill(folder, "c" * 40)
    assert not old.path.exists()
    assert middle.path.exists()
    assert new.path.exists()
    gone = folder.read(old.id)
    assert isinstance(gone, SpillRefused)
    assert "quota or age" in gone.reason


def test_what_is_still_in_use_is_not_removed_for_the_quota(tmp_path: Path) -> None:
    folder = SpillFolder(tmp_path, quota_bytes=100)
    used = spill(folder, "a" * 60)
    refused = folder.write("b" * 60, keep={used.id})
    assert isinstance(refused, SpillRefused)
    assert used.path.exists()


def test_a_text_larger_than_the_quota_is_refused_and_removes_nothing(tmp_path: Path) -> None:
    folder = SpillFolder(tmp_path, quota_bytes=100)
    there = spill(folder, "a" * 60)
    refused = folder.write("é" * 51)
    assert refused == SpillRefused("its 102 bytes are more than the quota of 100 bytes")
    assert there.path.exists()


def test_files_over_age_go_at_the_next_start(tmp_path: Path) -> None:
    folder = SpillFolder(tmp_path, max_age_seconds=60)
    old, young = spill(folder, "a", age_seconds=120), spill(folder, "b", age_seconds=30)
    SpillFolder(tmp_path, max_age_seconds=60)
    assert not old.path.exists()
    assert young.path.exists()


def test_files_over_age_go_at_the_next_write_too(tmp_path: Path) -> None:
    now = [0.0]
    folder = SpillFolder(tmp_path, max_age_seconds=60, clock=lambda: now[0])
    first = spill(folder, "a")
    now[0] = first.path.stat().st_mtime + 61
    folder.write("b")
    assert not first.path.exists()


def test_files_of_others_in_the_folder_are_left_alone(tmp_path: Path) -> None:
    folder = SpillFolder(tmp_path, quota_bytes=10, max_age_seconds=60)
    (tmp_path / "notes.txt").write_text("mine, and longer than the quota")
    os.utime(tmp_path / "notes.txt", (0, 0))
    spill(folder, "0123456789")
    assert folder.clean_up() == []
    assert (tmp_path / "notes.txt").exists()


def test_one_text_can_be_removed(tmp_path: Path) -> None:
    folder = SpillFolder(tmp_path)
    written = spill(folder, "x")
    assert folder.remove(written.id)
    assert not folder.remove(written.id)


@pytest.mark.parametrize(("quota", "age"), [(0, 1.0), (1, 0.0)])
def test_limits_that_keep_nothing_are_refused(tmp_path: Path, quota: int, age: float) -> None:
    with pytest.raises(InvalidArgument):
        SpillFolder(tmp_path, quota_bytes=quota, max_age_seconds=age)
