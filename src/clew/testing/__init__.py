"""Tools for tests: builders of messages and histories, fakes, and the contract suite of context engines.

The scripted provider, the mock upstream that speaks the four real wires, and the runtime over a real store are
imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.lazy import lazy_names
from clew.testing.engine_contract import EngineContract
from clew.testing.messages import assistant, call, synthetic_history, system, tool, user
from clew.testing.plain_engine import MemoryEngineHost, PlainEngine

if TYPE_CHECKING:
    from clew.testing.runtime import Flow, PrefixChecker, flow_with
    from clew.testing.scripted import ScriptedProvider, breaks_off, calls, overflow, refuses, says
    from clew.testing.upstream import StreamedAnswer, Upstream, UpstreamAnswer, UpstreamFault, UpstreamRules

__all__ = [
    "EngineContract",
    "Flow",
    "MemoryEngineHost",
    "PlainEngine",
    "PrefixChecker",
    "ScriptedProvider",
    "StreamedAnswer",
    "Upstream",
    "UpstreamAnswer",
    "UpstreamFault",
    "UpstreamRules",
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

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".runtime": "Flow PrefixChecker flow_with",
        ".scripted": "ScriptedProvider breaks_off calls overflow refuses says",
        ".upstream": "StreamedAnswer Upstream UpstreamAnswer UpstreamFault UpstreamRules",
    },
)
