"""A history on a wire that grows, and messages that come back from a store."""

from __future__ import annotations

import json

from clew.messages import GrowingHistory, with_pieces_of


def test_a_shortened_message_from_the_store_is_written_with_the_items_that_its_calls_came_from() -> None:
    history = GrowingHistory("responses")
    called = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "read", "arguments": "{}"}
    thought = {"type": "reasoning", "id": "rs_1", "summary": []}
    (own,) = history.extend([thought, called])
    stored = json.loads(json.dumps({**own, "content": "What was folded."}))
    assert history.write([stored])[-1] == {key: value for key, value in called.items() if key != "id"}
    written = history.write([with_pieces_of(own, stored)])
    assert written[-1] is called
    assert thought in written
    stored["tool_calls"][0]["id"] = "c2"
    assert with_pieces_of(own, stored)["tool_calls"] == stored["tool_calls"]
