"""Reads a whole story through a model's window: chunk by chunk, each folded into the handoff so far.

Knows prompts, chunks and windows. A model is a callable that turns a prompt into a draft; who it is and what happens
when it fails is the policy's business. What was read stays read: another model can go on from there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from clew.errors import SummaryFailed
from clew.redact import redact_text
from clew.summaries.chunks import Chunk, Coverage, Piece, Place, cut_chunk, prove_coverage
from clew.summaries.draft import Draft
from clew.summaries.handoff import Handoff
from clew.summaries.prompt import Ask, template_for, write_prompt
from clew.summaries.shortening import shorten_handoff, worth_in
from clew.summaries.story import CountTokens, Story
from clew.summaries.transcript import Transcript

AskForDraft = Callable[[str, int], Awaitable[Draft]]

# A prompt that is too long by the provider's own count is made smaller this often.
_SHRINKS = 3
_TRIES_TO_FIT = 12
_NEWEST_CHARS = 2_000
# Room in the budget for what the ledger adds to a model's own words.
_SHARE_OF_PROSE = 0.75
# The headings alone take half of this; what a model writes above a smaller budget is shortened afterwards.
_LEAST_TARGET = 200


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of everything goes into one prompt of a model, in tokens."""

    context: int
    target: int
    """What the model is asked to write at most."""
    output: int
    """Where the model is stopped: above the target, since models miscount, and some think aloud first."""

    @classmethod
    def of(cls, context: int, max_output: int | None, budget: int) -> Limits:
        most = max_output or context
        wanted = max(_LEAST_TARGET, int(budget * _SHARE_OF_PROSE))
        target = max(1, min(wanted, context // 8, most * 4 // 5))
        output = min(2 * target, max(target * 5 // 4, context // 10), most)
        return cls(context, target, max(1, output))

    def after(self, failure: SummaryFailed) -> Limits | None:
        """Smaller ones for a provider that refused these; None where smaller is no answer."""
        if failure.kind in ("prompt_too_long", "payload_too_large"):
            smaller = self.context * 2 // 3
            context = min(failure.limit, smaller) if failure.limit and failure.limit < self.context else smaller
            return Limits.of(context, self.output, int(self.target / _SHARE_OF_PROSE))
        if failure.kind == "output_cap_too_large":
            output = max(1, min(failure.available_output or self.output, self.output // 2 + 1))
            return replace(self, output=output, target=max(1, min(self.target, output * 4 // 5)))
        return None


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is asked next: the text, the template it was made from, and the chunk it reads."""

    text: str
    template: str
    chunk: Chunk


class Reading:
    """How far a story has been read, and the handoff of what was read."""

    def __init__(self, story: Story, count: CountTokens) -> None:
        self.story = story
        self.count = count
        self.handoff = story.previous
        self.prompts: list[tuple[Piece, ...]] = []
        self.templates: list[str] = []
        self.is_cut = False
        self._transcript = Transcript(story.read, story.first, story.last)
        self._place = Place(story.first)

    def begin(self, context: int) -> None:
        """Makes ready for a window: a previous handoff that would fill it is read in chunks like everything else."""
        if self.prompts or self.story.previous is None:
            return
        previous = redact_text(self.story.previous.render())
        fits = self.count(previous) <= context // 8
        self.handoff = self.story.previous if fits else None
        self._transcript = Transcript(self.story.read, self.story.first, self.story.last, "" if fits else previous)
        self._place = Place(self._transcript.first)

    @property
    def is_done(self) -> bool:
        return self._place.number >= self.story.last

    def coverage(self) -> Coverage:
        return prove_coverage(self.story.first, self.story.last, self.prompts)

    def next_prompt(self, limits: Limits) -> Prompt:
        """The prompt that reads on from here; with its output it fits the window."""
        most = limits.context - limits.output - limits.context // 50
        ask = self._ask(limits)
        room = most - self.count(write_prompt(ask))
        for _ in range(_TRIES_TO_FIT):
            chunk = cut_chunk(self._transcript, self._place, room, self.count) if room > 0 else None
            if chunk is None or not chunk.entries:
                break
            asked = replace(ask, record=chunk.entries, is_last=chunk.next.number >= self.story.last)
            text = write_prompt(asked)
            over = self.count(text) - most
            if over <= 0:
                return Prompt(text, template_for(asked), chunk)
            # The parts together may count more than one by one.
            room -= max(over, room // 16, 1)
        raise SummaryFailed(
            f"a window of {limits.context:,} tokens has no room for the instructions, {limits.output:,} tokens of "
            f"output and any of the conversation. Choose a model with a larger one",
            kind="window_too_small",
        )

    def accept(self, prompt: Prompt, draft: Draft, limits: Limits) -> None:
        """Takes over what the model made of a chunk."""
        self.prompts.append(prompt.chunk.pieces)
        self._place = prompt.chunk.next
        self.handoff = draft.handoff if self.is_done else self._shortened(draft.handoff, limits.target)
        self.is_cut = draft.is_cut
        if prompt.template not in self.templates:
            self.templates.append(prompt.template)

    def _ask(self, limits: Limits) -> Ask:
        story = self.story
        previous = self._shortened(self.handoff, limits.context // 8).render() if self.handoff else ""
        stands_in_record = story.task_at is not None and story.first <= story.task_at < story.last
        newest = "" if stands_in_record else story.task[:_NEWEST_CHARS]
        while newest and self.count(newest) > limits.context // 24:
            newest = newest[: len(newest) // 2]
        return Ask(limits.target, (), redact_text(previous), redact_text(newest), story.focus, is_last=False)

    def _shortened(self, handoff: Handoff, budget: int) -> Handoff:
        worth = worth_in(self.story.ledger.index, self.story.first)
        fitted = shorten_handoff(handoff, budget, self.count, worth)
        return fitted.handoff if fitted else Handoff({})


async def read_on(reading: Reading, limits: Limits, ask: AskForDraft) -> None:
    """Reads from where the reading stands to the end. A failure leaves what was read before it in place."""
    shrinks = 0
    reading.begin(limits.context)
    while not reading.is_done:
        prompt = reading.next_prompt(limits)
        try:
            draft = await ask(prompt.text, limits.output)
        except SummaryFailed as failure:
            smaller = limits.after(failure)
            if smaller is None or shrinks >= _SHRINKS:
                raise
            limits, shrinks = smaller, shrinks + 1
            reading.begin(limits.context)
            continue
        reading.accept(prompt, draft, limits)
