"""A conversation in the shapes that other programs read; what was stored as a wire wrote it is given back so."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from clew.messages import DialectName, Message, convert
from clew.store.base import StoredMessage
from clew.store.store import Store

_PAGE_ROWS = 500


async def history_rows(store: Store, session: str, start: int = 0) -> AsyncIterator[StoredMessage]:
    """The whole history of a session's conversation, read page by page."""
    while page := await store.messages(session, start, start + _PAGE_ROWS, keep_damaged=True):
        for row in page:
            yield row
        start = page[-1].seq + 1


def export_in_shape(
    shape: str, model: str | None, system: str | None, messages: Sequence[Message], rows: Sequence[StoredMessage] = ()
) -> Any:
    """The conversation as a list of messages (`jsonl`), an object with them (`chat`, `openai_chat`), or the fields of a
    request (`anthropic`, `responses`). `rows` are those of the messages, where they are the history as stored.
    """
    whole = [*system_message(system, messages), *messages]
    if shape == "jsonl":
        return whole
    head = {"model": model} if model else {}
    if shape in ("chat", "openai_chat"):
        return {**head, "messages": whole}
    dialect: DialectName = "anthropic" if shape == "anthropic" else "responses"
    if rows and all(row.dialect == dialect for row in rows):
        items = [item for row in rows if row.part == 0 for item in row.items]
        encoded = convert(items, dialect, dialect=dialect)
        lead = convert(system_message(system, messages), dialect, dialect="openai_chat") if system else {}
        return {**head, **lead, **encoded}
    return {**head, **convert(whole, dialect, dialect="openai_chat")}


def system_message(system: str | None, messages: Iterable[Message]) -> list[Message]:
    """The system prompt as a message, unless the history brings one itself."""
    first = next(iter(messages), None)
    if system is None or (first is not None and first.get("role") in ("system", "developer")):
        return []
    return [{"role": "system", "content": system}]
