"""Error bodies as providers sent them, collected from public issue threads (`source`), ids and keys made up.

A line of bodies.jsonl: provider, status, body, and what it means: kind, limit, available_output, retry_after.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clew.providers import classify_error

BODIES = Path(__file__).with_name("bodies.jsonl")
SAMPLES: list[dict[str, Any]] = [json.loads(line) for line in BODIES.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("named", [True, False], ids=["provider named", "provider unknown"])
@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: f"{sample['provider']}: {sample['body'][:60]}")
def test_a_body_is_read_right(sample: dict[str, Any], named: bool) -> None:
    answer = classify_error(sample["status"], sample["body"], sample["provider"] if named else None)
    assert (answer.kind, answer.limit, answer.available_output, answer.retry_after) == (
        sample["kind"],
        sample["limit"],
        sample["available_output"],
        sample["retry_after"],
    )
