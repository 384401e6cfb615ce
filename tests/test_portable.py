"""What works where the modules of POSIX are missing, tried in a process that cannot import them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from clew.install import DISTRIBUTION, install_command, source_folder

ROOT = Path(__file__).parents[1]
WITHOUT_POSIX = """
import os, sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name in ("fcntl", "termios", "tty", "pty", "resource", "pwd", "grp", "syslog", "readline"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Blocker())
for name in ("fcntl", "termios", "tty", "pty", "resource", "pwd", "grp"):
    sys.modules.pop(name, None)
for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_DIRECTORY", "O_NONBLOCK", "fork", "killpg", "setsid", "geteuid", "fchmod"):
    delattr(os, name)
"""


def run_without_posix(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_POSIX + program]
    environ = {"PYTHONPATH": str(ROOT / "src"), "CLEW_HOME": str(folder), "HOME": str(folder)}
    return subprocess.run(command, env=environ, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def test_the_library_works_without_posix(tmp_path: Path) -> None:
    done = run_without_posix(
        """
import clew
messages = [{"role": "user", "content": f"Mend clock {n}. " * 30} for n in range(40)]
messages = [each for one in messages for each in (one, {"role": "assistant", "content": "It is mended. " * 30})]
print(clew.count_tokens(messages) > 1000, clew.compress(messages, target_tokens=2000).changed)
print(clew.normalize_usage({"prompt_tokens": 3}).input_tokens, clew.classify_error(429, "slow down").kind)
print(len(clew.apply_cache_control(messages)))
""",
        tmp_path,
    )
    assert done.stdout.split() == ["True", "True", "3", "rate_limit", "80"], done.stderr


def test_the_store_and_spilled_output_work_without_posix(tmp_path: Path) -> None:
    done = run_without_posix(
        """
import asyncio, pathlib, clew
from clew.store import NewSession
from clew.tooloutput import SpillFolder
async def main():
    async with clew.open_store("state.db") as store:
        await store.start_session(NewSession(id="s1", source="import"))
        await store.append("s1", [{"role": "user", "content": "Mend it."}])
        print(len((await store.view("s1")).messages))
asyncio.run(main())
folder = SpillFolder(pathlib.Path("spilled"))
print(folder.read(folder.write("a long result").id).text)
""",
        tmp_path,
    )
    assert done.stdout == "1\na long result\n", done.stderr


def test_commands_that_read_work_without_posix(tmp_path: Path) -> None:
    file = ROOT / "examples" / "session.json"
    program = f"""
from clew.cli import main
codes = [main(words.split(), {{"CLEW_HOME": "home"}}) for words in (
    "compress {file} --to 10k", "context {file}", "import {file}", "sessions", "search clock", "usage", "config",
    "models", "plugins", "doctor", "version", "help", "completion bash",
)]
print(codes)
"""
    done = run_without_posix(program, tmp_path)
    assert done.stdout.splitlines()[-1] == str([0] * 13), done.stderr


def test_the_agent_says_in_one_sentence_that_it_needs_posix(tmp_path: Path) -> None:
    program = """
from clew.cli import main
environ = {"CLEW_HOME": "home", "OPENAI_API_KEY": "not-a-key"}
print(main(["chat", "-p", "hello", "--model", "gpt-5"], environ))
"""
    done = run_without_posix(program, tmp_path)
    assert done.stdout == "1\n"
    assert done.stderr == "clew: the agent works on Linux and macOS only; on Windows, run Clew in WSL\n"


def test_fcntl_is_imported_in_one_place() -> None:
    found = [path for path in (ROOT / "src").rglob("*.py") if "import fcntl" in path.read_text(encoding="utf-8")]
    assert [path.name for path in found] == ["portable.py"]


def test_advice_to_install_an_extra_names_the_clone() -> None:
    assert source_folder() is not None
    command = install_command("local")
    assert "[local]'" in command
    assert DISTRIBUTION not in command
