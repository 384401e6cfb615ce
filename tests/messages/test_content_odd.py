"""Reading a message whose parts are of no shape that anybody writes."""

from __future__ import annotations

from typing import Any

import pytest

from clew.messages import convert, images_of, text_of
from clew.messages.parts import media_of, text_in


@pytest.mark.parametrize("kind", [[], {}, ["image_url"], None, 7])
def test_a_part_whose_type_is_no_text_is_no_picture(kind: Any) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    message: Any = {"role": "user", "content": [{"type": kind, "text": "so be it"}, picture]}
    assert images_of(message) == [picture]
    assert text_of(message) == "so be it"


@pytest.mark.parametrize("kind", [[], {}, ["text"], None, 7])
@pytest.mark.parametrize("source", ["anthropic", "responses"])
@pytest.mark.parametrize("target", ["openai_chat", "anthropic", "responses"])
def test_a_part_whose_type_is_no_text_is_written_on_every_wire(kind: Any, source: Any, target: Any) -> None:
    part = {"type": kind, "text": "so be it"}
    messages = {
        "anthropic": [
            {"role": "user", "content": [part]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "see", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [part]}]},
        ],
        "responses": [
            {"type": "message", "role": "user", "content": [part]},
            {"type": "function_call", "call_id": "t", "name": "see", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "t", "output": [part]},
        ],
    }
    assert "so be it" in str(convert(messages[source], target, dialect=source))


@pytest.mark.parametrize("kind", [[], {}, ["text"], None, 7])
def test_a_part_whose_type_is_no_text_has_neither_text_nor_picture_of_a_wire(kind: Any) -> None:
    assert text_in({"type": kind, "text": "so be it"}) is None
    assert media_of({"type": kind, "image_url": "data:image/png;base64,AAAA"}) is None
