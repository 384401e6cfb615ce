"""The token bars of a page: the request before and after, part by part and role by role.

Widths go into the style sheet and into SVG, never into style attributes, which the page's own policy forbids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from clew.report.account import Account, Share

PARTS: Final[Mapping[str, str]] = {
    "system": "system prompt",
    "tools": "tools",
    "head": "head",
    "handoff": "handoff",
    "folded": "folded messages",
    "kept": "kept between",
    "tail": "tail",
}
_ROLES: Final[Mapping[str, str]] = {
    "system": "system prompt",
    "developer": "system prompt",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool results",
}
_WIDE_ENOUGH_FOR_A_NAME: Final = 0.08


def bars_html(account: Account) -> tuple[str, str]:
    """The two bars with their key; and the style rules that give the widths."""
    done = account.done
    rules: list[str] = []
    before = _bar("before", account.before, done.tokens_before, done.tokens_before, rules)
    after = _bar("after", account.after, done.tokens_after, done.tokens_before, rules)
    return f'<div class="card"><div class="stack">{before}{after}</div>{_key(account)}</div>', "".join(rules)


def roles_html(account: Account) -> str:
    """A table: what each role takes, before and after."""
    rows = _by_role(account)
    longest = max((max(pair) for pair in rows.values()), default=1) or 1
    lines = [
        f"<tr><td>{name}</td><td class=num>{before:,}</td><td class=num>{after:,}</td>"
        f'<td class="hide-narrow">{_pair(before, after, longest)}</td></tr>'
        for name, (before, after) in rows.items()
    ]
    return (
        '<div class="scroll"><table><thead><tr><th>by role</th><th class=num>tokens before</th>'
        f'<th class=num>after</th><th class="hide-narrow" aria-hidden="true"></th></tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _bar(name: str, shares: Sequence[Share], tokens: int, whole: int, rules: list[str]) -> str:
    parts = []
    for share in shares:
        rules.append(f"#{name}-{share.part}{{flex-grow:{share.tokens}}}")
        words = PARTS[share.part]
        width = share.tokens / max(1, whole)
        # On a phone a name needs twice the share.
        fit = "wide" if width >= 2.5 * _WIDE_ENOUGH_FOR_A_NAME else "snug"
        shown = f'<b class="{fit}">{words}</b>' if width >= _WIDE_ENOUGH_FOR_A_NAME else ""
        parts.append(
            f'<div class="part p-{share.part}" id="{name}-{share.part}" '
            f'title="{words}: {share.tokens:,} tokens">{shown}</div>'
        )
    free = max(0, whole - tokens)
    if free:
        rules.append(f"#{name}-free{{flex-grow:{free}}}")
        shown = f"{free:,} freed" if free >= 2 * _WIDE_ENOUGH_FOR_A_NAME * whole else ""
        parts.append(f'<div class="part free" id="{name}-free" title="{free:,} tokens freed">{shown}</div>')
    said = ", ".join(f"{PARTS[share.part]} {share.tokens:,}" for share in shares)
    return (
        f'<div class="name"><span>{name}</span><b>{tokens:,}</b></div>'
        f'<div class="bar-row" role="img" aria-label="{name}: {tokens:,} tokens: {escape(said)}">{"".join(parts)}</div>'
    )


def _key(account: Account) -> str:
    sizes = [{share.part: share.tokens for share in shares} for shares in (account.before, account.after)]
    items = []
    for part, words in PARTS.items():
        before, after = (size.get(part, 0) for size in sizes)
        if before or after:
            change = f"{before:,}" if before == after else f"{before:,} → {after:,}"
            items.append(f'<li><i class="p-{part}"></i>{words} <span class="num">{change}</span></li>')
    return f'<ul class="keys">{"".join(items)}</ul>'


def _by_role(account: Account) -> dict[str, tuple[int, int]]:
    sums: dict[str, tuple[int, int]] = {}
    for cell in account.cells:
        name = _ROLES.get(cell.role, cell.role)
        before, after = sums.get(name, (0, 0))
        sums[name] = before + cell.tokens, after + cell.tokens_after
    if account.handoff_tokens:
        sums["handoff"] = 0, account.handoff_tokens
    return dict(sorted(sums.items(), key=lambda item: -max(item[1])))


def _pair(before: int, after: int, longest: int) -> str:
    widths = [round(100 * tokens / longest, 2) for tokens in (before, after)]
    return (
        '<svg class="pair" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="b" width="{widths[0]}" height="4"/><rect class="a" y="5" width="{widths[1]}" height="4"/></svg>'
    )
