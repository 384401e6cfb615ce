"""The door of `clew.testing`: all that it names is there."""

from __future__ import annotations

import clew.testing


def test_everything_that_is_offered_can_be_had() -> None:
    assert all(getattr(clew.testing, name) is not None for name in clew.testing.__all__)


async def test_a_test_tells_a_story() -> None:
    provider = clew.testing.ScriptedProvider(clew.testing.says("done"))
    assert provider.steps_left == 1
