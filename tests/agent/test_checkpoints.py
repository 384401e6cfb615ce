"""Checkpoints: what files held before a turn can be put back, and the work of others is not overwritten."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from clew.agent.files.checkpoints import MAX_CHECKPOINTS, MAX_FILE_BYTES, Checkpoints

CONTENTS = st.one_of(st.none(), st.binary(max_size=40))
NAMES = ("a.txt", "folder/b.bin", "c")


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def write(checkpoints: Checkpoints, path: Path, content: bytes) -> None:
    checkpoints.record(path, content)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)


@settings(max_examples=40, deadline=None)
@given(
    before=st.dictionaries(st.sampled_from(NAMES), st.binary(max_size=40)),
    edits=st.lists(st.tuples(st.sampled_from(NAMES), st.binary(max_size=40)), max_size=6),
)
def test_what_a_turn_did_to_files_is_undone(before: dict[str, bytes], edits: list[tuple[str, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        project, checkpoints = Path(name) / "project", Checkpoints(Path(name) / "home")
        (project / "folder").mkdir(parents=True)
        for path, content in before.items():
            (project / path).write_bytes(content)
        checkpoints.begin()
        for path, content in edits:
            write(checkpoints, project / path, content)
        if checkpoints.id is not None:
            done = Checkpoints(Path(name) / "home").restore(checkpoints.id)
            assert not done.changed_since
            assert not done.impossible
        assert files_in(project) == before


def test_what_somebody_else_changed_since_stays_unless_it_is_named(tmp_path: Path) -> None:
    checkpoints, mine, theirs = Checkpoints(tmp_path / "home"), tmp_path / "mine", tmp_path / "theirs"
    mine.write_bytes(b"old")
    theirs.write_bytes(b"old")
    for path in (mine, theirs):
        write(checkpoints, path, b"new")
    theirs.write_bytes(b"theirs")
    assert checkpoints.id is not None
    done = checkpoints.restore(checkpoints.id)
    assert (done.restored, done.changed_since) == ([str(mine)], [str(theirs)])
    assert (mine.read_bytes(), theirs.read_bytes()) == (b"old", b"theirs")
    assert checkpoints.restore(checkpoints.id, also=[str(theirs)]).restored == [str(theirs)]
    assert theirs.read_bytes() == b"old"


def test_a_file_that_is_too_large_to_keep_is_named(tmp_path: Path) -> None:
    checkpoints, large = Checkpoints(tmp_path / "home"), tmp_path / "large"
    large.write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    write(checkpoints, large, b"small")
    assert checkpoints.id is not None
    assert checkpoints.restore(checkpoints.id).impossible == [str(large)]
    assert large.read_bytes() == b"small"


def test_old_checkpoints_go_and_only_the_owner_reads_them(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path / "home")
    for number in range(MAX_CHECKPOINTS + 5):
        checkpoints.begin()
        write(checkpoints, tmp_path / "file", str(number).encode())
    kept = list((tmp_path / "home").iterdir())
    assert len(kept) == MAX_CHECKPOINTS
    assert {file.stat().st_mode & 0o077 for file in [*kept, tmp_path / "home"]} == {0}
