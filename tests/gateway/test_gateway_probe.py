"""`clew doctor --gateway`: what it finds out of a running gateway, and of the programs on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clew import __version__
from clew.gateway import check_clients, hash_key, make_key, probe_gateway
from clew.store import NewKey
from clew.testing import Upstream, UpstreamAnswer
from tests.support.gateway import gateway_with


async def test_a_gateway_tells_what_it_is_and_its_upstream_is_tried(tmp_path: Path) -> None:
    upstream = Upstream(answers=lambda _: UpstreamAnswer("no"))
    async with gateway_with(upstream, tmp_path, mode="observe") as flow:
        found = {it.name: it for it in await probe_gateway(flow.root)}
    assert found["gateway"].what == f"clew {__version__}, mode observe"
    assert found["keys"].what == "none; a caller's own credential passes"
    assert found["upstream"].what == "it answers, and serves chat, responses, messages, gemini"
    assert all(it.is_ok for it in found.values())


async def test_a_gateway_with_keys_is_tried_with_one(tmp_path: Path) -> None:
    key = make_key()
    async with gateway_with(Upstream(answers=lambda _: UpstreamAnswer("no")), tmp_path) as flow:
        await flow.store.create_key(NewKey("ann", hash_key(key)))
        without = {it.name: it.what for it in await probe_gateway(flow.root)}
        wrong = {it.name: it.is_ok for it in await probe_gateway(flow.root, make_key())}
        right = {it.name: it.is_ok for it in await probe_gateway(flow.root, key)}
    assert "CLEW_KEY" in without["keys"] and "upstream" not in without
    assert wrong["keys"] is False
    assert right == {"gateway": True, "keys": True, "upstream": True}


async def test_an_upstream_that_is_not_there_is_found(tmp_path: Path) -> None:
    upstream = Upstream()
    async with upstream:
        pass  # its port is free again
    async with gateway_with(upstream, tmp_path) as flow:
        found = {it.name: it for it in await probe_gateway(flow.root)}
    assert not found["upstream"].is_ok and "cannot be reached" in found["upstream"].what


async def test_what_is_no_gateway_is_not_taken_for_one(tmp_path: Path) -> None:
    async with Upstream() as upstream:
        [other] = await probe_gateway(upstream.origin)
    [nothing] = await probe_gateway(upstream.origin)
    assert (other.is_ok, nothing.is_ok) == (False, False)
    assert "no gateway of Clew" in other.what and "nothing answers" in nothing.what


LIMIT = {"limit": {"context": 32_000, "output": 16_000}}
OPENCODE = {"provider": {"clew": {"options": {"baseURL": "http://127.0.0.1:8787/v1"}, "models": {"qwen": LIMIT}}}}
PI = {"providers": {"clew": {"baseUrl": "http://127.0.0.1:8787", "models": [{"id": "m", "contextWindow": 32_000}]}}}


@pytest.mark.parametrize(
    ("path", "text", "says"),
    [
        (".codex/config.toml", "model_context_window = 20000", "set 272000"),
        (".codex/config.toml", "model_auto_compact_token_limit = 20000", "leave it out"),
        (".claude/settings.json", '{"env": {"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "90000"}}', "unset it"),
        (".config/opencode/opencode.json", json.dumps(OPENCODE), "set limit.output to 4000 or less"),
        (".pi/agent/models.json", json.dumps(PI), "set 128000 or more"),
        (".gemini/settings.json", '{"model": {"compressionThreshold": 0.2}}', "Gemini CLI compacts at 20%"),
        (".qwen/settings.json", '{"model": {"chatCompression": {"contextPercentageThreshold": 0.3}}}', "set 0.7"),
    ],
)
def test_a_client_that_would_compact_by_itself_is_told(tmp_path: Path, path: str, text: str, says: str) -> None:
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.write_text(text, encoding="utf-8")
    [problem] = check_clients({"HOME": str(tmp_path)})
    assert says in problem and str(file) in problem
    file.write_text("neither JSON nor TOML: {", encoding="utf-8")
    assert check_clients({"HOME": str(tmp_path)}) == []
