from __future__ import annotations

import json

import pytest

from clew.ledger import Ledger, outcome_of, read_outcome
from clew.ledger.extract import quotable_texts
from clew.testing import assistant, call, tool

PYTEST = """\
    def test_b():
>       assert 3 == 5
E       assert 3 == 5

tests/test_a.py:4: AssertionError
=========================== short test summary info ============================
FAILED tests/test_a.py::test_b - assert 3 == 5
==================== 1 failed, 14 passed, 2 skipped in 0.52s ===================
"""


@pytest.mark.parametrize(
    ("result", "code"),
    [
        ("Exit code 1\nno such thing", 1),
        ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\nprints exit code 3", 0),
        ("Process exited with code 2\nOutput:\nboom", 2),
        ("boom\nCommand exited with code 4", 4),
        ("boom\n\nexit status 5", 5),
        ("<returncode>3</returncode>\n<output>\nx\n</output>", 3),
        ('{"output": "boom", "exit_code": 6, "error": null}', 6),
        ('{"output": "boom", "metadata": {"exit_code": 7, "duration_seconds": 0.1}}', 7),
        ("boom\n[exit 8]", 8),
        ("boom\n[The command completed with exit code 9.]", 9),
        ("boom\n(exit code -11)", -11),
        ("looks at exit code 3 first\nfine\n[exit 0]", 0),
        ("nothing of the kind", None),
    ],
)
def test_exit_codes_are_read_as_programs_print_them(result: str, code: int | None) -> None:
    outcome = read_outcome(result)
    assert outcome.exit_code == code
    assert outcome.failed == (None if code is None else code != 0)


@pytest.mark.parametrize(
    ("result", "tests", "failed"),
    [
        (PYTEST, "1 failed, 14 passed, 2 skipped", True),
        ("== 3 passed, 2 xfailed in 1.0s ==", "3 passed, 2 xfailed", False),
        ("=== 1 error in 0.12s ===", "1 error", True),
        ("Ran 5 tests in 0.1s\n\nOK", "5 passed", False),
        ("Ran 5 tests in 0.1s\n\nFAILED (failures=1, errors=2)", "3 failed, 2 passed", True),
        (
            "Test Suites: 1 failed, 3 passed, 4 total\nTests:       2 failed, 14 passed, 16 total\n"
            "Snapshots:   1 passed, 1 total\nTime:        1.2 s",
            "2 failed, 14 passed",
            True,
        ),
        (" Test Files  1 passed (1)\n      Tests  4 passed (4)\n", "4 passed", False),
        ("  14 passing (30ms)\n  2 failing\n", "2 failed, 14 passed", True),
        (
            "test result: FAILED. 3 passed; 1 failed; 0 ignored\n\n   Doc-tests x\n\n"
            "test result: ok. 0 passed; 0 failed; 0 ignored",
            "1 failed, 3 passed",
            True,
        ),
        ("test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured", "2 passed", False),
        ("--- FAIL: TestX (0.00s)\n--- PASS: TestY (0.00s)\nFAIL\tpkg/a\t0.1s", "1 failed, 1 passed", True),
        ("ok  \tpkg/a\t0.1s\nok  \tpkg/b\t(cached)\n", "2 packages passed", False),
        ("Tests run: 5, Failures: 1, Errors: 0, Skipped: 0", "1 failed, 4 passed", True),
        ("  3 passed (2.1s)\n", "3 passed", False),
        (
            "=== tests finished: 9 passed, 1 failed, 1 expected to fail, in 0.23 seconds ====",
            "9 passed, 1 failed, 1 expected to fail",
            True,
        ),
        (
            " tests finished: 111 passed, 39 exceptions, \n in 12.30 seconds \nDO *NOT* COMMIT!",
            "111 passed, 39 exceptions",
            True,
        ),
        (
            "     Summary [   0.311s] 12 tests run: 11 passed, 1 failed, 0 skipped",
            "11 passed, 1 failed",
            True,
        ),
        ("FAILED | 11 passed | 1 failed (30ms)", "11 passed, 1 failed", True),
        ("12 examples, 1 failure\n\nFailed examples:", "1 failed, 11 passed", True),
        ("\x1b[32m== \x1b[1m3 passed\x1b[0m\x1b[32m in 1.0s ==\x1b[0m", "3 passed", False),
        ("Found 3 errors in 1 file (checked 2 source files)", "", None),
    ],
)
def test_test_counts_are_read_from_many_runners(result: str, tests: str, failed: bool | None) -> None:
    outcome = read_outcome(result)
    assert outcome.tests.startswith(tests)
    assert bool(outcome.tests) == bool(tests)
    assert outcome.failed is failed


@pytest.mark.parametrize(
    "result",
    [
        "start http listener on 4005 failed: listen tcp :4005: bind: address already in use",
        "deploy.log:88: health check 3 failed, retrying in 30s",
        "Backups this week: 6 passed, 1 failed",
        "CHANGES.rst:412:==== 2 failed, 3 passed in 0.1s ====",
        "0 cancelled, 2 failing, 3 successful, and 1 pending checks",
        "  2 failing disks in the array",
        "Step 4 of 9: 250 passed to the next stage in 12 s",
        "Ran 5 migrations in 0.2s",
    ],
)
def test_what_no_test_runner_printed_counts_no_tests(result: str) -> None:
    assert read_outcome(result).tests == ""


@pytest.mark.parametrize(
    ("result", "error"),
    [
        (PYTEST, "FAILED tests/test_a.py::test_b - assert 3 == 5"),
        ("Traceback (most recent call last):\n  File \"a.py\", line 3\nKeyError: 'day'\n[exit 1]", "KeyError: 'day'"),
        ("app.errors.DayError: no such day\n[exit 1]", "app.errors.DayError: no such day"),
        ("fatal: not a git repository\n[exit 128]", "fatal: not a git repository"),
        ("bash: foo: command not found\n[exit 127]", "bash: foo: command not found"),
        ("src/a.c:3:5: error: expected ';'\n1 error generated.\n[exit 1]", "src/a.c:3:5: error: expected ';'"),
        ("a.ts(3,5): error TS2304: no name 'x'.\nDone in 2s\n[exit 2]", "a.ts(3,5): error TS2304: no name 'x'."),
        ("error[E0308]: mismatched types\n --> src/main.rs:3\n[exit 101]", "error[E0308]: mismatched types"),
        ("--- FAIL: TestX (0.00s)\nFAIL\tpkg/a\t0.1s\n", "--- FAIL: TestX (0.00s)"),
        ("Automatic merge failed; fix conflicts.\n[exit 1]", "Automatic merge failed; fix conflicts."),
        ("[exit 1]", ""),
        ("Command failed with exit code 1", ""),
        ("== 2 failed in 0.1s ==", ""),
    ],
)
def test_the_line_that_names_the_error_is_kept_word_for_word(result: str, error: str) -> None:
    outcome = read_outcome(result)
    assert outcome.failed
    assert outcome.error == error


@pytest.mark.parametrize(
    ("result", "lines"),
    [
        ("<path>/tide</path>\n<content>\n1: a\n2: b\n\n(End of file - total 2 lines)\n</content>", 2),
        ("<returncode>0</returncode>\n<output>\nsrc/a.py\nsrc/b.py\nsrc/c.py\n</output>", 3),
        ("<returncode>0</returncode>\n<output>\n</output>", 0),
        ("<div>\n<p>high water</p>\n</div>", 3),
    ],
)  # fmt: skip
def test_what_a_tool_puts_around_the_lines_it_shows_is_not_counted(result: str, lines: int) -> None:
    assert outcome_of("READ", result).lines == lines
    assert read_outcome(result).lines == lines


def test_what_a_command_printed_is_read_out_of_an_object() -> None:
    result = json.dumps({"output": "Traceback\nValueError: bad day\n", "exit_code": 1, "error": None})
    assert read_outcome(result).error == "ValueError: bad day"


def test_a_command_that_ended_well_did_not_fail_by_printing_of_errors() -> None:
    outcome = read_outcome("Error: how to handle one\n[exit 0]")
    assert outcome.failed is False
    assert not outcome.error


def test_only_both_ends_of_a_long_result_are_read() -> None:
    middle = "ValueError: not the end\n" * 1000
    outcome = read_outcome("start\n" + middle + "fine\n" * 1000 + "[exit 0]")
    assert outcome.failed is False
    assert outcome.lines == 2002


def test_a_flag_of_the_wire_is_believed() -> None:
    assert read_outcome("nothing to see", is_error=True).failed
    ledger = Ledger.of([assistant(None, [call("read_file", {"path": "a"})]), tool("call_1", "gone", is_error=True)])
    assert ledger.actions[0].failed
    assert ledger.actions[0].outcome is not None
    assert ledger.actions[0].outcome.error == "gone"


def test_a_file_that_begins_like_an_error_was_read_all_the_same() -> None:
    for text in ("Error codes of the office\n1 ...", "Exceptions are listed below", "failed attempts.md"):
        ledger = Ledger.of([assistant(None, [call("read_file", {"path": "a.md"})]), tool("call_1", text)])
        assert not ledger.actions[0].failed


def test_an_outcome_in_a_few_words() -> None:
    assert read_outcome(f"{PYTEST}[exit 1]").describe() == "exit 1, 1 failed, 14 passed, 2 skipped"
    assert read_outcome("a\nb\n[exit 0]").describe() == "exit 0, 3 lines"
    assert read_outcome("", is_error=True).describe() == "failed"
    assert read_outcome("").describe() == ""


def test_of_a_failed_command_the_line_that_complains_is_told() -> None:
    outcome = read_outcome("FAIL: b.py was not looked at\nPASS: a.py was ignored\nexit code 1")
    assert outcome.error == "FAIL: b.py was not looked at"


def test_behind_the_message_of_powershell_nothing_tells_why() -> None:
    printed = "Resolve-Dns : shop.example : DNS operation refused\nAt line:1 char:1\n+ Resolve-Dns shop.example\n"
    trailer = (
        "+ ~~~~~~~\n    + CategoryInfo : ResourceUnavailable\n    + FullyQualifiedErrorId : RCODE_REFUSED,Resolve\n"
    )
    assert read_outcome(f"Exit code 1\n{printed}{trailer}").error.endswith("DNS operation refused")


POWERSHELL = """\
Get-Acl : The module could not be loaded.
At line:1 char:1
+ Get-Acl C:\\Windows | Format-Table
+ ~~~~~~~~~~~~~~~~~~
    + CategoryInfo          : ObjectNotFound: (Get-Acl:String) [], CommandNotFoundException
    + FullyQualifiedErrorId : CouldNotAutoloadMatchingModule
"""


@pytest.mark.parametrize(
    ("result", "error"),
    [
        (f"Exit code 1\n{POWERSHELL}", "Get-Acl : The module could not be loaded."),
        (
            "<tool_use_error>String to replace not found in file.\nString: # pytest\n.hypothesis/</tool_use_error>",
            "String to replace not found in file.",
        ),
        (
            "Exit code 255\nCollected errors:\n * dependents: package ovpn is needed by openvpn",
            "Collected errors: * dependents: package ovpn is needed by openvpn",
        ),
        (
            'Exit code 1\nmodule a is missing\n    print(f"Error running command: {e}")',
            "module a is missing",
        ),
        (
            "Exit code 1\nhost is unknown\n      0 [main] bash (311) child_copy: read copy failed, done 0",
            "host is unknown",
        ),
        (
            "Exit code 1\nServer: 10.0.0.1\n\n** server can't find shop.example: REFUSED",
            "** server can't find shop.example: REFUSED",
        ),
        (
            "Exit code 128\nerror: gpg failed to sign the data:\n(no gpg output)\nfatal: failed to write commit object",
            "error: gpg failed to sign the data: (no gpg output)",
        ),
        ("Exit code 128\nfatal: not a git repository: .git", "fatal: not a git repository: .git"),
    ],
)
def test_the_error_is_the_line_that_says_why(result: str, error: str) -> None:
    assert read_outcome(result).error == error


def test_the_code_that_a_line_tells_of_another_process_is_none_of_the_commands() -> None:
    printed = (
        "key not found\n 0 [main] bash 532 dofork: forked process 43800 died, retry 0, exit code 0xC0000142, errno 11"
    )
    assert read_outcome(printed).exit_code is None


def test_a_name_in_brackets_is_no_colour() -> None:
    text = "\x1b[32mdone\x1b[0m\n[1mleaks: 3[0m\n1 [main] sh 978: gave up [m]"
    messages = [assistant(None, [call("terminal", {"command": "scan"}, "a")]), tool("a", text)]
    assert quotable_texts(messages[1]) == ["done\nleaks: 3\n1 [main] sh 978: gave up [m]"]
