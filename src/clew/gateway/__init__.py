"""The gateway: any existing agent goes through it by changing one base URL, and its conversations stay in the window.

It speaks the providers' own wires in front of its upstreams, recognises conversations in stateless requests, folds them
with the same turn as everything else, and passes every byte that it has no reason to change. Knows wires and HTTP; what
a fold is, it does not know.
"""

from clew.gateway.admission import RequestBounds, is_loopback
from clew.gateway.api import Refused
from clew.gateway.aws import AwsCredential, aws_credential
from clew.gateway.callers import (
    KEY_PREFIX,
    Caller,
    CallerCredential,
    Callers,
    CallLimits,
    CallMeter,
    Refusal,
    hash_key,
    is_access_key,
    is_same_secret,
    make_key,
    owner_of_credential,
    read_credential,
    state_of_key,
)
from clew.gateway.clients import (
    ANTHROPIC,
    CLIENT_SETUPS,
    ENVIRONMENT,
    GOOGLE,
    OPENAI,
    ClientSetup,
    ProbeFinding,
    ServedModel,
    check_clients,
    fill_in,
    find_program,
    probe_gateway,
    served_model,
    setup_named,
    setups_for,
)
from clew.gateway.conversations import HANDOFF_WRITERS, MODES, ExchangeRecord, HandoffWriter, Mode
from clew.gateway.exchange import HOLD_SECONDS, Exchanges
from clew.gateway.hosted import NOT_HOSTED, CallerProvider, HostedCaller, HostedConversations, asks_with_own_credential
from clew.gateway.hosting import HostingRoutes, add_hosting
from clew.gateway.observe import (
    LOG_FORMATS,
    EventFeed,
    ExchangeLog,
    GatewayLogFormatter,
    GatewayMetrics,
    GatewayObserver,
    GatewayTelemetry,
    Observers,
    exporting_provider,
)
from clew.gateway.relay import PING_SECONDS
from clew.gateway.server import (
    OPEN_PATHS,
    TOKEN_HEADER,
    GatewayOptions,
    GatewayServer,
    PageServer,
)
from clew.gateway.upstream import Upstreams, UpstreamServer
from clew.gateway.wires import KINDS

__all__ = [
    "ANTHROPIC",
    "CLIENT_SETUPS",
    "ENVIRONMENT",
    "GOOGLE",
    "HANDOFF_WRITERS",
    "HOLD_SECONDS",
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
    "Mode",
    "Observers",
    "PageServer",
    "ProbeFinding",
    "Refusal",
    "Refused",
    "RequestBounds",
    "ServedModel",
    "UpstreamServer",
    "Upstreams",
    "add_hosting",
    "asks_with_own_credential",
    "aws_credential",
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
