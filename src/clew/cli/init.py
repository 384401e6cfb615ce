"""`clew init`: choose the model to talk to, and write it to the config.

`clew chat` runs the same if no model is configured. Questions go through `SetupPrompts`, at a terminal and in tests. If
bubblewrap is available, the sandbox for commands is offered as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import click

from clew.app.model_choice import LOCAL
from clew.cli.console import Console
from clew.cli.models import fetch_file, served_models, use_model
from clew.cli.options import base_url_option, command, complete_models, option, provider_option
from clew.cli.text import printable, wrap
from clew.config import (
    KeyPlace,
    ModelSettings,
    StoredKeys,
    clew_home,
    config_path,
    declared_settings,
    has_keyring,
    read_config,
    set_in_file,
)
from clew.errors import ClewError, InvalidArgument, SandboxUnavailable
from clew.providers import (
    FETCHABLE_MODELS,
    PROVIDER_PRESETS,
    ProviderPreset,
    local_models,
    preset_for,
)

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
USUAL_MODELS = {
    "anthropic": "claude-sonnet-4-5",
    "openai": "gpt-5",
    "openrouter": "anthropic/claude-sonnet-4.5",
    "gemini": "gemini-2.5-pro",
    "deepseek": "deepseek-chat",
    "xai": "grok-4",
    "mistral": "mistral-large-latest",
    "moonshot": "kimi-k2-0905-preview",
    "zai": "glm-4.6",
    "qwen": "qwen3-max",
    "groq": "llama-3.3-70b-versatile",
}
"""The model that is offered if a key for its provider is found."""
MAX_SERVED = 40
"""Models of a server that are offered."""
OptionKind: TypeAlias = Literal["use", "fetch", "key", "address"]


@command(EXAMPLES)
@option("--model", "NAME", "choose this one, without asking", complete_models)
@provider_option
@base_url_option
@click.option("--json", "as_json", is_flag=True, help="print what could be chosen as JSON, and ask nothing")
def init_command(console: Console, model: str | None, provider: str | None, base_url: str | None) -> int:
    if model is not None:
        use_model(model, provider, base_url, console)
        return 0
    if provider or base_url:
        raise InvalidArgument("--provider and --base-url say where a model is", remedy="name it with --model NAME")
    options = setup_options(clew_home(console.environ), found_keys(console))
    if console.as_json:
        console.print_json({"config": str(config_path(console.environ)), "options": [asdict(each) for each in options]})
        return 0
    if not (console.is_typed_at and console.out.isatty()):
        console.print_all(option_lines(options, console))
        console.note("there is no terminal to choose at; `clew init --model NAME` chooses without asking")
        return 1
    if not choose_model(console, terminal_prompts(console)):
        console.note("nothing was chosen and nothing changed")
        return 1
    console.note(f"kept in {config_path(console.environ)}; `clew chat` talks to it")
    return 0


@dataclass(frozen=True, slots=True)
class SetupOption:
    """One line of the menu."""

    kind: OptionKind
    label: str
    note: str
    model: str | None = None
    provider: str | None = None


@dataclass(frozen=True, slots=True)
class SetupPrompts:
    """Functions that ask a question; they raise EOFError at the end of input."""

    ask: Callable[[str], str]
    ask_secret: Callable[[str], str]


def setup_options(home: Path, where_key: Callable[[str], str | None]) -> list[SetupOption]:
    """The menu: models with a key (`where_key` finds it), local models, models to download, and other servers."""
    options = []
    for preset in _distinct_presets():
        where = next((found for name in (preset.key_env, *preset.other_key_envs) if (found := where_key(name))), None)
        if where and preset.name in USUAL_MODELS:
            model = USUAL_MODELS[preset.name]
            options.append(SetupOption("use", f"{model} through {preset.name}", where, model, preset.name))
    there = local_models(home)
    for local in there:
        options.append(SetupOption("use", f"{local.name} on this machine", "no key needed", local.name, LOCAL))
    for row in FETCHABLE_MODELS:
        if row.file not in {local.name for local in there}:
            size = f"{row.file_bytes / 1_000_000:.0f} MB to fetch"
            options.append(
                SetupOption("fetch", f"{row.name}, a small one that runs here", f"{size}, no key needed", row.name)
            )
    options.append(SetupOption("key", "a provider that I have a key for", "asks for the key and stores it"))
    options.append(SetupOption("address", "a server at an address", "OpenAI-compatible: Ollama, vLLM, llama.cpp, ..."))
    return options


def found_keys(console: Console) -> Callable[[str], str | None]:
    """A function that locates the key of a variable: `key in NAME`, `key in the keyring`, or None."""
    stored = StoredKeys(clew_home(console.environ)).places()
    places = {"keyring": "key in the keyring", "file": "key stored by Clew"}

    def find(variable: str) -> str | None:
        if console.environ.get(variable):
            return f"key in {variable}"
        return places[stored[variable]] if variable in stored else None

    return find


def option_lines(options: Sequence[SetupOption], console: Console) -> list[str]:
    """The menu as numbered lines; on a narrow screen notes are below."""
    wide = max(len(it.label) for it in options) + 2
    is_narrow = wide + max(len(it.note) for it in options) + 4 > console.width
    lines = []
    for number, choice in enumerate(options, 1):
        sign = console.style(f"{number:>2}", "cyan")
        if is_narrow:
            first, *more = wrap(choice.label, console.width - 4)
            lines += [f"{sign}  {first}", *(f"    {line}" for line in more)]
            lines += [f"      {console.style(line, 'dim')}" for line in wrap(choice.note, console.width - 6)]
        else:
            lines.append(f"{sign}  {choice.label:{wide}}{console.style(choice.note, 'dim')}")
    return lines


def choose_model(console: Console, prompts: SetupPrompts) -> bool:
    """Ask for a model and write it to the config; False if none was chosen."""
    home = clew_home(console.environ)
    options = setup_options(home, found_keys(console))
    console.print_all(option_lines(options, console))
    try:
        option = _ask_number(options, console, prompts)
        if option is None:
            return False
        _take(option, console, prompts)
    except EOFError:
        console.print("")
        return False
    with suppress(EOFError):
        _offer_sandbox(console, prompts)
    return True


def _offer_sandbox(console: Console, prompts: SetupPrompts) -> None:
    """Offer the sandbox for commands, if bubblewrap is available and the setting is not made yet."""
    from clew.agent.sandbox import SETTING, BubblewrapSandbox

    before = read_config(console.environ)
    if before.origin_of(SETTING).kind != "default":
        return
    try:
        BubblewrapSandbox.open(console.environ, Path.cwd(), (), clew_home(console.environ))
    except SandboxUnavailable:
        return
    offer = (
        "Commands of the agent can run in a sandbox (bubblewrap): no network, only the project can be written, and "
        "files with credentials are hidden."
    )
    console.say(offer)
    chosen = "none" if prompts.ask("Use it? [Y/n] ").strip().lower() in {"n", "no"} else "bubblewrap"
    set_in_file(config_path(console.environ), declared_settings()[SETTING], chosen)
    console.note(f"{SETTING} is {chosen}; `clew config set {SETTING} ...` changes it")


def _ask_number(options: Sequence[SetupOption], console: Console, prompts: SetupPrompts) -> SetupOption | None:
    while True:
        typed = prompts.ask(f"Which one? [1-{len(options)}, Enter leaves] ").strip()
        if not typed:
            return None
        if typed.isascii() and typed.isdigit() and 1 <= int(typed[:4]) <= len(options):
            return options[int(typed) - 1]
        console.note(f"{printable(typed)!r} is not a number from 1 to {len(options)}")


def _take(option: SetupOption, console: Console, prompts: SetupPrompts) -> None:
    if option.kind == "use":
        use_model(option.model or "", option.provider, None, console)
    elif option.kind == "fetch":
        use_model(fetch_file(option.model or "", console).name, LOCAL, None, console)
    elif option.kind == "key":
        _take_key(console, prompts)
    else:
        address = _ask_until(prompts, "Address, such as http://127.0.0.1:8080/v1: ")
        use_model(_ask_served_model(address, console, prompts), None, address, console)


def _ask_served_model(address: str, console: Console, prompts: SetupPrompts) -> str:
    """Ask for the name of a model at an address, with the list of the server if it has one."""
    served = _served_models(address, console)
    for number, name in enumerate(served, 1):
        console.print(f"{console.style(f'{number:>2}', 'cyan')}  {printable(name)}")
    question = (
        f"Which model? [1-{len(served)}, or its name] " if served else "Name of the model, as that server spells it: "
    )
    typed = _ask_until(prompts, question)
    if typed.isascii() and typed.isdigit() and 1 <= int(typed[:4]) <= len(served):
        return served[int(typed) - 1]
    if served and typed not in served:
        console.note(f"the server does not list {printable(typed)!r}; the first question will show whether it does")
    return typed


def _served_models(address: str, console: Console) -> list[str]:
    """The models that a server lists; none, with a note, if the request fails."""
    try:
        _, listed = asyncio.run(served_models(ModelSettings(base_url=address), console))
    except ClewError as problem:
        console.note(f"{printable(address)} could not list its models: {problem}")
        return []
    return [str(row["id"]) for row in listed if row.get("id")][:MAX_SERVED]


def _take_key(console: Console, prompts: SetupPrompts) -> None:
    known = ", ".join(USUAL_MODELS)
    while True:
        name = _ask_until(prompts, f"Which provider? ({known}, ...) ")
        try:
            preset = preset_for(name, None, None)
            break
        except InvalidArgument as problem:
            console.note(str(problem))
    usual = USUAL_MODELS.get(preset.name, "")
    store_key(preset, prompts.ask_secret(f"Key for {preset.name} (is not shown): "), None, console)
    model = prompts.ask(f"Model{f' [{usual}]' if usual else ''}: ").strip() or usual
    while not model:
        model = prompts.ask("Model: ").strip()
    use_model(model, preset.name, None, console)


def _ask_until(prompts: SetupPrompts, question: str) -> str:
    while not (typed := prompts.ask(question).strip()):
        pass
    return typed


def store_key(preset: ProviderPreset, key: str, place: KeyPlace | None, console: Console) -> KeyPlace:
    """Store a provider's key, by default in the keyring if there is one; returns the place."""
    if not preset.key_env:
        raise InvalidArgument(f"{preset.name} has no key")
    where: KeyPlace = place or ("keyring" if has_keyring() else "file")
    keys = StoredKeys(clew_home(console.environ))
    keys.put(preset.key_env, key.strip(), where)
    stored = "in the keyring of this system" if where == "keyring" else f"in {keys.path}, which only you can read"
    console.note(f"the key for {preset.name} is stored {stored}")
    if console.environ.get(preset.key_env):
        console.note(f"{preset.key_env} in the environment takes precedence")
    return where


def _distinct_presets() -> list[ProviderPreset]:
    """One preset for each key: a provider may have several wires."""
    return list({preset.key_env: preset for preset in reversed(PROVIDER_PRESETS)}.values())[::-1]


def read_key(provider: str, console: Console) -> str:
    """Read a key, from a hidden prompt or a pipe."""
    from getpass import getpass

    if console.stdin is not None and not console.is_typed_at:
        return console.read_line()
    try:
        return getpass(f"Key for {provider} (is not shown): ")
    except EOFError as error:
        raise InvalidArgument("no key was given", remedy="nothing is stored") from error


def terminal_prompts(console: Console) -> SetupPrompts:
    """Prompts at the terminal."""
    from getpass import getpass

    def ask(question: str) -> str:
        return input(console.style(question, "bold"))

    return SetupPrompts(ask, getpass)
