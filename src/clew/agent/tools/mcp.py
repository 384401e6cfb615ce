"""Tools of MCP servers as tools of the agent. Needs the extra `mcp`, which is imported when a server is configured.

Each connection has its own task, since the client's streams must be closed by the task that opened them. What a
server says about its tools is text of a stranger: names are made valid, and a call is asked for like any that may
change something, unless the config trusts the server. That a tool only reads is its own word, which skips no question.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, TextIO

from clew.agent.approvals import Risk
from clew.agent.safe_text import printable_line
from clew.agent.tools.base import AgentTool, Arguments, CallContext, ToolResult, error_result
from clew.config import McpServer, resolved
from clew.errors import ClewError, InvalidArgument
from clew.install import install_command

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult
    from mcp.types import Tool as McpToolInfo

CONNECT_SECONDS = 30.0
MAX_NAME_CHARS = 64
"""What providers allow."""
MAX_TOOLS = 128
_MAX_DESCRIPTION_CHARS = 2_000
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]")
_HARMLESS_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "USER", "SHELL", "TERM")


class McpConnection:
    """A server that is connected to; opened and closed by `connect_servers` and `close`."""

    def __init__(self, server: McpServer, environ: Mapping[str, str], folder: Path) -> None:
        self.server = server
        self.tools: tuple[McpTool, ...] = ()
        self.problem = ""
        """Why its tools are not there."""
        self._environ = environ
        self._folder = folder
        self._client: Client | None = None
        self._last_error_line = ""
        self._opened = asyncio.Event()
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connect and read which tools there are; where that fails, `problem` says why."""
        self._task = asyncio.create_task(self._keep_open())
        try:
            await asyncio.wait_for(self._opened.wait(), CONNECT_SECONDS)
        except TimeoutError:
            self.problem = f"it did not answer within {CONNECT_SECONDS:.0f} s"
            await self.close()

    async def close(self) -> None:
        self._closing.set()
        if self._task is not None:
            done, _ = await asyncio.wait({self._task}, timeout=5.0)
            if not done:
                self._task.cancel()
                await asyncio.wait({self._task}, timeout=5.0)
            self._task = None

    async def call(self, name: str, arguments: Arguments) -> ToolResult:
        if self._client is None:
            return error_result(f"the MCP server {self.server.name} is gone: {self.problem or 'it ended'}")
        try:
            result = await self._client.call_tool(name, dict(arguments), read_timeout_seconds=self.server.seconds)
        except _client_errors() as problem:
            return error_result(f"{self.server.name}: {type(problem).__name__}: {problem}")
        return result_of(result)

    async def _keep_open(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                # Not on the terminal, which shows the chat; its last line is reported where the server fails.
                errors = stack.enter_context(TemporaryFile("w+", encoding="utf-8", errors="replace"))  # noqa: SIM115
                stack.callback(self._read_errors, errors)
                client = await stack.enter_async_context(await self._new_client(errors, stack))
                infos = await _all_tools(client)
                self.tools = tuple(McpTool(self, info) for info in infos)
                self._client = client
                self._opened.set()
                await self._closing.wait()
        except _client_errors() as problem:
            self.problem = f"{_in_one_line(problem)}{self._last_error_line}"
        finally:
            self._client = None
            self._opened.set()

    def _read_errors(self, errors: TextIO) -> None:
        errors.seek(0)
        lines = [line for line in errors.read()[-4_000:].splitlines() if line.strip()]
        self._last_error_line = f" ({printable_line(lines[-1].strip(), 200)})" if lines else ""

    async def _new_client(self, errors: TextIO, stack: AsyncExitStack) -> Client:
        try:
            from mcp import Client, StdioServerParameters, stdio_client
        except ImportError as error:
            raise InvalidArgument(f"MCP servers need the extra `mcp`: {install_command('mcp')}") from error
        server = self.server
        if server.url is not None:
            import httpx2
            from mcp.client.streamable_http import streamable_http_client

            headers = resolved(server.headers, server.name, self._environ)
            http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers))
            return Client(streamable_http_client(server.url, http_client=http))
        known = {name: self._environ[name] for name in _HARMLESS_VARIABLES if name in self._environ}
        environ = {**known, **resolved(server.env, server.name, self._environ)}
        program = StdioServerParameters(
            command=server.command or "", args=list(server.args), env=environ, cwd=str(self._folder)
        )
        return Client(stdio_client(program, errlog=errors))


class McpTool(AgentTool):
    """A tool of a server, under a name with the server's before it."""

    def __init__(self, connection: McpConnection, info: McpToolInfo) -> None:
        self._connection = connection
        self._own_name = info.name
        self.name = tool_name(connection.server.name, info.name)
        about = (info.description or info.title or info.name)[:_MAX_DESCRIPTION_CHARS]
        self._claims_to_read = bool(info.annotations and info.annotations.read_only_hint)
        self.is_read_only = self._claims_to_read and connection.server.trust
        self.schema = {
            "type": "function",
            "function": {"name": self.name, "description": about, "parameters": dict(info.input_schema)},
        }

    def risk(self, arguments: Arguments) -> Risk | None:
        server = self._connection.server
        if server.trust:
            return None
        given = printable_line(json.dumps(dict(arguments), ensure_ascii=False, default=str), 300)
        claim = "; its server declares it as read-only" if self._claims_to_read else ""
        reason = f"it runs in the MCP server {server.name}, which the config does not trust{claim}"
        return Risk(f"call {self._own_name} of {server.name} with {given}", (reason,), f"mcp:{self.name}")

    def headline(self, arguments: Arguments) -> str:
        first = next((value for value in arguments.values() if isinstance(value, str) and value), "")
        return f"{self._connection.server.name}: {self._own_name} {first.splitlines()[0] if first else ''}".rstrip()

    async def run(self, arguments: Arguments, call: CallContext) -> ToolResult:
        del call
        return await self._connection.call(self._own_name, arguments)

    async def close(self) -> None:
        await self._connection.close()


async def connect_servers(
    servers: Sequence[McpServer], environ: Mapping[str, str], folder: Path
) -> tuple[list[AgentTool], list[str]]:
    """The tools of every server, which close it, and a sentence about each server that did not answer."""
    connections = [McpConnection(server, environ, folder) for server in servers if server.enabled]
    await asyncio.gather(*(connection.open() for connection in connections))
    tools: dict[str, AgentTool] = {}
    notices = [f"MCP server {it.server.name}: {it.problem}" for it in connections if it.problem]
    for connection in connections:
        for tool in connection.tools:
            tools.setdefault(tool.name, tool)
        if not connection.tools:
            await connection.close()
    return [*tools.values()], notices


def tool_name(server: str, tool: str) -> str:
    """`mcp__server__tool` with the characters that providers allow."""
    return _NOT_IN_A_NAME.sub("_", f"mcp__{server}__{tool}")[:MAX_NAME_CHARS]


def result_of(result: CallToolResult) -> ToolResult:
    """What a call returned, as text: pictures and sounds are named, since a tool's result is text for every model."""
    texts = [_text_of(block) for block in result.content]
    if not texts and result.structured_content is not None:
        texts = [json.dumps(result.structured_content, ensure_ascii=False)]
    return ToolResult("\n".join(texts) or "(it returned nothing)", is_error=bool(result.is_error))


def _text_of(block: Any) -> str:
    if block.type == "text":
        return str(block.text)
    if block.type in ("image", "audio"):
        return f"[{block.type}, {block.mime_type}, {len(block.data) * 3 // 4:,} bytes]"
    if block.type == "resource_link":
        return f"[resource {block.uri}]"
    text = getattr(getattr(block, "resource", None), "text", None)
    return str(text) if text is not None else f"[{block.type}]"


async def _all_tools(client: Client) -> list[McpToolInfo]:
    found: list[McpToolInfo] = []
    cursor: str | None = None
    while len(found) < MAX_TOOLS:
        page = await client.list_tools(cursor=cursor)
        found += page.tools
        cursor = page.next_cursor
        if not cursor:
            break
    return found[:MAX_TOOLS]


def _client_errors() -> tuple[type[Exception], ...]:
    """What is raised for a server that is not there, is gone, or answers what the protocol does not allow."""
    own: tuple[type[Exception], ...] = ()
    with suppress(ImportError):
        import anyio
        import httpx2
        from mcp import MCPError

        closed = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)
        own = (MCPError, httpx2.HTTPError, httpx2.InvalidURL, *closed)
    # The client also raises RuntimeError and ValueError (of its schemas), and groups, since its streams are tasks.
    return (*own, ClewError, OSError, RuntimeError, ValueError, ExceptionGroup)


def _in_one_line(problem: BaseException) -> str:
    """The first cause of a problem: clients wrap it into groups."""
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    words = printable_line(str(problem), 300)
    return words if isinstance(problem, ClewError) else f"{type(problem).__name__}: {words}".rstrip(": ")
