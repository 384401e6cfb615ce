"""Content parts (text, images, documents) and tool definitions, converted to the format of each dialect.

A part that the target dialect has too stays the same object. A part that it has no format for becomes a placeholder
text. A tool that a provider runs itself is left out of another dialect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from clew.messages.message import DialectName, Part, Tool

RESPONSES_ITEM = "responses_item"
"""The type of a part that holds a whole item of the Responses wire for which a message has no field."""
GEMINI_PART = "gemini_part"
"""The type of a part that holds a whole part of the Gemini wire for which we have no type; with its text, if any."""

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

_TEXT_TYPES = frozenset({"text", "input_text", "output_text", GEMINI_PART})
_NATIVE: dict[DialectName, frozenset[str]] = {
    "openai_chat": CHAT_PARTS | {"text", "refusal", "input_audio"},
    "responses": RESPONSES_PARTS | {"refusal", "input_audio", "computer_screenshot", RESPONSES_ITEM},
    "anthropic": ANTHROPIC_BLOCKS | {"text", "image"},
    "gemini": frozenset({GEMINI_PART}),
}
_KNOWN = frozenset[str]().union(*_NATIVE.values())


@dataclass(frozen=True, slots=True)
class Media:
    """An image or a document of any dialect: one of url, base64 data, or the id of an uploaded file."""

    kind: Literal["image", "file"]
    url: str | None = None
    base64: str | None = None
    media_type: str | None = None
    file_id: str | None = None
    name: str | None = None
    detail: str | None = None

    @property
    def address(self) -> str | None:
        """Its URL; a data URL where its bytes are here."""
        return f"data:{self.media_type};base64,{self.base64}" if self.base64 is not None else self.url


def encode_part(part: Any, to: DialectName, *, foreign: bool, by_assistant: bool = False) -> Part:
    """A part in the format of a dialect. `foreign`: it was read from another dialect, so unknown types are replaced."""
    if not isinstance(part, dict):
        return text_part(str(part), to, by_assistant=by_assistant)
    kind = part.get("type")
    if not isinstance(kind, str):
        return part
    text = text_of_part(part)
    if text is not None and (kind not in _NATIVE[to] or _is_of_other_role(kind, to, by_assistant)):
        return text_part(text, to, by_assistant=by_assistant)
    if kind in _NATIVE[to]:
        return {"type": "text", "text": text} if foreign and text is not None and to == "openai_chat" else part
    if kind not in _KNOWN:
        return placeholder_part(kind, to, by_assistant=by_assistant) if foreign else part
    media = media_of(part)
    written = _MEDIA_WRITERS[to](media) if media is not None else None
    return written or placeholder_part(kind, to, by_assistant=by_assistant)


def text_part(text: str, to: DialectName, *, by_assistant: bool = False) -> Part:
    """A text part in the format of a dialect."""
    if to == "responses":
        return {"type": "output_text" if by_assistant else "input_text", "text": text}
    return {"text": text} if to == "gemini" else {"type": "text", "text": text}


def placeholder_part(kind: str, to: DialectName, *, by_assistant: bool = False) -> Part:
    """The text that replaces a part for which the dialect has no format."""
    return text_part(f"[{kind.removeprefix('input_').replace('_', ' ')} left out]", to, by_assistant=by_assistant)


def text_of_part(part: Part) -> str | None:
    """The text of a text part, a refusal or a document of plain text; None for any other part."""
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


def _is_of_other_role(kind: str, to: DialectName, by_assistant: bool) -> bool:
    return to == "responses" and kind == ("input_text" if by_assistant else "output_text")


def media_of(part: Part) -> Media | None:
    """The image or document in a part of any dialect; None where there is none."""
    kind = part.get("type")
    reader = _MEDIA_READERS.get(kind) if isinstance(kind, str) else None
    return reader(part) if reader is not None else None


def _read_image_url(part: Part) -> Media | None:
    image = part.get("image_url")
    if isinstance(image, str):
        return _media_at_url("image", image)
    if isinstance(image, dict) and isinstance(image.get("url"), str):
        return _media_at_url("image", image["url"], detail=image.get("detail"))
    return None


def _read_input_image(part: Part) -> Media | None:
    detail = part.get("detail")
    if isinstance(part.get("image_url"), str):
        return _media_at_url("image", part["image_url"], detail=detail)
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
            return _media_at_url(kind, source.get("url", ""), name=name)
        case "file":
            return Media(kind, file_id=source.get("file_id"), name=name)
    return None


def _read_file(part: Part) -> Media | None:
    inner = part["file"] if isinstance(part.get("file"), dict) else part
    name = inner.get("filename")
    address = inner.get("file_data") or inner.get("file_url")
    if isinstance(address, str):
        return _media_at_url("file", address, name=name)
    return Media("file", file_id=inner["file_id"], name=name) if inner.get("file_id") else None


def _media_at_url(
    kind: Literal["image", "file"], url: str, name: str | None = None, detail: str | None = None
) -> Media:
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


def _gemini_media(media: Media) -> Part | None:
    from mimetypes import guess_type  # slow to import

    kind = media.media_type or guess_type(media.name or media.url or "")[0]
    if media.base64 is not None:
        return {"inlineData": _without_none({"mimeType": kind, "data": media.base64})}
    if media.url is None or media.url.startswith("data:"):
        return None
    return {"fileData": _without_none({"mimeType": kind, "fileUri": media.url})}


def _without_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


_MEDIA_WRITERS = {
    "openai_chat": _chat_media,
    "responses": _responses_media,
    "anthropic": _anthropic_media,
    "gemini": _gemini_media,
}


_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}
_DECLARATIONS = ("functionDeclarations", "function_declarations")
_SCHEMAS = ("parameters", "input_schema", "parametersJsonSchema", "parameters_json_schema")


def convert_tools(tools: Sequence[Tool], to: DialectName) -> list[Tool]:
    """Tool definitions of any dialect in the format of one; those that have it already stay the same objects.

    The functions of Gemini's wire are together in one definition.
    """
    if to == "gemini":
        native = [tool for tool in tools if dialect_of_tool(tool) == to]
        others = (_converted(tool, to) for tool in tools if dialect_of_tool(tool) != to)
        declared = [tool for tool in others if tool is not None]
        return [*native, {_DECLARATIONS[0]: declared}] if declared else native
    single = (one for tool in tools for one in (list(map(_function_of, declarations_of(tool))) or [tool]))
    written = (tool if dialect_of_tool(tool) == to else _converted(tool, to) for tool in single)
    return [tool for tool in written if tool is not None]


def declarations_of(tool: Tool) -> list[Tool]:
    """The functions that a definition of Gemini's wire declares; none for a definition of another."""
    listed = next((tool[name] for name in _DECLARATIONS if isinstance(tool.get(name), list)), ())
    return [declared for declared in listed if isinstance(declared, dict)]


def _function_of(declared: Tool) -> Tool:
    """A declared function as a separate definition, in the format of Responses."""
    schema = next((declared[name] for name in _SCHEMAS if declared.get(name)), _NO_PARAMETERS)
    named = {name: declared[name] for name in ("name", "description") if declared.get(name) is not None}
    return {"type": "function", **named, "parameters": _with_small_types(schema)}


def _with_small_types(schema: Any) -> Any:
    """A schema with its types as JSON Schema writes them: Gemini's own form has them in capitals."""
    if isinstance(schema, list):
        return [_with_small_types(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: value.lower() if name == "type" and isinstance(value, str) else _with_small_types(value)
        for name, value in schema.items()
    }


def dialect_of_tool(tool: Tool) -> DialectName | None:
    """The dialect of a tool definition; None where it names no function."""
    if isinstance(tool.get("function"), dict) or isinstance(tool.get("custom"), dict):
        return "openai_chat"
    if "input_schema" in tool:
        return "anthropic"
    if any(isinstance(tool.get(name), list) for name in _DECLARATIONS):
        return "gemini"
    if tool.get("type") in ("function", "custom") and "name" in tool:
        return "responses"
    return None


def _converted(tool: Tool, to: DialectName) -> Tool | None:
    if tool.get("type") == "custom" and "input_schema" not in tool:
        return _converted_custom(tool, to)
    inner = tool.get("function") if isinstance(tool.get("function"), dict) else tool
    if inner is None or dialect_of_tool(tool) is None:
        return None
    schema = next((inner[name] for name in _SCHEMAS if inner.get(name)), _NO_PARAMETERS)
    fields = {"name": inner.get("name"), "description": inner.get("description")}
    named = {name: value for name, value in fields.items() if value is not None}
    strict = {"strict": inner["strict"]} if inner.get("strict") is not None else {}
    match to:
        case "openai_chat":
            return {"type": "function", "function": {**named, "parameters": schema, **strict}}
        case "responses":
            return {"type": "function", **named, "parameters": schema, **strict}
        case "anthropic":
            return {**named, "input_schema": schema, **strict}
        case "gemini":
            return {**named, "parametersJsonSchema": schema}


def _converted_custom(tool: Tool, to: DialectName) -> Tool:
    """A tool that takes free text; where there is no such thing, a function with one text parameter."""
    inner = tool["custom"] if isinstance(tool.get("custom"), dict) else tool
    named = {name: inner[name] for name in ("name", "description") if inner.get(name) is not None}
    rest = {name: value for name, value in inner.items() if name not in ("type", "name", "description")}
    text = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
    match to:
        case "openai_chat":
            return {"type": "custom", "custom": {**named, **rest}}
        case "responses":
            return {"type": "custom", **named, **rest}
        case "anthropic":
            return {**named, "input_schema": text}
        case "gemini":
            return {**named, "parametersJsonSchema": text}
