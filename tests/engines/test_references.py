"""Every reference of a handoff names the message that says it, also where the history was broken and repaired."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence

import pytest

from clew.config import CompressionSettings
from clew.engines import ContextCompressor
from clew.engines.compressor.history import number_history
from clew.handoff import unwrap
from clew.messages import Message, arguments_of_call, calls_of, text_of
from clew.testing import assistant, call, system, tool, user

WINDOW = 24_000
PROMPT = system("You are careful.")
_REFERENCE = re.compile(r" \((?:\d+x, )?m(\d+)(?:-m(\d+))?(?:; [^()]*)?\)$")
_FRAMED = re.compile(r"\s*(?:\d+\. |- )?(?:(?:READ|RAN|CHANGED|WROTE|USED) .*?: |make \S+ -> exit \d+: )?(.*)")


def work(first: int, last: int, *, broken: bool = True) -> list[Message]:
    """Exchanges with a request, calls and closing words; with orphan results, results that never came and stubs."""
    messages: list[Message] = []
    for n in range(first, last):
        rows = "\n".join(f"row_{n}_{row}: amount {row * 7919 + n} of ledger_{n}" for row in range(40))
        messages += [
            user(f"Look at ledger_{n} and tell me which rows are missing there. Never touch table_{n}."),
            assistant(
                f"I read ledger_{n} first.",
                [
                    call("read_file", {"path": f"books/ledger_{n}.txt"}, f"a{n}"),
                    call("terminal", {"command": f"make check_{n}"}, f"b{n}"),
                ],
            ),
            tool(f"a{n}", rows),
        ]
        if n % 3 or not broken:
            messages.append(tool(f"b{n}", f"error: check_{n} found {n} rows too few\n[exit 2]"))
        if broken and n % 2:
            messages.append(tool(f"nobody_{n}", f"orphan_{n} was never called for"))
        messages.append(assistant(f"The rows of batch_{n} are missing in ledger_{n}, because feed_{n} was late."))
        if broken and not n % 4:
            messages.append({"role": "assistant", "content": None})
    return messages


def flat(text: str) -> str:
    return " ".join(text.split())


def said_at(messages: Sequence[Message], number: int) -> str:
    """What a message says and its calls were given, and what came of those calls."""
    message = messages[number]
    ids = {each["id"] for each in calls_of(message)}
    results = [text_of(one) for one in messages[number + 1 :] if one.get("tool_call_id") in ids]
    given = [str(value) for each in calls_of(message) for value in arguments_of_call(each).values()]
    return flat("\n".join([text_of(message), *given, *results]))


def references_in(handoff: str) -> list[tuple[str, range]]:
    """The passages of a handoff, each with the messages that its line names."""
    found = []
    for line in handoff.splitlines():
        reference = _REFERENCE.search(line)
        if (
            line.startswith("#")
            or reference is None
            or "as above" in line
            or "Still on" in line
            or "earlier requests" in line
        ):
            continue
        first, last = int(reference[1]), int(reference[2] or reference[1])
        framed = _FRAMED.match(line[: reference.start()])
        assert framed is not None
        pieces = re.split(r" · | … |…", framed[1].strip())
        found += [(piece.strip('" '), range(first, last + 1)) for piece in pieces if len(piece) > 24]
    return found


def check(handoff: str, original: Sequence[Message]) -> None:
    references = references_in(handoff)
    assert len(references) > 10
    wrong = [
        (passage, named)
        for passage, named in references
        if not passage.startswith(("file_path", "path: ", "CHANGED", "RAN"))
        and not any(passage in said_at(original, number) for number in named)
    ]
    assert not wrong


def handoff_in(messages: Sequence[Message]) -> str:
    [text] = [found.text for message in messages if (found := unwrap(message))]
    return text


@pytest.mark.parametrize("broken", [False, True])
def test_every_reference_opens_the_message_that_says_it(broken: bool) -> None:
    original = [PROMPT, *work(0, 24, broken=broken)]
    done = asyncio.run(ContextCompressor(WINDOW).compress(original, force=True))
    check(handoff_in(done.messages), original)


@pytest.mark.parametrize("is_observing", [False, True])
@pytest.mark.parametrize("broken", [False, True])
def test_and_so_it_does_after_several_compactions(broken: bool, is_observing: bool) -> None:
    original: list[Message] = [PROMPT]
    view: list[Message] = [PROMPT]
    engine = ContextCompressor(WINDOW)
    for n in range(4):
        new = work(16 * n, 16 * n + 16, broken=broken)
        original += new
        view = [*view, *new]
        if is_observing:
            engine.observe(new if n else view)
        else:
            engine = ContextCompressor(WINDOW)
        view = json.loads(json.dumps(list(asyncio.run(engine.compress(view, force=True)).messages)))
        check(handoff_in(view), original)


@pytest.mark.parametrize("is_observing", [False, True])
def test_a_repair_of_the_head_shifts_no_number(is_observing: bool) -> None:
    waits = assistant("I look.", [call("terminal", {"command": "make all"}, "never")])
    head = [PROMPT, user("First."), tool("nobody", "orphan"), waits, user("Second, with a rule: never touch prod.db.")]
    original: list[Message] = [*head, *work(0, 16)]
    view, engine = original, ContextCompressor(WINDOW, settings=CompressionSettings(protect_first_n=5))
    if is_observing:
        engine.observe(original)
    for n in range(1, 4):
        view = list(asyncio.run(engine.compress(view, force=True)).messages)
        # A stub has the number of the call that it answers.
        numbers = number_history(view).numbers
        assert [n for n in numbers if n < 7] == [0, 1, 3, 3, 4, 5, 6][: sum(n < 7 for n in numbers)]
        shown = [(text_of(original[n]), text_of(m)) for n, m in zip(numbers[:3], view, strict=False)]
        assert all(now.startswith(was) for was, now in shown)
        check(handoff_in(view), original)
        new = work(16 * n, 16 * n + 16)
        original, view = [*original, *new], [*view, *new]
        if is_observing:
            engine.observe(new)


def test_a_request_that_a_handoff_was_merged_into_keeps_its_number() -> None:
    original: list[Message] = [PROMPT, *work(0, 16)]
    done = list(asyncio.run(ContextCompressor(WINDOW).compress(original, force=True)).messages)
    at = next(place for place, message in enumerate(done) if unwrap(message))
    handoff, rest = done[at], done[at + 1 :]
    # Some programs join two messages of one role.
    following = next((one for one in rest if one["role"] == handoff["role"]), None)
    if following is not None and rest[0] is following:
        handoff = {**handoff, "content": f"{text_of(handoff)}\n\n{text_of(following)}"}
        rest = rest[1:]
    again = [*done[:at], handoff, *rest, *work(16, 32)]
    original += work(16, 32)
    check(handoff_in(asyncio.run(ContextCompressor(WINDOW).compress(again, force=True)).messages), original)
