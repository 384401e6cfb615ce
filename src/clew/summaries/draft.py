"""Reads what a model wrote: a handoff, or why it is none.

Takes off what models put around a text (thoughts, code fences, greetings) and refuses what is no handoff. Knows text
only; whether a handoff is true is for the ledger to say.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

from clew.errors import SummaryFailed
from clew.redact import redact_text
from clew.summaries.fence import quotable
from clew.summaries.handoff import HEADINGS, VALUES, Handoff, parse_handoff

_THOUGHT = re.compile(r"\A\s*<(think|thinking|thought|reasoning|analysis)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_OPEN_THOUGHT = re.compile(r"\A\s*<(?:think|thinking|thought|reasoning|analysis)>", re.IGNORECASE)
# Some chat templates open the thought in the prompt, so that only its end is in the reply.
_END_OF_THOUGHT = re.compile(r"\A.*?</(?:think|thinking)>", re.DOTALL | re.IGNORECASE)
_CODE_FENCE = re.compile(r"\A\s*```[\w-]*\n(.*?)\n```\s*\Z", re.DOTALL)
_AROUND_HEADING = re.compile(r"^[\s#*_>]*(?:\d+[.)]\s*)?[*_]*|[\s*_:：]+$")
# Lines of the prompt that a model copied, and code fences inside a handoff, which would stand there as facts.
_OURS = re.compile(r"\s*(?:@@[0-9a-f]{6}\b|```\w*\s*$)")
_NAMES = {heading.lower(): heading for heading in HEADINGS}
_FEWEST_HEADINGS = 3
_ENDS_WELL = tuple(".!?:;)]}\"'`>*|。！？；）】」』”’…")
# A summary of real work shrinks to between a half and a fifth; what shrinks to less says the same thing again.
_SAYS_MUCH_CHARS = 2_000
_MOST_SHRINKING = 12
_MANY_LINES = 24
_FEWEST_DISTINCT = 0.4


@dataclass(frozen=True, slots=True)
class Draft:
    """A handoff as a model wrote it, and whether it stopped in the middle."""

    handoff: Handoff
    is_cut: bool


def read_draft(text: str, *, is_cut: bool = False) -> Draft:
    """The handoff in a model's reply; raises `SummaryFailed` with what the reply is instead.

    `is_cut`: whoever gave the reply said that it was cut off.
    """
    said = without_thoughts(text)
    if not said.strip():
        raise _nothing(text)
    said = quotable(redact_text(_without_code_fence(said)))
    if _repeats_itself(said):
        raise SummaryFailed(f"{len(said):,} chars that say one thing again and again", kind="repetition")
    lines, headings = _with_plain_headings(said.splitlines())
    if len(headings) < _FEWEST_HEADINGS:
        raise SummaryFailed(f"it begins {said.strip()[:60]!r} and has no headings of a handoff", kind="garbage")
    cut_here = is_cut or (VALUES not in headings and not _ends_well(lines))
    if is_cut and not _ends_well(lines):
        lines = lines[:-1]  # half a path is worse than none
    handoff = parse_handoff("\n".join(lines))
    if not any(handoff.sections.values()):
        raise SummaryFailed("its headings are there, with nothing under them", kind="empty")
    return Draft(handoff, cut_here)


def without_thoughts(text: str) -> str:
    """The reply without the thinking aloud at its start."""
    while found := _THOUGHT.match(text):
        text = text[found.end() :]
    if _OPEN_THOUGHT.match(text):
        return ""
    head, _, _ = text.partition("\n## ")
    return _END_OF_THOUGHT.sub("", text, count=1) if "</think" in head.lower() else text


def _nothing(text: str) -> SummaryFailed:
    if text.strip():
        return SummaryFailed(f"{len(text):,} chars of thoughts", kind="thoughts_only")
    return SummaryFailed("an empty reply", kind="empty")


def _without_code_fence(text: str) -> str:
    found = _CODE_FENCE.match(text)
    return found[1] if found else text


def _with_plain_headings(lines: list[str]) -> tuple[list[str], set[str]]:
    """The lines from the first known heading on, each heading spelled as ours, and the headings that are there."""
    kept: list[str] = []
    headings: set[str] = set()
    for line in lines:
        heading = _heading_in(line)
        if heading:
            headings.add(heading)
            kept.append(f"## {heading}")
        elif headings and not _OURS.match(line):
            kept.append(line)
    return kept, headings


def _heading_in(line: str) -> str | None:
    if len(line) > 60 or line.lstrip().startswith(("- ", "* ")):
        return None
    return _NAMES.get(_AROUND_HEADING.sub("", line).lower())


def _ends_well(lines: list[str]) -> bool:
    last = next((line.rstrip() for line in reversed(lines) if line.strip()), "")
    return last.endswith(_ENDS_WELL) or last.startswith("## ")


def _repeats_itself(text: str) -> bool:
    lines = [line.strip() for line in text.splitlines() if len(line.strip()) > 12]
    if len(lines) >= _MANY_LINES and len(set(lines)) < _FEWEST_DISTINCT * len(lines):
        return True
    raw = text.encode("utf-8", "replace")
    return len(text) >= _SAYS_MUCH_CHARS and len(raw) > _MOST_SHRINKING * len(zlib.compress(raw, 1))
