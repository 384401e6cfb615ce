"""What words a text has, for search: case folding, word borders, parts of camelCase names.

The same text always gives the same words: a document is taken out of the index by giving its words again.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from clew.messages import Message, ToolCall, calls_of, name_of_call, text_of

CHUNK_CHARS = 6_000
OVERLAP_CHARS = 200
"""What two chunks share, so that a phrase across their border is whole in one of them."""
# Scripts without spaces between words: each character is a word, and a run of them is found as a phrase.
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3105-\u312f\u3131-\u318e"
    "\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0003ffff"
)
_unspaced_run = re.compile(f"[{UNSPACED}]+")
_word = re.compile(f"[{UNSPACED}]|[^\\W_{UNSPACED}]+")
# Characters that are folded by more than `lower`: all but ASCII and those listed. Few texts have many of them.
_folded_otherwise = re.compile(
    "[^\x00-\x7f\u00ab\u00bb\u0410-\u0418\u041a-\u0438\u043a-\u044f\u2013\u2014\u2018\u2019\u201c-\u201e\u2022\u2192\u2500-\u259f"
    "\u2e80-\ufefe]"
)
# Of these, characters whose folded form `lower` changes again or makes longer.
_folded_alone = re.compile(
    "[\u0130\u03d2-\u03d4\u1d2c-\u1d42\u2102-\u2145\u2c7d\U0001d400-\U0001d7ff\U0001f12b-\U0001f149]"
)
_whitespace = re.compile(r"\s")
_camel_case_part = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z]+[0-9]*|[0-9]+")
# Each byte as an upper case letter, a lower case letter or digit, or anything else.
_KINDS = bytes(
    ord("A") if 65 <= point <= 90 else ord("a") if 97 <= point <= 122 or 48 <= point <= 57 else ord(" ")
    for point in range(256)
)

STOP_WORDS = frozenset(
    """a about after all also am an and any are as at be been before being but by can could did do does doing for from
    had has have having he her here him his how i if in into is it its just me more most my no nor not of off on once
    only or other our out over own please she should so some such tell than that the their them then there these they
    this those through to too under until up us very was we were what when where which while who whom why will with
    would you your""".split()
)


def searchable_text(message: Message) -> str:
    """What search finds of a message: its text, and the names and arguments of its calls."""
    pieces = [text_of(message)]
    if not (calls := calls_of(message)):
        return normalized_text(pieces[0])
    pieces += map(call_text, calls)
    return normalized_text("\n".join(piece for piece in pieces if piece))


def call_text(call: ToolCall) -> str:
    """A call as text: the name of its tool, and its arguments without JSON escapes."""
    function: Any = call.get("function")
    arguments = function.get("arguments") if isinstance(function, Mapping) else None
    return f"{name_of_call(call)} {'; '.join(_argument_texts(arguments))}"


def normalized_text(text: str) -> str:
    """A text in NFC, with half surrogate pairs replaced."""
    if text.isascii():
        return text
    if not unicodedata.is_normalized("NFC", text):
        text = unicodedata.normalize("NFC", text)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def case_folded(text: str) -> str:
    """A text in lower case and without accents; every character keeps its index."""
    if text.isascii():
        return text.lower()
    others = set(_folded_otherwise.findall(text))
    if any(map(_folded_alone.match, others)):
        return text.translate(_FOLDS)
    # A text has few different ones: replacing each is faster than translating the whole text.
    for character in others:
        text = text.replace(character, _FOLDS[ord(character)])
    return text.lower()


def words_of(folded_text: str) -> list[str]:
    """The words of a case-folded text, in order."""
    return _word.findall(folded_text)


def separate_unspaced(folded_text: str) -> str:
    """A case-folded text in which a tokenizer that splits at spaces finds the same words."""
    return folded_text if folded_text.isascii() else _unspaced_run.sub(_with_spaces, folded_text)


def _with_spaces(run: re.Match[str]) -> str:
    return f" {' '.join(run[0])} "


def is_unspaced(word: str) -> bool:
    """Whether a word is a run of characters of a script without spaces."""
    return _unspaced_run.fullmatch(word) is not None


def camel_case_parts(text: str) -> list[str]:
    """The parts of the camelCase names in a text, in lower case, each once: getUserName gives get, user, name."""
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


def split_camel_case(name: str) -> list[str]:
    """The parts of a camelCase name; one part for any other word."""
    return _camel_case_part.findall(name)


@lru_cache(maxsize=1 << 15)
def _folded_parts(name: str) -> tuple[str, ...]:
    return tuple(part.lower() for part in split_camel_case(name))


def chunks_of(text: str) -> Iterator[tuple[int, int]]:
    """The ranges of a text's chunks, cut at a space where there is one; each overlaps the one before."""
    start = 0
    while len(text) - start > CHUNK_CHARS:
        stop = start + CHUNK_CHARS
        for back in range(stop, stop - OVERLAP_CHARS, -1):
            if _whitespace.match(text[back - 1]):
                stop = back
                break
        yield start, stop
        start = stop - OVERLAP_CHARS
    if text:
        yield start, len(text)


class _FoldTable(dict[int, str]):
    """The folded form of each character, computed when it is first needed."""

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


_FOLDS = _FoldTable()


def _argument_texts(arguments: Any) -> Iterator[str]:
    """The arguments of a call without JSON escapes; broken JSON as it is."""
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


def is_stop_word(word: str) -> bool:
    return word in STOP_WORDS
