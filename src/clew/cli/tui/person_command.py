"""Commands that the person runs in a chat (`!git status`): in the project, without approval, shown as they run."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from clew.agent import ToolActivity
from clew.agent.process_output import CommandOutput
from clew.agent.processes import ProcessGroup, shell_command
from clew.errors import ClewError

if TYPE_CHECKING:
    from clew.app import AgentApp
    from clew.cli.tui.observer import ScreenObserver

KEPT_CHARS = 200_000
"""Of a longer output the beginning and the end are kept."""
_CALL_ID = "person"


async def run_person_command(command: str, app: AgentApp, observer: ScreenObserver) -> str:
    """Run a command to its end and print its output; the output with the exit code where it is not 0.

    It has no terminal and no standard input. Cancelling ends it with all that it started.
    """
    activity = ToolActivity(_CALL_ID, "terminal", f"$ {command}")
    output, started = CommandOutput(KEPT_CHARS), time.monotonic()
    observer.on_tool_start(activity)

    def on_bytes(piece: bytes) -> None:
        observer.on_tool_output(activity, output.feed(piece))

    try:
        process = await ProcessGroup.start(shell_command(command), app.project, app.environ, on_bytes)
    except OSError as problem:
        raise ClewError(f"the command could not be started: {problem.strerror}; see to the shell") from problem
    code: int | None = None
    try:
        code = await process.exit_code()
    finally:
        await process.end()
        seconds = f"{time.monotonic() - started:.1f} s"
        how = seconds if code == 0 else f"exit {code}, {seconds}" if code is not None else f"stopped after {seconds}"
        observer.on_command_end(activity.headline, output.text(), how, is_error=code != 0)
    return output.text() if code == 0 else f"{output.text().rstrip()}\n[exit {code}]"
