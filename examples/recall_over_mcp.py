"""MCP: ask `clew mcp` for an old session, as Claude Code, Codex and others do. `pip install 'clew-context[mcp]'`"""

import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from mcp import Client, StdioServerParameters, stdio_client

SESSIONS = Path(__file__).parent


async def main(home: str) -> None:
    words = ["-m", "clew", "mcp", "--import", str(SESSIONS / "session.json"), "--set", f"store.url={home}/state.db"]
    server = StdioServerParameters(command=sys.executable, args=words, env={"HOME": home})
    async with Client(stdio_client(server)) as client:
        print(", ".join(tool.name for tool in (await client.list_tools()).tools))
        hits: list = []
        while not hits:  # the import has just begun
            await asyncio.sleep(0.2)
            found = await client.call_tool("clew_search", {"query": "radio outage"})
            hits = found.structured_content["hits"]
        print(f"{hits[0]['session'][:6]}... m{hits[0]['message']} {hits[0]['role']}: {hits[0]['title']}")
        asked = {"session": hits[0]["session"], "tokens": 2_000}
        folded = (await client.call_tool("clew_handoff", asked)).structured_content
        print(f"{folded['tokens_before']:,} tokens as a handoff of {folded['tokens_after']:,}")


with TemporaryDirectory() as temporary:
    asyncio.run(main(temporary))
