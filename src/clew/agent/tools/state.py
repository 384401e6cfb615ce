"""The tool `state`: the facts of this conversation, each with the message that says so.

Its answer is fenced, since names and values are from files, commands and other people.
"""

from __future__ import annotations

import re

from clew.agent.safe_text import fenced
from clew.agent.tools.base import AgentTool, Arguments, CallContext, ToolResult, error_result, function_schema
from clew.facts import FACT_KINDS
from clew.redact import redact_text
from clew.store import Store
from clew.turn import read_conversation_state, state_lines

MAX_CHARS = 8_000
_MOST_OF_A_KIND, _MOST_OF_ONE = 6, 60
_NUMBER = re.compile(r"m?(\d{1,12})")
_DESCRIPTION = (
    "How things stand in this conversation, also what you no longer see: changed files, branch, commits, tests, "
    "running services, settings, rules, decisions, tasks; each with its value, since when, what it was before, and the "
    "message that says so (m12: recall open=m12)."
)


class StateTool(AgentTool):
    """Lists the state of the conversation."""

    name = "state"
    is_read_only = True

    def __init__(self, store: Store) -> None:
        self._store = store
        self.schema = function_schema(
            self.name,
            _DESCRIPTION,
            {
                "kind": {"type": "string", "enum": list(FACT_KINDS)},
                "words": {"type": "string", "description": "only what has these words: a file, a setting"},
                "at": {"type": "string", "description": "as it was behind a message: m120"},
            },
        )

    async def run(self, arguments: Arguments, call: CallContext) -> ToolResult:
        kind, words, given = arguments.get("kind"), str(arguments.get("words") or ""), str(arguments.get("at") or "")
        if kind is not None and kind not in FACT_KINDS:
            return error_result(f"kind is {kind!r:.40}; send one of {', '.join(FACT_KINDS)}")
        at = _NUMBER.fullmatch(given.strip())
        if given.strip() and at is None:
            return error_result(f"at is {given!r:.40}; send the number of a message, as in m120")
        state = await read_conversation_state(self._store, await self._store.get_compression_tip(call.session))
        found = state.entities(at=int(at[1]) if at else None, kind=kind, words=words)
        if not found:
            return ToolResult(f"Nothing of that kind is known, up to m{state.next_number - 1}.")
        lines = state_lines(found, _MOST_OF_ONE if kind or words else _MOST_OF_A_KIND)
        when = f"behind m{at[1]}" if at else f"now, behind m{state.next_number - 1}"
        text = redact_text("\n".join(lines))
        cut = text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS].rpartition(chr(10))[0]}\n… ask with kind or words"
        return ToolResult(f"The state {when}:\n{fenced('this conversation', cut)}")
