"""Every recorded usage object, where the recordings are present."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clew.usage import normalize_usage

RECORDED = Path(__file__).resolve().parents[3] / "shared" / "data" / "usage_payloads.jsonl"


def recorded() -> list[dict[str, Any]]:
    if not RECORDED.exists():
        return []
    return [json.loads(line) for line in RECORDED.read_text(encoding="utf-8").splitlines() if line.strip()]


@pytest.mark.skipif(not RECORDED.exists(), reason="the recorded usage objects are not here")
@pytest.mark.parametrize("named", [True, False], ids=["provider named", "provider unknown"])
@pytest.mark.parametrize("sample", recorded(), ids=lambda sample: str(sample.get("id")))
def test_a_recorded_usage_is_read_right(sample: dict[str, Any], named: bool) -> None:
    hints = (sample["provider"], sample["api_shape"]) if named else (None, None)
    found = normalize_usage(sample["raw"], *hints)
    expected = sample["canonical"]
    assert found.prompt_tokens == (expected["input"] or 0)
    assert found.input_tokens == (expected["input_uncached"] or 0)
    assert found.output_tokens == (expected["output"] or 0)
    assert found.cache_read_tokens == (expected["cache_read"] or 0)
    assert found.cache_write_tokens == (expected["cache_write"] or 0)
    assert found.reasoning_tokens == (expected["reasoning"] or 0)
