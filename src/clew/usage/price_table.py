"""What models cost, in US dollars per million tokens. One row per price; a higher tier for long prompts is a row too.

Every row has the day it was checked and the page of the vendor that states it. The prices were read from the public
price list of LiteLLM 1.108.4, which names these pages as its sources.
"""

# ruff: noqa: E501 (a row is a line)
from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Final


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens of one model, from prompts of more than `over` tokens on."""

    vendor: str
    model: str
    input: Decimal
    output: Decimal
    cache_read: Decimal | None = None
    """None: what was read from a cache costs what other input costs."""
    cache_write: Decimal | None = None
    """None: writing costs what other input costs. Anthropic's five minutes."""
    cache_write_1h: Decimal | None = None
    over: int = 0
    checked: str = ""
    source: str = ""


SOURCES: Final = {
    "anthropic": "https://platform.claude.com/docs/en/about-claude/pricing",
    "openai": "https://developers.openai.com/api/docs/pricing",
    "google": "https://ai.google.dev/gemini-api/docs/pricing",
    "deepseek": "https://api-docs.deepseek.com/quick_start/pricing",
    "xai": "https://docs.x.ai/docs/models",
    "mistral": "https://mistral.ai/pricing",
    "qwen": "https://www.alibabacloud.com/help/en/model-studio/model-pricing",
    "moonshot": "https://platform.moonshot.ai/docs/pricing/chat",
    "zai": "https://docs.z.ai/guides/overview/pricing",
    "minimax": "https://platform.minimax.io/docs/guides/pricing",
}
CHECKED: Final = "2026-11-15"


def _row(vendor: str, model: str, *dollars: str | None, over: int = 0) -> Price:
    """Input, output, cache read, cache write (5 minutes), cache write (1 hour); what is left out has no price of its own."""
    figures = [None if figure is None else Decimal(figure) for figure in (*dollars, *(None,) * (5 - len(dollars)))]
    given, written, read, write, write_1h = figures
    if given is None or written is None:
        raise ValueError(f"the price of {model} lacks input or output; give both in its row")
    return Price(vendor, model, given, written, read, write, write_1h, over, CHECKED, SOURCES[vendor])


# fmt: off
PRICES: Final[tuple[Price, ...]] = (
    _row("anthropic", "claude-opus-5-5", "4", "20", "0.2", "5", "8"),
    _row("anthropic", "claude-opus-5", "5", "25", "0.5", "6.25", "10"),
    _row("anthropic", "claude-opus-4-8", "5", "25", "0.5", "6.25", "10"),
    _row("anthropic", "claude-opus-4-7", "5", "25", "0.5", "6.25", "10"),
    _row("anthropic", "claude-opus-4-6", "5", "25", "0.5", "6.25", "10"),
    _row("anthropic", "claude-opus-4-5", "5", "25", "0.5", "6.25", "10"),
    _row("anthropic", "claude-opus-4-1", "15", "75", "1.5", "18.75", "30"),
    _row("anthropic", "claude-opus-4", "15", "75", "1.5", "18.75", "30"),
    _row("anthropic", "claude-sonnet-5-5", "2", "10", "0.1", "2.5", "4"),
    _row("anthropic", "claude-sonnet-5", "2", "10", "0.2", "2.5", "4"),
    _row("anthropic", "claude-sonnet-4-6", "3", "15", "0.3", "3.75", "6"),
    _row("anthropic", "claude-sonnet-4-5", "3", "15", "0.3", "3.75", "6"),
    _row("anthropic", "claude-sonnet-4", "3", "15", "0.3", "3.75", "6"),
    _row("anthropic", "claude-3-7-sonnet", "3", "15", "0.3", "3.75", "6"),
    _row("anthropic", "claude-3-5-sonnet", "3", "15", "0.3", "3.75", "6"),
    _row("anthropic", "claude-haiku-5-5", "0.1", "0.5", "0.01", "0.125", "0.2"),
    _row("anthropic", "claude-haiku-5-5", "0.5", "2.5", "0.05", "0.625", "1", over=100_000),
    _row("anthropic", "claude-haiku-4-5", "1", "5", "0.1", "1.25", "2"),
    _row("anthropic", "claude-3-5-haiku", "0.8", "4", "0.08", "1", "1.6"),
    _row("anthropic", "claude-3-opus", "15", "75", "1.5", "18.75", "30"),
    _row("anthropic", "claude-fable-5-1", "10", "50", "0.25", "12.5", "20"),
    _row("anthropic", "claude-fable-5", "10", "50", "1", "12.5", "20"),
    _row("anthropic", "claude-mythos-5-1", "10", "50", "0.25", "12.5", "20"),
    _row("anthropic", "claude-mythos-5", "10", "50", "1", "12.5", "20"),
    _row("openai", "gpt-6.1-sol", "2", "10", "0.1", "2.5"),
    _row("openai", "gpt-6.1-sol", "4", "15", "0.2", "5", over=272_000),
    _row("openai", "gpt-6-sol", "2", "10", "0.2", "2.5"),
    _row("openai", "gpt-6-sol", "4", "15", "0.4", "5", over=272_000),
    _row("openai", "gpt-6-astra", "10", "50", "1", "12.5"),
    _row("openai", "gpt-6-astra", "20", "75", "2", "25", over=272_000),
    _row("openai", "gpt-6-luna", "0.1", "0.5", "0.01", "0.125"),
    _row("openai", "gpt-6-luna", "0.2", "0.75", "0.02", "0.25", over=272_000),
    _row("openai", "gpt-5.6", "4", "20", "0.4", "5"),
    _row("openai", "gpt-5.6", "8", "30", "0.8", "10", over=272_000),
    _row("openai", "gpt-5.6-sol", "4", "20", "0.4", "5"),
    _row("openai", "gpt-5.6-sol", "8", "30", "0.8", "10", over=272_000),
    _row("openai", "gpt-5.6-terra", "2", "12", "0.2", "2.5"),
    _row("openai", "gpt-5.6-terra", "4", "18", "0.4", "5", over=272_000),
    _row("openai", "gpt-5.6-luna", "0.2", "1.2", "0.02", "0.25"),
    _row("openai", "gpt-5.6-luna", "0.4", "1.8", "0.04", "0.5", over=272_000),
    _row("openai", "gpt-5.5", "5", "30", "0.5"),
    _row("openai", "gpt-5.5", "10", "45", "1", over=272_000),
    _row("openai", "gpt-5.5-pro", "30", "180"),
    _row("openai", "gpt-5.5-pro", "60", "270", over=272_000),
    _row("openai", "gpt-5.4", "2.5", "15", "0.25"),
    _row("openai", "gpt-5.4", "5", "22.5", "0.5", over=272_000),
    _row("openai", "gpt-5.4-mini", "0.75", "4.5", "0.075"),
    _row("openai", "gpt-5.4-nano", "0.2", "1.25", "0.02"),
    _row("openai", "gpt-5.4-pro", "30", "180"),
    _row("openai", "gpt-5.4-pro", "60", "270", over=272_000),
    _row("openai", "gpt-5.3-codex", "1.75", "14", "0.175"),
    _row("openai", "gpt-5.2", "1.75", "14", "0.175"),
    _row("openai", "gpt-5.2-codex", "1.75", "14", "0.175"),
    _row("openai", "gpt-5.2-pro", "21", "168"),
    _row("openai", "gpt-5.1", "1.25", "10", "0.125"),
    _row("openai", "gpt-5.1-codex", "1.25", "10", "0.125"),
    _row("openai", "gpt-5.1-codex-max", "1.25", "10", "0.125"),
    _row("openai", "gpt-5.1-codex-mini", "0.25", "2", "0.025"),
    _row("openai", "gpt-5", "1.25", "10", "0.125"),
    _row("openai", "gpt-5-codex", "1.25", "10", "0.125"),
    _row("openai", "gpt-5-mini", "0.25", "2", "0.025"),
    _row("openai", "gpt-5-nano", "0.05", "0.4", "0.005"),
    _row("openai", "gpt-5-pro", "15", "120"),
    _row("openai", "gpt-4.1", "2", "8", "0.5"),
    _row("openai", "gpt-4.1-mini", "0.4", "1.6", "0.1"),
    _row("openai", "gpt-4.1-nano", "0.1", "0.4", "0.025"),
    _row("openai", "gpt-4o", "2.5", "10", "1.25"),
    _row("openai", "gpt-4o-mini", "0.15", "0.6", "0.075"),
    _row("openai", "gpt-4o-2024-05-13", "5", "15"),
    _row("openai", "gpt-4-turbo-preview", "10", "30"),
    _row("openai", "gpt-4-0125-preview", "10", "30"),
    _row("openai", "gpt-4-1106-preview", "10", "30"),
    _row("openai", "gpt-4-turbo", "10", "30"),
    _row("openai", "gpt-4", "30", "60"),
    _row("openai", "o4-mini", "1.1", "4.4", "0.275"),
    _row("openai", "o3", "2", "8", "0.5"),
    _row("openai", "o3-pro", "20", "80"),
    _row("openai", "o3-mini", "1.1", "4.4", "0.55"),
    _row("openai", "o1", "15", "60", "7.5"),
    _row("openai", "o1-pro", "150", "600"),
    _row("google", "gemini-4-argon", "2", "10", "0.1"),
    _row("google", "gemini-3.8-flash", "0.75", "3.75", "0.075"),
    _row("google", "gemini-3.7-flash", "0.75", "3.75", "0.075"),
    _row("google", "gemini-3.6-flash", "0.75", "3.75", "0.075"),
    _row("google", "gemini-3.5-flash", "1.5", "9", "0.15"),
    _row("google", "gemini-3.5-flash-lite", "0.3", "2.5", "0.03"),
    _row("google", "gemini-3.1-pro", "2", "12", "0.2"),
    _row("google", "gemini-3.1-pro", "4", "18", "0.4", over=200_000),
    _row("google", "gemini-3.1-flash-lite", "0.25", "1.5", "0.025"),
    _row("google", "gemini-3-pro", "2", "12", "0.2"),
    _row("google", "gemini-3-pro", "4", "18", "0.4", over=200_000),
    _row("google", "gemini-3-flash", "0.5", "3", "0.05"),
    _row("google", "gemini-2.5-pro", "1.25", "10", "0.125"),
    _row("google", "gemini-2.5-pro", "2.5", "15", "0.25", over=200_000),
    _row("google", "gemini-2.5-flash", "0.3", "2.5", "0.03"),
    _row("google", "gemini-2.5-flash-lite", "0.1", "0.4", "0.01"),
    _row("google", "gemini-pro-latest", "2", "12", "0.2"),
    _row("google", "gemini-pro-latest", "4", "18", "0.4", over=200_000),
    _row("google", "gemini-flash-latest", "0.75", "3.75", "0.075"),
    _row("google", "gemini-flash-lite-latest", "0.3", "2.5", "0.03"),
    _row("deepseek", "deepseek-v4-pro", "1.32", "3.96", "0.044"),
    _row("deepseek", "deepseek-v4-flash", "0.3", "1.2", "0.006"),
    _row("deepseek", "deepseek-flash", "0.3", "1.2", "0.006"),
    _row("deepseek", "deepseek-chat", "0.28", "0.42", "0.028"),
    _row("deepseek", "deepseek-reasoner", "0.28", "0.42", "0.028"),
    _row("deepseek", "deepseek-v3.2", "0.28", "0.4", "0.028"),
    _row("xai", "grok-4.7", "2", "6", "0.5"),
    _row("xai", "grok-4.7", "4", "12", "1", over=200_000),
    _row("xai", "grok-4.6", "2", "6", "0.5"),
    _row("xai", "grok-4.6", "4", "12", "1", over=200_000),
    _row("xai", "grok-4.5", "2", "6", "0.3"),
    _row("xai", "grok-4.5", "4", "12", "0.6", over=200_000),
    _row("xai", "grok-4.3", "1.25", "2.5", "0.2"),
    _row("xai", "grok-4.3", "2.5", "5", "0.4", over=200_000),
    _row("xai", "grok-4.20", "1.25", "2.5", "0.2"),
    _row("xai", "grok-4.20", "2.5", "5", "0.4", over=200_000),
    _row("xai", "grok-build-0.1", "1", "2", "0.2"),
    _row("xai", "grok-build-0.1", "2", "4", "0.4", over=200_000),
    _row("xai", "grok-code-fast-1", "1", "2", "0.2"),
    _row("xai", "grok-code-fast-1", "2", "4", "0.4", over=200_000),
    _row("mistral", "mistral-large-4", "0.68", "2.09", "0.068"),
    _row("mistral", "mistral-large-3", "0.5", "1.5", "0.05"),
    _row("mistral", "mistral-large-latest", "0.5", "1.5", "0.05"),
    _row("mistral", "mistral-medium-3.5", "1.5", "7.5", "0.15"),
    _row("mistral", "mistral-medium-latest", "1.5", "7.5", "0.15"),
    _row("mistral", "mistral-small-latest", "0.15", "0.6", "0.015"),
    _row("mistral", "magistral-medium-latest", "1.5", "7.5", "0.15"),
    _row("mistral", "magistral-small-latest", "0.15", "0.6", "0.015"),
    _row("mistral", "devstral-medium-latest", "0.4", "2", "0.04"),
    _row("mistral", "devstral-small-latest", "0.1", "0.3", "0.01"),
    _row("mistral", "codestral-latest", "0.3", "0.9", "0.03"),
    _row("mistral", "ministral-14b-latest", "0.2", "0.2", "0.02"),
    _row("mistral", "ministral-8b-latest", "0.15", "0.15", "0.015"),
    _row("mistral", "ministral-3b-latest", "0.1", "0.1", "0.01"),
    _row("qwen", "qwen3.8-max", "2", "6", "0.25"),
    _row("qwen", "qwen3.8-flash", "0.15", "0.47", "0.016", "0.2"),
    _row("qwen", "qwen3.7-max", "2.5", "7.5", "0.5", "3.125"),
    _row("qwen", "qwen3.7-plus", "0.4", "1.6", "0.08"),
    _row("qwen", "qwen3.7-plus", "1.2", "4.8", "0.24", over=256_000),
    _row("qwen", "qwen3.5-plus", "0.4", "2.4"),
    _row("qwen", "qwen3.5-plus", "0.5", "3", over=256_000),
    _row("qwen", "qwen3-max", "1.2", "6"),
    _row("qwen", "qwen3-max", "2.4", "12", over=32_000),
    _row("qwen", "qwen3-max", "3", "15", over=128_000),
    _row("qwen", "qwen3-coder-plus", "1", "5", "0.1"),
    _row("qwen", "qwen3-coder-plus", "1.8", "9", "0.18", over=32_000),
    _row("qwen", "qwen3-coder-plus", "3", "15", "0.3", over=128_000),
    _row("qwen", "qwen3-coder-plus", "6", "60", "0.6", over=256_000),
    _row("qwen", "qwen3-coder-flash", "0.3", "1.5", "0.08"),
    _row("qwen", "qwen3-coder-flash", "0.5", "2.5", "0.12", over=32_000),
    _row("qwen", "qwen3-coder-flash", "0.8", "4", "0.2", over=128_000),
    _row("qwen", "qwen3-coder-flash", "1.6", "9.6", "0.4", over=256_000),
    _row("qwen", "qwen-max", "1.6", "6.4"),
    _row("qwen", "qwen-flash", "0.05", "0.4"),
    _row("qwen", "qwen-flash", "0.25", "2", over=256_000),
    _row("qwen", "qwen-turbo", "0.05", "0.2"),
    _row("moonshot", "kimi-k3", "3", "15", "0.3"),
    _row("moonshot", "kimi-k2.7-code", "0.95", "4", "0.19"),
    _row("moonshot", "kimi-k2.6", "0.95", "4", "0.16"),
    _row("moonshot", "kimi-k2.5", "0.6", "3", "0.1"),
    _row("zai", "glm-5.3", "1.4", "4.4", "0.26"),
    _row("zai", "glm-5.3-flash", "0.15", "0.5", "0.03"),
    _row("zai", "glm-5.2", "1.4", "4.4", "0.26"),
    _row("zai", "glm-5.1", "1.4", "4.4", "0.26"),
    _row("zai", "glm-5", "1", "3.2", "0.2"),
    _row("zai", "glm-5-code", "1.2", "5", "0.3"),
    _row("zai", "glm-4.7", "0.6", "2.2", "0.11"),
    _row("zai", "glm-4.6", "0.6", "2.2", "0.11"),
    _row("zai", "glm-4.5", "0.6", "2.2"),
    _row("zai", "glm-4.5-air", "0.2", "1.1"),
    _row("minimax", "minimax-m3", "0.3", "1.2", "0.06"),
    _row("minimax", "minimax-m3", "0.6", "2.4", "0.12", over=512_000),
    _row("minimax", "minimax-m2.5", "0.3", "1.2", "0.03", "0.375"),
    _row("minimax", "minimax-m2.1", "0.3", "1.2", "0.03", "0.375"),
    _row("minimax", "minimax-m2", "0.3", "1.2", "0.03", "0.375"),
)
# fmt: on

# Run on the person's own machine: the tokens cost nothing, and that is known, not unknown.
LOCAL_PROVIDERS: Final = frozenset(
    {
        "local",
        "ollama",
        "llamacpp",
        "llamacpppython",
        "lmstudio",
        "llamafile",
        "koboldcpp",
        "mlx",
        "omlx",
        "jan",
        "gpt4all",
    }
)
# Sell other people's models at prices of their own, or by subscription: the vendor's price would be a wrong one.
OTHER_PRICES: Final = frozenset(
    {
        "groq", "together", "togetherai", "fireworks", "fireworksai", "cerebras", "sambanova", "deepinfra", "nvidia",
        "nvidianim", "novita", "nebius", "huggingface", "baseten", "hyperbolic", "siliconflow", "replicate", "perplexity",
        "cloudflare", "databricks", "watsonx", "githubcopilot", "copilot", "githubmodels", "vllm", "sglang", "tgi",
        "chutes", "parasail", "friendli", "volcengine", "ark",
    }
)  # fmt: skip
