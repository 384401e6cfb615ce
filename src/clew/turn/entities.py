"""The state of a conversation, kept with it in the store: what was read once is not read again.

Changes of entities are stored in records, each over some thousand messages, with what a reader needs to go on behind
them. Whoever asks has the messages read that came since somebody asked last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from clew.errors import StoreError
from clew.ledger import ENTITY_KINDS, Entity, EntityChange, EntityKind, EntityReader, entities_of
from clew.store import EngineRecord, Store

STATE_RECORDS = "state.1"
"""The records are kept as those of an engine of this name. Another form of them gets another name."""
_MESSAGES_PER_RECORD = 2_000
_ROWS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class ConversationState:
    """What a conversation says of its entities, up to a message."""

    session: str
    next_number: int
    """The number of the message behind the last one that was read."""
    changes: tuple[EntityChange, ...]
    read: int = 0
    """How many messages had to be read for it now; the others were read before."""

    def entities(self, *, at: int | None = None, kind: EntityKind | None = None, words: str = "") -> list[Entity]:
        """The entities by kind, what changed last first; as they were behind a message, of a kind, with all words."""
        wanted = words.casefold().split()
        return [
            entity
            for entity in entities_of(self.changes, at)
            if kind in (None, entity.kind)
            and all(word in f"{entity.kind} {entity.name} {entity.value}".casefold() for word in wanted)
        ]


async def read_conversation_state(store: Store, session: str, *, owner: str | None = None) -> ConversationState:
    """The state of a session's conversation now. What is new in it is read, and kept for the next time."""
    records = await _records(store, session, owner)
    reader, first = _reader_of(records)
    read = 0
    while rows := await store.messages(
        session, reader.next_number, reader.next_number + _ROWS_AT_ONCE, owner=owner, keep_damaged=True
    ):
        for row in rows:
            reader.add(row.message, row.seq)
        read += len(rows)
        if reader.next_number - first >= _MESSAGES_PER_RECORD:
            await _keep(store, session, owner, reader, first)
            first = reader.next_number
    if read and reader.next_number > first:
        await _keep(store, session, owner, reader, first)
    return ConversationState(session, reader.next_number, tuple(reader.changes), read)


async def _records(store: Store, session: str, owner: str | None) -> list[EngineRecord]:
    records = page = await store.engine_records(session, STATE_RECORDS, owner=owner)
    while page:
        page = await store.engine_records(session, STATE_RECORDS, after=page[-1].id, owner=owner)
        records += page
    return sorted(records, key=lambda record: int(record.id))


def _reader_of(records: Sequence[EngineRecord]) -> tuple[EntityReader, int]:
    """A reader that goes on behind what was kept, and the first message of the record that it goes on with."""
    changes = [change for record in records for change in _changes(record.value)]
    if not records:
        return EntityReader(), 0
    last = records[-1]
    reader = EntityReader(changes, last.value["context"])
    is_full = reader.next_number - int(last.id) >= _MESSAGES_PER_RECORD
    return reader, reader.next_number if is_full else int(last.id)


async def _keep(store: Store, session: str, owner: str | None, reader: EntityReader, first: int) -> None:
    """Keep what was read from a message on; a database that cannot be written to is read again the next time."""
    kept = [change for change in reader.changes if change.number >= first]
    plain = [[change.kind, change.name, change.value, change.number, change.detail] for change in kept]
    record = EngineRecord(str(first), {"changes": plain, "context": reader.context}, reader.next_number)
    try:
        await store.put_engine_records(session, STATE_RECORDS, [record], owner=owner)
    except StoreError:
        return


def _changes(value: Any) -> Iterable[EntityChange]:
    return (EntityChange(*plain) for plain in value["changes"])


# -- as text -----------------------------------------------------------------------------------------------------------


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
    for kind in ENTITY_KINDS:
        some = [entity for entity in entities if entity.kind == kind]
        lines += (describe_entity(entity) for entity in some[:most_of_a_kind])
        if len(some) > most_of_a_kind:
            lines.append(f"{kind}: {len(some) - most_of_a_kind} more")
    return lines
