"""`clew models list|show|get|use|key|forget`: the models there are, what is known of one, fetching and choosing one.

`list` asks no network unless told to; `use` writes to the config file and nowhere else. `forget` takes a window that
was learnt from a provider's error out of the one file where those are kept.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clew.cli.arguments import add_set_flag
from clew.cli.console import Console
from clew.cli.views.text import printable, wrap
from clew.config import (
    LoadedConfig,
    ModelSettings,
    StoredKeys,
    clew_home,
    config_path,
    learnt_limits_path,
    read_config,
)
from clew.errors import ClewError, InvalidArgument

if TYPE_CHECKING:
    from clew.cli.views.models import ModelDetails, ModelInfo

EXAMPLES = """\
A model runs at a provider, which needs its key in the environment, or on this
machine, out of a GGUF file, which needs the extra `local` (in a clone of Clew:
pip install '.[local]').
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
elsewhere. A download that broke goes on where it stopped, if the server lets it.
"""
USE_EPILOG = """\
NAME is a model as its provider spells it, a file on this machine (its name or its
path), or `local`. The provider follows from its name, or from --provider. Settings that
belonged to the former model (model.context_length, and with another provider
model.base_url and model.api_key_env) are taken out, and that is said.
"""
NO_MODEL = "no model is configured; `clew models use NAME` chooses one"
SHOW_EPILOG = """\
Without NAME, the model in use. The window is shown with who says so, and the key by the
environment variable in which it is looked for, never itself. Nothing is asked of a network.
"""
KEY_EPILOG = """\
The key is asked for and not shown, or read from standard input. It is kept in the keyring of
the system (needs the extra `keyring`), or in keys.json of the Clew home, a file that only you
can read. A key in the environment always wins.
"""
FORGET_EPILOG = """\
A provider that refuses a request and states its limit is believed: the limit is kept for
later, by model and address, unless model.context_length says otherwise. `forget` takes it
out, at every address, for a server that was restarted with a larger window.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EXAMPLES
    verbs = parser.add_subparsers(
        title="what to do", metavar="list|show|get|use|key|forget", dest="verb", required=True
    )
    listing = verbs.add_parser("list", help="the model in use, those on this machine, and those of a provider")
    listing.add_argument("words", nargs="*", metavar="WORD", help="of a provider's models, only names with these words")
    listing.add_argument("--provider", metavar="NAME", help="ask this provider what it serves (over the network)")
    listing.add_argument("--remote", action="store_true", help="ask the configured provider")
    add_set_flag(listing)
    get = verbs.add_parser("get", help="download a model file", epilog=GET_EPILOG)
    get.add_argument("name", metavar="NAME|URL|FILE")
    use = verbs.add_parser("use", help="write a model to the config", epilog=USE_EPILOG)
    use.add_argument("name", metavar="NAME")
    use.add_argument("--provider", metavar="NAME", help="who serves it: openai, anthropic, openrouter, ..., local")
    show = verbs.add_parser("show", help="window, prices and settings of a model", epilog=SHOW_EPILOG)
    show.add_argument("name", nargs="?", metavar="NAME")
    show.add_argument("--provider", metavar="NAME", help="the provider, where the name does not show it")
    add_set_flag(show)
    key = verbs.add_parser("key", help="store a provider's key", epilog=KEY_EPILOG)
    key.add_argument("provider", metavar="PROVIDER", help="openai, anthropic, openrouter, ...")
    key.add_argument(
        "--in", dest="place", choices=["keyring", "file"], help="where; without it the keyring if there is one"
    )
    key.add_argument("--remove", action="store_true", help="remove the stored key")
    forget = verbs.add_parser("forget", help="a learnt window", epilog=FORGET_EPILOG)
    forget.add_argument("name", metavar="NAME")
    for each in (listing, get, use, show, forget):
        each.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace, console: Console) -> int:
    verbs = {"list": _list, "show": _show, "get": _get, "use": _use, "key": _key, "forget": _forget}
    return verbs[arguments.verb](arguments, console)


# -- list --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProviderModels:
    """The models that a provider lists, or why it could not be asked."""

    provider: str
    models: Sequence[ModelInfo]
    problem: str | None = None


def _list(arguments: argparse.Namespace, console: Console) -> int:
    config = read_config(console.environ, arguments.flags)
    console.notes([*config.notices, *(problem.text for problem in config.problems)])
    remote = None
    if arguments.provider or arguments.remote or arguments.words:
        remote = _ask_provider(arguments, config, console)
    if arguments.json:
        console.print_json(_models_json(config, remote, console))
    else:
        _print_models(config, remote, console)
    if remote is not None and remote.problem:
        console.error(remote.problem)
        return 1
    return 0


def _print_models(config: LoadedConfig, remote: ProviderModels | None, console: Console) -> None:
    from clew.cli.views.models import fetchable_lines, local_lines, model_line, remote_lines
    from clew.providers import FETCHABLE_MODELS, chosen_local_model, local_models, models_folder

    home = clew_home(console.environ)
    info, problem = _configured_model(config, console)
    console.print(console.style("In use", "bold"))
    for line in wrap(model_line(info) if info else problem, console.width - 2):
        console.print(f"  {line}")
    there = local_models(home)
    console.print(console.style(f"On this machine ({printable(str(models_folder(home)))})", "bold"))
    for line in local_lines(there, chosen_local_model(home), console) or ["  none yet"]:
        console.print(line)
    missing = [row for row in FETCHABLE_MODELS if row.file not in {model.name for model in there}]
    if missing:
        for line in wrap("To be fetched with `clew models get`", console.width):
            console.print(console.style(line, "bold"))
        for line in fetchable_lines(missing, console):
            console.print(line)
    if remote is not None and not remote.problem and remote.provider != "local":
        console.print(console.style(f"At {printable(remote.provider)}, per million tokens", "bold"))
        for line in remote_lines(remote.models, console) or ["  it lists none of that name"]:
            console.print(line)


def _models_json(config: LoadedConfig, remote: ProviderModels | None, console: Console) -> dict[str, Any]:
    from clew.cli.views.models import fetchable_json, local_json, model_json
    from clew.providers import FETCHABLE_MODELS, chosen_local_model, local_models

    home = clew_home(console.environ)
    info, problem = _configured_model(config, console)
    chosen = chosen_local_model(home)
    found: dict[str, Any] = {
        "in_use": model_json(info) if info else None,
        "problem": problem or None,
        "local": [local_json(model, chosen) for model in local_models(home)],
        "fetchable": [fetchable_json(row) for row in FETCHABLE_MODELS],
    }
    if remote is not None:
        models = [model_json(each) for each in remote.models]
        found["remote"] = {"provider": remote.provider, "models": models, "problem": remote.problem}
    return found


def _configured_model(config: LoadedConfig, console: Console) -> tuple[ModelInfo | None, str]:
    """The configured model, or why there is none."""
    model = config.settings.model
    if model.name is None and model.provider is None:
        return None, NO_MODEL
    try:
        return _model_info(model, console), ""
    except InvalidArgument as error:
        return None, str(error)


def _model_info(model: ModelSettings, console: Console) -> ModelInfo:
    from clew.cli.views.models import ModelInfo, model_info
    from clew.providers import LocalProvider, is_local_model, local_model_file, preset_for
    from clew.tokens import LearntLimits, window_of
    from clew.usage import price_of

    if is_local_model(model.provider, model.base_url, model.name):
        file = local_model_file(model.name, clew_home(console.environ))
        local = LocalProvider(file, context_length=model.context_length)
        source = "config" if local.context_length == model.context_length else "file"
        return ModelInfo(file.name, local.name, local.context_length, source, price_of(local.model, local.name))
    name = model.name or ""
    learnt = LearntLimits(learnt_limits_path(console.environ))
    window = window_of(name, base_url=model.base_url, configured=model.context_length, learnt=learnt)
    return model_info(name, preset_for(model.provider, model.base_url, name).name, window)


def _ask_provider(arguments: argparse.Namespace, config: LoadedConfig, console: Console) -> ProviderModels:
    from clew.cli.views.models import listed_models
    from clew.providers import LocalProvider, Provider, ProviderRefused, RetryPolicy, explain_refusal, provider_for

    settings = config.settings.model
    if arguments.provider and arguments.provider != settings.provider:
        settings = ModelSettings(provider=arguments.provider)

    if not (settings.provider or settings.base_url or settings.name):
        return ProviderModels("", (), "there is no provider to ask; --provider NAME names one, such as openai")

    async def ask(provider: Provider) -> Sequence[Any]:
        try:
            return await provider.models()
        finally:
            await provider.close()

    name = arguments.provider or settings.provider or settings.base_url or settings.name or ""
    try:
        provider = provider_for(
            settings, environ=console.environ, retry_policy=RetryPolicy(retries=1, idle_seconds=30.0)
        )
        if isinstance(provider, LocalProvider):
            console.note("the model in use is on this machine; --provider NAME asks a provider what it serves")
            return ProviderModels(provider.name, ())
        with console.phase(f"asking {provider.name}"):
            listed = asyncio.run(ask(provider))
    except ProviderRefused as refused:
        return ProviderModels(name, (), f"{name} could not be asked what it serves: {explain_refusal(refused)}")
    except ClewError as error:
        return ProviderModels(name, (), f"{name} could not be asked what it serves: {error}")
    return ProviderModels(provider.name, listed_models(listed, provider.name, arguments.words))


# -- get ---------------------------------------------------------------------------------------------------------------


def _get(arguments: argparse.Namespace, console: Console) -> int:
    from clew.cli.views.models import format_bytes
    from clew.install import has_extra, install_command
    from clew.providers import trained_window

    file = fetch_file(arguments.name, console)
    window = trained_window(file)
    size_bytes = file.stat().st_size
    if arguments.json:
        console.print_json({"file": str(file), "bytes": size_bytes, "window": window, "runs_here": has_extra("local")})
        return 0
    console.print(f"{file}  ({format_bytes(size_bytes)}{f', window {window:,} tokens' if window else ''})")
    if not has_extra("local"):
        console.note(f"to run it, Clew needs the extra `local`: {install_command('local')}")
    console.note(f"`clew chat --model local:{file.stem}` talks to it; `clew models use {file.name}` keeps it chosen")
    return 0


def fetch_file(name: str, console: Console) -> Path:
    """Bring a model file here, with progress."""
    from clew.cli.views.models import format_bytes
    from clew.providers import fetch_model

    def report(come: int, total: int | None) -> None:
        share = f" of {format_bytes(total)} ({100 * come // total}%)" if total else ""
        console.progress(f"{name}: {format_bytes(come)}{share}")

    try:
        return asyncio.run(fetch_model(name, clew_home(console.environ), report))
    finally:
        console.clear_progress()


# -- use ---------------------------------------------------------------------------------------------------------------


def _use(arguments: argparse.Namespace, console: Console) -> int:
    from clew.cli.model_setup import use_model

    use_model(arguments.name, arguments.provider, None, console, as_json=arguments.json)
    return 0


def write_choice(before: LoadedConfig, chosen: ModelSettings, console: Console, *, as_json: bool = False) -> None:
    """Write a chosen model to the config, and print what is known of it and what it lacks."""
    from clew.cli.views.models import is_known, model_json, model_line, similar_names
    from clew.providers import provider_for

    _write_settings(before, chosen, clew_home(console.environ), console)
    after = read_config(console.environ)
    for key in ("model.name", "model.provider"):
        if after.origin_of(key).kind == "env":
            console.note(f"the environment variable {after.origin_of(key).where} overrules the file")
    info = _model_info(after.settings.model, console)
    if as_json:
        console.print_json(model_json(info))
    else:
        console.print(printable(model_line(info)))
    if info.source == "default" or not is_known(info):
        _warn_unknown_model(info, similar_names(info.name), console)
    try:
        provider_for(after.settings.model, environ=console.environ)
    except InvalidArgument as error:
        console.note(str(error))


def _key(arguments: argparse.Namespace, console: Console) -> int:
    from clew.cli.model_setup import read_key, store_key
    from clew.providers import preset_for

    preset = preset_for(arguments.provider, None, None)
    if arguments.remove:
        if not StoredKeys(clew_home(console.environ)).remove(preset.key_env):
            raise ClewError(f"no key for {preset.name} is stored; one in the environment is not Clew's to remove")
        console.print(f"the key for {preset.name} is removed")
        return 0
    store_key(preset, read_key(preset.name, console), arguments.place, console)
    return 0


def _warn_unknown_model(info: ModelInfo, others: Sequence[str], console: Console) -> None:
    if info.provider == "local":
        return
    meant = f"; did you mean {', '.join(others)}?" if others else ""
    console.note(printable(f"{info.name} is not in the tables of Clew{meant}"))
    better = "`clew config set model.context_length N` says better"
    if info.source == "default":
        console.note(f"a window of {info.window:,} tokens is assumed; {better}")
    elif info.source == "table":
        console.note(f"a window of {info.window:,} tokens is taken from models of its family; {better}")


def _write_settings(before: LoadedConfig, chosen: ModelSettings, home: Path, console: Console) -> None:
    """Write the chosen model to the file; settings that belonged to the former one are removed."""
    from clew.config import declared_settings, set_in_file, unset_in_file
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


def _show(arguments: argparse.Namespace, console: Console) -> int:
    from clew.cli.views.models import details_json, details_lines, similar_names

    config = read_config(console.environ, arguments.flags)
    if arguments.name is None and config.settings.model.name is None and config.settings.model.provider is None:
        raise InvalidArgument(NO_MODEL)
    details = _model_details(arguments.name, arguments.provider, config.settings.model, console)
    if arguments.json:
        console.print_json(details_json(details))
        return 0
    for line in details_lines(details):
        console.print(printable(line))
    if details.info.provider is None:
        meant = f"; did you mean {', '.join(others)}?" if (others := similar_names(details.info.name)) else ""
        console.note(f"who serves it is said with --provider NAME{meant}")
    return 0


def _model_details(name: str | None, provider: str | None, configured: ModelSettings, console: Console) -> ModelDetails:
    """What is known of a model: with the settings of the configured one where it is that, else as its name tells."""
    from clew.cli.model_choice import chosen_settings
    from clew.cli.views.models import ModelDetails, model_info
    from clew.providers import is_local_model, key_variables, preset_for
    from clew.tokens import LearntLimits, window_of

    settings = configured
    if name is not None and (name != configured.name or provider is not None):
        try:
            former = replace(configured, api_key=None)
            settings = chosen_settings(name, provider, former, clew_home(console.environ))
        except InvalidArgument:
            if provider is not None:
                raise
            # Nobody is known to serve it: its window and what was learnt of it are known all the same.
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


def _forget(arguments: argparse.Namespace, console: Console) -> int:
    from clew.cli.views.models import learnt_json, limit_text, model_line
    from clew.tokens import LearntLimits

    learnt = LearntLimits(learnt_limits_path(console.environ))
    gone = learnt.forget(arguments.name)
    if not gone:
        names = ", ".join(sorted({limit.model for limit in learnt.all()}))
        there = f"there is one of: {names}" if names else "none is kept of any model"
        raise InvalidArgument(f"no limit was learnt of {arguments.name!r}; {there}")
    now = _model_details(gone[0].model, None, read_config(console.environ).settings.model, console).info
    if arguments.json:
        window = {"window": now.window, "window_from": now.source}
        console.print_json({"name": gone[0].model, "forgotten": [learnt_json(limit) for limit in gone], **window})
        return 0
    for limit in gone:
        console.print(printable(f"forgotten: {limit_text(limit)}"))
    console.print(printable(model_line(now)))
    return 0
