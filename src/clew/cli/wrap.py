"""`clew wrap [--upstream URL] -- COMMAND ...`: run a program with a private gateway."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import click

from clew.cli.console import Console, json_text
from clew.cli.options import CliCommand, command, mode_option, option, set_option
from clew.cli.store_access import load_settings, store_location
from clew.config import LoadedConfig, clew_home
from clew.errors import InvalidArgument, StoreError
from clew.portable import IS_POSIX, ends_with_its_parent

if TYPE_CHECKING:
    from clew.gateway import ExchangeRecord
    from clew.gateway import Mode as GatewayMode
    from clew.integrations.wrap_overlays import WrappedProgram
    from clew.store import Store

EXAMPLES = """\
The program is run as it is, in this terminal, and calls a gateway that no other program
uses, on a free port of this machine. Its API address is set by environment variables
(OPENAI_BASE_URL, ANTHROPIC_BASE_URL, GOOGLE_GEMINI_BASE_URL and those of Copilot,
opencode and nanocoder), by flags (Codex, Continue), or by a temporary config that is
removed afterwards (pi, Cline, Hermes). Your config files are never written. Exit status
and signals are the program's. When it ends, one line on stderr sums up its calls.

Where its calls go: --upstream; else the address it already uses (Claude Code also by
CLAUDE_CODE_USE_BEDROCK or CLAUDE_CODE_USE_VERTEX, Codex by its ChatGPT login); else the
API of the program (Codex and llm: OpenAI, Claude Code: Anthropic, Gemini CLI: Google);
else model.base_url; else the APIs whose keys are in the environment. Errors of the
gateway are logged in wrap.log, in Clew's folder.

examples:
  clew wrap -- claude
  clew wrap -- codex exec "fix the tests"
  clew wrap --upstream http://127.0.0.1:8080/v1 --set model.name=qwen -- opencode
  clew wrap --mode observe --upstream https://api.openai.com -- python my_agent.py
"""
_LOG_BYTES = 1_000_000
_FORWARDED = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGINT", "SIGQUIT")
_FROM_KEYBOARD = ("SIGINT", "SIGQUIT")


class _WrapCommand(CliCommand):
    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(ctx.command_path, "[--upstream URL] [--mode MODE] [--set KEY=VALUE] -- COMMAND ...")


@command(EXAMPLES, cls=_WrapCommand, context_settings={"allow_interspersed_args": False})
@option(
    "--upstream",
    "URL",
    "the provider's address (default: the one the program uses); may be repeated, as for clew serve",
    multiple=True,
)
@mode_option
@click.option("--json", "as_json", is_flag=True, help="write the closing line to stderr as JSON")
@set_option
@click.argument("words", metavar="COMMAND", nargs=-1, type=click.UNPROCESSED)
def wrap_command(
    console: Console,
    upstream: tuple[str, ...],
    mode: GatewayMode,
    words: tuple[str, ...],
) -> int:
    if not words:
        raise InvalidArgument("wrap: COMMAND is missing", remedy="name the program to run: clew wrap -- codex")
    code = asyncio.run(_wrap(words, upstream, mode, load_settings(console), console))
    if code < 0:
        end_by_signal(-code)
    return 128 - code if code < 0 else code


async def _wrap(
    command: tuple[str, ...],
    upstream: tuple[str, ...],
    mode: GatewayMode,
    config: LoadedConfig,
    console: Console,
) -> int:
    from clew.app import GatewayAppOptions, open_gateway
    from clew.events import CompactionFinished, Event, Events
    from clew.gateway import GatewayOptions, find_program, served_model
    from clew.integrations.wrap_overlays import OverlayFolders, WrapTarget, find_upstreams, wrap_program

    environ = console.environ
    if shutil.which(command[0], path=environ.get("PATH")) is None:
        remedy = "check that it is installed and on the PATH"
        raise InvalidArgument(f"there is no program {command[0]!r}", remedy=remedy)
    upstreams = upstream or find_upstreams(find_program(command)[0], environ, config.settings)
    if not upstreams:
        remedy = f"name it: clew wrap --upstream https://api.openai.com/v1 -- {command[0]}"
        raise InvalidArgument(f"the API that {command[0]} calls is unknown", remedy=remedy)
    home = clew_home(environ)
    folders = OverlayFolders(home / "wrap")
    folders.sweep()
    token, started = secrets.token_urlsafe(24), datetime.now(UTC)
    exchanges: list[ExchangeRecord] = []
    folds: list[Event] = []
    options = GatewayAppOptions(
        upstreams,
        mode,
        GatewayOptions(port=0, token=token, needs_token=True),
        exchanges.append,
        is_private=True,
    )
    events = Events(lambda event: folds.append(event) if isinstance(event, CompactionFinished) else None)
    async with AsyncExitStack() as last:
        folder = last.enter_context(folders.open())
        last.enter_context(_logged_to(home / "wrap.log"))
        store = await last.enter_async_context(store_location(config.settings, environ).open())
        gateway = await last.enter_async_context(open_gateway(config, environ, store, options, events))
        asked = upstreams[0].rpartition("=")[2]
        target = WrapTarget(gateway.address, token, asked, served_model(config.settings.model), environ, folder)
        code = await run_child(wrap_program(command, target))
        await gateway.exchanges.close()
        folded = sum(isinstance(it, CompactionFinished) and it.continued_as is not None for it in folds)
        try:
            line, fields = await _closing_line(store, exchanges, folded, started, command[0])
            if console.as_json:
                console.err.write(f"{json_text(fields)}\n")
            else:
                console.note(line)
        except StoreError as problem:
            console.note(f"the calls through the gateway could not be read: {problem}")
        return code


async def _closing_line(
    store: Store, exchanges: Sequence[ExchangeRecord], folds: int, started: datetime, program: str
) -> tuple[str, dict[str, Any]]:
    """The calls through the gateway, on one line and as JSON."""
    from clew.cli.pages import format_saving, percent, plural
    from clew.cli.usage import cost_text, usage_json
    from clew.store import CallFilter

    calls = [it for it in exchanges if it.action != "count"]
    if not calls:
        line = (
            f"nothing went through the gateway: {Path(program).name} called no model, or used another address; "
            "`clew serve --show all` shows how to set the address of a program"
        )
        return line, {"calls": 0, "failed": 0, "folds": 0, "sessions": [], "usage": None}
    sessions = dict.fromkeys(it.session for it in calls if it.session)
    known = [await store.session(each) for each in sessions]
    conversations = {each.conversation for each in known}
    (total,) = await store.usage(which=CallFilter(conversations=list(conversations), since=started))
    usage = total.usage
    words = [
        plural(len(calls), "call"),
        f"{usage.prompt_tokens:,} tokens in ({percent(usage.cache_read_tokens, usage.prompt_tokens)} cached)",
        f"{usage.output_tokens:,} out",
        plural(folds, "fold"),
        cost_text(total),
    ]
    if folds and total.compared_calls:
        words.append(f"saved {format_saving(total.saved_micros)}")
    failed = sum(it.status >= 400 for it in calls)
    words += [f"{failed} failed"] if failed else []
    more = f" and {len(conversations) - 1} more" if len(conversations) > 1 else ""
    words += [f"session {known[-1].id}{more}"] if known else []
    fields = {"calls": len(calls), "failed": failed, "folds": folds, "sessions": [each.id for each in known]}
    return ", ".join(words), {**fields, "usage": usage_json(total)}


@contextmanager
def _logged_to(path: Path) -> Iterator[None]:
    """Log to a file instead of the program's terminal."""
    logger = logging.getLogger("clew")
    file = RotatingFileHandler(path, maxBytes=_LOG_BYTES, backupCount=1, encoding="utf-8", delay=True)
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    propagates = logger.propagate
    logger.addHandler(file)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(file)
        logger.propagate = propagates
        file.close()


async def run_child(program: WrappedProgram) -> int:
    """Run a program without blocking the event loop; returns its exit code, or the negative number of a signal.

    It shares the standard streams and the process group, so that it controls the terminal. It ends if this process is
    killed.
    """
    child = _start(program)
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[int] = loop.create_future()
    for name in _FORWARDED if IS_POSIX else ():
        number = signal.Signals[name]
        loop.add_signal_handler(number, _forward, child, number)
    Thread(target=_wait, args=(child, loop, ended), daemon=True).start()
    try:
        return await ended
    finally:
        if child.poll() is None:
            child.terminate()


def _start(program: WrappedProgram) -> subprocess.Popen[bytes]:
    """Start the program in the main thread, since the end of a thread counts as the end of the parent."""
    try:
        return subprocess.Popen(program.command, env=program.environ, preexec_fn=ends_with_its_parent())
    except OSError as error:
        remedy = "check that it is installed and on the PATH"
        raise InvalidArgument(f"{program.command[0]} cannot be run ({error.strerror})", remedy=remedy) from error


def end_by_signal(number: int) -> None:
    """End this process by the signal that ended the child, so that a shell sees the same status."""
    if number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL):
        sys.stdout.flush()
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def _forward(child: subprocess.Popen[bytes], number: signal.Signals) -> None:
    if number.name in _FROM_KEYBOARD and _is_in_foreground():
        return  # the terminal sends these to the whole group, the child included
    with suppress(ProcessLookupError):
        child.send_signal(number)


def _is_in_foreground() -> bool:
    """Whether this process group is in the foreground of a terminal."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _wait(child: subprocess.Popen[bytes], loop: asyncio.AbstractEventLoop, ended: asyncio.Future[int]) -> None:
    code = _wait_with_stops(child) if IS_POSIX else child.wait()
    with suppress(RuntimeError):  # the loop was closed first
        loop.call_soon_threadsafe(lambda: None if ended.done() else ended.set_result(code))


def _wait_with_stops(child: subprocess.Popen[bytes]) -> int:
    """Wait for a child. While it is stopped (Ctrl-Z), this process is stopped too, so that the shell gets control."""
    while True:
        try:
            _, status = os.waitpid(child.pid, os.WUNTRACED)
        except ChildProcessError:
            return child.wait()
        if not os.WIFSTOPPED(status):
            child.returncode = os.waitstatus_to_exitcode(status)
            return child.returncode
        os.kill(os.getpid(), signal.SIGSTOP)
        with suppress(ProcessLookupError):
            child.send_signal(signal.SIGCONT)
