"""Writing the text of a node: by a model, by it in half the room, or by the built-in summariser, which always fits.

What the last one wrote is provisional: a model writes it again later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from clew.config import LosslessSettings
from clew.engines.compaction import Node
from clew.engines.compressor.history import MessageSizes, read_from
from clew.engines.compressor.plan import CompactionPlan, summary_input
from clew.engines.lossless.budgets import MapBudgets, ModelAllowance
from clew.engines.lossless.nodes import node_id
from clew.errors import SummaryFailed
from clew.ledger import Ledger
from clew.messages import Message
from clew.redact import redact_messages
from clew.summaries import (
    BUILTIN,
    Cooldowns,
    Handoff,
    Summarize,
    Summary,
    SummaryInput,
    parse_handoff,
    summarize_builtin,
)
from clew.summaries.exchanges import AS_TASK, ASKED_ABOVE
from clew.summaries.handoff import (
    ACTIVE_TASK,
    BLOCKED,
    COMPLETED,
    CONTINUED,
    FILES,
    GOAL,
    IN_PROGRESS,
    RULES,
    STATE,
    STILL_ASKED,
    number_at_end,
    number_in,
)

Clock = Callable[[], float]
_TRIES_TO_FIT = 6
# What a part in the middle of a conversation says under these was true at its end and is told by the parts behind it.
_LAST_ONLY = (STATE, IN_PROGRESS, BLOCKED)
_COMPARED_CHARS = 60
# Of what a node may have: the files that were touched under it, of which each leaf names its own.
_SHARE_OF_FILES = 4
_BETWEEN_FILES = " · "


@dataclass(slots=True)
class NodeWriter:
    """Writes nodes within one sweep. What it asked of models, and has to tell people, is read from it afterwards."""

    sizes: MessageSizes
    budgets: MapBudgets
    settings: LosslessSettings
    summarize: Summarize | None
    allowance: ModelAllowance = field(default_factory=ModelAllowance)
    cooldowns: Cooldowns = field(default_factory=Cooldowns)
    focus: str | None = None
    taken: set[str] = field(default_factory=set)
    """The ids that there are."""
    clock: Clock = time.time
    warnings: list[str] = field(default_factory=list)
    _known_clean: dict[int, Message] = field(default_factory=dict)
    """By number, the messages of the sweep without their secrets: leaves and the map are told of the same ones."""

    async def leaf(self, first: int, rows: Sequence[tuple[int, Message]], last: int, covered: int) -> Node:
        """The node over messages, given by number, of `covered` tokens; it stands for `first` up to `last`."""
        source = _source(self._clean(rows), first, last, self.focus)
        budget = self.budgets.leaf(covered)
        written = await self._written(source, budget, covered, partial(summarize_builtin, source))
        return self._node(0, first, last, written, covered)

    async def condensed(self, children: Sequence[Node]) -> Node:
        """The node over other nodes, oldest first."""
        first, last = children[0].first, children[-1].last
        told, covered = sum(child.tokens for child in children), sum(child.covered_tokens for child in children)
        rows: list[tuple[int, Message]] = [
            (child.first, {"role": "assistant", "content": child.text}) for child in children
        ]
        source = _source(_CleanMessages(rows, {}), first, last, self.focus)
        budget = self.budgets.condensed(told, covered)
        written = await self._written(source, budget, told, partial(_merged, children))
        node = self._node(1 + max(child.depth for child in children), first, last, written, covered)
        return replace(node, children=tuple(child.id for child in children))

    async def again(self, old: Node, rows: Sequence[tuple[int, Message]], children: Sequence[Node]) -> Node | None:
        """A better text for a provisional node, by a model; None where none could be had now."""
        if self.summarize is None:
            return None
        covered = self.sizes.total([message for _, message in rows])
        new = await (self.condensed(children) if children else self.leaf(old.first, rows, old.last, covered))
        if not new.is_final:
            return None
        # The depth of what it was made from may have been lost with a map that was read from its text.
        return replace(new, depth=old.depth, replaces=old.id)

    def map_source(self, plan: CompactionPlan, rows: Sequence[tuple[int, Message]], first: int) -> SummaryInput:
        """What the map tells from messages themselves, of those from `first` on."""
        history = plan.history
        later = history.numbers[plan.cut.tail :] if first < plan.covered[1] else ()
        clean = self._clean([*rows, *zip(later, history.messages[len(history.messages) - len(later) :], strict=True)])
        return replace(summary_input(plan, _LaterLedger(clean), clean.read, first), focus=self.focus)

    def _clean(self, rows: Sequence[tuple[int, Message]]) -> _CleanMessages:
        return _CleanMessages(rows, self._known_clean)

    # -- the three levels ----------------------------------------------------------------------------------------------

    async def _written(
        self, source: SummaryInput, budget: int, covered: int, built_in: Callable[..., object]
    ) -> tuple[Summary, bool]:
        """The summary, and whether it is final."""
        for room in (budget, budget // 2):
            by_model = await self._by_model(source, room)
            if by_model is None:
                break
            text = node_text(by_model.text)
            if text and self.sizes.text(text) <= min(budget, covered - 1):
                return replace(by_model, text=text), by_model.written_by != BUILTIN
        return await self._fitting(built_in, budget, covered), False

    async def _by_model(self, source: SummaryInput, budget: int) -> Summary | None:
        if self.summarize is None:
            return None
        refusal = self.allowance.refusal(self.clock(), self.settings)
        if refusal:
            # The seconds in it would make each of them another one.
            if not any(told[:24] == refusal[:24] for told in self.warnings):
                self.warnings.append(refusal)
            return None
        try:
            summary = await self.summarize(replace(source, cooldowns=self.cooldowns), budget)
        except SummaryFailed as failure:
            self._note_call(failed=True)
            self._warn([f"A part of the map could not be written by a model: {failure}"])
            return None
        self.cooldowns = self.cooldowns if summary.cooldowns is None else summary.cooldowns
        self._note_call(failed=summary.written_by == BUILTIN)
        self._warn(summary.warnings)
        return summary

    def _note_call(self, *, failed: bool) -> None:
        self.allowance = self.allowance.after_call(self.clock(), self.settings, failed=failed)

    def _warn(self, warnings: Iterable[str]) -> None:
        self.warnings += (warning for warning in warnings if warning not in self.warnings)

    async def _fitting(self, built_in: Callable[..., object], budget: int, covered: int) -> Summary:
        """By the built-in summariser, smaller than what it covers whatever that is."""
        room = budget
        for _ in range(_TRIES_TO_FIT):
            summary: Summary = await built_in(room, self.sizes.text)  # type: ignore[misc]
            text = node_text(summary.text)
            if self.sizes.text(text) <= min(budget, covered - 1):
                return replace(summary, text=text)
            room = room * 2 // 3
        return replace(summary, text="")

    def _node(self, depth: int, first: int, last: int, written: tuple[Summary, bool], covered: int) -> Node:
        summary, is_final = written
        name = node_id(first, last, self.taken)
        self.taken.add(name)
        tokens = self.sizes.text(summary.text)
        return Node(
            name, depth, first, last, summary.text, tokens, covered, summary.written_by, summary.template, is_final
        )


def node_text(summary: str) -> str:
    """A handoff as the text of a node.

    What it calls the goal and the active task was asked within it: both are told among the requests, not as those of
    today. Headings with nothing under them are left out.
    """
    handoff = parse_handoff(summary)
    sections = {heading: list(lines) for heading, lines in handoff.sections.items()}
    asked, first = sections.pop(ACTIVE_TASK, []), sections.pop(GOAL, [])
    # A rule may be only a part of what was asked in the same message.
    known = {number_at_end(line): line for line in (*sections.get(RULES, []), *first, *asked)}
    told = [_told_in_place(entry, known) for entry in sections.get(COMPLETED, []) if not _says_nothing(entry)]
    everything = "\n".join(told)
    first, asked = ([line for line in some if line[:_COMPARED_CHARS] not in everything] for some in (first, asked))
    sections[COMPLETED] = [*first, *told, *(line for line in asked if line not in first)]
    blocks = ("\n" + Handoff(sections).render()).split("\n## ")[1:]
    kept = [block for block in blocks if block.partition("\n")[2].strip().rstrip(".").lower() not in ("", "none")]
    return "\n\n".join(f"## {block.strip()}" for block in kept)


def _says_nothing(entry: str) -> bool:
    """Whether it only says that what was asked before went on."""
    return entry.startswith(STILL_ASKED) and CONTINUED not in entry


def _told_in_place(entry: str, known: Mapping[int, str]) -> str:
    """An entry with the words of the request, where it says that they stand above."""
    first, gap, rest = entry.partition(CONTINUED)
    request = known.get(number_at_end(first)) if first.startswith((AS_TASK, ASKED_ABOVE)) else None
    return f"{request or first}{gap}{rest}"


# -- what a node is written from ---------------------------------------------------------------------------------------


def _source(clean: _CleanMessages, first: int, last: int, focus: str | None) -> SummaryInput:
    """What a summariser reads of some messages. Secrets are taken out and the ledger is made when it asks for them."""
    return SummaryInput(
        _LaterLedger(clean), clean.read, first, last, focus=focus, is_redacted=True, is_part=True
    )  # fmt: skip


class _CleanMessages:
    """Messages by number, without their secrets, read when one is asked for; `known` are those that were before."""

    def __init__(self, rows: Sequence[tuple[int, Message]], known: dict[int, Message]) -> None:
        self._rows = rows
        self._known = known
        self._by_number: Mapping[int, Message] | None = None

    def numbered(self) -> Mapping[int, Message]:
        if self._by_number is None:
            # A stub has the number of the message that called, which comes before it.
            rows = dict(reversed(self._rows))
            new = [number for number in rows if number not in self._known]
            self._known.update(zip(new, redact_messages([rows[number] for number in new]), strict=True))
            self._by_number = {number: self._known[number] for number in sorted(rows)}
        return self._by_number

    def read(self, number: int) -> Message:
        return read_from(self.numbered(), number)


class _LaterLedger(Ledger):
    """The ledger of messages that is made when something is first read of it."""

    def __init__(self, source: _CleanMessages) -> None:
        self._source = source

    def __getattr__(self, name: str) -> object:
        # Only called for what is not there yet.
        if name.startswith("__") or "_source" not in vars(self):
            raise AttributeError(name)
        numbered = self.__dict__.pop("_source").numbered()
        vars(self).update(vars(Ledger.of(list(numbered.values()), list(numbered))))
        return getattr(self, name)


async def _merged(children: Sequence[Node], budget: int, count: Callable[[str], int]) -> Summary:
    """The nodes as one handoff, without a model: their entries in order, the oldest told in fewer words."""
    sections = merged_sections([parse_handoff(child.text) for child in children])
    sections[FILES] = files_in_room(sections.get(FILES, []), budget // _SHARE_OF_FILES, count)
    last = children[-1].last
    source = SummaryInput(Ledger(last), partial(read_from, {}), last, last, Handoff(sections), is_redacted=True)
    return await summarize_builtin(source, budget, count)


def merged_sections(handoffs: Sequence[Handoff]) -> dict[str, list[str]]:
    """The lines of several handoffs, oldest first, each once; how things stood only by the last."""
    sections: dict[str, list[str]] = {}
    for position, handoff in enumerate(handoffs):
        for heading, lines in handoff.sections.items():
            if heading in _LAST_ONLY and position < len(handoffs) - 1:
                continue
            kept = sections.setdefault(heading, [])
            kept += (line for line in lines if line not in kept)
    return sections


def files_in_room(lines: Sequence[str], budget: int, count: Callable[[str], int]) -> list[str]:
    """The files that the lines name, the newest first, as far as the budget reaches: the story needs the rest."""
    files = sorted((file for line in lines for file in line.split(_BETWEEN_FILES)), key=number_in, reverse=True)
    fitting = next((n for n in range(len(files), 0, -1) if count(_BETWEEN_FILES.join(files[:n])) <= budget), 0)
    return [_BETWEEN_FILES.join(files[:fitting])] if fitting else []
