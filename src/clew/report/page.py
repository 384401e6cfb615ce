"""The page: one HTML file that needs nothing but itself, made from an account.

Knows the template and how to put text into it safely. The page's policy (CSP) allows exactly one script and one
style sheet, by their hashes: text that finds a way past the escaping still cannot run.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any, Final

from clew import __version__
from clew.engines import Fate
from clew.report.account import Account, Cell
from clew.report.bars import bars_html, roles_html
from clew.report.dropped import dropped_html
from clew.report.facts import survival_of
from clew.report.handoff_html import handoff_html
from clew.report.texts import Excerpt, excerpts, shown_text

_NAMES: Final = {
    Fate.KEPT: "kept",
    Fate.PRUNED: "shortened",
    Fate.SUMMARISED: "folded into the handoff",
    Fate.REMOVED: "removed",
}
_PLACEHOLDER: Final = re.compile(r"\{\{(\w+)\}\}")
_REFERENCE: Final = re.compile(r"(?<![\w/.])m(\d{1,9})(?![\w/]|\.\w)")
# A browser that meets these inside a script element may end it early.
_UNSAFE_IN_SCRIPT: Final = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def report_page(account: Account) -> str:
    """The whole page."""
    bars, widths = bars_html(account)
    style, script = _template("page.css") + widths, _template("page.js")
    texts = _texts(account)
    values = {
        "title": escape(f"Clew: {account.source}"),
        "version": escape(__version__),
        "style": style,
        "style_hash": _hash(style),
        "script": script,
        "script_hash": _hash(script),
        "source": escape(account.source),
        "facts": escape(" · ".join(_facts(account))),
        "warnings": _warnings(account.done.warnings),
        "figures": "".join(_figures(account)),
        "bars": bars,
        "roles": roles_html(account),
        "legend": _legend(account.cells),
        "texts_note": escape(_note_on(texts)),
        "handoff": _handoff(account),
        "dropped": dropped_html(account, survival_of(account)),
        "rows": _rows(account.cells, texts),
        "footer": escape(f"Made by clew {__version__}. This page holds text of the conversation and loads nothing."),
    }
    # One pass, so that a placeholder inside a message stays a text.
    return _PLACEHOLDER.sub(lambda found: values[found[1]], _template("page.html"))


def _template(name: str) -> str:
    return (files(__package__) / "template" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _facts(account: Account) -> list[str]:
    return [f"{len(account.cells):,} messages", account.origin, account.model or "no model named"]


def _warnings(warnings: Sequence[str]) -> str:
    if not warnings:
        return ""
    items = "".join(f"<li>{escape(warning)}</li>" for warning in warnings)
    return f'<div class="warnings" role="note"><strong>Please note</strong><ul>{items}</ul></div>'


def _figures(account: Account) -> list[str]:
    done = account.done
    if not done.changed:
        return [_figure("unchanged", f"{done.tokens_before:,} tokens, as it came", "main")]
    after = len(done.compaction.messages)
    figures = [
        _figure(f"{account.saved} less", "tokens in every request from here on", "main"),
        _figure(f"{_was(f'{done.tokens_before:,}')} {done.tokens_after:,}", "tokens"),
        _figure(f"{_was(f'{len(account.cells):,}')} {after:,}", "messages"),
    ]
    if account.cost:
        dollars = f"{_was(_dollars(account.cost.before))} {_dollars(account.cost.after)}"
        figures.append(_figure(dollars, f"per request, uncached (prices of {account.cost.checked})"))
    return figures


def _figure(value: str, words: str, kind: str = "") -> str:
    return f'<div class="figure {kind}"><b>{value}</b><span>{escape(words)}</span></div>'


def _was(value: str) -> str:
    return f'<span class="was">{value} →</span>'


def _dollars(amount: float) -> str:
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.4f}"


def _legend(cells: Sequence[Cell]) -> str:
    counts = Counter(cell.fate for cell in cells)
    tokens: Counter[Fate] = Counter()
    for cell in cells:
        tokens[cell.fate] += cell.tokens
    return "".join(
        f'<button type="button" data-fate="{fate}" aria-pressed="false"><span class="cell {fate}" aria-hidden="true">'
        f'{"×" if fate is Fate.REMOVED else ""}</span>{_NAMES[fate]} <span class="count">{counts[fate]:,}'
        f" · {tokens[fate]:,} tokens</span></button>"
        for fate in _NAMES
        if counts[fate]
    )


def _handoff(account: Account) -> str:
    compaction = account.done.compaction
    if not compaction.summary:
        return "<p class=lead>Nothing was folded, so there is no handoff.</p>"
    known = {cell.number for cell in account.cells if cell.number is not None}
    unverified = len(compaction.unverified)
    doubts = f" {unverified} exact strings in it are not in the source, and are marked." if unverified else ""
    first, last = compaction.numbers
    lead = (
        f"It stands for m{first} to m{last - 1} and takes {account.handoff_tokens:,} tokens. "
        f"Written by: {compaction.written_by}.{doubts}"
    )
    body = handoff_html(compaction.summary, known)
    return f'<p class="lead">{escape(lead)}</p><div class="card handoff">{body}</div>'


# -- the messages ------------------------------------------------------------------------------------------------------


def _texts(account: Account) -> list[tuple[Excerpt, Excerpt | None]]:
    """Of each message the original and, where it was shortened, how it stands now."""
    named = {int(number) for number in _REFERENCE.findall(account.done.summary or "")}
    originals = [shown_text(cell.message) for cell in account.cells]
    wanted = [cell.number in named or cell.fate is not Fate.SUMMARISED for cell in account.cells]
    shortened = [cell.now for cell in account.cells if cell.fate is Fate.PRUNED and cell.now is not None]
    everything = excerpts([*originals, *map(shown_text, shortened)], [*wanted, *(True for _ in shortened)])
    now = iter(everything[len(originals) :])
    return [
        (original, next(now) if cell.fate is Fate.PRUNED and cell.now is not None else None)
        for cell, original in zip(account.cells, everything, strict=False)
    ]


def _note_on(texts: Sequence[tuple[Excerpt, Excerpt | None]]) -> str:
    cut = sum(original.left_out > 0 for original, _ in texts)
    if not cut:
        return "The page holds every message whole."
    return f"To keep the page small, {cut:,} of {len(texts):,} messages are shown only in part."


def _rows(cells: Sequence[Cell], texts: Sequence[tuple[Excerpt, Excerpt | None]]) -> str:
    """The messages for the script, as JSON that cannot end its element."""
    roles = _numbered([cell.role for cell in cells])
    tools = _numbered([cell.tool for cell in cells])
    fates = _numbered([str(cell.fate) for cell in cells])
    rows = []
    for cell, (original, now) in zip(cells, texts, strict=True):
        row: list[Any] = [cell.number, roles[cell.role], tools[cell.tool], cell.tokens, cell.tokens_after]
        row += [fates[str(cell.fate)], original.text, original.left_out]
        rows.append(row if now is None else [*row, now.text, now.left_out])
    table = {"roles": list(roles), "tools": list(tools), "fates": list(fates), "rows": rows}
    return json.dumps(table, ensure_ascii=False, separators=(",", ":")).translate(_UNSAFE_IN_SCRIPT)


def _numbered(words: Sequence[str]) -> dict[str, int]:
    return {word: place for place, word in enumerate(dict.fromkeys(words))}
