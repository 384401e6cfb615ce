"""The replay against a simulated cache: its rules hold, and every policy is accounted for. No figure is asserted."""

from __future__ import annotations

import gateway_money
import money
from _prefix_cache import LIFETIME_SECONDS, Blocks, PrefixCache
from clew.testing import assistant, system, user
from tests.support.history import synthetic_history

PROMPT = system("You are a careful engineer. " * 400)


def test_what_was_sent_is_read_and_only_what_is_new_is_written() -> None:
    blocks = Blocks()
    cache, first = PrefixCache(blocks, 500), [PROMPT, user("one " * 500)]
    sent = cache.send(first, 0.0)
    assert sent.cache_read_tokens == 0 and sent.cache_write_tokens == 500 + blocks.tokens(first)
    later = [*first, assistant("two " * 300), user("three " * 300)]
    again = cache.send(later, 10.0)
    assert again.cache_read_tokens == sent.cache_write_tokens
    assert again.cache_write_tokens == blocks.tokens(later[2:]) and again.input_tokens == 0


def test_an_entry_lives_five_minutes_after_its_last_use() -> None:
    cache, messages = PrefixCache(Blocks(), 0), [PROMPT, user("hello " * 50)]
    cache.send(messages, 0.0)
    assert cache.send(messages, LIFETIME_SECONDS - 1).cache_read_tokens > 0
    assert cache.send(messages, 2 * LIFETIME_SECONDS - 2).cache_read_tokens > 0
    assert cache.send(messages, 4 * LIFETIME_SECONDS).cache_read_tokens == 0


def test_a_short_prompt_is_not_cached() -> None:
    cache, messages = PrefixCache(Blocks(), 0), [system("Be brief."), user("hello")]
    cache.send(messages, 0.0)
    sent = cache.send(messages, 1.0)
    assert sent.cache_read_tokens == sent.cache_write_tokens == 0 and sent.input_tokens > 0


def test_what_stands_behind_the_breakpoints_is_neither_read_nor_written() -> None:
    blocks = Blocks()
    cache, messages = PrefixCache(blocks, 0), [PROMPT, user("one " * 500)]
    cache.send(messages, 0.0)
    sent = cache.send(messages, 1.0, [user("only now " * 200)])
    assert sent.cache_read_tokens == blocks.tokens(messages) and sent.cache_write_tokens == 0
    assert sent.input_tokens == blocks.tokens([user("only now " * 200)])


def test_a_note_behind_the_system_prompt_leaves_the_prompt_cached() -> None:
    cache = PrefixCache(Blocks(), 0)
    written = cache.send([PROMPT, user("one")], 0.0)
    noted = {"role": "system", "content": [{"type": "text", "text": PROMPT["content"]}, {"type": "text", "text": "n"}]}
    sent = cache.send([noted, user("another")], 1.0)  # type: ignore[list-item]
    assert 0 < sent.cache_read_tokens < written.cache_write_tokens + 1


def test_every_policy_sends_every_call() -> None:
    history = money.long_session([synthetic_history(90), synthetic_history(60, seed=1)], 60_000)
    rows, compactions = money.compared(history, [64_000])
    policies = [
        "no compaction",
        "clew, built-in",
        "clew, text",
        "clew, extending",
        "clew, finished tasks",
        "prune in place",
    ]
    assert [row["policy"] for row in rows] == policies
    calls = sum(message["role"] == "assistant" for message in history)
    assert {row["calls"] for row in rows} == {calls}
    assert all(row["compactions"] for row in rows[1:])
    assert rows[1]["summaries $"] == 0 < rows[3]["summaries $"] < rows[2]["summaries $"]
    (ways,) = compactions
    # Without the cache the whole conversation is read, and not only what is folded.
    assert ways["extending $"] < ways["text $"] < ways["cold $"]
    assert 50 < ways["from the cache %"] < 100


def test_sessions_behind_each_other_have_one_system_prompt_and_ids_of_their_own() -> None:
    history = money.long_session([[PROMPT, *synthetic_history(6)], [PROMPT, *synthetic_history(6)]])
    assert [message["role"] for message in history].count("system") == 1
    ids = [called["id"] for message in history for called in message.get("tool_calls") or ()]
    assert len(ids) == len(set(ids))


def test_through_the_gateway_every_call_fits_and_is_accounted_for() -> None:
    sessions = [money.long_session([synthetic_history(120, seed=seed)]) for seed in (1, 2)]
    direct, built_in, by_model = gateway_money.compared(sessions, 40_000, money.PACE_SECONDS, None)
    assert direct["calls"] == built_in["calls"] == by_model["calls"]
    for through in (built_in, by_model):
        assert direct["refused"] and not through["refused"] and through["folds"] >= 2
    assert built_in["cost $"] < by_model["cost $"] and built_in["summaries $"] == 0 < by_model["summaries $"]
