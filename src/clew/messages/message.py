"""What a message is inside Clew (an OpenAI chat-completions dict, typed), functions that read one, and tool groups.

Messages are never changed in place. A changed message is a new dict, and an unchanged one is the same object, which
is how a dialect knows what may leave exactly as it entered. Reading never raises on a shape that is not known.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, NotRequired, Required, TypeAlias, TypedDict

from clew.errors import InvalidMessage

Role: TypeAlias = Literal["system", "developer", "user", "assistant", "tool"]
DialectName: TypeAlias = Literal["openai_chat", "responses", "anthropic", "gemini"]


def dialect_of(name: DialectName) -> Any:
    """The module of a dialect: its `read` and `write`. Most programs use one of the four."""
    return import_module(f"clew.messages.{name}")


class FunctionCall(TypedDict):
    name: str
    arguments: str
    """JSON as the model wrote it, broken or not."""


class ToolCall(TypedDict):
    id: str
    type: NotRequired[str]
    function: FunctionCall


# Any dict: {"type": "text", "text": ...}, {"type": "image_url", ...}, or a block of a type we do not know and keep.
Part: TypeAlias = dict[str, Any]


class Message(TypedDict, total=False):
    role: Required[Role]
    content: str | list[Part] | None
    name: str
    tool_calls: list[ToolCall]
    tool_call_id: str
    is_error: bool
    """On a tool message: the wire said that the call failed."""
    reasoning: list[Part]
    """On an assistant message: thinking blocks or reasoning items, as their wire wrote them, signatures included."""


# The definition of a tool, in the format of its dialect.
Tool: TypeAlias = dict[str, Any]

SCALARS = frozenset({str, int, float, bool, type(None)})
MAX_DEPTH = 100
"""Deeper than any message is. A value inside itself is deeper."""

ROLES = frozenset({"system", "developer", "user", "assistant", "tool"})
OLD_TOOL_ROLE = "function"


def refuse_unusable(message: Any, index: int) -> None:
    """Refuse what is no message, at whichever door it is given: no dict, or one without a role. A role may be null."""
    if not isinstance(message, dict):
        kind = type(message).__name__
        raise InvalidMessage(index, f"it is of type {kind}, not a dict", "Pass dicts, for example model_dump() of it")
    remedy = f"Give it one of {', '.join(sorted(ROLES))}"
    if "role" not in message:
        raise InvalidMessage(index, "it has no role", remedy)
    role = message["role"]
    if role is not None and not isinstance(role, str):
        raise InvalidMessage(index, f"its role {role!r:.80} is no text", remedy)


@dataclass(frozen=True, slots=True)
class Repair:
    """One thing that was wrong with a history, and what was done about it."""

    index: int
    """Of the message, in the history as received."""
    problem: str
    remedy: str


# A tuple: `in` must also answer for a type that is a list, which cannot be hashed.
IMAGE_TYPES = ("image_url", "image", "input_image")

CACHE_MARKER = "cache_control"
"""The field of a message, a part or a block that a client's cache breakpoint is in."""

UNREADABLE = "unreadable_arguments"
"""The key under which arguments that are no JSON object are kept, complete."""

as_json = json.JSONEncoder(ensure_ascii=False, default=str).encode
"""A value as JSON, for arguments that a wire carries as an object; a time or a path in it becomes a text.

One encoder, made once, takes half the time."""


def is_plain(value: Any, depth: int = 0) -> bool:
    """Whether a value is a dict of JSON's own types and nothing else, as nearly every message is."""
    if type(value) is not dict or depth > MAX_DEPTH:
        return False
    for name, inner in value.items():
        if type(name) is not str:
            return False
        kind = type(inner)
        if kind not in SCALARS and not (
            _is_plain_list(inner, depth + 1) if kind is list else is_plain(inner, depth + 1)
        ):
            return False
    return True


def _is_plain_list(values: list[Any], depth: int) -> bool:
    if depth > MAX_DEPTH:
        return False
    for inner in values:
        kind = type(inner)
        if kind not in SCALARS and not (
            _is_plain_list(inner, depth + 1) if kind is list else is_plain(inner, depth + 1)
        ):
            return False
    return True


def text_of(message: Message) -> str:
    """The text of the content, its parts joined by line ends; calls and reasoning are not in it."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list | tuple):
        return "\n".join(part["text"] for part in content if _has_text(part))
    return ""


def calls_of(message: Message) -> Sequence[ToolCall]:
    """The tool calls of an assistant message; empty for every other, and for calls that are no dicts."""
    calls: Any = message.get("tool_calls") or ()
    for call in calls if isinstance(calls, list) else ():
        if not isinstance(call, dict):
            kept: list[Any] = [one for one in calls if isinstance(one, dict)]
            return kept
    return calls if isinstance(calls, list) else ()


def reasoning_of(message: Message) -> list[Part]:
    """The thinking blocks or reasoning items of an assistant message, as their wire wrote them.

    Some chat wires have a text under the same name: it is no part, and has no signature to keep.
    """
    reasoning: Any = message.get("reasoning")
    return [part for part in reasoning if isinstance(part, dict)] if isinstance(reasoning, list) else []


def name_of_call(call: ToolCall) -> str:
    """The tool that a call names, a function or a custom tool; "" where it names none."""
    raw: Any = call
    inner = raw.get("function") or raw.get("custom")
    name = inner.get("name") if isinstance(inner, Mapping) else None
    return name if isinstance(name, str) else ""


def arguments_of_call(call: ToolCall) -> dict[str, Any]:
    """The arguments of a call as an object: free text under "input", what is no JSON object under `UNREADABLE`."""
    raw: Any = call
    if not raw.get("function") and isinstance(raw.get("custom"), Mapping):
        return {"input": raw["custom"].get("input", "")}
    function = raw.get("function")
    arguments = function.get("arguments") if isinstance(function, Mapping) else None
    if isinstance(arguments, Mapping):
        return dict(arguments)
    if not isinstance(arguments, str) or not arguments.strip():
        return {}
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return {UNREADABLE: arguments}
    return value if isinstance(value, dict) else {UNREADABLE: value}


def images_of(message: Message) -> list[Part]:
    """The parts that are images."""
    content: Any = message.get("content")
    if isinstance(content, str) or not isinstance(content, Sequence):
        return []
    return [part for part in content if _is_image(part)]


def without_images(message: Message, placeholder: str) -> Message:
    """The message with a text part in place of each image; the same object where it has none."""
    content: Any = message.get("content")
    if not images_of(message):
        return message
    return {**message, "content": [_text_part(placeholder) if _is_image(part) else part for part in content]}


def without_cache_markers(message: Message) -> Message:
    """The message without the cache markers on it and on its parts; the same object where there are none.

    A client moves its markers with each request. One that stayed on a message which Clew wrote would never go again.
    """
    content = message.get("content")
    parts = [unmarked(part) for part in content] if isinstance(content, list) else []
    plain = unmarked(message)
    if isinstance(content, list) and any(new is not old for new, old in zip(parts, content, strict=True)):
        plain = {**plain, "content": parts}
    return plain  # type: ignore[no-any-return]


def unmarked(holder: Any) -> Any:
    """A message, part or block without the cache marker on it; the same object where it has none."""
    if not isinstance(holder, dict):
        return holder
    plain = (
        {name: value for name, value in holder.items() if name != CACHE_MARKER} if CACHE_MARKER in holder else holder
    )
    if plain.get("type") == "tool_result" and isinstance(plain.get("content"), list):
        inner = [unmarked(block) for block in plain["content"]]
        if any(new is not old for new, old in zip(inner, plain["content"], strict=True)):
            plain = {**plain, "content": inner}
    return plain


def with_text_after_system(message: Message, text: str, *, as_block: bool) -> Message:
    """The system prompt with a text appended: as a paragraph, or `as_block`, which keeps the prompt before it cached.

    A prompt that is a list of blocks gets one more block in either case.
    """
    content = message.get("content")
    if isinstance(content, list):
        return {**message, "content": [*content, _text_part(text)]}
    if as_block:
        return {**message, "content": [_text_part(content or ""), _text_part(text)]}
    return {**message, "content": f"{content or ''}\n\n{text}"}


def join_contents(contents: Sequence[str | list[Part] | None]) -> str | list[Part] | None:
    """Several contents as one: paragraphs where all of them are texts, otherwise one list of parts."""
    filled = [content for content in contents if content]
    if not filled:
        return contents[0] if contents else None
    if len(filled) == 1:
        return filled[0]
    texts = [content for content in filled if isinstance(content, str)]
    if len(texts) == len(filled):
        return "\n\n".join(texts)
    return [part for content in filled for part in as_parts(content)]


def as_parts(content: str | list[Part] | None) -> list[Part]:
    """Content as a list of parts; a text is one part, an empty text none, and neither is what is no content at all."""
    if isinstance(content, str):
        return [_text_part(content)] if content else []
    return list(content) if isinstance(content, list | tuple) else []


def _text_part(text: str) -> Part:
    return {"type": "text", "text": text}


def _is_image(part: Any) -> bool:
    return isinstance(part, Mapping) and part.get("type") in IMAGE_TYPES


def _has_text(part: Any) -> bool:
    return isinstance(part, Mapping) and isinstance(part.get("text"), str)


NO_RESULT = "[no result was recorded for this call]"


def is_stub(message: Message) -> bool:
    """Whether a message is what a repair puts in for a result that is missing."""
    return message["role"] == "tool" and text_of(message) == NO_RESULT


def tool_groups(messages: Sequence[Message]) -> list[range]:
    """Each assistant message that calls tools, with its results, as a range of indexes; in order, never overlapping.

    In a history that is not repaired a result may be apart from its call: the range then reaches as far as the result,
    and groups that overlap are one.
    """
    starts: list[int] = []
    stops: list[int] = []
    callers: dict[str, int] = {}
    for index, message in enumerate(messages):
        role = message.get("role")
        if role == "tool":
            start = callers.get(str(message.get("tool_call_id", "")))
            if start is not None:
                while starts[-1] > start:
                    del starts[-1], stops[-1]
                stops[-1] = index + 1
        elif role == "assistant" and (calls := calls_of(message)):
            starts.append(index)
            stops.append(index + 1)
            for call in calls:
                callers[str(call.get("id", ""))] = index
    return list(map(range, starts, stops))


def safe_cuts(messages: Sequence[Message]) -> list[int]:
    """Indexes, rising, where a history may be cut into messages[:n] and messages[n:]; 0 and the end are included.

    Never between a call and its results, between parallel calls, or between reasoning and the message it led to.
    """
    cuts: list[int] = []
    callers: dict[str, int] = {}
    for index, message in enumerate(messages):
        role = message.get("role")
        if role == "tool":
            start = callers.get(str(message.get("tool_call_id", "")))
            while start is not None and cuts[-1] > start:
                cuts.pop()
            continue
        if role != "assistant":
            cuts.append(index)
            continue
        if index == 0 or not _is_only_reasoning(messages[index - 1]):
            cuts.append(index)
        for call in calls_of(message):
            callers[str(call.get("id", ""))] = index
    if not cuts or cuts[0] != 0:
        cuts.insert(0, 0)
    if messages:
        cuts.append(len(messages))
    return cuts


def last_cut_at_or_before(cuts: Sequence[int], index: int) -> int:
    """The last of these safe cuts that is not after an index."""
    return cuts[bisect_right(cuts, max(index, 0)) - 1]


def safe_cut_at_or_before(messages: Sequence[Message], index: int) -> int:
    """The last safe cut that is not after an index, found by looking at its neighbours only.

    Right for a *repaired* history, where every result is directly behind its call.
    """
    index = min(index, len(messages))
    while 0 < index < len(messages) and _belongs_to_previous(messages, index):
        index -= 1
    return max(index, 0)


def _belongs_to_previous(messages: Sequence[Message], index: int) -> bool:
    """Whether a message must not be separated from the one before it: a result, or what reasoning led to."""
    role = messages[index].get("role")
    return role == "tool" or (role == "assistant" and _is_only_reasoning(messages[index - 1]))


def _is_only_reasoning(message: Message) -> bool:
    return bool(message.get("reasoning")) and not message.get("content") and not message.get("tool_calls")


#
# An item that was not changed leaves as received: a dialect writes the place of its wire items, and encodes only what
# is new or changed. A changed message keeps what its wire items say about it: ids, signatures, the order of its pieces.


class Item:
    """A message, the wire items that it was read from, and its identity."""

    __slots__ = ("_digest", "before", "blocks", "message", "part", "parts", "place", "raw")

    def __init__(
        self,
        message: Message,
        raw: tuple[Any, ...] = (),
        place: int = -1,
        *,
        part: int = 0,
        parts: int = 1,
        blocks: Any = None,
        before: Message | None = None,
    ) -> None:
        self.message = message
        self.raw = raw
        """The wire items, as plain JSON values; none where the message is new."""
        self.place = place
        """Of the first of them in the history; -1 where the message is new."""
        self.part, self.parts = part, parts
        """Which of the messages that were read from these wire items, and how many these are."""
        self.blocks = blocks
        """The blocks of this message, where one wire item held several messages."""
        self.before = before
        """The message as it was read, where `message` is another form of it."""
        self._digest: bytes | None = None

    def __repr__(self) -> str:
        return f"Item({self.message!r}, place={self.place}, part={self.part})"

    @property
    def digest(self) -> bytes:
        """The identity of the message: equal for every spelling of it, in every process."""
        if self._digest is None:
            from clew.messages.history import digest  # which is about messages itself

            self._digest = digest(self.message)
        return self._digest

    @property
    def is_unchanged(self) -> bool:
        return self.place >= 0 and self.before is None

    @property
    def is_its_wire_item(self) -> bool:
        """Whether the message and its wire item are the same value, as on the wire of OpenAI chat."""
        return len(self.raw) == 1 and self.raw[0] is self.message

    def changed_to(self, message: Message) -> Item:
        """Another form of the message, in its place."""
        return Item(
            message, self.raw, self.place, part=self.part, parts=self.parts, blocks=self.blocks, before=self.message
        )


def in_wire_items(items: Sequence[Item]) -> Iterator[tuple[bool, Item]]:
    """The first item of each run that leaves as the wire items it came in (True), and every other item (False).

    Where one of the messages of a wire item is missing or changed, each of the others comes alone.
    """
    at = 0
    while at < len(items):
        first = items[at]
        if is_whole := first.is_unchanged and _is_whole(items, at):
            at += first.parts
        else:
            at += 1
        yield is_whole, first


def _is_whole(items: Sequence[Item], at: int) -> bool:
    first = items[at]
    if first.parts == 1:
        return True
    run = items[at : at + first.parts]
    return len(run) == first.parts and all(
        it.is_unchanged and it.place == first.place and it.part == part for part, it in enumerate(run)
    )


def places_among(messages: Sequence[Message], history: Sequence[Message]) -> Iterator[int]:
    """For each message its place in a history: where it is the same object, or has the ids of its calls.

    -1 for a message that is in neither way one of them.
    """
    # Only within this call, while both lists hold their objects.
    known = {id(message): at for at, message in enumerate(history)}
    of_calls: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    last = -1
    for message in messages:
        place = known.get(id(message))
        if place is None:
            if not of_calls:
                for at, other in enumerate(history):
                    for key in _call_keys(other):
                        of_calls[key].append(at)
            place = _next_place(of_calls, message, last)
        last = max(last, place)
        yield place


def _next_place(of_calls: Mapping[tuple[str, str], list[int]], message: Message, last: int) -> int:
    for key in _call_keys(message):
        places = of_calls.get(key, [])
        at = bisect_right(places, last)
        if at < len(places):
            return places[at]
    return -1


def _call_keys(message: Message) -> Iterator[tuple[str, str]]:
    if message.get("role") == "tool":
        yield "tool", str(message.get("tool_call_id"))
    for call in calls_of(message):
        yield "call", str(call.get("id"))


def original_of(piece: Any, read: Sequence[Any] | None, raw: Sequence[Any]) -> Any:
    """What a piece of a message was read from: `raw` has that of each of the pieces in `read`; None where it is new."""
    for known, received in zip(read or (), raw, strict=False):
        if known is piece or known == piece:
            return received
    return None


def in_original_order(original: Sequence[str] | None, pieces: Mapping[str, Sequence[Any]]) -> list[Any]:
    """Pieces of several kinds in the original order of the kinds; kind by kind where the numbers do not agree.

    Reasoning can be between calls, and its signature holds for that order, also when another piece was changed.
    """
    if original is None or any(original.count(kind) != len(same_kind) for kind, same_kind in pieces.items()):
        return [piece for same_kind in pieces.values() for piece in same_kind]
    queues = {kind: iter(same_kind) for kind, same_kind in pieces.items()}
    return [next(queues[kind]) for kind in original]
