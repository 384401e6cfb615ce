"""What is said at the start: the program, the model and its window, the project, the engine, caching, approvals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from clew import __version__
from clew.cli.amounts import counted, short
from clew.cli.tui.harmless import harmless

if TYPE_CHECKING:
    from clew.app import Desk
    from clew.tokens import Window
    from clew.turn import LiveConversation

SOURCES = {
    "config": "as configured",
    "stated": "as the provider stated",
    "endpoint": "as its endpoint says",
    "table": "by Clew's table",
    "default": "assumed",
}
APPROVALS = {
    "ask": "asks before what is dangerous",
    "allow": "everything runs without asking",
    "deny": "what is dangerous is refused",
}


def greeting(desk: Desk, live: LiveConversation, mode: str, *, resumed: str | None) -> Text:
    """A few lines; `resumed` is the title of an earlier conversation that goes on."""
    through = desk.target.provider.name
    rows = [
        ("model", f"{live.target.model}{f' through {through}' if through else ''}, {window_shown(live.window)}"),
        ("project", _shown(desk.project)),
        ("engine", f"{live.engine.name}, compacts from {live.engine.get_status().threshold_tokens:,} tokens"),
        ("caching", desk.caching_line().removeprefix("prompt caching: ")),
        ("approvals", APPROVALS.get(mode, mode)),
    ]
    if not desk.settings.compression.enabled:
        rows[2] = ("engine", f"{live.engine.name}, automatic compaction is off")
    text = Text.assemble(("clew ", "bold"), (__version__, "bold"), ("  /help lists commands, Ctrl-D leaves\n", "dim"))
    for name, words in rows:
        text.append(f"  {name:<10}", "dim")
        text.append(f"{harmless(words)}\n")
    if resumed is not None:
        title = f" ({harmless(resumed)})" if resumed else ""
        text.append(f"  {'resumed':<10}", "dim")
        text.append(f"{live.session}{title}, {counted(len(live.messages), 'message')} in view\n")
    for notice in desk.notices:
        text.append(f"  {harmless(notice)}\n", "yellow")
    text.rstrip()
    return text


def window_shown(window: Window) -> str:
    """`window 200K (by Clew's table)`."""
    return f"window {short(window.tokens)} ({SOURCES[window.source]})"


def _shown(path: Path) -> str:
    try:
        return f"~/{path.relative_to(Path.home())}" if path != Path.home() else "~"
    except (ValueError, RuntimeError):
        return str(path)
