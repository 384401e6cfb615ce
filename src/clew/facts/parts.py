"""Turns the text of a message into parts: prose, code, output, or noise that is never quoted.

Wrappers, colours and line numbers are stripped, JSON is decoded into `key: value` lines. Noise kinds are rows of
`parts.toml`; a run of noise becomes one part that knows its kind and its size.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Any

from clew.facts.data import load_table
from clew.facts.outcomes import Detector
from clew.facts.text import clip_piece, code_pieces, prose_pieces, result_text, strip_colours, without_gutter


class PartKind(StrEnum):
    PROSE = "prose"
    CODE = "code"
    OUTPUT = "output"
    NOISE = "noise"


@dataclass(frozen=True, slots=True)
class Part:
    """A run of one kind of text, as pieces that can be quoted; of noise only the size is kept."""

    kind: PartKind
    pieces: tuple[str, ...]
    noise: str = ""
    lines: int = 0


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
_VALUE = re.compile(r"[\"']?[\w.-]+[\"']?\s*[:=]\s*(?:[\"'`\d\[{]|true|false|null|None)\S*.*$")
# A function that is assigned to a name, and a field with its type.
_FUNCTION = re.compile(r"(?:const|let|var|val)\s+\w+\s*(?::[^=]*)?=\s*(?:async\s*)?(?:\(|function\b|\w+\s*=>)")
_FIELD = re.compile(r"(?:readonly\s+)?\w+\??:\s*[\w<>\[\]|.{}'\" ]+[;,]?$")
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)[^\n]*$", re.MULTILINE)
_TAG_LINE = re.compile(r"\s*</?[\w-]+>\s*")
_ONE_NAME = re.compile(r"\s*(?:[-*•]\s+)?[\w./@+~\\-]+[:/]?\s*")
_DOCUMENTS = (".md", ".mdx", ".rst", ".txt", ".adoc", ".org")
_JSON_LIST = '[{"'


def prose_parts(text: str) -> list[Part]:
    """The parts of what a person or an agent wrote: prose and fenced code."""
    text = strip_colours(text)
    if "```" not in text and "~~~" not in text:
        return _with_noise(PartKind.PROSE, prose_pieces(text), text)
    parts: list[Part] = []
    for at, block in enumerate(_FENCE.split(text)):
        if at % 2:
            parts += _with_noise(PartKind.CODE, code_pieces(block), block)
        else:
            parts += _with_noise(PartKind.PROSE, prose_pieces(block), block)
    return parts


def output_parts(text: str) -> list[Part]:
    """The parts of a tool result."""
    text = strip_colours(result_text(text))
    decoded = json_lines(text)
    lines = decoded if decoded is not None else without_gutter([line for line in text.split("\n") if line.strip()])
    if decoded is None and _JSON_LIST in text:
        lines = list(chain.from_iterable(map(_list_in_line, lines)))
    return _with_noise(PartKind.OUTPUT, (line for line in map(str.strip, lines) if not _TAG_LINE.fullmatch(line)), text)


def file_parts(text: str, path: str) -> list[Part]:
    """The parts of a file that was read: a document as prose, anything else as code."""
    lines = without_gutter(strip_colours(result_text(text)).split("\n"), of_file=True)
    text = "\n".join(line for line in lines if not _TAG_LINE.fullmatch(line))
    if is_document(path):
        return prose_parts(text)
    return _with_noise(PartKind.CODE, code_pieces(text), text)


def is_document(path: str) -> bool:
    """Whether a file holds prose, by its name."""
    return path.endswith(_DOCUMENTS)


def code_parts(text: str) -> list[Part]:
    """The parts of a text that is written to a file."""
    return _with_noise(PartKind.CODE, code_pieces(text), text)


def _with_noise(kind: PartKind, pieces: Iterator[str], text: str) -> list[Part]:
    """The pieces of a text as parts of their kind, each run of noise as a part of its own."""
    detectors = [detector for detector in NOISE if _has_one(text, detector.literals)]
    parts: list[Part] = []
    good: list[str] = []
    noisy, name = 0, ""

    def close_noise() -> None:
        nonlocal noisy, name
        if noisy:
            parts.append(Part(PartKind.NOISE, (), name, noisy))
        noisy, name = 0, ""

    for piece in pieces:
        found = noise_of(piece, detectors) if detectors or len(piece) >= _NUMBERS_CHARS else ""
        if not found:
            close_noise()
            good.append(clip_piece(piece))
            continue
        if good:
            parts += _without_listings(kind, good)
            good = []
        if name != found:
            close_noise()
        noisy, name = noisy + 1, found
    close_noise()
    return [*parts, *(_without_listings(kind, good) if good else ())]


def _has_one(text: str, literals: Sequence[str]) -> bool:
    for literal in literals:  # noqa: SIM110 (a generator takes three times as long)
        if literal in text:
            return True
    return False


def _without_listings(kind: PartKind, pieces: Sequence[str]) -> list[Part]:
    """Long runs of lines with one name or path each are a listing."""
    if kind is PartKind.PROSE or len(pieces) < _LISTING_LINES:
        return [Part(kind, tuple(pieces), lines=len(pieces))]
    parts: list[Part] = []
    kept: list[str] = []
    run: list[str] = []
    for piece in (*pieces, ""):
        if piece and len(piece) <= _LONGEST_NAME and _ONE_NAME.fullmatch(piece):
            run.append(piece)
            continue
        if len(run) >= _LISTING_LINES:
            if kept:
                parts.append(Part(kind, tuple(kept), lines=len(kept)))
                kept = []
            parts.append(Part(PartKind.NOISE, (), "listing", len(run)))
        else:
            kept += run
        run = []
        if piece:
            kept.append(piece)
    if kept:
        parts.append(Part(kind, tuple(kept), lines=len(kept)))
    return parts


def code_feature(line: str) -> str:
    """What a line of code or data is: a comment, a definition, a value, a field with its type, or a statement."""
    if line.startswith(_COMMENTS):
        return "comment"
    words = line.split(None, 4)
    is_exported = bool(words) and words[0] in _EXPORTS
    while words and words[0] in _MODIFIERS:
        words = words[1:]
    if is_exported or (words and words[0] in _DEFINITIONS) or _FUNCTION.match(line):
        return "definition"
    if _VALUE.match(line):
        return "value"
    return "field" if _FIELD.match(line) else "statement"


def noise_of(line: str, detectors: Sequence[Detector] = NOISE) -> str:
    """The kind of noise that a line is; empty where it can be quoted."""
    if len(line) >= _NUMBERS_CHARS and (found := _noise_of_long(line)):
        return found
    for detector in detectors:
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


# -- JSON --------------------------------------------------------------------------------------------------------------


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


def _list_in_line(line: str) -> list[str]:
    """A line; of one that ends with a JSON list, such as `Links: [{...}]`, each entry of the list."""
    start = line.find(_JSON_LIST)
    entries = json_lines(line[start:]) if start >= 0 else None
    return [line] if entries is None else [line[:start], *entries]


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
