"""Hosted conversations as the config describes them: over the gateway's upstream, with a runtime of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from clew.config import ModelSettings, Settings
from clew.events import Events
from clew.gateway import CallerProvider, Callers, HostedConversations, Upstreams, UpstreamServer
from clew.providers import RetryPolicy, http_provider, preset_for
from clew.store import Store
from clew.turn import ModelTarget, Runtime, RuntimeOptions

_GEMINI_HOST = "generativelanguage.googleapis.com"
# The client decides whether a request that the upstream refused is repeated.
_NO_RETRIES = RetryPolicy(retries=0)


@asynccontextmanager
async def open_hosting(
    settings: Settings,
    options: RuntimeOptions,
    store: Store,
    callers: Callers,
    upstreams: Upstreams,
    events: Events,
) -> AsyncIterator[HostedConversations]:
    """Hosted conversations; their turns have ended when the block is left.

    `options` are those of the gateway's own runtime. Nobody but us folds a hosted conversation, so that this happens
    where the config says, as for an agent, and not as late as for clients that fold by themselves.
    """
    targets = UpstreamTargets(settings, upstreams)
    main = settings.model.name
    async with AsyncExitStack() as last:
        last.push_async_callback(targets.close)
        runtime = Runtime(store, targets.of(main or "any-model"), replace(options, settings=settings), events)
        last.push_async_callback(runtime.close)
        hosted = HostedConversations(runtime, callers, targets.of, main)
        last.push_async_callback(hosted.close)
        yield hosted


class UpstreamTargets:
    """The models behind the upstreams, each on the wire that is spoken there."""

    def __init__(self, settings: Settings, upstreams: Upstreams) -> None:
        self._settings = settings
        self._upstreams = upstreams
        self._providers: dict[tuple[str, str], CallerProvider] = {}
        """By address and wire."""

    def of(self, model: str) -> ModelTarget:
        main = self._settings.model
        configured = main.context_length if model == main.name else None
        upstream = self._upstreams.of_model(model)
        provider = self._provider(main, model, upstream)
        return ModelTarget(provider, model, upstream.address, configured, self._settings.agent.max_tokens)

    def _provider(self, main: ModelSettings, model: str, upstream: UpstreamServer) -> CallerProvider:
        base = f"{upstream.address}/v1beta/openai" if upstream.host == _GEMINI_HOST else upstream.base_url
        preset = preset_for(main.provider, base, model)
        known = (base, preset.wire)
        if known not in self._providers:
            self._providers[known] = CallerProvider(http_provider(preset, retry_policy=_NO_RETRIES), upstream.key)
        return self._providers[known]

    async def close(self) -> None:
        for provider in self._providers.values():
            await provider.close()
