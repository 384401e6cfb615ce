"""Reading a message whose parts are of no shape that anybody writes."""

from __future__ import annotations

from typing import Any

import pytest

from clew.messages import images_of, text_of


@pytest.mark.parametrize("kind", [[], {}, ["image_url"], None, 7])
def test_a_part_whose_type_is_no_text_is_no_picture(kind: Any) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    message: Any = {"role": "user", "content": [{"type": kind, "text": "so be it"}, picture]}
    assert images_of(message) == [picture]
    assert text_of(message) == "so be it"
