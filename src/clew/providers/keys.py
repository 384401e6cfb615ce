"""A key that can be sent and nothing else: it shows itself in no repr, no error and no log.

Knows where a key comes from. Which header carries it is for the wire.
"""

from __future__ import annotations

from clew.errors import InvalidArgument

HIDDEN = "[REDACTED]"


class ApiKey:
    """A key, or none. `reveal` is called where a header is made."""

    __slots__ = ("_value",)

    def __init__(self, value: str | None) -> None:
        self._value = (value or "").strip()
        if not self._value.isascii() or any(character.isspace() for character in self._value):
            raise InvalidArgument(
                "the API key holds a blank, a line end or a letter that no key has; copy it again, without quotes"
            )

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return "ApiKey(set)" if self._value else "ApiKey(none)"

    def reveal(self) -> str:
        return self._value

    def hidden_in(self, text: str) -> str:
        """The text without the key: some servers quote in their errors what they were given."""
        return text.replace(self._value, HIDDEN) if self._value else text
