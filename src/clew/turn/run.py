"""One turn: append the new messages, make the request fit, send or recover, record the reply.

A turn is one call of the model. An agent runs the tools of the reply and starts the next turn with their results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import is_

from clew.engines import Changed, Compaction, Kept
from clew.events import Notice, OutputSpilled, Replied
from clew.messages import (
    NO_RESULT,
    Message,
    Tool,
    ToolCall,
    calls_of,
    name_of_call,
    repair,
    text_of,
    without_cache_markers,
)
from clew.providers import OnDelta, Reply
from clew.store import NewOutput
from clew.tokens import counter_for
from clew.tooloutput import PersistedOutput, SpillFolder, ToolOutputLimits, bound_result, bound_turn, limits_for_window
from clew.turn.compaction import CompactionRequest, PreparedCompaction, uninterruptible
from clew.turn.conversation import Conversation
from clew.turn.recover import SentRequest, send_or_recover
from clew.turn.request import TurnOptions, call_of
from clew.turn.runtime import Runtime
from clew.usage import MAX_COUNT, CanonicalUsage, normalize_usage

STOPPED = "[stopped by the user]"
"""Behind the partial text of a reply that a person stopped."""
BROKEN_OFF = "[the reply ended early: the connection or the provider failed]"
"""Behind the partial text of a reply that the connection or the provider broke off."""
_NAMED_REPAIRS = 3


async def run_turn(
    runtime: Runtime,
    session: str,
    incoming: Sequence[Message],
    *,
    inject: Sequence[Message] = (),
    tools: Sequence[Tool] = (),
    on_delta: OnDelta | None = None,
) -> Reply:
    """The reply to the new messages. `inject` is part of this turn's request alone, and never enters the history.

    A `tools` object that is given again is not counted again. Without incoming messages the model is asked about the
    history as it is. Turns of one conversation wait for each other.
    """
    conversation = await runtime.conversation(session)
    async with conversation.locks.turn:
        await append_incoming(conversation, incoming, to_send=True)
        return await answer(conversation, TurnOptions(inject, tools, on_delta))


async def answer(conversation: Conversation, options: TurnOptions, *, compact_after: bool = True) -> Reply:
    """The rest of a turn once the new messages are in the history: for hosts that put them there.

    The caller holds `conversation.locks.turn`. Without `compact_after` the reply does not wait for a compaction: the
    next request is made to fit before it is sent in any case.
    """
    await conversation.fit(options)
    options = await _with_recall(conversation, options)
    sent = await send_or_recover(conversation, options)
    # A cancellation between receiving and storing it would lose it, or store it twice.
    reply = await uninterruptible(record(conversation, options, sent))
    if compact_after:
        await conversation.compact_after_reply()
    return reply


async def _with_recall(conversation: Conversation, options: TurnOptions) -> TurnOptions:
    """The options of a turn with what automatic recall injects."""
    recall = conversation.recall
    if recall is None or not (conversation.is_compacted or recall.is_everywhere):
        return options  # everything is in view
    tokens = conversation.request_tokens(options)
    return await recall.for_turn(options, conversation.window.tokens, conversation.target.model, tokens)


async def receive(runtime: Runtime, session: str, incoming: Sequence[Message]) -> None:
    """Append messages to the history without asking the model."""
    conversation = await runtime.conversation(session)
    async with conversation.locks.turn:
        await append_incoming(conversation, incoming, to_send=False)


async def keep_partial_reply(runtime: Runtime, session: str, text: str, mark: str = STOPPED) -> None:
    """Store the part of an interrupted reply that was received, with `mark` behind it.

    Its call is stored with our count of the tokens, since no usage was received.
    """
    conversation = await runtime.conversation(session)
    # The whole reply is stored already if the stop arrived while the conversation was being compacted.
    is_kept = any(message["role"] == "assistant" for message in conversation.messages[-1:])
    if not text.strip() or is_kept:
        return
    written = counter_for(conversation.target.model).text(text)
    call = call_of(CanonicalUsage(conversation.size.tokens, written), conversation.target, runtime.options.source)
    async with conversation.locks.turn:
        await conversation.append([{"role": "assistant", "content": f"{text.rstrip()}\n\n{mark}"}], call)


# -- incoming messages -------------------------------------------------------------------------------------------------


async def append_incoming(conversation: Conversation, incoming: Sequence[Message], *, to_send: bool) -> None:
    """Append incoming messages: repaired, and with tool results that are too large written to files.

    With `to_send`, calls without a result get a stub.
    """
    services, waiting = conversation.services, conversation.view.messages[conversation.view.open_group() :]
    messages, repairs = repair_incoming(waiting, incoming, to_send=to_send)
    if repairs:
        services.tell(Notice(f"The history was repaired: {repairs}."))
    limits = limits_for_window(conversation.window.tokens, services.options.output_limits)
    bounded = bound_incoming(waiting, messages, services.options.spill, limits)
    await _keep_outputs(conversation, bounded)
    if bounded.messages:
        await conversation.append(bounded.messages)


def repair_incoming(
    waiting: Sequence[Message], incoming: Sequence[Message], *, to_send: bool
) -> tuple[Sequence[Message], str]:
    """The incoming messages with a call for each result and a result for each call, and the repairs in words.

    `waiting` are open calls and their results so far.
    """
    if not waiting and not incoming:
        return (), ""
    done = repair([*waiting, *incoming], open_end=not to_send)
    if not done.repairs:
        return incoming, ""
    repairs = "; ".join(f"{each.problem} ({each.remedy})" for each in done.repairs[:_NAMED_REPAIRS])
    # Waiting calls and results are in the history already; results that the repair added for them are new.
    fresh = [
        message
        for message, index in zip(done.messages, done.indexes, strict=True)
        if index >= len(waiting) or (message["role"] == "tool" and text_of(message) == NO_RESULT)
    ]
    return fresh, repairs


@dataclass(slots=True)
class BoundedMessages:
    """Messages with tool results within the limits, and the texts of those that went to files."""

    messages: Sequence[Message]
    spilled: list[tuple[PersistedOutput, str]] = field(default_factory=list)


def bound_incoming(
    waiting: Sequence[Message], messages: Sequence[Message], spill: SpillFolder, limits: ToolOutputLimits
) -> BoundedMessages:
    """The messages with every result, and the results of every turn among them, within the limits."""
    if not any(message["role"] == "tool" for message in messages):
        return BoundedMessages(messages)
    turns = [_bound_turn(turn, spill, limits) for turn in _turns([*waiting, *messages])]
    bounded = [message for turn in turns for message in turn.messages]
    # Waiting calls and results are in the history already.
    return BoundedMessages(bounded[len(waiting) :], [each for turn in turns for each in turn.spilled])


async def bound_newest(conversation: Conversation) -> bool:
    """Shorten the newest tool results that are too large in the view alone, for hosts that store messages as received.

    Return whether there were any. It is a compaction, which can be undone.
    """
    services, view = conversation.services, conversation.view.compactable()
    start = next((at for at in range(len(view.messages), 0, -1) if view.messages[at - 1]["role"] == "assistant"), 0)
    if start == 0 or start == len(view.messages):
        return False
    limits = limits_for_window(conversation.window.tokens, services.options.output_limits)
    tail = view.messages[start - 1 :]
    bounded = bound_incoming(tail[:1], tail[1:], services.options.spill, limits)
    if not bounded.spilled and all(map(is_, bounded.messages, tail[1:])):
        return False
    newest = zip(range(start, len(view.messages)), tail[1:], bounded.messages, strict=True)
    shorter = [Kept(at) if old is new else Changed(at, without_cache_markers(new)) for at, old, new in newest]
    items = [*map(Kept, range(start)), *shorter]
    tokens = conversation.size.tokens
    prepared = PreparedCompaction(view, Compaction(view.messages, tuple(items), tokens, tokens), engine="spill")
    async with conversation.locks.compaction:
        done = await conversation.compact_or_keep(CompactionRequest("spill", tokens, force=True), prepared)
    await _keep_outputs(conversation, bounded)
    return done is not None


async def _keep_outputs(conversation: Conversation, bounded: BoundedMessages) -> None:
    """Store the results that went to files, so that search finds them."""
    for spilled, text in bounded.spilled:
        output = NewOutput(conversation.session, text, spilled.tool, str(spilled.spilled.path))
        await conversation.services.store.keep_output(output)
        conversation.services.tell(OutputSpilled(conversation.session, spilled.tool, spilled.chars))


def _turns(messages: Sequence[Message]) -> list[list[Message]]:
    """Each message with the results behind it."""
    turns: list[list[Message]] = []
    for message in messages:
        if message["role"] == "tool" and turns:
            turns[-1].append(message)
        else:
            turns.append([message])
    return turns


def _bound_turn(turn: Sequence[Message], spill: SpillFolder, limits: ToolOutputLimits) -> BoundedMessages:
    if len(turn) == 1:
        return BoundedMessages(turn)
    names = {call["id"]: name_of_call(call) for call in calls_of(turn[0])}
    singly = [bound_result(it, spill, limits, tool=names.get(it.get("tool_call_id", ""))) for it in turn[1:]]
    together = bound_turn([turn[0], *(result.message for result in singly)], spill, limits)
    persisted = [result.outcome for result in singly if isinstance(result.outcome, PersistedOutput)]
    originals = {message.get("tool_call_id"): message for message in turn[1:]}
    spilled = [(outcome, text_of(originals[outcome.call_id])) for outcome in (*persisted, *together.persisted)]
    return BoundedMessages(together.messages, spilled)


# -- replies -----------------------------------------------------------------------------------------------------------


async def record(conversation: Conversation, options: TurnOptions, sent: SentRequest) -> Reply:
    """Store the reply with its usage in one transaction; return it as stored."""
    services, reported = conversation.services, sent.reply.usage
    # A provider may be a plugin, and no figure of it may lose the reply.
    usage = None if reported is None else normalize_usage(reported)
    reply = repair_reply(sent.reply)
    ttl = services.cache_policy(conversation.target).ttl
    call = None if usage is None else call_of(usage, conversation.target, services.options.source, ttl)
    await conversation.append([reply.message], call)
    if usage is None or call is None:
        conversation.view.last_prompt_tokens = 0
        return reply
    if usage.prompt_tokens >= MAX_COUNT:
        conversation.view.last_prompt_tokens = 0
    elif conversation.view.stored is sent.view:
        conversation.observe_usage(usage, sent.messages, options.inject)
    services.tell(
        Replied(
            conversation.session,
            reply.model,
            usage.prompt_tokens,
            usage.output_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
            call.cost_micros,
        )
    )
    return reply


def repair_reply(reply: Reply) -> Reply:
    """The reply, repaired if a provider would refuse it in a request: without content, or with unreadable calls."""
    message = _with_distinct_ids(reply.message)
    done = repair([message], open_end=True)
    kept = done.messages[0] if done.repairs and done.messages else message
    return reply if kept is reply.message else replace(reply, message=kept)


def _with_distinct_ids(message: Message) -> Message:
    """Distinct ids for the calls of a reply: some servers give all one id, and a repair would keep the first alone."""
    calls = calls_of(message)
    if not all(isinstance(call, dict) and isinstance(call.get("id"), str) for call in calls):
        return message  # another defect, which `repair` handles
    taken: set[str] = set()
    distinct: list[ToolCall] = []
    for number, call in enumerate(calls):
        own = call if call["id"] not in taken else {**call, "id": f"{call['id']}-{number}"}
        taken.add(own["id"])
        distinct.append(own)
    return message if distinct == list(calls) else {**message, "tool_calls": distinct}
