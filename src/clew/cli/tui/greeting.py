"""What is said at the start: the program, the model and its window, the project, the engine, caching, approvals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from clew import __version__
from clew.cli.amounts import counted, short
from clew.cli.output import clipped
from clew.cli.sessions_view import said
from clew.cli.tui.harmless import harmless

if TYPE_CHECKING:
    from clew.app import Desk
    from clew.turn import LiveConversation

LAST_SAID_COLUMNS = 200
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


def greeting(desk: Desk, live: LiveConversation, mode: str, *, resumed: str | None) -> RenderableType:
    """A few lines; `resumed` is the title of an earlier conversation that goes on."""
    through = desk.target.provider.name
    rows = [
        ("model", f"{live.target.model}{f' through {through}' if through else ''}, {_window_shown(desk, live)}"),
        ("project", _shown(desk.project)),
        ("engine", f"{live.engine.name}, compacts from {live.engine.get_status().threshold_tokens:,} tokens"),
        ("caching", desk.caching_line().removeprefix("prompt caching: ")),
        ("approvals", APPROVALS.get(mode, mode)),
    ]
    if not desk.settings.compression.enabled:
        rows[2] = ("engine", f"{live.engine.name}, automatic compaction is off")
    if resumed is not None:
        title = f" ({resumed})" if resumed else ""
        rows.append(("resumed", f"{live.session}{title}, {counted(len(live.messages), 'message')} in view"))
        rows += _last_said(live)
    head = Text.assemble(("clew ", "bold"), (__version__, "bold"), ("  /help lists commands, Ctrl-D leaves", "dim"))
    notices = [Padding(Text(harmless(notice), "yellow"), (0, 0, 0, 2)) for notice in desk.notices]
    return Group(head, _facts(rows), *notices)


def _facts(rows: Sequence[tuple[str, str]]) -> Table:
    """What there is to know, wrapped beside its names, however narrow the terminal is."""
    table = Table.grid(padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(width=11, no_wrap=True)
    table.add_column(overflow="fold")
    for name, words in rows:
        table.add_row(Text(f"  {name}", "dim"), Text(harmless(words)))
    return table


def _last_said(live: LiveConversation) -> list[tuple[str, str]]:
    """The newest question and answer, as far as they fit: where one was."""
    spoken = [message for message in live.messages if message["role"] in ("user", "assistant")]
    return [("you" if it["role"] == "user" else "it", clipped(said(it), LAST_SAID_COLUMNS)) for it in spoken[-2:]]


def _window_shown(desk: Desk, live: LiveConversation) -> str:
    """`window 200K (by Clew's table)`."""
    is_local = live.window.source == "config" and desk.settings.model.context_length is None
    # Nobody configured it: it is what a model on this machine is started with.
    source = "as it is started here" if is_local else SOURCES[live.window.source]
    return f"window {short(live.window.tokens)} ({source})"


def _shown(path: Path) -> str:
    try:
        return f"~/{path.relative_to(Path.home())}" if path != Path.home() else "~"
    except (ValueError, RuntimeError):
        return str(path)
