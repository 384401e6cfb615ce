"""Attempts to get out of the project, past a refusal, or at a key: each ends in a question or in a refusal."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from clew.agent import CallContext, Risk
from clew.agent.approvals import Answer
from clew.app import Desk, DeskOptions, open_desk
from clew.config import load_config
from clew.messages import text_of
from clew.store import open_store
from clew.testing import call, user
from clew.testing.runtime import answers
from clew.testing.scripted import ScriptedProvider, calls

KEY = "-".join(("not", "a", "real", "key", "123456"))


class Person:
    """Answers questions, in their order; afterwards with no."""

    def __init__(self) -> None:
        self.asked: list[Risk] = []
        self.answers: list[Answer] = []

    async def __call__(self, tool: str, risk: Risk) -> tuple[Answer, str]:
        self.asked.append(risk)
        return (self.answers.pop(0) if self.answers else "no"), ""


class Place:
    def __init__(self, desk: Desk, provider: ScriptedProvider, person: Person, outside: Path) -> None:
        self.desk, self.provider, self.person, self.outside = desk, provider, person, outside
        self.session = ""

    async def result(self, tool: str, arguments: dict[str, Any]) -> str:
        """What the model reads after a call."""
        self.session = self.session or await self.desk.new_session()
        self.provider.then(calls(call(tool, arguments)), answers("Done."))
        await self.desk.agent.ask(self.session, user("Go."))
        return text_of(self.provider.requests[-1].messages[-1])


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
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
    options = DeskOptions(project, provider=provider, ask=person)
    async with (
        open_store(tmp_path / "state.db", flush="normal") as store,
        open_desk(load_config(environ, settings), environ, store, options) as desk,
    ):
        yield Place(desk, provider, person, outside)


def ways_out(outside: Path) -> list[str]:
    inside = outside.parent / "project"
    return [
        str(outside / "diary.txt"), "../outside/diary.txt", "link/diary.txt", "linked.txt",
        "link/../../outside/diary.txt",
        "./././../outside/diary.txt", f"{inside}/../outside/diary.txt", f"/proc/self/root{outside}/diary.txt",
        "~/outside/diary.txt", f"//{outside}/diary.txt", "a.txt/../../outside/diary.txt",
    ]  # fmt: skip


async def test_no_spelling_of_a_path_leads_out_unasked(place: Place) -> None:
    for path in ways_out(place.outside):
        before = len(place.person.asked)
        for tool, arguments in (
            ("read_file", {"path": path}),
            ("search_files", {"pattern": "dear", "path": path}),
            ("write_file", {"path": path, "content": "x"}),
            ("patch", {"edits": [{"path": path, "old": "dear", "new": "x"}]}),
        ):
            told = await place.result(tool, arguments)
            assert "dear diary" not in told, (tool, path)
            assert "not run" in told or "no such" in told or "there is no" in told or "not a" in told.lower(), told
        assert len(place.person.asked) >= before
    assert (place.outside / "diary.txt").read_text() == "dear diary\n"


async def test_new_files_are_not_made_through_a_linked_folder(place: Place) -> None:
    await place.result("write_file", {"path": "link/new/x.txt", "content": "x"})
    await place.result("patch", {"edits": [{"path": "link/y.txt", "old": "", "new": "x"}]})
    assert [risk.reasons[0] for risk in place.person.asked] == [
        f"{place.outside / name} is outside the project {place.desk.project}" for name in ("new/x.txt", "y.txt")
    ]
    assert sorted(path.name for path in place.outside.iterdir()) == ["diary.txt"]


async def test_a_search_follows_no_link_out(place: Place) -> None:
    assert "diary" not in await place.result("search_files", {"pattern": "dear"})
    assert "diary" not in await place.result("search_files", {"mode": "names", "glob": "**/*"})


async def test_a_hard_link_is_replaced_and_what_it_shares_stays(place: Place) -> None:
    inside = place.desk.project / "shared.txt"
    os.link(place.outside / "diary.txt", inside)
    await place.result("patch", {"edits": [{"path": "shared.txt", "old": "dear", "new": "cheap"}]})
    assert inside.read_text() == "cheap diary\n"
    assert (place.outside / "diary.txt").read_text() == "dear diary\n"


async def test_what_was_refused_stays_refused_however_it_is_asked_for_again(place: Place) -> None:
    target = str(place.outside / "diary.txt")
    await place.result("patch", {"edits": [{"path": target, "old": "dear", "new": "x"}]})
    await place.result("read_file", {"path": target})
    assert len(place.person.asked) == 2
    # The path where the question does not look for it.
    for arguments in (
        {"path": target, "edits": [{"path": None, "old": "dear", "new": "x"}]},
        {"path": target, "edits": [{"old": "dear", "new": "x"}]},
        {"path": target, "old": "dear", "new": "x"},
    ):
        told = await place.result("patch", arguments)
        assert "not run: the user refused" in told, told
    assert (place.outside / "diary.txt").read_text() == "dear diary\n"


async def test_a_link_that_moves_to_a_place_that_was_refused_is_refused(place: Place) -> None:
    target = place.outside / "diary.txt"
    await place.result("read_file", {"path": str(target)})
    workplace = place.desk.agent.toolbox.find("read_file")
    assert workplace is not None
    link = place.desk.project / "moving.txt"
    link.symlink_to(place.desk.project / "a.txt")
    assert workplace.risk({"path": "moving.txt"}) is None
    link.unlink()
    link.symlink_to(target)  # between the question and the call
    told = await workplace.run({"path": "moving.txt"}, CallContext("s", "c"))
    assert told.is_error
    assert "outside the project" in told.text


async def test_a_secret_is_asked_for_wherever_its_path_stands(place: Place) -> None:
    (place.desk.project / ".env").write_text(f"LOGIN={KEY}\n")
    for arguments in (
        {"path": ".env", "edits": [{"path": None, "old": "nothing like it", "new": "x"}]},
        {"path": ".env", "edits": [{"old": "LOGIN = x", "new": "x"}]},
    ):
        assert KEY not in await place.result("patch", arguments)
    assert len(place.person.asked) == 2


async def test_commands_get_no_key_that_the_config_names(place: Place) -> None:
    told = await place.result(
        "terminal", {"command": 'python3 -c "import os; print(sorted(os.environ.items()))" || true'}
    )
    told += await place.result("terminal", {"command": "echo [$MY_MODEL_LOGIN] [$SUMMARY_LOGIN]"})
    assert KEY not in told
    assert "[] []" in told


async def test_a_folder_outside_is_asked_for_before_a_command_runs_there(place: Place) -> None:
    for folder in ("..", "link", str(place.outside), "/proc/self/cwd/.."):
        assert "not run" in await place.result("terminal", {"command": "ls", "workdir": folder}), folder


async def test_a_path_cannot_rewrite_the_question_about_it(place: Place) -> None:
    odd = f"{place.outside}/x\n\x1b[2K\rread README.md\u202e"
    await place.result("write_file", {"path": odd, "content": "x"})
    await place.result("read_file", {"path": odd})
    await place.result("patch", {"edits": [{"path": odd, "old": "", "new": "x"}]})
    await place.result("search_files", {"path": odd, "pattern": "x"})
    assert len(place.person.asked) == 4
    for risk in place.person.asked:
        assert all(text.isprintable() for text in (risk.action, *risk.reasons)), risk


@pytest.mark.parametrize("tool", ["read_file", "write_file", "patch", "search_files", "terminal", "memory", "recall"])
async def test_a_headline_is_one_line_that_a_screen_can_show(place: Place, tool: str) -> None:
    odd = "x\n\x1b[2K\ry\u202e"
    found = place.desk.agent.toolbox.find(tool)
    assert found is not None
    given = dict.fromkeys(found.schema["function"]["parameters"]["properties"], odd)
    if tool == "patch":
        given = {"path": odd, "old": "", "new": "x"}
    doing = place.desk.agent.toolbox.headline(call(tool, given))
    assert doing.isprintable(), doing
