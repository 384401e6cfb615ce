"""From the settings of an endpoint to a provider: by its name, its address, or the name of the model.

Reads the table in `known`. Sends nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from clew.config import AuxiliaryModelSettings, ModelSettings, api_key_of, clew_home
from clew.errors import InvalidArgument
from clew.providers.anthropic import AnthropicProvider
from clew.providers.base import Provider
from clew.providers.chat import OpenAIChatProvider
from clew.providers.known import ALL_REASONING, KNOWN, MODEL_PREFIXES, Known
from clew.providers.model_files import LOCAL, LOCAL_PREFIX, SUFFIX, local_model_file
from clew.providers.responses import ResponsesProvider
from clew.providers.wire import HttpProvider

if TYPE_CHECKING:
    from clew.providers.patience import Patience

_WIRES: dict[str, type[HttpProvider]] = {
    "openai_chat": OpenAIChatProvider,
    "responses": ResponsesProvider,
    "anthropic": AnthropicProvider,
}
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def provider_for(
    endpoint: ModelSettings | AuxiliaryModelSettings,
    *,
    environ: Mapping[str, str] | None = None,
    patience: Patience | None = None,
) -> Provider:
    """The provider that these settings mean; raises `InvalidArgument` where they mean none, or no key is found."""
    environ = os.environ if environ is None else environ
    model = endpoint.name if isinstance(endpoint, ModelSettings) else endpoint.model
    if means_local(endpoint.provider, endpoint.base_url, model):
        return _local(endpoint, model, environ, patience)
    known = known_provider(endpoint.provider, endpoint.base_url, model)
    key = api_key_of(endpoint, environ) or _usual_key(known, endpoint.base_url, environ)
    if not key and _host(known.base_url) not in _LOOPBACK and not endpoint.base_url:
        raise InvalidArgument(f"no key for {known.name}; set the environment variable {known.key_env}, or api_key_env")
    options: dict[str, Any] = {"api_key": key, "name": known.name, "patience": patience, "environ": {}}
    if known.wire != "anthropic":
        options["key_header"] = known.key_header
    if known.wire == "openai_chat":
        options["takes_back"] = known.takes_back
    return _WIRES[known.wire](known.base_url, **options)


def known_provider(name: str | None, base_url: str | None, model: str | None) -> Known:
    """The row of the table, with the address that was configured, or a row made up for an address it does not know."""
    if name:
        row = _by_name(name)
        if row is None and not base_url:
            names = ", ".join(known.name for known in KNOWN)
            raise InvalidArgument(f"provider {name!r} is unknown; give its base_url, or use one of {names}, {LOCAL}")
    else:
        row = _by_host(base_url) if base_url else _by_model(model)
        if row is None and not base_url:
            raise InvalidArgument(f"nobody is known to serve the model {model!r}; set its provider or its base_url")
    if base_url is None:
        assert row is not None
        return row
    wire = _wire_at(base_url) or (row.wire if row is not None else "openai_chat")
    if row is not None:
        return replace(row, base_url=base_url, wire=wire)
    return Known(name or _host(base_url), base_url, wire, "", takes_back=ALL_REASONING)


def _by_name(name: str) -> Known | None:
    plain = name.strip().lower().replace("_", "-")
    return next((known for known in KNOWN if plain == known.name or plain in known.other_names), None)


def _by_host(base_url: str) -> Known | None:
    host = _host(base_url)
    return None if host in _LOOPBACK else next((known for known in KNOWN if _host(known.base_url) == host), None)


def _by_model(model: str | None) -> Known | None:
    name = (model or "").lower()
    if "/" in name:
        return _by_name("openrouter")
    return next((_by_name(provider) for prefix, provider in MODEL_PREFIXES if name.startswith(prefix)), None)


def _wire_at(base_url: str) -> Any:
    """Some serve Anthropic's wire beside their own, under a path of that name."""
    return "anthropic" if "/anthropic" in urlsplit(base_url).path.lower() else None


def _usual_key(known: Known, base_url: str | None, environ: Mapping[str, str]) -> str | None:
    """The key in the provider's usual variable, and for its own address alone: elsewhere it would be given away."""
    if base_url and not any(_host(row.base_url) == _host(base_url) for row in KNOWN if row.key_env == known.key_env):
        return None
    variables = (known.key_env, *known.other_key_envs)
    return next((value for variable in variables if variable and (value := environ.get(variable))), None)


def _host(base_url: str) -> str:
    return (urlsplit(base_url).hostname or "").lower()


def means_local(provider: str | None, base_url: str | None, model: str | None) -> bool:
    """Whether these settings mean a model in a file.

    `local` as a model's name does so whoever is configured for other models, unless an address is given or the
    provider is a server on this machine: those may call a model what they like.
    """
    if (provider or "").strip().lower() == LOCAL:
        return True
    name = (model or "").strip().lower()
    if base_url is not None:
        return False
    if provider is None:
        return name == LOCAL or name.startswith(LOCAL_PREFIX) or name.endswith(SUFFIX)
    row = _by_name(provider)
    is_elsewhere = row is not None and _host(row.base_url) not in _LOOPBACK
    return is_elsewhere and (name == LOCAL or name.startswith(LOCAL_PREFIX))


def _local(
    endpoint: ModelSettings | AuxiliaryModelSettings,
    model: str | None,
    environ: Mapping[str, str],
    patience: Patience | None,
) -> Provider:
    from clew.providers.local import LocalProvider

    file = local_model_file(model, clew_home(environ))
    log = environ.get("CLEW_LOCAL_LOG")
    return LocalProvider(
        file, context_length=endpoint.context_length, patience=patience, log=Path(log).expanduser() if log else None
    )
