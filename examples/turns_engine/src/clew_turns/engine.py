"""The engine: how it compacts, what it remembers, and the tool it offers. Which messages stay is in `turns`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clew.engines import Compaction, CompactionItem, ContextEngine, Removed, Summarized, kept_items
from clew.errors import InvalidMessage
from clew.messages import Message, Repaired, Tool, repair, text_of
from clew.tokens import count_each

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

    async def compress(
        self,
        messages: Sequence[Message],
        current_tokens: int | None = None,
        focus_topic: str | None = None,
        force: bool = False,
    ) -> Compaction:
        del focus_topic, force  # a list of requests has no topic, and this engine never refuses
        repaired = _repaired(messages)
        if repaired is None:
            return self.unchanged(messages, current_tokens, "A message cannot be read; nothing was changed.")
        parts = self._split(repaired.messages)
        if not parts.goes:
            return self.unchanged(messages, current_tokens)
        requests = [*self._known(repaired.messages), *_requests(repaired.messages, parts)][-MOST_REQUESTS:]
        items = _items(messages, repaired, parts, requests)
        # The engine is left as it is: the host restores this state once the compaction is in effect.
        return self.compaction(messages, items, current_tokens, state={"requests": requests}, written_by=self.name)

    def has_content_to_compress(self, messages: Sequence[Message]) -> bool:
        repaired = _repaired(messages)
        return repaired is not None and bool(self._split(repaired.messages).goes)

    def get_tool_schemas(self) -> list[Tool]:
        return [EARLIER_REQUEST]

    async def handle_tool_call(self, name: str, arguments: Mapping[str, Any]) -> str:
        if name != "earlier_request":
            return await super().handle_tool_call(name, arguments)
        number, requests = arguments.get("number"), self.state.get("requests", [])
        if not isinstance(number, int) or not 1 <= number <= len(requests):
            # A model reads this: it says what to do instead.
            return f"There is no request {number!r}; the list goes from 1 to {len(requests)}."
        return str(requests[number - 1])

    def _split(self, messages: Sequence[Message]) -> Split:
        budget = int(self.threshold_tokens * self.settings.target_ratio)
        return split(messages, count_each(messages, self.model), budget)

    def _known(self, messages: Sequence[Message]) -> list[str]:
        """What earlier compactions listed: remembered, or else read from the list that stands in the messages."""
        listed = (request for message in messages if is_list(message) for request in requests_in(message))
        return [str(request) for request in self.state.get("requests") or listed]


def _repaired(messages: Sequence[Message]) -> Repaired | None:
    """Every call with its result, which the cuts rely on; None where no repair can help."""
    try:
        return repair(messages, open_end=True)
    except InvalidMessage:
        return None


def _requests(messages: Sequence[Message], parts: Split) -> list[str]:
    """What was asked in the messages that go."""
    asked = (messages[position] for position in parts.goes if messages[position]["role"] == "user")
    return [text_of(message)[:LONGEST_REQUEST] for message in asked if not is_list(message)]


def _items(
    source: Sequence[Message], repaired: Repaired, parts: Split, requests: Sequence[str]
) -> list[CompactionItem]:
    """What stays, and behind the system prompt the list, which stands for what goes."""
    items = kept_items(source, repaired, set(parts.stays))
    gone = tuple(item.index for item in items if isinstance(item, Removed))
    if not requests:
        return items
    stays = [item for item in items if not isinstance(item, Removed)]
    prompts = [message["role"] in PROMPTS for message in (repaired.messages[position] for position in parts.stays)]
    at = prompts.index(False) if False in prompts else len(stays)
    listed = list_of(requests)
    return [*stays[:at], Summarized(listed, gone, text_of(listed)), *stays[at:]]
