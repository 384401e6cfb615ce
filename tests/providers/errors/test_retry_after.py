"""How long to wait, from headers and from words."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from clew.providers import classify_error

NOW = datetime(2026, 11, 3, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ("Please try again in 6.2s.", 6.2),
        ("Please try again in 450ms", 0.45),
        ("Please try again in 1m30s", 90.0),
        ("try again in 2h5m", 7500.0),
        ("Please try again in 7m12.5s. Visit the console.", 432.5),
        ("Please retry after 20 seconds.", 20.0),
        ("Please retry after 86400 seconds", 86_400.0),
        ("Please retry in 38.863719s.", 38.863719),
        ("Try again in 2 minutes and 5 seconds", 125.0),
        ("Please wait 30 seconds before the next call", 30.0),
        ('{"error": {"details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "38s"}]}}', 38.0),
        ('{"retry_after": 12}', 12.0),
        ('{"retry_after_ms": 1500}', 1.5),
        ("请在 30 秒后重试", 30.0),
        ("Try again in ~179 min.", 10_740.0),
        ("Rate limited.", None),
        ("retried 5 times (total retry wait time: 5 tries)", None),
    ],
)
def test_words_say_how_long(body: str, seconds: float | None) -> None:
    assert classify_error(429, body).retry_after == seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "20"}, 20.0),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"RETRY-AFTER": "Tue, 03 Nov 2026 12:01:30 GMT"}, 90.0),
        ({"Retry-After": "Tue, 03 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"Retry-After": "1m30s"}, 90.0),
        ({"Retry-After": "soon"}, None),
        ({}, None),
    ],
)
def test_headers_say_how_long(headers: dict[str, str], seconds: float | None) -> None:
    assert classify_error(429, "", headers=headers, now=NOW).retry_after == seconds


def test_headers_come_before_words() -> None:
    assert classify_error(429, "try again in 9s", headers={"retry-after": "3"}).retry_after == 3.0
