"""The hash chain of a history."""

from __future__ import annotations

from clew.store import HashChain
from clew.store.rows import FIRST_CHAIN, chains_after, next_chain
from clew.testing import user


def test_a_chain_depends_on_all_messages_before() -> None:
    a, b = user("a"), user("b")
    assert chains_after(FIRST_CHAIN, [a, b])[1] != chains_after(FIRST_CHAIN, [b, b])[1]
    assert next_chain(FIRST_CHAIN, user("ab")) != next_chain(FIRST_CHAIN, {"role": "user", "content": "a", "name": "b"})


def test_a_hash_chain_gives_the_chains_of_the_whole_history() -> None:
    history = [user("a"), user("b"), user("c")]
    chain = HashChain()
    assert chain.of(history[:2]) == chains_after(FIRST_CHAIN, history[:2])
    assert chain.of(history) == chains_after(FIRST_CHAIN, history)
    edited = [history[0], user("x"), history[2]]
    assert chain.of(edited) == chains_after(FIRST_CHAIN, edited)
    assert chain.of(edited[:1]) == chains_after(FIRST_CHAIN, edited[:1])
