"""Error bodies as providers sent them, collected from public issue threads (`source`), ids and keys made up.

A line of bodies.jsonl: provider, status, body, and what it means: kind, limit, available_output, retry_after.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from clew.providers import classify_error
from tests.support.cases import every_case

BODIES = Path(__file__).with_name("bodies.jsonl")
SAMPLES: list[dict[str, Any]] = [json.loads(line) for line in BODIES.read_text(encoding="utf-8").splitlines()]


@every_case("named", [True, False])
@every_case("sample", SAMPLES)
def test_a_body_is_read_right(sample: dict[str, Any], named: bool) -> None:
    answer = classify_error(sample["status"], sample["body"], sample["provider"] if named else None)
    assert (answer.kind, answer.limit, answer.available_output, answer.retry_after) == (
        sample["kind"],
        sample["limit"],
        sample["available_output"],
        sample["retry_after"],
    )
