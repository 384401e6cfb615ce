from __future__ import annotations

from typing import Any

import pytest

from clew.ledger import Action, Ledger
from clew.messages import Message
from clew.testing import assistant, call, tool, user

PATCH = """*** Begin Patch
*** Update File: src/a.py
@@
-old
+new
*** Add File: src/b.py
+fresh
*** Delete File: src/c.py
*** End Patch"""


def ledger_of(name: str, arguments: dict[str, object] | str, result: str = "ok") -> Ledger:
    return Ledger.of([user("go"), assistant(None, [call(name, arguments)]), tool("call_1", result)])


def action_of(name: str, arguments: dict[str, object] | str, result: str = "ok") -> Action:
    return ledger_of(name, arguments, result).actions[0]


def changed(ledger: Ledger) -> list[str]:
    return [fact.path for fact in ledger.files.values() if fact.changes]


@pytest.mark.parametrize(
    ("name", "arguments", "verb", "target"),
    [
        ("read_file", {"path": "a.py"}, "READ", "a.py"),
        ("Read", {"file_path": "/x/a.py", "limit": 5}, "READ", "/x/a.py"),
        ("read", {"filePath": "a.py"}, "READ", "a.py"),
        ("mcp__files__read-file", {"path": "a.py"}, "READ", "a.py"),
        ("functions.read_file", {"path": "a.py"}, "READ", "a.py"),
        ("str_replace_based_edit_tool", {"command": "view", "path": "a.py"}, "READ", "a.py"),
        ("str_replace_editor", {"command": "create", "path": "a.py", "file_text": "x"}, "WROTE", "a.py"),
        ("str_replace_editor", {"command": "str_replace", "path": "a.py"}, "CHANGED", "a.py"),
        ("Write", {"file_path": "a.py", "content": "x"}, "WROTE", "a.py"),
        ("Edit", {"file_path": "a.py", "old_string": "x", "new_string": "y"}, "CHANGED", "a.py"),
        ("apply_patch", {"input": PATCH}, "CHANGED", "src/a.py, src/b.py, src/c.py"),
        ("patch", {"mode": "patch", "patch": PATCH}, "CHANGED", "src/a.py, src/b.py, src/c.py"),
        ("terminal", {"command": "ls -la"}, "RAN", "ls -la"),
        ("shell", {"command": ["bash", "-lc", "ls -la"]}, "RAN", "ls -la"),
        ("shell", {"command": ["git", "status"]}, "RAN", "git status"),
        ("Grep", {"pattern": "def x", "path": "src"}, "SEARCHED", "def x"),
        ("list_dir", {"path": "src"}, "LISTED", "src"),
        ("WebFetch", {"url": "https://example.org/a"}, "FETCHED", "https://example.org/a"),
        ("Task", {"description": "look around", "prompt": "..."}, "DELEGATED", "look around"),
        ("launch_rocket", {"pad": "39A"}, "CALLED", "39A"),
    ],
)
def test_each_tool_call_has_a_verb_and_a_target(
    name: str, arguments: dict[str, object], verb: str, target: str
) -> None:
    action = action_of(name, arguments)
    assert (action.verb, action.target, action.tool) == (verb, target, name)


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("echo a > out.txt", ["out.txt"]),
        ("echo a >> logs/x.log 2>&1", ["logs/x.log"]),
        ("make 2> err.txt", []),
        ("make &> all.log", ["all.log"]),
        ("cat a.py > /dev/null", []),
        ("sed -i 's/a b/c > d.e/' src/a.py src/b.py", ["src/a.py", "src/b.py"]),
        ("sed -i.bak -e 's/x/y/' -e 's/p/q/' a.py", ["a.py"]),
        ("sed -n '1,3p' a.py", []),
        ("perl -pi -e 's/a/b/' f.pl", ["f.pl"]),
        ("date | tee -a log.txt other.log", ["log.txt", "other.log"]),
        ("mv a.py lib/b.py && git add lib/b.py", ["a.py", "lib/b.py"]),
        ("rm -rf a.txt 'b.txt'", ["a.txt", "b.txt"]),
        ("cp a.py b.py", ["b.py"]),
        ("cat <<'EOF' > src/new.py\nif a > b.c:\n    rm = x.py\nEOF\nrm old.py", ["src/new.py", "old.py"]),
        ("python - <<'END'\nif x > self.max: pass\nEND", []),
        ("python -c 'print(1 > x.y)'", []),
        ("if [ -f a.txt ]; then rm a.txt; fi", ["a.txt"]),
        (f"apply_patch <<'EOF'\n{PATCH}\nEOF", ["src/a.py", "src/b.py", "src/c.py"]),
        ("ls src | wc -l", []),
    ],
)
def test_files_changed_by_a_command_are_known(command: str, files: list[str]) -> None:
    assert changed(ledger_of("terminal", {"command": command})) == files


@pytest.mark.parametrize(
    ("command", "ended"),
    [
        ("rm -rf a.txt 'b.txt'", {"a.txt": "deleted", "b.txt": "deleted"}),
        ("rm a.txt && echo x > a.txt", {"a.txt": ""}),
        ("rm a.txt; git add a.txt", {"a.txt": "deleted"}),
        ("rm a.txt > log.txt", {"a.txt": "deleted", "log.txt": ""}),
        ("git rm --cached a.txt", {"a.txt": ""}),
        ("git mv a.py lib/b.py", {"a.py": "moved to lib/b.py", "lib/b.py": ""}),
        ("mv a.py b.py lib/", {"a.py": "moved to lib/", "b.py": "moved to lib/"}),
        ("git restore a.py && git checkout -- b.py", {"a.py": "reverted", "b.py": "reverted"}),
        ("git restore --staged a.py; git checkout feat/a.py", {"a.py": ""}),
        (f"apply_patch <<'EOF'\n{PATCH}\nEOF", {"src/a.py": "", "src/b.py": "", "src/c.py": "deleted"}),
    ],
)
def test_a_file_knows_how_it_ended(command: str, ended: dict[str, str]) -> None:
    files = ledger_of("terminal", {"command": command}).files
    assert {path: fact.ended for path, fact in files.items()} == ended
    unknown = ledger_of("terminal", {"command": command}, "rm: cannot remove 'a.txt'\n[exit 1]").files
    assert all(not fact.ended for fact in unknown.values())


@pytest.mark.parametrize(
    ("name", "arguments", "ended"),
    [
        ("apply_patch", {"input": PATCH}, {"src/a.py": "", "src/b.py": "", "src/c.py": "deleted"}),
        ("apply_patch", {"input": "--- a/x.py\n+++ /dev/null\n@@\n-x"}, {"x.py": "deleted"}),
        ("apply_patch", {"input": PATCH.replace("@@", "*** Move to: d.py\n@@")},
         {"src/a.py": "moved to d.py", "d.py": "", "src/b.py": "", "src/c.py": "deleted"}),
        ("delete_file", {"path": "x.py"}, {"x.py": "deleted"}),
    ],
)  # fmt: skip
def test_a_tool_that_deletes_or_moves_files_is_known(
    name: str, arguments: dict[str, object], ended: dict[str, str]
) -> None:
    assert {path: fact.ended for path, fact in ledger_of(name, arguments).files.items()} == ended


def test_what_was_in_a_folder_that_was_removed_is_deleted_until_it_is_written_again() -> None:
    def written(id: str) -> list[Message]:
        return [assistant(None, [call("write_file", {"path": "/srv/out/a.py", "content": "x"}, id)]), tool(id, "ok")]

    ledger = Ledger.of(written("1"))
    ledger.extend([assistant(None, [call("terminal", {"command": "rm -rf /srv/out"}, "2")]), tool("2", "[exit 0]")])
    assert ledger.files["/srv/out/a.py"].ended == "deleted"
    ledger.extend(written("3"))
    assert ledger.files["/srv/out/a.py"].ended == ""


def test_a_patch_of_several_files_changes_them_all() -> None:
    assert changed(ledger_of("apply_patch", {"input": PATCH})) == ["src/a.py", "src/b.py", "src/c.py"]


def test_a_call_in_free_text_is_read_like_any_other() -> None:
    custom: Any = {"id": "call_1", "type": "custom", "custom": {"name": "apply_patch", "input": PATCH}}
    ledger = Ledger.of([assistant(None, [custom]), tool("call_1", "Done")])
    assert changed(ledger) == ["src/a.py", "src/b.py", "src/c.py"]
    assert "src/b.py" in ledger.index.atoms


def test_a_diff_that_is_written_to_a_file_changes_that_file_only() -> None:
    ledger = ledger_of("write_file", {"path": "fix.patch", "content": "--- a/x.py\n+++ b/x.py\n"})
    assert changed(ledger) == ["fix.patch"]


def test_an_edit_that_failed_changed_nothing() -> None:
    ledger = ledger_of("patch", {"path": "a.py", "old": "x"}, "Error: old occurs 0 times; nothing was changed")
    assert changed(ledger) == []
    assert ledger.files["a.py"].last == 1


def test_a_file_fact_tells_how_it_was_touched_and_when() -> None:
    messages: list[Message] = [user("go")]
    for number, (name, arguments) in enumerate(
        [("read_file", {"path": "a.py"}), ("patch", {"path": "a.py", "old_string": "1\n2", "new_string": "3"})]
    ):
        messages += [assistant(None, [call(name, arguments, f"c{number}")]), tool(f"c{number}", "ok")]
    ledger = Ledger.of(messages)
    fact = ledger.files["a.py"]
    assert (fact.first, fact.last, fact.changes, fact.reads, fact.is_written) == (1, 3, [3], 1, False)
    assert ledger.actions[1].change == "+1 -2"


def test_edits_in_a_list_are_added_up() -> None:
    edits = [{"old_string": "a", "new_string": "b\nc"}, {"old_string": "d\ne", "new_string": ""}]
    assert action_of("MultiEdit", {"file_path": "a.py", "edits": edits}).change == "+2 -3"


@pytest.mark.parametrize("arguments", ['{"path": ', "", "null", "[1]", "{'a': 1}", '{"path": 7}', '{"path": null}'])
def test_arguments_that_are_no_object_name_no_file(arguments: str) -> None:
    for name in ("read_file", "write_file", "terminal", "todo_write", "apply_patch", "unknown"):
        assert not ledger_of(name, arguments).files


def test_a_list_of_edits_changes_every_file_that_it_names() -> None:
    edits = [{"path": "a.py", "old": "x", "new": "y\nz"}, {"path": "b.py", "old": "1", "new": "2"}, {"path": "a.py"}]
    ledger = Ledger.of([assistant(None, [call("patch", {"edits": edits}, id="p")]), tool("p", "done")])
    (action,) = ledger.actions
    assert (action.verb, action.target, action.files) == ("CHANGED", "a.py, b.py", {"a.py": "", "b.py": ""})
    assert action.change == "+3 -2"
    assert set(ledger.files) == {"a.py", "b.py"}


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("cat src/retry.py", "src/retry.py"),
        ("sed -n '10,60p' src/retry.py", "src/retry.py"),
        ("nl -ba src/retry.py | sed -n '10,60p'", "src/retry.py"),
        ("head -n 50 docs/api.md", "docs/api.md"),
        ("tail -20 build/app.log 2>/dev/null", "build/app.log"),
        ("cat src/retry.py > copy.py", ""),
        ("cat a.py && rm a.py", ""),
        ("sed -i '10d' src/retry.py", ""),
        ("cat src/*.py | grep wait", ""),
        ("tail -f", ""),
    ],
)
def test_a_command_that_only_prints_a_file_reads_it(command: str, path: str) -> None:
    [action] = ledger_of("bash", {"command": command}).actions
    assert (action.verb, action.target) == (("READ", path) if path else ("RAN", command))


def commands_told(commands: list[str]) -> list[str]:
    messages: list[Message] = [user("go")]
    for number, command in enumerate(commands):
        messages += [assistant(None, [call("bash", {"command": command}, id=f"c{number}")]), tool(f"c{number}", "ok")]
    return [action.target for action in Ledger.of(messages).actions]


def test_a_program_that_others_are_run_through_is_told_until_that_is_known() -> None:
    given = ['run "cd /srv && ls -la" 3', 'run "grep -n tide *.py" 3', "python -V", "git log -3", "ls src"]
    commands = [f"/opt/harness/box-exec {one}" for one in (*given, 'run "pytest -q \\"tests\\"" 5')]
    assert commands_told(commands) == [*commands[:4], "ls src", 'pytest -q "tests"']


def test_a_tool_with_commands_of_its_own_stays() -> None:
    own = ("init", "plan", "apply", "test", "show", "test", "destroy")
    commands = [f"/usr/local/bin/terraform {one}" for one in own]
    assert commands_told(commands) == commands


FIX = """import re
target = 'src/halls/rows.py'
text = open(target).read()
with open(target, 'w') as f:
    f.write(text.replace('14', '15'))
"""


@pytest.mark.parametrize(
    "commands",
    [
        [f"python3 - <<'EOF'\n{FIX}EOF"],
        [f"cat > fix_rows.py <<'EOF'\n{FIX}EOF\npython3 fix_rows.py"],
        [f"cat <<'EOF' > /tmp/fix_rows.py\n{FIX}EOF", "cd /srv && python /tmp/fix_rows.py --all"],
        ["python -c \"p='src/halls/rows.py'; s=open(p).read(); open(p,'w').write(s.replace('a','b'))\""],
        ["python3 -c \"from pathlib import Path; Path('src/halls/rows.py').write_text('x')\""],
        ["node -e \"require('fs').writeFileSync('src/halls/rows.py', 'x')\""],
    ],
)
def test_a_file_that_a_script_writes_when_it_is_run_is_changed(commands: list[str]) -> None:
    messages: list[Message] = []
    for number, command in enumerate(commands):
        messages += [assistant(None, [call("bash", {"command": command}, f"c{number}")]), tool(f"c{number}", "")]
    changed = {path for path, fact in Ledger.of(messages).files.items() if fact.changes}
    assert any(path.endswith("src/halls/rows.py") for path in changed)


def test_a_script_that_a_tool_writes_changes_its_files_when_it_is_run() -> None:
    wrote = assistant(None, [call("write_file", {"path": "fix_rows.py", "content": FIX}, "a")])
    ran = [assistant(None, [call("bash", {"command": "python fix_rows.py"}, "b")]), tool("b", "done")]
    before, after = (Ledger.of([wrote, tool("a", "ok"), *more]).files for more in ([], ran))
    assert "src/halls/rows.py" not in before
    assert after["src/halls/rows.py"].changes == [2]


def test_a_script_that_failed_is_not_taken_to_have_written_its_files() -> None:
    command = f"cat > fix_rows.py <<'EOF'\n{FIX}EOF\npython3 fix_rows.py"
    result = "IndexError: list index out of range\n[exit 1]"
    ledger = Ledger.of([assistant(None, [call("bash", {"command": command}, "a")]), tool("a", result)])
    assert [path for path, fact in ledger.files.items() if fact.changes] == ["fix_rows.py"]


@pytest.mark.parametrize(
    ("folder", "path"),
    [
        ("annex", "annex/tide.toml"),
        ("./annex/", "annex/tide.toml"),
        ("/srv/gate", "/srv/gate/tide.toml"),
        ("..", "../tide.toml"),
        ("-", "tide.toml"),
    ],
)
def test_a_file_is_in_the_folder_that_its_command_changes_to(folder: str, path: str) -> None:
    command = f"cd {folder} && cat <<EOF > tide.toml\nrows = 14\nEOF"
    ledger = Ledger.of([assistant(None, [call("bash", {"command": command}, "a")]), tool("a", "")])
    assert list(ledger.files) == [path]


def test_code_that_only_reads_changes_no_file() -> None:
    command = "python3 -c \"print(open('src/halls/rows.py').read(), open('a.txt', 'rb'))\""
    ledger = Ledger.of([assistant(None, [call("bash", {"command": command}, "a")]), tool("a", "14")])
    assert not [fact for fact in ledger.files.values() if fact.changes]
