"""Pydantic AI: a run that is several times as long as its window.

`pip install clew-context 'pydantic-ai-slim[openai]'`
"""

from pydantic_ai import Agent, UsageLimits
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from clew.integrations.pydantic_ai import ClewCapability
from clew.testing.part_reader import part, running


def read_part(number: int) -> str:
    """Read a part of the project."""
    return part(number)


clew = ClewCapability(context_length=16_000)
with running() as mock:  # answers like a model, and needs no key
    model = OpenAIChatModel("mock-model", provider=OpenAIProvider(base_url=mock.base_url, api_key="none"))
    agent = Agent(model, instructions="You read projects.", capabilities=[clew], tools=[read_part])
    done = agent.run_sync("Read every part.", usage_limits=UsageLimits(request_limit=None))

(view,) = clew.conversations.projections
print(done.output)
print(f"{len(done.all_messages())} messages; folded {len(view.compactions)} times")
print("recalled:", view.recall("value_3")[0].snippet.splitlines()[0])
