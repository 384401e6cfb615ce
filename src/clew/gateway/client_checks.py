"""Settings of programs on this machine that would make them compact by themselves behind a gateway.

Reads their config files; what is not there, or cannot be read, is no problem. `client_setups` has what to set instead.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

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
