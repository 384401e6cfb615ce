"""smolagents: a run that is several times as long as its window. `pip install clew-context 'smolagents[openai]'`"""

from smolagents import OpenAIModel, ToolCallingAgent, tool

from clew.integrations.smolagents import ClewMemory
from clew.testing.part_reader import part, running


@tool
def read_part(number: int) -> str:
    """Read a part of the project.

    Args:
        number: Of the part.
    """
    return part(number)


with running(final_tool="final_answer") as mock:  # answers like a model, and needs no key
    model = OpenAIModel("mock-model", api_base=mock.base_url, api_key="none")
    agent = ToolCallingAgent(tools=[read_part], model=model, max_steps=100, verbosity_level=0)
    clew = ClewMemory(agent, context_length=16_000)
    done = agent.run("Read every part.")

(view,) = clew.conversations.projections
print(done)
print(f"{len(agent.memory.steps)} steps; folded {len(view.compactions)} times")
print("recalled:", view.recall("value_3")[0].snippet.splitlines()[1])
