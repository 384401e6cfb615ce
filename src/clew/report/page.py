"""The page of a compaction: one HTML file that needs nothing but itself, from a template and a report.

Jinja2 escapes every value; only the style sheet, the script, the handoff and the rows, which are safe as they are, are
marked so in the template. The page's policy (CSP) allows exactly one script and one style sheet, by their hashes: text
that finds a way past the escaping still cannot run. So widths are rules of the style sheet, not attributes.
"""

from __future__ import annotations

import heapq
import json
from base64 import b64encode
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from clew import __version__
from clew.engines import Fate, Node
from clew.handoff import (
    COMPLETED,
    Entry,
    Handoff,
    ListStyle,
    Span,
    list_style,
    read_line,
    references_in,
)
from clew.messages import Message, ToolCall, arguments_of_call, calls_of, images_of, name_of_call, reasoning_of, text_of
from clew.report.compaction_report import CompactionReport, MessageOutcome, RequestPart
from clew.report.retention import FACT_KINDS, LostString, Retention, measure_retention

if TYPE_CHECKING:
    from decimal import Decimal

    from jinja2 import Environment

PART_NAMES: Final[Mapping[str, str]] = {
    "system": "system prompt",
    "tools": "tools",
    "head": "head",
    "handoff": "handoff",
    "map": "map",
    "folded": "folded messages",
    "kept": "kept between",
    "tail": "tail",
    "removed": "removed messages",
}
FATE_NAMES: Final[Mapping[Fate, str]] = {
    Fate.KEPT: "kept",
    Fate.PRUNED: "shortened",
    Fate.SUMMARISED: "folded into the handoff",
    Fate.REMOVED: "removed",
}
ROLE_NAMES: Final[Mapping[str, str]] = {"system": "system prompt", "developer": "system prompt", "tool": "tool results"}
MAX_TEXT_CHARS: Final = 1_200_000
"""For all messages together, so that a page of 20,000 messages stays small."""
MAX_MESSAGE_CHARS: Final = 6_000
MIN_MESSAGE_CHARS: Final = 48
_SHARE_OF_PREFERRED: Final = 0.5
_MAX_LARGEST: Final = 15
_OPENING_CHARS: Final = 140
_MAX_STRING_GROUPS: Final = 25
_MAX_STRINGS_OF_A_GROUP: Final = 14
_MAX_STRING_CHARS: Final = 120
_MAX_UNVERIFIED: Final = 12
_MAX_LETTERED_CELLS: Final = 700
"""With more messages, page.js draws the cells too small for a letter."""
_WIDE_ENOUGH_FOR_A_NAME: Final = 0.08
# A browser that meets these inside a script element may end it early.
_UNSAFE_IN_SCRIPT: Final = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}
_LONG_LINE_CHARS: Final = 420
_SHOWN_OF_LONG_CHARS: Final = 300
_UNVERIFIED_HTML: Final = '<mark title="the messages do not show this">unverified</mark>'
_LIST_TAGS: Final[dict[ListStyle, str]] = {"numbers": "ol", "bullets": "ul", "plain": "div"}
MAX_MAP_CHARS: Final = 600_000
"""For all nodes together, so that the map of 20,000 messages stays small."""
MIN_NODE_CHARS: Final = 400
_ABOUT_CHARS: Final = 160


def report_page(report: CompactionReport, *, is_redacted: bool = True) -> str:
    """The whole page; where the report is not redacted, it says so."""
    bars = [
        _bar("before", report.parts_before, report.result.tokens_before, report.result.tokens_before),
        _bar("after", report.parts_after, report.result.tokens_after, report.result.tokens_before),
    ]
    widths = "".join(
        f"#{bar['name']}-{part['name']}{{flex-grow:{part['tokens']}}}" for bar in bars for part in bar["parts"]
    )
    drawn = map_section(report)
    widths += drawn.style if drawn else ""
    summary_name = "map" if drawn else "handoff"
    style, script = _template_text("page.css") + widths, _template_text("page.js")
    texts = _texts(report)
    template = page_templates("clew.report").get_template("page.html")
    return template.render(
        report=report,
        result=report.result,
        version=__version__,
        is_redacted=is_redacted,
        style=style,
        style_hash=style_hash(style),
        script=script,
        script_hash=style_hash(script),
        bars=bars,
        keys=_bar_keys(report),
        roles=_by_role(report),
        legend=_legend(report.outcomes, summary_name),
        summary_name=summary_name,
        map=drawn,
        max_unverified=_MAX_UNVERIFIED,
        max_lettered_cells=_MAX_LETTERED_CELLS,
        cut_messages=sum(original.left_out > 0 for original, _ in texts),
        handoff="" if drawn else _handoff(report),
        largest=heapq.nlargest(_MAX_LARGEST, report.folded, key=lambda outcome: outcome.tokens),
        **_retention(measure_retention(report)),
        rows=_rows(report.outcomes, texts, summary_name),
    )


@cache
def page_templates(package: str) -> Environment:
    """The templates of a package, with the filters that pages share."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["thousands"] = lambda number: f"{number:,}"
    templates.filters["opening"] = _opening
    templates.filters["dollars"] = _dollars
    return templates


def _dollars(amount: float | Decimal | None) -> str:
    if amount is None:
        return "no price"
    return f"${amount:,.2f}" if not amount or amount >= 1 else f"${amount:.4f}"


def _opening(outcome: MessageOutcome) -> str:
    return " ".join(shown_text(outcome.message)[: 4 * _OPENING_CHARS].split())[:_OPENING_CHARS]


def page_style() -> str:
    """The style sheet that pages share."""
    return _template_text("page.css")


def _template_text(name: str) -> str:
    """A style sheet or script as it is: it is no template, and its hash is that of its every character."""
    return (files(__package__) / "templates" / name).read_text(encoding="utf-8")


def style_hash(text: str) -> str:
    """The hash by which a page's policy allows a style sheet or a script."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _bar(name: str, parts: Sequence[RequestPart], tokens: int, whole: int) -> dict[str, Any]:
    enough = _WIDE_ENOUGH_FOR_A_NAME * max(1, whole)

    def drawn(name: str, label: str, tokens: int, least: float, fit: str) -> dict[str, Any]:
        return {"name": name, "label": label, "tokens": tokens, "is_named": tokens >= least, "fit": fit}

    bars = []
    for part in parts:
        # On a phone a name needs more than twice the share.
        fit = "wide" if part.tokens >= 2.5 * enough else "snug"
        bars.append(drawn(part.name, PART_NAMES[part.name], part.tokens, enough, fit))
    if free := max(0, whole - tokens):
        bars.append(drawn("free", "", free, 2 * enough, ""))
    return {"name": name, "tokens": tokens, "parts": bars}


def _bar_keys(report: CompactionReport) -> list[tuple[str, str, int, int]]:
    """Name, label and sizes before and after, of each part that there is."""
    before, after = ({part.name: part.tokens for part in parts} for parts in (report.parts_before, report.parts_after))
    return [
        (name, label, before.get(name, 0), after.get(name, 0))
        for name, label in PART_NAMES.items()
        if name in before or name in after
    ]


def _by_role(report: CompactionReport) -> list[dict[str, Any]]:
    """The size of each role, before and after, the largest first; with the widths of its bars in percent."""
    sums: dict[str, tuple[int, int]] = {}
    for outcome in report.outcomes:
        name = ROLE_NAMES.get(outcome.role, outcome.role)
        before, after = sums.get(name, (0, 0))
        sums[name] = before + outcome.tokens, after + outcome.tokens_after
    if report.handoff_tokens:
        sums["map" if report.has_map else "handoff"] = 0, report.handoff_tokens
    longest = max((max(pair) for pair in sums.values()), default=1) or 1
    return [
        {"name": name, "sizes": pair, "widths": [round(100 * tokens / longest, 2) for tokens in pair]}
        for name, pair in sorted(sums.items(), key=lambda item: -max(item[1]))
    ]


def _legend(outcomes: Sequence[MessageOutcome], summary_name: str) -> list[tuple[Fate, str, int, int]]:
    """Each fate that occurs, with its name, its messages and their tokens."""
    counts, tokens = Counter[Fate](), Counter[Fate]()
    for outcome in outcomes:
        counts[outcome.fate] += 1
        tokens[outcome.fate] += outcome.tokens
    names = {**FATE_NAMES, Fate.SUMMARISED: f"folded into the {summary_name}"}
    return [(fate, name, counts[fate], tokens[fate]) for fate, name in names.items() if counts[fate]]


def _handoff(report: CompactionReport) -> str:
    """HTML, escaped."""
    known = {outcome.number for outcome in report.outcomes if outcome.number is not None}
    return handoff_html(report.result.handoff or Handoff(), known)


def _retention(retention: Retention) -> dict[str, Any]:
    facts = []
    for kind, title in FACT_KINDS.items():
        of_kind = [fact for fact in retention.facts if fact.kind == kind]
        if of_kind:
            ordered = sorted(of_kind, key=lambda fact: (fact.is_retained, fact.number))
            facts.append((title, sum(fact.is_retained for fact in of_kind), ordered))
    by_message: dict[int, list[LostString]] = {}
    for string in retention.lost:
        by_message.setdefault(string.number, []).append(string)
    groups = [
        (number, [each.text[:_MAX_STRING_CHARS] for each in lost[:_MAX_STRINGS_OF_A_GROUP]], len(lost))
        for number, lost in list(by_message.items())[:_MAX_STRING_GROUPS]
    ]
    hidden = max(0, len(by_message) - _MAX_STRING_GROUPS)
    return {"facts": facts, "retention": retention, "lost_strings": groups, "hidden_string_groups": hidden}


@dataclass(frozen=True, slots=True)
class ClippedText:
    """The start of a text, and how many chars of it are left out."""

    text: str
    left_out: int


def _shown_arguments(call: ToolCall) -> str:
    function: Any = call.get("function")
    written = function.get("arguments", "") if isinstance(function, Mapping) else arguments_of_call(call)
    return str(written or "")


def shown_text(message: Message) -> str:
    """A message as a person reads it: what it says, then its calls, then what cannot be shown."""
    texts = [text_of(message)] if text_of(message) else []
    calls = [f"→ {name_of_call(call)} {_shown_arguments(call)}" for call in calls_of(message)]
    beside = []
    if reasoning := reasoning_of(message):
        beside.append(f"[{len(reasoning)} blocks of reasoning, not shown]")
    if images := images_of(message):
        beside.append(f"[{len(images)} pictures, not shown]")
    return "\n".join((*texts, *calls, *beside))


def _texts(report: CompactionReport) -> list[tuple[ClippedText, ClippedText | None]]:
    """The original text of each message and, for a shortened one, its new text.

    Messages that the handoff names or that were kept get most of the room: readers open these first.
    """
    named = references_in(report.result.handoff or Handoff())
    originals = [shown_text(outcome.message) for outcome in report.outcomes]
    preferred = [outcome.number in named or outcome.fate is not Fate.SUMMARISED for outcome in report.outcomes]
    shortened = [each.message_after for each in report.outcomes if each.fate is Fate.PRUNED and each.message_after]
    everything = excerpts([*originals, *map(shown_text, shortened)], [*preferred, *(True for _ in shortened)])
    now = iter(everything[len(originals) :])
    return [
        (original, next(now) if outcome.fate is Fate.PRUNED and outcome.message_after else None)
        for outcome, original in zip(report.outcomes, everything, strict=False)
    ]


def excerpts(texts: Sequence[str], preferred: Sequence[bool]) -> list[ClippedText]:
    """The start of each text, in all at most `MAX_TEXT_CHARS`; those that are not preferred are cut shorter."""
    lengths = [min(len(text), MAX_MESSAGE_CHARS) for text in texts]
    most = least = MAX_MESSAGE_CHARS
    if sum(lengths) > MAX_TEXT_CHARS:
        first = [length for length, is_preferred in zip(lengths, preferred, strict=True) if is_preferred]
        rest = [length for length, is_preferred in zip(lengths, preferred, strict=True) if not is_preferred]
        most = _common_limit(first, int(MAX_TEXT_CHARS * _SHARE_OF_PREFERRED))
        least = _common_limit(rest, MAX_TEXT_CHARS - sum(min(length, most) for length in first))
    return [_clipped(text, most if is_first else least) for text, is_first in zip(texts, preferred, strict=True)]


def _clipped(text: str, most: int) -> ClippedText:
    return ClippedText(text[:most], max(0, len(text) - most))


def _common_limit(lengths: Sequence[int], room: int) -> int:
    """The length to which all are cut so that together they take at most `room`."""
    left = room
    ordered = sorted(lengths)
    for index, length in enumerate(ordered):
        share = left // (len(ordered) - index)
        if length > share:
            return max(MIN_MESSAGE_CHARS, share)
        left -= length
    return MAX_MESSAGE_CHARS


def _rows(
    outcomes: Sequence[MessageOutcome], texts: Sequence[tuple[ClippedText, ClippedText | None]], summary_name: str
) -> str:
    """The messages for the script, as JSON that cannot end its element."""
    roles = _numbered([outcome.role for outcome in outcomes])
    tools = _numbered([outcome.tool for outcome in outcomes])
    fates = _numbered([str(outcome.fate) for outcome in outcomes])
    rows = []
    for outcome, (original, now) in zip(outcomes, texts, strict=True):
        row: list[Any] = [outcome.number, roles[outcome.role], tools[outcome.tool]]
        row += [outcome.tokens, outcome.tokens_after, fates[str(outcome.fate)], original.text, original.left_out]
        rows.append(row if now is None else [*row, now.text, now.left_out])
    table = {
        "roles": list(roles),
        "tools": list(tools),
        "fates": list(fates),
        "summary_name": summary_name,
        "rows": rows,
    }
    return json.dumps(table, ensure_ascii=False, separators=(",", ":")).translate(_UNSAFE_IN_SCRIPT)


def _numbered(words: Sequence[str]) -> dict[str, int]:
    return {word: index for index, word in enumerate(dict.fromkeys(words))}


def handoff_html(handoff: Handoff, known: Container[int]) -> str:
    """The sections of a handoff; a reference is a link where its number is `known`, a message of the conversation."""
    return "\n".join(_handoff_section(heading, entries, known) for heading, entries in handoff.ordered_sections())


def _handoff_section(heading: str, entries: Sequence[Entry], known: Container[int]) -> str:
    title = f"<h3>{escape(heading, quote=False)}</h3>\n" if heading else ""
    style = list_style(heading)
    tag, item = _LIST_TAGS[style], "div" if style == "plain" else "li"
    listed = "\n".join(f"<{item}>{''.join(_entry_lines(entry, known))}</{item}>" for entry in entries)
    return f"{title}<{tag}>\n{listed}\n</{tag}>"


def _entry_lines(entry: Entry, known: Container[int]) -> Iterator[str]:
    yield _line(entry, "line", known)
    for line in entry.lines:
        yield _line(line, "line sub", known)


def _line(entry: Entry, classes: str, known: Container[int]) -> str:
    """A line with its verb and its source; of a very long one the beginning, and the rest to open."""
    line = read_line(entry)
    classes = f"{classes} quote" if line.is_quote else classes
    verb = f'<span class="verb">{line.verb}</span> ' if line.verb else ""
    source = f' <span class="source">{_spans(line.source, known)}</span>' if line.source else ""
    shown, rest = _split_long(line.spans)
    if not rest:
        return f'<div class="{classes}">{verb}{_spans(shown, known)}{source}</div>'
    left_out = sum(len(span.text) for span in rest)
    more = f'<span class="more">… {left_out:,} more chars</span>'
    summary = f"<summary>{verb}{_spans(shown, known)} {more}{source}</summary>"
    return f'<details class="{classes}">{summary}{_spans(rest, known)}</details>'


def _split_long(spans: Sequence[Span]) -> tuple[list[Span], list[Span]]:
    """The beginning of a line that is too long to be shown whole, cut at a word, and the rest; else the whole line."""
    if sum(len(span.text) for span in spans) <= _LONG_LINE_CHARS:
        return list(spans), []
    left = _SHOWN_OF_LONG_CHARS
    for at, span in enumerate(spans):
        if len(span.text) > left:
            # Only plain text is cut; code and references stay whole.
            cut = span.text.rfind(" ", 0, left) if span.style == "text" and span.number is None else -1
            cut = left if cut < 0 and not at else max(cut, 0)
            first, second = Span(span.text[:cut], span.style), Span(span.text[cut:], span.style)
            return [*spans[:at], *([first] if cut else [])], [second if cut else span, *spans[at + 1 :]]
        left -= len(span.text)
    return list(spans), []


def _spans(spans: Iterable[Span], known: Container[int]) -> str:
    return "".join(_span(span, known) for span in spans)


def _span(span: Span, known: Container[int]) -> str:
    text = escape(span.text, quote=False)
    match span.style:
        case "code":
            return f"<code>{text}</code>"
        case "strong":
            return f"<strong>{text}</strong>"
        case "unverified":
            return _UNVERIFIED_HTML
        case _:
            is_link = span.number is not None and span.number in known
            return f'<a class="ref" href="#m{span.number}">{text}</a>' if is_link else text


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A node as the page shows it."""

    number: int
    node: Node
    is_shown: bool
    """Whether it is in the request; otherwise another one replaces it."""
    about: str
    """Its first line."""
    html: str
    left_out: int
    children: tuple[DrawnNode, ...]


@dataclass(frozen=True, slots=True)
class DepthCell:
    """A place in the row of a depth: a node, or messages that no node of this depth covers."""

    name: str
    messages: int
    drawn: DrawnNode | None


@dataclass(frozen=True, slots=True)
class MapSection:
    """The map of a report, drawn."""

    parts: tuple[DrawnNode, ...]
    """Those that are in the request, oldest first."""
    depths: tuple[tuple[int, tuple[DepthCell, ...]], ...]
    """The rows, the deepest first."""

    @property
    def count(self) -> int:
        return sum(1 for _ in _walk(self.parts))

    @property
    def tokens(self) -> int:
        return sum(drawn.node.tokens for drawn in self.parts)

    @property
    def covered_tokens(self) -> int:
        return sum(drawn.node.covered_tokens for drawn in self.parts)

    @property
    def writers(self) -> str:
        return ", ".join(dict.fromkeys(drawn.node.written_by for drawn in _walk(self.parts)))

    @property
    def provisional(self) -> int:
        return sum(not drawn.node.is_final for drawn in _walk(self.parts))

    @property
    def style(self) -> str:
        """The widths, as rules: the policy of the page allows no styles of elements."""
        cells = (cell for _, row in self.depths for cell in row)
        return "".join(f"#{cell.name}{{flex-grow:{cell.messages}}}" for cell in cells)


def map_section(report: CompactionReport) -> MapSection | None:
    """The map of a report; None where there is none."""
    if not report.has_map:
        return None
    known = {outcome.number for outcome in report.outcomes if outcome.number is not None}
    parts = tuple(_Drawing(report.nodes, known).draw(report.shown_nodes, is_shown=True))
    return MapSection(parts, tuple(_depths(parts)))


class _Drawing:
    """Draws nodes with those below them, each with its own number."""

    def __init__(self, nodes: Mapping[str, Node], known: Container[int]) -> None:
        self._nodes = nodes
        self._known = known
        self._drawn = 0
        is_small = sum(len(node.text) for node in nodes.values()) <= MAX_MAP_CHARS
        self._most = MAX_MAP_CHARS if is_small else max(MIN_NODE_CHARS, MAX_MAP_CHARS // len(nodes))

    def draw(self, nodes: Sequence[Node], *, is_shown: bool) -> Iterator[DrawnNode]:
        for node in nodes:
            number, self._drawn = self._drawn, self._drawn + 1
            text = node.text[: self._most]
            below = [self._nodes[id] for id in node.children if id in self._nodes]
            yield DrawnNode(
                number,
                node,
                is_shown,
                _about(handoff := Handoff.of_text(text)),
                handoff_html(handoff, self._known),
                len(node.text) - len(text),
                tuple(self.draw(below, is_shown=False)),
            )


def _about(handoff: Handoff) -> str:
    # Requests differ from node to node more than rules do.
    first = next(iter((*handoff.entries(COMPLETED), *handoff.all_entries())), None)
    return "" if first is None else first.render()[:_ABOUT_CHARS]


def _walk(parts: Sequence[DrawnNode]) -> Iterator[DrawnNode]:
    for drawn in parts:
        yield drawn
        yield from _walk(drawn.children)


def _depths(parts: Sequence[DrawnNode]) -> Iterator[tuple[int, tuple[DepthCell, ...]]]:
    first, last = parts[0].node.first, parts[-1].node.last
    every = list(_walk(parts))
    for depth in sorted({drawn.node.depth for drawn in every}, reverse=True):
        row: list[DepthCell] = []
        reached = first
        for drawn in sorted((each for each in every if each.node.depth == depth), key=lambda each: each.node.first):
            if drawn.node.first > reached:
                row.append(DepthCell(f"gap-{depth}-{reached}", drawn.node.first - reached, None))
            row.append(DepthCell(f"at-{drawn.number}", drawn.node.last - drawn.node.first, drawn))
            reached = drawn.node.last
        if reached < last:
            row.append(DepthCell(f"gap-{depth}-{reached}", last - reached, None))
        yield depth, tuple(row)
