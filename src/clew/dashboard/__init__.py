"""The dashboard: a page that shows a store live, with the calls that it makes.

Reads the store and shows what one owner may see: sessions, the requests of a session, its tree, its handoffs, what
fills windows. It changes nothing; actions of a person use the API of hosted conversations, which is served at the same
address. Knows no gateway and no upstream: its host decides how people sign in.
"""

from clew.dashboard.catalog import SessionCatalog
from clew.dashboard.routes import PAGE_HEADERS, DashboardOptions, DashboardRoutes, is_dashboard_path
from clew.dashboard.sign_in import (
    COOKIE_PATH,
    CSRF_HEADER,
    CookieSessions,
    DashboardRefusal,
    LaunchSignIn,
    SignedIn,
    SignIn,
    SignInKind,
    Visitor,
)
from clew.dashboard.window_content import WindowLimits

__all__ = [
    "COOKIE_PATH",
    "CSRF_HEADER",
    "PAGE_HEADERS",
    "CookieSessions",
    "DashboardOptions",
    "DashboardRefusal",
    "DashboardRoutes",
    "LaunchSignIn",
    "SessionCatalog",
    "SignIn",
    "SignInKind",
    "SignedIn",
    "Visitor",
    "WindowLimits",
    "is_dashboard_path",
]
