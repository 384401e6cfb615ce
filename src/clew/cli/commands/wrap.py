"""`clew wrap [--upstream URL] -- COMMAND ...`: one program through a private gateway, for as long as it runs."""

from __future__ import annotations

import argparse
import asyncio
import logging
import secrets
import shutil
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING

from clew.cli.arguments import add_set_flag
from clew.cli.console import Console
from clew.cli.store_access import open_location, store_location
from clew.config import LoadedConfig, clew_home, load_config
from clew.errors import InvalidArgument, StoreError

if TYPE_CHECKING:
    from clew.gateway import ExchangeRecord
    from clew.store import Store

EXAMPLES = """\
The program is run as it is, in this terminal, and calls a gateway that nobody else
uses, on a free port of this machine. It is pointed there by environment variables
(OPENAI_BASE_URL, ANTHROPIC_BASE_URL, GOOGLE_GEMINI_BASE_URL and those of Copilot,
opencode and nanocoder), by flags (Codex, Continue), or by config of its own that is
removed afterwards (pi, Cline, Hermes). Your own config is never written. Exit status
and signals are the program's. At its end one line on stderr says what went through.

Where its calls go: --upstream; else where it is pointed already (Claude Code also by
CLAUDE_CODE_USE_BEDROCK or CLAUDE_CODE_USE_VERTEX, Codex by its ChatGPT login); else the
API of the program (Codex and llm: OpenAI, Claude Code: Anthropic, Gemini CLI: Google);
else model.base_url; else the APIs whose keys are in the environment. What goes wrong in
the gateway is in wrap.log, in Clew's folder.

examples:
  clew wrap -- claude
  clew wrap -- codex exec "mend the tests"
  clew wrap --upstream http://127.0.0.1:8080/v1 --set model.name=qwen -- opencode
  clew wrap --mode observe --upstream https://api.openai.com -- python my_agent.py
"""
MODES = ("observe", "spill", "compact")
_LOG_BYTES = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.usage = "clew wrap [--upstream URL] [--mode MODE] [--set KEY=VALUE] -- COMMAND ..."
    parser.add_argument(
        "--upstream",
        metavar="URL",
        action="append",
        default=[],
        help="the provider's address (default: the program's own); may be repeated, as for clew serve",
    )
    parser.add_argument("--mode", choices=MODES, default="compact", help="what is done (default: %(default)s)")
    add_set_flag(parser)
    parser.add_argument("command", metavar="COMMAND", nargs=argparse.REMAINDER, help="the program and its arguments")


def run(arguments: argparse.Namespace, console: Console) -> int:
    from clew.cli.wrap.child import die_of

    command = tuple(arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command)
    if not command:
        raise InvalidArgument("wrap: COMMAND is missing; name the program to run: clew wrap -- codex")
    config = load_config(console.environ, arguments.flags)
    console.notes(config.notices)
    code = asyncio.run(_wrap(arguments, command, config, console))
    if code < 0:
        die_of(-code)
    return 128 - code if code < 0 else code


async def _wrap(arguments: argparse.Namespace, command: tuple[str, ...], config: LoadedConfig, console: Console) -> int:
    from clew.app import GatewayAppOptions, open_gateway
    from clew.cli.wrap import OverlayFolders, WrapTarget, find_upstreams, run_child, wrap_program
    from clew.events import CompactionFinished, Event, Events
    from clew.gateway import GatewayOptions, find_program, served_model

    environ = console.environ
    if shutil.which(command[0], path=environ.get("PATH")) is None:
        raise InvalidArgument(f"there is no program {command[0]!r}; check that it is installed and on the PATH")
    upstreams = tuple(arguments.upstream) or find_upstreams(find_program(command)[0], environ, config.settings)
    if not upstreams:
        raise InvalidArgument(
            f"it is not known whose API {command[0]} calls; name it: "
            f"clew wrap --upstream https://api.openai.com/v1 -- {command[0]}"
        )
    home = clew_home(environ)
    folders = OverlayFolders(home / "wrap")
    folders.sweep()
    token, started = secrets.token_urlsafe(24), datetime.now(UTC)
    exchanges: list[ExchangeRecord] = []
    folds: list[Event] = []
    options = GatewayAppOptions(
        upstreams,
        arguments.mode,
        GatewayOptions(port=0, token=token, needs_token=True),
        exchanges.append,
        is_private=True,
    )
    events = Events(lambda event: folds.append(event) if isinstance(event, CompactionFinished) else None)
    async with AsyncExitStack() as last:
        folder = last.enter_context(folders.open())
        last.callback(_log_to(home / "wrap.log"))
        store = await last.enter_async_context(open_location(store_location(config.settings, environ)))
        gateway = await last.enter_async_context(open_gateway(config, environ, store, options, events))
        asked = upstreams[0].rpartition("=")[2]
        target = WrapTarget(gateway.address, token, asked, served_model(config.settings.model), environ, folder)
        code = await run_child(wrap_program(command, target))
        await gateway.exchanges.close()
        folded = sum(isinstance(it, CompactionFinished) and it.continued_as is not None for it in folds)
        try:
            console.note(await _closing_line(store, exchanges, folded, started, command[0]))
        except StoreError as problem:
            console.note(f"what went through the gateway is not known: {problem}")
        return code


async def _closing_line(
    store: Store, exchanges: Sequence[ExchangeRecord], folds: int, started: datetime, program: str
) -> str:
    """What went through the gateway, in one line."""
    from clew.cli.views.amounts import format_saving, percent, plural
    from clew.cli.views.usage import cost_text
    from clew.store import CallFilter

    calls = [it for it in exchanges if it.action != "count"]
    if not calls:
        return (
            f"nothing went through the gateway: {Path(program).name} has called no model, or another address than it "
            "was pointed at; what it needs to be pointed is in `clew serve --show all`"
        )
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
    return ", ".join(words)


def _log_to(path: Path) -> Callable[[], None]:
    """Keep what is logged away from the program's terminal; what is given back ends that."""
    logger = logging.getLogger("clew")
    file = RotatingFileHandler(path, maxBytes=_LOG_BYTES, backupCount=1, encoding="utf-8", delay=True)
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    propagates = logger.propagate
    logger.addHandler(file)
    logger.propagate = False

    def end() -> None:
        logger.removeHandler(file)
        logger.propagate = propagates
        file.close()

    return end
