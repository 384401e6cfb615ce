"""The mock upstream as a program: `python -m clew.testing.upstream`, for clients that are programs themselves."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from clew.testing.upstream import (
    HangUp,
    ReceivedRequest,
    Step,
    StreamedAnswer,
    Upstream,
    UpstreamAnswer,
    UpstreamFault,
    UpstreamRules,
)

_SCRIPTED = 1_000_000
"""Answers beside the script are numbered from here on."""
_EXAMPLES = """\
A script has one step a line, as JSON:
  {"text": "hello", "reasoning": "...", "calls": [{"name": "ls", "arguments": {"path": "."}, "id": "c1"}]}
  {"text": "cut off", "cut_after": 3, "event_delay": 0.2}
  {"status": 429}                        the provider's own words; "body": ... says others
  {"hang_up": true}
After the last step, every request is answered with --say.

examples:
  python -m clew.testing.upstream --port 8899 --window 32000 --strict --caches
  python -m clew.testing.upstream --script steps.jsonl --fail-every 5:529 --journal requests.jsonl
"""


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m clew.testing.upstream",
        description="A mock of four providers on loopback: chat completions, Responses, Messages, Gemini.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--port", type=int, default=0, help="where it listens on 127.0.0.1; any free one without")
    parser.add_argument("--script", type=Path, metavar="FILE", help="steps, one a line, in the order of requests")
    parser.add_argument("--say", default="ok", metavar="TEXT", help="the answer to every other request")
    parser.add_argument("--window", type=int, metavar="TOKENS", help="refuse longer prompts; 4 chars are a token")
    parser.add_argument("--counts-output", action="store_true", help="max_tokens has to fit the window too")
    parser.add_argument("--overflow-status", action="store_true", help="no failing streams of Responses, but 400")
    parser.add_argument("--strict", action="store_true", help="refuse broken pairs and foreign or moved thinking")
    parser.add_argument("--caches", action="store_true", help="report how much of a prompt was cached")
    parser.add_argument("--event-delay", type=float, default=0.0, metavar="SECONDS", help="between two events")
    parser.add_argument("--fail-every", metavar="N:STATUS", help="refuse each Nth call, as 5:529")
    parser.add_argument("--models", default="mock-model", metavar="NAMES", help="the models it lists, with commas")
    parser.add_argument("--journal", type=Path, metavar="FILE", help="keep each request, one a line, as JSON")
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until interrupted. The first line on standard output is the address."""
    parser = _arguments()
    given = parser.parse_args(argv)
    try:
        steps = _script(given.script) if given.script else []
        answers = _answers(given)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    rules = UpstreamRules(
        given.window, given.counts_output, not given.overflow_status, pairs=given.strict, binds_thinking=given.strict
    )
    upstream = Upstream(
        *steps,
        answers=answers,
        models=[_model(name.strip()) for name in given.models.split(",") if name.strip()],
        port=given.port,
        caches=given.caches,
        rules=rules,
        event_delay=given.event_delay,
        journal=given.journal,
    )
    try:
        asyncio.run(_serve(upstream))
    except KeyboardInterrupt:
        return


async def _serve(upstream: Upstream) -> None:
    async with upstream:
        sys.stdout.write(f"{upstream.origin}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def _answers(given: argparse.Namespace) -> Callable[[ReceivedRequest], Step]:
    every, status = _failures(given.fail_every)
    calls = 0

    def answer(received: ReceivedRequest) -> Step:
        nonlocal calls
        calls += 1
        if every and calls % every == 0:
            return UpstreamFault(status)
        model = str(received.body.get("model") or "mock-model")
        return UpstreamAnswer(given.say, model=model, number=_SCRIPTED + calls)

    return answer


def _failures(text: str | None) -> tuple[int, int]:
    if not text:
        return 0, 0
    every, _, status = text.partition(":")
    if not (every.isdecimal() and status.isdecimal() and int(every) > 0):
        raise ValueError(f"--fail-every {text}: give N:STATUS, as 5:529")
    return int(every), int(status)


def _model(name: str) -> dict[str, Any]:
    """A model with the fields that OpenAI's list and Anthropic's have."""
    openai = {"object": "model", "created": 1_760_000_000, "owned_by": "mock"}
    return {"id": name, **openai, "type": "model", "display_name": name, "created_at": "2026-01-01T00:00:00Z"}


def _script(path: Path) -> list[Step]:
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    steps: list[Step] = []
    for number, line in lines:
        if line.strip():
            try:
                steps.append(_step({"number": number, **json.loads(line)}))
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise ValueError(f"{path}, line {number}: {error}") from error
    return steps


def _step(fields: dict[str, Any]) -> Step:
    if fields.get("hang_up"):
        return HangUp()
    if "status" in fields:
        return UpstreamFault(fields["status"], fields.get("body"), fields.get("headers") or {})
    names = {"text", "reasoning", "finish", "model", "number"}
    calls = [_call(call, number) for number, call in enumerate(fields.get("calls") or ())]
    answer = UpstreamAnswer(calls=tuple(calls), **{name: fields[name] for name in names & fields.keys()})
    how = {name: value for name, value in fields.items() if name not in names | {"calls"}}
    return StreamedAnswer(answer, **how) if how else answer


def _call(fields: dict[str, Any], number: int) -> Any:
    arguments = fields.get("arguments") or {}
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {
        "id": fields.get("id", f"call_{number}"),
        "type": "function",
        "function": {"name": fields["name"], "arguments": written},
    }
