"""Repair of broken histories: the result has valid messages, and every call has its result behind it.

Only rules that all wires share are applied here; what one wire demands is done by its dialect.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence, Set
from dataclasses import field
from itertools import groupby
from typing import Any, TypeAlias

from clew.errors import InvalidArgument
from clew.lazy import dataclass
from clew.messages.message import (
    NO_RESULT,
    OLD_TOOL_ROLE,
    UNREADABLE,
    Message,
    Repair,
    is_stub,
    join_contents,
    refuse_unusable,
)
from clew.messages.validity import (
    is_encodable_inside,
    is_json_object,
    is_valid,
    is_valid_call,
    is_valid_message,
    may_lack_content,
)

_SHORTEST_CUT = 100

ReportRepair: TypeAlias = Callable[[str, str], None]
"""Called with a problem and its remedy."""
IndexedMessages: TypeAlias = list[tuple[int, Message]]
"""Messages, each with its index in the history as it came; a stub has the index of its call."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """A valid history, and what was done to it."""

    messages: Sequence[Message]
    repairs: tuple[Repair, ...] = ()
    indexes: Sequence[int] = field(default=(), repr=False, compare=False)
    """For each message its index in the history as it came; a stub has the index of its call."""


def repair(
    messages: Sequence[Message],
    *,
    merge_same_role: bool = False,
    open_end: bool = False,
    longest_text: int | None = None,
    checked: Set[int] = frozenset(),
) -> Repaired:
    """Make a history valid, and report each repair; raises `InvalidMessage` for a message without a usable role.

    A history with nothing to repair comes back as the same object; the input is never changed. Several system
    messages, and several messages of one role in a row, are valid and kept, unless `merge_same_role`. With
    `open_end`, the calls of the last message may still wait for their results. `longest_text`, in chars, cuts longer
    texts; nothing is cut unless it is given. `checked` are the ids of message objects that were found valid before,
    each looked at alone, and were not changed since.
    """
    if longest_text is not None and longest_text < _SHORTEST_CUT:
        raise InvalidArgument(f"longest_text={longest_text} leaves no text; use at least {_SHORTEST_CUT}, or None")
    if not merge_same_role and is_valid(messages, open_end=open_end, longest_text=longest_text, checked=checked):
        return Repaired(messages, (), range(len(messages)))
    repairs: list[Repair] = []
    valid = [repaired_message(message, index, repairs) for index, message in enumerate(messages)]
    result = pair_calls_with_results(valid, repairs, open_end=open_end)
    if merge_same_role:
        result = merge_same_roles(result, repairs)
    if longest_text is not None:  # last, because merging makes texts longer
        result = [(index, cut_long_texts(message, index, longest_text, repairs)) for index, message in result]
    if not repairs:
        return Repaired(messages, (), range(len(messages)))
    reported = tuple(sorted(repairs, key=lambda done: done.index))
    return Repaired([message for _, message in result], reported, [index for index, _ in result])


def repaired_message(message: Any, index: int, repairs: list[Repair]) -> Message:
    """The message, valid; the same object where nothing was wrong with it."""
    refuse_unusable(message, index)
    if is_valid_message(message):
        return message  # type: ignore[no-any-return]
    result: dict[str, Any] = dict(message)

    def report(problem: str, remedy: str) -> None:
        repairs.append(Repair(index, problem, remedy))

    if not is_encodable_inside(result):
        result = replace_lone_surrogates_inside(result)
        report("half of a surrogate pair in a text", "replaced by U+FFFD, or joined with its other half")
    if not result["role"]:
        result["role"] = "user"
        report("no role", 'read as "user"')
    _repair_old_calls(result, index, report)
    _repair_calls(result, index, report)
    _repair_content(result, report)
    return result  # type: ignore[return-value]


def _repair_content(message: dict[str, Any], report: ReportRepair) -> None:
    content = message.get("content")
    if content is None or content == []:
        if content is None and may_lack_content(message):
            return
        message["content"] = ""
        report("no content" if content is None else "an empty list as content", "content is an empty text")
    elif isinstance(content, list | tuple):
        _repair_parts(message, content, report)
    elif isinstance(content, dict):
        message["content"] = [content]
        report("content is one part, not a list", "put into a list")
    elif not isinstance(content, str):
        message["content"] = str(content)
        report(f"content of type {type(content).__name__}", "written as text")


def _repair_parts(message: dict[str, Any], content: list[Any] | tuple[Any, ...], report: ReportRepair) -> None:
    if isinstance(content, list) and all(isinstance(part, dict) for part in content):
        return
    parts = [part if isinstance(part, dict) else {"type": "text", "text": _as_text(part)} for part in content]
    message["content"] = parts or ""
    report("content with parts that are no dicts", "each made a text part")


def _repair_calls(message: dict[str, Any], index: int, report: ReportRepair) -> None:
    if message["role"] == "tool" and not isinstance(message.get("tool_call_id"), str):
        _repair_call_id(message, report)
    if message.get("tool_calls") is None:
        return
    calls = message["tool_calls"]
    if message["role"] != "assistant" or not calls:
        del message["tool_calls"]
        report("an empty list of calls" if not calls else f"calls on a {message['role']} message", "field removed")
        return
    if not isinstance(calls, list):
        calls = list(calls) if isinstance(calls, tuple) else [calls]
        report("tool_calls is no list", "put into a list")
    repaired_calls = [_repaired_call(call, f"call_{index}_{position}", report) for position, call in enumerate(calls)]
    kept = [call for call in repaired_calls if call is not None]
    if kept:
        message["tool_calls"] = kept
    else:
        del message["tool_calls"]


def _repair_old_calls(message: dict[str, Any], index: int, report: ReportRepair) -> None:
    """The format from before parallel calls, which has no ids: a result belongs to the call before it."""
    if message["role"] == OLD_TOOL_ROLE:
        message["role"] = "tool"
        report("the old role 'function'", "role is 'tool'")
    if message.get("function_call") is not None:
        call = {"id": f"call_{index}_0", "type": "function", "function": message.pop("function_call")}
        message["tool_calls"] = message.get("tool_calls") or [call]
        report("the old field 'function_call'", "made a list of tool_calls")


def _repair_call_id(message: dict[str, Any], report: ReportRepair) -> None:
    answered = message.get("tool_call_id")
    if answered is None:
        return  # pair_calls_with_results gives it to a call without a result, or removes it
    message["tool_call_id"] = _as_text(answered)
    report(f"tool_call_id of type {type(answered).__name__}", "written as text")


def _repaired_call(call: Any, fallback_id: str, report: ReportRepair) -> dict[str, Any] | None:
    if is_valid_call(call):
        return call  # type: ignore[no-any-return]
    if not isinstance(call, dict):
        report(f"a call of type {type(call).__name__}", "removed")
        return None
    result = dict(call)
    identity = result.get("id")
    if not isinstance(identity, str) or not identity:
        result["id"] = fallback_id if identity in (None, "") else _as_text(identity)
        report("a call without a text as id", f"id is {result['id']!r}")
    function = result.get("function")
    if not isinstance(function, dict) and result.get("type") == "custom" and isinstance(result.get("custom"), dict):
        result["custom"] = _repaired_custom(result["custom"], report)
    else:
        result["function"] = _repaired_function(function, report)
    return result


def _repaired_custom(custom: dict[str, Any], report: ReportRepair) -> dict[str, Any]:
    result = dict(custom)
    for name, default in (("name", "unknown"), ("input", "")):
        if not isinstance(result.get(name), str):
            result[name] = default if result.get(name) is None else _as_text(result[name])
            report(f"a call without a text as {name}", f"{name} is {result[name]!r:.80}")
    return result


def _repaired_function(function: Any, report: ReportRepair) -> dict[str, Any]:
    result = dict(function) if isinstance(function, dict) else {}
    name = result.get("name")
    if not isinstance(name, str) or not name:
        result["name"] = "unknown"
        report("a call that names no function", "name is 'unknown'")
    arguments = result.get("arguments")
    if not is_json_object(arguments):
        result["arguments"] = as_json_object(arguments)
        report("arguments that are no JSON object", _remedy_for_arguments(arguments))
    return result


def as_json_object(arguments: Any) -> str:
    """Whatever a call has as arguments, as the JSON of an object; what is none is kept under `UNREADABLE`."""
    if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
        return "{}"
    value = arguments
    if isinstance(arguments, str):
        try:
            value = json.loads(arguments)
        except (ValueError, RecursionError):
            return _as_unreadable(arguments)
        if isinstance(value, str) and is_json_object(value):
            return value  # encoded twice
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, dict) else _as_unreadable(value)


def _remedy_for_arguments(arguments: Any) -> str:
    if arguments is None or arguments == "":
        return "an empty object in their place"
    return "written as a JSON object" if isinstance(arguments, dict) else f"kept whole under {UNREADABLE!r}"


def _as_unreadable(value: Any) -> str:
    return json.dumps({UNREADABLE: value}, ensure_ascii=False, default=str)


def cut_long_texts(message: Message, index: int, longest: int, repairs: list[Repair]) -> Message:
    """The message with texts over a number of chars cut; the same object where none is so long."""
    content = message.get("content")
    if isinstance(content, str) and len(content) > longest:
        repairs.append(Repair(index, f"a text of {len(content):,} chars", f"cut to {longest:,} chars"))
        return {**message, "content": _cut(content, longest)}
    parts = content if isinstance(content, list) else []
    long = [part for part in parts if isinstance(part.get("text"), str) and len(part["text"]) > longest]
    if not long:
        return message
    cut = {id(part): {**part, "text": _cut(part["text"], longest)} for part in long}
    repairs.append(Repair(index, f"{len(long)} text parts over {longest:,} chars", f"cut to {longest:,} chars"))
    return {**message, "content": [cut.get(id(part), part) for part in parts]}


def _cut(text: str, longest: int) -> str:
    """The start and the end of a text, with a note of what was cut between them: `longest` chars in all."""
    gap = f"\n[{len(text) - longest:,} chars cut]\n"
    front = (longest - len(gap)) // 2
    return text[:front] + gap + text[len(text) - (longest - len(gap) - front) :]


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def merge_same_roles(messages: IndexedMessages, repairs: list[Repair]) -> IndexedMessages:
    """Messages of one role in a row made one, for models that want roles to alternate; results stay apart."""
    result: IndexedMessages = []
    for role, same in groupby(messages, key=lambda entry: entry[1]["role"]):
        run = list(same)
        if role == "tool" or len(run) == 1:
            result.extend(run)
            continue
        start = run[0][0]
        result.append((start, merge_messages([message for _, message in run])))
        repairs.extend(
            Repair(index, f"follows another {role} message", f"joined to message {start}") for index, _ in run[1:]
        )
    return result


def merge_messages(messages: Sequence[Message]) -> Message:
    """Messages of one role as one: contents, calls and reasoning of all; of any other field the first value."""
    result: dict[str, Any] = {}
    for message in reversed(messages):
        result.update(message)
    result["content"] = join_contents([message.get("content") for message in messages])
    for name in ("tool_calls", "reasoning"):
        values: list[Any] = [message.get(name) for message in messages]
        entries = [entry for value in values if isinstance(value, list) for entry in value]
        texts = [value for value in values if isinstance(value, str) and value]  # of wires whose reasoning is a text
        if entries or texts:
            result[name] = entries or "\n\n".join(texts)
    return result  # type: ignore[return-value]


def replace_lone_surrogates(text: str) -> str:
    """The text with U+FFFD for each lone surrogate; two halves that follow each other become their character."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def replace_lone_surrogates_inside(value: Any) -> Any:
    """A JSON value with `replace_lone_surrogates` applied to every text in it."""
    return json.loads(replace_lone_surrogates(json.dumps(value, ensure_ascii=False, default=str)))


# -- calls and their results -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _CallGroup:
    """An assistant message with calls, while its results are collected."""

    index: int
    waiting: dict[str, None]
    results: IndexedMessages = field(default_factory=list)
    closed: bool = False


def pair_calls_with_results(
    messages: Sequence[Message], repairs: list[Repair], *, open_end: bool = False
) -> IndexedMessages:
    """Valid messages with each result behind its call; results without a call are removed, missing ones get a stub.

    With `open_end`, the calls of the last message get no stubs.
    """
    entries: list[tuple[int, Message, _CallGroup | None]] = []
    callers: dict[str, _CallGroup] = {}
    last: _CallGroup | None = None
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            _assign_result(message, index, callers, last, repairs)
            continue
        if last is not None:
            last.closed = True
        group = None
        if message.get("tool_calls"):
            message = _without_duplicate_ids(message, index, repairs)
            group = last = _CallGroup(index, {call["id"]: None for call in message["tool_calls"]})
            callers.update(dict.fromkeys(group.waiting, group))
        entries.append((index, message, group))
    open_group = entries[-1][2] if entries and open_end else None
    return _in_order(entries, open_group, repairs)


def _assign_result(
    message: Message, index: int, callers: dict[str, _CallGroup], last: _CallGroup | None, repairs: list[Repair]
) -> None:
    """Give a result to the nearest call before it that has its id, or remove it."""
    answered = message.get("tool_call_id")
    if not answered:
        answered = next(iter(last.waiting), None) if last is not None else None
        if last is None or answered is None:
            repairs.append(Repair(index, "a result that names no call, and no call waits", "removed"))
            return
        message = {**message, "tool_call_id": answered}
        repairs.append(Repair(index, "a result that names no call", f"given to {answered!r}, which waits"))
    group = callers.get(answered)
    if group is None:
        repairs.append(Repair(index, f"a result for {answered!r}, which was never called", "removed"))
    elif answered not in group.waiting and (is_stub(message) or not _remove_stub(group, answered, repairs)):
        repairs.append(Repair(index, f"a second result for {answered!r}", "removed; the first is kept"))
    else:
        if group.closed:
            where = f"moved behind message {group.index}"
            repairs.append(Repair(index, f"the result of {answered!r} stands apart from its call", where))
        group.waiting.pop(answered, None)
        group.results.append((index, message))


def _remove_stub(group: _CallGroup, answered: str, repairs: list[Repair]) -> bool:
    """Remove the stub among the results of a group that stands for a call; False where there is none."""
    for at, (index, known) in enumerate(group.results):
        if known.get("tool_call_id") == answered and is_stub(known):
            del group.results[at]
            problem = f"a stub for {answered!r}, whose result came later"
            repairs.append(Repair(index, problem, "removed; the result is kept"))
            return True
    return False


def _without_duplicate_ids(message: Message, index: int, repairs: list[Repair]) -> Message:
    calls = message["tool_calls"]
    first: dict[str, Any] = {}
    for call in calls:
        first.setdefault(call["id"], call)
    if len(first) == len(calls):
        return message
    repairs.append(Repair(index, "two calls with one id in one message", "the first of each is kept"))
    return {**message, "tool_calls": list(first.values())}


def _in_order(
    entries: Sequence[tuple[int, Message, _CallGroup | None]], open_group: _CallGroup | None, repairs: list[Repair]
) -> IndexedMessages:
    result: IndexedMessages = []
    for index, message, group in entries:
        result.append((index, message))
        if group is None:
            continue
        result.extend(group.results)
        if group is open_group:
            continue
        for missing in group.waiting:
            result.append((index, {"role": "tool", "tool_call_id": missing, "content": NO_RESULT}))
            repairs.append(Repair(index, f"the call {missing!r} has no result", "a stub says so"))
    return result
