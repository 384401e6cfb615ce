"""Families of models that are counted alike: vocabulary, estimate, and what their wire adds to a text.

Ratios are against the named weights and were measured with `benchmarks/counting.py` (Claude, Gemini), or against the
family's own vocabulary on the text of `benchmarks/_texts.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

_PROVIDER_PREFIX = re.compile(
    r"^(?:(?:us|eu|apac|ap|jp|au|ca|sa|global|us-gov)\.)?"
    r"(?:anthropic|amazon|meta|mistral|cohere|deepseek|qwen|openai|moonshotai|moonshot|zai|minimax|nvidia|ai21|google)\."
)
_SUFFIX = re.compile(
    r"(?:"
    r"-v\d+:\d+(?::\d+k)?"  # Bedrock: -v1:0, -v1:0:200k; but deepseek-v3 is a name
    r"|[@-]20\d{6}"  # Anthropic and Vertex: -20250929, @20250929
    r"|-20\d{2}-\d{2}-\d{2}"  # OpenAI: -2024-08-06
    r"|@(?:latest|default|\d+)"
    r"|-latest"
    r"|:(?:free|thinking|beta|extended|nitro|floor|online|exacto|latest|cloud)"  # OpenRouter, Ollama
    r")$"
)


@dataclass(frozen=True, slots=True)
class FramingTokens:
    """Tokens that a wire or a chat template adds to a request, a message, a call and so on."""

    request: int = 3
    message: int = 4
    call: int = 10
    parameter: int = 0
    result: int = 4
    tools: int = 12
    tool: int = 8
    has_plain_arguments: bool = False
    """The model sees the values of a call's arguments, not their JSON."""


@dataclass(frozen=True, slots=True)
class ModelFamily:
    """Models that are counted the same way."""

    name: str
    pattern: str
    vocabulary: str | None = None
    is_own_vocabulary: bool = True
    """False where a vocabulary is only the nearest we have."""
    weights: str = "o200k"
    ratio: float = 1.0
    word: float = 0.0
    """Tokens to add for every word that follows a space."""
    letters: float = 0.0
    """Tokens to add for every two small letters side by side."""
    framing: FramingTokens = field(default_factory=FramingTokens)
    images: str = "openai"
    """Which rule of `media` gives the tokens of an image."""


_CHATML = FramingTokens(message=5, call=20, result=8, tools=80, tool=12)
# A call and its result cost 47 tokens together, and 10 more for each argument, in recorded sessions. Beside that,
# Anthropic adds a system prompt of its own when there are tools: 346 tokens with tool_choice auto (docs, tool use).
_CLAUDE = FramingTokens(
    request=3, message=2, call=23, parameter=10, result=18, tools=346, tool=10, has_plain_arguments=True
)
_GEMINI = FramingTokens(request=1, message=1, call=2, parameter=0, result=1, tools=10, tool=6, has_plain_arguments=True)

# The first pattern that matches a normalized name decides.
FAMILIES = (
    ModelFamily("gpt, o200k", r"gpt-4o-mini", "o200k_base", images="openai-4o-mini"),
    ModelFamily("gpt, o200k", r"gpt-(4-1|5|5-4)-mini", "o200k_base", images="openai-mini"),
    ModelFamily("gpt, o200k", r"gpt-(4-1|5|5-4)-nano", "o200k_base", images="openai-nano"),
    ModelFamily("gpt, o200k", r"o4-mini", "o200k_base", images="openai-o4-mini"),
    ModelFamily("gpt, o200k", r"gpt-5|gpt-6", "o200k_base", images="openai-5"),
    ModelFamily("gpt, o200k", r"o1|o3", "o200k_base", images="openai-o"),
    ModelFamily("gpt, o200k", r"gpt-4o|gpt-4-1|gpt-4-5|gpt-oss|chatgpt|codex|o4|gpt-audio|gpt-realtime", "o200k_base"),
    ModelFamily("gpt, cl100k", r"gpt-4|gpt-3-5|gpt-35|text-embedding", "cl100k_base", ratio=1.01),
    # Opus 4.7 brought a new vocabulary: people measured 1.2 to 1.45 times as many tokens for prose, 1.15 to 1.3 for
    # code, and no more than before for data and for Chinese, Japanese, Korean and Cyrillic. None of our recorded
    # sessions has it; the additions give about 1.3, 1.15 and 1.0.
    ModelFamily(
        "claude, from 4.7",
        r"claude-(opus|sonnet|haiku)-4-[7-9]|claude-(opus|sonnet|haiku|fable|mythos)-([5-9]|\d\d)|claude-mythos|claude-next",
        weights="gemma",
        ratio=1.07,
        word=0.35,
        letters=0.06,
        framing=_CLAUDE,
        images="anthropic-large",
    ),
    ModelFamily("claude", r"claude|anthropic", weights="gemma", ratio=1.07, framing=_CLAUDE, images="anthropic"),
    # The vocabulary of Gemini is Gemma's: equal within 1% on recorded prompts. Counting with it is slow, so only the
    # weights are used.
    ModelFamily("gemini", r"gemini|learnlm", weights="gemma", framing=_GEMINI, images="gemini"),
    ModelFamily("gemma", r"gemma(-?\d)?|embeddinggemma", weights="gemma", framing=_GEMINI, images="gemini"),
    ModelFamily("qwen", r"qwen-?2|qwen-?3(?!-\d(?!\d*b))|qwen(?!-?\d)|qwq|qvq", "qwen3", ratio=1.11, framing=_CHATML),
    ModelFamily("qwen, from 3.5", r"qwen(-?\d)?", "qwen3", is_own_vocabulary=False, ratio=1.11, framing=_CHATML),
    ModelFamily("deepseek", r"deepseek-(v3|r1|chat|reasoner|coder-v2|v2)", "deepseek_v3", ratio=1.04, framing=_CHATML),
    ModelFamily("deepseek, later", r"deepseek", "deepseek_v3", is_own_vocabulary=False, ratio=1.04, framing=_CHATML),
    ModelFamily("llama 3", r"(meta-)?llama-?3|hermes-[34]|nemotron-70b", "llama3", ratio=1.01, framing=_CHATML),
    ModelFamily("llama 2", r"(meta-)?llama-?2|tinyllama|vicuna", ratio=1.32, framing=_CHATML),
    ModelFamily("codellama", r"code-?llama", ratio=1.32, framing=_CHATML),
    ModelFamily(
        "mistral, first", r"mistral-7b|mixtral|open-mi(s|x)tral-(7b|8x)", "mistral_v2", ratio=1.31, framing=_CHATML
    ),
    ModelFamily("mistral", r"(open-)?mistral|[a-z]*stral|pixtral|voxtral", "mistral_v3", ratio=1.19, framing=_CHATML),
    ModelFamily("glm", r"(chat)?glm-?4|z1", "glm4", ratio=1.03, framing=_CHATML),
    ModelFamily("glm, later", r"(chat)?glm", "glm4", is_own_vocabulary=False, ratio=1.03, framing=_CHATML),
    ModelFamily("kimi", r"kimi-k2|kimi-linear|kimi-dev", "kimi_k2", framing=_CHATML),
    ModelFamily("kimi, later", r"kimi|moonshot", "kimi_k3", is_own_vocabulary=False, framing=_CHATML),
    # Both took over OpenAI's vocabulary.
    ModelFamily("phi 4", r"phi-?4", "cl100k_base", ratio=1.01, framing=_CHATML),
    ModelFamily("olmo 2", r"olmo-?2", "cl100k_base", ratio=1.01, framing=_CHATML),
)  # fmt: skip

# For no model: OpenAI's current vocabulary, which most other programs count with.
UNNAMED = ModelFamily("unnamed, o200k", r"", "o200k_base")
DEFAULT_WINDOW = 128_000
"""Assumed for a model of which nothing is known."""
# For an unknown model: today's vocabularies give between 1.0 and 1.2 times the tokens of o200k.
UNKNOWN = ModelFamily("unknown", r"", ratio=1.08)


@lru_cache(maxsize=1_024)
def family_of(model: str | None) -> ModelFamily:
    """The family of a model; `UNKNOWN` for a name no pattern knows, `UNNAMED` for none."""
    if model is None or not model.strip():
        return UNNAMED
    name = normalize_model_name(model)
    return next((family for family in FAMILIES if re.match(rf"(?:{family.pattern})(?![a-z0-9])", name)), UNKNOWN)


@lru_cache(maxsize=4_096)
def normalize_model_name(model: str) -> str:
    """Lower case, without prefixes, dates and tags, and with hyphens for dots: `claude-opus-4-5`, `gpt-4-1-mini`."""
    name = model.strip().lower()
    name = name.rsplit("/", 1)[-1]
    name = name.removeprefix("ft:")
    name = _PROVIDER_PREFIX.sub("", name)
    while (shorter := _SUFFIX.sub("", name)) != name and shorter:
        name = shorter
    return name.replace(".", "-").replace("_", "-").replace(" ", "-")


def starts_with_name(name: str, start: str) -> bool:
    """Whether a normalized name is `start` or a variant of it: `gpt-4` starts `gpt-4-turbo`, but not `gpt-4o`."""
    return name.startswith(start) and not name[len(start) : len(start) + 1].isalnum()
