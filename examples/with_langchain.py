"""LangChain: a run that is several times as long as its window.

`pip install clew-context langchain langchain-openai`
"""

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

from clew.integrations.langchain import ClewMiddleware
from clew.testing.part_reader import part, running


def read_part(number: int) -> str:
    """Read a part of the project."""
    return part(number)


clew = ClewMiddleware(context_length=16_000)
with running() as mock:  # answers like a model, and needs no key
    model = ChatOpenAI(model="mock-model", base_url=mock.base_url, api_key="none")
    agent = create_agent(model, [read_part], system_prompt="You read projects.", middleware=[clew])
    done = agent.invoke({"messages": [("user", "Read every part.")]}, {"recursion_limit": 200})

(view,) = clew.conversations.projections
print(done["messages"][-1].content)
print(f"{len(done['messages'])} messages; folded {len(view.compactions)} times")
print("recalled:", view.recall("value_3")[0].snippet.splitlines()[0])
