"""Who follows events and lists: only for as long as they may, and whatever others do."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path

import aiohttp
import pytest

from clew.dashboard import catalog
from clew.dashboard.catalog import SessionCatalog
from clew.gateway import hash_key, make_key
from clew.store import NewKey, NewSession, open_store
from clew.testing import user
from clew.testing.upstream import Upstream, UpstreamAnswer
from tests.support.gateway import gateway_with


async def test_events_end_when_the_key_is_revoked_however_much_happens(tmp_path: Path) -> None:
    environ = {"CLEW_MODEL_API_KEY_ENV": "UPSTREAM_KEY", "UPSTREAM_KEY": "fake-key-of-the-upstream"}
    upstream = Upstream(answers=lambda _: UpstreamAnswer("done"))
    async with gateway_with(upstream, tmp_path, environ=environ) as flow, aiohttp.ClientSession() as http:
        keys = {"ann": make_key(), "bob": make_key()}
        made = [await flow.store.create_key(NewKey(name, hash_key(key))) for name, key in keys.items()]
        headers = {name: {"Authorization": f"Bearer {key}"} for name, key in keys.items()}
        async with http.get(f"{flow.root}/clew/events", headers=headers["ann"]) as events:
            assert events.status == 200
            await flow.store.revoke_key(made[0].id)
            ended = asyncio.create_task(events.content.read())
            async with asyncio.timeout(9):  # less than the time after which a silent stream is looked at
                for number in count():
                    # A model that nobody knows is an event.
                    body = {"model": f"model-{number}", "messages": [{"role": "user", "content": f"hi {number}"}]}
                    async with http.post(
                        f"{flow.base_url}/chat/completions", json=body, headers=headers["bob"]
                    ) as response:
                        assert response.status == 200
                    if (await asyncio.wait({ended}, timeout=0.1))[0]:
                        break


async def test_one_owner_with_many_sessions_hides_nobody_elses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "MAX_SESSIONS", 20)
    async with open_store(tmp_path / "state.db") as store:
        await store.sync([user("mine")], new=NewSession(owner="bob"))
        for number in range(30):
            await store.sync([user(f"{number}")], new=NewSession(owner="ann"))
        sessions = SessionCatalog(store, windows=None)  # type: ignore[arg-type]
        assert [it.owner for it in await sessions.visible("bob")] == ["bob"]
        assert len(await sessions.visible("ann")) == 20
