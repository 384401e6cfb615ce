"""What every compaction promises, whichever engine made it, and a quick check of an engine on this machine.

`broken_promises` is for a history that needs no repair: what becomes of a broken one is the engine's affair, as long as
it does not raise. `check_engine` is behind `clew plugins show NAME --check`; an author of an engine wants the contract
suite in `clew.testing`, which asks far more.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterator, Sequence

from clew.engines.base import (
    Compaction,
    ContextEngine,
    EngineFactory,
    EngineSetup,
    Fate,
    SessionStart,
    checked_compaction,
    indexes_of,
)
from clew.handoff import unwrap
from clew.messages import Message, calls_of, images_of, repair, text_of, without_cache_markers
from clew.tokens import count_tokens
from clew.usage import CanonicalUsage

_WINDOW = 16_000
_ROUNDS = 40
# Very long histories are estimated, and an engine may have counted their messages in other portions.
_EXACT_UP_TO = 400_000
_ESTIMATES_DIFFER = 0.05
_END_CHARS = 40


def broken_promises(before: Sequence[Message], done: Compaction, model: str | None = None) -> list[str]:
    """Everything that is wrong with a compaction of these messages; empty when it may be sent.

    `model` is the one that the engine was set up for: its tokens are counted.
    """
    # Where the items make no sense, what is derived from them makes none either.
    if uncovered := list(_items_cover_the_input(before, done)):
        return uncovered
    broken = (problem for promise in _PROMISES for problem in promise(before, done))
    return [*_figures_add_up(before, done, model), *broken]


def account_problems(before: Sequence[Message], done: Compaction, model: str | None = None) -> list[str]:
    """What is wrong with the items and the figures of a compaction; this must be right for broken messages too."""
    return list(_items_cover_the_input(before, done)) or list(_figures_add_up(before, done, model))


def _items_cover_the_input(before: Sequence[Message], done: Compaction) -> Iterator[str]:
    if len(done.source) != len(before):
        yield f"source has {len(done.source)} messages; the input has {len(before)}"
    named = Counter(index for item in done.items for index in indexes_of(item))
    for index in range(len(before)):
        if named[index] != 1:
            yield f"message {index} of the input is in {named[index]} items; each is in exactly one"
    if unknown := sorted(index for index in named if not 0 <= index < len(before)):
        yield f"items name {unknown[:5]}, which are no indexes of the {len(before)} messages of the input"


def _figures_add_up(before: Sequence[Message], done: Compaction, model: str | None) -> Iterator[str]:
    if done.tokens_after > done.tokens_before:
        yield f"by its own account it grew from {done.tokens_before:,} to {done.tokens_after:,} tokens"
    if not done.changed and done.tokens_after != done.tokens_before:
        yield f"nothing changed, but {done.tokens_before:,} tokens became {done.tokens_after:,}"
    was, now = count_tokens(before, model=model), count_tokens(done.messages, model=model)
    if done.changed and now > was:
        yield f"the result is larger: {was:,} tokens became {now:,}"
    after = done.tokens_before - was + now
    if abs(after - done.tokens_after) > (0 if was <= _EXACT_UP_TO else _ESTIMATES_DIFFER * was):
        yield (
            f"tokens_after is {done.tokens_after:,}; of {done.tokens_before:,} tokens the input has {was:,} and the "
            f"result {now:,}, which leaves {after:,}"
        )


def _changed_says_whether(before: Sequence[Message], done: Compaction) -> Iterator[str]:
    same = list(done.messages) == list(before)
    if done.changed == same:
        yield f"changed is {done.changed}, but the messages are {'the same' if same else 'other ones'}"


def _stays_valid(before: Sequence[Message], done: Compaction) -> Iterator[str]:
    """Calls with their results, and nothing that a provider would refuse."""
    # What was not valid before need not be so now.
    if repair(before, open_end=True).repairs:
        return
    for wrong in repair(done.messages, open_end=True).repairs:
        yield f"message {wrong.index} of the result: {wrong.problem}"


def _keeps_the_system_prompt(before: Sequence[Message], done: Compaction) -> Iterator[str]:
    for message in before:
        if message.get("role") in ("system", "developer") and not _is_in(message, done.messages):
            yield f"the {message.get('role')} prompt is no longer there word for word: {_opening(message)}"


def _keeps_the_newest_request(before: Sequence[Message], done: Compaction) -> Iterator[str]:
    # A message of blanks asks for nothing.
    newest = next(
        (message for message in reversed(before) if message.get("role") == "user" and _says_anything(message)), None
    )
    if newest is None or _is_in(newest, done.messages):
        return
    spoken = [message for message in done.messages if message.get("role") not in ("system", "developer")]
    if 2 * count_tokens([newest]) <= count_tokens(spoken):
        yield f"the newest user message is no longer there word for word: {_opening(newest)}"
    elif not any(_has_ends_of(newest, message) for message in done.messages):
        yield f"the newest user message, which is huge, has lost an end or a picture: {_opening(newest)}"


def _says_anything(message: Message) -> bool:
    return bool(text_of(message).strip() or images_of(message))


def _has_ends_of(message: Message, other: Message) -> bool:
    said, text = text_of(message).strip(), text_of(other)
    pictures = images_of(other)
    has_pictures = all(picture in pictures for picture in images_of(message))
    return other.get("role") == "user" and has_pictures and said[:_END_CHARS] in text and said[-_END_CHARS:] in text


def _keeps_what_it_calls_kept(before: Sequence[Message], done: Compaction) -> Iterator[str]:
    there = set(map(id, done.messages))
    for index, (message, fate) in enumerate(zip(before, done.fates, strict=False)):
        # Of a message that an earlier handoff was merged into, its own words are kept.
        own = (merged.message if (merged := unwrap(message)) else None) or message
        if fate is Fate.KEPT and id(message) not in there and not _is_in(own, done.messages):
            yield f"message {index} of the input counts as kept but is not there: {_opening(message)}"


def _summaries_hold_their_text(before: Sequence[Message], done: Compaction) -> Iterator[str]:
    del before
    for item in done.summaries:
        if not item.covers:
            yield f"a summary covers no message: {_opening(item.message)}"
        if not item.text:
            yield f"a summary has no text, though its message has: {_opening(item.message)}"


def _is_in(message: Message, messages: Sequence[Message]) -> bool:
    """Whether a message of the same role says all of this one, perhaps with a summary or a note beside it."""
    return any(other is message or _contains(message, other) for other in messages)


def _contains(message: Message, other: Message) -> bool:
    if other.get("role") != message.get("role") or calls_of(other) != calls_of(message):
        return False
    pictures, own = images_of(without_cache_markers(other)), images_of(without_cache_markers(message))
    return text_of(message) in text_of(other) and all(picture in pictures for picture in own)


def _opening(message: Message) -> str:
    return repr(text_of(message)[:60])


_PROMISES = (
    _changed_says_whether,
    _stays_valid,
    _keeps_the_system_prompt,
    _keeps_the_newest_request,
    _keeps_what_it_calls_kept,
    _summaries_hold_their_text,
)


async def check_engine(make: EngineFactory) -> list[str]:
    """What is wrong with the engine that this makes; what it raises is raised."""
    engine = make(EngineSetup(context_length=_WINDOW))
    engine.on_session_start(SessionStart("check"))
    problems = [*_threshold_problems(engine)]
    messages = _conversation()
    as_it_was, state = copy.deepcopy(messages), copy.deepcopy(dict(engine.state))
    done = checked_compaction(await engine.compress(messages, force=True), engine.name)
    if messages != as_it_was:
        problems.append("compress changed the messages it was given")
    if dict(engine.state) != state:
        problems.append("compress changed the engine's state; the new one belongs into Compaction.state")
    problems += broken_promises(as_it_was, done)
    if not done.changed:
        problems.append(f"compress changed nothing in a conversation of {len(messages)} messages over the threshold")
    engine.restore(done.state)
    problems += _json_problems(engine)
    return problems


def _threshold_problems(engine: ContextEngine) -> Iterator[str]:
    status = engine.get_status()
    threshold = status.threshold_tokens
    if not 0 < threshold <= _WINDOW or status.context_length != _WINDOW:
        yield f"a threshold of {threshold:,} in a window of {status.context_length:,} tokens; {_WINDOW:,} were given"
        return
    state = copy.deepcopy(dict(engine.state))
    if not engine.should_compress(threshold):
        yield f"should_compress({threshold}) is False at the threshold"
    if engine.should_compress(threshold - 1):
        yield f"should_compress({threshold - 1}) is True below the threshold"
    if dict(engine.state) != state:
        yield "should_compress changed the engine's state"
    engine.update_from_response(CanonicalUsage(input_tokens=1, output_tokens=_WINDOW, reasoning_tokens=_WINDOW))
    if engine.should_compress():
        yield "output and reasoning tokens make it compact; only prompt_tokens may"


def _json_problems(engine: ContextEngine) -> Iterator[str]:
    try:
        json.dumps(dict(engine.state))
    except (TypeError, ValueError) as error:
        yield f"its state is not plain JSON: {error}"
    try:
        json.dumps(engine.get_tool_schemas())
    except (TypeError, ValueError) as error:
        yield f"its tool schemas are not plain JSON: {error}"


def _conversation() -> list[Message]:
    """A system prompt and rounds of request, call, result and reply; about 10,000 tokens."""
    messages: list[Message] = [{"role": "system", "content": "You repair the water mill. Answer in one line."}]
    for number in range(_ROUNDS):
        arguments = json.dumps({"path": f"wheel/part_{number}.txt"})
        called = {"id": f"call_{number}", "type": "function", "function": {"name": "read", "arguments": arguments}}
        messages += [
            {"role": "user", "content": f"Look at part {number} of the wheel and say what it needs."},
            {"role": "assistant", "content": None, "tool_calls": [called]},  # type: ignore[list-item]
            {"role": "tool", "tool_call_id": f"call_{number}", "content": f"part {number}: paddle, cracked. " * 25},
            {"role": "assistant", "content": f"Part {number} needs a new paddle."},
        ]
    return messages
