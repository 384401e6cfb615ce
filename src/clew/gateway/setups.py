"""How client programs are set up for a gateway: lines to paste, checks of their settings, a probe of the wires."""

from __future__ import annotations

import json
import tomllib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import msgspec

from clew.config import ModelSettings
from clew.lazy import read_beside
from clew.tokens import window_of

OPENAI, ANTHROPIC, GOOGLE = "api.openai.com", "api.anthropic.com", "generativelanguage.googleapis.com"
USUAL_WINDOW = 200_000
"""For lines to paste where the window of the model is unknown."""
ENVIRONMENT = {
    "OPENAI_BASE_URL": "$address/v1",
    "OPENAI_API_BASE": "$address/v1",
    "ANTHROPIC_BASE_URL": "$address",
    "GOOGLE_GEMINI_BASE_URL": "$address",
}
"""The variables that point programs at a gateway."""


@dataclass(frozen=True, slots=True)
class ClientSetup:
    """How a program or a library is set up."""

    name: str
    title: str
    where: str
    """The file or the shell that the lines belong to."""
    lines: str
    window: str = ""
    """The setting that keeps it from compacting by itself; empty where it never does."""
    host: str | None = None
    """The host that it calls by default; None where it has no default."""
    programs: tuple[str, ...] = ()
    """The names of its executables and packages."""
    base_variables: tuple[str, ...] = ("OPENAI_BASE_URL", "OPENAI_API_BASE")
    """Environment variables with its base URL, the first one counts."""


CLIENT_SETUPS = msgspec.convert(
    tomllib.loads(read_beside(__file__, "client_setups.toml").decode())["setup"], tuple[ClientSetup, ...]
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
    """The model in the lines to paste."""

    name: str = ""
    window: int = USUAL_WINDOW

    @property
    def output(self) -> int:
        """The output limit for programs that keep so much of the window free."""
        return min(32_000, self.window // 8)

    @property
    def roomy_window(self) -> int:
        """The window for programs that keep a fixed part of it free."""
        return max(self.window, 128_000)


def served_model(settings: ModelSettings) -> ServedModel:
    """The model of the config."""
    if not settings.name:
        return ServedModel("", settings.context_length or USUAL_WINDOW)
    return ServedModel(settings.name, window_of(settings.name, configured=settings.context_length).tokens)


def fill_in(template: str, address: str, model: ServedModel) -> str:
    """Fill in the template of a setup."""
    return Template(template).substitute(
        address=address,
        model=model.name or "MODEL",
        window=model.window,
        roomy_window=model.roomy_window,
        output=model.output,
    )


def setup_named(name: str) -> ClientSetup | None:
    """The setup with this name, title or program."""
    wanted = name.strip().lower()
    return next((it for it in CLIENT_SETUPS if wanted in (it.name, it.title.lower(), *it.programs)), None)


def setups_for(upstreams: Sequence[str]) -> tuple[ClientSetup, ...]:
    """The setups of programs that probably call these upstreams."""
    hosts = ((urlsplit(upstream).hostname or "").lower() for upstream in upstreams)
    names = {name for host in hosts for name in _SHOWN_FIRST.get(host, _SHOWN_ELSE)}
    return tuple(it for it in CLIENT_SETUPS if it.name in names)


def find_program(command: tuple[str, ...]) -> tuple[ClientSetup | None, int]:
    """The program of a command line, and how many words precede its arguments. `npx` and the like are skipped."""
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


# -- the windows in the settings of installed programs -----------------------------------------------------------------

_CODEX_WINDOW = 272_000
_CLAUDE_WINDOW = 200_000
_PI_WINDOW = 128_000
_SHARES = (
    ("Gemini CLI", ".gemini/settings.json", ("model", "compressionThreshold"), 0.5),
    ("Qwen Code", ".qwen/settings.json", ("model", "chatCompression", "contextPercentageThreshold"), 0.7),
)


def check_clients(environ: Mapping[str, str]) -> list[str]:
    """One sentence for each setting that should be changed."""
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
    """The models of local providers, such as a gateway, in the settings of opencode or pi."""
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
    """One result of a probe."""

    name: str
    is_ok: bool
    what: str


async def probe_gateway(address: str, key: str | None = None) -> list[ProbeFinding]:
    """Probe the gateway at an address. `key` is a key of Clew, for a gateway with keys.

    The wires get an empty request, which no model answers.
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
            yield ProbeFinding("keys", not has_key, "the key in CLEW_KEY is not accepted" if has_key else told)
            return
        if status not in (404, 405, 501):
            served.append(name)
    whose = "the key in CLEW_KEY is taken" if has_key else "none; a caller's own credential passes"
    yield ProbeFinding("keys", True, whose)
    what = f"it answers, and serves {', '.join(served)}" if served else "it answers, but serves none of the wires"
    yield ProbeFinding("upstream", bool(served), what)
