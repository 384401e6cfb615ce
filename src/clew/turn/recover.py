"""When a provider says that a request is too large: a finite ladder, then an error that says what was tried.

Output cap: this call asks for less. Prompt: adopt a smaller window and compact. Bytes: pictures first, then compact.
Every other refusal passes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from clew.events import Notice, OutputCapLowered, Overflowed, WindowLearnt
from clew.providers import ErrorClass, ProviderRefused
from clew.tokens import Window, next_guess
from clew.turn.build import Ask, build
from clew.turn.compaction import Draft, Order, compact_or_keep, fixed
from clew.turn.fit import request_tokens
from clew.turn.live import LiveConversation
from clew.turn.media import without_media
from clew.turn.prepare import drop
from clew.turn.problems import ContextExhausted
from clew.turn.record import Sent
from clew.turn.runtime import Runtime

MOST_ATTEMPTS = 3
"""Of making a request smaller; each is followed by one more call."""
_FIRST_CAP = 4_096
_SMALLEST_CAP = 16
_NAMED = 3
_TOO_LARGE = ("prompt_too_long", "payload_too_large", "output_cap_too_large")
_SMALLEST_WINDOW = 256
"""No model has less: a smaller figure in an error is something else."""


@dataclass(slots=True)
class Recovery:
    """How far down the ladder a call is."""

    max_tokens: int | None
    attempts: int = 0
    lowered: int = 0
    tried: list[str] = field(default_factory=list)


async def send_or_recover(runtime: Runtime, live: LiveConversation, ask: Ask) -> Sent:
    """The reply to the view, made smaller as often as the ladder allows."""
    recovery = Recovery(live.target.max_tokens)
    while True:
        request = build(runtime, live, ask, recovery.max_tokens)
        view, shown = live.view, len(live.messages)
        try:
            return Sent(await live.target.provider.send(request, ask.on_delta), view, shown)
        except ProviderRefused as refused:
            if await _recovers(runtime, live, ask, recovery, refused.fault):
                continue
            if refused.fault.kind not in _TOO_LARGE or not recovery.tried:
                raise
            raise ContextExhausted(live.session, refused.provider, recovery.tried, _large(live, ask)) from refused


async def _recovers(runtime: Runtime, live: LiveConversation, ask: Ask, recovery: Recovery, fault: ErrorClass) -> bool:
    """Whether something was made smaller, so that another call makes sense."""
    if fault.kind == "output_cap_too_large" and (cap := _lower_cap(recovery, fault)) is not None:
        recovery.max_tokens, recovery.lowered = cap, recovery.lowered + 1
        recovery.tried.append(f"asked for {cap:,} tokens of output")
        runtime.tell(OutputCapLowered(live.session, cap))
        return True
    if not _is_overflow(fault) or recovery.attempts >= MOST_ATTEMPTS:
        return False
    recovery.attempts += 1
    runtime.tell(Overflowed(live.session, recovery.attempts, fault.limit))
    async with live.compacting:
        await drop(runtime, live)
        if fault.kind == "payload_too_large":
            done = await _drop_media(runtime, live, ask) or await _compact(runtime, live, ask)
        else:
            if fault.kind == "prompt_too_long":
                await _believe(runtime, live, ask, fault, again=recovery.attempts > 1)
            done = await _compact(runtime, live, ask)
    recovery.tried.append(done or "a compaction, which could make nothing smaller")
    return done is not None


def _is_overflow(fault: ErrorClass) -> bool:
    """Whether the prompt has to shrink: also where it fits by itself, but leaves no room for any output."""
    if fault.kind == "output_cap_too_large":
        return fault.available_output is not None and fault.available_output < _SMALLEST_CAP
    return fault.kind in _TOO_LARGE


def _lower_cap(recovery: Recovery, fault: ErrorClass) -> int | None:
    """The output to ask for instead; None where none is left, so that the prompt is what has to shrink."""
    if recovery.lowered >= MOST_ATTEMPTS:
        return None
    asked = recovery.max_tokens or fault.requested_output
    cap = fault.available_output
    if cap is not None and fault.input_is_at_least:
        # The provider stopped counting early: less may be left than it says.
        cap //= 2
    if cap is None or (asked is not None and cap >= asked):
        cap = (asked or 2 * _FIRST_CAP) // 2
    return cap if cap >= _SMALLEST_CAP else None


async def _believe(runtime: Runtime, live: LiveConversation, ask: Ask, fault: ErrorClass, *, again: bool) -> None:
    """Take over what the error says of the window and of the prompt, or guess where it says nothing."""
    if fault.input_tokens and not fault.input_is_at_least:
        live.size.observe(fault.input_tokens - sum(live.count(ask.inject)))
    limit = fault.limit if fault.limit and fault.limit >= _SMALLEST_WINDOW else None
    if limit is not None and limit < live.window.tokens:
        await _adopt(runtime, live, limit)
    elif limit is None or again:
        # What was refused is as good a bound as the window we believed in.
        guess = next_guess(min(live.window.tokens, request_tokens(live, ask))) or next_guess(live.window.tokens)
        if guess is not None:
            live.use(live.target, Window(guess, live.window.source, live.window.max_output))
            runtime.tell(WindowLearnt(live.session, live.target.model, guess, is_stated=False))


async def _adopt(runtime: Runtime, live: LiveConversation, limit: int) -> None:
    """A limit that the provider stated holds from now on, also after a restart."""
    target = live.target
    if target.context_length is not None and limit < target.context_length:
        runtime.tell(
            Notice(
                f"{target.model} takes {limit:,} tokens, says its provider, not the configured "
                f"{target.context_length:,}; {limit:,} is used."
            )
        )
    live.use(target, Window(limit, "stated", live.window.max_output))
    runtime.tell(WindowLearnt(live.session, target.model, limit, is_stated=True))
    if runtime.host.learnt is not None:
        runtime.host.learnt.remember(target.model, target.base_url, limit)
    await runtime.store.learn_window(target.model, target.base_url or "", limit)


async def _compact(runtime: Runtime, live: LiveConversation, ask: Ask) -> str | None:
    tokens, before = request_tokens(live, ask), live.view.base
    done = await compact_or_keep(runtime, live, Order("overflow", tokens, force=True))
    if done is None and live.view.base != before:
        return "took over what another process had compacted"
    if done is None or not done.changed:
        return None
    return f"compacted from {done.tokens_before:,} to {done.tokens_after:,} tokens for a window of " + (
        f"{live.window.tokens:,}"
    )


async def _drop_media(runtime: Runtime, live: LiveConversation, ask: Ask) -> str | None:
    """Pictures out of the view, the older ones first; None where there are none."""
    tokens = request_tokens(live, ask)
    for keep_newest in (True, False):
        view = live.considered()
        done = without_media(view.messages, tokens, keep_newest=keep_newest)
        if not done.changed:
            continue
        order = Order("overflow", tokens, force=True)
        if await compact_or_keep(runtime, live, order, Draft(view, done, engine="media")) is None:
            return None
        told = "older pictures" if keep_newest else "the newest pictures"
        runtime.tell(Notice(f"The request was too large in bytes: {told} were left out. `undo` brings them back."))
        return f"left out {told}"
    return None


def _large(live: LiveConversation, ask: Ask) -> list[str]:
    """The system prompt, the tools, and the largest messages, in words."""
    sizes = sorted(zip(live.size.counts, range(len(live.messages)), strict=True), reverse=True)[:_NAMED]
    named = [f"{_called(live, place)} ({size:,} tokens)" for size, place in sizes]
    injected = sum(live.count(ask.inject))
    return [*fixed(live), *([f"what is injected ({injected:,} tokens)"] if injected else []), *named]


def _called(live: LiveConversation, place: int) -> str:
    number = live.places[place]
    return "the handoff" if number is None else f"the {live.messages[place]['role']} message m{number}"
