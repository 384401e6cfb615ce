"""MCP servers as tools of the agent: real servers of the official package, started as programs and over HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp.types import Tool as McpToolInfo

from clew.agent.tools import CallContext
from clew.agent.tools.mcp import McpConnection, McpTool, connect_servers, tool_name
from clew.app import AgentAppOptions, open_agent_app
from clew.config import McpServer, load_config, read_config
from clew.errors import InvalidConfig
from clew.messages import text_of
from clew.store import open_store
from clew.testing import call, user
from clew.testing.scripted import ScriptedProvider, calls, says

pytestmark = pytest.mark.slow

SERVER = '''
import os, sys
from mcp.server import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("clocks")

@server.tool(annotations=ToolAnnotations(readOnlyHint=True))
def late(hall: int) -> str:
    """How late the clock in a hall is."""
    return f"the clock in hall {hall} is {hall * 3} s late; {os.environ.get('OIL', 'no oil')}"

@server.tool()
def wind(hall: int) -> str:
    """Wind a clock."""
    if hall > 9:
        raise ValueError("there is no such hall")
    return "wound"

@server.tool()
def long() -> str:
    return "tick " * 60_000

if len(sys.argv) > 1:
    server.run("streamable-http", port=int(sys.argv[1]))
else:
    server.run("stdio")
'''
CONTEXT = CallContext("s", "c")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "server.py"
    path.write_text(SERVER)
    return path


def stdio(script: Path, name: str = "clocks", **more: object) -> McpServer:
    return McpServer(name, sys.executable, (str(script),), **more)  # type: ignore[arg-type]


async def test_a_program_is_started_its_tools_are_called_and_it_ends(script: Path, tmp_path: Path) -> None:
    server = stdio(script, env={"OIL": "oil of ${BRAND}"})
    tools, notices = await connect_servers([server], {"BRAND": "Greta"}, tmp_path)
    try:
        assert notices == []
        by_name = {tool.name: tool for tool in tools}
        assert list(by_name) == ["mcp__clocks__late", "mcp__clocks__wind", "mcp__clocks__long"]
        late, wind = by_name["mcp__clocks__late"], by_name["mcp__clocks__wind"]
        assert late.schema["function"]["parameters"]["properties"]["hall"]["type"] == "integer"
        result = await late.run({"hall": 3}, CONTEXT)
        assert "the clock in hall 3 is 9 s late; oil of Greta" in result.text
        assert late.headline({"hall": 3}) == "clocks: late"
        failed = await wind.run({"hall": 12}, CONTEXT)
        assert failed.is_error and "wind" in failed.text
        assert (await wind.run({"hall": "x"}, CONTEXT)).is_error
        # Only what says that it reads is not asked for.
        claimed = late.risk({"hall": 3})
        assert claimed is not None and "its server declares it as read-only" in claimed.reasons[0]
        assert not late.is_read_only
        risk = wind.risk({"hall": 3})
        assert risk is not None and 'call wind of clocks with {"hall": 3}' in risk.action
    finally:
        for tool in tools:
            await tool.close()
    assert (await tools[0].run({"hall": 3}, CONTEXT)).is_error


def test_a_trusted_server_is_not_asked_for(script: Path, tmp_path: Path) -> None:
    info = McpToolInfo(name="wind", input_schema={"type": "object"})
    tool = McpTool(McpConnection(stdio(script, trust=True), {}, tmp_path), info)
    assert tool.risk({}) is None
    assert McpTool(McpConnection(stdio(script), {}, tmp_path), info).risk({}) is not None


@asynccontextmanager
async def http_server(script: Path) -> AsyncIterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    running = await asyncio.create_subprocess_exec(
        sys.executable, str(script), str(port), stdout=DEVNULL, stderr=DEVNULL
    )
    try:
        async with asyncio.timeout(30):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                except OSError:
                    await asyncio.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        running.terminate()
        await running.wait()


async def test_a_server_at_an_address_is_called_with_the_configured_headers(script: Path, tmp_path: Path) -> None:
    async with http_server(script) as url:
        server = McpServer("clocks", url=url, headers={"x-test": "${TOKEN}"})
        tools, notices = await connect_servers([server], {"TOKEN": "fake"}, tmp_path)
        assert notices == []
        assert "9 s late" in (await tools[0].run({"hall": 3}, CONTEXT)).text
        for tool in tools:
            await tool.close()


async def test_a_server_that_is_not_there_is_told_and_the_others_serve(script: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit('the oil is missing')")
    servers = [
        stdio(broken, "broken"),
        McpServer("gone", "/no/such/program"),
        McpServer("closed", url="http://127.0.0.1:9/mcp"),
        McpServer("unset", sys.executable, (str(script),), {"OIL": "${NOBODY_SET_THIS}"}),
        McpServer("off", "/no/such/program", enabled=False),
        stdio(script),
    ]
    tools, notices = await connect_servers(servers, {}, tmp_path)
    assert len(tools) == 3
    told = dict(notice.removeprefix("MCP server ").split(": ", 1) for notice in notices)
    assert list(told) == ["broken", "gone", "closed", "unset"]
    assert "the oil is missing" in told["broken"]
    assert "needs the environment variable NOBODY_SET_THIS" in told["unset"]
    for tool in tools:
        await tool.close()


ODD_SERVER = """
import json, os, sys

number = {"type": "object", "properties": {"n": {"type": "integer"}}}
outside = {"type": "object", "$ref": "http://127.0.0.1:9/schema.json"}
unsound = {"type": "object", "minProperties": "n"}
schemas = {"wrong_type": number, "no_content": number, "outside": outside, "unsound": unsound}
names = ["no_result", "no_object", "refused", "deep", "gone", *schemas]
tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
for tool in tools:
    if tool["name"] in schemas:
        tool["outputSchema"] = schemas[tool["name"]]
results = {
    "wrong_type": {"content": [], "structuredContent": {"n": "seven"}},
    "no_content": {"content": []},
    "outside": {"content": [], "structuredContent": {"n": 7}},
    "unsound": {"content": [], "structuredContent": {"n": 7}},
    "no_result": {"content": [{"type": "smell"}]},
    "no_object": [],
}

def answer(asked, **given):
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **given}), flush=True)

for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    name = asked.get("params", {}).get("name")
    if asked["method"] == "initialize":
        info = {"name": "odd", "version": "1"}
        answer(asked, result={"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info})
    elif asked["method"] == "tools/list":
        answer(asked, result={"tools": tools})
    elif asked["method"] != "tools/call":
        answer(asked, error={"code": -32601, "message": "there is no such method"})
    elif name == "gone":
        os._exit(3)
    elif name == "refused":
        answer(asked, error={"code": -32000, "message": "not on a Sunday"})
    elif name == "deep":
        print("no JSON", "[" * 100_000, flush=True)
        answer(asked, result={"content": [], "structuredContent": {"n": 7}, "isError": "perhaps"})
    else:
        answer(asked, result=results[name])
"""


async def test_whatever_a_server_answers_the_model_is_told_and_the_agent_goes_on(tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(ODD_SERVER)
    tools, notices = await connect_servers([stdio(tmp_path / "odd.py", "odd", seconds=2)], {}, tmp_path)
    assert notices == []
    try:
        for tool in sorted(tools, key=lambda each: each.name == "mcp__odd__gone"):
            result = await tool.run({}, CONTEXT)
            assert result.is_error and result.text.startswith("odd: "), (tool.name, result.text)
        assert (await tools[0].run({}, CONTEXT)).is_error
    finally:
        for tool in tools:
            await tool.close()


def test_names_are_what_providers_allow() -> None:
    assert tool_name("a", "read.file/2") == "mcp__a__read_file_2"
    assert len(tool_name("a", "x" * 100)) == 64


async def test_the_agent_calls_a_server_and_long_results_are_bounded(script: Path, tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    args = json.dumps([str(script)])
    (home / "config.yaml").write_text(
        f"mcp:\n  servers:\n    clocks:\n      command: {sys.executable}\n      args: {args}\n      trust: true\n"
        f"    others:\n      command: {sys.executable}\n      args: {args}\n"
    )
    environ = {"CLEW_HOME": str(home)}
    config = load_config(environ, ["model.name=scripted-model", "model.context_length=64000"])
    provider = ScriptedProvider(
        calls(call("mcp__clocks__late", {"hall": 2}, id="c1")),
        calls(call("mcp__others__wind", {"hall": 2}, id="c2")),
        calls(call("mcp__others__late", {"hall": 2}, id="c3")),
        calls(call("mcp__clocks__long", {}, id="c4")),
        says("Done."),
    )
    options = AgentAppOptions(project, approvals="deny", provider=provider)
    async with (
        open_store(tmp_path / "state.db", flush="normal") as store,
        open_agent_app(config, environ, store, options) as app,
    ):
        await app.agent.ask(await app.new_session(), user("Which clock?"))
    results = [text_of(message) for message in provider.requests[-1].messages if message["role"] == "tool"]
    assert "6 s late" in results[0]
    assert "not run" in results[1]
    assert "not run" in results[2]
    names = [tool["function"]["name"] for tool in provider.requests[0].tools]
    assert names[-6:-3] == ["mcp__clocks__late", "mcp__clocks__wind", "mcp__clocks__long"]


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("{}", "expects either command"),
        ("{command: a, url: 'http://b'}", "expects either command"),
        ("7", "expects keys below it"),
        ("{command: a, args: b}", "expects a list of texts"),
        ("{command: a, env: {N: 1}}", "put numbers in quotes"),
        ("{url: ftp://x}", "begins with http"),
        ("{command: a, arg: [b]}", "did you mean args?"),
        ("{command: a, seconds: 0}", "from 1 to 3,600"),
    ],
)
def test_what_is_wrong_with_a_server_is_told_with_its_line(tmp_path: Path, entry: str, told: str) -> None:
    (tmp_path / "config.yaml").write_text(f"mcp:\n  servers:\n    good: {{command: x}}\n    bad: {entry}\n")
    environ = {"CLEW_HOME": str(tmp_path)}
    with pytest.raises(InvalidConfig, match=r"line 4: mcp\.servers\.bad") as problem:
        load_config(environ)
    assert told in str(problem.value)
    assert [server.name for server in read_config(environ).mcp_servers] == ["good"]


def test_values_of_env_and_headers_are_never_shown(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "mcp:\n  servers:\n    a: {command: x, env: [sk-fake-1], headers: sk-fake-2}\n"
    )
    with pytest.raises(InvalidConfig) as problem:
        load_config({"CLEW_HOME": str(tmp_path)})
    assert "sk-fake" not in str(problem.value)
    assert "sk-fake" not in repr(McpServer("a", "x", env={"K": "sk-fake-3"}))
