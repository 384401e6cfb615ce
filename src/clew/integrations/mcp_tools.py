"""The tools of the MCP server: what a client is told of each, in few words, and what answers a call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from mcp import types

from clew.agent.tools.base import Arguments, flag_argument, number_argument, text_argument
from clew.errors import InvalidArgument
from clew.integrations.session_recall import (
    MAX_HITS,
    MAX_TOKENS,
    MIN_TOKENS,
    USUAL_TOKENS,
    SessionQuery,
    SessionRecall,
)

Answer: TypeAlias = Callable[[SessionRecall, Arguments], Awaitable[dict[str, Any]]]
_NUMBER_SPAN = 2**31
_PROGRAMS = "claude-code, codex, gemini-cli, opencode, pi, hermes, terminal, ..."
_TEXT, _WHOLE, _FLAG = "string", "integer", "boolean"


@dataclass(frozen=True, slots=True)
class RecallServerTool:
    """A tool of the server: what a client is told of it, and what answers a call."""

    name: str
    title: str
    about: str
    parameters: Mapping[str, tuple[str, str]]
    """Each with its type, and what it is."""
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
        number_argument(given, "page", 1, 1, MAX_HITS),
    )
    return await recall.search(query)


async def _open(recall: SessionRecall, given: Arguments) -> dict[str, Any]:
    start = given.get("start")
    # As a handoff names it: m12 is 12.
    plain = {**given, "start": start[1:] if isinstance(start, str) and start.startswith("m") else start}
    first = number_argument(plain, "start", 0, -_NUMBER_SPAN, _NUMBER_SPAN)
    offset = number_argument(given, "offset", 0, 0, _NUMBER_SPAN)
    return await recall.open(text_argument(given, "session"), first, offset, whole=flag_argument(given, "whole"))


async def _compress(recall: SessionRecall, given: Arguments) -> dict[str, Any]:
    tokens = max(MIN_TOKENS, number_argument(given, "tokens", USUAL_TOKENS, 1, MAX_TOKENS))
    return await recall.compress(text_argument(given, "session"), tokens, text_argument(given, "focus", "") or None)


async def _count(recall: SessionRecall, given: Arguments) -> dict[str, Any]:
    model = text_argument(given, "model", "") or None
    return await recall.count(text_argument(given, "session", ""), text_argument(given, "text", ""), model)


async def _state(recall: SessionRecall, given: Arguments) -> dict[str, Any]:
    session = text_argument(given, "session", "")
    if session:
        return await recall.state(session)
    return await recall.overview(text_argument(given, "program", ""), number_argument(given, "page", 1, 1, 100_000))


_SESSION = (_TEXT, "id, as hits name it; or a title")
TOOLS = (
    RecallServerTool(
        "search_sessions",
        "Search old sessions",
        "Find what was said, run or decided in earlier sessions of any coding agent on this machine. Any of the words "
        "counts, best hits first. Each hit names its session and message: read on with open_session.",
        {
            "query": (_TEXT, "any words"),
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
        "open_session",
        "Read an old session",
        "Read messages of a session word for word, from a message number on, page by page.",
        {
            "session": _SESSION,
            "start": (_WHOLE, "message number; -20 is the 20 newest; default 0"),
            "offset": (_WHOLE, "char in that message to read on from"),
            "whole": (_FLAG, "tool results whole, not their first 300 chars"),
        },
        _open,
        ("session",),
    ),
    RecallServerTool(
        "compress_session",
        "Hand a session over",
        "A whole session in few tokens, to take it over: a handoff with requests, decisions, changed files and errors; "
        "m12 in it is message 12 for open_session. Nothing stored is changed, no model is called.",
        {
            "session": _SESSION,
            "tokens": (_WHOLE, f"{MIN_TOKENS} to {MAX_TOKENS}; default {USUAL_TOKENS}"),
            "focus": (_TEXT, "what to tell in full"),
        },
        _compress,
        ("session",),
    ),
    RecallServerTool(
        "count_tokens",
        "Count tokens",
        "How many tokens a session or a text has for a model, and how much of its window.",
        {"session": _SESSION, "text": (_TEXT, "instead of session"), "model": (_TEXT, "default: the session's")},
        _count,
    ),
    RecallServerTool(
        "session_state",
        "State of sessions",
        "Without session: the newest sessions, which programs they are of, how far the import is. With: its size, "
        "first and last request, and how its files, tests, tasks and rules stand.",
        {
            "session": (_TEXT, "id or title"),
            "program": (_TEXT, f"only sessions of: {_PROGRAMS}"),
            "page": (_WHOLE, "next_page of the last answer"),
        },
        _state,
    ),
)
