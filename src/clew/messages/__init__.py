"""Messages: their types, SDK objects as plain dicts, the four wire dialects, tool groups, the repair of histories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.lazy import lazy_names
from clew.messages.conversation import ParsedConversation, convert, detect_dialect, is_request, read_conversation
from clew.messages.message import (
    CACHE_MARKER,
    NO_RESULT,
    UNREADABLE,
    DialectName,
    FunctionCall,
    Message,
    Part,
    Repair,
    Role,
    Tool,
    ToolCall,
    WireOrigin,
    arguments_of_call,
    calls_of,
    images_of,
    is_plain,
    last_cut_at_or_before,
    name_of_call,
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
    from clew.messages.growing import GrowingHistory, with_pieces_of
    from clew.messages.identity import DIGEST_BYTES, digest, is_same_message

__all__ = [
    "CACHE_MARKER",
    "DIGEST_BYTES",
    "NO_RESULT",
    "UNREADABLE",
    "DialectName",
    "FunctionCall",
    "GrowingHistory",
    "Message",
    "ParsedConversation",
    "Part",
    "Repair",
    "Repaired",
    "Role",
    "Tool",
    "ToolCall",
    "WireOrigin",
    "arguments_of_call",
    "as_sequence",
    "calls_of",
    "convert",
    "convert_tools",
    "declarations_of",
    "detect_dialect",
    "digest",
    "fenced",
    "images_of",
    "is_plain",
    "is_request",
    "is_same_message",
    "is_valid_message",
    "last_cut_at_or_before",
    "media_of",
    "name_of_call",
    "one_line",
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
    "with_pieces_of",
    "with_text_after_system",
    "without_cache_markers",
    "without_images",
    "without_invisible",
]

# `clew.compress` needs none of these.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".fence": "fenced one_line without_invisible",
        ".growing": "GrowingHistory with_pieces_of",
        ".identity": "DIGEST_BYTES digest is_same_message",
    },
)
