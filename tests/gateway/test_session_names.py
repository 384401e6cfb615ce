"""Sessions that people recognise: named by what a person asked for, and one tree for one session of a client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import pytest

from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import Upstream, UpstreamAnswer
from tests.support.gateway import GatewayFlow, gateway_with

ENVIRONMENT = "<environment_context>\n  <cwd>/tmp/project</cwd>\n</environment_context>"
REMINDER = "<system-reminder>\n# Environment\nYou have been invoked in the following environment.\n</system-reminder>"


async def ask(flow: GatewayFlow, messages: list[Any], prompt: str = "Be brief.", **headers: str) -> None:
    said = [{"role": "system", "content": prompt}, *messages] if prompt else messages
    body = {"model": GATEWAY_MODEL, "messages": said}
    url = f"{flow.base_url}/chat/completions"
    async with aiohttp.ClientSession(headers=headers) as http, http.post(url, json=body) as response:
        assert response.status == 200, await response.text()
    await flow.wait_for_recordings()


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


@pytest.mark.parametrize(
    "messages",
    [
        [user("Mend the clock in hall 3.")],
        [user(ENVIRONMENT), user("Mend the clock in hall 3.")],
        [user(f"{REMINDER}\nMend the clock in hall 3.\nIt is late.")],
    ],
)
async def test_a_session_has_the_name_of_what_a_person_asked_for(tmp_path: Path, messages: list[Any]) -> None:
    async with gateway_with(Upstream(answers=lambda _: UpstreamAnswer("done")), tmp_path) as flow:
        await ask(flow, messages)
        (session,) = await flow.store.list_sessions()
        assert session.title == "Mend the clock in hall 3."


async def test_side_calls_of_a_client_are_under_the_conversation_that_has_their_session_id(tmp_path: Path) -> None:
    named = {"x-claude-code-session-id": "5b1d0f0e"}
    async with gateway_with(Upstream(answers=lambda _: UpstreamAnswer("done")), tmp_path) as flow:
        await ask(flow, [user("Mend the clock.")], **named)
        await ask(flow, [user("Mend the clock.")], "Write a title for this conversation.", **named)
        await ask(flow, [user("This session is being continued from a previous conversation.")], **named)
        await ask(flow, [user("Mend the clock.")], **{"x-claude-code-session-id": "another"})
        sessions = {it.id: it for it in await flow.store.list_sessions()}
        roots = [it for it in sessions.values() if it.parent_session_id is None]
        assert len(sessions) == 4 and len(roots) == 2
        under = [it for it in sessions.values() if it.parent_session_id is not None]
        assert [it.title for it in sessions.values()] == ["Mend the clock."] * 4
        assert len({it.parent_session_id for it in under}) == 1 and {it.kind for it in under} == {"subagent"}
        assert await flow.store.check() == []


async def test_requests_with_the_same_x_clew_session_are_one_conversation(tmp_path: Path) -> None:
    named = {"x-clew-session": "night-shift"}
    async with gateway_with(Upstream(answers=lambda _: UpstreamAnswer("done")), tmp_path) as flow:
        history = [user("Mend the clock.")]
        await ask(flow, history, "A prompt of Monday.", **named)
        history += [{"role": "assistant", "content": "done"}, user("And the bell?")]
        await ask(flow, history, "Quite another prompt.", **named)
        (session,) = await flow.store.list_sessions()
        assert len(await flow.store.messages(session.id)) == 4
        await ask(flow, [user("A summary of all that."), user("Go on.")], **named)
        other = next(it for it in await flow.store.list_sessions() if it.id != session.id)
        assert other.parent_session_id == session.id
