"""A provider behind HTTP: the walk of one call, the same for every wire.

Spell the request, send it, gather the reply, retry what passes by itself, translate every failure into
`ProviderRefused`. How a wire spells a request and writes a reply is for the three modules that build on this one.
"""

from __future__ import annotations

import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from clew.errors import InvalidArgument
from clew.messages import Message
from clew.providers.base import Delta, OnDelta, Provider, ProviderRefused, Reply, Request
from clew.providers.classify import ErrorClass, classify_error
from clew.providers.http import LARGEST_ERROR_BYTES, Answer, Line, LineBroken
from clew.providers.keys import ApiKey
from clew.providers.patience import Patience
from clew.providers.sse import EventTooLong, SseEvent, SseReader

_SHOWN_BODY_CHARS = 20_000


class ErrorInReply(Exception):  # noqa: N818 (reads as what it says)
    """An error that came with status 200: as an event of the stream, or as the body."""

    def __init__(self, status: int | None, body: str) -> None:
        super().__init__(body[:200])
        self.status = status
        self.body = body


class Gathering(ABC):
    """A reply of one wire while it comes."""

    @abstractmethod
    def take(self, event: SseEvent) -> Iterator[Delta]:
        """Take in an event of the stream; raises `ErrorInReply`."""

    @abstractmethod
    def take_whole(self, body: Mapping[str, Any]) -> Iterator[Delta]:
        """Take in a reply that came in one piece; raises `ErrorInReply`."""

    @property
    @abstractmethod
    def is_complete(self) -> bool:
        """Whether the model had finished: all that is missing is what it cost."""

    @property
    @abstractmethod
    def is_over(self) -> bool:
        """Whether the wire said that nothing follows."""

    @abstractmethod
    def message(self) -> Message | None:
        """What has come so far; None where nothing has."""

    @abstractmethod
    def reply(self, request: Request) -> Reply:
        """The complete reply."""


@dataclass(frozen=True, slots=True)
class Concession:
    """A field that not every server of a wire knows: left out, or spelled otherwise, once one has refused it."""

    field: str
    refusal: re.Pattern[str]


class HttpProvider(Provider):
    """What the providers of all wires share."""

    default_base_url: ClassVar[str] = ""
    default_key_env: ClassVar[str] = ""
    models_path: ClassVar[str] = "/models"
    concessions: ClassVar[tuple[Concession, ...]] = ()

    def __init__(
        self,
        base_url: str | None = None,
        *,
        api_key: str | None = None,
        api_key_env: str | None = None,
        name: str | None = None,
        stream: bool = True,
        headers: Mapping[str, str] | None = None,
        patience: Patience | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """The key is `api_key`, else what the variable `api_key_env` holds; servers without keys need neither."""
        variable = api_key_env or (self.default_key_env if base_url is None else "")
        self._key = ApiKey(api_key or (environ if environ is not None else os.environ).get(variable))
        self._patience = patience or Patience()
        self._line = Line(base_url or self.default_base_url, self._patience)
        self._stream = stream
        self._headers = dict(headers or {})
        self._conceded: set[tuple[str, str]] = set()
        self.name = name or self._line.host

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self._key!r})"

    @abstractmethod
    def spelled(self, request: Request, without: frozenset[str]) -> dict[str, Any]:
        """The request in the words of this wire; `without` names the fields that the server has refused."""

    @abstractmethod
    def gathering(self) -> Gathering:
        """For the reply to one request."""

    @abstractmethod
    def endpoint(self) -> str:
        """Where requests go."""

    @abstractmethod
    def key_headers(self) -> dict[str, str]:
        """The headers that say who asks."""

    async def send(self, request: Request, on_delta: OnDelta | None = None) -> Reply:
        retries = 0
        while True:
            try:
                return await self._attempt(request, on_delta)
            except ProviderRefused as refused:
                if refused.partial is not None:
                    raise  # what was shown cannot be taken back
                if self._concedes(request.model, refused):
                    continue
                wait = None if request.is_tried_once else self._patience.wait_before(retries, refused.fault)
                if wait is None:
                    raise
                retries += 1
            await self._patience.sleep(wait)

    async def models(self) -> list[Mapping[str, Any]]:
        try:
            async with self._line.open("GET", self._models_url(), self._all_headers(), None) as answer:
                body = await answer.whole()
                if answer.status in (404, 405, 501):
                    return []
                if answer.status != 200:
                    raise self._refused(answer.status, _text(body), answer.headers)
        except LineBroken as broken:
            raise self._broken(str(broken), None) from broken
        listed = _json(_text(body))
        entries = listed.get("data") or listed.get("models") if isinstance(listed, dict) else listed
        return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []

    async def close(self) -> None:
        await self._line.close()

    def _models_url(self) -> str:
        return self._line.url(self.models_path)

    def _all_headers(self) -> dict[str, str]:
        accepted = "text/event-stream, application/json" if self._stream else "application/json"
        shared = {"Content-Type": "application/json", "Accept": accepted, "User-Agent": "clew"}
        return {**shared, **(self.key_headers() if self._key else {}), **self._headers}

    async def _attempt(self, request: Request, on_delta: OnDelta | None) -> Reply:
        without = frozenset(field for model, field in self._conceded if model == request.model)
        body = self.spelled(request, without)
        streams = bool(body.get("stream"))
        gathered = self.gathering()
        headers: Mapping[str, str] = {}
        has_begun = False
        try:
            async with self._line.open("POST", self.endpoint(), self._all_headers(), encoded(body)) as answer:
                headers = answer.headers
                if answer.status != 200:
                    raise self._refused(answer.status, _text(await answer.whole(LARGEST_ERROR_BYTES)), headers)
                async for delta in _deltas(answer, gathered, streams, self._patience.last_seconds):
                    has_begun = True
                    if on_delta is not None:
                        on_delta(delta)
        except ErrorInReply as error:
            raise self._refused(error.status, error.body, headers, _partial(gathered, has_begun)) from error
        except (LineBroken, EventTooLong) as broken:
            if not gathered.is_complete:
                raise self._broken(str(broken), _partial(gathered, has_begun)) from broken
        if not gathered.is_complete:
            raise self._broken("the connection closed before the reply was complete", _partial(gathered, has_begun))
        return gathered.reply(request)

    def _refused(
        self, status: int | None, body: str, headers: Mapping[str, str], partial: Message | None = None
    ) -> ProviderRefused:
        shown = self._key.hidden_in(body)[:_SHOWN_BODY_CHARS]
        fault = classify_error(status, body, self.name, headers=headers)
        return ProviderRefused(self.name, fault, shown or f"status {status} and no word", partial)

    def _broken(self, problem: str, partial: Message | None) -> ProviderRefused:
        return ProviderRefused(self.name, ErrorClass("network", matched="the line"), problem, partial)

    def _concedes(self, model: str, refused: ProviderRefused) -> bool:
        """Whether the refusal is about a field that can be left out, and was not yet."""
        if refused.fault.kind not in ("bad_request", "other"):
            return False
        for concession in self.concessions:
            if (model, concession.field) not in self._conceded and concession.refusal.search(refused.body):
                self._conceded.add((model, concession.field))
                return True
        return False


def _partial(gathered: Gathering, has_begun: bool) -> Message | None:
    """What had come; a message that says nothing where that was only a thought which cannot be sent again."""
    return gathered.message() or ({"role": "assistant", "content": ""} if has_begun else None)


async def _next_piece(answer: Answer, seconds: float | None) -> bytes:
    import asyncio

    try:
        async with asyncio.timeout(seconds):
            return await answer.piece()
    except TimeoutError:
        return b""


async def _deltas(answer: Answer, gathered: Gathering, streams: bool, last_seconds: float) -> AsyncIterator[Delta]:
    """The reply, piece by piece, into the gathering; ends where the wire says so, whatever the server still sends."""
    if not answer.is_stream(streams):
        text = _text(await answer.whole())
        body = _json(text)
        if not isinstance(body, dict):
            raise ErrorInReply(None, f"the answer is no JSON object: {text}")
        for delta in gathered.take_whole(body):
            yield delta
        return
    reader = SseReader()
    while piece := await _next_piece(answer, last_seconds if gathered.is_complete else None):
        for event in reader.feed(piece):
            for delta in gathered.take(event):
                yield delta
        if gathered.is_over:
            await answer.ends()
            return
    for event in reader.end():
        for delta in gathered.take(event):
            yield delta


def encoded(body: Mapping[str, Any]) -> bytes:
    """JSON for the wire: as short as can be, and ASCII only where a lone surrogate leaves no other way."""
    try:
        try:
            return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        except UnicodeEncodeError:
            return json.dumps(body, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"the request holds what JSON cannot say ({error}); pass plain values") from error


def event_json(event: SseEvent) -> dict[str, Any]:
    """The data of an event; empty where it is no object, which keep-alives and strangers' notes are."""
    value = _json(event.data)
    if value is None and event.data.lstrip().startswith("{"):
        raise LineBroken(f"an event of the stream is cut: {event.data[:200]}")
    return value if isinstance(value, dict) else {}


def status_in(error: object, by_type: Mapping[str, int]) -> int | None:
    """The status that an error inside a reply stands for: its code, where that is one, else what its type means."""
    if not isinstance(error, Mapping):
        return None
    for name in ("code", "status", "status_code", "type"):
        value = error.get(name)
        if isinstance(value, str) and value.isdigit():
            value = int(value)
        if isinstance(value, int) and 400 <= value < 600:
            return value
        if isinstance(value, str) and value in by_type:
            return by_type[value]
    return None


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _text(body: bytes) -> str:
    return body.decode("utf-8", "replace")
