"""What a reader noticed and went on from, gathered so that ten thousand bad lines make one sentence.

A notice is for the person who reads the result: what was found, where, and what became of it.
"""

from __future__ import annotations

_LINES_SHOWN = 3


class Notices:
    """Remarks in the order of their first occurrence, each with the lines it is about."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: dict[str, tuple[int, tuple[int, ...]]] = {}

    def add(self, remark: str, line: int | None = None) -> None:
        count, shown = self._lines.get(remark, (0, ()))
        if line is not None and len(shown) < _LINES_SHOWN:
            shown = (*shown, line)
        self._lines[remark] = (count + 1, shown)

    def sentences(self) -> tuple[str, ...]:
        return tuple(_sentence(remark, count, shown) for remark, (count, shown) in self._lines.items())


def _sentence(remark: str, count: int, shown: tuple[int, ...]) -> str:
    if not shown:
        return remark if count == 1 else f"{remark} ({count} times)"
    where = ("line " if count == 1 else "lines ") + ", ".join(map(str, shown))
    more = count - len(shown)
    return f"{remark} ({where} and {more} more)" if more else f"{remark} ({where})"
