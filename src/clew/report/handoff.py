"""A handoff as HTML: headings, numbered actions, and every `m12` a link to the message it came from, all escaped."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from clew.handoff.markdown import HANDOFF_MARK, block_tokens, inline_parser, line_parts, referred_number

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_LONG_LINE_CHARS: Final = 420
_SHOWN_OF_LONG_CHARS: Final = 300
_UNVERIFIED_HTML: Final = '<mark title="the messages do not show this">unverified</mark>'


def handoff_html(text: str, known: Container[int]) -> str:
    """The handoff; a reference is a link where its number is `known`, that is, one of this conversation's messages."""
    return "".join(_blocks(block_tokens(text), known)).rstrip("\n")


def inline_html(text: str, known: Container[int]) -> str:
    """One line of text with its marks and links."""
    html: str = _renderer().renderInline(text, {"known": known})
    return html


def reference_html(number: int) -> str:
    return f'<a class="ref" href="#m{number}">m{number}</a>'


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
    verb_text, body, source = line_parts(text)
    tail = f' <span class="source">{inline_html(source, known)}</span>' if source else ""
    verb = f'<span class="verb">{verb_text}</span>' if verb_text else ""
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
def _renderer() -> MarkdownIt:
    parser = inline_parser()
    parser.add_render_rule(HANDOFF_MARK, _render_mark)
    for kind in ("em_open", "em_close", "strong_open", "strong_close"):
        parser.add_render_rule(kind, _render_emphasis)
    return parser


def _render_mark(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    del renderer, options
    number = referred_number(tokens[index])
    if number is None:
        return _UNVERIFIED_HTML
    return reference_html(number) if number in env["known"] else f"<span>{tokens[index].content}</span>"


def _render_emphasis(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    """Bold, where it is written with asterisks; `__init__` and `*args` are names, and stay as they are."""
    del renderer, options, env
    token = tokens[index]
    if token.markup != "**":
        return token.markup
    return "<strong>" if token.nesting > 0 else "</strong>"
