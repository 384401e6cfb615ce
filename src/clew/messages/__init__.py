"""Messages: their types, the three wire dialects, tool groups, and the repair of broken histories."""

from clew.messages.conversation import ParsedConversation, convert, detect_dialect, read_conversation
from clew.messages.message import (
    UNREADABLE,
    DialectName,
    FunctionCall,
    Message,
    Part,
    Repair,
    Role,
    Tool,
    ToolCall,
    arguments_of_call,
    calls_of,
    images_of,
    name_of_call,
    reasoning_of,
    text_of,
    with_text_after_system,
    without_images,
)
from clew.messages.origins import WireOrigin
from clew.messages.parts import convert_tools
from clew.messages.repair import Repaired, repair
from clew.messages.tool_groups import NO_RESULT, last_cut_at_or_before, safe_cut_at_or_before, safe_cuts, tool_groups
from clew.messages.validity import replace_lone_surrogates

__all__ = [
    "NO_RESULT",
    "UNREADABLE",
    "DialectName",
    "FunctionCall",
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
    "calls_of",
    "convert",
    "convert_tools",
    "detect_dialect",
    "images_of",
    "last_cut_at_or_before",
    "name_of_call",
    "read_conversation",
    "reasoning_of",
    "repair",
    "replace_lone_surrogates",
    "safe_cut_at_or_before",
    "safe_cuts",
    "text_of",
    "tool_groups",
    "with_text_after_system",
    "without_images",
]
