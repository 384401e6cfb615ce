"""Writes summaries with models in order of preference, and with the built-in summariser where none can.

Transient failures are retried; a model that failed cools down for a while. The warnings of a summary tell people who
wrote it and why.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from clew.errors import SummaryFailed
from clew.ledger import UNVERIFIED_MARK
from clew.summaries.builtin import summarize_builtin
from clew.summaries.chunked import ChunkedSummary, PromptLimits, summarize_chunks
from clew.summaries.chunks import Coverage
from clew.summaries.failures import describe_failure, failure_kind_of
from clew.summaries.grounding import GroundedHandoff, ground_handoff, redacted_input
from clew.summaries.handoff import Cooldowns, CountTokens, Summary, SummaryInput
from clew.summaries.model import SummaryModel
from clew.summaries.prompt import DraftHandoff, read_draft

if TYPE_CHECKING:
    from clew.providers import RetryPolicy

Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]

_NAMED_IN_WARNING = 5


@dataclass(frozen=True, slots=True)
class ModelSummary(Summary):
    """A summary that a model wrote, and the messages it was given to read."""

    coverage: Coverage | None = None


class ModelSummarizer:
    """Writes summaries with models, the preferred one first; with none, or when all fail, with the built-in summariser.

    Is a `Summarize`.
    """

    def __init__(
        self,
        models: Sequence[SummaryModel],
        count: CountTokens,
        clock: Clock = time.time,
        sleep: Sleep = asyncio.sleep,
        retry_policy: RetryPolicy | None = None,
    ) -> None:
        self.models = tuple(models)
        self._count = count
        self._clock = clock
        self._sleep = sleep
        self._retry_policy = retry_policy

    async def __call__(self, source: SummaryInput, budget: int) -> Summary:
        """The summary in at most `budget` tokens. Never fails: the built-in summariser is the last resort."""
        failures: list[str] = []
        cooldowns = source.cooldowns
        if source.first < source.last:
            progress = ChunkedSummary(source, self._count)
            for model in self.models:
                if cooldown := cooldowns.active(model.name, self._clock()):
                    seconds = cooldown.until - self._clock()
                    failures.append(f"{model.name} rests for another {seconds:.0f} s, since it {cooldown.reason}")
                    continue
                try:
                    summary = await self._written_by(model, progress, budget, failures)
                    return replace(summary, cooldowns=cooldowns.end(model.name))
                except SummaryFailed as failure:
                    after = f" after {len(progress.prompts)} parts" if progress.prompts else ""
                    failures.append(f"{model.name} {describe_failure(failure)}{after}")
                    cooldowns = self._with_cooldown(cooldowns, model, failure)
                    if progress.is_done:
                        progress = ChunkedSummary(source, self._count)
        return replace(await self._built_in(source, budget, failures), cooldowns=cooldowns)

    async def _written_by(
        self, model: SummaryModel, progress: ChunkedSummary, budget: int, failures: Sequence[str]
    ) -> Summary:
        async def request(prompt: str, max_tokens: int) -> DraftHandoff:
            return await self._draft(model, prompt, max_tokens)

        await summarize_chunks(progress, PromptLimits.of(model.context_length, model.max_output, budget), request)
        coverage = progress.coverage()
        assert progress.handoff is not None  # something was read, so something was written
        grounded = ground_handoff(progress.source, progress.handoff, budget, self._count)
        if self._count(grounded.text) > budget:
            raise SummaryFailed(f"{self._count(grounded.text):,} tokens for a budget of {budget:,}", kind="no_room")
        return ModelSummary(
            grounded.text,
            written_by=model.name,
            template=", ".join(progress.templates),
            warnings=_warnings(model.name, grounded, progress.is_truncated, failures),
            unverified=grounded.unverified,
            coverage=coverage,
        )

    async def _draft(self, model: SummaryModel, prompt: str, max_tokens: int) -> DraftHandoff:
        """The draft that the model writes for a prompt; transient failures are retried."""
        attempt = 0
        while True:
            try:
                return await _draft_once(model, prompt, max_tokens)
            except SummaryFailed as failure:
                policy = self._retry_policy or _default_retry_policy()
                wait = policy.delay(attempt, failure.retry_after)
                if wait is None or attempt >= failure_kind_of(failure).retries:
                    raise
                attempt += 1
                await self._sleep(wait)

    def _with_cooldown(self, cooldowns: Cooldowns, model: SummaryModel, failure: SummaryFailed) -> Cooldowns:
        seconds = failure_kind_of(failure).cooldown_seconds
        if seconds:
            seconds = max(seconds, failure.retry_after or 0.0)
        return cooldowns.start(model.name, seconds, describe_failure(failure), self._clock())

    async def _built_in(self, source: SummaryInput, budget: int, failures: Sequence[str]) -> Summary:
        summary = await summarize_builtin(redacted_input(source), budget, self._count)
        if not failures:
            return summary
        return replace(
            summary, warnings=(f"The summary was written by the built-in summariser: {'; '.join(failures)}.",)
        )


def _default_retry_policy() -> RetryPolicy:
    # Imported only where something failed, since the table of errors is large.
    from clew.providers import RetryPolicy

    return RetryPolicy(first_wait_seconds=1.0, max_wait_seconds=20.0)


async def _draft_once(model: SummaryModel, prompt: str, max_tokens: int) -> DraftHandoff:
    try:
        text = await model.complete(prompt, max_tokens)
    except SummaryFailed as failure:
        if failure.kind != "cut" or not failure.partial:
            raise
        return _truncated_draft(failure)
    return read_draft(text)


def _truncated_draft(failure: SummaryFailed) -> DraftHandoff:
    try:
        return read_draft(failure.partial, is_truncated=True)
    except SummaryFailed as unusable:
        raise SummaryFailed(f"{failure.problem}, and until then: {unusable.problem}", kind="cut") from failure


def _warnings(name: str, grounded: GroundedHandoff, is_truncated: bool, failures: Sequence[str]) -> tuple[str, ...]:
    warnings = [f"The summary was written by {name}: {'; '.join(failures)}."] if failures else []
    if is_truncated:
        warnings.append(f"{name} stopped before the end of its handoff; the rest was completed from the ledger.")
    if grounded.left_out:
        warnings.append(f"{name} wrote more than the budget: {grounded.left_out} of its lines were left out.")
    if grounded.unverified:
        some = ", ".join(grounded.unverified[:_NAMED_IN_WARNING])
        more = f" and {len(grounded.unverified) - _NAMED_IN_WARNING} more" * (
            len(grounded.unverified) > _NAMED_IN_WARNING
        )
        warnings.append(f"The conversation does not show {some}{more}; marked {UNVERIFIED_MARK} in the summary.")
    return tuple(warnings)
