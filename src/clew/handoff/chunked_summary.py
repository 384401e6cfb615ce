"""Summarises a conversation of any length through a model's window: chunk by chunk, each added to the handoff so far.

A model is a callable from a prompt to a draft; retries and other models are the caller's business. When one fails,
what was read stays read, and another model can continue from there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from clew.errors import SummaryFailed
from clew.handoff.chunks import (
    Chunk,
    Coverage,
    MessageSpan,
    ReadPosition,
    SummaryTranscript,
    check_coverage,
    next_chunk,
)
from clew.handoff.complete import shorten_text
from clew.handoff.prompt import DraftHandoff, PromptContents, template_for, write_prompt
from clew.handoff.summary import CountTokens, SummaryInput
from clew.redact import redact_text

RequestDraft = Callable[[str, int], Awaitable[DraftHandoff]]

# How often a prompt that the provider finds too long is made smaller.
_SHRINKS = 3
_TRIES_TO_FIT = 12
_REQUEST_CHARS = 2_000
# The rest of the budget is for what the record adds.
_SHARE_OF_PROSE = 0.9
# The headings alone take half of this; for a smaller budget the reply is shortened afterwards.
_LEAST_TARGET = 200


@dataclass(frozen=True, slots=True)
class PromptLimits:
    """The sizes of one prompt and its reply, in tokens."""

    context: int
    target: int
    """The length that the model is asked for."""
    output: int
    """Where the reply is cut off: above the target, since models miscount and some think first."""

    @classmethod
    def of(cls, context: int, max_output: int | None, budget: int) -> PromptLimits:
        most = max_output or context
        wanted = max(_LEAST_TARGET, int(budget * _SHARE_OF_PROSE))
        target = max(1, min(wanted, context // 8, most * 4 // 5))
        output = min(2 * target, max(target * 5 // 4, context // 10), most)
        return cls(context, target, max(1, output))

    def after(self, failure: SummaryFailed) -> PromptLimits | None:
        """Smaller limits after a provider refused these; None where smaller ones do not help."""
        if failure.kind in ("prompt_too_long", "payload_too_large"):
            smaller = self.context * 2 // 3
            context = min(failure.limit, smaller) if failure.limit and failure.limit < self.context else smaller
            return PromptLimits.of(context, self.output, int(self.target / _SHARE_OF_PROSE))
        if failure.kind == "output_cap_too_large":
            output = max(1, min(failure.available_output or self.output, self.output // 2 + 1))
            return replace(self, output=output, target=max(1, min(self.target, output * 4 // 5)))
        return None


@dataclass(frozen=True, slots=True)
class ChunkPrompt:
    """A prompt with its template and the chunk it holds."""

    text: str
    template: str
    chunk: Chunk


class ChunkedSummary:
    """How far the messages have been read, and the handoff of what was read."""

    def __init__(self, source: SummaryInput, count: CountTokens) -> None:
        self.source = source
        self.count = count
        self.text = source.previous.render() if source.previous else ""
        self.prompts: list[tuple[MessageSpan, ...]] = []
        self.templates: list[str] = []
        self.is_truncated = False
        self._transcript = self._transcript_from("")
        self._position = ReadPosition(source.first)

    def prepare(self, context: int) -> None:
        """Start with a window of `context` tokens: a previous handoff that would fill it is read in chunks too."""
        if self.prompts or self.source.previous is None:
            return
        previous = redact_text(self.source.previous.render())
        fits = self.count(previous) <= context // 8
        self.text = self.source.previous.render() if fits else ""
        self._transcript = self._transcript_from("" if fits else previous)
        self._position = ReadPosition(self._transcript.first)

    def _transcript_from(self, previous: str) -> SummaryTranscript:
        source = self.source
        return SummaryTranscript(source.read, source.first, source.last, previous, source.record, source.is_redacted)

    @property
    def is_done(self) -> bool:
        return self._position.number >= self.source.last

    def coverage(self) -> Coverage:
        return check_coverage(self.source.first, self.source.last, self.prompts)

    def next_prompt(self, limits: PromptLimits) -> ChunkPrompt:
        """The next prompt, which fits the window together with its output; raises `SummaryFailed` if none does."""
        most = limits.context - limits.output - limits.context // 50
        empty = self._contents(limits)
        if self.count(write_prompt(empty)) > most // 2:
            empty = replace(empty, is_brief=True)
        room = most - self.count(write_prompt(empty))
        for _ in range(_TRIES_TO_FIT):
            chunk = next_chunk(self._transcript, self._position, room, self.count) if room > 0 else None
            if chunk is None or not chunk.entries:
                break
            contents = replace(empty, entries=chunk.entries, is_last=chunk.next.number >= self.source.last)
            text = write_prompt(contents)
            over = self.count(text) - most
            if over <= 0:
                return ChunkPrompt(text, template_for(contents), chunk)
            # Entries may count more together than one by one.
            room -= max(over, room // 16, 1)
        raise SummaryFailed(
            f"a window of {limits.context:,} tokens has no room for the instructions, {limits.output:,} tokens of "
            f"output and any of the conversation. Choose a model with a larger one",
            kind="window_too_small",
        )

    def accept(self, prompt: ChunkPrompt, draft: DraftHandoff, limits: PromptLimits) -> None:
        """Take over the draft that the model made of a prompt."""
        self.prompts.append(prompt.chunk.spans)
        self._position = prompt.chunk.next
        self.text = draft.text if self.is_done else shorten_text(draft.text, limits.target, self.count)[0]
        self.is_truncated = draft.is_truncated
        if prompt.template not in self.templates:
            self.templates.append(prompt.template)

    def _contents(self, limits: PromptLimits) -> PromptContents:
        """The contents of the next prompt without any entries."""
        source = self.source
        previous, _ = shorten_text(self.text, limits.context // 8, self.count)
        is_in_chunks = source.task_number is not None and source.first <= source.task_number < source.last
        request = "" if is_in_chunks else source.task[:_REQUEST_CHARS]
        while request and self.count(request) > limits.context // 24:
            request = request[: len(request) // 2]
        return PromptContents(
            limits.target, (), redact_text(previous), redact_text(request), source.focus, is_last=False
        )


async def summarize_chunks(progress: ChunkedSummary, limits: PromptLimits, request: RequestDraft) -> None:
    """Read from where `progress` is to the end. A failure leaves what was read before it in place."""
    shrinks = 0
    progress.prepare(limits.context)
    while not progress.is_done:
        prompt = progress.next_prompt(limits)
        try:
            draft = await request(prompt.text, limits.output)
        except SummaryFailed as failure:
            smaller = limits.after(failure)
            if smaller is None or shrinks >= _SHRINKS:
                raise
            limits, shrinks = smaller, shrinks + 1
            progress.prepare(limits.context)
            continue
        progress.accept(prompt, draft, limits)
