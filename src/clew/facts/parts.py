"""Turns the text of a message into parts: prose, code or output. Noise is in no part, so it is never quoted.

Wrappers, colours and line numbers are stripped, JSON is decoded into `key: value` lines. Kinds of noise are rows of
`parts.toml`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import groupby
from typing import Any, NamedTuple

from clew.facts.data import load_table
from clew.facts.outcomes import Detector
from clew.facts.text import (
    clip_piece,
    code_pieces,
    has_one,
    prose_pieces,
    result_text,
    strip_colours,
    tagged_blocks,
    without_blocks,
    without_gutter,
)
from clew.lazy import lazy_pattern


class PartKind(StrEnum):
    PROSE = "prose"
    CODE = "code"
    OUTPUT = "output"


class Part(NamedTuple):
    """A run of one kind of text, as pieces that can be quoted."""

    kind: PartKind
    pieces: tuple[str, ...]
    line_numbers: tuple[str, ...] = ()
    """Of each piece in its file, where the tool showed them; empty for a piece without one."""


_TABLE = load_table("parts.toml")
NOISE = tuple(map(Detector.of, _TABLE["noise"]))
_LIMITS = _TABLE["limits"]
_LONGEST_NAME = _LIMITS["longest_name"]
_MOST_JSON_CHARS = _LIMITS["most_json_chars"]
_MOST_JSON_DEPTH = _LIMITS["most_json_depth"]
_MOST_JSON_LINES = _LIMITS["most_json_lines"]
_LONGEST_WORD, _LONG_LINE = _LIMITS["longest_word_chars"], _LIMITS["long_line_chars"]
_NUMBERS_CHARS, _NUMBERS_SHARE = _LIMITS["numbers_chars"], _LIMITS["numbers_share"]
_NUMBER_CHARS = "0123456789.,- "
_CHARS_PER_MARK = _LIMITS["chars_per_mark"]
_CHARS_PER_BLANK, _LISTING_LINES = _LIMITS["chars_per_blank"], _LIMITS["listing_lines"]
_MODIFIERS = frozenset(_TABLE["code"]["modifiers"].split())
_DEFINITIONS = frozenset(_TABLE["code"]["definitions"].split())
_EXPORTS = frozenset(_TABLE["code"]["exports"].split())
_COMMENTS = tuple(_TABLE["code"]["comments"])
_VALUE = lazy_pattern(r"[\"']?[\w.-]+[\"']?\s*[:=]\s*(?:[\"'`\d\[{]|true|false|null|None)\S*.*$")
_EMPTY_VALUES = ("[]", "{}", "()", '""', "''", "None", "null")
_NO_VALUES = ("{", "[", "(", *(f"{sign} {value}" for sign in "=:" for value in _EMPTY_VALUES))
# A function that is assigned to a name, and a field with its type.
_FUNCTION = lazy_pattern(r"(?:const|let|var|val)\s+\w+\s*(?::[^=]*)?=\s*(?:async\s*)?(?:\(|function\b|\w+\s*=>)")
_FIELD = lazy_pattern(
    r"(?:readonly\s+|pub\s+)?\w+\??:\s*(?:string|number|boolean|bool|int|float|str|bytes|any|unknown|void|object|[A-Z]\w*)\b"
    r"[\w<>\[\]|.{}'\" ,]*[;,]?$"
)
_TEXT_VALUE = lazy_pattern(r"""["'`][^"'`]{4,}["'`][;,)]*(?: as const)?[;,]?$""")
_NAME_IN_LIST = lazy_pattern(r"(?:type\s+)?\w+,$")
_OF_PROGRAMS = lazy_pattern(rf"<({'|'.join(load_table('harness.toml')['result_blocks'])})>")
_FENCE = lazy_pattern(r"^[ \t]*(?:```+|~~~+)[ \t]*([^\n]*)$", re.MULTILINE)
_LINE_NUMBER = lazy_pattern(r"(?:<\w+>)?\s*(\d{1,7})(?:→|\t|[:|](?!\d)|  )")
# Before the lines of a file some tools write a wrapper.
_MOST_BEFORE_NUMBERS = 6
_TAG_LINE = lazy_pattern(r"\s*</?[\w-]+>\s*")
_RULED = "=_-*#~"
_FEWEST_RULED = 5
_ONE_NAME = lazy_pattern(r"\s*(?:[-*•]\s+)?[\w./@+~\\-]+[:/]?\s*")
_DOCUMENTS = (".md", ".mdx", ".rst", ".txt", ".adoc", ".org")
_SAME_LINE_CHARS = 200


def prose_parts(text: str) -> list[Part]:
    """The parts of what a person or an agent wrote: prose and fenced code."""
    text = strip_colours(text)
    if "```" not in text and "~~~" not in text:
        return _without_noise(PartKind.PROSE, prose_pieces(text), text)
    parts: list[Part] = []
    for is_code, block in _fenced_blocks(text):
        if is_code:
            lines = without_gutter(_FENCE.sub("", block).split("\n"))
            parts += _without_noise(PartKind.CODE, code_pieces("\n".join(lines)), block)
        else:
            parts += _without_noise(PartKind.PROSE, prose_pieces(block), block)
    return parts


def _fenced_blocks(text: str) -> list[tuple[bool, str]]:
    """Blocks of the text in order, and whether each is fenced. A fence with a language may be inside another one."""
    blocks: list[tuple[bool, str]] = []
    depth = start = 0
    for fence in _FENCE.finditer(text):
        opens = not depth or bool(fence[1])
        if depth == (not opens):
            blocks.append((not opens, text[start : fence.start()]))
            start = fence.end()
        depth += 1 if opens else -1
    if depth > 1:
        # Fences that are not nested but unbalanced: each one begins or ends a block.
        return [(at % 2 == 1, block) for at, block in enumerate(_FENCE.sub("\0", text).split("\0"))]
    return [*blocks, (depth == 1, text[start:])]


def output_parts(text: str) -> list[Part]:
    """The parts of a tool result."""
    text = _own_text(text)
    decoded = json_lines(text)
    lines = decoded if decoded is not None else without_gutter([line for line in text.split("\n") if line.strip()])
    own = (line for line in map(str.strip, lines) if not (line.startswith("<") and _TAG_LINE.fullmatch(line)))
    return _without_noise(PartKind.OUTPUT, map(_without_rule, own), text)


def _without_rule(line: str) -> str:
    """The title of a line that is ruled on both sides, such as `===== FAILURES =====`; any other line as it is."""
    rule = line[:1] * _FEWEST_RULED
    if not line or line[0] not in _RULED or not (line.startswith(rule) and line.endswith(rule)):
        return line
    title = line.strip(line[0])
    return title.strip() if title.startswith(" ") and title.endswith(" ") else line


def file_parts(text: str, path: str) -> list[Part]:
    """The parts of a file that was read: a document as prose, anything else as code with the numbers of its lines."""
    shown = _own_text(text).split("\n")
    lines = without_gutter(shown, of_file=True)
    text = "\n".join([line for line in lines if not ("<" in line and _TAG_LINE.fullmatch(line))])
    if is_document(path):
        return prose_parts(text)
    parts = _without_noise(PartKind.CODE, code_pieces(text), text)
    return parts if lines is shown else _with_line_numbers(parts, shown, lines)


def _with_line_numbers(parts: Sequence[Part], shown: Sequence[str], lines: Sequence[str]) -> list[Part]:
    """The parts of `lines` with the numbers that precede these lines in `shown`."""
    numbered = ((line.strip(), before[: len(before) - len(line)]) for before, line in zip(shown, lines, strict=True))
    found: list[Part] = []
    for part in parts:
        gutters = (
            # A piece is a line, or begins with one; the pieces are in the order of the lines.
            next((gutter for line, gutter in numbered if line and piece.startswith(line[:_SAME_LINE_CHARS])), "")
            for piece in part.pieces
        )
        found.append(part._replace(line_numbers=tuple("".join(filter(str.isdigit, gutter)) for gutter in gutters)))
    return found


def lines_shown(text: str) -> tuple[int, int] | None:
    """The numbers of the first and the last line that a result shows of a file, where it numbers its lines."""
    lines = text.split("\n")
    at = next((at for at, line in enumerate(lines[:_MOST_BEFORE_NUMBERS]) if _LINE_NUMBER.match(line)), None)
    if at is None or (at and not lines[at - 1].strip().endswith(">") and lines[at - 1].strip()):
        return None
    first = last = 0
    for line in lines[at:]:
        found = _LINE_NUMBER.match(line)
        if found is None or (last and int(found[1]) != last + 1):
            break
        last = int(found[1])
        first = first or last
    return (first, last) if last > first else None


def _own_text(text: str) -> str:
    """The text of a result without its wrapper, colours, and what a harness adds to every result."""
    text = strip_colours(result_text(text))
    return without_blocks(text, tagged_blocks(text, _OF_PROGRAMS))


def is_document(path: str) -> bool:
    """Whether a file holds prose, by its name."""
    return path.endswith(_DOCUMENTS)


def code_parts(text: str) -> list[Part]:
    """The parts of a text that is written to a file."""
    return _without_noise(PartKind.CODE, code_pieces(text), text)


def _without_noise(kind: PartKind, pieces: Iterator[str], text: str) -> list[Part]:
    """The pieces of a text that are no noise, as one part; none where all of them are noise."""
    # Of each detector only the literals that the text has: most texts have none, and most pieces none of those.
    detectors = [(one, has) for one in NOISE if (has := [literal for literal in one.literals if literal in text])]
    kept: list[str] = []
    for piece in pieces:
        if len(piece) >= _NUMBERS_CHARS and _noise_of_long(piece):
            continue
        for detector, literals in detectors:
            if has_one(piece, literals) and detector.pattern.search(piece):
                break
        else:
            kept.append(clip_piece(piece))
    kept = kept if kind is PartKind.PROSE else _without_listings(kept)
    return [Part(kind, tuple(kept))] if kept else []


def _without_listings(pieces: list[str]) -> list[str]:
    """The pieces without listings, which are long runs of lines with one name or path each."""
    if len(pieces) < _LISTING_LINES:
        return pieces
    kept: list[str] = []
    for is_name, run in groupby(pieces, lambda piece: len(piece) <= _LONGEST_NAME and bool(_ONE_NAME.fullmatch(piece))):
        lines = list(run)
        if not is_name or len(lines) < _LISTING_LINES:
            kept += lines
    return kept


def code_feature(line: str) -> str:
    """What a line of code or data is: a comment, a definition, a value, a field with its type, or a statement."""
    if line.startswith(_COMMENTS):
        return "comment"
    words = line.split(None, 4)
    is_exported = bool(words) and words[0] in _EXPORTS
    while words and words[0] in _MODIFIERS:
        words = words[1:]
    if _NAME_IN_LIST.match(line):
        # One name of an import.
        return "statement"
    if is_exported or (words and words[0] in _DEFINITIONS) or _FUNCTION.match(line):
        return "definition"
    if _TEXT_VALUE.match(line) or (_VALUE.match(line) and not line.rstrip(";,").endswith(_NO_VALUES)):
        return "value"
    return "field" if _FIELD.match(line) else "statement"


def noise_of(line: str) -> str:
    """The kind of noise that a line is; empty where it can be quoted."""
    if len(line) >= _NUMBERS_CHARS and (found := _noise_of_long(line)):
        return found
    for detector in NOISE:
        if detector.found_in(line):
            return detector.name
    return ""


def _noise_of_long(line: str) -> str:
    if len(line) > _LONG_LINE and line.count(" ") * _CHARS_PER_BLANK < len(line) and line.isascii():
        return "minified code or data"
    if len(line) > _LONG_LINE and (line.count(";") + line.count("{") + line.count("}")) * _CHARS_PER_MARK > len(line):
        return "minified code"
    if len(line) > _LONGEST_WORD and any(
        len(word) > _LONGEST_WORD and "/" not in word[:80] and "\\" not in word[:80] for word in line.split()
    ):
        return "encoded data"
    return "numbers" if sum(map(line.count, _NUMBER_CHARS)) > _NUMBERS_SHARE * len(line) else ""


def json_lines(text: str) -> list[str] | None:
    """The values of a JSON text as `key: value` lines; None where the text is no JSON object or list."""
    start = text.lstrip()[:1]
    if start not in ("{", "[") or len(text) > _MOST_JSON_CHARS:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict | list):
        return None
    lines: list[str] = []
    for line in _flat(value, "", 0):
        lines.append(line)
        if len(lines) >= _MOST_JSON_LINES:
            break
    return lines


def _flat(value: Any, name: str, depth: int) -> Iterator[str]:
    if isinstance(value, str) and "\n" in value:
        first, *rest = [line for line in value.split("\n") if line.strip()] or [""]
        yield f"{name}: {first}" if name else first
        yield from rest
    elif isinstance(value, dict) and depth < _MOST_JSON_DEPTH:
        small = [(key, inner) for key, inner in value.items() if not isinstance(inner, dict | list)]
        if len(small) > 1 and sum(len(str(inner)) + len(str(key)) for key, inner in small) < 160:
            # A small object is one line: its values belong together.
            shown = ", ".join(f"{key}: {inner}" for key, inner in small if inner not in (None, ""))
            yield f"{name}: {shown}" if name and not name.isdigit() else shown
            small = []
        for key, inner in value.items():
            if isinstance(inner, dict | list) or (key, inner) in small:
                yield from _flat(inner, str(key), depth + 1)
    elif isinstance(value, list) and depth < _MOST_JSON_DEPTH:
        if value and all(not isinstance(inner, dict | list) for inner in value):
            shown = ", ".join(map(str, value[:12]))
            if len(shown) < 300:
                yield f"{name}: {shown}" if name else shown
                return
        for inner in value:
            yield from _flat(inner, name, depth + 1)
    elif value not in (None, "", [], {}):
        yield f"{name}: {value}" if name else str(value)
