"""The settings of a model that a person chooses by its name: its provider, and the former settings that still apply."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path

from clew.config import (
    ModelSettings,
)
from clew.errors import InvalidArgument
from clew.providers import (
    FETCHABLE_MODELS,
    is_local_model,
    local_model_file,
    local_models,
    models_folder,
    preset_for,
)
from clew.tokens import KNOWN_MODELS, normalize_model_name

_SIMILARITY = 0.75
LOCAL = "local"


def similar_names(name: str) -> list[str]:
    """Similar names in our tables for an unknown one."""
    plain = normalize_model_name(name)
    names = [row.name for row in KNOWN_MODELS]
    return [] if plain in names else get_close_matches(plain, names, 3, _SIMILARITY)


def chosen_settings(name: str, provider: str | None, before: ModelSettings, home: Path) -> ModelSettings:
    """The settings of the chosen model."""
    if _is_local(name, provider, before, home):
        file = local_model_file(name, home)
        kept = file.name if file.parent == models_folder(home) else str(file)
        return replace(before, name=kept, provider=LOCAL, base_url=None, context_length=None, api_key_env=None)
    changed = replace(before, name=name, context_length=before.context_length if name == before.name else None)
    serving = provider or _usual_provider(name, before)
    if serving is None:
        return changed
    now = preset_for(serving, None, name).name
    former = _former_provider(before)
    if former is None or former == now:
        keeps = before.base_url if former == now else None
        return replace(changed, provider=now, base_url=keeps)
    if before.api_key:
        raise InvalidArgument(
            f"model.api_key is that of {former} and would be sent to {now}",
            remedy=(
                "take it out first with `clew config set model.api_key --default`, and keep keys in the environment"
            ),
        )
    return replace(changed, provider=now, base_url=None, api_key_env=None)


def _is_local(name: str, provider: str | None, before: ModelSettings, home: Path) -> bool:
    if provider is not None:
        return provider.strip().lower() == LOCAL
    if is_local_model(None, None, name):
        return True
    if before.base_url is None and Path(name).expanduser().is_file():
        return True
    short = {row.name for row in FETCHABLE_MODELS}
    kept = {each.lower() for model in local_models(home) for each in (model.name, model.file.stem)}
    return name.lower() in short | kept


def _usual_provider(name: str, before: ModelSettings) -> str | None:
    """The usual provider of a model; None if the configured endpoint stays."""
    is_local = (before.provider or "").lower() == LOCAL
    if before.base_url is not None and not is_local:
        return None
    if "/" in name and before.provider and not is_local:
        return None  # many providers have names with a vendor before them
    try:
        return preset_for(None, None, name).name
    except InvalidArgument:
        if before.provider and not is_local:
            return None
        meant = f"did you mean {', '.join(others)}? Say" if (others := similar_names(name)) else "say"
        raise InvalidArgument(
            f"no provider of {name!r} is known",
            remedy=f"{meant} its provider with --provider NAME, or give a file that `clew models list` shows",
        ) from None


def _former_provider(before: ModelSettings) -> str | None:
    """The provider of the configured key and address; None if it is not known."""
    try:
        return preset_for(before.provider, before.base_url, before.name).name
    except InvalidArgument:
        return LOCAL if (before.provider or "").lower() == LOCAL else None
