"""A handoff as JSON for the page: sections of entries, whose lines are spans; a reference has the number it names."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Any

from clew.handoff import Entry, Handoff, Span, list_style, read_line, references_in


def handoff_view(handoff: Handoff, known: Container[int]) -> dict[str, Any]:
    """The sections of a handoff and the messages it refers to, as far as these are `known`."""
    return {
        "sections": [
            {
                "heading": heading,
                "list": list_style(heading),
                "entries": [
                    {**_plain_line(entry, known), "lines": [_plain_line(line, known) for line in entry.lines]}
                    for entry in entries
                ],
            }
            for heading, entries in handoff.ordered_sections()
        ],
        "references": sorted(number for number in references_in(handoff) if number in known),
    }


def _plain_line(entry: Entry, known: Container[int]) -> dict[str, Any]:
    line = read_line(entry)
    return {
        "verb": line.verb,
        "spans": _plain_spans(line.spans, known),
        "source": _plain_spans(line.source, known),
        "is_quote": line.is_quote,
    }


def _plain_spans(spans: Iterable[Span], known: Container[int]) -> list[dict[str, Any]]:
    return [
        {"text": span.text, "style": span.style}
        | ({"seq": span.number} if span.number is not None and span.number in known else {})
        for span in spans
    ]
