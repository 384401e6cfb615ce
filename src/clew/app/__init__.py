"""The construction of objects from names in the config: engines, models, and the agent with its tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clew.lazy import lazy_names

if TYPE_CHECKING:
    from clew.app.agent_app import AgentApp, AgentAppOptions, open_agent_app
    from clew.app.dashboard_app import DashboardAppOptions, LocalDashboard, open_dashboard
    from clew.app.engines import (
        DEFAULT_ENGINE,
        ENGINE_KEY,
        EngineChoice,
        LoadedEngine,
        engine_setup,
        named_engine,
    )
    from clew.app.gateway_app import GatewayAppOptions, gateway_options, gateway_token, gateway_upstreams, open_gateway
    from clew.app.models import ENDPOINT_STATE, check_model, configured_summary_model, settings_at, target_of
    from clew.errors import NoModel

__all__ = [
    "DEFAULT_ENGINE",
    "ENDPOINT_STATE",
    "ENGINE_KEY",
    "AgentApp",
    "AgentAppOptions",
    "DashboardAppOptions",
    "EngineChoice",
    "GatewayAppOptions",
    "LoadedEngine",
    "LocalDashboard",
    "NoModel",
    "check_model",
    "configured_summary_model",
    "engine_setup",
    "gateway_options",
    "gateway_token",
    "gateway_upstreams",
    "named_engine",
    "open_agent_app",
    "open_dashboard",
    "open_gateway",
    "settings_at",
    "target_of",
]

# Compacting a file needs no provider and no agent.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".agent_app": "AgentApp AgentAppOptions open_agent_app",
        ".dashboard_app": "DashboardAppOptions LocalDashboard open_dashboard",
        ".engines": "DEFAULT_ENGINE ENGINE_KEY EngineChoice LoadedEngine engine_setup named_engine",
        ".gateway_app": "GatewayAppOptions gateway_options gateway_token gateway_upstreams open_gateway",
        ".models": "ENDPOINT_STATE NoModel check_model configured_summary_model settings_at target_of",
    },
)
