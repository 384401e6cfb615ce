"""Client programs, and the lineage of a stateless request.

The headers and fields are those that the programs were seen to send (docs/guides/gateway.md has the table). Requests of
other programs are recognised by their history alone. The name of a session is not enough: title requests, probes and
subagents have that of the main conversation, but another beginning of the prompt, or no tools. All of this is the
lineage of a request; within a lineage the longest known beginning of the history decides.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal, TypeAlias

from clew.gateway.wires import RequestBody, UnreadableBody, WireRequest
from clew.messages import Message, text_of

SESSION_HEADER = "x-clew-session"
MODE_HEADER = "x-clew-mode"
HANDOFFS_HEADER = "x-clew-handoffs"
RECALL_HEADER = "x-clew-recall"
MAX_NAME_CHARS = 200


@dataclass(frozen=True, slots=True)
class ClientProgram:
    """A client program, and when it compacts a conversation by itself."""

    name: str
    agent: re.Pattern[str]
    """Searched in the user agent."""
    session_headers: tuple[str, ...] = ()
    own_window: int | None = None
    """The window that it assumes; None: that of the model."""
    compacts_at: float | None = None
    """The share of that window, by the usage that it is shown, at which it compacts by itself."""
    prompt: re.Pattern[str] | None = None
    """Searched in the system prompt, for a program with the user agent of its SDK."""


CLIENTS = (
    ClientProgram("Codex", re.compile(r"(?i)\bcodex"), ("session-id", "thread-id", "session_id"), 272_000, 0.90),
    ClientProgram("Claude Code", re.compile(r"(?i)\bclaude-(?:cli|code)"), ("x-claude-code-session-id",), None, 0.80),
    ClientProgram("opencode", re.compile(r"(?i)\bopencode"), ("x-session-id", "x-session-affinity"), None, 0.70),
    ClientProgram("Gemini CLI", re.compile(r"(?i)\bgeminicli"), (), 1_048_576, 0.50),
    ClientProgram("Qwen Code", re.compile(r"(?i)\bqwencode"), (), 131_072, 0.70),
    ClientProgram(
        "pi",
        re.compile(r"(?i)^pi \(|\bpi(?:-coding-agent)?/"),
        (),
        None,
        0.85,
        re.compile("operating inside pi, a coding agent"),
    ),
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


def client_by_prompt(prompt: Message | None) -> ClientProgram:
    """The program by its system prompt: pi with the user agent of OpenAI's SDK."""
    opening = text_of(prompt)[:_PROMPT_CHARS] if prompt else ""
    return next((client for client in CLIENTS if client.prompt and client.prompt.search(opening)), UNKNOWN_CLIENT)


def session_named(client: ClientProgram, headers: Mapping[str, str], body: RequestBody) -> str:
    """The name of the session in the request; empty where it has none."""
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


# -- usage that a client is shown --------------------------------------------------------------------------------------

MAX_CLIENT_BYTES = 16 * 1024 * 1024
"""Of one request: above it a client is shown a full window, so that it compacts its own history. Half of what providers
take in one request."""
_BELOW = 0.95


def told_prompt_tokens(client: ClientProgram, window: int, real: int, request_bytes: int) -> int:
    """The prompt tokens that a client is shown for a request that took `real`.

    Clients decide by usage. It is shown unchanged, but never so high that the client would compact by itself while the
    gateway keeps the conversation inside the window; a client with a very large history is shown a full window.
    """
    if request_bytes > MAX_CLIENT_BYTES:
        return max(real, client.own_window or window)
    if client.compacts_at is None:
        return real
    return min(real, int(_BELOW * client.compacts_at * (client.own_window or window)))


# -- compaction by the client ------------------------------------------------------------------------------------------

OwnCompaction: TypeAlias = Literal["asked", "made"]
_CODEX_KIND = re.compile(r'"request_kind"\s*:\s*"compact')


def own_compaction(headers: Mapping[str, str]) -> OwnCompaction | None:
    """Whether the headers mark a request that asks for the client's own summary, or the first one that has it.

    Codex marks the former, and leaves the tools out of it; Claude Code marks both, where it sends hints to gateways.
    """
    if headers.get("x-claude-code-context-compacted", "").strip():
        return "made"
    is_asked = headers.get("x-claude-code-request-class", "").strip().lower() == "compaction"
    is_asked = is_asked or bool(headers.get("x-claude-code-compaction", "").strip())
    return "asked" if is_asked or _CODEX_KIND.search(headers.get("x-codex-turn-metadata", "")) else None


# -- the conversation of a stateless request ---------------------------------------------------------------------------

_PROMPT_CHARS = 1_000
"""Of the prompt, from its beginning: parts that change each day are further back."""
# Dates, times, versions and hashes change in the prompt of one conversation.
_VOLATILE = re.compile(
    r"(?i)\w*\d\w*|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|"
    r"\b(?:january|february|march|april|may|june|july|august|september|october|november|december)\b"
)
_LINEAGE_BYTES = 16


@dataclass(frozen=True, slots=True)
class Lineage:
    """The lineage of a request, and the tree that it is in where the request names its session."""

    name: str
    tree: str = ""


def lineage_of(request: WireRequest, named: str, *, has_tools: bool, is_joined: bool = False) -> Lineage:
    """The lineage of a request whose session is `named`, or has no name.

    `is_joined`: the name is from `x-clew-session`, so all requests with it have one lineage.
    """
    if is_joined:
        name = _hash(("joined", named))
        return Lineage(name, name)
    prompt = request.prompt
    # A conversation continues after midnight.
    opening = _VOLATILE.sub("0", text_of(prompt)[:_PROMPT_CHARS]) if prompt else ""
    own = _hash((request.wire.dialect, named, "tools" if has_tools else "", opening))
    if not named:
        return Lineage(own)
    tree = f"{_hash(named)}."
    return Lineage(tree + own, tree)


def _hash(value: object) -> str:
    return blake2b(repr(value).encode("utf-8", "replace"), digest_size=_LINEAGE_BYTES).hexdigest()
