"""The app: what the config names is what an agent works with, and its system prompt stays as it was."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from clew.app import AgentApp, AgentAppOptions, NoModel, open_agent_app
from clew.app.models import settings_for_model
from clew.config import ModelSettings, load_config
from clew.errors import SandboxUnavailable
from clew.events import Event, Events, Notice
from clew.messages import text_of
from clew.providers import Provider, RetryPolicy
from clew.store import open_store
from clew.testing import call, user
from clew.testing.scripted import ScriptedProvider, calls, refuses
from clew.testing.upstream import Upstream, UpstreamFault
from clew.testing.upstream import UpstreamAnswer as Upstreams
from tests.support.flow import answers

LONG = "and a long way to go before the importer is done " * 60


@asynccontextmanager
async def app_in(
    folder: Path, provider: Provider | None, *flags: str, more: Any = None, **options: object
) -> AsyncIterator[AgentApp]:
    environ = {"CLEW_HOME": str(folder / "home"), "PATH": "/usr/bin:/bin", **(more or {})}
    (folder / "project").mkdir(exist_ok=True)
    config = load_config(environ, ["model.name=gpt-5", "model.context_length=60000", *flags])
    chosen = AgentAppOptions(folder / "project", provider=provider, **options)  # type: ignore[arg-type]
    async with (
        open_store(folder / "state.db", flush="normal") as store,
        open_agent_app(config, environ, store, chosen) as it,
    ):
        yield it


def prompt_of(provider: ScriptedProvider) -> str:
    return text_of(provider.requests[-1].messages[0])


async def compacted(app: AgentApp, session: str, provider: ScriptedProvider) -> None:
    """The main model is asked for the summary; it refuses, so that the built-in writes it."""
    provider.then(refuses("auth"))
    done = await (await app.runtime.conversation(session)).compact_now()
    assert done is not None
    assert done.changed


async def test_the_model_gets_tools_memory_context_files_and_skills(tmp_path: Path) -> None:
    skill = tmp_path / "project" / ".clew" / "skills" / "review"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: review\ndescription: How we review\n---\nRead twice.\n")
    (tmp_path / "project" / "AGENTS.md").write_text("Tabs, never spaces.\n")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "USER.md").write_text("- Prefers short answers\n")
    provider = ScriptedProvider(answers("Hello."))
    async with app_in(tmp_path, provider) as app:
        await app.agent.ask(await app.new_session(), user("Hello?"))
        for text in ("Tabs, never spaces.", "Prefers short answers", "review: How we review"):
            assert text in prompt_of(provider)
        offered = {schema["function"]["name"] for schema in provider.requests[0].tools}
        assert offered == {
            "read_file", "write_file", "patch", "search_files", "terminal", "process", "recall", "state",
            "memory", "skill",
        }  # fmt: skip


async def test_the_prompt_is_the_same_bytes_over_turns_a_restart_and_changed_files(tmp_path: Path) -> None:
    provider = ScriptedProvider(answers("One."), answers("Two."))
    async with app_in(tmp_path, provider) as app:
        session = await app.new_session()
        await app.agent.ask(session, user("First."))
        (tmp_path / "project" / "AGENTS.md").write_text("Something new.\n")
        await app.memory.add("memory", "The build needs make 4", session)
        await app.agent.ask(session, user("Second."))
        first, second = (request.messages[0] for request in provider.requests)
        assert first == second
    later = ScriptedProvider(answers("Three."))
    async with app_in(tmp_path, later) as app:
        await app.agent.ask(session, user("Third."))
        assert later.requests[0].messages[0] == first


async def test_what_was_remembered_is_on_disk_and_in_the_prompt_of_the_continuation(tmp_path: Path) -> None:
    remember = {"action": "add", "which": "memory", "text": "The build needs make 4"}
    provider = ScriptedProvider(calls(call("memory", remember, id="c1")), answers("Noted."))
    async with app_in(tmp_path, provider) as app:
        session = await app.new_session()
        await app.agent.ask(session, user("Remember that the build needs make 4."))
        for number in range(9):
            provider.then(answers(f"{number} {LONG}"))
            await app.agent.ask(session, user(f"{number} {LONG}"))
        assert "make 4" not in prompt_of(provider)
        await compacted(app, session, provider)
        assert "- The build needs make 4" in (tmp_path / "home" / "MEMORY.md").read_text()
        provider.then(answers("Going on."))
        await app.agent.ask(session, user("Go on."))
        assert "The build needs make 4" in prompt_of(provider)
        tip = await app.store.get_compression_tip(session)
        assert tip != session
        assert "make 4" not in str(await app.store.system_prompt(session))
        assert "make 4" in str(await app.store.system_prompt(tip))


async def test_without_a_change_of_memory_a_compaction_leaves_the_prompt_alone(tmp_path: Path) -> None:
    provider = ScriptedProvider()
    async with app_in(tmp_path, provider) as app:
        session = await app.new_session()
        for number in range(9):
            provider.then(answers(f"{number} {LONG}"))
            await app.agent.ask(session, user(f"{number} {LONG}"))
        before = prompt_of(provider)
        await compacted(app, session, provider)
        provider.then(answers("Going on."))
        await app.agent.ask(session, user("Go on."))
        assert prompt_of(provider).startswith(before)


async def test_the_agent_works_in_its_project_and_asks_before_it_leaves_it(tmp_path: Path) -> None:
    writes = calls(
        call("write_file", {"path": "notes.txt", "content": "one\n"}, id="c1"),
        call("write_file", {"path": str(tmp_path / "outside.txt"), "content": "two\n"}, id="c2"),
        call("terminal", {"command": "cat notes.txt"}, id="c3"),
    )
    provider = ScriptedProvider(writes, answers("Done."))
    async with app_in(tmp_path, provider) as app:
        await app.agent.ask(await app.new_session(), user("Write both."))
        assert (tmp_path / "project" / "notes.txt").read_text() == "one\n"
        assert not (tmp_path / "outside.txt").exists()
        first, second, third = [text_of(m) for m in provider.requests[1].messages if m["role"] == "tool"]
        assert "notes.txt" in first
        assert "nobody is here to approve" in second
        assert "one" in third


async def test_a_switch_of_model_holds_from_the_next_turn_on(tmp_path: Path) -> None:
    provider = ScriptedProvider(answers("One."), answers("Two."))
    async with app_in(tmp_path, provider) as app:
        session = await app.new_session()
        await app.agent.ask(session, user("First."))
        await app.use_model(session, "gpt-5-mini")
        await app.agent.ask(session, user("Second."))
        assert [request.model for request in provider.requests] == ["gpt-5", "gpt-5-mini"]


@pytest.mark.parametrize(
    ("name", "is_kept"), [("gpt-5-mini", True), ("claude-sonnet-4-5", False), ("some/model", False), ("local", False)]
)
def test_a_key_stays_with_the_provider_that_it_was_given_for(name: str, is_kept: bool) -> None:
    key = "-".join(("not", "a", "real", "key"))
    former = ModelSettings(name="gpt-5", provider="openai", api_key=key, api_key_env="MY_KEY")
    other = settings_for_model(former, name)
    assert (other.name, other.api_key, other.api_key_env) == (name, *((key, "MY_KEY") if is_kept else (None, None)))


async def test_the_provider_of_a_model_that_nobody_uses_any_more_is_closed(tmp_path: Path) -> None:
    key = "-".join(("not", "a", "real", "key"))
    async with app_in(tmp_path, None, more={"OPENAI_API_KEY": key, "ANTHROPIC_API_KEY": key}) as app:
        session = await app.new_session()
        first = app.target.provider
        await app.use_model(session, "claude-sonnet-4-5")
        assert [target.model for target in app.targets] == ["claude-sonnet-4-5"]
        assert first is not app.target.provider
        live = await app.runtime.conversation(session)
        async with live.locks.turn:  # a turn is under way: its provider must not be closed
            await app.use_model(session, "gpt-5")
        assert [target.model for target in app.targets] == ["claude-sonnet-4-5", "gpt-5"]


def test_from_a_model_in_a_file_to_a_provider_goes_no_key_either() -> None:
    other = settings_for_model(ModelSettings(name="smollm2", provider="local", api_key_env="MY_KEY"), "gpt-5")
    assert other.api_key_env is None


async def test_a_person_may_bring_a_prompt_of_their_own_and_no_tools(tmp_path: Path) -> None:
    provider = ScriptedProvider(answers("Arr."))
    async with app_in(tmp_path, provider, system="Talk like a pirate.", has_tools=False) as app:
        await app.agent.ask(await app.new_session(), user("Hello?"))
        assert prompt_of(provider) == "Talk like a pirate."
        assert not provider.requests[0].tools


async def test_no_model_at_all_is_said_with_the_ways_to_get_one(tmp_path: Path) -> None:
    environ = {"CLEW_HOME": str(tmp_path)}
    async with open_store(tmp_path / "state.db", flush="normal") as store:
        with pytest.raises(NoModel, match="no model is chosen"):
            async with open_agent_app(load_config(environ), environ, store, AgentAppOptions(tmp_path)):
                pass


async def test_a_wait_for_the_provider_is_told(tmp_path: Path) -> None:
    waited: list[float] = []
    heard: list[Event] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    retry_policy = RetryPolicy(sleep=sleep, jitter=lambda: 0.0)
    busy = UpstreamFault(429, {"error": {"message": "Rate limit reached"}}, {"Retry-After": "20"})
    async with Upstream(busy, busy, Upstreams("Hello.")) as upstream:
        options = {"retry_policy": retry_policy, "events": Events(heard.append)}
        async with app_in(tmp_path, None, f"model.base_url={upstream.base_url}", **options) as app:
            exchange = await app.agent.ask(await app.new_session(), user("Hello?"))
    assert text_of(exchange.reply.message) == "Hello."
    assert waited == [20.0, 20.0]
    told = [event.text for event in heard if isinstance(event, Notice)]
    assert told == ["The provider is busy or limits the rate; it is asked again in 20 s."] * 2


async def test_a_sandbox_that_is_chosen_and_missing_stops_the_start(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path)}
    with pytest.raises(SandboxUnavailable, match="install it"):
        async with app_in(tmp_path, ScriptedProvider(), "terminal.sandbox=bubblewrap", more=environ):
            raise AssertionError("it started")


async def test_commands_of_the_agent_run_in_the_sandbox_that_is_chosen(tmp_path: Path) -> None:
    provider = ScriptedProvider(
        calls(call("terminal", {"command": "ls -A $CLEW_HOME; ls -A /run"}, id="c1")), answers("Done.")
    )
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "keys.txt").write_text("a key")
    try:
        async with app_in(tmp_path, provider, "terminal.sandbox=bubblewrap", more={"HOME": str(tmp_path)}) as app:
            await app.agent.ask(await app.new_session(), user("Look."))
    except SandboxUnavailable as problem:
        pytest.skip(str(problem))
    (result,) = [text_of(m) for m in provider.requests[1].messages if m["role"] == "tool"]
    assert "[exit 0]" in result and "keys.txt" not in result


async def test_a_session_goes_on_with_its_model_at_its_address(tmp_path: Path) -> None:
    async with Upstream(Upstreams("Here."), Upstreams("There."), Upstreams("Back.")) as here, Upstream() as there:
        at_there = (f"model.base_url={there.base_url}", "model.name=other", "model.api_key=not-for-here")
        async with app_in(tmp_path, None, *at_there) as app:
            other = await app.new_session()
        async with app_in(tmp_path, None, f"model.base_url={here.base_url}", "model.name=mock-1") as app:
            mine = await app.new_session()
            await app.agent.ask(mine, user("Hello?"))
            assert not await app.use_model_of(other)
            there.then(Upstreams("Hello."))
            await app.agent.ask(other, user("Who is there?"))
            assert not await app.use_model_of(mine)
            await app.agent.ask(mine, user("And here?"))
        assert [request.body["model"] for request in (*here.calls, *there.calls)] == ["mock-1", "mock-1", "other"]
        assert "authorization" not in {name.lower() for name in there.calls[0].headers}


async def test_a_model_that_was_named_for_this_run_answers_in_other_sessions_too(tmp_path: Path) -> None:
    async with Upstream(Upstreams("Here.")) as here:
        async with app_in(tmp_path, None, "model.base_url=http://127.0.0.1:9/v1", "model.name=other") as app:
            other = await app.new_session()
        flags = (f"model.base_url={here.base_url}", "model.name=mock-1")
        async with app_in(tmp_path, None, *flags, keeps_model=True) as app:
            assert "set when it started" in await app.use_model_of(other)
            await app.agent.ask(other, user("Who is there?"))
        assert here.calls[0].body["model"] == "mock-1"


async def test_a_window_that_the_server_states_is_believed(tmp_path: Path) -> None:
    async with Upstream(models=[{"id": "mock-1", "context_length": 24_000}]) as upstream:
        flags = (f"model.base_url={upstream.base_url}", "model.name=mock-1", "model.context_length=null")
        async with app_in(tmp_path, None, *flags) as app:
            window = (await app.runtime.conversation(await app.new_session())).window
            assert (window.tokens, window.source) == (24_000, "endpoint")
