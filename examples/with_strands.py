"""Strands Agents: a run that is several times as long as its window.

`pip install clew-context 'strands-agents[openai]'`
"""

from strands import Agent, tool
from strands.models.openai import OpenAIModel

from clew.integrations.strands import ClewConversation
from clew.testing.part_reader import part, running


@tool
def read_part(number: int) -> str:
    """Read a part of the project.

    Args:
        number: Of the part.
    """
    return part(number)


clew = ClewConversation(context_length=16_000)
with running() as mock:  # answers like a model, and needs no key
    model = OpenAIModel(client_args={"base_url": mock.base_url, "api_key": "none"}, model_id="mock-model")
    agent = Agent(model, tools=[read_part], conversation_manager=clew, callback_handler=None)
    done = agent("Read every part.")

(view,) = clew.conversations.projections
print(str(done).strip())
print(f"{len(agent.messages)} of {len(view.history)} messages; folded {len(view.compactions)} times")
print("recalled:", view.recall("value_3")[0].snippet.splitlines()[0])
