"""Whether requests to a model get cache markers, in which format and for how long, with a table of providers.

The table is from the providers' documents, as of November 2026. A provider that is not in it gets no markers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from clew.caching.breakpoints import Ttl, checked_ttl
from clew.errors import InvalidArgument

MarkerSupport: TypeAlias = Literal["native", "parts", "nothing"]
"""`native`: Anthropic's own wire. `parts`: chat completions with `cache_control` inside content parts."""


@dataclass(frozen=True, slots=True)
class CachingProvider:
    """A provider; several names or hosts are separated by spaces."""

    name: str
    called: str
    """In a config."""
    hosts: str
    """As shell patterns."""
    markers: MarkerSupport = "nothing"
    fact: str = "caches by itself"
    takes_key: bool = False
    """Whether `prompt_cache_key` is a field that it knows."""
    one_hour: str = ".*"
    """Which Claude models it keeps for an hour, as a pattern."""


_BY_KEY = "caches by itself, steered by prompt_cache_key"
CACHING_PROVIDERS = (
    CachingProvider("Anthropic", "anthropic claude", "*.anthropic.com", "native", "markers on blocks, 5m and 1h"),
    CachingProvider(
        "Amazon Bedrock",
        "bedrock amazon-bedrock aws-bedrock aws",
        "bedrock*.amazonaws.com bedrock*.api.aws",
        "native",
        "InvokeModel takes Anthropic's body with its markers; Converse spells the same places cachePoint",
        one_hour=r"(opus|sonnet|haiku)-?(4[.-][5-9]|[5-9])",
    ),
    CachingProvider(
        "Google Vertex AI",
        "vertex vertex-ai vertexai google-vertex",
        "*aiplatform.googleapis.com",
        "native",
        "Claude models take Anthropic's body with its markers",
    ),
    CachingProvider(
        "Microsoft Foundry",
        "foundry azure-foundry azure-anthropic",
        "*.services.ai.azure.com",
        "native",
        "Claude models are served on Anthropic's wire",
    ),
    CachingProvider(
        "OpenRouter", "openrouter", "openrouter.ai *.openrouter.ai", "parts", "markers inside content parts"
    ),
    CachingProvider("LiteLLM", "litellm litellm-proxy", "", "parts", "content parts are passed on with their markers"),
    CachingProvider(
        "Vercel AI Gateway",
        "vercel ai-gateway",
        "ai-gateway.vercel.sh",
        "parts",
        "passes markers on, adds none unless asked",
    ),
    CachingProvider("Portkey", "portkey", "api.portkey.ai", "parts", "passes markers on to Anthropic and Bedrock"),
    CachingProvider(
        "GitHub Copilot",
        "copilot github-copilot",
        "*.githubcopilot.com",
        fact="has its own field and does not read cache_control",
    ),
    CachingProvider("OpenAI", "openai openai-codex codex", "api.openai.com chatgpt.com", fact=_BY_KEY, takes_key=True),
    CachingProvider("Azure OpenAI", "azure azure-openai", "*.openai.azure.com", fact=_BY_KEY, takes_key=True),
    CachingProvider(
        "xAI",
        "xai grok",
        "api.x.ai",
        fact="caches by itself; prompt_cache_key on Responses, the header x-grok-conv-id on chat completions",
        takes_key=True,
    ),
    CachingProvider("DeepSeek", "deepseek", "api.deepseek.com"),
    CachingProvider("Google Gemini", "gemini google", "generativelanguage.googleapis.com"),
    CachingProvider("Moonshot", "moonshot kimi", "api.moonshot.* api.kimi.com"),
)

_CLAUDE = re.compile(r"(?:^|[^a-z0-9])claude(?![a-z])")
_WITHOUT_CACHE = re.compile(r"claude-(?:v?[12]\b|v?2[.:]|instant|3-sonnet)")
"""Claude models from before there was a cache."""


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """Whether and how the requests for one model of one provider are cached."""

    enabled: bool
    native: bool
    """Markers for an Anthropic dialect; otherwise inside the content parts, as OpenRouter wants them."""
    ttl: Ttl
    why: str
    model: str
    served_by: str
    """Who serves the model."""
    takes_key: bool = False
    """Whether to send `prompt_cache_key`."""

    def describe(self) -> str:
        """The line at start-up. Not `off` without markers: many providers cache by themselves, and report it."""
        if self.enabled:
            return f"prompt caching: on for {self.model} through {self.served_by}, TTL {self.ttl} ({self.why})"
        return f"prompt caching: left to {self.served_by}; Clew adds no cache markers for {self.model} ({self.why})"


def caching_for(model: str, provider: str | None = None, base_url: str | None = None, ttl: str = "5m") -> CachePolicy:
    """The policy for a model. A known host of `base_url` decides who serves it, not the name of the provider."""
    chosen = checked_ttl(ttl)
    host, path = _host_and_path(base_url)
    speaks_anthropic = _normalized(provider) == "anthropic" or "/anthropic" in path
    known = _provider_of_host(host) or _provider_named(provider)
    served_by = known.name if known and not _is_proxied(known, host) else host or provider or "an unnamed provider"
    enabled, why = _uses_markers(model, known, speaks_anthropic)
    native = enabled and (speaks_anthropic or (known is not None and known.markers == "native"))
    if enabled and known and chosen == "1h" and not re.search(known.one_hour, model.lower()):
        chosen, why = "5m", f"{known.name} keeps this model for 5m only, so 1h is not used"
    return CachePolicy(enabled, native, chosen, why, model, served_by, bool(known and known.takes_key))


def _uses_markers(model: str, known: CachingProvider | None, speaks_anthropic: bool) -> tuple[bool, str]:
    """Whether requests get markers, and the reason."""
    name = model.lower()
    if not _CLAUDE.search(name):
        return False, known.fact if known and known.markers == "nothing" else "markers are for Claude models"
    if _WITHOUT_CACHE.search(name):
        return False, "this Claude model is older than prompt caching"
    if known is not None and known.markers != "nothing":
        return True, known.fact
    if speaks_anthropic:
        return True, "it speaks Anthropic's wire"
    if known is not None:
        return False, known.fact
    return False, "not known to honour cache_control; name the provider in the config if it does"


def _is_proxied(known: CachingProvider, host: str) -> bool:
    """Whether a provider of this name is reached at a host that is not its own."""
    return bool(host and known.hosts) and known is not _provider_of_host(host)


def _provider_of_host(host: str) -> CachingProvider | None:
    known_hosts = ((known, pattern) for known in CACHING_PROVIDERS for pattern in known.hosts.split())
    return next((known for known, pattern in known_hosts if fnmatchcase(host, pattern)), None)


def _provider_named(provider: str | None) -> CachingProvider | None:
    name = _normalized(provider)
    return next((known for known in CACHING_PROVIDERS if name in known.called.split()), None)


def _normalized(provider: str | None) -> str:
    return (provider or "").strip().lower().replace("_", "-").replace(" ", "-")


def _host_and_path(base_url: str | None) -> tuple[str, str]:
    """Host and path only: a URL can hold credentials, and this ends up on the screen."""
    if not base_url:
        return "", ""
    try:
        parts = urlsplit(base_url if "://" in base_url else f"//{base_url}")
        if parts.scheme not in ("", "http", "https"):
            return "", ""  # no server: a model in a file
        return (parts.hostname or "").lower(), parts.path.lower()
    except ValueError:
        return "", ""


def prompt_cache_key(conversation: str, *also: str) -> str:
    """The `prompt_cache_key` of OpenAI-style providers: requests with one key go to the machine that has the cache.

    Pass the id of the conversation's first session, which a compaction does not change. `also` separates requests that
    share no prefix, for example by the model, or the name of a subagent. The key is a hash, so that it reveals nothing,
    and is the same in every process; OpenAI refuses more than 64 chars.
    """
    if not conversation:
        raise InvalidArgument(
            "the conversation id of a prompt_cache_key is empty", remedy="pass the id of its first session"
        )
    # Each name with its length before it: ("ab", "c") and ("a", "bc") have different keys.
    names = [name.encode("utf-8", "surrogatepass") for name in (conversation, *also)]
    encoded = b"[%d:" % len(names) + b"".join(b"s%d:%b" % (len(name), name) for name in names)
    return "clew-" + sha256(encoded).hexdigest()[:32]
