"""Who writes the summary: the first model that can, then the next, at last the built-in summariser. Never nobody.

A passing fault is tried again, a bounded number of times; a model that failed rests for a while. Whoever wrote it and
why is told in the summary's warnings, for people.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from clew.errors import SummaryFailed
from clew.ledger.verify import MARK
from clew.redact import redact_text
from clew.summaries.builtin import summarize_builtin
from clew.summaries.chunks import Coverage
from clew.summaries.cooldowns import Cooldowns
from clew.summaries.draft import Draft, read_draft
from clew.summaries.faults import described, fault_of
from clew.summaries.ground import Grounded, ground, without_secrets
from clew.summaries.model import SummaryModel
from clew.summaries.reading import Limits, Reading, read_on
from clew.summaries.story import CountTokens, Story, Summary

Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]

_NAMED_IN_WARNING = 5


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a passing fault is waited for."""

    first_wait_seconds: float = 1.0
    longest_wait_seconds: float = 20.0
    jitter: Callable[[], float] = random.random
    """Between 0 and 1; spreads the retries of many programs."""

    def wait(self, attempt: int, retry_after: float | None) -> float | None:
        """Seconds before the next try; None when the provider asks for more patience than there is."""
        if retry_after is not None and retry_after > self.longest_wait_seconds:
            return None
        backing_off = min(self.longest_wait_seconds, self.first_wait_seconds * 2.0**attempt)
        return max(retry_after or 0.0, backing_off * (0.5 + self.jitter() / 2))


@dataclass(frozen=True, slots=True)
class ModelSummary(Summary):
    """A summary that a model wrote, with the proof of what it was given to read."""

    coverage: Coverage | None = None


class ModelSummarizer:
    """Writes summaries with models in their order of preference. Is a `Summarize`."""

    def __init__(
        self,
        models: Sequence[SummaryModel],
        count: CountTokens,
        cooldowns: Cooldowns,
        clock: Clock = time.time,
        sleep: Sleep = asyncio.sleep,
        patience: Patience | None = None,
    ) -> None:
        self.models = tuple(models)
        self.cooldowns = cooldowns
        self._count = count
        self._clock = clock
        self._sleep = sleep
        self._patience = patience or Patience()

    async def __call__(self, story: Story, budget: int) -> Summary:
        """The summary of a story in at most `budget` tokens; always one."""
        troubles: list[str] = []
        if story.first < story.last:
            reading = Reading(story, self._count)
            for model in self.models:
                if rest := self.cooldowns.resting(model.name, self._clock()):
                    seconds = rest.until - self._clock()
                    troubles.append(f"{model.name} rests for another {seconds:.0f} s, since it {rest.reason}")
                    continue
                try:
                    return await self._written_by(model, reading, budget, troubles)
                except SummaryFailed as failure:
                    read = f" after {len(reading.prompts)} parts" if reading.prompts else ""
                    troubles.append(f"{model.name} {described(failure)}{read}")
                    self._rest(model, failure)
                    if reading.is_done:
                        reading = Reading(story, self._count)
        return await self._built_in(story, budget, troubles)

    async def _written_by(self, model: SummaryModel, reading: Reading, budget: int, troubles: Sequence[str]) -> Summary:
        async def ask(prompt: str, max_tokens: int) -> Draft:
            return await self._draft(model, prompt, max_tokens)

        await read_on(reading, Limits.of(model.context_length, model.max_output, budget), ask)
        coverage = reading.coverage()
        assert reading.handoff is not None  # something was read, so something was written
        grounded = ground(reading.story, reading.handoff, budget, self._count)
        if self._count(grounded.text) > budget:
            raise SummaryFailed(f"{self._count(grounded.text):,} tokens for a budget of {budget:,}", kind="no_room")
        self.cooldowns.end(model.name)
        return ModelSummary(
            grounded.text,
            written_by=model.name,
            template=", ".join(reading.templates),
            warnings=_warnings(model.name, grounded, reading.is_cut, troubles),
            unverified=grounded.unverified,
            coverage=coverage,
        )

    async def _draft(self, model: SummaryModel, prompt: str, max_tokens: int) -> Draft:
        """What the model makes of a prompt; passing faults are tried again."""
        attempt = 0
        while True:
            try:
                return await _one_draft(model, prompt, max_tokens)
            except SummaryFailed as failure:
                wait = self._patience.wait(attempt, failure.retry_after)
                if wait is None or attempt >= fault_of(failure).retries:
                    raise
                attempt += 1
                await self._sleep(wait)

    def _rest(self, model: SummaryModel, failure: SummaryFailed) -> None:
        fault = fault_of(failure)
        seconds = max(fault.rest_seconds, failure.retry_after or 0.0) if fault.rest_seconds else 0.0
        self.cooldowns.start(model.name, seconds, described(failure), self._clock())

    async def _built_in(self, story: Story, budget: int, troubles: Sequence[str]) -> Summary:
        summary = await summarize_builtin(without_secrets(story), budget, self._count)
        told = (f"The summary was written by the built-in summariser: {'; '.join(troubles)}.",) if troubles else ()
        return replace(summary, text=redact_text(summary.text), warnings=(*summary.warnings, *told))


def model_summarizer(
    models: Sequence[SummaryModel],
    *,
    count: CountTokens,
    cooldowns: Cooldowns | None = None,
    clock: Clock = time.time,
    sleep: Sleep = asyncio.sleep,
    patience: Patience | None = None,
) -> ModelSummarizer:
    """Summaries by these models, the preferred one first; with none, or when all fail, by the built-in summariser.

    `cooldowns` is shared with an engine that remembers it over a restart and clears it when a person forces it.
    """
    return ModelSummarizer(models, count, cooldowns or Cooldowns(), clock, sleep, patience)


async def _one_draft(model: SummaryModel, prompt: str, max_tokens: int) -> Draft:
    try:
        text = await model.complete(prompt, max_tokens)
    except SummaryFailed as failure:
        if failure.kind != "cut" or not failure.partial:
            raise
        return _cut_draft(failure)
    return read_draft(text)


def _cut_draft(failure: SummaryFailed) -> Draft:
    try:
        return read_draft(failure.partial, is_cut=True)
    except SummaryFailed as unusable:
        raise SummaryFailed(f"{failure.problem}, and until then: {unusable.problem}", kind="cut") from failure


def _warnings(name: str, grounded: Grounded, is_cut: bool, troubles: Sequence[str]) -> tuple[str, ...]:
    warnings = [f"The summary was written by {name}: {'; '.join(troubles)}."] if troubles else []
    if is_cut:
        warnings.append(f"{name} stopped before the end of its handoff; the rest was completed from the ledger.")
    if grounded.left_out:
        warnings.append(f"{name} wrote more than the budget: {grounded.left_out} of its lines were left out.")
    if grounded.unverified:
        some = ", ".join(grounded.unverified[:_NAMED_IN_WARNING])
        more = f" and {len(grounded.unverified) - _NAMED_IN_WARNING} more" * (
            len(grounded.unverified) > _NAMED_IN_WARNING
        )
        warnings.append(f"The conversation does not show {some}{more}; marked {MARK} in the summary.")
    return tuple(warnings)
