"""The key of a model's endpoint, from the config itself or from the environment variable that it names."""

from __future__ import annotations

from collections.abc import Mapping

from clew.config.settings import AuxiliaryModelSettings, ModelSettings


def api_key_of(endpoint: ModelSettings | AuxiliaryModelSettings, environ: Mapping[str, str]) -> str | None:
    """The configured key; None where none is configured, and the provider's usual variable is to be looked at."""
    if endpoint.api_key_env:
        return environ.get(endpoint.api_key_env) or endpoint.api_key
    return endpoint.api_key
