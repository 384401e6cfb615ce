"""Every recorded error body, where the recordings are present."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clew.providers import classify_error

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "data" / "provider_errors.jsonl"
FINE_KINDS = {"overloaded", "auth", "quota", "bad_request", "network"}
# The label of this one was taken from the title of its thread: its body breaks off before the number.
LIMIT_NOT_IN_BODY = {"err122"}


def recorded() -> list[dict[str, Any]]:
    if not RECORDED.exists():
        return []
    return [json.loads(line) for line in RECORDED.read_text(encoding="utf-8").splitlines() if line.strip()]


@pytest.mark.skipif(not RECORDED.exists(), reason="the recorded errors are not here")
@pytest.mark.parametrize("named", [True, False], ids=["provider named", "provider unknown"])
@pytest.mark.parametrize("sample", recorded(), ids=lambda sample: str(sample.get("id")))
def test_a_recorded_error_is_read_right(sample: dict[str, Any], named: bool) -> None:
    answer = classify_error(sample.get("status"), sample["body"], sample["provider"] if named else None)
    limit = None if sample.get("id") in LIMIT_NOT_IN_BODY else sample.get("limit")
    assert ("other" if answer.kind in FINE_KINDS else answer.kind, answer.limit) == (sample["label"], limit)
