"""The hash chain of a history."""

from __future__ import annotations

from clew.messages import digest
from clew.store import NewMessage, chains_of
from clew.store.rows import FIRST_CHAIN, chains_after, next_chain
from clew.testing import user


def test_a_chain_depends_on_all_messages_before() -> None:
    a, b = user("a"), user("b")
    assert chains_after(FIRST_CHAIN, [a, b])[1] != chains_after(FIRST_CHAIN, [b, b])[1]
    assert next_chain(FIRST_CHAIN, user("ab")) != next_chain(FIRST_CHAIN, {"role": "user", "content": "a", "name": "b"})


def test_a_known_digest_gives_the_chain_of_its_message() -> None:
    history = [user("a"), user("b")]
    known = [NewMessage(message, digest=digest(message)) for message in history]
    assert chains_of(known) == chains_of(history) == chains_after(FIRST_CHAIN, history)
