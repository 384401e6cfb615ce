"""Haystack: agents whose compaction hook has Clew's compactor, sync and async, with pictures, and after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage, ImageContent
from haystack.hooks.compaction import CompactionHook
from haystack.tools import tool
from haystack.utils import Secret

from clew.integrations.haystack import ClewCompactor
from clew.messages import text_of
from tests.integrations.scenario import (
    KEY,
    PICTURE,
    SYSTEM,
    TASK,
    WINDOW,
    assert_it_went_well,
    assert_the_example_runs,
    folds_between,
    part,
    requests_of,
    running,
)


@tool  # type: ignore[untyped-decorator]
def read_part(number: int) -> str:
    """Read a part of the project."""
    return part(number)


def agent_for(upstream: Any, compactor: ClewCompactor) -> Any:
    generator = OpenAIChatGenerator(Secret.from_token(KEY), model="mock-model", api_base_url=upstream.base_url)
    hook = CompactionHook(compactor, context_window=WINDOW)
    hooks = {"before_llm": [hook]}
    return Agent(chat_generator=generator, tools=[read_part], system_prompt=SYSTEM, max_agent_steps=100, hooks=hooks)


def test_an_agent_folds_twice_and_the_store_keeps_every_message() -> None:
    with running(caches=True) as upstream:
        compactor = ClewCompactor()
        done = agent_for(upstream, compactor).run([ChatMessage.from_user(TASK)])
        assert done["last_message"].text == "The sum after 60 parts is known."
        assert_it_went_well(upstream)
        (view,) = compactor.conversations.projections
        assert len(view.compactions) == folds_between(requests_of(upstream))
        assert "value_3 = 111" in text_of(view.recall("value_3")[0].message)


async def test_the_same_from_async_code() -> None:
    with running(caches=True) as upstream:
        done = await agent_for(upstream, ClewCompactor()).run_async([ChatMessage.from_user(TASK)])
        assert done["last_message"].text == "The sum after 60 parts is known."
        assert_it_went_well(upstream)


def test_an_agent_goes_on_after_a_restart_in_the_same_conversation(tmp_path: Path) -> None:
    store = str(tmp_path / "clew.db")
    with running(caches=True) as upstream, running(caches=True) as later:
        first = ClewCompactor(name="reader", store=store)
        picture = ImageContent(base64_image=PICTURE, mime_type="image/png")
        asked = ChatMessage.from_user(content_parts=[TASK, picture])
        done = agent_for(upstream, first).run([asked])
        assert_it_went_well(upstream)
        folds = len(first.conversations.projections[0].compactions)
        first.conversations.close()
        again = ClewCompactor.from_dict(ClewCompactor(name="reader", store=store).to_dict())
        agent_for(later, again).run([*done["messages"], ChatMessage.from_user("And once more.")])
        assert_it_went_well(later)
        (view,) = again.conversations.projections
        assert len(view.compactions) == folds + folds_between(requests_of(later))
        again.conversations.close()


def test_a_conversation_that_is_short_is_left_alone() -> None:
    from haystack.token_counters import ApproximateTokenCounter

    messages = [ChatMessage.from_user("Hello."), ChatMessage.from_assistant("Hello.")]
    assert ClewCompactor().compact(messages, 1_000, ApproximateTokenCounter()) is None


def test_the_example_runs_as_it_stands() -> None:
    assert_the_example_runs("with_haystack.py")
