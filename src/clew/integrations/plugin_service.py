"""The service that Clew's plugins inside other agents talk to: it stores a history, folds it and recalls from it.

A plugin sends the messages that its program holds, as OpenAI chat messages, when the program is about to compact. The
answer says what to put in their place: as a list, for programs that take one, and as one text, for those that keep
their newest messages themselves. Whatever goes wrong here, the program compacts by itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec
from aiohttp import web
from msgspec import Meta, Struct

from clew import __version__
from clew.errors import ClewError, InvalidArgument, InvalidMessage
from clew.gateway import TOKEN_HEADER, Refusal, is_same_secret
from clew.handoff import unwrap
from clew.integrations.held_conversation import FoldRequest, FoldResult, HeldConversation, without_private_keys
from clew.messages import Message, read_conversation, text_of
from clew.store import Store, plugin_session_id
from clew.turn import ModelTarget, RuntimeOptions, message_text

PREFIX = "/inside/v1/"
MAX_OPEN = 32
"""Conversations that are held ready; others are found again in the store."""
_ANY_MODEL = "any-model"
Program: TypeAlias = Literal["claude-code", "opencode", "pi", "openclaw"]
SessionName: TypeAlias = Annotated[str, Meta(pattern=r"^[\w.:@-]{1,160}$")]
_Call = TypeVar("_Call", bound="FoldCall | RecallCall")


class FoldCall(Struct, frozen=True):
    """The messages of a program, to be compacted or only stored."""

    program: Program
    session: SessionName
    """The program's own id of the conversation."""
    messages: Annotated[list[Any], Meta(min_length=1)]
    model: str | None = None
    window: int | None = None
    tokens: int | None = None
    focus: str | None = None
    kept_from: Annotated[int, Meta(ge=0)] | None = None
    """The place of the first message that the program keeps itself; None: it keeps none."""
    is_more: bool = False
    """Whether the messages follow those of earlier calls; else they are all that the program holds."""

    @property
    def target(self) -> ModelTarget:
        return ModelTarget(None, self.model or _ANY_MODEL, context_length=self.window or None)


class RecallCall(Struct, frozen=True):
    """A recall by the model of a program."""

    program: Program
    session: SessionName
    query: str | None = None
    open: str | None = None
    around: str | None = None


class PluginService:
    """Answers plugins; served by `PageServer`."""

    path = PREFIX.rstrip("/")
    headers: Mapping[str, str] = {}

    def __init__(
        self, store: Store, options: RuntimeOptions, token: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._options = options
        self._token = token
        self._clock = clock
        self._open: dict[str, HeldConversation] = {}
        self._opening = asyncio.Lock()
        self.used_at = clock()
        """The time of the last request."""

    def add_to(self, application: web.Application) -> None:
        application.router.add_get(f"{PREFIX}hello", self._hello)
        application.router.add_post(f"{PREFIX}fold", self._fold)
        application.router.add_post(f"{PREFIX}record", self._record)
        application.router.add_post(f"{PREFIX}recall", self._recall)

    async def close(self) -> None:
        for conversation in self._open.values():
            await conversation.close()
        self._open.clear()

    async def _hello(self, request: web.Request) -> web.Response:
        self._admit(request)
        return web.json_response({"clew": __version__, "store": self._store.where})

    async def _fold(self, request: web.Request) -> web.Response:
        self._admit(request)
        call = await _read(request, FoldCall)
        conversation, given = await self._given(call)
        try:
            asked = FoldRequest(call.tokens or None, (call.focus or "").strip() or None, force=True)
            result = await conversation.fold(given, asked, call.target)
        except ClewError as problem:
            raise Refusal(409, f"the conversation was not folded: {problem}") from problem
        if not result.changed:
            return web.json_response({"changed": False, "session": conversation.session})
        return web.json_response(_folded(result, call, conversation.session))

    async def _record(self, request: web.Request) -> web.Response:
        self._admit(request)
        call = await _read(request, FoldCall)
        conversation, given = await self._given(call)
        try:
            await conversation.record(given, call.target)
        except ClewError as problem:
            raise Refusal(409, f"the messages were not stored: {problem}") from problem
        return web.json_response({"session": conversation.session, "messages": len(await conversation.stored())})

    async def _recall(self, request: web.Request) -> web.Response:
        self._admit(request)
        call = await _read(request, RecallCall)
        conversation = await self._conversation(call, ModelTarget(None, _ANY_MODEL))
        asked = {"query": call.query, "open": call.open, "around": call.around}
        wanted = {name: value for name, value in asked.items() if value is not None}
        try:
            result = await conversation.recall(wanted)
        except ClewError as problem:
            raise Refusal(400, str(problem)) from problem
        return web.json_response({"text": result.text, "is_error": result.is_error})

    def _admit(self, request: web.Request) -> None:
        if not is_same_secret(request.headers.get(TOKEN_HEADER, ""), self._token):
            raise Refusal(401, "this service is for plugins of the same user, which read its token from a private file")
        self.used_at = self._clock()

    async def _given(self, call: FoldCall) -> tuple[HeldConversation, list[dict[str, Any]]]:
        """The conversation of a call, and what its program holds of it."""
        try:
            messages = list(read_conversation(call.messages, dialect="openai_chat").messages)
        except (InvalidMessage, InvalidArgument) as problem:
            raise Refusal(400, str(problem)) from problem
        conversation = await self._conversation(call, call.target)
        given = _followed(await conversation.stored(), messages) if call.is_more else messages
        return conversation, [dict(message) for message in given]

    async def _conversation(self, call: FoldCall | RecallCall, target: ModelTarget) -> HeldConversation:
        name = plugin_session_id(call.program, call.session)
        async with self._opening:
            found = self._open.pop(name, None)
            found = found or HeldConversation(
                self._store,
                self._options,
                target,
                name,
                call.program,
                imported=f"{call.program}-{call.session}",
                compacts_own_list=call.program == "claude-code",
            )
            self._open[name] = found
            while len(self._open) > MAX_OPEN:
                await self._open.pop(next(iter(self._open))).close()
        return found


def _folded(result: FoldResult, call: FoldCall, session: str | None) -> dict[str, Any]:
    """The answer to a fold: kept messages by their place, the others in full."""
    done = result.compaction
    items: list[dict[str, Any]] = []
    for message, place in zip(result.messages, result.places, strict=True):
        items.append({"place": place} if place is not None else {"message": without_private_keys(message)})
    behind = [number for number in result.numbers if number is not None]
    tail = _tail_start(result)
    kept_from = None if call.kept_from is None else max(call.kept_from, min(tail, len(call.messages)))
    return {
        "changed": True,
        "session": session,
        "items": items,
        "text": _as_text(result, kept_from),
        "kept_from": kept_from,
        "kept": len(behind),
        "tokens_before": done.tokens_before if done else None,
        "tokens_after": done.tokens_after if done else None,
    }


def _tail_start(result: FoldResult) -> int:
    """The number of the first message behind the last handoff: all from there on are kept."""
    last = max((at for at, message in enumerate(result.messages) if _handoff(message)), default=-1)
    numbers = [number for number in result.numbers[last + 1 :] if number is not None]
    return min(numbers, default=0)


def _as_text(result: FoldResult, kept_from: int | None) -> str:
    """The handoff, followed by the kept messages that the program does not keep itself."""
    handoffs, others = [], []
    for message, number in zip(result.messages, result.numbers, strict=True):
        if _handoff(message):
            handoffs.append(text_of(without_private_keys(message)))
        elif kept_from is None or (number is not None and number < kept_from):
            label = "" if number is None else f"m{number}, "
            others.append(f"[{label}{message['role']}]\n{message_text(without_private_keys(message))}")
    if others:
        others.insert(0, "Messages from before, word for word or shortened where they say so:")
    return "\n\n".join((*handoffs, *others))


def _handoff(message: Mapping[str, Any]) -> bool:
    return unwrap(without_private_keys(message)) is not None


def _followed(stored: Sequence[Message], more: list[Message]) -> list[Message]:
    """A history with further messages; the same history where it ends with them already, as after a retry."""
    end = stored[-len(more) :] if more else []
    is_repeated = len(end) == len(more) and all(
        one["role"] == other["role"] and text_of(one) == text_of(other) for one, other in zip(end, more, strict=True)
    )
    return list(stored) if is_repeated else [*stored, *more]


async def _read(request: web.Request, kind: type[_Call]) -> _Call:
    """The body of a call."""
    try:
        return msgspec.json.decode(await request.read(), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise Refusal(400, f"the body is not what is asked for: {problem}") from problem
