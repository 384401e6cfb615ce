"""The samples of the library guide run, and the errors it shows are the ones that are raised."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from openai.types.chat import ChatCompletion

import clew

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "library.md").read_text(encoding="utf-8")
SAMPLES = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
ERRORS = re.findall(r"^\| `(clew\..+?)` \| `(.+)` \|$", GUIDE, re.MULTILINE)


@pytest.mark.parametrize("sample", SAMPLES, ids=range(len(SAMPLES)))
def test_a_sample_runs(sample: str) -> None:
    exec(compile(sample, "library.md", "exec"), {})


@pytest.mark.parametrize(("call", "told"), ERRORS)
def test_an_error_reads_as_the_guide_shows_it(call: str, told: str) -> None:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Yes."}}
    response = ChatCompletion.model_validate(
        {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    )
    names: dict[str, Any] = {"clew": clew, "messages": [{"role": "user", "content": "x"}], "response": response}
    with pytest.raises(clew.ClewError) as raised:
        eval(call.replace(", ...)", ", context_length=8_000)"), names)
    assert str(raised.value) == told
