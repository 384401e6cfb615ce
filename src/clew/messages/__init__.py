"""Messages: their types, the three wire dialects, tool groups, and the repair of broken histories.

Knows nothing of tokens, models or files.
"""

from clew.messages.content import (
    UNREADABLE,
    arguments_of_call,
    calls_of,
    images_of,
    name_of_call,
    reasoning_of,
    text_of,
)
from clew.messages.conversation import Conversation, convert, read_conversation
from clew.messages.detect import detect_dialect
from clew.messages.groups import last_cut_at_or_before, safe_cut_at_or_before, safe_cuts, tool_groups
from clew.messages.origins import Origin
from clew.messages.pairing import NO_RESULT
from clew.messages.repair import Repaired, repair
from clew.messages.tools import convert_tools
from clew.messages.types import DialectName, FunctionCall, Message, Part, Repair, Role, Tool, ToolCall

__all__ = [
    "NO_RESULT",
    "UNREADABLE",
    "Conversation",
    "DialectName",
    "FunctionCall",
    "Message",
    "Origin",
    "Part",
    "Repair",
    "Repaired",
    "Role",
    "Tool",
    "ToolCall",
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
    "safe_cut_at_or_before",
    "safe_cuts",
    "text_of",
    "tool_groups",
]
