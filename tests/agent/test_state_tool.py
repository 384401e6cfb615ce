"""The tool `state`: the model asks how things stand."""

from __future__ import annotations

from typing import Any

from clew.agent.tools import CallContext, ToolResult
from clew.agent.tools.state import MAX_CHARS, StateTool
from clew.store import Store, open_store
from clew.testing import assistant, call, tool, user


async def ask(store: Store, session: str, **arguments: Any) -> ToolResult:
    return await StateTool(store).run(arguments, CallContext(session, "c1"))


async def conversation(store: Store) -> str:
    session = await store.start_session()
    made = call("edit", {"path": "app.toml", "old_string": "port = 80", "new_string": "port = 8080"}, id="e")
    key = "ghp_" + "FAKE0123456789fake0123456789FAKE0123"
    await store.append(
        session.id,
        [
            user(f"Never use port 80. The token is {key}, never print it."),
            assistant(None, [made]),
            tool("e", "Done."),
            assistant("Changed."),
        ],
    )
    return session.id


async def test_it_tells_values_with_their_messages_fenced_and_without_secrets() -> None:
    async with open_store(":memory:") as store:
        session = await conversation(store)
        told = (await ask(store, session)).text
        assert "setting port in app.toml: 8080, since m2; before: 80 (m2)" in told
        assert "<data-" in told and "ghp_FAKE" not in told
        assert "rule" in (await ask(store, session, kind="rule")).text
        assert "app.toml" not in (await ask(store, session, at="m1")).text
        assert "Nothing of that kind" in (await ask(store, session, words="no such thing")).text


async def test_mistakes_are_told_and_a_long_answer_is_cut() -> None:
    async with open_store(":memory:") as store:
        session = await conversation(store)
        assert (await ask(store, session, kind="colour")).is_error
        assert (await ask(store, session, at="yesterday")).is_error
        for n in range(80):
            name = chr(97 + n % 26) * (2 + n // 26)
            await store.append(session, [user(f"{name} must always be kept: " + "a long reason for it " * 8)])
        told = await ask(store, session, kind="rule")
        assert len(told.text) < MAX_CHARS + 400 and "ask with kind or words" in told.text
