"""Which messages are on the focus topic, and the line of a handoff that names each, so that it can be opened."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from clew.ledger import FocusTopic, quotable_texts, text_with_calls
from clew.messages import Message
from clew.redact import redact_text
from clew.summaries import handoff as parts
from clew.summaries.handoff import SummaryInput, shorten_redacted
from clew.summaries.required_facts import HandoffLine, RequiredFact

_FOCUS_CHARS = 120
_RUN_CHARS = 16
_COMES_UP = re.compile(r"^(.*) comes up in (m\d+.*)$")
_MESSAGES = re.compile(r"m(\d+)(?:-m(\d+))?")


def messages_about(source: SummaryInput, topic: FocusTopic) -> list[int]:
    """The folded and the shortened messages on a topic, in order; those folded before as far as they can be read.

    What a call shows that is about the topic is so too: reading a file shows what is in it.
    """
    first = 0 if source.previous else source.first
    folded = {*range(first, source.last), *source.shortened}
    shown = {action.result for action in source.ledger.actions if topic.is_about(action.target)}
    return sorted(number for number in folded if number in shown or _is_about(source, topic, number))


def _is_about(source: SummaryInput, topic: FocusTopic, number: int) -> bool:
    message: Message = source.read(number)
    # Arguments are compared as written and decoded, since JSON may spell a letter by its number.
    return message["role"] not in ("system", "developer") and topic.is_about(
        "\n".join([text_with_calls(message), *quotable_texts(message)[1:]])
    )


def focus_facts(source: SummaryInput, chars: int) -> Iterator[RequiredFact]:
    """The same line as a fact that a model's handoff must have; none without a topic or where it comes up nowhere."""
    if source.focus and source.focus.strip():
        topic = FocusTopic(source.focus)
        if line := focus_line(source, topic, messages_about(source, topic), chars):
            yield RequiredFact(line.heading, line.text, line.text)


def is_focus_line(line: str) -> bool:
    return bool(_COMES_UP.match(line))


def focus_line(source: SummaryInput, topic: FocusTopic, numbers: Sequence[int], chars: int) -> HandoffLine | None:
    """Every message on the topic by its number, so that each can be opened; where `chars` are few, near ones as one."""
    name = f'"{shorten_redacted(topic.text, _FOCUS_CHARS)}"'
    told = [found for line in source.previous_lines(parts.VALUES) if (found := _COMES_UP.match(line))]
    before = [run for found in told if found[1] == name for run in _MESSAGES.findall(found[2])]
    runs = sorted([(int(first), int(last or first)) for first, last in before] + [(one, one) for one in numbers])
    if not runs:
        return None
    gaps = sorted((after[0] - run[1] for run, after in pairwise(runs)), reverse=True)
    most = max(1, chars // _RUN_CHARS)
    widest = max(1, gaps[most - 1]) if len(gaps) >= most else 1
    joined = [runs[0]]
    for first, last in runs[1:]:
        if first - joined[-1][1] <= widest:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    listed = ", ".join(f"m{first}" if first == last else f"m{first}-m{last}" for first, last in joined)
    return HandoffLine(parts.VALUES, redact_text(f"{name} comes up in {listed}"), -1)
