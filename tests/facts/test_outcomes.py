"""How a call ended, read from its result: by content first, whatever the tool reports."""

from __future__ import annotations

import json

import pytest

from clew.facts import read_outcome

PUSH = """To git.example.org:acme/shop.git
 ! [rejected]        main -> main (fetch first)
error: failed to push some refs to 'git.example.org:acme/shop.git'
"""


@pytest.mark.parametrize(
    "result",
    [
        json.dumps({"status": 409, "message": "branch is protected"}),
        json.dumps({"statusCode": 503}),
        json.dumps({"error": {"code": "E_CONFLICT"}}),
        json.dumps({"success": False, "reason": "no quota"}),
        json.dumps({"output": "HTTP/1.1 404 Not Found", "exit_code": 0}),
        PUSH,
        f"{PUSH}[exit 0]",
        "Traceback (most recent call last):\nKeyError: 'id'",
        "built\nexit code: 2",
        "<returncode>1</returncode>\n<output>\nmissing\n</output>",
    ],
)
def test_a_result_whose_content_is_a_failure_is_one(result: str) -> None:
    assert read_outcome(result, "RAN").failed is True


@pytest.mark.parametrize(
    "result",
    [
        "16 passed in 0.9s",
        "[exit 0]",
        "0 errors, 0 warnings\n[exit 0]",
        json.dumps({"status": 200, "error": None, "success": True}),
        json.dumps({"errors": [], "ok": True}),
        "To git.example.org:acme/shop.git\n   1a2b3c4..9f8e7d6  main -> main\n[exit 0]",
    ],
)
def test_a_result_that_is_none_is_not_taken_for_a_failure(result: str) -> None:
    assert not read_outcome(result, "RAN").failed


def test_what_a_file_says_of_errors_is_not_how_reading_it_ended() -> None:
    text = "import sys\nraise ValueError('no')  # Error: see docs\nexit code: 1\n2 failed"
    assert not read_outcome(text, "READ").failed
    assert read_outcome("Error: file not found: a.py", "READ").failed


def test_a_search_that_finds_nothing_has_not_failed() -> None:
    assert not read_outcome("[exit 1]", "RAN", "grep -rn needle src").failed
    assert read_outcome("[exit 1]", "RAN", "make test").failed


def test_a_failure_that_the_tool_reports_is_one() -> None:
    assert read_outcome("nothing to see", "CALLED", is_error=True).failed


@pytest.mark.parametrize(
    ("result", "counts", "failed"),
    [
        ("== 2 failed, 14 passed in 1.2s ==", "2 failed, 14 passed", True),
        ("== 16 passed, 1 skipped in 1.2s ==", "16 passed", False),
        ("test result: ok. 12 passed; 0 failed; 0 ignored", "12 passed", False),
        ("Tests:       1 failed, 7 passed, 8 total", "1 failed, 7 passed", True),
        ("ok  \tgithub.com/acme/shop\t0.4s", "github.com/acme/shop", False),
        ("# pass 5\n# fail 2", "fail 2", True),
        ("Ran 3 tests in 0.1s\n\nFAILED (failures=1)", "failures=1", True),
        ("4 examples, 0 failures", "4 examples, 0 failures", False),
    ],
)
def test_the_counts_of_test_runners_are_read(result: str, counts: str, *, failed: bool) -> None:
    outcome = read_outcome(f"collecting\n{result}", "RAN", "run the tests")
    assert counts in outcome.tests
    assert outcome.failed is failed


@pytest.mark.parametrize(
    ("result", "error"),
    [
        ("...\nE   AssertionError: 3 != 5\n1 failed, 2 passed", "AssertionError: 3 != 5"),
        ("src/a.ts(4,2): error TS2304: Cannot find name 'x'.\n[exit 2]", "error TS2304: Cannot find name 'x'."),
        ("step 1\nfatal: could not resolve host\n[exit 128]", "fatal: could not resolve host"),
        ("one\nall went down the drain\n[exit 3]", "all went down the drain"),
        (PUSH, "failed to push some refs"),
    ],
)
def test_the_line_that_names_the_error_is_found(result: str, error: str) -> None:
    assert error in read_outcome(result, "RAN", "make").error


def test_an_error_is_one_line_of_the_result() -> None:
    assert read_outcome("lint: E501\nerror: style violation 77\n[exit 2]", "RAN").error == "error: style violation 77"


def test_a_long_result_is_judged_by_both_ends() -> None:
    log = "a plain line of the log\n" * 5_000
    assert read_outcome(f"{log}2 failed, 14 passed in 1.2s", "RAN").failed
    assert read_outcome(f"Error: no such table\n{log}", "RAN").failed


def test_branch_commit_and_server_are_states_of_the_work() -> None:
    outcome = read_outcome("[feat/async 9f3c2ab] Port it\nOn branch feat/async\nListening on http://localhost:8443")
    assert dict(outcome.states) == {
        "commit": "[feat/async 9f3c2ab] Port it",
        "branch": "On branch feat/async",
        "server": "Listening on http://localhost:8443",
    }


@pytest.mark.parametrize(
    "result",
    [
        "The user denied this operation. The file was not updated.",
        "[write_to_file for 'a.md'] Result:\nThe user denied this operation.\n<feedback>\nKeep it.\n</feedback>",
        "The user doesn't want to proceed with this tool use. The tool use was rejected.",
        "exec command rejected by user",
        "The user rejected permission to use this specific tool call.",
    ],
)
def test_what_a_person_refused_has_failed(result: str) -> None:
    outcome = read_outcome(result, "WROTE")
    assert outcome.failed
    assert "user" in outcome.error


@pytest.mark.parametrize(
    "result", ["Saved 3 users.", "user_rejected = False", "The user table was declined to 40 rows."]
)
def test_words_about_users_are_no_refusal(result: str) -> None:
    assert not read_outcome(result, "WROTE").failed


def test_the_files_of_git_status_are_listed_by_section() -> None:
    listed = (
        "On branch main\nChanges to be committed:\n\tnew file:   a.py\n\tdeleted:    old.py\n\n"
        "Changes not staged for commit:\n"
        '  (use "git add <file>..." to update)\n\tmodified:   b.py\n\nUntracked files:\n\tnotes/\n'
    )
    states = dict(read_outcome(listed, "RAN", "git status").states)
    assert states["worktree"] == "staged: a.py, deleted: old.py; not staged: b.py; untracked: notes/"
    many = "Untracked files:\n" + "".join(f"\tfile_{n}.txt\n" for n in range(12))
    assert dict(read_outcome(many, "RAN", "git status").states)["worktree"].endswith("file_7.txt and 4 more")


def test_every_remote_is_stated() -> None:
    shown = "origin\tgit@host:me/x.git (fetch)\norigin\tgit@host:me/x.git (push)\nup\tgit@host:it/x.git (push)"
    states = dict(read_outcome(shown, "RAN", "git remote -v").states)
    assert states["remote"] == "origin git@host:me/x.git (push); up git@host:it/x.git (push)"


def test_a_metric_called_error_is_no_failure() -> None:
    assert read_outcome("Mean squared error: 0.0123\nexit code: 0", "RAN", "python train.py").failed is False
    assert not read_outcome("Type error: how to read it\nIt names a type.", "READ").failed
