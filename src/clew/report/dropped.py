"""The part of a page that says what is no longer there: the folded messages, and what they held.

Text only, escaped; the judgement of what stands is in `facts`.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from html import escape
from typing import Final

from clew.engines import Fate
from clew.report.account import Account, Cell
from clew.report.facts import KINDS, Fact, LostString, Survival
from clew.report.handoff_html import link_to
from clew.report.texts import shown_text

_LARGEST_SHOWN: Final = 15
_OPENING_CHARS: Final = 140
_GROUPS_SHOWN: Final = 25
_STRINGS_OF_A_GROUP: Final = 14


def dropped_html(account: Account, survival: Survival) -> str:
    """The section, or nothing where nothing was folded."""
    folded = [cell for cell in account.cells if cell.fate is Fate.SUMMARISED and cell.number is not None]
    if not folded:
        return ""
    tokens = sum(cell.tokens for cell in folded)
    return (
        '<section aria-labelledby="t-dropped"><h2 id="t-dropped">What is no longer there</h2>'
        f'<p class="lead">{len(folded):,} messages of {tokens:,} tokens were folded. Their originals are untouched; '
        "what follows is what the request no longer says word for word.</p>"
        f'<div class="groups">{_facts(survival.facts)}{_strings(survival)}{_largest(folded)}</div></section>'
    )


def _largest(folded: Sequence[Cell]) -> str:
    largest = heapq.nlargest(_LARGEST_SHOWN, folded, key=lambda cell: cell.tokens)
    rows = "".join(
        f"<tr><td>{link_to(cell.number or 0)}</td><td>{escape(cell.tool or cell.role)}</td>"
        f"<td class=num>{cell.tokens:,}</td><td class=words>{escape(_opening(cell))}</td></tr>"
        for cell in largest
    )
    return (
        '<div class="card"><h3>The largest folded messages</h3><div class="scroll"><table>'
        "<thead><tr><th>#</th><th>tool or role</th>"
        f"<th class=num>tokens</th><th>begins</th></tr></thead><tbody>{rows}</tbody></table></div></div>"
    )


def _opening(cell: Cell) -> str:
    return " ".join(shown_text(cell.message)[: 4 * _OPENING_CHARS].split())[:_OPENING_CHARS]


def _facts(facts: Sequence[Fact]) -> str:
    groups = []
    for kind, title in KINDS.items():
        of_kind = [fact for fact in facts if fact.kind == kind]
        if of_kind:
            standing = sum(fact.stands for fact in of_kind)
            lines = "".join(map(_fact, sorted(of_kind, key=lambda fact: (fact.stands, fact.number))))
            groups.append(
                f'<details class="fold"><summary>{title}: {standing} of {len(of_kind)} stand word for word</summary>'
                f"{lines}</details>"
            )
    if not groups:
        return ""
    return f'<div class="card"><h3>Facts of the folded messages</h3>{"".join(groups)}</div>'


def _fact(fact: Fact) -> str:
    tag = '<span class="tag yes">✓ stands</span>' if fact.stands else '<span class="tag no">– not so</span>'
    return f'<div class="fact">{tag}<span class="words">{escape(fact.text)}</span>{link_to(fact.number)}</div>'


def _strings(survival: Survival) -> str:
    if not survival.strings:
        return ""
    gone = survival.strings - survival.standing
    title = (
        f"<h3>Exact strings</h3><p class=lead>Of {survival.strings:,} paths, names, numbers and hashes in the folded "
        f"messages, {survival.standing:,} still stand in the request; {gone:,} are only in the originals.</p>"
    )
    groups: dict[int, list[LostString]] = {}
    for string in survival.lost:
        groups.setdefault(string.number, []).append(string)
    lines = "".join(_group(number, strings) for number, strings in list(groups.items())[:_GROUPS_SHOWN])
    rest = len(groups) - _GROUPS_SHOWN
    more = f'<p class="note">And others, last seen in {rest:,} more messages.</p>' if rest > 0 else ""
    listed = f'<ul class="strings">{lines}</ul>{more}' if lines else ""
    return f'<div class="card">{title}{listed}</div>'


def _group(number: int, strings: Sequence[LostString]) -> str:
    shown = " ".join(f"<code>{escape(string.text[:120])}</code>" for string in strings[:_STRINGS_OF_A_GROUP])
    rest = len(strings) - _STRINGS_OF_A_GROUP
    more = f" and {rest:,} more" if rest > 0 else ""
    return f"<li>{link_to(number)} {shown}{more}</li>"
