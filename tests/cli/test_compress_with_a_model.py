"""`clew compress` with a model in the config: it writes the handoff, and where it cannot, the built-in one does."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from clew.messages import Message
from clew.testing import assistant, call, tool, user
from clew.testing.upstream import Step, Upstream, UpstreamAnswer, UpstreamFault
from tests.support.summaries import handoff_text


def history() -> list[Message]:
    messages: list[Message] = [user("Mend the clock. Never touch the bell.")]
    for number in range(40):
        messages.append(assistant(None, [call("measure", {"wheel": number}, f"c{number}")]))
        messages.append(tool(f"c{number}", f"wheel_{number} turns 12 times\n" * 40))
    return [*messages, assistant("Measured."), user("And now?")]


async def folded(tmp_path: Path, *steps: Step) -> tuple[dict[str, object], str, list[str]]:
    """What `clew compress --json` prints with an upstream that plays these steps, and the prompts it received."""
    (tmp_path / "chat.json").write_text(json.dumps(history()))
    async with Upstream(*steps) as upstream:
        home = tmp_path / "home"
        home.mkdir(exist_ok=True)
        (home / "config.yaml").write_text(
            f"auxiliary:\n  compression:\n    base_url: {upstream.base_url}\n    model: small-model\n"
        )
        words = [sys.executable, "-m", "clew", "compress", str(tmp_path / "chat.json"), "--to", "3000", "--json"]
        done = await asyncio.to_thread(
            subprocess.run, words, capture_output=True, text=True, env={"CLEW_HOME": str(home), "PATH": ""}
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), done.stderr, [json.dumps(each.body) for each in upstream.received]


async def test_the_configured_model_writes_the_handoff(tmp_path: Path) -> None:
    told, _, prompts = await folded(
        tmp_path, UpstreamAnswer(handoff_text(completed_actions="1. Mended wheel_7 of the clock."))
    )
    assert told["written_by"] == "small-model"
    assert "Mended wheel_7 of the clock." in str(told["summary"])
    assert "Never touch the bell." in str(told["summary"])
    assert len(prompts) == 1
    assert "wheel_12 turns 12 times" in prompts[0]


async def test_a_model_that_refuses_gives_way_to_the_built_in_one_and_people_are_told(tmp_path: Path) -> None:
    told, _, _ = await folded(
        tmp_path, *[UpstreamFault(401, {"error": {"message": "invalid key", "type": "auth"}})] * 3
    )
    assert told["written_by"] == "built-in"
    assert "small-model" in str(told["warnings"])
    assert "Never touch the bell." in str(told["summary"])
