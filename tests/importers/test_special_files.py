"""Session files that never end: pipes, devices, views without end. Each is refused at once."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from clew.errors import UnreadableTranscript
from clew.importers import open_sessions
from clew.importers.session import Notices
from clew.importers.source import ByteSource, ReadLimits

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"


def read_all(path: Path) -> None:
    with open_sessions(path) as found:
        for session in found.sessions:
            list(session.entries())


def test_a_pipe_that_nobody_writes_to_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "x.json"
    os.mkfifo(pipe)
    with pytest.raises(UnreadableTranscript, match="is a pipe"):
        read_all(pipe)


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom"])
def test_a_link_to_a_device_is_refused(device: str, tmp_path: Path) -> None:
    link = tmp_path / "x.jsonl"
    link.symlink_to(device)
    with pytest.raises(UnreadableTranscript, match="is a device"):
        read_all(link)


def test_a_link_that_leads_to_itself_is_refused(tmp_path: Path) -> None:
    link = tmp_path / "x.jsonl"
    link.symlink_to(link)
    with pytest.raises(UnreadableTranscript):
        read_all(link)


def test_the_output_of_a_command_can_still_be_given_as_a_file() -> None:
    read, write = os.pipe()
    os.write(write, b'{"messages": []}')
    os.close(write)
    source = ByteSource(f"/dev/fd/{read}", None, ReadLimits())
    os.close(read)
    assert b"".join(source.chunks(Notices())) == b'{"messages": []}'
    source.close()


@pytest.mark.parametrize("name", ["/dev/stdin", "-"])
def test_a_device_as_standard_input_is_refused(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "clew", "import", name]
    environ = {**os.environ, "CLEW_HOME": str(tmp_path)}
    with Path("/dev/zero").open("rb") as endless:
        ran = subprocess.run(command, stdin=endless, env=environ, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 1 and "is a device" in ran.stdout + ran.stderr


def test_an_endless_line_is_refused_at_the_limit_of_a_line() -> None:
    with subprocess.Popen(["cat", "/dev/zero"], stdout=subprocess.PIPE) as endless:
        assert endless.stdout is not None
        with pytest.raises(UnreadableTranscript, match="more than 1 MiB"):
            ByteSource(endless.stdout, None, ReadLimits(value_bytes=1 << 20))  # type: ignore[arg-type]
        endless.kill()


def test_an_endless_stream_is_refused_at_the_limit() -> None:
    with subprocess.Popen(["cat", "/dev/zero"], stdout=subprocess.PIPE) as endless:
        assert endless.stdout is not None
        with pytest.raises(UnreadableTranscript, match="holds more than 1 MiB"):
            ByteSource(endless.stdout, None, ReadLimits(total_bytes=1 << 20))  # type: ignore[arg-type]
        endless.kill()


OPENCODE = {
    "session": "i AS id, NULL AS parent_id, 'x' AS title, '/' AS directory, '1' AS version, 0 AS time_created, "
    "0 AS time_updated, 'p' AS project_id",
    "message": "i AS id, 1 AS session_id, '{}' AS data, 0 AS time_created",
    "part": "i AS id, 1 AS session_id, 1 AS message_id, '{}' AS data, 0 AS time_created",
}
HERMES = {
    "sessions": "i AS id, 'cli' AS source, 0 AS started_at, NULL AS title, NULL AS parent_session_id, NULL AS model, "
    "NULL AS system_prompt, NULL AS end_reason, NULL AS ended_at",
    "messages": "i AS id, 1 AS session_id, 'user' AS role, 'x' AS content, NULL AS tool_calls, NULL AS tool_call_id, "
    "NULL AS tool_name, 0 AS timestamp",
}


@pytest.mark.parametrize("views", [OPENCODE, HERMES], ids=["opencode", "hermes"])
def test_a_database_whose_tables_are_views_is_refused(views: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as connection:
        for name, columns in views.items():
            connection.execute(f"CREATE VIEW {name} AS {ENDLESS} SELECT {columns} FROM n")
        connection.commit()
    with pytest.raises(UnreadableTranscript, match="is a view, not a table"):
        read_all(path)
