"""Messages as rows: their columns, their JSON bodies, texts that are stored once, and the hash chain of a history.

The chain of a message is a hash of it and of all messages before it. It finds a history that is sent again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, cast

from clew.errors import ClewError, DamagedRow, InvalidMessage
from clew.messages import (
    DIGEST_BYTES,
    Message,
    as_sequence,
    calls_of,
    digest,
    is_plain,
    plain_message,
    plain_messages,
    read_conversation,
    refuse_unusable,
)
from clew.store.base import NewMessage
from clew.store.database import (
    RowDamage,
    Steps,
    as_micros,
    column_text,
    execute,
    fetch_one,
    json_text,
    json_value,
    read_json,
)

# Only the first of the messages of the same wire items has a body.
BODY = (
    "COALESCE(m.body, (SELECT f.body FROM messages f WHERE f.conversation = m.conversation AND f.seq = m.seq - m.part))"
)
INSERT_MESSAGE = (
    "INSERT INTO messages (conversation, seq, session, chain, role, tool, at, tokens, dialect, part, body)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)

_TEXT_HASH_BYTES = 20
CHAIN_BYTES = DIGEST_BYTES
"""Rows of earlier builds have shorter chains, by another definition of what a message is."""
FIRST_CHAIN = bytes(CHAIN_BYTES)
"""The chain before the first message."""
_NOT_JSON = (TypeError, ValueError, RecursionError)


def as_new(message: Message | NewMessage) -> NewMessage:
    return message if isinstance(message, NewMessage) else NewMessage(message)


def plain_to_store(messages: Iterable[Any]) -> Sequence[Any]:
    """Messages to store, objects of SDKs as dicts; `InvalidMessage` for one that is no message."""
    listed = messages if isinstance(messages, list) else as_sequence(messages)
    return [_plain_to_store(message, at) for at, message in enumerate(listed)]


def _plain_to_store(message: Any, index: int) -> Any:
    if isinstance(message, NewMessage):
        read = message.message if is_plain(message.message) else plain_message(message.message, index)
        items = message.items if all(map(is_plain, message.items)) else plain_messages(message.items, "items")
        is_same = read is message.message and items is message.items
        return message if is_same else replace(message, message=read, items=items)
    read = message if is_plain(message) else plain_message(message, index)
    if "role" in read or "type" not in read:  # an item of Responses has a type instead
        refuse_unusable(read, index)
    return read


def message_rows(
    start: tuple[int, int, int],
    new_messages: Sequence[NewMessage],
    chains: Sequence[bytes],
    tools: Sequence[str | None],
    now: int,
) -> list[tuple[Any, ...]]:
    """Columns of messages that follow each other; `start` is the conversation, the first number and the session."""
    conversation, first, session = start
    rows: list[tuple[Any, ...]] = []
    read = _WireReads()
    for index, (new, chain, tool) in enumerate(zip(new_messages, chains, tools, strict=True)):
        dialect, part, body = _row_body(new_messages, index, read)
        at = now if new.at is None else as_micros(new.at)
        role = column_text(str(new.message.get("role")))
        rows.append((conversation, first + index, session, chain, role, tool, at, new.tokens, dialect, part, body))
    return rows


def read_messages(found: Iterable[tuple[Any, str | None, int]]) -> Iterator[Message | RowDamage]:
    """Messages from the columns (body, dialect, part); for a row that cannot be read, what is wrong with it."""
    last_body: Any = None
    last_read: tuple[Message, ...] | RowDamage = ()
    for body, dialect, part in found:
        if dialect is None:
            yield read_message(body)
            continue
        if body != last_body or body is None:
            last_body, last_read = body, _read_wire_items(body, dialect)
        if isinstance(last_read, RowDamage):
            yield last_read
        elif 0 <= part < len(last_read):
            yield last_read[part]
        else:
            yield RowDamage(f"its wire items give {len(last_read)} messages, and it is number {part}", body.encode())


def read_message(body: Any) -> Message | RowDamage:
    """A message from its JSON, or what is wrong with it."""
    read = read_json(body)
    if isinstance(read, RowDamage):
        return read
    if not isinstance(read, dict) or not ("role" in read or "type" in read):
        return RowDamage("it has neither a role nor a type", body.encode(errors="surrogatepass"))
    return cast(Message, read)


def _read_wire_items(body: Any, dialect: str) -> tuple[Message, ...] | RowDamage:
    read = read_json(body)
    if isinstance(read, RowDamage):
        return read
    try:
        return read_conversation(read, dialect=dialect).messages  # type: ignore[arg-type]
    except ClewError as error:
        return RowDamage(f"its wire items cannot be read ({error})", body.encode(errors="surrogatepass"))


def damaged_message(seq: int, session: str, damage: RowDamage) -> DamagedRow:
    """The error for a message that cannot be read."""
    return DamagedRow(f"message {seq} of session {session!r}", damage.problem, session=session, seq=seq)


def note_in_place(seq: int, role: str) -> Message:
    """What represents a message that cannot be read: a note in its place, so that no number shifts."""
    speaks = role if role in ("user", "assistant") else "user"
    return cast(Message, {"role": speaks, "content": f"[message {seq} of the history is damaged and cannot be read]"})


def items_of(body: str, dialect: str | None) -> tuple[Any, ...]:
    items = () if dialect is None else read_json(body)
    return () if isinstance(items, RowDamage) else tuple(items)


def tool_names(messages: Iterable[Message]) -> dict[str, str]:
    """Tool names by call id, of all calls in some messages."""
    names: dict[str, str] = {}
    for message in messages:
        for call in calls_of(message):
            function = call.get("function")
            if isinstance(function, Mapping) and isinstance(name := function.get("name"), str):
                names[str(call.get("id"))] = name
    return names


def tool_of(message: Message, names: Mapping[str, str]) -> str | None:
    """The tool of a result; None for other messages, and where its call is not known."""
    if message.get("role") != "tool":
        return None
    name = names.get(str(message.get("tool_call_id"))) or message.get("name")
    return None if name is None else column_text(str(name))


def tools_of(messages: Iterable[Message], names: Mapping[str, str]) -> list[str | None]:
    """The tool of each message, by the newest call of its id before it: some programs use ids again."""
    known, tools = dict(names), list[str | None]()
    for message in messages:
        tools.append(tool_of(message, known))
        known.update(tool_names([message]))
    return tools


def has_unnamed_results(messages: Sequence[Message], names: Mapping[str, str]) -> bool:
    """Whether one of these messages is a result whose call is not known."""
    return any(message.get("role") == "tool" and tool_of(message, names) is None for message in messages)


class _WireReads:
    """Whether wire items give their messages again; items of several messages are read once."""

    def __init__(self) -> None:
        self._items: Sequence[Any] = ()
        self._read: Sequence[Message] = ()

    def gives_back(self, new: NewMessage) -> bool:
        """Whether the items of a message give it again; where they do not, the message itself is stored."""
        if new.items is not self._items:
            self._items, self._read = new.items, read_conversation(list(new.items), dialect=new.dialect).messages
        return new.part < len(self._read) and self._read[new.part] == new.message


def _row_body(new_messages: Sequence[NewMessage], index: int, read: _WireReads) -> tuple[str | None, int, str | None]:
    """Dialect, part and body of the row of one message."""
    new = new_messages[index]
    if new.dialect is None or not read.gives_back(new):
        return None, 0, body_of(new.message, index)
    first = index - new.part
    if new.part == 0:
        return new.dialect, 0, body_of(list(new.items), index)
    # The first one's row has the items, unless they do not give it again.
    has_items = first >= 0 and new_messages[first].part == 0 and _same_items(new_messages[first], new)
    if has_items and read.gives_back(new_messages[first]):
        return new.dialect, new.part, None
    return None, 0, body_of(new.message, index)


def _same_items(one: NewMessage, other: NewMessage) -> bool:
    return one.dialect == other.dialect and list(one.items) == list(other.items)


def body_of(value: Any, index: int) -> str:
    """A message, or its wire items, as JSON text; `InvalidMessage` with its index where it is no JSON."""
    try:
        return json_text(value)
    except _NOT_JSON as error:
        raise _invalid(index, error) from error


def _invalid(index: int, error: Exception) -> InvalidMessage:
    if isinstance(error, RecursionError):
        return InvalidMessage(index, "it is nested too deeply to be stored", "Pass a flatter value")
    return InvalidMessage(index, f"it cannot be written as JSON ({error})", "Pass plain JSON values")


def keep_text(owner: str, text: str) -> Steps[int]:
    """Store a text once per owner; its id."""
    # As JSON: a text may hold what no text column takes, such as NUL or half a surrogate pair.
    return (yield from keep_body(owner, json_text(text)))


def keep_body(owner: str, body: str) -> Steps[int]:
    """Store a JSON body once per owner; its id."""
    text_hash = blake2b(body.encode(), digest_size=_TEXT_HASH_BYTES).digest()
    found = yield from fetch_one("SELECT id FROM texts WHERE owner = ? AND hash = ?", owner, text_hash)
    if found is None:
        yield from execute(
            "INSERT INTO texts (owner, hash, body) VALUES (?, ?, ?) ON CONFLICT (owner, hash) DO NOTHING",
            owner,
            text_hash,
            body,
        )
        found = yield from fetch_one("SELECT id FROM texts WHERE owner = ? AND hash = ?", owner, text_hash)
    assert found is not None
    return int(found[0])


def text_at(text: int, what: str, session: str, keep_damaged: bool = False) -> Steps[str | None]:
    """A stored text; `DamagedRow`, which names it as `what`, or a note, where it cannot be read."""
    found = yield from fetch_one("SELECT body FROM texts WHERE id = ?", text)
    if found is None:
        return None
    if keep_damaged and isinstance(read_json(found[0]), RowDamage):
        return f"[{what} is damaged and cannot be read]"
    return str(json_value(found[0], what, session))


def next_chain(before: bytes, message: Message | NewMessage) -> bytes:
    """The chain after one more message."""
    known = message.digest if isinstance(message, NewMessage) else None
    own = known or digest(message.message if isinstance(message, NewMessage) else message)
    return blake2b(before + own, digest_size=CHAIN_BYTES).digest()


def chains_after(before: bytes, messages: Iterable[Message | NewMessage]) -> list[bytes]:
    """The chain after each of these messages."""
    chains: list[bytes] = []
    for index, message in enumerate(messages):
        try:
            before = next_chain(before, message)
        except _NOT_JSON as error:
            raise _invalid(index, error) from error
        chains.append(before)
    return chains


def chains_of(history: Iterable[Message | NewMessage]) -> list[bytes]:
    """The chain after each message of a whole history."""
    return chains_after(FIRST_CHAIN, history)
