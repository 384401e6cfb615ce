"""Reading a message whose parts are of no shape that anybody writes."""

from __future__ import annotations

from typing import Any

import pytest

from clew.messages import convert, images_of, text_of, with_text_after_system, without_images
from clew.messages.parts import media_of, text_of_part


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
    assert text_of_part({"type": kind, "text": "so be it"}) is None
    assert media_of({"type": kind, "image_url": "data:image/png;base64,AAAA"}) is None


PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


@pytest.mark.parametrize("content", ["text", None, [], [{"type": "text", "text": "a"}], 7])
def test_a_message_without_images_stays_the_same_object(content: Any) -> None:
    message: Any = {"role": "user", "content": content}
    assert without_images(message, "[left out]") is message


def test_each_image_is_replaced_by_a_placeholder() -> None:
    odd = {"type": ["image"], "text": "b"}
    message: Any = {"role": "tool", "tool_call_id": "a", "content": [PICTURE, odd, dict(PICTURE), "text"]}
    placeholder = {"type": "text", "text": "[left out]"}
    assert without_images(message, "[left out]") == {**message, "content": [placeholder, odd, placeholder, "text"]}
    assert message["content"][0] is PICTURE


@pytest.mark.parametrize("as_block", [True, False])
def test_a_text_is_appended_to_a_system_prompt(as_block: bool) -> None:
    block, note = {"type": "text", "text": "Be brief."}, {"type": "text", "text": "A note."}
    blocks: Any = {"role": "system", "content": [block], "name": "x"}
    assert with_text_after_system(blocks, "A note.", as_block=as_block) == {**blocks, "content": [block, note]}
    text: Any = {"role": "system", "content": "Be brief."}
    expected = [block, note] if as_block else "Be brief.\n\nA note."
    assert with_text_after_system(text, "A note.", as_block=as_block) == {**text, "content": expected}
