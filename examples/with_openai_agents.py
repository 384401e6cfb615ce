"""OpenAI Agents SDK: a run that is several times as long as its window. `pip install clew-context openai-agents`"""

from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

from clew.integrations.openai_agents import ClewInputFilter
from clew.testing.part_reader import part, running


@function_tool
def read_part(number: int) -> str:
    """Read a part of the project."""
    return part(number)


set_tracing_disabled(True)
clew = ClewInputFilter(context_length=16_000)
with running() as mock:  # answers like a model, and needs no key
    model = OpenAIChatCompletionsModel("mock-model", AsyncOpenAI(base_url=mock.base_url, api_key="none"))
    agent = Agent("reader", instructions="You read projects.", tools=[read_part], model=model)
    config = RunConfig(call_model_input_filter=clew)
    done = Runner.run_sync(agent, "Read every part.", hooks=clew, max_turns=100, run_config=config)

(view,) = clew.conversations.projections
print(done.final_output)
print(f"{len(done.to_input_list())} items; folded {len(view.compactions)} times")
print("recalled:", view.recall("value_3")[0].snippet.splitlines()[0])
