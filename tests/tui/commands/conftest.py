"""A chat whose screen is a list of lines: what is typed runs the real commands over a real store and engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console, RenderableType

from clew.agent import Agent, Approvals, Toolbox
from clew.agent.fence import fenced
from clew.agent.memory import Memory
from clew.agent.skills import find_skills
from clew.app import EngineChoice
from clew.cli.tui.commands import find_command
from clew.cli.tui.state import ChatState
from clew.config import load_config
from clew.messages import Message
from clew.store import NewSession
from clew.testing import assistant, call, tool, user
from clew.testing.runtime import Flow, answers, flow_with
from clew.testing.scripted import ScriptedProvider
from clew.turn import Runtime, Target, cache_policy, receive

WINDOW = 20_000


@dataclass
class Chat:
    """One chat, what its screen showed, and what the person answers when asked."""

    state: ChatState
    provider: ScriptedProvider
    flow: Flow
    width: int = 80
    shown: list[RenderableType] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    answers: list[bool] = field(default_factory=list)

    @property
    def desk(self) -> Any:
        return self.state.desk

    @property
    def runtime(self) -> Runtime:
        return self.flow.runtime

    async def type(self, line: str) -> str:
        """Run a command and give back what it put on the screen."""
        before = len(self.shown)
        name, _, rest = line.removeprefix("/").partition(" ")
        command = find_command(name)
        assert command is not None, name
        await command.run(self.state, rest)
        return "\n".join(self.drawn(self.width)[before:])

    def drawn(self, width: int) -> list[str]:
        """Everything that was shown, as plain text for a width."""
        return [plain(each, width) for each in self.shown]

    async def view(self) -> list[Message]:
        tip = await self.desk.store.get_compression_tip(self.state.session)
        return list((await self.desk.store.view(tip)).messages)

    async def confirm(self, question: str) -> bool:
        self.asked.append(question)
        return self.answers.pop(0) if self.answers else False


def plain(shown: RenderableType, width: int, color: bool = False) -> str:
    """What a screen of that width shows, as text."""
    out = StringIO()
    console = Console(file=out, width=width, color_system="standard" if color else None, force_terminal=color)
    console.print(shown)
    text = out.getvalue()
    assert all(len(line) <= width for line in text.splitlines()) or color, text
    return text


class FakeDesk(SimpleNamespace):
    """What `clew.app.Desk` offers, over a flow."""

    async def new_session(self, title: str | None = None) -> str:
        new = NewSession(source="agent", model=self.target.model, title=title, system="You are a careful assistant.")
        return (await self.store.start_session(new)).id

    async def use_model(self, session: str, name: str) -> Target:
        target = Target(self.target.provider, name)
        await self.runtime.use_model(session, target)
        self.target = self.runtime.target = target
        return target

    def caching_line(self) -> str:
        return cache_policy(self.runtime, self.target).describe()


def long_talk(rounds: int = 30) -> list[Message]:
    """A question, and so many rounds of reading files and looking at them."""
    talk = [user("Please find out why the bakery's rota in /srv/rota/plan.py is wrong; never touch the schema.")]
    for at in range(rounds):
        talk.append(assistant(None, [call("read_file", {"path": f"/srv/rota/part_{at}.py"}, id=f"c{at}")]))
        body = "\n".join(f"def shift_{at}_{line}(): return {line * 37 + at}" for line in range(25))
        talk.append(tool(f"c{at}", body))
    return [*talk, assistant("The rota is wrong since part_7 counts Sundays twice."), user("Then mend it.")]


@pytest.fixture
async def chat(tmp_path: Path) -> AsyncIterator[Chat]:
    home, project = tmp_path / "home", tmp_path / "project"
    skill = project / ".clew" / "skills" / "release"
    skill.mkdir(parents=True)
    home.mkdir()
    (skill / "SKILL.md").write_text("---\nname: release\ndescription: How a release is made here.\n---\nTag it.\n")
    environ = {"CLEW_HOME": str(home)}
    provider = ScriptedProvider(*[answers(f"answer {at}") for at in range(9)])
    system = "You are a careful assistant.\n\n" + fenced("MEMORY.md", "- Ovens are called Greta and Hilde")
    async with flow_with(provider, tmp_path, window=WINDOW, system=system) as flow:
        config = load_config(environ)
        engines = EngineChoice(config, environ)
        desk = FakeDesk(
            config=config,
            settings=config.settings,
            environ=environ,
            project=project,
            home=home,
            store=flow.store,
            runtime=flow.runtime,
            agent=Agent(flow.runtime, Toolbox([]), Approvals("deny")),
            memory=Memory(home),
            skills=find_skills(project, home)[0],
            notices=(),
            target=flow.runtime.target,
            engines=engines,
            engine_name="compressor",
        )
        shown: list[RenderableType] = []
        made: list[Chat] = []

        async def confirm(question: str) -> bool:
            return await made[0].confirm(question)

        state = ChatState(desk=desk, session=flow.session, say=shown.append, confirm=confirm)  # type: ignore[arg-type]
        made.append(Chat(state, provider, flow, shown=shown))
        yield made[0]


@pytest.fixture
async def long_chat(chat: Chat) -> Chat:
    """A chat with something to fold."""
    await receive(chat.runtime, chat.state.session, long_talk())
    return chat
