"""What every compaction promises, whichever engine made it, checked against the messages it was made from.

Pure functions; each gives back the broken promises in words. For a history that needs no repair: what becomes of a
broken one is the engine's affair, as long as it does not raise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clew.engines.base import Compaction, Fate
from clew.messages import Message, calls_of, images_of, repair, text_of
from clew.tokens import count_tokens


def broken_promises(before: Sequence[Message], done: Compaction) -> list[str]:
    """Everything that is wrong with a compaction of these messages; empty when it may be sent."""
    return [problem for promise in _PROMISES for problem in promise(before, done)]


def _account_adds_up(before: Sequence[Message], done: Compaction) -> Iterator[str]:
    if done.tokens_after > done.tokens_before:
        yield f"by its own account it grew from {done.tokens_before:,} to {done.tokens_after:,} tokens"
    if not done.changed and done.tokens_after != done.tokens_before:
        yield f"nothing changed, but {done.tokens_before:,} tokens became {done.tokens_after:,}"
    if len(done.fates) != len(before):
        yield f"it tells the fates of {len(done.fates)} messages; the input has {len(before)}"
    first, last = done.replaced
    if not 0 <= first <= last <= len(before):
        yield f"replaced = {done.replaced} does not lie within the {len(before)} messages of the input"


def _changed_says_whether(before: Sequence[Message], done: Compaction) -> Iterator[str]:
    same = list(done.messages) == list(before)
    if done.changed == same:
        yield f"changed is {done.changed}, but the messages are {'the same' if same else 'other ones'}"


def _is_not_larger(before: Sequence[Message], done: Compaction) -> Iterator[str]:
    was, now = count_tokens(before), count_tokens(done.messages)
    if done.changed and now > was:
        yield f"the result is larger: {was:,} tokens became {now:,}"


def _stays_sound(before: Sequence[Message], done: Compaction) -> Iterator[str]:
    """Calls with their results, and nothing that a provider would refuse."""
    # What was not sound before need not be so now.
    if repair(before, open_end=True).repairs:
        return
    for wrong in repair(done.messages, open_end=True).repairs:
        yield f"message {wrong.index} of the result: {wrong.problem}"


def _keeps_the_system_prompt(before: Sequence[Message], done: Compaction) -> Iterator[str]:
    for message in before:
        if message.get("role") in ("system", "developer") and not _stands_in(message, done.messages):
            yield f"the {message.get('role')} prompt is no longer there word for word: {_opening(message)}"


def _keeps_the_newest_request(before: Sequence[Message], done: Compaction) -> Iterator[str]:
    newest = next((message for message in reversed(before) if message.get("role") == "user"), None)
    if newest is not None and not _stands_in(newest, done.messages):
        yield f"the newest user message is no longer there word for word: {_opening(newest)}"


def _keeps_what_it_calls_kept(before: Sequence[Message], done: Compaction) -> Iterator[str]:
    there = set(map(id, done.messages))
    for index, (message, fate) in enumerate(zip(before, done.fates, strict=False)):
        if fate is Fate.KEPT and id(message) not in there and not _stands_in(message, done.messages):
            yield f"message {index} of the input counts as kept but is not there: {_opening(message)}"


def _stands_in(message: Message, messages: Sequence[Message]) -> bool:
    """Whether a message of the same role says all of this one, perhaps with a summary or a note beside it."""
    return any(other is message or _says_all_of(message, other) for other in messages)


def _says_all_of(message: Message, other: Message) -> bool:
    if other.get("role") != message.get("role") or calls_of(other) != calls_of(message):
        return False
    pictures = images_of(other)
    return text_of(message) in text_of(other) and all(picture in pictures for picture in images_of(message))


def _opening(message: Message) -> str:
    return repr(text_of(message)[:60])


_PROMISES = (
    _account_adds_up,
    _changed_says_whether,
    _is_not_larger,
    _stays_sound,
    _keeps_the_system_prompt,
    _keeps_the_newest_request,
    _keeps_what_it_calls_kept,
)
