"""`clew chat`: talk to a model that can work in a project; `-p` asks once, for scripts.

Decodes arguments, opens the desk and hands it to the screen. What is drawn is in `tui`.
"""

from __future__ import annotations

import argparse
import os
import stat
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from clew.cli.config import add_set_flag
from clew.cli.output import Console
from clew.config import Loaded, load_config
from clew.errors import ClewError, InvalidArgument, StoreError

if TYPE_CHECKING:
    from clew.agent import AskPerson, Mode
    from clew.app import Desk
    from clew.events import Event
    from clew.store import Store

FAILED, WRONG_USE = 1, 2
LAST = "\0last"
OWN_SOURCE = "terminal"
"""Of sessions that a chat began, not a gateway or an import."""
_RECENT = 200
_PATIENCE_SECONDS = 2.0
EXAMPLES = """\
In the chat: Enter sends, Alt-Enter or a backslash at the end makes a new line, /help
lists the commands, Ctrl-C stops a turn and keeps what came, Ctrl-D leaves. What is
typed while a turn runs is asked next. @picture.png in a question takes a picture along.

With -p, or where no terminal is there, one question is asked: the answer goes to
stdout, everything else to stderr. What is dangerous is then refused, unless --yes.

examples:
  clew chat
  clew chat --model claude-sonnet-4-5 "What does this project do?"
  clew chat --model local
  clew chat --continue
  clew chat -p "Name the largest file here" --json
  git diff | clew chat -p "Write a commit message for this"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("question", metavar="QUESTION", nargs="*", help="the first question")
    parser.add_argument(
        "-p", "--print", metavar="TEXT", nargs="?", const="-", dest="once",
        help="ask this once, print the answer and leave; - is standard input",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="with -p: print JSON")
    parser.add_argument("--model", metavar="NAME", help="the model; local is the one that runs on this machine")
    parser.add_argument("--provider", metavar="NAME", help="who serves it: openai, anthropic, openrouter, ...")
    parser.add_argument("--base-url", metavar="URL", help="address of the endpoint")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--resume",
        metavar="SESSION",
        nargs="?",
        const=LAST,
        help="go on with a session: its id or title; none: the last one",
    )
    which.add_argument("--continue", action="store_const", const=LAST, dest="resume", help="the same as --resume alone")
    parser.add_argument("--project", metavar="DIR", default=".", help="the folder to work in (default: this one)")
    approvals = parser.add_mutually_exclusive_group()
    approvals.add_argument(
        "--yes", action="store_const", const="allow", dest="approvals", help="run all without asking"
    )
    approvals.add_argument(
        "--deny", action="store_const", const="deny", dest="approvals", help="refuse what is dangerous"
    )
    parser.add_argument("--no-tools", action="store_true", help="only talk: the model can do nothing")
    parser.add_argument("--system", metavar="FILE", help="a system prompt of your own")
    add_set_flag(parser)


def run(arguments: argparse.Namespace, console: Console) -> int:
    import asyncio  # late, as everything that `--help` does not need

    if _is_chat(arguments, console):
        if arguments.json:
            raise InvalidArgument('--json is for -p: clew chat -p "..." --json')
        return asyncio.run(_converse(arguments, console))
    try:
        return asyncio.run(_ask_once(arguments, console))
    except ClewError as problem:
        return _tell_failed(problem, console, is_json=arguments.json)


def _is_chat(arguments: argparse.Namespace, console: Console) -> bool:
    """Whether somebody sits there; otherwise one question is asked."""
    return arguments.once is None and sys.stdin is not None and sys.stdin.isatty() and console.out.isatty()


# -- one question ------------------------------------------------------------------------------------------------------


async def _ask_once(arguments: argparse.Namespace, console: Console) -> int:
    question = _question(arguments, console)
    loaded = _config(arguments, console)
    from clew.cli.tui.once import Account, as_json, ask_once, say_answer

    account = Account(console)
    async with _desk(arguments, loaded, console, account.heard) as desk:
        session = await _session(arguments, desk)
        try:
            exchange = await ask_once(desk, session, question, account)
        except ClewError as problem:
            # Here, where the session is known: the question is kept in it, and a script may want to go on.
            return _tell_failed(problem, console, session, is_json=arguments.json)
        tip = await desk.store.get_compression_tip(session)
    account.warnings[:0] = desk.notices
    if arguments.json:
        console.say_json(as_json(exchange, tip, account))
    else:
        say_answer(exchange, account, console)
    return 0


def _tell_failed(problem: ClewError, console: Console, session: str | None = None, *, is_json: bool) -> int:
    """Say why there is no answer, where it is looked for; the exit code, the same for people and programs."""
    from clew.cli.tui.once import problem_json, problem_line

    if is_json:
        console.say_json(problem_json(problem, session))
    else:
        console.fail(problem_line(problem))
    return WRONG_USE if isinstance(problem, InvalidArgument) else FAILED


def _question(arguments: argparse.Namespace, console: Console) -> str:
    """What is asked: words given, with what is piped in behind them."""
    given = [*([arguments.once] if arguments.once not in (None, "-") else []), *arguments.question]
    piped = _piped(console) if arguments.once == "-" or not given or _is_piped() else ""
    question = "\n\n".join(part for part in (" ".join(given), piped.rstrip("\n")) if part.strip())
    if not question.strip():
        raise InvalidArgument('there is no question; give one: clew chat -p "...", or pipe one in')
    return question


def _is_piped() -> bool:
    """Whether something is piped in or given as a file; a stdin that merely stays open must not be waited for."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def _piped(console: Console) -> str:
    if sys.stdin is None or sys.stdin.isatty():
        return ""
    from threading import Timer

    # A stdin that some program left open never ends: whoever wonders why nothing happens should read the reason.
    waiting = Timer(
        _PATIENCE_SECONDS, console.note, ["standard input is read too; close it (< /dev/null) where it says nothing"]
    )
    waiting.daemon = True
    waiting.start()
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"standard input is no {error.encoding} text; pipe in text") from error
    finally:
        waiting.cancel()


# -- a chat ------------------------------------------------------------------------------------------------------------


async def _converse(arguments: argparse.Namespace, console: Console) -> int:
    loaded = _config(arguments, console)
    from clew.cli.tui.start import Terminal, converse

    terminal = Terminal.of(console)
    first = [" ".join(arguments.question)] if arguments.question else []
    async with _desk(arguments, loaded, console, terminal.heard, terminal.questions.approve) as desk:
        session = await _session(arguments, desk)
        mode = arguments.approvals or loaded.settings.agent.approvals
        await converse(terminal, desk, session, mode, first, is_resumed=arguments.resume is not None)
    return 0


# -- what both need ----------------------------------------------------------------------------------------------------


def _config(arguments: argparse.Namespace, console: Console) -> Loaded:
    from clew.app import check_model  # late, as all that only a chat needs

    loaded = load_config(console.environ, [*_model_flags(arguments, console), *arguments.flags])
    check_model(loaded.settings.model)
    return loaded


def _model_flags(arguments: argparse.Namespace, console: Console) -> list[str]:
    """The settings that the flags of a chat mean. A model is found by its name, as `clew models use` would."""
    from dataclasses import fields

    from clew.cli.models_choice import chosen_settings
    from clew.config import clew_home

    if arguments.model is None or arguments.base_url is not None:
        given = {"name": arguments.model, "provider": arguments.provider, "base_url": arguments.base_url}
        return [f"model.{key}={value}" for key, value in given.items() if value is not None]
    before = load_config(console.environ, arguments.flags).settings.model
    chosen = chosen_settings(arguments.model, arguments.provider, before, clew_home(console.environ))
    names = [field.name for field in fields(chosen)]
    now = {name: getattr(chosen, name) for name in names if getattr(chosen, name) != getattr(before, name)}
    return [f"model.{name}={'null' if value is None else value}" for name, value in now.items()]


@asynccontextmanager
async def _desk(
    arguments: argparse.Namespace,
    loaded: Loaded,
    console: Console,
    heard: Callable[[Event], None],
    ask: AskPerson | None = None,
) -> AsyncIterator[Desk]:
    """The desk in the project that is named, over the configured store."""
    # Late, because a provider takes longer to import than `clew chat --help` should.
    from clew.app import DeskOptions, open_desk
    from clew.cli.open_store import opened, store_place
    from clew.events import Events

    options = DeskOptions(
        project=_project(arguments.project),
        ask=ask,
        approvals=cast("Mode | None", arguments.approvals),
        events=Events(heard),
        has_tools=not arguments.no_tools,
        system=_system_prompt(arguments.system),
    )
    async with (
        opened(store_place(loaded.settings, console.environ)) as store,
        open_desk(loaded, console.environ, store, options) as desk,
    ):
        yield desk


def _project(name: str) -> Path:
    project = Path(name)
    if not project.is_dir():
        raise InvalidArgument(f"--project {name}: there is no such folder; make it, or name another")
    return project


def _system_prompt(name: str | None) -> str | None:
    if name is None:
        return None
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"--system {name}: cannot be read: {error}; name a text file") from error


async def _session(arguments: argparse.Namespace, desk: Desk) -> str:
    """The session to talk in: the one that is named, the last one, or a new one."""
    if arguments.resume is None:
        return await desk.new_session()
    if arguments.resume == LAST:
        return await _last(desk.store)
    from clew.cli.session_lookup import find_session

    return (await find_session(desk.store, arguments.resume)).id


async def _last(store: Store) -> str:
    newest = await store.list_sessions(limit=_RECENT, only_tips=True)
    for it in newest:
        # One without a message is a chat that was just opened, or killed before anything was asked.
        if it.source == OWN_SOURCE and it.kind != "subagent" and await store.messages(it.id, 0, 1):
            return it.id
    raise StoreError(
        "there is no chat to go on with yet; `clew chat` begins one, and --resume SESSION takes up any other"
    )
