"""The second walk of docs/walk.md, walked: its figures are what really happens."""

from __future__ import annotations

import re
from pathlib import Path

from clew.app import AgentAppOptions, open_agent_app
from clew.config import load_config
from clew.events import Event, Events, Replied
from clew.messages import text_of
from clew.store import open_store
from clew.testing import call, user
from clew.testing.upstream import Upstream, UpstreamAnswer
from clew.usage import CanonicalUsage

WALK = (Path(__file__).resolve().parents[2] / "docs" / "walk.md").read_text(encoding="utf-8")
TURN = " ".join(WALK.partition("\n## A turn,")[2].partition("\n## ")[0].split())
KEY = "not-" + "a-real-" + "key"
ASKED = CanonicalUsage(input_tokens=2_790, output_tokens=21)
ANSWERED = CanonicalUsage(input_tokens=60, output_tokens=14, cache_read_tokens=2_790)


async def test_a_turn_has_the_values_that_the_walk_tells(tmp_path: Path) -> None:
    project = tmp_path / "thread"
    (project / "notes").mkdir(parents=True)
    (project / "notes" / "names.txt").write_text("Ariadne\n")
    (project / "README.md").write_text("# Thread\nA tiny project.\n")
    looks = call("search_files", {"pattern": "Ariadne"}, id="call_1")
    says = UpstreamAnswer("It stands in notes/names.txt, line 1.", usage=ANSWERED)
    told: list[Event] = []
    async with Upstream(UpstreamAnswer(calls=(looks,), usage=ASKED), says) as upstream:
        environ = {"CLEW_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin", "ANTHROPIC_API_KEY": KEY}
        address = upstream.base_url.removesuffix("/v1")
        flags = ["model.name=claude-sonnet-4-5", "model.provider=anthropic", f"model.base_url={address}"]
        config = load_config(environ, flags)
        async with (
            open_store(tmp_path / "state.db") as store,
            open_agent_app(config, environ, store, AgentAppOptions(project, events=Events(told.append))) as app,
        ):
            session = await app.new_session()
            done = await app.agent.ask(session, user("Where does the name Ariadne stand?"))
            live = await app.runtime.conversation(session)
            status = live.engine.get_status()
            first, second = (received.body["messages"] for received in upstream.received)
            result = second[-1]["content"][0]["content"]
    assert f"({live.window.tokens:,}, from the table)" in TURN
    assert f"(it compacts from {status.threshold_tokens:,} on), nine tools" in TURN
    assert len(app.agent.toolbox.names) == 9
    assert f"the tools take {live.size.tools:,}." in TURN
    about = re.search(r"a system prompt of about (\d+) tokens", TURN)
    assert about
    assert abs(int(about[1]) - live.size.system) < 60  # the path of the project is in it
    assert all(f"`{line}`" in TURN for line in result.splitlines())
    costs = [event.cost_micros for event in told if isinstance(event, Replied)]
    assert [f"${(cost or 0) / 1e6:f}" in TURN for cost in costs] == [True, True]
    assert [message["role"] for message in second][: len(first)] == [message["role"] for message in first]
    assert f"*{text_of(done.reply.message)}* Two rounds" in TURN
    assert done.rounds == 2
