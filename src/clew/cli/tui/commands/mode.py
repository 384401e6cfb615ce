"""`/mode` and `/plan`: whether files are edited freely, after a question, or not at all."""

from __future__ import annotations

from clew.agent import EditMode
from clew.cli.tui.commands import EDIT_MODES
from clew.cli.tui.state import ChatState
from clew.errors import InvalidArgument

EDIT_MODE_TEXTS: dict[EditMode, str] = {
    "allow": "Files are edited without a question; /undo puts them back.",
    "ask": "Each edit of a file is shown and asked for before it is made.",
    "plan": "Only reading: nothing is changed until you approve the plan.",
}


async def run_mode(state: ChatState, words: str) -> None:
    approvals = state.app.agent.approvals
    if not words:
        others = ", ".join(f"/mode {name}" for name in EDIT_MODES if name != approvals.edits)
        state.show_text(
            EDIT_MODE_TEXTS[approvals.edits], f"{others} or Shift-Tab changes it; agent.edits sets it for good."
        )
        return
    chosen: EditMode | None = next((mode for mode in EDIT_MODE_TEXTS if mode == words), None)
    if chosen is None:
        raise InvalidArgument(f"/mode {words} is not known; it takes {', '.join(EDIT_MODES)}")
    if chosen == "plan" and approvals.edits != "plan":
        state.edits_after_plan = approvals.edits
    approvals.edits = chosen
    state.show_text(EDIT_MODE_TEXTS[chosen])


async def run_plan(state: ChatState, words: str) -> None:
    await run_mode(state, "plan")
    if words:
        state.questions.append(words)
