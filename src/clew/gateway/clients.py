"""What is known of the programs that send requests, and which conversation a stateless request belongs to.

The names of headers and fields are those that the programs were seen to send (docs/guides/gateway.md has the table). A
program that is not here is recognised by its history alone. A session's name is not enough: title requests, probes and
subagents carry that of the main conversation. They differ by the beginning of the prompt, and by whether they have
tools. That is their lineage; within it the longest known beginning of the history decides.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from string import Template
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

import aiohttp

from clew.config import ModelSettings
from clew.gateway.wires import RequestBody, UnreadableBody, WireRequest
from clew.messages import Message, text_of
from clew.tokens import window_of

SESSION_HEADER = "x-clew-session"
MODE_HEADER = "x-clew-mode"
HANDOFFS_HEADER = "x-clew-handoffs"
RECALL_HEADER = "x-clew-recall"
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
    prompt: re.Pattern[str] | None = None
    """Found in its system prompt, where its user agent is only that of its SDK."""


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
    """The program that says in its system prompt who it is: pi with the user agent of OpenAI's SDK."""
    opening = text_of(prompt)[:_PROMPT_CHARS] if prompt else ""
    return next((client for client in CLIENTS if client.prompt and client.prompt.search(opening)), UNKNOWN_CLIENT)


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

OwnCompaction: TypeAlias = Literal["asked", "made"]
_CODEX_KIND = re.compile(r'"request_kind"\s*:\s*"compact')


def own_compaction(headers: Mapping[str, str]) -> OwnCompaction | None:
    """What a client says of compacting by itself: that this request asks for the summary, or that it is the first one
    with it. Codex says the first, and leaves the tools out of it; Claude Code both, where it sends hints to gateways.
    """
    if headers.get("x-claude-code-context-compacted", "").strip():
        return "made"
    is_asked = headers.get("x-claude-code-request-class", "").strip().lower() == "compaction"
    is_asked = is_asked or bool(headers.get("x-claude-code-compaction", "").strip())
    return "asked" if is_asked or _CODEX_KIND.search(headers.get("x-codex-turn-metadata", "")) else None


# -- the conversation of a stateless request ---------------------------------------------------------------------------

_PROMPT_CHARS = 1_000
"""Of the prompt, from its beginning: what changes from day to day stands further back."""
# Dates, times, versions and hashes: what changes in the prompt of one conversation.
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
    """The lineage of a request that calls its session `named`, or nothing.

    `is_joined`: the caller itself names the session for us, so that all requests of the name have one lineage.
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


OPENAI, ANTHROPIC, GOOGLE = "api.openai.com", "api.anthropic.com", "generativelanguage.googleapis.com"
USUAL_WINDOW = 200_000
"""For lines to paste where the window of the model is not known."""
ENVIRONMENT = {
    "OPENAI_BASE_URL": "$address/v1",
    "OPENAI_API_BASE": "$address/v1",
    "ANTHROPIC_BASE_URL": "$address",
    "GOOGLE_GEMINI_BASE_URL": "$address",
}
"""What points every program that reads such variables at a gateway."""


@dataclass(frozen=True, slots=True)
class ClientSetup:
    """One program, or one library."""

    name: str
    title: str
    where: str
    """The file or the shell that the lines belong to."""
    lines: str
    window: str = ""
    """What keeps it from compacting by itself; empty where it never does."""
    host: str | None = None
    """Of the API that it calls by itself; None where it has no API of its own."""
    programs: tuple[str, ...] = ()
    """Names of its executables and packages."""
    base_variables: tuple[str, ...] = ("OPENAI_BASE_URL", "OPENAI_API_BASE")
    """Environment variables by which it may be pointed elsewhere already, the first one counts."""


CLIENT_SETUPS = (
    ClientSetup(
        "codex",
        "Codex",
        "~/.codex/config.toml",
        'model = "$model"\n'
        'model_provider = "clew"\n'
        "model_context_window = 272000\n\n"
        "[model_providers.clew]\n"
        'name = "Clew"\n'
        'base_url = "$address/v1"\n'
        'env_key = "OPENAI_API_KEY"\n'
        'wire_api = "responses"',
        "model_context_window stays 272000 whatever the model has; leave model_auto_compact_token_limit out",
        OPENAI,
        ("codex", "@openai/codex"),
        ("OPENAI_BASE_URL",),
    ),
    ClientSetup(
        "claude",
        "Claude Code",
        "the shell",
        "export ANTHROPIC_BASE_URL=$address",
        "leave CLAUDE_CODE_AUTO_COMPACT_WINDOW unset, or set it to the model's window: 200000 or more",
        ANTHROPIC,
        ("claude", "claude-code", "@anthropic-ai/claude-code"),
        ("ANTHROPIC_BASE_URL",),
    ),
    ClientSetup(
        "opencode",
        "opencode",
        "opencode.json",
        "{\n"
        '  "model": "clew/$model",\n'
        '  "provider": {"clew": {\n'
        '    "npm": "@ai-sdk/openai-compatible",\n'
        '    "options": {"baseURL": "$address/v1", "apiKey": "{env:OPENAI_API_KEY}"},\n'
        '    "models": {"$model": {"limit": {"context": $window, "output": $output}}}\n'
        "  }}\n"
        "}",
        "limit.context is the model's window, and limit.output at most an eighth of it",
        programs=("opencode", "opencode-ai"),
    ),
    ClientSetup(
        "gemini",
        "Gemini CLI",
        "the shell, with GEMINI_API_KEY",
        "export GOOGLE_GEMINI_BASE_URL=$address\n"
        '# in ~/.gemini/settings.json: {"security": {"auth": {"selectedType": "gemini-api-key"}}}',
        'leave "model": {"compressionThreshold": ...} out of settings.json: 0.5, as it is without, or more',
        GOOGLE,
        ("gemini", "@google/gemini-cli"),
        ("GOOGLE_GEMINI_BASE_URL",),
    ),
    ClientSetup(
        "pi",
        "pi",
        "~/.pi/agent/models.json",
        "{\n"
        '  "providers": {"clew": {\n'
        '    "baseUrl": "$address/v1", "api": "openai-completions", "apiKey": "OPENAI_API_KEY",\n'
        '    "models": [{"id": "$model", "contextWindow": $roomy_window, "maxTokens": $output}]\n'
        "  }}\n"
        "}",
        "contextWindow is the model's window, but 128000 or more: pi keeps 16,384 of it free",
        programs=("pi", "pi-coding-agent", "@mariozechner/pi-coding-agent"),
    ),
    ClientSetup(
        "qwen",
        "Qwen Code",
        "the shell, with OPENAI_API_KEY",
        "export OPENAI_BASE_URL=$address/v1 OPENAI_MODEL=$model",
        'leave "model": {"chatCompression": ...} out of settings.json: 0.7, as it is without, or more',
        programs=("qwen", "qwen-code", "@qwen-code/qwen-code"),
    ),
    ClientSetup(
        "copilot",
        "Copilot CLI",
        "the shell, with COPILOT_PROVIDER_API_KEY",
        "export COPILOT_PROVIDER_BASE_URL=$address/v1 COPILOT_MODEL=$model\n"
        "export COPILOT_PROVIDER_MAX_PROMPT_TOKENS=1000000",
        "COPILOT_PROVIDER_MAX_PROMPT_TOKENS is far above the model's window: it counts the history that it holds",
        programs=("copilot", "@github/copilot"),
        base_variables=("COPILOT_PROVIDER_BASE_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE"),
    ),
    ClientSetup(
        "cline",
        "Cline",
        "the shell",
        "cline auth -p openai-compatible -k KEY -m $model -b $address/v1",
        "--compaction off leaves the folding to the gateway",
        programs=("cline",),
    ),
    ClientSetup(
        "continue",
        "Continue",
        "~/.continue/config.yaml",
        "models:\n"
        "  - name: $model\n"
        "    provider: openai\n"
        "    model: $model\n"
        "    apiBase: $address/v1\n"
        "    apiKey: KEY\n"
        "    defaultCompletionOptions: {contextLength: $roomy_window}",
        "contextLength is the model's window, but 128000 or more",
        programs=("cn", "@continuedev/cli"),
    ),
    ClientSetup(
        "nanocoder",
        "nanocoder",
        "the shell",
        "export NANOCODER_PROVIDERS="
        """'[{"name": "clew", "baseUrl": "$address/v1", "apiKey": "KEY", "models": ["$model"]}]'\n"""
        "nanocoder --provider clew --model $model",
        programs=("nanocoder", "@nanocollective/nanocoder"),
    ),
    ClientSetup(
        "hermes",
        "Hermes Agent",
        "~/.hermes/config.yaml",
        "model: {default: $model, provider: custom, base_url: $address/v1, api_key: KEY}",
        "compression.threshold 0.85 or more leaves the folding to the gateway",
        programs=("hermes", "hermes-agent"),
    ),
    ClientSetup(
        "aider",
        "aider",
        "the shell, with OPENAI_API_KEY",
        "export OPENAI_API_BASE=$address/v1\naider --model openai/$model --max-chat-history-tokens 1000000",
        "--max-chat-history-tokens 1000000 keeps it from summarising by itself",
        programs=("aider", "aider-chat"),
        base_variables=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    ),
    ClientSetup(
        "llm",
        "llm",
        "extra-openai-models.yaml, in the folder that `llm logs path` names",
        "- model_id: clew\n  model_name: $model\n  api_base: $address/v1",
        host=OPENAI,
        programs=("llm",),
    ),
    ClientSetup(
        "openai",
        "the OpenAI SDK",
        "Python; or OPENAI_BASE_URL in the environment",
        'client = openai.OpenAI(base_url="$address/v1")',
        host=OPENAI,
    ),
    ClientSetup(
        "anthropic",
        "the Anthropic SDK",
        "Python; or ANTHROPIC_BASE_URL in the environment",
        'client = anthropic.Anthropic(base_url="$address")',
        host=ANTHROPIC,
        base_variables=("ANTHROPIC_BASE_URL",),
    ),
    ClientSetup(
        "google-genai",
        "the Google Gen AI SDK",
        "Python; or GOOGLE_GEMINI_BASE_URL in the environment",
        'client = genai.Client(http_options={"base_url": "$address"})',
        host=GOOGLE,
        base_variables=("GOOGLE_GEMINI_BASE_URL",),
    ),
)
_SHOWN_FIRST = {
    OPENAI: ("codex", "openai"),
    ANTHROPIC: ("claude", "anthropic"),
    GOOGLE: ("gemini", "google-genai"),
}
_SHOWN_ELSE = ("opencode", "openai")
_RUNNERS = frozenset(("npx", "bunx", "pnpx", "uvx"))


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What the lines to paste say about the model behind a gateway."""

    name: str = ""
    window: int = USUAL_WINDOW

    @property
    def output(self) -> int:
        """What a program may be told to ask for: it keeps that much of the window free."""
        return min(32_000, self.window // 8)

    @property
    def roomy_window(self) -> int:
        """The window for programs that keep a fixed part of it free, which a small one has no room for."""
        return max(self.window, 128_000)


def served_model(settings: ModelSettings) -> ServedModel:
    """The model of the config."""
    if not settings.name:
        return ServedModel("", settings.context_length or USUAL_WINDOW)
    return ServedModel(settings.name, window_of(settings.name, configured=settings.context_length).tokens)


def fill_in(template: str, address: str, model: ServedModel) -> str:
    """A template of this table for one gateway."""
    return Template(template).substitute(
        address=address,
        model=model.name or "MODEL",
        window=model.window,
        roomy_window=model.roomy_window,
        output=model.output,
    )


def setup_named(name: str) -> ClientSetup | None:
    """The one with this name or title."""
    wanted = name.strip().lower()
    return next((it for it in CLIENT_SETUPS if wanted in (it.name, it.title.lower(), *it.programs)), None)


def setups_for(upstreams: Sequence[str]) -> tuple[ClientSetup, ...]:
    """The few that most likely call these upstreams."""
    hosts = ((urlsplit(upstream).hostname or "").lower() for upstream in upstreams)
    names = {name for host in hosts for name in _SHOWN_FIRST.get(host, _SHOWN_ELSE)}
    return tuple(it for it in CLIENT_SETUPS if it.name in names)


def find_program(command: tuple[str, ...]) -> tuple[ClientSetup | None, int]:
    """Which program a command line runs, and how many words precede its own arguments.

    What `npx` and its like run counts as run by itself.
    """
    for at, word in enumerate(command):
        if at and word.startswith("-"):
            continue
        name = _program_name(word)
        if name in _RUNNERS and not at:
            continue
        return next((it for it in CLIENT_SETUPS if name in it.programs), None), at + 1
    return None, len(command)


def _program_name(word: str) -> str:
    """The name in a path, without the ending that Windows adds; of a package, without its version."""
    if word.startswith("@"):
        scope, _, rest = word.partition("/")
        return f"{scope}/{rest.partition('@')[0]}".lower()
    name = word.replace("\\", "/").rpartition("/")[2].lower()
    return name.removesuffix(".exe").removesuffix(".cmd").partition("@")[0]


# -- what the settings of installed programs say about their windows
# ------------------------------------------------------

_CODEX_WINDOW = 272_000
_CLAUDE_WINDOW = 200_000
_PI_WINDOW = 128_000
_SHARES = (
    ("Gemini CLI", ".gemini/settings.json", ("model", "compressionThreshold"), 0.5),
    ("Qwen Code", ".qwen/settings.json", ("model", "chatCompression", "contextPercentageThreshold"), 0.7),
)


def check_clients(environ: Mapping[str, str]) -> list[str]:
    """One sentence for each setting that should be another."""
    home = Path(environ.get("HOME") or Path.home())
    found = (_codex(home, environ), _claude(home, environ), _opencode(home, environ), _pi(home, environ), _shares(home))
    return [problem for problems in found for problem in problems]


def _codex(home: Path, environ: Mapping[str, str]) -> Iterator[str]:
    file = Path(environ.get("CODEX_HOME") or home / ".codex") / "config.toml"
    try:
        config = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return
    if "model_auto_compact_token_limit" in config:
        yield f"Codex compacts at model_auto_compact_token_limit in {file}; leave it out"
    window = config.get("model_context_window")
    if isinstance(window, int) and window < _CODEX_WINDOW:
        yield f"Codex compacts at 90% of model_context_window = {window} in {file}; set {_CODEX_WINDOW}"


def _claude(home: Path, environ: Mapping[str, str]) -> Iterator[str]:
    name = "CLAUDE_CODE_AUTO_COMPACT_WINDOW"
    file = Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude") / "settings.json"
    for where, value in (("the environment", environ.get(name)), (str(file), _at(_json(file), "env", name))):
        if str(value or "").isdigit() and int(str(value)) < _CLAUDE_WINDOW:
            yield f"Claude Code compacts 33,000 tokens below {name}={value} in {where}; unset it, or set 200000 or more"


def _opencode(home: Path, environ: Mapping[str, str]) -> Iterator[str]:
    folder = Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "opencode"
    for file in (folder / "opencode.json", Path("opencode.json")):
        for name, model in _models(_at(_json(file), "provider"), "baseURL"):
            context, output = _at(model, "limit", "context"), _at(model, "limit", "output")
            if isinstance(context, int) and isinstance(output, int) and output * 4 > context:
                yield (
                    f"opencode compacts {name} at limit.context less limit.output, {context - output} in {file}; "
                    f"set limit.output to {context // 8} or less"
                )


def _pi(home: Path, environ: Mapping[str, str]) -> Iterator[str]:
    file = Path(environ.get("PI_CODING_AGENT_DIR") or home / ".pi" / "agent") / "models.json"
    for name, model in _models(_at(_json(file), "providers"), "baseUrl"):
        window = model.get("contextWindow")
        if isinstance(window, int) and window < _PI_WINDOW:
            yield f"pi compacts {name} 16,384 below contextWindow {window} in {file}; set {_PI_WINDOW} or more"


def _shares(home: Path) -> Iterator[str]:
    for title, path, keys, usual in _SHARES:
        share = _at(_json(home / path), *keys)
        if isinstance(share, (int, float)) and 0 < share < usual:
            yield f"{title} compacts at {share:.0%} ({'.'.join(keys)} in {home / path}); leave it out, or set {usual}"


def _models(providers: Any, base: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The models of providers that are on this machine, as a gateway is, in the shapes of opencode and pi."""
    for provider in providers.values() if isinstance(providers, dict) else ():
        address = str(_at(provider, base) or _at(provider, "options", base) or "")
        models = _at(provider, "models")
        if "127.0.0.1" not in address and "localhost" not in address:
            continue
        if isinstance(models, dict):
            yield from ((name, model) for name, model in models.items() if isinstance(model, dict))
        elif isinstance(models, list):
            yield from ((str(model.get("id")), model) for model in models if isinstance(model, dict))


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


PROBE_SECONDS = 10.0
_WIRES = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "gemini": "/v1beta/models/probe:generateContent",
}


@dataclass(frozen=True, slots=True)
class ProbeFinding:
    """One thing that was looked at."""

    name: str
    is_ok: bool
    what: str


async def probe_gateway(address: str, key: str | None = None) -> list[ProbeFinding]:
    """Look at the gateway at this address. `key` is one of Clew's, for a gateway that wants one.

    The wires are asked with an empty request, which no model answers.
    """
    timeout = aiohttp.ClientTimeout(total=PROBE_SECONDS)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with aiohttp.ClientSession(timeout=timeout, headers=headers) as client:
        try:
            about = await _about(client, address)
        except (aiohttp.ClientError, TimeoutError, ValueError, OSError) as error:
            why = str(error) or type(error).__name__
            return [ProbeFinding("gateway", False, f"nothing answers at {address} ({why}); start one: clew serve")]
        if about.get("gateway") != "clew":
            return [ProbeFinding("gateway", False, f"what answers at {address} is no gateway of Clew")]
        found = [ProbeFinding("gateway", True, f"clew {about.get('version')}, mode {about.get('mode')}")]
        return [*found, *[finding async for finding in _wires(client, address, has_key=key is not None)]]


async def _about(client: aiohttp.ClientSession, address: str) -> Mapping[str, Any]:
    async with client.get(f"{address}/healthz") as reply:
        value = await reply.json(content_type=None)
        return value if isinstance(value, dict) else {}


async def _wires(client: aiohttp.ClientSession, address: str, *, has_key: bool) -> AsyncIterator[ProbeFinding]:
    served: list[str] = []
    for name, path in _WIRES.items():
        try:
            async with client.post(f"{address}{path}", json={}) as reply:
                status, text = reply.status, (await reply.text())[:300]
        except (aiohttp.ClientError, TimeoutError) as error:
            yield ProbeFinding("upstream", False, f"no answer in {PROBE_SECONDS:.0f} s ({type(error).__name__})")
            return
        if status == 502:
            yield ProbeFinding("upstream", False, f"it cannot be reached: {text}")
            return
        if status == 401 and "key of Clew" in text:
            told = "callers need a key of Clew; with one in CLEW_KEY, the wires are tried too"
            yield ProbeFinding("keys", not has_key, "the key in CLEW_KEY is not taken" if has_key else told)
            return
        if status not in (404, 405, 501):
            served.append(name)
    whose = "the key in CLEW_KEY is taken" if has_key else "none; a caller's own credential passes"
    yield ProbeFinding("keys", True, whose)
    what = f"it answers, and serves {', '.join(served)}" if served else "it answers, but serves none of the wires"
    yield ProbeFinding("upstream", bool(served), what)
