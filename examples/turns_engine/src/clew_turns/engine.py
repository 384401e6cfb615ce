"""The engine: when to compact, what it remembers, and the tool it offers. How is in `turns`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clew.engines import Compaction, ContextEngine, EngineSetup, EngineStatus, Fate, SessionStart
from clew.errors import InvalidMessage
from clew.messages import Message, Tool, repair, text_of
from clew.tokens import count_each
from clew.usage import CanonicalUsage

from .turns import PROMPTS, Split, is_list, list_of, requests_in, split

MOST_REQUESTS = 500
LONGEST_REQUEST = 4_000

EARLIER_REQUEST: Tool = {
    "type": "function",
    "function": {
        "name": "earlier_request",
        "description": "The full text of a request that is listed by its number at the start of the conversation.",
        "parameters": {
            "type": "object",
            "properties": {"number": {"type": "integer", "minimum": 1, "description": "The number in the list."}},
            "required": ["number"],
        },
    },
}


class TurnsEngine(ContextEngine):
    """Keeps the newest turns whole, and a list of what was asked before them."""

    name = "turns"

    def __init__(self, setup: EngineSetup) -> None:
        self._settings = setup.compression
        self._last_prompt_tokens = 0
        self._compactions = 0
        self._requests: list[str] = []
        self.update_model(setup.model, setup.context_length, setup.max_output)

    def on_session_start(self, start: SessionStart) -> None:
        self._compactions = int(start.memory.get("compactions", 0))
        self._requests = [str(request) for request in start.memory.get("requests", ())]

    def on_session_reset(self) -> None:
        self._last_prompt_tokens = 0
        self._compactions = 0
        self._requests = []

    @property
    def memory(self) -> Mapping[str, Any]:
        return {"compactions": self._compactions, "requests": list(self._requests)}

    def update_model(self, model: str | None, context_length: int, max_output: int | None = None) -> None:
        self._model = model
        self._window = context_length
        # Room for the reply comes off the window first.
        reserve = min(max_output or 0, context_length // 2)
        self._threshold = min(int(context_length * self._settings.threshold), context_length - reserve)

    def update_from_response(self, usage: CanonicalUsage) -> None:
        self._last_prompt_tokens = usage.prompt_tokens

    def get_status(self) -> EngineStatus:
        return EngineStatus(self._last_prompt_tokens, self._threshold, self._window, self._compactions)

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        tokens = self._last_prompt_tokens if prompt_tokens is None else prompt_tokens
        return tokens >= self._threshold

    def has_content_to_compress(self, messages: Sequence[Message]) -> bool:
        sound = _sound(messages)
        return sound is not None and bool(self._split(sound).goes)

    async def compress(
        self,
        messages: Sequence[Message],
        current_tokens: int | None = None,
        focus_topic: str | None = None,
        force: bool = False,
    ) -> Compaction:
        del focus_topic, force  # a list of requests has no topic, and this engine never refuses
        counted = sum(count_each(messages, self._model))
        before = counted if current_tokens is None else current_tokens
        sound = _sound(messages)
        if sound is None:
            return Compaction.nothing(messages, before, "A message cannot be read; nothing was changed.")
        parts = self._split(sound)
        requests = [*self._known(sound), *_requests(sound, parts)][-MOST_REQUESTS:]
        result = _assembled(sound, parts, requests)
        after = before - counted + sum(count_each(result, self._model))
        if not parts.goes or after >= before:
            return Compaction.nothing(messages, before)
        # Only now: a compaction that is given up must leave no trace.
        self._requests = requests
        self._compactions += 1
        return Compaction(result, True, before, after, fates=_fates(messages, result), written_by=self.name)

    def get_tool_schemas(self) -> list[Tool]:
        return [EARLIER_REQUEST]

    async def handle_tool_call(self, name: str, arguments: Mapping[str, Any]) -> str:
        if name != "earlier_request":
            return await super().handle_tool_call(name, arguments)
        number = arguments.get("number")
        if not isinstance(number, int) or not 1 <= number <= len(self._requests):
            # A model reads this: it says what to do instead.
            return f"There is no request {number!r}; the list goes from 1 to {len(self._requests)}."
        return self._requests[number - 1]

    def _split(self, messages: Sequence[Message]) -> Split:
        budget = int(self._threshold * self._settings.target_ratio)
        return split(messages, count_each(messages, self._model), budget)

    def _known(self, messages: Sequence[Message]) -> list[str]:
        """What earlier compactions listed: remembered, or else read from the list that stands in the messages."""
        if self._requests:
            return self._requests
        return [request for message in messages if is_list(message) for request in requests_in(message)]


def _sound(messages: Sequence[Message]) -> Sequence[Message] | None:
    """Every call with its result, which the cuts rely on; None where no repair can help."""
    try:
        return repair(messages, open_end=True).messages
    except InvalidMessage:
        return None


def _requests(messages: Sequence[Message], parts: Split) -> list[str]:
    """What was asked in the messages that go."""
    asked = (messages[place] for place in parts.goes if messages[place]["role"] == "user")
    return [text_of(message)[:LONGEST_REQUEST] for message in asked if not is_list(message)]


def _assembled(messages: Sequence[Message], parts: Split, requests: Sequence[str]) -> list[Message]:
    stays = [messages[place] for place in parts.stays if not is_list(messages[place])]
    if not requests:
        return stays
    place = next((place for place, message in enumerate(stays) if message["role"] not in PROMPTS), len(stays))
    return [*stays[:place], list_of(requests), *stays[place:]]


def _fates(messages: Sequence[Message], result: Sequence[Message]) -> tuple[Fate, ...]:
    there = set(map(id, result))
    return tuple(Fate.KEPT if id(message) in there else Fate.REMOVED for message in messages)
