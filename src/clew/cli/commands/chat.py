"""`clew chat`: talk to a model that can work in a project; `-p` asks once, for scripts. The screen is in `tui`."""

from __future__ import annotations

import argparse
import os
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

from clew.cli.arguments import add_set_flag
from clew.cli.console import Console
from clew.cli.failures import exit_code
from clew.config import LoadedConfig, load_config
from clew.errors import ClewError, InvalidArgument, NoModel, StoreError

if TYPE_CHECKING:
    from clew.agent import ApprovalMode, AskPerson
    from clew.app import AgentApp
    from clew.events import Event
    from clew.store import Store

REFUSED = 3
"""The exit code where there is an answer, but something that it needed was not allowed to run."""
LAST_SESSION = "\0last"
CHAT_SOURCE = "terminal"
"""Of sessions that a chat began, not a gateway or an import."""
_MAX_RECENT = 200
_STDIN_NOTICE_SECONDS = 2.0
EXAMPLES = """\
In the chat: Enter sends, Alt-Enter or a backslash at the end makes a new line, /help
lists the commands, Ctrl-C stops a turn and keeps the reply, Ctrl-D leaves. What is
typed while a turn runs is asked next. @path in a question takes a file, a folder's names
or a picture along; !command runs a command, !!command also shows it to the model.

With -p, or where no terminal is there, one question is asked: the answer goes to
stdout, everything else to stderr. What is dangerous is then refused, unless --yes; the
exit code is 3 where that happened, 1 where there is no answer, 2 for wrong use.

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
    parser.add_argument(
        "--json-stream", action="store_true", help="with -p: print each thing as it happens, one JSON object a line"
    )
    parser.add_argument("--model", metavar="NAME", help="the model; local is the one that runs on this machine")
    parser.add_argument("--provider", metavar="NAME", help="who serves it: openai, anthropic, openrouter, ...")
    parser.add_argument("--base-url", metavar="URL", help="address of the endpoint")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--resume",
        metavar="SESSION",
        nargs="?",
        const=LAST_SESSION,
        help="go on with a session: its id or title; none: the last one",
    )
    which.add_argument(
        "--continue", action="store_const", const=LAST_SESSION, dest="resume", help="the same as --resume alone"
    )
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

    if _is_interactive(arguments, console):
        if arguments.json or arguments.json_stream:
            raise InvalidArgument('--json and --json-stream are for -p; ask with it: clew chat -p "..." --json')
        try:
            return asyncio.run(_run_chat(arguments, console))
        except NoModel:
            if not _choose_model(console):
                raise
            return asyncio.run(_run_chat(arguments, console))
    try:
        return asyncio.run(_ask_once(arguments, console))
    except ClewError as problem:
        return _report_failure(problem, arguments, console)


def _choose_model(console: Console) -> bool:
    """On a first run without a model: a short choice instead of an error."""
    from clew.cli.model_setup import choose_model, terminal_prompts

    console.print("No model is chosen yet. There are:")
    return choose_model(console, terminal_prompts(console))


def _is_interactive(arguments: argparse.Namespace, console: Console) -> bool:
    """Whether a person is at the terminal; otherwise one question is asked."""
    return arguments.once is None and console.is_typed_at and console.out.isatty()


# -- one question ------------------------------------------------------------------------------------------------------


async def _ask_once(arguments: argparse.Namespace, console: Console) -> int:
    question = _question_text(arguments, console)
    from clew.cli.tui.print_mode import ExchangeRecorder, ask_once, exchange_json, print_answer

    recorder = ExchangeRecorder(console, streams=arguments.json_stream)
    async with _open_app(arguments, console, recorder.on_event) as (app, session):
        try:
            exchange = await ask_once(app, session, question, recorder)
        except ClewError as problem:
            # Here, where the session is known: the question is kept in it, and a script may want to go on.
            return _report_failure(problem, arguments, console, session)
        tip = await app.store.get_compression_tip(session)
    recorder.warnings[:0] = app.notices
    if arguments.json_stream:
        recorder.emit("result", **exchange_json(exchange, tip, recorder))
    elif arguments.json:
        console.print_json(exchange_json(exchange, tip, recorder))
    else:
        print_answer(exchange, recorder, console)
    return REFUSED if recorder.refusals else 0


def _report_failure(
    problem: ClewError, arguments: argparse.Namespace, console: Console, session: str | None = None
) -> int:
    """Print why there is no answer, as text or JSON; returns the exit code."""
    from clew.cli.tui.exchange import problem_json, problem_line

    if arguments.json_stream:
        console.print_json_line({"event": "error", **problem_json(problem, session)})
    elif arguments.json:
        console.print_json(problem_json(problem, session))
    else:
        console.error(problem_line(problem))
    return exit_code(problem)


def _question_text(arguments: argparse.Namespace, console: Console) -> str:
    """The question: the words of the command line, then what is piped in."""
    given = [*([arguments.once] if arguments.once not in (None, "-") else []), *arguments.question]
    piped = _read_stdin(console) if arguments.once == "-" or not given or _is_piped(console.stdin) else ""
    question = "\n\n".join(part for part in (" ".join(given), piped.rstrip("\n")) if part.strip())
    if not question.strip():
        raise InvalidArgument('there is no question; give one: clew chat -p "...", or pipe one in')
    return question


def _is_piped(stdin: TextIO | None) -> bool:
    """Whether stdin is a pipe or a file; a stdin that merely stays open must not be waited for."""
    if stdin is None:
        return False
    try:
        mode = os.fstat(stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def _read_stdin(console: Console) -> str:
    if console.stdin is None or console.is_typed_at:
        return ""
    from threading import Timer

    # A stdin that some program left open never ends: say so to whoever wonders why nothing happens.
    waiting = Timer(
        _STDIN_NOTICE_SECONDS,
        console.note,
        ["standard input is read too; close it (< /dev/null) where it says nothing"],
    )
    waiting.daemon = True
    waiting.start()
    try:
        return console.stdin.read()
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"standard input is no {error.encoding} text; pipe in text") from error
    finally:
        waiting.cancel()


# -- a chat ------------------------------------------------------------------------------------------------------------


async def _run_chat(arguments: argparse.Namespace, console: Console) -> int:
    from clew.cli.tui.start import ChatTerminal, run_terminal_chat

    terminal = ChatTerminal.of(console)
    first = [" ".join(arguments.question)] if arguments.question else []
    async with _open_app(arguments, console, terminal.on_event, terminal.approvals.approve) as (app, session):
        mode = arguments.approvals or app.settings.agent.approvals
        await run_terminal_chat(terminal, app, session, mode, first, is_resumed=arguments.resume is not None)
    return 0


# -- what both need ----------------------------------------------------------------------------------------------------


def _model_flags(
    model: str | None, arguments: argparse.Namespace, console: Console, *, is_resumed: bool = False
) -> list[str]:
    """The settings for the model that is named, found as by `clew models use`; `is_resumed`: the session names it."""
    from dataclasses import fields

    from clew.cli.model_choice import LOCAL, chosen_settings
    from clew.config import clew_home

    before = load_config(console.environ, arguments.flags).settings.model
    if model is None or arguments.base_url is not None:
        given = {"name": model, "provider": arguments.provider, "base_url": arguments.base_url}
        flags = [f"model.{key}={value}" for key, value in given.items() if value is not None]
        if arguments.base_url is not None and arguments.provider is None and before.provider == LOCAL:
            # The model on this machine is not at that address, and its window not the other's.
            flags += ["model.provider=null", "model.context_length=null"]
        return flags
    if is_resumed and model == before.name:
        return []
    chosen = chosen_settings(model, arguments.provider, before, clew_home(console.environ))
    names = [field.name for field in fields(chosen)]
    now = {name: getattr(chosen, name) for name in names if getattr(chosen, name) != getattr(before, name)}
    return [f"model.{name}={'null' if value is None else value}" for name, value in now.items()]


async def _config(arguments: argparse.Namespace, console: Console, store: Store) -> tuple[LoadedConfig, str | None]:
    """The config with the model to talk to, and the session to go on with, if one is named.

    A session goes on with its own model, unless another is named or nobody here is known to serve it.
    """
    from clew.app import check_model  # late, as all that only a chat needs

    session = await _resumed_session(arguments, store)
    model = arguments.model
    notices: tuple[str, ...] = ()
    own = None if session is None or model else (await store.session(session)).model
    try:
        flags = _model_flags(model or own, arguments, console, is_resumed=own is not None)
    except InvalidArgument:
        if own is None:
            raise
        notices = (f"the session was with {own}, which nobody here is known to serve; --model names another",)
        flags = _model_flags(None, arguments, console)
    loaded = load_config(console.environ, [*flags, *arguments.flags])
    check_model(loaded.settings.model)
    return replace(loaded, notices=(*loaded.notices, *notices)), session


@asynccontextmanager
async def _open_app(
    arguments: argparse.Namespace,
    console: Console,
    on_event: Callable[[Event], None],
    ask: AskPerson | None = None,
) -> AsyncIterator[tuple[AgentApp, str]]:
    """The app in the project that is named, over the configured store, and the session to talk in."""
    # Late, because a provider takes longer to import than `clew chat --help` should.
    from clew.agent.process_privacy import hide_keys_of_process
    from clew.app import AgentAppOptions, open_agent_app
    from clew.cli.store_access import open_location, store_location
    from clew.events import Events

    options = AgentAppOptions(
        project=_project_folder(arguments.project),
        ask=ask,
        approvals=cast("ApprovalMode | None", arguments.approvals),
        events=Events(on_event),
        has_tools=not arguments.no_tools,
        system=_system_prompt(arguments.system),
    )
    settings = load_config(console.environ, arguments.flags).settings
    async with open_location(store_location(settings, console.environ)) as store:
        loaded, session = await _config(arguments, console, store)
        async with open_agent_app(loaded, console.environ, store, options) as app:
            hide_keys_of_process(console.environ, app.key_variables)
            yield app, session or await app.new_session()


def _project_folder(name: str) -> Path:
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


async def _resumed_session(arguments: argparse.Namespace, store: Store) -> str | None:
    """The session to go on with: the one that is named, or the last one; None for a new one."""
    if arguments.resume is None:
        return None
    if arguments.resume == LAST_SESSION:
        return await _last_session(store)
    from clew.cli.store_access import find_session

    return await store.get_compression_tip((await find_session(store, arguments.resume)).id)


async def _last_session(store: Store) -> str:
    newest = await store.list_sessions(limit=_MAX_RECENT, only_tips=True)
    for it in newest:
        # One without a message is a chat that was just opened, or killed before anything was asked.
        if it.source == CHAT_SOURCE and it.kind != "subagent" and await store.messages(it.id, 0, 1, keep_damaged=True):
            return it.id
    raise StoreError(
        "there is no chat to go on with yet; `clew chat` begins one, and --resume SESSION takes up any other"
    )
