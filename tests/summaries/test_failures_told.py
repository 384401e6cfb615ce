"""How a failure is told: what cured it, what is no failure at all, and what is printed at every start."""

from __future__ import annotations

import pytest

from clew.messages import Message
from clew.summaries import Handoff, write_handoff
from clew.summaries.handoff import BLOCKED, TRIED
from clew.testing import assistant, call, tool, user
from clew.testing.scripted import summary_input_of
from clew.tokens import counter_for

count = counter_for(None).text


def ran(command: str, result: str, id: str) -> list[Message]:
    return [assistant(None, [call("bash", {"command": command}, id)]), tool(id, result)]


def edited(path: str, id: str) -> list[Message]:
    arguments = {"file_path": path, "old_string": "a", "new_string": "b"}
    return [assistant(None, [call("Edit", arguments, id)]), tool(id, "The file has been updated.")]


def handoff_of(*calls: list[Message], at_end: str = "Go on.") -> Handoff:
    messages = [user("Get the shop running."), *(one for each in calls for one in each)]
    messages += [assistant("That part is done."), user(at_end)]
    return write_handoff(summary_input_of(messages), 2_000, count)


def tried_in(*calls: list[Message]) -> list[str]:
    handoff = handoff_of(*calls)
    assert not handoff.lines(BLOCKED)
    return list(handoff.lines(TRIED))


FAILED_CHECK = ran(
    "cd /srv/shop && npm run check",
    "src/cart/total.ts(40,8): error TS2339: Property 'vat' does not exist on type 'Cart'."
    "\n\nCommand exited with code 2",
    "a",
)


def test_a_failure_is_told_with_the_change_that_cured_it() -> None:
    green = ran("npm run check 2>&1 | tail -5", "Checked 12 files. No fixes applied.", "c")
    assert tried_in(FAILED_CHECK, edited("/srv/shop/src/cart/total.ts", "b"), green) == [
        "npm run check -> exit 2: src/cart/total.ts(40,8): error TS2339: Property 'vat' does not exist on type 'Cart'"
        "; overcome by changing …/cart/total.ts, m3 (m1)"
    ]


def test_a_check_whose_end_still_names_an_error_cures_nothing() -> None:
    red = ran("npm run check 2>&1 | tail -5", "src/cart/total.ts(44,8): error TS2339: Property 'net' is missing.", "c")
    assert "overcome" not in "\n".join(tried_in(FAILED_CHECK, edited("/srv/shop/src/cart/total.ts", "b"), red))


def test_a_change_of_the_file_that_an_error_names_and_a_commit_behind_it_cure_it() -> None:
    commit = ran("git commit -am vat", "[main 1f2e3d4] vat\n 1 file changed", "c")
    told = "\n".join(tried_in(FAILED_CHECK, edited("/srv/shop/src/cart/total.ts", "b"), commit))
    assert "; overcome by changing …/cart/total.ts, m3 (m1)" in told


def test_a_commit_without_a_change_of_that_file_cures_nothing() -> None:
    commit = ran("git commit -am docs", "[main 1f2e3d4] docs\n 1 file changed", "c")
    told = "\n".join(tried_in(FAILED_CHECK, edited("/srv/shop/README.md", "b"), commit))
    assert "TS2339" in told and "overcome" not in told


def test_what_was_missing_is_told_with_its_installation_or_with_what_was_used_for_it() -> None:
    missing = ran("python -m pytest tests/ -v", "Exit code 1\n/usr/bin/python: No module named pytest", "a")
    installed = ran("python -m pip install -r dev.txt", "Successfully installed pytest-9.0", "b")
    tests = ran("python -m pytest tests/test_cart.py -q", "Exit code 0\n3 passed in 0.1s", "c")
    (told,) = tried_in(missing, installed, tests)
    assert told.endswith("No module named pytest; overcome by python -m pip install -r dev.txt, m3 (m1)")
    other = ran("bin/test cart", "Exit code 0\n===== 3 passed in 0.1s =====", "c")
    (told,) = tried_in(missing, other)
    assert told.endswith("No module named pytest; overcome by bin/test cart, m3 (m1)")


def test_a_longer_command_that_went_well_is_what_overcame_the_shorter_one() -> None:
    depended = ran(
        'ssh box "sleep 3 && opkg remove kmod-tun"',
        "Exit code 255\nCollected errors:\n * Package kmod-tun is depended upon by packages: vpnd",
        "a",
    )
    (told,) = tried_in(depended, ran('ssh box "opkg remove vpnd kmod-tun"', "Removing package kmod-tun", "b"))
    assert told.endswith('; overcome by ssh box "opkg remove vpnd kmod-tun", m3 (m1)')


def test_a_failure_that_went_away_of_itself_is_left_out() -> None:
    locked = ran("apt-get install -y jq", "Exit code 100\nE: Could not get lock /var/lib/dpkg/lock", "a")
    assert tried_in(locked, ran("apt-get install -y jq", "Setting up jq (1.6)", "b")) == []


def test_another_command_of_the_same_program_shows_nothing() -> None:
    refused = ran(
        "dig shop.example @10.0.0.1", "Exit code 9\n;; connection timed out; no servers could be reached", "a"
    )
    (told,) = tried_in(
        refused, ran("dig search.example @10.0.0.1", "Exit code 0\nsearch.example. 60 IN A 10.1.1.1", "b")
    )
    assert "timed out" in told and "overcome" not in told


START = (
    "Error processing line 1 of /opt/py/site-packages/hooks.pth:\n\n  Traceback (most recent call last):\n"
    "    File \"<string>\", line 1, in <module>\n  ModuleNotFoundError: No module named '_hook_shim'\n\n"
)


def test_an_error_that_runs_print_which_go_well_is_not_why_another_one_failed() -> None:
    usage = ran("cart-lint --depth=x", f"Exit code 2\n{START}cart-lint: error: argument --depth: invalid int", "a")
    good = [
        ran("python -c 'print(7)'", f"Exit code 0\n{START}7", "b"),
        ran("cart-lint --version", f"Exit code 0\n{START}cart-lint 2.1", "c"),
    ]
    later = ran("cart-lint --wide", f"Exit code 2\n{START}cart-lint: error: unrecognized arguments: --wide", "d")
    text = handoff_of(usage, *good, later).render()
    assert "argument --depth: invalid int" in text and "unrecognized arguments: --wide" in text
    assert not any(START_LINE in line for line in text.split("\n") if " -> exit 2" in line)


START_LINE = "No module named '_hook_shim'"


def test_an_error_that_one_good_run_printed_may_still_be_why_another_one_failed() -> None:
    caught = ran("python probe.py", "Exit code 0\nValueError: seven is odd", "a")
    (told,) = tried_in(caught, caught, ran("python cart.py", "Exit code 1\nValueError: seven is odd", "b"))
    assert "ValueError: seven is odd" in told


def test_an_exit_code_by_which_a_program_says_that_it_found_something_is_no_failure() -> None:
    style = "Exit code 16\n************* Module cart\ncart.py:1:0: C0104: Disallowed name (disallowed-name)"
    found = [
        ran("pylint --bad-names-rgxs='\"(foo{1,3})\"' cart.py", style, "a"),
        ran("cp cart.py b.py\npython3 -m pylint b.py", style, "b"),
        ran("diff old.txt new.txt", "Exit code 1\n1c1\n< tax=7\n---\n> tax=19", "c"),
        ran("gitleaks detect --no-git", "Exit code 1\n10:27AM WRN leaks found: 2", "d"),
    ]
    messages = [user("Get the shop running."), *(one for each in found for one in each)]
    handoff = write_handoff(summary_input_of(messages), 2_000, count)
    assert not handoff.lines(BLOCKED) and not handoff.lines(TRIED)


def test_an_error_of_such_a_program_is_a_failure_all_the_same() -> None:
    failed = [
        ran("pylint cart.py", "Exit code 32\nusage: pylint [options]\npylint: error: unrecognized arguments: -q", "a"),
        ran("diff old.txt lost.txt", "Exit code 2\ndiff: lost.txt: No such file or directory", "b"),
    ]
    messages = [user("Get the shop running."), *(one for each in failed for one in each)]
    handoff = write_handoff(summary_input_of(messages), 2_000, count)
    assert "unrecognized arguments" in "\n".join(handoff.lines(BLOCKED))


@pytest.mark.parametrize(
    "command",
    [
        "python3 -c \"import halls; halls.count('annex')\"",
        "cd /srv/shop && node -e 'count(annex)'",
        "cat <<'EOF' > try_count.py\nimport halls\nhalls.count('annex')\nEOF\npython3 try_count.py",
    ],
)
def test_code_that_is_tried_out_stands_in_the_way_of_nothing(command: str) -> None:
    failed = ran(command, "Traceback\nTypeError: count() missing 1 required argument\n[exit 1]", "a")
    messages = [user("Count the halls."), *failed, *ran("ls src/halls", "rows.py", "b")]
    handoff = write_handoff(summary_input_of(messages), 2_000, count)
    assert not handoff.lines(BLOCKED)
    assert "TypeError: count() missing" in handoff.lines(TRIED)[0]
    alone = write_handoff(summary_input_of(messages[:3]), 2_000, count)
    assert "TypeError: count() missing" in alone.lines(BLOCKED)[0]


def test_an_error_is_told_with_what_it_announces_in_two_steps() -> None:
    printed = "SystemCheckError: Some issues were found:\nERRORS:\nshop.Cart: (fields.E331) no such table\n[exit 1]"
    failed = ran("cd shop && \\\n  python manage.py check && \\\n  echo ok", printed, "a")
    told = handoff_of(failed, at_end="And?").lines(TRIED)
    assert told == [
        "python manage.py check && echo ok -> exit 1: SystemCheckError: Some issues were found: ERRORS: "
        "shop.Cart: (fields.E331) no such table (m1)"
    ]
