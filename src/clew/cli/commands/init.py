"""`clew init`: choose the model to talk to, and write it to the config."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from clew.cli.console import Console
from clew.config import clew_home, config_path
from clew.errors import InvalidArgument

EXAMPLES = """\
Without flags it shows what there is on this machine: providers whose key is in the
environment or stored, model files, and what can be fetched; and asks. With --model
it asks nothing. Running it again changes the choice; nothing else of the config is
touched.

examples:
  clew init
  clew init --model claude-sonnet-4-5
  clew init --model qwen3:8b --base-url http://127.0.0.1:11434/v1
  clew init --json                       what could be chosen, for programs
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    parser.add_argument("--model", metavar="NAME", help="choose this one, without asking")
    parser.add_argument("--provider", metavar="NAME", help="who serves it: openai, anthropic, openrouter, ..., local")
    parser.add_argument("--base-url", metavar="URL", help="address of the endpoint")
    parser.add_argument("--json", action="store_true", help="print what could be chosen as JSON, and ask nothing")


def run(arguments: argparse.Namespace, console: Console) -> int:
    from clew.cli.model_setup import choose_model, found_keys, option_lines, setup_options, terminal_prompts, use_model

    if arguments.model is not None:
        use_model(arguments.model, arguments.provider, arguments.base_url, console)
        return 0
    if arguments.provider or arguments.base_url:
        raise InvalidArgument("--provider and --base-url say where a model is; name it with --model NAME")
    options = setup_options(clew_home(console.environ), found_keys(console))
    if arguments.json:
        console.print_json({"config": str(config_path(console.environ)), "options": [asdict(each) for each in options]})
        return 0
    if not (console.is_typed_at and console.out.isatty()):
        for line in option_lines(options, console):
            console.print(line)
        console.note("nobody is here to choose; `clew init --model NAME` takes one")
        return 1
    if not choose_model(console, terminal_prompts(console)):
        console.note("nothing was chosen and nothing changed")
        return 1
    console.note(f"kept in {config_path(console.environ)}; `clew chat` talks to it")
    return 0
