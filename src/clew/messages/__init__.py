"""Messages: their types, the three wire dialects, tool groups, and the repair of broken histories.

Knows nothing of tokens, models or files.
"""

from clew.messages.content import calls_of, images_of, text_of
from clew.messages.types import DialectName, FunctionCall, Message, Part, Role, Tool, ToolCall

__all__ = [
    "DialectName",
    "FunctionCall",
    "Message",
    "Part",
    "Role",
    "Tool",
    "ToolCall",
    "calls_of",
    "images_of",
    "text_of",
]
