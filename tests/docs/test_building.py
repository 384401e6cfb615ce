"""The agent of the guide on building, as it stands there: it runs, and goes on after a restart."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from clew.testing import call
from clew.testing.scripted import ScriptedProvider, calls, says

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "building.md"


async def test_the_agent_of_the_guide_answers_with_its_tool_and_goes_on(tmp_path: Path) -> None:
    shown = re.search(r"```python\n(.+?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert shown
    named: dict[str, Any] = {}
    exec(shown[1], named)
    first = ScriptedProvider(calls(call("tides", {"port": "Bergen"})), says("At 04:10 and 16:35."))
    assert await named["ask"](first, "gpt-5", tmp_path, "When is high water in Bergen?") == "At 04:10 and 16:35."
    assert first.requests[1].messages[-1]["content"] == "High water at Bergen: 04:10 and 16:35."
    later = ScriptedProvider(says("Bergen."))
    assert await named["ask"](later, "gpt-5", tmp_path, "Which port did I ask about?") == "Bergen."
    assert len(later.requests[0].messages) == len(first.requests[1].messages) + 2


async def test_the_mock_upstream_of_the_guide_answers_and_refuses_as_it_says() -> None:
    shown = re.findall(r"```python\n(.+?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)[-1]
    named: dict[str, Any] = {"__name__": "guide"}
    exec(shown, named)
    await named["main"]()
