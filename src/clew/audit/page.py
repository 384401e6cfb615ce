"""The page of an audit: one HTML file that needs nothing but itself, with the style of the compaction report."""

from __future__ import annotations

from pathlib import Path

from clew import __version__
from clew.audit.measure import Audit
from clew.report import page_style, page_templates, style_hash


def closing_line(audit: Audit) -> str:
    """The result in one sentence, with the number of sessions that it is from."""
    sessions, made = len(audit.sessions), len(audit.compactions)
    read = f"{sessions:,} session{'' if sessions == 1 else 's'}"
    compared = audit.comparable
    if not compared:
        none = "no compaction is recorded" if not made else "nothing from before a compaction was used after it"
        return f"clew audit: in {read}, {none}."
    facts = sum(each.facts for each in compared)
    kept = sum(each.program.facts for each in compared)
    ours = sum(each.clew.facts for each in compared if each.clew)
    folds = f"{len(compared):,} compaction{'' if len(compared) == 1 else 's'}"
    return (
        f"clew audit: {folds} in {read}; of {facts:,} facts that the agent used afterwards, the summaries kept "
        f"{kept:,} ({100 * kept / facts:.0f}%); Clew keeps {ours:,} ({100 * ours / facts:.0f}%) at the same size."
    )


def audit_page(audit: Audit) -> str:
    """The whole page, redacted."""
    style = page_style()
    return (
        page_templates("clew.audit")
        .get_template("audit.html")
        .render(
            audit=audit,
            closing=closing_line(audit),
            style=style,
            style_hash=style_hash(style),
            version=__version__,
            file_name=lambda name: Path(name).name,
        )
    )
