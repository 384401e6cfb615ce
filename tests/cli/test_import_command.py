"""`clew import` on files and folders as people have them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from clew.cli import main

REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "session_files"


def claude(session: str, turns: int, **fields: Any) -> str:
    lines = []
    for number in range(turns):
        words = {"role": "user", "content": f"{session} asks {number}."}
        parent = f"{session}{number - 1}" if number else None
        line = {"type": "user", "uuid": f"{session}{number}", "parentUuid": parent, "sessionId": session}
        lines.append(json.dumps({**line, "message": words, "timestamp": "2026-03-01T10:00:00Z", **fields}))
    return "\n".join(lines) + "\n"


def rollout(session: str) -> str:
    def line(kind: str, **payload: Any) -> str:
        return json.dumps({"timestamp": "2026-03-01T10:00:00Z", "type": kind, "payload": payload})

    def said(role: str, words: str) -> str:
        return line("response_item", type="message", role=role, content=[{"type": "text", "text": words}])

    used = {"last_token_usage": {"input_tokens": 9, "output_tokens": 2}}
    lines = [line("session_meta", id=session), line("turn_context", model="gpt-5.1"), said("user", "Count to two.")]
    return "\n".join([*lines, said("assistant", "One, two."), line("event_msg", type="token_count", info=used)]) + "\n"


def written(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


def run(capsys: pytest.CaptureFixture[str], home: Path, *words: str) -> tuple[int, str, str]:
    code = main(["import", *words], {"CLEW_HOME": str(home / "home"), "COLUMNS": "100"})
    out, err = capsys.readouterr()
    return code, out, err


def told(capsys: pytest.CaptureFixture[str], home: Path, *words: str) -> Any:
    code, out, _ = run(capsys, home, *words, "--json")
    assert code == 0
    return json.loads(out)


def test_a_folder_is_taken_in_whole_with_its_subagents(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    projects = tmp_path / "projects"
    written(projects / "p" / "s1.jsonl", claude("s1", 3))
    written(projects / "p" / "s1" / "subagents" / "agent-7.jsonl", claude("s1", 2, isSidechain=True, agentId="7"))
    written(projects / "q" / "rollout.jsonl", rollout("th-1"))
    written(projects / "q" / "settings.json", '{"theme": "dark"}')
    account = told(capsys, tmp_path, str(projects))
    assert [(each["session"], each["state"], each["added"]) for each in account["sessions"]] == [
        ("claude-code-s1", "new", 3),
        ("codex-th-1", "new", 2),
        ("claude-code-s1.7", "new", 2),
    ]
    assert (account["messages_added"], account["messages_known"], account["calls_added"]) == (7, 0, 1)
    [skipped] = account["skipped"]
    assert skipped["source"].endswith("settings.json")
    again = told(capsys, tmp_path, str(projects))
    assert (again["messages_added"], again["messages_known"], again["calls_added"]) == (0, 7, 0)
    assert {each["state"] for each in again["sessions"]} == {"unchanged"}


def test_the_report_is_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path / "s1.jsonl", claude("s1", 3))
    code, out, err = run(capsys, tmp_path, file)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "     added  known  from         title",
        "new      3      0  claude-code  s1 asks 0.",
        "",
        "1 session (1 new): 3 messages added, 0 already there",
        f"kept in {tmp_path / 'home' / 'state.db'}",
    ]
    written(tmp_path / "s1.jsonl", claude("s1", 5))
    assert "grown      2      3" in run(capsys, tmp_path, file)[1]
    assert run(capsys, tmp_path, file)[1] == "1 session (1 unchanged): 0 messages added, 5 already there\n"


def test_a_dry_run_makes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path / "r.jsonl", rollout("th-1"))
    code, out, _ = run(capsys, tmp_path, file, "--dry-run")
    assert code == 0
    assert "1 session (1 new): 2 messages would be added, 0 already there; usage of 1 call" in out
    assert "nothing was written" in out
    assert not (tmp_path / "home").exists()
    told(capsys, tmp_path, file)
    assert told(capsys, tmp_path, file, "--dry-run")["messages_known"] == 2


def test_broken_lines_are_told_with_their_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = claude("s1", 3).splitlines()
    file = written(tmp_path / "s1.jsonl", "\n".join([lines[0], '{"oops', lines[1], lines[2], '{"cut']))
    code, out, err = run(capsys, tmp_path, file)
    assert code == 0
    assert "3 messages added" in out
    assert f"clew: {file}: broken lines were left out (line 2)\n" in err
    assert "the last line is cut off" in err and "(line 5)" in err


def test_a_named_file_that_cannot_be_read_fails_and_the_others_are_taken_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = written(tmp_path / "s1.jsonl", claude("s1", 2))
    bad = written(tmp_path / "page.json", "<html>")
    code, out, err = run(capsys, tmp_path, bad, str(tmp_path / "absent.jsonl"), good)
    assert code == 1
    assert "1 session (1 new): 2 messages added" in out
    assert "skipped" not in out, "it is on stderr already, and a terminal shows both"
    assert err.count(f"clew: {bad}: is HTML or XML") == 1
    assert err.count("there is no such file. Check the path") == 1


@pytest.mark.parametrize("words", [["absent.jsonl"], ["page.json"], ["r.jsonl", "--from", "pi"]])
def test_an_import_that_fails_creates_no_database(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    written(tmp_path / "page.json", "<html>")
    written(tmp_path / "r.jsonl", rollout("th-1"))
    assert run(capsys, tmp_path, str(tmp_path / words[0]), *words[1:])[0] == 1
    assert not (tmp_path / "home").exists()


def test_from_takes_one_kind_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path / "f" / "s1.jsonl", claude("s1", 2))
    written(tmp_path / "f" / "r.jsonl", rollout("th-1"))
    account = told(capsys, tmp_path, str(tmp_path / "f"), "--from", "codex")
    assert [each["kind"] for each in account["sessions"]] == ["codex"]
    assert account["skipped"][0]["reason"] == "is of claude-code, and --from asks for codex"
    assert run(capsys, tmp_path, str(tmp_path / "f" / "s1.jsonl"), "--from", "codex")[0] == 1
    assert run(capsys, tmp_path, str(tmp_path / "f"), "--from", "emacs")[0] == 2


def test_a_folder_with_nothing_in_it_is_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty").mkdir()
    code, out, err = run(capsys, tmp_path, str(tmp_path / "empty"))
    assert (code, out) == (2, "")
    assert "there is no .jsonl, .json or .db file" in err
    assert run(capsys, tmp_path, "-", "-")[0] == 2
    assert run(capsys, tmp_path)[0] == 2


def test_standard_input_is_a_file_too(tmp_path: Path) -> None:
    raw = json.dumps([{"role": "user", "content": "Hoist!"}])
    environ = {"CLEW_HOME": str(tmp_path), "PYTHONUTF8": "1"}
    words = [sys.executable, "-m", "clew", "import", "-", "--json"]
    done = subprocess.run(words, input=raw, env=environ, capture_output=True, text=True, check=True)
    assert [(each["source"], each["kind"], each["title"]) for each in json.loads(done.stdout)["sessions"]] == [
        ("standard input", "json", "Hoist!")
    ]


def test_many_sessions_are_summed_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(25):
        written(tmp_path / "f" / f"{number}.jsonl", claude(f"s{number}", 1))
    for number in range(7):
        written(tmp_path / "f" / f"x{number}.json", "{}")
    out = run(capsys, tmp_path, str(tmp_path / "f"))[1]
    assert "... and 5 more; --json lists all" in out
    assert "25 sessions (25 new): 25 messages added, 0 already there" in out
    assert "7 skipped:" in out and "  ... and 2 more; --json lists all" in out


def test_what_a_file_says_does_not_drive_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path / "f.json", json.dumps([{"role": "user", "content": "\x1b[2Jgone \u202e\x07"}]))
    _, out, err = run(capsys, tmp_path, file)
    assert "\x1b" not in out + err and "\x07" not in out


@pytest.mark.skipif(not REAL.exists(), reason="the real session files are not here")
def test_real_session_files_are_taken_in_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    account = told(capsys, tmp_path, str(REAL))
    assert len(account["sessions"]) >= 4
    assert account["skipped"] == []
    assert account["messages_added"] > 1_000
    again = told(capsys, tmp_path, str(REAL))
    assert (again["messages_added"], again["messages_known"]) == (0, account["messages_added"])


def test_without_a_file_the_usual_folders_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environ = {"HOME": str(tmp_path), "COLUMNS": "100"}
    assert main(["import"], environ) == 2
    assert "no known program has sessions" in capsys.readouterr().err
    written(tmp_path / ".claude" / "projects" / "p" / "s1.jsonl", claude("s1", 3))
    written(tmp_path / ".codex" / "sessions" / "2026" / "rollout.jsonl", rollout("th-1"))
    assert main(["import", "--json"], environ) == 0
    out, err = capsys.readouterr()
    assert [each["session"] for each in json.loads(out)["sessions"]] == ["claude-code-s1", "codex-th-1"]
    assert ".claude/projects" in err and ".codex/sessions" in err


def test_watching_follows_until_it_is_interrupted(tmp_path: Path) -> None:
    projects = tmp_path / ".claude" / "projects"
    projects.mkdir(parents=True)
    words = [sys.executable, "-m", "clew", "import", "--watch", "--every", "1"]
    environ = {"HOME": str(tmp_path), "PATH": "", "PYTHONPATH": ":".join(filter(None, sys.path))}
    with subprocess.Popen(words, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None and watching.stderr is not None
        while "Ctrl-C" not in watching.stderr.readline():
            pass
        written(projects / "s1.jsonl", claude("s1", 3))
        first = watching.stdout.readline()
        written(projects / "s2.jsonl", claude("s2", 2))
        second = watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        rest, err = watching.communicate(timeout=60)
    assert first.split()[1:] == ["new", "3", "claude-code", "s1", "asks", "0."]
    assert second.split()[1:] == ["new", "2", "claude-code", "s2", "asks", "0."]
    assert rest == f"2 sessions: 5 messages added; kept in {tmp_path}/.clew/state.db\n"
    assert watching.returncode == 0 and err == ""


def test_watching_needs_something_that_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, tmp_path, "--watch", str(tmp_path / "nowhere"))
    assert code == 2 and "--watch follows files and folders that are there" in err
