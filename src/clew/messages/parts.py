"""What one part of a content is (text, picture, document), and how each dialect spells it.

A part that is native to the target passes as the same object. What the target has no place for becomes a short note,
so that a reader knows something stood there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from clew.messages.types import DialectName, Part

RESPONSES_ITEM = "responses_item"
"""The type of a part that carries a whole item of the Responses wire that has no other place in a message."""

ANTHROPIC_BLOCKS = frozenset(
    {
        "tool_use",
        "tool_result",
        "thinking",
        "redacted_thinking",
        "document",
        "search_result",
        "server_tool_use",
        "web_search_tool_result",
        "web_fetch_tool_result",
        "code_execution_tool_result",
        "bash_code_execution_tool_result",
        "text_editor_code_execution_tool_result",
        "mcp_tool_use",
        "mcp_tool_result",
        "container_upload",
    }
)
RESPONSES_PARTS = frozenset({"input_text", "output_text", "input_image", "input_file"})
CHAT_PARTS = frozenset({"image_url", "file"})

_TEXT_TYPES = frozenset({"text", "input_text", "output_text"})
_NATIVE: dict[DialectName, frozenset[str]] = {
    "openai_chat": CHAT_PARTS | {"text", "refusal", "input_audio"},
    "responses": RESPONSES_PARTS | {"refusal", "input_audio", "computer_screenshot", RESPONSES_ITEM},
    "anthropic": ANTHROPIC_BLOCKS | {"text", "image"},
}
_KNOWN = frozenset[str]().union(*_NATIVE.values())


@dataclass(frozen=True, slots=True)
class Media:
    """A picture or a document, apart from any wire: one of url, base64 data, or the id of an uploaded file."""

    kind: Literal["image", "file"]
    url: str | None = None
    base64: str | None = None
    media_type: str | None = None
    file_id: str | None = None
    name: str | None = None
    detail: str | None = None

    @property
    def address(self) -> str | None:
        """A URL for it, a data URL where its bytes are here."""
        return f"data:{self.media_type};base64,{self.base64}" if self.base64 is not None else self.url


def spelled(part: Any, to: DialectName, *, foreign: bool, spoken: bool = False) -> Part:
    """A part as a dialect writes it; `spoken` on what an assistant said.

    A type that nobody knows passes, unless the part is `foreign`: read from another wire than it is written to.
    """
    if not isinstance(part, dict):
        return text_part(str(part), to, spoken=spoken)
    kind = part.get("type")
    if not isinstance(kind, str):
        return part
    text = text_in(part)
    if text is not None and (kind not in _NATIVE[to] or _is_wrong_side(kind, to, spoken)):
        return text_part(text, to, spoken=spoken)
    if kind in _NATIVE[to]:
        return {"type": "text", "text": text} if foreign and text is not None and to == "openai_chat" else part
    if kind not in _KNOWN:
        return note_part(kind, to, spoken=spoken) if foreign else part
    media = media_of(part)
    written = _MEDIA_WRITERS[to](media) if media is not None else None
    return written or note_part(kind, to, spoken=spoken)


def text_part(text: str, to: DialectName, *, spoken: bool = False) -> Part:
    """A text as a dialect writes it."""
    if to == "responses":
        return {"type": "output_text" if spoken else "input_text", "text": text}
    return {"type": "text", "text": text}


def note_part(kind: str, to: DialectName, *, spoken: bool = False) -> Part:
    """What stands in the place of a part that a wire cannot carry."""
    return text_part(f"[{kind.removeprefix('input_').replace('_', ' ')} left out]", to, spoken=spoken)


def text_in(part: Part) -> str | None:
    """The text of a text part or a refusal or a document of plain text; None for every other."""
    kind = part.get("type")
    if not isinstance(kind, str):
        return None
    if kind in _TEXT_TYPES and isinstance(part.get("text"), str):
        return str(part["text"])
    if kind == "refusal" and isinstance(part.get("refusal"), str):
        return str(part["refusal"])
    source = part.get("source")
    if kind == "document" and isinstance(source, dict) and source.get("type") == "text":
        return str(source.get("data", ""))
    return None


def _is_wrong_side(kind: str, to: DialectName, spoken: bool) -> bool:
    return to == "responses" and kind == ("input_text" if spoken else "output_text")


def media_of(part: Part) -> Media | None:
    """The picture or document in a part of any dialect; None where there is none."""
    kind = part.get("type")
    reader = _MEDIA_READERS.get(kind) if isinstance(kind, str) else None
    return reader(part) if reader is not None else None


def _read_image_url(part: Part) -> Media | None:
    image = part.get("image_url")
    if isinstance(image, str):
        return _at("image", image)
    if isinstance(image, dict) and isinstance(image.get("url"), str):
        return _at("image", image["url"], detail=image.get("detail"))
    return None


def _read_input_image(part: Part) -> Media | None:
    detail = part.get("detail")
    if isinstance(part.get("image_url"), str):
        return _at("image", part["image_url"], detail=detail)
    return Media("image", file_id=part["file_id"], detail=detail) if part.get("file_id") else None


def _read_anthropic(part: Part) -> Media | None:
    source = part.get("source")
    if not isinstance(source, dict):
        return None
    kind: Literal["image", "file"] = "image" if part["type"] == "image" else "file"
    name = part.get("title")
    match source.get("type"):
        case "base64":
            return Media(kind, base64=source.get("data", ""), media_type=source.get("media_type"), name=name)
        case "url":
            return _at(kind, source.get("url", ""), name=name)
        case "file":
            return Media(kind, file_id=source.get("file_id"), name=name)
    return None


def _read_file(part: Part) -> Media | None:
    inner = part["file"] if isinstance(part.get("file"), dict) else part
    name = inner.get("filename")
    address = inner.get("file_data") or inner.get("file_url")
    if isinstance(address, str):
        return _at("file", address, name=name)
    return Media("file", file_id=inner["file_id"], name=name) if inner.get("file_id") else None


def _at(kind: Literal["image", "file"], url: str, name: str | None = None, detail: str | None = None) -> Media:
    if url.startswith("data:"):
        head, comma, body = url.partition(",")
        if comma and head.endswith(";base64"):
            return Media(kind, base64=body, media_type=head[5:-7], name=name, detail=detail)
    return Media(kind, url=url, name=name, detail=detail)


_MEDIA_READERS = {
    "image_url": _read_image_url,
    "input_image": _read_input_image,
    "image": _read_anthropic,
    "document": _read_anthropic,
    "file": _read_file,
    "input_file": _read_file,
}


def _chat_media(media: Media) -> Part | None:
    if media.kind == "image":
        if media.address is None:
            return None  # an uploaded file cannot be named as a picture here
        image = {"url": media.address, "detail": media.detail}
        return {"type": "image_url", "image_url": _without_none(image)}
    if media.base64 is None and media.file_id is None:
        return None
    file = {"filename": media.name, "file_data": media.address, "file_id": media.file_id}
    return {"type": "file", "file": _without_none(file)}


def _responses_media(media: Media) -> Part:
    if media.kind == "image":
        image = {"type": "input_image", "image_url": media.address, "file_id": media.file_id, "detail": media.detail}
        return _without_none(image)
    file = {
        "type": "input_file",
        "filename": media.name,
        "file_data": media.address if media.base64 is not None else None,
        "file_url": media.url,
        "file_id": media.file_id,
    }
    return _without_none(file)


def _anthropic_media(media: Media) -> Part | None:
    if media.base64 is not None:
        source = {"type": "base64", "media_type": media.media_type, "data": media.base64}
    elif media.url is not None and not media.url.startswith("data:"):
        source = {"type": "url", "url": media.url}
    else:
        return None  # the id of a file uploaded to another provider means nothing here
    kind = "image" if media.kind == "image" else "document"
    return _without_none({"type": kind, "source": source, "title": media.name if kind == "document" else None})


def _without_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


_MEDIA_WRITERS = {"openai_chat": _chat_media, "responses": _responses_media, "anthropic": _anthropic_media}
