"""Real faults: a disk that takes no more, a folder that cannot be, a writer killed half-way, many writers at once."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from clew.tooloutput import Spilled, SpillFolder, SpillPart, SpillRefused, ToolOutputLimits, bound_result
from clew.tooloutput.bound import CutOutput

# The kernel refuses every byte over the limit, as it does on a full disk.
TAKES_64_KB = """
import resource, signal, sys
from pathlib import Path
from clew.tooloutput import SpillFolder
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
folder = SpillFolder(Path(sys.argv[1]))
"""


def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", TAKES_64_KB + textwrap.dedent(script), str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def leave_a_half_written_file(folder: Path) -> None:
    """A writer that the kernel kills in the middle of its write."""
    died = run("signal.signal(signal.SIGXFSZ, signal.SIG_DFL); folder.write('x' * 1_000_000)", folder)
    assert died.returncode < 0


def test_a_write_that_the_disk_refuses_is_a_value_and_leaves_nothing(tmp_path: Path) -> None:
    done = run("print(folder.write('x' * 1_000_000)); print(folder.write('y' * 100).chars)", tmp_path)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith("SpillRefused(")
    assert "cannot be written" in first
    assert second == "100"
    assert [path.suffix for path in tmp_path.iterdir()] == [".txt"]


def test_a_writer_killed_half_way_leaves_nothing_that_counts_and_the_next_start_cleans_up(tmp_path: Path) -> None:
    leave_a_half_written_file(tmp_path)
    [half] = tmp_path.iterdir()
    assert half.stat().st_size == 65_536
    assert half.suffix == ".part"
    SpillFolder(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_another_process_is_writing_is_not_cleaned_up(tmp_path: Path) -> None:
    holding = f"""
import fcntl, os, sys
from pathlib import Path
from clew.tooloutput.folder import _open_locked
descriptor = _open_locked(Path({str(tmp_path)!r}) / ("." + "0" * 32 + ".part"))
print("ready", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", holding], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        SpillFolder(tmp_path)
        assert len(list(tmp_path.iterdir())) == 1
        assert writer.stdin is not None
        writer.stdin.close()
    SpillFolder(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_below_a_file_keeps_the_result_cut_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    folder = SpillFolder(tmp_path / "file" / "spill")
    refused = folder.write("x")
    assert isinstance(refused, SpillRefused)
    text = "".join(f"row {number}\n" for number in range(5_000))
    bound = bound_result({"role": "tool", "tool_call_id": "c1", "content": text}, folder, ToolOutputLimits(2_000))
    assert isinstance(bound.outcome, CutOutput)
    assert bound.outcome.reason == refused.reason
    content = bound.message["content"]
    assert isinstance(content, str)
    assert len(content) <= 2_000
    assert refused.reason in content
    assert content.startswith("row 0\n")
    assert content.endswith("row 4999\n")


def test_many_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    def write_ten(name: int) -> list[tuple[str, str]]:
        folder = SpillFolder(tmp_path)
        written = []
        for number in range(10):
            text = f"{name}:{number}\n" * 500
            spilled = folder.write(text)
            assert isinstance(spilled, Spilled)
            written.append((spilled.id, text))
        return written

    with ThreadPoolExecutor(8) as pool:
        everything = [entry for entries in pool.map(write_ten, range(8)) for entry in entries]
    folder = SpillFolder(tmp_path)
    assert len({spill_id for spill_id, _ in everything}) == 80
    for spill_id, text in everything:
        part = folder.read(spill_id)
        assert isinstance(part, SpillPart)
        assert part.text == text


def test_many_writers_at_a_small_quota_end_within_it(tmp_path: Path) -> None:
    def write_some(_: int) -> None:
        folder = SpillFolder(tmp_path, quota_bytes=5_000)
        for _ in range(10):
            assert isinstance(folder.write("x" * 900), Spilled)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(write_some, range(6)))
    SpillFolder(tmp_path, quota_bytes=5_000)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 5_000
