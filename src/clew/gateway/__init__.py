"""The gateway: any existing agent goes through it by changing one base URL, and its conversations stay in the window.

It speaks the providers' own wires in front of its upstreams, recognises conversations in stateless requests, folds them
with the same turn as everything else, and passes every byte that it has no reason to change. Knows wires and HTTP; what
a fold is, it does not know.
"""

from clew.gateway.admission import RequestBounds, is_loopback
from clew.gateway.aws import AwsCredential, aws_credential
from clew.gateway.callers import Caller, Callers, Refusal
from clew.gateway.client_checks import check_clients
from clew.gateway.client_setups import (
    ANTHROPIC,
    CLIENT_SETUPS,
    ENVIRONMENT,
    GOOGLE,
    OPENAI,
    ClientSetup,
    ServedModel,
    fill_in,
    find_program,
    served_model,
    setup_named,
    setups_for,
)
from clew.gateway.event_feed import EventFeed
from clew.gateway.exchange import Exchanges
from clew.gateway.hosted import NOT_HOSTED, CallerProvider, HostedCaller, HostedConversations, asks_with_own_credential
from clew.gateway.hosting import HostingRoutes, add_hosting
from clew.gateway.keys import (
    KEY_PREFIX,
    CallerCredential,
    KeyState,
    hash_key,
    is_access_key,
    is_same_secret,
    make_key,
    owner_of_credential,
    read_credential,
    state_of_key,
)
from clew.gateway.limits import CallLimits, CallMeter
from clew.gateway.metrics import GatewayMetrics
from clew.gateway.observers import LOG_FORMATS, ExchangeLog, GatewayLogFormatter, GatewayObserver, Observers
from clew.gateway.page_server import PageServer, ServedPages
from clew.gateway.probe import ProbeFinding, probe_gateway
from clew.gateway.problems import Refused
from clew.gateway.records import HANDOFF_WRITERS, MODES, ExchangeRecord, HandoffWriter, Mode
from clew.gateway.relay import PING_SECONDS
from clew.gateway.server import OPEN_PATHS, TOKEN_HEADER, GatewayOptions, GatewayServer, caller_of
from clew.gateway.shared_limits import SharedCallCounts
from clew.gateway.telemetry import GatewayTelemetry, exporting_provider
from clew.gateway.upstream import Upstreams, UpstreamServer
from clew.gateway.wires import KINDS

__all__ = [
    "ANTHROPIC",
    "CLIENT_SETUPS",
    "ENVIRONMENT",
    "GOOGLE",
    "HANDOFF_WRITERS",
    "KEY_PREFIX",
    "KINDS",
    "LOG_FORMATS",
    "MODES",
    "NOT_HOSTED",
    "OPENAI",
    "OPEN_PATHS",
    "PING_SECONDS",
    "TOKEN_HEADER",
    "AwsCredential",
    "CallLimits",
    "CallMeter",
    "Caller",
    "CallerCredential",
    "CallerProvider",
    "Callers",
    "ClientSetup",
    "EventFeed",
    "ExchangeLog",
    "ExchangeRecord",
    "Exchanges",
    "GatewayLogFormatter",
    "GatewayMetrics",
    "GatewayObserver",
    "GatewayOptions",
    "GatewayServer",
    "GatewayTelemetry",
    "HandoffWriter",
    "HostedCaller",
    "HostedConversations",
    "HostingRoutes",
    "KeyState",
    "Mode",
    "Observers",
    "PageServer",
    "ProbeFinding",
    "Refusal",
    "Refused",
    "RequestBounds",
    "ServedModel",
    "ServedPages",
    "SharedCallCounts",
    "UpstreamServer",
    "Upstreams",
    "add_hosting",
    "asks_with_own_credential",
    "aws_credential",
    "caller_of",
    "check_clients",
    "exporting_provider",
    "fill_in",
    "find_program",
    "hash_key",
    "is_access_key",
    "is_loopback",
    "is_same_secret",
    "make_key",
    "owner_of_credential",
    "probe_gateway",
    "read_credential",
    "served_model",
    "setup_named",
    "setups_for",
    "state_of_key",
]
