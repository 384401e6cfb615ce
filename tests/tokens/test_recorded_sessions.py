"""The size estimate against prompt tokens that a provider reported; skipped where those sessions are not at hand."""

from __future__ import annotations

import gzip
import json
from itertools import islice
from pathlib import Path
from statistics import median

import pytest

from clew.tokens import ConversationSize, counter_for

RUNS = Path(__file__).resolve().parents[3] / "shared" / "data" / "conversations" / "swe_bench_runs.jsonl.gz"


@pytest.mark.skipif(not RUNS.exists(), reason="the recorded sessions are not on this machine")
def test_recorded_prompts_are_within_five_percent_before_a_reply_and_within_two_after_it() -> None:
    before: list[float] = []
    after: list[float] = []
    with gzip.open(RUNS, "rt", encoding="utf-8") as lines:
        for run in map(json.loads, islice(lines, 10)):
            size = ConversationSize(counter_for("gemini-3-pro"))
            for place, usage in run["usage"]:
                for message in run["messages"][len(size) : place]:
                    size.append(message)
                (after if size.is_measured else before).append(abs(size.tokens / usage["prompt_tokens"] - 1))
                size.observe(usage["prompt_tokens"])
    assert median(before) < 0.05
    assert median(after) < 0.015
