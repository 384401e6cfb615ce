"""Fingerprints, chains of them, and where two requests part."""

from __future__ import annotations

import subprocess
import sys
from enum import StrEnum
from typing import Any

import pytest

from clew.caching import (
    MARKER,
    PrefixChain,
    apply_cache_control,
    divergence,
    extends,
    fingerprint,
    mark_anthropic_request,
    shared_length,
)
from clew.caching.fingerprints import canonical_bytes
from clew.messages import Message
from clew.testing import assistant, call, system, tool, user

TALK = [system("s"), user("u"), assistant(None, [call("ls")]), tool("call_1", "a.txt"), assistant("done")]


def odd(value: object) -> Message:
    return {"role": "user", "content": value}  # type: ignore[typeddict-item]


def test_a_marker_does_not_change_a_fingerprint() -> None:
    for native in (False, True):
        for plain, marked in zip(TALK, apply_cache_control(TALK, native=native), strict=True):
            assert fingerprint(plain) == fingerprint(marked)


def test_a_marker_inside_a_tool_result_does_not_change_a_fingerprint() -> None:
    def result(**also: Any) -> Message:
        inner = {"type": "text", "text": "ok", **also}
        return odd([{"type": "tool_result", "tool_use_id": "t", "content": [inner]}])

    assert fingerprint(result()) == fingerprint(result(cache_control={"type": "ephemeral"}))


def test_what_a_call_passes_under_that_name_is_content() -> None:
    def use(**given: Any) -> Message:
        return odd([{"type": "tool_use", "id": "t", "name": "n", "input": given}])

    assert fingerprint(use()) != fingerprint(use(cache_control={"type": "ephemeral"}))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"role": "user", "content": "a"}, {"content": "a", "role": "user"}),
        (user("a"), user("a ")),
        (user("a"), assistant("a")),
        (user(""), odd(None)),
        (odd([]), odd("")),
        (odd(1), odd(1.0)),
        (odd(1), odd(True)),
        (odd("1"), odd(1)),
        (odd(["ab", "c"]), odd(["a", "bc"])),
        (odd([["a"], "b"]), odd([["a", "b"]])),
        (odd([{"type": "text", "text": "a", "citations": []}]), user("a")),
        (odd("\ud800"), odd("\ud801")),
        (odd(0.0), odd(-0.0)),
    ],
)
def test_what_is_not_the_same_has_another_fingerprint(one: Message, other: Message) -> None:
    assert fingerprint(one) != fingerprint(other)


class Colour(StrEnum):
    RED = "red"


def test_odd_values_have_a_fingerprint() -> None:
    inside: list[Any] = [1]
    inside.append(inside)
    deep: Any = "end"
    for _ in range(50_000):
        deep = [deep]
    values = [float("nan"), float("inf"), 10**5_000, b"raw", {"a": {1, 2}}, {None: 1, 2: 3}, (1, 2), inside, deep]
    digests = {fingerprint(odd(value)) for value in values}
    assert len(digests) == len(values)
    assert fingerprint(odd(Colour.RED)) == fingerprint(odd("red"))
    assert fingerprint(odd((1, 2))) == fingerprint(odd([1, 2]))
    assert len(fingerprint(None)) == 16  # type: ignore[arg-type]


def test_a_value_that_occurs_twice_is_written_twice() -> None:
    twice = ["x"]
    assert canonical_bytes([twice, twice]) == canonical_bytes([["x"], ["x"]])


def test_fingerprints_are_the_same_in_every_process() -> None:
    script = (
        "from clew.caching import *; print(fingerprint({'role': 'user', 'content': 'été'}).hex(),"
        " PrefixChain([{'role': 'user', 'content': 'a'}], scope='key').digest.hex())"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert shown == [fingerprint(user("été")).hex(), PrefixChain([user("a")], scope="key").digest.hex()]


def test_a_chain_knows_each_of_its_prefixes() -> None:
    chain = PrefixChain(TALK)
    assert len(chain) == 5
    for length in range(6):
        assert chain.digest_at(length) == PrefixChain(TALK[:length]).digest
    with pytest.raises(IndexError, match="5 messages has no prefix of 6"):
        chain.digest_at(6)


def test_a_chain_grows_as_messages_come() -> None:
    chain = PrefixChain(TALK[:2])
    for message in TALK[2:]:
        chain.append(message)
    assert chain.digest == PrefixChain(TALK).digest


def test_a_longer_chain_extends_a_shorter_one_and_not_the_other_way() -> None:
    short, long = PrefixChain(TALK[:3]), PrefixChain(TALK)
    assert extends(short, long)
    assert extends(long, long)
    assert extends(PrefixChain(), long)
    assert not extends(long, short)
    assert not extends(PrefixChain([user("x")]), long)


def test_chains_of_different_scope_share_nothing() -> None:
    assert not extends(PrefixChain(scope="key 1"), PrefixChain(TALK, scope="key 2"))
    assert shared_length(PrefixChain(TALK, scope="key 1"), PrefixChain(TALK, scope="key 2")) == 0


def test_the_longest_known_prefix_is_found() -> None:
    known = {PrefixChain(TALK[:length]).digest for length in (1, 3)}
    assert PrefixChain(TALK).longest_known(known) == 3
    assert PrefixChain([*TALK[:2], user("edited")]).longest_known(known) == 1
    assert PrefixChain([user("x")]).longest_known(known) == 0


def test_a_branch_goes_its_own_way() -> None:
    chain = PrefixChain(TALK, scope="key")
    branch = chain.branch(2)
    branch.append(user("something else"))
    assert shared_length(chain, branch) == 2
    assert len(chain) == 5
    assert branch.digest == PrefixChain([*TALK[:2], user("something else")], scope="key").digest


def test_a_request_that_continues_has_no_divergence() -> None:
    earlier = apply_cache_control(TALK[:3])
    assert divergence(earlier, apply_cache_control(TALK)) is None
    assert divergence([], TALK) is None


def test_an_edited_message_is_named_with_the_place_and_without_its_text() -> None:
    edited = [*TALK[:3], tool("call_1", "a.text"), *TALK[4:]]
    found = divergence(TALK, edited)
    assert found is not None
    assert (found.section, found.index, found.path) == ("messages", 3, "messages[3].content")
    assert str(found) == "messages[3].content differs from char 3 on; it had 5 chars and has 6"


@pytest.mark.parametrize(
    ("later", "shown"),
    [
        (TALK[:2], "messages[2] is missing; the earlier request had 5 messages, this one has 2"),
        ([{"content": "s", "role": "system"}, *TALK[1:]], "messages[0] has other keys or another order of them"),
        ([system("s"), odd(["u"]), *TALK[2:]], "messages[1].content was str and is list"),
        ([system("s"), odd(None), *TALK[2:]], "messages[1].content was str and is NoneType"),
        (
            [*TALK[:2], assistant(None, [call("ls"), call("cat")]), *TALK[3:]],
            "messages[2].tool_calls[1] is new there",
        ),
    ],
)
def test_each_kind_of_divergence_is_told(later: list[Message], shown: str) -> None:
    assert str(divergence(TALK, later)).startswith(shown)


def test_what_is_gone_from_a_list_is_told() -> None:
    before, after = [user([{"type": "x"}, {"type": "y"}])], [user([{"type": "x"}])]
    assert str(divergence(before, after)) == "messages[0].content[1] is gone"


def test_a_value_inside_itself_can_be_compared() -> None:
    inside: list[Any] = [1]
    inside.append(inside)
    assert divergence([odd([inside, 1])], [odd([inside, 2])]) is not None
    other: list[Any] = [1]
    other.append([other])
    assert divergence([odd(inside)], [odd(other)]) is not None


def test_system_and_tools_beside_the_messages_have_to_stay_too() -> None:
    earlier = {"system": "s", "tools": [{"name": "ls"}], "messages": [user("u")]}
    later = {**earlier, "messages": [user("u"), assistant("a")]}
    assert divergence(mark_anthropic_request(earlier), mark_anthropic_request(later)) is None
    assert str(divergence(earlier, {**later, "tools": [{"name": "cat"}]})).startswith("tools[0].name differs")
    assert str(divergence(earlier, {**later, "system": "S"})).startswith("system differs from char 0")
    found = divergence(earlier, {**later, "tools": [{"name": "ls", MARKER: {"type": "ephemeral"}}, {"name": "cat"}]})
    assert found is not None
    assert (found.section, found.index) == ("tools", 1)
