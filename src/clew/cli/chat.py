"""`clew chat`: chat with a model that can work in a project; `-p` asks one question. The screen is in `tui`."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from clew.cli.console import Console
from clew.cli.entry import exit_code
from clew.cli.options import (
    FILE,
    FOLDER,
    base_url_option,
    command,
    complete_models,
    complete_sessions,
    option,
    provider_option,
    refuse,
    set_option,
)
from clew.config import LoadedConfig, ModelSettings, clew_home, load_config
from clew.errors import ClewError, InvalidArgument, NoModel, ProviderRefused, StoreError

if TYPE_CHECKING:
    from clew.agent import ApprovalMode, AskPerson
    from clew.app import AgentApp
    from clew.events import Event
    from clew.store import Store

REFUSED = 3
"""The exit code if there is an answer, but a tool call was refused."""
LAST_SESSION = "\0last"
CHAT_SOURCE = "terminal"
"""The source of sessions that a chat started."""
_MAX_RECENT = 200
_STDIN_NOTICE_SECONDS = 2.0
EXAMPLES = """\
In the chat: Enter sends, Alt-Enter or a backslash at the end makes a new line, /help
lists the commands, Ctrl-C stops a turn and keeps the reply, Ctrl-D leaves. Lines typed
while a turn runs are queued. @path in a question attaches a file, the names in a folder,
or a picture; !command runs a command, !!command also shows its output to the model.

With -p, or without a terminal, one question is asked: the answer goes to stdout,
everything else to stderr. Dangerous calls are then refused, unless --yes is given. Exit
code: 3 where a call was refused, 1 where there is no answer, 2 for wrong use.

examples:
  clew chat
  clew chat --model claude-sonnet-4-5 "What does this project do?"
  clew chat --model local
  clew chat --continue
  clew chat -p "Name the largest file here" --json
  git diff | clew chat -p "Write a commit message for this"
"""


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """The options of the command line."""

    question: tuple[str, ...] = ()
    once: str | None = None
    json_stream: bool = False
    model: str | None = None
    provider: str | None = None
    base_url: str | None = None
    resume: str | None = None
    project: str = "."
    approvals: ApprovalMode | None = None
    no_tools: bool = False
    system: str | None = None


@command(EXAMPLES, exclusive=("resume", "continues"))
@click.argument("question", metavar="QUESTION", nargs=-1)
@option(
    "-p --print once",
    "[TEXT]",
    "ask this once, print the answer and leave; - is standard input",
    is_flag=False,
    flag_value="-",
)
@click.option("--json", "as_json", is_flag=True, help="with -p: print JSON")
@click.option("--json-stream", is_flag=True, help="with -p: print each thing as it happens, one JSON object a line")
@option("--model", "NAME", "the model; local is the one that runs on this machine", complete_models)
@provider_option
@base_url_option
@option(
    "--resume",
    "[SESSION]",
    "continue a session, by id or title; without one: the last",
    complete_sessions,
    is_flag=False,
    flag_value=LAST_SESSION,
)
@click.option("--continue", "continues", is_flag=True, help="the same as --resume alone")
@option("--project", "DIR", "the folder to work in (default: this one)", type=FOLDER, default=".")
@click.option("--yes", is_flag=True, help="run every call without asking")
@click.option("--deny", is_flag=True, help="refuse dangerous calls")
@click.option("--no-tools", is_flag=True, help="no tools: the model can only answer")
@option("--system", "FILE", "use this file as the system prompt", type=FILE)
@set_option
@click.pass_context
def chat_command(
    context: click.Context,
    /,
    console: Console,
    continues: bool,
    yes: bool,
    deny: bool,
    resume: str | None,
    **given: Any,
) -> int:
    import asyncio  # late, for the start-up time

    if yes and deny:
        refuse(context, "--deny: not allowed with --yes")
    approvals: ApprovalMode | None = "allow" if yes else "deny" if deny else None
    options = ChatOptions(**given, resume=LAST_SESSION if continues else resume, approvals=approvals)
    if _is_interactive(options, console):
        if console.as_json or options.json_stream:
            remedy = 'ask with it: clew chat -p "..." --json'
            raise InvalidArgument("--json and --json-stream are for -p", remedy=remedy)
        try:
            return asyncio.run(_run_chat(options, console))
        except NoModel:
            if not _choose_model(console):
                raise
            return asyncio.run(_run_chat(options, console))
    try:
        return asyncio.run(_ask_once(options, console))
    except ClewError as problem:
        return _report_failure(problem, options, console)


def _choose_model(console: Console) -> bool:
    """Ask for a model on a first run, instead of an error."""
    from clew.cli.init import choose_model, terminal_prompts

    console.print("No model is chosen yet. There are:")
    return choose_model(console, terminal_prompts(console))


def _is_interactive(options: ChatOptions, console: Console) -> bool:
    """Whether to open a chat; otherwise one question is asked."""
    return options.once is None and console.is_typed_at and console.out.isatty()


async def _ask_once(options: ChatOptions, console: Console) -> int:
    question = _question_text(options, console)
    from clew.cli.tui.exchange import ExchangeRecorder, ask_once, exchange_json, print_answer

    recorder = ExchangeRecorder(console, streams=options.json_stream)
    async with _open_app(options, console, recorder.on_event) as (app, session):
        try:
            exchange = await ask_once(app, session, question, recorder)
        except ClewError as problem:
            # With the session, which has the question: a script may continue it.
            return _report_failure(problem, options, console, session)
        tip = await app.store.get_compression_tip(session)
    recorder.warnings[:0] = app.notices
    if options.json_stream:
        recorder.emit("result", **exchange_json(exchange, tip, recorder))
    elif console.as_json:
        console.print_json(exchange_json(exchange, tip, recorder))
    else:
        print_answer(exchange, recorder, console)
    return REFUSED if recorder.refusals else 0


def _report_failure(problem: ClewError, options: ChatOptions, console: Console, session: str | None = None) -> int:
    """Print the error, as text or JSON; returns the exit code."""
    from clew.cli.tui.exchange import explain_problem, problem_json

    if options.json_stream:
        console.print_json_line({"event": "error", **problem_json(problem, session)})
    elif console.as_json:
        console.print_json(problem_json(problem, session))
    else:
        console.error(explain_problem(problem) if isinstance(problem, ProviderRefused) else str(problem))
    return exit_code(problem)


def _question_text(options: ChatOptions, console: Console) -> str:
    """The question: the words of the command line, then the piped text."""
    given = [*([options.once] if options.once not in (None, "-") else []), *options.question]
    piped = _read_stdin(console) if options.once == "-" or not given or _is_piped(console.stdin) else ""
    question = "\n\n".join(part for part in (" ".join(given), piped.rstrip("\n")) if part.strip())
    if not question.strip():
        raise InvalidArgument("there is no question", remedy='give one: clew chat -p "...", or pipe one in')
    return question


def _is_piped(stdin: TextIO | None) -> bool:
    """Whether stdin is a pipe or a file; any other open stdin must not be read."""
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

    # A stdin that a program left open never ends: print a notice while waiting.
    waiting = Timer(
        _STDIN_NOTICE_SECONDS,
        console.note,
        ["standard input is read too; close it (< /dev/null) if it is empty"],
    )
    waiting.daemon = True
    waiting.start()
    try:
        return console.stdin.read()
    except UnicodeDecodeError as error:
        raise InvalidArgument(f"standard input is no {error.encoding} text", remedy="pipe in text") from error
    finally:
        waiting.cancel()


async def _run_chat(options: ChatOptions, console: Console) -> int:
    from clew.cli.tui.chat import ChatTerminal
    from clew.cli.tui.start import run_terminal_chat

    terminal = ChatTerminal.of(console)
    first = [" ".join(options.question)] if options.question else []
    async with _open_app(options, console, terminal.on_event, terminal.approvals.approve) as (app, session):
        mode = options.approvals or app.settings.agent.approvals
        await run_terminal_chat(terminal, app, session, mode, first, is_resumed=options.resume is not None)
    return 0


def _model_flags(model: str | None, options: ChatOptions, console: Console, *, is_resumed: bool = False) -> list[str]:
    """Settings for a model, as `clew models use` makes them; `is_resumed`: the model is that of the session."""
    from clew.app.model_choice import LOCAL, chosen_settings

    before = load_config(console.environ, console.flags).settings.model
    if model is None or options.base_url is not None:
        given = {"name": model, "provider": options.provider, "base_url": options.base_url}
        flags = [f"model.{key}={value}" for key, value in given.items() if value is not None]
        if options.base_url is not None and options.provider is None and before.provider == LOCAL:
            # The local model has another address and window.
            flags += ["model.provider=null", "model.context_length=null"]
        return flags
    if is_resumed and model == before.name:
        return []
    return _changed_flags(before, chosen_settings(model, options.provider, before, clew_home(console.environ)))


def _changed_flags(before: ModelSettings, now: ModelSettings) -> list[str]:
    names = [field.name for field in fields(now) if getattr(now, field.name) != getattr(before, field.name)]
    values = {name: getattr(now, name) for name in names}
    return [f"model.{name}={'null' if value is None else value}" for name, value in values.items()]


async def _config(options: ChatOptions, console: Console, store: Store) -> tuple[LoadedConfig, str | None]:
    """The config with the model of the chat, and the session to continue, if any.

    A session keeps its model, unless another is named or its provider is unknown.
    """
    from clew.app import ENDPOINT_STATE, check_model, settings_at

    session = await _resumed_session(options, store)
    model = options.model
    notices: tuple[str, ...] = ()
    own = None if session is None or model else (await store.session(session)).model
    is_elsewhere = options.base_url is not None or options.provider is not None
    kept = None if own is None or is_elsewhere else (await store.state(session or "")).get(ENDPOINT_STATE)
    before = load_config(console.environ, console.flags).settings.model
    try:
        if kept:
            flags = _changed_flags(before, settings_at(before, kept))
        else:
            flags = _model_flags(model or own, options, console, is_resumed=own is not None)
    except InvalidArgument:
        if own is None:
            raise
        notices = (f"the session used {own}, of which no provider is known here; --model names another",)
        flags = _model_flags(None, options, console)
    loaded = load_config(console.environ, [*flags, *console.flags])
    check_model(loaded.settings.model)
    return replace(loaded, notices=(*loaded.notices, *notices)), session


@asynccontextmanager
async def _open_app(
    options: ChatOptions,
    console: Console,
    on_event: Callable[[Event], None],
    ask: AskPerson | None = None,
) -> AsyncIterator[tuple[AgentApp, str]]:
    """Open the app in the project over the configured store; yields it with the session."""
    # Late, because a provider takes longer to import than `clew chat --help` should.
    from clew.agent.process_privacy import hide_keys_of_process
    from clew.app import AgentAppOptions, open_agent_app
    from clew.cli.store_access import store_location
    from clew.events import Events

    app_options = AgentAppOptions(
        project=_project_folder(options.project),
        ask=ask,
        approvals=options.approvals,
        events=Events(on_event),
        keeps_model=options.model is not None,
        has_tools=not options.no_tools,
        system=_system_prompt(options.system),
    )
    settings = load_config(console.environ, console.flags).settings
    async with store_location(settings, console.environ).open() as store:
        loaded, session = await _config(options, console, store)
        async with open_agent_app(loaded, console.environ, store, app_options) as app:
            hide_keys_of_process(console.environ, app.key_variables)
            if session is not None:
                await app.remember_endpoint(session)
            yield app, session or await app.new_session()


def _project_folder(name: str) -> Path:
    project = Path(name)
    if not project.is_dir():
        raise InvalidArgument(f"--project {name}: there is no such folder", remedy="make it, or name another")
    return project


def _system_prompt(name: str | None) -> str | None:
    if name is None:
        return None
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgument(f"--system {name}: cannot be read: {error}", remedy="name a text file") from error


async def _resumed_session(options: ChatOptions, store: Store) -> str | None:
    """The session to continue; None for a new one."""
    if options.resume is None:
        return None
    if options.resume == LAST_SESSION:
        return await _last_session(store)
    from clew.cli.store_access import find_session

    return await store.get_compression_tip((await find_session(store, options.resume)).id)


async def _last_session(store: Store) -> str:
    newest = await store.list_sessions(limit=_MAX_RECENT, only_tips=True)
    for it in newest:
        # A chat without messages was just opened, or ended before the first question.
        if it.source == CHAT_SOURCE and it.kind != "subagent" and await store.messages(it.id, 0, 1, keep_damaged=True):
            return it.id
    raise StoreError(
        "there is no chat to continue yet",
        remedy="`clew chat` starts one, and --resume SESSION continues any other session",
    )
