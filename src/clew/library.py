"""The library door: `clew.compress`, the same as `clew.acompress`, and `clew.preview`.

Decodes the input, runs the compressor or the named engine, and encodes the result. Which messages are kept or folded
is decided by the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from clew import tokens
from clew.config import CompressionSettings
from clew.engines import (
    Budgets,
    Compaction,
    CompactionPreview,
    ContextCompressor,
    ContextEngine,
    EngineFactory,
    EngineSetup,
    Fate,
    budgets_for,
    budgets_for_target,
    checked_compaction,
    checked_tokens,
    checked_topic,
    checked_window,
    kept_items,
    repair_warnings,
)
from clew.errors import InvalidArgument
from clew.messages import ParsedConversation, read_conversation, repair

if TYPE_CHECKING:
    from clew.handoff import Handoff, SummaryModel

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, repr=False)
class Compressed:
    """A compressed conversation in the dialect of the input, and what was done to each message.

    An unchanged message is the same object as in the input, a dict or an object of an SDK. A message that Clew changed
    or wrote is a plain dict, which the SDKs accept, too.
    """

    messages: list[Any]
    """Always a list, also when the input was a whole request."""
    request: Any
    """The whole request with these messages, if the input was a request; None if it was a list."""
    system: Any
    """The system prompt, if the input had one outside the messages."""
    summary: str | None
    changed: bool
    tokens_before: int
    tokens_after: int
    warnings: tuple[str, ...]
    compaction: Compaction
    conversation: ParsedConversation

    @property
    def handoff(self) -> Handoff | None:
        """The summary as a value: sections of entries, each with the numbers of its source messages."""
        return self.compaction.read_handoff()

    @property
    def fates(self) -> tuple[Fate, ...]:
        """What was done to each message, in the order of `conversation.messages`."""
        return self.compaction.fates

    def __repr__(self) -> str:
        return f"<Compressed: {self._line()}>"

    def _repr_html_(self) -> str:
        """HTML for notebooks: a bar for the size before and one for the size after."""
        from html import escape

        bars = "".join(
            f'<div style="background:{colour};height:12px;margin:2px 0;width:{_percent(tokens, self.tokens_before)}%" '
            f'title="{word}: {tokens:,} tokens"></div>'
            for word, tokens, colour in (
                ("before", self.tokens_before, "#9aa5b1"),
                ("after", self.tokens_after, "#2f855a"),
            )
        )
        warnings = "".join(f"<li>{escape(warning)}</li>" for warning in self.warnings)
        line = f"<div>{escape(self._line())}</div>"
        return f'<div style="max-width:40em">{line}{bars}{f"<ul>{warnings}</ul>" if warnings else ""}</div>'

    def _line(self) -> str:
        before, after = len(self.compaction.source), len(self.compaction.messages)
        if not self.changed:
            return f"unchanged, {before:,} messages, {self.tokens_before:,} tokens"
        by = f", handoff by {self.compaction.written_by}" if self.compaction.written_by else ""
        warnings = f", {len(self.warnings)} warnings" if len(self.warnings) > 1 else ", 1 warning" * len(self.warnings)
        return f"{before:,} -> {after:,} messages, {self.tokens_before:,} -> {self.tokens_after:,} tokens{by}{warnings}"


def _percent(tokens: int, of: int) -> float:
    return round(100 * tokens / max(1, of), 1)


def compress(
    messages: Any,
    *,
    context_length: int | None = None,
    max_output: int | None = None,
    target_tokens: int | None = None,
    focus_topic: str | None = None,
    summarizer: Callable[..., Any] | SummaryModel | None = None,
    system: Any = None,
    tools: Iterable[Any] | None = None,
    model: str | None = None,
    settings: CompressionSettings | None = None,
    engine: str | EngineFactory | None = None,
) -> Compressed:
    """Fold a long conversation into a short one: old messages are replaced by a handoff.

    `messages` are OpenAI chat, Anthropic, Responses or Gemini messages, a whole request that holds them, or a
    `ParsedConversation`; the result is in the same dialect. They may be dicts, objects of the
    SDKs, pydantic models or dataclasses, at every level. With `target_tokens` the result has about that many tokens at
    most; with `context_length` its size is the one that Clew chooses for a window of that size, with room for
    a reply of `max_output` tokens (default: the limit in the request, if the input is one). Without a `summarizer`
    (a callable that takes a prompt and returns text, or a `SummaryModel`) the built-in one writes the handoff: no key,
    no network. `engine` is the name of another engine, such as `lcm` or a plugin in `CLEW_HOME`, or a factory; other
    engines accept no `target_tokens`. Raises `InvalidArgument` and `InvalidMessage` for input that cannot be read.
    """
    work = acompress(
        messages,
        context_length=context_length,
        max_output=max_output,
        target_tokens=target_tokens,
        focus_topic=focus_topic,
        summarizer=summarizer,
        system=system,
        tools=tools,
        model=model,
        settings=settings,
        engine=engine,
    )
    return _run(work) if summarizer is None and engine is None else _run_in_loop(work)


async def acompress(
    messages: Any,
    *,
    context_length: int | None = None,
    max_output: int | None = None,
    target_tokens: int | None = None,
    focus_topic: str | None = None,
    summarizer: Callable[..., Any] | SummaryModel | None = None,
    system: Any = None,
    tools: Iterable[Any] | None = None,
    model: str | None = None,
    settings: CompressionSettings | None = None,
    engine: str | EngineFactory | None = None,
) -> Compressed:
    """The same as `compress`, for async callers."""
    checked_topic(focus_topic)
    conversation = _conversation(messages, system, tools)
    request = _Request.of(conversation, context_length, max_output, target_tokens, model, settings)
    summarize = None if summarizer is None else _summarize_with(summarizer, model, request.window)
    compressor = request.engine(summarize)
    size = compressor.size_of(conversation.messages) + request.beside
    chosen = compressor if engine is None else request.other_engine(engine, summarize)
    if request.fits(size):
        compaction = Compaction.nothing(conversation.messages, size)
    else:
        done = await chosen.compress(conversation.messages, size, focus_topic)
        compaction = checked_compaction(done, chosen.name)
    if not compaction.changed:
        compaction = _repaired(compressor, compaction)
    return Compressed(
        messages=_written_list(messages, conversation, compaction),
        request=_written_request(messages, conversation, compaction),
        system=conversation.write_system(compaction.messages),
        summary=compaction.summary,
        changed=compaction.changed,
        tokens_before=compaction.tokens_before,
        tokens_after=compaction.tokens_after,
        warnings=(*compaction.warnings, *_missed_target(request, compaction, compressor)),
        compaction=compaction,
        conversation=conversation,
    )


def preview(
    messages: Any,
    *,
    context_length: int | None = None,
    max_output: int | None = None,
    target_tokens: int | None = None,
    focus_topic: str | None = None,
    summarizer: Callable[..., Any] | SummaryModel | None = None,
    system: Any = None,
    tools: Iterable[Any] | None = None,
    model: str | None = None,
    settings: CompressionSettings | None = None,
    engine: str | EngineFactory | None = None,
) -> CompactionPreview:
    """What `compress` would do with each message; no summary is written and no model is called.

    It takes the same arguments; `focus_topic` and `summarizer` have no effect. If the summary needs
    much less than its share of `target_tokens`, `compress` keeps more of the newest messages than the preview shows.
    """
    checked_topic(focus_topic)
    del summarizer
    conversation = _conversation(messages, system, tools)
    request = _Request.of(conversation, context_length, max_output, target_tokens, model, settings)
    compressor = request.engine()
    size = compressor.size_of(conversation.messages) + request.beside
    if engine is not None:
        from clew.engines import LosslessEngine

        other = request.other_engine(engine)
        if not isinstance(other, ContextCompressor | LosslessEngine):
            raise InvalidArgument(
                f"the engine {other.name!r} has no preview", remedy="let it fold, which changes no message"
            )
        return other.preview(conversation.messages, size)
    if request.fits(size):
        # `compress` would leave it alone: so large a tail takes everything.
        compressor = replace(request, budgets=replace(request.budgets, tail=2 * size)).engine()
    return compressor.preview(conversation.messages, size)


@dataclass(frozen=True, slots=True)
class _Request:
    """The size limits of a compression, and the token counter for them."""

    model: str | None
    settings: CompressionSettings
    budgets: Budgets
    target: int | None
    beside: int
    """Tokens of the request outside its messages."""
    system_as_blocks: bool
    max_output: int | None

    @classmethod
    def of(
        cls,
        conversation: ParsedConversation,
        context_length: int | None,
        max_output: int | None,
        target: int | None,
        model: str | None,
        settings: CompressionSettings | None,
    ) -> _Request:
        target = None if target is None else checked_tokens("target_tokens", target)
        max_output = None if max_output is None else checked_tokens("max_output", max_output)
        context_length = None if context_length is None else checked_window(context_length)
        if model is not None and not isinstance(model, str):
            raise InvalidArgument(f"model={model!r:.80} is no text", remedy="pass the name of a model, or None")
        if settings is not None and not isinstance(settings, CompressionSettings):
            raise InvalidArgument(
                f"settings={settings!r:.80}", remedy="pass a clew.config.CompressionSettings, or None"
            )
        if target is not None and context_length is not None:
            raise InvalidArgument(
                f"context_length={context_length} and target_tokens={target}: both say how short",
                remedy="give one of them",
            )
        counter, settings = tokens.counter_for(model), settings or CompressionSettings()
        beside = counter.tools(conversation.tools) + counter.request
        output = conversation.max_output if max_output is None else max_output
        if target is not None:
            budgets = _budgets_for_target(target, beside, settings)
        else:
            budgets = budgets_for(tokens.window_of(model, configured=context_length).tokens, settings, output)
        return cls(model, settings, budgets, target, beside, conversation.dialect == "anthropic", output)

    @property
    def window(self) -> int:
        """The window of the model that the conversation is for."""
        return self.budgets.window if self.target is None else tokens.window_of(self.model).tokens

    def engine(self, summarize: Any = None) -> ContextCompressor:
        return ContextCompressor(
            model=self.model,
            settings=self.settings,
            budgets=self.budgets,
            summarize=summarize,
            system_as_blocks=self.system_as_blocks,
            has_store=False,
        )

    def other_engine(self, engine: str | EngineFactory, summarize: Any = None) -> ContextEngine:
        """The engine with that name or from that factory, without a store."""
        # Imported here because no other function needs it.
        from clew.turn.projection import engine_factory

        if self.target is not None:
            raise InvalidArgument(
                f"target_tokens={self.target} is for the compressor", remedy="give context_length with an engine"
            )
        setup = EngineSetup(
            self.budgets.window,
            self.model,
            self.max_output,
            self.settings,
            summarize,
            system_as_blocks=self.system_as_blocks,
            has_store=False,
        )
        return engine_factory(engine, None, self.model or "")(setup)

    def fits(self, tokens: int) -> bool:
        """Whether a request of this size needs no compaction."""
        return self.target is not None and tokens <= self.target


def _conversation(messages: Any, system: Any, tools: Iterable[Any] | None) -> ParsedConversation:
    if isinstance(messages, ParsedConversation):
        return messages
    return read_conversation(messages, system=system, tools=tools)


def _written_list(original: Any, conversation: ParsedConversation, compaction: Compaction) -> list[Any]:
    if compaction.changed:
        return conversation.write_list(compaction.messages)
    if isinstance(original, list):
        return original
    listed = original.get(conversation.list_field) if isinstance(original, Mapping) else None
    return listed if isinstance(listed, list) else conversation.write_list()


def _written_request(original: Any, conversation: ParsedConversation, compaction: Compaction) -> Any:
    if not conversation.is_request:
        return None
    if compaction.changed:
        return conversation.write(compaction.messages)
    return conversation.write() if original is conversation else original


def _budgets_for_target(target: int, beside: int, settings: CompressionSettings) -> Budgets:
    try:
        return budgets_for_target(target - beside, settings)
    except InvalidArgument as error:
        why = f": tools and framing alone take {beside:,} tokens" if beside > 100 else ""
        raise InvalidArgument(
            f"target_tokens={target} is too small{why}", remedy=f"use at least {beside + 500:,}"
        ) from error


def _repaired(engine: ContextCompressor, unchanged: Compaction) -> Compaction:
    """A short conversation, repaired if it is broken and the repair does not make it larger."""
    source = unchanged.source
    repaired = repair(source, open_end=True)
    if not repaired.repairs:
        return unchanged
    after = unchanged.tokens_after + engine.size_of(repaired.messages) - engine.size_of(source)
    if after > unchanged.tokens_before:
        left = repair_warnings(
            repaired.repairs, "The history is broken, and left so since a repair would make it larger"
        )
        return replace(unchanged, warnings=(*unchanged.warnings, *left))
    warnings = (*unchanged.warnings, *repair_warnings(repaired.repairs))
    return Compaction(source, tuple(kept_items(source, repaired)), unchanged.tokens_before, after, warnings=warnings)


def _missed_target(request: _Request, compaction: Compaction, engine: ContextCompressor) -> tuple[str, ...]:
    target = request.target
    if target is None or compaction.tokens_after <= target:
        return ()
    prompts = engine.size_of([message for message in compaction.messages if message["role"] in ("system", "developer")])
    return (
        f"target_tokens={target:,} was not reached, the result has {compaction.tokens_after:,} tokens: the system "
        f"prompt takes {prompts:,} and the tools {request.beside:,}, which no compaction makes smaller, and the newest "
        "messages stay. Give a larger target.",
    )


def _summarize_with(summarizer: Callable[..., Any] | SummaryModel, model: str | None, window: int) -> Any:
    from clew.handoff import ModelSummarizer, summary_model_for

    return ModelSummarizer([summary_model_for(summarizer, window)], tokens.counter_for(model).text)


def _run(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a coroutine that never waits, without asyncio, whose import takes as long as a short fold."""
    try:
        work.send(None)
    except StopIteration as end:
        result: _Result = end.value
        return result
    raise RuntimeError("the built-in summariser waited for something")


def _run_in_loop(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run to the end from synchronous code, also where an event loop is already running in this thread."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(max_workers=1) as pool:
        return pool.submit(asyncio.run, work).result()
