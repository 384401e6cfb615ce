"""The dashboard as the config describes it: over the local store, and on the gateway behind its keys.

What it shows is read from the store. What a person does there goes through the calls of hosted conversations, with the
cookie and the token of the page in place of a key.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256

from aiohttp import web

from clew.app.engines import EngineChoice
from clew.app.models import auxiliary_target, target_of
from clew.config import LoadedConfig, Settings, clew_home, learnt_limits_path
from clew.dashboard import (
    COOKIE_PATH,
    CookieSessions,
    DashboardOptions,
    DashboardRefusal,
    DashboardRoutes,
    LaunchSignIn,
    SessionCatalog,
    SignIn,
    SignInKind,
    Visitor,
    WindowLimits,
    is_dashboard_path,
)
from clew.engines import threshold_for
from clew.errors import ClewError
from clew.events import Events
from clew.gateway import (
    NOT_HOSTED,
    Caller,
    Callers,
    EventFeed,
    HostedCaller,
    HostedConversations,
    HostingRoutes,
    PageServer,
    Refused,
    add_hosting,
    hash_key,
    is_access_key,
    state_of_key,
)
from clew.store import AccessKey, ConversationOverview, Store
from clew.tokens import LearntLimits, window_of
from clew.turn import ModelTarget, Runtime, RuntimeOptions, ServingModel, spill_folder

HYGIENE_SHARE = 0.85
"""Of the window: on the gateway a conversation that fills so much of it is compacted before the next call. Well above
what an agent compacts at by itself, so that this is for those who do not."""
SERVED_ACTIONS = frozenset(
    {
        "change_conversation",
        "delete_conversation",
        "branch_conversation",
        "compress",
        "undo_compaction",
        "export_conversation",
    }
)
"""The calls of hosted conversations that a page may make."""
_WINDOW_TEXTS = {
    "config": "as the config says",
    "stated": "as the provider stated in an error",
    "table": "from the table that ships with Clew",
    "default": "assumed: this model is not in the table; set model.context_length if it is wrong",
}
_REFUSED_KEYS = {"revoked": "this key of Clew was revoked", "expired": "this key of Clew has expired"}
_SPENT = "the budget of this key of Clew is spent, so that one can look and change nothing"
_NO_KEYS = "this gateway has no keys yet: `clew keys create NAME` makes one; `clew dashboard` needs none"


@dataclass(frozen=True, slots=True)
class DashboardAppOptions:
    """How a local dashboard listens."""

    host: str = "127.0.0.1"
    port: int = 0
    label: str = ""
    """The store, for people."""
    on_new_link: Callable[[str], None] | None = None
    """Called with the next link when one was used."""


class LocalDashboard:
    """A dashboard that listens."""

    def __init__(self, server: PageServer, sign_in: LaunchSignIn) -> None:
        self._server = server
        self._sign_in = sign_in

    @property
    def address(self) -> str:
        return f"{self._server.address}{COOKIE_PATH}/"

    @property
    def link(self) -> str:
        """Works once, for the person who was given it."""
        return link_with(self.address, self._sign_in.token)


def link_with(address: str, token: str) -> str:
    """The link that signs in. The token is behind the `#`: browsers send that to no server, and keep it in no log."""
    return f"{address}#launch={token}"


@asynccontextmanager
async def open_dashboard(
    config: LoadedConfig, environ: Mapping[str, str], store: Store, options: DashboardAppOptions
) -> AsyncIterator[LocalDashboard]:
    """The dashboard of a local store, until the end of the block. It shows every owner's sessions: the file is theirs
    who can read it."""

    def on_used(token: str) -> None:
        if options.on_new_link is not None:
            options.on_new_link(link_with(running.address, token))

    async with AsyncExitStack() as last:
        hosted = await last.enter_async_context(_local_conversations(config, environ, store))
        sign_in = LaunchSignIn(on_used, store.unwritable)
        pages = DashboardPages(
            config.settings, environ, hosted, Callers(store), EventFeed(store, Events()), sign_in, options.label
        )
        server = await last.enter_async_context(PageServer(pages, options.host, options.port))
        pages.read_ahead()
        running = LocalDashboard(server, sign_in)
        yield running


def gateway_dashboard(
    settings: Settings, environ: Mapping[str, str], hosted: HostedConversations, callers: Callers, feed: EventFeed
) -> DashboardPages:
    """The dashboard of a gateway: each key sees what belongs to its owner."""
    return DashboardPages(settings, environ, hosted, callers, feed, KeySignIn(hosted.store), "the gateway's store")


class DashboardPages:
    """The page with all calls that it makes."""

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        hosted: HostedConversations,
        callers: Callers,
        feed: EventFeed,
        sign_in: SignIn,
        label: str,
    ) -> None:
        self._sessions = CookieSessions(sign_in)
        self._callers = callers
        self._hosting = HostingRoutes(hosted, callers, feed, self._find_asker)

        def why_not(overview: ConversationOverview) -> str | None:
            return None if hosted.may_change(overview.source) else NOT_HOSTED

        catalog = SessionCatalog(hosted.store, SessionWindows(settings, environ))
        self._routes = DashboardRoutes(catalog, self._sessions, DashboardOptions(label, why_not))

    def add_to(self, application: web.Application) -> None:
        add_hosting(application, self._hosting, COOKIE_PATH, SERVED_ACTIONS)
        self._routes.add_to(application)

    def read_ahead(self) -> None:
        """Begin to read what will be asked for, before anybody asks."""
        self._routes.read_ahead()

    def owns(self, path: str) -> bool:
        return is_dashboard_path(path)

    async def _find_asker(self, request: web.Request) -> HostedCaller:
        try:
            signed_in = await self._sessions.require(request)
        except DashboardRefusal as refusal:
            raise Refused(refusal.status, str(refusal), refusal.remedy, kind=refusal.kind) from refusal
        owner = signed_in.owner
        if owner is None:
            return HostedCaller(Caller(""), sees_everything=True)
        caller = Caller(owner, key=signed_in.visitor.name)
        return HostedCaller(caller, self._callers.upstream_credential(request, caller))


class KeySignIn:
    """Sign-in with a key of Clew. The cookie is signed with what the store keeps of the key, and ends with it."""

    kind: SignInKind = "key"

    def __init__(self, store: Store) -> None:
        self._store = store

    async def admit(self, secret: str) -> Visitor:
        hashed = hash_key(secret)
        key = await self._store.find_key(hashed) if is_access_key(secret) else None
        if key is None:
            raise DashboardRefusal(401, "sign_in", "this key of Clew is not known here", await self.note() or "")
        state = state_of_key(key, datetime.now(UTC))
        if state in _REFUSED_KEYS:
            raise DashboardRefusal(401, "sign_in", _REFUSED_KEYS[state], "`clew keys create NAME` makes another.")
        return _visitor(key, hashed)

    async def visitor(self, name: str) -> Visitor | None:
        found = await self._store.key_with_hash(name)
        if found is None or state_of_key(found[0], datetime.now(UTC)) in _REFUSED_KEYS:
            return None
        return _visitor(*found)

    async def note(self) -> str | None:
        return None if await self._store.list_keys() else _NO_KEYS


def _visitor(key: AccessKey, hashed: bytes) -> Visitor:
    reason = _SPENT if state_of_key(key, datetime.now(UTC)) == "over_budget" else None
    return Visitor(key.id, sha256(b"clew dashboard:" + hashed).digest(), key.owner, reason)


class SessionWindows:
    """Windows of sessions and their thresholds: as a gateway stored them, else by the config and the table."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._learnt = LearntLimits(learnt_limits_path(environ))
        self._known: dict[tuple[str | None, bool], WindowLimits] = {}

    def limits(self, overview: ConversationOverview) -> WindowLimits:
        kept = overview.window
        if kept is not None:
            return WindowLimits(kept.tokens, kept.threshold, _WINDOW_TEXTS.get(kept.basis, kept.basis))
        key = (overview.model, overview.source == "gateway")
        if key not in self._known:
            self._known[key] = self._find(*key)
        return self._known[key]

    def _find(self, model: str | None, is_gateway: bool) -> WindowLimits:
        main, compression = self._settings.model, self._settings.compression
        base_url = main.base_url if main.name in (None, model) else None
        configured = main.window_of(model)
        window = window_of(model, base_url=base_url, configured=configured, learnt=self._learnt)
        asked = self._settings.agent.max_tokens
        target = ModelTarget(None, model or "", max_tokens=asked, reserves_unasked=not is_gateway)
        share = HYGIENE_SHARE if is_gateway else compression.threshold
        threshold = threshold_for(window.tokens, share, ServingModel(target, window).max_output)
        basis = _WINDOW_TEXTS.get(window.source, window.source)
        ttl = "5m" if is_gateway else self._settings.prompt_caching.cache_ttl  # clients of a gateway say their own
        return WindowLimits(window.tokens, threshold if compression.enabled else None, basis, ttl)


@asynccontextmanager
async def _local_conversations(
    config: LoadedConfig, environ: Mapping[str, str], store: Store
) -> AsyncIterator[HostedConversations]:
    """The conversations of a local store, to be compacted, branched and renamed; nothing is asked of their models."""
    settings, engines = config.settings, EngineChoice(config, environ)
    writer = _summary_writer(settings, environ)

    def target(model: str) -> ModelTarget:
        return ModelTarget(None, model, None, settings.model.window_of(model), settings.agent.max_tokens)

    turn = RuntimeOptions(
        new_engine=lambda setup: engines.load(setup).engine,
        spill=spill_folder(clew_home(environ), settings),
        settings=settings,
        source="terminal",
        auxiliary=writer,
        summarizes=writer is not None,
        main_summarizes=lambda: False,
        learnt=LearntLimits(learnt_limits_path(environ)),
    )
    async with AsyncExitStack() as last:
        if writer is not None:
            last.push_async_callback(writer.sender.close)
        main = settings.model.name
        runtime = Runtime(store, target(main or "any-model"), turn)
        last.push_async_callback(runtime.close)
        hosted = HostedConversations(runtime, Callers(store), target, main, changes_every_source=True)
        last.push_async_callback(hosted.close)
        yield hosted


def _summary_writer(settings: Settings, environ: Mapping[str, str]) -> ModelTarget | None:
    """The model that writes handoffs, as in a chat: the one for summaries, else the main one; None: the built-in
    summariser does, also where a model is named that cannot be asked."""
    try:
        return auxiliary_target(settings, environ) or target_of(settings.model, environ)
    except ClewError:
        return None
