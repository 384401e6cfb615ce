"""Every command of the guide's table, bare, with wrong input and with --json, as strangers and programs try it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from clew.cli import main
from clew.cli.entry import COMMANDS
from clew.install import has_extra

if TYPE_CHECKING:
    from tests.cli.conftest import Kept

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "commands.md").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Attempt:
    """A command line, how it ends, and what is printed: to stdout where it succeeds, else to stderr."""

    words: str
    code: int
    says: str


# fmt: off
BARE = [
    Attempt("chat", 2, "there is no question; give one"),
    Attempt("serve", 2, "there is no upstream; name the provider"),
    Attempt("wrap", 2, "COMMAND is missing; name the program to run"),
    Attempt("init", 1, "there is no terminal to choose at; `clew init --model NAME` chooses without asking"),
    Attempt("models", 0, "no model is configured"),
    Attempt("setup", 2, "PROGRAM is missing"),
    Attempt("compress", 2, "FILE is missing; `clew compress --help`"),
    Attempt("audit", 2, "no FILE is given, and no known program"),
    Attempt("context", 2, "FILE is missing; `clew context --help`"),
    Attempt("import", 2, "no FILE is given, and no known program"),
    Attempt("sessions", 0, "Late clock"),
    Attempt("export", 2, "SESSION is missing; `clew export --help`"),
    Attempt("search", 2, "QUERY is missing; `clew search --help`"),
    Attempt("open", 2, "SESSION is missing; `clew open --help`"),
    Attempt("vectors", *((0, "store.vectors = true") if has_extra("vectors") else (2, "is not installed"))),
    Attempt("usage", 0, "all sessions"),
    Attempt("insights", 0, "insights since"),
    Attempt("doctor", 0, "All is well."),
    Attempt("keys", 0, "There are no keys"),
    Attempt("plugins", 0, "compressor"),
    Attempt("config", 0, "compression"),
    Attempt("completion", 2, "SHELL is missing; `clew completion --help`"),
    Attempt("help", 0, "Commands:"),
    Attempt("version", 0, "clew 0."),
]
WRONG = [
    Attempt("chat -p hello", 1, "no model is chosen"),
    Attempt("chat -p hello --modl gpt-5", 2, "unknown option --modl; did you mean --model?"),
    Attempt("chat -p hello --model gpt-5", 2, "OPENAI_API_KEY"),
    Attempt("setup hemres", 2, "hermes"),
    Attempt("setup pi --undo --check", 2, "--undo"),
    Attempt("setup hermes", 2, "there is no Hermes Agent here"),
    Attempt("chat -p hello --base-url foo", 2, "--base-url: 'foo' is not an address; give one that begins with http://"),
    Attempt("init --model m --base-url foo", 2, "--base-url: 'foo' is not an address"),
    Attempt("serve --upstream nowhere", 2, "is no address; give one that begins with https://"),
    Attempt("serve --upstream http://127.0.0.1:9 --host 0.0.0.0", 2, "there are no keys; make one first"),
    Attempt("serve --show codx", 2, "did you mean codex? It takes codex,"),
    Attempt("mcp --show claud", 2, "did you mean claude? It takes claude,"),
    Attempt("mcp --import /no/such/folder", 2, "--import takes folders and files that are there"),
    Attempt("wrap --upstrem http://127.0.0.1:9", 2, "did you mean --upstream?"),
    Attempt("init now", 2, "too many arguments: now"),
    Attempt("models lst", 2, "no command 'lst'; did you mean list?"),
    Attempt("models get nothing", 2, "give an address or a path"),
    Attempt("models use nothing", 2, "--provider NAME"),
    Attempt("compress /no/such/file", 1, "there is no such file"),
    Attempt("compress /no/such/file --to 3", 2, "expects a number of tokens, 500 or more"),
    Attempt("compress /no/such/file --to 9k --window 9k", 2, "--window: not allowed with --to"),
    Attempt("audit /no/such/file", 2, "there is no such file"),
    Attempt("context /no/such/file", 1, "there is no such file"),
    Attempt("context /no/such/file --tp 3", 2, "unknown option --tp; did you mean --top?"),
    Attempt("import /no/such/file", 1, "there is no such file"),
    Attempt("import /no/such/file --from codx", 2, "'codx' is not allowed; did you mean codex?"),
    Attempt("sessions show nothing", 1, "no session 'nothing'"),
    Attempt("sessions show clok-1", 1, "near it: clock-1"),
    Attempt("sessions shw clock-1", 2, "no command 'shw'; did you mean show?"),
    Attempt("sessions --limt 3", 2, "unknown option --limt; did you mean --limit?"),
    Attempt("sessions rename clock-1", 2, "TITLE is missing"),
    Attempt("export nothing", 1, "no session 'nothing'"),
    Attempt("export clock-1 --as chatt", 2, "did you mean chat? It takes chat,"),
    Attempt("search clock --role usr", 2, "did you mean user? It takes"),
    Attempt("search clock --session nothing", 1, "no session 'nothing'"),
    Attempt("open clock-1 m99", 2, "there is no message m99"),
    Attempt("vectors --of", 2, "did you mean --off?"),
    Attempt("usage nothing", 1, "no session 'nothing'"),
    Attempt("usage --since whenever", 2, "'whenever' is not a time"),
    Attempt("usage --by modl", 2, "did you mean model?"),
    Attempt("dashboard --prot 1", 2, "unknown option --prot; did you mean --port?"),
    Attempt("dashboard --port 99999", 2, "--port takes 0 to 65,535"),
    Attempt("dashboard --host 0.0.0.0", 2, "behind its keys"),
    Attempt("dashboard --store /no/such/file", 1, "there is no database yet"),
    Attempt("insights --since whenever", 2, "'whenever' is not a time"),
    Attempt("doctor now", 2, "too many arguments: now"),
    Attempt("doctor --gateway nowhere", 2, "is not an address; give one as http://127.0.0.1:8787"),
    Attempt("doctor --repare", 2, "did you mean --repair?"),
    Attempt("keys revoke k_nothing", 1, "no key 'k_nothing'"),
    Attempt("keys create", 2, "OWNER is missing"),
    Attempt("keys create ann --mode watch", 2, "it takes observe, spill, compact"),
    Attempt("keys create ann --budget -3", 2, "expects dollars, more than 0"),
    Attempt("keys create ann --expires soon", 2, "expects a whole number, 1 or more"),
    Attempt("plugins show compresor", 1, "did you mean compressor?"),
    Attempt("plugins use nothing", 1, "no context engine is called 'nothing'"),
    Attempt("config show modl", 2, "did you mean model?"),
    Attempt("config set compression.treshold 1", 2, "did you mean compression.threshold?"),
    Attempt("config set compression.threshold 7", 2, "compression.threshold"),
    Attempt("config set compression.threshold", 2, "VALUE is missing"),
    Attempt("completion tcsh", 2, "it takes bash, zsh, fish"),
    Attempt("help sesions", 2, "no command 'sesions'; did you mean sessions?"),
    Attempt("help sessions shw", 2, "no command 'shw'; did you mean show?"),
    Attempt("version --verbose", 2, "unknown option --verbose"),
    Attempt("sesions", 2, "no command 'sesions'; did you mean sessions?"),
    Attempt("--verion", 2, "unknown option --verion; did you mean --version?"),
]
FOR_PROGRAMS = [
    "models", "models list", "sessions", "sessions list", "sessions show clock-1", "sessions tree", "search clock",
    "usage", "insights", "doctor", "plugins", "plugins show compressor", "config", "config path", "config check",
    "config set compression.threshold 0.6", "sessions rename clock-1 Clock", "sessions branch clock-1",
    "sessions undo clock-1", "sessions delete s_4f1c0d --yes", "version", "compress examples/session.json",
    "context examples/session.json", "import examples/session.json --dry-run", "models use gpt-5", "keys",
    "keys create ann", "serve --show all", "mcp --show all", "audit examples/session.json", "vectors --off",
]
FOR_PEOPLE = [
    "sessions", "sessions show clock-2", "sessions tree", "sessions undo clock-2", "search clock", "models", "config",
    "plugins", "keys", "usage", "insights --since 2026-01-01", "doctor", "context examples/session.json",
    "compress examples/session.json --to 10k", "compress examples/session.json --to 10k --preview", "init",
    "audit examples/session.json",
]
# fmt: on


@pytest.fixture(autouse=True)
def in_the_clone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])


def test_every_command_of_the_table_is_tried() -> None:
    named = set(re.findall(r"`clew ([a-z]+)", "\n".join(re.findall(r"^\| `clew .+", GUIDE, re.MULTILINE))))
    # Alone these two serve until they are stopped: tests/cli/test_dashboard.py, tests/integrations/test_mcp_server.py.
    assert {"dashboard", "mcp", *(each.words for each in BARE)} == named == set(COMMANDS)
    assert {each.words.split()[0] for each in WRONG} >= named


@pytest.mark.parametrize("attempt", BARE, ids=lambda attempt: attempt.words)
def test_a_bare_command_shows_something_or_says_what_is_missing(kept: Kept, attempt: Attempt) -> None:
    code, out, err = kept.run(*attempt.words.split())
    assert code == attempt.code
    assert attempt.says in (err if code else out)
    assert (out if code == 2 else err if code == 0 else "") == ""


@pytest.mark.parametrize("attempt", WRONG, ids=lambda attempt: attempt.words)
def test_wrong_input_is_one_line_with_a_remedy(kept: Kept, attempt: Attempt) -> None:
    code, out, err = kept.run(*attempt.words.split())
    assert (code, out) == (attempt.code, "")
    assert attempt.says in err
    assert err.startswith("clew: ") and err.count("\n") == 1
    assert not re.search(r"\bNone\b|clew: clew\b|Traceback", err)


@pytest.mark.parametrize("attempt", WRONG, ids=lambda attempt: attempt.words)
def test_a_program_that_asks_for_json_gets_its_errors_as_json(kept: Kept, attempt: Attempt) -> None:
    code, out, err = kept.run(*attempt.words.split(), "--json")
    assert (code, err) == (attempt.code, "")
    told: dict[str, Any] = json.loads(out)
    if attempt.words.startswith("import") and code == 1:
        assert [(each["failed"], attempt.says in each["reason"]) for each in told["skipped"]] == [(True, True)]
        return
    assert attempt.says in told["error"]["message"] or "--json" in told["error"]["message"]
    assert told["error"]["kind"] == "wrong_use" if code == 2 else told["error"]["kind"] != "wrong_use"
    assert told["error"]["remedy"]


@pytest.mark.parametrize("words", FOR_PROGRAMS)
def test_a_command_that_reads_or_changes_gives_json(kept: Kept, words: str) -> None:
    code, out, _ = kept.run(*words.split(), "--json")
    assert code == 0
    assert isinstance(json.loads(out), dict)


def test_every_command_takes_json(capsys: pytest.CaptureFixture[str]) -> None:
    def help_of(*names: str) -> str:
        assert main([*names, "--help"], {}) == 0
        return capsys.readouterr().out

    without = []
    for name in COMMANDS:
        verbs = re.findall(r"^  (\w+) ", help_of(name).partition("\nCommands:\n")[2].partition("\n\n")[0], re.MULTILINE)
        without += [f"{name} {verb}".strip() for verb in verbs or [""] if "--json" not in help_of(name, *verb.split())]
    assert without == []


@pytest.mark.parametrize("columns", ["30", "60", "80", "140"])
@pytest.mark.parametrize("words", FOR_PEOPLE)
def test_lines_fit_the_terminal(kept: Kept, words: str, columns: str) -> None:
    _, out, _ = kept.run(*words.split(), COLUMNS=columns)
    assert out
    shown = [line for line in out.splitlines() if str(kept.home) not in line]
    assert [line for line in shown if len(line) > int(columns)] == []


@pytest.mark.parametrize(
    ("environ", "colored"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "0"}, False),
        ({"FORCE_COLOR": ""}, False),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": ""}, True),
    ],
)
@pytest.mark.parametrize("words", ["sessions", "models", "config", "usage", "doctor", "search clock"])
def test_colours_are_forced_and_forbidden_by_the_environment(
    kept: Kept, words: str, environ: dict[str, str], colored: bool
) -> None:
    _, out, _ = kept.run(*words.split(), **environ)
    assert ("\x1b[" in out) is colored
