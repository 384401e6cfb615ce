"""Passes a reply to the client as received, and reads it at the same time.

Only the usage that a client is shown may differ from the upstream's.
"""

from __future__ import annotations

import asyncio
import re
import struct
from collections.abc import AsyncIterator, Awaitable
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeVar

from aiohttp import StreamReader, web
from multidict import CIMultiDict

from clew.gateway.aws import STREAM_TYPE, EventFrame, FrameReader, framed
from clew.gateway.bodies import UnreadableBody, read_json, write_json
from clew.gateway.wires import Change, GatewayWire
from clew.providers import ConnectionFailed, ErrorInReply, EventTooLong, Reply, Request, SseReader
from clew.usage import CanonicalUsage

PING_SECONDS = 10.0
"""Between two signs of life while a request waits for a compaction."""
MAX_READ_BYTES = 64 * 1024 * 1024
"""Of a reply: a longer one passes and is not recorded."""
CHARS_PER_TOKEN = 4
"""Where nobody states the usage of a request that cannot be counted."""
_EVENT_END = re.compile(rb"\r?\n\r?\n")
_END_EVENTS = 3
"""Held back once the model has finished: the finish reason, the usage and the wire's own end."""
_SHORT_BODY = 64 * 1024
"""A body of no more bytes is sent at once."""
_NOT_READABLE = (ErrorInReply, ConnectionFailed, EventTooLong, ValueError)
_Value = TypeVar("_Value")


class ReplyReader:
    """Reads a reply while it passes; a reply that cannot be read passes all the same."""

    def __init__(self, wire: GatewayWire, content_type: str) -> None:
        self._accumulator = wire.accumulator()
        self._events = _events_of(content_type)
        self.is_stream = self._events is not None
        self._wire = wire
        self._body = bytearray()
        self._came = 0
        self._before: tuple[CanonicalUsage | None, int] = (None, 0)
        """The usage and the characters of what was read and forgotten."""
        self.problem = ""
        """Why it is not read to the end: the error that came inside it, or what was no event."""

    @property
    def has_content(self) -> bool:
        return self._before[1] > 0 or self._accumulator.content_chars > 0 or self._accumulator.is_complete

    @property
    def is_at_end(self) -> bool:
        return self._accumulator.is_at_end

    def feed(self, chunk: bytes) -> None:
        if self.problem:
            return
        self._came += len(chunk)
        if self._came > MAX_READ_BYTES:
            self._before = self._accumulator.usage(), self._accumulator.content_chars or self._came
            self._accumulator, self._body = self._wire.accumulator(), bytearray()
            self.problem = f"a reply of more than {MAX_READ_BYTES:,} bytes"
            return
        if self._events is None:
            self._body += chunk
            return
        self._guard(lambda events=self._events: self._add_events(events.feed(chunk)))

    def end(self) -> None:
        if self.problem:
            return
        if self._events is not None:
            self._guard(lambda events=self._events: self._add_events(events.end()))
        else:
            self._guard(lambda: list(self._accumulator.add_body(read_json(bytes(self._body)))))

    @property
    def is_complete(self) -> bool:
        return not self.problem and self._accumulator.is_complete

    def usage(self) -> CanonicalUsage | None:
        """The usage that was stated; of a reply that broke off with at least the output that came.

        None where none was stated.
        """
        stated = self._before[0] or self._accumulator.usage()
        if stated is None or self.is_complete:
            return stated
        return replace(stated, output_tokens=max(stated.output_tokens, self.output_tokens))

    @property
    def output_tokens(self) -> int:
        """An estimate of the output that came."""
        return (self._before[1] + self._accumulator.content_chars) // CHARS_PER_TOKEN

    def reply(self, model: str) -> Reply | None:
        """The reply; None where it did not come to its end."""
        if not self.is_complete:
            return None
        return self._accumulator.reply(Request(model, ()))

    def items(self) -> list[Any]:
        """The reply as the client will send it back."""
        return self._accumulator.items()

    def _add_events(self, events: Any) -> None:
        for event in events:
            list(self._accumulator.add_event(event))

    def _guard(self, read: Any) -> None:
        try:
            read()
        except ErrorInReply as error:
            self.problem = error.body
        except _NOT_READABLE as error:
            self.problem = str(error) or type(error).__name__
        except (TypeError, AttributeError, KeyError, IndexError, RecursionError) as error:
            self.problem = f"{type(error).__name__} in a reply that no accumulator knows"


def _events_of(content_type: str) -> SseReader | FrameReader | None:
    """What reads the events of a stream of this type; None where it is none."""
    if STREAM_TYPE in content_type:
        return FrameReader()
    return SseReader() if "event-stream" in content_type else None


class HeldEnd:
    """Reads a reply and passes it on without its end, which the client gets once the reply is stored.

    Of a stream the last events are held, from the one that says that the model has finished; of a body its last byte,
    or all of a short one.
    """

    def __init__(self, reader: ReplyReader) -> None:
        self._reader = reader
        self._held: list[bytes] = []

    def feed(self, chunk: bytes) -> bytes:
        """Read a chunk; what the client may have now."""
        if not self._reader.is_stream:
            self._reader.feed(chunk)
            whole = self.take() + chunk
            end = max(0, len(whole.rstrip()) - 1) if len(whole) > _SHORT_BODY else 0
            self._held = [whole[end:]]
            return whole[:end]
        passed = []
        for event in _split_events(chunk):
            self._reader.feed(event)
            if not self._reader.is_complete:
                passed.append(event)
                continue
            self._held.append(event)
            if len(self._held) > _END_EVENTS:
                # Not the end: a reply with several choices continues after the first of them has finished.
                passed.append(self._held.pop(0))
        return b"".join(passed)

    def take(self) -> bytes:
        """What is held, to be passed on now."""
        held, self._held = b"".join(self._held), []
        return held


def _split_events(chunk: bytes) -> list[bytes]:
    """A chunk of a stream, cut behind each blank line."""
    ends = [0, *(found.end() for found in _EVENT_END.finditer(chunk)), len(chunk)]
    return [chunk[start:end] for start, end in pairwise(ends) if start < end]


class UsageTeller:
    """Tells the client other prompt tokens, event by event; everything else passes as received."""

    def __init__(self, wire: GatewayWire, change: Change, content_type: str) -> None:
        self._wire = wire
        self._change = change
        self._is_stream = "event-stream" in content_type
        self._frames = FrameReader() if STREAM_TYPE in content_type else None
        self._rest = b""

    def feed(self, chunk: bytes) -> bytes:
        """What can be passed on of what came: whole events of a stream, or nothing of a body before its end."""
        if self._frames is not None:
            return self._feed_frames(self._frames, chunk)
        self._rest += chunk
        if not self._is_stream:
            return b""
        whole, newline, self._rest = self._rest.rpartition(b"\n")
        return b"\n".join(self._line(line) for line in whole.split(b"\n")) + newline if newline else b""

    def end(self) -> bytes:
        rest, self._rest = self._rest, b""
        if self._frames is not None:
            return self._frames.take_rest()
        return self._line(rest) if self._is_stream else self._told(rest)

    def _feed_frames(self, frames: FrameReader, chunk: bytes) -> bytes:
        passed = bytearray()
        try:
            for frame, raw in frames.frames(chunk):
                event = frame.event
                told = self._told(event) if event is not None and b"sage" in event else event
                passed += raw if told is None or told is event else EventFrame(frame.headers, framed(told)).encode()
        except (ValueError, IndexError, struct.error):
            # No frames: what came of it passes as it is.
            passed += frames.take_rest()
        return bytes(passed)

    def _line(self, line: bytes) -> bytes:
        if not line.startswith(b"data:") or b"sage" not in line:
            return line
        end = b"\r" if line.endswith(b"\r") else b""
        return b"data: " + self._told(line[5:].strip()) + end

    def _told(self, raw: bytes) -> bytes:
        try:
            value = read_json(raw)
        except UnreadableBody:
            return raw
        if not isinstance(value, dict) or not self._wire.tell_prompt_tokens(value, self._change):
            return raw
        return write_json(value)


class ClientResponse:
    """The response to one request: begun when its status is known, or earlier when the client must be kept waiting."""

    def __init__(
        self, request: web.Request, wire: GatewayWire, *, is_stream: bool, ping_seconds: float = PING_SECONDS
    ) -> None:
        self._ping_seconds = ping_seconds
        self.request = request
        self.wire = wire
        self.is_stream = is_stream
        self._response: web.StreamResponse | None = None
        self._last = b""
        self._next_ping: asyncio.TimerHandle | None = None
        self._pinging: asyncio.Task[None] | None = None

    @property
    def has_begun(self) -> bool:
        return self._response is not None

    async def begin(self, status: int, headers: CIMultiDict[str]) -> None:
        if self._response is None:
            self._response = web.StreamResponse(status=status, headers=headers)
            await self._response.prepare(self.request)

    async def write(self, chunk: bytes) -> None:
        if self._response is not None and chunk:
            await self._response.write(chunk)

    def write_last(self, chunk: bytes) -> None:
        """What is sent together with the end."""
        self._last = chunk

    async def end(self) -> web.StreamResponse:
        assert self._response is not None
        await self._response.write_eof(self._last)
        return self._response

    async def fail(self, status: int, message: str) -> web.StreamResponse:
        """An error of our own: with its status, or as an event where the response has begun."""
        if self._response is None:
            return web.json_response(self.wire.error(status, message), status=status)
        await self.write(self.wire.error_event(status, message))
        return await self.end()

    async def waiting_for(self, work: Awaitable[_Value]) -> _Value:
        """The result of work that may take long; a client that wants a stream gets signs of life meanwhile."""
        if not self.is_stream:
            return await work
        self._ping_in_a_while()
        try:
            return await work
        finally:
            if self._next_ping is not None:
                self._next_ping.cancel()
            if self._pinging is not None:
                # The reply must not begin in the middle of it.
                await asyncio.wait({self._pinging})

    async def chunks_of(self, content: StreamReader) -> AsyncIterator[bytes]:
        """The chunks of a reply as they come; a client that wants a stream gets signs of life between them."""
        while chunk := await self.waiting_for(content.readany()):
            yield chunk

    def _ping_in_a_while(self) -> None:
        self._next_ping = asyncio.get_running_loop().call_later(self._ping_seconds, self._start_ping)

    def _start_ping(self) -> None:
        self._pinging = asyncio.create_task(self._ping())
        self._ping_in_a_while()

    async def _ping(self) -> None:
        with suppress(ConnectionError):  # the server stops whoever waits for a client that has gone
            await self.begin(200, CIMultiDict({"Content-Type": self.wire.stream_type, "Cache-Control": "no-cache"}))
            await self.write(self.wire.ping)
