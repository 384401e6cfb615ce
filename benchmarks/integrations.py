"""What each adapter costs for one model call, and how much of what is sent stays as it was.

    python benchmarks/integrations.py [NAME ...]

Each framework is measured by the Python of its own environment, which `./check integrations NAME` makes. A conversation
in messages of the framework (a call with its result, round by round) is shown by the adapter's conversations, as its
hook does before every call, 50 times, with one more round each time. "cpu ms" is the median of the calls that do not
fold, with all threads of the process. "same" gives the same objects again with new ones behind them, "copied" gives
copies of all of them, as frameworks do that build their messages anew for each call; the framework's own work for that
is not counted. "prefix %" is the part of the bytes of a request that begins the next one, in calls that do not fold.
"""

from __future__ import annotations

import asyncio
import copy
import importlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _table import report

ROOT = Path(__file__).resolve().parents[1]
COLUMNS = ("adapter", "messages", "cpu ms, same", "cpu ms, copied", "calls", "folds", "prefix %")
LENGTHS = (100, 5_000)
CALLS = 50
WINDOW = 64_000
TASK = "Read every part."


@dataclass(frozen=True, slots=True)
class MeasuredFormat:
    """How a framework's messages are made: the first of a conversation, and those of a round."""

    module: str
    task: Callable[[], Any]
    round: Callable[[int, str], Sequence[Any]]
    """From the number of the round and the text of its result."""


def chat_round(number: int, text: str) -> list[Any]:
    function = {"name": "read_part", "arguments": json.dumps({"number": number})}
    call = {"id": f"c{number}", "type": "function", "function": function}
    result = {"role": "tool", "tool_call_id": f"c{number}", "content": text}
    return [{"role": "assistant", "content": None, "tool_calls": [call]}, result]


def langchain() -> MeasuredFormat:
    from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

    def of_round(number: int, text: str) -> list[Any]:
        call = {"name": "read_part", "args": {"number": number}, "id": f"c{number}"}
        return [AIMessage("", tool_calls=[call]), ToolMessage(text, tool_call_id=f"c{number}")]

    return MeasuredFormat("langchain", lambda: HumanMessage(TASK), of_round)


def pydantic_ai() -> MeasuredFormat:
    from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart, UserPromptPart

    def of_round(number: int, text: str) -> list[Any]:
        call = ToolCallPart("read_part", {"number": number}, f"c{number}")
        return [ModelResponse([call]), ModelRequest([ToolReturnPart("read_part", text, f"c{number}")])]

    return MeasuredFormat("pydantic_ai", lambda: ModelRequest([UserPromptPart(TASK)]), of_round)


def openai_agents() -> MeasuredFormat:
    def of_round(number: int, text: str) -> list[Any]:
        call = {"type": "function_call", "call_id": f"c{number}", "name": "read_part", "arguments": "{}"}
        return [call, {"type": "function_call_output", "call_id": f"c{number}", "output": text}]

    return MeasuredFormat("openai_agents", lambda: {"role": "user", "content": TASK}, of_round)


def google_adk() -> MeasuredFormat:
    from google.genai.types import Content, FunctionCall, FunctionResponse, Part

    def of_round(number: int, text: str) -> list[Any]:
        call = FunctionCall(name="read_part", args={"number": number})
        result = FunctionResponse(name="read_part", response={"result": text})
        return [
            Content(role="model", parts=[Part(function_call=call)]),
            Content(role="user", parts=[Part(function_response=result)]),
        ]

    return MeasuredFormat("google_adk", lambda: Content(role="user", parts=[Part(text=TASK)]), of_round)


def agent_framework() -> MeasuredFormat:
    from agent_framework import Content, Message

    def of_round(number: int, text: str) -> list[Any]:
        call = Content.from_function_call(f"c{number}", "read_part", arguments={"number": number})
        return [
            Message("assistant", [call]),
            Message("tool", [Content.from_function_result(f"c{number}", result=text)]),
        ]

    return MeasuredFormat("agent_framework", lambda: Message("user", [TASK]), of_round)


def litellm() -> MeasuredFormat:
    return MeasuredFormat("litellm", lambda: {"role": "user", "content": TASK}, chat_round)


def strands() -> MeasuredFormat:
    def of_round(number: int, text: str) -> list[Any]:
        use = {"toolUseId": f"c{number}", "name": "read_part", "input": {"number": number}}
        result = {"toolUseId": f"c{number}", "status": "success", "content": [{"text": text}]}
        return [
            {"role": "assistant", "content": [{"toolUse": use}]},
            {"role": "user", "content": [{"toolResult": result}]},
        ]

    return MeasuredFormat("strands", lambda: {"role": "user", "content": [{"text": TASK}]}, of_round)


def smolagents() -> MeasuredFormat:
    from smolagents.models import ChatMessage, MessageRole

    from clew.integrations.smolagents import MemoryMessage

    def of_round(number: int, text: str) -> list[Any]:
        call = {"id": f"c{number}", "type": "function", "function": {"name": "read_part", "arguments": {"n": number}}}
        said = [{"type": "text", "text": f"Calling tools:\n{[call]}"}]
        seen = [{"type": "text", "text": f"Observation:\n{text}"}]
        return [
            MemoryMessage(ChatMessage(MessageRole.TOOL_CALL, said)),
            MemoryMessage(ChatMessage(MessageRole.TOOL_RESPONSE, seen), f"c{number}"),
        ]

    def task() -> Any:
        return MemoryMessage(ChatMessage(MessageRole.USER, [{"type": "text", "text": TASK}]))

    return MeasuredFormat("smolagents", task, of_round)


FORMATS = {
    it.__name__.replace("_", "-"): it
    for it in (
        langchain,
        pydantic_ai,
        openai_agents,
        google_adk,
        agent_framework,
        litellm,
        strands,
        smolagents,
    )
}


def measure(name: str) -> list[dict[str, Any]]:
    measured = FORMATS[name]()
    module = importlib.import_module(f"clew.integrations.{measured.module}")
    return [_row(name, measured, module, length) for length in LENGTHS]


def _row(name: str, measured: MeasuredFormat, module: Any, length: int) -> dict[str, Any]:
    same, folds, prefix = asyncio.run(_calls(measured, module, length, copies=False))
    copied, _, _ = asyncio.run(_calls(measured, module, length, copies=True))
    return {
        "adapter": name,
        "messages": length,
        "cpu ms, same": same,
        "cpu ms, copied": copied,
        "calls": CALLS,
        "folds": folds,
        "prefix %": prefix,
    }


async def _calls(measured: MeasuredFormat, module: Any, length: int, copies: bool) -> tuple[float, int, float]:
    """The median of the CPU time of a call in ms, the folds, and how much of each request began the next."""
    conversations = _conversations(module)
    history = [measured.task()]
    while len(history) < length:
        history += measured.round(len(history), _text(len(history)))
    before = await _shown(conversations, module, history)
    spent, folds, kept, whole = [], 0, 0, 0
    for _ in range(CALLS):
        history += measured.round(len(history), _text(len(history)))
        items = copy.deepcopy(history) if copies else history
        started, count = time.process_time(), len(conversations.projections[-1].compactions)
        fitted = await conversations.afit(items, name="measured")
        cpu = time.process_time() - started
        shown = _as_json(module, fitted.messages)
        if len(conversations.projections[-1].compactions) > count:
            folds += 1
        else:
            spent.append(cpu)
            kept += _equal_bytes(before, shown)
            whole += sum(map(len, before))
        before = shown
    conversations.close()
    return statistics.median(spent) * 1_000, folds, 100 * kept / whole


def _conversations(module: Any) -> Any:
    from clew.integrations.framework import FrameworkConversations, MessageFormat

    plain = MessageFormat(lambda item: [item], lambda messages, _: messages[0])
    return FrameworkConversations(getattr(module, "FORMAT", plain), context_length=WINDOW)


async def _shown(conversations: Any, module: Any, history: Sequence[Any]) -> list[str]:
    return _as_json(module, (await conversations.afit(history, name="measured")).messages)


def _as_json(module: Any, messages: Sequence[Any]) -> list[str]:
    read = module.FORMAT.read if hasattr(module, "FORMAT") else lambda item: [item]
    plain = [it if isinstance(it, dict) else it.model_dump(mode="json") for item in messages for it in read(item)]
    return [json.dumps(it, ensure_ascii=False) for it in plain]


def _equal_bytes(before: Sequence[str], after: Sequence[str]) -> int:
    equal = 0
    for one, other in zip(before, after, strict=False):
        if one != other:
            break
        equal += len(one)
    return equal


def _text(number: int) -> str:
    return f"value_{number} = {number * 37}\n" + f"# part {number} of the project, line by line\n" * 30


def main() -> None:
    names = sys.argv[1:] or list(FORMATS)
    if names[0] == "--in-framework":
        sys.stdout.write(f"ROWS {json.dumps(measure(names[1]))}\n")
        return
    rows: list[dict[str, Any]] = []
    for name in names:
        python = ROOT / ".integrations" / name / "bin" / "python"
        if not python.exists():
            print(f"{name} is not installed; `./check integrations {name}` does it")
            continue
        done = subprocess.run([str(python), __file__, "--in-framework", name], capture_output=True, text=True)
        lines = [line for line in done.stdout.splitlines() if line.startswith("ROWS ")]
        if not lines:
            raise SystemExit(done.stderr)
        rows += json.loads(lines[0].removeprefix("ROWS "))
    if rows:
        report("adapters", rows, COLUMNS)


if __name__ == "__main__":
    main()
