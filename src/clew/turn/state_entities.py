"""The state of a conversation: its messages are read into a `StateRecord`, whose facts make its entities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clew.facts import FACT_KINDS, Entity, Fact, FactKind, StateRecord, entities_of
from clew.store import Store

_ROWS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class ConversationState:
    """The facts of a conversation about its entities, up to a message."""

    session: str
    next_number: int
    """The number of the message behind the last one that was read."""
    facts: tuple[Fact, ...]

    def entities(self, *, at: int | None = None, kind: FactKind | None = None, words: str = "") -> list[Entity]:
        """The entities by kind, last changed first; `at` a message, of one `kind`, and with all `words`."""
        wanted = words.casefold().split()
        return [
            entity
            for entity in entities_of(self.facts, at)
            if kind in (None, entity.kind)
            and all(word in f"{entity.kind} {entity.name} {entity.value}".casefold() for word in wanted)
        ]


async def read_conversation_state(store: Store, session: str, *, owner: str | None = None) -> ConversationState:
    """The state of a session's conversation now."""
    record = StateRecord()
    first = 0
    while rows := await store.messages(session, first, first + _ROWS_AT_ONCE, owner=owner, keep_damaged=True):
        for row in rows:
            record.add(row.message, row.seq)
        first = rows[-1].seq + 1
    return ConversationState(session, first, tuple(record.facts))


def describe_entity(entity: Entity) -> str:
    """An entity in one line: `setting port in app.toml: 8080, since m40; before: 8000 (m12)`."""
    now, before = entity.now, entity.before
    what = entity.kind if entity.name == entity.kind else f"{entity.kind} {entity.name}"
    often = f" ({entity.times} times, last m{now.number})" if entity.times > 1 and entity.kind == "file" else ""
    line = f"{what}: {entity.value}, since m{entity.since}{often}"
    if now.detail:
        line += f"; {now.detail}"
    if before is not None:
        line += f"; before: {before.value} (m{before.number})"
    return line


def state_lines(entities: Sequence[Entity], most_of_a_kind: int) -> list[str]:
    """Entities as lines, so many of a kind at most, and how many are left out."""
    lines: list[str] = []
    for kind in FACT_KINDS:
        some = [entity for entity in entities if entity.kind == kind]
        lines += (describe_entity(entity) for entity in some[:most_of_a_kind])
        if len(some) > most_of_a_kind:
            lines.append(f"{kind}: {len(some) - most_of_a_kind} more")
    return lines
