"""`clew mcp` over standard input and output, with the official client: tools, resources, prompts, and the import."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError, StdioServerParameters, stdio_client

from clew.app.mcp_app import BackgroundImport, McpAppOptions
from clew.cli import main
from clew.config import read_config
from clew.integrations.mcp_setups import MCP_SETUPS, check_mcp_clients, filled_in, server_command
from clew.integrations.mcp_tools import TOOLS
from clew.store import open_store

pytestmark = pytest.mark.slow

PYTHON = {"PYTHONPATH": ":".join(filter(None, sys.path)), "PATH": "/usr/bin:/bin"}


def write_codex_session(home: Path, name: str, *said: str) -> Path:
    lines: list[dict[str, Any]] = [{"type": "session_meta", "payload": {"id": name}}]
    for number, words in enumerate(said):
        role = "assistant" if number % 2 else "user"
        content = [{"type": "text", "text": words}]
        lines.append({"type": "response_item", "payload": {"type": "message", "role": role, "content": content}})
    path = home / ".codex" / "sessions" / "2026" / f"rollout-{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps({"timestamp": "2026-03-01T10:00:00Z", **line}) for line in lines) + "\n")
    os.utime(path, (1_772_359_200,) * 2)
    return path


@asynccontextmanager
async def connected(home: Path, *words: str) -> AsyncIterator[Client]:
    program = StdioServerParameters(
        command=sys.executable, args=["-m", "clew", "mcp", *words], env={"HOME": str(home), **PYTHON}
    )
    async with Client(stdio_client(program)) as client:
        yield client


async def ask(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    [content] = result.content
    assert json.loads(content.text) == result.structured_content  # type: ignore[union-attr]
    assert isinstance(result.structured_content, dict)
    return result.structured_content


async def until_imported(client: Client, count: int) -> None:
    for _ in range(10_000):
        if (await ask(client, "clew_list"))["sessions_in_all"] == count:
            return
    raise AssertionError("nothing was imported")


async def test_a_client_recalls_what_another_program_left_on_the_disk(tmp_path: Path) -> None:
    write_codex_session(tmp_path, "th-1", "Why is hall 3 late?", "A dry bearing.", "Oil it.", "Oiled.")
    write_codex_session(tmp_path, "th-2", "Tea or coffee?", "Tea.")
    async with connected(tmp_path) as client:
        tools = (await client.list_tools()).tools
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)
        assert sum(len(tool.model_dump_json(exclude_none=True)) for tool in tools) < 3_500
        await until_imported(client, 2)
        [hit] = (await ask(client, "clew_search", query="bearing"))["hits"]
        assert (hit["session"], hit["message"], hit["program"]) == ("codex-th-1", 1, "codex")
        opened = await ask(client, "clew_open", session=hit["session"], messages=f"m{hit['message']}-")
        assert [each["text"] for each in opened["messages"]] == ["A dry bearing.", "Oil it.", "Oiled."]
        assert (await ask(client, "clew_handoff", session="th-1"))["messages"][0]["text"] == "Why is hall 3 late?"
        await check_resources(client)
        await check_prompts(client)
        await check_mistakes(client)


async def check_resources(client: Client) -> None:
    listed = {resource.name: resource for resource in (await client.list_resources()).resources}
    assert set(listed) == {"sessions", "codex-th-1", "codex-th-2"}
    templates = (await client.list_resource_templates()).resource_templates
    assert "clew://session/{id}/messages/{start}" in {template.uri_template for template in templates}
    address = listed["codex-th-1"].uri
    for part, told in (
        ("", "first_request"),
        ("/handoff", "tokens_after"),
        ("/view", "left_out"),
        ("/messages/2", "Oil"),
    ):
        [content] = (await client.read_resource(f"{address}{part}")).contents
        assert told in content.text  # type: ignore[union-attr]
    [content] = (await client.read_resource("clew://sessions")).contents
    assert json.loads(content.text)["sessions_in_all"] == 2  # type: ignore[union-attr]
    for wrong in ("clew://session/nobody", "clew://session/codex-th-1/else", "clew://tea", "file:///etc/passwd"):
        with pytest.raises(MCPError):
            await client.read_resource(wrong)


async def check_prompts(client: Client) -> None:
    assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["recall", "take_over"]
    [said] = (await client.get_prompt("recall", {"topic": "bearing"})).messages
    assert "A dry bearing." in said.content.text  # type: ignore[union-attr]
    [said] = (await client.get_prompt("take_over", {"session": "codex-th-1"})).messages
    assert "[user] Oil it." in said.content.text  # type: ignore[union-attr]
    for name, given in (("recall", {}), ("take_over", {"session": "nobody"}), ("tea", {})):
        with pytest.raises(MCPError):
            await client.get_prompt(name, given)


async def check_mistakes(client: Client) -> None:
    for tool, given, told in (
        ("clew_open", {}, "needs session"),
        ("clew_open", {"session": "codex-th-1", "messages": "soon"}, "'soon' names no message"),
        ("clew_open", {"session": "codex-th-1", "page": 2}, "not page"),
        ("clew_search", {"query": 7}, "query is 7; send it as text"),
        ("brew", {}, "there is no tool 'brew'"),
    ):
        result = await client.call_tool(tool, given)
        assert result.is_error and told in result.content[0].text  # type: ignore[union-attr]


def test_only_the_protocol_is_on_standard_output_and_nothing_is_imported_unasked(tmp_path: Path) -> None:
    write_codex_session(tmp_path, "th-1", "Why is hall 3 late?", "A dry bearing.")
    (tmp_path / ".clew").mkdir()
    (tmp_path / ".clew" / "config.yaml").write_text("model: {cache_ttl: 5m}\n")
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "clew_list", "arguments": {}}},
    ]
    words, environ = [sys.executable, "-m", "clew", "mcp", "--no-import"], {"HOME": str(tmp_path), **PYTHON}
    pipe = subprocess.PIPE
    with subprocess.Popen(words, env=environ, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as server:
        assert server.stdin is not None and server.stdout is not None
        server.stdin.writelines(json.dumps(line) + "\n" for line in lines)
        server.stdin.flush()
        answers = [json.loads(server.stdout.readline()) for _ in range(2)]
        rest, err = server.communicate(timeout=120)
    assert [answer["id"] for answer in answers] == [1, 2] and rest == ""
    assert answers[1]["result"]["structuredContent"]["sessions_in_all"] == 0
    assert server.returncode == 0 and "cache_ttl" in err


async def test_a_background_import_that_cannot_write_says_so_and_ends(tmp_path: Path) -> None:
    write_codex_session(tmp_path, "th-1", "Why is hall 3 late?")
    (tmp_path / "state.db").mkdir()
    options = McpAppOptions(str(tmp_path / "state.db"), "there")
    importing = BackgroundImport({"HOME": str(tmp_path)}, options, [tmp_path / ".codex"])
    importing.start()
    importing.stop()
    [problem] = importing.status()["problems"]
    assert problem.startswith("the import has ended: ")


async def test_a_background_import_stops_at_once_and_its_work_is_kept(tmp_path: Path) -> None:
    write_codex_session(tmp_path, "th-1", "Why is hall 3 late?")
    options = McpAppOptions(str(tmp_path / "state.db"), "there")
    importing = BackgroundImport({"HOME": str(tmp_path)}, options, [tmp_path / ".codex"])
    assert importing.status() == {}
    importing.start()
    importing.stop()
    importing.stop()
    async with open_store(tmp_path / "state.db") as store:
        assert len(await store.list_sessions()) <= 1


# -- lines to paste ----------------------------------------------------------------------------------------------------


def test_the_lines_to_paste_name_the_program_and_can_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["mcp", "--show", "all", "--json"], {"HOME": str(tmp_path)}) == 0
    shown = {client["name"]: client["lines"] for client in json.loads(capsys.readouterr().out)["clients"]}
    assert list(shown) == [setup.name for setup in MCP_SETUPS]
    for name in ("gemini", "opencode", "other"):
        assert "mcp" in json.dumps(json.loads(shown[name]))
    home = tmp_path / ".clew"
    home.mkdir()
    (home / "config.yaml").write_text(shown["clew"])
    [server] = read_config({"HOME": str(tmp_path)}).mcp_servers
    assert (server.name, server.args[-1]) == ("clew", "mcp")
    assert main(["mcp", "--show", "Codex"], {"HOME": str(tmp_path)}) == 0
    assert "[mcp_servers.clew]" in capsys.readouterr().out
    assert main(["mcp", "--show", "claud"], {}) == 2
    assert "did you mean claude?" in capsys.readouterr().err


def test_a_link_on_the_path_is_named_by_its_name(tmp_path: Path) -> None:
    own = Path(sys.executable).with_name("clew")
    assert server_command({"PATH": str(own.parent)}) == (str(own), "mcp")
    (tmp_path / "clew").symlink_to(own)
    assert server_command({"PATH": str(tmp_path)}) == ("clew", "mcp")


def test_a_client_whose_config_names_a_program_that_is_gone_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    environ = {"HOME": str(tmp_path), "PATH": ""}
    assert check_mcp_clients(environ) == ()
    good, gone = (sys.executable, "-P", "-m", "clew", "mcp"), ("/nowhere/clew", "mcp")
    for setup, command in zip(MCP_SETUPS, (None, gone, good, gone), strict=False):
        path = tmp_path / setup.config
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(filled_in(setup, command) if command else '{"mcpServers": {"files": {"command": "files"}}}')
    found = {check.client: check.problem for check in check_mcp_clients(environ)}
    assert list(found) == ["Codex", "Gemini CLI", "opencode"] and found["Gemini CLI"] == ""
    assert "/nowhere/clew, which is not there" in found["Codex"] and found["opencode"]
    assert main(["doctor"], environ) == 1
    out = capsys.readouterr().out
    assert "Codex: ~/.codex/config.toml" in out and "clew mcp --show all" in " ".join(out.split())
    assert main(["doctor", "--json"], environ) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is False and [it["client"] for it in told["mcp"]] == ["Codex", "Gemini CLI", "opencode"]


def test_a_client_that_would_run_the_current_project_is_found(tmp_path: Path) -> None:
    path = tmp_path / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text(filled_in(MCP_SETUPS[1], (sys.executable, "-m", "clew", "mcp")))
    (check,) = check_mcp_clients({"HOME": str(tmp_path), "PATH": ""})
    assert "-P" in check.problem


@pytest.mark.parametrize("name", ["claude", "codex", "gemini", "opencode"])
def test_the_guide_has_the_lines_that_are_printed(name: str) -> None:
    guide = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "mcp.md").read_text(encoding="utf-8")
    setup = next(setup for setup in MCP_SETUPS if setup.name == name)
    assert filled_in(setup, ("clew", "mcp")) in guide


def test_the_guide_names_every_tool_and_flag(capsys: pytest.CaptureFixture[str]) -> None:
    guide = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "mcp.md").read_text(encoding="utf-8")
    assert main(["mcp", "--help"], {}) == 0
    flags = set(re.findall(r"--[a-z-]+[a-z]", capsys.readouterr().out)) - {"--help", "--json", "--set"}
    assert {word for word in (*flags, *(f"`{tool.name}`" for tool in TOOLS)) if word not in guide} == set()
