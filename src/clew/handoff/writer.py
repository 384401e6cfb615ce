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
from clew.handoff.builtin import summarize_builtin
from clew.handoff.chunked_summary import ChunkedSummary, PromptLimits, summarize_chunks
from clew.handoff.chunks import Coverage
from clew.handoff.complete import CompletedHandoff, complete_handoff
from clew.handoff.failures import describe_failure, failure_kind_of, is_about_reply, is_about_request
from clew.handoff.model import Complete, SummaryModel
from clew.handoff.prompt import EXTEND, DraftHandoff, read_draft, write_instruction
from clew.handoff.summary import (
    Compute,
    Cooldowns,
    CountTokens,
    Summary,
    SummaryInput,
    compute_now,
    redacted_input,
)

if TYPE_CHECKING:
    from clew.providers import RetryPolicy

Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]

_NAMED_IN_WARNING = 5
_AGAIN = "A reply to this was refused: {problem}. Write the handoff itself, under the headings that are given."


@dataclass(frozen=True, slots=True)
class ModelSummary(Summary):
    """A summary that a model wrote, and the messages it was given to read."""

    coverage: Coverage | None = None


@dataclass(frozen=True, slots=True)
class SummaryAttempt:
    """What one model is asked for, and why others did not do it."""

    model: SummaryModel
    source: SummaryInput
    budget: int
    failures: Sequence[str]

    @property
    def limits(self) -> PromptLimits:
        return PromptLimits.of(self.model.context_length, self.model.max_output, self.budget)


class ModelSummarizer:
    """Writes summaries with models, the preferred one first; with none, or when all fail, with the built-in summariser.

    Is a `Summarize`. With `falls_back` False, `SummaryFailed` is raised when all models fail.
    """

    def __init__(
        self,
        models: Sequence[SummaryModel],
        count: CountTokens,
        clock: Clock = time.time,
        sleep: Sleep = asyncio.sleep,
        retry_policy: RetryPolicy | None = None,
        *,
        falls_back: bool = True,
        compute: Compute = compute_now,
    ) -> None:
        self._falls_back = falls_back
        self._compute = compute
        self.models = tuple(models)
        self._count = count
        self._clock = clock
        self._sleep = sleep
        self._retry_policy = retry_policy

    async def __call__(self, source: SummaryInput, budget: int) -> Summary:
        """The summary in at most `budget` tokens. The built-in summariser is the last resort."""
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
                    summary = await self._written(SummaryAttempt(model, source, budget, failures), progress)
                    return replace(summary, cooldowns=cooldowns.end(model.name))
                except SummaryFailed as failure:
                    after = f" after {len(progress.prompts)} parts" if progress.prompts else ""
                    failures.append(f"{model.name} {describe_failure(failure)}{after}")
                    cooldowns = self._with_cooldown(cooldowns, model, failure)
                    if progress.is_done:
                        progress = ChunkedSummary(source, self._count)
        if not self._falls_back:
            raise SummaryFailed("; ".join(failures) or "no model could be asked")
        return replace(await self._built_in(source, budget, failures), cooldowns=cooldowns)

    async def _written(self, attempt: SummaryAttempt, progress: ChunkedSummary) -> ModelSummary:
        """By extending the conversation where the model is in it and there is room, else from a text of it."""
        try:
            extended = await self._extended(attempt)
        except SummaryFailed as failure:
            extension = attempt.model.extension
            if extension is None or extension.is_only_way or not is_about_request(failure):
                raise
            summary = await self._from_text(attempt, progress)
            what = f"{attempt.model.name} {describe_failure(failure)} when it was asked in the conversation itself"
            return replace(summary, warnings=(f"{what}; it was asked again with a text of it.", *summary.warnings))
        return extended or await self._from_text(attempt, progress)

    async def _extended(self, attempt: SummaryAttempt) -> ModelSummary | None:
        """The summary by a request that extends the conversation; None where there is no such way."""
        extension, source, limits = attempt.model.extension, attempt.source, attempt.limits
        if (
            extension is None
            or source.is_part
            or not all(number in extension.numbers for number in range(source.first, source.last))
        ):
            return None
        room = limits.context - limits.context // 50 - extension.tokens - limits.output
        instructions = (write_instruction(source, limits.target, is_brief=is_brief) for is_brief in (False, True))
        instruction = next((text for text in instructions if self._count(text) <= room), None)
        if instruction is None:
            return None
        is_last_try = (lambda _: True) if extension.is_only_way else is_about_request
        draft = await self._draft(extension.complete, instruction, limits.output, is_last_try=is_last_try)
        summary = await self._completed(attempt, draft, extension.beside)
        return replace(summary, template=EXTEND, coverage=Coverage(source.first, source.last, 1, ()))

    async def _from_text(self, attempt: SummaryAttempt, progress: ChunkedSummary) -> ModelSummary:
        """The summary by separate requests, which hold the conversation as text."""

        async def request(prompt: str, max_tokens: int) -> DraftHandoff:
            return await self._draft(attempt.model.complete, prompt, max_tokens)

        await summarize_chunks(progress, attempt.limits, request)
        coverage = progress.coverage()
        summary = await self._completed(attempt, DraftHandoff(progress.text, progress.is_truncated))
        return replace(summary, template=", ".join(progress.templates), coverage=coverage)

    async def _completed(
        self, attempt: SummaryAttempt, draft: DraftHandoff, beside: Sequence[str] = ()
    ) -> ModelSummary:
        budget, name = attempt.budget, attempt.model.name
        source = await self._compute(redacted_input, attempt.source)
        done = await self._compute(complete_handoff, source, draft.text, budget, self._count, beside)
        if not done.text.strip() or self._count(done.text) > budget:
            raise SummaryFailed(f"{self._count(done.text):,} tokens for a budget of {budget:,}", kind="no_room")
        return ModelSummary(
            done.text,
            written_by=name,
            template="",
            warnings=_warnings(name, done, draft.is_truncated, attempt.failures),
            unverified=done.unverified,
            handoff=done.handoff,
        )

    async def _draft(
        self,
        complete: Complete,
        prompt: str,
        max_tokens: int,
        is_last_try: Callable[[SummaryFailed], bool] = lambda _: False,
    ) -> DraftHandoff:
        """The draft that the model writes for a prompt; transient failures are retried.

        A model that replied with no handoff is asked again with what its reply lacks.
        """
        attempt, asked = 0, prompt
        while True:
            try:
                return await _draft_once(complete, asked, max_tokens)
            except SummaryFailed as failure:
                policy = self._retry_policy or _default_retry_policy()
                wait = policy.delay(attempt, failure.retry_after)
                if wait is None or attempt >= failure_kind_of(failure).retries or is_last_try(failure):
                    raise
                attempt += 1
                asked = f"{prompt}\n{_AGAIN.format(problem=failure.problem)}" if is_about_reply(failure) else prompt
                await self._sleep(wait)

    def _with_cooldown(self, cooldowns: Cooldowns, model: SummaryModel, failure: SummaryFailed) -> Cooldowns:
        seconds = failure_kind_of(failure).cooldown_seconds
        if seconds:
            seconds = max(seconds, failure.retry_after or 0.0)
        return cooldowns.start(model.name, seconds, describe_failure(failure), self._clock())

    async def _built_in(self, source: SummaryInput, budget: int, failures: Sequence[str]) -> Summary:
        summary: Summary = await self._compute(summarize_builtin, source, budget, self._count)
        if not failures:
            return summary
        return replace(
            summary, warnings=(f"The summary was written by the built-in summariser: {'; '.join(failures)}.",)
        )


def _default_retry_policy() -> RetryPolicy:
    # Imported only where something failed, since the table of errors is large.
    from clew.providers import RetryPolicy

    return RetryPolicy(first_wait_seconds=1.0, max_wait_seconds=20.0)


async def _draft_once(complete: Complete, prompt: str, max_tokens: int) -> DraftHandoff:
    try:
        text = await complete(prompt, max_tokens)
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


def _warnings(name: str, done: CompletedHandoff, is_truncated: bool, failures: Sequence[str]) -> tuple[str, ...]:
    warnings = [f"The summary was written by {name}: {'; '.join(failures)}."] if failures else []
    if is_truncated:
        warnings.append(f"{name} stopped before the end of its handoff; the rest was completed from the record.")
    if done.left_out:
        warnings.append(f"{name} wrote more than the budget: {done.left_out} of its lines were left out.")
    if done.unverified:
        some = ", ".join(done.unverified[:_NAMED_IN_WARNING])
        more = f" and {len(done.unverified) - _NAMED_IN_WARNING} more" * (len(done.unverified) > _NAMED_IN_WARNING)
        warnings.append(f"The conversation does not show {some}{more}.")
    return tuple(warnings)
