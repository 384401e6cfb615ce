"""`clew wrap`, run as people run it: a process of its own, with programs that stand for real agents."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import pty
import re
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from clew.config import read_config
from clew.gateway import find_program
from clew.integrations.wrap_overlays import OverlayFolders, find_upstreams
from clew.store import NewKey, open_store
from clew.testing import Upstream, UpstreamAnswer

pytestmark = pytest.mark.slow

PROGRAMS = ("codex", "claude", "opencode", "pi", "gemini", "copilot", "cline", "cn", "nanocoder", "hermes")
CALLS = """\
import json, os, sys, urllib.request
body = {"model": "mock-model", "messages": [{"role": "user", "content": "Say it."}]}
request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(),
    {"Content-Type": "application/json", "Authorization": "Bearer fake"})
print(json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"])
"""
SHOWS = f"""\
#!{sys.executable}
import json, os, pathlib, sys
folder = os.environ.get("PI_CODING_AGENT_DIR") or os.environ.get("HERMES_HOME")
folder = folder or os.path.dirname(os.environ.get("CLINE_PROVIDER_SETTINGS_PATH") or "")
named = sys.argv[sys.argv.index("--config") + 1] if "--config" in sys.argv else ""
named = sys.argv[sys.argv.index("--settings") + 1] if "--settings" in sys.argv else named
folder = folder or os.path.dirname(named)
print(json.dumps({{"words": sys.argv[1:], "environ": dict(os.environ),
    "files": {{p.name: p.read_text() for p in pathlib.Path(folder).iterdir() if p.is_file()}} if folder else {{}}}}))
"""


class Wrapped:
    """A home with config of the person's own, and programs on the PATH that print what they get."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self.programs = folder / "bin"
        self.programs.mkdir()
        for name in PROGRAMS:
            file = self.programs / name
            file.write_text(SHOWS, encoding="utf-8")
            file.chmod(0o755)
        self.own("pi/agent/models.json", {"providers": {"mine": {"baseUrl": "http://127.0.0.1:1/v1"}}})
        self.own("pi/agent/settings.json", {"theme": "dark"})
        self.own("pi/agent/auth.json", {"anthropic": {"type": "api_key", "key": "fake"}})
        self.own("codex/config.toml", 'model = "gpt-5"\n')
        self.own("claude/settings.json", {"env": {"ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}})

    def own(self, path: str, content: object) -> None:
        file = self.home / f".{path}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")

    @property
    def clew_home(self) -> Path:
        return self.home / ".clew"

    @property
    def environ(self) -> dict[str, str]:
        path = f"{self.programs}:{os.environ['PATH']}"
        return {"HOME": str(self.home), "PATH": path, "PYTHONPATH": os.pathsep.join(sys.path), "LANG": "C.UTF-8"}

    def hashes(self) -> dict[str, str]:
        """Of every file of the person's, without Clew's own."""
        files = (path for path in self.home.rglob("*") if path.is_file() and self.clew_home not in path.parents)
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    async def start(self, *words: str, **environ: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "clew", "wrap", *words),
            env={**self.environ, **environ},
            cwd=self.home,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # no terminal, which would send signals by itself
        )

    async def run(self, *words: str, **environ: str) -> tuple[int | None, str, str]:
        process = await self.start(*words, **environ)
        out, err = await process.communicate()
        return process.returncode, out.decode(), err.decode()

    async def shown(self, *words: str, **environ: str) -> Mapping[str, object]:
        code, out, err = await self.run(*words, **environ)
        assert code == 0, err
        shown = json.loads(out)
        assert isinstance(shown, dict)
        return shown


def is_there(path: Path) -> bool:
    return path.exists()


@pytest.fixture
def wrapped(tmp_path: Path) -> Wrapped:
    return Wrapped(tmp_path)


async def test_a_program_calls_its_provider_through_the_gateway_and_its_conversation_is_kept(wrapped: Wrapped) -> None:
    async with Upstream(UpstreamAnswer("Noon.")) as upstream:
        code, out, err = await wrapped.run("--upstream", upstream.base_url, "--", sys.executable, "-c", CALLS)
    assert (code, out) == (0, "Noon.\n")
    assert re.fullmatch(r"clew: 1 call, 100 tokens in \(30% cached\), 9 out, 0 folds, .+, session s_\w+\n", err)
    assert upstream.received[0].headers["authorization"] == "Bearer fake"
    async with open_store(wrapped.clew_home / "state.db") as store:
        assert [session.source for session in await store.list_sessions()] == ["gateway"]


async def test_a_program_is_served_by_its_own_credential_even_where_there_are_keys(wrapped: Wrapped) -> None:
    wrapped.clew_home.mkdir()
    async with open_store(wrapped.clew_home / "state.db") as store:
        await store.create_key(NewKey("ann", b"x" * 32))
    async with Upstream(UpstreamAnswer("Noon.")) as upstream:
        code, out, _ = await wrapped.run("--upstream", upstream.base_url, "--", sys.executable, "-c", CALLS)
    assert (code, out) == (0, "Noon.\n")


async def test_all_variables_lead_to_loopback(wrapped: Wrapped) -> None:
    shown = await wrapped.shown("gemini", "-p", "hello", https_proxy="http://10.0.0.1:3128", no_proxy="intra.net")
    environ = shown["environ"]
    assert isinstance(environ, dict)
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"):
        assert environ[name].startswith("http://127.0.0.1:")
    assert environ["OPENAI_BASE_URL"].endswith("/v1")
    assert environ["NO_PROXY"] == "intra.net,127.0.0.1"
    assert shown["words"] == ["-p", "hello"]


async def test_codex_is_pointed_by_flags_before_its_own_words(wrapped: Wrapped) -> None:
    before = wrapped.hashes()
    shown = await wrapped.shown("--", "codex", "exec", "--json", "hello", OPENAI_API_KEY="fake")
    words = shown["words"]
    assert isinstance(words, list)
    assert words[-3:] == ["exec", "--json", "hello"]
    assert words[0] == "-c" and words[1].startswith(
        'model_providers.clew={name = "Clew", base_url = "http://127.0.0.1:'
    )
    assert 'env_key = "OPENAI_API_KEY"' in words[1] and 'model_provider="clew"' in words
    assert wrapped.hashes() == before


async def test_claude_code_is_pointed_by_a_flag_where_its_settings_would_win(wrapped: Wrapped) -> None:
    shown = await wrapped.shown("--", "claude", "-p", "hello")
    words, files = shown["words"], shown["files"]
    assert isinstance(words, list) and isinstance(files, dict)
    assert words[0] == "--settings" and words[2:] == ["-p", "hello"]
    assert json.loads(files["settings.json"])["env"]["ANTHROPIC_BASE_URL"].startswith("http://127.0.0.1:")
    (wrapped.home / ".claude" / "settings.json").unlink()
    assert (await wrapped.shown("--", "claude", "-p", "hello"))["words"] == ["-p", "hello"]


NAMED = ("--upstream", "http://127.0.0.1:9/v1", "--set", "model.name=qwen", "--set", "model.context_length=40000")
FOLDS = """\
import json, os, urllib.request
history = []
for number in range(14):
    history.append({"role": "user", "content": f"{number}: " + "many words of a question that goes on " * 80})
    body = {"model": "gpt-4o", "messages": history}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode(),
        {"Content-Type": "application/json", "Authorization": "Bearer fake"})
    history.append(json.load(urllib.request.urlopen(request))["choices"][0]["message"])
"""


async def test_the_last_line_tells_folds_cost_and_savings(wrapped: Wrapped) -> None:
    async with Upstream(answers=lambda _: UpstreamAnswer("ok"), caches=True) as upstream:
        named = ("--upstream", upstream.base_url, "--set", "model.name=gpt-4o", "--set", "model.context_length=8000")
        code, _, err = await wrapped.run(
            *named, "--set", "gateway.handoffs=built-in", "--", sys.executable, "-c", FOLDS
        )
    assert code == 0
    found = re.fullmatch(
        r"clew: 14 calls, ([\d,]+) tokens in \(\d+% cached\), [\d,]+ out, (\d+) folds?, \$[\d.]+, "
        r"saved .+, session (s_\w+)\n",
        err,
    )
    assert found is not None, err
    assert int(found[1].replace(",", "")) > 10_000 and int(found[2]) >= 1
    async with open_store(wrapped.clew_home / "state.db") as store:
        assert (await store.session(found[3])).source == "gateway"


async def test_a_program_that_calls_nothing_through_it_or_does_not_exist_is_told(wrapped: Wrapped) -> None:
    code, _, err = await wrapped.run("--upstream", "http://127.0.0.1:9", "--", "true")
    assert code == 0 and err.startswith("clew: nothing went through the gateway: true called no model")
    code, _, err = await wrapped.run("--", "nosuchprogram")
    assert code == 2 and "there is no program 'nosuchprogram'" in err
    code, _, err = await wrapped.run("--", sys.executable, "-c", "pass")
    assert code == 2 and "the API that" in err


async def test_keys_in_the_environment_tell_where_an_unknown_program_calls(wrapped: Wrapped) -> None:
    async with Upstream(UpstreamAnswer("Noon.")) as upstream:
        pointed = {"OPENAI_API_KEY": "fake", "OPENAI_BASE_URL": upstream.base_url, "ANTHROPIC_API_KEY": "fake"}
        code, out, _ = await wrapped.run("--", sys.executable, "-c", CALLS, **pointed)
    assert (code, out) == (0, "Noon.\n")


async def test_the_token_is_in_no_command_line_and_without_it_nobody_is_answered(wrapped: Wrapped) -> None:
    told = (
        "import os, urllib.error, urllib.parse, urllib.request\n"
        "base = os.environ['OPENAI_BASE_URL']\n"
        "root = 'http://' + urllib.parse.urlsplit(base).netloc\n"
        "for url in (root + '/v1/models', root + '/clew/conversations', root + '/x/clew/conversations'):\n"
        "    try:\n"
        "        print(urllib.request.urlopen(url).status)\n"
        "    except urllib.error.HTTPError as error:\n"
        "        print(error.code)\n"
        "print(urllib.request.urlopen(base.removesuffix('/v1') + '/clew/conversations').status)\n"
    )
    code, out, _ = await wrapped.run("--upstream", "http://127.0.0.1:9", "--", sys.executable, "-c", told)
    assert (code, out.split()) == (0, ["401", "401", "401", "200"])
    for name in PROGRAMS:
        shown = await wrapped.shown(*NAMED, "--", name, "hello", OPENAI_API_KEY="fake")
        environ = shown["environ"]
        assert isinstance(environ, dict)
        token = environ["OPENAI_BASE_URL"].split("/")[3]
        assert len(token) >= 32 and token not in json.dumps(shown["words"]), name


@pytest.mark.parametrize("name", ["copilot", "cline", "cn", "nanocoder", "hermes"])
async def test_programs_that_read_no_usual_variable_are_pointed_and_their_own_config_stays(
    wrapped: Wrapped, name: str
) -> None:
    wrapped.own("cline/data/settings/providers.json", {"version": 1, "lastUsedProvider": "cline", "providers": {}})
    wrapped.own("continue/config.yaml", "name: mine\nmodels: []\nrules: [be brief]\n")
    wrapped.own("hermes/config.yaml", "model: {default: mine, provider: openrouter}\ncompression: {enabled: true}\n")
    wrapped.own("hermes/state.db", "kept")
    before = wrapped.hashes()
    shown = await wrapped.shown(*NAMED, "--", name, "hello", OPENAI_API_KEY="fake")
    told = json.dumps(shown)
    environ = shown["environ"]
    assert isinstance(environ, dict)
    base = environ["OPENAI_BASE_URL"]
    environ = {key: value for key, value in environ.items() if not key.startswith(("OPENAI", "ANTHROPIC", "GOOGLE"))}
    assert base in json.dumps([environ, shown["files"]]) and "qwen" in told
    assert isinstance(shown["words"], list) and shown["words"][-1] == "hello"
    assert wrapped.hashes() == before
    if name == "cn":
        assert "be brief" in told
    if name == "hermes":
        assert "compression" in told and '"state.db": "kept"' in told
    code, _, err = await wrapped.run(*NAMED[:2], "--", name, COPILOT_MODEL="", OPENAI_API_KEY="fake")
    assert (code == 2 and "--set model.name=NAME" in err) or name == "hermes"


async def test_clouds_and_subscriptions_tell_where_a_program_calls(wrapped: Wrapped) -> None:
    told = f"#!{sys.executable}\nimport os, sys, urllib.request\n"
    told += 'body = b\'{"anthropic_version": "x", "max_tokens": 5, "messages": []}\'\n'
    told += "base, path = os.environ[sys.argv[1]], sys.argv[2]\n"
    told += "head = {'Authorization': 'Bearer fake', 'Content-Type': 'application/json'}\n"
    told += "urllib.request.urlopen(urllib.request.Request(base + path, body, head))\n"
    (wrapped.programs / "claude").write_text(told, encoding="utf-8")
    (wrapped.home / ".claude" / "settings.json").unlink()
    model = "anthropic.claude-sonnet-4-5-v1:0"
    async with Upstream(answers=lambda _: UpstreamAnswer("ok")) as upstream:
        bedrock = {"CLAUDE_CODE_USE_BEDROCK": "1", "ANTHROPIC_BEDROCK_BASE_URL": upstream.origin}
        words = ("--", "claude", "ANTHROPIC_BEDROCK_BASE_URL", f"/model/{model}/invoke")
        assert (await wrapped.run(*words, **bedrock))[0] == 0
        vertex = {"CLAUDE_CODE_USE_VERTEX": "1", "ANTHROPIC_VERTEX_BASE_URL": f"{upstream.origin}/v1"}
        path = "/projects/p/locations/l/publishers/anthropic/models/claude-x:rawPredict"
        assert (await wrapped.run("--", "claude", "ANTHROPIC_VERTEX_BASE_URL", path, **vertex))[0] == 0
    assert [call.path for call in upstream.calls] == [f"/model/{model}/invoke", f"/v1{path}"]
    setup = find_program(("codex",))[0]
    wrapped.own("codex/auth.json", {"OPENAI_API_KEY": None, "tokens": {"access_token": "fake"}})
    found = find_upstreams(setup, wrapped.environ, read_config(wrapped.environ).settings)
    assert found == ("https://chatgpt.com/backend-api/codex",)


async def test_opencode_gets_config_in_a_variable(wrapped: Wrapped) -> None:
    named = ("--upstream", "http://127.0.0.1:9/v1", "--set", "model.name=qwen", "--set", "model.context_length=40000")
    environ = (await wrapped.shown(*named, "--", "opencode", "run", "hello"))["environ"]
    assert isinstance(environ, dict)
    config = json.loads(environ["OPENCODE_CONFIG_CONTENT"])
    assert config["model"] == "clew/qwen"
    assert config["provider"]["clew"]["options"]["baseURL"].startswith("http://127.0.0.1:")
    assert config["provider"]["clew"]["models"]["qwen"]["limit"] == {"context": 40_000, "output": 5_000}
    code, _, err = await wrapped.run(*named[:2], "--", "opencode")
    assert (code, "--set model.name=NAME" in err) == (2, True)


async def test_gemini_cli_logs_in_by_its_key_unless_the_person_chose_otherwise(wrapped: Wrapped) -> None:
    told = "import os; print(open(os.environ.get('GEMINI_CLI_HOME', '.') + '/.gemini/settings.json').read())"
    (wrapped.programs / "gemini").write_text(f"#!{sys.executable}\n{told}\n", encoding="utf-8")
    wrapped.own("gemini/settings.json", {"ui": {"theme": "GitHub"}})
    before = wrapped.hashes()
    shown = await wrapped.shown("--", "gemini", "-p", "hello", GEMINI_API_KEY="fake")
    assert shown == {"ui": {"theme": "GitHub"}, "security": {"auth": {"selectedType": "gemini-api-key"}}}
    assert wrapped.hashes() == before
    chosen = {"security": {"auth": {"selectedType": "vertex-ai"}}}
    wrapped.own("gemini/settings.json", chosen)
    assert await wrapped.shown("--", "gemini", "-p", "hello", GEMINI_API_KEY="fake") == chosen


async def test_pi_gets_a_folder_of_its_own_that_is_gone_afterwards(wrapped: Wrapped) -> None:
    before = wrapped.hashes()
    shown = await wrapped.shown("--upstream", "https://api.anthropic.com", "--", "pi", "-p", "hello")
    environ, files = shown["environ"], shown["files"]
    assert isinstance(environ, dict) and isinstance(files, dict)
    providers = json.loads(files["models.json"])["providers"]
    assert providers["mine"] == {"baseUrl": "http://127.0.0.1:1/v1"}
    assert providers["anthropic"]["baseUrl"].startswith("http://127.0.0.1:")
    assert json.loads(files["settings.json"]) == {"theme": "dark"}
    folder = Path(environ["PI_CODING_AGENT_DIR"])
    assert folder.is_relative_to(wrapped.clew_home) and not is_there(folder)
    assert wrapped.hashes() == before


async def test_exit_status_and_signals_are_those_of_the_program(wrapped: Wrapped) -> None:
    named = ("--upstream", "http://127.0.0.1:9", "--", "sh", "-c")
    assert (await wrapped.run(*named, "exit 7"))[0] == 7
    assert (await wrapped.run(*named, "kill -TERM $$"))[0] == -signal.SIGTERM
    assert (await wrapped.run(*named, "kill -QUIT $$"))[0] == 128 + signal.SIGQUIT


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
async def test_signals_reach_the_program(wrapped: Wrapped, number: signal.Signals) -> None:
    told = f"import signal, sys; signal.signal({number}, lambda *_: sys.exit(3)); print('ready', flush=True)"
    told += "; signal.pause()"
    process = await wrapped.start("--upstream", "http://127.0.0.1:9", "--", sys.executable, "-c", told)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    process.send_signal(number)
    assert await process.wait() == 3


async def test_a_killed_run_leaves_no_program_behind_and_its_folder_goes_at_the_next_start(wrapped: Wrapped) -> None:
    told = "import os, sys, time; print(os.environ['PI_CODING_AGENT_DIR'], flush=True); time.sleep(600)"
    (wrapped.programs / "pi").write_text(f"#!{sys.executable}\n{told}\n", encoding="utf-8")
    process = await wrapped.start("--upstream", "https://api.anthropic.com", "--", "pi")
    assert process.stdout is not None
    folder = Path((await process.stdout.readline()).decode().strip())
    assert is_there(folder)
    assert OverlayFolders(wrapped.clew_home / "wrap").sweep() == 0
    process.kill()
    # The program has the other end: it is closed when the program has ended.
    assert await asyncio.wait_for(process.stdout.read(), 20) == b""
    await process.wait()
    assert is_there(folder)
    assert (await wrapped.run("--upstream", "http://127.0.0.1:9", "--", "true"))[0] == 0
    assert list((wrapped.clew_home / "wrap").iterdir()) == []


def test_the_program_has_the_terminal_and_gets_what_is_typed_once(wrapped: Wrapped) -> None:
    told = (
        "import signal, sys, time\n"
        "count = 0\n"
        "def add(*_):\n"
        "    global count\n"
        "    count += 1\n"
        "signal.signal(signal.SIGINT, add)\n"
        "print(sys.stdin.isatty(), sys.stdout.isatty(), flush=True)\n"
        "line = sys.stdin.readline()\n"
        "print('interrupted', count, 'read', line.strip(), flush=True)\n"
    )
    child, terminal = pty.fork()
    if child == 0:
        words = ("-m", "clew", "wrap", "--upstream", "http://127.0.0.1:9", "--", sys.executable, "-c", told)
        os.execve(sys.executable, [sys.executable, *words], wrapped.environ)
    shown = _read_until(terminal, b"True True")
    os.write(terminal, b"\x03")
    os.write(terminal, b"go on\n")
    shown = _read_until(terminal, b"read go on")
    assert b"interrupted 1 read go on" in shown
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(terminal)


def _read_until(terminal: int, words: bytes) -> bytes:
    shown = b""
    while words not in shown:
        shown += os.read(terminal, 1024)
    return shown
