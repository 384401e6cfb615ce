"""What identifies a message, and the hash chain of a history."""

from __future__ import annotations

import pytest

from clew.messages import Message
from clew.store import HashChain
from clew.store.rows import FIRST_CHAIN, chains_after, next_chain
from clew.testing import user


def test_a_chain_depends_on_all_messages_before() -> None:
    a, b = user("a"), user("b")
    assert chains_after(FIRST_CHAIN, [a, b])[1] != chains_after(FIRST_CHAIN, [b, b])[1]
    assert next_chain(FIRST_CHAIN, user("ab")) != next_chain(FIRST_CHAIN, {"role": "user", "content": "a", "name": "b"})


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"role": "user", "content": "a"}, {"content": "a", "role": "user"}, True),
        ({"role": "user", "content": "a"}, {"role": "user", "content": "a", "name": None}, True),
        ({"role": "assistant", "content": None}, {"role": "assistant", "content": ""}, True),
        ({"role": "user", "content": "a"}, {"role": "user", "content": "a", "cache_control": {}}, True),
        ({"role": "user", "content": "a"}, {"role": "assistant", "content": "a"}, False),
        ({"role": "user", "content": "a"}, {"role": "user", "content": "a", "name": "x"}, False),
        ({"role": "tool", "content": "a"}, {"role": "tool", "content": "a", "is_error": True}, False),
        ({"role": "tool", "content": "a"}, {"role": "tool", "content": "a", "is_error": False}, True),
        (
            # A reply as it came, and as clients send it back.
            {"role": "assistant", "content": "a", "reasoning_content": "hm", "id": "msg_1", "status": "completed"},
            {"role": "assistant", "content": "a"},
            True,
        ),
        (
            {"role": "assistant", "content": [{"type": "output_text", "text": "a", "annotations": [{"n": 1}]}]},
            {"role": "assistant", "content": "a"},
            True,
        ),
        (
            {"role": "assistant", "content": [{"type": "output_text", "text": "a"}, {"type": "image", "n": 1}]},
            {"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "image", "n": 2}]},
            False,
        ),
        (
            {"role": "assistant", "content": None, "reasoning": [{"t": 1}]},
            {"role": "assistant", "content": None, "reasoning": [{"t": 2}]},
            False,
        ),
    ],
)
def test_what_makes_another_message(one: Message, other: Message, same: bool) -> None:
    assert (next_chain(FIRST_CHAIN, one) == next_chain(FIRST_CHAIN, other)) is same


def test_a_hash_chain_gives_the_chains_of_the_whole_history() -> None:
    history = [user("a"), user("b"), user("c")]
    chain = HashChain()
    assert chain.of(history[:2]) == chains_after(FIRST_CHAIN, history[:2])
    assert chain.of(history) == chains_after(FIRST_CHAIN, history)
    edited = [history[0], user("x"), history[2]]
    assert chain.of(edited) == chains_after(FIRST_CHAIN, edited)
    assert chain.of(edited[:1]) == chains_after(FIRST_CHAIN, edited[:1])
