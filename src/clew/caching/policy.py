"""Whether requests to a model get cache markers, in which style and for how long, and the line that says so.

Reads the table in `routes`; sends nothing and marks nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from clew.caching.markers import Ttl, checked_ttl
from clew.caching.routes import CLAUDE, ROUTES, TOO_OLD, Route


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """What caching means for one model through one provider."""

    enabled: bool
    native: bool
    """Markers for an Anthropic dialect; otherwise inside the content parts, as OpenRouter wants them."""
    ttl: Ttl
    why: str
    model: str
    through: str
    """Who serves the model."""
    takes_key: bool = False
    """Whether to send `prompt_cache_key`."""

    def describe(self) -> str:
        """The line at start-up."""
        if self.enabled:
            return f"prompt caching: on for {self.model} through {self.through}, TTL {self.ttl} ({self.why})"
        return f"prompt caching: off for {self.model} through {self.through} ({self.why})"


def caching_for(model: str, provider: str | None = None, base_url: str | None = None, ttl: str = "5m") -> CachePolicy:
    """The policy for a model. Where the host of `base_url` is a known one it has the last word on who serves it."""
    chosen = checked_ttl(ttl)
    host, path = _host_and_path(base_url)
    speaks_anthropic = _named(provider) == "anthropic" or "/anthropic" in path
    route = _route_of_host(host) or _route_of_provider(provider)
    through = route.name if route and not _is_proxied(route, host) else host or provider or "an unnamed provider"
    enabled, why = _markers(model, route, speaks_anthropic)
    native = enabled and (speaks_anthropic or (route is not None and route.honours == "native"))
    if enabled and route and chosen == "1h" and not re.search(route.one_hour, model.lower()):
        chosen, why = "5m", f"{route.name} keeps this model for 5m only, so 1h is not used"
    return CachePolicy(enabled, native, chosen, why, model, through, bool(route and route.takes_key))


def _markers(model: str, route: Route | None, speaks_anthropic: bool) -> tuple[bool, str]:
    """Whether there is a point in markers, and the reason."""
    name = model.lower()
    if not CLAUDE.search(name):
        return False, route.fact if route and route.honours == "nothing" else "markers are for Claude models"
    if TOO_OLD.search(name):
        return False, "this Claude model is older than prompt caching"
    if route is not None and route.honours != "nothing":
        return True, route.fact
    if speaks_anthropic:
        return True, "it speaks Anthropic's wire"
    if route is not None:
        return False, route.fact
    return False, "not known to honour cache_control; name the provider in the config if it does"


def _is_proxied(route: Route, host: str) -> bool:
    """Whether a provider of this name is reached at a host that is not its own."""
    return bool(host and route.hosts) and route is not _route_of_host(host)


def _route_of_host(host: str) -> Route | None:
    return next((route for route in ROUTES if any(fnmatchcase(host, pattern) for pattern in route.hosts)), None)


def _route_of_provider(provider: str | None) -> Route | None:
    name = _named(provider)
    return next((route for route in ROUTES if name in route.providers), None)


def _named(provider: str | None) -> str:
    return (provider or "").strip().lower().replace("_", "-").replace(" ", "-")


def _host_and_path(base_url: str | None) -> tuple[str, str]:
    """Host and path only: a URL can hold credentials, and this ends up on the screen."""
    if not base_url:
        return "", ""
    try:
        parts = urlsplit(base_url if "://" in base_url else f"//{base_url}")
        if parts.scheme not in ("", "http", "https"):
            return "", ""  # no server: a model in a file
        return (parts.hostname or "").lower(), parts.path.lower()
    except ValueError:
        return "", ""
