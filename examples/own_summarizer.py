"""Your own summariser: any function from a prompt to a text. Invented names and numbers are reported.

`pip install clew-context openai`
"""

import json
from pathlib import Path

from openai import OpenAI

import clew
from clew.testing import Upstream, UpstreamAnswer
from clew.testing.part_reader import running

HANDOFF = """\
## Active task
None.
## Goal
Batches that are sent once.
## Completed actions
1. Wrote /srv/invented/ledger.py, 4711093 rows.
"""
request = json.loads(Path(__file__).with_name("session.json").read_text(encoding="utf-8"))

with running(Upstream(answers=lambda _: UpstreamAnswer(HANDOFF))) as mock:  # a mock model, which needs no key
    client = OpenAI(base_url=mock.base_url, api_key="none")

    def ask(prompt: str) -> str:
        asked = [{"role": "user", "content": prompt}]
        return client.chat.completions.create(model="mock-model", messages=asked).choices[0].message.content

    done = clew.compress(request, target_tokens=10_000, summarizer=ask)
    client.close()

print(done)  # what the model left out and must be known is added: rules, changed files, the last errors
print("not in the conversation:", ", ".join(done.compaction.unverified))
