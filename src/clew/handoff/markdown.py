"""How a handoff is read as Markdown, by the pages that show one: headings, lists, code, bold, and every `m12`.

markdown-it reads it, with the few rules that handoffs use. Everything else is text that is shown as it is written: a
handoff quotes tools, and tools quote anything. What is made of the tokens, HTML or values, is up to the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from clew.handoff.complete import UNVERIFIED_MARK

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token

HANDOFF_MARK: Final = "handoff_mark"
"""The type of the tokens of references (`m12`) and of marks that something was not verified."""
_VERB: Final = re.compile(r"^(?:READ|WROTE|CHANGED|RAN|SEARCHED|LISTED|FETCHED|PLANNED|DELEGATED|ASKED|CALLED)\b")
_SOURCE: Final = re.compile(r"\s\[[^\[\]\n]{1,80} m\d+\]$")
_MARKED: Final = re.compile(rf"(?P<unverified>{UNVERIFIED_MARK})|(?<![\w/.])m(?P<number>\d+)(?![\w/]|\.\w)")
_BULLET: Final = re.compile(r"^([ \t]*)•(?=\s)", re.MULTILINE)
# Markdown lets no numbered item but the first begin right below a line of text.
_LIST_BELOW_TEXT: Final = re.compile(r"^(?![ \t]*(?:\d+[.)]|[-*])\s)(?=.*\S)(.*)\n(?= *\d+[.)]\s)", re.MULTILINE)
# A line of a result that is quoted in several: indented so far, it is neither a heading nor a list.
_QUOTED_BLOCK: Final = re.compile(r"^\t(?=\S)", re.MULTILINE)
_TEXT_INDENT: Final = " " * 16


class LineParts(NamedTuple):
    """A line of a handoff: what was done, the line itself, and where it comes from; the outer two may be empty."""

    verb: str
    body: str
    source: str


def block_tokens(text: str) -> Sequence[Token]:
    """The headings, lists and paragraphs of a handoff; their text is still to be read line by line."""
    listed = _LIST_BELOW_TEXT.sub(r"\1\n\n", _BULLET.sub(r"\1-", text))
    return _block_parser().parse(_QUOTED_BLOCK.sub(_TEXT_INDENT, listed))


def inline_tokens(line: str) -> Sequence[Token]:
    """A line as text, code, bold, references and marks."""
    if "`" not in line and "**" not in line:
        # Most lines are plain, and reading one as Markdown takes twenty times as long.
        from markdown_it.token import Token

        return list(_pieces(Token("text", "", 0, content=line)))
    return [child for token in inline_parser().parseInline(line) for child in token.children or ()]


def line_parts(line: str) -> LineParts:
    source = found[0] if (found := _SOURCE.search(line)) else ""
    body = line.removesuffix(source)
    verb = found[0] if (found := _VERB.match(body)) else ""
    return LineParts(verb, body[len(verb) :], source.strip())


def referred_number(token: Token) -> int | None:
    """The number of the message that a token of `HANDOFF_MARK` refers to; None for a mark."""
    if not token.content.startswith("m"):
        return None
    # A number of a million digits is no message, and must not cost the time to read it.
    return int(token.content[1:]) if len(token.content) <= 10 else -1


@cache
def _block_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("zero").enable(["heading", "list"]).disable("inline")


@cache
def inline_parser() -> MarkdownIt:
    """Reads one line, and renders it where rules for that are added."""
    from markdown_it import MarkdownIt

    # "zero" knows paragraphs and text only; what is not enabled, HTML first of all, stays text.
    parser = MarkdownIt("zero").enable(["backticks", "emphasis"])
    parser.core.ruler.push("handoff_marks", _split_marks)
    return parser


def _split_marks(state: StateCore) -> None:
    """Make tokens of the references and marks that stand in text."""
    for block in state.tokens:
        if block.children:
            block.children = [piece for child in block.children for piece in _pieces(child)]


def _pieces(token: Token) -> Iterator[Token]:
    if token.type != "text":
        yield token
        return
    done = 0
    for found in _MARKED.finditer(token.content):
        yield token.copy(content=token.content[done : found.start()])
        yield token.copy(type=HANDOFF_MARK, content=found[0])
        done = found.end()
    yield token.copy(content=token.content[done:])
