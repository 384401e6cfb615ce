"""Arguments of every wrong type, thrown at every tool: never an exception, always a result that says what to do."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from clew.agent import AgentTool, CallContext
from clew.agent.toolbox import MORE_TOOLS, Toolbox
from clew.app import AgentApp, AgentAppOptions, open_agent_app
from clew.config import load_config
from clew.store import open_store
from clew.testing.scripted import ScriptedProvider

pytestmark = pytest.mark.slow

ODD: tuple[Any, ...] = (
    None, True, False, 0, -1, 10**40, 0.5, -math.inf, math.nan, "", " ", "\0", "\ud800", "nothing-of-the-kind", "a\nb",
    "x" * 5_000, "../../..", "~nobody/x", [], [None], [[]], [{}], ["x", 1], {}, {"path": None}, {"": []},
)  # fmt: skip
TOOLS = (
    "read_file", "write_file", "patch", "search_files", "terminal", "process", "recall", "memory", "skill", MORE_TOOLS
)  # fmt: skip
FITTING: dict[str, dict[str, Any]] = {
    "read_file": {"path": "a.txt"},
    "write_file": {"path": "new.txt", "content": "x\n"},
    "patch": {"edits": [{"path": "a.txt", "old": "one", "new": "two"}]},
    "search_files": {"pattern": "one"},
    "terminal": {"command": "true"},
    "process": {"action": "output", "id": "p1"},
    "recall": {"query": "one"},
    "memory": {"action": "add", "which": "memory", "text": "One fact"},
    "skill": {"name": "review"},
    MORE_TOOLS: {"names": ["read_file"]},
}
"""A call of each that is right, to be spoiled in one place."""


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[AgentApp]:
    project = tmp_path / "project"
    skill = project / ".clew" / "skills" / "review"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: review\ndescription: How we review\n---\nRead twice.\n")
    (project / "a.txt").write_text("one\n")
    environ = {"CLEW_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    config = load_config(environ, ["model.name=gpt-5"])
    async with (
        open_store(tmp_path / "state.db", flush="normal") as store,
        open_agent_app(config, environ, store, AgentAppOptions(project, provider=ScriptedProvider())) as opened,
    ):
        yield opened


async def tool_of(app: AgentApp, name: str) -> tuple[AgentTool, CallContext]:
    box: Toolbox = app.agent.toolbox
    session = await app.new_session()
    await box.schemas_for(app.runtime, session)
    tool = box.find(name)
    assert tool is not None
    return tool, CallContext(session, "c1")


def parameters(tool: AgentTool) -> list[str]:
    return list(tool.schema["function"]["parameters"]["properties"])


async def tried(tool: AgentTool, arguments: dict[str, Any], context: CallContext) -> None:
    tool.headline(arguments)
    risk = tool.risk(arguments)
    if risk is not None:
        assert risk.reasons
        return
    result = await tool.run(arguments, context)
    assert result.text.strip(), arguments
    assert "Traceback" not in result.text
    if result.is_error:
        assert len(result.text) > 15, result.text


@pytest.mark.parametrize("name", TOOLS)
async def test_every_parameter_of_every_wrong_type_is_told_and_never_raised(app: AgentApp, name: str) -> None:
    tool, context = await tool_of(app, name)
    await tried(tool, {}, context)
    for parameter in parameters(tool):
        for value in ODD:
            if name == "process" and parameter == "seconds" and value == 10**40:
                continue  # it waits that long, as far as it may
            await tried(tool, {**FITTING[name], parameter: value}, context)
            await tried(tool, {parameter: value}, context)


@pytest.mark.parametrize("field", ["path", "old", "new", "replace_all"])
async def test_edits_of_every_wrong_type_are_told(app: AgentApp, field: str) -> None:
    tool, context = await tool_of(app, "patch")
    for value in ODD:
        edit = {"path": "a.txt", "old": "nowhere", "new": "y", field: value}
        await tried(tool, {"edits": [edit]}, context)
        await tried(tool, {"path": "a.txt", "edits": [edit]}, context)
        await tried(tool, edit, context)


@pytest.mark.parametrize("said", ["true", "yes", "1", True])
async def test_a_flag_may_come_as_a_word(app: AgentApp, said: object) -> None:
    tool, context = await tool_of(app, "terminal")
    result = await tool.run({"command": "true", "background": said}, context)
    assert result.text.startswith("p1 ")


async def test_a_number_may_come_as_text(app: AgentApp) -> None:
    tool, context = await tool_of(app, "terminal")
    assert not (await tool.run({"command": "true", "timeout": "5"}, context)).is_error
