"""The providers that Clew knows by name, and the choice of one from settings.

One row a provider: its address, its wire, the variable that holds its key. A provider that is not here needs a base_url.
`provider_for` builds the provider that settings mean, by its name, its address or the name of the model.
"""

# ruff: noqa: E501 (one line a provider)
from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from clew.config import AuxiliaryModelSettings, ModelSettings, api_key_of, clew_home, key_for
from clew.errors import InvalidArgument
from clew.providers.base import Provider
from clew.providers.http.connection import LOOPBACK_HOSTS, RetryPolicy
from clew.providers.local.models import LOCAL, LOCAL_PREFIX, SUFFIX, local_model_file
from clew.providers.wires.anthropic import AnthropicProvider
from clew.providers.wires.chat import REASONING_FIELDS, OpenAIChatProvider
from clew.providers.wires.http_provider import HttpProvider, key_in_variable
from clew.providers.wires.responses import ResponsesProvider

WireName: TypeAlias = Literal["openai_chat", "responses", "anthropic"]

_DETAILS = ("reasoning_details",)
_CONTENT = ("reasoning_content",)
_TEXT = ("reasoning",)


@dataclass(frozen=True, slots=True)
class ProviderPreset:
    """How to reach a provider."""

    name: str
    base_url: str
    wire: WireName
    key_env: str
    other_names: tuple[str, ...] = ()
    other_key_envs: tuple[str, ...] = ()
    reasoning_fields: tuple[str, ...] = ()
    """The fields under which it gives reasoning and wants it back in the history; some refuse other fields."""
    model_prefixes: tuple[str, ...] = ()
    """How the names of its own models begin, for configs that name no provider."""


# fmt: off
PROVIDER_PRESETS: tuple[ProviderPreset, ...] = (
    ProviderPreset("openai", "https://api.openai.com/v1", "openai_chat", "OPENAI_API_KEY", model_prefixes=("gpt-", "chatgpt-", "o1", "o3", "o4")),
    ProviderPreset("openai-responses", "https://api.openai.com/v1", "responses", "OPENAI_API_KEY", ("responses",)),
    ProviderPreset("anthropic", "https://api.anthropic.com", "anthropic", "ANTHROPIC_API_KEY", ("claude",), model_prefixes=("claude",)),
    ProviderPreset("openrouter", "https://openrouter.ai/api/v1", "openai_chat", "OPENROUTER_API_KEY", reasoning_fields=_DETAILS),
    ProviderPreset("deepseek", "https://api.deepseek.com/v1", "openai_chat", "DEEPSEEK_API_KEY", reasoning_fields=_CONTENT, model_prefixes=("deepseek-",)),
    ProviderPreset("gemini", "https://generativelanguage.googleapis.com/v1beta/openai", "openai_chat", "GEMINI_API_KEY", ("google",), ("GOOGLE_API_KEY",), model_prefixes=("gemini-",)),
    ProviderPreset("xai", "https://api.x.ai/v1", "openai_chat", "XAI_API_KEY", ("grok",), model_prefixes=("grok-",)),
    ProviderPreset("groq", "https://api.groq.com/openai/v1", "openai_chat", "GROQ_API_KEY", reasoning_fields=_TEXT),
    ProviderPreset("mistral", "https://api.mistral.ai/v1", "openai_chat", "MISTRAL_API_KEY", model_prefixes=("mistral-", "codestral-")),
    ProviderPreset("moonshot", "https://api.moonshot.ai/v1", "openai_chat", "MOONSHOT_API_KEY", ("kimi",), reasoning_fields=_CONTENT, model_prefixes=("kimi-",)),
    ProviderPreset("zai", "https://api.z.ai/api/paas/v4", "openai_chat", "ZAI_API_KEY", ("z.ai", "glm", "zhipu"), ("ZHIPUAI_API_KEY",), _CONTENT, model_prefixes=("glm-",)),
    ProviderPreset("minimax", "https://api.minimax.io/v1", "openai_chat", "MINIMAX_API_KEY", reasoning_fields=_DETAILS),
    ProviderPreset("qwen", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "openai_chat", "DASHSCOPE_API_KEY", ("dashscope", "alibaba"), reasoning_fields=_CONTENT, model_prefixes=("qwen",)),
    ProviderPreset("together", "https://api.together.xyz/v1", "openai_chat", "TOGETHER_API_KEY", ("togetherai",)),
    ProviderPreset("fireworks", "https://api.fireworks.ai/inference/v1", "openai_chat", "FIREWORKS_API_KEY", reasoning_fields=_CONTENT),
    ProviderPreset("cerebras", "https://api.cerebras.ai/v1", "openai_chat", "CEREBRAS_API_KEY", reasoning_fields=_TEXT),
    ProviderPreset("nvidia", "https://integrate.api.nvidia.com/v1", "openai_chat", "NVIDIA_API_KEY"),
    ProviderPreset("vercel", "https://ai-gateway.vercel.sh/v1", "openai_chat", "AI_GATEWAY_API_KEY", ("ai-gateway",)),
    ProviderPreset("huggingface", "https://router.huggingface.co/v1", "openai_chat", "HF_TOKEN", ("hf",)),
    ProviderPreset("ollama", "http://127.0.0.1:11434/v1", "openai_chat", "OLLAMA_API_KEY", reasoning_fields=_TEXT),
    ProviderPreset("lmstudio", "http://127.0.0.1:1234/v1", "openai_chat", "LMSTUDIO_API_KEY", ("lm-studio",)),
    ProviderPreset("vllm", "http://127.0.0.1:8000/v1", "openai_chat", "VLLM_API_KEY", reasoning_fields=_CONTENT),
    ProviderPreset("llamacpp", "http://127.0.0.1:8080/v1", "openai_chat", "LLAMA_API_KEY", ("llama.cpp", "llama-cpp"), reasoning_fields=_CONTENT),
)
# fmt: on

_WIRES: dict[str, type[HttpProvider]] = {
    "openai_chat": OpenAIChatProvider,
    "responses": ResponsesProvider,
    "anthropic": AnthropicProvider,
}


def provider_for(
    endpoint: ModelSettings | AuxiliaryModelSettings,
    *,
    environ: Mapping[str, str] | None = None,
    retry_policy: RetryPolicy | None = None,
) -> Provider:
    """The provider of these settings; raises `InvalidArgument` if they name none, or no key is found."""
    environ = os.environ if environ is None else environ
    model = endpoint.name if isinstance(endpoint, ModelSettings) else endpoint.model
    if is_local_model(endpoint.provider, endpoint.base_url, model):
        return _local(endpoint, model, environ, retry_policy)
    preset = preset_for(endpoint.provider, endpoint.base_url, model)
    stored = (key_for(variable, environ) for variable in _preset_variables(preset, endpoint.base_url))
    key = api_key_of(endpoint, environ) or next(filter(None, stored), None)
    if not key and _host(preset.base_url) not in LOOPBACK_HOSTS and not endpoint.base_url:
        raise InvalidArgument(
            f"no key for {preset.name}",
            remedy=f"set the environment variable {preset.key_env}, or store one: `clew models key {preset.name}`",
        )
    source = _key_source(endpoint, key, environ)
    return http_provider(preset, api_key=key, key_source=source, retry_policy=retry_policy)


def http_provider(
    preset: ProviderPreset,
    *,
    api_key: str | None = None,
    key_source: str = "",
    retry_policy: RetryPolicy | None = None,
) -> HttpProvider:
    """The provider of a row, on its wire."""
    options: dict[str, Any] = {"api_key": api_key, "name": preset.name, "retry_policy": retry_policy, "environ": {}}
    options["key_source"] = key_source
    if preset.wire == "openai_chat":
        options["reasoning_fields"] = preset.reasoning_fields
    return _WIRES[preset.wire](preset.base_url, **options)


def preset_for(name: str | None, base_url: str | None, model: str | None) -> ProviderPreset:
    """The row of a provider, with the configured address; a new row for an address that the table does not have.

    Raises `InvalidArgument` where neither name nor model is known and no address is given.
    """
    if name:
        row = _by_name(name)
        if row is None and not base_url:
            names = ", ".join(preset.name for preset in PROVIDER_PRESETS)
            raise InvalidArgument(
                f"provider {name!r} is unknown", remedy=f"give its base_url, or use one of {names}, {LOCAL}"
            )
    else:
        row = _by_host(base_url) if base_url else _by_model(model)
        if row is None and not base_url:
            whom = f"the model {model!r}" if model else "a model without a name"
            raise InvalidArgument(f"no provider of {whom} is known", remedy="set its provider or its base_url")
    if base_url is None:
        assert row is not None
        return row
    wire = _wire_at(base_url) or (row.wire if row is not None else "openai_chat")
    if row is not None:
        return replace(row, base_url=base_url, wire=wire)
    return ProviderPreset(name or _host(base_url), base_url, wire, "", reasoning_fields=REASONING_FIELDS)


def _by_name(name: str) -> ProviderPreset | None:
    plain = name.strip().lower().replace("_", "-")
    return next((preset for preset in PROVIDER_PRESETS if plain == preset.name or plain in preset.other_names), None)


def _by_host(base_url: str) -> ProviderPreset | None:
    host = _host(base_url)
    if host in LOOPBACK_HOSTS:
        return None
    return next((preset for preset in PROVIDER_PRESETS if _host(preset.base_url) == host), None)


def _by_model(model: str | None) -> ProviderPreset | None:
    name = (model or "").lower()
    if "/" in name:
        return _by_name("openrouter")
    return next((preset for preset in PROVIDER_PRESETS if name.startswith(preset.model_prefixes)), None)


def _wire_at(base_url: str) -> Any:
    """The wire that an address names: some serve Anthropic's beside their own, under a path of that name."""
    return "anthropic" if "/anthropic" in urlsplit(base_url).path.lower() else None


def key_variables(endpoint: ModelSettings | AuxiliaryModelSettings) -> tuple[str, ...]:
    """The environment variables in which the key for these settings is looked for, in order; none for a local model.

    Raises `InvalidArgument` where the settings mean no provider.
    """
    own = (endpoint.api_key_env,) if endpoint.api_key_env else ()
    model = endpoint.name if isinstance(endpoint, ModelSettings) else endpoint.model
    if is_local_model(endpoint.provider, endpoint.base_url, model):
        return ()
    preset = preset_for(endpoint.provider, endpoint.base_url, model)
    return tuple(dict.fromkeys((*own, *_preset_variables(preset, endpoint.base_url))))


def _key_source(endpoint: ModelSettings | AuxiliaryModelSettings, key: str | None, environ: Mapping[str, str]) -> str:
    """The place of the key, for people; the expected place if there is no key."""
    if key and key == endpoint.api_key:
        setting = "model.api_key" if isinstance(endpoint, ModelSettings) else "auxiliary.compression.api_key"
        return f"{setting} of the config"
    variables = key_variables(endpoint)
    holding = next((variable for variable in variables if environ.get(variable)), None)
    if key and holding is None and variables:
        return f"the store of `clew models key`, for {variables[0]}"
    return key_in_variable(holding or next(iter(variables), ""))


def _preset_variables(preset: ProviderPreset, base_url: str | None) -> tuple[str, ...]:
    """The provider's own variables; only for its own address, so that no other server gets the key in them."""
    if base_url and not any(
        _host(row.base_url) == _host(base_url) for row in PROVIDER_PRESETS if row.key_env == preset.key_env
    ):
        return ()
    return tuple(variable for variable in (preset.key_env, *preset.other_key_envs) if variable)


def _host(base_url: str) -> str:
    return (urlsplit(base_url).hostname or "").lower()


def is_local_model(provider: str | None, base_url: str | None, model: str | None) -> bool:
    """Whether these settings mean a model file on this machine.

    `local` as a model's name does so whatever provider is configured, unless an address is given or the provider is a
    server on this machine, which may have a model of that name.
    """
    if (provider or "").strip().lower() == LOCAL:
        return True
    name = (model or "").strip().lower()
    if base_url is not None:
        return False
    if provider is None:
        return name == LOCAL or name.startswith(LOCAL_PREFIX) or name.endswith(SUFFIX)
    row = _by_name(provider)
    is_remote = row is not None and _host(row.base_url) not in LOOPBACK_HOSTS
    return is_remote and (name == LOCAL or name.startswith(LOCAL_PREFIX))


def _local(
    endpoint: ModelSettings | AuxiliaryModelSettings,
    model: str | None,
    environ: Mapping[str, str],
    retry_policy: RetryPolicy | None,
) -> Provider:
    from clew.providers.local.provider import LocalProvider

    file = local_model_file(model, clew_home(environ))
    log = environ.get("CLEW_LOCAL_LOG")
    return LocalProvider(
        file,
        context_length=endpoint.context_length,
        retry_policy=retry_policy,
        log=Path(log).expanduser() if log else None,
    )
