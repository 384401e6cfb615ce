"""Library: fold a long conversation into a short one, with no key and no network. `pip install clew-context`"""

import json
from pathlib import Path

import clew

request = json.loads(Path(__file__).with_name("session.json").read_text(encoding="utf-8"))

plan = clew.preview(request, target_tokens=10_000)
print(f"would go from {plan.tokens_before:,} to about {plan.tokens_after:,} tokens")

done = clew.compress(request, target_tokens=10_000, focus_topic="retry backoff")
print(done)
print(done.summary.splitlines()[0])
assert done.messages[-1] == request["messages"][-1]  # the newest messages stay as they were
