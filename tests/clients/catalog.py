"""The real clients that are sent through `clew wrap`: where they come from, and how they are run without a person."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

PROMPT = "This is TASK-7. Run the commands that you think of, one after the other, and then name the task."


@dataclass(frozen=True, slots=True)
class RealClient:
    """A program from a registry."""

    name: str
    package: str
    program: str
    words: tuple[str, ...]
    """How it is asked once; `PROMPT` stands in it."""
    environ: Mapping[str, str] = field(default_factory=dict)
    registry: str = "npm"
    node: str = ""
    """The version of Node that it needs, from npm; empty for the one that is here."""
    model: str = "mock-model"
    window: int = 40_000
    """Of the model behind the gateway: enough for the client's own prompt and tools, and some rounds."""
    rounds: int = 30
    lines: int = 400
    """Of output in each round."""
    by_turns: tuple[str, str] | None = None
    """Of a program without tools: the shell commands for the first and for every later turn, with `$1` for what is
    said. It is asked `rounds` times."""
    is_asked: bool = True
    """Whether its model is asked for a handoff: not where so few, large turns fit its window that this would cost more
    than it saves."""
    rebuilt_items: int = 0
    """Items at the end of each request that it sends otherwise the next time; what stands before them must stay."""
    wire: str = ""
    """Of the upstream, where it is a cloud's: bedrock, vertex."""
    own_config: tuple[str, str] = ("", "")
    """A config file of the person's own, below the home folder, and what stands in it. It must not change."""


_AIDER = (
    "aider --model openai/mock-model --no-git --yes-always --no-stream --no-show-model-warnings --no-gitignore "
    '--map-tokens 0 --max-chat-history-tokens 1000000 --message "$1"'
)
_BEDROCK, _VERTEX = "us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5@20250929"
_CLAUDE = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
CLIENTS = (
    RealClient(
        "codex",
        "@openai/codex",
        "codex",
        ("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-m", "mock-model", PROMPT),
        {"OPENAI_API_KEY": "fake"},
        is_asked=False,
        own_config=(".codex/config.toml", 'model = "gpt-5"\nmodel_context_window = 20000\n'),
    ),
    RealClient(
        "claude",
        "@anthropic-ai/claude-code",
        "claude",
        ("-p", PROMPT, "--model", "mock-model", "--allowedTools", "Bash"),
        {"ANTHROPIC_API_KEY": "fake", **_CLAUDE},
        # It asks for 32,000 tokens of output, which have to fit beside its prompt of 25,000.
        window=128_000,
        lines=800,
        own_config=(".claude/settings.json", '{"env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}}'),
    ),
    RealClient(
        "claude-bedrock",
        "@anthropic-ai/claude-code",
        "claude",
        ("-p", PROMPT, "--model", _BEDROCK, "--allowedTools", "Bash"),
        {
            "CLAUDE_CODE_USE_BEDROCK": "1",
            "AWS_ACCESS_KEY_ID": "FAKEKEYID",
            "AWS_SECRET_ACCESS_KEY": "fake-secret",
            "AWS_REGION": "us-west-2",
            **_CLAUDE,
        },
        model=_BEDROCK,
        window=128_000,
        lines=800,
        wire="bedrock",
    ),
    RealClient(
        "claude-vertex",
        "@anthropic-ai/claude-code",
        "claude",
        ("-p", PROMPT, "--model", _VERTEX, "--allowedTools", "Bash"),
        {
            "CLAUDE_CODE_USE_VERTEX": "1",
            "CLAUDE_CODE_SKIP_VERTEX_AUTH": "1",
            "ANTHROPIC_VERTEX_PROJECT_ID": "fake-project",
            "CLOUD_ML_REGION": "us-east5",
            **_CLAUDE,
        },
        model=_VERTEX,
        window=128_000,
        lines=800,
        wire="vertex",
    ),
    RealClient(
        "opencode",
        "opencode-ai",
        "opencode",
        ("run", PROMPT),
        {"OPENAI_API_KEY": "fake", "OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"},
        is_asked=False,
        # Without $schema it would write one into the file by itself.
        own_config=(
            ".config/opencode/opencode.json",
            '{"$schema": "https://opencode.ai/config.json", "model": "openai/gpt-5"}',
        ),
    ),
    RealClient(
        "gemini",
        "@google/gemini-cli",
        "gemini",
        ("-p", PROMPT, "-m", "gemini-2.5-pro", "--approval-mode", "yolo", "--skip-trust"),
        {"GEMINI_API_KEY": "fake"},
        model="gemini-2.5-pro",
        is_asked=False,
        # From the thirtieth turn on it asks besides, again and again, whether it goes round in a circle.
        rounds=26,
        own_config=(".gemini/settings.json", '{"ui": {"theme": "GitHub"}}'),
    ),
    RealClient(
        "pi",
        "@earendil-works/pi-coding-agent@0.87.1",
        "pi",
        ("-p", PROMPT, "--provider", "clew", "--model", "mock-model"),
        {"OPENAI_API_KEY": "fake", "PI_OFFLINE": "1"},
        node="22",
        own_config=(".pi/agent/models.json", '{"providers": {"mine": {"baseUrl": "http://127.0.0.1:9/v1"}}}'),
    ),
    RealClient(
        "pi-0.73",
        "@mariozechner/pi-coding-agent",
        "pi",
        ("-p", PROMPT, "--provider", "clew", "--model", "mock-model"),
        {"OPENAI_API_KEY": "fake", "PI_OFFLINE": "1"},
    ),
    RealClient(
        "qwen",
        "@qwen-code/qwen-code",
        "qwen",
        ("-p", PROMPT, "--yolo", "--auth-type", "openai"),
        {"OPENAI_API_KEY": "fake", "OPENAI_MODEL": "mock-model"},
        window=48_000,
    ),
    RealClient(
        "copilot",
        "@github/copilot",
        "copilot",
        ("-p", PROMPT, "--allow-all-tools"),
        {"OPENAI_API_KEY": "fake", "COPILOT_AUTO_UPDATE": "false", "COPILOT_OFFLINE": "true"},
        window=64_000,
        own_config=(".copilot/mcp-config.json", '{"mcpServers": {}}'),
    ),
    RealClient(
        "cline",
        "cline",
        "cline",
        (PROMPT,),
        {"OPENAI_API_KEY": "fake"},
        own_config=(
            ".cline/data/settings/providers.json",
            '{"version": 1, "lastUsedProvider": "cline", "modes": {}, "providers": {}}',
        ),
    ),
    RealClient("continue", "@continuedev/cli", "cn", ("-p", PROMPT, "--auto"), {"OPENAI_API_KEY": "fake"}),
    RealClient(
        "nanocoder",
        "@nanocollective/nanocoder",
        "nanocoder",
        ("--mode", "yolo", "--trust-directory", "--plain", "run", PROMPT),
        {"OPENAI_API_KEY": "fake"},
        node="22",
        # It shortens each output to some hundred tokens.
        window=16_000,
        is_asked=False,
    ),
    RealClient(
        "hermes",
        "hermes-agent",
        "hermes",
        ("chat", "-q", PROMPT, "--yolo"),
        {"OPENAI_API_KEY": "fake"},
        registry="pypi",
        # It refuses windows below 64,000.
        window=64_000,
        is_asked=False,
        own_config=(".hermes/config.yaml", "compression: {enabled: false}\n"),
    ),
    RealClient(
        "llm",
        "llm",
        "llm",
        (PROMPT,),
        {"OPENAI_API_KEY": "fake"},
        registry="pypi",
        model="gpt-4o",
        window=8_000,
        rounds=20,
        by_turns=('llm -m gpt-4o "$1"', 'llm -c "$1"'),
    ),
    RealClient(
        "aider",
        "aider-chat",
        "aider",
        (PROMPT,),
        {"OPENAI_API_KEY": "fake", "AIDER_ANALYTICS": "false", "AIDER_CHECK_UPDATE": "false"},
        registry="pypi",
        window=24_000,
        is_asked=False,
        rounds=10,
        lines=1_000,
        rebuilt_items=3,
        by_turns=(_AIDER, f"{_AIDER} --restore-chat-history"),
    ),
)
