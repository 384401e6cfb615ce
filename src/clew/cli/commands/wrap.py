"""`clew wrap [--upstream URL] -- COMMAND ...`: one program through a private gateway, for as long as it runs."""

from __future__ import annotations

import argparse
import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from logging.handlers import RotatingFileHandler
from pathlib import Path

from clew.cli.arguments import add_set_flag
from clew.cli.console import Console
from clew.cli.store_access import open_location, store_location
from clew.config import LoadedConfig, clew_home, load_config
from clew.errors import InvalidArgument

EXAMPLES = """\
The program is run as it is, in this terminal, and calls a gateway that nobody else
uses, on a free port of this machine. It is pointed there by environment variables
(OPENAI_BASE_URL, ANTHROPIC_BASE_URL, GOOGLE_GEMINI_BASE_URL), by flags (Codex), or by
config of its own that is removed afterwards (opencode, pi). Your own config is never
written. Exit status and signals are the program's.

Where its calls go: --upstream; else where it is pointed already; else the API of the
program (Codex and llm: OpenAI, Claude Code: Anthropic, Gemini CLI: Google); else
model.base_url. What goes wrong in the gateway is in wrap.log, in Clew's folder.

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
    parser.add_argument("--upstream", metavar="URL", help="the provider's address (default: the program's own)")
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
    from clew.cli.wrap import OverlayFolders, WrapTarget, find_upstream, run_child, wrap_program
    from clew.gateway import GatewayOptions, find_program, served_model

    environ = console.environ
    upstream = arguments.upstream or find_upstream(find_program(command)[0], environ, config.settings)
    if upstream is None:
        raise InvalidArgument(
            f"it is not known whose API {command[0]} calls; name it: "
            f"clew wrap --upstream https://api.openai.com -- {command[0]}"
        )
    home = clew_home(environ)
    folders = OverlayFolders(home / "wrap")
    folders.sweep()
    options = GatewayAppOptions((upstream,), arguments.mode, GatewayOptions(port=0), is_private=True)
    async with AsyncExitStack() as last:
        folder = last.enter_context(folders.open())
        last.callback(_log_to(home / "wrap.log"))
        store = await last.enter_async_context(open_location(store_location(config.settings, environ)))
        gateway = await last.enter_async_context(open_gateway(config, environ, store, options))
        target = WrapTarget(gateway.address, upstream, served_model(config.settings.model), environ, folder)
        return await run_child(wrap_program(command, target))


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
