"""Every recorded error body, where the recordings are present."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clew.providers import classify_error

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "data" / "provider_errors.jsonl"
FINE_KINDS = {"overloaded", "auth", "quota", "bad_request", "network"}


def recorded() -> list[dict[str, Any]]:
    if not RECORDED.exists():
        return []
    return [json.loads(line) for line in RECORDED.read_text(encoding="utf-8").splitlines() if line.strip()]


@pytest.mark.skipif(not RECORDED.exists(), reason="the recorded errors are not here")
@pytest.mark.parametrize("named", [True, False], ids=["provider named", "provider unknown"])
@pytest.mark.parametrize("sample", recorded(), ids=lambda sample: str(sample.get("id")))
def test_a_recorded_error_is_read_right(sample: dict[str, Any], named: bool) -> None:
    answer = classify_error(sample.get("status"), sample["body"], sample["provider"] if named else None)
    # A label may come from the thread around an error; what its body breaks off before cannot be read.
    limit = sample.get("limit") if str(sample.get("limit")) in sample["body"].replace(",", "") else None
    assert ("other" if answer.kind in FINE_KINDS else answer.kind, answer.limit) == (sample["label"], limit)
