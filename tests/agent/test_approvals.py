"""Who is asked, what an agreement covers, and what holds when nobody is there."""

from __future__ import annotations

import asyncio
from pathlib import Path

from clew.agent import Risk
from clew.agent.approvals import ApprovalAnswer, Approvals
from clew.agent.command_risk import risk_of_command

PROJECT = Path("/home/someone/project")


class Person:
    """Gives the answers it was told to, and keeps what it was asked."""

    def __init__(self, *answers: tuple[ApprovalAnswer, str]) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, tool: str, risk: Risk) -> tuple[ApprovalAnswer, str]:
        self.asked.append(f"{tool}: {risk.action}")
        return self._answers.pop(0)


def risk_of(command: str) -> Risk:
    risk = risk_of_command(command, PROJECT)
    assert risk is not None
    return risk


async def test_an_agreement_once_is_asked_for_again() -> None:
    person = Person(("once", ""), ("once", ""))
    approvals = Approvals(ask=person)
    assert (await approvals.decide("terminal", risk_of("git push"))).allowed
    assert (await approvals.decide("terminal", risk_of("git push"))).allowed
    assert person.asked == ["terminal: run: git push"] * 2


async def test_an_agreement_for_the_session_covers_the_same_sort() -> None:
    person = Person(("session", ""))
    approvals = Approvals(ask=person)
    assert (await approvals.decide("terminal", risk_of("git push"))).allowed
    assert (await approvals.decide("terminal", risk_of("git push origin main"))).allowed
    assert len(person.asked) == 1


async def test_an_agreement_to_delete_one_folder_allows_no_other() -> None:
    person = Person(("session", ""), ("no", ""), ("no", ""), ("no", ""))
    approvals = Approvals(ask=person)
    assert (await approvals.decide("terminal", risk_of("rm -rf assets"))).allowed
    assert (await approvals.decide("terminal", risk_of("rm -rf ./assets"))).allowed
    for worse in ("rm -rf src", "rm -rf /", "rm -rf assets && git push --force"):
        assert not (await approvals.decide("terminal", risk_of(worse))).allowed


async def test_the_worst_is_covered_by_an_agreement_to_exactly_it() -> None:
    person = Person(("session", ""), ("no", ""))
    approvals = Approvals(ask=person)
    assert (await approvals.decide("terminal", risk_of("sudo ls"))).allowed
    assert (await approvals.decide("terminal", risk_of("sudo ls"))).allowed
    assert not (await approvals.decide("terminal", risk_of("sudo rm x"))).allowed


async def test_an_agreement_holds_for_its_own_tool_only() -> None:
    person = Person(("session", ""), ("no", ""))
    approvals = Approvals(ask=person)
    risk = Risk("x", ("y",), "the same scope")
    assert (await approvals.decide("read_file", risk)).allowed
    assert not (await approvals.decide("write_file", risk)).allowed


async def test_calls_side_by_side_are_asked_about_one_after_another() -> None:
    asked = 0

    async def ask(tool: str, risk: Risk) -> tuple[ApprovalAnswer, str]:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0)
        return "session", ""

    approvals = Approvals(ask=ask)
    both = await asyncio.gather(*(approvals.decide("terminal", risk_of("git push")) for _ in range(3)))
    assert all(decision.allowed for decision in both)
    assert asked == 1


async def test_a_refusal_tells_the_model_why_and_what_was_said() -> None:
    approvals = Approvals(ask=Person(("no", "use the staging branch")))
    decision = await approvals.decide("terminal", risk_of("git push"))
    assert not decision.allowed
    assert "sends commits to a remote" in decision.reason
    assert "use the staging branch" in decision.reason


async def test_where_nobody_can_be_asked_it_is_refused() -> None:
    decision = await Approvals().decide("terminal", risk_of("git push"))
    assert not decision.allowed
    assert "nobody is here to approve" in decision.reason


async def test_the_modes_ask_nobody() -> None:
    person = Person()
    assert (await Approvals("allow", person).decide("terminal", risk_of("git push"))).allowed
    assert not (await Approvals("deny", person).decide("terminal", risk_of("git push"))).allowed
    assert person.asked == []
