"""What words a text is made of, for search: folding, splitting, camelCase parts, stretches.

The same text always gives the same words: the index is taken apart again with them. Knows no query and no database.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from clew.messages import Message, calls_of, text_of

STRETCH_CHARS = 6_000
OVERLAP_CHARS = 200
"""What two stretches share, so that a phrase across their border is whole in one of them."""

# Scripts that put no space between words: each character is a word, and a run of them is found as a phrase.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3105-\u312f\u3131-\u318e"
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0003ffff"
)
_unspaced_run = re.compile(f"[{UNSPACED}]+")
_word = re.compile(f"[{UNSPACED}]|[^\\W_{UNSPACED}]+")
_border = re.compile(r"\s")


def searchable_text(message: Message) -> str:
    """What search finds of a message: its text, and the names and arguments of its calls."""
    pieces = [text_of(message)]
    for call in calls_of(message):
        function: Mapping[str, Any] = call.get("function", {})
        pieces.append(f"{function.get('name', '')} {'; '.join(_spoken(function.get('arguments')))}")
    return whole_text("\n".join(piece for piece in pieces if piece))


def whole_text(text: str) -> str:
    """A text in one spelling of its accents, and without half characters."""
    if text.isascii():
        return text
    if not unicodedata.is_normalized("NFC", text):
        text = unicodedata.normalize("NFC", text)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def folded(text: str) -> str:
    """Lower case, without accents; each character stays in its place."""
    return text.lower() if text.isascii() else text.translate(_FOLDS)


def words_of(folded_text: str) -> list[str]:
    """The words of a folded text, in order."""
    return _word.findall(folded_text)


def spaced(folded_text: str) -> str:
    """A folded text in which a tokenizer that splits at spaces finds the same words."""
    return folded_text if folded_text.isascii() else _unspaced_run.sub(_apart, folded_text)


def _apart(run: re.Match[str]) -> str:
    return f" {' '.join(run[0])} "


def is_unspaced(word: str) -> bool:
    """Whether a word is a run of characters that stand without spaces."""
    return _unspaced_run.fullmatch(word) is not None


def hump_parts(text: str) -> list[str]:
    """The parts of the camelCase names in a text, folded, each once: getUserName gives get, user, name."""
    kinds = text.encode("ascii", "replace").translate(_KINDS)
    names: dict[str, None] = {}
    for kind in (b"aA", b"AAa"):
        found = kinds.find(kind)
        while found >= 0:
            start, stop = kinds.rfind(b" ", 0, found) + 1, kinds.find(b" ", found)
            names.setdefault(text[start : stop if stop >= 0 else len(text)])
            if stop < 0:
                break
            found = kinds.find(kind, stop)
    return list(dict.fromkeys(part for name in names for part in _folded_parts(name)))


def split_humps(name: str) -> list[str]:
    """A camelCase name in parts; one part when it has no humps."""
    return _hump.findall(name)


@lru_cache(maxsize=1 << 15)
def _folded_parts(name: str) -> tuple[str, ...]:
    return tuple(part.lower() for part in split_humps(name))


_hump = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9]*|[0-9]+")


def stretches_of(text: str) -> Iterator[tuple[int, int]]:
    """A text in stretches, cut at a space where there is one, each sharing a little with the one before."""
    start = 0
    while len(text) - start > STRETCH_CHARS:
        stop = start + STRETCH_CHARS
        for back in range(stop, stop - OVERLAP_CHARS, -1):
            if _border.match(text[back - 1]):
                stop = back
                break
        yield start, stop
        start = stop - OVERLAP_CHARS
    if text:
        yield start, len(text)


class _Folds(dict[int, str]):
    """The folded form of each character, found out when it is first met."""

    def __missing__(self, point: int) -> str:
        self[point] = result = _folded_character(chr(point))
        return result


def _folded_character(character: str) -> str:
    lower = character.lower()
    if len(lower) != 1:
        return character
    if "\u2e80" <= lower < "\uff00":
        return lower
    bare = "".join(it for it in unicodedata.normalize("NFKD", lower) if not unicodedata.combining(it))
    return bare if len(bare) == 1 else lower


_FOLDS = _Folds()
_KINDS = bytes(
    ord("A") if 65 <= point <= 90 else ord("a") if 97 <= point <= 122 or 48 <= point <= 57 else ord(" ")
    for point in range(256)
)


def _spoken(arguments: Any) -> Iterator[str]:
    """The arguments of a call without the escapes of JSON; broken JSON as it is."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            yield arguments
            return
    if isinstance(arguments, Mapping):
        for name, value in arguments.items():
            yield f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
    elif arguments is not None:
        yield str(arguments)
