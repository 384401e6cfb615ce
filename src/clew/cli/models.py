"""`clew models list|show|get|use|key|forget`: the models there are, what is known about one, fetching and choosing one.

`list` asks no server without a flag for it; `use` writes to the config file only. `forget` removes a window that was
learnt from a provider's error from the file where those are stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import click

from clew.app.model_choice import chosen_settings, similar_names
from clew.cli.console import Console
from clew.cli.options import (
    OneOf,
    base_url_option,
    complete_files,
    complete_models,
    complete_providers,
    json_option,
    noun,
    option,
    provider_option,
    store_options,
    verb,
)
from clew.cli.pages import MARGIN, NO_PRICE, WINDOW_SOURCES, fact_lines, json_fields, table_lines
from clew.cli.text import printable, wrap
from clew.cli.tui.commands import learn_names
from clew.cli.tui.page import current_conversation, show_lines, show_text, window_source
from clew.config import (
    KeyPlace,
    LoadedConfig,
    ModelSettings,
    StoredKeys,
    clew_home,
    config_path,
    declared_settings,
    learnt_limits_path,
    read_config,
    set_in_file,
    unset_in_file,
)
from clew.errors import ClewError, InvalidArgument
from clew.providers import FETCHABLE_MODELS, LocalModel, chosen_local_model, local_models, models_folder, trained_window
from clew.tokens import LearntLimit, LearntLimits, Window, known_model, window_of
from clew.usage import Price, price_of

if TYPE_CHECKING:
    from clew.cli.tui.commands import ChatState
    from clew.turn import Conversation

EXAMPLES = """\
A model runs at a provider, which needs its key in the environment, or on this
machine, out of a GGUF file, which needs the extra `local`
(pip install 'clew-context[local]').
Files are kept in the folder models/ of the Clew home; `local` is the one that was
chosen, or the only one there is.

examples:
  clew models get smollm2                a small one, to try things out without a key
  clew chat --model local
  clew models list --provider openrouter sonnet
  clew models use claude-sonnet-4-5
  clew models use qwen3-32b --provider groq
  clew models show                       window, price and key of the model in use
  clew models key openai                 store a key, in the keyring or a private file
  clew models forget qwen3-32b           the window that its provider once stated
  clew models get https://example.org/path/model.gguf
"""
GET_EPILOG = """\
NAME is a short name out of `clew models list`, an https address that ends with
.gguf, or the path of a file, which is linked where the disk allows it and copied
elsewhere. A broken download continues where it stopped, if the server allows it.
"""
USE_EPILOG = """\
NAME is a model as its provider spells it, a file on this machine (its name or its
path), or `local`. The provider follows from its name, or from --provider. Settings that
belonged to the former model (model.context_length, and with another provider
model.base_url and model.api_key_env) are removed, with a note.
"""
NO_MODEL = "no model is configured"
CHOOSE_MODEL = "`clew models use NAME` chooses one"
SHOW_EPILOG = """\
Without NAME, the model in use. The window is shown with its source, and the key by the
environment variable in which it is looked for, never itself. Nothing is asked of a network.
"""
KEY_EPILOG = """\
The key is asked for and not shown, or read from standard input. It is kept in the keyring of
the system (needs the extra `keyring`), or in keys.json of the Clew home, a file that only you
can read. A key in the environment always wins.
"""
FORGET_EPILOG = """\
A provider that refuses a request and states its limit is believed: the limit is kept for
later, by model and address, unless model.context_length says otherwise. `forget` removes
it, at every address, for a server that was restarted with a larger window.
"""


models_command = noun("list", EXAMPLES)


@verb(models_command, "list", "the model in use, those on this machine, and those of a provider")
@click.argument("words", nargs=-1, metavar="WORD")
@option(
    "--provider",
    "NAME",
    "ask this provider what it serves (over the network), only names with every WORD",
    complete_providers,
)
@click.option("--remote", "is_remote", is_flag=True, help="ask the configured provider")
@store_options
def list_models(console: Console, words: Sequence[str], provider: str | None, is_remote: bool) -> int:
    config = read_config(console.environ, console.flags)
    console.notes([*config.notices, *(problem.text for problem in config.problems)])
    remote = _ask_provider(provider, words, config, console) if provider or is_remote or words else None
    home = clew_home(console.environ)
    found = ModelList(
        *_configured_model(config, console), models_folder(home), local_models(home), chosen_local_model(home), remote
    )
    console.show(found.as_json(), lambda: _print_models(found, console))
    if remote is not None and remote.problem:
        console.error(remote.problem)
        return 1
    return 0


@verb(models_command, "get", "download a model file", GET_EPILOG)
@click.argument("name", metavar="NAME|URL|FILE", shell_complete=complete_files)
@json_option
def get(console: Console, name: str) -> int:
    from clew.install import has_extra, install_command

    file = fetch_file(name, console)
    window = trained_window(file)
    size_bytes = file.stat().st_size

    def tell() -> None:
        console.print(f"{file}  ({format_bytes(size_bytes)}{f', window {window:,} tokens' if window else ''})")
        if not has_extra("local"):
            console.note(f"to run it, Clew needs the extra `local`: {install_command('local')}")
        console.note(
            f"`clew chat --model {file.stem}` talks to it; `clew models use {file.stem}` makes it the configured model"
        )

    fields = {"file": str(file), "bytes": size_bytes, "window": window, "runs_here": has_extra("local")}
    return console.show(fields, tell)


@verb(models_command, "use", "write a model to the config", USE_EPILOG)
@click.argument("name", metavar="NAME", shell_complete=complete_models)
@provider_option
@base_url_option
@json_option
def use(console: Console, name: str, provider: str | None, base_url: str | None) -> int:
    use_model(name, provider, base_url, console)
    return 0


@verb(models_command, "show", "window, prices and settings of a model", SHOW_EPILOG)
@click.argument("name", required=False, metavar="NAME", shell_complete=complete_models)
@option("--provider", "NAME", "the provider, where the name does not show it", complete_providers)
@store_options
def show(console: Console, name: str | None, provider: str | None) -> int:
    config = read_config(console.environ, console.flags)
    if name is None and config.settings.model.name is None and config.settings.model.provider is None:
        raise InvalidArgument(NO_MODEL, remedy=CHOOSE_MODEL)
    details = _model_details(name, provider, config.settings.model, console)

    def draw() -> None:
        for line in details_lines(details):
            console.print(printable(line))
        if details.info.provider is None:
            meant = f"; did you mean {', '.join(others)}?" if (others := similar_names(details.info.name)) else ""
            console.note(f"name its provider with --provider NAME{meant}")

    return console.show(details_json(details), draw)


@verb(models_command, "key", "store a provider's key", KEY_EPILOG)
@click.argument("provider", metavar="PROVIDER", shell_complete=complete_providers)
@click.option("--in", "place", type=OneOf(("keyring", "file")), help="where; without it the keyring if there is one")
@click.option("--remove", is_flag=True, help="remove the stored key")
@json_option
def key(console: Console, provider: str, place: KeyPlace | None, remove: bool) -> int:
    from clew.cli.init import read_key, store_key
    from clew.providers import preset_for

    preset = preset_for(provider, None, None)
    fields = {"provider": preset.name, "variable": preset.key_env}
    if not remove:
        where = store_key(preset, read_key(preset.name, console), place, console)
        return console.show({**fields, "stored": where}, lambda: None)
    if not StoredKeys(clew_home(console.environ)).remove(preset.key_env):
        problem = f"no key for {preset.name} is stored"
        raise ClewError(problem, remedy="one in the environment is not Clew's to remove")
    line = f"the key for {preset.name} is removed"
    return console.show({**fields, "stored": None}, lambda: console.print(line))


@verb(models_command, "forget", "a learnt window", FORGET_EPILOG)
@click.argument("name", metavar="NAME")
@json_option
def forget(console: Console, name: str) -> int:
    learnt = LearntLimits(learnt_limits_path(console.environ))
    gone = learnt.forget(name)
    if not gone:
        names = ", ".join(sorted({limit.model for limit in learnt.all()}))
        there = f"limits are known of: {names}" if names else "no limit of any model is known"
        raise InvalidArgument(f"no learnt limit of {name!r}", remedy=there)
    now = _model_details(gone[0].model, None, read_config(console.environ).settings.model, console).info

    def draw() -> None:
        for limit in gone:
            console.print(printable(f"forgotten: {limit_text(limit)}"))
        console.print(printable(model_line(now)))

    window = {"window": now.window, "window_from": now.source}
    fields = {"name": gone[0].model, "forgotten": [learnt_json(limit) for limit in gone], **window}
    return console.show(fields, draw)


# -- list --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProviderModels:
    """The models that a provider lists, or why it could not be asked."""

    provider: str
    models: Sequence[ModelInfo]
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ModelList:
    """What `clew models list` shows."""

    in_use: ModelInfo | None
    problem: str
    """Why none is in use."""
    folder: Path
    local: Sequence[LocalModel]
    chosen: str | None
    """The local one."""
    remote: ProviderModels | None

    def is_chosen(self, model: LocalModel) -> bool:
        return self.chosen in (model.name, str(model.file))

    def as_json(self) -> dict[str, Any]:
        local = [
            {
                "name": it.name,
                "path": str(it.file),
                "bytes": it.size_bytes,
                "window": trained_window(it.file),
                "chosen": self.is_chosen(it),
            }
            for it in self.local
        ]
        rows = [
            {"name": row.name, "file": row.file, "bytes": row.file_bytes, "about": row.about}
            for row in FETCHABLE_MODELS
        ]
        in_use = model_json(self.in_use) if self.in_use else None
        found: dict[str, Any] = {"in_use": in_use, "problem": self.problem or None, "local": local, "fetchable": rows}
        if self.remote is not None:
            models = [model_json(each) for each in self.remote.models]
            found["remote"] = {**json_fields(self.remote, "provider"), "models": models, "problem": self.remote.problem}
        return found


def _print_models(found: ModelList, console: Console) -> None:
    console.print(console.style("In use", "bold"))
    in_use = model_line(found.in_use) if found.in_use else found.problem
    console.print_all(MARGIN + line for line in wrap(in_use, console.width - len(MARGIN)))
    console.print(console.style(f"On this machine ({printable(str(found.folder))})", "bold"))
    rows = []
    for it in found.local:
        window = trained_window(it.file)
        size = (format_bytes(it.size_bytes), f"window {window:,} tokens" if window else "window unknown")
        rows.append(("*" if found.is_chosen(it) else " ", printable(it.name), *size))
    console.print_all(indented_table(rows, "<<><", console) or [f"{MARGIN}none yet"])
    there = {it.name for it in found.local}
    missing = [(row.name, format_bytes(row.file_bytes), row.about) for row in FETCHABLE_MODELS if row.file not in there]
    if missing:
        console.say("To be fetched with `clew models get`", "bold")
        console.print_all(indented_table(missing, "<><", console))
    remote = found.remote
    if remote is not None and not remote.problem and remote.provider != "local":
        console.print(console.style(f"At {printable(remote.provider)}, per million tokens", "bold"))
        listed = [(printable(it.name), _tokens(it.window), _rate(it.price)) for it in remote.models]
        console.print_all(indented_table(listed, "<><", console) or [f"{MARGIN}it lists none of that name"])


def _configured_model(config: LoadedConfig, console: Console) -> tuple[ModelInfo | None, str]:
    """The configured model, or why there is none."""
    model = config.settings.model
    if model.name is None and model.provider is None:
        return None, f"{NO_MODEL}; {CHOOSE_MODEL}"
    try:
        return _model_info(model, console), ""
    except InvalidArgument as error:
        return None, str(error)


def _model_info(model: ModelSettings, console: Console) -> ModelInfo:
    from clew.providers import LocalProvider, is_local_model, local_model_file, preset_for

    if is_local_model(model.provider, model.base_url, model.name):
        file = local_model_file(model.name, clew_home(console.environ))
        local = LocalProvider(file, context_length=model.context_length)
        source = "config" if local.context_length == model.context_length else "file"
        return ModelInfo(file.name, local.name, local.context_length, source, price_of(local.model, local.name))
    name = model.name or ""
    learnt = LearntLimits(learnt_limits_path(console.environ))
    window = window_of(name, base_url=model.base_url, configured=model.context_length, learnt=learnt)
    return model_info(name, preset_for(model.provider, model.base_url, name).name, window)


def _ask_provider(asked: str | None, words: Sequence[str], config: LoadedConfig, console: Console) -> ProviderModels:
    from clew.providers import LocalProvider, Provider, ProviderRefused, RetryPolicy, explain_refusal, provider_for

    settings = config.settings.model
    if asked and asked != settings.provider:
        settings = ModelSettings(provider=asked)

    if not (settings.provider or settings.base_url or settings.name):
        return ProviderModels("", (), "there is no provider to ask; --provider NAME names one, such as openai")

    async def ask(provider: Provider) -> Sequence[Any]:
        try:
            return await provider.models()
        finally:
            await provider.close()

    name = asked or settings.provider or settings.base_url or settings.name or ""
    try:
        provider = provider_for(
            settings, environ=console.environ, retry_policy=RetryPolicy(retries=1, idle_seconds=30.0)
        )
        if isinstance(provider, LocalProvider):
            console.note("the model in use is on this machine; --provider NAME lists the models of a provider")
            return ProviderModels(provider.name, ())
        with console.phase(f"asking {provider.name}"):
            listed = asyncio.run(ask(provider))
    except ProviderRefused as refused:
        return ProviderModels(name, (), f"{name} could not list its models: {explain_refusal(refused)}")
    except ClewError as error:
        return ProviderModels(name, (), f"{name} could not list its models: {error}")
    return ProviderModels(provider.name, listed_models(listed, provider.name, words))


# -- get ---------------------------------------------------------------------------------------------------------------


def fetch_file(name: str, console: Console) -> Path:
    """Bring a model file here, with progress."""
    from clew.providers import fetch_model

    def report(come: int, total: int | None) -> None:
        share = f" of {format_bytes(total)} ({100 * come // total}%)" if total else ""
        console.progress(f"{name}: {format_bytes(come)}{share}")

    try:
        return asyncio.run(fetch_model(name, clew_home(console.environ), report))
    finally:
        console.clear_progress()


# -- use ---------------------------------------------------------------------------------------------------------------


def use_model(name: str, provider: str | None, base_url: str | None, console: Console) -> None:
    """Write a model to the config and say what is known about it."""
    before = read_config(console.environ)
    if base_url is not None:
        chosen = ModelSettings(name=name, provider=provider, base_url=base_url)
    else:
        chosen = chosen_settings(name, provider, before.settings.model, clew_home(console.environ))
    write_choice(before, chosen, console)


def write_choice(before: LoadedConfig, chosen: ModelSettings, console: Console) -> None:
    """Write a chosen model to the config, and print what is known about it and what it lacks."""
    from clew.providers import provider_for

    _write_settings(before, chosen, clew_home(console.environ), console)
    after = read_config(console.environ)
    for key in ("model.name", "model.provider"):
        if after.origin_of(key).kind == "env":
            console.note(f"the environment variable {after.origin_of(key).where} overrules the file")
    info = _model_info(after.settings.model, console)
    console.show(model_json(info), lambda: console.print(printable(model_line(info))))
    if info.source == "default" or known_model(info.name) is None or info.price is None:
        _warn_unknown_model(info, similar_names(info.name), console)
    try:
        provider_for(after.settings.model, environ=console.environ)
    except InvalidArgument as error:
        console.note(str(error))


def _warn_unknown_model(info: ModelInfo, others: Sequence[str], console: Console) -> None:
    if info.provider == "local":
        return
    meant = f"; did you mean {', '.join(others)}?" if others else ""
    console.note(printable(f"{info.name} is not in the tables of Clew{meant}"))
    better = "`clew config set model.context_length N` sets another"
    if info.source == "default":
        console.note(f"a window of {info.window:,} tokens is assumed; {better}")
    elif info.source == "table":
        console.note(f"a window of {info.window:,} tokens is taken from models of its family; {better}")


def _write_settings(before: LoadedConfig, chosen: ModelSettings, home: Path, console: Console) -> None:
    """Write the chosen model to the file; settings that belonged to the former one are removed."""
    from clew.providers import choose_local_model

    path = config_path(console.environ)
    for field in ("context_length", "base_url", "api_key_env", "provider", "name"):
        key, value = f"model.{field}", getattr(chosen, field)
        former = getattr(before.settings.model, field)
        if value == former and (value is None or before.origin_of(key).kind == "file"):
            continue
        if value is not None:
            notices = set_in_file(path, declared_settings()[key], value)
        else:
            notices = unset_in_file(path, declared_settings()[key])
            if before.origin_of(key).kind == "file" and field != "provider":
                console.note(f"{key} = {former} was taken out: it belonged to the former model")
        console.notes(notices)
    if chosen.provider == "local" and chosen.name:
        choose_local_model(chosen.name, home)


# -- show and forget ---------------------------------------------------------------------------------------------------


def _model_details(name: str | None, provider: str | None, configured: ModelSettings, console: Console) -> ModelDetails:
    """What is known of a model: with the settings of the configured one where it is that, else by its name."""
    from clew.providers import is_local_model, key_variables, preset_for

    settings = configured
    if name is not None and (name != configured.name or provider is not None):
        try:
            former = replace(configured, api_key=None)
            settings = chosen_settings(name, provider, former, clew_home(console.environ))
        except InvalidArgument:
            if provider is not None:
                raise
            # Without a known provider its window and the learnt limits are still known.
            settings = ModelSettings(name=name)
    learnt = LearntLimits(learnt_limits_path(console.environ))
    model = settings.name or ""
    window = window_of(model, base_url=settings.base_url, configured=settings.context_length, learnt=learnt)
    limits = tuple(learnt.of_model(model))
    if is_local_model(settings.provider, settings.base_url, settings.name):
        return ModelDetails(_model_info(settings, console), None, None, (), False, limits)
    try:
        preset = preset_for(settings.provider, settings.base_url, model)
    except InvalidArgument:
        return ModelDetails(model_info(model, None, window), window.max_output, None, (), False, limits)
    stored = StoredKeys(clew_home(console.environ)).places()
    keys = tuple((name, bool(console.environ.get(name)) or name in stored) for name in key_variables(settings))
    info = model_info(model, preset.name, window)
    return ModelDetails(info, window.max_output, preset.base_url, keys, bool(settings.api_key), limits)


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What is known of a model: None where it is not."""

    name: str
    provider: str | None
    window: int | None
    source: str
    price: Price | None


@dataclass(frozen=True, slots=True)
class ModelDetails:
    """What `clew models show` prints of a model: of keys only where they are looked for, never their value."""

    info: ModelInfo
    max_output: int | None
    base_url: str | None
    keys: tuple[tuple[str, bool], ...]
    """The environment variables that may hold the key, and whether each is set."""
    key_in_config: bool
    learnt: tuple[LearntLimit, ...]


def model_info(name: str, provider: str | None, window: Window) -> ModelInfo:
    return ModelInfo(name, provider, window.tokens, window.source, price_of(name, provider))


def listed_models(listed: Sequence[Mapping[str, Any]], provider: str, words: Sequence[str]) -> list[ModelInfo]:
    """What a models endpoint lists, by name, as far as the names hold these words."""
    names = sorted({name for entry in listed if (name := _name_of(entry))}, key=str.lower)
    wanted = [name for name in names if all(word.lower() in name.lower() for word in words)]
    info = [model_info(name, provider, window_of(name, endpoint={"data": list(listed)})) for name in wanted]
    # A window that is only assumed would look as if it were known.
    return [replace(it, window=None, source="unknown") if it.source == "default" else it for it in info]


def _name_of(entry: Mapping[str, Any]) -> str:
    return next((str(entry[key]) for key in ("id", "name", "model") if isinstance(entry.get(key), str)), "")


# -- as lines ----------------------------------------------------------------------------------------------------------


def model_line(info: ModelInfo) -> str:
    """All that is known of a model, in one line."""
    return f"{info.name}{_through(info)}: {_window(info)}; {_price(info.price)}"


def details_lines(details: ModelDetails) -> list[str]:
    """All that is known of a model, a line each."""
    info = details.info
    rows = [("window", f"{_tokens(info.window)}, {WINDOW_SOURCES[info.source]}")]
    rows += [("learnt", _learnt(limit, info)) for limit in details.learnt]
    if details.max_output:
        rows.append(("output", f"{details.max_output:,} tokens at most"))
    rows += [("price", _price(info.price)), ("key", _keys(details))]
    address = f", {_without_secrets(details.base_url)}" if details.base_url else ""
    return [f"{info.name}{_through(info)}{address}", *(f"{MARGIN}{name:<8}{text}" for name, text in rows)]


def limit_text(limit: LearntLimit) -> str:
    at = "" if limit.address == "-" else f" at {limit.address}"
    return f"{limit.tokens:,} tokens{at}"


def _learnt(limit: LearntLimit, info: ModelInfo) -> str:
    overruled = ", overruled by the config" if info.source == "config" and (info.window or 0) > limit.tokens else ""
    return f"{limit_text(limit)}{overruled}; `clew models forget {info.name}` forgets it"


def _keys(details: ModelDetails) -> str:
    if details.info.provider == "local":
        return "none is needed"
    found = ["model.api_key in the config"] if details.key_in_config else []
    found += [f"{variable}, {'set' if is_set else 'not set'}" for variable, is_set in details.keys]
    return "; ".join(found) or "model.api_key_env names the variable that holds it, where one is needed"


def _without_secrets(base_url: str) -> str:
    """An address without user and query, where some have a key."""
    parts = urlsplit(base_url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _through(info: ModelInfo) -> str:
    if info.provider is None:
        return ", no known provider"
    return " on this machine" if info.provider == "local" else f" through {info.provider}"


def indented_table(rows: Sequence[Sequence[str]], aligns: str, console: Console) -> list[str]:
    return [MARGIN + line for line in table_lines(rows, aligns, console.width - len(MARGIN))]


def format_bytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e9:,.1f} GB" if size_bytes >= 1e9 else f"{max(1, round(size_bytes / 1e6)):,} MB"


def _tokens(window: int | None) -> str:
    return f"{window:,} tokens" if window else "window unknown"


def _window(info: ModelInfo) -> str:
    return f"window {_tokens(info.window)}, {WINDOW_SOURCES[info.source]}" if info.window else _tokens(None)


def _price(price: Price | None) -> str:
    return _rate(price) + (" per million tokens" if price is not None and price.input else "")


def _rate(price: Price | None) -> str:
    if price is None:
        return NO_PRICE
    return f"{_dollars(price.input)} in, {_dollars(price.output)} out" if price.input or price.output else "free"


def _dollars(amount: Decimal) -> str:
    plain = f"{amount:.4f}".rstrip("0")
    whole, _, rest = plain.partition(".")
    return f"${whole}.{rest:0<2}" if rest else f"${whole}"


# -- as JSON -----------------------------------------------------------------------------------------------------------


def model_json(info: ModelInfo) -> dict[str, Any]:
    price = info.price
    return {
        **json_fields(info, "name", "provider", "window"),
        "window_from": info.source,
        "dollars_per_million": price and {"input": float(price.input), "output": float(price.output)},
    }


def details_json(details: ModelDetails) -> dict[str, Any]:
    return {
        **model_json(details.info),
        "max_output": details.max_output,
        "base_url": _without_secrets(details.base_url) if details.base_url else None,
        "keys": [{"variable": variable, "set": is_set} for variable, is_set in details.keys],
        "key_in_config": details.key_in_config,
        "learnt": [learnt_json(limit) for limit in details.learnt],
    }


def learnt_json(limit: LearntLimit) -> dict[str, Any]:
    return {"address": None if limit.address == "-" else limit.address, "tokens": limit.tokens}


# -- in a chat ---------------------------------------------------------------------------------------------------------


async def run_model(state: ChatState, words: str) -> None:
    if words:
        await _switch_model(state, words)
        return
    conversation = await current_conversation(state)
    target = conversation.target
    caching = state.app.runtime.cache_policy(target).describe().removeprefix("prompt caching: ")
    facts = [*_model_facts(conversation), ("caching", caching)]

    def lines(console: Console) -> Iterator[str]:
        yield console.style(printable(target.model), "bold")
        yield from fact_lines(facts, console)

    show_lines(state, lines)


async def _switch_model(state: ChatState, name: str) -> None:
    conversation = await current_conversation(state)
    before, window = conversation.target.model, conversation.window.tokens
    if name == before:
        show_text(state, f"{name} answers already.")
        return
    await state.app.use_model(state.session, name)
    conversation = await current_conversation(state)
    await learn_names(state)
    now, tokens = conversation.window.tokens, conversation.size.tokens
    size = "the same window" if now == window else f"a window of {now:,} tokens"
    sentences = [
        f"{conversation.target.model} answers from the next question on, here and in new conversations.",
        f"It has {size} ({_window_source_text(conversation)}), where {before} has {window:,}.",
    ]
    if conversation.engine.should_compress(tokens):
        sentences.append(
            f"This conversation has {tokens:,} tokens, above its threshold of "
            f"{conversation.engine.get_status().threshold_tokens:,}: the next question begins with a compaction."
        )
    show_text(state, *sentences)


def _model_facts(conversation: Conversation) -> Iterator[tuple[str, str]]:
    target, window, tokens = conversation.target, conversation.window, conversation.size.tokens
    yield "through", target.served_by or "a provider without a name"
    yield "window", f"{window.tokens:,} tokens, {_window_source_text(conversation)}; {tokens:,} are in use"
    if target.max_tokens or window.max_output:
        yield "output", f"up to {target.max_tokens or window.max_output:,} tokens for a reply"
    price = price_of(target.model, target.served_by or None, prompt_tokens=tokens)
    if price is None:
        yield "price", f"{NO_PRICE} is known"
        return
    cached = f", {_format_price(price.cache_read)} from the cache" if price.cache_read is not None else ""
    checked = f" (looked up {price.checked})" if price.checked else ""
    costs = f"{_format_price(price.input)} in{cached}, {_format_price(price.output)} out"
    yield "price", f"for a million tokens {costs}{checked}" if price.input or price.output else "free: it runs here"


def _window_source_text(conversation: Conversation) -> str:
    source = window_source(conversation)
    return "as it is run here" if source == "file" else WINDOW_SOURCES[source]


def _format_price(amount: Decimal) -> str:
    cents = amount.quantize(Decimal("0.01"))
    return f"${cents:,}" if cents == amount else f"${amount.normalize():f}"
