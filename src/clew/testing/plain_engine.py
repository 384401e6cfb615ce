"""A context engine in one page: it keeps the system prompt, the newest request and the last few messages.

Ordinary and deterministic, with no model and no summary. A fake for tests of whoever holds an engine, and a place to
see what the contract asks for at least.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clew.engines import Compaction, ContextEngine, EngineSetup, EngineStatus, Fate, SessionStart
from clew.errors import InvalidMessage
from clew.messages import Message, last_cut_at_or_before, repair, safe_cuts
from clew.tokens import count_tokens
from clew.usage import CanonicalUsage


class PlainEngine(ContextEngine):
    """Forgets all but the last `keep` messages, and what must never be forgotten."""

    name = "plain"

    def __init__(self, setup: EngineSetup | None = None, keep: int = 6) -> None:
        setup = setup or EngineSetup()
        self._share = setup.compression.threshold
        self._keep = keep
        self._window = setup.context_length
        self._last_prompt_tokens = 0
        self._compactions = 0

    def on_session_start(self, start: SessionStart) -> None:
        self._compactions = int(start.memory.get("compactions", 0))

    def on_session_reset(self) -> None:
        self._last_prompt_tokens = 0
        self._compactions = 0

    def update_from_response(self, usage: CanonicalUsage) -> None:
        self._last_prompt_tokens = usage.prompt_tokens

    def update_model(self, model: str | None, context_length: int, max_output: int | None = None) -> None:
        del model, max_output
        self._window = context_length

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        tokens = self._last_prompt_tokens if prompt_tokens is None else prompt_tokens
        return tokens >= self.get_status().threshold_tokens

    def has_content_to_compress(self, messages: Sequence[Message]) -> bool:
        sound = _sound(messages)
        return sound is not None and len(_kept(sound, self._keep)) < len(sound)

    async def compress(
        self,
        messages: Sequence[Message],
        current_tokens: int | None = None,
        focus_topic: str | None = None,
        force: bool = False,
    ) -> Compaction:
        del focus_topic, force
        counted = count_tokens(messages)
        before = counted if current_tokens is None else current_tokens
        sound = _sound(messages)
        if sound is None:
            return Compaction.nothing(messages, before, "A message cannot be read: nothing was changed.")
        result = [sound[place] for place in _kept(sound, self._keep)]
        after = before - counted + count_tokens(result)
        if len(result) == len(sound) or after >= before:
            return Compaction.nothing(messages, before)
        self._compactions += 1
        there = set(map(id, result))
        fates = tuple(Fate.KEPT if id(message) in there else Fate.REMOVED for message in messages)
        return Compaction(result, True, before, after, fates=fates)

    def get_status(self) -> EngineStatus:
        threshold = int(self._window * self._share)
        return EngineStatus(self._last_prompt_tokens, threshold, self._window, self._compactions)

    @property
    def memory(self) -> Mapping[str, Any]:
        return {"compactions": self._compactions}


def _sound(messages: Sequence[Message]) -> Sequence[Message] | None:
    try:
        return repair(messages, open_end=True).messages
    except InvalidMessage:
        return None


def _kept(messages: Sequence[Message], keep: int) -> list[int]:
    """Places of what stays: never a result without its call, because a cut lies between groups only."""
    start = last_cut_at_or_before(safe_cuts(messages), len(messages) - keep)
    newest = max((place for place, message in enumerate(messages) if message["role"] == "user"), default=0)
    prompts = [place for place in range(start) if messages[place]["role"] in ("system", "developer")]
    request = [newest] if newest < start and messages[newest]["role"] == "user" else []
    return [*sorted({*prompts, *request}), *range(start, len(messages))]
