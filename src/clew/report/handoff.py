"""A handoff as HTML: headings, numbered actions, and every `m12` a link to the message it came from.

markdown-it reads the Markdown, with the few rules that handoffs use: headings, lists, code and bold. Everything else is
text that is shown as it is written, and escaped: a handoff quotes tools, and tools quote anything.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from clew.ledger import UNVERIFIED_MARK

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_core import StateCore
    from markdown_it.token import Token

_LONG_LINE_CHARS: Final = 420
_SHOWN_OF_LONG_CHARS: Final = 300
_VERB: Final = re.compile(r"^(?:READ|WROTE|CHANGED|RAN|SEARCHED|LISTED|FETCHED|PLANNED|DELEGATED|CALLED)\b")
_SOURCE: Final = re.compile(r"\s\[[^\[\]\n]{1,80} m\d+\]$")
_MARKED: Final = re.compile(rf"(?P<unverified>{UNVERIFIED_MARK})|(?<![\w/.])m(?P<number>\d+)(?![\w/]|\.\w)")
_BULLET: Final = re.compile(r"^([ \t]*)•(?=\s)", re.MULTILINE)
# Markdown lets no numbered item but the first begin right below a line of text.
_LIST_BELOW_TEXT: Final = re.compile(r"^(?![ \t]*(?:\d+[.)]|[-*])\s)(?=.*\S)(.*)\n(?=[ \t]*\d+[.)]\s)", re.MULTILINE)
_UNVERIFIED_HTML: Final = '<mark title="the messages do not show this">unverified</mark>'


def handoff_html(text: str, known: Container[int]) -> str:
    """The handoff; a reference is a link where its number is `known`, that is, one of this conversation's messages."""
    source = _LIST_BELOW_TEXT.sub(r"\1\n\n", _BULLET.sub(r"\1-", text))
    return "".join(_blocks(_block_parser().parse(source), known)).rstrip("\n")


def inline_html(text: str, known: Container[int]) -> str:
    """One line of text with its marks and links."""
    html: str = _inline_parser().renderInline(text, {"known": known})
    return html


def reference_html(number: int) -> str:
    return f'<a class="ref" href="#m{number}">m{number}</a>'


@cache
def _block_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # Only blocks: their text is read line by line.
    return MarkdownIt("zero").enable(["heading", "list"]).disable("inline")


# -- blocks ------------------------------------------------------------------------------------------------------------


def _blocks(tokens: Sequence[Token], known: Container[int]) -> Iterator[str]:
    lists = {"ordered_list_open": "<ol>\n", "ordered_list_close": "</ol>\n"}
    lists |= {"bullet_list_open": "<ul>\n", "bullet_list_close": "</ul>\n", "list_item_close": "</li>\n"}
    # What the next text is in: a heading, the beginning of a list item, or neither.
    container = ""
    for token in tokens:
        if token.type == "list_item_open":
            yield f'<li value="{int(token.info)}">' if token.info.isdigit() else "<li>"
            container = "item"
        elif token.type == "heading_open":
            container = "heading"
        elif token.type == "inline":
            yield from _text_block(token.content, container, known)
            container = ""
        else:
            yield lists.get(token.type, "")


def _text_block(content: str, container: str, known: Container[int]) -> Iterator[str]:
    first, *more = content.split("\n")
    if container == "heading":
        yield f"<h3>{inline_html(first, known)}</h3>\n"
    elif container == "item":
        yield _line(first, known)
    else:
        more = [first, *more]
    for line in more:
        is_aside = line.startswith((" ", "\t", "(")) or container == "item"
        opening = '<p class="aside">' if is_aside else "<p>"
        yield f"{opening}{_line(line.strip(), known)}</p>\n"


def _line(text: str, known: Container[int]) -> str:
    """A line with its verb and its source set apart; of a very long one the beginning, and the rest to open."""
    source = found[0] if (found := _SOURCE.search(text)) else ""
    body = text.removesuffix(source)
    tail = f' <span class="source">{inline_html(source.strip(), known)}</span>' if source else ""
    verb = f'<span class="verb">{found[0]}</span>' if (found := _VERB.match(body)) else ""
    body = body[found.end() :] if found else body
    if len(body) <= _LONG_LINE_CHARS:
        return f"{verb}{inline_html(body, known)}{tail}"
    at = body.rfind(" ", 0, _SHOWN_OF_LONG_CHARS)
    at = at if at > 0 else _SHOWN_OF_LONG_CHARS
    shown, rest = body[:at], body[at:]
    more = f'<span class="more">… {len(rest):,} more chars</span>'
    summary = f"<summary>{verb}{inline_html(shown, known)} {more}{tail}</summary>"
    return f"<details>{summary}{inline_html(rest, known)}</details>"


# -- inline ------------------------------------------------------------------------------------------------------------


@cache
def _inline_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    # "zero" knows paragraphs and text only; what is not enabled, HTML first of all, stays text.
    parser = MarkdownIt("zero").enable(["backticks", "emphasis"])
    parser.core.ruler.push("handoff_marks", _split_marks)
    parser.add_render_rule("handoff_mark", _render_mark)
    for kind in ("em_open", "em_close", "strong_open", "strong_close"):
        parser.add_render_rule(kind, _render_emphasis)
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
        yield token.copy(type="handoff_mark", content=found[0])
        done = found.end()
    yield token.copy(content=token.content[done:])


def _render_mark(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    del renderer, options
    text = tokens[index].content
    if not text.startswith("m"):
        return _UNVERIFIED_HTML
    # A number of a million digits is no message, and must not cost the time to read it.
    number = int(text[1:]) if len(text) <= 10 else -1
    return reference_html(number) if number in env["known"] else f"<span>{text}</span>"


def _render_emphasis(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """Bold, where it is written with asterisks; `__init__` and `*args` are names, and stay as they are."""
    del renderer, options, env
    token = tokens[index]
    if token.markup != "**":
        return token.markup
    return "<strong>" if token.nesting > 0 else "</strong>"
