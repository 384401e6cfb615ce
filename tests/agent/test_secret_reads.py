"""Secrets that are read on the way: by a search of a folder, by files that another command finds, by inline code."""

from __future__ import annotations

from pathlib import Path

import pytest

from clew.agent.command_risk import risk_of_command
from clew.agent.files.paths import Workspace

ENVIRON = {"HOME": "/home/someone", "VIRTUAL_ENV": "/home/someone/project/.venv"}


def asks(command: str, project: Path) -> bool:
    return risk_of_command(command, project, None, ENVIRON) is not None


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "app.py").write_text("API_KEY = None\n")
    (tmp_path / ".env").write_text("SERVICE_KEY=plainly-not-one\nPORT=(8000)\n")
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        "grep -r SERVICE .",
        "grep -ri service",
        "grep -rn 'SERVICE.*KEY' .",
        "grep -rE 'SERVICE|nothing' .",
        "grep -rP 'SERV\\w+' .",
        "grep -rF '(8000)' .",
        "grep -r '(8000)' .",
        "grep -rv nothing .",
        "grep -r '' .",
        "grep -r -e nothing -e SERVICE .",
        "rg --hidden SERVICE",
        "rg -uu SERVICE .",
        "find . -type f | xargs grep SERVICE",
        "find . -type f -exec grep SERVICE {} +",
    ],
)
def test_a_search_that_would_show_a_line_of_a_secret_is_asked_about(project: Path, command: str) -> None:
    assert asks(command, project)
    (project / ".env").unlink()
    assert not asks(command, project), "without a secret there is nothing to ask"


@pytest.mark.parametrize(
    "command",
    [
        "grep -r TODO .",
        "grep -rn 'def main(' .",
        "grep -rE '(8001)' .",
        "grep -r SERVICE src",
        "grep -rl SERVICE .",
        "grep -rc SERVICE .",
        "grep -r --include='*.py' SERVICE .",
        "grep -r --exclude=.env SERVICE .",
        "grep -r --exclude='.env*' SERVICE .",
        "rg SERVICE",
        "rg --hidden -g '!.env' SERVICE",
        "find . -name '*.py' | xargs grep SERVICE",
        "find . -type f | xargs grep TODO",
        "find . -type f | wc -l",
    ],
)
def test_a_search_that_shows_none_is_not(project: Path, command: str) -> None:
    assert not asks(command, project)


def test_a_search_that_cannot_be_foreseen_is_asked_about(project: Path) -> None:
    assert asks("grep -r $PATTERN .", project)
    assert asks("grep -rE '(a+)+b' .", project)
    assert asks("grep -rE '(' .", project)


@pytest.mark.parametrize("folder", ["~", "/", "..", "/home"])
def test_a_search_of_everything_is_asked_about(project: Path, folder: str) -> None:
    assert asks(f"grep -r x {folder}", project)


@pytest.mark.parametrize("name", [".env", ".env.local", "id_rsa", "x.pem", "credentials.json", ".netrc"])
@pytest.mark.parametrize(
    "command",
    [
        "cat {0}",
        "sort {0}",
        "shuf {0}",
        "some-unknown-program ./{0}",
        "cp {0} x",
        "mv {0} x",
        "ln {0} x",
        "tar cf x {0}",
        "dd if={0}",
        "curl -F x=@{0} localhost",
        "curl -d @{0} localhost",
        "sed -n p {0}",
        "while read l; do echo $l; done < {0}",
        "git show HEAD:{0}",
        "git diff -- {0}",
        "git log -p -- {0}",
        "find . -name {0} -exec cat {{}} +",
        "find . -name {0} | xargs cat",
        "cat $(find . -name {0})",
        "echo {0} | xargs cat",
        "for f in a {0}; do cat $f; done",
        "source ./{0}",
    ],
)
def test_every_way_to_read_a_file_by_its_name_is_asked_about(project: Path, command: str, name: str) -> None:
    assert asks(command.format(name), project)


@pytest.mark.parametrize("pattern", [".e*", ".en?", ".[e]nv", ".*", ".??v", ".{env,x}", "~/.ss?/id*", "*credentials*"])
def test_a_pattern_counts_whether_it_matches_now_or_not(tmp_path: Path, pattern: str) -> None:
    assert asks(f"cat {pattern}", tmp_path)
    assert not asks(f"ls {pattern}", tmp_path)


@pytest.mark.parametrize(
    "command",
    [
        "ls -l .env",
        "test -f .env",
        "chmod 600 .env",
        "rm -rf __pycache__",
        "cp .env.example .env",
        "cat .env.example",
        "git add .env",
        "git diff -- . ':!.env'",
        "docker compose --env-file .env up",
        "node --env-file=.env app.js",
        "tar czf x.tgz --exclude=.env src",
        "echo A=1 >> .env",
        "git commit -m 'Read .env'",
        "find . -name .env",
        "kubectl --kubeconfig ~/.kube/config get pods",
    ],
)
def test_what_shows_nothing_of_a_secret_is_not_asked_about(project: Path, command: str) -> None:
    assert not asks(command, project)


@pytest.mark.parametrize(
    ("code", "is_asked"),
    [
        ("python -c 'import os; print(os.environ)'", True),
        ("python -c 'from os import environ; print(environ)'", True),
        ("python -c 'import os; print(os.getenv(\"A_TOKEN\"))'", True),
        ("python -c 'import os; print(os.environ[\"HOME\"])'", False),
        ('python -c \'import os; os.environ["A"] = "1"\'', False),
        ('python -c \'import os; os.environ.setdefault("A", "1")\'', False),
        ("node -p process.env", True),
        ("node -p 'process[\"env\"]'", True),
        ("node -p process.env.NODE_ENV", False),
        ("ruby -e 'p ENV[\"A_TOKEN\"]'", True),
        ("ruby -e 'p ENV[\"HOME\"]'", False),
        ("perl -e 'print %ENV'", True),
        ("perl -e 'print $ENV{A_TOKEN}'", True),
        ("perl -e 'print $ENV{HOME}'", False),
        ("awk 'BEGIN{print ENVIRON[\"A_TOKEN\"]}'", True),
        ("awk 'BEGIN{print ENVIRON[\"HOME\"]}'", False),
        ("php -r 'print_r($_ENV);'", True),
        ("jq -n '$ENV.A'", True),
        ("jq '.env' x.json", False),
        ("python -c 'open(\"/proc/1/environ\")'", True),
        ("python -c 'open(\"/proc/cpuinfo\")'", False),
    ],
)
def test_inline_code_that_reads_the_environment_is_asked_about(project: Path, code: str, is_asked: bool) -> None:
    assert asks(code, project) is is_asked


def test_a_program_that_the_project_has_is_not_fetched(project: Path) -> None:
    assert asks("npx odd-tool --noEmit", project)
    assert asks("cd src && npx odd-tool", project)
    programs = project / "node_modules" / ".bin"
    programs.mkdir(parents=True)
    (programs / "odd-tool").write_text("")
    assert not asks("npx odd-tool --noEmit", project)
    assert not asks("cd src && npx odd-tool", project)
    assert asks("npx odd-tool@latest --noEmit", project)
    assert asks("npx odd-formatter --write src", project)
    assert not asks("npx --no-install prettier", project)


CREDENTIALS = (
    "~/.codex/auth.json ~/.claude/.credentials.json ~/.gemini/oauth_creds.json ~/.local/share/opencode/auth.json "
    "~/.pi/agent/auth.json ~/.config/github-copilot/apps.json ~/.copilot/config.json ~/.cache/huggingface/token "
    "~/.huggingface/token ~/.config/io.datasette.llm/keys.json ~/.config/stripe/config.toml "
    "~/.config/fly/config.yml ~/.local/share/com.vercel.cli/auth.json ~/.config/sops/age/keys.txt "
    "~/.qwen/oauth_creds.json ~/.continue/config.yaml ~/.cline/secrets.json ~/.hermes/auth.json ~/.aider.conf.yml "
    "~/.config/gptme/config.toml ~/.code_puppy/puppy.cfg ~/.terraform.d/credentials.tfrc.json "
    "~/.cargo/credentials.toml ~/.gradle/gradle.properties ~/.m2/settings.xml ~/.config/containers/auth.json "
    "~/.config/doctl/config.yaml ~/.config/heroku/x ~/.wrangler/config/default.toml ~/.supabase/access-token "
    "~/.railway/config.json ~/.config/netlify/config.json ~/.expo/state.json ~/.ngrok2/ngrok.yml "
    "~/.config/ngrok/ngrok.yml ~/.pulumi/credentials.json ~/.databrickscfg ~/.snowsql/config ~/.kaggle/kaggle.json "
    "~/.config/wandb/settings ~/.openai/token ~/.config/anthropic/key ~/.mc/config.json ~/.oci/config "
    "~/.bitcoin/wallet.dat ~/.electrum/wallets/default ~/.thunderbird/x/key ~/.config/Signal/config.json "
    "~/.tomorrow/token ../other/.settings "
).split()


@pytest.mark.parametrize("how", ["cat {}", "jq . {}", "base64 < {}", "cp {} .", "head -c 9 {} | tail -1"])
def test_a_command_that_reads_outside_the_project_is_asked_about_as_the_tool_is(how: str) -> None:
    for path in CREDENTIALS:
        assert asks(how.format(path), Path("/home/someone/project")), path


@pytest.mark.parametrize("path", ["/usr/include/stdio.h", "/etc/os-release", "/proc/cpuinfo", "/usr/lib/python3/x.py"])
def test_files_of_the_system_may_be_read_by_commands_and_by_the_tool(path: str, tmp_path: Path) -> None:
    assert risk_of_command(f"cat {path}", tmp_path, None, {"HOME": "/home/someone"}) is None
    assert Workspace(tmp_path).read_concerns(path) == ()


@pytest.mark.parametrize("path", ["/etc/shadow", "/etc/wireguard/wg0.conf", "/home/other/x", "/var/log/auth.log"])
def test_other_files_of_the_system_are_asked_about_in_both_ways(path: str, tmp_path: Path) -> None:
    assert risk_of_command(f"cat {path}", tmp_path, None, {"HOME": "/home/someone"}) is not None
    assert Workspace(tmp_path).read_concerns(path) != ()
