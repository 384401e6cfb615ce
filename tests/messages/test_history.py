"""A history on a wire that grows, and messages that come back from a store."""

from __future__ import annotations

import json

from clew.messages import History, Item


def test_a_shortened_message_from_the_store_is_written_with_the_items_that_its_calls_came_from() -> None:
    history = History("responses")
    called = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "read", "arguments": "{}"}
    thought = {"type": "reasoning", "id": "rs_1", "summary": []}
    (own,) = history.extend([thought, called])
    stored = json.loads(json.dumps({**own.message, "content": "What was folded."}))
    assert history.write([Item(stored)])[-1] == {key: value for key, value in called.items() if key != "id"}
    written = history.write([own.changed_to(stored)])
    assert written[-1] is called
    assert thought in written
    stored["tool_calls"][0]["id"] = "c2"
    assert history.write([own.changed_to(stored)])[-1]["call_id"] == "c2"


def test_an_unchanged_message_leaves_as_its_wire_items_in_any_spelling_of_the_store() -> None:
    history = History("anthropic")
    results = [{"type": "tool_result", "tool_use_id": f"t{at}", "content": "x", "odd": at} for at in range(2)]
    raw = [{"role": "user", "content": results}, {"role": "assistant", "content": "done"}]
    items = history.extend(raw)
    assert [it.part for it in items] == [0, 1, 0]
    assert history.places(items) == [0, 1]
    (left,) = history.write(items[1:2])
    assert left["content"][0] is results[1]
