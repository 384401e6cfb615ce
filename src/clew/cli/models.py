"""`clew models list|show|get|use|key|forget`: list, describe, download and choose models; and `/model` in a chat.

`list` sends no request without a flag; `use` writes to the config file only. `forget` removes a window that was learnt
from a provider's error.
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
    FILE,
    OneOf,
    base_url_option,
    complete_models,
    complete_providers,
    json_option,
    noun,
    option,
    provider_option,
    store_options,
    verb,
)
from clew.cli.pages import MARGIN, NO_PRICE, WINDOW_SOURCES, json_fields, table_lines, window_source
from clew.cli.text import printable, wrap
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
from clew.errors import ClewError, InvalidArgument, ProviderRefused
from clew.providers import (
    FETCHABLE_MODELS,
    LocalModel,
    LocalProvider,
    RetryPolicy,
    choose_local_model,
    chosen_local_model,
    explain_refusal,
    fetch_model,
    is_local_model,
    key_variables,
    local_model_file,
    local_models,
    models_folder,
    preset_for,
    provider_for,
    trained_window,
)
from clew.tokens import LearntLimit, LearntLimits, Window, known_model, window_of
from clew.usage import Price, price_of

if TYPE_CHECKING:
    from clew.cli.tui.state import ChatState
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
async def list_models(console: Console, words: Sequence[str], provider: str | None, is_remote: bool) -> int:
    config = read_config(console.environ, console.flags)
    console.notes([*config.notices, *(problem.text for problem in config.problems)])
    remote = await _ask_provider(provider, words, config, console) if provider or is_remote or words else None
    home = clew_home(console.environ)
    in_use, no_model = _model_in_use(config, console)
    local = [_local_json(it, chosen_local_model(home)) for it in local_models(home)]
    fetchable = [
        {"name": row.name, "file": row.file, "bytes": row.file_bytes, "about": row.about} for row in FETCHABLE_MODELS
    ]
    fields: dict[str, Any] = {
        "in_use": in_use and model_json(in_use),
        "problem": no_model or None,
        "local": local,
        "fetchable": fetchable,
    }
    if remote is not None:
        models = [model_json(each) for each in remote.models]
        fields["remote"] = {"provider": remote.provider, "models": models, "problem": remote.problem}

    def draw() -> None:
        console.print(console.style("In use", "bold"))
        line = model_line(in_use) if in_use else no_model
        console.print_all(MARGIN + row for row in wrap(line, console.width - len(MARGIN)))
        console.print(console.style(f"On this machine ({printable(str(models_folder(home)))})", "bold"))
        rows = [
            (
                "*" if it["chosen"] else " ",
                printable(it["name"]),
                format_bytes(it["bytes"]),
                _window_text(it["window"]),
            )
            for it in local
        ]
        _print_table(rows, "<<><", "none yet", console)
        there = {it["name"] for it in local}
        missing = [
            (row.name, format_bytes(row.file_bytes), row.about) for row in FETCHABLE_MODELS if row.file not in there
        ]
        if missing:
            console.say("To be fetched with `clew models get`", "bold")
            _print_table(missing, "<><", "", console)
        if remote is not None and not remote.problem and remote.provider != "local":
            console.print(console.style(f"At {printable(remote.provider)}, per million tokens", "bold"))
            listed = [(printable(it.name), _tokens(it.window), _rate(it.price)) for it in remote.models]
            _print_table(listed, "<><", "it lists none of that name", console)

    console.show(fields, draw)
    if remote is not None and remote.problem:
        console.error(remote.problem)
        return 1
    return 0


def _local_json(model: LocalModel, chosen: str | None) -> dict[str, Any]:
    return {
        "name": model.name,
        "path": str(model.file),
        "bytes": model.size_bytes,
        "window": trained_window(model.file),
        "chosen": chosen in (model.name, str(model.file)),
    }


def _print_table(rows: Sequence[Sequence[str]], aligns: str, empty: str, console: Console) -> None:
    lines = table_lines(rows, aligns, console.width - len(MARGIN)) or [empty]
    console.print_all(MARGIN + line for line in lines)


@verb(models_command, "get", "download a model file", GET_EPILOG)
@click.argument("name", metavar="NAME|URL|FILE", type=FILE)
@json_option
def get(console: Console, name: str) -> int:
    from clew.install import has_extra, install_command

    file = fetch_file(name, console)
    window = trained_window(file)
    size_bytes = file.stat().st_size

    def draw() -> None:
        console.print(f"{file}  ({format_bytes(size_bytes)}{f', window {window:,} tokens' if window else ''})")
        if not has_extra("local"):
            console.note(f"to run it, Clew needs the extra `local`: {install_command('local')}")
        console.note(
            f"`clew chat --model {file.stem}` talks to it; `clew models use {file.stem}` makes it the configured model"
        )

    fields = {"file": str(file), "bytes": size_bytes, "window": window, "runs_here": has_extra("local")}
    return console.show(fields, draw)


def fetch_file(name: str, console: Console) -> Path:
    """Download a model file, with progress."""

    def report(done: int, total: int | None) -> None:
        share = f" of {format_bytes(total)} ({100 * done // total}%)" if total else ""
        console.progress(f"{name}: {format_bytes(done)}{share}")

    try:
        return asyncio.run(fetch_model(name, clew_home(console.environ), report))
    finally:
        console.clear_progress()


@verb(models_command, "use", "write a model to the config", USE_EPILOG)
@click.argument("name", metavar="NAME", shell_complete=complete_models)
@provider_option
@base_url_option
@json_option
def use(console: Console, name: str, provider: str | None, base_url: str | None) -> int:
    use_model(name, provider, base_url, console)
    return 0


def use_model(name: str, provider: str | None, base_url: str | None, console: Console) -> None:
    """Write a model to the config, and print its properties and missing settings."""
    before = read_config(console.environ)
    if base_url is not None:
        chosen = ModelSettings(name=name, provider=provider, base_url=base_url)
    else:
        chosen = chosen_settings(name, provider, before.settings.model, clew_home(console.environ))
    _write_settings(before, chosen, clew_home(console.environ), console)
    after = read_config(console.environ)
    for key in ("model.name", "model.provider"):
        if after.origin_of(key).kind == "env":
            console.note(f"the environment variable {after.origin_of(key).where} overrules the file")
    facts = model_facts(after.settings.model, console)
    console.show(model_json(facts), lambda: console.print(printable(model_line(facts))))
    if facts.source == "default" or known_model(facts.name) is None or facts.price is None:
        _warn_unknown_model(facts, console)
    try:
        provider_for(after.settings.model, environ=console.environ)
    except InvalidArgument as error:
        console.note(str(error))


def _warn_unknown_model(facts: ModelFacts, console: Console) -> None:
    if facts.provider == "local":
        return
    console.note(printable(f"{facts.name} is not in the tables of Clew{_similar(facts)}"))
    better = "`clew config set model.context_length N` sets another"
    if facts.source == "default":
        console.note(f"a window of {facts.window:,} tokens is assumed; {better}")
    elif facts.source == "table":
        console.note(f"a window of {facts.window:,} tokens is taken from models of its family; {better}")


def _similar(facts: ModelFacts) -> str:
    others = similar_names(facts.name)
    return f"; did you mean {', '.join(others)}?" if others else ""


def _write_settings(before: LoadedConfig, chosen: ModelSettings, home: Path, console: Console) -> None:
    """Write the chosen model to the file; settings that belonged to the former one are removed."""
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
                console.note(f"{key} = {former} was removed: it belonged to the former model")
        console.notes(notices)
    if chosen.provider == "local" and chosen.name:
        choose_local_model(chosen.name, home)


@verb(models_command, "show", "window, prices and settings of a model", SHOW_EPILOG)
@click.argument("name", required=False, metavar="NAME", shell_complete=complete_models)
@option("--provider", "NAME", "the provider, where the name does not show it", complete_providers)
@store_options
def show(console: Console, name: str | None, provider: str | None) -> int:
    configured = read_config(console.environ, console.flags).settings.model
    if name is None and configured.name is None and configured.provider is None:
        raise InvalidArgument(NO_MODEL, remedy=CHOOSE_MODEL)
    facts = _facts_of(name, provider, configured, console)

    def draw() -> None:
        rows = [("window", f"{_tokens(facts.window)}, {WINDOW_SOURCES[facts.source]}")]
        rows += [("learnt", _learnt_text(limit, facts)) for limit in facts.learnt]
        if facts.max_output:
            rows.append(("output", f"{facts.max_output:,} tokens at most"))
        rows += [("price", _price(facts.price)), ("key", _keys(facts))]
        address = f", {facts.address}" if facts.address else ""
        lines = [f"{facts.name}{_through(facts)}{address}", *(f"{MARGIN}{name:<8}{text}" for name, text in rows)]
        console.print_all(map(printable, lines))
        if facts.provider is None:
            console.note(f"name its provider with --provider NAME{_similar(facts)}")

    fields = {
        **model_json(facts),
        "max_output": facts.max_output,
        "base_url": facts.address,
        "keys": [{"variable": variable, "set": is_set} for variable, is_set in facts.keys],
        "key_in_config": facts.key_in_config,
        "learnt": [learnt_json(limit) for limit in facts.learnt],
    }
    return console.show(fields, draw)


@verb(models_command, "key", "store a provider's key", KEY_EPILOG)
@click.argument("provider", metavar="PROVIDER", shell_complete=complete_providers)
@click.option("--in", "place", type=OneOf(("keyring", "file")), help="where; without it the keyring if there is one")
@click.option("--remove", is_flag=True, help="remove the stored key")
@json_option
def key(console: Console, provider: str, place: KeyPlace | None, remove: bool) -> int:
    from clew.cli.init import read_key, store_key

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
    now = _facts_of(gone[0].model, None, read_config(console.environ).settings.model, console)
    lines = [*(f"forgotten: {limit_text(limit)}" for limit in gone), model_line(now)]
    window = {"window": now.window, "window_from": now.source}
    fields = {"name": gone[0].model, "forgotten": [learnt_json(limit) for limit in gone], **window}
    return console.show(fields, lambda: console.print_all(map(printable, lines)))


# -- properties of a model ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Properties of a model, None if unknown; without values of keys."""

    name: str
    provider: str | None
    window: int | None
    source: str
    """The source of the window size."""
    price: Price | None
    max_output: int | None = None
    address: str | None = None
    """The URL of the provider, without user and query, which may hold a key."""
    keys: tuple[tuple[str, bool], ...] = ()
    """The environment variables that may hold the key, and whether each is set."""
    key_in_config: bool = False
    learnt: tuple[LearntLimit, ...] = ()

    @classmethod
    def of(cls, name: str, provider: str | None, window: Window, **more: Any) -> ModelFacts:
        return cls(name, provider, window.tokens, window.source, price_of(name, provider), **more)


def model_facts(settings: ModelSettings, console: Console) -> ModelFacts:
    """Properties of a model; raises `InvalidArgument` for an unknown provider."""
    name = settings.name or ""
    limits = LearntLimits(learnt_limits_path(console.environ))
    learnt = tuple(limits.of_model(name))
    if is_local_model(settings.provider, settings.base_url, settings.name):
        file = local_model_file(settings.name, clew_home(console.environ))
        local = LocalProvider(file, context_length=settings.context_length)
        source = "config" if local.context_length == settings.context_length else "file"
        price = price_of(local.model, local.name)
        return ModelFacts(file.name, local.name, local.context_length, source, price, learnt=learnt)
    window = window_of(name, base_url=settings.base_url, configured=settings.context_length, learnt=limits)
    preset = preset_for(settings.provider, settings.base_url, name)
    stored = StoredKeys(clew_home(console.environ)).places()
    parts = urlsplit(preset.base_url or "")
    return ModelFacts.of(
        name,
        preset.name,
        window,
        max_output=window.max_output,
        address=urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", "")) or None,
        keys=tuple((it, bool(console.environ.get(it)) or it in stored) for it in key_variables(settings)),
        key_in_config=bool(settings.api_key),
        learnt=learnt,
    )


def _model_in_use(config: LoadedConfig, console: Console) -> tuple[ModelFacts | None, str]:
    """The configured model, or the reason why there is none."""
    model = config.settings.model
    if model.name is None and model.provider is None:
        return None, f"{NO_MODEL}; {CHOOSE_MODEL}"
    try:
        return model_facts(model, console), ""
    except InvalidArgument as error:
        return None, str(error)


def _facts_of(name: str | None, provider: str | None, configured: ModelSettings, console: Console) -> ModelFacts:
    """Properties of a model by name; the configured model has its settings.

    With an unknown provider, the window and learnt limits are returned.
    """
    settings = configured
    try:
        if name is not None and (name != configured.name or provider is not None):
            settings = ModelSettings(name=name)
            former = replace(configured, api_key=None)
            settings = chosen_settings(name, provider, former, clew_home(console.environ))
        return model_facts(settings, console)
    except InvalidArgument:
        if provider is not None:
            raise
    learnt, model = LearntLimits(learnt_limits_path(console.environ)), settings.name or ""
    window = window_of(model, base_url=settings.base_url, configured=settings.context_length, learnt=learnt)
    return ModelFacts.of(model, None, window, max_output=window.max_output, learnt=tuple(learnt.of_model(model)))


@dataclass(frozen=True, slots=True)
class ProviderModels:
    """The models of a provider, or the reason why it did not list them."""

    provider: str
    models: Sequence[ModelFacts] = ()
    problem: str | None = None


async def _ask_provider(
    asked: str | None, words: Sequence[str], config: LoadedConfig, console: Console
) -> ProviderModels:
    settings = config.settings.model
    if asked and asked != settings.provider:
        settings = ModelSettings(provider=asked)
    if not (settings.provider or settings.base_url or settings.name):
        return ProviderModels("", (), "there is no provider to ask; --provider NAME names one, such as openai")
    if is_local_model(settings.provider, settings.base_url, settings.name):
        console.note("the model in use is on this machine; --provider NAME lists the models of a provider")
        return ProviderModels("local")
    name = asked or settings.provider or settings.base_url or settings.name or ""
    try:
        provider, listed = await served_models(settings, console)
    except ClewError as error:
        why = explain_refusal(error) if isinstance(error, ProviderRefused) else error
        return ProviderModels(name, (), f"{name} could not list its models: {why}")
    return ProviderModels(provider, listed_models(listed, provider, words))


async def served_models(settings: ModelSettings, console: Console) -> tuple[str, Sequence[Mapping[str, Any]]]:
    """The name of a provider, and the models that it lists."""
    provider = provider_for(settings, environ=console.environ, retry_policy=RetryPolicy(retries=1, idle_seconds=30.0))
    with console.phase(f"asking {provider.name}"):
        try:
            return provider.name, await provider.models()
        finally:
            await provider.close()


def listed_models(listed: Sequence[Mapping[str, Any]], provider: str, words: Sequence[str]) -> list[ModelFacts]:
    """The models of a models endpoint whose names contain these words, sorted."""
    named = (next((entry[key] for key in ("id", "name", "model") if entry.get(key)), "") for entry in listed)
    names = sorted({name for name in named if isinstance(name, str) and name}, key=str.lower)
    wanted = [name for name in names if all(word.lower() in name.lower() for word in words)]
    facts = [ModelFacts.of(name, provider, window_of(name, endpoint={"data": list(listed)})) for name in wanted]
    # An assumed window is not displayed as a known one.
    return [replace(it, window=None, source="unknown") if it.source == "default" else it for it in facts]


def model_line(facts: ModelFacts) -> str:
    """The properties of a model on one line."""
    window = f"window {_tokens(facts.window)}, {WINDOW_SOURCES[facts.source]}" if facts.window else _tokens(None)
    return f"{facts.name}{_through(facts)}: {window}; {_price(facts.price)}"


def limit_text(limit: LearntLimit) -> str:
    at = "" if limit.address == "-" else f" at {limit.address}"
    return f"{limit.tokens:,} tokens{at}"


def _learnt_text(limit: LearntLimit, facts: ModelFacts) -> str:
    overruled = ", overruled by the config" if facts.source == "config" and (facts.window or 0) > limit.tokens else ""
    return f"{limit_text(limit)}{overruled}; `clew models forget {facts.name}` forgets it"


def _keys(facts: ModelFacts) -> str:
    if facts.provider == "local":
        return "none is needed"
    found = ["model.api_key in the config"] if facts.key_in_config else []
    found += [f"{variable}, {'set' if is_set else 'not set'}" for variable, is_set in facts.keys]
    return "; ".join(found) or "model.api_key_env names the variable that holds it, where one is needed"


def _through(facts: ModelFacts) -> str:
    if facts.provider is None:
        return ", no known provider"
    return " on this machine" if facts.provider == "local" else f" through {facts.provider}"


def format_bytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e9:,.1f} GB" if size_bytes >= 1e9 else f"{max(1, round(size_bytes / 1e6)):,} MB"


def _tokens(window: int | None) -> str:
    return f"{window:,} tokens" if window else "window unknown"


def _window_text(window: int | None) -> str:
    return f"window {window:,} tokens" if window else "window unknown"


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


def model_json(facts: ModelFacts) -> dict[str, Any]:
    price = facts.price
    return {
        **json_fields(facts, "name", "provider", "window"),
        "window_from": facts.source,
        "dollars_per_million": price and {"input": float(price.input), "output": float(price.output)},
    }


def learnt_json(limit: LearntLimit) -> dict[str, Any]:
    return {"address": None if limit.address == "-" else limit.address, "tokens": limit.tokens}


# -- in a chat ---------------------------------------------------------------------------------------------------------


async def run_model(state: ChatState, words: str) -> None:
    if words:
        await _switch_model(state, words)
        return
    conversation = await state.conversation()
    target = conversation.target
    caching = state.app.runtime.cache_policy(target).describe().removeprefix("prompt caching: ")
    facts = [*_model_facts(conversation), ("caching", caching)]

    def lines(console: Console) -> Iterator[str]:
        yield console.style(printable(target.model), "bold")
        yield from console.fact_lines(facts)

    state.show_lines(lines)


async def _switch_model(state: ChatState, name: str) -> None:
    conversation = await state.conversation()
    before, window = conversation.target.model, conversation.window.tokens
    if name == before:
        state.show_text(f"{name} answers already.")
        return
    await state.app.use_model(state.session, name)
    conversation = await state.conversation()
    await state.learn_names()
    now, tokens = conversation.window.tokens, conversation.size.tokens
    size = "the same window" if now == window else f"a window of {now:,} tokens"
    sentences = [
        f"{conversation.target.model} answers from the next question on, here and in new conversations.",
        f"It has {size} ({window_source(conversation)}), where {before} has {window:,}.",
    ]
    if conversation.engine.should_compress(tokens):
        sentences.append(
            f"This conversation has {tokens:,} tokens, above its threshold of "
            f"{conversation.engine.get_status().threshold_tokens:,}: the next question begins with a compaction."
        )
    state.show_text(*sentences)


def _model_facts(conversation: Conversation) -> Iterator[tuple[str, str]]:
    target, window, tokens = conversation.target, conversation.window, conversation.size.tokens
    yield "through", target.served_by or "a provider without a name"
    yield "window", f"{window.tokens:,} tokens, {window_source(conversation)}; {tokens:,} are in use"
    if target.max_tokens or window.max_output:
        yield "output", f"up to {target.max_tokens or window.max_output:,} tokens for a reply"
    price = price_of(target.model, target.served_by or None, prompt_tokens=tokens)
    if price is None:
        yield "price", f"{NO_PRICE} is known"
        return
    cached = f", {_dollars(price.cache_read)} from the cache" if price.cache_read is not None else ""
    checked = f" (looked up {price.checked})" if price.checked else ""
    yield "price", f"{_price(price)}{cached}{checked}" if price.input or price.output else "free: it runs here"
