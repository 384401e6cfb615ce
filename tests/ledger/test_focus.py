"""Which texts are about a focus topic: words, identifiers, paths, in any language."""

from __future__ import annotations

import pytest

from clew.ledger import FocusTopic


@pytest.mark.parametrize(
    ("topic", "text"),
    [
        ("auth", "The authentication of users is next."),
        ("Auth", "see src/auth/tokens.py"),
        ("src/auth.py", "read SRC/AUTH.PY"),
        ("retry_count", "self.retry_count += 1"),
        ("CI", "The CI is red."),
        ("the price of salt", "What does salt cost?"),
        ("retry   backoff", "the retry\nbackoff is doubled"),
        ("重试策略", "这里的重试策略是指数退避。"),
        ("重试策略", "策略：先重试三次"),
        ("결제 오류", "오늘 결제 화면에서"),
        ("m", "m = 3"),
        ("404", "GET /a -> 404"),
    ],
)
def test_a_text_is_about_a_topic(topic: str, text: str) -> None:
    assert FocusTopic(topic).is_about(text)


@pytest.mark.parametrize(
    ("topic", "text"),
    [
        ("CI", "a special case"),
        ("retry backoff jitter", "the retry works"),
        ("the price of salt", "the ship of the line"),
        ("重试策略", "这是测试。"),
        ("src/auth.py", "src/author.py"),
        ("404", "40412"),
    ],
)
def test_a_text_is_about_something_else(topic: str, text: str) -> None:
    assert not FocusTopic(topic).is_about(text)
