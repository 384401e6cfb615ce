"""Amazon Bedrock: signed requests (SigV4), and streams in binary frames.

A signature covers the host, the path and the body. A client's signature for the address of the gateway is not valid for
Amazon's, so requests are signed again with the gateway's own credential.
"""

from __future__ import annotations

import base64
import hmac
import json
import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from urllib.parse import parse_qsl, quote, urlsplit

from clew.providers import EventTooLong, SseEvent

ALGORITHM = "AWS4-HMAC-SHA256"
STREAM_TYPE = "application/vnd.amazon.eventstream"
MAX_FRAME_BYTES = 24 * 1024 * 1024
MAX_AGE_SECONDS = 900
"""A signature that is older, or from so far in the future, is refused, as Amazon does."""
_SIGNED = re.compile(
    rf"{ALGORITHM} Credential=(?P<key>[\w-]+)/(?P<day>\d{{8}})/(?P<region>[\w-]+)/(?P<service>[\w-]+)/aws4_request,"
    r"\s*SignedHeaders=(?P<headers>[\w;-]+),\s*Signature=(?P<signature>[0-9a-f]{64})"
)
_REGION = re.compile(r"(?:^|\.)((?:[a-z]{2,3})(?:-[a-z]+)+-\d)\.")
_UNSIGNED = ("authorization", "x-amz-date", "x-amz-security-token", "x-amz-content-sha256")


@dataclass(frozen=True, slots=True)
class AwsCredential:
    """An access key of Amazon."""

    key_id: str
    secret: str = field(repr=False)
    token: str = field(default="", repr=False)
    region: str = ""


def aws_credential(environ: Mapping[str, str]) -> AwsCredential | None:
    """The credential in the variables that Amazon's programs read; None where there is none."""
    key_id, secret = environ.get("AWS_ACCESS_KEY_ID"), environ.get("AWS_SECRET_ACCESS_KEY")
    if not key_id or not secret:
        return None
    region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or ""
    return AwsCredential(key_id, secret, environ.get("AWS_SESSION_TOKEN") or "", region)


def signed_headers(
    credential: AwsCredential, method: str, url: str, headers: Iterable[tuple[str, str]], body: bytes, now: datetime
) -> dict[str, str]:
    """The headers that sign a request, for the region and the service of the client's signature, if there is one.

    Only the headers that Amazon requires are signed, so that a proxy does not break the signature.
    """
    given = dict(headers)
    before = _SIGNED.fullmatch(given.get("Authorization", ""))
    host = urlsplit(url).netloc
    named = _REGION.search(urlsplit(url).hostname or "")
    region = named[1] if named else before["region"] if before else credential.region or "us-east-1"
    service = before["service"] if before else "bedrock"
    stamp = now.strftime("%Y%m%dT%H%M%SZ")
    signed = {"host": host, "x-amz-date": stamp}
    if credential.token:
        signed["x-amz-security-token"] = credential.token
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    signature = _signature(credential.secret, scope, method, url, signed, body)
    names = ";".join(sorted(signed))
    del signed["host"]
    told = f"{ALGORITHM} Credential={credential.key_id}/{scope}, SignedHeaders={names}, Signature={signature}"
    return {**signed, "Authorization": told}


def is_signed(authorization: str) -> bool:
    """Whether an `Authorization` header is a SigV4 signature."""
    return authorization.startswith(ALGORITHM)


def without_signature(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers if name.lower() not in _UNSIGNED]


def is_signed_with(
    credential: AwsCredential, method: str, url: str, headers: Mapping[str, str], body: bytes, now: datetime
) -> bool:
    """Whether a request was signed with a credential, for this address and recently. `headers` are in lower case."""
    found = _SIGNED.fullmatch(headers.get("authorization", ""))
    if found is None or found["key"] != credential.key_id:
        return False
    stamp, names = headers.get("x-amz-date", ""), found["headers"].split(";")
    try:
        age = now - datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return False
    if abs(age.total_seconds()) > MAX_AGE_SECONDS or not {"host", "x-amz-date"} <= set(names):
        return False
    scope = f"{found['day']}/{found['region']}/{found['service']}/aws4_request"
    signed = {name: headers.get(name, "") for name in names}
    expected = _signature(credential.secret, scope, method, url, signed, body)
    return stamp.startswith(found["day"]) and hmac.compare_digest(expected, found["signature"])


def _signature(secret: str, scope: str, method: str, url: str, headers: Mapping[str, str], body: bytes) -> str:
    parts = urlsplit(url)
    query = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in _pairs(parts.query))
    lines = [
        method,
        quote(parts.path or "/", safe="/-_.~"),
        "&".join(f"{name}={value}" for name, value in query),
        *(f"{name}:{' '.join(headers[name].split())}" for name in sorted(headers)),
        "",
        ";".join(sorted(headers)),
        sha256(body).hexdigest(),
    ]
    digest = sha256("\n".join(lines).encode()).hexdigest()
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    text = f"{ALGORITHM}\n{headers['x-amz-date']}\n{scope}\n{digest}"
    return hmac.digest(key, text.encode(), "sha256").hex()


def _pairs(query: str) -> list[tuple[str, str]]:
    return parse_qsl(query.replace("+", "%2B"), keep_blank_values=True)


@dataclass(frozen=True, slots=True)
class EventFrame:
    """One message of a stream: its text headers and its payload."""

    headers: Mapping[str, str]
    payload: bytes

    @property
    def event(self) -> bytes | None:
        """The event of the model inside it; None where it has none."""
        if self.headers.get(":event-type") != "chunk":
            return None
        try:
            return base64.b64decode(json.loads(self.payload)["bytes"])
        except (ValueError, KeyError, TypeError):
            return None

    def encode(self) -> bytes:
        """The frame as bytes: lengths, their checksum, headers, payload, the checksum of all."""
        headers = b"".join(
            struct.pack("!B", len(name)) + name.encode() + struct.pack("!BH", 7, len(value.encode())) + value.encode()
            for name, value in self.headers.items()
        )
        head = struct.pack("!II", 16 + len(headers) + len(self.payload), len(headers))
        whole = head + struct.pack("!I", zlib.crc32(head)) + headers + self.payload
        return whole + struct.pack("!I", zlib.crc32(whole))


def event_frame(event: bytes) -> EventFrame:
    """A frame for one event of the model."""
    headers = {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}
    return EventFrame(headers, json.dumps({"bytes": base64.b64encode(event).decode()}).encode())


def error_frame(kind: str, message: str) -> EventFrame:
    """A frame that ends a stream with an error."""
    headers = {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}
    return EventFrame(headers, json.dumps({"message": message}).encode())


class FrameReader:
    """Parses frames from bytes in any pieces; gives each complete frame with its bytes."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def frames(self, chunk: bytes) -> Iterator[tuple[EventFrame, bytes]]:
        """Raises `EventTooLong`, and `ValueError` where the bytes are no frames: `take_rest` has them."""
        self._rest += chunk
        while len(self._rest) >= 12:
            size, head_size = struct.unpack_from("!II", self._rest)
            if size > MAX_FRAME_BYTES:
                raise EventTooLong(f"a frame of the stream has more than {MAX_FRAME_BYTES:,} bytes")
            if size < 16 + head_size:
                raise ValueError("the stream has no frames")
            if len(self._rest) < size:
                return
            whole = bytes(self._rest[:size])
            if zlib.crc32(whole[:-4]) != struct.unpack("!I", whole[-4:])[0]:
                raise ValueError("a frame of the stream is damaged")
            frame = EventFrame(dict(_headers(whole[12 : 12 + head_size])), whole[12 + head_size : -4])
            del self._rest[:size]
            yield frame, whole

    def feed(self, chunk: bytes) -> Iterator[SseEvent]:
        """The events that these bytes complete, as the same model streams them elsewhere."""
        for frame, _ in self.frames(chunk):
            if frame.headers.get(":message-type") in ("exception", "error"):
                kind = frame.headers.get(":exception-type") or frame.headers.get(":error-code", "")
                told = frame.payload.decode("utf-8", "replace") or frame.headers.get(":error-message", "")
                yield SseEvent("error", json.dumps({"type": "error", "error": {"type": kind, "message": told}}))
            elif (event := frame.event) is not None:
                yield SseEvent("", event.decode("utf-8", "replace"))

    def end(self) -> Iterator[SseEvent]:
        """No events: a frame states its length."""
        return iter(())

    def take_rest(self) -> bytes:
        """The bytes of a frame that is not complete, or is none; they are not parsed any more."""
        rest = bytes(self._rest)
        self._rest.clear()
        return rest


# The size of a header value by its type: all but texts are skipped.
_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}


def _headers(raw: bytes) -> Iterator[tuple[str, str]]:
    """The text headers of a frame whose checksum is right."""
    at = 0
    while at < len(raw):
        name = raw[at + 1 : at + 1 + raw[at]].decode("utf-8", "replace")
        at += 1 + raw[at]
        kind, at = raw[at], at + 1
        if kind in (6, 7):
            (size,) = struct.unpack_from("!H", raw, at)
            at += 2
            if kind == 7:
                yield name, raw[at : at + size].decode("utf-8", "replace")
            at += size
        else:
            at += _SIZES.get(kind, len(raw))
