"""Messages: their types, SDK objects as plain dicts, the four wire dialects, tool groups, the repair of histories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.lazy import lazy_names
from clew.messages.conversation import (
    ParsedConversation,
    checked_dialect,
    convert,
    detect_dialect,
    is_request,
    read_conversation,
)
from clew.messages.message import (
    CACHE_MARKER,
    NO_RESULT,
    UNREADABLE,
    DialectName,
    FunctionCall,
    Item,
    Message,
    Part,
    Repair,
    Role,
    Tool,
    ToolCall,
    arguments_of_call,
    calls_of,
    images_of,
    is_plain,
    last_cut_at_or_before,
    name_of_call,
    places_among,
    reasoning_of,
    refuse_unusable,
    safe_cut_at_or_before,
    safe_cuts,
    text_of,
    tool_groups,
    with_text_after_system,
    without_cache_markers,
    without_images,
)
from clew.messages.parts import convert_tools, declarations_of, media_of
from clew.messages.plain import (
    as_sequence,
    plain_message,
    plain_messages,
    plain_system,
    plain_tools,
    request_fields,
)
from clew.messages.repair import Repaired, is_valid_message, repair, replace_lone_surrogates

if TYPE_CHECKING:
    from clew.messages.fence import fenced, one_line, without_invisible
    from clew.messages.history import DIGEST_BYTES, History, digest, written

__all__ = [
    "CACHE_MARKER",
    "DIGEST_BYTES",
    "NO_RESULT",
    "UNREADABLE",
    "DialectName",
    "FunctionCall",
    "History",
    "Item",
    "Message",
    "ParsedConversation",
    "Part",
    "Repair",
    "Repaired",
    "Role",
    "Tool",
    "ToolCall",
    "arguments_of_call",
    "as_sequence",
    "calls_of",
    "checked_dialect",
    "convert",
    "convert_tools",
    "declarations_of",
    "detect_dialect",
    "digest",
    "fenced",
    "images_of",
    "is_plain",
    "is_request",
    "is_valid_message",
    "last_cut_at_or_before",
    "media_of",
    "name_of_call",
    "one_line",
    "places_among",
    "plain_message",
    "plain_messages",
    "plain_system",
    "plain_tools",
    "read_conversation",
    "reasoning_of",
    "refuse_unusable",
    "repair",
    "replace_lone_surrogates",
    "request_fields",
    "safe_cut_at_or_before",
    "safe_cuts",
    "text_of",
    "tool_groups",
    "with_text_after_system",
    "without_cache_markers",
    "without_images",
    "without_invisible",
    "written",
]

# `clew.compress` needs none of these.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".fence": "fenced one_line without_invisible",
        ".history": "DIGEST_BYTES History digest written",
    },
)
