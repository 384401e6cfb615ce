"""A chat whose screen is a list of lines: what is typed runs the real commands with a real app, over a real store."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console, RenderableType
from rich.text import Text

from clew.app import AgentApp, AgentAppOptions, open_agent_app
from clew.cli.tui.commands import find_command
from clew.cli.tui.state import ChatState
from clew.config import load_config
from clew.events import Event, Events
from clew.handoff import is_instruction
from clew.messages import Message
from clew.providers import Reply, Request
from clew.store import open_store
from clew.testing import assistant, call, tool, user
from clew.testing.scripted import ScriptedProvider, refuses, says
from clew.turn import Runtime, receive
from tests.support.flow import answers, request_tokens

WINDOW = 20_000
SKILL = "---\nname: release\ndescription: How a release is made here.\n---\nTag it.\n"


class Talker(ScriptedProvider):
    """Answers every question; writes the summary that the test gave it, and refuses to write one where it gave none."""

    def __init__(self) -> None:
        super().__init__()
        self.summary: str | None = None
        self.unseen = 0
        """Tokens that it counts in a prompt and nobody else does."""
        self.factor = 1.0
        """How many tokens it counts for one of ours."""
        self.summaries = 0

    def answered(self, request: Request) -> Reply:
        if len(request.messages) > 1 and not is_instruction(request.messages[-1]):
            grows = self.unseen + round((self.factor - 1) * request_tokens(request))
            return answers(f"answer {len(self.requests) - self.summaries}", grows=grows)(request)
        self.summaries += 1
        if self.summary is None:
            raise refuses("auth", "no key for summaries")
        return says(self.summary, prompt_tokens=900)


@dataclass
class Chat:
    """One chat, what its screen showed, and what the person answers when asked."""

    state: ChatState
    provider: Talker
    width: int = 80
    shown: list[RenderableType] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    answers: list[bool] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    @property
    def app(self) -> AgentApp:
        return self.state.app

    @property
    def runtime(self) -> Runtime:
        return self.app.runtime

    async def type(self, line: str) -> str:
        """Run a command and give back what it put on the screen."""
        before = len(self.shown)
        name, _, rest = line.removeprefix("/").partition(" ")
        command = find_command(name)
        assert command is not None, name
        await command.run(self.state, rest)
        return "\n".join(self.drawn(self.width)[before:])

    def drawn(self, width: int) -> list[str]:
        """Everything that was shown, as plain text for a width; no line may be longer."""
        return [plain(each, width) for each in self.shown]

    async def hear(self, *messages: Message) -> None:
        """Messages that came without the model being asked."""
        await receive(self.runtime, self.state.session, list(messages))

    async def view(self) -> list[Message]:
        tip = await self.app.store.get_compression_tip(self.state.session)
        return list((await self.app.store.view(tip)).messages)


def plain(shown: RenderableType, width: int) -> str:
    """What a screen of that width shows, as text. No line is longer, with colours or without."""
    for colors in ("standard", None):
        out = StringIO()
        console = Console(file=out, width=width, color_system=colors, force_terminal=colors is not None)
        console.print(shown, no_wrap=True, overflow="ignore", crop=False)
        text = out.getvalue()
        lines = [Text.from_ansi(line) for line in text.split("\n")]
        assert [line.plain for line in lines if line.cell_len > width] == []
    return text


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
    """A chat with an app without tools, in a project with one skill, whose memory knows one thing."""
    home, project = tmp_path / "home", tmp_path / "project"
    skill = project / ".clew" / "skills" / "release"
    skill.mkdir(parents=True)
    home.mkdir()
    (skill / "SKILL.md").write_text(SKILL)
    (home / "MEMORY.md").write_text("- Ovens are called Greta and Hilde\n")
    environ = {"CLEW_HOME": str(home)}
    config = load_config(environ, ["model.name=scripted-model", f"model.context_length={WINDOW}"])
    provider = Talker()
    provider.then(*[provider.answered] * 60)
    events: list[Event] = []
    options = AgentAppOptions(
        project, approvals="deny", events=Events(events.append), provider=provider, has_tools=False
    )
    async with (
        open_store(home / "state.db", flush="normal") as store,
        open_agent_app(config, environ, store, options) as app,
    ):
        shown: list[RenderableType] = []
        made: list[Chat] = []

        async def confirm(question: str) -> bool:
            made[0].asked.append(question)
            return made[0].answers.pop(0) if made[0].answers else False

        state = ChatState(app=app, session=await app.new_session(), print=shown.append, confirm=confirm)
        made.append(Chat(state, provider, shown=shown, events=events))
        yield made[0]


@pytest.fixture
async def long_chat(chat: Chat) -> Chat:
    """A chat with something to fold."""
    await chat.hear(*long_talk())
    return chat
