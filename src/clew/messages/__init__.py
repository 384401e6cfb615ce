"""Messages: their types, the three wire dialects, tool groups, and the repair of broken histories.

Knows nothing of tokens, models or files.
"""

from clew.messages.types import DialectName, FunctionCall, Message, Part, Role, Tool, ToolCall

__all__ = ["DialectName", "FunctionCall", "Message", "Part", "Role", "Tool", "ToolCall"]
