"""For whom markers are on, and what the start-up line says."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from clew.caching import caching_for, prompt_cache_key
from clew.errors import InvalidArgument

CLAUDE = "claude-sonnet-4-5"


@pytest.mark.parametrize(
    ("model", "provider", "base_url", "native", "through"),
    [
        (CLAUDE, "anthropic", None, True, "Anthropic"),
        (CLAUDE, None, "https://api.anthropic.com/v1", True, "Anthropic"),
        (CLAUDE, "Anthropic", "https://proxy.example/v1", True, "proxy.example"),
        (CLAUDE, None, "http://localhost:4000/anthropic", True, "localhost"),
        ("anthropic/claude-opus-4.5", "openrouter", None, False, "OpenRouter"),
        ("anthropic/claude-opus-4.5", "openai", "https://openrouter.ai/api/v1", False, "OpenRouter"),
        ("anthropic/claude-opus-4.5", "anthropic", "https://openrouter.ai/api", True, "OpenRouter"),
        ("us.anthropic.claude-3-7-sonnet-20250219-v1:0", "bedrock", None, True, "Amazon Bedrock"),
        (CLAUDE, None, "https://bedrock-runtime.eu-west-1.amazonaws.com", True, "Amazon Bedrock"),
        ("claude-opus-4-1@20250805", "vertex_ai", None, True, "Google Vertex AI"),
        (CLAUDE, None, "https://europe-west1-aiplatform.googleapis.com/v1", True, "Google Vertex AI"),
        ("prod-claude-sonnet", "litellm", "http://10.0.0.5:4000", False, "LiteLLM"),
        ("anthropic/claude-sonnet-4", None, "https://ai-gateway.vercel.sh/v1", False, "Vercel AI Gateway"),
    ],
)
def test_claude_gets_markers_where_they_are_honoured(
    model: str, provider: str | None, base_url: str | None, native: bool, through: str
) -> None:
    policy = caching_for(model, provider, base_url)
    assert (policy.enabled, policy.native, policy.served_by) == (True, native, through)
    assert policy.describe().startswith(f"prompt caching: on for {model} through {through}, TTL 5m")


@pytest.mark.parametrize(
    ("model", "provider", "base_url"),
    [
        ("gpt-5", "openai", None),
        ("gemini-2.5-pro", "openrouter", None),
        ("deepseek-chat", "anthropic", "https://api.deepseek.com/anthropic"),
        (CLAUDE, "copilot", None),
        (CLAUDE, "custom", "https://llm.example/v1"),
        (CLAUDE, None, None),
        ("claude-2.1", "anthropic", None),
        ("claude-instant-1.2", "anthropic", None),
        ("claudette-7b", "openrouter", None),
        (CLAUDE, None, "http://[broken"),
    ],
)
def test_everyone_else_gets_none_and_is_told_why(model: str, provider: str | None, base_url: str | None) -> None:
    policy = caching_for(model, provider, base_url)
    assert not policy.enabled
    assert not policy.native
    assert policy.why
    assert re.match(
        rf"prompt caching: left to .+; Clew adds no cache markers for {re.escape(model)} \(",
        policy.describe(),
    )


def test_openai_style_providers_get_a_key_instead() -> None:
    assert caching_for("gpt-5", "openai").takes_key
    assert caching_for("gpt-5", "azure", "https://x.openai.azure.com").takes_key
    assert not caching_for(CLAUDE, "anthropic").takes_key
    assert not caching_for("llama", "custom", "http://localhost:8000/v1").takes_key


def test_one_hour_is_used_where_the_provider_keeps_the_model_that_long() -> None:
    assert caching_for(CLAUDE, "anthropic", ttl="1h").ttl == "1h"
    assert caching_for("us.anthropic.claude-opus-4-5-20251101-v1:0", "bedrock", ttl="1h").ttl == "1h"
    older = caching_for("us.anthropic.claude-3-7-sonnet-20250219-v1:0", "bedrock", ttl="1h")
    assert older.ttl == "5m"
    assert "5m only" in older.describe()


def test_another_ttl_names_both() -> None:
    with pytest.raises(InvalidArgument, match=r"'2h'.*'5m'.*'1h'"):
        caching_for(CLAUDE, "anthropic", ttl="2h")


def test_the_line_at_start_shows_no_credentials() -> None:
    policy = caching_for(CLAUDE, "anthropic", "https://someone:" + "pass" + "word@proxy.example/v1?key=abc")
    assert "proxy.example" in policy.describe()
    for secret in ("someone", "pass" + "word", "abc"):
        assert secret not in policy.describe()


def test_a_cache_key_is_short_stable_and_says_nothing() -> None:
    key = prompt_cache_key("session-of-alice", "gpt-5")
    assert key == prompt_cache_key("session-of-alice", "gpt-5")
    assert len(key) <= 64
    assert "alice" not in key
    others = {prompt_cache_key("session-of-alice"), prompt_cache_key("session-of-alice", "gpt", "-5")}
    assert key not in others
    assert len(prompt_cache_key("\ud800" * 10_000)) == len(key)


def test_a_cache_key_is_the_same_in_every_process() -> None:
    script = "from clew.caching import prompt_cache_key; print(prompt_cache_key('c', 'm'))"
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == prompt_cache_key("c", "m")


def test_a_cache_key_needs_a_conversation() -> None:
    with pytest.raises(InvalidArgument, match="first session"):
        prompt_cache_key("")


def test_a_model_in_a_file_is_served_by_whom_it_says_and_by_no_host() -> None:
    policy = caching_for("SmolLM2", "local", "local://smollm2.gguf/8192")
    assert policy.describe().startswith("prompt caching: left to local; Clew adds no cache markers for SmolLM2 (")
