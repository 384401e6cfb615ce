"""The models that the config names: the main one, and the one that writes summaries.

Nothing is sent: a provider that cannot be reached fails with the first request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from clew.app.model_choice import LOCAL
from clew.config import AuxiliaryModelSettings, ModelSettings, Settings
from clew.errors import NoModel
from clew.handoff import SummaryModel, summary_model
from clew.providers import LocalProvider, Provider, RetryPolicy, is_local_model, preset_for, provider_for
from clew.tokens import window_of
from clew.turn import ModelTarget, summary_model_of

WAYS_TO_A_MODEL = (
    "Three ways to get one: on this machine: `clew models get smollm2`, then `clew chat --model "
    "local`; with a key in the environment, ANTHROPIC_API_KEY for one: `clew chat --model claude-sonnet-4-5`; at an "
    "address: `clew chat --base-url http://127.0.0.1:8080/v1 --model NAME`. `clew models use NAME` remembers the choice"
)


ENDPOINT_STATE = "chat.endpoint"
"""The state of a session that holds its `endpoint_of`."""
_ENDPOINT = ("name", "provider", "base_url", "api_key_env")


def check_model(settings: ModelSettings) -> None:
    """Raise `NoModel`, with the ways to get one, if the settings name none."""
    if settings.name is None and settings.provider != LOCAL:
        raise NoModel(WAYS_TO_A_MODEL)


def target_of(
    settings: ModelSettings,
    environ: Mapping[str, str],
    provider: Provider | None = None,
    *,
    max_tokens: int | None = None,
    retry_policy: RetryPolicy | None = None,
) -> ModelTarget:
    """The main model at its provider; `provider` replaces the one of the settings."""
    check_model(settings)
    serving = provider or provider_for(settings, environ=environ, retry_policy=retry_policy)
    if isinstance(serving, LocalProvider):
        return _local_target(serving, max_tokens)
    return ModelTarget(serving, settings.name or "local", settings.base_url, settings.context_length, max_tokens)


def settings_for_model(former: ModelSettings, name: str) -> ModelSettings:
    """The settings for another model by its name. A key is kept only for the same provider."""
    other = replace(former, name=name, provider=None, base_url=None, context_length=None)
    if _serving(None, None, name) == _serving(former.provider, former.base_url, former.name):
        return other
    return replace(other, api_key=None, api_key_env=None)


def endpoint_of(settings: ModelSettings) -> dict[str, str | None]:
    """The model and its endpoint without keys, stored with a session."""
    return {name: getattr(settings, name) for name in _ENDPOINT}


def settings_at(former: ModelSettings, endpoint: Mapping[str, str | None]) -> ModelSettings:
    """The settings of an endpoint from `endpoint_of`. A literal key is kept only for the same endpoint."""
    kept = {name: endpoint.get(name) for name in _ENDPOINT}
    if kept == endpoint_of(former):
        return former
    is_same_place = all(kept[name] == getattr(former, name) for name in ("provider", "base_url"))
    key = former.api_key if is_same_place else None
    return ModelSettings(kept["name"], kept["provider"], kept["base_url"], key, kept["api_key_env"])


def _serving(provider: str | None, base_url: str | None, name: str | None) -> str:
    """The provider of a model; raises InvalidArgument if none is known."""
    return LOCAL if is_local_model(provider, base_url, name) else preset_for(provider, base_url, name).name


def auxiliary_target(settings: Settings, environ: Mapping[str, str]) -> ModelTarget | None:
    """The model that `auxiliary.compression` names; None if the main model writes summaries."""
    endpoint = _summary_endpoint(settings)
    if endpoint is None:
        return None
    provider = provider_for(endpoint, environ=environ)
    if isinstance(provider, LocalProvider):
        return _local_target(provider)
    return ModelTarget(provider, endpoint.model or "local", endpoint.base_url, endpoint.context_length)


def _local_target(provider: LocalProvider, max_tokens: int | None = None) -> ModelTarget:
    """A local model: with the name of its file, and the window that it is started with."""
    return ModelTarget(provider, provider.model, provider.base_url, provider.context_length, max_tokens)


def configured_summary_model(settings: Settings, environ: Mapping[str, str]) -> SummaryModel | None:
    """The model that `auxiliary.compression` names for summaries, with defaults of the main model; None without one.

    Settings without a known provider fail when it is asked to write, so that the built-in summariser is used, with the
    reason.
    """
    endpoint = _summary_endpoint(settings)
    if endpoint is None:
        return None
    name = endpoint.model or "the configured model"
    window = window_of(endpoint.model, base_url=endpoint.base_url, configured=endpoint.context_length)

    async def write(prompt: str, max_tokens: int) -> str:
        provider = provider_for(endpoint, environ=environ)
        try:
            return await summary_model_of(provider, name, window.tokens).complete(prompt, max_tokens)
        finally:
            await provider.close()

    return summary_model(write, name=name, context_length=window.tokens, max_output=window.max_output)


def _summary_endpoint(settings: Settings) -> AuxiliaryModelSettings | None:
    """The endpoint of the summary model, with defaults of the main model; None without one."""
    chosen, main = settings.auxiliary.compression, settings.model
    if chosen.model is None and chosen.provider is None and chosen.base_url is None:
        return None
    own_endpoint = chosen.provider is not None or chosen.base_url is not None
    return replace(
        chosen,
        model=chosen.model or main.name,
        provider=chosen.provider if own_endpoint else main.provider,
        base_url=chosen.base_url if own_endpoint else main.base_url,
        api_key=chosen.api_key or (None if own_endpoint else main.api_key),
        api_key_env=chosen.api_key_env or (None if own_endpoint else main.api_key_env),
    )
