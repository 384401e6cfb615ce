"""Usage objects as providers sent them, collected from public issue threads and documentation (`source`).

A line of payloads.jsonl: provider, the raw object, and the five numbers that it means.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from clew.usage import CanonicalUsage, normalize_usage
from tests.support.cases import every_case

PAYLOADS = Path(__file__).with_name("payloads.jsonl")
SAMPLES: list[dict[str, Any]] = [json.loads(line) for line in PAYLOADS.read_text(encoding="utf-8").splitlines()]
NUMBERS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")


@every_case("named", [True, False])
@every_case("sample", SAMPLES)
def test_a_payload_is_read_right(sample: dict[str, Any], named: bool) -> None:
    found = normalize_usage(sample["raw"], sample["provider"] if named else None)
    assert found == CanonicalUsage(*(sample[number] for number in NUMBERS))
