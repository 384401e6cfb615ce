"""Which models count alike: their vocabulary, how far the estimate is from it, and what their wire adds around text.

Facts only, one entry per family; nothing here counts. Ratios are against the named weights and were measured with
`benchmarks/counting.py` (Claude, Gemini) or against the family's own vocabulary on the text of `benchmarks/_texts.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from clew.tokens.names import plain_name


@dataclass(frozen=True, slots=True)
class Framing:
    """Tokens that are in no text of ours: what a wire or a chat template writes around it."""

    request: int = 3
    message: int = 4
    call: int = 10
    parameter: int = 0
    result: int = 4
    tools: int = 12
    tool: int = 8
    has_plain_arguments: bool = False
    """The model sees the values of a call's arguments, not the JSON that carries them."""


@dataclass(frozen=True, slots=True)
class Family:
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
    framing: Framing = field(default_factory=Framing)
    pictures: str = "openai"


_CHATML = Framing(message=5, call=20, result=8, tools=80, tool=12)
# A call and its result cost 47 tokens together, and 10 more for each argument, in recorded sessions. Beside that,
# Anthropic adds a system prompt of its own when there are tools: 346 tokens with tool_choice auto (docs, tool use).
_CLAUDE = Framing(request=3, message=2, call=23, parameter=10, result=18, tools=346, tool=10, has_plain_arguments=True)
_GEMINI = Framing(request=1, message=1, call=2, parameter=0, result=1, tools=10, tool=6, has_plain_arguments=True)

# The first pattern that matches a plain name (see `names`) decides.
FAMILIES = (
    Family("gpt, o200k", r"gpt-4o-mini", "o200k_base", pictures="openai-4o-mini"),
    Family("gpt, o200k", r"gpt-(4-1|5|5-4)-mini", "o200k_base", pictures="openai-mini"),
    Family("gpt, o200k", r"gpt-(4-1|5|5-4)-nano", "o200k_base", pictures="openai-nano"),
    Family("gpt, o200k", r"o4-mini", "o200k_base", pictures="openai-o4-mini"),
    Family("gpt, o200k", r"gpt-5|gpt-6", "o200k_base", pictures="openai-5"),
    Family("gpt, o200k", r"o1|o3", "o200k_base", pictures="openai-o"),
    Family("gpt, o200k", r"gpt-4o|gpt-4-1|gpt-4-5|gpt-oss|chatgpt|codex|o4|gpt-audio|gpt-realtime", "o200k_base"),
    Family("gpt, cl100k", r"gpt-4|gpt-3-5|gpt-35|text-embedding", "cl100k_base", ratio=1.01),
    # Opus 4.7 brought a new vocabulary: people measured 1.2 to 1.45 times as many tokens for prose, 1.15 to 1.3 for
    # code, and no more than before for data and for Chinese, Japanese, Korean and Cyrillic. None of our recorded
    # sessions has it; the additions give about 1.3, 1.15 and 1.0.
    Family(
        "claude, from 4.7",
        r"claude-(opus|sonnet|haiku)-4-[7-9]|claude-(opus|sonnet|haiku|fable|mythos)-([5-9]|\d\d)|claude-mythos|claude-next",
        weights="gemma",
        ratio=1.07,
        word=0.35,
        letters=0.06,
        framing=_CLAUDE,
        pictures="anthropic-large",
    ),
    Family("claude", r"claude|anthropic", weights="gemma", ratio=1.07, framing=_CLAUDE, pictures="anthropic"),
    # The vocabulary of Gemini is Gemma's: equal within 1% on recorded prompts. Counting with it is slow, so only the
    # weights are used.
    Family("gemini", r"gemini|learnlm", weights="gemma", framing=_GEMINI, pictures="gemini"),
    Family("gemma 2", r"gemma-?2", "gemma2", weights="gemma", framing=_GEMINI, pictures="gemini"),
    Family("gemma", r"gemma(-?\d)?|embeddinggemma", "gemma3", weights="gemma", framing=_GEMINI, pictures="gemini"),
    Family("qwen", r"qwen-?2|qwen-?3(?!-\d(?!\d*b))|qwen(?!-?\d)|qwq|qvq", "qwen3", ratio=1.11, framing=_CHATML),
    Family("qwen, from 3.5", r"qwen(-?\d)?", "qwen3", is_own_vocabulary=False, ratio=1.11, framing=_CHATML),
    Family("deepseek", r"deepseek-(v3|r1|chat|reasoner|coder-v2|v2)", "deepseek_v3", ratio=1.04, framing=_CHATML),
    Family("deepseek, later", r"deepseek", "deepseek_v3", is_own_vocabulary=False, ratio=1.04, framing=_CHATML),
    Family("llama 3", r"(meta-)?llama-?3|hermes-[34]|nemotron-70b", "llama3", ratio=1.01, framing=_CHATML),
    Family("llama 2", r"(meta-)?llama-?2|tinyllama|vicuna", "llama2", ratio=1.32, framing=_CHATML),
    Family("codellama", r"code-?llama", "codellama", ratio=1.32, framing=_CHATML),
    Family("mistral, first", r"mistral-7b|mixtral|open-mi(s|x)tral-(7b|8x)", "mistral_v2", ratio=1.31, framing=_CHATML),
    Family("mistral", r"(open-)?mistral|[a-z]*stral|pixtral|voxtral", "mistral_v3", ratio=1.19, framing=_CHATML),
    Family("glm", r"(chat)?glm-?4|z1", "glm4", ratio=1.03, framing=_CHATML),
    Family("glm, later", r"(chat)?glm", "glm4", is_own_vocabulary=False, ratio=1.03, framing=_CHATML),
    Family("kimi", r"kimi-k2|kimi-linear|kimi-dev", "kimi_k2", framing=_CHATML),
    Family("kimi, later", r"kimi|moonshot", "kimi_k3", is_own_vocabulary=False, framing=_CHATML),
    Family("phi 4", r"phi-?4", "phi4", ratio=1.01, framing=_CHATML),
    Family("olmo 2", r"olmo-?2", "olmo2", ratio=1.01, framing=_CHATML),
)  # fmt: skip

# No model named: OpenAI's current vocabulary, which is what most checks and most other programs count with.
UNNAMED = Family("unnamed, o200k", r"", "o200k_base")
# A model nobody here knows: vocabularies of its age lie between 1.0 and 1.2 times o200k.
UNKNOWN = Family("unknown", r"", ratio=1.08)


@lru_cache(maxsize=1_024)
def family_of(model: str | None) -> Family:
    """The family of a model; `UNKNOWN` for a name no pattern knows, `UNNAMED` for none."""
    if model is None or not model.strip():
        return UNNAMED
    name = plain_name(model)
    return next((family for family in FAMILIES if re.match(rf"(?:{family.pattern})(?![a-z0-9])", name)), UNKNOWN)
