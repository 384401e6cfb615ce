"""Pruning without a model: long tool results become one line, long arguments are shortened, pictures left out.

Where the original stays in a store, what takes its place says under which number it can be opened: its reference, which
is None elsewhere. A message that needs no pruning comes back as the same object.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from clew.engines.compressor.history import newest_visible
from clew.facts import Verb, read_call, read_outcome, shorten, verb_of
from clew.handoff import SHORTENED, excerpt
from clew.messages import (
    Message,
    ToolCall,
    arguments_of_call,
    calls_of,
    name_of_call,
    safe_cut_at_or_before,
    text_of,
    without_images,
)

CountMessage = Callable[[Message], int]
LONGEST_RESULT_CHARS = 200
_FEWEST_TOKENS_OF_ENDS = 200
"""With less room, the one line that a result is pruned to is more useful than its beginning and its end."""
_LONGEST_ARGUMENT_CHARS = 500
_ARGUMENT_LIMITS = ((500, 200), (160, 80), (60, 30))
"""Strings longer than the first number are cut to the second; the next pair serves where that is not enough."""
_LONGEST_ARGUMENTS_CHARS = 2_000
_GAP_CHARS = 60
_LEAST_OF_TEXT_CHARS = 140
_NEAR_SHARE = 4
_SHARE_OF_ENDS = 0.5
"""Of the room of a result that is cut, for its beginning and its end; the rest is for lines of its middle."""
_TRIES_TO_CUT = 4
_SOUGHT_IN_MESSAGES = 6
_FEWEST_LINES_AGAIN, _SHARE_SHOWN_AGAIN = 8, 0.8
_DIFFERENCE_CHARS = 800
_LINE_NUMBER = re.compile(r"^\s*\d+(?:→|\t|[:|-] ?)")
_TARGET_CHARS = 120
_ERROR_CHARS = 160
_VERB_PHRASES: Mapping[Verb, str] = {
    "READ": "read", "WROTE": "wrote", "CHANGED": "changed", "RAN": "ran", "SEARCHED": "searched for",
    "LISTED": "listed", "FETCHED": "fetched", "PLANNED": "updated the plan", "DELEGATED": "delegated",
    "ASKED": "asked", "LOADED": "loaded", "SAID": "said", "CALLED": "was called with",
}  # fmt: skip
_GAP = re.compile(r"\n\[\.\.\. [\d,]+ chars left out \.\.\.\]\n")
_SHORT_OF_BUDGET = 12
"""A result is short that takes no more than this part of the budget of a tail."""


def prune(
    messages: Sequence[Message],
    numbers: Sequence[int],
    later: Sequence[tuple[int, Message]] = (),
    references: Sequence[int | None] | None = None,
) -> list[Message]:
    """The messages with long results, long arguments and pictures reduced to what they were about.

    `later` are messages behind them, by number, that stay as they are: a result may be the same as one of theirs.
    `references` are the numbers, unless others are given.
    """
    references = numbers if references is None else references
    newest = _newest_copies([*zip(numbers, messages, strict=True), *later])
    pruned = []
    for message, number, reference, call in zip(messages, numbers, references, calls_answered(messages), strict=True):
        if message["role"] == "tool":
            copy = newest.get(text_of(message), number)
            pruned.append(prune_result(message, call, reference, copy if copy != number else None))
        else:
            pruned.append(without_pictures(prune_arguments(message), reference))
    return pruned


def calls_answered(messages: Sequence[Message]) -> list[ToolCall | None]:
    """For each message the call that it is the result of: the nearest before it with its id, since ids may repeat."""
    calls: dict[str, ToolCall] = {}
    answered: list[ToolCall | None] = []
    for message in messages:
        answered.append(calls.get(message.get("tool_call_id", "")) if message["role"] == "tool" else None)
        calls.update((call["id"], call) for call in calls_of(message))
    return answered


def prune_result(message: Message, call: ToolCall | None, reference: int | None, copy: int | None = None) -> Message:
    """A tool result as one line that says what happened, and the reference; `copy` is a newer result that is equal."""
    text = text_of(message)
    if len(text) <= LONGEST_RESULT_CHARS:
        return without_pictures(message, reference)
    if copy is not None:
        return {**message, "content": f"[the same as m{copy}, which is newer]"}
    return {**message, "content": result_line(text, call, reference, is_error=message.get("is_error", False))}


def result_line(text: str, call: ToolCall | None, reference: int | None, *, is_error: bool = False) -> str:
    """The one line that a result is pruned to: `[terminal] ran "pytest tests/" -> exit 1, 3,000 lines (whole: m18)`."""
    reading = read_call(call) if call else None
    verb = reading.verb if reading else "CALLED"
    outcome = read_outcome(text, verb, reading.target if reading else "", is_error=is_error)
    how = [f"exit {outcome.exit_code}"] if outcome.exit_code else ["failed"] if outcome.failed else []
    how.append(outcome.tests or (f"{outcome.lines:,} lines" if outcome.lines > 1 else f"{len(text):,} chars"))
    ended = ", ".join(how)
    if outcome.failed and outcome.error:
        ended += f": {shorten(outcome.error.removeprefix(f'{how[0]}: '), _ERROR_CHARS)}"
    whole = SHORTENED if reference is None else f"(whole: m{reference})"
    if reading is None:
        return f"[tool] {ended} {whole}"
    target = _shorter_target(reading.target)
    phrase = f"{_VERB_PHRASES[verb]} {json.dumps(target, ensure_ascii=False)}" if target else _VERB_PHRASES[verb]
    return f"[{reading.tool}] {phrase.removesuffix(' with')} -> {ended} {whole}"


def _shorter_target(target: str) -> str:
    """What a call was about in few chars; of a path its end, which is its name."""
    if len(target) <= _TARGET_CHARS or "://" in target or any(map(str.isspace, target)):
        return shorten(target, _TARGET_CHARS)
    end = target.replace("\\", "/")[-_TARGET_CHARS + 1 :]
    return f"…{target[len(target) - len(end) + max(0, end.find('/')) :]}"


def was_shortened(message: Message, number: int) -> bool:
    """Whether an earlier compaction has shortened the text of a message."""
    text = text_of(message)
    return f"whole: m{number}" in text or text.endswith(SHORTENED) or bool(_GAP.search(text))


def prune_in_tail(message: Message, call: ToolCall | None, reference: int | None) -> Message:
    """A message of the tail, and the call that it answers; what people said is as it was."""
    if message["role"] == "tool":
        return prune_result(message, call, reference)
    return without_pictures(prune_arguments(message), reference) if message["role"] == "assistant" else message


def given_back(
    message: Message,
    pruned: Message,
    reference: int | None,
    room: int,
    budget: int,
    count: CountMessage,
    sought: str = "",
) -> Message:
    """A message that was pruned, whole where there is room for it; of a larger result both ends, in half the budget."""
    least = count(pruned)
    if count(message) - least <= room:
        return message
    most = min(least + room, budget // 2)
    if message["role"] != "tool" or room < _FEWEST_TOKENS_OF_ENDS:
        return pruned
    ends = cut_to_tokens(message, reference, most, count, sought)
    return ends if least < count(ends) <= most else pruned


def fit_tail(
    tail: Sequence[Message], references: Sequence[int | None], sizes: Sequence[int], budget: int, count: CountMessage
) -> tuple[int, list[Message]]:
    """How many messages the tail loses at its start, and the rest in the form it will have.

    The budget has the last word: what is large is pruned, the oldest first, and the tail begins later where what
    cannot be pruned away would leave the newest results no room. The room that is left goes back to the newest, half
    of it to short ones first. What people said is never touched.
    """
    if sum(sizes) <= budget:
        return 0, list(tail)
    original, tail = tail, without_replaced_plans(tail)
    whole = [size if one is other else count(one) for one, other, size in zip(tail, original, sizes, strict=True)]
    pruned = list(map(prune_in_tail, tail, calls_answered(tail), references))
    least = [
        size if one is other else min(count(one), size) for one, other, size in zip(pruned, tail, whole, strict=True)
    ]
    start = _tail_begin(tail, whole, least, budget)
    fitted, room = list(tail), budget - sum(whole[start:])
    repeated = _repeated_later(tail)
    shorter: list[int] = []
    # What a newer result shows again is pruned first.
    for at in (*(at for at in repeated if at >= start), *(at for at in range(start, len(tail)) if at not in repeated)):
        if room < 0 and least[at] < whole[at]:
            fitted[at] = pruned[at]
            room += whole[at] - least[at]
            if at not in repeated:
                shorter.insert(0, at)
    # Short ones first: both ends of a huge result that is newer would leave no room for them.
    for_short = room // 2
    for at in shorter:
        more = sizes[at] - least[at]
        if more <= (for_short if at == shorter[0] else min(for_short, budget // _SHORT_OF_BUDGET)):
            fitted[at] = original[at]
            for_short, room = for_short - more, room - more
    last = safe_cut_at_or_before(tail, len(tail) - 1)
    newest = [at for at in shorter if at >= last and fitted[at] is pruned[at]]
    # The results of the last group share the room; what one of them leaves is for the next.
    shares = zip(sorted(newest, key=sizes.__getitem__), range(len(newest), 0, -1), strict=True)
    for at, among in (*shares, *((at, 1) for at in shorter)):
        if fitted[at] is pruned[at]:
            sought = sought_before(tail, at)
            fitted[at] = given_back(original[at], pruned[at], references[at], room // among, budget, count, sought)
            room -= count(fitted[at]) - least[at]
    for at, newer in repeated.items():
        if fitted[at] is pruned[at]:
            other = _difference(original[at], fitted[newer], references[at], references[newer])
            if other is not None and least[at] < (size := count(other)) <= least[at] + room:
                fitted[at], room = other, room - size + least[at]
    return start, fitted[start:]


def _lines_of(message: Message) -> list[str]:
    """The lines of a result without blanks and line numbers at their start."""
    return [text for line in text_of(message).split("\n") if (text := _LINE_NUMBER.sub("", line).strip())]


def _repeated_later(messages: Sequence[Message]) -> dict[int, int]:
    """The results most of whose lines newer ones show again, such as a file that was read after every edit.

    Each with the newest result that has the most of them.
    """
    found: dict[int, int] = {}
    shown: dict[str, int] = {}
    for at in range(len(messages) - 1, -1, -1):
        if messages[at]["role"] != "tool":
            continue
        lines = set(_lines_of(messages[at]))
        again = Counter(shown[line] for line in lines if line in shown)
        if len(lines) >= _FEWEST_LINES_AGAIN and again.total() >= _SHARE_SHOWN_AGAIN * len(lines):
            found[at] = max(again, key=lambda newer: (again[newer], newer))
        for line in lines:
            shown.setdefault(line, at)
    return found


def _difference(message: Message, newer: Message, reference: int | None, newest: int | None) -> Message | None:
    """A result as the lines that a newer one does not have; None where it does not have most of them."""
    shown, lines = set(_lines_of(newer)), _lines_of(message)
    others = [line for line in lines if line not in shown]
    if len(others) > (1 - _SHARE_SHOWN_AGAIN) * len(lines):
        return None
    where = "a newer result" if newest is None else f"m{newest}, which is newer"
    first = f"[{len(lines) - len(others):,} of {len(lines):,} lines are the same in {where}{_whole(reference)}]"
    return {**message, "content": "\n".join((first, *excerpt(others, _DIFFERENCE_CHARS)))}


def sought_before(messages: Sequence[Message], at: int) -> str:
    """What the agent said and called before a result: what it looked for in it."""
    said = (
        f"{text_of(message)}\n{' '.join(read_call(call).target for call in calls_of(message))}"
        for message in messages[max(0, at - _SOUGHT_IN_MESSAGES) : at]
        if message["role"] == "assistant"
    )
    return "\n".join(said)


def _tail_begin(tail: Sequence[Message], whole: Sequence[int], least: Sequence[int], budget: int) -> int:
    """The earliest safe cut from which all fits as it is, or the pruned form of all leaves half of the room.

    The last group always stays, and neither it nor what a person reads last takes of that half.
    """
    start = last = safe_cut_at_or_before(tail, len(tail) - 1)
    visible = newest_visible(tail)
    size, room, others = sum(whole[last:]), budget - sum(least[last:]), 0
    for at in range(last - 1, -1, -1):
        size += whole[at]
        room -= least[at] if at in visible else 0
        others += least[at] if at not in visible else 0
        if size > budget and others > room // 2:
            break
        if safe_cut_at_or_before(tail, at) == at:
            start = at
    return start


def prune_arguments(message: Message) -> Message:
    """Long strings inside the arguments of calls are shortened; the JSON stays valid."""
    calls = calls_of(message)
    shorter = [_shorter_call(call) for call in calls]
    if all(new is old for new, old in zip(shorter, calls, strict=True)):
        return message
    return {**message, "tool_calls": shorter}


def without_replaced_plans(messages: Sequence[Message]) -> list[Message]:
    """The messages; of calls that wrote the whole plan, one that was written anew later is without its entries."""
    shorter = list(messages)
    most = 0
    for at in range(len(messages) - 1, -1, -1):
        calls = calls_of(messages[at])
        for place in range(len(calls) - 1, -1, -1):
            arguments = arguments_of_call(calls[place]) if verb_of(name_of_call(calls[place])) == "PLANNED" else {}
            lists = {name: len(value) for name, value in arguments.items() if isinstance(value, list) and value}
            # A later call with fewer entries may have changed only some of those that there were.
            if lists and max(lists.values()) <= most:
                counts = {name: f"[... {many} entries; written anew later]" for name, many in lists.items()}
                own = _with_arguments(calls[place], {**arguments, **counts})
                shorter[at] = {**shorter[at], "tool_calls": [*calls[:place], own, *calls_of(shorter[at])[place + 1 :]]}
            most = max(most, *lists.values(), 0)
    return shorter


def without_pictures(message: Message, reference: int | None) -> Message:
    """Pictures become placeholders."""
    return without_images(message, f"[picture{_whole(reference)}]")


def _whole(reference: int | None) -> str:
    return "" if reference is None else f"; whole: m{reference}"


def cut_text(message: Message, reference: int | None, most_chars: int, sought: str = "") -> Message:
    """A long text with its middle left out: both ends say what it is. They are cut between lines where that is near.

    Of a result, the lines of the middle that say most are kept, too; those first that have what was sought.
    """
    text = text_of(message)
    # What was cut before is not cut again: the gap would tell of the gap.
    most_chars = max(most_chars, _LEAST_OF_TEXT_CHARS)
    if len(text) <= most_chars:
        return message
    share = _SHARE_OF_ENDS if message["role"] == "tool" else 1.0
    ends = int((most_chars - _GAP_CHARS) * share) // 2
    near = ends // _NEAR_SHARE
    start = text.rfind("\n", ends - near, ends)
    start = start if start >= 0 else ends
    end = text.find("\n", len(text) - ends, len(text) - ends + near) + 1 or len(text) - ends
    room = most_chars - 2 * ends - _GAP_CHARS
    middle = excerpt(text[start:end].split("\n"), room, sought) if share < 1.0 else []
    left_out = end - start - sum(map(len, middle))
    gap = "\n".join((f"[... {left_out:,} chars left out{_whole(reference)} ...]", *middle))
    kept = f"{text[:start]}\n{gap}\n{text[end:]}"
    content = message.get("content")
    if isinstance(content, list):
        others = [part for part in content if part["type"] != "text"]
        return {**message, "content": [{"type": "text", "text": kept}, *others]}
    return {**message, "content": kept}


def cut_to_tokens(
    message: Message, reference: int | None, tokens: int, count: CountMessage, sought: str = ""
) -> Message:
    """The message with the middle of its text left out, in at most so many tokens where that is possible."""
    size, chars = count(message), len(text_of(message))
    if size <= tokens:
        return message
    shorter, most = message, chars * tokens // size
    for _ in range(_TRIES_TO_CUT):
        shorter = cut_text(message, reference, most, sought)
        size = count(shorter)
        if size <= tokens or most <= _LEAST_OF_TEXT_CHARS:
            break
        most = int(most * 0.95 * tokens / size)
    return shorter


def _newest_copies(numbered: Sequence[tuple[int, Message]]) -> dict[str, int]:
    return {
        text: number
        for number, message in numbered
        if message["role"] == "tool" and len(text := text_of(message)) > LONGEST_RESULT_CHARS
    }


def _shorter_call(call: ToolCall) -> ToolCall:
    function = call.get("function")
    arguments = function["arguments"] if function else ""
    if len(arguments) <= _LONGEST_ARGUMENT_CHARS:
        return call
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        return call
    for longest, kept in _ARGUMENT_LIMITS:
        shorter = _with_arguments(call, _shorter(parsed, longest, kept))
        if len(shorter["function"]["arguments"]) <= _LONGEST_ARGUMENTS_CHARS:
            break
    return shorter if len(shorter["function"]["arguments"]) < len(arguments) else call


def _with_arguments(call: ToolCall, arguments: Any) -> ToolCall:
    text = json.dumps(arguments, ensure_ascii=False)
    if not _can_be_sent(text):
        text = json.dumps(arguments)
    return {**call, "function": {**call["function"], "arguments": text}}


def _can_be_sent(text: str) -> bool:
    """Half of a surrogate pair can be in JSON as an escape, and nowhere else."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shorter(value: Any, longest: int, kept: int) -> Any:
    if isinstance(value, str) and len(value) > longest:
        return f"{value[:kept]}[... {len(value) - kept:,} chars]"
    if isinstance(value, dict):
        return {key: _shorter(inner, longest, kept) for key, inner in value.items()}
    if isinstance(value, list):
        return [_shorter(inner, longest, kept) for inner in value]
    return value
