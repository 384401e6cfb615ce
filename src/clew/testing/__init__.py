"""Tools for tests: builders of messages, fakes, and the contract suite of context engines.

The scripted provider, the mock upstream that speaks the four real wires, and the checker of prefixes are imported on
first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.lazy import lazy_names
from clew.testing.engine_contract import EngineContract
from clew.testing.messages import assistant, call, system, tool, user

if TYPE_CHECKING:
    from clew.testing.runtime import PrefixChecker
    from clew.testing.scripted import ScriptedProvider, breaks_off, calls, overflow, refuses, says
    from clew.testing.upstream import StreamedAnswer, Upstream, UpstreamAnswer, UpstreamFault, UpstreamRules

__all__ = [
    "EngineContract",
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
    "overflow",
    "refuses",
    "says",
    "system",
    "tool",
    "user",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".runtime": "PrefixChecker",
        ".scripted": "ScriptedProvider breaks_off calls overflow refuses says",
        ".upstream": "StreamedAnswer Upstream UpstreamAnswer UpstreamFault UpstreamRules",
    },
)
