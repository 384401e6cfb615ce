"""The prompt to a model that summarises, and the reading of its reply.

Prompts are template files with a version, filled in one pass, so that nothing in a conversation is read as a template.
A reply is cleaned of what models put around a handoff, and refused with a reason where it is none.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from clew.errors import SummaryFailed
from clew.facts import shorten
from clew.handoff.chunks import PromptEntry, neutralized
from clew.handoff.complete import UNVERIFIED_MARK
from clew.handoff.summary import SummaryInput
from clew.handoff.value import HEADINGS, VALUES, Handoff
from clew.messages import Message, text_of
from clew.redact import redact_text

FIRST = "first/3"
UPDATE = "update/3"
EXTEND = "extend/2"
_RULES = "rules/1"
_HEADINGS = "headings/3"

_PLACEHOLDER = re.compile(r"\{([a-z]+)\}")
_FOCUS = (
    "- The user asked to keep this above all: {focus}. Give it 60 to 70% of the length, in full detail; cut all else "
    "harder.\n"
)
_FOCUS_CHARS = 300
_MORE_FOLLOWS = " This is one part of a longer record; more follows later."
_CONTINUED = " It goes on where the handoff ends."
_STAYS = (
    " Only the newest messages stay in view, from the one that begins {quote} on: write of these what the active task "
    "needs, and no more."
)
_UPDATE = (
    "- The conversation begins with an earlier handoff. Keep everything of it that still holds, its message numbers "
    "and exact values included; leave out only what is clearly obsolete. Keep the mark {mark} where it is.\n"
)
_STAYS_CHARS = 80
_LISTED_CHARS = 160
_MOST_LISTED, _MOST_LISTED_BRIEFLY = 120, 6
# Of six handoffs by a strong model, 0.44 to 0.49. Asked for tokens alone, models write a third of them.
_WORDS_PER_TOKEN = 0.47


@dataclass(frozen=True, slots=True)
class PromptContents:
    """What a prompt says in addition to its template."""

    budget: int
    entries: Sequence[PromptEntry]
    previous: str = ""
    newest_request: str = ""
    """Given where no entry has it."""
    focus: str | None = None
    is_last: bool = True
    is_brief: bool = False
    """Headings alone, without what belongs under each: for windows that have little room."""


def template_for(contents: PromptContents) -> str:
    return UPDATE if contents.previous else FIRST


def write_prompt(contents: PromptContents) -> str:
    """The text that goes to the model."""
    previous, request = neutralized(contents.previous), neutralized(contents.newest_request)
    entries = contents.entries
    delimiter = unique_delimiter(
        [*(entry.text for entry in entries), *(entry.header for entry in entries), previous, request]
    )
    record = [f"{delimiter} {entry.header}\n{entry.text}" for entry in entries]
    if request:
        record.append(f"{delimiter} user, later on: the newest request, not dealt with yet\n{request}")
    focus = shorten(neutralized(contents.focus), _FOCUS_CHARS) if contents.focus else ""
    return fill_template(
        template_text(template_for(contents)),
        _common_values(contents.budget, focus, is_brief=contents.is_brief)
        | {
            "delimiter": delimiter,
            "mark": UNVERIFIED_MARK,
            "part": (_CONTINUED if contents.previous else "") + ("" if contents.is_last else _MORE_FOLLOWS),
            "previous": previous,
            "record": "\n".join(record),
        },
    )


def write_instruction(source: SummaryInput, budget: int, *, is_brief: bool = False) -> str:
    """The instruction at the end of a model's own conversation, to get a handoff of at most `budget` tokens.

    `is_brief`: the headings alone, and the newest requests only, for windows that have little room left.
    """
    has_tail = source.last < source.record.next_number
    stays = _quoted_start(text_of(source.read(source.last)), _STAYS_CHARS) if has_tail else ""
    focus = shorten(redact_text(source.focus), _FOCUS_CHARS) if source.focus else ""
    requests = _listed_requests(source, _MOST_LISTED_BRIEFLY if is_brief else _MOST_LISTED)
    return fill_template(
        template_text(EXTEND),
        _common_values(budget, focus, is_brief=is_brief)
        | {
            "kept": fill_template(_STAYS, {"quote": stays}) if stays else "",
            "previous": fill_template(_UPDATE, {"mark": UNVERIFIED_MARK}) if source.previous else "",
            "requests": "\n".join(requests) or "None.",
        },
    )


def _common_values(budget: int, focus: str, *, is_brief: bool = False) -> dict[str, str]:
    headings = template_text(_HEADINGS).strip()
    if is_brief:
        headings = "\n".join(line for line in headings.splitlines() if line.startswith("## "))
    size = {"budget": str(budget), "words": str(int(budget * _WORDS_PER_TOKEN))}
    return {
        **size,
        "rules": fill_template(template_text(_RULES), size),
        "focus": fill_template(_FOCUS, {"focus": focus}) if focus else "",
        "headings": headings,
    }


def is_instruction(message: Message) -> bool:
    """Whether a message is what `write_instruction` wrote."""
    return message["role"] == "user" and text_of(message).startswith(template_text(EXTEND).partition("]")[0])


def _listed_requests(source: SummaryInput, most: int) -> list[str]:
    """`m0 "Port the uploader to asyncio." (closing words: m15)`"""
    asked = [one for one in source.record.exchanges if one.request and one.number < source.last]
    lines = []
    for one in asked[-most:]:
        closing = f" (closing words: m{one.closing})" if one.closing is not None else ""
        lines.append(f"m{one.number} {_quoted_start(one.request, _LISTED_CHARS)}{closing}")
    return lines


def _quoted_start(text: str, most: int) -> str:
    # Redacted before it is cut: part of a secret would not be recognised as one.
    start = shorten(neutralized(redact_text(text[: 4 * most])), most)
    return f'"{start}"' if start else ""


def fill_template(template: str, values: Mapping[str, str]) -> str:
    """The template with its placeholders filled in one pass, so that braces inside a value stay as they are."""
    return _PLACEHOLDER.sub(lambda found: values[found[1]], template)


@cache
def template_text(name: str) -> str:
    """The text of a template; `first/2` is the file `first-2.md`."""
    file = resources.files("clew.handoff") / "templates" / f"{name.replace('/', '-')}.md"
    return file.read_text(encoding="utf-8")


def unique_delimiter(texts: Sequence[str]) -> str:
    """A short string that occurs in none of the texts, and is the same each time for the same texts.

    It is a hash of the texts, so that no text can contain it on purpose: writing it into one would change it.
    """
    digest = hashlib.blake2b("\0".join(texts).encode("utf-8", "replace"), digest_size=32)
    while True:
        delimiter = f"@@{digest.hexdigest()[:6]}"
        if not any(delimiter in text for text in texts):
            return delimiter
        digest.update(b"again")


_THINKING = re.compile(r"\A\s*<(think|thinking|thought|reasoning|analysis)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_OPEN_THINKING = re.compile(r"\A\s*<(?:think|thinking|thought|reasoning|analysis)>", re.IGNORECASE)
# Some chat templates open the thinking in the prompt, so that only its end is in the reply.
_END_OF_THINKING = re.compile(r"\A.*?</(?:think|thinking)>", re.DOTALL | re.IGNORECASE)
_CODE_FENCE = re.compile(r"\A\s*```[\w-]*\n(.*?)\n```\s*\Z", re.DOTALL)
_AROUND_HEADING = re.compile(r"^[\s#*_>]*(?:\d+[.)]\s*)?[*_]*|[\s*_:：]+$")
# A delimiter of the prompt that a model copied.
_DELIMITER_LINE = re.compile(r"\s*@@[0-9a-f]{6}\b")
_NAMES = {heading.lower(): heading for heading in HEADINGS}
_FEWEST_HEADINGS = 3
_ENDS_WELL = tuple(".!?:;)]}\"'`>*|。！？；）】」』”’…")
# A summary of real work compresses to between a half and a fifth; what compresses to less repeats itself.
_FEWEST_CHARS_JUDGED = 2_000
_MOST_COMPRESSION = 12
_MANY_LINES = 24
_FEWEST_DISTINCT = 0.4


@dataclass(frozen=True, slots=True)
class DraftHandoff:
    """The text of a handoff as a model wrote it, and whether it was cut off."""

    text: str
    is_truncated: bool


def read_draft(reply: str, *, is_truncated: bool = False) -> DraftHandoff:
    """The handoff in a model's reply; raises `SummaryFailed` with what the reply is instead.

    `is_truncated` says that the provider reported the reply as cut off; otherwise that is judged by its end.
    """
    text = without_thinking(reply)
    if not text.strip():
        raise _empty(reply)
    text = neutralized(redact_text(_without_code_fence(text)))
    if _repeats_itself(text):
        raise SummaryFailed(f"{len(text):,} chars that say one thing again and again", kind="repetition")
    lines, headings = _with_plain_headings(text.splitlines())
    if len(headings) < _FEWEST_HEADINGS:
        raise SummaryFailed(_lacking(text, headings), kind="garbage")
    stops_early = is_truncated or (VALUES not in headings and not _ends_well(lines))
    if is_truncated and not _ends_well(lines):
        lines = lines[:-1]  # half a path is worse than none
    text = "\n".join(lines)
    if not any(Handoff.of_text(text).sections.values()):
        raise SummaryFailed("its headings are there, with nothing under them", kind="empty")
    return DraftHandoff(text, stops_early)


def _lacking(text: str, headings: set[str]) -> str:
    """What a reply lacks, for people and for the model that is asked again."""
    if not headings:
        return f"it begins {text.strip()[:60]!r} and has none of the headings, such as '## {HEADINGS[0]}'"
    found = ", ".join(heading for heading in HEADINGS if heading in headings)
    missing = ", ".join(heading for heading in HEADINGS if heading not in headings)
    return f"of the headings it has only {found}, at least {_FEWEST_HEADINGS} are needed; missing are {missing}"


def without_thinking(text: str) -> str:
    """The reply without the thinking at its start; empty where the thinking has no end."""
    while found := _THINKING.match(text):
        text = text[found.end() :]
    if _OPEN_THINKING.match(text):
        return ""
    head, _, _ = text.partition("\n## ")
    return _END_OF_THINKING.sub("", text, count=1) if "</think" in head.lower() else text


def _empty(reply: str) -> SummaryFailed:
    if reply.strip():
        return SummaryFailed(f"{len(reply):,} chars of thoughts", kind="thoughts_only")
    return SummaryFailed("an empty reply", kind="empty")


def _without_code_fence(text: str) -> str:
    found = _CODE_FENCE.match(text)
    return found[1] if found else text


def _with_plain_headings(lines: list[str]) -> tuple[list[str], set[str]]:
    """The lines from the first known heading on, with headings as Clew writes them, and which headings there are."""
    kept: list[str] = []
    headings: set[str] = set()
    for line in lines:
        heading = _heading_in(line)
        if heading:
            headings.add(heading)
            kept.append(f"## {heading}")
        elif headings and not _DELIMITER_LINE.match(line):
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
    return len(text) >= _FEWEST_CHARS_JUDGED and len(raw) > _MOST_COMPRESSION * len(zlib.compress(raw, 1))
