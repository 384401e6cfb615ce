"""What a target gives: a larger one never tells less, and nearly all of it is used while there is material."""

from __future__ import annotations

import random

import pytest

import clew
from clew.messages import Message
from clew.testing import assistant, call, system, tool, user

TARGETS = (2_000, 3_000, 4_500, 7_000, 11_000, 17_000, 26_000)
WORDS = "ledger parser column branch report window signal folder margin letter weight answer number harbour".split()


def session(seed: int, exchanges: int = 24) -> tuple[list[Message], list[str]]:
    """A conversation, and what was asked, concluded, changed and ruled in it."""
    rng = random.Random(seed)
    messages: list[Message] = [system("You are careful.")]
    facts: list[str] = []
    for n in range(exchanges):
        asked = f"Please see why {rng.choice(WORDS)}_{n} loses its {rng.choice(WORDS)} number {rng.randrange(9_999)}."
        rule = f" Never touch {rng.choice(WORDS)}_{n}.db." if n % 5 == 1 else ""
        closing = f"The {rng.choice(WORDS)} of part_{n} was late, as feed_{rng.randrange(999)} waited for lock {n}."
        messages.append(user(asked + rule))
        for step in range(rng.randrange(1, 5)):
            path = f"src/{rng.choice(WORDS)}/part_{n}_{step}.py"
            shown = "\n".join(f"{rng.choice(WORDS)}_{rng.randrange(99)} = {rng.random():.6f}" for _ in range(60))
            wanted = call("write_file" if step == 2 else "read_file", {"path": path, "content": ""}, f"c{n}_{step}")
            messages += [assistant(f"I look at {path} now.", [wanted]), tool(f"c{n}_{step}", shown)]
            facts += [path] if step == 2 else []
        messages.append(assistant(closing))
        facts += [asked, closing, *([rule.strip()] if rule else [])]
    return [*messages, user("Go on.")], facts


def text_of_result(done: clew.Compressed) -> str:
    return " ".join(str(message.get("content")) + str(message.get("tool_calls", "")) for message in done.messages)


@pytest.mark.parametrize("seed", range(2))
def test_a_larger_target_never_tells_less(seed: int) -> None:
    messages, facts = session(seed)
    told: set[str] = set()
    for target in TARGETS:
        text = text_of_result(clew.compress(messages, target_tokens=target))
        now = {fact for fact in facts if fact in text}
        assert told <= now, (target, told - now)
        told = now
    assert told == set(facts)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("share", [0.1, 0.4, 0.7, 0.85])
def test_nearly_all_of_a_target_is_used_while_there_is_material(seed: int, share: float) -> None:
    messages, _ = session(seed)
    target = int(share * clew.count_tokens(messages))
    done = clew.compress(messages, target_tokens=target)
    assert 0.9 * target <= done.tokens_after <= target


@pytest.mark.parametrize("less", [5, 50, 200, 400, 1_000])
def test_a_target_just_below_the_size_is_reached(less: int) -> None:
    talk = [
        message
        for day in range(40)
        for message in (
            user(f"On day {day} we fly to city {day} at {day % 24}:05, and Anna{day} comes along; what shall we pack?"),
            assistant(f"For city {day}: a coat, {day} shirts and the ticket AB{day:03}. Anna{day} takes the map."),
        )
    ]
    target = clew.count_tokens(talk) - less
    done = clew.compress(talk, target_tokens=target)
    assert 0.9 * target <= done.tokens_after <= target


def listing(name: str, lines: int) -> str:
    return "\n".join(f"{name}_{n} = load('{name}', {n})" for n in range(lines))


def reading(files: int, lines: int) -> list[Message]:
    messages: list[Message] = [user("Read the stock modules and say what is missing. Change nothing.")]
    for n in range(files):
        wanted = call("read_file", {"path": f"stock/part_{n}.py"}, f"r{n}")
        messages += [assistant("", [wanted]), tool(f"r{n}", listing(f"part_{n}", lines))]
    return messages


@pytest.mark.parametrize(("target", "whole"), [(5_000, 0), (10_000, 1), (30_000, 8)])
def test_a_session_that_reads_keeps_the_newest_files_it_read(target: int, whole: int) -> None:
    """The more the larger the target is, and both ends of the first that does not fit."""
    done = clew.compress(reading(120, 60), target_tokens=target)
    shown = [str(message["content"]).count("load(") for message in done.messages if message["role"] == "tool"]
    assert shown[len(shown) - whole :] == [60] * whole
    assert shown[-1 - whole] > 10
    assert 0.9 * target <= done.tokens_after <= target


@pytest.mark.parametrize("beds", [40, 200, 400])
def test_a_long_result_in_the_head_leaves_its_room_to_the_tail_and_gets_back_the_rest(beds: int) -> None:
    reads = assistant("", [call("read_file", {"path": "a"}, "a")])
    messages = [user("Look first."), reads, tool("a", listing("a", 900))]
    for n in range(beds):
        messages += [user(f"And bed {n}?"), assistant(f"Bed {n} has {n} roses, and the gardener said so twice.")]
    target = clew.count_tokens(messages) - 2_000
    done = clew.compress(messages, target_tokens=target)
    assert 0.9 * target <= done.tokens_after <= target


def test_what_prints_nothing_that_is_worth_telling_does_not_leave_a_target_unused() -> None:
    messages: list[Message] = [user("Install the tools.")]
    for n in range(12):
        bars = "\n".join(f"{'#' * (k % 50)}{'.' * (50 - k % 50)}  {k} KB / 900 KB" for k in range(90))
        messages += [assistant("", [call("terminal", {"command": f"install tool_{n}"}, f"i{n}")]), tool(f"i{n}", bars)]
    target = clew.count_tokens(messages) // 2
    done = clew.compress(messages, target_tokens=target)
    assert 0.9 * target <= done.tokens_after <= target


@pytest.mark.parametrize("target", [1_000, 3_000, 12_000])
@pytest.mark.parametrize("place", ["alone", "first", "last", "answered", "called for"])
def test_one_huge_message_uses_the_target_that_the_rest_leaves_free(place: str, target: int) -> None:
    huge = user(listing("part", 20_000))
    small = [user("Read it."), assistant("I will.")]
    messages = {
        "alone": [huge],
        "first": [huge, *small],
        "last": [*small, huge],
        "answered": [*small, huge, assistant("Nothing is missing.")],
        "called for": [*small, *[user("And?"), assistant("Well. " * 30)] * 60, huge],
    }[place]
    done = clew.compress(messages, target_tokens=target)
    assert 0.85 * target <= done.tokens_after <= target
    assert done.tokens_after <= clew.preview(messages, target_tokens=target).tokens_after


@pytest.mark.parametrize("seed", range(2))
def test_what_was_asked_outlasts_further_compactions_to_a_target_that_the_rest_nearly_fits(seed: int) -> None:
    """A longer tail would leave an earlier handoff no room."""
    messages, _ = session(seed, exchanges=60)
    view: list[Message] = []
    for start in range(0, len(messages), 90):
        view = [*view, *messages[start : start + 90]]
        if clew.count_tokens(view) > 12_000:
            view = clew.compress(view, target_tokens=12_000).messages
    text = " ".join(" ".join(str(message.get("content")).split()) for message in view)
    asked = [str(message["content"]) for message in messages if message["role"] == "user"]
    assert not [one for one in asked if one not in text]


@pytest.mark.parametrize("target", [1_000, 1_500, 4_000])
@pytest.mark.parametrize("calls", [0, 1, 12])
@pytest.mark.parametrize("words", [60, 110])
def test_the_newest_user_message_stays_whole_where_the_target_has_room(target: int, calls: int, words: int) -> None:
    newest = " ".join(f"word{number * 37 % 991}" for number in range(words))
    history = [
        message
        for number in range(30)
        for message in (
            user(f"Request {number}: look at table_{number % 7} and at port {8_000 + number}."),
            assistant("Looking.", [call("read_file", {"path": f"{number}.py"}, f"k{number}")]),
            tool(f"k{number}", f"row {number} of table_{number % 7}\n" * 60),
            assistant(f"Table {number % 7} has {number} rows."),
        )
    ]
    later = [
        message
        for number in range(calls)
        for message in (
            assistant("On it.", [call("read_file", {"path": "z.py"}, f"z{number}")]),
            tool(f"z{number}", "data of z\n" * 90),
        )
    ]
    done = clew.compress([*history, user(newest), *later], target_tokens=target)
    assert newest in str(done.messages)
