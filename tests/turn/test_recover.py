"""What a refused request is made smaller by: a lower output cap, and pictures left out."""

from __future__ import annotations

import pytest

from clew.engines import Fate
from clew.messages import Message, Part, images_of, text_of
from clew.providers import ErrorClass
from clew.testing import assistant, user
from clew.turn.recover import drop_media, next_output_cap, placeholder

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


def parts(*found: Part) -> list[Part]:
    return [*found, {"type": "text", "text": "look"}]


def test_older_media_become_placeholders_and_everything_else_is_the_same_object() -> None:
    messages: list[Message] = [user(parts(PICTURE)), assistant("seen"), user(parts(PICTURE))]
    done = drop_media(messages, 100, keep=1)
    assert done.fates == (Fate.PRUNED, Fate.KEPT, Fate.KEPT)
    assert text_of(done.messages[0]) == f"{placeholder('picture')}\nlook"
    assert done.messages[1] is messages[1]
    assert done.messages[2] is messages[2]
    assert not any(images_of(message) for message in drop_media(messages, 100, keep=0).messages)


def test_the_newest_media_are_kept_also_within_a_message() -> None:
    named: list[Part] = [{"type": "image_url", "image_url": {"url": f"https://example.invalid/{n}.png"}} for n in "abc"]
    messages: list[Message] = [user(parts(*named[:2])), user(parts(named[2]))]
    kept = [picture for message in drop_media(messages, 100, keep=2).messages for picture in images_of(message)]
    assert kept == named[1:]


def test_documents_are_media_too() -> None:
    document: Part = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}}
    messages: list[Message] = [user(parts(document)), user(parts(PICTURE))]
    done = drop_media(messages, 100, keep=1)
    assert text_of(done.messages[0]) == f"{placeholder('document')}\nlook"
    assert done.messages[1] is messages[1]


def test_without_media_nothing_changes() -> None:
    assert not drop_media([user("a"), assistant("b")], 100, keep=0).changed
