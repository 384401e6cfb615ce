"""The result of a compaction, so that every wire takes it: its items with the summary among them, and its warnings.

There is exactly one summary in the result, and the system prompt has at most one note.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from clew.engines.base import Added, Changed, CompactionItem, Kept, Removed, Summarized, messages_of
from clew.engines.compressor.history import NumberedHistory
from clew.handoff import HANDOFF_OPENING, SYSTEM_NOTE, wrap
from clew.messages import (
    Message,
    Part,
    Repair,
    Repaired,
    Role,
    calls_of,
    text_of,
    with_text_after_system,
    without_cache_markers,
)

NOTHING_TO_FOLD = "Nothing lies between the head and the tail: nothing to fold."
NOT_SMALLER = "The result would not be smaller."
_AGAIN = "This conversation has been compacted {often}; details may get less accurate each time."
_NOTHING_IS_LOST = " Nothing is lost: the compaction can be undone, and the history can be searched."
_REPAIRS_NAMED = 5
_COMPARED_CHARS = 20


def items_of(
    source: Sequence[Message],
    repaired: Repaired,
    history: NumberedHistory,
    staying: Mapping[int, Message],
    head: int,
    folded: Sequence[int],
) -> tuple[CompactionItem, ...]:
    """The items of a compaction that keeps `staying` and folds `folded`, both by positions of `history`.

    The summary follows the first `head` positions and has no text yet. Where nothing is folded, an earlier
    summary stays as it was. Then also what a repair would leave out, put in or move stays as it came: only the text of
    a summary says which numbers the messages behind it have, and without a new one they are counted.
    """
    if not folded:
        staying = _with_merged_handoff(repaired, history, staying)
    stubs = _stubs(repaired)
    before: list[CompactionItem] = []
    behind: list[CompactionItem] = []
    for position, message in staying.items():
        at = history.repaired_position(position)
        unpruned = (history.messages[position], repaired.messages[at])
        item = Added(message) if at in stubs else _item(source, repaired.indexes[at], message, unpruned)
        (before if position < head else behind).append(item)
    if folded:
        behind = _with_summary_first(source, before, behind, _covered(repaired, history, folded, stubs))
    elif history.has_handoff:
        handoff = repaired.messages[history.position]
        behind.insert(0, _item(source, repaired.indexes[history.position], handoff, (handoff,)))
    items = [*before, *behind]
    if not folded and history.has_store and repaired.repairs:
        return _all_as_they_came(len(source), items)
    return (*items, *_removed(len(source), repaired))


def kept_items(
    source: Sequence[Message], repaired: Repaired, positions: Collection[int] | None = None
) -> list[CompactionItem]:
    """The items of a compaction that keeps these positions of the repaired input, or all, and removes the others."""
    stubs = _stubs(repaired)
    items: list[CompactionItem] = []
    for at, message in enumerate(repaired.messages):
        index = repaired.indexes[at]
        if positions is not None and at not in positions:
            items += [] if at in stubs else [Removed(index)]
        else:
            items.append(Added(message) if at in stubs else _item(source, index, message, (message,)))
    return [*items, *_removed(len(source), repaired)]


def with_summary(
    source: Sequence[Message], items: Sequence[CompactionItem], text: str, wrapped: str
) -> tuple[CompactionItem, ...]:
    """The items with the summary written: `text`, and its form in the conversation."""
    return tuple(_written(source, item, text, wrapped) if isinstance(item, Summarized) else item for item in items)


def _written(source: Sequence[Message], item: Summarized, text: str, wrapped: str) -> Summarized:
    if item.merged_with is None:
        message: Message = {**item.message, "content": wrapped}
    else:
        message = without_cache_markers(merged_into(_message_of(source, item.merged_with), wrapped))
    return replace(item, message=message, text=text)


def _item(source: Sequence[Message], index: int, message: Message, unpruned: Sequence[Message]) -> Kept | Changed:
    if message is source[index]:
        return Kept(index)
    if message["role"] in ("system", "developer"):
        # It only gets a note behind it: nothing of it is left out, and it stays cached.
        return Changed(index, message, shortened=False)
    is_whole = any(message is other for other in unpruned)
    return Changed(index, without_cache_markers(message), shortened=not is_whole)


def _message_of(source: Sequence[Message], item: Kept | Changed) -> Message:
    return item.message if isinstance(item, Changed) else source[item.index]


def _stubs(repaired: Repaired) -> frozenset[int]:
    """The positions of what a repair put in: its index is that of a message before it."""
    if not repaired.repairs:
        return frozenset()
    positions = range(len(repaired.indexes))
    first = dict(zip(reversed(repaired.indexes), reversed(positions), strict=True))
    return frozenset(positions).difference(first.values())


def _covered(
    repaired: Repaired, history: NumberedHistory, folded: Sequence[int], stubs: frozenset[int]
) -> tuple[int, ...]:
    """The indexes of the input that the summary represents, an earlier handoff's included."""
    shift = int(history.has_handoff)
    positions = [*range(history.position, history.position + shift), *(position + shift for position in folded)]
    # Without a repair a position is an index.
    return tuple(repaired.indexes[at] for at in positions if at not in stubs) if repaired.repairs else tuple(positions)


def _all_as_they_came(count: int, items: Sequence[CompactionItem]) -> tuple[CompactionItem, ...]:
    """An item for each message of the input, in its order; one that is in none of these items stays unchanged."""
    known = {item.index: item for item in items if isinstance(item, Kept | Changed)}
    return tuple(known.get(index, Kept(index)) for index in range(count))


def _removed(count: int, repaired: Repaired) -> list[Removed]:
    if not repaired.repairs:
        return []
    there = set(repaired.indexes)
    return [Removed(index) for index in range(count) if index not in there]


def _with_merged_handoff(
    repaired: Repaired, history: NumberedHistory, staying: Mapping[int, Message]
) -> Mapping[int, Message]:
    """With an earlier handoff that was merged into a message back in it."""
    earlier, position = history.earlier, history.position
    if earlier is None or earlier.message is None:
        return staying
    if staying[position] is earlier.message:
        return {**staying, position: repaired.messages[position]}
    handoff = wrap(earlier.text, earlier.first, earlier.last, earlier.kept, earlier.following, earlier.leading)
    return {**staying, position: merged_into(staying[position], handoff)}


def _with_summary_first(
    source: Sequence[Message],
    before: Sequence[CompactionItem],
    behind: Sequence[CompactionItem],
    covers: tuple[int, ...],
) -> list[CompactionItem]:
    """The items behind the summary, and the summary before them or merged into the first."""
    neighbours = [next(messages_of(source, side[at:][:1]), None) for side, at in ((before, -1), (behind, 0))]
    first, last = neighbours
    role = role_between(first["role"] if first else "system", last["role"] if last else "assistant")
    if role is not None:
        return [Summarized({"role": role, "content": ""}, covers), *behind]
    merged = behind[0]
    assert isinstance(merged, Kept | Changed)  # a stub has the role of a tool, between which and any other one fits
    return [Summarized(_message_of(source, merged), covers, merged_with=merged), *behind[1:]]


def role_between(before: Role, after: Role) -> Role | None:
    """A role that repeats neither neighbour's; None where both are taken."""
    # Behind the system prompt some wires want a user message first.
    roles: tuple[Role, ...] = ("user",) if before in ("system", "developer") else ("user", "assistant")
    for role in roles:
        if role not in (before, after):
            return role
    return None


def merged_into(message: Message, summary: str) -> Message:
    """The message with the summary before what it says."""
    content = message.get("content")
    if isinstance(content, list):
        part: Part = {"type": "text", "text": summary}
        return {**message, "content": [part, *content]}
    # Without content it stays without: `unwrap` gives back what was there.
    return {**message, "content": summary if content is None else f"{summary}\n\n{content}"}


def with_note(message: Message, *, as_block: bool) -> Message:
    """The system prompt with the note behind it, once. As a separate block, it leaves the prompt before it cached."""
    if HANDOFF_OPENING in text_of(message):
        return message
    return with_text_after_system(message, SYSTEM_NOTE, as_block=as_block)


def repeated_warning(times: int, *, has_store: bool = True) -> str:
    """From the second compaction on; a new process knows only that there was one before."""
    again = _AGAIN.format(often=f"{times} times" if times > 1 else "before")
    return f"{again}{_NOTHING_IS_LOST}" if has_store else again


def repair_warnings(repairs: Sequence[Repair], opening: str = "The history was repaired") -> list[str]:
    """One warning that lists the repairs of the history; no warning without repairs."""
    if not repairs:
        return []
    named = "; ".join(f"message {done.index}: {done.problem} ({done.remedy})" for done in repairs[:_REPAIRS_NAMED])
    more = f"; and {len(repairs) - _REPAIRS_NAMED} more" if len(repairs) > _REPAIRS_NAMED else ""
    return [f"{opening}: {named}{more}."]


def cut_newest_warnings(cut: Mapping[int, tuple[Message, Message]], *, has_store: bool = True) -> list[str]:
    """For the newest messages that were shortened: each as received and as it stays, by its number."""
    whole = "; the whole is in the history, where recall opens it" if has_store else ""
    return [
        f"m{number}, one of the newest messages, has {_how_shortened(*forms)}, so that the rest of the conversation "
        f"has room{whole}."
        for number, forms in cut.items()
    ]


def _how_shortened(came: Message, stays: Message) -> str:
    """What was large in a message, and what is left of it."""
    text, left = text_of(came), text_of(stays)
    if left == text and calls_of(came) != calls_of(stays):
        chars = sum(len(call["function"]["arguments"]) for call in calls_of(came) if "function" in call)
        return f"calls with {chars:,} chars of arguments. Long arguments are shortened"
    if left == text:
        return "pictures. They are left out"
    keeps_ends = left[:_COMPARED_CHARS] == text[:_COMPARED_CHARS]
    return f"{len(text):,} chars. {'Its beginning and its end stay' if keeps_ends else 'One line says what it was'}"
