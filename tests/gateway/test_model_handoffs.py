"""Handoffs by the model that a caller talks to: asked behind its last request, in the background, used when ready."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from clew.events import CompactionFinished, SummaryReplied
from clew.gateway.conversations import is_time_to_prepare
from clew.gateway.wires import RequestBody
from clew.testing.gateway import GATEWAY_MODEL
from clew.testing.upstream import (
    ReceivedRequest,
    Step,
    StreamedAnswer,
    Upstream,
    UpstreamAnswer,
    UpstreamFault,
    UpstreamRules,
)
from clew.usage import CanonicalUsage
from tests.gateway.raw_http import make_caller
from tests.gateway.test_tool_sessions import BOUND, CLIENTS, ToolCaller, user
from tests.support.gateway import GatewayFlow, gateway_with
from tests.support.summaries import handoff_text

WINDOW = 24_000
RULES = UpstreamRules(window=WINDOW, pairs=True, binds_thinking=True)
HANDOFF = UpstreamAnswer(
    handoff_text(goal="Mend the clock.", key_decisions="We chose the blue lantern."),
    usage=CanonicalUsage(input_tokens=500, output_tokens=900, cache_read_tokens=8_000),
)
OWN_KEY = "fake-key-of-the-upstream"
OWN = {"CLEW_MODEL_API_KEY_ENV": "FAKE_UPSTREAM_KEY", "FAKE_UPSTREAM_KEY": OWN_KEY}
STREAMED = {"gemini": ":streamGenerateContent?alt=sse"}


@dataclass
class Agent:
    """An agent on one of the four wires that works with tools and thinks; it sends its whole history each time."""

    flow: GatewayFlow
    wire: str
    stream: bool = False
    credential: str = "fake-key-of-a-test"
    headers: dict[str, str] = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)
    model: str = GATEWAY_MODEL
    items: list[Any] = field(default_factory=list)
    heard: list[bytes] = field(default_factory=list)
    """What came back, byte for byte."""

    async def turn(self, words: int = 0) -> None:
        """One request; `words` make what it brings longer."""
        client = CLIENTS[self.wire]
        if not self.items:
            self.items.append(user(self.wire, "TASK-7: mend the clock in hall 3"))
        if words:
            self.items.append(user(self.wire, "more to read: " + "words " * words))
        await self._post()
        said = client.said(json.loads(self.heard[-1])) if not self.stream else None
        if said is None:
            said = [_answer_of(self.wire)]
        self.items += said
        self.items += client.results(said) or [user(self.wire, f"go on with part {len(self.items)}")]

    async def _post(self) -> None:
        client = CLIENTS[self.wire]
        body = {"model": self.model, **client.beside, **self.fields, client.field: self.items}
        path = client.path
        if self.wire == "gemini":
            del body["model"]
            path = path.replace(GATEWAY_MODEL, self.model)
            path = path.replace(":generateContent", STREAMED["gemini"]) if self.stream else path
        elif self.stream:
            body |= {"stream": True, **({"stream_options": {"include_usage": True}} if self.wire == "chat" else {})}
        headers = {"Authorization": f"Bearer {self.credential}", **self.headers}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.post(self.flow.root + path, json=body) as response,
        ):
            raw = await response.read()
            assert response.status == 200, raw
            self.heard.append(raw)


def _answer_of(wire: str) -> dict[str, Any]:
    if wire == "gemini":
        return {"role": "model", "parts": [{"text": "ok"}]}
    if wire == "responses":
        content = [{"type": "output_text", "text": "ok", "annotations": []}]
        return {"type": "message", "role": "assistant", "content": content}
    return {"role": "assistant", "content": [{"type": "text", "text": "ok"}] if wire == "messages" else "ok"}


class Model:
    """Works with tools, or only says ok, and gives its next step to who asks it for a handoff."""

    def __init__(self, *handoffs: Step, says: bool = False) -> None:
        self.handoffs = list(handoffs)
        self.was_asked = asyncio.Event()
        """For a handoff."""
        self.work: Callable[[ReceivedRequest], Step] = (lambda _: UpstreamAnswer("ok")) if says else ToolCaller()

    def __call__(self, received: ReceivedRequest) -> Step:
        if not received.asks_for_handoff:
            return self.work(received)
        self.was_asked.set()
        return self.handoffs.pop(0) if len(self.handoffs) > 1 else self.handoffs[0]


@asynccontextmanager
async def gateway(folder: Path, model: Model, **options: Any) -> AsyncIterator[GatewayFlow]:
    given: dict[str, Any] = {"window": WINDOW, "handoffs": "model", **options}
    upstream = Upstream(answers=model, rules=given.pop("rules", RULES), caches=given.pop("caches", True))
    async with gateway_with(upstream, folder, **given) as flow:
        yield flow


def asked(flow: GatewayFlow) -> list[ReceivedRequest]:
    return [it for it in flow.upstream.calls if it.asks_for_handoff]


def own(flow: GatewayFlow) -> list[ReceivedRequest]:
    return [it for it in flow.upstream.calls if not it.asks_for_handoff]


def written_by(flow: GatewayFlow) -> list[str | None]:
    return [it.written_by for it in flow.events if isinstance(it, CompactionFinished)]


async def fill(agent: Agent, share: float) -> None:
    """Turns until the last request filled so much of the window."""
    while prompt_share(agent.flow) < share:
        await agent.turn()
        await agent.flow.wait_for_handoffs()


def prompt_share(flow: GatewayFlow) -> float:
    usage = flow.exchanges[-1].usage if flow.exchanges else None
    return usage.prompt_tokens / WINDOW if usage else 0.0


# -- the request -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", CLIENTS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_it_is_asked_behind_the_bytes_of_the_last_request_and_read_from_the_cache(
    tmp_path: Path, wire: str, stream: bool
) -> None:
    model = BOUND if wire == "messages" and not stream else GATEWAY_MODEL
    environ = {"CLEW_MODEL_NAME": model}
    async with gateway(tmp_path, Model(HANDOFF, says=stream), environ=environ) as flow:
        thinking = {"thinking": {"type": "enabled", "budget_tokens": 2_000}, "max_tokens": 3_000}
        fields = thinking if wire == "messages" else {}
        agent = Agent(flow, wire, stream, headers={"Idempotency-Key": "one"}, fields=fields, model=model)
        while not asked(flow):
            await agent.turn(words=400 * stream)
            await flow.wait_for_handoffs()
        (extra,), last = asked(flow), own(flow)[-1]
        assert prompt_share(flow) >= 0.68 and len(own(flow)) > 3
        name = CLIENTS[wire].field
        sent, behind = RequestBody(last.raw), RequestBody(extra.raw)
        before, now = sent.items(name), behind.items(name)
        assert before is not None and now is not None
        assert now[: len(before)] == before and len(now) == len(before) + 1
        assert [*extra.body] == [*last.body]
        changed = {field for field in extra.body if behind.field(field) != sent.field(field)}
        assert changed <= {name, "max_tokens", "generationConfig"}
        assert extra.path == last.path and extra.query == last.query
        assert extra.headers["authorization"] == last.headers["authorization"] == "Bearer fake-key-of-a-test"
        assert "idempotency-key" not in extra.headers
        (told,) = [it for it in flow.events if isinstance(it, SummaryReplied)]
        if wire != "messages":  # this client sets no markers there
            assert told.cache_read_tokens > 0.8 * told.prompt_tokens
        while not written_by(flow):
            await agent.turn(words=400 * stream)
            await flow.wait_for_handoffs()
        assert written_by(flow) == [model] and len(asked(flow)) == 1
        folded = own(flow)[-1]
        assert "blue lantern" in folded.raw.decode() and len(folded.raw) < len(last.raw)
        assert not [it for it in flow.exchanges if it.recovered or it.is_fallback]


@pytest.mark.parametrize(
    ("wire", "forced", "unforced"),
    [
        ("chat", {"tool_choice": "required"}, {"tool_choice": "auto"}),
        (
            "chat",
            {"tool_choice": {"type": "function", "function": {"name": "shell"}}},
            {"tool_choice": "auto"},
        ),
        ("responses", {"tool_choice": {"type": "function", "name": "shell"}}, {"tool_choice": "auto"}),
        (
            "gemini",
            {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["shell"]}}},
            {"toolConfig": {"functionCallingConfig": {"mode": "AUTO"}}},
        ),
        ("messages", {"tool_choice": {"type": "any"}}, None),
        ("chat", {"function_call": {"name": "shell"}}, {"function_call": "auto"}),
        ("chat", {"response_format": {"type": "json_object"}}, None),
        ("chat", {"guided_regex": "[0-9]+"}, None),
    ],
)
async def test_a_request_that_forces_a_call_does_not_force_the_handoff(
    tmp_path: Path, wire: str, forced: dict[str, Any], unforced: dict[str, Any] | None
) -> None:
    async with gateway(tmp_path, Model(HANDOFF)) as flow:
        agent = Agent(flow, wire, fields=forced)
        while not written_by(flow):
            await agent.turn()
            await flow.wait_for_handoffs()
        assert [{name: it.body[name] for name in forced} for it in asked(flow)] == ([unforced] if unforced else [])
        assert written_by(flow) == [GATEWAY_MODEL if unforced else "built-in"]


# -- who decides -------------------------------------------------------------------------------------------------------


async def test_the_gateway_a_key_and_a_request_say_who_writes(tmp_path: Path) -> None:
    async with gateway(tmp_path, Model(HANDOFF), environ=OWN) as flow:
        by_key = await make_caller(flow, "ann", handoffs="built-in")
        for credential, headers in (
            (by_key, {}),
            (await make_caller(flow, "bob"), {"x-clew-handoffs": "built-in"}),
        ):
            agent = Agent(flow, "chat", credential=credential, headers=headers)
            while not any(record.is_folded for record in flow.exchanges):
                await agent.turn()
                await flow.wait_for_handoffs()
            assert not asked(flow) and set(written_by(flow)) == {"built-in"}
            assert "x-clew-handoffs" not in own(flow)[-1].headers
            flow.exchanges.clear()
        agent = Agent(flow, "chat", credential=by_key, headers={"x-clew-handoffs": "model"})
        agent.items.append(user("chat", "another conversation"))
        while not asked(flow):
            await agent.turn()
            await flow.wait_for_handoffs()
        assert OWN_KEY in asked(flow)[0].headers["authorization"] and by_key not in str(asked(flow)[0].headers)


@pytest.mark.parametrize("writer", ["model", "built-in"])
async def test_the_first_lines_of_serve_say_who_writes(tmp_path: Path, writer: str) -> None:
    command = f"-m clew serve --upstream http://127.0.0.1:9 --port 0 --handoffs {writer} --log none".split()
    environ = {**os.environ, "CLEW_HOME": str(tmp_path)}
    process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=PIPE, env=environ)
    assert process.stdout is not None
    first = [(await process.stdout.readline()).decode() for _ in range(2)]
    process.terminate()
    await process.communicate()
    other = "model" if writer == "built-in" else "built-in"
    assert "http://127.0.0.1:" in first[0] and f"--handoffs {other}" in first[1]


async def test_a_key_pays_for_its_handoffs_and_none_is_written_beyond_its_budget(tmp_path: Path) -> None:
    model = "claude-sonnet-4-5"
    environ = {**OWN, "CLEW_MODEL_NAME": model}
    async with gateway(tmp_path, Model(HANDOFF), environ=environ) as flow:
        agent = Agent(flow, "chat", credential=await make_caller(flow, "ann"), model=model)
        while not asked(flow):
            await agent.turn()
            await flow.wait_for_handoffs()
        (key,) = await flow.store.list_keys()
        (total,) = await flow.store.usage()
        assert key.spent_micros == total.cost_micros
        assert total.calls == len(flow.upstream.calls)
        paid = sum(record.cost_micros or 0 for record in flow.exchanges)
        assert key.spent_micros > paid
        left = 1_000
        poor = Agent(flow, "chat", credential=await make_caller(flow, "bob", budget_micros=paid - left), model=model)
        with pytest.raises(AssertionError, match="402"):
            while True:
                await poor.turn()
                await flow.wait_for_handoffs()
        assert len(asked(flow)) == 1


# -- when --------------------------------------------------------------------------------------------------------------


async def test_nobody_waits_for_a_model_that_does_not_answer(tmp_path: Path) -> None:
    stalls = StreamedAnswer(UpstreamAnswer("never written"), stall_after=0)
    async with gateway(tmp_path, Model(stalls, says=True)) as flow:
        agent = Agent(flow, "chat", stream=True)
        shares: list[float] = []
        while not written_by(flow):
            await agent.turn(words=300)
            await flow.wait_for_recordings()
            shares.append(prompt_share(flow))
        assert len(asked(flow)) == 1
        assert any(0.85 < share < 0.95 for share in shares)
        assert written_by(flow) == ["built-in"] and shares[-1] < 0.6
        await asyncio.wait_for(flow.upstream.hung_up.wait(), 10)


@pytest.mark.parametrize("words", [300, 2_500], ids=["many turns", "few large turns"])
async def test_it_is_asked_where_the_turns_pay_for_it_and_no_fold_waits_for_it_elsewhere(
    tmp_path: Path, words: int
) -> None:
    async with gateway(tmp_path, Model(HANDOFF, says=True)) as flow:
        agent = Agent(flow, "chat")
        while not written_by(flow):
            await agent.turn(words=words)
            await flow.wait_for_handoffs()
        is_paid_back = words == 300
        assert (len(asked(flow)), written_by(flow)) == ((1, [GATEWAY_MODEL]) if is_paid_back else (0, ["built-in"]))
        assert not [it for it in flow.exchanges if it.fold_waits_for]


@pytest.mark.parametrize(
    "answer",
    [
        UpstreamAnswer("I would rather not."),
        UpstreamAnswer(""),
        ToolCaller()(ReceivedRequest("", {}, {})),
        UpstreamFault(500),
        UpstreamFault(400, {"error": {"message": "prompt is too long: 30000 tokens > 24000 maximum"}}),
    ],
    ids=["no handoff", "empty", "calls a tool", "broken", "too long"],
)
async def test_a_failed_attempt_is_repeated_only_after_growth_and_the_client_sees_nothing(
    tmp_path: Path, answer: Step
) -> None:
    async with gateway(tmp_path, Model(answer, says=True)) as flow:
        agent = Agent(flow, "chat")
        while not written_by(flow):
            await agent.turn(words=300)
            await flow.wait_for_handoffs()
        # From 70 to 95% of the window, one for each twentieth of it at most.
        assert 1 < len(asked(flow)) <= 6
        assert written_by(flow) == ["built-in"]
        assert {record.status for record in flow.exchanges} == {200}
        assert not [it for it in flow.exchanges if it.recovered or it.is_fallback]


@pytest.mark.parametrize("status", [400, 401, 403, 429])
async def test_a_refusal_is_remembered_for_the_credential_for_an_hour(tmp_path: Path, status: int) -> None:
    now = 0.0
    body = {"error": {"message": "tool_choice: this login may not do that"}}
    model = Model(UpstreamFault(status, body), HANDOFF)
    async with gateway(tmp_path, model, clock=lambda: now, store_clock=lambda: 1_000_000.0 + now) as flow:
        agent = Agent(flow, "chat")
        while len(written_by(flow)) < 2:
            await agent.turn()
            await flow.wait_for_handoffs()
        assert len(asked(flow)) == 1 and written_by(flow) == ["built-in"] * 2
        other = Agent(flow, "chat", credential="fake-key-of-somebody-else")
        while len(asked(flow)) < 2:
            await other.turn()
            await flow.wait_for_handoffs()
        now = 3_601.0
        while len(asked(flow)) < 3:
            await agent.turn()
            await flow.wait_for_handoffs()
        assert {record.status for record in flow.exchanges} == {200}


@pytest.mark.parametrize(
    "refusal",
    [
        UpstreamFault(403),
        StreamedAnswer(
            UpstreamAnswer("half"),
            error_after=1,
            error=("error", '{"type": "error", "error": {"type": "permission_error", "message": "not this login"}}'),
        ),
    ],
    ids=["refused", "refused inside a stream"],
)
async def test_a_refusal_is_remembered_by_every_process_and_for_every_model(tmp_path: Path, refusal: Step) -> None:
    now = 0.0
    clocks: dict[str, Any] = {"clock": lambda: now, "store_clock": lambda: 1_000_000.0 + now}
    is_streamed = isinstance(refusal, StreamedAnswer)
    async with gateway(tmp_path, Model(refusal, says=is_streamed), **clocks) as flow:
        agent = Agent(flow, "messages", stream=is_streamed)
        while not asked(flow):
            await agent.turn(words=300 * is_streamed)
            await flow.wait_for_handoffs()
        environ = {"CLEW_MODEL_NAME": "another-model"}
        async with gateway(tmp_path, Model(HANDOFF), environ=environ, **clocks) as later:
            now = 3_000.0
            other = Agent(later, "messages", model="another-model")
            while not written_by(later):
                await other.turn()
                await later.wait_for_handoffs()
            # The fold did not wait for a model up to 95% of the window.
            assert not asked(later) and written_by(later) == ["built-in"]
            assert max(it.usage.prompt_tokens for it in later.exchanges if it.usage) < 0.9 * WINDOW
            now = 3_700.0
            while not asked(later):
                await other.turn()
                await later.wait_for_handoffs()
            assert {record.status for record in later.exchanges} == {200}


async def test_it_covers_what_it_was_made_from_and_all_that_came_since_stays(tmp_path: Path) -> None:
    async with gateway(tmp_path, Model(HANDOFF)) as flow:
        agent = Agent(flow, "chat")
        while not asked(flow):
            await agent.turn()
            await flow.wait_for_handoffs()
        covered = len(RequestBody(own(flow)[-1].raw).items("messages") or ())
        while not written_by(flow):
            await agent.turn()
            await flow.wait_for_handoffs()
        assert len(asked(flow)) == 1
        sent = own(flow)[-1].body["messages"]
        # The request that was folded had all of the history but what the last turn added.
        since = agent.items[covered : len(agent.items) - 2]
        assert since and json.dumps(sent[-len(since) :]) == json.dumps(since)


async def test_what_one_process_prepared_another_one_uses(tmp_path: Path) -> None:
    async with gateway(tmp_path, Model(HANDOFF)) as flow:
        agent = Agent(flow, "chat")
        while not asked(flow):
            await agent.turn()
            await flow.wait_for_handoffs()
        async with gateway(tmp_path, Model(HANDOFF)) as later:
            agent.flow = later
            while not written_by(later):
                await agent.turn()
                await later.wait_for_handoffs()
            assert not asked(later) and written_by(later) == [GATEWAY_MODEL]
            assert "blue lantern" in own(later)[-1].raw.decode()


@pytest.mark.parametrize("wire", CLIENTS)
async def test_until_the_fold_a_client_hears_the_same_bytes_with_and_without_a_model(tmp_path: Path, wire: str) -> None:
    heard = []
    for writer in ("model", "built-in"):
        async with gateway(tmp_path / writer, Model(HANDOFF), handoffs=writer) as flow:
            agent = Agent(flow, wire)
            await fill(agent, 0.8)
            assert bool(asked(flow)) is (writer == "model")
            heard.append(agent.heard)
    assert heard[0] == heard[1]


def test_a_handoff_is_due_at_the_threshold_whatever_its_fixed_part_is_taken_for() -> None:
    assert is_time_to_prepare(100_000, 150_000, 1, 100_000)
    assert is_time_to_prepare(90_000, 30_000, 12, 100_000)
    assert not is_time_to_prepare(90_000, 45_000, 12, 100_000)
