"""Choosing a model for the first time: what is there (keys, files, servers), what can be had, and writing the choice.

`clew init` runs this, and `clew chat` where no model is chosen. A person is asked through `SetupPrompts`, so that the
same steps run at a terminal and in tests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from clew.cli.console import Console
from clew.cli.views.text import printable, wrap
from clew.config import KeyPlace, ModelSettings, StoredKeys, clew_home, has_keyring, read_config
from clew.errors import InvalidArgument
from clew.providers import FETCHABLE_MODELS, PROVIDER_PRESETS, ProviderPreset, local_models, preset_for

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
"""A model of each provider that is offered to who has a key for it; any other is one `clew models use` away."""
OptionKind: TypeAlias = Literal["use", "fetch", "key", "address"]
LOCAL = "local"


@dataclass(frozen=True, slots=True)
class SetupOption:
    """One line of the choice."""

    kind: OptionKind
    label: str
    note: str
    model: str | None = None
    provider: str | None = None


@dataclass(frozen=True, slots=True)
class SetupPrompts:
    """How the person is asked; both raise EOFError when they leave."""

    ask: Callable[[str], str]
    ask_secret: Callable[[str], str]


def setup_options(home: Path, where_key: Callable[[str], str | None]) -> list[SetupOption]:
    """What can be chosen: models whose key is found (`where_key` says where), those here, and the rest."""
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
    options.append(SetupOption("key", "a provider that I have a key for", "the key is asked for and stored"))
    options.append(SetupOption("address", "a server at an address", "OpenAI-compatible: Ollama, vLLM, llama.cpp, ..."))
    return options


def found_keys(console: Console) -> Callable[[str], str | None]:
    """Says where the key for a variable is: `key in NAME`, `key in the keyring`, or None."""
    stored = StoredKeys(clew_home(console.environ)).places()
    places = {"keyring": "key in the keyring", "file": "key stored by Clew"}

    def find(variable: str) -> str | None:
        if console.environ.get(variable):
            return f"key in {variable}"
        return places[stored[variable]] if variable in stored else None

    return find


def option_lines(options: Sequence[SetupOption], console: Console) -> list[str]:
    """The choice as numbered lines; on a narrow screen each note on a line of its own."""
    wide = max(len(option.label) for option in options) + 2
    is_narrow = wide + max(len(option.note) for option in options) + 4 > console.width
    lines = []
    for number, option in enumerate(options, 1):
        sign = console.style(f"{number:>2}", "cyan")
        if is_narrow:
            first, *more = wrap(option.label, console.width - 4)
            lines += [f"{sign}  {first}", *(f"    {line}" for line in more)]
            lines += [f"      {console.style(line, 'dim')}" for line in wrap(option.note, console.width - 6)]
        else:
            lines.append(f"{sign}  {option.label:{wide}}{console.style(option.note, 'dim')}")
    return lines


def choose_model(console: Console, prompts: SetupPrompts) -> bool:
    """Ask for a model and write the choice to the config; False where the person leaves without one."""
    home = clew_home(console.environ)
    options = setup_options(home, found_keys(console))
    for line in option_lines(options, console):
        console.print(line)
    try:
        option = _ask_number(options, console, prompts)
        if option is None:
            return False
        _take(option, console, prompts)
    except EOFError:
        console.print("")
        return False
    return True


def _ask_number(options: Sequence[SetupOption], console: Console, prompts: SetupPrompts) -> SetupOption | None:
    while True:
        typed = prompts.ask(f"Which one? [1-{len(options)}, Enter leaves] ").strip()
        if not typed:
            return None
        if typed.isascii() and typed.isdigit() and 1 <= int(typed[:4]) <= len(options):
            return options[int(typed) - 1]
        console.note(f"{printable(typed)!r} is no number from 1 to {len(options)}")


def _take(option: SetupOption, console: Console, prompts: SetupPrompts) -> None:
    if option.kind == "use":
        use_model(option.model or "", option.provider, None, console)
    elif option.kind == "fetch":
        from clew.cli.commands.models import fetch_file

        use_model(fetch_file(option.model or "", console).name, LOCAL, None, console)
    elif option.kind == "key":
        _take_key(console, prompts)
    else:
        address = _ask_until(prompts, "Address, such as http://127.0.0.1:8080/v1: ")
        use_model(_ask_until(prompts, "Name of the model, as that server spells it: "), None, address, console)


def _take_key(console: Console, prompts: SetupPrompts) -> None:
    known = ", ".join(USUAL_MODELS)
    while True:
        name = _ask_until(prompts, f"Who serves it? ({known}, ...) ")
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
    """Store a provider's key: in the keyring where there is one, else in a private file; where it went."""
    if not preset.key_env:
        raise InvalidArgument(f"{preset.name} takes no key of its own")
    where: KeyPlace = place or ("keyring" if has_keyring() else "file")
    keys = StoredKeys(clew_home(console.environ))
    keys.put(preset.key_env, key.strip(), where)
    told = "in the keyring of this system" if where == "keyring" else f"in {keys.path}, which only you can read"
    console.note(f"the key for {preset.name} is stored {told}")
    if console.environ.get(preset.key_env):
        console.note(f"{preset.key_env} in the environment still wins over it")
    return where


def use_model(
    name: str, provider: str | None, base_url: str | None, console: Console, *, as_json: bool = False
) -> None:
    """Write a model to the config and say what is known of it."""
    from clew.cli.commands.models import write_choice
    from clew.cli.model_choice import chosen_settings

    before = read_config(console.environ)
    home = clew_home(console.environ)
    if base_url is not None:
        chosen = ModelSettings(name=name, provider=provider, base_url=base_url)
    else:
        chosen = chosen_settings(name, provider, before.settings.model, home)
    write_choice(before, chosen, console, as_json=as_json)


def _distinct_presets() -> list[ProviderPreset]:
    """One row for each key: a provider may be reached over several wires."""
    return list({preset.key_env: preset for preset in reversed(PROVIDER_PRESETS)}.values())[::-1]


def read_key(provider: str, console: Console) -> str:
    """A key, typed without being shown or piped in."""
    from getpass import getpass

    if console.stdin is not None and not console.is_typed_at:
        return console.read_line()
    try:
        return getpass(f"Key for {provider} (is not shown): ")
    except EOFError as error:
        raise InvalidArgument("no key was given; nothing is stored") from error


def terminal_prompts(console: Console) -> SetupPrompts:
    """Prompts at the terminal."""
    from getpass import getpass

    def ask(question: str) -> str:
        return input(console.style(question, "bold"))

    return SetupPrompts(ask, getpass)
