"""Haystack: an agent whose compaction hook folds with Clew. `pip install clew-context haystack-ai`"""

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.hooks.compaction import CompactionHook
from haystack.tools import tool
from haystack.utils import Secret

from clew.integrations.haystack import ClewCompactor
from clew.testing.part_reader import part, running


@tool
def read_part(number: int) -> str:
    """Read a part of the project."""
    return part(number)


with running(caches=True) as mock:  # answers like a model, and needs no key
    generator = OpenAIChatGenerator(Secret.from_token("none"), model="mock-model", api_base_url=mock.base_url)
    compactor = ClewCompactor()
    hook = CompactionHook(compactor, context_window=16_000)
    agent = Agent(chat_generator=generator, tools=[read_part], max_agent_steps=100, hooks={"before_llm": [hook]})
    done = agent.run([ChatMessage.from_user("Read every part.")])

(view,) = compactor.conversations.projections
print(done["last_message"].text)
print(f"{len(done['messages'])} messages; folded {len(view.compactions)} times")
print("recalled:", view.recall("value_3")[0].snippet.splitlines()[0])
