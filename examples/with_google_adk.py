"""Google ADK: a run that is several times as long as its window. `pip install clew-context google-adk`"""

from google.adk.agents import LlmAgent
from google.adk.models.google_llm import Gemini
from google.adk.runners import InMemoryRunner
from google.genai import types

from clew.integrations.google_adk import ClewPlugin
from clew.testing.part_reader import part, running


def read_part(number: int) -> str:
    """Read a part of the project."""
    return part(number)


clew = ClewPlugin(context_length=16_000)
with running() as mock:  # answers like a model, and needs no key
    model = Gemini(model="mock-model", base_url=mock.origin, client_kwargs={"api_key": "none"})
    agent = LlmAgent(name="reader", model=model, instruction="You read projects.", tools=[read_part])
    runner = InMemoryRunner(agent, app_name="app", plugins=[clew])
    runner.auto_create_session = True
    asked = types.Content(role="user", parts=[types.Part(text="Read every part.")])
    events = list(runner.run(user_id="u", session_id="s", new_message=asked))

(view,) = clew.conversations.projections
print(events[-1].content.parts[0].text)
print(f"{len(events)} events; folded {len(view.compactions)} times")
print("recalled:", view.recall("value_3")[0].snippet.splitlines()[0])
