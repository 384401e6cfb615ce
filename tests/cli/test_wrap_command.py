"""`clew wrap`, run as people run it: a process of its own, with programs that stand for real agents."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import pty
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from clew.cli.wrap import OverlayFolders
from clew.store import NewKey, open_store
from clew.testing import Upstream, UpstreamAnswer

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
folder = os.environ.get("PI_CODING_AGENT_DIR")
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
        for name in ("codex", "claude", "opencode", "pi", "gemini"):
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
    assert (code, out, err) == (0, "Noon.\n", "")
    assert upstream.received[0].headers["authorization"] == "Bearer fake"
    async with open_store(wrapped.clew_home / "state.db") as store:
        assert [session.source for session in await store.list_sessions()] == ["gateway"]


async def test_a_program_is_served_by_its_own_credential_even_where_there_are_keys(wrapped: Wrapped) -> None:
    wrapped.clew_home.mkdir()
    async with open_store(wrapped.clew_home / "state.db") as store:
        await store.create_key(NewKey("ann", b"x" * 32))
    async with Upstream(UpstreamAnswer("Noon.")) as upstream:
        code, out, err = await wrapped.run("--upstream", upstream.base_url, "--", sys.executable, "-c", CALLS)
    assert (code, out, err) == (0, "Noon.\n", "")


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
    words = (await wrapped.shown("--", "claude", "-p", "hello"))["words"]
    assert isinstance(words, list)
    assert words[0] == "--settings" and "http://127.0.0.1:" in words[1] and words[2:] == ["-p", "hello"]
    (wrapped.home / ".claude" / "settings.json").unlink()
    assert (await wrapped.shown("--", "claude", "-p", "hello"))["words"] == ["-p", "hello"]


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
