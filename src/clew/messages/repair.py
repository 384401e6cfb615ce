"""Repair of broken histories: the result has valid messages, and every call has its result behind it.

Most histories are valid, so that is checked first, as quickly as possible.

Only rules that all wires share are applied here; what one wire demands is done by its dialect.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, TypeAlias, cast

from clew.errors import InvalidArgument
from clew.messages.message import (
    NO_RESULT,
    OLD_TOOL_ROLE,
    ROLES,
    UNREADABLE,
    Message,
    Repair,
    is_stub,
    join_contents,
    refuse_unusable,
)

_INSTEAD_OF_CONTENT = ("reasoning", "reasoning_content", "reasoning_details", "refusal", "audio")

# Takes half the time of json.loads, whose own checks cost more than parsing short arguments.
_scan_json = json.JSONDecoder().raw_decode
_CHECKED_BEFORE = frozenset({"role", "content", "tool_calls"})
_JSON_SPACE = " \t\n\r"


def is_valid(
    messages: Sequence[Message],
    *,
    open_end: bool = False,
    longest_text: int | None = None,
    checked: Set[int] = frozenset(),
) -> bool:
    """Whether every message is valid and every call has its one result directly behind it.

    `checked` are the ids of message objects that were found valid before, each looked at alone.
    """
    limit, checked = (sys.maxsize, checked) if longest_text is None else (longest_text, frozenset())
    waiting: set[str] = set()
    for message in cast("Sequence[Any]", messages):
        if type(message) is not dict:
            return False
        role, calls = message.get("role"), message.get("tool_calls")
        usual_size = 2
        if role == "tool":
            answered = message.get("tool_call_id")
            if type(answered) is not str or answered not in waiting:
                return False
            waiting.discard(answered)
            usual_size = 3
        elif waiting:
            return False
        if id(message) not in checked:
            # Nearly every message of a long history is of one of these two kinds, and needs no other check.
            content = message.get("content")
            is_usual_text = (
                type(content) is str and len(content) <= limit and (content.isascii() or is_encodable(content))
            )
            if is_usual_text and len(message) == usual_size and type(role) is str and role in ROLES:
                continue
            if calls and (content is None or is_usual_text) and len(message) == 3 and role == "assistant":
                usual_ids = _ids_of_usual_calls(calls)
                if usual_ids is not None:
                    waiting = usual_ids
                    continue
            if not is_valid_message(message, limit):
                return False
        if calls:
            waiting = {call["id"] for call in calls}
            if len(waiting) != len(calls):
                return False
    return open_end or not waiting


def _ids_of_usual_calls(calls: Any) -> set[str] | None:
    """The ids of calls that pass a few quick checks; None where the thorough checks have to decide."""
    ids = set()
    try:
        for call in calls:
            function, identity = call["function"], call["id"]
            name, arguments = function["name"], function["arguments"]
            if len(call) > 3 or len(function) > 2 or type(identity) is not str or type(name) is not str:
                return None
            if not (identity and name and identity.isascii() and name.isascii() and arguments.isascii()):
                return None
            value, end = _scan_json(arguments)
            if type(value) is not dict or end != len(arguments):
                return None
            ids.add(identity)
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        return None
    return ids if len(ids) == len(calls) and type(calls) is list else None


def is_valid_message(message: Any, limit: int = sys.maxsize) -> bool:
    """Whether one message, looked at alone, is valid."""
    role = message.get("role")
    # Servers have roles of their own, which are kept; `function` is the old name of `tool`.
    if type(role) is not str or role in ("", OLD_TOOL_ROLE):
        return False
    content = message.get("content")
    if type(content) is str:
        if not content.isascii() and not is_encodable(content):
            return False
        if len(content) > limit:
            return False
    elif not _is_valid_content(message, content, limit):
        return False
    has_nothing_else = len(message) == 2 and "content" in message and role != "tool"
    return has_nothing_else or _are_valid_fields(message, role)


def _is_valid_content(message: Any, content: Any, limit: int) -> bool:
    if content is None:
        return may_lack_content(message)
    if type(content) is not list or not content:
        return False
    return all(_is_valid_part(part, limit) for part in content)


def may_lack_content(message: Any) -> bool:
    """Whether a message may have no content: an assistant's that has calls, reasoning, a refusal or audio."""
    if message.get("role") != "assistant":
        return False
    return bool(message.get("tool_calls")) or any(message.get(other) for other in _INSTEAD_OF_CONTENT)


def _is_valid_part(part: Any, limit: int) -> bool:
    if not isinstance(part, dict):
        return False
    text = part.get("text")
    if isinstance(text, str) and len(text) > limit:
        return False
    return is_encodable_inside(part)


def _are_valid_fields(message: Any, role: str) -> bool:
    calls = message.get("tool_calls")
    if calls is not None and not _are_valid_calls(calls, role):
        return False
    if message.get("function_call") is not None:
        return False
    answered = message.get("tool_call_id")
    if role == "tool" and not (type(answered) is str and answered):
        return False
    usual = 2 + ("tool_calls" in message) + ("tool_call_id" in message)
    if len(message) == usual and "content" in message and answered is None:
        return True
    return all(name in _CHECKED_BEFORE or is_encodable_inside(value) for name, value in message.items())


def _are_valid_calls(calls: Any, role: str) -> bool:
    return isinstance(calls, list) and bool(calls) and role == "assistant" and all(map(is_valid_call, calls))


def is_valid_call(call: Any) -> bool:
    """Whether a call has an id, a name, and arguments that are a JSON object."""
    if not isinstance(call, dict):
        return False
    identity, function = call.get("id"), call.get("function")
    if not _is_name(identity):
        return False
    if not isinstance(function, dict):
        return _is_valid_custom_call(call)
    if not _is_name(function.get("name")):
        return False
    if (len(call) > 3 or len(function) > 2) and not is_encodable_inside(call):
        return False
    return is_json_object(function.get("arguments"))


def _is_name(value: Any) -> bool:
    return type(value) is str and value != "" and (value.isascii() or is_encodable(value))


def _is_valid_custom_call(call: Any) -> bool:
    """A call of a tool that takes free text instead of JSON."""
    custom = call.get("custom")
    return (
        call.get("type") == "custom"
        and isinstance(custom, dict)
        and type(custom.get("name")) is str
        and type(custom.get("input")) is str
        and is_encodable_inside(call)
    )


def is_json_object(text: Any) -> bool:
    """Whether a text is one JSON object and can be sent."""
    if type(text) is not str or not (text.isascii() or is_encodable(text)):
        return False
    try:
        value, end = _scan_json(text)
    except (ValueError, RecursionError):
        return is_json_object(bare) if (bare := text.strip(_JSON_SPACE)) != text else False
    return type(value) is dict and (end == len(text) or not text[end:].strip(_JSON_SPACE))


def is_encodable(text: str) -> bool:
    """Whether a text has no lone surrogate, which no wire, tokenizer or database takes."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_encodable_inside(value: Any) -> bool:
    """Whether every text inside a JSON value is encodable, names of fields included."""
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            if not is_encodable(value):
                return False
        elif isinstance(value, dict):
            pending.extend(value)
            pending.extend(value.values())
        elif isinstance(value, list | tuple):
            pending.extend(value)
    return True


_SHORTEST_CUT = 100

ReportRepair: TypeAlias = Callable[[str, str], None]
"""Called with a problem and its remedy."""
IndexedMessages: TypeAlias = list[tuple[int, Message]]
"""Messages, each with its index in the history as received; a stub has the index of its call."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """A valid history, and what was done to it."""

    messages: Sequence[Message]
    repairs: tuple[Repair, ...] = ()
    indexes: Sequence[int] = field(default=(), repr=False, compare=False)
    """For each message its index in the history as received; a stub has the index of its call."""


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
        raise InvalidArgument(
            f"longest_text={longest_text} leaves no text", remedy=f"use at least {_SHORTEST_CUT}, or None"
        )
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
            repairs.append(Repair(index, f"the result of {answered!r} does not follow its call", where))
        group.waiting.pop(answered, None)
        group.results.append((index, message))


def _remove_stub(group: _CallGroup, answered: str, repairs: list[Repair]) -> bool:
    """Remove the stub among the results of a group that represents a call; False where there is none."""
    for at, (index, known) in enumerate(group.results):
        if known.get("tool_call_id") == answered and is_stub(known):
            del group.results[at]
            problem = f"a stub for {answered!r}, whose result follows later"
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
