"""How programs are pointed at a gateway: the lines to paste, the setting of their window, and whose API they call.

The windows agree with what `clients` tells each program of its usage: with these settings it leaves the folding to the
gateway. `$address` is the gateway's, without `/v1`; `$model`, `$window` and `$output` are the model's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import Template
from urllib.parse import urlsplit

from clew.config import ModelSettings
from clew.tokens import window_of

OPENAI, ANTHROPIC, GOOGLE = "api.openai.com", "api.anthropic.com", "generativelanguage.googleapis.com"
USUAL_WINDOW = 200_000
"""For lines to paste where the window of the model is not known."""
ENVIRONMENT = {
    "OPENAI_BASE_URL": "$address/v1",
    "OPENAI_API_BASE": "$address/v1",
    "ANTHROPIC_BASE_URL": "$address",
    "GOOGLE_GEMINI_BASE_URL": "$address",
}
"""What points every program that reads such variables at a gateway."""


@dataclass(frozen=True, slots=True)
class ClientSetup:
    """One program, or one library."""

    name: str
    title: str
    where: str
    """The file or the shell that the lines belong to."""
    lines: str
    window: str = ""
    """What keeps it from compacting by itself; empty where it never does."""
    host: str | None = None
    """Of the API that it calls by itself; None where it has no API of its own."""
    programs: tuple[str, ...] = ()
    """Names of its executables and packages."""
    base_variables: tuple[str, ...] = ("OPENAI_BASE_URL", "OPENAI_API_BASE")
    """Environment variables by which it may be pointed elsewhere already, the first one counts."""


CLIENT_SETUPS = (
    ClientSetup(
        "codex",
        "Codex",
        "~/.codex/config.toml",
        'model = "$model"\n'
        'model_provider = "clew"\n'
        "model_context_window = 272000\n\n"
        "[model_providers.clew]\n"
        'name = "Clew"\n'
        'base_url = "$address/v1"\n'
        'env_key = "OPENAI_API_KEY"\n'
        'wire_api = "responses"',
        "model_context_window stays 272000 whatever the model has; leave model_auto_compact_token_limit out",
        OPENAI,
        ("codex", "@openai/codex"),
        ("OPENAI_BASE_URL",),
    ),
    ClientSetup(
        "claude",
        "Claude Code",
        "the shell",
        "export ANTHROPIC_BASE_URL=$address",
        "leave CLAUDE_CODE_AUTO_COMPACT_WINDOW unset, or set it to the model's window: 200000 or more",
        ANTHROPIC,
        ("claude", "claude-code", "@anthropic-ai/claude-code"),
        ("ANTHROPIC_BASE_URL",),
    ),
    ClientSetup(
        "opencode",
        "opencode",
        "opencode.json",
        "{\n"
        '  "model": "clew/$model",\n'
        '  "provider": {"clew": {\n'
        '    "npm": "@ai-sdk/openai-compatible",\n'
        '    "options": {"baseURL": "$address/v1", "apiKey": "{env:OPENAI_API_KEY}"},\n'
        '    "models": {"$model": {"limit": {"context": $window, "output": $output}}}\n'
        "  }}\n"
        "}",
        "limit.context is the model's window, and limit.output at most an eighth of it",
        programs=("opencode", "opencode-ai"),
    ),
    ClientSetup(
        "gemini",
        "Gemini CLI",
        "the shell, with GEMINI_API_KEY",
        "export GOOGLE_GEMINI_BASE_URL=$address\n"
        '# in ~/.gemini/settings.json: {"security": {"auth": {"selectedType": "gemini-api-key"}}}',
        'leave "model": {"compressionThreshold": ...} out of settings.json: 0.5, as it is without, or more',
        GOOGLE,
        ("gemini", "@google/gemini-cli"),
        ("GOOGLE_GEMINI_BASE_URL",),
    ),
    ClientSetup(
        "pi",
        "pi",
        "~/.pi/agent/models.json",
        "{\n"
        '  "providers": {"clew": {\n'
        '    "baseUrl": "$address/v1", "api": "openai-completions", "apiKey": "OPENAI_API_KEY",\n'
        '    "models": [{"id": "$model", "contextWindow": $roomy_window, "maxTokens": $output}]\n'
        "  }}\n"
        "}",
        "contextWindow is the model's window, but 128000 or more: pi keeps 16,384 of it free",
        programs=("pi", "pi-coding-agent", "@mariozechner/pi-coding-agent"),
    ),
    ClientSetup(
        "qwen",
        "Qwen Code",
        "the shell, with OPENAI_API_KEY",
        "export OPENAI_BASE_URL=$address/v1 OPENAI_MODEL=$model",
        'leave "model": {"chatCompression": ...} out of settings.json: 0.7, as it is without, or more',
        programs=("qwen", "qwen-code", "@qwen-code/qwen-code"),
    ),
    ClientSetup(
        "copilot",
        "Copilot CLI",
        "the shell, with COPILOT_PROVIDER_API_KEY",
        "export COPILOT_PROVIDER_BASE_URL=$address/v1 COPILOT_MODEL=$model\n"
        "export COPILOT_PROVIDER_MAX_PROMPT_TOKENS=1000000",
        "COPILOT_PROVIDER_MAX_PROMPT_TOKENS is far above the model's window: it counts the history that it holds",
        programs=("copilot", "@github/copilot"),
        base_variables=("COPILOT_PROVIDER_BASE_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE"),
    ),
    ClientSetup(
        "cline",
        "Cline",
        "the shell",
        "cline auth -p openai-compatible -k KEY -m $model -b $address/v1",
        "--compaction off leaves the folding to the gateway",
        programs=("cline",),
    ),
    ClientSetup(
        "continue",
        "Continue",
        "~/.continue/config.yaml",
        "models:\n"
        "  - name: $model\n"
        "    provider: openai\n"
        "    model: $model\n"
        "    apiBase: $address/v1\n"
        "    apiKey: KEY\n"
        "    defaultCompletionOptions: {contextLength: $roomy_window}",
        "contextLength is the model's window, but 128000 or more",
        programs=("cn", "@continuedev/cli"),
    ),
    ClientSetup(
        "nanocoder",
        "nanocoder",
        "the shell",
        "export NANOCODER_PROVIDERS="
        """'[{"name": "clew", "baseUrl": "$address/v1", "apiKey": "KEY", "models": ["$model"]}]'\n"""
        "nanocoder --provider clew --model $model",
        programs=("nanocoder", "@nanocollective/nanocoder"),
    ),
    ClientSetup(
        "hermes",
        "Hermes Agent",
        "~/.hermes/config.yaml",
        "model: {default: $model, provider: custom, base_url: $address/v1, api_key: KEY}",
        "compression.threshold 0.85 or more leaves the folding to the gateway",
        programs=("hermes", "hermes-agent"),
    ),
    ClientSetup(
        "aider",
        "aider",
        "the shell, with OPENAI_API_KEY",
        "export OPENAI_API_BASE=$address/v1\naider --model openai/$model --max-chat-history-tokens 1000000",
        "--max-chat-history-tokens 1000000 keeps it from summarising by itself",
        programs=("aider", "aider-chat"),
        base_variables=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    ),
    ClientSetup(
        "llm",
        "llm",
        "extra-openai-models.yaml, in the folder that `llm logs path` names",
        "- model_id: clew\n  model_name: $model\n  api_base: $address/v1",
        host=OPENAI,
        programs=("llm",),
    ),
    ClientSetup(
        "openai",
        "the OpenAI SDK",
        "Python; or OPENAI_BASE_URL in the environment",
        'client = openai.OpenAI(base_url="$address/v1")',
        host=OPENAI,
    ),
    ClientSetup(
        "anthropic",
        "the Anthropic SDK",
        "Python; or ANTHROPIC_BASE_URL in the environment",
        'client = anthropic.Anthropic(base_url="$address")',
        host=ANTHROPIC,
        base_variables=("ANTHROPIC_BASE_URL",),
    ),
    ClientSetup(
        "google-genai",
        "the Google Gen AI SDK",
        "Python; or GOOGLE_GEMINI_BASE_URL in the environment",
        'client = genai.Client(http_options={"base_url": "$address"})',
        host=GOOGLE,
        base_variables=("GOOGLE_GEMINI_BASE_URL",),
    ),
)
_SHOWN_FIRST = {
    OPENAI: ("codex", "openai"),
    ANTHROPIC: ("claude", "anthropic"),
    GOOGLE: ("gemini", "google-genai"),
}
_SHOWN_ELSE = ("opencode", "openai")
_RUNNERS = frozenset(("npx", "bunx", "pnpx", "uvx"))


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What the lines to paste say of the model behind a gateway."""

    name: str = ""
    window: int = USUAL_WINDOW

    @property
    def output(self) -> int:
        """What a program may be told to ask for: it keeps that much of the window free."""
        return min(32_000, self.window // 8)

    @property
    def roomy_window(self) -> int:
        """The window for programs that keep a fixed part of it free, which a small one has no room for."""
        return max(self.window, 128_000)


def served_model(settings: ModelSettings) -> ServedModel:
    """The model of the config."""
    window = window_of(settings.name, configured=settings.context_length) if settings.name else None
    return ServedModel(settings.name or "", window.tokens if window else USUAL_WINDOW)


def fill_in(template: str, address: str, model: ServedModel) -> str:
    """A template of this table for one gateway."""
    return Template(template).substitute(
        address=address,
        model=model.name or "MODEL",
        window=model.window,
        roomy_window=model.roomy_window,
        output=model.output,
    )


def setup_named(name: str) -> ClientSetup | None:
    """The one with this name or title."""
    wanted = name.strip().lower()
    return next((it for it in CLIENT_SETUPS if wanted in (it.name, it.title.lower(), *it.programs)), None)


def setups_for(upstreams: Sequence[str]) -> tuple[ClientSetup, ...]:
    """The few that most likely call these upstreams."""
    hosts = ((urlsplit(upstream).hostname or "").lower() for upstream in upstreams)
    names = {name for host in hosts for name in _SHOWN_FIRST.get(host, _SHOWN_ELSE)}
    return tuple(it for it in CLIENT_SETUPS if it.name in names)


def find_program(command: tuple[str, ...]) -> tuple[ClientSetup | None, int]:
    """Which program a command line runs, and how many words come before its own arguments.

    What `npx` and its like run counts as run by itself.
    """
    for at, word in enumerate(command):
        if at and word.startswith("-"):
            continue
        name = _program_name(word)
        if name in _RUNNERS and not at:
            continue
        return next((it for it in CLIENT_SETUPS if name in it.programs), None), at + 1
    return None, len(command)


def _program_name(word: str) -> str:
    """The name in a path, without the ending that Windows adds; of a package, without its version."""
    if word.startswith("@"):
        scope, _, rest = word.partition("/")
        return f"{scope}/{rest.partition('@')[0]}".lower()
    name = word.replace("\\", "/").rpartition("/")[2].lower()
    return name.removesuffix(".exe").removesuffix(".cmd").partition("@")[0]
