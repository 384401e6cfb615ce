"""A handoff as HTML: headings, numbered actions, and every `m12` a link to the message it came from.

Everything is escaped first and last: a handoff quotes tools, and tools quote anything. Knows the few marks that
handoffs use; any other text is shown as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from html import escape
from typing import Final

from clew.ledger.verify import MARK

_LONGEST_LINE: Final = 420
_SHOWN_OF_LONG: Final = 300
_HEADING: Final = re.compile(r"^#{1,6}\s+(.*)$")
_NUMBERED: Final = re.compile(r"^(\d{1,6})[.)]\s+(.*)$")
_BULLET: Final = re.compile(r"^[-*•]\s+(.*)$")
_VERB: Final = re.compile(r"^(?:READ|WROTE|CHANGED|RAN|SEARCHED|LISTED|FETCHED|PLANNED|DELEGATED|CALLED)\b")
_SOURCE: Final = re.compile(r"\s\[[^\[\]\n]{1,80} m\d+\]$")
_INLINE: Final = re.compile(
    rf"`(?P<code>[^`\s](?:[^`\n]*[^`\s])?)`|\*\*(?P<strong>[^*\n]+)\*\*|(?P<doubt>{MARK})|(?<![\w/.])m(?P<number>\d+)(?![\w/]|\.\w)"
)


def handoff_html(text: str, known: Container[int]) -> str:
    """The handoff; numbers that are not `known` are messages of before this file, and no links."""
    blocks: list[str] = []
    open_list = ""
    for line in text.splitlines():
        if not line.strip():
            continue
        tag, html = _block(line, known)
        if tag != open_list:
            blocks.append(f"</{open_list}>" if open_list else "")
            blocks.append(f"<{tag}>" if tag else "")
            open_list = tag
        blocks.append(html)
    blocks.append(f"</{open_list}>" if open_list else "")
    return "\n".join(block for block in blocks if block)


def inline_html(text: str, known: Container[int]) -> str:
    """One line of text with its marks and links."""
    return "".join(_pieces(text, known))


def link_to(number: int) -> str:
    return f'<a class="ref" href="#m{number}">m{number}</a>'


def _block(line: str, known: Container[int]) -> tuple[str, str]:
    """The list that a line stands in, "" for none; and the line."""
    stripped = line.strip()
    if found := _HEADING.match(line):
        return "", f"<h3>{inline_html(found[1], known)}</h3>"
    if found := _NUMBERED.match(stripped):
        return "ol", f'<li value="{int(found[1])}">{_item(found[2], known)}</li>'
    if found := _BULLET.match(stripped):
        return "ul", f"<li>{_item(found[1], known)}</li>"
    kind = ' class="aside"' if line.startswith((" ", "\t")) or stripped.startswith("(") else ""
    return "", f"<p{kind}>{_item(stripped, known)}</p>"


def _item(text: str, known: Container[int]) -> str:
    source = found[0] if (found := _SOURCE.search(text)) else ""
    body = text.removesuffix(source)
    tail = f' <span class="source">{inline_html(source.strip(), known)}</span>' if source else ""
    verb = f'<span class="verb">{found[0]}</span>' if (found := _VERB.match(body)) else ""
    body = body[found.end() :] if found else body
    if len(body) <= _LONGEST_LINE:
        return f"{verb}{inline_html(body, known)}{tail}"
    at = body.rfind(" ", 0, _SHOWN_OF_LONG)
    at = at if at > 0 else _SHOWN_OF_LONG
    shown, rest = body[:at], body[at:]
    return (
        f"<details><summary>{verb}{inline_html(shown, known)} <span class=more>… {len(rest):,} more chars</span>{tail}"
        f"</summary>{inline_html(rest, known)}</details>"
    )


def _pieces(text: str, known: Container[int]) -> Iterator[str]:
    done = 0
    for found in _INLINE.finditer(text):
        yield escape(text[done : found.start()])
        yield _marked(found, known)
        done = found.end()
    yield escape(text[done:])


def _marked(found: re.Match[str], known: Container[int]) -> str:
    if found["code"]:
        return f"<code>{escape(found['code'])}</code>"
    if found["strong"]:
        return f"<strong>{escape(found['strong'])}</strong>"
    if found["doubt"]:
        return '<mark title="the messages do not show this">unverified</mark>'
    # A number of a million digits is no message, and must not cost the time to read it.
    number = int(found["number"]) if len(found["number"]) < 10 else -1
    return link_to(number) if number in known else f"<span>{escape(found[0])}</span>"
