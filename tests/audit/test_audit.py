"""`clew audit` over session files with compactions in them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from clew.audit import Audit, audit_sources
from clew.audit.page import audit_page, closing_line
from clew.cli import main
from clew.importers.import_files import import_sources

if TYPE_CHECKING:
    from collections.abc import Callable

SECRET = "ghp_" + "a1B2" * 9
FILLER = "The build of part {0} printed nothing that anybody asked for, and went on with the next part.\n" * 12
MODEL = "claude-sonnet-4-5"


class ClaudeLog:
    """A session file of Claude Code, line by line; a minute passes with each."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.minute = 0

    def add(self, kind: str, content: Any, **more: Any) -> None:
        number = len(self.lines)
        at = f"2026-03-01T{10 + self.minute // 60:02}:{self.minute % 60:02}:00Z"
        message = {"role": kind, "content": content, **more.pop("message", {})}
        above = f"u{number - 1}" if number else None
        line = {"type": kind, "uuid": f"u{number}", "parentUuid": above, "sessionId": "s1", "timestamp": at}
        self.lines.append({**line, "message": message, **more})
        self.minute += 1

    def says(self, text: str, usage: dict[str, int] | None = None, calls: Sequence[dict[str, Any]] = ()) -> None:
        blocks = [{"type": "text", "text": text}, *calls]
        about = {"id": f"msg_{len(self.lines):020}", "model": MODEL, "usage": usage or {}}
        self.add("assistant", blocks, message=about)

    def reads(self, path: str, text: str) -> None:
        name = f"toolu_{len(self.lines)}"
        self.says("I read it.", calls=[{"type": "tool_use", "id": name, "name": "Read", "input": {"file_path": path}}])
        self.add("user", [{"type": "tool_result", "tool_use_id": name, "content": text}])

    def write(self, path: Path) -> Path:
        path.write_text("".join(f"{json.dumps(line)}\n" for line in self.lines), encoding="utf-8")
        return path


@pytest.fixture
def log() -> ClaudeLog:
    made = ClaudeLog()
    made.add("user", "Find out why the invoices of Monday are late.")
    made.reads("/srv/app/invoices.py", f"the invoice worker waits for lock_timeout = 9317 seconds\n{FILLER}")
    for number in range(12):
        made.says(FILLER.format(number))
        made.add("user", f"Go on with part {number}.")
    made.says(
        "The invoice worker waits for the lock.",
        {
            "input_tokens": 10,
            "cache_read_input_tokens": 30_000,
            "cache_creation_input_tokens": 500,
            "output_tokens": 90,
        },
    )
    made.add("user", "This session is being continued: the invoices are late.", isCompactSummary=True)
    made.reads("/srv/app/invoices.py", "the invoice worker again")
    made.says(
        f"The invoice worker waits for 9317 seconds on the lock; {SECRET} was set.",
        {"input_tokens": 10, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 8_000, "output_tokens": 50},
    )
    return made


def audit_of(*paths: Path) -> Audit:
    return audit_sources(import_sources([str(path) for path in paths]))


def test_a_dropped_fact_has_its_source_and_its_use(log: ClaudeLog, tmp_path: Path) -> None:
    path = log.write(tmp_path / "a.jsonl")
    ((made,),) = [session.compactions for session in audit_of(path).sessions]
    (dropped,) = [fact for fact in made.dropped if fact.text == "9317"]
    lines = path.read_text("utf-8").splitlines()
    assert "9317" in dropped.source and "9317" in lines[dropped.source_line - 1]
    assert "9317" in dropped.use and "9317" in lines[dropped.use_line - 1]
    assert [again.path for again in made.read_again] == ["/srv/app/invoices.py"]


def test_both_sides_are_measured_at_the_same_size(log: ClaudeLog, tmp_path: Path) -> None:
    summary = next(line for line in log.lines if line.get("isCompactSummary"))
    summary["message"]["content"] = f"This session is being continued. {'The invoices are late. ' * 150}"
    (made,) = audit_of(log.write(tmp_path / "a.jsonl")).compactions
    assert made.clew is not None
    assert made.clew.chars <= made.program.chars
    assert made.program.facts <= made.facts and made.clew.facts <= made.facts
    assert made.tokens_before == 30_600


def test_costs_are_those_of_the_list(log: ClaudeLog, tmp_path: Path) -> None:
    (made,) = audit_of(log.write(tmp_path / "a.jsonl")).compactions
    assert made.cost.is_estimate
    # 8,000 tokens written to the cache at 3.75 dollars a million, and 10 as input at 3.
    assert float(made.cost.rebuild or 0) == pytest.approx(0.03003)


def test_a_pause_that_costs_the_cache_is_found_and_a_hit_is_not(tmp_path: Path) -> None:
    cached = {
        "input_tokens": 5,
        "cache_read_input_tokens": 20_000,
        "cache_creation_input_tokens": 0,
        "output_tokens": 5,
    }
    missed = {**cached, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 20_000}
    log = ClaudeLog()
    log.add("user", "Begin.")
    log.says("One.", cached)
    log.minute += 30
    log.add("user", "Go on.")
    log.says("Two.", missed)
    log.minute += 30
    log.add("user", "Go on.")
    log.says("Three.", cached)
    (session,) = audit_of(log.write(tmp_path / "a.jsonl")).sessions
    (expired,) = session.expired
    assert (expired.tokens, expired.line) == (20_000, 4)
    assert float(expired.dollars or 0) == pytest.approx(20_000 * (3.75 - 0.30) / 1_000_000)


def test_what_pi_kept_word_for_word_is_part_of_its_result(tmp_path: Path) -> None:
    def said(id: str, above: str | None, role: str, text: str) -> dict[str, Any]:
        message = {"role": role, "content": [{"type": "text", "text": text}]}
        return {"type": "message", "id": id, "parentId": above, "message": message}

    lines = [
        {"type": "session", "version": 3, "id": "p1", "cwd": "/srv"},
        said("a", None, "user", f"the queue worker listens on port 48213\n{FILLER}"),
        said("b", "a", "assistant", "the limit of the queue worker is max_depth 7741"),
        {"type": "compaction", "id": "c", "parentId": "b", "summary": "A queue worker.", "firstKeptEntryId": "b"},
        said("d", "c", "assistant", "Port 48213 and max_depth 7741 are set."),
    ]
    path = tmp_path / "pi.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    (made,) = audit_of(path).compactions
    assert {fact.text for fact in made.dropped} == {"48213"}
    assert made.program.facts == 2


def test_messages_that_claude_code_kept_are_part_of_its_result(tmp_path: Path) -> None:
    log = ClaudeLog()
    log.add("user", f"the queue worker listens on port 48213\n{FILLER}")
    log.says("the limit of the queue worker is max_depth 7741")
    log.add(
        "system", "Compacted.", subtype="compact_boundary", compactMetadata={"preservedSegment": {"headUuid": "u1"}}
    )
    log.add("user", "This session is being continued.", isCompactSummary=True)
    log.says("Port 48213 and max_depth 7741 are set.")
    (made,) = audit_of(log.write(tmp_path / "a.jsonl")).compactions
    assert {fact.text for fact in made.dropped} == {"48213"}
    assert made.program.facts == 2


def test_turns_that_opencode_kept_are_part_of_its_result(tmp_path: Path) -> None:
    def said(id: str, role: str, *parts: dict[str, Any], **info: Any) -> dict[str, Any]:
        return {"info": {"id": id, "role": role, **info}, "parts": list(parts)}

    def text(words: str) -> dict[str, Any]:
        return {"type": "text", "text": words}

    messages = [
        said("m1", "user", text(f"the queue worker listens on port 48213\n{FILLER}")),
        said("m2", "assistant", text("the limit of the queue worker is max_depth 7741")),
        said("m3", "user", {"type": "compaction", "auto": True, "tail_start_id": "m2"}),
        said("m4", "assistant", text("A queue worker."), summary=True),
        said("m5", "assistant", text("Port 48213 and max_depth 7741 are set.")),
    ]
    path = tmp_path / "opencode.json"
    path.write_text(json.dumps({"info": {"id": "ses_1"}, "messages": messages}), encoding="utf-8")
    (made,) = audit_of(path).compactions
    assert {fact.text for fact in made.dropped} == {"48213"}
    assert made.program.facts == 2


def test_messages_that_codex_kept_are_part_of_its_result_and_of_the_next_window(tmp_path: Path) -> None:
    def line(kind: str, **payload: Any) -> dict[str, Any]:
        return {"timestamp": "2026-03-01T10:00:00.000Z", "type": kind, "payload": payload}

    def said(role: str, words: str) -> dict[str, Any]:
        kind = "output_text" if role == "assistant" else "input_text"
        return {"type": "message", "role": role, "content": [{"type": kind, "text": words}]}

    asked = said("user", f"the queue worker listens on port 48213\n{FILLER}")
    lines = [
        line("session_meta", id="th-1", cwd="/srv"),
        line("response_item", **asked),
        line("response_item", **said("assistant", "the limit of the queue worker is max_depth 7741")),
        line("compacted", message="A queue worker.", replacement_history=[asked, said("user", "A queue worker.")]),
        line("response_item", **said("assistant", "Port 48213 and max_depth 7741 are set.")),
        line("compacted", message="Settings.", replacement_history=[said("user", "Settings.")]),
        line("response_item", **said("assistant", "The worker listens on port 48213.")),
    ]
    path = tmp_path / "codex.jsonl"
    path.write_text("".join(f"{json.dumps(each)}\n" for each in lines), encoding="utf-8")
    first, second = audit_of(path).compactions
    assert {fact.text for fact in first.dropped} == {"7741", "max_depth"}
    assert {(fact.text, fact.source) for fact in second.dropped} == {
        ("48213", "Port 48213 and max_depth 7741 are set.")
    }


def test_a_compaction_of_hermes_in_place_is_found_with_the_messages_that_it_kept(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    database = sqlite3.connect(path)
    database.execute(
        "CREATE TABLE sessions (id TEXT, started_at REAL, parent_session_id TEXT, end_reason TEXT, ended_at REAL)"
    )
    database.execute("INSERT INTO sessions (id, started_at) VALUES ('a', 1.0)")
    database.execute(
        "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, timestamp REAL,"
        " active INTEGER, compacted INTEGER)"
    )
    summary = "[CONTEXT COMPACTION — REFERENCE ONLY] Earlier turns were compacted.\nA queue worker."
    rows = [
        ("user", "Look at the queue worker.", 1.0, 1),
        ("assistant", f"the queue worker listens on port 48213\n{FILLER}", 2.0, 1),
        ("user", "the limit of the queue worker is max_depth 7741", 3.0, 1),
        # The copies of what stayed, with their times, around the summary.
        ("user", "Look at the queue worker.", 1.0, 0),
        ("assistant", summary, 4.0, 0),
        ("user", "the limit of the queue worker is max_depth 7741", 3.0, 0),
        ("assistant", "Port 48213 and max_depth 7741 are set.", 5.0, 0),
    ]
    statement = (
        "INSERT INTO messages (session_id, role, content, timestamp, active, compacted) VALUES ('a', ?, ?, ?, ?, ?)"
    )
    database.executemany(statement, [(*row[:3], 1 - row[3], row[3]) for row in rows])
    database.commit()
    database.close()
    (session,) = audit_of(path).sessions
    (made,) = session.compactions
    assert session.messages == 5
    assert {fact.text for fact in made.dropped} == {"48213"}
    assert made.program.facts == 2


def test_the_page_lists_every_dropped_fact(log: ClaudeLog, tmp_path: Path) -> None:
    names = [f"queue_part_{number}" for number in range(300)]
    log.lines[1]["message"]["content"][0]["text"] = "\n".join(f"the invoice worker waits for {name}" for name in names)
    log.says("\n".join(f"The invoice worker waited for {name}." for name in names))
    page = audit_page(audit_of(log.write(tmp_path / "a.jsonl")))
    assert [name for name in names if f"<code>{name}</code>" not in page] == []


def test_a_session_without_compactions_says_so_with_the_number_of_sessions(tmp_path: Path) -> None:
    log = ClaudeLog()
    log.add("user", "Begin.")
    log.says("Done.")
    audit = audit_of(log.write(tmp_path / "a.jsonl"))
    assert "1 session" in closing_line(audit)


def test_nothing_that_is_written_holds_a_secret(
    log: ClaudeLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log.lines[1]["message"]["content"][0]["text"] = f"the token of the deploy_worker service is {SECRET} in the vault"
    path, page = log.write(tmp_path / "a.jsonl"), tmp_path / "audit.html"
    run: Callable[..., int] = main
    assert run(["audit", str(path), "--report", str(page)], {"CLEW_HOME": str(tmp_path)}) == 0
    assert run(["audit", str(path), "--json"], {"CLEW_HOME": str(tmp_path)}) == 0
    out = capsys.readouterr().out
    assert SECRET not in out and SECRET not in page.read_text("utf-8")
    assert page.stat().st_mode & 0o077 == 0
    assert json.loads(out[out.index("\n{") :])["totals"]["compactions"] == 1


def test_the_page_escapes_what_sessions_say(log: ClaudeLog, tmp_path: Path) -> None:
    log.says("The invoice worker of <script>alert(1)</script> waits on /srv/app/invoices.py for the lock.")
    log.lines[1]["message"]["content"][0]["text"] = "the <script>alert(1)</script> of worker_lock is the invoice lock"
    log.says("worker_lock is the invoice lock of <script>alert(1)</script>")
    page = audit_page(audit_of(log.write(tmp_path / "a.jsonl")))
    assert "worker_lock" in page and "<script" not in page


def test_the_same_session_in_two_files_counts_once(log: ClaudeLog, tmp_path: Path) -> None:
    audit = audit_of(log.write(tmp_path / "a.jsonl"), log.write(tmp_path / "b.jsonl"))
    assert len(audit.sessions) == 1
