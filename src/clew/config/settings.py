"""Every setting of Clew: name, type, default, range and meaning, each declared once.

To add a setting, add a field here: loading, checks, errors, `clew config` and the test of the guide follow from it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

from clew.config.declare import URL, VARIABLE, Setting, TextPattern, setting, settings_in
from clew.config.engine_settings import CompressionSettings, LosslessSettings

STORE = TextPattern(
    re.compile(r"(?:postgres(?:ql)?|sqlite)://.+|(?![A-Za-z][A-Za-z0-9+.-]*://).+"),
    "a file, or an address that begins with postgresql://",
)

MOVED_SETTINGS = {
    "compression.summary_model": "auxiliary.compression.model",
    "compression.summary_provider": "auxiliary.compression.provider",
    "compression.summary_base_url": "auxiliary.compression.base_url",
    "model.cache_ttl": "prompt_caching.cache_ttl",
}
"""Old keys and their new ones: an old key still works, with a notice."""


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The model that does the work."""

    name: str | None = setting(None, "The model, as its provider spells it")
    provider: str | None = setting(
        None, "The provider: openai, anthropic, openrouter, ...; null: derived from the name or the address"
    )
    base_url: str | None = setting(None, "Address of the endpoint; null: the provider's own", shape=URL)
    api_key: str | None = setting(None, "The key itself; better kept in the environment, see api_key_env", secret=True)
    api_key_env: str | None = setting(
        None, "Environment variable that holds the key; null: the provider's usual one", shape=VARIABLE
    )
    context_length: int | None = setting(None, "Its window in tokens; null: found out", low=1_000)

    def window_of(self, model: str | None) -> int | None:
        """The configured window of a model; without a configured name it is that of every model."""
        return self.context_length if self.name in (None, model) else None


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """Which engine keeps the conversation inside the window."""

    engine: str = setting("compressor", "Name of the context engine; a plugin serves only if it is named here")


@dataclass(frozen=True, slots=True)
class RecallSettings:
    """What is brought back of a conversation without being asked for."""

    automatic: str = setting(
        "conversation",
        "Show passages of what was folded, for one turn, where a request or a result names what is not in view: "
        "never, from this conversation, or from all conversations of yours",
        choices=("off", "conversation", "everywhere"),
    )
    max_tokens: int = setting(
        1_500, "Most that is shown by itself with one turn; never more than 2% of the window", low=100
    )


@dataclass(frozen=True, slots=True)
class AuxiliaryModelSettings:
    """A second model for side work; each null falls back to the main model's setting."""

    provider: str | None = setting(None, "The provider")
    model: str | None = setting(None, "The model; null: the main model")
    base_url: str | None = setting(None, "Address of the endpoint", shape=URL)
    api_key: str | None = setting(None, "The key itself; better kept in the environment, see api_key_env", secret=True)
    api_key_env: str | None = setting(None, "Environment variable that holds the key", shape=VARIABLE)
    context_length: int | None = setting(None, "Its window in tokens; null: found out", low=1_000)


@dataclass(frozen=True, slots=True)
class AuxiliarySettings:
    """Models that do side work."""

    compression: AuxiliaryModelSettings = field(default_factory=AuxiliaryModelSettings)


@dataclass(frozen=True, slots=True)
class PromptCachingSettings:
    """Cache breakpoints for providers that honour them."""

    enabled: bool = setting(True, "Mark cache breakpoints where model and provider honour them; false: never")
    cache_ttl: str = setting("5m", "How long the provider keeps a cached prefix", choices=("5m", "1h"))
    extend_for_summaries: bool = setting(
        True, "Let the main model write summaries at the end of the conversation, which is then read from the cache"
    )
    fold_idle: bool = setting(
        True,
        "Fold a large conversation that is idle shortly before the provider's cache expires, where earlier returns and "
        "prices say that it pays, and fold earlier once it has expired",
    )


@dataclass(frozen=True, slots=True)
class ToolOutputSettings:
    """How much of a tool's output enters the context; the rest is in private files."""

    max_result_chars: int = setting(100_000, "One result longer than this is written to a file", low=1_000)
    max_turn_chars: int = setting(
        200_000, "Results of one turn longer than this together: the largest go to files", low=1_000
    )
    preview_chars: int = setting(1_500, "How much of a result in a file stays in the context", low=1, high=100_000)
    quota_mb: int = setting(1_024, "Disk space for these files; the oldest go first", low=1)
    max_age_days: int = setting(30, "Files older than this are removed", low=1)


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """What the agent of `clew chat` may do."""

    approvals: str = setting(
        "ask", "Before something dangerous: ask a person, allow it, or deny it", choices=("ask", "allow", "deny")
    )
    edits: str = setting(
        "allow",
        "Edits of files: allow them, ask before each, or plan (only reading until you approve)",
        choices=("allow", "ask", "plan"),
    )
    max_rounds: int = setting(200, "Calls of the model for one question, at most", low=1)
    command_seconds: int = setting(120, "A command is ended after so many seconds, unless it asked for more", low=1)
    allowed_paths: str | None = setting(None, "Folders outside the project that tools may touch, separated by colons")
    max_tokens: int | None = setting(None, "Output of one reply, at most; null: left to the provider", low=16)


@dataclass(frozen=True, slots=True)
class TerminalSettings:
    """How commands of the agent run."""

    sandbox: str = setting(
        "none",
        "Walls around commands: bubblewrap runs them without network, with only the project and allowed paths writable",
        choices=("none", "bubblewrap"),
    )


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """What the agent remembers from one session to the next, in MEMORY.md and USER.md."""

    enabled: bool = setting(True, "Show memory to the model, and let it write there")
    memory_chars: int = setting(4_000, "Most that MEMORY.md may hold", low=200, high=100_000)
    user_chars: int = setting(2_000, "Most that USER.md may hold", low=200, high=100_000)


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Where sessions are kept."""

    url: str | None = setting(
        None, "The database of sessions; null: state.db in the folder of Clew, ~/.clew", shape=STORE
    )
    vectors: bool = setting(False, "Search by meaning, too; needs the extra vectors")


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """How much `clew serve` takes on."""

    requests_per_minute: int | None = setting(6_000, "Of one caller; null: no limit", low=1)
    concurrent_requests: int | None = setting(256, "Of one caller at the same time; null: no limit", low=1)
    total_requests_per_minute: int | None = setting(None, "Of all callers; null: no limit", low=1)
    total_concurrent_requests: int | None = setting(1_024, "Of all callers at the same time; null: no limit", low=1)
    names: str | None = setting(
        None, "Names beside localhost under which clients call it, with or without a port, separated by commas"
    )
    log: str = setting(
        "text", "A line for each request on standard error, without any text of it", choices=("text", "json", "none")
    )
    handoffs: str = setting(
        "model",
        "Who writes handoffs: the model that the caller talks to, asked behind its own request with its own credential "
        "and at its own cost, or Clew without a model",
        choices=("model", "built-in"),
    )
    recall: bool = setting(
        True, "Offer the models of folded conversations two tools that search and open what was folded; on or off"
    )
    otel: bool = setting(False, "Send spans to where the variables of OpenTelemetry say; needs the extra otel")


@dataclass(frozen=True, slots=True)
class HermesSettings:
    """The engine inside Hermes Agent."""

    summaries: str = setting(
        "model",
        "Who writes summaries there: the model of Hermes' own auxiliary.compression, or Clew without a model",
        choices=("model", "built-in"),
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, each with a value that was checked."""

    model: ModelSettings = field(default_factory=ModelSettings)
    context: ContextSettings = field(default_factory=ContextSettings)
    compression: CompressionSettings = field(default_factory=CompressionSettings)
    lossless: LosslessSettings = field(default_factory=LosslessSettings)
    recall: RecallSettings = field(default_factory=RecallSettings)
    auxiliary: AuxiliarySettings = field(default_factory=AuxiliarySettings)
    prompt_caching: PromptCachingSettings = field(default_factory=PromptCachingSettings)
    tool_output: ToolOutputSettings = field(default_factory=ToolOutputSettings)
    agent: AgentSettings = field(default_factory=AgentSettings)
    terminal: TerminalSettings = field(default_factory=TerminalSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    gateway: GatewaySettings = field(default_factory=GatewaySettings)
    hermes: HermesSettings = field(default_factory=HermesSettings)


def api_key_of(endpoint: ModelSettings | AuxiliaryModelSettings, environ: Mapping[str, str]) -> str | None:
    """The key of a model's endpoint; None where none is configured, and the provider's usual variable counts."""
    if endpoint.api_key_env:
        from clew.config.keys import key_for  # late, since it reads files and keyrings

        return key_for(endpoint.api_key_env, environ) or endpoint.api_key
    return endpoint.api_key


@cache
def declared_settings() -> Mapping[str, Setting]:
    """Every setting by its key, in the order of declaration."""
    return {each.key: each for each in settings_in(Settings)}
