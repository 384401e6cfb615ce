# ruff: noqa: E402, T201 (a program of its own, which finds the helpers of the tests)
"""Random agents on random wires through a real gateway, with everything at once that a client or an operator may do.

    python tests/fuzz/gateway_fuzz.py --seconds 600 --seed 7

A world is one store with one upstream that refuses what a provider would, and one or two gateways. Its agents send
their whole history on the wires of providers and clouds; they ask in parallel, ask again, hang up, edit, respell
replies and ask for handles. Meanwhile compactions are undone, conversations deleted, the upstream fails, and the
gateways are restarted. What must hold is in `World.check_sent` and `World.check_stored`. A world is drawn from its seed
alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from clew.engines.lossless.map_text import ids_in_map
from clew.errors import InUse
from clew.gateway import CallerCredential, HandoffWriter, owner_of_credential
from clew.messages import ToolCall, calls_of, text_of
from clew.store import CallFilter, Store
from clew.testing.upstream import HangUp, ReceivedRequest, Step, StreamedAnswer, Upstream, UpstreamAnswer, UpstreamFault
from clew.testing.upstream_rules import UpstreamRules, listed_messages, prompt_tokens
from clew.usage import CanonicalUsage
from tests.support.gateway import GatewayFlow, gateway_with
from tests.support.gateway_clients import CLIENTS, CLOUD_CLIENTS, GatewayClient, GeminiClient, MessagesClient
from tests.support.summaries import handoff_text

MODEL = "anthropic.gpt-4"
"""As Bedrock calls one. At the prices of gpt-4, whose cached input has no discount, its handoffs always pay."""
WINDOW = 6_000
WIRES = {**CLIENTS, **CLOUD_CLIENTS}
MAX_MARKERS = 4
"""That a gateway with `--add-breakpoints` sets where a client has none."""
QUESTION = re.compile(r"\[q-\d+\]")
ROUNDS = 60
STUCK_BEATS = 900
"""Tenths of a second of the event loop, without any request, after which a world is stuck."""
NO_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=None)
ODD_VALUES: tuple[Any, ...] = (5, -1, 10**30, 1.5, True, None, "", "\ud83d", "m\0", [], [1], {}, {"type": 7}, ["user"])
"""What no client sends, in place of any value of a request."""
ODD_CREDENTIAL = "fake-c"
ODD_OWNER = owner_of_credential(CallerCredential(ODD_CREDENTIAL, ()))
"""Its conversations hold odd values, and are not looked at."""
FAULTS: tuple[Step, ...] = (UpstreamFault(429), UpstreamFault(500), UpstreamFault(529), HangUp())


class Finding(Exception):  # noqa: N818 (reads as what it says)
    """Something that must hold does not."""


class World:
    """One store, one upstream, and the agents that use them."""

    def __init__(self, seed: str, folder: Path) -> None:
        self.chance = random.Random(seed)
        self.folder = folder
        self.engine = self.chance.choice(("compressor", "compressor", "lcm"))
        rules = UpstreamRules(window=WINDOW, pairs=True, binds_thinking=self.chance.random() < 0.3)
        self.gateways = self.chance.choice((1, 1, 2))
        self.handoffs: HandoffWriter = self.chance.choice(("built-in", "built-in", "model"))
        self.adds_breakpoints = self.chance.random() < 0.2
        self.upstream = Upstream(answers=self.answer, rules=rules)
        self.is_failing = False
        self.exchanges = 0
        self.numbers = 0
        self.slept = 0.0
        """Seconds that the clock of the gateway is ahead."""
        self.flows: list[GatewayFlow] = []
        """The gateways that run now, over one store."""
        self.output: dict[int, int] = {}
        """The output tokens of each answer, by its number."""
        self.agents = [self._agent(name) for name in "abc"[: self.chance.choice((1, 2, 3))]]
        self.known: dict[str, list[str]] = {}
        """All items that agents sent or got, as JSON."""

    def _agent(self, name: str) -> GatewayClient:
        kind = WIRES[self.chance.choice(list(CLIENTS if self.chance.random() < 0.7 else CLOUD_CLIENTS))]
        words = self.chance.choice((3, 20, 60))
        tool: dict[str, Any] = {"type": "function", "name": "shell", "function": {"name": "shell"}}
        if issubclass(kind, MessagesClient):
            tool = {"name": "shell", "input_schema": {"type": "object"}}
        elif issubclass(kind, GeminiClient):
            tool = {"functionDeclarations": [{"name": "shell"}]}
        agent = kind(
            MODEL,
            stream=self.chance.random() < 0.6,
            name=name,
            repeated=words,
            fields={"tools": [tool]},
            credential="fake-a",
        )
        if isinstance(agent, MessagesClient):
            agent.marks = self.chance.choice((0, 1, 2, 4))
        return agent

    # -- the upstream --------------------------------------------------------------------------------------------------

    def answer(self, received: ReceivedRequest) -> Step:
        if self.is_failing and self.chance.random() < 0.3:
            return self.chance.choice(FAULTS)
        self.numbers += 1
        number = self.numbers
        self.output[number] = self.chance.randrange(1, 90)
        usage = CanonicalUsage(output_tokens=self.output[number])
        if received.asks_for_handoff:
            return UpstreamAnswer(handoff_text(goal="Answer the questions."), usage=usage, number=number)
        # A result may have been shortened to a line without its mark.
        asked = QUESTION.findall(json.dumps(listed_messages(received.body)[-1]))
        text = f"reply to {asked[-1] if asked else 'nothing'}"
        calls: tuple[ToolCall, ...] = ()
        if self.chance.random() < 0.5:
            arguments = json.dumps({"command": f"step {number}", "b": 1, "a": [1, 2]})
            calls = (
                {"id": f"call_{number}", "type": "function", "function": {"name": "shell", "arguments": arguments}},
            )
        thought = self.chance.choice(("", f"thought {number}"))
        made = UpstreamAnswer(text, calls, thought, usage=usage, number=number)
        if self.is_failing and received.is_streamed and self.chance.random() < 0.1:
            return StreamedAnswer(made, cut_after=self.chance.randrange(1, 8))
        return made

    # -- what agents do ------------------------------------------------------------------------------------------------

    def add_question(self, agent: GatewayClient) -> None:
        self.numbers += 1
        agent.mark = f"[q-{self.numbers}] "
        agent.add_question()

    async def ask(self, agent: GatewayClient) -> list[dict[str, Any]] | None:
        """One request; None where the upstream failed."""
        self.exchanges += 1
        root = self.chance.choice(self.flows).root
        body = agent.body()
        for item in agent.history:
            self.known.setdefault(agent.name, []).append(json.dumps(item, sort_keys=True))
        before, named = len(self.upstream.calls), {"x-asked-as": str(self.exchanges)}
        try:
            async with agent._http.post(root + agent.path, json=body, headers=named) as response:
                raw = await response.read()
        except (aiohttp.ClientError, ConnectionError):
            if self.is_failing:
                return None
            raise
        sent = [it for it in self.upstream.calls[before:] if it.headers.get("x-asked-as") == named["x-asked-as"]]
        self.check_sent(agent, body, sent)
        if response.status != 200 or re.search(rb'"error": ?\{', raw[:300]):
            if self.is_failing and response.status != 400:
                return None
            raise Finding(f"{response.status} for {agent.path}: {raw[:600]!r}")
        with suppress(KeyError, IndexError, json.JSONDecodeError):
            return agent.read_stream(agent.events(raw)) if agent.stream else agent.read_body(json.loads(raw))
        if self.is_failing:
            return None  # the stream was cut
        raise Finding(f"an unreadable reply: {raw[:600]!r}")

    async def turn(self, agent: GatewayClient) -> None:
        if not agent.history or _is_reply(agent.history[-1]):
            self.add_question(agent)
        said = await self.ask(agent)
        if said is not None:
            agent.history += said

    async def ask_in_parallel(self, agent: GatewayClient) -> None:
        """Several continuations of one history at once; the agent goes on with one of them."""
        if agent.open_call() is not None or not agent.history or not _is_reply(agent.history[-1]):
            await self.turn(agent)
            return
        forks = [deepcopy_agent(agent) for _ in range(self.chance.choice((2, 3)))]
        for fork in forks:
            self.add_question(fork)
        replies = await asyncio.gather(*(self.ask(fork) for fork in forks))
        chosen = self.chance.randrange(len(forks))
        agent.history, agent._turns = forks[chosen].history, forks[chosen]._turns
        agent.history += replies[chosen] or []

    async def hang_up(self, agent: GatewayClient) -> None:
        """A request whose client goes away, and sends it again."""
        if not agent.history or _is_reply(agent.history[-1]):
            self.add_question(agent)
        self.exchanges += 1
        asking = asyncio.create_task(self.ask(agent))
        await asyncio.sleep(self.chance.choice((0, 0.001, 0.005, 0.02)))
        asking.cancel()
        with suppress(asyncio.CancelledError, aiohttp.ClientError, Finding):
            await asking
        await self.turn(agent)

    def edit(self, agent: GatewayClient) -> None:
        """Go back to an earlier question, which is asked otherwise."""
        places = [at for at, item in enumerate(agent.history) if item.get("role") == "user" and _is_question(item)]
        if len(places) > 1:
            del agent.history[self.chance.choice(places[1:]) :]

    def respell(self, agent: GatewayClient) -> None:
        """Send the newest replies as another program would."""
        for item in agent.history[-4:]:
            for call in item.get("tool_calls") or ():
                arguments = json.loads(call["function"]["arguments"])
                call["function"]["arguments"] = json.dumps({**arguments, "cwd": None}, sort_keys=True, indent=1)
            if item.get("role") == "assistant" and isinstance(item.get("content"), str) and item["content"]:
                item["content"] += "\n"
                item["provider_specific_fields"] = {"refusal": None}

    async def ask_for_handle(self, agent: GatewayClient) -> None:
        """What Codex does in place of compacting by itself: its history becomes one item."""
        if agent.field != "input" or agent.open_call() is not None or len(agent.history) < 6:
            await self.turn(agent)
            return
        if not _is_reply(agent.history[-1]):
            await self.turn(agent)
        if agent.open_call() is not None or not _is_reply(agent.history[-1]):
            return
        history = agent.history
        agent.history = [*history, {"type": "compaction_trigger"}]
        given = await self.ask(agent)
        handles = [item for item in given or () if item.get("type") == "compaction"]
        if handles and handles[0]["encrypted_content"].startswith("clew"):
            agent.history = [handles[0]]
        else:
            agent.history = history

    async def undo(self) -> None:
        for session in await self.store.list_sessions(limit=3):
            with suppress(Exception):
                await self.store.undo(session.id)

    async def rest(self, agent: GatewayClient) -> None:
        """Conversations rest so long that they are closed, while one of them is gone on with."""
        every = [flow.server.exchanges for flow in self.flows]
        self.slept += 10_000
        await asyncio.gather(self.turn(agent), *(each.look_after_idle() for each in every))
        await self.wait_for_recordings()
        for _ in range(100):  # a request whose client hung up may still be ending
            self.slept += 10_000
            for each in every:
                await each.look_after_idle()
            if not any(each.conversations.count for each in every):
                return
            await asyncio.sleep(0.05)
        open_still = [it for each in every for it in each.conversations.by_use()]
        held = [(it.waiting, it.lock.locked(), it.view.session) for it in open_still]
        raise Finding(f"conversations are open, and all of them rest: {held}")

    async def wait_for_recordings(self) -> None:
        for flow in self.flows:
            await flow.wait_for_handoffs()

    async def ask_other_model(self) -> None:
        """A model of a name that nobody knows, however long: the upstream is to say what is wrong with it."""
        name = self.chance.choice(("m", "claude-", "é")) * self.chance.choice((1, 300, 20_000))
        body = {"model": name, "messages": [{"role": "user", "content": "[q-0] hello"}], "max_tokens": 5}
        async with aiohttp.ClientSession(timeout=NO_TIMEOUT) as http:
            path = self.chance.choice(("/v1/messages", "/v1/chat/completions", "/v1/messages/count_tokens"))
            try:
                async with http.post(self.flows[0].root + path, json=body, headers={"x-api-key": "fake-b"}) as response:
                    await response.read()
            except aiohttp.ClientError:
                if self.is_failing:
                    return
                raise
            if response.status >= 500 and not self.is_failing:
                raise Finding(f"{response.status} for a model of {len(name)} characters")

    async def ask_oddly(self, agent: GatewayClient) -> None:
        """A request with an odd value somewhere, to be answered or counted: the gateway itself never fails."""
        if not agent.history or _is_reply(agent.history[-1]):
            self.add_question(agent)
        self.exchanges += 1
        body = deepcopy(agent.body())
        places = list(_places(body))
        for holder, key in self.chance.sample(places, min(len(places), self.chance.choice((1, 1, 2)))):
            holder[key] = self.chance.choice(ODD_VALUES)
        path = agent.path
        if isinstance(agent, MessagesClient) and path == "/v1/messages" and self.chance.random() < 0.4:
            path += "/count_tokens"
        async with aiohttp.ClientSession(headers={"x-api-key": ODD_CREDENTIAL}, timeout=NO_TIMEOUT) as http:
            try:
                async with http.post(self.flows[0].root + path, json=body) as response:
                    raw = await response.read()
            except (aiohttp.ClientError, ConnectionError):
                return
        if b"failed inside the gateway" in raw:
            raise Finding(f"{response.status} for {path}: {json.dumps(body)[:600]}")

    async def delete(self) -> None:
        if any(item.get("type") == "compaction" for agent in self.agents for item in agent.history):
            return  # their history would be gone
        sessions = await self.store.list_sessions(limit=10)
        if sessions:
            with suppress(InUse):
                await self.store.delete(self.chance.choice(sessions).id)

    @property
    def store(self) -> Store:
        return self.flows[0].store

    # -- what must hold ------------------------------------------------------------------------------------------------

    def check_sent(self, agent: GatewayClient, body: Mapping[str, Any], sent: Sequence[ReceivedRequest]) -> None:
        """Markers out at most markers in; no tools that are not offered; a handle stands for the client's items."""
        for request in sent:
            # The map of the lossless engine names its tools, where somebody can call them.
            if "lcm_" in json.dumps(request.body) and "lcm_" not in json.dumps(body):
                raise Finding("the model is told of tools that it does not have")
            out, came = (json.dumps(it).count('"cache_control"') for it in (request.body, body))
            most = MAX_MARKERS if self.adds_breakpoints and not came and request.wire == "messages" else came
            if out > most:
                raise Finding(f"{came} cache markers became {out}")
        if agent.field != "input" or not any(item.get("type") == "compaction" for item in agent.history):
            return
        items = [json.loads(raw) for raw in self.known[agent.name]]
        known = {item.get("call_id") for item in items}
        calls = {(item["call_id"], item["arguments"]): item for item in items if item.get("type") == "function_call"}
        for request in sent:
            for item in request.body.get("input", ()) if request.wire == "responses" else ():
                kind = item.get("type", "message")
                if kind == "compaction":
                    raise Finding("a handle went to the upstream")
                if kind == "function_call" and item.get("call_id") not in known:
                    raise Finding(f"a call that no client has: {item}")
                original = calls.get((item.get("call_id"), item.get("arguments")))
                # The store has the reply as the upstream sent it, and this client sends it back without its id.
                own = {name: value for name, value in item.items() if name != "id"}
                if kind == "function_call" and original is not None and own != original:
                    raise Finding(f"{original} is sent as {item}")

    async def check_stored(self) -> None:
        """A reply follows its own question; usage stored is usage stated; the shown nodes are those of the map."""
        await self.wait_for_recordings()
        if problems := await self.store.check():
            raise Finding(f"the store is not sound: {problems[:3]}")
        for session in await self.store.list_sessions(limit=200):
            if session.owner == ODD_OWNER:
                continue
            rows = await self.store.messages(session.id)
            for before, row in pairwise(rows):
                told = QUESTION.findall(text_of(row.message)) if row.message["role"] == "assistant" else []
                asked = QUESTION.findall(text_of(before.message))
                if told and (before.message["role"] == "assistant" or (asked and asked[-1] != told[-1])):
                    raise Finding(f"{session.id} m{row.seq}: {told} behind {asked} of {before.message['role']}")
            await self._check_view(session.id)

    async def _check_view(self, session: str) -> None:
        tip = await self.store.get_compression_tip(session)
        view = await self.store.view(tip)
        shown = [node.name for node in await self.store.shown_nodes(tip)]
        named = [name for at in view.written for name in ids_in_map(text_of(view.messages[at]))]
        if self.engine == "lcm" and shown and set(shown) - set(named):
            raise Finding(f"{tip} shows the nodes {shown} and its map has {named}")
        if self.engine == "lcm" and not shown and named and view.base is not None:
            raise Finding(f"{tip} has the map {named} and shows no nodes")
        open_calls = {call["id"] for message in view.messages for call in calls_of(message)}
        results = {message.get("tool_call_id") for message in view.messages if message["role"] == "tool"}
        if results - open_calls:
            raise Finding(f"{tip} shows results without calls: {results - open_calls}")

    async def check_usage(self) -> None:
        """Only in a world where nothing failed: each call is stored once, with the usage that the upstream stated."""
        await self.wait_for_recordings()
        answered = [it for it in self.upstream.calls if it.status == 200]
        totals = await self.store.usage(which=CallFilter())
        stored = sum(total.calls for total in totals)
        if stored != len(answered):
            raise Finding(f"{len(answered)} requests were answered, and {stored} calls are stored")
        stated, kept = sum(prompt_tokens(it.body) for it in answered), sum(it.usage.prompt_tokens for it in totals)
        if stated != kept:
            raise Finding(f"the upstream stated {stated} prompt tokens, and {kept} are stored")
        stated, kept = sum(self.output.values()), sum(it.usage.output_tokens for it in totals)
        if stated != kept:
            raise Finding(f"the upstream stated {stated} output tokens, and {kept} are stored")

    async def watch(self, running: asyncio.Task[None]) -> None:
        """End a world in which nothing goes on. Turns of the event loop are counted, since a busy machine is slow."""
        seen, beats = (0, 0, 0), 0
        while beats < STUCK_BEATS:
            await asyncio.sleep(0.1)
            now = (self.exchanges, self.numbers, len(self.upstream.calls))
            seen, beats = now, beats + 1 if now == seen else 0
        running.cancel()

    # -- running -------------------------------------------------------------------------------------------------------

    def gateway(self, number: int) -> AbstractAsyncContextManager[GatewayFlow]:
        """One of the gateways over the store."""
        return gateway_with(
            self.upstream,
            self.folder / str(number),
            window=WINDOW,
            store_url=str(self.folder / "state.db"),
            environ={"CLEW_CONTEXT_ENGINE": self.engine, "CLEW_MODEL_NAME": MODEL},
            clock=lambda: time.monotonic() + self.slept,
            adds_breakpoints=self.adds_breakpoints,
            handoffs=self.handoffs,
            upstreams=(self.upstream.origin,),
        )

    async def run(self) -> None:
        has_faults, is_counted = self.chance.random() < 0.5, True
        async with AsyncExitStack() as last:
            await last.enter_async_context(self.upstream)
            for agent in self.agents:
                await last.enter_async_context(agent)
            rounds = ROUNDS
            while rounds > 0:
                async with AsyncExitStack() as gateways:
                    self.flows = [await gateways.enter_async_context(self.gateway(at)) for at in range(self.gateways)]
                    for _ in range(self.chance.choice((10, 30, ROUNDS))):
                        rounds -= 1
                        self.is_failing = has_faults and self.chance.random() < 0.3
                        is_counted = is_counted and not self.is_failing
                        agent = self.chance.choice(self.agents)
                        match self.chance.randrange(18):
                            case 0 | 1:
                                await self.ask_in_parallel(agent)
                            case 2:
                                await self.hang_up(agent)
                                is_counted = False
                            case 3:
                                self.edit(agent)
                                await self.turn(agent)
                            case 4:
                                self.respell(agent)
                                await self.turn(agent)
                            case 5:
                                await self.ask_for_handle(agent)
                            case 6:
                                await self.undo()
                            case 7 if has_faults:
                                is_counted = False
                                await self.delete()
                            case 16:
                                await self.rest(agent)
                            case 17:
                                is_counted = False
                                await self.ask_other_model()
                            case 15:
                                is_counted = False
                                await self.ask_oddly(agent)
                            case 8 | 9:
                                await asyncio.gather(*(self.turn(each) for each in self.agents))
                            case _:
                                await self.turn(agent)
                    await self.check_stored()
                    if is_counted:
                        await self.check_usage()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every value inside a JSON value, as its holder and its key."""
    pairs = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    for key, inner in pairs:
        yield value, key
        yield from _places(inner)


def deepcopy_agent(agent: GatewayClient) -> GatewayClient:
    other = object.__new__(type(agent))
    other.__dict__.update(agent.__dict__, history=deepcopy(agent.history))
    return other


def _is_reply(item: Mapping[str, Any]) -> bool:
    kind = item.get("type", "")
    return item.get("role") in ("assistant", "model") or kind in ("function_call", "reasoning", "compaction")


def _is_question(item: Mapping[str, Any]) -> bool:
    content = item.get("content") or item.get("parts")
    if not isinstance(content, list):
        return isinstance(content, str)
    return content[0].get("type") != "tool_result" and "functionResponse" not in content[0]


async def run_world(seed: str) -> tuple[int, str]:
    """The exchanges of a world, and what was found in it."""
    with tempfile.TemporaryDirectory(prefix="clew-fuzz-") as folder:
        world = World(seed, Path(folder))
        running = asyncio.create_task(world.run())
        watching = asyncio.create_task(world.watch(running))
        try:
            await running
        except (Finding, AssertionError, TimeoutError) as found:
            return world.exchanges, f"{type(found).__name__}: {found}"
        except asyncio.CancelledError:
            return world.exchanges, f"nothing goes on after {world.exchanges} exchanges"
        finally:
            watching.cancel()
        return world.exchanges, ""


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--worlds", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--world", type=int, help="run only this one")
    asked = parser.parse_args(words)
    started, exchanges, findings, ran = time.monotonic(), 0, 0, 0
    numbers = range(asked.worlds) if asked.world is None else (asked.world,)
    for number in numbers:
        if time.monotonic() - started > asked.seconds:
            break
        done, found = asyncio.run(run_world(f"{asked.seed}:{number}"))
        exchanges, ran = exchanges + done, ran + 1
        if found:
            findings += 1
            print(f"FOUND --seed {asked.seed} --world {number}: {found[:1_500]}", flush=True)
        if ran % 20 == 0:
            print(f"{exchanges:,} exchanges in {ran} worlds so far", flush=True)
    print(f"{exchanges:,} exchanges in {ran} worlds, {findings} findings")
    return int(findings > 0)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    sys.exit(main())
