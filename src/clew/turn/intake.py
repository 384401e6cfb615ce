"""How messages come into the history: mended where broken, tool results bounded, durable before anything else.

Knows nothing of requests. What is too large for the context goes to a file and into the store's index.
"""

from __future__ import annotations

from collections.abc import Sequence

from clew.events import Notice, OutputSpilled
from clew.messages import NO_RESULT, Message, calls_of, name_of_call, repair, text_of
from clew.store import Appended, ModelCall, NewMessage, NewOutput, Synced
from clew.tooloutput import Persisted, bound_result, bound_turn, limits_for
from clew.turn.live import LiveConversation
from clew.turn.runtime import Runtime

_TOLD = 3


async def take_in(runtime: Runtime, live: LiveConversation, incoming: Sequence[Message], *, to_send: bool) -> None:
    """Append messages that came from outside. With `to_send`, calls that nobody answered get a stub."""
    whole = _mended(runtime, live, incoming, to_send)
    bounded = await _bounded(runtime, live, whole)
    if bounded:
        await append(runtime, live, bounded)


async def append(
    runtime: Runtime, live: LiveConversation, messages: Sequence[Message], call: ModelCall | None = None
) -> None:
    """Put messages into the store, and then into view: in this order, so that a store that fails changes nothing."""
    async with live.writing:
        single = _single(live, messages)
        counts = live.count(single)
        rows = [NewMessage(message, tokens=count) for message, count in zip(single, counts, strict=True)]
        appended = await runtime.store.append(live.session, rows, call=call)
        if live.is_next(appended):
            live.append(appended, single, counts)
        else:
            await runtime.reload(live)


async def follow_sync(runtime: Runtime, synced: Synced, messages: Sequence[Message]) -> LiveConversation:
    """The conversation after the store took in a whole history: for hosts whose clients send it anew each time."""
    live = await runtime.conversation(synced.session)
    async with live.writing:
        added = list(messages[len(messages) - synced.added :])
        appended = Appended(synced.session, synced.next_seq - synced.added, synced.next_seq, synced.added)
        if live.is_next(appended):
            live.append(appended, added, live.count(added))
        elif live.next_seq != synced.next_seq or live.session != synced.session:
            await runtime.reload(live)
    return live


def _mended(runtime: Runtime, live: LiveConversation, incoming: Sequence[Message], to_send: bool) -> Sequence[Message]:
    """What came, with whole tool groups: results need their calls, and calls their results."""
    waiting = live.messages[live.open_group() :]
    if not waiting and not incoming:
        return []
    whole = repair([*waiting, *incoming], open_end=not to_send)
    if not whole.repairs:
        return incoming
    told = "; ".join(f"{done.problem} ({done.remedy})" for done in whole.repairs[:_TOLD])
    runtime.tell(Notice(f"What came was mended: {told}."))
    # What waited is in the history already, as it is; what a repair put in for it is new.
    return [
        message
        for message, index in zip(whole.messages, whole.indexes, strict=True)
        if index >= len(waiting) or (message["role"] == "tool" and text_of(message) == NO_RESULT)
    ]


async def _bounded(runtime: Runtime, live: LiveConversation, messages: Sequence[Message]) -> Sequence[Message]:
    """The messages with every result, and the results of every turn among them, within the limits."""
    if not any(message["role"] == "tool" for message in messages):
        return messages
    waiting = live.messages[live.open_group() :]
    bounded: list[Message] = []
    for turn in _turns([*waiting, *messages]):
        bounded += await _bounded_turn(runtime, live, turn) if len(turn) > 1 else turn
    # What waited is in the history already, as it is.
    return bounded[len(waiting) :]


def _turns(messages: Sequence[Message]) -> list[list[Message]]:
    """Each message with the results behind it."""
    turns: list[list[Message]] = []
    for message in messages:
        if message["role"] == "tool" and turns:
            turns[-1].append(message)
        else:
            turns.append([message])
    return turns


async def _bounded_turn(runtime: Runtime, live: LiveConversation, turn: Sequence[Message]) -> list[Message]:
    names = {call["id"]: name_of_call(call) for call in calls_of(turn[0])}
    limits = limits_for(live.window.tokens, runtime.host.output_limits)
    spill = runtime.host.spill
    singly = [bound_result(it, spill, limits, tool=names.get(it.get("tool_call_id", ""))) for it in turn[1:]]
    together = bound_turn([turn[0], *(result.message for result in singly)], spill, limits)
    persisted = [result.outcome for result in singly if isinstance(result.outcome, Persisted)]
    originals = {message.get("tool_call_id"): message for message in turn[1:]}
    for outcome in (*persisted, *together.persisted):
        await _keep(runtime, live, outcome, text_of(originals[outcome.call_id]))
    return together.messages


async def _keep(runtime: Runtime, live: LiveConversation, outcome: Persisted, text: str) -> None:
    path = str(outcome.spilled.path)
    await runtime.store.keep_output(NewOutput(live.session, text, outcome.tool, path))
    runtime.tell(OutputSpilled(live.session, outcome.tool, outcome.chars))


def _single(live: LiveConversation, messages: Sequence[Message]) -> list[Message]:
    """Each message as an object of its own: a view tells its rows apart by identity."""
    # Only what is newest can be the same object again: a caller that keeps one and sends it twice.
    seen = {id(message) for message in live.messages[-_LOOK_BACK:]}
    single: list[Message] = []
    for message in messages:
        fresh = message if id(message) not in seen else _copy(message)
        seen.add(id(fresh))
        single.append(fresh)
    return single


def _copy(message: Message) -> Message:
    return {**message}


_LOOK_BACK = 64
