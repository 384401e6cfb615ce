"""Rows and messages: how a message is laid into a row, and read out of one. Knows columns, and no transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from clew.messages import Message, calls_of, read_conversation
from clew.store.base import NewMessage
from clew.store.clock import as_micros
from clew.store.encoding import body_of, column_text, json_value, message_of

# A message that came from the same wire items as the row before it has no body of its own.
BODY = (
    "COALESCE(m.body, (SELECT f.body FROM messages f WHERE f.conversation = m.conversation AND f.seq = m.seq - m.part))"
)
INSERT_MESSAGE = (
    "INSERT INTO messages (conversation, seq, session, chain, role, tool, at, tokens, dialect, part, body)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def as_new(message: Message | NewMessage) -> NewMessage:
    return message if isinstance(message, NewMessage) else NewMessage(message)


def message_rows(
    place: tuple[int, int, int],
    news: Sequence[NewMessage],
    chains: Sequence[bytes],
    tools: Sequence[str | None],
    now: int,
) -> list[tuple[Any, ...]]:
    """Rows for messages that follow each other, from a place: conversation, first number, session."""
    conversation, first, session = place
    rows: list[tuple[Any, ...]] = []
    for index, (new, chain, tool) in enumerate(zip(news, chains, tools, strict=True)):
        dialect, part, body = _laid(news, index)
        at = now if new.at is None else as_micros(new.at)
        role = column_text(str(new.message.get("role")))
        rows.append((conversation, first + index, session, chain, role, tool, at, new.tokens, dialect, part, body))
    return rows


def read_messages(found: Iterable[tuple[str, str | None, int]]) -> Iterator[Message]:
    """Messages out of (body, dialect, part)."""
    last_body, last_read = None, tuple[Message, ...]()
    for body, dialect, part in found:
        if dialect is None:
            yield message_of(body)
            continue
        if body != last_body:
            last_body, last_read = body, read_conversation(json_value(body), dialect=dialect).messages  # type: ignore[arg-type]
        yield last_read[part]


def items_of(body: str, dialect: str | None) -> tuple[Any, ...]:
    return () if dialect is None else tuple(json_value(body))


def tool_names(messages: Iterable[Message]) -> dict[str, str]:
    """Of the calls in some messages, which tool each id called."""
    names: dict[str, str] = {}
    for message in messages:
        for call in calls_of(message):
            function = call.get("function")
            if isinstance(function, Mapping) and isinstance(name := function.get("name"), str):
                names[str(call.get("id"))] = name
    return names


def tool_of(message: Message, names: Mapping[str, str]) -> str | None:
    """The tool that a result came from."""
    if message.get("role") != "tool":
        return None
    name = names.get(str(message.get("tool_call_id"))) or message.get("name")
    return None if name is None else column_text(str(name))


def tools_of(messages: Iterable[Message], names: Mapping[str, str]) -> list[str | None]:
    """Per message the tool that it came from, by the newest call before it: some programs use an id again."""
    known, tools = dict(names), list[str | None]()
    for message in messages:
        tools.append(tool_of(message, known))
        known.update(tool_names([message]))
    return tools


def unnamed_results(messages: Sequence[Message], names: Mapping[str, str]) -> bool:
    """Whether a result among these answers a call that is not among them."""
    return any(message.get("role") == "tool" and tool_of(message, names) is None for message in messages)


def _laid(news: Sequence[NewMessage], index: int) -> tuple[str | None, int, str | None]:
    """Dialect, part and body of the row of one message."""
    new = news[index]
    if new.dialect is None or not _reads_back(new):
        return None, 0, body_of(new.message, index)
    first = index - new.part
    if new.part == 0:
        return new.dialect, 0, body_of(list(new.items), index)
    if first >= 0 and _same_items(news[first], new) and news[first].part == 0:
        return new.dialect, new.part, None
    return None, 0, body_of(new.message, index)


def _same_items(one: NewMessage, other: NewMessage) -> bool:
    return one.dialect == other.dialect and list(one.items) == list(other.items)


def _reads_back(new: NewMessage) -> bool:
    """Whether the items give this message again; what does not is stored as itself."""
    read = read_conversation(list(new.items), dialect=new.dialect).messages
    return new.part < len(read) and read[new.part] == new.message
