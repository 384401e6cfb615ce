"""Projection: an agent loop of your own that never leaves its window. `pip install clew-context openai`"""

import json

from openai import OpenAI

import clew
from clew.testing.part_reader import part, running

READ_PART = {"name": "read_part", "parameters": {"type": "object", "properties": {"number": {"type": "integer"}}}}
TOOLS = [{"type": "function", "function": READ_PART}]
history = [{"role": "user", "content": "Read every part."}]

with running(parts=40) as mock, clew.Projection(context_length=16_000) as view:  # a mock model, which needs no key
    client = OpenAI(base_url=mock.base_url, api_key="none")
    while True:
        messages = view.fit(history, tools=TOOLS)  # folded once; the same bytes with every call until the next fold
        reply = client.chat.completions.create(model="mock-model", messages=messages, tools=TOOLS)
        view.observe(reply.usage)
        said = reply.choices[0].message
        history.append(said)
        if not said.tool_calls:
            break
        for call in said.tool_calls:
            result = part(json.loads(call.function.arguments)["number"])
            history.append({"role": "tool", "tool_call_id": call.id, "content": result})
    client.close()
    print(said.content)
    print(f"{len(history)} messages, {len(messages)} of them sent at last; folded {len(view.compactions)} times")
    print("recalled:", view.recall("value_3")[0].snippet.splitlines()[0])
