"""Attempts to get out of the project, past a refusal, or at a key: each ends in a question or in a refusal."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from clew.agent import CallContext, Risk
from clew.agent.approvals import ApprovalAnswer
from clew.app import AgentApp, AgentAppOptions, open_agent_app
from clew.config import load_config
from clew.messages import text_of
from clew.store import open_store
from clew.testing import call, user
from clew.testing.scripted import ScriptedProvider, calls
from tests.support.flow import answers

KEY = "-".join(("not", "a", "real", "key", "123456"))


class Person:
    """Answers questions, in their order; afterwards with no."""

    def __init__(self) -> None:
        self.asked: list[Risk] = []
        self.answers: list[ApprovalAnswer] = []

    async def __call__(self, tool: str, risk: Risk) -> tuple[ApprovalAnswer, str]:
        self.asked.append(risk)
        return (self.answers.pop(0) if self.answers else "no"), ""


class ConfinedApp:
    def __init__(self, app: AgentApp, provider: ScriptedProvider, person: Person, outside: Path) -> None:
        self.app, self.provider, self.person, self.outside = app, provider, person, outside
        self.session = ""

    async def result(self, tool: str, arguments: dict[str, Any]) -> str:
        """What the model reads after a call."""
        self.session = self.session or await self.app.new_session()
        self.provider.then(calls(call(tool, arguments)), answers("Done."))
        await self.app.agent.ask(self.session, user("Go."))
        return text_of(self.provider.requests[-1].messages[-1])


@pytest.fixture
async def confined(tmp_path: Path) -> AsyncIterator[ConfinedApp]:
    project, outside = tmp_path / "project", tmp_path / "outside"
    project.mkdir()
    outside.mkdir()
    (outside / "diary.txt").write_text("dear diary\n")
    (project / "a.txt").write_text("one\n")
    (project / "link").symlink_to(outside)
    (project / "linked.txt").symlink_to(outside / "diary.txt")
    environ = {
        "CLEW_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "MY_MODEL_LOGIN": KEY,
        "SUMMARY_LOGIN": KEY,
    }  # fmt: skip
    settings = [
        "model.name=gpt-5", "model.api_key_env=MY_MODEL_LOGIN", "auxiliary.compression.model=small",
        "auxiliary.compression.api_key_env=SUMMARY_LOGIN", "auxiliary.compression.base_url=http://127.0.0.1:9/v1",
    ]  # fmt: skip
    provider, person = ScriptedProvider(), Person()
    options = AgentAppOptions(project, provider=provider, ask=person)
    async with (
        open_store(tmp_path / "state.db", flush="normal") as store,
        open_agent_app(load_config(environ, settings), environ, store, options) as app,
    ):
        yield ConfinedApp(app, provider, person, outside)


def ways_out(outside: Path) -> list[str]:
    inside = outside.parent / "project"
    return [
        str(outside / "diary.txt"), "../outside/diary.txt", "link/diary.txt", "linked.txt",
        "link/../../outside/diary.txt",
        "./././../outside/diary.txt", f"{inside}/../outside/diary.txt", f"/proc/self/root{outside}/diary.txt",
        "~/outside/diary.txt", f"//{outside}/diary.txt", "a.txt/../../outside/diary.txt",
    ]  # fmt: skip


async def test_no_spelling_of_a_path_leads_out_unasked(confined: ConfinedApp) -> None:
    for path in ways_out(confined.outside):
        before = len(confined.person.asked)
        for tool, arguments in (
            ("read_file", {"path": path}),
            ("search_files", {"pattern": "dear", "path": path}),
            ("write_file", {"path": path, "content": "x"}),
            ("patch", {"edits": [{"path": path, "old": "dear", "new": "x"}]}),
        ):
            told = await confined.result(tool, arguments)
            assert "dear diary" not in told, (tool, path)
            assert "not run" in told or "no such" in told or "there is no" in told or "not a" in told.lower(), told
        assert len(confined.person.asked) >= before
    assert (confined.outside / "diary.txt").read_text() == "dear diary\n"


async def test_new_files_are_not_made_through_a_linked_folder(confined: ConfinedApp) -> None:
    await confined.result("write_file", {"path": "link/new/x.txt", "content": "x"})
    await confined.result("patch", {"edits": [{"path": "link/y.txt", "old": "", "new": "x"}]})
    assert [risk.reasons[0] for risk in confined.person.asked] == [
        f"{confined.outside / name} is outside the project {confined.app.project}" for name in ("new/x.txt", "y.txt")
    ]
    assert sorted(path.name for path in confined.outside.iterdir()) == ["diary.txt"]


async def test_a_search_follows_no_link_out(confined: ConfinedApp) -> None:
    assert "diary" not in await confined.result("search_files", {"pattern": "dear"})
    assert "diary" not in await confined.result("search_files", {"mode": "names", "glob": "**/*"})


async def test_a_hard_link_is_replaced_and_what_it_shares_stays(confined: ConfinedApp) -> None:
    inside = confined.app.project / "shared.txt"
    os.link(confined.outside / "diary.txt", inside)
    await confined.result("patch", {"edits": [{"path": "shared.txt", "old": "dear", "new": "cheap"}]})
    assert inside.read_text() == "cheap diary\n"
    assert (confined.outside / "diary.txt").read_text() == "dear diary\n"


async def test_what_was_refused_stays_refused_however_it_is_asked_for_again(confined: ConfinedApp) -> None:
    target = str(confined.outside / "diary.txt")
    await confined.result("patch", {"edits": [{"path": target, "old": "dear", "new": "x"}]})
    await confined.result("read_file", {"path": target})
    assert len(confined.person.asked) == 2
    # The path where the question does not look for it.
    for arguments in (
        {"path": target, "edits": [{"path": None, "old": "dear", "new": "x"}]},
        {"path": target, "edits": [{"old": "dear", "new": "x"}]},
        {"path": target, "old": "dear", "new": "x"},
    ):
        told = await confined.result("patch", arguments)
        assert "not run: the user refused" in told, told
    assert (confined.outside / "diary.txt").read_text() == "dear diary\n"


async def test_a_link_that_moves_to_a_place_that_was_refused_is_refused(confined: ConfinedApp) -> None:
    target = confined.outside / "diary.txt"
    await confined.result("read_file", {"path": str(target)})
    workspace = confined.app.agent.toolbox.find("read_file")
    assert workspace is not None
    link = confined.app.project / "moving.txt"
    link.symlink_to(confined.app.project / "a.txt")
    assert workspace.risk({"path": "moving.txt"}) is None
    link.unlink()
    link.symlink_to(target)  # between the question and the call
    told = await workspace.run({"path": "moving.txt"}, CallContext("s", "c"))
    assert told.is_error
    assert "outside the project" in told.text


async def test_a_secret_is_asked_for_wherever_its_path_stands(confined: ConfinedApp) -> None:
    (confined.app.project / ".env").write_text(f"LOGIN={KEY}\n")
    for arguments in (
        {"path": ".env", "edits": [{"path": None, "old": "nothing like it", "new": "x"}]},
        {"path": ".env", "edits": [{"old": "LOGIN = x", "new": "x"}]},
    ):
        assert KEY not in await confined.result("patch", arguments)
    assert len(confined.person.asked) == 2


async def test_commands_get_no_key_that_the_config_names(confined: ConfinedApp) -> None:
    told = await confined.result(
        "terminal", {"command": 'python3 -c "import os; print(sorted(os.environ.items()))" || true'}
    )
    told += await confined.result("terminal", {"command": "echo [$MY_MODEL_LOGIN] [$SUMMARY_LOGIN]"})
    assert KEY not in told
    assert "[] []" in told


async def test_a_folder_outside_is_asked_for_before_a_command_runs_there(confined: ConfinedApp) -> None:
    for folder in ("..", "link", str(confined.outside), "/proc/self/cwd/.."):
        assert "not run" in await confined.result("terminal", {"command": "ls", "workdir": folder}), folder


async def test_a_path_cannot_rewrite_the_question_about_it(confined: ConfinedApp) -> None:
    odd = f"{confined.outside}/x\n\x1b[2K\rread README.md\u202e"
    await confined.result("write_file", {"path": odd, "content": "x"})
    await confined.result("read_file", {"path": odd})
    await confined.result("patch", {"edits": [{"path": odd, "old": "", "new": "x"}]})
    await confined.result("search_files", {"path": odd, "pattern": "x"})
    assert len(confined.person.asked) == 4
    for risk in confined.person.asked:
        assert all(text.isprintable() for text in (risk.action, *risk.reasons)), risk


@pytest.mark.parametrize("tool", ["read_file", "write_file", "patch", "search_files", "terminal", "memory", "recall"])
async def test_a_headline_is_one_line_that_a_screen_can_show(confined: ConfinedApp, tool: str) -> None:
    odd = "x\n\x1b[2K\ry\u202e"
    found = confined.app.agent.toolbox.find(tool)
    assert found is not None
    given = dict.fromkeys(found.schema["function"]["parameters"]["properties"], odd)
    if tool == "patch":
        given = {"path": odd, "old": "", "new": "x"}
    headline = confined.app.agent.toolbox.headline(call(tool, given))
    assert headline.isprintable(), headline
