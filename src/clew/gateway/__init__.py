"""The gateway: any existing agent goes through it by changing one base URL, and its conversations stay in the window.

It speaks the providers' own wires in front of one upstream, recognises conversations in stateless requests, folds them
with the same turn as everything else, and passes every byte that it has no reason to change. Knows wires and HTTP; what
a fold is, it does not know.
"""

from clew.gateway.exchange import MODES, Caller, ExchangeRecord, Exchanges, Mode, PassedProvider
from clew.gateway.server import GatewayOptions, GatewayServer, Refusal
from clew.gateway.upstream import Upstream

__all__ = [
    "MODES",
    "Caller",
    "ExchangeRecord",
    "Exchanges",
    "GatewayOptions",
    "GatewayServer",
    "Mode",
    "PassedProvider",
    "Refusal",
    "Upstream",
]
