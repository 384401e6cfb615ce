"""What tests are made of, shipped: builders of messages and histories, fakes, contract suites.

Nothing here is used by Clew at work. A provider whose answers are written in the test, a mock upstream that speaks the
three real wires, and whole flows over a real store are imported when they are asked for. Strategies for Hypothesis are
in `clew.testing.strategies`, which is not imported by this door because Hypothesis is needed for tests only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clew.testing.engine_contract import EngineContract
from clew.testing.messages import assistant, call, system, tool, user
from clew.testing.plain_engine import PlainEngine
from clew.testing.synthetic import synthetic_history

if TYPE_CHECKING:
    from clew.testing.runtime import Flow, PrefixWitness, flow_with
    from clew.testing.scripted import ScriptedProvider, breaks_off, calls, overflow, refuses, says
    from clew.testing.upstream import Answer, Fault, Streamed, Upstream

__all__ = [
    "Answer",
    "EngineContract",
    "Fault",
    "Flow",
    "PlainEngine",
    "PrefixWitness",
    "ScriptedProvider",
    "Streamed",
    "Upstream",
    "assistant",
    "breaks_off",
    "call",
    "calls",
    "flow_with",
    "overflow",
    "refuses",
    "says",
    "synthetic_history",
    "system",
    "tool",
    "user",
]

_LATE = {
    **dict.fromkeys(("Flow", "PrefixWitness", "flow_with"), "runtime"),
    **dict.fromkeys(("ScriptedProvider", "breaks_off", "calls", "overflow", "refuses", "says"), "scripted"),
    **dict.fromkeys(("Answer", "Fault", "Streamed", "Upstream"), "upstream"),
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module 'clew.testing' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"clew.testing.{_LATE[name]}"), name)
