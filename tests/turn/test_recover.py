"""What a refused request is made smaller by: a lower output cap, and pictures left out."""

from __future__ import annotations

import pytest

from clew.engines import Fate
from clew.messages import Message, Part, images_of, text_of
from clew.providers import ErrorClass
from clew.testing import assistant, user
from clew.turn.recover import PLACEHOLDER, drop_images, next_output_cap

PICTURE: Part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


@pytest.mark.parametrize(
    ("asked", "fault", "expected"),
    [
        (8_000, ErrorClass("output_cap_too_large", available_output=3_000), 3_000),
        (8_000, ErrorClass("output_cap_too_large"), 4_000),
        (None, ErrorClass("output_cap_too_large", requested_output=2_000), 1_000),
        (None, ErrorClass("output_cap_too_large"), 4_096),
        (2_000, ErrorClass("output_cap_too_large", available_output=5_000), 1_000),
        (8_000, ErrorClass("output_cap_too_large", available_output=3_000, input_is_at_least=True), 1_500),
        (8_000, ErrorClass("output_cap_too_large", available_output=3), None),
    ],
)
def test_the_output_cap_is_what_there_is_room_for_or_half(
    asked: int | None, fault: ErrorClass, expected: int | None
) -> None:
    assert next_output_cap(asked, 0, fault) == expected


def test_a_cap_is_lowered_three_times_at_most() -> None:
    assert next_output_cap(8_000, 3, ErrorClass("output_cap_too_large")) is None


def test_pictures_become_placeholders_and_everything_else_is_the_same_object() -> None:
    messages: list[Message] = [
        user([PICTURE, {"type": "text", "text": "old"}]),
        assistant("seen"),
        user([{"type": "text", "text": "new"}, PICTURE]),
    ]
    done = drop_images(messages, 100, keep_newest=True)
    assert done.fates == (Fate.PRUNED, Fate.KEPT, Fate.KEPT)
    assert text_of(done.messages[0]) == f"{PLACEHOLDER}\nold"
    assert done.messages[1] is messages[1]
    assert done.messages[2] is messages[2]
    assert not any(images_of(message) for message in drop_images(messages, 100, keep_newest=False).messages)


def test_without_pictures_nothing_changes() -> None:
    assert not drop_images([user("a"), assistant("b")], 100, keep_newest=False).changed
