"""LiteLLM: its proxy, and a conversation through it that is several times as long as its window.

`pip install clew-context 'litellm[proxy]' openai`
"""

import asyncio
import json
import os
import threading

import litellm
import uvicorn
from litellm.proxy.proxy_server import app, initialize
from openai import OpenAI

from clew.integrations.litellm import ClewHook
from clew.testing.part_reader import part, running

# It is for this program alone, and the model asks for no key.
os.environ |= {"LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true", "OPENAI_API_KEY": "none"}
clew = ClewHook(context_length=16_000)
litellm.callbacks = [clew]  # a config file says: litellm_settings: {callbacks: clew.integrations.litellm.clew_hook}
with running() as mock:  # answers like a model, and needs no key
    asyncio.run(initialize(model="openai/mock-model", api_base=mock.base_url))
    server = uvicorn.Server(uvicorn.Config(app, port=4_141, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    client = OpenAI(base_url="http://127.0.0.1:4141/v1", api_key="none", max_retries=9)
    tool = {"type": "function", "function": {"name": "read_part", "parameters": {"type": "object"}}}
    messages = [{"role": "user", "content": "Read every part."}]
    while messages[-1]["role"] != "assistant":
        said = client.chat.completions.create(model="mock-model", messages=messages, tools=[tool]).choices[0].message
        messages.append(said.model_dump(exclude_none=True))
        for call in said.tool_calls or ():
            text = part(json.loads(call.function.arguments)["number"])
            messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
    server.should_exit = True
    thread.join()

(view,) = clew.conversations[0].projections
print(messages[-1]["content"])
print(f"{len(messages)} messages; folded {len(view.compactions)} times")
print("recalled:", view.recall("value_3")[0].snippet.splitlines()[0])
