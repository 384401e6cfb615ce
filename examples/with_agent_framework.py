"""Microsoft Agent Framework: a run that is several times as long as its window.

`pip install clew-context agent-framework-core agent-framework-openai`
"""

import asyncio

from agent_framework import Agent
from agent_framework.openai import OpenAIChatCompletionClient

from clew.integrations.agent_framework import ClewChatMiddleware
from clew.testing.part_reader import part, running


def read_part(number: int) -> str:
    """Read a part of the project."""
    return part(number)


clew = ClewChatMiddleware(context_length=16_000)
with running() as mock:  # answers like a model, and needs no key
    many = {"max_iterations": 100}
    client = OpenAIChatCompletionClient(
        "mock-model", base_url=mock.base_url, api_key="none", function_invocation_configuration=many
    )
    agent = Agent(client, "You read projects.", tools=[read_part], middleware=[clew])
    done = asyncio.run(agent.run("Read every part."))

(view,) = clew.conversations.projections
print(done.text)
print(f"{len(done.messages)} messages; folded {len(view.compactions)} times")
print("recalled:", view.recall("value_3")[0].snippet.splitlines()[0])
