"""Kept for certain, after 1, 5 and 20 compactions: the task, the first request, rules, changed files, last errors.

Three ways of holding a conversation: an engine that sees each message as it arrives, an engine that sees only the view
it is asked to compact, and `clew.compress` on nothing but its own last result.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import clew
from clew.engines import ContextCompressor
from clew.handoff import unwrap
from clew.messages import Message, calls_of, text_of
from clew.testing import assistant, call, system, tool, user
from clew.tokens import count_tokens

pytestmark = pytest.mark.slow

WINDOW = 32_000
Compactor = Callable[[Sequence[Message], Sequence[Message]], Sequence[Message]]

RULES = (
    "Never touch prod_{n}.db.",
    "Always run the linter before commit {n}.",
    "Do not add dependency number {n}.",
    "You must keep the signature of handler_{n} as it is.",
    "不要修改第{n}号配置文件。",
    "Niemals den Dienst {n} neu starten.",
)
ERRORS = (
    "ImportError: no module named feed_{n}",
    "ValueError: {n} rows are missing -> see part (b)",
    "AssertionError: assert {n} == 0",
    "fatal: couldn't find remote ref branch_{n}",
    "error: linker command failed for part_{n}",
)


def with_observing() -> Compactor:
    engine = ContextCompressor(WINDOW)

    def compact(view: Sequence[Message], new: Sequence[Message]) -> Sequence[Message]:
        engine.observe(new)
        return asyncio.run(engine.compress(view, force=True)).messages

    return compact


def without_observing() -> Compactor:
    engine = ContextCompressor(WINDOW)

    def compact(view: Sequence[Message], new: Sequence[Message]) -> Sequence[Message]:
        return asyncio.run(engine.compress(view, force=True)).messages

    return compact


def stateless() -> Compactor:
    def compact(view: Sequence[Message], new: Sequence[Message]) -> Sequence[Message]:
        # Through JSON, as it would come back over a wire: no object is the same.
        kept: list[Message] = clew.compress(json.loads(json.dumps(view)), context_length=WINDOW).messages
        return kept

    return compact


@dataclass
class Plan:
    """Which facts are planted between one compaction and the next."""

    rule: int | None = None
    error: int | None = None
    again: bool = False
    """The same command as ever fails, each time otherwise."""
    by_shell: bool = False
    late: bool = False
    """The facts come at the end, so that they stand in the tail before they are folded."""
    silent: bool = False
    """Nobody says anything: the agent goes on by itself."""
    lines: int = 60


@dataclass
class Conversation:
    """A conversation that grows, and what must never leave it."""

    plans: Sequence[Plan]
    view: list[Message] = field(default_factory=lambda: [system("You are careful.")])
    facts: dict[str, str] = field(default_factory=dict)
    """By what they are about; a later one of the same kind takes the place of an earlier."""
    newest: str = ""
    steps: int = 0

    def grow(self, number: int) -> list[Message]:
        plan = self.plans[number % len(self.plans)]
        new = [*self._asked(number, plan)]
        facts = [*self._facts(number, plan)]
        work: list[Message] = []
        tokens = count_tokens([*self.view, *new, *facts])
        while tokens < WINDOW // 2:
            text = "".join(f"part {self.steps}, row {line * 7919 + self.steps}: salt\n" for line in range(plan.lines))
            read = [*self._called("read_file", {"path": f"library/part_{self.steps}.txt"}, text)]
            tokens += count_tokens(read)
            work += read
        new += [*work, *facts] if plan.late else [*facts, *work]
        self.view += new
        return new

    def _asked(self, number: int, plan: Plan) -> Iterator[Message]:
        if number == 0:
            self.facts["first task"] = "Move the orders importer to the new feed, as ticket ORD-4711 says."
            yield user(self.facts["first task"])
            yield assistant("I will.")
        if plan.silent and number:
            return
        said = [f"Go on with step {number} of it and tell me what batch {number * 37} needs."]
        if plan.rule is not None:
            rule = RULES[plan.rule].format(n=number)
            self.facts[f"rule {number}"] = rule
            said.append(rule)
        self.newest = " ".join(said)
        yield user(self.newest)

    def _facts(self, number: int, plan: Plan) -> Iterator[Message]:
        path = f"importer/step_{number}.py"
        self.facts[f"file {number}"] = path
        if plan.by_shell:
            yield from self._called("terminal", {"command": f"sed -i 's/old/new/' {path}"}, "exit code 0")
        else:
            yield from self._called("write_file", {"path": path, "content": "rows = []\n" * 80}, f"wrote {path}")
        if plan.error is None:
            return
        command = "make integration" if plan.again else f"pytest tests/test_{number}.py"
        error = ERRORS[plan.error].format(n=number * 41)
        self.facts[f"error of {command}"] = error
        log = "one of many checks is running\n" * 40
        yield from self._called("terminal", {"command": command}, f"{log}{error}\nexit code 1")

    def _called(self, name: str, arguments: dict[str, Any], result: str) -> Iterator[Message]:
        self.steps += 1
        made = call(name, arguments, id=f"call_{self.steps}")
        yield assistant(None, [made])
        yield tool(made["id"], result)


def said_in(view: Sequence[Message]) -> str:
    parts: list[str] = []
    for message in view:
        parts.append(text_of(message))
        parts += [each["function"]["arguments"] for each in calls_of(message)]
    return "\n".join(parts)


def check(conversation: Conversation, after: int) -> None:
    view = conversation.view
    said = said_in(view)
    lost = {about: fact for about, fact in conversation.facts.items() if fact not in said}
    assert not lost, f"lost after {after} compactions"
    assert any(message["role"] == "user" and text_of(message).endswith(conversation.newest) for message in view)
    [summary] = [found.text for message in view if (found := unwrap(message))]
    section = summary.partition("## Completed actions\n")[2].partition("\n## ")[0]
    numbers = [int(found) for found in re.findall(r"^(\d+)\. ", section, re.MULTILINE)]
    assert numbers == [*range(1, len(numbers) + 1)]


def compacted(compact: Compactor, plans: Sequence[Plan], times: int) -> None:
    conversation = Conversation(plans)
    for number in range(times):
        new = conversation.grow(number)
        conversation.view = list(compact(conversation.view, conversation.view if number == 0 else new))
        check(conversation, number + 1)


plans = st.builds(
    Plan,
    rule=st.none() | st.integers(0, len(RULES) - 1),
    error=st.none() | st.integers(0, len(ERRORS) - 1),
    again=st.booleans(),
    by_shell=st.booleans(),
    late=st.booleans(),
    silent=st.booleans(),
    lines=st.integers(20, 120),
)
MODES = {"observing": with_observing, "not observing": without_observing, "stateless": stateless}
once_each = (Phase.explicit, Phase.generate)


@pytest.mark.parametrize("mode", MODES)
@settings(max_examples=4, deadline=None, phases=once_each)
@given(st.lists(plans, min_size=1, max_size=5))
def test_everything_certain_is_there_after_1_and_after_5_compactions(mode: str, how: list[Plan]) -> None:
    compacted(MODES[mode](), how, 5)


TYPICAL = [
    Plan(rule=0, error=0),
    Plan(rule=4, error=1, again=True, late=True),
    Plan(by_shell=True),
    Plan(error=2, late=True),
    Plan(rule=1, silent=True, by_shell=True, late=True),
    Plan(error=3, again=True),
    Plan(),
]


@pytest.mark.parametrize("mode", ["observing", "stateless"])
def test_everything_certain_is_there_after_20_compactions(mode: str) -> None:
    compacted(MODES[mode](), TYPICAL, 20)
