"""Who honours cache markers, as far as their documents say: one row a provider.

Facts only, looked up in November 2026; `policy` reads them. A provider that is not here gets no markers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

Honours: TypeAlias = Literal["native", "parts", "nothing"]
"""`native`: Anthropic's own wire. `parts`: chat completions with `cache_control` inside content parts."""


@dataclass(frozen=True, slots=True)
class Route:
    name: str
    providers: tuple[str, ...]
    """What a config may call it."""
    hosts: tuple[str, ...]
    """Host names as shell patterns."""
    honours: Honours
    fact: str
    takes_key: bool = False
    """Whether `prompt_cache_key` is a field that it knows."""
    one_hour: str = ".*"
    """Which Claude models it keeps for an hour, as a pattern."""


ROUTES = (
    Route("Anthropic", ("anthropic", "claude"), ("*.anthropic.com",), "native", "markers on blocks, 5m and 1h"),
    Route(
        "Amazon Bedrock",
        ("bedrock", "amazon-bedrock", "aws-bedrock", "aws"),
        ("bedrock*.amazonaws.com", "bedrock*.api.aws"),
        "native",
        "InvokeModel takes Anthropic's body with its markers; Converse spells the same places cachePoint",
        one_hour=r"(opus|sonnet|haiku)-?(4[.-][5-9]|[5-9])",
    ),
    Route(
        "Google Vertex AI",
        ("vertex", "vertex-ai", "vertexai", "google-vertex"),
        ("*aiplatform.googleapis.com",),
        "native",
        "Claude models take Anthropic's body with its markers",
    ),
    Route(
        "Microsoft Foundry",
        ("foundry", "azure-foundry", "azure-anthropic"),
        ("*.services.ai.azure.com",),
        "native",
        "Claude models are served on Anthropic's wire",
    ),
    Route("OpenRouter", ("openrouter",), ("openrouter.ai", "*.openrouter.ai"), "parts", "markers inside content parts"),
    Route("LiteLLM", ("litellm", "litellm-proxy"), (), "parts", "content parts are passed on with their markers"),
    Route(
        "Vercel AI Gateway",
        ("vercel", "ai-gateway"),
        ("ai-gateway.vercel.sh",),
        "parts",
        "passes markers on, adds none unless asked",
    ),
    Route("Portkey", ("portkey",), ("api.portkey.ai",), "parts", "passes markers on to Anthropic and Bedrock"),
    Route(
        "GitHub Copilot",
        ("copilot", "github-copilot"),
        ("*.githubcopilot.com",),
        "nothing",
        "has a field of its own and does not read cache_control",
    ),
    Route(
        "OpenAI",
        ("openai", "openai-codex", "codex"),
        ("api.openai.com", "chatgpt.com"),
        "nothing",
        "caches by itself, steered by prompt_cache_key",
        takes_key=True,
    ),
    Route(
        "Azure OpenAI",
        ("azure", "azure-openai"),
        ("*.openai.azure.com",),
        "nothing",
        "caches by itself, steered by prompt_cache_key",
        takes_key=True,
    ),
    Route(
        "xAI",
        ("xai", "grok"),
        ("api.x.ai",),
        "nothing",
        "caches by itself; prompt_cache_key on Responses, the header x-grok-conv-id on chat completions",
        takes_key=True,
    ),
    Route("DeepSeek", ("deepseek",), ("api.deepseek.com",), "nothing", "caches by itself"),
    Route("Google Gemini", ("gemini", "google"), ("generativelanguage.googleapis.com",), "nothing", "caches by itself"),
    Route("Moonshot", ("moonshot", "kimi"), ("api.moonshot.*", "api.kimi.com"), "nothing", "caches by itself"),
)

CLAUDE = re.compile(r"(?:^|[^a-z0-9])claude(?![a-z])")
TOO_OLD = re.compile(r"claude-(?:v?[12]\b|v?2[.:]|instant|3-sonnet)")
"""Claude models from before there was a cache."""
