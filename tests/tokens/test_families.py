from __future__ import annotations

import pytest

from clew.tokens import counter_for, normalize_model_name
from clew.tokens.families import UNKNOWN, UNNAMED, family_of


@pytest.mark.parametrize(
    ("model", "plain"),
    [
        ("gpt-4.1-mini", "gpt-4-1-mini"),
        ("openai/gpt-4o-2024-08-06", "gpt-4o"),
        ("anthropic/claude-opus-4.5", "claude-opus-4-5"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5"),
        ("claude-sonnet-4@20250514", "claude-sonnet-4"),
        ("models/gemini-2.5-pro", "gemini-2-5-pro"),
        ("accounts/fireworks/models/kimi-k2-instruct", "kimi-k2-instruct"),
        ("deepseek/deepseek-chat-v3.1:free", "deepseek-chat-v3-1"),
        ("deepseek-v3", "deepseek-v3"),
        ("  GPT-4o  ", "gpt-4o"),
        ("chatgpt-4o-latest", "chatgpt-4o"),
    ],
)
def test_a_model_has_one_normalized_name_however_it_is_written(model: str, plain: str) -> None:
    assert normalize_model_name(model) == plain


@pytest.mark.parametrize(
    ("model", "vocabulary", "is_exact"),
    [
        ("gpt-4o", "o200k_base", True),
        ("gpt-5.1-codex", "o200k_base", True),
        ("o3-mini", "o200k_base", True),
        ("gpt-oss:20b", "o200k_base", True),
        ("gpt-4", "cl100k_base", True),
        ("gpt-4-1106-preview", "cl100k_base", True),
        ("gpt-3.5-turbo", "cl100k_base", True),
        ("qwen3-235b-a22b", "qwen3", True),
        ("Qwen/Qwen2.5-Coder-32B-Instruct", "qwen3", True),
        ("qwen3.5-plus", "qwen3", False),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama3", True),
        ("mistralai/pixtral-12b", "mistral_v3", True),
        ("gemma3:27b", None, False),
        ("phi-4", "cl100k_base", True),
        ("glm-4.6", "glm4", True),
        ("moonshotai/kimi-k2-0905", "kimi_k2", True),
        ("deepseek-reasoner", "deepseek_v3", True),
        ("claude-opus-4-5", None, False),
        ("google/gemini-2.5-pro", None, False),
        ("a-model-nobody-knows", None, False),
    ],
)
def test_a_model_is_counted_with_its_own_vocabulary_where_there_is_one(
    model: str, vocabulary: str | None, is_exact: bool
) -> None:
    assert family_of(model).vocabulary == vocabulary
    assert counter_for(model).exact is is_exact


def test_no_name_means_openais_current_vocabulary_and_a_strange_name_an_estimate() -> None:
    assert family_of(None) is family_of("  ") is UNNAMED
    assert family_of("a-model-nobody-knows") is UNKNOWN
    assert counter_for(None).exact
    assert "estimate" in counter_for("a-model-nobody-knows").basis


@pytest.mark.parametrize(
    "model", ["claude-opus-4-7", "anthropic/claude-opus-4.8", "claude-sonnet-5", "claude-fable-5-1", "claude-opus-5-5"]
)
def test_newer_claude_models_need_more_tokens_for_prose_and_no_more_for_chinese(model: str) -> None:
    older, newer = counter_for("claude-opus-4-6"), counter_for(model)
    prose = "A letter arrived in the morning and nobody knew who had written it. " * 20
    assert 1.2 < newer.text(prose) / older.text(prose) < 1.6
    assert newer.text("今天早上来了一封信。" * 50) == older.text("今天早上来了一封信。" * 50)


def test_a_counter_is_made_once_per_model() -> None:
    assert counter_for("gpt-4o") is counter_for("gpt-4o")
    assert counter_for("gpt-4o") is not counter_for("gpt-4o", quick=True)
