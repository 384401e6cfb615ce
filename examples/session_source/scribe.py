"""Writes the session down while it happens: what is said, what is called, what the tools really answer."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from session_source.workbench import HOME, TOOLS, Call, StoryError, Workbench

MODEL = "gpt-5.1"
SYSTEM = f"""You are a coding agent that works in {HOME} on a relay box's software.

You have five tools: read_file, write_file, patch, search_files and terminal. Paths are relative to the project folder.
Look before you change. Make the smallest change that solves the problem, and prove it with a test that failed before.
Run the whole test suite before you say that something is done, and say plainly what you did not do.
When a tool fails, read what it says; do not repeat the same call. When the user states a rule, it holds until the user
takes it back. Answer in the user's language. Code, comments and commit messages are English.

Project: tidepost relays tide-gauge readings to the hydrographic office over a radio link that is often down.
Branch: main. Python 3.11, pytest. The relay box has no network apart from the radio link."""


class Scribe:
    """A session in the making."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench
        self.messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}]
        self._calls = 0
        self._seen = ""

    def user(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})

    def say(self, text: str) -> None:
        self.messages.append({"role": "assistant", "content": text})

    def do(self, text: str | None, *calls: Call) -> None:
        """One reply with its calls, and the results."""
        made = [(self._call_id(), call) for call in calls]
        self.messages.append(
            {
                "role": "assistant",
                "content": text,
                "tool_calls": [
                    {
                        "id": call_id,
                        "type": "function",
                        "function": {"name": call.name, "arguments": json.dumps(call.args, ensure_ascii=False)},
                    }
                    for call_id, call in made
                ],
            }
        )
        self._seen = ""
        for call_id, call in made:
            result = self.bench.run(call)
            self._seen += result + "\n"
            self.messages.append({"role": "tool", "tool_call_id": call_id, "content": result})

    def saw(self, *stretches: str) -> None:
        """What the story is about to claim must stand in the last results."""
        for stretch in stretches:
            if stretch not in self._seen:
                raise StoryError(f"the story claims {stretch!r}, and this came:\n{self._seen}")

    def session(self) -> dict[str, Any]:
        return {"model": MODEL, "tools": TOOLS, "messages": self.messages}

    def _call_id(self) -> str:
        self._calls += 1
        return "call_" + hashlib.sha256(f"tidepost {self._calls}".encode()).hexdigest()[:24]
