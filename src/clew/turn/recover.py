"""Recovery from a request that the provider refuses as too large: a finite ladder, then an error with what was tried.

Output cap: this call asks for less. Prompt: adopt a smaller window and compact. Bytes, or the number of pictures and
documents: leave the oldest of those out, then compact. A picture that is refused: leave the older ones out. Every other
refusal is raised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from clew.engines import Changed, Compaction, Kept
from clew.errors import ContextExhausted
from clew.events import Notice, OutputCapLowered, Overflowed, WindowLearnt
from clew.messages import Message, Part, images_of, media_of, without_cache_markers
from clew.providers import ErrorClass, ProviderRefused, Reply
from clew.store import View
from clew.tokens import Window, next_guess
from clew.turn.compaction import CompactionRequest, PreparedCompaction
from clew.turn.conversation import Conversation
from clew.turn.request import TurnOptions

MAX_ATTEMPTS = 3
"""Of making a request smaller; each is followed by one more call."""
_FIRST_CAP = 4_096
_SMALLEST_CAP = 16
_NAMED = 3
_TOO_LARGE = ("prompt_too_long", "payload_too_large", "output_cap_too_large")
_SMALLEST_WINDOW = 256
"""No model has a smaller one: a smaller figure in an error means something else."""


@dataclass(frozen=True, slots=True)
class SentRequest:
    """A reply, and the view that its request showed."""

    reply: Reply
    view: View
    """When the request was sent: after a compaction its size does not correct the count any more."""
    messages: int


async def send_or_recover(conversation: Conversation, options: TurnOptions) -> SentRequest:
    """Send the view, made smaller as often as the ladder allows.

    Raises ContextExhausted if it does not fit in the end, and any other refusal as received.
    """
    recovery = Recovery(conversation, options, conversation.target.max_tokens)
    while True:
        request = conversation.build_request(options, recovery.max_tokens)
        view, shown = conversation.view.stored, len(conversation.messages)
        try:
            reply = await conversation.target.sender.send(request, options.on_delta)
            conversation.note_sent()
            return SentRequest(reply, view, shown)
        except ProviderRefused as refused:
            if await recovery.make_smaller(refused.fault):
                continue
            if refused.fault.kind not in _TOO_LARGE or not recovery.tried:
                raise
            large = largest_parts(conversation, options)
            raise ContextExhausted(conversation.session, refused.provider, recovery.tried, large) from refused


@dataclass(slots=True)
class Recovery:
    """The state of a call on the ladder."""

    conversation: Conversation
    options: TurnOptions
    max_tokens: int | None
    attempts: int = 0
    lowered: int = 0
    tried: list[str] = field(default_factory=list)
    has_failed: bool = False
    """Whether a compaction failed, rather than found nothing to make smaller."""

    async def make_smaller(self, fault: ErrorClass) -> bool:
        """Make the request smaller; return whether another call makes sense."""
        if (cap := next_output_cap(self.max_tokens, self.lowered, fault)) is not None:
            self._lower_cap(cap)
            return True
        if not (is_overflow(fault) or fault.is_about_media) or self.attempts >= MAX_ATTEMPTS:
            return False
        self.attempts += 1
        async with self.conversation.locks.compaction:
            await self.conversation.drop_prepared()
            done = await self._shrink(fault)
        self.tried.append(done or "a compaction, which could make nothing smaller")
        return done is not None

    def _lower_cap(self, cap: int) -> None:
        self.max_tokens, self.lowered = cap, self.lowered + 1
        self.tried.append(f"asked for {cap:,} tokens of output")
        self.conversation.services.tell(OutputCapLowered(self.conversation.session, cap))

    async def _shrink(self, fault: ErrorClass) -> str | None:
        """Make the view smaller; return how, in words, or None if nothing could be."""
        is_about_bytes = fault.kind == "payload_too_large"
        if (is_about_bytes or fault.is_about_media) and (left_out := await self._drop_media(fault)) is not None:
            return left_out
        if not is_overflow(fault):
            return None
        before = self.conversation.window
        if fault.kind == "prompt_too_long":
            await self._adopt_window(fault)
        self._tell_overflow(fault, before)
        return await self._compact()

    def _tell_overflow(self, fault: ErrorClass, before: Window) -> None:
        """Emit one event with the overflow, the limits in the provider's error, and the window that was adopted."""
        session, target, window = self.conversation.session, self.conversation.target, self.conversation.window
        configured = target.context_length
        self.conversation.services.tell(
            Overflowed(
                session,
                self.attempts,
                fault.limit,
                model=target.model,
                provider=target.served_by,
                window=None if window.tokens == before.tokens else window.tokens,
                configured=configured if configured and fault.limit and fault.limit < configured else None,
            )
        )

    async def _adopt_window(self, fault: ErrorClass) -> None:
        """Adopt the window and the prompt size that the error states, or guess a window if it states none."""
        conversation, window = self.conversation, self.conversation.window
        if fault.input_tokens and not fault.input_is_at_least:
            conversation.size.observe(fault.input_tokens - sum(conversation.view.count(self.options.inject)))
        limit = fault.limit if fault.limit and fault.limit >= _SMALLEST_WINDOW else None
        if limit is not None and limit < window.tokens:
            # It holds from now on, and after a restart unless another one is configured.
            self._use_window(Window(limit, "stated", window.max_output), is_stated=True)
            await conversation.services.learn_window(conversation.target, limit)
        elif limit is None or self.attempts > 1:
            # The refused size is as good a bound as the assumed window.
            refused = min(window.tokens, conversation.request_tokens(self.options))
            guess = next_guess(refused) or next_guess(window.tokens)
            if guess is not None:
                self._use_window(Window(guess, window.source, window.max_output), is_stated=False)

    def _use_window(self, window: Window, *, is_stated: bool) -> None:
        conversation = self.conversation
        conversation.set_model(replace(conversation.model, window=window))
        learnt = WindowLearnt(conversation.session, conversation.target.model, window.tokens, is_stated=is_stated)
        conversation.services.tell(learnt)

    async def _compact(self) -> str | None:
        conversation, before = self.conversation, self.conversation.view.base
        done = await conversation.compact_or_keep(self._request())
        if done is None and conversation.view.base != before:
            return "took over what another process had compacted"
        self.has_failed = done is None
        if done is None or not done.changed:
            return None
        return (
            f"compacted from {done.tokens_before:,} to {done.tokens_after:,} tokens "
            f"for a window of {conversation.window.tokens:,}"
        )

    async def _drop_media(self, fault: ErrorClass) -> str | None:
        """Leave the oldest pictures and documents out of the view; None if none can be left out."""
        request, view = self._request(), self.conversation.view.compactable()
        keep = media_to_keep(view.messages, fault)
        if keep is None:
            return None
        done = drop_media(view.messages, request.tokens, keep=keep)
        if await self.conversation.compact_or_keep(request, PreparedCompaction(view, done, engine="media")) is None:
            return None
        why = why_media_are_left_out(fault, self.conversation.target.served_by)
        left_out = "the older ones were left out" if keep else "all pictures and documents were left out"
        self.conversation.services.tell(Notice(f"{why}: {left_out}. `undo` brings them back."))
        return left_out.replace("the older ones", "older pictures and documents")

    def _request(self) -> CompactionRequest:
        return CompactionRequest("overflow", self.conversation.request_tokens(self.options), force=True)


def is_overflow(fault: ErrorClass) -> bool:
    """Whether the prompt has to shrink: also if it fits, but leaves no room for any output."""
    if fault.kind == "output_cap_too_large":
        return fault.available_output is not None and fault.available_output < _SMALLEST_CAP
    return fault.kind in _TOO_LARGE


def next_output_cap(asked: int | None, lowered: int, fault: ErrorClass) -> int | None:
    """The output cap to try next, after `lowered` times; None if a lower cap is no remedy or none is left."""
    if fault.kind != "output_cap_too_large" or lowered >= MAX_ATTEMPTS:
        return None
    asked = asked or fault.requested_output
    cap = fault.available_output
    if cap is not None and fault.input_is_at_least:
        # The provider stopped counting early: less may be left than it says.
        cap //= 2
    if cap is None or (asked is not None and cap >= asked):
        cap = (asked or 2 * _FIRST_CAP) // 2
    return cap if cap >= _SMALLEST_CAP else None


def media_to_keep(messages: Sequence[Message], fault: ErrorClass) -> int | None:
    """How many of the newest pictures and documents to keep; None if leaving more out is no remedy."""
    counts = [count for message in messages if (count := sum(map(bool, map(_name_of_media, _parts_of(message)))))]
    there = sum(counts)
    if not there:
        return None
    if fault.media_limit is not None and fault.media_limit < there:
        return fault.media_limit
    newest = counts[-1]
    if newest < there:
        return newest
    # All are in the newest message, which is about them. Only size is a reason to send it without them.
    return 0 if fault.kind == "payload_too_large" else None


def why_media_are_left_out(fault: ErrorClass, provider: str) -> str:
    if fault.kind != "payload_too_large":
        return f"{provider} does not take a picture of this conversation"
    if fault.is_about_media:
        return f"The request had more pictures or documents than {provider} takes"
    return "The request was too large in bytes"


def drop_media(messages: Sequence[Message], tokens: int, *, keep: int) -> Compaction:
    """The messages with placeholders for pictures and documents, but for the newest `keep` of them."""
    smaller = list(messages)
    for index in range(len(smaller) - 1, -1, -1):
        content = list(_parts_of(smaller[index]))
        for place in range(len(content) - 1, -1, -1):
            name = _name_of_media(content[place])
            if name is not None and keep > 0:
                keep -= 1
            elif name is not None:
                content[place] = {"type": "text", "text": placeholder(name)}
                smaller[index] = {**smaller[index], "content": content}
    items = [
        Kept(index) if old is new else Changed(index, without_cache_markers(new))
        for index, (old, new) in enumerate(zip(messages, smaller, strict=True))
    ]
    return Compaction(messages, tuple(items), tokens, tokens)


def placeholder(name: str) -> str:
    """The text in place of a picture or a document that was left out."""
    return f"[{name} left out: the request was too large; the original is kept in the history]"


def _parts_of(message: Message) -> Sequence[Part]:
    content = message.get("content")
    return content if isinstance(content, list) else ()


def _name_of_media(part: Part) -> str | None:
    if images_of({"role": "user", "content": [part]}):
        return "picture"
    return "document" if isinstance(part, dict) and media_of(part) is not None else None


def largest_parts(conversation: Conversation, options: TurnOptions) -> list[str]:
    """The system prompt, the tools, the injected messages, and the largest other messages, in words."""
    view = conversation.view
    sizes = sorted(zip(view.size.counts, range(len(view.messages)), strict=True), reverse=True)[:_NAMED]
    named = [f"{_name_of(conversation, index)} ({size:,} tokens)" for size, index in sizes]
    injected = sum(view.count(options.inject))
    return [
        *conversation.view.fixed_parts(),
        *([f"what is injected ({injected:,} tokens)"] if injected else []),
        *named,
    ]


def _name_of(conversation: Conversation, index: int) -> str:
    seq = conversation.view.seqs[index]
    return "the handoff" if seq is None else f"the {conversation.messages[index]['role']} message m{seq}"
