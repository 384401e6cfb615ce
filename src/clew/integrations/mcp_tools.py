"""The tools of the MCP server: the description and schema of each, and the function that answers a call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from mcp import types

from clew.agent.tools.base import Arguments, number_argument, text_argument
from clew.errors import InvalidArgument
from clew.integrations.session_recall import (
    MAX_PAGES,
    MAX_TOKENS,
    MIN_TOKENS,
    USUAL_TOKENS,
    SessionQuery,
    SessionRecall,
)
from clew.turn import OPENED_CHARS, PAGE_CHARS

Answer: TypeAlias = Callable[[SessionRecall, Arguments], Awaitable[dict[str, Any]]]
_PROGRAMS = "claude-code, codex, gemini-cli, opencode, pi, hermes, terminal, ..."
_TEXT, _WHOLE = "string", "integer"


@dataclass(frozen=True, slots=True)
class RecallServerTool:
    """A tool of the server: its description for clients, and the function that answers a call."""

    name: str
    title: str
    about: str
    parameters: Mapping[str, tuple[str, str]]
    """Type and description of each."""
    answer: Answer
    required: tuple[str, ...] = ()

    def described(self) -> types.Tool:
        properties = {name: {"type": kind, "description": about} for name, (kind, about) in self.parameters.items()}
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.about,
            input_schema={"type": "object", "properties": properties, "required": list(self.required)},
            annotations=types.ToolAnnotations(read_only_hint=True, open_world_hint=False),
        )

    def checked(self, arguments: Arguments) -> Arguments:
        """The arguments; `InvalidArgument` for a name that there is not, or where one is missing."""
        if unknown := sorted(set(arguments) - set(self.parameters)):
            raise InvalidArgument(f"{self.name} takes {', '.join(self.parameters)}, not {', '.join(unknown)}")
        if missing := [name for name in self.required if arguments.get(name) in (None, "")]:
            raise InvalidArgument(f"{self.name} needs {', '.join(missing)}")
        return arguments


async def _search(recall: SessionRecall, given: Arguments) -> dict[str, Any]:
    query = SessionQuery(
        text_argument(given, "query"),
        text_argument(given, "session", ""),
        text_argument(given, "program", ""),
        text_argument(given, "role", ""),
        number_argument(given, "days", 0, 0, 100_000),
        number_argument(given, "page", 1, 1, MAX_PAGES),
    )
    return await recall.search(query)


async def _open(recall: SessionRecall, given: Arguments) -> dict[str, Any]:
    wanted = given.get("messages")
    name = f"m{wanted}" if isinstance(wanted, int) and wanted >= 0 else text_argument(given, "messages", "m0-")
    chars = number_argument(given, "chars", 0, 1, PAGE_CHARS) if "chars" in given else None
    return await recall.open(text_argument(given, "session"), name, text_argument(given, "around", ""), chars)


async def _handoff(recall: SessionRecall, given: Arguments) -> dict[str, Any]:
    tokens = max(MIN_TOKENS, number_argument(given, "tokens", USUAL_TOKENS, 1, MAX_TOKENS))
    return await recall.compress(text_argument(given, "session"), tokens, text_argument(given, "focus", "") or None)


async def _list(recall: SessionRecall, given: Arguments) -> dict[str, Any]:
    return await recall.overview(text_argument(given, "program", ""), number_argument(given, "page", 1, 1, 100_000))


async def _state(recall: SessionRecall, given: Arguments) -> dict[str, Any]:
    return await recall.state(text_argument(given, "session"))


_SESSION = (_TEXT, "id, the beginning or end of one, or a title")
TOOLS = (
    RecallServerTool(
        "clew_search",
        "Search old sessions",
        "Find what was said, run or decided in earlier sessions of any coding agent on this machine. Any of the words "
        "counts, best hits first, with the text around them. Read more of one with clew_open.",
        {
            "query": (_TEXT, "any words, or a question"),
            "session": (_TEXT, "only in this session"),
            "program": (_TEXT, f"only sessions of: {_PROGRAMS}"),
            "role": (_TEXT, "only user, assistant or tool"),
            "days": (_WHOLE, "only so many days back"),
            "page": (_WHOLE, "next_page of the last answer"),
        },
        _search,
        ("query",),
    ),
    RecallServerTool(
        "clew_open",
        "Open messages",
        "Messages of a session word for word. Long ones by their beginning, or the part around some words.",
        {
            "session": _SESSION,
            "messages": (
                _TEXT,
                "m12, m12-m20, m12- (to the end), -20 (newest), m12@3000 (from a char); default m0-",
            ),
            "around": (_TEXT, "words to show long messages around"),
            "chars": (_WHOLE, f"so much of each message; default up to {OPENED_CHARS}"),
        },
        _open,
        ("session",),
    ),
    RecallServerTool(
        "clew_list",
        "List sessions",
        "The newest sessions, which programs they are of, how far the import is.",
        {
            "program": (_TEXT, f"only sessions of: {_PROGRAMS}"),
            "page": (_WHOLE, "next_page of the last answer"),
        },
        _list,
    ),
    RecallServerTool(
        "clew_state",
        "State of a session",
        "A session: its size, first and last request, and the state of its files, tests, tasks and rules.",
        {"session": _SESSION},
        _state,
        ("session",),
    ),
    RecallServerTool(
        "clew_handoff",
        "Hand a session over",
        "A whole session in few tokens, to take it over: a handoff with requests, decisions, changed files and errors; "
        "m12 in it is message 12 for clew_open. Nothing stored is changed, no model is called.",
        {
            "session": _SESSION,
            "tokens": (_WHOLE, f"{MIN_TOKENS} to {MAX_TOKENS}; default {USUAL_TOKENS}"),
            "focus": (_TEXT, "what to keep in full"),
        },
        _handoff,
        ("session",),
    ),
)
