"""Clients that rebuild their history: aider puts files and a reminder behind it, which the next request has not."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import Upstream
from clew.testing.upstream_rules import UpstreamRules
from tests.support.gateway import GatewayFlow, gateway_with
from tests.support.shell_worker import UNKNOWN_TASK, ShellWorker

TASK = "This is TASK-7. Go through the notes that I paste, one after the other, and then name the task."
REMINDER = "\n\nTo suggest changes to a file you MUST return the entire content of the updated file.\n" * 4
REBUILT = 3
"""Items at the end of each request that come otherwise in the next one."""


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


EXAMPLES = [
    user("Change the greeting to be more casual"),
    assistant("Ok, I will switch the greeting text from Hello to Hey."),
    user("I switched to a new code base. Please don't consider the above files or try to edit them any longer."),
    assistant("Ok."),
]


@dataclass
class AiderLike:
    """Sends what aider sends: worked examples, what was said, files, and the newest request with a reminder."""

    flow: GatewayFlow
    done: list[dict[str, Any]] = field(default_factory=list)
    repository_map: str = ""

    async def ask(self, said: str) -> str:
        files = [user("I am not sharing any files that you can edit yet."), assistant("Ok.")]
        known = [user(self.repository_map), assistant("Ok.")] if self.repository_map else []
        prompt = {"role": "system", "content": "Act as an expert software developer."}
        body = {
            "model": GATEWAY_MODEL,
            "messages": [prompt, *EXAMPLES, *known, *self.done, *files, user(said + REMINDER)],
        }
        url = f"{self.flow.base_url}/chat/completions"
        async with aiohttp.ClientSession() as session, session.post(url, json=body) as response:
            answer = await response.json()
            assert response.status == 200, answer
        await self.flow.wait_for_recordings()
        text: str = answer["choices"][0]["message"]["content"]
        self.done += [user(said), assistant(text)]
        return text


def note(number: int, lines: int) -> str:
    return "\n".join(f"value {line} of note {number} is settled" for line in range(lines))


def shared(before: list[Any], now: list[Any]) -> int:
    pairs = enumerate(zip(before, now, strict=False))
    return next((at for at, (old, new) in pairs if old != new), min(len(before), len(now)))


async def test_a_fold_is_kept_although_the_end_of_each_request_is_rebuilt(tmp_path: Path) -> None:
    upstream = Upstream(answers=ShellWorker(), rules=UpstreamRules(8_000, pairs=True))
    async with gateway_with(upstream, tmp_path) as flow:
        client = AiderLike(flow)
        answers = [await client.ask(TASK), *[await client.ask(note(turn, 60)) for turn in range(24)]]
        sent = [call.body["messages"] for call in upstream.received]
        assert len(sent) == len(answers)
        folds = [at for at in range(1, len(sent)) if len(sent[at]) < len(sent[at - 1])]
        assert len(folds) >= 2
        for at in range(1, len(sent)):
            assert at in folds or shared(sent[at - 1], sent[at]) >= len(sent[at - 1]) - REBUILT
        assert not [answer for answer in answers if "TASK-7" not in answer]
        assert not [record for record in flow.exchanges if record.recovered or record.is_fallback]


@pytest.mark.parametrize("has_map", [True, False])
async def test_the_task_stays_where_every_single_request_has_to_be_folded_anew(tmp_path: Path, has_map: bool) -> None:
    """Because the map of the repository changes at the beginning, or because what was pasted fills the window."""
    upstream = Upstream(answers=ShellWorker(), rules=UpstreamRules(8_000, pairs=True))
    async with gateway_with(upstream, tmp_path) as flow:
        client = AiderLike(flow)
        answers = [await client.ask(TASK)]
        for turn in range(8):
            if has_map:
                client.repository_map = (
                    f"Here are summaries of some files present in my git repository.\n\nf_{turn}.py:"
                )
            answers.append(await client.ask(note(turn, 250)))
        assert not [answer for answer in answers if UNKNOWN_TASK in answer]
        while len(flow.exchanges) < len(answers):  # noqa: ASYNC110 (they end shortly after the client has the reply)
            await asyncio.sleep(0)
        assert sum(record.is_folded for record in flow.exchanges) >= 6
        newest = json.dumps(upstream.received[-1].body["messages"])
        assert "value 249 of note 7 is settled" in newest
