"""An agent as configured: with store, model, engine, tools, memory and skills."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path

from clew.agent import Agent, AgentTool, ApprovalMode, Approvals, AskPerson, EditMode, Toolbox
from clew.agent.context_files import context_files, subfolder_context_files
from clew.agent.files import FileTracker, Workspace
from clew.agent.files.checkpoints import Checkpoints
from clew.agent.files.pages import PAGE_CHARS
from clew.agent.memory import Memory, MemorySnapshot
from clew.agent.processes import BackgroundCommands
from clew.agent.prompt import PromptParts, build_prompt, is_clew_prompt, shows_memory
from clew.agent.sandbox import BubblewrapSandbox
from clew.agent.skills import Skill, find_skills
from clew.agent.tools.mcp import connect_servers
from clew.agent.tools.memory_and_skill import MemoryTool, SkillTool
from clew.agent.tools.patch import PatchTool
from clew.agent.tools.read_write import ReadFileTool, WriteFileTool
from clew.agent.tools.recall import RecallTool
from clew.agent.tools.search_files import SearchFilesTool
from clew.agent.tools.state import StateTool
from clew.agent.tools.terminal import ProcessTool, TerminalTool
from clew.app.engines import ENGINE_KEY, EngineChoice, engine_setup
from clew.app.models import ENDPOINT_STATE, auxiliary_target, endpoint_of, settings_at, settings_for_model, target_of
from clew.config import (
    LoadedConfig,
    ModelSettings,
    Settings,
    clew_home,
    config_path,
    learnt_limits_path,
    read_config,
    set_in_file,
    setting_named,
)
from clew.engines import ContextEngine, EngineSetup
from clew.errors import ClewError, InvalidArgument
from clew.events import Events, Notice
from clew.providers import Provider, RetryPolicy
from clew.store import NewSession, Store
from clew.tokens import LearntLimits, window_of
from clew.tooloutput import limits_for_window
from clew.turn import ModelTarget, Runtime, RuntimeOptions, spill_folder, window_for

_WINDOW_SECONDS = 3.0
"""For a models endpoint, which the chat waits for at its start."""
_NOTICE_SECONDS = 1.5
"""A shorter wait for the provider is not worth a notice."""


@dataclass(frozen=True, slots=True)
class AgentAppOptions:
    """The options of an agent app beside the config."""

    project: Path
    ask: AskPerson | None = None
    """Asks a person before dangerous actions; None without a terminal."""
    approvals: ApprovalMode | None = None
    """In place of the configured mode."""
    events: Events | None = None
    provider: Provider | None = None
    """In place of the configured one."""
    retry_policy: RetryPolicy = field(default_factory=RetryPolicy)
    """The retries of requests to the model's provider."""
    keeps_model: bool = False
    """The person named the model for this run: resumed sessions use it, too."""
    has_tools: bool = True
    system: str | None = None
    """A system prompt in place of ours."""


class AgentApp:
    """A runtime, an agent, and their parts. Opened by `open_agent_app`."""

    def __init__(
        self,
        config: LoadedConfig,
        environ: Mapping[str, str],
        store: Store,
        options: AgentAppOptions,
        more_tools: Sequence[AgentTool] = (),
    ) -> None:
        self.config = config
        self.settings: Settings = config.settings
        self.environ = environ
        self.store = store
        self.project = options.project.resolve()
        self.home = clew_home(environ)
        self.engines = EngineChoice(config, environ)
        self.engine_name = self.engines.serving()[0].name
        limits = self.settings.memory
        self.memory = Memory(self.home, limits.memory_chars, limits.user_chars)
        self.skills: tuple[Skill, ...]
        self.skills, self._skill_notices = find_skills(self.project, self.home)
        self._options = options
        self._checkpoints = Checkpoints(self.home / "checkpoints")
        self._more_tools = more_tools
        self._model = self.settings.model
        """The settings of the current model."""
        self.target = self._target_of(self._model)
        self.runtime = Runtime(store, self.target, self._runtime_options(), options.events)
        self.agent = self._agent()
        auxiliary = self.runtime.options.auxiliary
        self._targets = [self.target, *([auxiliary] if auxiliary else [])]

    @property
    def notices(self) -> tuple[str, ...]:
        """The notices to show before the first question."""
        remembered = self.memory.snapshot().notices if self.settings.memory.enabled else ()
        return (*self.config.notices, *self._skill_notices, *remembered)

    async def new_session(self, title: str | None = None) -> str:
        """Begin a session; its system prompt stays the same byte for byte."""
        new = NewSession(source="terminal", model=self.target.model, title=title, system=self.prompt())
        session = (await self.store.start_session(new)).id
        await self.remember_endpoint(session)
        return session

    async def remember_endpoint(self, session: str) -> None:
        """Store the current model and its endpoint with a session, which resumes with them."""
        await self.store.set_state(session, {ENDPOINT_STATE: endpoint_of(self._model)})

    async def use_model(self, session: str, name: str) -> ModelTarget:
        """Use another model from the next turn on, also for new sessions."""
        settings = replace(self._model, name=name, context_length=None)
        if self._options.provider is None and settings.base_url is None:
            settings = settings_for_model(self._model, name)
        return await self._use(session, settings)

    async def use_model_of(self, session: str) -> str:
        """Use the stored model of a session again, at its address; return why not if another one is used."""
        own, kept = (await self.store.session(session)).model, (await self.store.state(session)).get(ENDPOINT_STATE)
        if not own or (own == self.target.model and kept in (None, endpoint_of(self._model))):
            return ""
        if self._options.keeps_model:
            return "the model of this chat was set when it started"
        if kept is None and self._model.base_url is not None:
            return "no provider of it is known: no address is kept with the session"
        try:
            await (self._use(session, settings_at(self._model, kept)) if kept else self.use_model(session, own))
        except ClewError as problem:
            return str(problem)
        return ""

    async def _use(self, session: str, settings: ModelSettings) -> ModelTarget:
        target = await self._with_window(self._target_of(settings))
        self._targets.append(target)
        await (await self.runtime.conversation(session)).use_model(target)
        self.target, self.runtime.target, self._model = target, target, settings
        await self.remember_endpoint(session)
        await self._close_unused_providers()
        return target

    async def ask_for_window(self) -> None:
        """Ask the provider for the window of the model, if no other source has it."""
        asked = await self._with_window(self.target)
        if asked is not self.target:
            self._targets[self._targets.index(self.target)] = asked
            self.target = self.runtime.target = asked

    async def _with_window(self, target: ModelTarget) -> ModelTarget:
        """The target with the answer of its models endpoint, if no other source has its window."""
        if (await window_for(target, self.store, self.runtime.options.learnt)).source != "default":
            return target
        try:
            async with asyncio.timeout(_WINDOW_SECONDS):
                return replace(target, endpoint=await target.sender.models())
        except (ClewError, TimeoutError):  # the first question fails with a better error
            return target

    @property
    def targets(self) -> tuple[ModelTarget, ...]:
        """The models whose providers are open."""
        return tuple(self._targets)

    async def _close_unused_providers(self) -> None:
        """Close providers without a user: a local model takes memory while its server runs. Not while a turn runs."""
        if self.runtime.is_at_work:
            return
        used = {id(target.provider) for target in (*self.runtime.targets, self.runtime.options.auxiliary) if target}
        unused = [target for target in self._targets if id(target.provider) not in used]
        self._targets = [target for target in self._targets if id(target.provider) in used]
        for target in unused:
            await target.sender.close()

    async def use_engine(self, session: str, name: str) -> tuple[str, ...]:
        """Set another engine in the config and load the conversation again with it; return notices."""
        conversation = await self.runtime.conversation(session)
        if conversation.is_in_use:
            raise InvalidArgument("a turn is running", remedy="the engine can be changed when it has ended")
        plugin = self.engines.catalog.find(name)
        # Built before it is written: the config must not name an engine that cannot be built.
        self.engines.catalog.build(plugin, engine_setup(self.settings, conversation.window.tokens))
        path = config_path(self.environ)
        notices = set_in_file(path, setting_named(ENGINE_KEY, "/engine"), plugin.name)
        config = read_config(self.environ)
        if config.settings.context.engine != plugin.name:
            raise InvalidArgument(
                f"{ENGINE_KEY} is written, but {config.origin_of(ENGINE_KEY)} overrules {path}", remedy="unset that"
            )
        self.engines, self.engine_name = EngineChoice(config, self.environ), plugin.name
        await self.runtime.forget(session)
        return tuple(notices)

    def caching_line(self) -> str:
        """Whether and why requests are cached, for the line at start-up."""
        return self.runtime.cache_policy(self.target).describe()

    def prompt(self) -> str:
        """The system prompt of a new session."""
        if self._options.system is not None:
            return self._options.system
        return build_prompt(
            PromptParts(
                self.project,
                date.today(),
                self.memory.snapshot() if self.settings.memory.enabled else MemorySnapshot(),
                context_files(self.project, self.home),
                subfolder_context_files(self.project),
                self.skills,
                self.agent.toolbox.names,
            )
        )

    async def close(self) -> None:
        """Close the agent, the runtime and the providers, in this order, also if closing one fails."""
        async with AsyncExitStack() as last:
            for provider in {id(target.provider): target.sender for target in self._targets}.values():
                last.push_async_callback(provider.close)
            last.push_async_callback(self.runtime.close)
            last.push_async_callback(self.agent.close)

    def _target_of(self, model: ModelSettings) -> ModelTarget:
        retry_policy = replace(self._options.retry_policy, sleep=self._wait)
        cap = self.settings.agent.max_tokens
        return target_of(model, self.environ, self._options.provider, max_tokens=cap, retry_policy=retry_policy)

    async def _wait(self, seconds: float) -> None:
        """Wait before a retry; emit a notice about a longer wait."""
        if seconds >= _NOTICE_SECONDS:
            self.runtime.tell(Notice(f"The provider is busy or limits the rate; it is asked again in {seconds:.0f} s."))
        await self._options.retry_policy.sleep(seconds)

    def _runtime_options(self) -> RuntimeOptions:
        return RuntimeOptions(
            new_engine=self._engine,
            spill=spill_folder(self.home, self.settings),
            settings=self.settings,
            source="terminal",
            auxiliary=auxiliary_target(self.settings, self.environ),
            learnt=LearntLimits(learnt_limits_path(self.environ)),
            before_switch=self._before_switch,
        )

    def _engine(self, setup: EngineSetup) -> ContextEngine:
        loaded = self.engines.load(setup)
        for notice in loaded.notices:
            self.runtime.tell(Notice(notice))
        return loaded.engine

    def _agent(self) -> Agent:
        options, settings = self._options, self.settings.agent
        mode: ApprovalMode = options.approvals or settings.approvals  # type: ignore[assignment]  # its choices
        tools = self._tools() if options.has_tools else []
        edits: EditMode = settings.edits  # type: ignore[assignment]  # its choices
        approvals = Approvals(mode, options.ask, edits)
        return Agent(self.runtime, Toolbox(tools), approvals, settings.max_rounds, self._checkpoints)

    def _tools(self) -> list[AgentTool]:
        allowed = [Path(it).expanduser() for it in (self.settings.agent.allowed_paths or "").split(":") if it]
        spilled = self.runtime.options.spill.folder
        skills = [skill.path.parent for skill in self.skills]
        notes = [file.path for file in context_files(self.project, self.home)]
        workspace = Workspace(self.project, allowed, read_only_allowed=[spilled, *skills, *notes])
        sandbox = self._sandbox(allowed)
        seen, background = FileTracker(self._checkpoints.record), BackgroundCommands(sandbox=sandbox)
        seconds = self.settings.agent.command_seconds
        tools: list[AgentTool] = [
            # Read pages are never spilled, so a page has to fit.
            ReadFileTool(workspace, seen, min(PAGE_CHARS, self.max_result_chars)),
            WriteFileTool(workspace, seen),
            PatchTool(workspace, seen),
            SearchFilesTool(workspace, self.environ),
            TerminalTool(
                self.project,
                self.environ,
                seconds,
                withhold=self.key_variables,
                background=background,
                sandbox=sandbox,
                session_files=seen.session_files,
            ),
            ProcessTool(background),
            RecallTool(self.store),
            StateTool(self.store),
        ]
        if self.settings.memory.enabled:
            tools.append(MemoryTool(self.memory))
        if self.skills:
            tools.append(SkillTool(self.skills))
        return [*tools, *self._more_tools]

    def _sandbox(self, allowed: Sequence[Path]) -> BubblewrapSandbox | None:
        """The sandbox of commands, if it is configured. Raises SandboxUnavailable if it is missing."""
        if self.settings.terminal.sandbox != "bubblewrap":
            return None
        return BubblewrapSandbox.open(self.environ, self.project, allowed, self.home)

    @property
    def key_variables(self) -> tuple[str, ...]:
        """The environment variables of configured API keys, which are withheld from commands that a model runs."""
        named = (self.settings.model.api_key_env, self.settings.auxiliary.compression.api_key_env)
        return tuple(name for name in named if name)

    @property
    def max_result_chars(self) -> int:
        """The longest result, or file in a question, for the model's window."""
        window = window_of(self.target.model, base_url=self.target.base_url, configured=self.target.context_length)
        return limits_for_window(window.tokens, self.runtime.options.output_limits).per_result_chars

    async def _before_switch(self, session: str) -> str | None:
        """Commit the memory of the session that ends; return the prompt of the next one, if memory has changed."""
        if not self.settings.memory.enabled:
            return None
        await self.memory.commit()
        if self._options.system is not None:
            return None
        prompt = await self.store.system_prompt(session)
        if prompt is not None and (not is_clew_prompt(prompt) or shows_memory(prompt, self.memory.snapshot())):
            return None
        return self.prompt()


@asynccontextmanager
async def open_agent_app(
    config: LoadedConfig, environ: Mapping[str, str], store: Store, options: AgentAppOptions
) -> AsyncIterator[AgentApp]:
    """An agent app with its MCP servers, closed at the end of the block."""
    tools: list[AgentTool] = []
    if config.mcp_servers and options.has_tools:
        tools, notices = await connect_servers(config.mcp_servers, environ, options.project.resolve())
        config = replace(config, notices=(*config.notices, *notices))
    async with AsyncExitStack() as last:
        for tool in tools:
            last.push_async_callback(tool.close)
        app = AgentApp(config, environ, store, options, tools)
        last.push_async_callback(app.close)
        await app.ask_for_window()
        yield app
