"""What is known of the programs that send requests: how they are told apart, and what they name a session by.

The names of headers and fields are those that the programs were seen to send (docs/guides/gateway.md has the table). A
program that is not here is recognised by its history alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clew.gateway.bodies import RequestBody, UnreadableBody

SESSION_HEADER = "x-clew-session"
MODE_HEADER = "x-clew-mode"
HANDOFFS_HEADER = "x-clew-handoffs"
MAX_NAME_CHARS = 200


@dataclass(frozen=True, slots=True)
class ClientProgram:
    """A program, and when it would compact a conversation by itself."""

    name: str
    agent: re.Pattern[str]
    """Found in its user agent."""
    session_headers: tuple[str, ...] = ()
    own_window: int | None = None
    """The window that it assumes by itself; None: it has the model's."""
    compacts_at: float | None = None
    """The share of that window, by the usage that it is told, at which it compacts by itself."""


CLIENTS = (
    ClientProgram("Codex", re.compile(r"(?i)\bcodex"), ("session-id", "thread-id", "session_id"), 272_000, 0.90),
    ClientProgram("Claude Code", re.compile(r"(?i)\bclaude-(?:cli|code)"), ("x-claude-code-session-id",), None, 0.80),
    ClientProgram("opencode", re.compile(r"(?i)\bopencode"), ("x-session-id", "x-session-affinity"), None, 0.70),
    ClientProgram("Gemini CLI", re.compile(r"(?i)\bgeminicli"), (), 1_048_576, 0.50),
    ClientProgram("Qwen Code", re.compile(r"(?i)\bqwencode"), (), 131_072, 0.70),
    ClientProgram("pi", re.compile(r"(?i)^pi \(|\bpi(?:-coding-agent)?/"), (), None, 0.85),
    ClientProgram("aider", re.compile(r"(?i)\baider"), ()),
)
UNKNOWN_CLIENT = ClientProgram("", re.compile(r"(?!)"), ("x-claude-code-session-id", "x-session-id", "session-id"))


def client_of(headers: Mapping[str, str]) -> ClientProgram:
    """The program that sent a request, by its user agent and by headers that only it sends."""
    agent = headers.get("user-agent", "")
    named = next((client for client in CLIENTS if client.agent.search(agent)), None)
    if named is None and "x-codex-window-id" in headers:
        named = CLIENTS[0]
    return named or UNKNOWN_CLIENT


def session_named(client: ClientProgram, headers: Mapping[str, str], body: RequestBody) -> str:
    """What the request itself calls its session; empty where it does not."""
    for name in client.session_headers:
        if value := headers.get(name, "").strip():
            return value[:MAX_NAME_CHARS]
    return (_session_in_metadata(body) or body.text("prompt_cache_key"))[:MAX_NAME_CHARS]


def _session_in_metadata(body: RequestBody) -> str:
    """Claude Code puts its session into `metadata.user_id`, as JSON or behind `_session_`."""
    try:
        metadata = body.value("metadata")
    except UnreadableBody:
        return ""
    user = metadata.get("user_id") if isinstance(metadata, dict) else None
    if not isinstance(user, str):
        return ""
    if user.startswith("{"):
        try:
            named: Any = json.loads(user).get("session_id")
        except (ValueError, AttributeError):
            return ""
        return named if isinstance(named, str) else ""
    return user.partition("_session_")[2]


# -- what a client is told ---------------------------------------------------------------------------------------------

MAX_CLIENT_BYTES = 16 * 1024 * 1024
"""Of one request: above it a client is told that its window is full, so that it compacts what it holds itself. Half of
what the providers take in one request, and far below what a client's own memory holds."""
_BELOW = 0.95


def told_prompt_tokens(client: ClientProgram, window: int, real: int, request_bytes: int) -> int:
    """The prompt tokens that a client is told for a request that really took `real`.

    Usage is what clients decide by. It is told as it is, but never so high that the client would compact by itself
    while we keep the conversation inside the window; only where its own history has become very large is it told that
    the window is full.
    """
    if request_bytes > MAX_CLIENT_BYTES:
        return max(real, client.own_window or window)
    if client.compacts_at is None:
        return real
    return min(real, int(_BELOW * client.compacts_at * (client.own_window or window)))


# -- compaction, asked for by the client itself ------------------------------------------------------------------------

_CODEX_KIND = re.compile(r'"request_kind"\s*:\s*"compact')


def is_compaction_request(headers: Mapping[str, str]) -> bool:
    """Whether a client says that it compacts by this request: Codex does, and leaves the tools out of it, and so does
    Claude Code where it sends hints to gateways."""
    if headers.get("x-claude-code-request-class", "").strip().lower() == "compaction":
        return True
    return bool(_CODEX_KIND.search(headers.get("x-codex-turn-metadata", "")))
