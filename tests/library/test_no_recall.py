"""Without a store nothing says that an original can be opened: there is neither `recall` nor an undo."""

from __future__ import annotations

from typing import Any

import pytest

import clew
from clew.testing import assistant, call, tool, user

PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aaaa"}}
LOG = "".join(f"ship {line}: berth {line * 31}, cargo salt, master aboard\n" for line in range(60))


def history() -> list[Any]:
    messages: list[Any] = [user(f"Read it all.\n{LOG * 20}"), assistant("Yes.")]
    for number in range(30):
        read = [call("terminal", {"command": f"cat {number}"}, f"c{number}")]
        messages += [user(f"Day {number}?"), assistant(None, read), tool(f"c{number}", f"{number}\n{LOG}")]
        messages += [assistant(f"Day {number}: salt.")]
    look = [call("look", id=f"l{number}") for number in range(3)]
    messages += [user("Look."), assistant(None, look)]
    messages += [
        {**tool(f"l{number}", ""), "content": [{"type": "text", "text": LOG * 9}, PICTURE]} for number in range(3)
    ]
    return messages


@pytest.mark.parametrize("how", [{"target_tokens": 3_000}, {"context_length": 8_000, "engine": "lcm"}])
def test_nothing_names_an_original_that_could_be_opened(how: dict[str, Any]) -> None:
    messages = history()
    for _ in range(2):
        done = clew.compress(messages, **how)
        assert done.changed
        own = [message for message in done.messages if "[Clew handoff]" not in str(message.get("content"))]
        assert "left out" in str(own) or "(shortened)" in str(own)
        assert "whole: m" not in str(own)
        assert not any("recall" in warning or "undone" in warning for warning in done.warnings)
        messages = [*done.messages, *(assistant("Looked."), *history()[2:])]


def test_with_a_store_a_shortened_message_names_its_original() -> None:
    with clew.Projection(context_length=8_000) as projection:
        shown = projection.fit(history())
        assert "whole: m" in str(shown)
