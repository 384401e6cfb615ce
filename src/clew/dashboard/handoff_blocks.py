"""A handoff as values that a page can show: headings, items and lines of spans; a reference has the number it names."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Any, TypeAlias

from clew.handoff.markdown import HANDOFF_MARK, block_tokens, inline_tokens, line_parts, referred_number

HandoffBlock: TypeAlias = dict[str, Any]
HandoffSpan: TypeAlias = dict[str, Any]
_STRONG = "**"


def handoff_blocks(text: str, known: Container[int]) -> list[HandoffBlock]:
    """The blocks of a handoff; a reference has its number where that is `known`, one of the conversation's messages."""
    blocks: list[HandoffBlock] = []
    kind, number = "text", None
    for token in block_tokens(text):
        if token.type == "heading_open":
            kind = "heading"
        elif token.type == "list_item_open":
            kind, number = "item", int(token.info) if token.info.isdigit() else None
        elif token.type == "inline":
            blocks += _lines(token.content, kind, number, known)
            kind, number = "text", None
    return blocks


def references_in(blocks: Sequence[HandoffBlock]) -> list[int]:
    """The messages that a handoff refers to, in order, each once."""
    spans = (span for block in blocks for span in (*block["spans"], *block.get("source", ())))
    return sorted({span["seq"] for span in spans if "seq" in span})


def _lines(content: str, kind: str, number: int | None, known: Container[int]) -> Iterator[HandoffBlock]:
    """The first line is what the block is; the others follow it."""
    first, *more = content.split("\n")
    if kind == "text":
        more = [first, *more]
    elif kind == "heading":
        yield {"kind": "heading", "spans": list(_spans(first, known))}
    else:
        yield {"kind": "item", "number": number, **_line(first, known)}
    for line in more:
        is_aside = kind == "item" or line.startswith((" ", "\t", "("))
        yield {"kind": "aside" if is_aside else "text", **_line(line.strip(), known)}


def _line(text: str, known: Container[int]) -> HandoffBlock:
    parts = line_parts(text)
    line: HandoffBlock = {"spans": list(_spans(parts.body, known))}
    if parts.verb:
        line["verb"] = parts.verb
    if parts.source:
        line["source"] = list(_spans(parts.source, known))
    return line


def _spans(text: str, known: Container[int]) -> Iterator[HandoffSpan]:
    is_strong = False
    for token in inline_tokens(text):
        if token.type in ("strong_open", "strong_close") and token.markup == _STRONG:
            is_strong = token.type == "strong_open"
        elif token.type == HANDOFF_MARK:
            yield _reference(token.content, referred_number(token), known)
        elif token.type == "code_inline":
            yield {"text": token.content, "style": "code"}
        elif token.content or token.markup:
            # `__init__` and `*args` are names, and stay as they are.
            span = {"text": token.content or token.markup}
            yield {**span, "style": "strong"} if is_strong else span


def _reference(text: str, number: int | None, known: Container[int]) -> HandoffSpan:
    if number is None:
        return {"text": "unverified", "style": "unverified"}
    return {"text": text, "seq": number} if number in known else {"text": text}
