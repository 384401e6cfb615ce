"""Variables, flags and config files that make a program call a private gateway.

The person's own files are read and never written. What has to be a file is in a folder that is locked as long as the
program runs, so that abandoned folders are known by their free lock.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from clew.config import Settings, program_folder
from clew.errors import InvalidArgument
from clew.gateway import (
    ANTHROPIC,
    ENVIRONMENT,
    GOOGLE,
    OPENAI,
    TOKEN_HEADER,
    ClientSetup,
    ServedModel,
    fill_in,
    find_program,
)
from clew.portable import IS_POSIX, lock_file

_LOCK = ".lock"
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")
_COPILOT_WINDOW = 1_000_000
CHATGPT = "https://chatgpt.com/backend-api/codex"
"""Where Codex calls its model with a ChatGPT login."""
_PROVIDERS = {OPENAI: "openai", ANTHROPIC: "anthropic", GOOGLE: "google"}
"""The names of the built-in providers in opencode and pi."""
_TOKEN = "CLEW_WRAP_TOKEN"  # noqa: S105 (the name of a variable)
"""Holds the gateway's token where a program takes headers from variables: every user can read its command line."""
_BY_KEY = {
    "OPENAI_API_KEY": ("OPENAI_BASE_URL", "chat,responses", f"https://{OPENAI}/v1"),
    "ANTHROPIC_API_KEY": ("ANTHROPIC_BASE_URL", "messages", f"https://{ANTHROPIC}"),
    "GEMINI_API_KEY": ("GOOGLE_GEMINI_BASE_URL", "gemini", f"https://{GOOGLE}"),
    "GOOGLE_API_KEY": ("GOOGLE_GEMINI_BASE_URL", "gemini", f"https://{GOOGLE}"),
}
"""The keys in the environment: what points elsewhere, the wires, and the API that a key is for."""
_KEYS = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
}
_LINKED = frozenset(("auth.json", "oauth_creds.json", "google_accounts.json"))
"""A renewed login has to reach the person's own file."""


@dataclass(frozen=True, slots=True)
class WrappedProgram:
    """A command line and its environment, as they are run."""

    command: tuple[str, ...]
    environ: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class WrapTarget:
    """The gateway and the model that a program is configured for."""

    gateway: str
    """The address of the private gateway."""
    token: str = field(repr=False)
    upstream: str
    model: ServedModel
    environ: Mapping[str, str]
    folder: Path
    """An existing folder for files."""

    @property
    def address(self) -> str:
        """The address that a program gets. It contains a token that other users of this machine do not know."""
        return f"{self.gateway}/{self.token}"

    @property
    def provider(self) -> str | None:
        """The name of the upstream as a built-in provider of programs."""
        return _PROVIDERS.get((urlsplit(self.upstream).hostname or "").lower())

    @property
    def base(self) -> str:
        return f"{self.address}/v1"

    @property
    def key(self) -> str:
        """The credential for the upstream, where a program needs it a second time."""
        names = _KEYS.get(self.provider or "openai", ())
        return next((self.environ[name] for name in names if self.environ.get(name)), "none")

    def program_folder(self, variable: str, default: str) -> Path:
        """The folder of the person's own files of a program."""
        return program_folder(self.environ, variable, default)

    def need_model(self, title: str) -> str:
        """Return the name of the model, which a program needs for an upstream that it does not know."""
        if not self.model.name:
            raise InvalidArgument(
                f"{title} needs the name of a model of {self.upstream}", remedy="add --set model.name=NAME"
            )
        return self.model.name


@dataclass(slots=True)
class Overlay:
    """Additions for one program."""

    arguments: tuple[str, ...] = ()
    """They precede the arguments of the person."""
    environ: dict[str, str] = field(default_factory=dict)


def find_upstreams(setup: ClientSetup | None, environ: Mapping[str, str], settings: Settings) -> tuple[str, ...]:
    """The upstreams of a program: its configured address, else its own API, else the address in Clew's config.

    For an unknown program, the API whose key is in the environment. Empty if there is none.
    """
    if setup is not None and (cloud := _cloud(setup, environ)):
        return (cloud,)
    variables = setup.base_variables if setup else ()
    pointed = next((environ[name] for name in variables if environ.get(name)), None)
    own = f"https://{setup.host}" if setup and setup.host else None
    if found := pointed or own or settings.model.base_url:
        return (found,)
    by_key = {
        variable: f"{wires}={environ.get(variable) or url}"
        for key, (variable, wires, url) in _BY_KEY.items()
        if environ.get(key) or environ.get(variable)
    }
    return tuple(by_key.values())


def _cloud(setup: ClientSetup, environ: Mapping[str, str]) -> str | None:
    """The upstream of a program that is set up for a cloud or a subscription; None for others."""
    if setup.name == "claude" and environ.get("CLAUDE_CODE_USE_BEDROCK"):
        region = environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or "us-east-1"
        return "bedrock=" + (
            environ.get("ANTHROPIC_BEDROCK_BASE_URL") or f"https://bedrock-runtime.{region}.amazonaws.com"
        )
    if setup.name == "claude" and environ.get("CLAUDE_CODE_USE_VERTEX"):
        region = environ.get("CLOUD_ML_REGION") or "global"
        host = "aiplatform" if region == "global" else f"{region}-aiplatform"
        return "vertex=" + (environ.get("ANTHROPIC_VERTEX_BASE_URL") or f"https://{host}.googleapis.com")
    if setup.name == "codex" and not environ.get("OPENAI_API_KEY") and not environ.get("OPENAI_BASE_URL"):
        login = _json(_text(program_folder(environ, "CODEX_HOME", ".codex") / "auth.json"))
        if login.get("tokens") and not login.get("OPENAI_API_KEY"):
            return CHATGPT
    return None


def wrap_program(command: tuple[str, ...], target: WrapTarget) -> WrappedProgram:
    """A command line and an environment that lead through the gateway."""
    setup, at = find_program(command)
    environ = dict(target.environ)
    environ |= {name: fill_in(value, target.address, target.model) for name, value in ENVIRONMENT.items()}
    environ |= _past_proxies(target.environ)
    environ |= {"ANTHROPIC_BEDROCK_BASE_URL": target.address, "ANTHROPIC_VERTEX_BASE_URL": target.base}
    make = _OVERLAYS.get(setup.name) if setup else None
    overlay = make(target) if make else Overlay()
    return WrappedProgram((*command[:at], *overlay.arguments, *command[at:]), environ | overlay.environ)


def _past_proxies(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that exclude this machine from a configured proxy."""
    if not any(name.lower() in _PROXIES and value for name, value in environ.items()):
        return {}
    known = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    hosts = ",".join(filter(None, (known, "127.0.0.1")))
    return {"no_proxy": hosts, "NO_PROXY": hosts}


def _codex(target: WrapTarget) -> Overlay:
    provider: dict[str, str | bool] = {"name": "Clew", "base_url": f"{target.gateway}/v1", "wire_api": "responses"}
    if target.environ.get("OPENAI_API_KEY"):
        provider["env_key"] = "OPENAI_API_KEY"
    else:
        provider["requires_openai_auth"] = True
    table = ", ".join(f"{name} = {json.dumps(value)}" for name, value in provider.items())
    table += f', env_http_headers = {{ "{TOKEN_HEADER}" = "{_TOKEN}" }}'
    values = (f"model_providers.clew={{{table}}}", 'model_provider="clew"', "model_context_window=272000")
    return Overlay(tuple(word for value in values for word in ("-c", value)), {_TOKEN: target.token})


def _claude(target: WrapTarget) -> Overlay:
    """Claude Code's settings can set variables, which override the environment; flags override settings."""
    folders = (target.program_folder("CLAUDE_CONFIG_DIR", ".claude"), Path(".claude"))
    settings = (file for folder in folders for file in folder.glob("settings*.json"))
    if not any("ANTHROPIC_BASE_URL" in _text(file) for file in settings):
        return Overlay()
    file = target.folder / "settings.json"
    file.write_text(json.dumps({"env": {"ANTHROPIC_BASE_URL": target.address}}), encoding="utf-8")
    return Overlay(("--settings", str(file)))


def _opencode(target: WrapTarget) -> Overlay:
    """opencode merges the config in a variable over its config files."""
    given = _json(target.environ.get("OPENCODE_CONFIG_CONTENT", ""))
    provider: dict[str, Any]
    if target.provider is not None:
        base = f"{target.address}/v1beta" if target.provider == "google" else target.base
        provider = {target.provider: {"options": {"baseURL": base}}}
        config = _merged(given, {"provider": provider})
    else:
        limits = {"limit": {"context": target.model.window, "output": target.model.output}}
        options = {"baseURL": target.base, "apiKey": "{env:OPENAI_API_KEY}"}
        name = target.need_model("opencode")
        provider = {"clew": {"npm": "@ai-sdk/openai-compatible", "options": options, "models": {name: limits}}}
        config = _merged({"model": f"clew/{name}", **given}, {"provider": provider})
    return Overlay(environ={"OPENCODE_CONFIG_CONTENT": json.dumps(config)})


def _gemini(target: WrapTarget) -> Overlay:
    """Gemini CLI with another address needs a chosen login, here by key, to run without a person."""
    own = target.program_folder("GEMINI_CLI_HOME", "") / ".gemini"
    text = _text(own / "settings.json")
    if not target.environ.get("GEMINI_API_KEY") or "selectedType" in text or (text.strip() and not _json(text)):
        return Overlay()
    # Its sessions belong to the person and must outlive this folder.
    (own / "tmp").mkdir(parents=True, exist_ok=True)
    folder = _copied(own, target.folder / ".gemini")
    settings = _merged(_json(text), {"security": {"auth": {"selectedType": "gemini-api-key"}}})
    (folder / "settings.json").write_text(json.dumps(settings, indent=2), encoding="utf-8")
    return Overlay(environ={"GEMINI_CLI_HOME": str(target.folder)})


def _pi(target: WrapTarget) -> Overlay:
    """pi has one folder for all its files: it gets a copy, with an extended models.json."""
    own = target.program_folder("PI_CODING_AGENT_DIR", ".pi/agent")
    (own / "sessions").mkdir(parents=True, exist_ok=True)
    folder = _copied(own, target.folder / "pi")
    models = folder / "models.json"
    base = {"openai": target.base, "anthropic": target.address, "google": f"{target.address}/v1beta"}
    provider: dict[str, Any]
    if target.provider is not None:
        provider = {target.provider: {"baseUrl": base[target.provider]}}
    else:
        listed = {
            "id": target.need_model("pi"),
            "contextWindow": target.model.roomy_window,
            "maxTokens": target.model.output,
        }
        key = "OPENAI_API_KEY" if target.environ.get("OPENAI_API_KEY") else "none"
        provider = {"clew": {"baseUrl": target.base, "api": "openai-completions", "apiKey": key, "models": [listed]}}
    models.write_text(json.dumps(_merged(_json(_text(models)), {"providers": provider}), indent=2), encoding="utf-8")
    return Overlay(environ={"PI_CODING_AGENT_DIR": str(folder)})


def _copilot(target: WrapTarget) -> Overlay:
    """Copilot's models need GitHub's login; with a configured provider it calls that provider's address."""
    is_anthropic = target.provider == "anthropic"
    variables = {
        "COPILOT_PROVIDER_BASE_URL": target.address if is_anthropic else target.base,
        "COPILOT_PROVIDER_TYPE": "anthropic" if is_anthropic else "openai",
        "COPILOT_PROVIDER_API_KEY": target.environ.get("COPILOT_PROVIDER_API_KEY") or target.key,
    }
    # A type that the person configured is kept: the wire of their address.
    if target.environ.get("COPILOT_PROVIDER_BASE_URL"):
        own = target.environ.get("COPILOT_PROVIDER_TYPE") or "openai"
        variables |= {"COPILOT_PROVIDER_TYPE": own}
        variables["COPILOT_PROVIDER_BASE_URL"] = target.base if own == "openai" else target.address
    if not (target.environ.get("COPILOT_MODEL") or target.environ.get("COPILOT_PROVIDER_MODEL_ID")):
        variables["COPILOT_MODEL"] = target.need_model("Copilot")
    # It compacts by its count of the whole history, which the gateway keeps inside the window.
    variables["COPILOT_PROVIDER_MAX_PROMPT_TOKENS"] = str(_COPILOT_WINDOW)
    return Overlay(environ=variables)


def _cline(target: WrapTarget) -> Overlay:
    """Cline's file of providers can be elsewhere: it gets a copy with one more provider."""
    home = target.program_folder("CLINE_DIR", ".cline")
    given = target.environ.get("CLINE_PROVIDER_SETTINGS_PATH")
    own = _json(_text(Path(given) if given else home / "data" / "settings" / "providers.json"))
    known = own.get("providers") if isinstance(own.get("providers"), dict) else {}
    name = str(own.get("lastUsedProvider") or "")
    if target.provider is not None and name and name in (known or {}):
        settings = {"baseUrl": target.address if target.provider == "anthropic" else target.base}
    else:
        name = "openai-compatible"
        settings = {"provider": name, "apiKey": target.key, "model": target.need_model("Cline"), "baseUrl": target.base}
    entry = {"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    whole = _merged({"version": 1, "modes": {}, **own}, {"lastUsedProvider": name, "providers": {name: entry}})
    file = target.folder / "providers.json"
    file.write_text(json.dumps(whole), encoding="utf-8")
    return Overlay(environ={"CLINE_PROVIDER_SETTINGS_PATH": str(file)})


def _continue(target: WrapTarget) -> Overlay:
    """Continue takes a config file by a flag: a copy of the person's, with this model."""
    import yaml

    own = _yaml(target.program_folder("CONTINUE_GLOBAL_DIR", ".continue") / "config.yaml")
    name = target.need_model("Continue")
    is_anthropic = target.provider == "anthropic"
    model = {
        "name": name,
        "provider": "anthropic" if is_anthropic else "openai",
        "model": name,
        "apiBase": target.base,
        "apiKey": target.key,
        "defaultCompletionOptions": {"contextLength": target.model.roomy_window},
    }
    head = {"name": "clew", "version": "1.0.0", "schema": "v1"}
    file = target.folder / "config.yaml"
    whole = {**head, **own, "models": [model]}
    file.write_text(yaml.safe_dump(whole), encoding="utf-8")
    return Overlay(("--config", str(file)))


def _nanocoder(target: WrapTarget) -> Overlay:
    """nanocoder takes providers from a variable, beside those of its files."""
    name = target.need_model("nanocoder")
    provider = {"name": "clew", "baseUrl": target.base, "apiKey": target.key, "models": [name]}
    return Overlay(("--provider", "clew", "--model", name), {"NANOCODER_PROVIDERS": json.dumps([provider])})


def _hermes(target: WrapTarget) -> Overlay:
    """Hermes reads addresses only from its config file: it gets a folder with another config and links to the rest."""
    import yaml

    own = target.program_folder("HERMES_HOME", ".hermes")
    config = _yaml(own / "config.yaml")
    known = config.get("model") if isinstance(config.get("model"), dict) else {"default": config.get("model")}
    name = target.model.name or (known or {}).get("default") or target.need_model("Hermes")
    # Its sessions belong to the person and must outlive this folder.
    own.mkdir(parents=True, exist_ok=True)
    folder = target.folder / "hermes"
    folder.mkdir(mode=0o700)
    for path in own.iterdir():
        if path.name != "config.yaml":
            (folder / path.name).symlink_to(path)
    for kept in ("state.db", "sessions", "memories", "logs"):
        if not (folder / kept).is_symlink():
            (folder / kept).symlink_to(own / kept)
            if "." not in kept:
                (own / kept).mkdir(exist_ok=True)
    model = {**(known or {}), "default": name, "provider": "custom", "base_url": target.base, "api_key": target.key}
    (folder / "config.yaml").write_text(yaml.safe_dump({**config, "model": model}), encoding="utf-8")
    return Overlay(environ={"HERMES_HOME": str(folder)})


def _copied(own: Path, folder: Path) -> Path:
    """A folder with copies of the files of another, and links to its folders and logins."""
    folder.mkdir(mode=0o700)
    for path in own.iterdir() if own.is_dir() else ():
        if path.is_dir() or path.name in _LINKED:
            (folder / path.name).symlink_to(path)
        elif path.is_file():
            shutil.copy2(path, folder / path.name)
    return folder


_OVERLAYS: Mapping[str, Callable[[WrapTarget], Overlay]] = {
    "codex": _codex,
    "claude": _claude,
    "cline": _cline,
    "continue": _continue,
    "copilot": _copilot,
    "hermes": _hermes,
    "nanocoder": _nanocoder,
    "gemini": _gemini,
    "opencode": _opencode,
    "pi": _pi,
}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _json(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _yaml(path: Path) -> dict[str, Any]:
    import yaml

    try:
        value = yaml.safe_load(_text(path))
    except yaml.YAMLError:
        return {}
    return value if isinstance(value, dict) else {}


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for name, value in above.items():
        old = merged.get(name)
        merged[name] = _merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


class OverlayFolders:
    """The folders of wrapped programs, below one folder of Clew's."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @contextlib.contextmanager
    def open(self) -> Iterator[Path]:
        """A folder that only its owner reads, until the end of the block."""
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=self._root))
        lock = os.open(folder / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            if IS_POSIX:
                lock_file(lock, wait=True)
            yield folder
        finally:
            os.close(lock)
            shutil.rmtree(folder, ignore_errors=True)

    def sweep(self) -> int:
        """Remove the folders of runs that were killed; returns how many there were."""
        swept = 0
        for folder in self._root.iterdir() if self._root.is_dir() and IS_POSIX else ():
            try:
                lock = os.open(folder / _LOCK, os.O_RDWR)
            except OSError:
                continue  # another run is just making it, or it is not ours
            try:
                lock_file(lock, wait=False)
            except OSError:
                continue
            else:
                shutil.rmtree(folder, ignore_errors=True)
                swept += 1
            finally:
                os.close(lock)
        return swept
